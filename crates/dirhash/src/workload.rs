//! Creates, lookups and deletes in a real directory, timed.
//!
//! Where the directory lies, and what is done between two of these, is for the caller to say.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::names::Names;

/// What is done with each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An empty file is created, which must not exist yet.
    Create,
    /// Its status is asked for.
    Stat,
    /// It is deleted.
    Delete,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the clock.
    pub real: Duration,
    /// Of this program, in steps of 10 ms.
    pub user: Duration,
    /// Of the system for it, in steps of 10 ms. What the system does for nobody is not in it.
    pub system: Duration,
    /// Both together, to the nanosecond.
    pub processor: Duration,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.real += other.real;
        self.user += other.user;
        self.system += other.system;
        self.processor += other.processor;
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What it took.
    pub spent: Spent,
    /// With how many names.
    pub names: u64,
    /// Whether a create found the directory's index, or the file system, full.
    pub full: bool,
}

/// Why it ended early.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Somebody asked for the end.
    #[error("interrupted")]
    Stopped,
    /// A system call failed.
    #[error("{operation}: {error}")]
    System {
        /// Which.
        operation: &'static str,
        /// Why.
        error: io::Error,
    },
}

/// Does it with the names of these numbers, in their order; then, untimed, brings all to the disk.
///
/// # Errors
/// If a name cannot be treated so, or `stop` becomes true.
pub fn perform(
    directory: &Path,
    act: Act,
    names: &Names,
    numbers: impl Iterator<Item = u64>,
    stop: &AtomicBool,
) -> Result<Done, WorkloadError> {
    let failed =
        |operation| move |error: Errno| WorkloadError::System { operation, error: io::Error::from(error) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed("open"))?;
    let mut buffer = Vec::new();
    let (mut count, mut full) = (0, false);
    let clock = Clock::start();
    for number in numbers {
        if stop.load(Ordering::Relaxed) {
            return Err(WorkloadError::Stopped);
        }
        let name = names.name(number, &mut buffer);
        match act {
            Act::Create => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                match rustix::fs::openat(&folder, name, flags, Mode::RUSR | Mode::WUSR) {
                    Err(Errno::NOSPC) => {
                        full = true;
                        break;
                    }
                    other => drop(other.map_err(failed("create"))?),
                }
            }
            Act::Stat => {
                rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed("stat"))?;
            }
            Act::Delete => rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(failed("delete"))?,
        }
        count += 1;
    }
    let spent = clock.spent();
    rustix::fs::syncfs(&folder).map_err(failed("sync"))?;
    Ok(Done { spent, names: count, full })
}

/// Runs from its start.
pub(super) struct Clock {
    times: (Duration, Duration),
    started: Instant,
    processor: Duration,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { times: processor_times(), started: Instant::now(), processor: processor_time() }
    }

    /// What it took since then.
    pub(super) fn spent(&self) -> Spent {
        let (real, processor) = (self.started.elapsed(), processor_time().saturating_sub(self.processor));
        let (user, system) = processor_times();
        Spent {
            real,
            user: user.saturating_sub(self.times.0),
            system: system.saturating_sub(self.times.1),
            processor,
        }
    }
}

/// What this process has used of processors so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// User and system time of this process so far; zero where the system does not tell.
fn processor_times() -> (Duration, Duration) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second word is the program's name, which may hold spaces: count from its end.
    let after = text.rfind(')').map_or("", |place| &text[place + 1..]);
    let mut words = after.split_whitespace().skip(11);
    // Clock ticks, of which programs see a hundred a second on every Linux.
    let mut next = || {
        let ticks: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        Duration::from_millis(10 * ticks)
    };
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::parse("foo%d").unwrap();
        let stop = AtomicBool::new(false);
        let perform = |act| perform(folder.path(), act, &names, (0..100).rev(), &stop);
        assert!(perform(Act::Stat).is_err());
        let done = perform(Act::Create).unwrap();
        assert_eq!((done.names, done.full), (100, false));
        assert!(folder.path().join("foo99").is_file());
        assert!(perform(Act::Create).is_err(), "they exist");
        perform(Act::Stat).unwrap();
        perform(Act::Delete).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(perform(Act::Create), Err(WorkloadError::Stopped)));
    }

    #[test]
    fn this_process_has_used_some_time() {
        let started = Instant::now();
        let before = (processor_time(), processor_times());
        while processor_times() == before.1 {
            assert!(started.elapsed() < Duration::from_secs(60), "no time passes");
        }
        assert!(processor_time() > before.0);
    }
}
