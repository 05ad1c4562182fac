//! Where bad files are kept: they move there, and are copied where a file cannot move.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use verisum_digest::{Digest, Output};
use verisum_files::{Replacement, Stop, reread, says_storage_failed};

use super::RepairError;
use crate::metadata::Metadata;

/// Fails if bad files could not be kept in a directory. It is made for the first of them only: a repair that is refused
/// leaves nothing behind.
pub(super) fn require_room(keep: &Path, tree: &Path) -> Result<(), RepairError> {
    let failed = |operation, source: io::Error| {
        Err(RepairError::KeepBad { path: keep.to_path_buf(), operation, source })
    };
    let there = keep.ancestors().find(|path| path.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("."));
    let is_inside = |(keep, tree): (PathBuf, PathBuf)| keep.starts_with(tree);
    if keep.starts_with(tree)
        || there.canonicalize().ok().zip(tree.canonicalize().ok()).is_some_and(is_inside)
    {
        return failed("move bad files there", io::Error::other("it is in the tree itself"));
    }
    if !there.is_dir() {
        return failed("create", Errno::NOTDIR.into());
    }
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(errno) => failed("create", errno.into()),
    }
}

/// What a bad file was read as.
#[derive(Clone, Copy)]
pub(super) struct AsRead<'r> {
    pub(super) digest: &'r Digest,
    /// None if it could not be read as a whole.
    pub(super) value: Option<Output>,
    /// When to end early.
    pub(super) stop: &'r Stop,
}

/// A bad file, kept before another takes its place: whatever ends the repair, it has one of its names.
#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    /// Whether it is there already. Else it is to move there.
    is_there: bool,
}

impl KeptFile {
    /// Gives a bad file a second name below a directory, or has a copy of it there where that is on another file system.
    ///
    /// # Errors
    /// In words.
    pub(super) fn new(kept: (&Path, &Path), old: &File, as_read: AsRead) -> Result<KeptFile, String> {
        let open = format!("/proc/self/fd/{}", old.as_raw_fd());
        loop {
            let path = room_for(kept).map_err(|error| error.to_string())?;
            match rustix::fs::linkat(CWD, &open, CWD, &path, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(KeptFile { path, is_there: true }),
                Err(Errno::XDEV) => return KeptFile::copy(kept, old, as_read),
                // Another repair has kept a file there meanwhile.
                Err(Errno::EXIST) => {}
                // Where there are no second names it moves.
                Err(_) => return Ok(KeptFile { path, is_there: false }),
            }
        }
    }

    /// Has a copy of a bad file below a directory, with what it has besides its content, as far as it can have that
    /// there. What storage does not give is zeros in it. It has its name once it was read again: under that is no part
    /// of a file, whatever ends the repair.
    ///
    /// # Errors
    /// In words.
    pub(super) fn copy(
        kept: (&Path, &Path),
        old: &File,
        AsRead { digest, value, stop }: AsRead,
    ) -> Result<KeptFile, String> {
        loop {
            let path = room_for(kept).map_err(|error| error.to_string())?;
            // Nobody else may read it before it has the mode of the bad file.
            let new = Replacement::private(&path).map_err(|error| error.to_string())?;
            let copy = new.file();
            let length = old.metadata().map_err(|error| error.to_string())?.len();
            let read_at = |room: &mut [u8], at| old.read_at(room, at);
            copy_what_can_be_read((&read_at, length), copy, stop).map_err(|error| error.to_string())?;
            // A failure of these writes is told only once.
            copy.sync_all().map_err(|error| error.to_string())?;
            let read = reread::past_the_cache_until(copy, digest, stop).map_err(|error| error.to_string())?;
            if value.is_some_and(|value| value != read.digest) {
                return Err("the copy there has different content".to_string());
            }
            dress_as(copy, old).map_err(|errno| errno.to_string())?;
            // Directories may have been made for it.
            rustix::fs::syncfs(copy).map_err(|errno| errno.to_string())?;
            // What another repair has kept there meanwhile stays.
            if new.swap(None, None).map_err(|error| error.to_string())? {
                return Ok(KeptFile { path, is_there: true });
            }
        }
    }

    /// Where the bad file is to move, if it is not there already.
    pub(super) fn to_move_to(&self) -> Option<&Path> {
        (!self.is_there).then_some(&*self.path)
    }

    /// Lets it stay: its old name is gone.
    pub(super) fn stay(mut self) {
        self.is_there = false;
    }
}

impl Drop for KeptFile {
    /// What was not replaced is not kept twice.
    fn drop(&mut self) {
        if self.is_there {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A path below a directory that nothing has, with the directories on the way made.
fn room_for((keep, name): (&Path, &Path)) -> io::Result<PathBuf> {
    let path = keep.join(name);
    if let Some(folder) = path.parent() {
        make_private(folder)?;
    }
    let mut numbered = path.clone();
    let mut number = 0;
    while numbered.symlink_metadata().is_ok() {
        number += 1;
        let mut name = path.clone().into_os_string();
        name.push(format!(".{number}"));
        numbered = name.into();
    }
    Ok(numbered)
}

/// Makes a directory with all above it, unless it is there. Nobody else may look into those that it makes: what is kept
/// there may come from where they may not.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Gives a copy what a file has besides its content, as far as it can have it there.
fn dress_as(copy: &File, file: &File) -> Result<(), Errno> {
    let mut metadata = Metadata::new(&rustix::fs::fstat(file)?);
    metadata.read_attributes(file, false);
    metadata.apply(copy, true, false).map(drop)
}

/// Reads of a bad file at an offset.
type ReadAt<'f> = dyn Fn(&mut [u8], u64) -> io::Result<usize> + 'f;

/// The least that is read of it.
const PIECE: u64 = 4 << 10;

/// The most that is read of it, or passed over, at once.
const MOST: u64 = 256 * PIECE;

/// Copies a file as far as storage gives it; the rest is zeros in the copy. Storage that gives nothing for long is asked
/// less often. What was passed over before it gives something again is read from the end, up to what it does not give.
fn copy_what_can_be_read((read_at, length): (&ReadAt, u64), new: &File, stop: &Stop) -> io::Result<()> {
    new.set_len(length)?;
    let mut room = vec![0; MOST as usize];
    let mut copy = |at: u64, most: u64| -> io::Result<Option<u64>> {
        if stop.is_due() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let room = &mut room[..most.min(length - at) as usize];
        match read_at(room, at) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                if room[..count].iter().any(|byte| *byte != 0) {
                    new.write_all_at(&room[..count], at)?;
                }
                Ok(Some(count as u64))
            }
            Err(error) if Errno::from_io_error(&error).is_some_and(says_storage_failed) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let (mut at, mut passed) = (0, 0);
    while at < length {
        let copied = match copy(at, MOST)? {
            None => copy(at, PIECE)?,
            copied => copied,
        };
        if copied.is_none() {
            let step = passed.clamp(PIECE, MOST);
            (at, passed) = (at + step, passed + step);
            if at < length {
                continue;
            }
        }
        // The first piece that was passed over was asked for.
        for back in (1..passed / PIECE).map(|pieces| at - pieces * PIECE).filter(|back| *back < length) {
            if copy(back, PIECE)?.is_none() {
                break;
            }
        }
        (at, passed) = (at + copied.unwrap_or(0), 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of a file of ones of which storage does not give some pieces, as a byte for each piece.
    fn kept(pieces: u64, bad: &std::ops::Range<u64>, error: Errno) -> io::Result<Vec<u8>> {
        let read_at = |room: &mut [u8], at: u64| {
            let mut wanted = at / PIECE..(at + room.len() as u64).div_ceil(PIECE);
            if wanted.any(|piece| bad.contains(&piece)) {
                return Err(error.into());
            }
            room.fill(1);
            Ok(room.len())
        };
        let new = tempfile::tempfile()?;
        copy_what_can_be_read((&read_at, pieces * PIECE), &new, &Stop::default())?;
        let mut all = vec![0; (pieces * PIECE) as usize];
        new.read_exact_at(&mut all, 0)?;
        Ok(all.chunks(PIECE as usize).map(|piece| u8::from(piece.iter().all(|byte| *byte == 1))).collect())
    }

    #[test]
    fn only_what_storage_does_not_give_is_zeros() {
        for bad in [0..0, 0..1, 3..4, 5..37, 600..603, 699..700, 650..700, 0..690] {
            let expected: Vec<u8> = (0..700).map(|piece| u8::from(!bad.contains(&piece))).collect();
            assert_eq!(kept(700, &bad, Errno::IO).unwrap(), expected, "{bad:?}");
        }
        assert_eq!(kept(700, &(0..700), Errno::IO).unwrap(), vec![0; 700]);
        // What a server no longer has is no bad disk.
        assert!(kept(700, &(3..4), Errno::STALE).is_err());
    }
}
