//! Rank agreement: whether two measurements of the same things rank them alike.
//!
//! Every pair of a group is judged within each measurement, round by round, as its own tables do; then the
//! two verdicts stand side by side. That one measurement resolves what the other does not is to be expected;
//! that one says faster and the other slower is not.

use crate::export::{Cell, Report, Table};
use crate::measure::more_crowded;
use crate::record::{BenchResults, Series, ranking};
use crate::stats::{RankedPair, SpeedVerdict};
use crate::summary::ranked;

/// The most pairs that are judged, all groups together. The largest of ours has some hundreds, and each takes
/// a fifth of a millisecond.
const MOST_PAIRS: usize = 20_000;

/// What two measurements say of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// One says faster and the other slower.
    Contradict,
    /// Only the first resolves it.
    First,
    /// Only the second resolves it.
    Second,
    /// Both say the same.
    Agree,
    /// Neither resolves it.
    Neither,
}

impl Together {
    /// All, in the order of tables.
    const ALL: [Together; 5] =
        [Together::Contradict, Together::First, Together::Second, Together::Agree, Together::Neither];

    /// The words of tables.
    pub const fn name(self) -> &'static str {
        match self {
            Together::Contradict => "contradict",
            Together::First => "only the first",
            Together::Second => "only the second",
            Together::Agree => "agree",
            Together::Neither => "neither",
        }
    }

    fn of(first: SpeedVerdict, second: SpeedVerdict) -> Together {
        match (first, second) {
            (SpeedVerdict::NotResolved, SpeedVerdict::NotResolved) => Together::Neither,
            (_, SpeedVerdict::NotResolved) => Together::First,
            (SpeedVerdict::NotResolved, _) => Together::Second,
            (first, second) if first == second => Together::Agree,
            _ => Together::Contradict,
        }
    }
}

/// A pair in two measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Twice {
    /// The group.
    pub group: String,
    /// Whose times are divided.
    pub name: String,
    /// By whose.
    pub beside: String,
    /// What the first measurement says.
    pub first: RankedPair,
    /// What the second says.
    pub second: RankedPair,
    /// What both say.
    pub together: Together,
}

/// Every pair that two measurements have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// The pairs, group by group.
    pub pairs: Vec<Twice>,
    /// Groups that were not judged since there were too many pairs, and how many rows they have.
    pub unjudged: Vec<(String, usize)>,
    /// Whether they must agree: both measured the same, on a machine that is the same, in cores that were
    /// shared or not alike.
    pub expected: bool,
}

impl Agreement {
    /// Compares what two measurements say. What had other data, or another state of the cache, is no pair of
    /// both.
    pub fn of(first: &BenchResults, second: &BenchResults) -> Agreement {
        let same_machine =
            first.host.differences(&second.host).is_empty() && more_crowded(first, second).is_none();
        let mut agreement =
            Agreement { expected: same_machine && first.bench == second.bench, ..Agreement::default() };
        let mut left = MOST_PAIRS;
        for group in first.groups() {
            let both = [first.of_group(group), second.of_group(group)].map(|series| ranked(&series));
            let rows = both.iter().map(Vec::len).max().unwrap_or(0);
            match left.checked_sub(rows * rows.saturating_sub(1) / 2) {
                Some(rest) => {
                    left = rest;
                    agreement.add(group, &both[0], &both[1]);
                }
                None => agreement.unjudged.push((group.to_string(), rows)),
            }
        }
        agreement
    }

    fn add(&mut self, group: &str, first: &[&Series], second: &[&Series]) {
        // All of each take part in its ranking: it is what its tables say.
        let rankings = [ranking(first), ranking(second)];
        let places: Vec<(usize, usize)> = first
            .iter()
            .enumerate()
            .filter_map(|(place, one)| {
                let same = |other: &&&Series| {
                    other.name == one.name && other.bytes == one.bytes && other.cache == one.cache
                };
                Some((place, second.iter().position(|other| same(&other))?))
            })
            .collect();
        for (index, &one) in places.iter().enumerate() {
            for &other in &places[index + 1..] {
                let pairs = (rankings[0].pair(one.0, other.0), rankings[1].pair(one.1, other.1));
                let (Some(a), Some(b)) = pairs else { continue };
                self.pairs.push(Twice {
                    group: group.to_string(),
                    name: first[one.0].name.clone(),
                    beside: first[other.0].name.clone(),
                    together: Together::of(a.verdict, b.verdict),
                    first: a,
                    second: b,
                });
            }
        }
    }

    /// How many pairs are so.
    pub fn count(&self, together: Together) -> usize {
        self.that(together).count()
    }

    /// Whether there is a contradiction where there should be none.
    pub fn is_broken(&self) -> bool {
        self.expected && self.count(Together::Contradict) > 0
    }

    /// Adds to a report what it says: a line for all, one for each contradiction, the numbers by group, and
    /// the pairs that only one resolves; those on which both agree too if `all` are wanted.
    pub fn tell(&self, report: &mut Report, all: bool) {
        let unjudged = self.unjudged.iter().map(|(group, rows)| {
            format!("pairs of {group} are not compared: with those of its {rows} rows there are more than {MOST_PAIRS}")
        });
        report.lines.splice(0..0, unjudged);
        if self.pairs.is_empty() {
            return;
        }
        let count = |together| self.count(together);
        let mut lines: Vec<String> = self
            .that(Together::Contradict)
            .map(|pair| {
                let (first, second) = (pair.first.words(), pair.second.words());
                format!(
                    "CONTRADICTION: {} relative to {} ({}): {first}, then {second}",
                    pair.name, pair.beside, pair.group
                )
            })
            .collect();
        lines.push(format!(
            "pairs: {}; significant in both {}, of which {} agree; \
             only in the first {}, only in the second {}, in neither {}",
            self.pairs.len(),
            count(Together::Agree) + count(Together::Contradict),
            count(Together::Agree),
            count(Together::First),
            count(Together::Second),
            count(Together::Neither),
        ));
        report.lines.splice(0..0, lines);
        report.tables.push(self.groups());
        let mut table = Table::new(
            if all {
                "Pairs that are significant in any of the two"
            } else {
                "Pairs that are significant in only one of the two"
            },
            "group; what; relative to; the first; the second; verdict",
        );
        let shown = Together::ALL.into_iter().filter(|together| match together {
            Together::Neither => false,
            Together::Agree => all,
            _ => true,
        });
        for pair in shown.flat_map(|together| self.that(together)) {
            let words = [&pair.first, &pair.second].map(words);
            let [first, second] = words.map(Cell::Text);
            let names = [&pair.group, &pair.name, &pair.beside].map(Cell::text);
            table.row([names.to_vec(), vec![first, second, Cell::text(pair.together.name())]].concat());
        }
        if !table.rows.is_empty() {
            report.tables.push(table);
        }
    }

    fn that(&self, together: Together) -> impl Iterator<Item = &Twice> {
        self.pairs.iter().filter(move |pair| pair.together == together)
    }

    fn groups(&self) -> Table {
        let columns = format!("group; pairs; {}", Together::ALL.map(Together::name).join("; "));
        let mut table = Table::new("How both rank", &columns);
        let mut groups: Vec<&str> = self.pairs.iter().map(|pair| pair.group.as_str()).collect();
        groups.dedup();
        for group in groups {
            let of_group: Vec<&Twice> = self.pairs.iter().filter(|pair| pair.group == group).collect();
            let mut cells = vec![Cell::text(group), Cell::Count(of_group.len() as u64)];
            cells.extend(Together::ALL.map(|together| {
                Cell::Count(of_group.iter().filter(|pair| pair.together == together).count() as u64)
            }));
            table.row(cells);
        }
        table
    }
}

/// What a measurement says of a pair; of what is not significant also how far it may be apart.
fn words(pair: &RankedPair) -> String {
    match pair.verdict {
        SpeedVerdict::NotResolved => {
            format!(
                "no significant difference: {:.2} to {:.2} times the time",
                pair.ratio.low, pair.ratio.high
            )
        }
        _ => pair.words(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MeasuredMachine;
    use crate::measure::{About, Cache, MeasurePlan, Measured};
    use std::time::Duration;

    /// Results of ten rounds, each with another load that all of a round share.
    fn results(costs: &[(&str, u64)]) -> BenchResults {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for &(name, cost) in costs {
            let mut about = About::new("g", name).bytes(1000);
            about.control = name == "null";
            let mut series = Series::new(&about);
            for round in 0..10 {
                let wall = Duration::from_micros(cost * (100 + u64::from(round) * 3 % 7));
                series.add(round, &Measured { wall, ..Measured::default() }, Cache::Warm);
            }
            results.series.push(series);
        }
        results
    }

    fn together(agreement: &Agreement) -> Vec<(&str, &str, Together)> {
        agreement.pairs.iter().map(|pair| (pair.name.as_str(), pair.beside.as_str(), pair.together)).collect()
    }

    #[test]
    fn pairs_agree_are_resolved_once_or_contradict() {
        let first = results(&[("a", 100), ("b", 150), ("c", 200), ("d", 200), ("null", 5), ("gone", 9)]);
        let mut second = results(&[("d", 220), ("c", 200), ("a", 100), ("b", 90), ("null", 99), ("new", 9)]);
        let agreement = Agreement::of(&first, &second);
        assert_eq!(
            together(&agreement),
            [
                ("a", "b", Together::Contradict),
                ("a", "c", Together::Agree),
                ("a", "d", Together::Agree),
                ("b", "c", Together::Agree),
                ("b", "d", Together::Agree),
                ("c", "d", Together::Second),
            ]
        );
        assert!(agreement.is_broken());
        let mut report = Report::new("T");
        agreement.tell(&mut report, false);
        assert_eq!(
            report.lines,
            [
                "CONTRADICTION: a relative to b (g): 1.50 times as fast, then 1.11 times as slow",
                "pairs: 6; significant in both 5, of which 4 agree; \
                 only in the first 0, only in the second 1, in neither 0",
            ]
        );
        let text = report.to_text();
        assert!(
            text.contains("no significant difference: 1.00 to 1.00 times the time  1.10 times as fast"),
            "{text}"
        );
        assert_eq!(report.tables[1].rows.len(), 2);
        let mut report = Report::new("T");
        agreement.tell(&mut report, true);
        assert_eq!(report.tables[1].rows.len(), 6);
        // In a core that is shared, or on another machine, another order is no contradiction.
        let crowding = |results: &mut BenchResults, much| results.series[0].crowding = vec![much; 10];
        let mut alone = first.clone();
        crowding(&mut alone, 3.0);
        crowding(&mut second, 4.1);
        assert!(!Agreement::of(&alone, &second).is_broken());
        let lines = crate::compare::report(&alone, &second).lines;
        assert!(lines[0].ends_with("took 1.37 times its time in the second"), "{lines:?}");
        crowding(&mut second, 3.1);
        assert!(Agreement::of(&alone, &second).is_broken());
        second.host.processor = "another".to_string();
        assert!(!Agreement::of(&first, &second).is_broken());
    }

    #[test]
    fn the_same_results_agree_with_themselves() {
        let results = results(&[("a", 100), ("b", 100), ("c", 300)]);
        let agreement = Agreement::of(&results, &results);
        assert_eq!((agreement.count(Together::Agree), agreement.count(Together::Neither)), (2, 1));
        assert!(!agreement.is_broken());
    }

    #[test]
    fn more_pairs_than_anybody_measures_are_left_out() {
        let mut many = results(&[("a", 100), ("b", 150)]);
        for row in 0..300 {
            let mut series = many.series[0].clone();
            (series.group, series.name) = ("many".to_string(), row.to_string());
            many.series.push(series);
        }
        let agreement = Agreement::of(&many, &many);
        assert_eq!(
            (agreement.pairs.len(), agreement.unjudged.as_slice()),
            (1, &[("many".to_string(), 300)][..])
        );
        let mut report = Report::new("T");
        agreement.tell(&mut report, false);
        assert!(report.lines[0].starts_with("pairs: 1; "), "{:?}", report.lines);
        let line = &report.lines[1];
        assert!(line.starts_with("pairs of many are not compared: with those of its 300 rows"), "{line}");
    }

    #[test]
    fn other_data_and_caches_are_no_pairs() {
        let first = results(&[("a", 100), ("b", 150), ("c", 200)]);
        let mut second = first.clone();
        second.series[0].bytes = 7;
        second.series[1].cache = Cache::Cold;
        assert_eq!(Agreement::of(&first, &second).pairs, []);
        let mut report = Report::new("T");
        Agreement::default().tell(&mut report, true);
        assert_eq!(report, Report::new("T"));
    }
}
