//! Writes the content of a copy to a new file, and verifies that it is the recorded content.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use verisum_digest::{Digest, Output};
use verisum_files::text::of_system;
use verisum_files::{Stop, reread};

use super::differences::Differences;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Zeros of this length stay a hole in a sparse file.
const HOLE: usize = 64 << 10;

/// Why a new file does not have the recorded content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FillError {
    /// The copy cannot be read.
    #[error("read: {}", of_system(.0))]
    Read(io::Error),
    /// The copy has other bytes than a moment ago.
    #[error("it changed while it was read")]
    Changed,
    /// The new file cannot be written.
    #[error("write: {}", of_system(.0))]
    Write(io::Error),
    /// What was written cannot be read again.
    #[error("read again: {0}")]
    Reread(#[from] reread::Failed),
    /// What was written reads back as something else.
    #[error("what was written reads back different: do not trust this storage")]
    Different,
    /// It was time to stop.
    #[error("interrupted")]
    Stopped,
    /// The digest cannot be computed.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
}

impl FillError {
    /// Whether another copy may do better.
    pub(super) fn is_of_source(&self) -> bool {
        matches!(self, FillError::Read(_) | FillError::Changed)
    }
}

/// How a file is filled.
pub(super) struct Limits<'a> {
    /// With at most so many bytes.
    pub(super) most: u64,
    /// Zeros stay holes.
    pub(super) is_sparse: bool,
    /// Until it is time to stop.
    pub(super) stop: &'a Stop,
}

/// Fills an empty file, and returns how many bytes there were.
pub(super) fn fill(
    file: &File,
    content: &mut dyn Read,
    (digest, expected): (&Digest, &Output),
    &Limits { most, is_sparse, stop }: &Limits,
    differences: &mut Differences,
) -> Result<u64, FillError> {
    let mut piece = vec![0; PIECE];
    let mut stream = digest.stream()?;
    let mut length = 0;
    loop {
        if stop.is_due() {
            return Err(FillError::Stopped);
        }
        let count = read_full(content, &mut piece).map_err(FillError::Read)?;
        let read = &piece[..count];
        if length + count as u64 > most {
            return Err(FillError::Changed);
        }
        stream.update(read)?;
        write(file, read, length, is_sparse).map_err(FillError::Write)?;
        differences.take(read, length);
        length += count as u64;
        if count < PIECE {
            break;
        }
    }
    file.set_len(length).map_err(FillError::Write)?;
    let mut output = Output::zeroed(digest.len());
    stream.finish(output.as_mut_bytes())?;
    if output != *expected {
        return Err(FillError::Changed);
    }
    prove(file, (digest, expected), stop)?;
    Ok(length)
}

/// Brings a file to the storage, and fails unless it reads back from there as it should be.
pub(super) fn prove(
    file: &File,
    (digest, expected): (&Digest, &Output),
    stop: &Stop,
) -> Result<(), FillError> {
    file.sync_all().map_err(FillError::Write)?;
    match reread::past_the_cache_until(file, digest, stop) {
        Ok(read) if read.digest == *expected => Ok(()),
        Ok(_) => Err(FillError::Different),
        Err(reread::Failed::Stopped) => Err(FillError::Stopped),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn write(mut file: &File, bytes: &[u8], offset: u64, is_sparse: bool) -> io::Result<()> {
    if !is_sparse {
        return file.write_all(bytes);
    }
    for (part, at) in bytes.chunks(HOLE).zip((offset..).step_by(HOLE)) {
        if part.iter().any(|byte| *byte != 0) {
            file.write_all_at(part, at)?;
        }
    }
    Ok(())
}

/// Reads until the room is full or nothing comes any more.
fn read_full(content: &mut dyn Read, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match content.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_proved_by_what_the_storage_gives_until_it_is_time_to_stop() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"content", 0).unwrap();
        let digest = Digest::find("sha256").unwrap();
        let [good, other] = [&b"content"[..], b"CONTENT"].map(|bytes| digest.hash(bytes).unwrap());
        let stop = Stop::default();
        prove(&file, (&digest, &good), &stop).unwrap();
        assert!(matches!(prove(&file, (&digest, &other), &stop), Err(FillError::Different)));
        stop.request();
        assert!(matches!(prove(&file, (&digest, &good), &stop), Err(FillError::Stopped)));
    }
}
