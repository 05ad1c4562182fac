//! A private temporary folder that is gone at the end, also when a user's signal brings the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::signals::ending_signals;

/// The image's length in bytes where there is room for it and for a full copy of it.
const IMAGE: u64 = 512 << 20;

/// The least that still shows something.
const SMALLEST_IMAGE: u64 = 48 << 20;

/// The folder. Dropping it removes it too.
pub(crate) struct Scratch {
    folder: TempDir,
    /// The program that is running for us.
    child: Arc<Mutex<Option<Pid>>>,
    /// Whether a signal is about to end this program.
    ending: Arc<AtomicBool>,
}

impl Scratch {
    /// Makes the folder, and a thread that removes it when a signal ends the program.
    pub(crate) fn new() -> Result<Scratch, Failure> {
        let parent = std::env::temp_dir();
        let failed = |error| Failure::File { name: parent.clone(), operation: "create a folder", error };
        // The thread comes first: a signal between the two must find it.
        let mut signals = Signals::new(ending_signals()).map_err(failed)?;
        let folder = tempfile::Builder::new().prefix("verisum-demo-").tempdir().map_err(failed)?;
        let child = Arc::new(Mutex::new(None));
        let ending = Arc::new(AtomicBool::new(false));
        let (path, running, noticed) = (folder.path().to_path_buf(), child.clone(), ending.clone());
        let clean = move || {
            if let Some(signal) = signals.forever().next() {
                noticed.store(true, Ordering::SeqCst);
                if let Some(child) = *running.lock().unwrap_or_else(PoisonError::into_inner) {
                    let _ = kill_process(child, Signal::KILL);
                }
                remove(&path);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        thread::Builder::new().spawn(clean).map_err(failed)?;
        Ok(Scratch { folder, child, ending })
    }

    /// The folder's name.
    pub(crate) fn folder(&self) -> String {
        names::quoted(self.folder.path().as_os_str())
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How long an image may be so that it and a full copy fit well.
    pub(crate) fn image_length(&self) -> Result<u64, Failure> {
        let path = self.folder.path();
        let space = rustix::fs::statvfs(path)
            .map_err(|error| Failure::file(path, "ask for free space", error.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let length = IMAGE.min(free / 3) >> 20 << 20;
        if length < SMALLEST_IMAGE {
            let error = io::ErrorKind::StorageFull.into();
            return Err(Failure::File { name: path.to_path_buf(), operation: "write", error });
        }
        Ok(length)
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |why: String| Failure::Program { name: name.clone(), why };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| failed(crate::ui::failure::cause(&error)))?;
        self.remember(Pid::from_raw(child.id() as i32));
        let ended = child.wait_with_output();
        self.remember(None);
        let ended = ended.map_err(|error| failed(crate::ui::failure::cause(&error)))?;
        Failure::of_program(&name, &ended)
    }

    fn remember(&self, child: Option<Pid>) {
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = child;
    }

    /// Removes the folder and says if that failed. Never returns if a signal is ending the program: what
    /// then fails, fails because the folder is gone.
    pub(crate) fn remove(self) -> Result<(), Failure> {
        let name = self.folder.path().to_path_buf();
        let removed = self.folder.close();
        while self.ending.load(Ordering::SeqCst) {
            thread::park();
        }
        removed.map_err(|error| Failure::File { name, operation: "remove", error })
    }
}

/// Removes a folder into which another thread may still write.
pub(crate) fn remove(path: &Path) {
    for _ in 0..100 {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

/// A program on the search path, or where the system keeps those for root.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}
