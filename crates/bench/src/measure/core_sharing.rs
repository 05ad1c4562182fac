//! Detects whether something else uses the same core at the same time.
//!
//! Two processors that the kernel shows may be threads of one core, and in a virtual machine the other may be
//! another machine's. What fills a core then takes up to half as long again, what waits for its own results
//! takes no longer, and no counter of the kernel tells of it. So right before and after a run a little of
//! both kinds of work is timed: the ratio of the two does not depend on the processor's clock.

use std::hint::black_box;
use std::time::Instant;

use verisum_digest::{DigestStream, Level, PROVIDERS, Policy};

use crate::record::{BenchResults, Series};
use crate::stats::{median, quantile};

/// Work that fills a core, and work that waits for itself.
pub(super) struct Crowding {
    /// Plain code with much to do side by side: SHA-1 takes 1.35 to 1.4 times its time in a core that is
    /// shared.
    full: Option<Box<dyn DigestStream>>,
}

/// Bytes that are hashed: 4 µs or so.
const FULL: usize = 4096;

/// Steps of a chain, each of which waits for the one before: 2 to 4 µs.
const WAITING: u64 = 3000;

/// How often each is timed. The best counts: an interruption makes it longer, and the first time warms up.
const TIMES: usize = 4;

impl Crowding {
    pub(super) fn new() -> Crowding {
        let policy = Policy { max_level: Level::Portable };
        let mut plain = PROVIDERS.iter().filter(|one| one.algorithm == "sha1" && one.name == "portable");
        Crowding { full: plain.find_map(|one| one.stream(&policy)?.ok()) }
    }

    /// How long the one takes as a multiple of the other; only beside another such number does it mean
    /// anything.
    pub(super) fn now(&mut self) -> Option<f64> {
        let stream = self.full.as_mut()?;
        let (mut full, mut waiting) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TIMES {
            let started = Instant::now();
            stream.update(black_box(&[0x5a; FULL])).and_then(|()| stream.finish(&mut [0; 20])).ok()?;
            let between = Instant::now();
            let mut state = black_box(1u64);
            for step in 0..WAITING {
                state = (state ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7);
            }
            black_box(state);
            full = full.min((between - started).as_secs_f64());
            waiting = waiting.min(between.elapsed().as_secs_f64());
        }
        Some(full / waiting).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    }
}

/// By how much work that fills a core takes longer in one that is shared, at the least; alone it differs by
/// some hundredths.
const SHARED: f64 = 1.12;

/// Of each series the runs in which something else used the same core; nothing of those of which that is not
/// known.
pub(crate) fn crowded(series: &[&Series]) -> Vec<Vec<bool>> {
    let all: Vec<f64> = series.iter().flat_map(|one| one.crowding.iter().copied()).collect();
    let alone = quantile(&all, 0.1);
    let of = |one: &&Series| one.crowding.iter().map(|&much| much > SHARED * alone).collect();
    series.iter().map(of).collect()
}

/// How much longer work that fills a core took in the second results than in the first, where that shows that
/// something else used the same core in the one and not in the other.
pub(crate) fn more_crowded(first: &BenchResults, second: &BenchResults) -> Option<f64> {
    let of = |results: &BenchResults| -> f64 {
        median(&results.series.iter().flat_map(|one| one.crowding.iter().copied()).collect::<Vec<_>>())
    };
    let more = of(second) / of(first);
    // Not a number where either knows nothing of it.
    Some(more).filter(|more| more.is_finite() && !(1.0 / SHARED..=SHARED).contains(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_ratio() {
        assert!(Crowding::new().now().is_some_and(|ratio| ratio > 0.0));
    }
}
