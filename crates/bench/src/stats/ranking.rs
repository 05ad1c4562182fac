//! Ranks subjects by speed: compares every pair round by round, and corrects for the number of pairs.

use serde::{Deserialize, Serialize};

use super::{Interval, interval, median, signed_rank};

/// Differences of medians smaller than this part are never called resolved: where data happen to lie in
/// memory makes as much between two runs of the same program.
pub const SMALLEST_EFFECT: f64 = 0.01;

/// The same of work in this process, whose code and state stay where they are for the whole measurement: the
/// next process has them elsewhere, and times that differ by some hundredths. Two measurements contradict
/// each other only where that makes twice as much.
pub const SMALLEST_EFFECT_INSIDE: f64 = 0.03;

/// The probability of any wrong verdict among all pairs, if all were equal.
const ERROR: f64 = 0.05;

/// Which of two is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpeedVerdict {
    /// The first, beyond doubt.
    Faster,
    /// The second, beyond doubt.
    Slower,
    /// The measurement cannot tell.
    NotResolved,
}

impl SpeedVerdict {
    /// The words used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            SpeedVerdict::Faster => "faster",
            SpeedVerdict::Slower => "slower",
            SpeedVerdict::NotResolved => "no significant difference",
        }
    }
}

/// One beside another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankedPair {
    /// The place of the first among what was compared.
    pub first: usize,
    /// The place of the second, which is greater.
    pub second: usize,
    /// In how many rounds both were measured.
    pub rounds: usize,
    /// Times of the first, divided by those of the second.
    pub ratio: Interval,
    /// The probability of such a difference by chance, made greater for the number of pairs (Holm 1979).
    pub p: f64,
    /// What may be said.
    pub verdict: SpeedVerdict,
}

impl RankedPair {
    /// The pair the other way round.
    pub fn reversed(&self) -> RankedPair {
        let ratio = Interval {
            low: 1.0 / self.ratio.high,
            median: 1.0 / self.ratio.median,
            high: 1.0 / self.ratio.low,
        };
        let verdict = match self.verdict {
            SpeedVerdict::Faster => SpeedVerdict::Slower,
            SpeedVerdict::Slower => SpeedVerdict::Faster,
            SpeedVerdict::NotResolved => SpeedVerdict::NotResolved,
        };
        RankedPair { first: self.second, second: self.first, ratio, verdict, ..*self }
    }

    /// How much faster the first is, in words: `1.20 to 1.24 times as fast`, or `no significant difference`.
    pub fn words(&self) -> String {
        let Interval { low, high, .. } = self.ratio;
        match self.verdict {
            SpeedVerdict::Faster => format!("{} times as fast", range(1.0 / high, 1.0 / low)),
            SpeedVerdict::Slower => format!("{} times as slow", range(low, high)),
            SpeedVerdict::NotResolved => SpeedVerdict::NotResolved.name().to_string(),
        }
    }
}

fn range(low: f64, high: f64) -> String {
    let digits = if high < 10.0 { 2 } else { usize::from(high < 100.0) };
    let (low, high) = (format!("{low:.digits$}"), format!("{high:.digits$}"));
    if low == high { low } else { format!("{low} to {high}") }
}

/// Every pair of what was compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// By first, then by second.
    pairs: Vec<RankedPair>,
}

impl Ranking {
    /// All pairs, the first before the second.
    pub fn pairs(&self) -> &[RankedPair] {
        &self.pairs
    }

    /// One beside the other, in the order that is asked for; `None` for one beside itself.
    pub fn pair(&self, first: usize, second: usize) -> Option<RankedPair> {
        let (low, high) = (first.min(second), first.max(second));
        let place = self.pairs.binary_search_by_key(&(low, high), |pair| (pair.first, pair.second)).ok()?;
        let pair = &self.pairs[place];
        Some(if first == low { pair.clone() } else { pair.reversed() })
    }
}

/// Times that were taken in turns with those of others.
#[derive(Clone, Copy, Debug)]
pub struct TimeSample<'a> {
    /// The round of each time, ascending.
    pub rounds: &'a [u32],
    /// The times.
    pub times: &'a [f64],
    /// Whether something else used the same core, for each time; empty where that is not known.
    pub crowded: &'a [bool],
}

/// Compares samples that were taken in turns. Differences below `smallest` are not significant.
pub fn rank(samples: &[TimeSample<'_>], smallest: f64) -> Ranking {
    let mut pairs = Vec::new();
    for (first, a) in samples.iter().enumerate() {
        for (second, b) in samples.iter().enumerate().skip(first + 1) {
            let (ratios, crowded) = ratios(a, b);
            if !ratios.is_empty() {
                pairs.push(pair(first, second, &ratios, &crowded));
            }
        }
    }
    adjust(&mut pairs);
    pairs.iter_mut().for_each(|pair| judge(pair, smallest));
    Ranking { pairs }
}

/// Compares each subject with the first one of its group, in rounds that all of a group have in common.
/// What the groups are together tells how many comparisons there are: give all that are shown in one
/// table. Of each group a [`RankedPair`] for each subject but the first, whose ratio is subject to first.
pub fn beside_first(groups: &[Vec<Vec<f64>>]) -> Vec<Vec<RankedPair>> {
    let mut pairs = Vec::new();
    for group in groups {
        for (place, times) in group.iter().enumerate().skip(1) {
            let both = times.iter().zip(&group[0]).filter(|(time, first)| **time > 0.0 && **first > 0.0);
            let ratios: Vec<f64> = both.map(|(time, first)| time / first).collect();
            pairs.push(match ratios.is_empty() {
                true => RankedPair { ratio: NOTHING, p: 1.0, ..pair(place, 0, &[1.0], &[]) },
                false => pair(place, 0, &ratios, &[]),
            });
        }
    }
    adjust(&mut pairs);
    pairs.iter_mut().for_each(|pair| judge(pair, SMALLEST_EFFECT));
    let mut pairs = pairs.into_iter();
    groups.iter().map(|group| pairs.by_ref().take(group.len().saturating_sub(1)).collect()).collect()
}

/// The ratio of times of which none is above zero.
const NOTHING: Interval = Interval { low: f64::NAN, median: f64::NAN, high: f64::NAN };

fn pair(first: usize, second: usize, ratios: &[f64], crowded: &[bool]) -> RankedPair {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    RankedPair {
        first,
        second,
        rounds: ratios.len(),
        ratio: interval(ratios),
        p: match is_lasting(&logarithms) && is_of_any_core(&logarithms, crowded) {
            true => signed_rank(&logarithms),
            false => 1.0,
        },
        verdict: SpeedVerdict::NotResolved,
    }
}

/// Whether the first half of the rounds and the second lie on the same side of zero. The test takes each
/// round for chance of its own; a state that a machine is in for a while makes many rounds alike, and the
/// next measurement may be made in another one.
fn is_lasting(differences: &[f64]) -> bool {
    let (early, late) = differences.split_at(differences.len() / 2);
    early.is_empty() || median(early) * median(late) > 0.0
}

/// Whether the rounds in a core that something else used too lie on the same side of zero as the others: one
/// measurement has many of those and the next has none.
fn is_of_any_core(differences: &[f64], crowded: &[bool]) -> bool {
    /// Fewer tell nothing.
    const FEWEST: usize = 3;
    let of = |wanted| -> Vec<f64> {
        let those = differences.iter().zip(crowded).filter(|(_, crowded)| **crowded == wanted);
        those.map(|(difference, _)| *difference).collect()
    };
    let (shared, alone) = (of(true), of(false));
    shared.len() < FEWEST || alone.len() < FEWEST || median(&shared) * median(&alone) > 0.0
}

/// Says what may be said, the probability being that of all comparisons.
fn judge(pair: &mut RankedPair, smallest: f64) {
    let large = (pair.ratio.median - 1.0).abs() >= smallest;
    pair.verdict = match pair.ratio {
        _ if pair.p > ERROR || !large => SpeedVerdict::NotResolved,
        Interval { high, .. } if high < 1.0 => SpeedVerdict::Faster,
        Interval { low, .. } if low > 1.0 => SpeedVerdict::Slower,
        _ => SpeedVerdict::NotResolved,
    };
}

/// The fewest rounds in which any difference among so many subjects can be resolved.
pub fn fewest_rounds(subjects: usize) -> usize {
    fewest_rounds_of(subjects * subjects.saturating_sub(1) / 2)
}

/// The fewest rounds in which any of so many comparisons can be resolved.
pub fn fewest_rounds_of(comparisons: usize) -> usize {
    // All rounds say the same with a probability of 2 in 2^n.
    let chance = |rounds: i32| 2f64.powi(1 - rounds) * comparisons.max(1) as f64;
    (1..).find(|&rounds| chance(rounds) <= ERROR).map_or(0, |rounds| rounds as usize)
}

/// The ratio of each round in which both were measured, and whether either was in a crowded core.
fn ratios(a: &TimeSample<'_>, b: &TimeSample<'_>) -> (Vec<f64>, Vec<bool>) {
    let crowded = |sample: &TimeSample<'_>, place: usize| sample.crowded.get(place).is_some_and(|&much| much);
    let both = a.rounds.iter().enumerate().filter_map(|(place, round)| {
        let other = b.rounds.binary_search(round).ok()?;
        let (time, beside) = (a.times[place], b.times[other]);
        (time > 0.0 && beside > 0.0).then(|| (time / beside, crowded(a, place) || crowded(b, other)))
    });
    both.unzip()
}

/// Holm's step-down adjustment.
fn adjust(pairs: &mut [RankedPair]) {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|&a, &b| pairs[a].p.total_cmp(&pairs[b].p));
    let mut greatest = 0f64;
    for (place, &index) in order.iter().enumerate() {
        greatest = greatest.max(pairs[index].p * (pairs.len() - place) as f64).min(1.0);
        pairs[index].p = greatest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise as machines make it: a little at every run, now and then much, and a drift common to all.
    struct Machine(u64);

    impl Machine {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        fn time(&mut self, cost: f64, round: usize) -> f64 {
            let drift = 1.0 + 0.2 * (round as f64 / 7.0).sin();
            let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
            let spike = if self.uniform() < 0.1 { 1.0 + self.uniform() } else { 1.0 };
            cost * drift * (1.0 + 0.03 * normal) * spike
        }

        fn measure(&mut self, costs: &[f64], rounds: usize) -> Ranking {
            let numbers: Vec<u32> = (0..rounds as u32).collect();
            let mut times = vec![Vec::new(); costs.len()];
            for round in 0..rounds {
                for (times, &cost) in times.iter_mut().zip(costs) {
                    times.push(self.time(cost, round));
                }
            }
            let samples: Vec<_> = times.iter().map(|times| sample(&numbers, times)).collect();
            rank(&samples, SMALLEST_EFFECT)
        }
    }

    fn sample<'a>(rounds: &'a [u32], times: &'a [f64]) -> TimeSample<'a> {
        TimeSample { rounds, times, crowded: &[] }
    }

    /// The promise of docs/measuring.md, for two subjects and for many, few rounds and many.
    #[test]
    fn equals_are_not_resolved_in_95_of_100_trials() {
        for (subjects, rounds) in [(2, 10), (2, 30), (5, 15), (12, 15)] {
            let mut machine = Machine(subjects as u64 * 1000 + rounds as u64);
            let silent = (0..100)
                .filter(|_| {
                    let ranking = machine.measure(&vec![1.0; subjects], rounds);
                    ranking.pairs().iter().all(|pair| pair.verdict == SpeedVerdict::NotResolved)
                })
                .count();
            assert!(silent >= 95, "{subjects} subjects, {rounds} rounds: {silent}");
        }
    }

    /// What a process has for its whole life, as the places of its code and its stack, makes times differ by
    /// hundredths: of 28 processes the ratio of two of SHA-1 had a standard deviation of 1%.
    #[test]
    fn what_is_the_process_is_not_resolved_in_95_of_100_trials() {
        let numbers: Vec<u32> = (0..60).collect();
        let mut machine = Machine(11);
        let silent = (0..100).filter(|_| {
            let normal = (0..12).map(|_| machine.uniform()).sum::<f64>() - 6.0;
            let cost = 1.0 + 0.01 * normal;
            let mut steady = |cost: f64| -> Vec<f64> {
                numbers.iter().map(|_| cost * (1.0 + 0.002 * machine.uniform())).collect()
            };
            let (one, other) = (steady(cost), steady(1.0));
            let both = [sample(&numbers, &one), sample(&numbers, &other)];
            rank(&both, SMALLEST_EFFECT_INSIDE).pairs()[0].verdict == SpeedVerdict::NotResolved
        });
        let silent = silent.count();
        assert!(silent >= 95, "{silent}");
    }

    /// One is the faster in a core of its own, the other in a core that is shared, which lasts for some
    /// rounds and comes back.
    #[test]
    fn what_depends_on_the_neighbour_is_not_resolved_in_95_of_100_trials() {
        let numbers: Vec<u32> = (0..40).collect();
        let mut machine = Machine(12);
        let silent = (0..100).filter(|trial| {
            let often = 4 + trial % 9;
            let crowded: Vec<bool> = numbers.iter().map(|round| (round / 4) % often == 1).collect();
            let mut times = |shared: f64| -> Vec<f64> {
                let cost = |&crowded: &bool| if crowded { shared } else { 1.0 };
                crowded.iter().map(|much| cost(much) * (1.0 + 0.01 * machine.uniform())).collect()
            };
            let (fills, waits) = (times(1.4), times(1.0));
            let waits: Vec<f64> = waits.iter().map(|time| time * 1.2).collect();
            let sample = |times| TimeSample { rounds: &numbers, times, crowded: &crowded };
            rank(&[sample(&fills), sample(&waits)], SMALLEST_EFFECT_INSIDE).pairs()[0].verdict
                == SpeedVerdict::NotResolved
        });
        let silent = silent.count();
        assert!(silent >= 95, "{silent}");
    }

    #[test]
    fn costs_are_ranked_rightly() {
        let mut machine = Machine(7);
        let costs = [1.0, 1.15, 1.4, 2.0];
        let mut resolved = 0;
        for _ in 0..100 {
            let ranking = machine.measure(&costs, 20);
            for pair in ranking.pairs() {
                assert_ne!(pair.verdict, SpeedVerdict::Slower, "{pair:?}");
                resolved += usize::from(pair.verdict == SpeedVerdict::Faster);
                assert_eq!(ranking.pair(pair.second, pair.first), Some(pair.reversed()));
            }
        }
        assert!(resolved > 560, "{resolved} of 600 pairs");
    }

    #[test]
    fn pairs_are_those_of_common_rounds() {
        let a = TimeSample { crowded: &[true, true, false], ..sample(&[1, 2, 4], &[1.0, 2.0, 4.0]) };
        let b = sample(&[2, 3, 4], &[1.0, 3.0, 1.0]);
        assert_eq!(ratios(&a, &b), (vec![2.0, 4.0], vec![true, false]));
        assert!(rank(&[a, sample(&[], &[])], SMALLEST_EFFECT).pairs().is_empty());
    }

    #[test]
    fn what_half_of_the_rounds_show_is_not_resolved() {
        let numbers: Vec<u32> = (0..20).collect();
        let verdict = |slow: &dyn Fn(usize) -> bool| {
            let times: Vec<f64> = (0..20).map(|round| if slow(round) { 1.02 } else { 0.9 }).collect();
            rank(&[sample(&numbers, &times), sample(&numbers, &[1.0; 20])], SMALLEST_EFFECT).pairs()[0]
                .verdict
        };
        // As many rounds of each kind, but in a row or in between.
        assert_eq!(verdict(&|round| round >= 14), SpeedVerdict::NotResolved);
        assert_eq!(verdict(&|round| round % 10 > 6), SpeedVerdict::Faster);
        let both = [sample(&numbers, &[1.02; 20]), sample(&numbers, &[1.0; 20])];
        let slower = |smallest| rank(&both, smallest).pairs()[0].verdict;
        assert_eq!(slower(SMALLEST_EFFECT), SpeedVerdict::Slower);
        assert_eq!(slower(SMALLEST_EFFECT_INSIDE), SpeedVerdict::NotResolved);
    }

    #[test]
    fn few_rounds_resolve_nothing() {
        assert_eq!((fewest_rounds(2), fewest_rounds(10), fewest_rounds(20)), (6, 11, 13));
        for subjects in [2, 5] {
            let costs: Vec<f64> = (0..subjects).map(|i| f64::from(1 << i)).collect();
            let fewest = fewest_rounds(subjects);
            let resolved = |rounds| {
                let ranking = Machine(3).measure(&costs, rounds);
                ranking.pairs().iter().filter(|pair| pair.verdict == SpeedVerdict::Faster).count()
            };
            assert_eq!(resolved(fewest - 1), 0);
            assert!(resolved(fewest) > 0);
        }
    }

    #[test]
    fn what_stands_beside_a_first_one_is_judged_over_all_groups() {
        let times = |factor: f64, rounds: u32| -> Vec<f64> {
            (0..rounds).map(|round| factor * (1.0 + f64::from(round) / 100.0)).collect()
        };
        let groups = |count: usize, rounds| vec![vec![times(1.0, rounds), times(2.0, rounds)]; count];
        // Six rounds that all say the same: enough for one comparison, not for two.
        assert_eq!((fewest_rounds_of(1), fewest_rounds_of(2), fewest_rounds_of(8)), (6, 7, 9));
        assert_eq!(beside_first(&groups(1, 6))[0][0].verdict, SpeedVerdict::Slower);
        assert_eq!(beside_first(&groups(1, 5))[0][0].verdict, SpeedVerdict::NotResolved);
        let two = beside_first(&groups(2, 6));
        assert_eq!((two.len(), two[1].len(), two[1][0].verdict), (2, 1, SpeedVerdict::NotResolved));
        assert_eq!((two[0][0].first, two[0][0].second, two[0][0].ratio.median), (1, 0, 2.0));
        // What differs by less than a hundredth, however often.
        let small = beside_first(&[vec![times(1.0, 50), times(1.007, 50), times(0.9, 50)]]);
        assert_eq!(
            (small[0][0].verdict, small[0][1].verdict),
            (SpeedVerdict::NotResolved, SpeedVerdict::Faster)
        );
        let nothing = beside_first(&[vec![vec![0.0; 9], vec![1.0; 9]]]);
        assert!(nothing[0][0].verdict == SpeedVerdict::NotResolved && nothing[0][0].ratio.median.is_nan());
    }

    #[test]
    fn adjusted_probabilities_are_holms() {
        // The example of Holm's procedure in many textbooks.
        let pair = |p| RankedPair {
            first: 0,
            second: 1,
            rounds: 1,
            ratio: Interval { low: 1.0, median: 1.0, high: 1.0 },
            p,
            verdict: SpeedVerdict::NotResolved,
        };
        let mut pairs = [0.01, 0.04, 0.03, 0.005].map(pair);
        adjust(&mut pairs);
        for (pair, wanted) in pairs.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((pair.p - wanted).abs() < 1e-12, "{pair:?}");
        }
    }

    #[test]
    fn verdicts_are_words() {
        let mut pair = RankedPair {
            first: 0,
            second: 1,
            rounds: 9,
            ratio: Interval { low: 0.5, median: 0.52, high: 0.55 },
            p: 0.01,
            verdict: SpeedVerdict::Faster,
        };
        assert_eq!(pair.words(), "1.82 to 2.00 times as fast");
        assert_eq!(pair.reversed().words(), "1.82 to 2.00 times as slow");
        pair.verdict = SpeedVerdict::NotResolved;
        assert_eq!(pair.words(), "no significant difference");
    }
}
