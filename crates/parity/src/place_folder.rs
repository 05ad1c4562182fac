//! The folder of the parity files in another place, such as a bucket.
//!
//! There are no locks. Instead, an index is only written over the one that was read, and whoever makes sets first
//! writes an index that reserves numbers for them: of two runs, the later one wins, the earlier one can no longer
//! make its sets count, and neither writes over a set of the other.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use verisum_files::lock;
use verisum_files::place::{FileRequest, FileState, Place, PlaceError, PlaceEvent, Reason};

use crate::ParityError;
use crate::index::Index;
use crate::names::{INDEX, is_ours};

/// So many numbers of sets are reserved at once: more than a tree has.
const RESERVED: u64 = 1 << 24;

/// More files than these are no parity.
const MOST_FILES: usize = 1 << 22;

/// Bytes that are read at once, and how many such windows of a file are kept: its two heads are read in turn.
const WINDOW: u64 = 1 << 20;
const WINDOWS: usize = 2;

/// The parity files below a path of a place.
pub(crate) struct PlaceFolder {
    place: Mutex<Box<dyn Place>>,
    root: Vec<u8>,
    name: PathBuf,
    /// The index that was read or written last.
    index: Mutex<Option<FileState>>,
    /// The numbers of the sets of this run, until the index may name them.
    claimed: Mutex<Range<u64>>,
}

impl PlaceFolder {
    pub(crate) fn new(place: Box<dyn Place>, root: Vec<u8>, name: PathBuf) -> PlaceFolder {
        let (index, claimed) = (Mutex::default(), Mutex::new(0..0));
        PlaceFolder { place: Mutex::new(place), root, name, index, claimed }
    }

    fn ask<T>(
        &self,
        name: &str,
        operation: &'static str,
        act: impl FnOnce(&mut dyn Place, &[u8]) -> Result<T, PlaceError>,
    ) -> Result<T, ParityError> {
        let path = [&self.root, &b"/"[..], name.as_bytes()].concat();
        act(&mut **lock(&self.place), &path).map_err(|error| self.failed(name, operation, error))
    }

    fn failed(&self, name: &str, operation: &'static str, error: PlaceError) -> ParityError {
        let source = match error {
            PlaceError::Replaced => return ParityError::Busy { path: self.name.clone() },
            PlaceError::File(error) if error.reason() == Reason::Missing => io::ErrorKind::NotFound.into(),
            PlaceError::File(error) => io::Error::other(error.reason().message()),
            PlaceError::NotWritten { source, .. } => source,
            error => io::Error::other(error.to_string()),
        };
        ParityError::io(&self.name.join(name), operation, source)
    }

    /// What is known of a file, if it is there.
    fn state(&self, name: &str) -> Result<Option<FileState>, ParityError> {
        match self.ask(name, "look at", |place, path| place.state(path)) {
            Ok(known) => Ok(Some(known.now)),
            Err(ParityError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names of the parity files; below the same path there may be others.
    pub(crate) fn names(&self) -> Result<Vec<String>, ParityError> {
        let found = Mutex::new((Vec::new(), None));
        let root = [&self.root, &b"/"[..]].concat();
        let listed = lock(&self.place).list(&self.root, &|event| {
            let (names, failure) = &mut *lock(&found);
            match event {
                PlaceEvent::Answer(answer) => match answer.result {
                    Ok(_) => {
                        let name = answer.request.path.strip_prefix(&*root);
                        let name = name.and_then(|name| str::from_utf8(name).ok());
                        names.extend(name.filter(|name| is_ours(name)).map(str::to_string));
                        if names.len() > MOST_FILES {
                            *failure = Some(PlaceError::Machine("it has too many files".into()));
                        }
                    }
                    // There is no file yet.
                    Err(error) if error.reason() == Reason::Missing => {}
                    Err(error) => *failure = Some(error.into()),
                },
                PlaceEvent::Unlisted(what) => *failure = Some(PlaceError::Unlisted(what)),
                PlaceEvent::Way(_) | PlaceEvent::Note(_) => {}
            }
            failure.is_none()
        });
        let (names, failure) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        match listed.err().or(failure) {
            Some(error) => Err(self.failed("", "list", error)),
            None => Ok(names),
        }
    }

    /// Opens a file.
    pub(crate) fn open(self: &Arc<PlaceFolder>, name: &str) -> Result<PlaceFile, ParityError> {
        let seen = self.state(name)?;
        if name == INDEX[0] {
            *lock(&self.index) = seen;
        }
        let absent = || ParityError::io(&self.name.join(name), "open", io::ErrorKind::NotFound);
        let seen = seen.ok_or_else(absent).map_err(|error| self.unless_removed(error))?;
        let length = seen.size.unwrap_or(0);
        Ok(PlaceFile {
            folder: self.clone(),
            name: name.to_string(),
            seen,
            length,
            windows: Mutex::default(),
        })
    }

    /// The error, unless a file is missing because another run changed the index and removed it.
    fn unless_removed(&self, error: ParityError) -> ParityError {
        let read = *lock(&self.index);
        // Identities may come again, and of what this run wrote the time is not known.
        let is_as_read = |now: Option<FileState>| match (now, read) {
            (Some(now), Some(read)) => {
                let times = now.modified.zip(read.modified);
                now.identity == read.identity && times.is_none_or(|(now, read)| now == read)
            }
            (now, read) => now.is_none() == read.is_none(),
        };
        match &error {
            ParityError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                match self.state(INDEX[0]) {
                    Ok(now) if is_as_read(now) => error,
                    Ok(_) => ParityError::Busy { path: self.name.clone() },
                    Err(error) => error,
                }
            }
            _ => error,
        }
    }

    /// Makes a file, or replaces it unless it is to be new; at once. An index replaces none but the one that was read.
    pub(crate) fn write(
        &self,
        name: &str,
        content: &mut dyn Read,
        length: u64,
        is_new: bool,
    ) -> Result<(), ParityError> {
        let previous = match name == INDEX[0] {
            true => *lock(&self.index),
            false if is_new => None,
            false => self.state(name)?,
        };
        let about = FileState { size: Some(length), ..FileState::default() };
        let written =
            self.ask(name, "write", |place, path| place.write(path, content, &about, previous.as_ref()))?;
        if name == INDEX[0] {
            *lock(&self.index) = match written {
                Some(_) => Some(FileState { identity: written, ..about }),
                None => self.state(name)?,
            };
        }
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), ParityError> {
        self.ask(name, "remove", |place, path| place.remove(path))
    }

    /// Reserves the numbers of the next sets. Whoever had reserved others and is not through fails at its end.
    pub(crate) fn claim(&self, index: &mut Index) -> Result<(), ParityError> {
        index.generation += 1;
        // No two runs write the same: of uploads at once with the same content, a store may call each the one.
        let any = RandomState::new().build_hasher().finish() % RESERVED;
        let claimed = index.next..index.next + RESERVED + any;
        let text = Index { next: claimed.end, ..index.clone() }.encode();
        self.write(INDEX[0], &mut text.as_bytes(), text.len() as u64, false)?;
        *lock(&self.claimed) = claimed;
        Ok(())
    }

    /// The numbers of sets that this run made and no index names. They are no longer its own: the next index may name
    /// them.
    pub(crate) fn take_claim(&self) -> Range<u64> {
        std::mem::take(&mut *lock(&self.claimed))
    }
}

/// A file of a place, which is read by ranges.
pub(crate) struct PlaceFile {
    folder: Arc<PlaceFolder>,
    name: String,
    seen: FileState,
    pub(crate) length: u64,
    /// What was read last, with its offset.
    windows: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl PlaceFile {
    /// Fills the room with what is at an offset. False if the file has not so much.
    pub(crate) fn read(&self, room: &mut [u8], at: u64) -> Result<bool, ParityError> {
        let end = at.saturating_add(room.len() as u64);
        if end > self.length {
            return Ok(false);
        }
        let mut windows = lock(&self.windows);
        let has_it = |(start, bytes): &(u64, Vec<u8>)| *start <= at && end <= start + bytes.len() as u64;
        let known = windows.iter().position(has_it);
        let (start, bytes) = match known {
            Some(known) => windows.remove(known),
            None => {
                let start = at.min(self.length.saturating_sub(WINDOW));
                (start, self.fetch(start..end.max(start + WINDOW).min(self.length))?)
            }
        };
        let within = (at - start) as usize;
        let found = bytes.get(within..within + room.len());
        let is_whole = found.map(|found| room.copy_from_slice(found)).is_some();
        windows.truncate(WINDOWS - 1);
        windows.insert(0, (start, bytes));
        Ok(is_whole)
    }

    fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, ParityError> {
        let mut bytes = Vec::new();
        let read = self.folder.ask(&self.name, "read", |place, path| {
            let file = FileRequest { path: path.to_vec(), seen: self.seen, ..FileRequest::default() };
            let length = range.end - range.start;
            let read = place.read_listed(&file, range)?.take(length).read_to_end(&mut bytes);
            read.map(drop).map_err(|error| PlaceError::Machine(error.into()))
        });
        read.map_err(|error| self.folder.unless_removed(error))?;
        Ok(bytes)
    }
}
