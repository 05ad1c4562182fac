//! How much all commands print: `-v` also names what is well, and `-vv` says how the work is done.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{PROGRAM, say};
use verisum::files::lock;

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// What was told of how the work is done: each is told once.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Takes how often `-v` was given.
pub(crate) fn choose(level: u8) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// Whether what nothing is wrong with is named too.
pub(crate) fn names_all() -> bool {
    LEVEL.load(Ordering::Relaxed) >= 1
}

/// Of how many files or lines of a list it is told on standard error why they cannot be compared, without `--verbose`. A
/// short line may stand for a long name.
const REASONS: u64 = 1000;

/// Whether it is told why a file or line of a list cannot be compared, of which there were so many.
pub(crate) fn tells_reason(count: u64) -> bool {
    count <= REASONS || names_all()
}

/// How many reasons were not told, of so many.
pub(crate) fn untold_reasons(count: u64) -> Option<String> {
    (!tells_reason(count)).then(|| format!("... and {} more (--verbose tells why)", count - REASONS))
}

/// Tells with what or where the work is done, if that is wanted.
pub(crate) fn how(text: impl FnOnce() -> String) {
    tell(2, text);
}

/// Tells what changes what the work comes to, and is no error.
pub(crate) fn note(text: impl FnOnce() -> String) {
    tell(1, text);
}

fn tell(level: u8, text: impl FnOnce() -> String) {
    if LEVEL.load(Ordering::Relaxed) < level {
        return;
    }
    let text = text();
    if lock(&TOLD).insert(text.clone()) {
        say(PROGRAM, &text);
    }
}

/// Tells how long a run took and how much memory, if that is wanted.
pub(crate) fn end(time: std::time::Duration) {
    how(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let memory =
            peak.map_or(String::new(), |peak| format!(", {} of memory", super::sizes::human(peak << 10)));
        format!("took {:.1} s{memory}", time.as_secs_f64())
    });
}
