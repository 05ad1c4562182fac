//! The small process that starts the programs that are measured: this program, called by another name.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use verisum_lab::measure::{Starter, serve};

use crate::commands::demo::scratch::ending_signals;
use crate::exit::Exit;

/// The name that it is called by.
const NAME: &str = "verisum-starter";

/// One that begins with the first program, and kills what runs when `stop` becomes true.
pub(super) fn starter(stop: Arc<AtomicBool>) -> Starter {
    // Also when the file that this program was started from is no longer there.
    Starter::new("/proc/self/exe", NAME, stop)
}

/// Does its work, if this process is called by its name.
pub(crate) fn called() -> Option<ExitCode> {
    std::env::args_os().next().filter(|name| name == NAME)?;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        // Without a handler it would end before it could end the program that runs.
        let _ = signal_hook::flag::register(signal, stopped.clone());
    }
    // Who asked sees that there is no answer.
    let served = serve(&|| stopped.swap(false, Ordering::Relaxed));
    Some(if served.is_ok() { Exit::Clean.into() } else { Exit::Unchecked.into() })
}
