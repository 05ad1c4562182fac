//! Private temporary folders and running programs. All are gone at the end, also after a signal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use verisum::files::lock;
use verisum_bench::filesystem::WorkFolder;
use verisum_bench::measure::MeasureError;

use crate::ui::failure::{self, Failure};
use crate::ui::signals::{self, ending_signals};
use crate::ui::sizes::human;

/// Signals within so much time are one: `timeout` sends two, one to the program and one to its group.
const ONE: Duration = Duration::from_millis(250);

/// The folders and programs of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch(Arc<Mutex<Vec<ScratchItem>>>);

#[derive(Debug, PartialEq, Eq)]
enum ScratchItem {
    Folder(PathBuf),
    Process(Pid),
}

impl Scratch {
    /// Catches signals from here on. The first sets `stop`, so that what was measured is kept; the second, or
    /// the first where nothing can be stopped, removes what there is, and ends the program.
    pub(crate) fn watch(&self, stop: Option<Arc<AtomicBool>>) -> Result<(), Failure> {
        let scratch = self.clone();
        let mut first = None;
        let watch = move |signal| {
            let came = *first.get_or_insert_with(Instant::now);
            if let Some(stop) = &stop {
                stop.store(true, Ordering::SeqCst);
            }
            if stop.is_none() || came.elapsed() > ONE {
                scratch.clean();
                signals::obey(signal);
            }
        };
        signals::watch(&ending_signals(), watch).map(drop)
    }

    /// A private folder in `parent`, or where temporary files belong.
    pub(crate) fn folder(&self, parent: Option<&Path>) -> Result<Folder, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let failed = |error| Failure::File { name: parent.clone(), operation: "create a folder", error };
        // The program runs in the folder of the user: names in other folders must not depend on that.
        let parent = std::path::absolute(&parent).map_err(failed)?;
        // With the lock held a signal finds the folder listed, or not made. What killed runs left goes.
        let mut all = self.lock();
        let folder = WorkFolder::in_folder(&parent).map_err(|error| match error {
            MeasureError::Io { path, source, .. } if path == parent => failed(source),
            MeasureError::Io { path, operation, source } => {
                Failure::File { name: path, operation, error: source }
            }
            error => failed(io::Error::other(error.to_string())),
        })?;
        all.push(ScratchItem::Folder(folder.path().to_path_buf()));
        drop(all);
        Ok(Folder { folder: Some(folder), scratch: self.clone() })
    }

    /// Starts a program that runs until the server is dropped.
    pub(crate) fn server(&self, command: &mut Command) -> io::Result<Server> {
        let mut all = self.lock();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        all.push(ScratchItem::Process(Pid::from_child(&child)));
        drop(all);
        Ok(Server { child, scratch: self.clone() })
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| Failure::Program { name: name.clone(), why: failure::cause(&error) };
        let mut all = self.lock();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(failed)?;
        let process = ScratchItem::Process(Pid::from_child(&child));
        all.push(ScratchItem::Process(Pid::from_child(&child)));
        drop(all);
        let ended = child.wait_with_output();
        self.forget(&process);
        Failure::of_program(&name, &ended.map_err(failed)?)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ScratchItem>> {
        lock(&self.0)
    }

    fn forget(&self, item: &ScratchItem) {
        self.lock().retain(|one| one != item);
    }

    fn clean(&self) {
        // The lock is never given back: nothing more shall be made.
        let all = std::mem::ManuallyDrop::new(self.lock());
        for one in all.iter() {
            if let ScratchItem::Process(process) = one {
                let _ = kill_process(*process, Signal::KILL);
            }
        }
        for one in all.iter() {
            if let ScratchItem::Folder(folder) = one {
                remove(folder);
            }
        }
    }
}

/// A private folder; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: Option<WorkFolder>,
    scratch: Scratch,
}

impl Folder {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), |folder| folder.path())
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
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
        let removed = self.folder.take().map_or(Ok(()), WorkFolder::remove);
        self.scratch.forget(&ScratchItem::Folder(name.clone()));
        removed.map_err(|error| match error {
            MeasureError::Io { path, operation, source } => {
                Failure::File { name: path, operation, error: source }
            }
            error => Failure::File { name, operation: "remove", error: io::Error::other(error.to_string()) },
        })
    }
}

/// Removes a folder into which another thread may still write.
fn remove(path: &Path) {
    for _ in 0..100 {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(Duration::from_millis(5)),
            _ => return,
        }
    }
}

/// What is left free for others.
const SPARE: u64 = 64 << 20;

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            let name = folder.path().to_path_buf();
            drop(folder);
            self.scratch.forget(&ScratchItem::Folder(name));
        }
    }
}

/// A program that serves; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    scratch: Scratch,
}

impl Server {
    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.scratch.forget(&ScratchItem::Process(Pid::from_child(&self.child)));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
