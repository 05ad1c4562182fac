//! How long it takes to verify everything, at the rate and in the rhythm of the runs so far.

use std::time::Duration;

use super::{Options, Summary};
use crate::store::catalog::Run;

/// How many runs the rhythm and the rate are taken from.
pub(super) const RUNS: usize = 16;

/// What a file costs beside its bytes, in bytes.
const FILE: u64 = 16 << 10;

/// The rhythm until there is a history of it.
const DAILY: Duration = Duration::from_secs(24 * 3600);

/// When everything will have been verified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// How long it takes to verify everything once.
    pub time: Duration,
    /// How many times the budget must be to keep the promise, where there is one. More than 1: it is
    /// not kept.
    pub needed: Option<f64>,
    /// Whether the rhythm is assumed, for want of runs.
    pub assumed_daily: bool,
}

/// The forecast after a run; none without a budget, or if nothing was read.
pub(super) fn forecast(summary: &Summary, run: &Run, history: &[Run], options: &Options) -> Option<Forecast> {
    let budget = options.budget?;
    let runs = || history.iter().filter(|old| old.finished.is_some()).chain([run]);
    let work = |files: u64, bytes: u64| (files * FILE + bytes) as f64;
    let done: f64 = runs().map(|run| work(run.read_files, run.read_bytes)).sum();
    let seconds: f64 = runs().filter(|run| run.read_files > 0).map(|run| run.seconds).sum();
    if done == 0.0 || seconds <= 0.0 || budget.is_zero() {
        return None;
    }
    let needed_seconds = work(summary.files, summary.bytes) * seconds / done;
    let rhythm = interval_with(run.started, history);
    // Less than one run is one run.
    let count = (needed_seconds / budget.as_secs_f64()).max(1.0);
    let time = Duration::try_from_secs_f64(count * rhythm.unwrap_or(DAILY).as_secs_f64()).ok()?;
    let needed = options.max_age.map(|age| time.as_secs_f64() / age.as_secs_f64());
    Some(Forecast { time, needed, assumed_daily: rhythm.is_none() })
}

/// The usual time from one run to the next.
pub(super) fn interval(history: &[Run]) -> Option<Duration> {
    let (newest, older) = history.split_first()?;
    interval_with(newest.started, older)
}

fn interval_with(newest: i64, older: &[Run]) -> Option<Duration> {
    let mut gaps = Vec::new();
    let mut last = newest;
    for run in older {
        if let Ok(gap @ 1..) = u64::try_from(last - run.started) {
            gaps.push(gap);
        }
        last = run.started;
    }
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map(|gap| Duration::from_millis(*gap))
}
