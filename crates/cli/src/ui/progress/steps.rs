//! The progress of work in steps, such as bytes of a list or passes over a catalogue.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use verisum::catalog::store::{Catalog, CatalogPass, PassCost};
use verisum::files::lock;

use super::line::{Unit, clock, line, line_in};
use super::{DELAY, IS_ASKED, ShowProgress, draw, make_room, watched, width};

/// How many steps the work has; 0 if nobody knows.
static STEPS_EXPECTED: AtomicU64 = AtomicU64::new(0);

/// How many of them are done.
static STEPS_DONE: AtomicU64 = AtomicU64::new(0);

/// Says how many steps the work has that [`of_steps`] watches; 0 if nobody knows.
pub(crate) fn expect_steps(steps: u64) {
    STEPS_EXPECTED.store(steps, Ordering::Relaxed);
}

/// So many more steps are done.
pub(crate) fn steps_done(steps: u64) {
    STEPS_DONE.fetch_add(steps, Ordering::Relaxed);
}

/// A reader whose bytes are steps.
pub(crate) struct CountedReader<R>(pub(crate) R);

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        steps_done(count as u64);
        Ok(count)
    }
}

/// How many files all steps stand for; none where steps are bytes.
static STEP_FILES: AtomicU64 = AtomicU64::new(0);

/// Says that the work has a step for each of so many files more.
pub(crate) fn expect_files(files: u64) {
    STEP_FILES.fetch_add(files, Ordering::Relaxed);
    STEPS_EXPECTED.fetch_add(files, Ordering::Relaxed);
}

/// The passes that the work makes over all records of each catalogue that it opens.
static PASSES: Mutex<&'static [CatalogPass]> = Mutex::new(&[]);

/// What those passes take, in the order in which they are made.
static COSTS: Mutex<Vec<PassCost>> = Mutex::new(Vec::new());

/// The pass that is being made, and since when.
#[derive(Default)]
struct Pace {
    pass: usize,
    began: Duration,
}

impl Pace {
    /// How many nanoseconds passes take in all, and how many of them are done after so many steps, by what such passes
    /// take as a rule; and how many seconds are left, by how long the one takes that is being made.
    fn told(&mut self, costs: &[PassCost], steps: u64, time: Duration) -> ([u64; 2], Option<u64>) {
        let (mut pass, mut steps_before, mut before) = (0, 0, 0);
        while pass + 1 < costs.len() && steps >= steps_before + costs[pass].steps {
            (steps_before, before) = (steps_before + costs[pass].steps, before + costs[pass].nanoseconds);
            pass += 1;
        }
        if pass != self.pass {
            *self = Pace { pass, began: time };
        }
        let Some(cost) = costs.get(pass) else { return ([0, 0], None) };
        let part = (steps - steps_before).min(cost.steps) as f64 / cost.steps.max(1) as f64;
        let inside = (cost.nanoseconds as f64 * part) as u64;
        let all = costs.iter().map(|cost| cost.nanoseconds).sum();
        let took = time.saturating_sub(self.began);
        // A pass that has just begun says nothing.
        let (done_in, took) = if took < DELAY { (before + inside, time) } else { (inside, took) };
        let rest = all - before - inside;
        let left = (done_in > 0).then(|| (rest as f64 / done_in as f64 * took.as_secs_f64()) as u64);
        ([all, before + inside], left)
    }
}

/// Has the steps of the passes over a catalogue counted, if [`of_steps`] says how far they are. One that cannot be read
/// says why where it is used.
pub(crate) fn count_steps_of(catalog: &Catalog) {
    let passes = *lock(&PASSES);
    if let Some((records, costs)) = (!passes.is_empty()).then(|| catalog.costs_of(passes).ok()).flatten() {
        STEP_FILES.fetch_add(records, Ordering::Relaxed);
        lock(&COSTS).extend(costs);
        catalog.count_steps(Arc::new(steps_done));
    }
}

/// From which width on a line says what is done.
const WIDE: usize = 80;

/// What is done by now, and how long it took or how long the rest will take; in files, if steps stand for any, or else
/// in bytes.
fn line_of_steps(
    what: &str,
    ([all, done], left): ([u64; 2], Option<u64>),
    files: u64,
    time: Duration,
    width: usize,
) -> String {
    if all == 0 || done == 0 {
        return format!("{what}  {} elapsed", clock(time.as_secs()));
    }
    let head = if width < WIDE { String::new() } else { format!("{what}  ") };
    let room = width.saturating_sub(head.len());
    let done = done.min(all);
    let part = |of: u64| (u128::from(done) * u128::from(of) / u128::from(all)) as u64;
    head + &match files {
        0 => line(done, Some(all), time, room, ""),
        files => line_in(Unit::Files, part(files), Some(files), left, time, room, ""),
    }
}

/// Does `work`, and says on a terminal how far it is, if that is wanted: as far as it [tells](expect_steps), or by these passes
/// over catalogues, or only that it goes on.
pub(crate) fn of_steps<T>(
    wanted: ShowProgress,
    what: &str,
    passes: &'static [CatalogPass],
    work: impl FnOnce() -> T,
) -> T {
    let Some(delay) = wanted.after() else { return work() };
    *lock(&PASSES) = passes;
    let pace = Mutex::new(Pace::default());
    let tick = |time: Duration| {
        if time >= delay && !IS_ASKED.load(Ordering::Relaxed) {
            let [all, done, files] =
                [&STEPS_EXPECTED, &STEPS_DONE, &STEP_FILES].map(|count| count.load(Ordering::Relaxed));
            let costs = lock(&COSTS);
            let told = match costs.is_empty() {
                true => ([all, done], None),
                false => lock(&pace).told(&costs, done, time),
            };
            draw(&line_of_steps(what, told, files, time, width()));
        }
    };
    let result = watched(&tick, work);
    drop(make_room());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_line_of_steps_has_a_share_only_of_a_known_whole() {
        let line = |steps, files, width| line_of_steps("at work", (steps, None), files, 3 * SECOND, width);
        assert_eq!(line([0, 5], 9, 80), "at work  0:03 elapsed");
        assert_eq!(line([20, 0], 9, 80), "at work  0:03 elapsed");
        assert_eq!(line([400, 100], 60, 60), " 25% [=====               ]  15 of 60 files  5/s  0:09 left");
        assert_eq!(
            line([400, 100], 60_000, 80),
            "at work   25% [=====                 ]  15000 of 60000 files  5000/s  0:09 left"
        );
        assert!(
            line([20, 25], 20, 60).starts_with("100% [=") && line([20, 25], 20, 60).ends_with("0:00 left")
        );
        assert!(line([4 << 20, 1 << 20], 0, 80).ends_with("1 MiB of 4 MiB  341 KiB/s  0:09 left"));
        for width in 20..200 {
            assert!(line([400, 100], 60_000, width).len() < width, "{width}");
        }
    }

    #[test]
    fn what_is_left_is_told_by_the_pass_that_is_being_made() {
        // A second for the first, as a rule, and nine for the other, which takes the same steps.
        let costs = [1, 9].map(|seconds| PassCost { steps: 100, nanoseconds: seconds * 1_000_000_000 });
        let mut pace = Pace::default();
        let mut told = |steps, seconds| pace.told(&costs, steps, seconds * SECOND);
        assert_eq!(told(50, 2), ([10_000_000_000, 500_000_000], Some(38)));
        // All is four times as slow.
        assert_eq!(told(100, 4), ([10_000_000_000, 1_000_000_000], Some(36)));
        assert_eq!(told(150, 22), ([10_000_000_000, 5_500_000_000], Some(18)));
        assert_eq!(told(200, 40), ([10_000_000_000, 10_000_000_000], Some(0)));
        // The other one alone is slow.
        let mut pace = Pace::default();
        let mut told = |steps, seconds| pace.told(&costs, steps, seconds * SECOND).1;
        assert_eq!((told(100, 1), told(110, 21), told(300, 201)), (Some(9), Some(180), Some(0)));
        assert_eq!(Pace::default().told(&[], 5, SECOND), ([0, 0], None));
    }

    #[test]
    fn bytes_that_are_read_are_steps() {
        let before = STEPS_DONE.load(Ordering::Relaxed);
        let mut read = Vec::new();
        CountedReader(&b"four"[..]).read_to_end(&mut read).unwrap();
        assert_eq!((read.len(), STEPS_DONE.load(Ordering::Relaxed) - before), (4, 4));
    }
}
