//! Subjects of a measurement: anything that can be run again and again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::MeasurePlan;
use super::counter::Cycles;
use super::error::MeasureError;
use crate::system;

/// What a subject is, for the tables.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// What it is called; unique in its group.
    pub name: String,
    /// Those of one group are compared with each other.
    pub group: String,
    /// Whether it does less than the others by intention, to show what the rest of a time is: a null
    /// digest, a copy in memory, a read. Controls are not ranked.
    pub control: bool,
    /// The bytes that one repetition works on; zero where that has no meaning.
    pub bytes: u64,
    /// The files that it reads, of which the state of the cache matters.
    pub files: Vec<PathBuf>,
    /// What its digest must be. Without the right one no time of it counts.
    pub expected: Option<String>,
    /// The program that is started, if one is.
    pub program: Option<PathBuf>,
    /// How its files were when they were named.
    pub(super) stamps: Vec<Option<Stamp>>,
    /// What else tables and programs want to know of it, such as `digest` or `threads`.
    pub labels: BTreeMap<String, String>,
}

/// What changes with a file's content: length, time of writing, and whether it is still the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([u64; 5]);

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let about = std::fs::metadata(path).ok()?;
        let (written, nanoseconds) = (about.mtime() as u64, about.mtime_nsec() as u64);
        Some(Stamp([about.dev(), about.ino(), about.len(), written, nanoseconds]))
    }
}

impl About {
    /// A subject of this name and group.
    pub fn new(group: impl Into<String>, name: impl Into<String>) -> About {
        About { group: group.into(), name: name.into(), ..About::default() }
    }

    /// With another name.
    pub fn named(mut self, name: impl Into<String>) -> About {
        self.name = name.into();
        self
    }

    /// One that is not ranked.
    pub fn control(mut self) -> About {
        self.control = true;
        self
    }

    /// With so many bytes a repetition.
    pub fn bytes(mut self, bytes: u64) -> About {
        self.bytes = bytes;
        self
    }

    /// That reads this file.
    pub fn file(mut self, file: impl Into<PathBuf>) -> About {
        let file = file.into();
        self.stamps.push(Stamp::of(&file));
        self.files.push(file);
        self
    }

    /// The first of its files that is no longer what it was when it was named.
    pub fn changed(&self) -> Option<&Path> {
        let mut files = self.files.iter().zip(&self.stamps);
        files.find(|(file, stamp)| Stamp::of(file) != **stamp).map(|(file, _)| file.as_path())
    }

    /// Whose digest must be this.
    pub fn expect(mut self, digest: impl Into<String>) -> About {
        self.expected = Some(digest.into());
        self
    }

    /// With a label.
    pub fn label(mut self, name: &str, value: impl Into<String>) -> About {
        self.labels.insert(name.to_string(), value.into());
        self
    }
}

/// What a run took; times of all its repetitions together.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From beginning to end.
    pub wall: Duration,
    /// Processor time in the program.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The most memory at any time, in bytes; `None` where it cannot be known.
    pub memory: Option<u64>,
    /// Cycles of the processor outside the kernel, where there is a counter.
    pub cycles: Option<u64>,
    /// How crowded the core was: how long work that fills it took, as a multiple of work that waits for
    /// itself. [`super::measure`] adds it.
    pub crowding: Option<f64>,
    /// What it found, to be compared with what was expected.
    pub digest: Option<String>,
}

/// Anything that can be run again and again.
pub trait Subject {
    /// What it is.
    fn about(&self) -> &About;

    /// Is told how it will be measured, before all else.
    fn begin(&mut self, _: &MeasurePlan) {}

    /// Whether one run may repeat the work, so that it takes long enough to be timed. Programs are run
    /// once.
    fn repeats(&self) -> bool {
        false
    }

    /// Makes ready for a run. Its time does not count.
    fn prepare(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }

    /// Does the work so many times, and tells what all of it took. The subject measures itself, so that
    /// it can leave out what does not belong to the work.
    fn run(&mut self, repetitions: u32) -> Result<Measured, MeasureError>;
}

/// Work inside this process. Closures without a result are work too.
pub trait Work {
    /// Does it once.
    fn work(&mut self) -> Result<(), MeasureError>;

    /// What the last time found; asked for when the clock has stopped.
    fn digest(&mut self) -> Option<String> {
        None
    }

    /// Makes ready for a run, before the clock starts.
    fn prepare(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }
}

impl<F: FnMut() -> Result<(), MeasureError>> Work for F {
    fn work(&mut self) -> Result<(), MeasureError> {
        self()
    }
}

/// A subject inside this process: the clock and the counters are read once before and once after all
/// repetitions.
pub struct InProcess<W> {
    about: About,
    work: W,
    once: bool,
    cycles: Cycles,
    clock: fn() -> Instant,
}

impl<W: Work> InProcess<W> {
    /// Work to be measured.
    pub fn new(about: About, work: W) -> InProcess<W> {
        InProcess { about, work, once: false, cycles: Cycles::open(), clock: Instant::now }
    }

    /// Never repeats within a run: the work changes what it works on, or cold caches matter.
    pub fn once(mut self) -> InProcess<W> {
        self.once = true;
        self
    }

    /// As a subject among others.
    pub fn boxed<'a>(self) -> Box<dyn Subject + 'a>
    where
        W: 'a,
    {
        Box::new(self)
    }
}

impl<W: Work> Subject for InProcess<W> {
    fn about(&self) -> &About {
        &self.about
    }

    fn repeats(&self) -> bool {
        !self.once
    }

    fn prepare(&mut self) -> Result<(), MeasureError> {
        self.work.prepare()
    }

    fn run(&mut self, repetitions: u32) -> Result<Measured, MeasureError> {
        let before = system::own_usage();
        let cycles = self.cycles.start();
        let started = (self.clock)();
        for _ in 0..repetitions {
            self.work.work()?;
        }
        let wall = (self.clock)().duration_since(started);
        let cycles = self.cycles.since(cycles);
        let after = system::own_usage();
        Ok(Measured {
            wall,
            user: after.user.saturating_sub(before.user),
            system: after.system.saturating_sub(before.system),
            cycles,
            digest: self.work.digest(),
            ..Measured::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The cost of measuring does not grow with what is measured: a run that is calibrated to 10 ms, of
    /// thousands of repetitions, reads the clock twice.
    #[test]
    fn the_clock_is_read_twice_however_often_the_work_is_repeated() {
        static READ: AtomicU32 = AtomicU32::new(0);
        let mut count = 0;
        let mut subject = InProcess::new(About::new("", ""), || {
            count += 1;
            Ok(())
        });
        subject.clock = || {
            READ.fetch_add(1, Ordering::Relaxed);
            Instant::now()
        };
        subject.run(5000).unwrap();
        assert_eq!(READ.load(Ordering::Relaxed), 2);
        drop(subject);
        assert_eq!(count, 5000);
    }
}
