//! Tries the ways to hash on a host one by one, for benchmarks.
//!
//! There is one connection, and each way is started anew for each batch of files: so a batch of one tiny
//! file shows what a start takes, and the difference to a larger one what hashing takes. Nothing is made on
//! the host unless that is asked for.

use std::io::{BufRead, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_digest::{Digest, Output};
use verisum_files::lock;

use crate::address::Host;
use crate::error::SessionError;
use crate::folder::Folder;
use crate::helper_session::{Ended, Served};
use crate::link::{Link, Running, Script, Traffic};
use crate::probe::{self, Probed, Wanted};
use crate::session::{self, HostOptions};
use crate::tools::Tools;
use crate::ways::{Kind, NAMES, Way, ways};
use crate::{FileRequest, PlaceEvent};

const MAKE: &str = include_str!("script/make.sh");

/// Long files are made in pieces of so many bytes.
const PIECE: u64 = 1 << 20;

/// A host, the connection to it, and all ways to hash there.
pub struct Trial<'a> {
    host: Host,
    options: &'a HostOptions,
    folder: Option<&'a Folder>,
    digest: Digest,
    link: Link,
    probed: Probed,
    /// What was started first: as long as it runs, there is a connection.
    first: Option<Running>,
}

/// A way of the table, or why it cannot be used on a host.
#[derive(Clone, Debug)]
pub struct WayCandidate {
    /// Its name, and what is run if it can be.
    pub name: String,
    way: Result<Way, String>,
}

impl WayCandidate {
    /// Why it cannot be used.
    pub fn unusable(&self) -> Option<&str> {
        self.way.as_ref().err().map(String::as_str)
    }
}

/// The digests of a batch. What computed them ends when this is dropped.
pub struct RemoteDigests {
    /// As many as were asked for, in that order.
    pub digests: Vec<Output>,
    _opened: StartedWay,
}

/// A way that was started.
enum StartedWay {
    Served(Served),
    Tools(Tools),
}

/// A command on the host that gives back each line.
pub struct Echo(Running);

/// Which files to make on a host.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// How many small ones.
    pub many: u32,
    /// Their length in bytes, 10 at least.
    pub small: u64,
    /// The length of the large one in bytes.
    pub large: u64,
}

/// Files that were made on a host, in a private directory that goes with this, or with the connection.
pub struct Made {
    running: Option<Running>,
    pub folder: Vec<u8>,
}

impl<'a> Trial<'a> {
    /// Connects to a host and tries all ways to compute a digest there.
    pub fn open(
        host: &Host,
        digest: &Digest,
        options: &'a HostOptions,
        folder: Option<&'a Folder>,
    ) -> Result<Trial<'a>, SessionError> {
        let link = Link::new(host, &options.ssh, folder);
        let wanted = Wanted { required: options.required.clone(), all: true };
        let mut first = link.start(true, &probe::script(digest, &wanted)?)?;
        let probed = probe::read(&mut first, digest)?;
        let (host, digest) = (host.clone(), digest.clone());
        Ok(Trial { host, options, folder, digest, link, probed, first: Some(first) })
    }

    /// All ways of the table that are allowed, in its order.
    pub fn candidates(&self) -> Vec<WayCandidate> {
        let named = |ways: &[Way], name: &str| ways.iter().find(|way| way.name == name).cloned();
        let all = ways(self.digest.name());
        let mut candidates = Vec::new();
        for name in NAMES {
            if !self.options.required.is_empty() && !self.options.required.iter().any(|one| one == name) {
                continue;
            }
            let way = named(&self.probed.ways, name).ok_or_else(|| match () {
                () if named(&all, name).is_none() => format!("does not compute {}", self.digest.name()),
                () if named(&self.probed.rejected, name).is_some() => {
                    "it gives wrong digests, or none".to_string()
                }
                () if named(&self.probed.unfit, name).is_some() => {
                    "it needs find and xargs, which are not both there".to_string()
                }
                () => "is not on that host".to_string(),
            });
            let name = way.as_ref().map_or_else(|_| name.to_string(), Way::described);
            candidates.push(WayCandidate { name, way });
        }
        candidates
    }

    /// Hashes these files, which must be regular ones, by a way that is started for them.
    pub fn hash(&self, candidate: &WayCandidate, paths: &[Vec<u8>]) -> Result<RemoteDigests, SessionError> {
        let way = candidate.way.as_ref().map_err(|why| SessionError::NoWay(why.clone()))?;
        let mut opened = self.start(way)?;
        let found: Mutex<(Vec<Option<Output>>, Option<SessionError>)> =
            Mutex::new((vec![None; paths.len()], None));
        let mut names = paths.iter().enumerate().map(|(tag, path)| FileRequest {
            path: path.clone(),
            tag: tag as u64,
            ..FileRequest::default()
        });
        let sink = |event: PlaceEvent| {
            let PlaceEvent::Answer(answer) = event else { return true };
            let mut found = lock(&found);
            match answer.result {
                Ok(read) if read.changed => {
                    found.1 = Some(failed(&answer.request.path, "it changed while it was read"))
                }
                Ok(read) => found.0[answer.request.tag as usize] = read.digest(),
                Err(error) => found.1 = Some(failed(&answer.request.path, &error.reason().message())),
            }
            found.1.is_none()
        };
        let ended = match &mut opened {
            StartedWay::Served(served) => served.names(&mut names, &sink),
            StartedWay::Tools(tools) => tools.names(&self.link, &mut names, true, &sink),
        };
        let (digests, error) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (error, ended) {
            (Some(error), _) | (None, Ended::Broken(error, _)) => Err(error),
            (None, Ended::Done | Ended::Stopped) => {
                let digests: Option<Vec<Output>> = digests.into_iter().collect();
                let digests = digests.ok_or_else(|| SessionError::Odd("a file has no digest".to_string()))?;
                Ok(RemoteDigests { digests, _opened: opened })
            }
        }
    }

    /// Lists a tree by the best way, unread. Files come with their sizes where the host tells them.
    pub fn list(&self, path: &[u8], each: &mut (dyn FnMut(FileRequest) + Send)) -> Result<(), SessionError> {
        let none = || SessionError::NoWay(format!("nothing there computes {}", self.digest.name()));
        let way = self.probed.ways.first().ok_or_else(none)?;
        let each = Mutex::new(each);
        let take = |request: FileRequest| (lock(&each))(request);
        let sink = |event: PlaceEvent| {
            if let PlaceEvent::Answer(answer) = event
                && answer.result.is_ok()
            {
                take(answer.request);
            }
            true
        };
        match self.start(way)? {
            StartedWay::Served(mut served) => match served.tree(path, &mut Vec::new(), false, &sink) {
                Ended::Broken(error, _) => Err(error),
                Ended::Done | Ended::Stopped => Ok(()),
            },
            StartedWay::Tools(tools) => {
                let mut all = |request: FileRequest| {
                    take(request);
                    true
                };
                tools.list(&self.link, path, &mut all, &sink).map(drop)
            }
        }
    }

    /// Starts what computes digests by a way, where that is not done for each batch.
    fn start(&self, way: &Way) -> Result<StartedWay, SessionError> {
        if let Kind::Tool(tool) = &way.kind {
            let none = || SessionError::NoWay("it has no find".to_string());
            let lister = self.probed.lister.ok_or_else(none)?;
            return Ok(StartedWay::Tools(Tools::new(tool.clone(), lister, &self.digest)?));
        }
        if let Kind::PowerShell { .. } = &way.kind {
            return Err(SessionError::NoWay("it has a POSIX shell".to_string()));
        }
        let shell = self.link.start(false, &Script::new("script; eval \"$v\""))?;
        Ok(StartedWay::Served(session::serve(shell, way, &self.digest)?))
    }

    /// What went over the connection until now.
    pub fn traffic(&self) -> Traffic {
        self.link.traffic()
    }

    /// Connects once more, up to a shell, and ends that.
    pub fn connect(&self) -> Result<(), SessionError> {
        let link = Link::new(&self.host, &self.options.ssh, self.folder);
        link.start(true, &Script::new(":"))?.end();
        Ok(())
    }

    /// Runs a command that does nothing, over the connection that is there.
    pub fn command(&self) -> Result<(), SessionError> {
        self.link.start(false, &Script::new(":"))?.end();
        Ok(())
    }

    /// Starts a command that gives back each line.
    pub fn echo(&self) -> Result<Echo, SessionError> {
        let script = "while IFS= read -r l; do printf '%s\\n' \"$l\"; done";
        Ok(Echo(self.link.start(false, &Script::new(script))?))
    }

    /// Sends these names to a command that gives them back.
    pub fn carry(&self, paths: &[Vec<u8>]) -> Result<(), SessionError> {
        let mut names = Vec::new();
        for path in paths {
            names.extend_from_slice(path);
            names.push(0);
        }
        let mut running = self.link.start(false, &Script::new("exec cat"))?;
        let (stdin, stdout, _) = running.split();
        let mut back = Vec::with_capacity(names.len());
        let read = thread::scope(|scope| {
            let names = &names;
            scope.spawn(move || {
                // What does not arrive does not come back.
                let _ = stdin.map(|mut stdin| stdin.write_all(names));
            });
            stdout.read_to_end(&mut back)
        });
        if read.is_err() || back != names {
            let (code, said) = running.end();
            return Err(SessionError::of_end(code, &said));
        }
        running.end();
        Ok(())
    }

    /// Makes files in a private directory below this one, or where the host's temporary files are.
    pub fn make(&self, making: &Making, parent: &[u8]) -> Result<Made, SessionError> {
        let mut script = Script::new(MAKE);
        for number in [u64::from(making.many), making.small, making.large / PIECE, making.large % PIECE] {
            script = script.text(number.to_string().as_bytes());
        }
        let mut running = self.link.start(false, &script.text(parent))?;
        match running.record(b'\n') {
            Ok(Some(line)) => match line.strip_prefix(b"made ") {
                Some(folder) => Ok(Made { folder: folder.to_vec(), running: Some(running) }),
                None => {
                    Err(SessionError::Odd(format!("unexpected line: {}", String::from_utf8_lossy(&line))))
                }
            },
            _ => {
                let (_, said) = running.end();
                let why = said.last().map_or("it ended", |line| line.trim()).to_string();
                Err(SessionError::Odd(format!("files cannot be made there: {why}")))
            }
        }
    }

    /// Runs a script on the host and returns what it prints, at most [`MOST_RECORD`](crate::MOST_RECORD) bytes.
    pub fn run(&self, script: &Script) -> Result<Vec<u8>, SessionError> {
        let mut running = self.link.start(false, script)?;
        let mut text = Vec::new();
        let limit = crate::MOST_RECORD as u64;
        (&mut running.stdout)
            .take(limit)
            .read_to_end(&mut text)
            .map_err(|error| SessionError::Lost(error.to_string()))?;
        running.end();
        Ok(text)
    }

    /// The ways to hash that gave right digests.
    pub fn ways(&self) -> &[Way] {
        &self.probed.ways
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            first.end();
        }
    }
}

impl Echo {
    /// Sends a line, and waits until it is back.
    pub fn there_and_back(&mut self) -> Result<(), SessionError> {
        let sent = match &mut self.0.stdin {
            Some(stdin) => stdin.write_all(b"-\n").and_then(|()| stdin.flush()).is_ok(),
            None => false,
        };
        match self.0.record(b'\n') {
            Ok(Some(line)) if sent && line == b"-" => Ok(()),
            _ => Err(SessionError::of_end(None, &self.0.said())),
        }
    }
}

impl Making {
    /// What is in the tiny file.
    pub fn tiny() -> Vec<u8> {
        padded(0, 64)
    }

    /// What is in one of the small files.
    pub fn small(&self, number: u32) -> Vec<u8> {
        padded(u64::from(number), self.small)
    }

    /// What is in the large file, in pieces.
    pub fn large(&self) -> impl Iterator<Item = Vec<u8>> {
        let whole = (0..self.large / PIECE).map(|number| padded(number, PIECE));
        let rest = self.large % PIECE;
        whole.chain((rest > 0).then(|| padded(0, rest)))
    }
}

impl Made {
    /// Removes the directory, and waits until that is done.
    pub fn remove(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.stdin.take());
            // It ends when the directory is gone.
            let mut rest = Vec::new();
            let _ = running.stdout.read_until(0, &mut rest);
            running.end();
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.end();
    }
}

/// As `printf %LENGTHd NUMBER` writes it.
fn padded(number: u64, length: u64) -> Vec<u8> {
    let number = number.to_string();
    let mut text = vec![b' '; (length as usize).saturating_sub(number.len())];
    text.extend_from_slice(number.as_bytes());
    text
}

fn failed(path: &[u8], why: &str) -> SessionError {
    SessionError::Odd(format!("{}: {why}", String::from_utf8_lossy(path)))
}
