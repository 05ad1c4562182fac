//! Keeps bad files: they move to a directory, and are copied where a file cannot move.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use verisum_digest::{Digest, Output};

use crate::replace::remove_passing;
use crate::{Entry, Replacement, Stop, reread, says_storage_failed, trusted_name};

/// What a bad file was read as.
#[derive(Clone, Copy, Debug)]
pub struct AsRead<'r> {
    /// By which digest.
    pub digest: &'r Digest,
    /// None if it could not be read as a whole.
    pub value: Option<Output>,
    /// When to end early.
    pub stop: &'r Stop,
}

/// Gives a copy what the bad file has besides its content.
pub type Dress<'d> = dyn Fn(&File) -> io::Result<()> + 'd;

/// A bad file, kept before another takes its place: whatever ends the repair, it has one of its names.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    /// Whether it is to move there: else it is there already.
    moves: bool,
    /// Whether this repair put it there. What an earlier one did stays, whatever becomes of this one.
    is_ours: bool,
    /// The bad file itself, if it is no copy.
    own: Option<File>,
    unread: u64,
}

impl KeptFile {
    /// Gives a bad file a second name below a directory, or has a copy of it there where that is on another file system. One
    /// that an earlier repair gave it before that was killed does.
    ///
    /// # Errors
    /// Those of the system, or the copy is not what was read.
    pub fn new(kept: (&Path, &Path), old: &File, as_read: AsRead, dress: &Dress) -> io::Result<KeptFile> {
        let own = Some(old.try_clone()?);
        let open = format!("/proc/self/fd/{}", old.as_raw_fd());
        let inode = inode(old)?;
        let is_its_name = |about: &Metadata, _: &Path| (about.dev(), about.ino()) == inode;
        loop {
            let path = match room_for(kept, &is_its_name)? {
                Room::Free(path) => path,
                Room::Kept(path) => {
                    return Ok(KeptFile { path, moves: false, is_ours: false, own, unread: 0 });
                }
            };
            match rustix::fs::linkat(CWD, &open, CWD, &path, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(KeptFile { path, moves: false, is_ours: true, own, unread: 0 }),
                Err(Errno::XDEV) => return KeptFile::copy(kept, old, as_read, dress),
                // Another repair has kept a file there meanwhile.
                Err(Errno::EXIST) => {}
                // Where there are no second names it moves.
                Err(_) => return Ok(KeptFile { path, moves: true, is_ours: false, own, unread: 0 }),
            }
        }
    }

    /// Has a copy of a bad file below a directory, with what it has besides its content, as far as it can have that
    /// there. What storage does not give is zeros in it. It has its name once it was read again: under that is no part
    /// of a file, whatever ends the repair. Only its owner may use it: its directory may be open to more than that of
    /// the bad file. A copy that an earlier repair made before that was killed does, and what else that left there goes.
    ///
    /// # Errors
    /// Those of the system, or the copy is not what was read.
    pub fn copy(kept: (&Path, &Path), old: &File, as_read: AsRead, dress: &Dress) -> io::Result<KeptFile> {
        let AsRead { digest, value, stop } = as_read;
        let is_copy = is_copy_of(old, as_read)?;
        loop {
            let path = match room_for(kept, &is_copy)? {
                Room::Free(path) => path,
                Room::Kept(path) => {
                    remove_left(&path, &is_copy);
                    return Ok(KeptFile { path, moves: false, is_ours: false, own: None, unread: 0 });
                }
            };
            let new = Replacement::private_passing(&path).map_err(io::Error::other)?;
            let copy = new.file();
            let length = old.metadata()?.len();
            let read_at = |room: &mut [u8], at| old.read_at(room, at);
            let unread = copy_what_can_be_read((&read_at, length), copy, stop).map_err(io::Error::other)?;
            // A failure of these writes is told only once.
            copy.sync_all()?;
            let read = reread::past_the_cache_until(copy, digest, stop).map_err(io::Error::other)?;
            if value.is_some_and(|value| value != read.digest) {
                return Err(io::Error::other("the copy there has different content"));
            }
            dress(copy).and_then(|()| make_private(copy, old)).map_err(io::Error::other)?;
            // Directories may have been made for it.
            rustix::fs::syncfs(copy)?;
            // What another repair has kept there meanwhile stays.
            if new.swap(None, None).map_err(io::Error::other)? {
                remove_left(&path, &is_copy);
                return Ok(KeptFile { path, moves: false, is_ours: true, own: None, unread });
            }
        }
    }

    /// Whether a directory has a copy of a bad file already, which is another file.
    pub fn has_copy(kept: (&Path, &Path), old: &File, as_read: AsRead) -> bool {
        let is_copy = is_copy_of(old, as_read);
        let room = is_copy.and_then(|is_copy| search(kept, &is_copy));
        matches!(room, Ok(Room::Kept(_)))
    }

    /// Where the bad file is to move, if it is not there already.
    pub fn to_move_to(&self) -> Option<&Path> {
        self.moves.then_some(&*self.path)
    }

    /// How many names the bad file had there before.
    pub fn names_before(&self) -> u64 {
        u64::from(!self.moves && !self.is_ours && self.own.is_some())
    }

    /// Lets it stay: its old name is gone, or the file is being written to. Where it has no other name, only its owner may
    /// use it from now on. Returns how many bytes of a copy are zeros because storage did not give them.
    pub fn stay(mut self) -> u64 {
        self.is_ours = false;
        if let Some(own) = &self.own
            && own.metadata().is_ok_and(|own| own.nlink() == 1)
        {
            // Not every file system has modes.
            let _ = make_private(own, own);
        }
        self.unread
    }
}

impl Drop for KeptFile {
    /// What was not replaced is not kept twice.
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a file is the one that is looked for, by what the system says of it and its path.
type IsSuch<'f> = dyn Fn(&Metadata, &Path) -> bool + 'f;

/// A path below a directory.
enum Room {
    /// Nothing has it.
    Free(PathBuf),
    /// A file that was looked for has it.
    Kept(PathBuf),
}

/// The same as [`search`], with the directories on the way to what nothing has made.
fn room_for(kept: (&Path, &Path), is_such: &IsSuch) -> io::Result<Room> {
    let room = search(kept, is_such)?;
    if let Room::Free(path) = &room
        && let Some(folder) = path.parent()
    {
        make_folder(folder)?;
    }
    Ok(room)
}

/// A path below a directory that nothing has, unless one such file is among those that are kept by this name. Nobody else
/// leads it elsewhere by a link.
fn search((keep, name): (&Path, &Path), is_such: &IsSuch) -> io::Result<Room> {
    let path = trusted_name(&keep.join(name)).map_err(io::Error::other)?;
    let mut numbered = path.clone();
    let mut number = 0;
    while let Ok(about) = numbered.symlink_metadata() {
        if about.is_file() && is_such(&about, &numbered) {
            return Ok(Room::Kept(numbered));
        }
        number += 1;
        let mut name = path.clone().into_os_string();
        name.push(format!(".{number}"));
        numbered = name.into();
    }
    Ok(Room::Free(numbered))
}

/// Tells files that have the content of a bad one, but are not that. Where it could not be read as a whole, none is known
/// to have it.
fn is_copy_of<'r>(
    old: &File,
    AsRead { digest, value, stop }: AsRead<'r>,
) -> io::Result<impl Fn(&Metadata, &Path) -> bool + use<'r>> {
    let (length, inode) = (old.metadata()?.len(), inode(old)?);
    Ok(move |about: &Metadata, path: &Path| {
        let read = || {
            let file = Entry::named(path).and_then(|entry| entry.open_regular()).ok()?;
            Some(reread::past_the_cache_until(&file, digest, stop).ok()?.digest)
        };
        let may_be = about.len() == length && (about.dev(), about.ino()) != inode;
        may_be && value.is_some() && read() == value
    })
}

/// Removes what killed repairs left beside a kept file.
fn remove_left(kept: &Path, is_copy: &IsSuch) {
    if let Some(folder) = kept.parent() {
        remove_passing(folder, is_copy);
    }
}

fn inode(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|about| (about.dev(), about.ino()))
}

/// Makes a directory with all above it, unless it is there. Nobody else may look into those that it makes: what is kept
/// there may come from where they may not.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Gives a file the rights that the owner of the bad one has to that, and nobody else any.
fn make_private(kept: &File, old: &File) -> io::Result<()> {
    kept.set_permissions(Permissions::from_mode(old.metadata()?.mode() & 0o700))
}

/// Reads of a bad file at an offset.
type ReadAt<'f> = dyn Fn(&mut [u8], u64) -> io::Result<usize> + 'f;

/// The least that is read of it.
const PIECE: u64 = 4 << 10;

/// The most that is read of it, or passed over, at once.
const MOST: u64 = 256 * PIECE;

/// Copies a file as far as storage gives it; the rest is zeros in the copy. Storage that gives nothing for long is asked
/// less often. What was passed over before it gives something again is read from the end, up to what it does not give.
/// Returns how many bytes storage did not give.
fn copy_what_can_be_read((read_at, length): (&ReadAt, u64), new: &File, stop: &Stop) -> io::Result<u64> {
    new.set_len(length)?;
    let mut unread = length;
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
                unread = unread.saturating_sub(count as u64);
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
    Ok(unread)
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
        let unread = copy_what_can_be_read((&read_at, pieces * PIECE), &new, &Stop::default())?;
        assert_eq!(unread, (bad.end.min(pieces) - bad.start) * PIECE, "{bad:?}");
        let mut all = vec![0; (pieces * PIECE) as usize];
        new.read_exact_at(&mut all, 0)?;
        Ok(all.chunks(PIECE as usize).map(|piece| u8::from(piece.iter().all(|byte| *byte == 1))).collect())
    }

    #[test]
    fn nobody_else_leads_what_is_kept_elsewhere() {
        if verisum_testkit::require_root().is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["keep", "elsewhere"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::os::unix::fs::symlink("../elsewhere", path("keep/sub")).unwrap();
        std::os::unix::fs::lchown(path("keep/sub"), Some(65534), None).unwrap();
        std::fs::write(path("bad"), "bad").unwrap();
        let (old, digest) = (File::open(path("bad")).unwrap(), Digest::find("sha256").unwrap());
        let as_read = AsRead { digest: &digest, value: None, stop: &Stop::default() };
        let kept = (&*path("keep"), Path::new("sub/f"));
        for made in [
            KeptFile::new(kept, &old, as_read, &|_| Ok(())),
            KeptFile::copy(kept, &old, as_read, &|_| Ok(())),
        ] {
            assert!(made.unwrap_err().to_string().ends_with("a link of another user leads there"));
        }
        assert_eq!(std::fs::read_dir(path("elsewhere")).unwrap().count(), 0);
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
