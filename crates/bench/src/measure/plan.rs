//! The plan of a measurement: what is measured, and how often.

use std::time::Duration;

use super::Starter;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureAmount {
    /// So many rounds.
    Rounds(u32),
    /// As many rounds as this time has room for, warm-up included; at least one, at most
    /// [`MOST_ROUNDS`].
    Time(Duration),
}

/// More rounds than these say nothing new.
pub const MOST_ROUNDS: u32 = 200;

/// How to measure.
#[derive(Clone, Debug)]
pub struct MeasurePlan {
    /// How much.
    pub amount: MeasureAmount,
    /// Runs of each subject before those that count. The first is also that in which digests are
    /// compared and the repetitions of short work are chosen, so there is always one.
    pub warmup: u32,
    /// Where the order of the subjects in each round comes from.
    pub seed: u64,
    /// Whether the files are dropped from the cache before each run.
    pub cold: bool,
    /// How long a run of repeated work shall last.
    pub least: Duration,
    /// How long a run may last. A program is killed after that; what cannot be killed ends its run and is
    /// not run again. Both have failed.
    pub limit: Option<Duration>,
    /// Who starts programs; without one this process does, and what it occupies itself hides the memory of
    /// programs that need less.
    pub starter: Option<Starter>,
}

impl Default for MeasurePlan {
    fn default() -> MeasurePlan {
        MeasurePlan {
            amount: MeasureAmount::Rounds(15),
            warmup: 1,
            seed: 1,
            cold: false,
            least: Duration::from_millis(10),
            limit: None,
            starter: None,
        }
    }
}
