//! Repair in place: writes the bad blocks of a long file into the file itself.
//!
//! All of them go to a journal beside the catalogue first, with what they were, once the whole is proved to be as
//! recorded with them. A kill or a loss of power leaves of each block the old bytes or the new ones, and the journal:
//! whoever uses the catalogue next finishes it, before a scrub takes the write for somebody's change. What somebody
//! else wrote meanwhile is not overwritten.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::AsFd;
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::Errno;
use verisum_catalog::scrub::require_tree;
use verisum_catalog::store::{Catalog, CatalogRecord, Stamp};
use verisum_digest::{Digest, Output};
use verisum_files::text::of_system;
use verisum_files::{
    Directory, Entry, FileError, Kind, SharedError, Stat, Stop, Timestamp, explained, has_writer, reread,
    write_over,
};

use super::fill::FillError;
use super::journal::{Block, Journal, Subject};
use super::record::{MendedFile, Taken, note};
use super::{Noted, RepairError, RepairFailure, RepairRefusal};

/// What a disk writes at once: of a block that was being written some may be old and some new.
const SECTOR: usize = 512;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Why the bad blocks of a file are not all written in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InPlaceFault {
    /// A program has the file open to write to it.
    #[error("a program has it open to write to it")]
    InUse,
    /// Somebody else wrote to the file meanwhile.
    #[error("it changed while it was repaired")]
    Changed,
    /// The file, or its directory, cannot be opened.
    #[error(transparent)]
    File(SharedError<FileError>),
    /// The file cannot be opened to write to it.
    #[error("open to write: {}", of_system(.0))]
    Open(SharedError<io::Error>),
    /// The file cannot be read or written, or reads back as something else.
    #[error(transparent)]
    Fill(SharedError<FillError>),
    /// The journal cannot be read.
    #[error("{}", of_system(.0))]
    Journal(SharedError<io::Error>),
    /// The journal cannot be removed.
    #[error("remove: {}", of_system(.0))]
    Remove(SharedError<io::Error>),
    /// The journal is not there any more.
    #[error("its journal is gone")]
    NoJournal,
}

impl From<FileError> for InPlaceFault {
    fn from(error: FileError) -> InPlaceFault {
        InPlaceFault::File(error.into())
    }
}

impl From<FillError> for InPlaceFault {
    fn from(error: FillError) -> InPlaceFault {
        InPlaceFault::Fill(error.into())
    }
}

/// What became of a file that a repair in place was interrupted at.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finished {
    /// It has its recorded content.
    Repaired {
        /// Its path.
        path: PathBuf,
        /// How many bytes were, or had been, written.
        bytes: u64,
    },
    /// It was left as it is.
    Left {
        /// Its path.
        path: PathBuf,
        /// Why.
        why: RepairRefusal,
    },
    /// It cannot be finished now, as while another program writes to the file. Nothing is to look at the file meanwhile.
    Waits {
        /// Its path.
        path: PathBuf,
        /// What is left to be written: who removes it gives the repair up.
        journal: PathBuf,
        /// Why.
        why: RepairFailure,
        /// A program has it open to write to it. Else its storage may fail for good, and a new file can take its place.
        is_in_use: bool,
    },
}

/// How the blocks of a journal were written.
pub(super) enum Applied {
    /// All of them; what the file is now, and what it took.
    Done(Stat, Vec<Taken>),
    /// None of them, for the file is not the one that was to be repaired any more.
    Left(RepairRefusal),
}

/// Where the journal of repairs in place by a catalogue is.
pub(super) fn journal_of(catalog: &Path) -> PathBuf {
    let mut name = catalog.as_os_str().to_os_string();
    name.push(".in-place");
    name.into()
}

/// Finishes the repair in place that was interrupted last, if one was, and records it. Whoever calls holds the
/// catalogue's lock.
///
/// # Errors
/// The journal cannot be read or removed, so that nobody knows which file nothing is to look at; the catalogue fails.
pub fn finish_in_place(catalog: &Catalog, stop: &Stop) -> Result<Option<Finished>, RepairError> {
    let Some((path, mut journal)) = interrupted(catalog)? else { return Ok(None) };
    let subject = journal.subject.path.clone();
    let applied = match apply(&mut journal, None, stop) {
        Ok(applied) => applied,
        Err(why) => {
            let is_in_use = why == InPlaceFault::InUse;
            let why = RepairFailure::Unfinished(why);
            return Ok(Some(Finished::Waits { path: subject, journal: path, why, is_in_use }));
        }
    };
    let finished = match applied {
        Applied::Left(why) => Finished::Left { path: subject.clone(), why },
        Applied::Done(_, taken) => {
            let bytes = taken.iter().map(|taken| taken.bytes).sum();
            let file = MendedFile {
                path: subject.clone(),
                before: None,
                taken,
                now: Timestamp::now(),
                is_part: false,
            };
            // What it is now is looked at once more there.
            let _: Noted = note(catalog, &file, stop)?;
            Finished::Repaired { path: subject.clone(), bytes }
        }
    };
    std::fs::remove_file(&path).map_err(|error| {
        let why = InPlaceFault::Remove(error.into());
        RepairError::InPlace { path: subject, journal: path, why }
    })?;
    Ok(Some(finished))
}

/// The repair in place that was interrupted last, if its file is mounted; with the path of the journal.
fn interrupted(catalog: &Catalog) -> Result<Option<(PathBuf, Journal)>, RepairError> {
    let path = journal_of(catalog.path());
    let opened = Journal::open(&path).map_err(|error| RepairError::InPlace {
        path: path.clone(),
        journal: path.clone(),
        why: InPlaceFault::Journal(error.into()),
    })?;
    let Some(journal) = opened else { return Ok(None) };
    // What is not mounted is finished when it is there again. Until then nothing looks at it.
    let subject = &journal.subject.path;
    if let Some(root) = catalog.root_of(subject)?.filter(|root| !root.is_remote()) {
        let folder = subject.parent().unwrap_or(&root.path);
        if require_tree(catalog, &root, folder).is_err() {
            return Ok(None);
        }
    }
    Ok(Some((path, journal)))
}

/// A repair in place that [`finish_in_place`] would finish.
pub(super) struct ForetoldRepair {
    subject: Subject,
    /// The first copy that gave something.
    pub(super) from: PathBuf,
    /// How many bytes would be written.
    pub(super) bytes: u64,
}

impl ForetoldRepair {
    /// What [`finish_in_place`] would finish now. None if it would leave the file alone, or wait.
    ///
    /// # Errors
    /// Those of [`finish_in_place`].
    pub(super) fn of(catalog: &Catalog) -> Result<Option<ForetoldRepair>, RepairError> {
        let Some((_, mut journal)) = interrupted(catalog)? else { return Ok(None) };
        let (mut bytes, mut copy) = (0, None);
        if !matches!(ready(&mut journal, None), Ok(Ok(_))) {
            return Ok(None);
        }
        let each = &mut |block: Block| {
            bytes += block.new.len() as u64;
            copy.get_or_insert(block.copy);
            Ok(())
        };
        let is_read = journal.each(each).is_ok();
        let from = copy.map_or_else(PathBuf::new, |copy| journal.copy(copy).to_path_buf());
        Ok(is_read.then_some(ForetoldRepair { subject: journal.subject, from, bytes }))
    }

    /// Whether it mends a file with this record, be it by another name.
    pub(super) fn mends(&self, record: &CatalogRecord) -> bool {
        (record.inode, record.digest) == (self.subject.inode, self.subject.recorded)
    }
}

/// Removes the journal of a repair in place if a new file has taken the place of its file.
pub(super) fn give_up_replaced(catalog: &Catalog) -> io::Result<()> {
    let path = journal_of(catalog.path());
    let Some(Journal { subject, .. }) = Journal::open(&path)? else { return Ok(()) };
    match Entry::trusted(&subject.path).and_then(|entry| entry.stat()) {
        Ok(stat) if stat.inode != subject.inode => std::fs::remove_file(&path),
        _ => Ok(()),
    }
}

/// Writes the blocks of a journal to their file, and reads all of it back past the cache. `before` is what the file was
/// when the journal was made, if that is known: nobody may have written to it since. Else its content tells that.
///
/// # Errors
/// The file cannot be read or written now, or reads back as something else. The journal is to stay.
pub(super) fn apply(
    journal: &mut Journal,
    before: Option<&Stat>,
    stop: &Stop,
) -> Result<Applied, InPlaceFault> {
    let subject = journal.subject.clone();
    let (folder, stat, digest) = match ready(journal, before)? {
        Ok(ready) => ready,
        Err(why) => return Ok(Applied::Left(why)),
    };
    let name = subject.path.file_name().unwrap_or_default();
    let file = open_to_write(&folder, name, &stat)?;
    let mut writer = Writer { file: &file, state: stat, modified: subject.modified, given: Vec::new() };
    journal.each(&mut |block| writer.write(&block)).map_err(FillError::Write)?;
    writer.end().map_err(FillError::Write)?;
    let Writer { state, mut given, .. } = writer;
    given.sort_by_key(|(copy, _)| *copy);
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let read = reread::past_the_cache_until(&file, &digest, stop);
    let read = read.map_err(FillError::Reread)?;
    match (read.after.is_same_state(&state), read.digest == subject.recorded) {
        (false, _) => return Err(InPlaceFault::Changed),
        (true, false) => return Err(FillError::Different.into()),
        (true, true) => {}
    }
    let taken = given.into_iter().map(|(copy, ranges)| Taken {
        from: journal.copy(copy).to_path_buf(),
        bytes: ranges.iter().map(|range| range.end - range.start).sum(),
        ranges: Some(ranges),
    });
    Ok(Applied::Done(state, taken.collect()))
}

/// A file to which the blocks of a journal can be written: its directory, what the system says of it, and the digest of
/// its record. Else why it is left alone.
type Ready = Result<(Arc<Directory>, Stat, Digest), RepairRefusal>;

/// Looks whether the blocks of a journal can be written.
///
/// # Errors
/// As [`apply`].
fn ready(journal: &mut Journal, before: Option<&Stat>) -> Result<Ready, InPlaceFault> {
    let subject = journal.subject.clone();
    let digest = Digest::find(&subject.algorithm).map_err(FillError::Digest)?;
    let (Some(folder), Some(name)) = (subject.path.parent(), subject.path.file_name()) else {
        return Ok(Err(RepairRefusal::OtherKind));
    };
    let folder = match Directory::trusted(folder) {
        Ok(folder) => folder,
        Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(Err(RepairRefusal::Gone)),
        Err(error) => return Err(error.into()),
    };
    let (entry, stat) = match Entry::within(&folder, name) {
        Ok(found) => found,
        Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(Err(RepairRefusal::Gone)),
        Err(error) => return Err(error.into()),
    };
    if entry.kind() != Kind::File || stat.inode != subject.inode || stat.size != subject.size {
        return Ok(Err(RepairRefusal::OtherFile));
    }
    let old = entry.open()?;
    if has_writer(&old) {
        return Err(InPlaceFault::InUse);
    }
    let is_unwritten = match before {
        Some(before) => before.is_same_state(&stat),
        None => with_blocks(journal, &old, &digest)? == subject.recorded,
    };
    let is_ready = is_unwritten && are_ours(journal, &old)?;
    Ok(if is_ready { Ok((folder, stat, digest)) } else { Err(RepairRefusal::WrittenSince) })
}

/// Writes blocks to a file to which nobody else writes meanwhile.
struct Writer<'f> {
    file: &'f File,
    /// What the system said of the file when it was written to last.
    state: Stat,
    /// The time of modification that it gets again.
    modified: Stamp,
    /// What each copy gave, by its number.
    given: Vec<(usize, Vec<Range<u64>>)>,
}

impl Writer<'_> {
    fn write(&mut self, block: &Block) -> io::Result<()> {
        let mut found = vec![0; block.new.len()];
        if self.file.read_exact_at(&mut found, block.offset).is_err() || found != block.new {
            self.require_unchanged()?;
            write_over(self.file, &block.new, block.offset)?;
            self.set_time()?;
        }
        let at = self.given.iter().position(|(copy, _)| *copy == block.copy).unwrap_or_else(|| {
            self.given.push((block.copy, Vec::new()));
            self.given.len() - 1
        });
        match self.given[at].1.last_mut() {
            Some(last) if last.end == block.offset => last.end = block.range().end,
            _ => self.given[at].1.push(block.range()),
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.require_unchanged()?;
        if Stamp::from(self.state.modified) != self.modified {
            self.set_time()?;
        }
        self.file.sync_all()?;
        // That may take long.
        self.require_unchanged()
    }

    /// At once: with another time it would look as if somebody had changed the file.
    fn set_time(&mut self) -> io::Result<()> {
        self.modified.timestamp().set(self.file)?;
        self.state = Stat::of(self.file)?;
        Ok(())
    }

    fn require_unchanged(&self) -> io::Result<()> {
        match Stat::of(self.file)?.is_same_state(&self.state) {
            true => Ok(()),
            false => Err(io::Error::other(InPlaceFault::Changed)),
        }
    }
}

fn open_to_write(folder: &Arc<Directory>, name: &std::ffi::OsStr, stat: &Stat) -> Result<File, InPlaceFault> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder.as_fd(), name, flags, Mode::empty());
    let failed = |errno: Errno| InPlaceFault::Open(explained(&folder.path().join(name), errno.into()).into());
    let file = File::from(file.map_err(failed)?);
    match Stat::of(&file).is_ok_and(|now| now.is_same_state(stat)) {
        true => Ok(file),
        false => Err(InPlaceFault::Changed),
    }
}

/// The digest that a file will have with the blocks of a journal.
fn with_blocks(journal: &mut Journal, file: &File, digest: &Digest) -> Result<Output, FillError> {
    let mut stream = digest.stream()?;
    let mut room = vec![0; PIECE];
    let size = journal.subject.size;
    let mut at = 0;
    let mut up_to =
        |stream: &mut dyn verisum_digest::DigestStream, at: &mut u64, end: u64| -> io::Result<()> {
            while *at < end {
                let count = (end - *at).min(PIECE as u64) as usize;
                file.read_exact_at(&mut room[..count], *at)?;
                stream.update(&room[..count]).map_err(io::Error::other)?;
                *at += count as u64;
            }
            Ok(())
        };
    let each = &mut |block: Block| -> io::Result<()> {
        up_to(&mut *stream, &mut at, block.offset)?;
        stream.update(&block.new).map_err(io::Error::other)?;
        at = block.range().end;
        Ok(())
    };
    journal.each(each).map_err(FillError::Read)?;
    up_to(&mut *stream, &mut at, size).map_err(FillError::Read)?;
    let mut output = Output::zeroed(digest.len());
    stream.finish(output.as_mut_bytes())?;
    Ok(output)
}

/// Whether all sectors of the blocks are old or new ones: others are somebody else's.
fn are_ours(journal: &mut Journal, file: &File) -> Result<bool, FillError> {
    let mut are_ours = true;
    let mut room = Vec::new();
    let each = &mut |block: Block| {
        let Some(old) = &block.old else { return Ok(()) };
        room.resize(block.new.len(), 0);
        // What cannot be read any more nobody wrote.
        if file.read_exact_at(&mut room, block.offset).is_err() {
            return Ok(());
        }
        let mut sectors = room.chunks(SECTOR).zip(old.chunks(SECTOR).zip(block.new.chunks(SECTOR)));
        are_ours &= sectors.all(|(found, (old, new))| found == old || found == new);
        Ok(())
    };
    journal.each(each).map_err(FillError::Read)?;
    Ok(are_ours)
}
