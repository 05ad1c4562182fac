//! Lists a tree with the `find` of a host.

use crate::address::ListingBounds;
use crate::error::SessionError;
use crate::link::{Link, Running, Script};
use crate::probe::Lister;
use crate::protocol::number;
use crate::tools::Tools;
use crate::{FileAnswer, FileRequest, FileState, MOST_RECORD, PlaceEvent, Reason, Sink};

const LIST: &str = include_str!("script/list.sh");

impl Tools {
    /// Lists the files of a tree.
    pub(crate) fn list(
        &self,
        link: &Link,
        path: &[u8],
        each: &mut dyn FnMut(FileRequest) -> bool,
        sink: Sink,
    ) -> Result<bool, SessionError> {
        let script = Script::new(LIST).text(self.lister.name().as_bytes()).text(path);
        let mut running = link.start(false, &script)?;
        let timeout = running.timeout();
        timeout.allow(Some(link.search()));
        let mut tree = ListingBounds::new(path);
        loop {
            let found = self.record(&mut running).map_err(|error| SessionError::Odd(error.to_string()))?;
            let Some(found) = found else { return Err(running.broken()) };
            match self.listed(&found) {
                Some(Listed::File(request)) if tree.takes(&request.path) => {
                    if !timeout.paused(|| each(request)) {
                        return Ok(false);
                    }
                }
                Some(Listed::Nothing(reason)) => {
                    let request = FileRequest { path: path.to_vec(), ..FileRequest::default() };
                    return Ok(sink(PlaceEvent::Answer(FileAnswer::failed(request, reason))));
                }
                Some(Listed::End(code)) => {
                    if !running.is_done() {
                        return Err(SessionError::Odd("find goes on after its end".to_string()));
                    }
                    let (_, said) = running.end();
                    if said.is_empty() && code != 0 {
                        sink(PlaceEvent::Unlisted(format!("find ended with the code {code}")));
                    }
                    for line in said {
                        sink(PlaceEvent::Unlisted(line));
                    }
                    return Ok(true);
                }
                _ => {
                    let start = String::from_utf8_lossy(&found[..found.len().min(60)]).into_owned();
                    return Err(SessionError::Odd(format!("unexpected from find: {start}")));
                }
            }
        }
    }

    fn record(&self, running: &mut Running) -> std::io::Result<Option<Vec<u8>>> {
        match self.lister {
            Lister::Gnu | Lister::Plain => running.record(0),
            Lister::Stat | Lister::Bsd => slashed(running),
        }
    }

    fn listed(&self, record: &[u8]) -> Option<Listed> {
        if let Some(code) = record.strip_prefix(b"end ") {
            return match code {
                b"special" => Some(Listed::Nothing(Reason::Special)),
                b"missing" => Some(Listed::Nothing(Reason::Missing)),
                _ => Some(Listed::End(number(code)?)),
            };
        }
        if self.lister == Lister::Plain {
            return Some(Listed::File(FileRequest { path: record.to_vec(), ..FileRequest::default() }));
        }
        let mut fields = record.splitn(3, |byte| *byte == b' ');
        let size = number(fields.next()?)?;
        let (modified, identity) = crate::times(std::str::from_utf8(fields.next()?).ok()?)?;
        let seen = FileState { size: Some(size), modified: Some(modified), identity };
        Some(Listed::File(FileRequest { path: fields.next()?.to_vec(), seen, ..FileRequest::default() }))
    }
}

enum Listed {
    File(FileRequest),
    /// The root is neither a file nor a directory.
    Nothing(Reason),
    /// With the code of `find`.
    End(u64),
}

/// Reads up to the next `//` before a newline, and takes the `//` at the start off. No path has two
/// slashes in a row: the one that the search begins at has not.
fn slashed(running: &mut Running) -> std::io::Result<Option<Vec<u8>>> {
    let mut whole = Vec::new();
    loop {
        let Some(line) = running.record(b'\n')? else { return Ok(None) };
        whole.extend_from_slice(&line);
        if whole.ends_with(b"//") && whole.len() > 2 {
            whole.truncate(whole.len() - 2);
            let start = if whole.starts_with(b"//") { 2 } else { 0 };
            return Ok(Some(whole.split_off(start)));
        }
        whole.push(b'\n');
        if whole.len() > MOST_RECORD {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "a record is too long"));
        }
    }
}
