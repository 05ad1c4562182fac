//! Reads a range of bytes of a file on a host.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use verisum_files::FileError;
use verisum_files::place::PlaceError;

use crate::link::{Link, Running, Script};
use crate::reason;

const RANGE: &str = include_str!("script/range.sh");

/// The bytes of a range, as they come. It ends early where the file does, and fails where the host does.
pub(crate) struct RangeReader {
    /// None at the end.
    running: Option<Running>,
}

impl RangeReader {
    pub(crate) fn open(link: &Link, path: &[u8], range: Range<u64>) -> Result<RangeReader, PlaceError> {
        let machine = |error: io::Error| PlaceError::Machine(format!("read its answers: {error}").into());
        let count = range.end.saturating_sub(range.start);
        let script = Script::new(RANGE)
            .text(path)
            .text((range.start + 1).to_string().as_bytes())
            .text(count.to_string().as_bytes());
        let mut running = link.start(false, &script).map_err(|error| PlaceError::Machine(error.into()))?;
        match running.record(b'\n').map_err(machine)? {
            Some(word) if word == b"data" => Ok(RangeReader { running: Some(running) }),
            Some(word) => {
                let path = OsStr::from_bytes(path).into();
                Err(PlaceError::File(FileError::NotRead { path, reason: reason(&word, b"") }))
            }
            None => Err(PlaceError::Machine(running.broken().into())),
        }
    }
}

impl Read for RangeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(running) = &mut self.running else { return Ok(0) };
        let count = running.stdout.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        // A file that cannot be read to its end must not look shorter than it is.
        match self.running.take().map(Running::end) {
            Some((Some(0), said)) if said.is_empty() => Ok(0),
            ended => {
                let said = ended.and_then(|(_, said)| said.into_iter().next_back());
                Err(io::Error::other(said.unwrap_or_else(|| "the connection was lost".to_string())))
            }
        }
    }
}
