//! Writing messages into files, holes and all.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Kind, Run, fill, total_length};

/// The most bytes in memory at once.
const PIECE: u64 = 1 << 20;

/// Makes a file of exactly the message's bytes; holes are not written. An older file is replaced.
///
/// The file system decides in the end what is a hole: runs that are no multiples of its block size
/// become data at their edges.
pub fn paint(path: &Path, runs: &[Run]) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(total_length(runs))?;
    paint_at(&file, 0, runs)
}

/// Writes the message's data and zeros into an open file or device, from byte `start` of it on. The
/// bytes of its holes are left as they are.
pub fn paint_at(file: &File, start: u64, runs: &[Run]) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min(total_length(runs)) as usize];
    let mut offset = 0;
    for run in runs {
        let end = offset + run.length;
        while offset < end && run.kind != Kind::Hole {
            let part = &mut piece[..PIECE.min(end - offset) as usize];
            match run.kind {
                Kind::Data => fill(part, offset),
                Kind::Zero | Kind::Hole => part.fill(0),
            }
            file.write_all_at(part, start + offset)?;
            offset += part.len() as u64;
        }
        offset = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content;

    #[test]
    fn a_painted_file_holds_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let runs = [Run::hole(5000), Run::data((2 << 20) + 1), Run::zero(70_000), Run::data(1), Run::hole(9)];
        paint(&path, &runs).unwrap();
        assert!(std::fs::read(&path).unwrap() == content(&runs));
        paint(&path, &[]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), []);
    }
}
