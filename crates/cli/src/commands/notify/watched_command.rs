//! Runs a command of verisum, passes its output on, and keeps the beginning and the end of it.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use verisum::files::lock;

use crate::ui::config::{CATALOG_VARIABLE, WATCHED_VARIABLE};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::signals::{self, Handle, SIGHUP, SIGTERM, ending_signals};
use crate::ui::{Output, PROGRAM, say};

/// How many bytes are kept of the beginning, and how many of the end, where the summary is.
const BEGINNING: usize = 48 << 10;
const END: usize = 16 << 10;

/// The longest line that is kept as one.
const LINE: u64 = 8 << 10;

/// Lines that wait to be passed on.
const WAITING: usize = 64;

/// Lines that were said, in bounded memory.
#[derive(Default)]
pub(super) struct Said {
    beginning: Vec<String>,
    end: VecDeque<String>,
    /// Bytes in each.
    held: (usize, usize),
    /// Lines between the two that are not kept.
    left_out: u64,
}

impl Said {
    /// Says a line of ours on standard error, and keeps it.
    pub(super) fn remark(&mut self, message: &str) {
        say(PROGRAM, message);
        self.add(format!("{PROGRAM}: {message}"));
    }

    fn add(&mut self, line: String) {
        if self.end.is_empty() && self.held.0 + line.len() <= BEGINNING {
            self.held.0 += line.len();
            return self.beginning.push(line);
        }
        self.held.1 += line.len();
        self.end.push_back(line);
        while self.held.1 > END
            && let Some(first) = self.end.pop_front()
        {
            self.held.1 -= first.len();
            self.left_out += 1;
        }
    }

    /// All that is kept, with a line for what is not.
    pub(super) fn lines(&self) -> Vec<String> {
        let gap = (self.left_out > 0).then(|| format!("[{} lines are left out here]", self.left_out));
        self.beginning.iter().cloned().chain(gap).chain(self.end.iter().cloned()).collect()
    }
}

/// A command that was run to its end.
pub(super) struct Watched {
    status: ExitStatus,
    /// Whether all that it printed could be passed on.
    is_passed_on: bool,
    /// Whether a signal asked us to end it.
    was_asked: bool,
}

impl Watched {
    /// Runs this program with these arguments, by the catalogue that is named unless they name one. SIGTERM and SIGHUP
    /// are passed on to it; those of a terminal it gets by itself.
    pub(super) fn run(
        arguments: &[OsString],
        catalog: Option<&str>,
        said: &mut Said,
        output: &mut Output,
    ) -> Result<Watched, Failure> {
        let failed = |error| Failure::file(PROGRAM, "start", error);
        let program = env::current_exe().map_err(failed)?;
        let relay = Relay::new()?;
        let mut command = Command::new(program);
        let piped =
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let piped = piped.env(WATCHED_VARIABLE, "1").envs(catalog.map(|path| (CATALOG_VARIABLE, path)));
        let mut child = piped.spawn().map_err(failed)?;
        relay.begin(&child);
        let printed = pass_on(&mut child, said, output);
        let status = relay.wait(&mut child).map_err(failed)?;
        let was_asked = relay.end();
        let watched = Watched { status, is_passed_on: printed.is_ok(), was_asked };
        if let Some(signal) = status.signal().filter(|_| !was_asked) {
            said.remark(&format!("the command was ended by signal {signal}"));
        }
        if let Err(failure) = printed {
            said.remark(&failure.message());
        }
        Ok(watched)
    }

    /// How it ended. All codes of `verisum` are passed on as they are, those for Nagios too.
    pub(super) fn exit(&self) -> Exit {
        match self.status.code() {
            Some(0) if self.is_passed_on => Exit::Clean,
            Some(1) => Exit::Mismatch,
            Some(2) => Exit::Usage,
            Some(130) => Exit::Interrupted,
            None if self.was_asked => Exit::Interrupted,
            _ => Exit::Unchecked,
        }
    }

    /// Its exit code; none where a signal ended it.
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub(super) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// A line, and whether it was said on standard error.
type OutputLine = (bool, Vec<u8>);

/// Passes on all that a command says until it says no more. Where nobody reads our output any more, the
/// command goes on: somebody else may hear of it.
fn pass_on(child: &mut Child, said: &mut Said, output: &mut Output) -> Result<(), Failure> {
    let (give, take) = sync_channel(WAITING);
    let failed = |error| Failure::file(PROGRAM, "start", error);
    read(child.stdout.take(), false, give.clone()).map_err(failed)?;
    read(child.stderr.take(), true, give).map_err(failed)?;
    let mut printed = Ok(());
    for (is_error, line) in Receiver::iter(&take) {
        match is_error {
            true => {
                let _ = io::stderr().write_all(&line);
            }
            false if printed.is_ok() => printed = output.bytes(&line).and_then(|()| output.flush()),
            false => {}
        }
        said.add(names::plain(String::from_utf8_lossy(&line).trim_end_matches('\n')));
    }
    printed
}

fn read(
    pipe: Option<impl Read + Send + 'static>,
    is_error: bool,
    give: SyncSender<OutputLine>,
) -> io::Result<()> {
    let Some(pipe) = pipe else { return Ok(()) };
    let read = move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            let length = pipe.by_ref().take(LINE).read_until(b'\n', &mut line).unwrap_or(0);
            if length == 0 || give.send((is_error, line)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read).map(drop)
}

/// Passes signals on to a command while it runs.
struct Relay {
    handle: Handle,
    /// The command, until it was waited for: later its number may be another's.
    child: Arc<Mutex<Option<Pid>>>,
    was_asked: Arc<AtomicBool>,
}

impl Relay {
    fn new() -> Result<Relay, Failure> {
        let (child, was_asked) = (Arc::<Mutex<Option<Pid>>>::default(), Arc::<AtomicBool>::default());
        let (running, noticed) = (child.clone(), was_asked.clone());
        let relay = move |signal| {
            noticed.store(true, Ordering::SeqCst);
            let running = lock(&running);
            if let (Some(child), SIGTERM | SIGHUP) = (*running, signal) {
                let _ = kill_process(child, Signal::TERM);
            }
        };
        let handle = signals::watch(&ending_signals(), relay)?;
        Ok(Relay { handle, child, was_asked })
    }

    fn begin(&self, child: &Child) {
        let pid = Pid::from_child(child);
        *lock(&self.child) = Some(pid);
        // One may have come before there was anything to pass it on to.
        if self.was_asked.load(Ordering::SeqCst) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        // It has closed both outputs, so that it is about to end; only its number is kept until it is waited for.
        loop {
            let mut running = lock(&self.child);
            if let Some(status) = child.try_wait()? {
                *running = None;
                return Ok(status);
            }
            drop(running);
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Returns whether a signal came.
    fn end(self) -> bool {
        self.handle.close();
        self.was_asked.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut said = Said::default();
        for number in 0..100_000 {
            said.add(format!("line {number}"));
        }
        let lines = said.lines();
        assert!(lines.iter().map(String::len).sum::<usize>() < BEGINNING + END + 100);
        assert_eq!((lines[0].as_str(), lines.last().unwrap().as_str()), ("line 0", "line 99999"));
        let gap = lines.iter().find(|line| line.starts_with('[')).unwrap();
        let left_out: usize = gap[1..].split(' ').next().unwrap().parse().unwrap();
        assert_eq!(lines.len() - 1 + left_out, 100_000);
    }
}
