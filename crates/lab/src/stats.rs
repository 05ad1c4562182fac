//! What a handful of measured times can tell, and what not.
//!
//! Times of one machine are no normal distribution: medians and resampling, no means and no t-test.

/// A range that holds the true value with 95% confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The best guess.
    pub median: f64,
    /// The upper end.
    pub high: f64,
}

/// Which of two is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first, beyond doubt.
    Faster,
    /// The second, beyond doubt.
    Slower,
    /// The measurement cannot tell.
    NotResolved,
}

impl Verdict {
    /// The words used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NotResolved => "not resolved",
        }
    }
}

/// How often samples are drawn again.
const RESAMPLES: usize = 1000;

/// Fewer samples than these resolve nothing.
const FEWEST: usize = 5;

/// The value in the middle; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// The median with its 95% interval, by the percentile bootstrap. The same samples always give the same.
pub fn interval(samples: &[f64]) -> Interval {
    let mut state = 0x853c_49e6_748f_ea9bu64;
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<f64> = samples
                .iter()
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    samples[((state >> 33) % samples.len() as u64) as usize]
                })
                .collect();
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    Interval {
        low: medians[RESAMPLES / 40],
        median: median(samples),
        high: medians[RESAMPLES - 1 - RESAMPLES / 40],
    }
}

/// Compares times that were taken in turns: the ratio of each pair, first to second, and what it says.
///
/// # Panics
/// If there are not as many of the one as of the other.
pub fn paired(first: &[f64], second: &[f64]) -> (Interval, Verdict) {
    assert_eq!(first.len(), second.len(), "pairs");
    let ratios: Vec<f64> = first.iter().zip(second).map(|(a, b)| a / b).collect();
    let interval = interval(&ratios);
    let verdict = match interval {
        _ if ratios.len() < FEWEST => Verdict::NotResolved,
        Interval { high, .. } if high < 1.0 => Verdict::Faster,
        Interval { low, .. } if low > 1.0 => Verdict::Slower,
        _ => Verdict::NotResolved,
    };
    (interval, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn what_overlaps_is_not_resolved() {
        let noisy: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i * 7919 % 41)).collect();
        let shifted: Vec<f64> = noisy.iter().rev().map(|time| time * 1.001).collect();
        assert_eq!(paired(&noisy, &shifted).1, Verdict::NotResolved);
        let slower: Vec<f64> = noisy.iter().map(|time| time * 2.0).collect();
        assert_eq!(paired(&noisy, &slower).1, Verdict::Faster);
        assert_eq!(paired(&slower, &noisy).1, Verdict::Slower);
        assert_eq!(paired(&noisy[..3], &slower[..3]).1, Verdict::NotResolved, "too few");
        let interval = interval(&noisy);
        assert!(interval.low <= interval.median && interval.median <= interval.high);
    }
}
