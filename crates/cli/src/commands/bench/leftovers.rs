//! Removes temporary folders and servers at the end, also when a second signal ends the program at once.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::iterator::Signals;
use verisum_bench::filesystem::Place;
use verisum_bench::measure::Error;

use crate::ui::failure::Failure;
use crate::ui::scratch::remove;
use crate::ui::signals::ending_signals;
use crate::ui::sizes::human;

/// Signals within so much time are one: `timeout` sends two, one to the program and one to its group.
const ONE: Duration = Duration::from_millis(250);

/// The folders and servers of a measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers(Arc<Mutex<Vec<Leftover>>>);

#[derive(Debug, PartialEq, Eq)]
enum Leftover {
    Folder(PathBuf),
    Process(Pid),
}

impl Leftovers {
    /// Catches signals from here on. The first sets `stop`, so that what was measured is kept; the
    /// second removes what is left, and ends the program.
    pub(super) fn watch(&self, stop: Arc<AtomicBool>) -> Result<(), Failure> {
        let failed = Failure::of_signals;
        let mut signals = Signals::new(ending_signals()).map_err(failed)?;
        let leftovers = self.clone();
        let watch = move || {
            let mut first = None;
            for signal in signals.forever() {
                stop.store(true, Ordering::SeqCst);
                if first.get_or_insert_with(Instant::now).elapsed() > ONE {
                    leftovers.clean();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        };
        std::thread::Builder::new().spawn(watch).map_err(failed)?;
        Ok(())
    }

    /// A private folder in `parent`, or where temporary files belong.
    pub(crate) fn folder(&self, parent: Option<&Path>) -> Result<Folder, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let failed = |error| Failure::File { name: parent.clone(), operation: "create a folder", error };
        // The program runs in the folder of the user: names in other folders must not depend on that.
        let parent = std::path::absolute(&parent).map_err(failed)?;
        // With the lock held a signal finds the folder listed, or not made. What killed runs left goes.
        let mut all = self.lock();
        let folder = Place::in_folder(&parent).map_err(|error| match error {
            Error::Io { path, operation, source } => Failure::File { name: path, operation, error: source },
            error => failed(io::Error::other(error.to_string())),
        })?;
        all.push(Leftover::Folder(folder.path().to_path_buf()));
        drop(all);
        Ok(Folder { folder: Some(folder), leftovers: self.clone() })
    }

    /// Starts a program that runs until the server is dropped.
    pub(crate) fn server(&self, command: &mut Command) -> io::Result<Server> {
        let mut all = self.lock();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        all.push(Leftover::Process(Pid::from_child(&child)));
        drop(all);
        Ok(Server { child, leftovers: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Leftover>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, leftover: &Leftover) {
        self.lock().retain(|one| one != leftover);
    }

    fn clean(&self) {
        // The lock is never given back: nothing more shall be made.
        let all = std::mem::ManuallyDrop::new(self.lock());
        for one in all.iter() {
            if let Leftover::Process(process) = one {
                let _ = kill_process(*process, Signal::KILL);
            }
        }
        for one in all.iter() {
            if let Leftover::Folder(folder) = one {
                remove(folder);
            }
        }
    }
}

/// A private folder; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: Option<Place>,
    leftovers: Leftovers,
}

impl Folder {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), |folder| folder.path())
    }

    /// The bytes that may be written there.
    pub(crate) fn free(&self) -> Result<u64, Failure> {
        let path = self.path();
        let space = rustix::fs::statvfs(path)
            .map_err(|error| Failure::file(path, "ask for free space", error.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Fails where there is no room for so many bytes, and some to spare.
    pub(crate) fn needs(&self, bytes: u64) -> Result<(), Failure> {
        let free = self.free()?;
        if bytes.saturating_add(SPARE) <= free {
            return Ok(());
        }
        let why = format!("needs {}, of which {} are free", human(bytes.saturating_add(SPARE)), human(free));
        let error = io::Error::other(format!("{why} (--on takes another folder)"));
        Err(Failure::File { name: self.path().to_path_buf(), operation: "write", error })
    }

    /// Removes it, and says if that failed.
    pub(crate) fn remove(mut self) -> Result<(), Failure> {
        let name = self.path().to_path_buf();
        let removed = self.folder.take().map_or(Ok(()), Place::remove);
        self.leftovers.forget(&Leftover::Folder(name.clone()));
        removed.map_err(|error| match error {
            Error::Io { path, operation, source } => Failure::File { name: path, operation, error: source },
            error => Failure::File { name, operation: "remove", error: io::Error::other(error.to_string()) },
        })
    }
}

/// What is left free for others.
const SPARE: u64 = 64 << 20;

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            let name = folder.path().to_path_buf();
            drop(folder);
            self.leftovers.forget(&Leftover::Folder(name));
        }
    }
}

/// A program that serves; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    leftovers: Leftovers,
}

impl Server {
    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.leftovers.forget(&Leftover::Process(Pid::from_child(&self.child)));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
