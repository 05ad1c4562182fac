//! Rank tests: exact for the small numbers of runs that measurements have, ties included.

/// Above so many values the normal approximation is as good as the exact count.
const EXACT: usize = 60;

/// Wilcoxon's signed-rank test (1945): the probability, two-sided, that differences lie so much to one
/// side of zero by chance. Zeros are left out.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let mut values: Vec<f64> = differences.iter().copied().filter(|&value| value != 0.0).collect();
    values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let count = values.len();
    if count == 0 {
        return 1.0;
    }
    let ranks = doubled_ranks(&values.iter().map(|value| value.abs()).collect::<Vec<_>>());
    let positive: usize = values.iter().zip(&ranks).filter(|(value, _)| **value > 0.0).map(|(_, r)| r).sum();
    let total: usize = ranks.iter().sum();
    let smaller = positive.min(total - positive);
    if count <= EXACT {
        // How many of the 2^n choices of signs give each sum.
        let mut ways = vec![0.0; total + 1];
        ways[0] = 1.0;
        for &rank in &ranks {
            for sum in (rank..=total).rev() {
                ways[sum] += ways[sum - rank];
            }
        }
        let tail: f64 = ways[..=smaller].iter().sum();
        return (2.0 * tail / 2f64.powi(count as i32)).min(1.0);
    }
    // In doubled ranks: mean and variance of the sum with each sign by chance.
    let mean = total as f64 / 2.0;
    let variance: f64 = ranks.iter().map(|&rank| (rank * rank) as f64).sum::<f64>() / 4.0;
    normal_two_sided(mean - smaller as f64 - 1.0, variance)
}

/// The test of Mann and Whitney (1947): the probability, two-sided, that two samples lie so far apart if
/// they are of one kind.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> f64 {
    let (m, n) = (first.len(), second.len());
    if m == 0 || n == 0 {
        return 1.0;
    }
    let mut all: Vec<(f64, bool)> = first.iter().map(|&value| (value, true)).collect();
    all.extend(second.iter().map(|&value| (value, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ranks = doubled_ranks(&all.iter().map(|(value, _)| *value).collect::<Vec<_>>());
    let sum: usize =
        all.iter().zip(&ranks).filter(|((_, is_first), _)| *is_first).map(|(_, rank)| rank).sum();
    let total: usize = ranks.iter().sum();
    let mean = total as f64 * m as f64 / (m + n) as f64;
    let apart = (sum as f64 - mean).abs();
    if m + n <= EXACT {
        // How many choices of m of the ranks give each sum.
        let mut ways = vec![vec![0.0; total + 1]; m + 1];
        ways[0][0] = 1.0;
        for &rank in &ranks {
            for chosen in (1..=m).rev() {
                for sum in (rank..=total).rev() {
                    ways[chosen][sum] += ways[chosen - 1][sum - rank];
                }
            }
        }
        let far = |sum: usize| (sum as f64 - mean).abs() >= apart - 1e-9;
        let all: f64 = ways[m].iter().sum();
        let tail: f64 = (0..=total).filter(|&sum| far(sum)).map(|sum| ways[m][sum]).sum();
        return (tail / all).min(1.0);
    }
    let size = (m + n) as f64;
    let middle = total as f64 / size;
    let spread: f64 = ranks.iter().map(|&rank| (rank as f64 - middle).powi(2)).sum::<f64>() / (size - 1.0);
    normal_two_sided(apart - 1.0, spread * m as f64 * n as f64 / size)
}

/// Twice the rank of each of the sorted values, so that those of ties, which share the mean of their
/// ranks, are whole numbers.
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for group in sorted.chunk_by(|a, b| a == b) {
        let first = ranks.len() + 1;
        ranks.extend(std::iter::repeat_n(2 * first + group.len() - 1, group.len()));
    }
    ranks
}

/// The probability of so much or more to either side of a normal distribution of this variance.
fn normal_two_sided(apart: f64, variance: f64) -> f64 {
    if variance <= 0.0 || apart <= 0.0 {
        return 1.0;
    }
    libm::erfc(apart / (2.0 * variance).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 5e-5, "{found} instead of {wanted}");
    }

    /// Heights of 15 pairs of maize, crossed less self-fertilised, in eighths of an inch: Darwin, The
    /// effects of cross and self fertilisation (1876), as printed by Fisher, The design of experiments.
    const MAIZE: [f64; 15] = [49., -67., 8., 16., 6., 23., 28., 41., 14., 29., 56., 24., 75., 60., -48.];

    #[test]
    fn signed_ranks_are_those_of_tables() {
        // Darwin's maize: the smaller sum is 24, p = 0.0413.
        close(signed_rank(&MAIZE), 0.041_26);
        // Critical values of 5%, two-sided: 8 of 10 pairs, 52 of 20; one more is above.
        let with_sum = |count: u32, sum: u32| {
            let mut left = sum;
            let value = |rank: u32| {
                let negative = rank <= left;
                left -= if negative { rank } else { 0 };
                if negative { -f64::from(rank) } else { f64::from(rank) }
            };
            let values: Vec<f64> = (1..=count).rev().map(value).collect();
            signed_rank(&values)
        };
        assert!(with_sum(10, 8) <= 0.05 && with_sum(10, 9) > 0.05);
        assert!(with_sum(20, 52) <= 0.05 && with_sum(20, 53) > 0.05);
        close(with_sum(10, 8), 0.048_83);
        close(signed_rank(&[1., 2., 3., 4., 5.]), 0.0625);
        assert_eq!(signed_rank(&[]), 1.0);
        assert_eq!(signed_rank(&[0.0; 9]), 1.0);
        assert_eq!(signed_rank(&[1.0, -1.0]), 1.0);
    }

    #[test]
    fn many_values_are_as_few() {
        // The approximation beside the exact count, where both can be had.
        let values: Vec<f64> = (1..=EXACT).map(|i| if i % 5 < 2 { -(i as f64) } else { i as f64 }).collect();
        let exact = signed_rank(&values);
        let mut more = values.clone();
        more.push(0.5);
        let approximate = signed_rank(&more);
        assert!((exact - approximate).abs() < 0.01, "{exact} {approximate}");
    }

    #[test]
    fn two_samples_are_those_of_tables() {
        // The smallest samples of which 5% can be told, and critical values of U: 0 of 4 and 4 (p is
        // 2/70), 23 of 10 and 10.
        close(mann_whitney(&[1., 2., 3., 4.], &[5., 6., 7., 8.]), 2.0 / 70.0);
        close(mann_whitney(&[1., 2., 3.], &[4., 5., 6.]), 0.1);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 7]), 1.0);
        let many: Vec<f64> = (0..40).map(f64::from).collect();
        let later: Vec<f64> = many.iter().map(|value| value + 30.0).collect();
        assert!(mann_whitney(&many, &later) < 1e-6);
        let mixed: Vec<f64> = many.iter().map(|value| value + 0.5).collect();
        assert!(mann_whitney(&many, &mixed) > 0.8);
    }
}
