//! The processor's own count of its cycles.
//!
//! The time stamp counter is no count of cycles: it ticks at one rate whatever the clock of the core.
//! Where there is no counter, as in most virtual machines, nothing is said of cycles.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// The count of cycles outside the kernel, of this thread and those it starts from now on, and of the
/// programs that it starts once they have ended. `None` where there is none.
pub struct Cycles(Option<Counter>);

impl Cycles {
    /// Opens the counter.
    pub fn open() -> Cycles {
        let counter = Builder::new(Hardware::CPU_CYCLES).inherit(true).build();
        Cycles(counter.ok().and_then(|mut counter| counter.enable().is_ok().then_some(counter)))
    }

    /// Why there is no counter, or `None` if there is one.
    pub fn missing() -> Option<String> {
        let error = Builder::new(Hardware::CPU_CYCLES).build().err()?;
        Some(match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
                "the processor shows no counter, as in most virtual machines".to_string()
            }
            Some(libc::EACCES | libc::EPERM) => {
                "not permitted; /proc/sys/kernel/perf_event_paranoid decides".to_string()
            }
            Some(libc::ENOSYS) => "the kernel has no counters".to_string(),
            _ => error.to_string(),
        })
    }

    /// The count now.
    pub fn start(&mut self) -> Option<u64> {
        self.0.as_mut()?.read().ok()
    }

    /// How many since then.
    pub fn since(&mut self, start: Option<u64>) -> Option<u64> {
        let start = start?;
        let now = self.0.as_mut()?.read().ok()?;
        // A counter that never ran is none.
        now.checked_sub(start).filter(|&count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_cycles_or_a_reason() {
        let mut cycles = Cycles::open();
        let start = cycles.start();
        std::hint::black_box((0..100_000u64).fold(1u64, |sum, i| std::hint::black_box(sum ^ i)));
        match Cycles::missing() {
            None => assert!(cycles.since(start).is_none_or(|count| count > 10_000)),
            Some(why) => assert!(!why.is_empty() && cycles.since(start).is_none()),
        }
    }
}
