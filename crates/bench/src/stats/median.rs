//! Medians, their scatter, and their intervals by resampling.

use serde::{Deserialize, Serialize};

/// A range that holds the true value with 95% confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The best guess.
    pub median: f64,
    /// The upper end.
    pub high: f64,
}

/// How often samples are drawn again.
const RESAMPLES: usize = 1000;

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

/// The value below which a part of the values lies, between neighbours in proportion (definition 7 of
/// Hyndman and Fan 1996, the default of R and of Python's `inclusive`); NaN of nothing.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part.clamp(0.0, 1.0) * last as f64;
    let below = place as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The median of the distances to the median: a measure of scatter that outliers do not move.
pub fn mad(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances)
}

/// How many values lie apart from the others: those of a modified z-score above 3.5 (Iglewicz and
/// Hoaglin 1993). They are told, and not thrown away: the median minds them little.
pub fn outliers(values: &[f64]) -> usize {
    let (middle, scatter) = (median(values), mad(values));
    values.iter().filter(|&&value| 0.6745 * (value - middle).abs() > 3.5 * scatter).count()
}

/// The median with its 95% interval, by the percentile bootstrap. The same samples always give the same.
pub fn interval(samples: &[f64]) -> Interval {
    let (mut draw, ranked) = (Draw::default(), Ranked::of(samples));
    bootstrap(median(samples), || draw.median(&ranked))
}

/// The ratio of the medians of samples that were not taken in turns, first to second, with its 95%
/// interval.
pub fn ratio(first: &[f64], second: &[f64]) -> Interval {
    let (mut draw, [one, other]) = (Draw::default(), [first, second].map(Ranked::of));
    bootstrap(median(first) / median(second), || draw.median(&one) / draw.median(&other))
}

/// The first median less the second, of samples that were not taken in turns, with its 95% interval.
pub fn difference(first: &[f64], second: &[f64]) -> Interval {
    let (mut draw, [one, other]) = (Draw::default(), [first, second].map(Ranked::of));
    bootstrap(median(first) - median(second), || draw.median(&one) - draw.median(&other))
}

fn bootstrap(found: f64, mut again: impl FnMut() -> f64) -> Interval {
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| again()).collect();
    values.sort_by(f64::total_cmp);
    Interval { low: values[RESAMPLES / 40], median: found, high: values[RESAMPLES - 1 - RESAMPLES / 40] }
}

/// Samples in order, so that those which are drawn need not be sorted again and again.
struct Ranked {
    sorted: Vec<f64>,
    /// The place of each sample in that order.
    places: Vec<usize>,
}

impl Ranked {
    fn of(samples: &[f64]) -> Ranked {
        let mut order: Vec<usize> = (0..samples.len()).collect();
        order.sort_by(|&a, &b| samples[a].total_cmp(&samples[b]));
        let mut places = vec![0; samples.len()];
        order.iter().enumerate().for_each(|(place, &sample)| places[sample] = place);
        Ranked { sorted: order.into_iter().map(|sample| samples[sample]).collect(), places }
    }
}

/// Draws samples with replacement; always the same.
struct Draw {
    state: u64,
    /// How often each sample was drawn, in their order.
    drawn: Vec<usize>,
}

impl Default for Draw {
    fn default() -> Draw {
        Draw { state: 0x853c_49e6_748f_ea9b, drawn: Vec::new() }
    }
}

impl Draw {
    /// The median of as many samples, drawn again.
    fn median(&mut self, samples: &Ranked) -> f64 {
        let count = samples.sorted.len();
        self.drawn.clear();
        self.drawn.resize(count, 0);
        for _ in 0..count {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.drawn[samples.places[((self.state >> 33) % count as u64) as usize]] += 1;
        }
        let (mut seen, mut below) = (0, None);
        for place in 0..count {
            seen += self.drawn[place];
            let value = samples.sorted[place];
            if seen > count / 2 {
                let below = below.filter(|_| count.is_multiple_of(2));
                return below.map_or(value, |below: f64| (below + value) / 2.0);
            }
            if seen == count / 2 && self.drawn[place] > 0 {
                below = Some(value);
            }
        }
        f64::NAN
    }
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
    fn what_is_drawn_again_has_the_median_of_its_values() {
        for count in 1..=12u64 {
            // Not in order, and some twice.
            let samples: Vec<f64> = (0..count).map(|at| (at * 7 % 5) as f64 + 0.25).collect();
            let (mut draw, ranked) = (Draw::default(), Ranked::of(&samples));
            for _ in 0..50 {
                let found = draw.median(&ranked);
                let times = ranked.sorted.iter().zip(&draw.drawn);
                let drawn: Vec<f64> = times.flat_map(|(value, &times)| vec![*value; times]).collect();
                assert_eq!((found, drawn.len()), (median(&drawn), samples.len()));
            }
        }
    }

    #[test]
    fn quantiles_and_scatter_are_those_of_textbooks() {
        // Hyndman and Fan's definition 7 of 1..10, as R and Python have it.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!((quantile(&ten, 0.25), quantile(&ten, 0.5), quantile(&ten, 0.9)), (3.25, 5.5, 9.1));
        assert_eq!((quantile(&ten, 0.0), quantile(&ten, 1.0)), (1.0, 10.0));
        assert!(quantile(&[], 0.5).is_nan());
        // The usual example of the MAD.
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), 1.0);
        // Iglewicz and Hoaglin's way finds both of a pair that hides itself from the mean.
        assert_eq!(outliers(&[2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]), 2);
        assert_eq!(outliers(&ten), 0);
        assert_eq!(outliers(&[]), 0);
    }

    /// The bootstrap of a median of an odd number needs no chance: the k-th value is the median with
    /// probability P(B(n, (k-1)/n) <= m) - P(B(n, k/n) <= m), m = (n-1)/2 (Efron 1982, 10.3).
    #[test]
    fn intervals_are_those_of_the_exact_bootstrap() {
        /// The probability of so many or more of `trials`, each with probability `p`: every term of the
        /// binomial theorem follows from the one before.
        fn binomial_upper(count: u32, trials: u32, p: f64) -> f64 {
            let terms = (0..trials).scan((1.0 - p).powi(trials as i32), |term, k| {
                *term *= f64::from(trials - k) / f64::from(k + 1) * p / (1.0 - p);
                Some(*term)
            });
            terms.skip(count as usize - 1).sum()
        }
        for count in [7u32, 15, 31, 101] {
            let n = f64::from(count);
            let above = |k: u32| match k {
                0 => 1.0,
                k if k == count => 0.0,
                // The median is above the k-th if at most m of the draws are among the first k.
                k => 1.0 - binomial_upper(count.div_ceil(2), count, f64::from(k) / n),
            };
            let exact = |part: f64| (1..=count).find(|&k| 1.0 - above(k) >= part).unwrap();
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            let found = interval(&values);
            assert_eq!(found.median, f64::from(count / 2 + 1));
            // A thousand draws may be one place off.
            assert!((found.low - f64::from(exact(0.025))).abs() <= 1.0, "{count}: {found:?}");
            assert!((found.high - f64::from(exact(0.975))).abs() <= 1.0, "{count}: {found:?}");
        }
        let times: Vec<f64> = (0..20).map(|i| 1.0 + f64::from(i) / 100.0).collect();
        let twice: Vec<f64> = times.iter().map(|time| time * 2.0).collect();
        let ratio = ratio(&twice, &times);
        assert!(ratio.low > 1.8 && (ratio.median - 2.0).abs() < 1e-9 && ratio.high < 2.2, "{ratio:?}");
        assert!(interval(&[4.0]).low == 4.0);
        let more = difference(&twice, &times);
        assert!(more.low > 0.8 && (more.median - median(&times)).abs() < 1e-9 && more.high < 1.4, "{more:?}");
        let same = difference(&times, &times);
        assert!(same.low < 0.0 && same.high > 0.0, "{same:?}");
    }
}
