//! A session with one host for the time of a command: connects, probes, and reconnects if that helps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use verisum_digest::{Digest, Output};

use crate::address::Host;
use crate::error::SessionError;
use crate::folder::Folder;
use crate::helper_session::{Ended, Served};
use crate::link::{Link, Running, Script, SshOptions};
use crate::probe::{self, Lister, Probed, Wanted};
use crate::push::{self, Program};
use crate::tools::Tools;
use crate::ways::{Kind, Way};
use crate::windows;
use crate::{FileAnswer, FileRequest, PlaceEvent, Sink};

/// How often in a row a connection that was lost is made anew, without any file between.
const ATTEMPTS: u32 = 2;

/// How long to wait before a host that refused is called again.
const PAUSE: Duration = Duration::from_millis(500);

/// How many names of a listing wait to be hashed.
const WAITING: usize = 4096;

/// What to use on hosts.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HostOptions {
    /// How ssh is run.
    pub ssh: SshOptions,
    /// Only these ways, if there are any.
    pub required: Vec<String>,
    /// Programs to copy to hosts that lack verisum, if any are to be.
    pub push: Option<Arc<Vec<Program>>>,
}

/// A host, the connection to it, and the way to hash there.
pub struct Session {
    host: Host,
    options: Arc<HostOptions>,
    digest: Digest,
    folder: Option<Arc<Folder>>,
    /// None where it was lost.
    open: Option<Open>,
    /// The way that was chosen at first, which stays.
    way: Way,
    pushed: bool,
}

struct Open {
    link: Link,
    way: OpenedSession,
    /// It is dropped after what runs over it. A server is the connection itself.
    _connection: Option<Connection>,
}

/// What was started first on a host: as long as it runs, there is a connection.
struct Connection(Option<Running>);

enum OpenedSession {
    Served(Served),
    Tools(Tools),
}

impl Session {
    /// Connects to a host and finds the best way to compute a digest there. Says which it is.
    pub fn open(
        host: &Host,
        digest: &Digest,
        options: Arc<HostOptions>,
        folder: Option<Arc<Folder>>,
        sink: Sink,
    ) -> Result<Session, SessionError> {
        let wanted = Wanted { required: options.required.clone(), all: false };
        let (open, way, pushed) = connected(host, digest, &options, &wanted, folder.as_deref(), sink)?;
        let (host, digest) = (host.clone(), digest.clone());
        Ok(Session { host, options, digest, folder, open: Some(open), way, pushed })
    }

    /// The name of the way, as in `--require`.
    pub fn way(&self) -> &'static str {
        self.way.name
    }

    /// The name of the way, and what is run.
    pub fn described(&self) -> String {
        match self.pushed {
            true => format!("{} (pushed)", self.way.name),
            false => self.way.described(),
        }
    }

    /// Whether listings tell sizes and times.
    pub fn tells_times(&self) -> bool {
        !matches!(&self.open, Some(Open { way: OpenedSession::Tools(tools), .. }) if tools.lister == Lister::Plain)
    }

    /// Whether it can be asked for more: not where somebody ended an answer early, the rest of which still comes.
    pub(crate) fn is_free(&self) -> bool {
        match &self.open {
            Some(Open { way: OpenedSession::Served(served), .. }) => !served.is_busy(),
            Some(_) => true,
            None => false,
        }
    }

    /// The way to the host, if it has a POSIX shell.
    pub(crate) fn shell(&self) -> Option<&Link> {
        self.open.as_ref().map(|open| &open.link).filter(|link| link.is_posix())
    }

    /// Whether listings come in the order of the paths' bytes.
    pub fn lists_in_order(&self) -> bool {
        matches!(&self.open, Some(Open { way: OpenedSession::Served(served), .. }) if served.is_in_order())
    }

    /// Whether the size and time of a file come with its digest, and a change meanwhile is told.
    pub fn reads_conditions(&self) -> bool {
        matches!(&self.open, Some(Open { way: OpenedSession::Served(_), .. }))
    }

    /// Lists the files of a tree, and hashes them if wanted. Each comes once, and so does what cannot be
    /// read or listed.
    pub fn tree(&mut self, path: &[u8], hashed: bool, sink: Sink) -> Result<(), SessionError> {
        let mut progress = Progress::new()?;
        let mut after = Vec::new();
        let mut left: VecDeque<FileRequest> = VecDeque::new();
        let mut attempts = 0;
        loop {
            let before = (after.clone(), progress.listed, left.len());
            let ended = match self.opened()? {
                Open { way: OpenedSession::Served(served), .. } => {
                    served.tree(path, &mut after, hashed, sink)
                }
                Open { way: OpenedSession::Tools(tools), link, .. } => {
                    tree(tools, link, path, hashed, &mut progress, &mut left, sink)
                }
            };
            let Ended::Broken(error, again) = ended else { return Ok(()) };
            left.extend(again);
            attempts = if before == (after.clone(), progress.listed, left.len()) { attempts + 1 } else { 0 };
            self.again(error, attempts, sink)?;
            progress.restart();
        }
    }

    /// Hashes files by their names. Each has one answer.
    pub fn names(
        &mut self,
        names: &mut (dyn Iterator<Item = FileRequest> + Send),
        sink: Sink,
    ) -> Result<(), SessionError> {
        let mut left: VecDeque<FileRequest> = VecDeque::new();
        let mut attempts = 0;
        loop {
            let count = AtomicU64::new(0);
            let counting = |event: PlaceEvent| {
                count.fetch_add(1, Ordering::Relaxed);
                sink(event)
            };
            let mut all = std::iter::from_fn(|| left.pop_front().or_else(|| names.next()));
            let ended = match self.opened()? {
                Open { way: OpenedSession::Served(served), .. } => served.names(&mut all, &counting),
                Open { way: OpenedSession::Tools(tools), link, .. } => {
                    tools.names(link, &mut all, false, &counting)
                }
            };
            let Ended::Broken(error, mut again) = ended else { return Ok(()) };
            again.append(&mut left);
            left = again;
            attempts = if count.into_inner() == 0 { attempts + 1 } else { 0 };
            self.again(error, attempts, sink)?;
        }
    }

    /// Hashes the blocks of a file, of which there are so many of this size; none where only whole files are hashed.
    pub(crate) fn blocks(
        &mut self,
        path: &[u8],
        blocks: (u64, u64),
    ) -> Result<Option<Vec<Output>>, SessionError> {
        let is_own = self.way.kind == Kind::Verisum;
        match self.opened()? {
            Open { way: OpenedSession::Served(served), .. } if is_own => served.blocks(path, blocks),
            _ => Ok(None),
        }
    }

    fn opened(&mut self) -> Result<&mut Open, SessionError> {
        self.open.as_mut().ok_or_else(|| SessionError::Lost("it was closed".to_string()))
    }

    /// Connects again, unless that cannot help.
    fn again(&mut self, error: SessionError, attempts: u32, sink: Sink) -> Result<(), SessionError> {
        let stop = &self.options.ssh.hash_stop;
        if !error.may_pass() || attempts > ATTEMPTS || self.host == Host::Local || stop.is_due() {
            return Err(error);
        }
        self.open = None;
        sink(PlaceEvent::Note(format!("{}: connecting again", error.message())));
        // Another way might give other answers to the same question.
        let wanted = Wanted { required: vec![self.way.name.to_string()], all: false };
        let quiet = |event: PlaceEvent| matches!(event, PlaceEvent::Note(_)) || sink(event);
        // A host that starts anew refuses connections for a while.
        let lost = Instant::now();
        let timeout = self.options.ssh.timeout;
        let (open, way, pushed) = loop {
            match connected(&self.host, &self.digest, &self.options, &wanted, self.folder.as_deref(), &quiet)
            {
                Err(SessionError::Unreachable(_) | SessionError::Lost(_))
                    if lost.elapsed() < timeout && !stop.is_due() =>
                {
                    thread::sleep(PAUSE);
                }
                other => break other?,
            }
        };
        if (way != self.way) || pushed != self.pushed {
            return Err(SessionError::NoWay(format!("{} is not there any more", self.described())));
        }
        self.open = Some(open);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(first) = self.0.take() {
            first.end();
        }
    }
}

/// Connects, and again if the connection breaks before anything is asked.
fn connected(
    host: &Host,
    digest: &Digest,
    options: &HostOptions,
    wanted: &Wanted,
    folder: Option<&Folder>,
    sink: Sink,
) -> Result<(Open, Way, bool), SessionError> {
    let mut attempts = 0;
    loop {
        match connect(host, digest, options, wanted, folder, sink) {
            Err(error) if error.may_pass() && attempts < ATTEMPTS && *host != Host::Local => {
                attempts += 1;
                sink(PlaceEvent::Note(format!("{}: connecting again", error.message())));
            }
            ended => return ended,
        }
    }
}

/// Connects to a host with a POSIX shell, or else with PowerShell.
fn connect(
    host: &Host,
    digest: &Digest,
    options: &HostOptions,
    wanted: &Wanted,
    folder: Option<&Folder>,
    sink: Sink,
) -> Result<(Open, Way, bool), SessionError> {
    let said = match connect_to_shell(host, digest, options, wanted, folder, sink) {
        Err(SessionError::NoShell(said)) if *host != Host::Local => said,
        other => return other,
    };
    if windows::candidates(digest, wanted).is_empty() {
        return Err(SessionError::NoShell(said));
    }
    let new_link = || Link::new(host, &options.ssh, folder).to(windows::shell(&said));
    let connected = windows::connect(new_link, digest, wanted).map_err(|error| match error {
        // It is neither.
        SessionError::NoShell(_) => SessionError::NoShell(said),
        other => other,
    })?;
    tell_rejected(&connected.rejected, sink);
    let Some((link, way, served)) = connected.found else {
        let probed = Probed { rejected: connected.rejected, ..Probed::default() };
        return Err(SessionError::NoWay(none(digest, wanted, &probed)));
    };
    let open = Open { link, way: OpenedSession::Served(served), _connection: None };
    Ok((open, way, false))
}

fn tell_rejected(ways: &[Way], sink: Sink) {
    for way in ways {
        sink(PlaceEvent::Note(format!("{} is not used: it gives wrong digests, or none", way.described())));
    }
}

/// Connects, probes, and starts what serves.
fn connect_to_shell(
    host: &Host,
    digest: &Digest,
    options: &HostOptions,
    wanted: &Wanted,
    folder: Option<&Folder>,
    sink: Sink,
) -> Result<(Open, Way, bool), SessionError> {
    let link = Link::new(host, &options.ssh, folder);
    let programs = options.push.as_ref().filter(|_| wanted.allows("verisum"));
    let own = Wanted { required: vec!["verisum".to_string()], all: false };
    let mut first = match programs {
        None => link.start(true, &probe::script(digest, wanted)?)?,
        // While ssh connects there is time for it.
        Some(programs) => thread::scope(|scope| {
            scope.spawn(|| programs.first().map(|program| program.packed().len()));
            link.start(true, &probe::script(digest, &own)?)
        })?,
    };
    let mut probed = probe::read(&mut first, digest)?;
    if let (Some(programs), None) = (programs, probed.ways.first()) {
        match push::push(&mut first, programs, &probed, digest.name())? {
            Ok(()) => {
                tell_rejected(&probed.rejected, sink);
                let way = Way { name: "verisum", program: "verisum", kind: Kind::Verisum };
                let served = Served::new(first, digest.name().to_string(), digest)?;
                return Ok((Open { link, way: OpenedSession::Served(served), _connection: None }, way, true));
            }
            Err(why) => {
                sink(PlaceEvent::Note(format!("verisum cannot be pushed: {why}")));
            }
        }
        if !first.give(&probe::script(digest, wanted)?) {
            let (code, said) = first.end();
            return Err(SessionError::of_end(code, &said));
        }
        probed = probe::read(&mut first, digest)?;
    }
    tell_rejected(&probed.rejected, sink);
    let Some(way) = probed.ways.first().cloned() else {
        return Err(SessionError::NoWay(none(digest, wanted, &probed)));
    };
    let (opened, connection) = match &way.kind {
        Kind::Tool(tool) => {
            let lister = probed.lister.ok_or_else(|| SessionError::NoWay("it has no find".to_string()))?;
            (OpenedSession::Tools(Tools::new(tool.clone(), lister, digest)?), Some(Connection(Some(first))))
        }
        Kind::PowerShell { .. } => return Err(SessionError::NoWay(none(digest, wanted, &probed))),
        _ => (OpenedSession::Served(serve(first, &way, digest)?), None),
    };
    Ok((Open { link, way: opened, _connection: connection }, way, false))
}

/// Starts a server, in Perl or Python or verisum itself, in the place of a shell that waits for a script.
pub(crate) fn serve(mut shell: Running, way: &Way, digest: &Digest) -> Result<Served, SessionError> {
    let (script, algorithm) = match &way.kind {
        Kind::Perl { algorithm } => {
            let script = Script::new(&format!("script; exec {} -e \"$v\"", way.program));
            (script.script(probe::PERL), algorithm.as_str())
        }
        Kind::Python { algorithm } => {
            let script = Script::new(&format!("script; exec {} -B -E -c \"$v\"", way.program));
            (script.script(probe::PYTHON), algorithm.as_str())
        }
        _ => (Script::new("exec verisum remote-serve"), digest.name()),
    };
    // Where it cannot be given, the greeting that is missing says so.
    shell.give(&script);
    Served::new(shell, algorithm.to_string(), digest)
}

/// Why there is no way.
fn none(digest: &Digest, wanted: &Wanted, probed: &Probed) -> String {
    let named = |ways: &[Way]| ways.iter().map(Way::described).collect::<Vec<_>>().join(", ");
    let mut text = format!("nothing there computes {}", digest.name());
    if !wanted.required.is_empty() {
        text = format!("{} among {}", text, wanted.required.join(", "));
    }
    if !probed.unfit.is_empty() {
        let what = if probed.lister.is_none() { "find" } else { "xargs" };
        text = format!("{text} (without {what}, {} cannot be used)", named(&probed.unfit));
    }
    if !probed.rejected.is_empty() {
        text = format!("{text} (wrong: {})", named(&probed.rejected));
    }
    text
}

/// Lists by one command and hashes by another, at the same time.
fn tree(
    tools: &Tools,
    link: &Link,
    path: &[u8],
    hashed: bool,
    progress: &mut Progress,
    left: &mut VecDeque<FileRequest>,
    sink: Sink,
) -> Ended {
    if !hashed {
        let mut each = |request: FileRequest| match progress.is_new(&request.path) {
            Ok(false) => true,
            Ok(true) => sink(PlaceEvent::Answer(FileAnswer::read(request, None, false))),
            Err(()) => false,
        };
        let listed = tools.list(link, path, &mut each, sink);
        return listed_as(listed, progress);
    }
    let (sender, receiver) = sync_channel(WAITING);
    let again = std::mem::take(left);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let lister = scope.spawn(|| {
            let mut each = |request: FileRequest| match progress.is_new(&request.path) {
                Ok(false) => true,
                Ok(true) => sender.send(request).is_ok() && !is_over.load(Ordering::Relaxed),
                Err(()) => false,
            };
            let listed = tools.list(link, path, &mut each, sink);
            drop(sender);
            listed_as(listed, progress)
        });
        let mut names = again.into_iter().chain(receiver);
        let mut ended = tools.names(link, &mut names, true, sink);
        is_over.store(true, Ordering::Relaxed);
        if let Ended::Broken(_, unanswered) = &mut ended {
            // What the lister counted has to be asked.
            unanswered.extend(&mut names);
        }
        drop(names);
        let listing = lister
            .join()
            .unwrap_or(Ended::Broken(SessionError::Odd("a thread failed".to_string()), VecDeque::new()));
        match (ended, listing) {
            (Ended::Broken(error, left), _) => Ended::Broken(error, left),
            (Ended::Done, listing) => listing,
            (stopped, _) => stopped,
        }
    })
}

fn listed_as(listed: Result<bool, SessionError>, progress: &Progress) -> Ended {
    match listed {
        _ if progress.differs => {
            let why = "the tree changed while the connection was down, so the listing cannot be resumed"
                .to_string();
            Ended::Broken(SessionError::Odd(why), VecDeque::new())
        }
        Ok(true) => Ended::Done,
        Ok(false) => Ended::Stopped,
        Err(error) => Ended::Broken(error, VecDeque::new()),
    }
}

/// How far a listing came, in memory that does not grow with it: whoever lists again passes over as many
/// names, which must be the same.
struct Progress {
    digest: Digest,
    /// How many names were taken.
    listed: u64,
    /// A digest over them.
    chain: Vec<u8>,
    /// The same in the listing at hand, up to as many.
    passed: u64,
    passed_chain: Vec<u8>,
    differs: bool,
}

impl Progress {
    fn new() -> Result<Progress, SessionError> {
        let digest = Digest::find("xxh3-128").map_err(|error| SessionError::Here(error.to_string()))?;
        Ok(Progress {
            digest,
            listed: 0,
            chain: Vec::new(),
            passed: 0,
            passed_chain: Vec::new(),
            differs: false,
        })
    }

    /// Whether a listed name was not taken before; fails where the listing is another one.
    fn is_new(&mut self, path: &[u8]) -> Result<bool, ()> {
        let mut message = std::mem::take(&mut self.passed_chain);
        message.extend_from_slice(path);
        self.passed_chain = self.digest.hash(&message).map_err(|_| ())?.as_bytes().to_vec();
        self.passed += 1;
        if self.passed > self.listed {
            self.listed = self.passed;
            self.chain.clone_from(&self.passed_chain);
            return Ok(true);
        }
        if self.passed == self.listed && self.passed_chain != self.chain {
            self.differs = true;
            return Err(());
        }
        Ok(false)
    }

    fn restart(&mut self) {
        self.passed = 0;
        self.passed_chain.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_gone_on_with_only_if_it_is_the_same() {
        let mut progress = Progress::new().unwrap();
        let list = |progress: &mut Progress, names: &[&str]| {
            progress.restart();
            names.iter().map(|name| progress.is_new(name.as_bytes())).collect::<Vec<_>>()
        };
        assert_eq!(list(&mut progress, &["a", "b"]), [Ok(true), Ok(true)]);
        assert_eq!(list(&mut progress, &["a", "b", "c"]), [Ok(false), Ok(false), Ok(true)]);
        assert_eq!(list(&mut progress, &["a", "c", "b"]), [Ok(false), Ok(false), Err(())]);
    }
}
