//! Statistics: what a few measured times prove, and what they do not.
//!
//! Times of one machine are no normal distribution: medians, ranks and resampling, no means and no
//! t-test.

mod median;
mod rank;
mod ranking;

pub use median::{Interval, difference, interval, mad, median, outliers, quantile, ratio};
pub use rank::{mann_whitney, signed_rank};
pub use ranking::{
    RankedPair, Ranking, SMALLEST_EFFECT, SMALLEST_EFFECT_INSIDE, SpeedVerdict, TimeSample, beside_first,
    fewest_rounds, fewest_rounds_of, rank,
};
