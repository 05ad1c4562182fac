//! The types of requests to a place, and of its answers.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;
use verisum_digest::Output;

use crate::{FileError, Timestamp, text};

/// A file that is to be hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRequest {
    /// Its path in the place.
    pub path: Vec<u8>,
    /// What the asker knows it by.
    pub tag: u64,
    /// What its digest should be, for askers who know.
    pub expected: Option<Output>,
    /// What a listing said of it.
    pub seen: FileState,
}

/// What is known of a file besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// Length in bytes.
    pub size: Option<u64>,
    /// When its bytes last changed.
    pub modified: Option<Modified>,
    /// Which file it is, where the place tells that.
    pub identity: Option<FileIdentity>,
}

/// What tells a file from another that takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// The number of its inode; in a bucket one that stands for the object's version. Never 0.
    pub number: u64,
    /// When it was made, if that is known: numbers of inodes are used again.
    pub born: Option<Timestamp>,
}

/// What is known of one file besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownState {
    /// What a listing says of it.
    pub now: FileState,
    /// When the file was modified that it was uploaded from, where the place keeps that: its own time is that of the
    /// upload then.
    pub original: Option<Modified>,
    /// Who may use it, where the place keeps that.
    pub rights: Option<FileRights>,
}

/// Who may use a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRights {
    /// The lowest twelve bits of `st_mode`.
    pub mode: u32,
    /// The number of its owner.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
}

/// A small file that was read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeFile {
    /// Its bytes.
    pub content: Vec<u8>,
    /// What else is known of the file that has them.
    pub known: KnownState,
}

/// How safe staged files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system brings them to the disk when it likes.
    System,
    /// They are on the disk.
    Disk,
    /// They are on the disk, and as far as the place can do that no longer in its cache.
    Uncached,
}

/// A file that is to be staged.
pub struct NewFile<'a> {
    /// The path that it shall have.
    pub path: &'a [u8],
    /// Its length in bytes.
    pub size: u64,
    /// Its permissions: the lowest twelve bits of `st_mode`.
    pub mode: u32,
    /// Its bytes. Where they fail, or are more or fewer, nothing is staged.
    pub content: &'a mut dyn Read,
}

/// A staged file that is to get its name.
#[derive(Clone, Copy, Debug)]
pub struct PlacedFile<'a> {
    /// The path that it has until now.
    pub passing: &'a [u8],
    /// The path that it shall have.
    pub path: &'a [u8],
    /// Its time of modification.
    pub modified: Timestamp,
    /// Its permissions: the lowest twelve bits of `st_mode`.
    pub mode: u32,
    /// What it may replace.
    pub replaces: Replaces,
}

/// What a staged file may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// Any file or link.
    Anything,
    /// The file that has its name: it takes over the owner and the permissions of that, instead of its mode.
    Likeness,
    /// Nothing may have its name, not even a link that leads nowhere.
    Nothing,
}

/// When a file was modified, as exactly as the place told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    /// Whole seconds, and nanoseconds where they are known.
    pub time: Timestamp,
    /// Whether its nanoseconds are known.
    pub is_exact: bool,
}

/// What came of a file.
#[derive(Debug)]
pub struct FileAnswer {
    /// The file, with what was seen of it last.
    pub request: FileRequest,
    /// Its digests, or why there are none.
    pub result: Result<FileRead, FileError>,
}

/// A file that was read, or only listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRead {
    /// In the order in which they were asked for; none where the file was only listed.
    pub digests: Vec<Output>,
    /// Whether it changed while it was read: the digests may fit no state of it then.
    pub changed: bool,
    /// What is recorded of it where it is, as far as a listing tells.
    pub recorded: Option<RecordedMd5>,
    /// A digest of the file as it was listed, which a report of the keeper of its place has.
    pub reported: Option<Box<RecordedDigest>>,
    /// What its digests are known by.
    pub evidence: ContentEvidence,
    /// What the keeper of its place recorded of it, if that is not what was read.
    pub contradicted: Option<Contradicted>,
    /// Whether the keeper has another record too, which what was read is: one of the two is wrong.
    pub is_disputed: bool,
}

/// What the keeper of a place recorded of a file, and what was read instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradicted {
    /// What was recorded.
    pub recorded: RecordedDigest,
    /// The digest of what was read, by the same algorithm.
    pub found: Output,
}

/// What the content of a file is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentEvidence {
    /// Names and lengths.
    Listed,
    /// A digest that the keeper of a place recorded, and when. Nobody read the file there.
    Recorded(Option<Modified>),
    /// It was read; where files are compared all of them were, or a catalogue stands for that.
    #[default]
    Read,
}

impl ContentEvidence {
    /// Its word in results.
    pub fn name(self) -> &'static str {
        match self {
            ContentEvidence::Listed => "listed",
            ContentEvidence::Recorded(_) => "recorded",
            ContentEvidence::Read => "read",
        }
    }
}

/// The digest that the keeper of a place recorded of a file when it was written there. Nobody read the file for it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedMd5 {
    /// The MD5 of the file, or of the MD5s of its parts.
    pub md5: [u8; 16],
    /// How many parts it was written in, if in several or one that was called so.
    pub parts: Option<NonZeroU32>,
}

/// What the keeper of a place recorded of a file, as far as it tells when it is asked for that file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRecord {
    /// Nobody read the file for these since it was written.
    pub digests: Vec<RecordedDigest>,
    /// The file that they are of; its time is that of the record.
    pub of: FileState,
}

/// A digest that the keeper of a place recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDigest {
    /// Its name, such as `sha256` or `s3-sha256:8M`.
    pub algorithm: String,
    /// Its value.
    pub digest: Output,
    /// Whether a file of another digest has different content. An ETag is no such proof: it may be of what was encrypted.
    pub is_certain: bool,
}

/// Why a file was not read, as far as all places can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no such file, or none any more.
    Missing,
    /// The user may not read it.
    Denied,
    /// It is a directory.
    Directory,
    /// It is a device, a pipe or a socket.
    Special,
    /// It is not there, or another one each time it is looked at: in the place's own words.
    Elusive(String),
    /// Anything else, in the place's own words.
    Failed(String),
}

impl FileAnswer {
    /// A file that was listed, and not read.
    pub fn listed(path: Vec<u8>, seen: FileState) -> FileAnswer {
        let request = FileRequest { path, seen, ..FileRequest::default() };
        FileAnswer { request, result: Ok(FileRead::default()) }
    }

    /// A file that was read; without a digest, it was only listed.
    pub fn read(request: FileRequest, digest: Option<Output>, changed: bool) -> FileAnswer {
        let digests = digest.into_iter().collect();
        FileAnswer { request, result: Ok(FileRead { digests, changed, ..FileRead::default() }) }
    }

    /// A file that another machine did not read.
    pub fn failed(request: FileRequest, reason: Reason) -> FileAnswer {
        let path = PathBuf::from(OsStr::from_bytes(&request.path));
        FileAnswer { request, result: Err(FileError::NotRead { path, reason }) }
    }
}

impl fmt::Display for Contradicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contradicted { recorded: RecordedDigest { algorithm, digest, .. }, found } = self;
        write!(f, "{algorithm} is {found}, recorded by the store {digest}")
    }
}

impl FileRead {
    /// How what was read is not what the keeper of its place recorded, in words; none if it is.
    pub fn contradiction(&self) -> Option<String> {
        self.contradicted.as_ref().map(ToString::to_string)
    }

    /// The digest, where one was asked for.
    pub fn digest(&self) -> Option<Output> {
        self.digests.first().copied()
    }
}

impl Modified {
    /// Whether two times may be the same, as far as both are known.
    pub fn is_same(&self, other: &Modified) -> bool {
        match self.is_exact && other.is_exact {
            true => self.time == other.time,
            false => self.time.seconds == other.time.seconds,
        }
    }
}

impl From<Timestamp> for Modified {
    fn from(time: Timestamp) -> Modified {
        Modified { time, is_exact: true }
    }
}

impl Reason {
    /// In words, as the system has them.
    pub fn message(&self) -> String {
        match self {
            Reason::Missing => "No such file or directory".to_string(),
            Reason::Denied => "Permission denied".to_string(),
            Reason::Directory => "Is a directory".to_string(),
            Reason::Special => "not a regular file".to_string(),
            Reason::Failed(text) if text.is_empty() => "cannot be read".to_string(),
            Reason::Failed(text) | Reason::Elusive(text) => text::printable(text),
        }
    }
}

impl FileError {
    /// Why the file was not read, in the terms that all places share.
    pub fn reason(&self) -> Reason {
        match self {
            FileError::NotRead { reason, .. } => reason.clone(),
            FileError::NotAFile { path } if path.is_dir() => Reason::Directory,
            FileError::NotAFile { .. } => Reason::Special,
            FileError::Io { source, .. } => match self.errno() {
                Some(Errno::NOENT | Errno::NOTDIR) => Reason::Missing,
                Some(Errno::ACCESS | Errno::PERM) => Reason::Denied,
                Some(Errno::ISDIR) => Reason::Directory,
                _ => Reason::Failed(text::of_system(source)),
            },
            other => Reason::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_as_far_as_they_are_known() {
        let time =
            |seconds, nanoseconds, is_exact| Modified { time: Timestamp { seconds, nanoseconds }, is_exact };
        assert!(time(5, 0, false).is_same(&time(5, 250, true)));
        assert!(!time(5, 100, true).is_same(&time(5, 250, true)));
        assert!(!time(5, 0, false).is_same(&time(6, 0, false)));
    }
}
