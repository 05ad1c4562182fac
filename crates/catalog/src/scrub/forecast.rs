//! Forecasts how long it takes to verify everything, from the rate and the intervals of the runs so far.

use std::time::Duration;

use super::{ScrubOptions, ScrubSummary};
use crate::store::{Moment, Run};

/// How many runs the interval and the rate are taken from.
pub(super) const RUNS: usize = 16;

/// What a file costs beside its bytes, in bytes.
const FILE: u64 = 16 << 10;

/// The interval until there is a history of it.
const DAILY: Duration = Duration::from_secs(24 * 3600);

/// When everything will have been verified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// How long it takes to verify everything once.
    pub time: Duration,
    /// How many times the budget must be to keep the promise, where there is one. More than 1: it is
    /// not kept.
    pub needed: Option<f64>,
    /// Whether the interval is assumed, for want of runs.
    pub assumed_daily: bool,
}

impl Forecast {
    /// When all of so many files and bytes will have been verified, if runs go on as often and read as much as these,
    /// newest first. None if they read nothing.
    pub fn of_runs(files: u64, bytes: u64, runs: &[Run], max_age: Option<Duration>) -> Option<Forecast> {
        let read = || runs.iter().filter(|run| run.finished.is_some());
        let done: f64 = read().map(|run| work(run.read_files, run.read_bytes)).sum();
        if done == 0.0 {
            return None;
        }
        let known = interval(runs);
        // Less than one run is one run.
        let count = (work(files, bytes) * read().count() as f64 / done).max(1.0);
        let time = Duration::try_from_secs_f64(count * known.unwrap_or(DAILY).as_secs_f64()).ok()?;
        let needed = max_age.map(|age| time.as_secs_f64() / age.as_secs_f64());
        Some(Forecast { time, needed, assumed_daily: known.is_none() })
    }
}

/// What it takes to verify so many files and bytes.
fn work(files: u64, bytes: u64) -> f64 {
    files as f64 * FILE as f64 + bytes as f64
}

/// The forecast after a run; none without a budget, or if nothing was read.
pub(super) fn forecast(
    summary: &ScrubSummary,
    run: &Run,
    history: &[Run],
    options: &ScrubOptions,
) -> Option<Forecast> {
    let budget = options.budget?;
    // What a run reads within this budget is best told by one that used it up; earlier ones may have had none.
    let earlier = if summary.complete { history } else { &[] };
    let runs = || earlier.iter().filter(|old| old.finished.is_some()).chain([run]);
    let done: f64 = runs().map(|run| work(run.read_files, run.read_bytes)).sum();
    let seconds: f64 = runs().filter(|run| run.read_files > 0).map(|run| run.seconds).sum();
    if done == 0.0 || seconds <= 0.0 || budget.is_zero() {
        return None;
    }
    // New files that wait are taken to be as long as the others.
    let waiting = summary.waiting as f64 / summary.files.max(1) as f64;
    let needed_seconds = work(summary.files, summary.bytes) * (1.0 + waiting) * seconds / done;
    let known = interval_with(run.started, history);
    // Less than one run is one run.
    let count = (needed_seconds / budget.as_secs_f64()).max(1.0);
    let time = Duration::try_from_secs_f64(count * known.unwrap_or(DAILY).as_secs_f64()).ok()?;
    let needed = options.max_age.map(|age| time.as_secs_f64() / age.as_secs_f64());
    Some(Forecast { time, needed, assumed_daily: known.is_none() })
}

/// The usual time from one run to the next.
pub(super) fn interval(history: &[Run]) -> Option<Duration> {
    let (newest, older) = history.split_first()?;
    interval_with(newest.started, older)
}

fn interval_with(newest: Moment, older: &[Run]) -> Option<Duration> {
    let mut gaps = Vec::new();
    let mut last = newest;
    for run in older {
        gaps.extend(Some(last - run.started).filter(|gap| !gap.is_zero()));
        last = run.started;
    }
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn at(day: i64) -> Moment {
        Moment::of_milliseconds(day * DAY)
    }

    #[test]
    fn intervals_are_those_of_most_runs() {
        let runs = |days: &[i64]| -> Vec<Run> {
            days.iter().map(|day| Run { started: at(*day), ..Run::default() }).collect()
        };
        let days = |count: u64| Some(Duration::from_secs(count * 86_400));
        assert_eq!(interval(&runs(&[])), None);
        assert_eq!(interval(&runs(&[5])), None);
        assert_eq!(interval(&runs(&[30, 23, 16])), days(7));
        // A run by hand, and one with a clock that was wrong.
        assert_eq!(interval(&runs(&[30, 30, 23, 16, 9, 400, 2])), days(7));
    }

    #[test]
    fn without_a_budget_the_pace_of_the_runs_counts() {
        // A quarter of the tree each week: four weeks.
        let run = |day: i64| Run {
            started: at(day),
            finished: Some(at(day)),
            read_files: 1,
            read_bytes: (100 << 20) - FILE,
            ..Run::default()
        };
        let runs = [run(21), run(14), run(7), Run { finished: None, ..run(0) }];
        let found = Forecast::of_runs(0, 400 << 20, &runs, Some(Duration::from_secs(14 * 86_400))).unwrap();
        assert_eq!((found.time.as_secs(), found.assumed_daily), (28 * 86_400, false));
        assert!((found.needed.unwrap() - 2.0).abs() < 1e-6);
        assert_eq!(Forecast::of_runs(1, 1, &[], None), None);
    }

    #[test]
    fn a_budget_that_is_too_small_is_told_by_how_much() {
        // A tenth of the tree in an hour, once a day: ten days, where five were promised.
        let summary = ScrubSummary { files: 0, bytes: 1000 << 20, ..ScrubSummary::default() };
        let run = Run { started: at(1), read_files: 1, read_bytes: (100 << 20) - FILE, ..Run::default() };
        let run = Run { seconds: 3600.0, ..run };
        let options = ScrubOptions {
            budget: Some(Duration::from_secs(3600)),
            max_age: Some(Duration::from_secs(5 * 86_400)),
            ..options()
        };
        let found = forecast(&summary, &run, &[], &options).unwrap();
        assert_eq!((found.time.as_secs(), found.assumed_daily), (10 * 86_400, true));
        assert!((found.needed.unwrap() - 2.0).abs() < 1e-6);
        // Three times as many files wait to be read for the first time.
        let begun = ScrubSummary {
            files: 10,
            bytes: (250 << 20) - 10 * FILE,
            waiting: 30,
            ..ScrubSummary::default()
        };
        assert_eq!(forecast(&begun, &run, &[], &options).unwrap().time.as_secs(), 10 * 86_400);
        // A run without a budget read everything in no time, a day before.
        let fast = [Run {
            started: at(0),
            finished: Some(at(0)),
            read_bytes: 1 << 40,
            seconds: 1.0,
            ..Run::default()
        }];
        assert_eq!(forecast(&summary, &run, &fast, &options).unwrap().time.as_secs(), 10 * 86_400);
        let weekly = [Run { started: at(-6), ..Run::default() }];
        let found = forecast(&summary, &run, &weekly, &options).unwrap();
        assert_eq!((found.time.as_secs(), found.assumed_daily), (70 * 86_400, false));
        assert_eq!(forecast(&summary, &Run::default(), &[], &options), None);
    }

    fn options() -> ScrubOptions {
        ScrubOptions {
            alarm: super::super::Alarm { share: 1.0, at_least: 1 },
            now: Some(verisum_files::Timestamp::default()),
            ..ScrubOptions::new(verisum_digest::Digest::find("sha256").unwrap())
        }
    }
}
