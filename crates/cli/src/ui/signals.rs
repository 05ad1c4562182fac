//! Signals (SIGINT, SIGTERM and others): which of them end the program, and what is done first. No other module
//! registers handlers, but for that of the library for SIGBUS, which `main` asks for.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGUSR1, SIGXFSZ};
pub(crate) use signal_hook::iterator::Handle;
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

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
            flag::register_usize(signal, ending.signal.clone(), signal as usize)
                .and_then(|_| flag::register(signal, ending.asked.clone()))
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
            obey(signal);
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

/// How long a signal is taken for the same as the one before: `timeout` sends one to the program, and one to its group.
const SAME: Duration = Duration::from_millis(100);

/// Lets the first SIGINT or SIGTERM ask for the end, and a later one end the program at once; one that the program was
/// started to ignore stays without effect.
pub(crate) fn ask_once() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    let signals: Vec<i32> =
        ending_signals().into_iter().filter(|signal| [SIGINT, SIGTERM].contains(signal)).collect();
    let (ask, mut first) = (asked.clone(), None);
    watch(&signals, move |signal| {
        ask.store(true, Ordering::SeqCst);
        if first.get_or_insert_with(Instant::now).elapsed() > SAME {
            obey(signal);
        }
    })?;
    Ok(asked)
}

/// Calls `each` with every one of these signals that comes, on a thread of its own. The handle ends that; the
/// signals have no other effect any more.
pub(crate) fn watch(signals: &[i32], mut each: impl FnMut(i32) + Send + 'static) -> Result<Handle, Failure> {
    let mut signals = Signals::new(signals).map_err(Failure::of_signals)?;
    let handle = signals.handle();
    let watch = move || signals.forever().for_each(&mut each);
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(Failure::of_signals)?;
    Ok(handle)
}

/// Notes the signals that end programs, which then end this one no more.
pub(crate) fn note_ending(asked: &Arc<AtomicBool>) {
    for signal in ending_signals() {
        let _ = flag::register(signal, asked.clone());
    }
}

/// Notes whether somebody asks how far it is (SIGUSR1), of which the program would die. Where a signal cannot be caught
/// it has its usual effect.
pub(crate) fn note_question(asked: &Arc<AtomicBool>) {
    let _ = flag::register(SIGUSR1, asked.clone());
}

/// Makes writing beyond the limit of a file's size (`ulimit -f`) an error that is told, and after which all
/// that was made is removed; the signal for it would end the program. Programs that it starts have the signal
/// as it was.
pub(crate) fn survive_limits() {
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Lets a signal have its usual effect.
pub(crate) fn obey(signal: i32) {
    let _ = low_level::emulate_default_handler(signal);
}
