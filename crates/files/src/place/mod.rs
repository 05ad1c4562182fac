//! Places where trees of files are: one trait for what can be asked of each.
//!
//! [`LocalPlace`] is this machine. Other crates have hosts behind ssh, object stores and web servers;
//! every verb takes any of them. A place computes digests where the data is: this machine by its
//! batch engine while it walks, a host by the programs that it has.
//!
//! ```
//! use verisum_files::place::{Files, LocalPlace, Place, PlaceEvent};
//! use verisum_digest::Digest;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut place = LocalPlace::default();
//! let print = |event: PlaceEvent| {
//!     if let PlaceEvent::Answer(answer) = event
//!         && let Ok(read) = answer.result
//!     {
//!         println!("{}  {}", read.digests[0], String::from_utf8_lossy(&answer.request.path));
//!     }
//!     true // go on
//! };
//! let mut roots = [b"src".to_vec()].into_iter();
//! place.hash(&[Digest::find("sha256")?], Files::Trees(&mut roots), &print)?;
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: what an address looks like, and what a verdict is.

mod answer;
mod block_digests;
mod choice;
mod help;
mod local;
mod ordered_sink;
mod sorted;
mod stopping;

use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use verisum_digest::Digest;

use crate::{FileError, Operation, ReplaceError, Stop, Timestamp, lock};

pub use answer::{
    ContentEvidence, Contradicted, Durability, FileAnswer, FileIdentity, FileRead, FileRecord, FileRequest,
    FileRights, FileState, KnownState, Modified, NewFile, PlacedFile, Reason, RecordedDigest, RecordedMd5,
    Replaces, WholeFile,
};
pub use block_digests::BlockDigests;
pub use choice::Choice;
pub use help::{Help, LostPart};
pub use local::{LocalPlace, OpenStdin};
pub use sorted::Sorted;
pub(crate) use sorted::{read_state, write_state};
pub use stopping::StoppingPlace;

/// A place where trees of files are. Paths are bytes, with `/` between names.
///
/// What a place answers goes to a [`Sink`], on threads of the place's own: a sink that waits makes the place
/// wait, and one that returns false ends the work, which is no error.
pub trait Place: Send {
    /// Whether its files are those of this machine: then engines may walk and open them themselves, and know all
    /// that inodes tell.
    fn is_here(&self) -> bool {
        false
    }

    /// Has the hashing of files end early when it is time to stop, also within a file, which then has no answer. That is no
    /// error. A place that does not can only end at the next answer that the sink does not want.
    fn end_by(&mut self, _stop: &Arc<Stop>) {}

    /// Gets ready to compute these digests, all in one read, and says what it is able to do. The other calls do
    /// the same where nobody did it before.
    ///
    /// # Errors
    /// Nothing there computes them, or the place cannot be reached.
    fn capabilities(&mut self, digests: &[Digest], sink: Sink) -> Result<Capabilities, PlaceError>;

    /// Lists the regular files of a tree in the order of their paths' bytes, in memory that does not grow with
    /// the tree. A root that is a file is listed itself. Each file comes once, and so does what cannot be listed.
    ///
    /// # Errors
    /// The place cannot be reached, or ends in the middle.
    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError>;

    /// Computes the digests of files. Each file has one answer.
    ///
    /// # Errors
    /// Nothing there computes them, or the place cannot be reached, or ends in the middle.
    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError>;

    /// The same, with the digests that the keeper of the place recorded of a file where it has all of these: only other
    /// files are read, and [`FileRead::evidence`] tells which. What does not prove different content, as an ETag, counts
    /// only where it is what is [expected](FileRequest::expected).
    ///
    /// # Errors
    /// Those of [`hash`](Place::hash).
    fn hash_recorded(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        self.hash(digests, files, sink)
    }

    /// Hashes files and looks at each before and after, be it in several steps: what changes meanwhile is told as
    /// changed, and the answer has the state of the file then.
    ///
    /// # Errors
    /// Those of [`hash`](Place::hash).
    fn hash_settled(
        &mut self,
        digest: &Digest,
        files: Vec<FileRequest>,
        sink: Sink,
    ) -> Result<(), PlaceError> {
        self.hash(std::slice::from_ref(digest), Files::Named(&mut files.into_iter()), sink)
    }

    /// What is known of a file now besides its content.
    ///
    /// # Errors
    /// There is no such file, or the place cannot be reached.
    fn state(&mut self, path: &[u8]) -> Result<KnownState, PlaceError> {
        let found = Mutex::new(None);
        self.list(path, &|event| {
            if let PlaceEvent::Answer(answer) = event {
                let state = answer.result.map(|_| (answer.request.path, answer.request.seen));
                lock(&found).get_or_insert(state);
            }
            true
        })?;
        let missing = || FileError::NotRead { path: OsStr::from_bytes(path).into(), reason: Reason::Missing };
        match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok((of, now))) if of == path => Ok(KnownState { now, ..KnownState::default() }),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(_)) | None => Err(missing().into()),
        }
    }

    /// Whether the keeper of the place tells [records](Place::records) of files.
    fn tells_records(&self) -> bool {
        false
    }

    /// Asks for the digests that the keeper of the place recorded of each of these files, which takes a request or more for
    /// each. None where there are none, or nobody tells.
    ///
    /// # Errors
    /// The place cannot be reached.
    fn records(&mut self, files: &[FileRequest]) -> Result<Vec<Option<FileRecord>>, PlaceError> {
        Ok(files.iter().map(|_| None).collect())
    }

    /// Whether a file was written in parts of so many bytes, of which only the last may be shorter. Of a record of parts
    /// whose lengths are not all known it decides whether that is certain; it takes a request for each part.
    fn has_parts_of(&mut self, _file: &FileRequest, _length: u64) -> bool {
        false
    }

    /// The digests that the place recorded of the blocks of a file; none where it has none.
    fn block_digests(&mut self, _path: &[u8]) -> Option<BlockDigests> {
        None
    }

    /// Computes the digests of the blocks of a file of this length where it is; none where nothing there does.
    fn hash_blocks(&mut self, _digest: &Digest, _path: &[u8], _length: u64) -> Option<BlockDigests> {
        None
    }

    /// Opens a file to read it anywhere, from any thread, as it is now.
    ///
    /// # Errors
    /// The file cannot be opened, or the place gives no ranges.
    fn open(&mut self, _path: &[u8]) -> Result<Box<dyn RangedFile>, PlaceError> {
        Err(PlaceError::Unsupported("read ranges"))
    }

    /// Opens a range of a file's bytes. It ends early where the file does.
    ///
    /// # Errors
    /// The file cannot be opened, or the place gives no ranges.
    fn read(&mut self, _path: &[u8], _range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        Err(PlaceError::Unsupported("read a range"))
    }

    /// Fills a buffer with the bytes of a file at an offset. A place that computes them may be given help for that.
    ///
    /// # Errors
    /// Those of [`read`](Place::read), or the file ends before.
    fn read_helped(
        &mut self,
        path: &[u8],
        (offset, buffer): (u64, &mut [u8]),
        _help: &mut Help,
    ) -> Result<(), PlaceError> {
        let mut content = self.read(path, offset..offset + buffer.len() as u64)?;
        let read = content.read_exact(buffer);
        Ok(read.map_err(|error| FileError::io(Path::new(OsStr::from_bytes(path)), Operation::Read, error))?)
    }

    /// The same as [`read`](Place::read) of a file that was listed so: a place that says of the same file two things gives nothing of it.
    ///
    /// # Errors
    /// Those of [`read`](Place::read).
    fn read_listed(
        &mut self,
        file: &FileRequest,
        range: Range<u64>,
    ) -> Result<Box<dyn Read + Send>, PlaceError> {
        self.read(&file.path, range)
    }

    /// Reads small files whole, some at once: of each its content, and the state that the content is of. None for
    /// one that must be read alone, because of what it is or became; a place may leave them all to that.
    ///
    /// # Errors
    /// The place cannot be reached, or ends in the middle.
    fn read_whole(&mut self, files: &[FileRequest]) -> Result<Vec<Option<WholeFile>>, PlaceError> {
        Ok(files.iter().map(|_| None).collect())
    }

    /// Fails if no new file may have this path: a store may take a key that its listings cannot tell.
    ///
    /// # Errors
    /// What is wrong with the name.
    fn require_name(&self, _path: &[u8]) -> Result<(), PlaceError> {
        Ok(())
    }

    /// Makes a file with this content, or replaces one: at once, when all of it is safely there, or not at all; so a
    /// content that fails at its end leaves what was there. It gets this time, if one is known; the length is a hint.
    ///
    /// It replaces what was [seen](Place::state) at its path, or nothing; what somebody else writes meanwhile stays, as far
    /// as the place can tell. Returns which file it is now, where the place tells that: another one is somebody else's.
    ///
    /// # Errors
    /// The content cannot be read or written, somebody else wrote the file, or the place takes none.
    fn write(
        &mut self,
        _path: &[u8],
        _content: &mut dyn Read,
        _about: &FileState,
        _previous: Option<&FileState>,
    ) -> Result<Option<FileIdentity>, PlaceError> {
        Err(PlaceError::Unsupported("write"))
    }

    /// Removes a file. Some places do not tell that it was not there.
    ///
    /// # Errors
    /// There is no such file, it cannot be removed, or the place removes none.
    fn remove(&mut self, _path: &[u8]) -> Result<(), PlaceError> {
        Err(PlaceError::Unsupported("remove"))
    }

    /// Whether files can be [staged](Place::stage).
    fn stages(&self) -> bool {
        false
    }

    /// Removes these files, which somebody staged, as far as nobody is at work on them.
    ///
    /// # Errors
    /// The place cannot be reached.
    fn remove_staged(&mut self, _paths: &[Vec<u8>]) -> Result<(), PlaceError> {
        Err(PlaceError::Unsupported("write"))
    }

    /// Writes files below a root under passing names beside their own, with the directories that they need. They are
    /// removed unless they are [placed](Place::place_staged), also if this program ends.
    ///
    /// # Errors
    /// The place cannot be reached, or none of the files can be written.
    fn stage(
        &mut self,
        _root: &[u8],
        _files: &mut [NewFile],
        _durability: Durability,
    ) -> Result<Vec<StagedFile>, PlaceError> {
        Err(PlaceError::Unsupported("write"))
    }

    /// Gives staged files their names, modes and times, each at once in the place of what has its name; all other
    /// staged files are removed.
    ///
    /// # Errors
    /// The place cannot be reached, or nothing is staged.
    fn place_staged(&mut self, _files: &[PlacedFile]) -> Result<Vec<Result<(), PlaceError>>, PlaceError> {
        Err(PlaceError::Unsupported("write"))
    }
}

/// A file that is read anywhere, from any thread.
pub trait RangedFile: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Fills all of `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// They cannot be read, or the file is no longer the one that was opened.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
}

/// The longest file that [`Place::read_whole`] reads, in bytes.
pub const MOST_WHOLE: u64 = 64 << 10;

/// How long a place may be silent, where nobody says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// What a place is able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of what computes digests there.
    pub way: &'static str,
    /// Whether listings and answers tell sizes and times.
    pub tells_states: bool,
    /// Whether digests come in the order of paths, or of the names that were asked.
    pub in_order: bool,
    /// Whether it gives ranges of files.
    pub reads_ranges: bool,
    /// Whether it takes files.
    pub writes: bool,
    /// When its listings were made, if not when they are asked for.
    pub listed_at: Option<Timestamp>,
    /// When the report was made that its listings take [reported](FileRead::reported) digests from, if there is one.
    pub reported_at: Option<Timestamp>,
}

impl Capabilities {
    /// Those of a place that computes digests in this way, and can do nothing else.
    pub fn new(way: &'static str) -> Capabilities {
        Capabilities {
            way,
            tells_states: false,
            in_order: false,
            reads_ranges: false,
            writes: false,
            listed_at: None,
            reported_at: None,
        }
    }
}

/// Which files are to be hashed.
pub enum Files<'a> {
    /// Those of trees, and roots that are files.
    Trees(&'a mut (dyn Iterator<Item = Vec<u8>> + Send)),
    /// These.
    Named(&'a mut (dyn Iterator<Item = FileRequest> + Send)),
}

/// What a place tells while it works.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are answers, and none is kept")]
pub enum PlaceEvent {
    /// What came of a file.
    Answer(FileAnswer),
    /// Something could not be listed, in the place's own words.
    Unlisted(String),
    /// What computes a digest there, once for each digest.
    Way(String),
    /// What a user may want to know.
    Note(String),
}

/// What came of a file that was to be staged: its passing path; none where it has to be staged again, because another
/// failed.
pub type StagedFile = Result<Option<Vec<u8>>, PlaceError>;

/// Takes what a place tells; false to end the work.
pub type Sink<'a> = &'a (dyn Fn(PlaceEvent) -> bool + Sync);

/// Why a place does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Nothing there computes the digest, for the reason of this error.
    #[error(transparent)]
    Digest(Box<dyn std::error::Error + Send + Sync>),
    /// It cannot be reached, or does not do what it should. This error has its own type, which depends on the place.
    #[error(transparent)]
    Machine(Box<dyn std::error::Error + Send + Sync>),
    /// It is not there, such as a bucket, or does not know its user: whatever is asked of it fails so.
    #[error(transparent)]
    Absent(Box<dyn std::error::Error + Send + Sync>),
    /// It lists something that is no file of a tree, in the place's own words.
    #[error("list: {0}")]
    Unlisted(String),
    /// It lists a file of a tree more than once.
    #[error("read its answers: {} is listed twice", crate::text::escaped(.0, false))]
    ListedTwice(Vec<u8>),
    /// Places of this kind cannot do that.
    #[error("{0}: not in a place of this kind")]
    Unsupported(&'static str),
    /// A file cannot be opened or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] ReplaceError),
    /// A file cannot be staged or placed.
    #[error("{operation}: {source}")]
    NotWritten {
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file is no longer what it was when it was looked at.
    #[error("somebody else wrote it meanwhile: it was left as it is")]
    Replaced,
    /// Something else has the name of a file that is to be placed, or of its directory.
    #[error("{0} is in the way")]
    InTheWay(&'static str),
}

/// A kind of places that are not on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceScheme {
    /// How their addresses begin.
    pub start: &'static str,
    /// Whether they are buckets: on other machines and on the web are none.
    pub is_bucket: bool,
    /// The settings by which such a place is reached.
    pub fields: &'static [&'static str],
}

/// All of them, that of hosts first.
pub const SCHEMES: [PlaceScheme; 6] = [
    PlaceScheme { start: "ssh://", is_bucket: false, fields: &["ssh-config"] },
    PlaceScheme { start: "s3://", is_bucket: true, fields: &["endpoint", "profile", "region"] },
    PlaceScheme { start: "gs://", is_bucket: true, fields: &["endpoint", "credentials"] },
    PlaceScheme { start: "az://", is_bucket: true, fields: &["endpoint", "account"] },
    PlaceScheme { start: "https://", is_bucket: false, fields: &[] },
    PlaceScheme { start: "http://", is_bucket: false, fields: &[] },
];

impl PlaceScheme {
    /// That of an address, if it has one.
    pub fn of(address: &[u8]) -> Option<PlaceScheme> {
        SCHEMES.into_iter().find(|scheme| address.starts_with(scheme.start.as_bytes()))
    }
}

/// How an address begins, if it is one.
pub fn scheme(address: &[u8]) -> Option<&'static str> {
    PlaceScheme::of(address).map(|scheme| scheme.start)
}

/// The path in a place of what is `below` a root there: the root itself where that is empty.
pub fn join(root: &[u8], below: &[u8]) -> Vec<u8> {
    let mut path = root.to_vec();
    if !below.is_empty() {
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(below);
    }
    path
}

/// What of a path stands below a root: nothing if it is the root itself, none if it is elsewhere.
pub fn below<'a>(root: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(root)?;
    match rest.strip_prefix(b"/") {
        _ if root == b"/" => Some(rest),
        Some(rest) => (!rest.is_empty()).then_some(rest),
        None => rest.is_empty().then_some(rest),
    }
}
