//! The folder of the parity files: sets, the index of valid sets, and, on this machine, a lock.
//!
//! A set file is written once and never changed. What counts is what the index says, which is replaced at once:
//! whatever ends a run before that leaves files that nobody reads and the next run removes.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use verisum_files::place::Place;
use verisum_files::{Directory, LockedFile, Stat};

use crate::ParityError;
use crate::digest::Hasher;
use crate::head::{END_MAGIC, LONGEST, PartDigest, SetHead, TRAILER};
use crate::in_place::Note;
use crate::index::Index;
use crate::names::{INDEX, NOTE, USUAL_PLACE, is_ours, note_name, number_of, set_name};
use crate::place_folder::{PlaceFile, PlaceFolder};
use crate::verdict::{Finding, ParityFileVerdict, lost_set};

/// What all parity files begin with.
const BEGINNING: &[u8] = b"verisum parity ";

/// The longest index that is read.
const LONGEST_INDEX: u64 = 64 << 20;

/// Where the parity files of a tree are.
#[non_exhaustive]
pub enum ParityLocation<'p> {
    /// In the tree's own [`USUAL_PLACE`].
    Usual,
    /// In this directory.
    Directory(&'p Path),
    /// Below a path of a place, such as a bucket, that lists, reads ranges, and writes and removes files.
    Place {
        /// The place.
        place: Box<dyn Place>,
        /// The path, without a slash at its end.
        root: Vec<u8>,
        /// What it is called in findings and errors.
        name: PathBuf,
    },
}

impl<'p> From<Option<&'p Path>> for ParityLocation<'p> {
    /// A directory, or the usual one.
    fn from(named: Option<&'p Path>) -> ParityLocation<'p> {
        named.map_or(ParityLocation::Usual, ParityLocation::Directory)
    }
}

/// The folder of the parity files, open.
pub(crate) struct ParityFolder {
    path: PathBuf,
    backend: Backend,
}

enum Backend {
    /// Held by this process alone or with other readers.
    Local {
        folder: Arc<Directory>,
        /// Whether the directory was not there before.
        is_new: bool,
        /// Opened to be locked.
        lock: LockedFile,
    },
    Place(Arc<PlaceFolder>),
}

/// A parity file that is open.
enum OpenFile {
    Local(File),
    Place(PlaceFile),
}

/// A set file that is open.
pub(crate) struct SetFile {
    file: OpenFile,
    path: PathBuf,
    pub(crate) head: SetHead,
    /// Where the parity blocks begin.
    start: u64,
    /// Whether one of the two heads, or the length of the file, is not as it should be.
    pub(crate) is_scratched: bool,
}

impl ParityFolder {
    /// Opens the folder of a tree, which must be there.
    pub(crate) fn open(
        tree: &Path,
        folder: ParityLocation,
        to_write: bool,
    ) -> Result<ParityFolder, ParityError> {
        match folder {
            ParityLocation::Usual => ParityFolder::open_directory(&tree.join(USUAL_PLACE), to_write),
            ParityLocation::Directory(path) => ParityFolder::open_directory(path, to_write),
            ParityLocation::Place { place, root, name } => {
                let folder = PlaceFolder::new(place, root, name.clone());
                Ok(ParityFolder { path: name, backend: Backend::Place(Arc::new(folder)) })
            }
        }
    }

    fn open_directory(path: &Path, to_write: bool) -> Result<ParityFolder, ParityError> {
        let folder = Directory::trusted(path).map_err(|error| match error {
            verisum_files::FileError::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ParityError::None { path: path.to_path_buf() }
            }
            error => error.into(),
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&folder, ".", flags, Mode::empty());
        let lock = LockedFile::new(lock.map_err(|errno| ParityError::io(path, "open", errno))?.into());
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
        let backend = Backend::Local { folder, is_new: false, lock };
        Ok(ParityFolder { path: path.to_path_buf(), backend })
    }

    /// Makes the folder of a tree if it is not there, and opens it.
    pub(crate) fn make(tree: &Path, folder: ParityLocation) -> Result<ParityFolder, ParityError> {
        match folder {
            ParityLocation::Usual => ParityFolder::make_directory(&tree.join(USUAL_PLACE)),
            ParityLocation::Directory(path) => ParityFolder::make_directory(path),
            folder @ ParityLocation::Place { .. } => ParityFolder::open(tree, folder, true),
        }
    }

    fn make_directory(path: &Path) -> Result<ParityFolder, ParityError> {
        // Also with slashes at its end it is a name in the directory above.
        let path: PathBuf = path.components().collect();
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (Directory::trusted(above)?, name),
            _ => return ParityFolder::open_directory(&path, true),
        };
        let path = path.as_path();
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {
                let mut made = ParityFolder::open_directory(path, true)?;
                if let Backend::Local { is_new, .. } = &mut made.backend {
                    *is_new = true;
                }
                Ok(made)
            }
            Err(Errno::EXIST) => ParityFolder::open_directory(path, true),
            Err(errno) => Err(ParityError::io(path, "create", errno)),
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What tells this directory from others; no directory has the numbers of another place.
    pub(crate) fn identity(&self) -> Result<(u64, u64), ParityError> {
        let Backend::Local { lock, .. } = &self.backend else { return Ok((0, 0)) };
        let stat = Stat::of(lock).map_err(|errno| ParityError::io(&self.path, "stat", errno))?;
        Ok((stat.device, stat.inode))
    }

    /// The index. Where both copies are lost, all sets that are there count.
    pub(crate) fn index(&self) -> Result<Index, ParityError> {
        let mut found = INDEX.map(|name| self.read_whole(name));
        // A copy that a place does not give may be good.
        if let (Backend::Place(_), Some(failed)) =
            (&self.backend, found.iter_mut().find(|copy| copy.is_err()))
        {
            std::mem::replace(failed, Ok(None))?;
        }
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
        self.require_ours()?;
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

    /// Fails for files that have the names of parity files, if none of them begins as one does: they are somebody's.
    fn require_ours(&self) -> Result<(), ParityError> {
        let mut other = None;
        for name in self.names()? {
            let is_parity = match number_of(&name) {
                Some(number) => self.set_unless_lost(number)?.is_some(),
                None => {
                    let text = self.read_whole(&name)?.unwrap_or_default();
                    // A run that was killed at once leaves an empty file.
                    text.starts_with(BEGINNING) || text.is_empty() && name.ends_with(".new")
                }
            };
            if is_parity {
                return Ok(());
            }
            other.get_or_insert(name);
        }
        let what = "this is no parity of verisum: take another place for it, or move this file away";
        other.map_or(Ok(()), |name| Err(ParityError::damaged(&self.path.join(name), what)))
    }

    /// What there is to say of the index.
    pub(crate) fn index_finding(&self, index: &Index) -> Option<Finding> {
        let verdict = match index.is_lost {
            true => ParityFileVerdict::IndexLost,
            false => ParityFileVerdict::Damaged { blocks: 0, of: 0 },
        };
        index.is_scratched.then(|| Finding::parity(&self.path.join(INDEX[0]), verdict))
    }

    /// The index, if there is one, or sets without any.
    pub(crate) fn index_before(&self) -> Result<Option<Index>, ParityError> {
        match self.index() {
            Ok(index) => Ok(Some(index)),
            Err(ParityError::None { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gets ready to make sets: where there is no lock, it sees to it that nobody else makes sets that count.
    pub(crate) fn claim(&self, index: &mut Index) -> Result<(), ParityError> {
        match &self.backend {
            Backend::Local { .. } => Ok(()),
            Backend::Place(place) => place.claim(index),
        }
    }

    /// Replaces the index, once the new sets are on the disk, and removes all other sets.
    pub(crate) fn commit(&self, index: &Index, new: &[u64]) -> Result<(), ParityError> {
        match &self.backend {
            Backend::Local { .. } => {
                for number in new {
                    self.sync_file(&set_name(*number))?;
                }
                self.sync()?;
            }
            Backend::Place(place) => drop(place.take_claim()),
        }
        let text = index.encode();
        for name in INDEX {
            self.write(name, &mut text.as_bytes(), text.len() as u64, false)?;
            self.sync()?;
        }
        self.remove_all_but(index)
    }

    /// Removes sets that do not count, and what a run that was ended left behind. Where there is no lock, sets with later
    /// numbers are of somebody who is at work.
    pub(crate) fn remove_all_but(&self, index: &Index) -> Result<(), ParityError> {
        let is_locked = matches!(self.backend, Backend::Local { .. });
        for name in self.names()? {
            let number = number_of(&name);
            let counts = number.is_some_and(|number| {
                index.sets.binary_search(&number).is_ok() || !is_locked && number >= index.next
            });
            if (number.is_some() || name.ends_with(".new")) && !counts {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes what a run that failed has written and does not count. What cannot be removed does no harm: the next
    /// run tries again.
    pub(crate) fn undo_failed_run(&self) {
        match &self.backend {
            Backend::Local { .. } => {
                if let Ok(index) = self.index() {
                    let _ = self.remove_all_but(&index);
                }
            }
            Backend::Place(place) => {
                let claimed = place.take_claim();
                let names = if claimed.is_empty() { Vec::new() } else { self.names().unwrap_or_default() };
                for name in names {
                    if number_of(&name).is_some_and(|number| claimed.contains(&number)) {
                        let _ = self.remove(&name);
                    }
                }
            }
        }
    }

    /// Removes all that there is, for parity that never was whole. What cannot be removed does no harm.
    pub(crate) fn undo_first_run(&self) {
        let Backend::Local { is_new, .. } = &self.backend else { return self.undo_failed_run() };
        for name in self.names().unwrap_or_default() {
            if !name.starts_with(NOTE) {
                let _ = self.remove(&name);
            }
        }
        if *is_new {
            let _ = rustix::fs::rmdir(&self.path);
        }
    }

    /// Writes a set: its head, its parity blocks, its head again. A new one counts, and is brought to the disk, once the
    /// index says so; another one takes the place of a damaged file with the same content.
    pub(crate) fn write_set(
        &self,
        head: &SetHead,
        parity: impl Fn(usize) -> Vec<u8>,
        is_new: bool,
    ) -> Result<u64, ParityError> {
        let encoded = head.encode();
        let trailer = trailer_of(encoded.len() as u64, head.number);
        let bytes = 2 * encoded.len() + head.parity_blocks * head.block + TRAILER;
        let blocks = Blocks { parity, left: 0..head.parity_blocks, block: Cursor::default() };
        let mut content = encoded.chain(blocks).chain(&encoded[..]).chain(&trailer[..]);
        self.write(&set_name(head.number), &mut content, bytes as u64, is_new)?;
        Ok(bytes as u64)
    }

    /// Opens a set.
    pub(crate) fn set(&self, number: u64) -> Result<SetFile, ParityError> {
        let name = set_name(number);
        let path = self.path.join(&name);
        let file = self.open_file(&name)?;
        let length = file.length().map_err(|error| ParityError::io(&path, "read", error))?;
        // What a place does not give is not damaged.
        let failure = Cell::new(None);
        let read = |at: u64, length: u64| -> Option<Vec<u8>> {
            let mut bytes = vec![0; usize::try_from(length).ok().filter(|length| *length <= LONGEST)?];
            let read = file.read(&mut bytes, at).unwrap_or_else(|error| {
                failure.set(Some(error));
                false
            });
            read.then_some(bytes)
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
        if let Some(error) = failure.take() {
            return Err(error);
        }
        let is_scratched = last.is_none() || !first.as_ref().is_some_and(whole);
        let (head, start) = first
            .or(last)
            .ok_or(ParityError::damaged(&path, "both heads of this set of parity are damaged"))?;
        Ok(SetFile { file, path, head, start, is_scratched })
    }

    /// Opens a set, if it is not lost. A disk that does not give it has lost it; a place may give it later.
    pub(crate) fn set_unless_lost(&self, number: u64) -> Result<Option<SetFile>, ParityError> {
        match (self.set(number), &self.backend) {
            (Ok(set), _) => Ok(Some(set)),
            (Err(error), Backend::Place(_)) => lost_set(error).map(|_| None),
            (Err(_), Backend::Local { .. }) => Ok(None),
        }
    }

    /// The numbers of the set files that are there.
    fn sets_found(&self) -> Result<Vec<u64>, ParityError> {
        let mut sets: Vec<u64> = self.names()?.iter().filter_map(|name| number_of(name)).collect();
        sets.sort_unstable();
        Ok(sets)
    }

    /// The names of the parity files that are there; others are not ours to remove.
    fn names(&self) -> Result<Vec<String>, ParityError> {
        let lock = match &self.backend {
            Backend::Local { lock, .. } => lock,
            Backend::Place(place) => return place.names(),
        };
        let failed = |errno: Errno| ParityError::io(&self.path, "list", errno);
        let names = rustix::fs::Dir::read_from(lock).map_err(failed)?;
        let mut found = Vec::new();
        for name in names {
            let name = name.map_err(failed)?;
            found.extend(name.file_name().to_str().ok().filter(|name| is_ours(name)).map(str::to_string));
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
        let text = note.encode();
        self.write(&note_name(&note.path), &mut text.as_bytes(), text.len() as u64, false)?;
        self.sync()
    }

    /// Removes the note of a file, if there is one.
    pub(crate) fn remove_note(&self, path: &[u8]) -> Result<(), ParityError> {
        self.remove(&note_name(path))
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
        match file {
            OpenFile::Local(file) => {
                let read = file.take(LONGEST_INDEX).read_to_end(&mut bytes);
                read.map_err(|error| self.failed(name, "read", error))?;
            }
            OpenFile::Place(file) => {
                bytes.resize(file.length.min(LONGEST_INDEX) as usize, 0);
                file.read(&mut bytes, 0)?;
            }
        }
        Ok(Some(bytes))
    }

    fn open_file(&self, name: &str) -> Result<OpenFile, ParityError> {
        match &self.backend {
            Backend::Local { folder, .. } => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::openat(folder, OsStr::new(name), flags, Mode::empty());
                file.map(|file| OpenFile::Local(file.into()))
                    .map_err(|errno| self.failed(name, "open", errno.into()))
            }
            Backend::Place(place) => place.open(name).map(OpenFile::Place),
        }
    }

    /// Makes a file, or replaces it unless it is to be new, at once. Here it is written beside its name; what fails
    /// leaves nothing behind, and what is not new is on the disk before it has its name.
    fn write(
        &self,
        name: &str,
        content: &mut dyn Read,
        length: u64,
        is_new: bool,
    ) -> Result<(), ParityError> {
        let folder = match &self.backend {
            Backend::Local { folder, .. } => folder,
            Backend::Place(place) => return place.write(name, content, length, is_new),
        };
        let new = format!("{name}.new");
        let _ = rustix::fs::unlinkat(folder, new.as_str(), AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, new.as_str(), flags, Mode::from_raw_mode(0o600));
        let file = File::from(file.map_err(|errno| self.failed(name, "create", errno.into()))?);
        let mut fill = || {
            let mut room = io::BufWriter::with_capacity(1 << 20, &file);
            io::copy(content, &mut room)?;
            room.flush()?;
            if is_new { Ok(()) } else { file.sync_all() }
        };
        fill().map_err(|error| {
            let _ = self.remove(&new);
            self.failed(name, "write", error)
        })?;
        rustix::fs::renameat(folder, new.as_str(), folder, name)
            .map_err(|errno| self.failed(name, "rename", errno.into()))
    }

    /// Brings a file to the disk, if it is here.
    fn sync_file(&self, name: &str) -> Result<(), ParityError> {
        match self.open_file(name)? {
            OpenFile::Local(file) => file.sync_all().map_err(|error| self.failed(name, "sync", error)),
            OpenFile::Place(_) => Ok(()),
        }
    }

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> Result<(), ParityError> {
        let removed = match &self.backend {
            Backend::Local { folder, .. } => rustix::fs::unlinkat(folder, name, AtFlags::empty())
                .map_err(|errno| self.failed(name, "remove", errno.into())),
            Backend::Place(place) => place.remove(name),
        };
        match removed {
            Err(ParityError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Brings the names to the disk, where the file system lets a directory be synchronized.
    pub(crate) fn sync(&self) -> Result<(), ParityError> {
        let Backend::Local { lock, .. } = &self.backend else { return Ok(()) };
        match lock.file().sync_all() {
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

    /// What there is to say of it if so many of its parity blocks are as recorded.
    pub(crate) fn finding(&self, good: usize) -> Option<Finding> {
        let of = self.head.parity_blocks;
        let verdict = ParityFileVerdict::Damaged { blocks: of - good, of };
        (good < of || self.is_scratched).then(|| Finding::parity(&self.path, verdict))
    }

    /// How many parity blocks are as recorded. Whoever wants to slow it down is told before each how long it is.
    pub(crate) fn good_parity(&self, hasher: &mut Hasher, wait: &dyn Fn(u64)) -> Result<usize, ParityError> {
        let mut good = 0;
        for index in 0..self.head.parity_blocks {
            wait(self.head.block as u64);
            good += usize::from(self.parity(index, hasher)?.is_some());
        }
        Ok(good)
    }

    /// A parity block, if it is as recorded.
    pub(crate) fn parity(&self, index: usize, hasher: &mut Hasher) -> Result<Option<Vec<u8>>, ParityError> {
        let mut block = vec![0; self.head.block];
        let at = self.start + (index * self.head.block) as u64;
        if !self.file.read(&mut block, at)? {
            return Ok(None);
        }
        let digest: PartDigest = hasher.part(&block)?;
        Ok((digest == self.head.parity[index]).then_some(block))
    }
}

impl OpenFile {
    fn length(&self) -> io::Result<u64> {
        match self {
            OpenFile::Local(file) => Ok(file.metadata()?.len()),
            OpenFile::Place(file) => Ok(file.length),
        }
    }

    /// Fills the room with what is at an offset. False if that is not there, or the disk does not give it; an error of a
    /// place tells nothing of the file.
    fn read(&self, room: &mut [u8], at: u64) -> Result<bool, ParityError> {
        match self {
            OpenFile::Local(file) => Ok(file.read_exact_at(room, at).is_ok()),
            OpenFile::Place(file) => file.read(room, at),
        }
    }
}

/// The parity blocks of a set, one after the other.
struct Blocks<P> {
    parity: P,
    left: Range<usize>,
    block: Cursor<Vec<u8>>,
}

impl<P: Fn(usize) -> Vec<u8>> Read for Blocks<P> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.block.read(room)? {
                0 if !room.is_empty() => match self.left.next() {
                    Some(index) => self.block = Cursor::new((self.parity)(index)),
                    None => return Ok(0),
                },
                count => return Ok(count),
            }
        }
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
