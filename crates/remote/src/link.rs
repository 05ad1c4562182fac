//! Runs commands on a host over one connection of the system's ssh, or on this machine.
//!
//! What is started is always the same constant command, so that the login shell of the host matters not:
//! a POSIX shell that takes one line from its standard input, which takes the script that follows it. No
//! name of a file is ever part of a command.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use verisum_files::lock;
use verisum_files::place::DEFAULT_TIMEOUT;

use crate::address::Host;
use crate::error::SessionError;
use crate::folder::Folder;
use crate::timeout::{HashStop, Timeout, Watch};
use crate::windows;

/// What a login shell of any kind is told to do. It is the same for sh, csh and fish: no variable, no
/// backslash, no exclamation mark and no quote stands where one of them would see it.
const COMMAND: &str = r#"exec /bin/sh -c 'IFS= read -r s; eval "$s"'"#;

/// The same for a shell that needs no login shell before it.
const HERE: &str = r#"IFS= read -r s; eval "$s""#;

/// The line that it reads first: it defines what the scripts use, and takes the script.
const START: &str = include_str!("script/start.sh");

/// What stands between the greetings of a login shell and our own output.
const MARK: &[u8] = b"@verisum@";

/// What comes with the messages from time to time, so that the host notices when nobody listens any more.
const BEAT: u8 = 0;

/// The most greetings that are read.
const MOST_GREETINGS: usize = 1 << 20;

/// The most lines of messages that are kept.
const MOST_LINES: usize = 1000;

/// How long ssh may take to end once it has nothing left to do.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// What a host that answers late may take in any case.
const ALWAYS: Duration = Duration::from_secs(10);

/// How ssh is to be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SshOptions {
    /// A configuration in place of the user's own.
    pub config: Option<PathBuf>,
    /// After how long a host that does not answer is given up.
    pub timeout: Duration,
    /// Whether it may ask for passwords.
    pub may_ask: bool,
    /// That of the place that it is for.
    pub(crate) hash_stop: HashStop,
}

impl Default for SshOptions {
    /// The user's own configuration, no questions, and as long as the commands wait.
    fn default() -> SshOptions {
        SshOptions { config: None, timeout: DEFAULT_TIMEOUT, may_ask: false, hash_stop: HashStop::default() }
    }
}

/// What runs scripts on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Posix,
    PowerShell {
        /// Whether another PowerShell stands before it.
        is_piped: bool,
    },
}

/// An open way to a host.
#[derive(Debug)]
pub struct Link {
    host: Host,
    options: SshOptions,
    /// Where the socket of the connection is.
    socket: PathBuf,
    shell: Shell,
    traffic: Arc<Counters>,
    /// The group of processes that end when this program does.
    group: Option<u32>,
}

impl Link {
    /// A way to a host, of which nothing is used yet. The folder holds the socket.
    pub fn new(host: &Host, options: &SshOptions, folder: Option<&Folder>) -> Link {
        /// Sockets are never used again.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let kind = if options.may_ask { "ask" } else { "" };
        let socket = folder.map_or(PathBuf::new(), |folder| folder.path().join(format!("{kind}{number}")));
        let group = folder.map(Folder::group);
        let (host, options) = (host.clone(), options.clone());
        Link { host, options, socket, shell: Shell::Posix, traffic: Arc::default(), group }
    }

    /// The same to another shell.
    pub(crate) fn to(self, shell: Shell) -> Link {
        Link { shell, ..self }
    }

    /// Whether scripts for a POSIX shell run there.
    pub(crate) fn is_posix(&self) -> bool {
        self.shell == Shell::Posix
    }

    /// What went over it until now, as its commands wrote and read it.
    pub fn traffic(&self) -> Traffic {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic { sent: count(&self.traffic.sent), received: count(&self.traffic.received) }
    }

    /// Starts a script, with these lines of other scripts and texts after it. The first that is started has
    /// to run as long as any other: it is the connection.
    pub fn start(&self, is_first: bool, script: &Script) -> Result<Running, SessionError> {
        let mut command = self.command(is_first);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| SessionError::Here(not_started(&error)))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(SessionError::Here("it has no standard streams".to_string()));
        };
        let mut stdin = Counted { stream: stdin, counters: Arc::clone(&self.traffic) };
        let stdout = Counted { stream: stdout, counters: Arc::clone(&self.traffic) };
        let said = FirstLines::default();
        let listener = said.listen(stderr);
        // If it cannot be written, it has ended, and said why.
        let start = if self.shell == Shell::Posix { START } else { "" };
        let sent = stdin.write_all(start.as_bytes()).and_then(|()| stdin.write_all(&script.0));
        let is_group = self.host == Host::Local;
        let timeout = Timeout::new(self.answer(), self.greeting());
        let mut running = Running {
            watch: Watch::new(&child, is_group, &timeout, &self.options.hash_stop),
            timeout,
            end: Killer { child, is_group },
            stdin: Some(stdin),
            stdout: BufReader::with_capacity(64 << 10, stdout),
            said,
            listener: Some(listener),
        };
        if sent.is_err() || !running.skip_greetings() {
            let (code, said) = running.wait();
            if running.watch.stop().is_some() {
                return Err(SessionError::Unreachable("it does not answer".to_string()));
            }
            return Err(match code {
                // The host was reached before: what is left of the connection says no more than that.
                Some(255) | None if !is_first => SessionError::of_end(code, &said),
                _ => SessionError::of_start(code, &said),
            });
        }
        running.timeout.allow(None);
        Ok(running)
    }

    /// How long a host may take for what needs no reading.
    fn answer(&self) -> Duration {
        ALWAYS.saturating_add(self.options.timeout.saturating_mul(2))
    }

    /// How long it may search a tree without finding a file.
    pub(crate) fn search(&self) -> Duration {
        ALWAYS.saturating_add(self.options.timeout.saturating_mul(20))
    }

    /// How long a shell may take to greet. Whoever types a password takes any time.
    fn greeting(&self) -> Option<Duration> {
        let is_remote = self.host != Host::Local;
        // ssh itself gives up connecting after half of it.
        (is_remote && !self.options.may_ask).then(|| self.options.timeout.saturating_mul(2))
    }

    fn command(&self, is_first: bool) -> Command {
        let Host::Ssh { destination, port } = &self.host else {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", HERE]);
            // Its pipelines are ended with it.
            command.process_group(0);
            return command;
        };
        let mut command = Command::new("ssh");
        // Out of the foreground nothing could be asked for at the terminal.
        if let Some(group) = self.group.filter(|_| !self.options.may_ask) {
            command.process_group(group as i32);
        }
        if let Some(config) = &self.options.config {
            command.arg("-F").arg(config);
        }
        if let Some(port) = port {
            command.arg("-p").arg(port.to_string());
        }
        command.args(["-T", "-a", "-x", "-S"]).arg(&self.socket);
        let seconds = self.options.timeout.as_millis().div_ceil(1000).max(1);
        for option in [
            format!("ControlMaster={}", if is_first { "yes" } else { "no" }),
            format!("BatchMode={}", if self.options.may_ask { "no" } else { "yes" }),
            format!("ConnectTimeout={seconds}"),
            format!("ServerAliveInterval={}", seconds.div_ceil(3)),
        ] {
            command.arg("-o").arg(option);
        }
        for option in [
            "ControlPersist=no",
            "ServerAliveCountMax=3",
            "ClearAllForwardings=yes",
            "PermitLocalCommand=no",
            "RemoteCommand=none",
            "LogLevel=ERROR",
        ] {
            command.arg("-o").arg(option);
        }
        command.arg("--").arg(destination);
        match self.shell {
            Shell::Posix => command.arg(COMMAND),
            Shell::PowerShell { is_piped } => command.arg(windows::command(is_piped)),
        };
        command
    }
}

/// A script and what it reads, as it is sent.
pub struct Script(Vec<u8>);

impl Script {
    /// A script of ours.
    pub fn new(text: &str) -> Script {
        Script(Vec::new()).script(text)
    }

    /// Nothing yet: texts for a script that runs.
    pub(crate) fn texts() -> Script {
        Script(Vec::new())
    }

    /// As it is sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What its function `script` reads next, into `$v`.
    pub fn script(mut self, text: &str) -> Script {
        for line in text.lines() {
            debug_assert_ne!(line, "#end");
            self.0.extend_from_slice(line.as_bytes());
            self.0.push(b'\n');
        }
        self.0.extend_from_slice(b"#end\n");
        self
    }

    /// What its function `text` reads next, into `$l`: any bytes but NUL.
    pub fn text(mut self, text: &[u8]) -> Script {
        let mut line = String::new();
        for byte in text {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                    line.push(char::from(*byte))
                }
                other => {
                    let _ = write!(line, "\\0{other:03o}");
                }
            }
        }
        line.push('\n');
        self.0.extend_from_slice(line.as_bytes());
        self
    }
}

/// A command that runs on the host. Dropping it ends it, and so does a host that is not heard of for longer
/// than its [`Timeout`] has it, which at first has no limit.
pub struct Running {
    watch: Watch,
    timeout: Arc<Timeout>,
    end: Killer,
    /// None once it was told that nothing more comes.
    pub stdin: Option<Counted<ChildStdin>>,
    pub stdout: BufReader<Counted<ChildStdout>>,
    said: FirstLines,
    listener: Option<JoinHandle<()>>,
}

impl Running {
    /// Reads up to the next of these bytes, which is taken off; none at the end.
    pub fn record(&mut self, end: u8) -> io::Result<Option<Vec<u8>>> {
        record(&mut self.stdout, end)
    }

    /// Whether it has written all that it will. It has to end soon.
    pub fn is_done(&mut self) -> bool {
        self.timeout.allow(Some(END_TIMEOUT));
        self.stdout.fill_buf().is_ok_and(<[u8]>::is_empty)
    }

    /// Sends a script to a shell that waits for one. If that fails, the shell has ended, and said why.
    pub(crate) fn give(&mut self, script: &Script) -> bool {
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(&script.0).is_ok())
    }

    /// Its ends, for one thread that writes and one that reads and may end it.
    pub fn split(&mut self) -> (Option<Counted<ChildStdin>>, &mut impl BufRead, &mut Killer) {
        (self.stdin.take(), &mut self.stdout, &mut self.end)
    }

    /// How long it may take.
    pub(crate) fn timeout(&self) -> Arc<Timeout> {
        Arc::clone(&self.timeout)
    }

    /// Waits for its end. Returns its exit code, and the lines that it wrote as messages.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        self.wait()
    }

    /// What it said until now.
    pub fn said(&self) -> Vec<String> {
        self.said.lines()
    }

    /// Waits for its end, which came too early, and says why.
    pub fn broken(&mut self) -> SessionError {
        let (code, said) = self.wait();
        match self.watch.stop() {
            Some(seconds) => SessionError::Silent(format!("nothing came for {seconds} s")),
            None => SessionError::of_end(code, &said),
        }
    }

    /// The same as `end` for what is dropped later.
    pub(crate) fn wait(&mut self) -> (Option<i32>, Vec<String>) {
        self.watch.stop();
        drop(self.stdin.take());
        let started = Instant::now();
        let status = loop {
            match self.end.child.try_wait() {
                Ok(Some(status)) => break status.code(),
                Ok(None) if started.elapsed() < END_TIMEOUT => {
                    // What it still writes must not keep it from ending.
                    let passed = started.elapsed().as_millis() as u64;
                    std::thread::sleep(Duration::from_millis(1 + (passed / 8).min(20)));
                }
                _ => {
                    self.end.kill();
                    break self.end.child.wait().ok().and_then(|status| status.code());
                }
            }
        };
        if let Some(listener) = self.listener.take() {
            // A connection that was left to a process in the background may keep it open.
            let started = Instant::now();
            while !listener.is_finished() && started.elapsed() < END_TIMEOUT {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        (status, self.said.lines())
    }

    /// Whether our own output begins.
    fn skip_greetings(&mut self) -> bool {
        let mut seen = Vec::new();
        while seen.len() < MOST_GREETINGS {
            let before = seen.len();
            let mut limited = (&mut self.stdout).take((MOST_GREETINGS - before) as u64);
            match limited.read_until(b'\n', &mut seen) {
                Ok(0) | Err(_) => return false,
                // A greeting need not end its line.
                Ok(_) if is_mark(&seen) => return true,
                Ok(_) => {}
            }
        }
        false
    }
}

/// Whether our own output begins after these bytes. Windows ends lines in its own way.
fn is_mark(seen: &[u8]) -> bool {
    seen.strip_suffix(b"\n").is_some_and(|seen| seen.strip_suffix(b"\r").unwrap_or(seen).ends_with(MARK))
}

/// Bytes that went over a link, before ssh encrypts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from here to the host.
    pub sent: u64,
    /// Bytes from the host to here.
    pub received: u64,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

/// A stream of a command, whose bytes are counted.
pub struct Counted<T> {
    stream: T,
    counters: Arc<Counters>,
}

impl<T: Read> Read for Counted<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.counters.received.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<T: Write> Write for Counted<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.stream.write(bytes)?;
        self.counters.sent.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Ends a command before its time.
pub struct Killer {
    child: Child,
    /// Whether it leads a group of processes of its own.
    is_group: bool,
}

impl Killer {
    /// Ends it. What it writes to and reads from is closed then.
    pub fn kill(&mut self) {
        if self.is_group
            && let Some(group) = Pid::from_raw(self.child.id() as i32)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.listener.is_some() {
            // Nobody wants to know what it would still give.
            drop(self.stdin.take());
            self.end.kill();
            self.wait();
        }
    }
}

/// Reads up to the next of these bytes, which is taken off; none at the end, and for what does not end so.
pub fn record(from: &mut impl BufRead, end: u8) -> io::Result<Option<Vec<u8>>> {
    let mut record = Vec::new();
    let limit = super::MOST_RECORD as u64;
    from.take(limit).read_until(end, &mut record)?;
    match record.pop_if(|last| *last == end) {
        Some(_) => Ok(Some(record)),
        None if record.len() as u64 == limit => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a record is too long"))
        }
        None => Ok(None),
    }
}

/// The lines that a command writes as messages, the first of them.
#[derive(Clone, Debug, Default)]
struct FirstLines(Arc<Mutex<Vec<String>>>);

impl FirstLines {
    fn listen(&self, stderr: impl Read + Send + 'static) -> JoinHandle<()> {
        let lines = Arc::clone(&self.0);
        std::thread::spawn(move || {
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut stderr).take(4096).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let read = line.len();
                line.retain(|byte| *byte != BEAT);
                if line.is_empty() && read > 0 {
                    continue;
                }
                let mut lines = lock(&lines);
                if is_mark(&line) {
                    // What came before is of the login shell, and no concern of ours.
                    lines.clear();
                } else if lines.len() < MOST_LINES {
                    lines.push(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
                } else if lines.len() == MOST_LINES {
                    lines.push("… and more".to_string());
                }
            }
        })
    }

    fn lines(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

/// Why a program could not be started.
fn not_started(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{error} (Debian package openssh-client)"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_time_to_answer_where_nobody_says_how_long() {
        let host = Host::Ssh { destination: "host".into(), port: None };
        let link = Link::new(&host, &crate::HostOptions::default().ssh, None);
        assert_eq!(link.greeting(), Some(Duration::from_secs(60)));
        let command = link.command(true);
        assert!(command.get_args().any(|argument| argument == "ConnectTimeout=30"), "{command:?}");
    }

    #[test]
    fn scripts_and_texts_arrive_as_they_are() {
        let link = Link::new(&Host::Local, &SshOptions::default(), None);
        let text: Vec<u8> = (1..=255).collect();
        let script = Script::new("text; printf '%s' \"$l\"\nscript; printf '%s' \"$v\"")
            .text(&text)
            .script("a\\b 'c'\n  d");
        let mut running = link.start(true, &script).unwrap();
        let mut out = Vec::new();
        running.stdout.read_to_end(&mut out).unwrap();
        assert_eq!(out, [&text[..], b"a\\b 'c'\n  d\n"].concat());
        assert_eq!(running.end(), (Some(0), Vec::new()));
    }

    #[test]
    fn half_a_script_does_not_run() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", HERE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{START}: > '{}'", made.display()).unwrap();
        drop(stdin);
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert!(!made.exists());
    }
}
