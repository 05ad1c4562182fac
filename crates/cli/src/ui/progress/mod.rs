//! The progress line on a terminal: for [images](of_image), [many files](of_files), and [work in steps](of_steps).
//!
//! Why `indicatif` does not draw it: docs/architecture.md, "Charts and progress are our own".

mod files;
mod line;
mod steps;

use std::ffi::OsStr;
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::{FileType, fstat};
use verisum::blockhash::ImageProgress;
use verisum::files::lock;

use crate::ui::{names, terminal};

pub(crate) use files::{Total, of_files};
pub(crate) use line::clock;
pub(crate) use steps::{CountedReader, count_steps_of, expect_files, expect_steps, of_steps, steps_done};

/// How often the line is drawn anew.
const INTERVAL: Duration = Duration::from_millis(100);

/// To the start of the line, and erase it.
const ERASE: &str = "\r\x1b[K";

/// From when on it is drawn where nothing is said.
const DELAY: Duration = Duration::from_secs(1);

/// Whether the line is on the terminal now. Who prints holds this meanwhile.
static LINE: Mutex<bool> = Mutex::new(false);

/// Options of what may take long.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ProgressArgs {
    /// Show progress from the start; without it, after a second, unless the output goes to a pipe
    #[arg(short, long)]
    progress: bool,

    /// Show no progress
    #[arg(long, conflicts_with = "progress")]
    no_progress: bool,
}

impl ProgressArgs {
    /// Whether to draw progress.
    pub(crate) fn show(self) -> ShowProgress {
        match (self.progress, self.no_progress) {
            (_, true) => ShowProgress::Never,
            (true, false) => ShowProgress::Always,
            (false, false) => ShowProgress::Late,
        }
    }
}

/// Whether progress is to be drawn where standard error is a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ShowProgress {
    #[default]
    Never,
    /// After a second, unless the output goes to a pipe: a pager may have the terminal.
    Late,
    Always,
}

impl ShowProgress {
    /// After which time it is drawn, if ever.
    fn after(self) -> Option<Duration> {
        let delay = match self {
            ShowProgress::Never => return None,
            ShowProgress::Late if is_piped() => return None,
            ShowProgress::Late => DELAY,
            ShowProgress::Always => Duration::ZERO,
        };
        is_drawn().then_some(delay)
    }
}

/// Whether standard error is a terminal that can erase a line. `dumb` says that it is none, as in editors.
pub(crate) fn is_drawn() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether another program reads standard output.
fn is_piped() -> bool {
    let stat = fstat(rustix::stdio::stdout());
    stat.is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}

/// Erases the line, if there is one, for something to be printed in its place. It is not drawn again before
/// the result is dropped.
pub(crate) fn make_room() -> MutexGuard<'static, bool> {
    let mut drawn = lock(&LINE);
    if std::mem::take(&mut *drawn) {
        let _ = stderr().write_all(ERASE.as_bytes());
    }
    drawn
}

/// Whether the line is on the terminal.
pub(crate) fn is_shown() -> bool {
    *lock(&LINE)
}

/// Draws the line anew.
fn draw(line: &str) {
    let mut drawn = lock(&LINE);
    *drawn = stderr().write_all(format!("{ERASE}{line}").as_bytes()).is_ok();
}

/// Draws a line on standard error, as much of it as fits, if that is a terminal; nothing erases what was there.
pub(crate) fn show_line(line: &str) {
    if is_drawn() {
        let line: String = line.chars().take(width().saturating_sub(1)).collect();
        let _ = stderr().write_all(format!("{ERASE}{line}").as_bytes());
    }
}

/// Whether ssh may ask on the terminal: a line that is drawn again and again would hide what it asks.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Leaves the terminal to ssh, which may ask for a password on it.
pub(crate) fn leave_terminal() {
    IS_ASKED.store(true, Ordering::Relaxed);
}

/// Does `work`, and draws the progress that it makes on standard error if that is `wanted` and standard
/// error is a terminal; of one of several inputs, with its name. The line is gone when this returns. Nothing
/// about the terminal is changed that a signal could leave behind.
pub(crate) fn of_image<T>(
    wanted: ShowProgress,
    name: Option<&OsStr>,
    length: Option<u64>,
    work: impl FnOnce(&ImageProgress) -> T,
) -> T {
    let progress = ImageProgress::default();
    let Some(delay) = wanted.after() else {
        return work(&progress);
    };
    let short = |name| names::quoted(Path::new(name).file_name().unwrap_or(name));
    let name = name.map(short).unwrap_or_default();
    let tick = |time: Duration| {
        if time < delay {
            return;
        }
        let width = width();
        // The name gives way to what is said of it.
        let (start, rests) = line::words(line::Unit::Bytes, progress.bytes(), length, None, time);
        let free = width.saturating_sub(start.len() + rests[0].len() + 1);
        let head = line::head(&name, width.min(3 * free));
        let line = line::line(progress.bytes(), length, time, width.saturating_sub(line::columns(&head)), "");
        draw(&format!("{head}{line}"));
    };
    let result = watched(&tick, || work(&progress));
    drop(make_room());
    result
}

/// Does `work`, and calls `tick` with the time that has passed again and again meanwhile.
fn watched<T>(tick: &(dyn Fn(Duration) + Sync), work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let watcher = move || {
            let started = Instant::now();
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                tick(started.elapsed());
            }
        };
        // Without a thread there is no line, and the work is done all the same.
        let watcher = thread::Builder::new().spawn_scoped(scope, watcher);
        let result = work();
        drop(done);
        if let Ok(watcher) = watcher {
            let _ = watcher.join();
        }
        result
    })
}

/// The number of columns of the terminal.
fn width() -> usize {
    terminal::width(rustix::stdio::stderr())
}
