//! Trees of files on other machines, listed and hashed over ssh.
//!
//! The host needs nothing of ours installed: a [`HostPlace`] is connected by the system's own ssh. It
//! finds the fastest program there that computes the digest, once, and then lists trees and hashes files
//! with it. File names travel over standard input, each ended by NUL; none is ever part of a shell's words.
//! One table, in `ways.rs`, holds what has to be known of each program; the scripts are in script/.
//!
//! ```no_run
//! use std::ffi::OsStr;
//!
//! use verisum_digest::Digest;
//! use verisum_files::place::{Files, Place, PlaceEvent};
//! use verisum_remote::{Address, Hosts, HostOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address = Address::parse(OsStr::new("web:/srv/www"), false)?;
//! let hosts = Hosts::new(HostOptions::default(), &std::env::temp_dir());
//! let mut place = hosts.place(&address.host)?;
//! let print = |event: PlaceEvent| {
//!     if let PlaceEvent::Answer(answer) = event
//!         && let Ok(read) = answer.result
//!     {
//!         println!("{}  {}", read.digests[0], String::from_utf8_lossy(&answer.request.path));
//!     }
//!     true // go on
//! };
//! let mut roots = [address.path].into_iter();
//! place.hash(&[Digest::find("sha256")?], Files::Trees(&mut roots), &print)?;
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: images, and the digests of several algorithms in one read.

#![forbid(unsafe_code)]

mod address;
mod error;
mod folder;
mod helper_session;
mod host_list;
mod host_place;
mod link;
mod listing;
mod probe;
mod protocol;
mod push;
mod range;
mod secrets;
mod session;
mod small_files;
mod timeout;
mod tools;
mod trial;
mod ways;
mod windows;
mod write;

use verisum_digest::Output;
use verisum_files::Timestamp;
use verisum_files::place::{
    FileAnswer, FileIdentity, FileRequest, FileState, Modified, PlaceEvent, Reason, Sink,
};

pub use address::{Address, Host, is_url};
pub use error::{AddressError, SessionError};
pub use folder::Folder;
pub use host_list::{Claims, HostList, HostListError, kept};
pub use host_place::{BucketError, HostPlace, Hosts, OpenBucket, OpenError, SshConfigOf, UnreachableNote};
pub use link::{Script, SshOptions, Traffic};
pub use protocol::{BLOCK_DIGEST, GREETING};
pub use push::Program;
pub use secrets::{hidden, secrets, without_secrets};
pub use session::{HostOptions, Session};
pub use trial::{Making, RemoteDigests, Trial, WayCandidate};
pub use ways::{NAMES as WAYS, Way};

/// The longest record that a host may send, in bytes: a path and its digest are much shorter.
pub const MOST_RECORD: usize = 1 << 20;

/// When a file was modified, and which one it is: `TIME`, `TIME/NUMBER` or `TIME/NUMBER/BIRTH`. What some systems do not
/// know is 0, nothing or `-`.
fn times(text: &str) -> Option<(Modified, Option<FileIdentity>)> {
    let mut fields = text.split('/');
    let time = modified(fields.next()?)?;
    let number = fields.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    let born = fields.next().and_then(modified).map(|born| born.time).filter(|born| born.seconds > 0);
    Some((time, number.map(|number| FileIdentity { number, born })))
}

/// Seconds since 1970, with or without a fraction.
fn modified(text: &str) -> Option<Modified> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let seconds: i64 = whole.parse().ok()?;
    let Some(fraction) = fraction else {
        return Some(Modified { time: Timestamp::of_seconds(seconds), is_exact: false });
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

/// A reason by the word of our scripts, and the host's own.
fn reason(word: &[u8], text: &[u8]) -> Reason {
    match word {
        b"missing" => Reason::Missing,
        b"denied" => Reason::Denied,
        b"directory" => Reason::Directory,
        b"special" => Reason::Special,
        _ => Reason::Failed(String::from_utf8_lossy(text).trim().to_string()),
    }
}

/// The digest of this length that hexadecimal digits are.
fn hexadecimal(text: &[u8], length: usize) -> Option<Output> {
    Output::from_hex(text).filter(|output| output.as_bytes().len() == length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_printed() {
        let time =
            |text| modified(text).map(|found| (found.time.seconds, found.time.nanoseconds, found.is_exact));
        assert_eq!(time("5"), Some((5, 0, false)));
        assert_eq!(time("5.25"), Some((5, 250_000_000, true)));
        assert_eq!(time("5.1234567890"), Some((5, 123_456_789, true)));
        assert_eq!(time("-1.25"), Some((-2, 750_000_000, true)));
        for bad in ["", "x", "1.", "1.x", "."] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }
}
