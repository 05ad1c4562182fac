//! Runs another program with a limit to its time and its output.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::ui::failure;

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// How long its output is waited for once it has ended: a program that it left behind may hold the pipe.
const LAST: Duration = Duration::from_secs(1);

/// How a program ended.
pub(super) struct ProgramEnd {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// How many lines of what a program said are told.
const SAID: usize = 4;

impl ProgramEnd {
    /// The last lines that it said, as one and without our name: they tell the cause.
    pub(super) fn said(&self) -> String {
        let said = String::from_utf8_lossy(&self.stderr);
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.map(|line| line.strip_prefix("verisum: ").unwrap_or(line)).collect();
        lines[lines.len().saturating_sub(SAID)..].join("; ")
    }
}

/// Runs it with `input` as its standard input, and keeps no more than `most` bytes of each output. With all
/// that it started it is killed when the time is over. An error is one line without the name.
pub(super) fn run(
    command: &mut Command,
    input: Vec<u8>,
    most: u64,
    timeout: Duration,
) -> Result<ProgramEnd, String> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = |error: io::Error| failure::cause(&error);
    let mut child = piped.process_group(0).spawn().map_err(text)?;
    let group = Pid::from_child(&child);
    let ended = follow(&mut child, input, most, timeout);
    if ended.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
    ended
}

fn follow(child: &mut Child, input: Vec<u8>, most: u64, timeout: Duration) -> Result<ProgramEnd, String> {
    let text = |error: io::Error| failure::cause(&error);
    let deadline = Instant::now() + timeout;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // A program that reads not all of it says why by its exit code.
    let write = move || stdin.map(|mut pipe| pipe.write_all(&input));
    thread::Builder::new().spawn(write).map_err(text)?;
    let stdout = kept(stdout, most).map_err(text)?;
    let stderr = kept(stderr, most).map_err(text)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(text)? {
            break status;
        }
        if Instant::now() >= deadline {
            return Err(format!("not done within {} s", timeout.as_secs()));
        }
        thread::sleep(LOOK);
    };
    let taken = |from: Receiver<Vec<u8>>| from.recv_timeout(LAST).unwrap_or_default();
    Ok(ProgramEnd { status, stdout: taken(stdout), stderr: taken(stderr) })
}

/// Reads a pipe to its end on a thread, and gives what is kept of it.
fn kept(pipe: Option<impl Read + Send + 'static>, most: u64) -> io::Result<Receiver<Vec<u8>>> {
    let (give, take) = channel();
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(most).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        let _ = give.send(bytes);
    };
    thread::Builder::new().spawn(read)?;
    Ok(take)
}
