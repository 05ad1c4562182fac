//! The digest that a program must print for a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use verisum_digest::cksum::{Checksum, Summing};
use verisum_digest::{Algorithm, Digest, Output};

use crate::measure::MeasureError;

/// The name of the posix checksum that `cksum` prints.
pub const CKSUM: &str = "cksum";

/// The name of the BSD checksum that `sum` prints.
pub const SUM: &str = "sum";

/// The digest of a file by verisum itself, in the letters that programs print; also that of `cksum` and
/// `sum`, in decimal.
pub fn expected(digest: &str, path: &Path) -> Result<String, MeasureError> {
    match digest {
        CKSUM => read(path, Checksum::Crc.start(), Summing::update).map(|sum| sum.finish().0.to_string()),
        // With zeros in front, as GNU prints it.
        SUM => read(path, Checksum::Bsd.start(), Summing::update).map(|sum| format!("{:05}", sum.finish().0)),
        _ => {
            let algorithm = Algorithm::find(digest)
                .ok_or_else(|| MeasureError::Unavailable(format!("unknown digest: {digest}")))?;
            let digest = Digest::of(algorithm, &verisum_digest::Policy::default())?;
            let mut failed = None;
            let mut stream = read(path, digest.stream()?, |stream, bytes| {
                if let Err(error) = stream.update(bytes) {
                    failed = Some(error);
                }
            })?;
            let mut output = Output::zeroed(digest.len());
            match failed {
                Some(error) => Err(error.into()),
                None => {
                    stream.finish(output.as_mut_bytes())?;
                    Ok(output.to_string())
                }
            }
        }
    }
}

fn read<S>(path: &Path, mut state: S, mut update: impl FnMut(&mut S, &[u8])) -> Result<S, MeasureError> {
    let mut file = File::open(path).map_err(|error| MeasureError::io(path, "open", error))?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer).map_err(|error| MeasureError::io(path, "read", error))? {
            0 => return Ok(state),
            count => update(&mut state, &buffer[..count]),
        }
    }
}
