//! Measures which stages of a kernel are faster on this processor, and from how many messages on.
//!
//! The built-in numbers were measured on some processors, and those take them as they are. Another may be
//! slow at instructions that these are fast at, so there each kernel is measured once: after it hashed so
//! much that the measurement, a fraction of a millisecond, is repaid. It decides about speed only, never
//! about values.

use std::cmp::Reverse;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Level;
use crate::arch::{self, Stage};
use crate::kernel::Kernel;
use crate::spec::Compression;
use crate::state::{MAX_LANES, State};

/// What a kernel hashes side by side before it is measured, in bytes: a few milliseconds of work.
const REPAID: usize = 4 << 20;

/// How many bytes of each lane a stage is measured with: it fits the nearest cache with all lanes.
const MESSAGE: usize = 1024;

/// How often, at least and at most; the best time counts, as whatever else the machine does only adds.
const TRIES: [usize; 2] = [3, 7];

/// How long tries that are not needed may take.
const PATIENCE: Duration = Duration::from_micros(200);

/// What is known of a kernel's stages on this processor.
struct Tuning {
    hashed: AtomicUsize,
    stages: OnceLock<Box<[Stage]>>,
}

impl Tuning {
    const fn new() -> Tuning {
        Tuning { hashed: AtomicUsize::new(0), stages: OnceLock::new() }
    }
}

static TUNINGS: [[Tuning; Level::COUNT]; Compression::COUNT] =
    [const { [const { Tuning::new() }; Level::COUNT] }; Compression::COUNT];

impl Kernel {
    /// Returns the stages to hash messages of so many bytes with, widest first; none is wider than the
    /// widest of the kernel.
    pub(crate) fn tuned(self, bytes: usize) -> &'static [Stage] {
        if !self.is_tuned || self.stages.len() == 1 || arch::is_measured() {
            return self.stages;
        }
        let tuning = &TUNINGS[self.spec.compression as usize][self.level() as usize];
        if let Some(stages) = tuning.stages.get() {
            return stages;
        }
        let before = tuning.hashed.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) < REPAID {
            return self.stages;
        }
        tuning.stages.get_or_init(|| measured(&self.candidates(), self.spec.block_len))
    }

    /// The stages to choose from, widest first; of those with as many lanes, its own come first.
    fn candidates(self) -> Vec<Stage> {
        let others = arch::alternatives(self.spec.compression, self.level());
        let mut candidates = [self.stages, others].concat();
        candidates.sort_by_key(|stage| Reverse(stage.lanes));
        candidates
    }
}

/// Returns the stages that are worth it here, by measuring each.
fn measured(stages: &[Stage], block_len: usize) -> Box<[Stage]> {
    let times = stages.iter().map(|stage| seconds(stage, block_len));
    let timed: Vec<(Stage, f64)> = stages.iter().copied().zip(times).collect();
    worthwhile(&timed)
}

/// Leaves out the stages that are slower than what follows them even with all lanes in use, and finds how
/// many messages make the others worth it. Each comes with the time that it takes, whatever lanes are idle.
fn worthwhile(timed: &[(Stage, f64)]) -> Box<[Stage]> {
    // Narrowest first.
    let mut kept: Vec<(Stage, f64)> = Vec::new();
    for &(stage, time) in timed.iter().rev() {
        if let Some(worth) = (1..=stage.lanes).find(|&count| time <= cost(&kept, count)) {
            // Another with as many lanes, which takes longer.
            kept.retain(|(other, _)| other.lanes != stage.lanes);
            kept.push((Stage { worth, ..stage }, time));
        }
    }
    kept.into_iter().rev().map(|(stage, _)| stage).collect()
}

/// The time that so many messages take with these stages, narrowest first.
fn cost(stages: &[(Stage, f64)], mut count: usize) -> f64 {
    let mut cost = 0.0;
    while count > 0 {
        let Some((stage, time)) = stages.iter().rev().find(|(stage, _)| count >= stage.worth) else {
            return f64::INFINITY;
        };
        cost += time;
        count = count.saturating_sub(stage.lanes);
    }
    cost
}

/// Measures a stage with all its lanes.
fn seconds(stage: &Stage, block_len: usize) -> f64 {
    let mut state: State = State::new();
    let bytes = [0x5a; MESSAGE];
    let pointers = [bytes.as_ptr(); MAX_LANES];
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    for done in 1..=TRIES[1] {
        let start = Instant::now();
        // SAFETY: a `Kernel`, whose stages these are, exists only where the processor has its level. `State`
        // has the alignment and room for any stage, and each lane reads whole blocks of `bytes`.
        unsafe { (stage.compress)(state.as_mut_ptr(), black_box(pointers.as_ptr()), MESSAGE / block_len) };
        best = best.min(start.elapsed().as_secs_f64());
        if done >= TRIES[0] && begin.elapsed() > PATIENCE {
            break;
        }
    }
    black_box(&state);
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelAlgorithm;

    #[test]
    fn every_kernel_can_be_measured() {
        for &algorithm in KernelAlgorithm::ALL {
            for kernel in Level::ALL.iter().filter_map(|&level| Kernel::at(algorithm, level)) {
                let stages = measured(&kernel.candidates(), kernel.spec.block_len);
                let last = stages.last().unwrap();
                assert_eq!((last.lanes, last.worth), (1, 1), "{kernel:?}");
                assert!(stages[0].lanes <= kernel.lanes());
                assert!(stages.windows(2).all(|pair| pair[0].lanes > pair[1].lanes), "{kernel:?}");
                assert!(stages.iter().all(|stage| (1..=stage.lanes).contains(&stage.worth)), "{kernel:?}");
            }
        }
    }

    #[test]
    fn whatever_is_left_out_the_digests_are_the_same() {
        let bytes: Vec<u8> = (0..600).map(|i| i as u8).collect();
        let messages: Vec<&[u8]> = (0..50).map(|i| &bytes[i..600 - 7 * i]).collect();
        for &algorithm in KernelAlgorithm::ALL {
            let hash = |kernel: Kernel| {
                let mut digests = vec![0; messages.len() * algorithm.digest_len()];
                kernel.hash_batch(&messages, &mut digests);
                digests
            };
            let expected = hash(Kernel::best(algorithm, Level::Portable));
            for kernel in Level::ALL.iter().filter_map(|&level| Kernel::at(algorithm, level)) {
                let candidates = kernel.candidates();
                for out in 0..candidates.len() {
                    let time = |place| if place == out { 1e9 } else { 1.0 };
                    let timed: Vec<_> = candidates.iter().copied().zip((0..).map(time)).collect();
                    let mut without = kernel;
                    without.stages = Box::leak(worthwhile(&timed));
                    assert_eq!(hash(without), expected, "{kernel:?} without {out}");
                }
            }
        }
    }

    /// Stages of SHA-256 with AVX-512, with these times.
    fn stages(times: [f64; 3]) -> Vec<(usize, usize)> {
        let compress = Kernel::best(KernelAlgorithm::Sha256, Level::Portable).stages[0].compress;
        let stage = |lanes| Stage { lanes, worth: lanes, compress };
        let timed: Vec<_> = [16, 2, 1].map(stage).into_iter().zip(times).collect();
        worthwhile(&timed).iter().map(|stage| (stage.lanes, stage.worth)).collect()
    }

    #[test]
    fn stages_are_used_where_they_are_not_slower() {
        assert_eq!(stages([4.0, 1.2, 1.0]), [(16, 7), (2, 2), (1, 1)]);
        // Two at once take longer than one after the other.
        assert_eq!(stages([4.0, 130.0, 1.0]), [(16, 4), (1, 1)]);
        assert_eq!(stages([40.0, 130.0, 1.0]), [(1, 1)]);
        assert_eq!(stages([9.0, 1.2, 1.0]), [(16, 15), (2, 2), (1, 1)]);
        assert_eq!(stages([0.5, 1.2, 1.0]), [(16, 1), (2, 2), (1, 1)]);
    }

    #[test]
    fn of_stages_with_as_many_lanes_the_quicker_is_used() {
        let [first, second] = [KernelAlgorithm::Md4, KernelAlgorithm::Md5]
            .map(|a| Kernel::best(a, Level::Portable).stages[0].compress);
        let one = Stage { lanes: 1, worth: 1, compress: first };
        let chosen = |times: [f64; 2]| {
            let [own, other] = [first, second].map(|compress| Stage { lanes: 2, worth: 2, compress });
            let stages = worthwhile(&[(own, times[0]), (other, times[1]), (one, 1.0)]);
            assert!(stages.len() <= 2 && stages.iter().all(|stage| stage.worth == stage.lanes));
            (stages.len() == 2).then(|| std::ptr::fn_addr_eq(stages[0].compress, first))
        };
        assert_eq!(chosen([1.5, 1.8]), Some(true));
        assert_eq!(chosen([1.8, 1.5]), Some(false));
        assert_eq!(chosen([1.5, 2.5]), Some(true));
        assert_eq!(chosen([2.5, 1.5]), Some(false));
        assert_eq!(chosen([2.5, 2.5]), None);
    }
}
