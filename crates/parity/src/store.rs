//! The directory of the parity files: sets, the index of valid sets, and a lock.
//!
//! A set file is written once and never changed. What counts is what the index says, which is replaced at once:
//! whatever ends a run before that leaves files that nobody reads and the next run removes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use verisum_files::{Directory, Stat};

use crate::ParityError;
use crate::digest::Hasher;
use crate::head::{END_MAGIC, LONGEST, PartDigest, SetHead, TRAILER};
use crate::in_place::Note;
use crate::index::Index;

/// The index, and a second copy of it.
const INDEX: [&str; 2] = ["index", "index.copy"];

/// What the names of notes begin with.
const NOTE: &str = "in-place-";

/// The longest index that is read.
const LONGEST_INDEX: u64 = 64 << 20;

/// The directory of the parity files, held by this process alone or with other readers.
pub(crate) struct Store {
    path: PathBuf,
    folder: Arc<Directory>,
    /// Whether the directory was not there before.
    is_new: bool,
    /// Opened to be locked; unlocked when it is closed.
    _lock: File,
}

/// A set file that is open.
pub(crate) struct SetFile {
    file: File,
    path: PathBuf,
    pub(crate) head: SetHead,
    /// Where the parity blocks begin.
    start: u64,
    /// Whether one of the two heads, or the length of the file, is not as it should be.
    pub(crate) is_scratched: bool,
}

impl Store {
    /// Opens the directory, which must be there.
    pub(crate) fn open(path: &Path, to_write: bool) -> Result<Store, ParityError> {
        let folder = Directory::trusted(path).map_err(|error| match error {
            verisum_files::FileError::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ParityError::None { path: path.to_path_buf() }
            }
            error => error.into(),
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&folder, ".", flags, Mode::empty());
        let lock = lock.map_err(|errno| ParityError::io(path, "open", errno))?;
        let kind = match to_write {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&lock, kind) {
            Err(Errno::WOULDBLOCK) => return Err(ParityError::Busy { path: path.to_path_buf() }),
            // Some file systems have no locks.
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) | Ok(()) => {}
            Err(errno) => return Err(ParityError::io(path, "lock", errno)),
        }
        Ok(Store { path: path.to_path_buf(), folder, is_new: false, _lock: lock.into() })
    }

    /// Makes the directory if it is not there, and opens it.
    pub(crate) fn make(path: &Path) -> Result<Store, ParityError> {
        // Also with slashes at its end it is a name in the directory above.
        let path: PathBuf = path.components().collect();
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (Directory::trusted(above)?, name),
            _ => return Store::open(&path, true),
        };
        let path = path.as_path();
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => Ok(Store { is_new: true, ..Store::open(path, true)? }),
            Err(Errno::EXIST) => Store::open(path, true),
            Err(errno) => Err(ParityError::io(path, "create", errno)),
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What tells this directory from others.
    pub(crate) fn identity(&self) -> Result<(u64, u64), ParityError> {
        let stat = Stat::of(&self._lock).map_err(|errno| ParityError::io(&self.path, "stat", errno))?;
        Ok((stat.device, stat.inode))
    }

    /// The index. Where both copies are lost, all sets that are there count.
    pub(crate) fn index(&self) -> Result<Index, ParityError> {
        let found = INDEX.map(|name| self.read_whole(name));
        let is_there = found.iter().any(|copy| !matches!(copy, Ok(None)));
        let mut copies: Vec<Index> =
            found.iter().flatten().flatten().filter_map(|text| Index::decode(text)).collect();
        let whole = copies.len();
        copies.sort_by_key(|index| index.generation);
        let newest = copies.pop();
        if let Some(index) = newest {
            let is_half_new = copies.iter().any(|old| old.generation != index.generation);
            return Ok(Index { is_scratched: whole < 2, is_half_new, ..index });
        }
        if let Some(Err(error)) = found.into_iter().find(Result::is_err) {
            return Err(error);
        }
        let sets = self.sets_found()?;
        if sets.is_empty() && !is_there {
            return Err(ParityError::None { path: self.path.clone() });
        }
        let redundancy = sets.iter().find_map(|number| self.set(*number).ok()).map(|set| {
            let data = set.head.length().div_ceil(set.head.block as u64).max(1);
            (set.head.parity_blocks as u64 * 1_000_000 / data) as u32
        });
        Ok(Index {
            generation: 0,
            next: sets.last().map_or(1, |last| last + 1),
            redundancy: redundancy.unwrap_or(crate::options::DEFAULT_REDUNDANCY).max(1),
            set_bytes: 0,
            sets,
            is_scratched: true,
            is_half_new: false,
            is_lost: true,
        })
    }

    /// Whether there is an index that names sets, or sets without any index.
    pub(crate) fn has_parity(&self) -> Result<bool, ParityError> {
        match self.index() {
            Ok(index) => Ok(!index.sets.is_empty()),
            Err(ParityError::None { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Replaces the index, once the new sets are on the disk, and removes all other sets.
    pub(crate) fn commit(&self, index: &Index, new: &[u64]) -> Result<(), ParityError> {
        for number in new {
            let file = self.open_file(&set_name(*number))?;
            file.sync_all().map_err(|error| self.failed(&set_name(*number), "sync", error))?;
        }
        self.sync()?;
        for name in INDEX {
            self.write(name, |file| file.write_all(index.encode().as_bytes()))?;
            let file = self.open_file(&new_name(name))?;
            file.sync_all().map_err(|error| self.failed(name, "sync", error))?;
            self.rename(name)?;
            self.sync()?;
        }
        self.sweep(index)
    }

    /// Removes sets that do not count, and what a run that was ended left behind.
    pub(crate) fn sweep(&self, index: &Index) -> Result<(), ParityError> {
        for name in self.names()? {
            let counts = number_of(&name).is_some_and(|number| index.sets.contains(&number));
            let is_ours = number_of(&name).is_some() || name.ends_with(".new");
            if is_ours && !counts {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes all that there is, for parity that never was whole. What cannot be removed does no harm.
    pub(crate) fn discard(&self) {
        for name in self.names().unwrap_or_default() {
            if number_of(&name).is_some() || name.ends_with(".new") || INDEX.contains(&name.as_str()) {
                let _ = self.remove(&name);
            }
        }
        if self.is_new {
            let _ = rustix::fs::rmdir(&self.path);
        }
    }

    /// Writes a set: its head, its parity blocks, its head again. It is not yet on the disk, and counts only
    /// once the index says so, or because it takes the place of one that does.
    pub(crate) fn write_set(
        &self,
        head: &SetHead,
        parity: impl Fn(usize) -> Vec<u8>,
    ) -> Result<u64, ParityError> {
        let name = set_name(head.number);
        let encoded = head.encode();
        let trailer = trailer_of(encoded.len() as u64, head.number);
        let mut bytes = 2 * encoded.len() + TRAILER;
        self.write(&name, |file| {
            let mut file = io::BufWriter::with_capacity(1 << 20, file);
            file.write_all(&encoded)?;
            for index in 0..head.parity_blocks {
                let block = parity(index);
                bytes += block.len();
                file.write_all(&block)?;
            }
            file.write_all(&encoded)?;
            file.write_all(&trailer)?;
            file.flush()
        })?;
        Ok(bytes as u64)
    }

    /// Gives a set that was written its name.
    pub(crate) fn place_set(&self, number: u64, sync: bool) -> Result<(), ParityError> {
        let name = set_name(number);
        if sync {
            let file = self.open_file(&new_name(&name))?;
            file.sync_all().map_err(|error| self.failed(&name, "sync", error))?;
        }
        self.rename(&name)
    }

    /// Opens a set.
    pub(crate) fn set(&self, number: u64) -> Result<SetFile, ParityError> {
        let name = set_name(number);
        let path = self.path.join(&name);
        let file = self.open_file(&name)?;
        let failed = |error| ParityError::io(&path, "read", error);
        let length = file.metadata().map_err(failed)?.len();
        let read = |at: u64, length: u64| -> Option<Vec<u8>> {
            let mut bytes = vec![0; usize::try_from(length).ok().filter(|length| *length <= LONGEST)?];
            file.read_exact_at(&mut bytes, at).ok()?;
            Some(bytes)
        };
        let number_at = |bytes: &[u8], at: usize| {
            Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)).filter(|n| *n <= length)
        };
        let of_label = read(0, 80.min(length)).and_then(|label| number_at(&label, 72));
        let end = length.checked_sub(TRAILER as u64);
        let trailer = end.and_then(|at| read(at, TRAILER as u64)).unwrap_or_default();
        let of_trailer = Some(&trailer).filter(|trailer| trailer.starts_with(END_MAGIC));
        let of_trailer = of_trailer.and_then(|trailer| number_at(trailer, 16));
        let head_at = |at: u64, length: u64| {
            read(at, length).and_then(|head| SetHead::decode(&head)).filter(|head| head.number == number)
        };
        let first = of_label.and_then(|label| Some((head_at(0, label)?, label)));
        let last = [of_trailer, of_label].into_iter().flatten().find_map(|head| {
            let at = length.checked_sub(TRAILER as u64 + head)?;
            Some((head_at(at, head)?, head))
        });
        let whole = |found: &(SetHead, u64)| {
            let (head, start) = found;
            let blocks = (head.parity_blocks * head.block) as u64;
            2 * start + blocks + TRAILER as u64 == length && trailer == trailer_of(*start, number)
        };
        let is_scratched = last.is_none() || !first.as_ref().is_some_and(whole);
        let (head, start) = first
            .or(last)
            .ok_or(ParityError::damaged(&path, "both heads of this set of parity are damaged"))?;
        Ok(SetFile { file, path, head, start, is_scratched })
    }

    /// The numbers of the set files that are there.
    fn sets_found(&self) -> Result<Vec<u64>, ParityError> {
        let mut sets: Vec<u64> = self.names()?.iter().filter_map(|name| number_of(name)).collect();
        sets.sort_unstable();
        Ok(sets)
    }

    fn names(&self) -> Result<Vec<String>, ParityError> {
        let failed = |errno: Errno| ParityError::io(&self.path, "list", errno);
        let names = rustix::fs::Dir::read_from(&self._lock).map_err(failed)?;
        let mut found = Vec::new();
        for name in names {
            found.extend(name.map_err(failed)?.file_name().to_str().ok().map(str::to_string));
        }
        Ok(found)
    }

    /// What repairs in place are at, or were killed at. What is no such note is passed over.
    pub(crate) fn notes(&self) -> Result<Vec<Note>, ParityError> {
        let mut notes = Vec::new();
        for name in self.names()? {
            if name.starts_with(NOTE) && !name.ends_with(".new") {
                notes.extend(self.read_whole(&name)?.as_deref().and_then(Note::decode));
            }
        }
        Ok(notes)
    }

    /// Writes down what a repair in place is about to write, on the disk before it does.
    pub(crate) fn write_note(&self, note: &Note) -> Result<(), ParityError> {
        let name = note_name(&note.path);
        self.write(&name, |file| file.write_all(note.encode().as_bytes()).and_then(|()| file.sync_all()))?;
        self.rename(&name)?;
        self.sync()
    }

    /// Removes the note of a file, if there is one.
    pub(crate) fn remove_note(&self, path: &[u8]) -> Result<(), ParityError> {
        match self.remove(&note_name(path)) {
            Err(ParityError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn read_whole(&self, name: &str) -> Result<Option<Vec<u8>>, ParityError> {
        let file = match self.open_file(name) {
            Ok(file) => file,
            Err(ParityError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        let read = file.take(LONGEST_INDEX).read_to_end(&mut bytes);
        read.map_err(|error| self.failed(name, "read", error))?;
        Ok(Some(bytes))
    }

    fn open_file(&self, name: &str) -> Result<File, ParityError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, OsStr::new(name), flags, Mode::empty());
        file.map(File::from).map_err(|errno| self.failed(name, "open", errno.into()))
    }

    /// Writes a file beside its name. What fails leaves nothing behind.
    fn write(&self, name: &str, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), ParityError> {
        let new = new_name(name);
        let _ = rustix::fs::unlinkat(&self.folder, new.as_str(), AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, new.as_str(), flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(file.map_err(|errno| self.failed(name, "create", errno.into()))?);
        fill(&mut file).map_err(|error| {
            let _ = self.remove(&new);
            self.failed(name, "write", error)
        })
    }

    fn rename(&self, name: &str) -> Result<(), ParityError> {
        rustix::fs::renameat(&self.folder, new_name(name).as_str(), &self.folder, name)
            .map_err(|errno| self.failed(name, "rename", errno.into()))
    }

    fn remove(&self, name: &str) -> Result<(), ParityError> {
        rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())
            .map_err(|errno| self.failed(name, "remove", errno.into()))
    }

    /// Brings the names to the disk, where the file system lets a directory be synchronized.
    pub(crate) fn sync(&self) -> Result<(), ParityError> {
        match self._lock.sync_all() {
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                Err(ParityError::io(&self.path, "sync", error))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, name: &str, operation: &'static str, source: io::Error) -> ParityError {
        ParityError::io(&self.path.join(name), operation, source)
    }
}

impl SetFile {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many parity blocks are as recorded.
    pub(crate) fn good_parity(&self, hasher: &mut Hasher) -> Result<usize, ParityError> {
        let mut good = 0;
        for index in 0..self.head.parity_blocks {
            good += usize::from(self.parity(index, hasher)?.is_some());
        }
        Ok(good)
    }

    /// A parity block, if it is as recorded.
    pub(crate) fn parity(&self, index: usize, hasher: &mut Hasher) -> Result<Option<Vec<u8>>, ParityError> {
        let mut block = vec![0; self.head.block];
        let at = self.start + (index * self.head.block) as u64;
        if self.file.read_exact_at(&mut block, at).is_err() {
            return Ok(None);
        }
        let digest: PartDigest = hasher.part(&block)?;
        Ok((digest == self.head.parity[index]).then_some(block))
    }
}

/// The end of a set file: where its second head begins, and which set it is.
fn trailer_of(head_length: u64, number: u64) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    trailer[..16].copy_from_slice(END_MAGIC);
    trailer[16..24].copy_from_slice(&head_length.to_le_bytes());
    trailer[24..].copy_from_slice(&number.to_le_bytes());
    trailer
}

fn set_name(number: u64) -> String {
    format!("set-{number:08}.parity")
}

fn note_name(path: &[u8]) -> String {
    let seal = crate::digest::whole(path);
    seal[..8].iter().fold(NOTE.to_string(), |name, byte| format!("{name}{byte:02x}"))
}

fn new_name(name: &str) -> String {
    format!("{name}.new")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("set-")?.strip_suffix(".parity")?.parse().ok()?;
    (set_name(number) == name).then_some(number)
}
