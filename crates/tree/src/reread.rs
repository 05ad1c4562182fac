//! The second read, before anybody is told that data went bad.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use verisum_digest::{Digest, Output};

use crate::SecondRead;

/// Bytes a read, a multiple of any device's alignment.
const PIECE: usize = 1 << 20;

/// The alignment in memory that direct reads want at most, in bytes.
const ALIGNMENT: usize = 4096;

/// Reads an open file once more, from the storage where the system lets it, and compares the digest with
/// that of the first read. The page cache is bypassed by `O_DIRECT`; where a file system has no such
/// thing, the file's pages are dropped from the cache before they are read.
pub fn reread(file: &File, digest: &Digest, first: &Output) -> SecondRead {
    let second = match directly(file, digest) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            // Only pages that are on the storage already are dropped.
            let _ = rustix::fs::fdatasync(file);
            let _ = fadvise(file, 0, None, Advice::DontNeed);
            read(file, digest)
        }
        outcome => outcome,
    };
    match second {
        Ok(second) if second == *first => SecondRead::Same,
        Ok(_) => SecondRead::Different,
        Err(_) => SecondRead::Failed,
    }
}

/// Fails with `EINVAL` where there are no direct reads.
fn directly(file: &File, digest: &Digest) -> io::Result<Output> {
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags | OFlags::DIRECT)?;
    let outcome = read(file, digest);
    fcntl_setfl(file, flags)?;
    outcome
}

fn read(file: &File, digest: &Digest) -> io::Result<Output> {
    let mut stream = digest.stream().map_err(io::Error::other)?;
    let mut buffer = vec![0; PIECE + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let piece = &mut buffer[start..start + PIECE];
    let mut offset = 0;
    loop {
        match file.read_at(piece, offset) {
            Ok(0) => break,
            Ok(count) => {
                stream.update(&piece[..count]).map_err(io::Error::other)?;
                offset += count as u64;
                // Direct reads are short at the end only, and refuse to go on from there.
                if count % ALIGNMENT != 0 && offset >= file.metadata()?.len() {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut output = Output::zeroed(digest.len());
    stream.finish(output.as_mut_bytes()).map_err(io::Error::other)?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_testkit::{FsKind, Mount};

    #[test]
    fn a_second_read_agrees_on_every_file_system() {
        let digest = Digest::find("sha256").unwrap();
        let plain = tempfile::tempdir().unwrap();
        let mounts: Vec<Mount> = FsKind::ALL.iter().filter_map(|kind| Mount::new(*kind, 64 << 20)).collect();
        let folders = mounts.iter().map(Mount::path).chain([plain.path().to_path_buf()]);
        for folder in folders {
            for len in [0, 1, 4095, 4096, 4097, PIECE, PIECE + 1, 3 * PIECE + 4096] {
                let path = folder.join("file");
                let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
                std::fs::write(&path, &bytes).unwrap();
                let file = File::open(&path).unwrap();
                let first = digest.hash(&bytes).unwrap();
                assert_eq!(reread(&file, &digest, &first), SecondRead::Same, "{len} {}", folder.display());
                let other = Output::zeroed(32);
                assert_eq!(reread(&file, &digest, &other), SecondRead::Different);
            }
        }
    }
}
