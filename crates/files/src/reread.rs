//! The second read of a file, from the disk: what is wrong may be its copy in memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use verisum_digest::{Digest, Output};

use crate::text::of_system;
use crate::{Stat, Stop};

/// Bytes of one read.
const PIECE: usize = 1 << 20;

/// Enough for any sector.
const ALIGNMENT: usize = 4096;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC`: files that are nowhere but in the cache.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// How a second read was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// By direct I/O, past the page cache.
    Direct,
    /// After the system was asked to drop the file from the page cache.
    Dropped,
    /// Through the page cache: the file system has no other place.
    No,
}

impl Bypass {
    /// The words used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Bypass::Direct => "direct",
            Bypass::Dropped => "cache-dropped",
            Bypass::No => "cached",
        }
    }
}

/// A whole read of an open file.
#[derive(Debug)]
pub struct Reread {
    /// The digest of what was read.
    pub digest: Output,
    /// What the file system said of the file before the read.
    pub before: Stat,
    /// The same after it.
    pub after: Stat,
    /// Where the bytes came from.
    pub bypass: Bypass,
}

/// Why a file could not be read again.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// A system call failed.
    #[error("{}", of_system(&io::Error::from(*.0)))]
    System(#[from] Errno),
    /// The digest could not be computed.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
    /// It was time to stop.
    #[error("interrupted")]
    Stopped,
}

/// Reads all of an open file, from the storage if that can be done.
pub fn past_the_cache(file: &File, digest: &Digest) -> Result<Reread, Failed> {
    past_the_cache_until(file, digest, &Stop::default())
}

/// The same, unless it is time to stop before its end.
pub fn past_the_cache_until(file: &File, digest: &Digest, stop: &Stop) -> Result<Reread, Failed> {
    let magic = rustix::fs::fstatfs(file).map(|fs| fs.f_type as u64).unwrap_or_default();
    if IN_MEMORY.contains(&magic) {
        return whole_until(file, digest, Bypass::No, stop);
    }
    // What is dirty is written, or it could not be dropped.
    let _ = rustix::fs::fdatasync(file);
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::DIRECT;
    let own_name = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Ok(direct) = rustix::fs::open(own_name, flags, Mode::empty()) {
        match whole_until(&File::from(direct), digest, Bypass::Direct, stop) {
            Err(Failed::System(Errno::INVAL | Errno::OPNOTSUPP)) => {}
            done => return done,
        }
    }
    whole_until(file, digest, Bypass::Dropped, stop)
}

/// Reads all of an open file, as it comes.
pub fn whole(file: &File, digest: &Digest, bypass: Bypass) -> Result<Reread, Failed> {
    whole_until(file, digest, bypass, &Stop::default())
}

fn whole_until(file: &File, digest: &Digest, bypass: Bypass, stop: &Stop) -> Result<Reread, Failed> {
    let before = Stat::of(file)?;
    let mut room = vec![0; PIECE + ALIGNMENT];
    let start = room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let piece = &mut room[start..start + PIECE];
    let mut stream = digest.stream()?;
    stream.expect(before.size)?;
    let mut offset = 0;
    loop {
        if stop.is_due() {
            return Err(Failed::Stopped);
        }
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *piece, offset))?;
        if count == 0 {
            break;
        }
        stream.update(&piece[..count])?;
        offset += count as u64;
        // A short direct read is the end; the next would not be aligned.
        if bypass == Bypass::Direct && count < PIECE && offset >= before.size {
            break;
        }
    }
    let mut output = Output::zeroed(digest.len());
    stream.finish(output.as_mut_bytes())?;
    Ok(Reread { digest: output, before, after: Stat::of(file)?, bypass })
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
                let again = past_the_cache(&File::open(&path).unwrap(), &digest).unwrap();
                assert_eq!(again.digest, digest.hash(&bytes).unwrap(), "{len} {}", folder.display());
                assert!(again.before.is_same_state(&again.after));
            }
        }
    }
}
