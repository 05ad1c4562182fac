//! The small helper process that starts the measured programs. It is this program under another name.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use verisum_bench::measure::{Starter, find_program, serve};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::signals;

/// The name that it is called by.
const NAME: &str = "verisum-starter";

/// What the kernel calls this program.
const SELF: &str = "/proc/self/exe";

/// One that begins with the first program, and kills what runs when `stop` becomes true.
pub(super) fn starter(stop: Arc<AtomicBool>) -> Starter {
    // Also when the file that this program was started from is no longer there.
    let program = match Path::new(SELF).exists() {
        true => SELF.into(),
        false => own_program().unwrap_or(SELF.into()),
    };
    Starter::new(program, NAME, stop)
}

/// Where the file is that this program was started from; where no /proc is mounted, by how it was called.
pub(super) fn own_program() -> Result<PathBuf, Failure> {
    let called = || {
        let name = std::env::args_os().next()?;
        let path = Path::new(&name);
        match path.components().count() {
            1 => find_program(path.to_str()?, std::env::var_os("PATH").as_deref()),
            _ => std::path::absolute(path).ok(),
        }
    };
    let found = std::env::current_exe().ok().or_else(called).filter(|path| path.exists());
    let missing = || Failure::file(SELF, "find this program", rustix::io::Errno::NOENT.into());
    found.ok_or_else(missing)
}

/// Does its work, if this process is called by its name.
pub(crate) fn called() -> Option<ExitCode> {
    std::env::args_os().next().filter(|name| name == NAME)?;
    let stopped = Arc::new(AtomicBool::new(false));
    // Without a handler it would end before it could end the program that runs.
    signals::note_ending(&stopped);
    // Who asked sees that there is no answer.
    let served = serve(&|| stopped.swap(false, Ordering::Relaxed));
    Some(if served.is_ok() { Exit::Clean.into() } else { Exit::Unchecked.into() })
}
