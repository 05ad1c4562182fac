//! Runs a program once, with its input and a time limit, and returns the resources that it used.
//!
//! The kernel counts the memory that a child had before it became another program as its own. So that this
//! hides nothing, programs are started by a small process that does nothing else: a [`Starter`] runs this
//! program once more as that process, which calls [`serve`].

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};

use super::counter::Cycles;
use crate::system::{self, Usage};

/// What a program has as its standard input.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) enum StandardInput {
    #[default]
    Null,
    File(OsString),
    Pipe(OsString),
}

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) stdin: StandardInput,
    /// Whether what it prints is wanted: megabytes of it would be memory that later programs seem to have.
    pub(super) output: bool,
    /// How long it may take; after that it is killed.
    pub(super) limit: Option<Duration>,
}

/// How it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    /// As wait(2) tells it.
    status: i32,
    pub(super) wall: Duration,
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) memory: Option<u64>,
    pub(super) cycles: Option<u64>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ended {
    pub(super) fn status(&self) -> ExitStatus {
        ExitStatus::from_raw(self.status)
    }
}

/// Why there is no end to tell of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Failed {
    /// It could not be started or waited for.
    Start(String),
    /// Its standard input could not be opened.
    File(OsString, i32),
    /// It took longer than it may.
    Limit(Duration),
    /// The user wants no more.
    Stopped,
}

/// The most output that is looked at.
const OUTPUT: u64 = 1 << 20;

/// How long a wish to stop may go unseen.
const PATIENCE: Duration = Duration::from_millis(250);

/// What a run has around it.
pub(super) struct Around<'a> {
    /// Memory that a child may have had of its parent, in bytes: less is not told.
    pub(super) floor: &'a dyn Fn() -> Option<u64>,
    /// The counter that its cycles are read from.
    pub(super) cycles: &'a mut Cycles,
    /// Who waits for the answer: when this is closed, the program is killed.
    pub(super) asker: Option<BorrowedFd<'a>>,
    /// Whether the user wants no more.
    pub(super) stopped: &'a dyn Fn() -> bool,
}

/// Runs a program in a process group of its own.
pub(super) fn run(request: &Request, around: Around<'_>) -> Result<Ended, Failed> {
    let start = |error: std::io::Error| Failed::Start(error.to_string());
    // Files in memory take any amount of output without a reader.
    let (mut stdout, out) = memory_file().map_err(start)?;
    let (mut stderr, err) = memory_file().map_err(start)?;
    let mut command = Command::new(&request.program);
    // What is printed must not depend on the user's language.
    command.args(&request.arguments).env("LC_ALL", "C").stdout(out).stderr(err).process_group(0);
    system::start_by_fork(&mut command);
    let open = |path: &OsString| {
        File::open(path).map_err(|error| Failed::File(path.clone(), error.raw_os_error().unwrap_or(0)))
    };
    let mut feed = None;
    match &request.stdin {
        StandardInput::Null => command.stdin(Stdio::null()),
        StandardInput::File(path) => command.stdin(open(path)?),
        StandardInput::Pipe(path) => {
            feed = Some(open(path)?);
            command.stdin(Stdio::piped())
        }
    };
    let cycles = around.cycles.start();
    let started = Instant::now();
    let mut child = command.spawn().map_err(start)?;
    let pipe = child.stdin.take();
    let (waited, wall) = std::thread::scope(|scope| {
        if let (Some(mut file), Some(mut pipe)) = (feed, pipe) {
            // A program that stops reading is judged by its exit code.
            scope.spawn(move || std::io::copy(&mut file, &mut pipe));
        }
        let waited = wait(&child, request.limit, &around);
        (waited, started.elapsed())
    });
    let cycles = around.cycles.since(cycles);
    let (status, usage) = waited?;
    Ok(Ended {
        status: status.into_raw(),
        wall,
        user: usage.user,
        system: usage.system,
        memory: Some(usage.memory).filter(|&memory| (around.floor)().is_some_and(|floor| memory > floor)),
        cycles,
        stdout: if request.output { text(&mut stdout) } else { String::new() },
        stderr: text(&mut stderr),
    })
}

/// Waits for the end, or brings it about.
fn wait(child: &Child, limit: Option<Duration>, around: &Around<'_>) -> Result<(ExitStatus, Usage), Failed> {
    let reap = || system::wait(child.id()).map_err(|error| Failed::Start(error.to_string()));
    // Kernels before Linux 5.3 have no such thing: there programs take as long as they take.
    let Ok(process) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return reap() };
    let started = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut watched = vec![PollFd::new(&process, PollFlags::IN)];
        // Only its end is looked for: what comes from it is the next request.
        watched.extend(around.asker.as_ref().map(|asker| PollFd::new(asker, PollFlags::empty())));
        // An interruption is a signal, and those are looked at below.
        let _ = poll(&mut watched, Some(&patience));
        if watched[0].revents().contains(PollFlags::IN) {
            return reap();
        }
        let failed = if (around.stopped)() || watched.get(1).is_some_and(|asker| !asker.revents().is_empty())
        {
            Failed::Stopped
        } else if let Some(limit) = limit.filter(|limit| started.elapsed() >= *limit) {
            Failed::Limit(limit)
        } else {
            continue;
        };
        // It may have ended in between; it is waited for in any case.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        reap()?;
        return Err(failed);
    }
}

/// The memory of a child that becomes no program: what every child of this process has before it becomes one.
/// It grows with what this process did before, as reading a program's input, so it is asked after each run.
fn nothing() -> Option<u64> {
    /// By how much two children that did the same differ, in bytes.
    const SLACK: u64 = 128 << 10;
    let mut command = Command::new("/dev/null/no program");
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    system::end_after_fork(&mut command);
    let child = command.spawn().ok()?;
    let (_, usage) = system::wait(child.id()).ok()?;
    Some(usage.memory + SLACK)
}

fn memory_file() -> std::io::Result<(File, OwnedFd)> {
    let file = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
    let copy = file.try_clone()?;
    Ok((file, copy.into()))
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read shows as no text.
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(OUTPUT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Starts programs in a small process of its own, which begins with the first of them.
#[derive(Clone, Debug)]
pub struct Starter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    program: PathBuf,
    name: OsString,
    stop: Arc<AtomicBool>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// None when it is to end.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Starter {
    /// `program`, called by this name, is one that calls [`serve`]. What runs is killed when `stop` becomes
    /// true.
    pub fn new(program: impl Into<PathBuf>, name: impl Into<OsString>, stop: Arc<AtomicBool>) -> Starter {
        let (program, name) = (program.into(), name.into());
        Starter(Arc::new(Mutex::new(State { program, name, stop, running: None })))
    }

    pub(super) fn run(&self, request: &Request) -> Result<Ended, Failed> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |error: std::io::Error| Failed::Start(format!("the process that starts it: {error}"));
        if state.running.is_none() {
            let mut command = Command::new(&state.program);
            command.arg0(&state.name).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(lost)?;
            let requests = child.stdin.take();
            let answers = child.stdout.take().ok_or_else(|| lost(std::io::ErrorKind::BrokenPipe.into()))?;
            state.running = Some(Running { child, requests, answers: BufReader::new(answers) });
        }
        let stop = state.stop.clone();
        let answer = state.running.as_mut().map(|running| running.ask(request, &stop));
        match answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                // The next one gets another.
                state.running = None;
                Err(lost(error))
            }
            None => Err(Failed::Stopped),
        }
    }
}

impl Running {
    fn ask(&mut self, request: &Request, stop: &AtomicBool) -> std::io::Result<Result<Ended, Failed>> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.requests.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.write_all(&line)?;
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
        loop {
            // Each answer is one line, so that none is left in the buffer.
            match poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&patience)) {
                Ok(0) | Err(Errno::INTR) if stop.load(Ordering::Relaxed) => {
                    // It sees that nobody asks any more, and kills what runs. A signal that was sent to this
                    // process alone did not reach it.
                    self.requests = None;
                    break;
                }
                // Whoever sets `stop` may do so after the signal interrupted this.
                Ok(0) | Err(Errno::INTR) => {}
                _ => break,
            }
        }
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(serde_json::from_str(&answer)?),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without requests it ends.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// What a [`Starter`]'s process does: runs what standard input asks for, one line of JSON each, and
/// answers on standard output, until there is no more. `stopped` is whether the user sent a signal since
/// it was last asked; the program that runs is then killed.
///
/// # Errors
/// If its standard input or output cannot be used.
pub fn serve(stopped: &dyn Fn() -> bool) -> std::io::Result<()> {
    let mut cycles = Cycles::open();
    let (stdin, mut stdout) = (std::io::stdin(), std::io::stdout());
    let mut line = String::new();
    loop {
        line.clear();
        if stdin.lock().read_line(&mut line)? == 0 {
            return Ok(());
        }
        // A signal that came between two runs is the asker's.
        stopped();
        let request: Request = serde_json::from_str(&line)?;
        let around = Around { floor: &nothing, cycles: &mut cycles, asker: Some(stdin.as_fd()), stopped };
        let mut answer = serde_json::to_vec(&run(&request, around))?;
        answer.push(b'\n');
        stdout.write_all(&answer)?;
        stdout.flush()?;
    }
}
