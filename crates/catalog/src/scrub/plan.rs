//! Chooses the files that are due, within the run's time budget.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::ScrubOptions;
use super::forecast::interval;
use crate::store::{Moment, RecordSummary, Run, Stamp, State};
use verisum_files::{FUTURE, Stat};

/// How many files are ordered at once; among so many, shuffling takes place.
pub(super) const PAGE: usize = 4096;

/// When a run reads a file, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// It was bad, or not accepted, after an earlier run.
    Bad,
    /// It is new, or somebody wrote to it, or it is back.
    Fresh,
    /// It is as it was, and due.
    Stale,
}

/// Chances of files, the same all through a run.
#[derive(Default)]
pub(super) struct Dice(RandomState);

impl Dice {
    pub(super) fn throw(&self, file: impl Hash) -> u64 {
        self.0.hash_one(file)
    }

    /// Whether a file is among those of a random share.
    pub(super) fn takes(&self, file: impl Hash, share: f64) -> bool {
        self.throw(file) as f64 / u64::MAX as f64 <= share
    }
}

/// What a run is to do.
pub(super) struct Plan {
    /// Files verified before this are due.
    pub before: Moment,
    /// Files verified after this are due too.
    pub future: Moment,
    /// When the cycle began that this run goes on with.
    pub cycle: Moment,
    /// Whether the walk reads what is due when it comes to it. Where all that is due is read, its order gains
    /// nothing, and to look at each file once more takes as long as the walk.
    pub is_in_one_pass: bool,
    now: Moment,
    start: Instant,
    budget: Option<Duration>,
    /// How long after the start no more files are begun.
    end: AtomicU64,
    /// Whether files are about to be read, and none was so far.
    begins: AtomicBool,
}

impl Plan {
    pub(super) fn new(options: &ScrubOptions, history: &[Run], start: Instant) -> Plan {
        // An interrupted run is resumed.
        let cycle = match history.first() {
            Some(last) if !last.complete && last.cycle <= options.started() => last.cycle,
            _ => options.started(),
        };
        let before = match (options.since, options.max_age) {
            (Some(since), _) => since.into(),
            (None, Some(age)) => options.started() - in_advance(age, options.budget, history),
            (None, None) => cycle,
        };
        Plan {
            before: before.min(options.started()),
            future: options.started() + FUTURE + options.budget.unwrap_or_default(),
            cycle,
            is_in_one_pass: options.budget.is_none() && options.sample >= 1.0 && !options.shuffle,
            now: options.started(),
            start,
            budget: options.budget,
            end: AtomicU64::new(options.budget.map_or(u64::MAX, nanoseconds)),
            begins: AtomicBool::new(false),
        }
    }

    /// When a file is read that was found, by the state of its record; none if it is not due.
    pub(super) fn turn(
        &self,
        state: State,
        verified: Moment,
        is_written_to: impl FnOnce() -> bool,
    ) -> Option<Turn> {
        match state {
            State::Sound if is_written_to() => Some(Turn::Fresh),
            State::Sound => self.is_due(verified).then_some(Turn::Stale),
            State::MISSING => Some(Turn::Fresh),
            State::Trouble(_) => Some(Turn::Bad),
        }
    }

    /// The same of a file of this machine: whether it is fresh.
    pub(super) fn is_fresh(&self, known: &RecordSummary, stat: &Stat) -> bool {
        let is_written_to = || {
            (known.size, known.mtime, known.ctime)
                != (stat.size, Stamp::from(stat.modified), Stamp::from(stat.changed))
        };
        self.turn(known.state, known.verified, is_written_to) == Some(Turn::Fresh)
    }

    /// Whether a file that was verified then is due.
    fn is_due(&self, verified: Moment) -> bool {
        verified < self.before || verified > self.future
    }

    /// Whether the walk reads a file that has not changed.
    pub(super) fn is_read_by_walk(&self, known: &RecordSummary) -> bool {
        // Damage to a record is found here.
        let is_in_turn = matches!(known.state, State::Sound | State::DAMAGED);
        self.is_in_one_pass && self.is_due(known.verified) && is_in_turn
    }

    /// Files are about to be read. On a busy machine, what comes before the first can take all of the budget in each
    /// run, and no run would ever verify anything: so from here on a tenth of the budget is left, and the time is not
    /// over before one is read.
    pub(super) fn begin_reading(&self) {
        self.leave_a_tenth();
        self.begins.store(self.budget.is_some_and(|budget| !budget.is_zero()), Ordering::Relaxed);
    }

    /// A file was read.
    pub(super) fn has_read(&self) {
        if self.begins.load(Ordering::Relaxed) {
            self.begins.store(false, Ordering::Relaxed);
        }
    }

    /// Leaves a tenth of the budget from here on.
    pub(super) fn leave_a_tenth(&self) {
        if let Some(budget) = self.budget {
            self.end.fetch_max(nanoseconds(self.start.elapsed() + budget / 10), Ordering::Relaxed);
        }
    }

    /// Whether there is no time for another file.
    pub(super) fn is_over(&self) -> bool {
        let is_late = || nanoseconds(self.start.elapsed()) >= self.end.load(Ordering::Relaxed);
        self.budget.is_some() && !self.begins.load(Ordering::Relaxed) && is_late()
    }

    /// The time by a clock that started at the time that the run was given.
    pub(super) fn now(&self) -> Moment {
        self.now + self.start.elapsed()
    }
}

/// Durations of more than 500 years are cut.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The age at which a file is due so that none gets older than `age`.
///
/// With a budget that is half of it. Files come due in heaps, as they were once recorded; from half the
/// age on there is as much time again to work a heap off, so that the promise is kept whenever the
/// budget is enough for all files within the age. Without a budget the run does all that is due, and
/// only what would be too old at the next run has to be done before its time.
fn in_advance(age: Duration, budget: Option<Duration>, history: &[Run]) -> Duration {
    match budget {
        Some(_) => age / 2,
        None => age - interval(history).unwrap_or_default().min(age / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn runs(days: &[i64]) -> Vec<Run> {
        days.iter()
            .map(|day| Run { started: Moment::of_milliseconds(day * 86_400_000), ..Run::default() })
            .collect()
    }

    #[test]
    fn a_long_walk_leaves_a_tenth_of_the_budget_for_reading() {
        let plan = |budget| {
            let options = ScrubOptions { budget: Some(budget), ..ScrubOptions::default() };
            Plan::new(&options, &[], Instant::now().checked_sub(DAY).unwrap())
        };
        let late = plan(DAY / 2);
        assert!(late.is_over());
        late.begin_reading();
        assert!(!late.is_over());
        late.has_read();
        assert!(!late.is_over());
        late.end.store(0, Ordering::Relaxed);
        late.has_read();
        assert!(late.is_over());
        let never = plan(Duration::ZERO);
        never.begin_reading();
        assert!(never.is_over());
        assert!(!plan(Duration::MAX).is_over());
    }

    #[test]
    fn files_are_due_before_they_are_too_old() {
        assert_eq!(in_advance(90 * DAY, Some(DAY), &[]), 45 * DAY);
        assert_eq!(in_advance(90 * DAY, None, &[]), 90 * DAY);
        assert_eq!(in_advance(90 * DAY, None, &runs(&[14, 7, 0])), 83 * DAY);
        assert_eq!(in_advance(10 * DAY, None, &runs(&[28, 14])), 5 * DAY);
    }
}
