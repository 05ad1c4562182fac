//! Trees of files on other machines, listed and hashed over ssh.
//!
//! The host needs nothing of ours installed: a [`Session`] is one connection by the system's own ssh. It
//! finds the fastest program there that computes the digest, once, and then lists trees and hashes files
//! with it. File names travel over standard input, each ended by NUL; none is ever part of a shell's words.
//! One table, in `ways.rs`, holds what has to be known of each program; the scripts are in script/.
//!
//! ```no_run
//! use std::ffi::OsStr;
//! use verisum_digest::Digest;
//! use verisum_remote::{Event, Folder, Options, Place, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let place = Place::parse(OsStr::new("web:/srv/www"), false)?;
//! let folder = Folder::new(&std::env::temp_dir())?;
//! let (digest, options) = (Digest::find("sha256")?, Options::default());
//! let print = |event: Event| {
//!     if let Event::Answer(answer) = event
//!         && let Ok(found) = answer.result
//!         && let Some(digest) = found.digest
//!     {
//!         println!("{digest}  {}", String::from_utf8_lossy(&answer.request.path));
//!     }
//!     true // go on
//! };
//! let mut session = Session::open(&place.host, &digest, &options, Some(&folder), &print)?;
//! session.tree(&place.path, true, &print)?;
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: images, the digests of several algorithms in one read, and writing anything on a host.

#![forbid(unsafe_code)]

mod base64;
mod error;
mod folder;
mod link;
mod listing;
mod place;
mod probe;
mod protocol;
mod push;
mod served;
mod session;
mod timeout;
mod tools;
mod trial;
mod ways;
mod windows;

use verisum_digest::Output;
use verisum_files::Timestamp;

pub use error::SessionError;
pub use folder::Folder;
pub use link::{Script, SshOptions, Traffic};
pub use place::{Host, Place};
pub use protocol::GREETING;
pub use push::Program;
pub use session::{Options, Session};
pub use trial::{Candidate, Hashed, Making, Trial};
pub use ways::{NAMES as WAYS, Way};

/// The longest record that a host may send, in bytes: a path and its digest are much shorter.
pub const MOST_RECORD: usize = 1 << 20;

/// A file that is to be hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its path on the host.
    pub path: Vec<u8>,
    /// What the asker knows it by.
    pub tag: u64,
    /// What its digest should be, for askers who know.
    pub expected: Option<Output>,
    /// What a listing said of it.
    pub seen: Seen,
}

/// What is known of a file besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Length in bytes.
    pub size: Option<u64>,
    /// When its bytes last changed.
    pub modified: Option<Modified>,
}

/// When a file was modified, as exactly as the host told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    /// Whole seconds, and nanoseconds where they are known.
    pub time: Timestamp,
    /// Whether its nanoseconds are known.
    pub is_exact: bool,
}

impl Modified {
    /// Whether two times may be the same, as far as both are known.
    pub fn is_same(&self, other: &Modified) -> bool {
        match self.is_exact && other.is_exact {
            true => self.time == other.time,
            false => self.time.seconds == other.time.seconds,
        }
    }

    /// Seconds since 1970, with or without a fraction.
    fn parse(text: &str) -> Option<Modified> {
        let (whole, fraction) =
            text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
        let seconds: i64 = whole.parse().ok()?;
        let Some(fraction) = fraction else {
            return Some(Modified { time: Timestamp { seconds, nanoseconds: 0 }, is_exact: false });
        };
        if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let nanoseconds = format!("{fraction:0<9}")[..9].parse().ok()?;
        // Those before 1970 are printed as -1.25 and count from -2.
        let time = match whole.starts_with('-') && nanoseconds > 0 {
            true => Timestamp { seconds: seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
            false => Timestamp { seconds, nanoseconds },
        };
        Some(Modified { time, is_exact: true })
    }
}

/// What came of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The file, with what was seen of it last.
    pub request: Request,
    /// Its digest, or why there is none.
    pub result: Result<FileRead, Reason>,
}

/// A file that was read, or only listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// None where it was not asked for.
    pub digest: Option<Output>,
    /// Whether it changed while it was read.
    pub changed: bool,
}

/// Why a file was not read.
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
    /// Anything else, in the host's words.
    Failed(String),
}

impl Reason {
    /// By the word of our scripts, and the host's own.
    fn of(word: &[u8], text: &[u8]) -> Reason {
        match word {
            b"missing" => Reason::Missing,
            b"denied" => Reason::Denied,
            b"directory" => Reason::Directory,
            b"special" => Reason::Special,
            _ => Reason::Failed(String::from_utf8_lossy(text).trim().to_string()),
        }
    }

    /// In words, as the system has them.
    pub fn message(&self) -> String {
        match self {
            Reason::Missing => "No such file or directory".to_string(),
            Reason::Denied => "Permission denied".to_string(),
            Reason::Directory => "Is a directory".to_string(),
            Reason::Special => "not a regular file".to_string(),
            Reason::Failed(text) if text.is_empty() => "cannot be read".to_string(),
            Reason::Failed(text) => verisum_files::text::printable(text),
        }
    }
}

/// What a session tells while it works.
pub enum Event {
    /// What came of a file.
    Answer(Answer),
    /// Something could not be listed, in the host's words.
    Unlisted(String),
    /// What a user may want to know.
    Note(String),
}

/// Takes what a session tells; false to end it.
pub type Sink<'a> = &'a (dyn Fn(Event) -> bool + Sync);

/// The bytes of a digest of this length in hexadecimal.
fn hexadecimal(text: &[u8], length: usize) -> Option<Output> {
    if text.len() != length * 2 {
        return None;
    }
    let mut output = Output::zeroed(length);
    for (byte, pair) in output.as_mut_bytes().iter_mut().zip(text.chunks_exact(2)) {
        let digit = |byte: u8| (byte as char).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_printed() {
        let time = |text| {
            Modified::parse(text).map(|found| (found.time.seconds, found.time.nanoseconds, found.is_exact))
        };
        assert_eq!(time("5"), Some((5, 0, false)));
        assert_eq!(time("5.25"), Some((5, 250_000_000, true)));
        assert_eq!(time("5.1234567890"), Some((5, 123_456_789, true)));
        assert_eq!(time("-1.25"), Some((-2, 750_000_000, true)));
        for bad in ["", "x", "1.", "1.x", "."] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_the_same_as_far_as_they_are_known() {
        let time = |text| Modified::parse(text).unwrap();
        assert!(
            time("5").is_same(&time("5.25"))
                && !time("5.1").is_same(&time("5.25"))
                && !time("5").is_same(&time("6"))
        );
    }
}
