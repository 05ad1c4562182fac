//! The matrix of rates that Perl's Benchmark module prints (`cmpthese`), byte for byte.

use std::fmt::Write;

/// What one way took.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// What it is called.
    pub name: String,
    /// How often it was run.
    pub count: u64,
    /// Processor time of all runs in seconds, that of programs that it started included: Benchmark takes
    /// this, and not the time on the clock, for the time that something takes.
    pub seconds: f64,
}

/// The width that Benchmark fills where columns differ.
const WIDTH: usize = 80;

/// The matrix: slowest first; in each row how much faster it is than the one of the column, in percent.
pub fn cmpthese(timings: &[Timing]) -> String {
    // Benchmark adds so little so that nothing is divided by zero.
    let rate = |timing: &Timing| timing.count as f64 / (timing.seconds + 1e-15);
    let mut rows: Vec<(&str, f64)> =
        timings.iter().map(|timing| (timing.name.as_str(), rate(timing))).collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(&(_, middle)) = rows.get(rows.len().saturating_sub(1) / 2) else { return String::new() };
    let rates = middle > 1.0;
    let mut cells: Vec<Vec<String>> = Vec::new();
    let mut heading = vec![String::new(), if rates { "Rate" } else { "s/iter" }.to_string()];
    heading.extend(rows.iter().map(|(name, _)| name.to_string()));
    cells.push(heading);
    for (index, &(name, rate)) in rows.iter().enumerate() {
        let mut row = vec![name.to_string(), if rates { number(rate) + "/s" } else { number(1.0 / rate) }];
        row.extend(rows.iter().enumerate().map(|(other, (_, than))| match other == index {
            true => "--".to_string(),
            false => format!("{:.0}%", 100.0 * rate / than - 100.0),
        }));
        cells.push(row);
    }
    let widths = widths(&cells);
    let mut text = String::new();
    for row in &cells {
        let _ = write!(text, "{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(text, " {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

/// As wide as the widest cell; then the narrowest columns of percentages grow until all are alike or the
/// line is full.
fn widths(cells: &[Vec<String>]) -> Vec<usize> {
    let columns = cells[0].len();
    let mut widths: Vec<usize> = (0..columns)
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut total = columns - 1 + widths.iter().sum::<usize>();
    let mut order: Vec<usize> = (2..columns).collect();
    order.sort_by_key(|&column| widths[column]);
    let widest = order.last().map_or(0, |&column| widths[column]);
    while total < WIDTH {
        let least = order.first().map_or(widest, |&column| widths[column]);
        if least == widest {
            break;
        }
        for &column in &order {
            if widths[column] > least || total >= WIDTH {
                break;
            }
            widths[column] += 1;
            total += 1;
        }
    }
    widths
}

/// Three digits or so, in C's way of writing powers of ten.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v if v >= 0.1 => format!("{v:.3}"),
        v => {
            let text = format!("{v:.2e}");
            let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, power) = match power.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', power),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rates_make_the_published_matrix() {
        let published = [("script", 86.1), ("one-liner", 137.0), ("addfile", 145.0), ("binmode", 155.0)];
        let mut timings: Vec<Timing> = published
            .iter()
            .map(|&(name, rate)| Timing { name: name.to_string(), count: 1000, seconds: 1000.0 / rate })
            .collect();
        timings.push(Timing { name: "md5sum".to_string(), count: 1000, seconds: 1000.0 / 556.0 });
        assert_eq!(
            cmpthese(&timings),
            "            Rate    script one-liner   addfile   binmode    md5sum\n\
             script    86.1/s        --      -37%      -41%      -44%      -85%\n\
             one-liner  137/s       59%        --       -6%      -12%      -75%\n\
             addfile    145/s       68%        6%        --       -6%      -74%\n\
             binmode    155/s       80%       13%        7%        --      -72%\n\
             md5sum     556/s      546%      306%      283%      259%        --\n"
        );
        assert_eq!(cmpthese(&[]), "");
    }
}
