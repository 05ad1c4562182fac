//! Computes digests of a stream that can only be read from start to end, such as a pipe.

use std::io::{self, Read};
use std::path::Path;

use verisum_digest::{Digest, DigestStream, Output};

use crate::{FileError, Operation};

/// How much is read at once, in bytes.
const PIECE: usize = 256 << 10;

/// The digests of what a reader gives, and its length in bytes. Errors name the path.
pub(crate) fn hash_reader(
    reader: &mut dyn Read,
    path: &Path,
    digests: &[Digest],
) -> Result<(Vec<Output>, u64), FileError> {
    let failed = |source| FileError::Digest { path: path.to_path_buf(), source };
    let mut streams = digests.iter().map(Digest::stream).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut buffer = vec![0; PIECE];
    let mut length = 0;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FileError::io(path, Operation::Read, error)),
        };
        length += count as u64;
        streams.iter_mut().try_for_each(|stream| stream.update(&buffer[..count])).map_err(failed)?;
    }
    let finish = |(digest, mut stream): (&Digest, Box<dyn DigestStream>)| {
        let mut output = Output::zeroed(digest.len());
        stream.finish(output.as_mut_bytes()).map(|()| output)
    };
    let outputs = digests.iter().zip(streams).map(finish).collect::<Result<_, _>>().map_err(failed)?;
    Ok((outputs, length))
}
