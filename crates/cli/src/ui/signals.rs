//! Ends the program on signals, once nothing of its work is left behind.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::ui::failure::Failure;
use crate::ui::log;

/// Notes signals instead of dying of them.
pub(crate) struct Ending {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Ending {
    /// From now on.
    pub(crate) fn new() -> Result<Ending, Failure> {
        let ending = Ending { asked: Arc::default(), signal: Arc::default() };
        for signal in ending_signals() {
            signal_hook::flag::register_usize(signal, ending.signal.clone(), signal as usize)
                .and_then(|_| signal_hook::flag::register(signal, ending.asked.clone()))
                .map_err(Failure::of_signals)?;
        }
        Ok(ending)
    }

    /// Whether a signal asked for the end.
    pub(crate) fn asked(&self) -> &Arc<AtomicBool> {
        &self.asked
    }

    /// Lets a signal that came have its usual effect, now that nothing is left to clean up.
    pub(crate) fn obey(&self) {
        if self.asked.load(Ordering::SeqCst) {
            let signal = self.signal.load(Ordering::SeqCst) as i32;
            let _ = log::end(&format!("signal {signal}"));
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

/// The signals that a user ends programs with, but for those that this one was started to ignore, as
/// `nohup` does.
pub(crate) fn ending_signals() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let mut signals = vec![SIGHUP, SIGINT, SIGQUIT, SIGTERM];
    signals.retain(|signal| ignored >> (signal - 1) & 1 == 0);
    signals
}
