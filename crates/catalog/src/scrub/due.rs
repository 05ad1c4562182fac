//! Chooses the files that are due, within the run's time.

use std::time::{Duration, Instant};

use super::Options;
use super::forecast::interval;
use crate::store::{Known, Run, State};

/// Records from so far in the future, in milliseconds, were made with a wrong clock: nobody knows how
/// old they are.
const FUTURE: i64 = 24 * 3600 * 1000;

/// What a run is to do.
pub(super) struct Plan {
    /// Files verified before this are due, in milliseconds since 1970.
    pub before: i64,
    /// Files verified after this are due too.
    pub future: i64,
    /// When the cycle began that this run goes on with.
    pub cycle: i64,
    /// Whether the walk reads what is due when it comes to it. Where all that is due is read, its order gains
    /// nothing, and to look at each file once more takes as long as the walk.
    pub is_in_one_pass: bool,
    now: i64,
    start: Instant,
    end: Option<Instant>,
}

impl Plan {
    pub(super) fn new(options: &Options, history: &[Run], start: Instant) -> Plan {
        // An interrupted run is resumed.
        let cycle = match history.first() {
            Some(last) if !last.complete && last.cycle <= options.now => last.cycle,
            _ => options.now,
        };
        let before = match (options.since, options.max_age) {
            (Some(since), _) => since,
            (None, Some(age)) => options.now - in_advance(age, options.budget, history).as_millis() as i64,
            (None, None) => cycle,
        };
        Plan {
            before: before.min(options.now),
            future: options.now + FUTURE + options.budget.unwrap_or_default().as_millis() as i64,
            cycle,
            is_in_one_pass: options.budget.is_none() && options.sample >= 1.0 && !options.shuffle,
            now: options.now,
            start,
            end: options.budget.and_then(|budget| start.checked_add(budget)),
        }
    }

    /// Whether the walk reads a file that has not changed.
    pub(super) fn is_read_by_walk(&self, known: &Known) -> bool {
        let is_due = known.verified < self.before || known.verified > self.future;
        // Damage to a record is found here.
        self.is_in_one_pass && is_due && matches!(known.state, State::Sound | State::DAMAGED)
    }

    /// Whether there is no time for another file.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// A clock that starts at the time that the run was given.
    pub(super) fn clock(&self) -> impl Fn() -> i64 + Copy + Sync + use<> {
        let (now, start) = (self.now, self.start);
        move || now + start.elapsed().as_millis() as i64
    }
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
        days.iter().map(|day| Run { started: day * 86_400_000, ..Run::default() }).collect()
    }

    #[test]
    fn files_are_due_before_they_are_too_old() {
        assert_eq!(in_advance(90 * DAY, Some(DAY), &[]), 45 * DAY);
        assert_eq!(in_advance(90 * DAY, None, &[]), 90 * DAY);
        assert_eq!(in_advance(90 * DAY, None, &runs(&[14, 7, 0])), 83 * DAY);
        assert_eq!(in_advance(10 * DAY, None, &runs(&[28, 14])), 5 * DAY);
    }
}
