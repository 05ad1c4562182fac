//! Probabilities of what a good hash would do by chance.

/// The logarithm of the gamma function (Lanczos), good to about 14 digits for x > 0.
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = C[1..].iter().enumerate().fold(C[0], |sum, (i, c)| sum + c / (x + i as f64 + 1.0));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The regularised lower incomplete gamma function P(a, x), and Q = 1 - P, each computed where it is small.
fn incomplete_gamma(a: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let mut term = 1.0 / a;
        let mut sum = term;
        let mut n = a;
        while term > sum * 1e-16 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        let p = (sum * scale).min(1.0);
        (p, 1.0 - p)
    } else {
        // Lentz's continued fraction.
        let mut b = x + 1.0 - a;
        let mut c = 1e300;
        let mut d = 1.0 / b;
        let mut h = d;
        for i in 1..100_000 {
            let an = -f64::from(i) * (f64::from(i) - a);
            b += 2.0;
            d = 1.0 / nonzero(an * d + b);
            c = nonzero(b + an / c);
            let delta = d * c;
            h *= delta;
            if (delta - 1.0).abs() < 1e-15 {
                break;
            }
        }
        let q = (h * scale).min(1.0);
        (1.0 - q, q)
    }
}

fn nonzero(x: f64) -> f64 {
    if x.abs() < 1e-300 { 1e-300 } else { x }
}

/// The probability of a chi-square this great or greater with so many degrees of freedom.
pub(crate) fn chi_square_upper(statistic: f64, freedom: f64) -> f64 {
    incomplete_gamma(freedom / 2.0, statistic / 2.0).1
}

/// The probability of so many or more where `mean` are expected, of events that are independent and rare.
pub(crate) fn poisson_upper(count: u64, mean: f64) -> f64 {
    match count {
        0 => 1.0,
        _ => incomplete_gamma(count as f64, mean).0,
    }
}

/// The probability of so many or more of `trials`, each with probability `p`.
pub(crate) fn binomial_upper(count: u64, trials: u64, p: f64) -> f64 {
    let term = |k: u64| {
        let (k, n) = (k as f64, trials as f64);
        (ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
            + k * p.ln()
            + (n - k) * (1.0 - p).ln())
        .exp()
    };
    let mean = trials as f64 * p;
    if count as f64 <= mean {
        // The other tail is the shorter sum.
        return (1.0 - (0..count).rev().map(term).take_while(|&x| x > 1e-20).sum::<f64>()).clamp(0.0, 1.0);
    }
    (count..=trials).map(term).take_while(|&x| x > 1e-320).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < wanted.abs() * 1e-9 + 1e-15, "{found} {wanted}");
    }

    #[test]
    fn values_are_those_of_tables() {
        close(chi_square_upper(2.0, 2.0), (-1f64).exp());
        close(chi_square_upper(3.841_458_820_694_124, 1.0), 0.05);
        close(chi_square_upper(124.342_113_404_004_1, 100.0), 0.05);
        close(poisson_upper(1, 0.5), 1.0 - (-0.5f64).exp());
        close(poisson_upper(3, 1.0), 1.0 - 2.5 * (-1f64).exp());
        close(binomial_upper(3, 4, 0.5), 5.0 / 16.0);
        close(binomial_upper(1, 4, 0.5), 15.0 / 16.0);
        close(binomial_upper(0, 4, 0.5), 1.0);
        assert!(binomial_upper(400, 1000, 1.0 / 128.0) < 1e-200);
    }
}
