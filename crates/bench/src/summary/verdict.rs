//! The verdict of a bench in one sentence: who is fastest, and by how much.

use super::{is_reached, ranked};
use crate::record::{BenchResults, Series, ranking};
use crate::stats::{RankedPair, Ranking, SpeedVerdict, fewest_rounds};

/// How our own rows begin, of programs and of code in this process.
const OURS: [&str; 2] = ["verisum", "ours"];

/// How the fastest compares with verisum, or with the next one where verisum is not among them.
pub(super) fn of_group(ranked: &[&Series], ranking: &Ranking) -> Option<String> {
    let (fastest, other, pair) = compared(ranked, ranking)?;
    if let (SpeedVerdict::NotResolved, Some((rounds, fewest))) = (pair.verdict, few_rounds(ranked)) {
        return Some(too_few(rounds, fewest));
    }
    Some(format!("{} {} here", names_of(fastest, &pair), words(&pair, &other.name)))
}

/// How many rounds a group has and needs, where it has too few to show a difference.
pub(super) fn few_rounds(ranked: &[&Series]) -> Option<(usize, usize)> {
    let rounds = ranked.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
    let fewest = fewest_rounds(ranked.len());
    (ranked.len() > 1 && rounds < fewest).then_some((rounds, fewest))
}

fn too_few(rounds: usize, fewest: usize) -> String {
    let rounds = if rounds == 1 { "1 round is".to_string() } else { format!("{rounds} rounds are") };
    format!("{rounds} too few to tell ({fewest} are needed)")
}

/// The same of all groups: of one group its sentence, of many how often verisum is the fastest, and where it is the
/// furthest behind.
pub(super) fn headline(results: &BenchResults) -> Option<String> {
    let mut sentences = Vec::new();
    let (mut ours, mut alike, mut behind) = (0, 0, Vec::new());
    // In how many groups there were too few rounds, how many those had at most, and how many they need.
    let (mut untold, mut rounds, mut fewest) = (0, 0, 0);
    let mut alone: Vec<&str> = Vec::new();
    for group in results.groups() {
        let series = results.of_group(group);
        if !is_reached(&series) {
            continue;
        }
        let ranked = ranked(&series);
        let ranking = ranking(&ranked);
        if let [one] = ranked[..] {
            alone.push(&one.name);
        }
        let Some((fastest, other, pair)) = compared(&ranked, &ranking) else { continue };
        sentences.extend(of_group(&ranked, &ranking));
        let few = few_rounds(&ranked).filter(|_| pair.verdict == SpeedVerdict::NotResolved);
        if let Some((had, needed)) = few.filter(|_| is_ours(fastest) || is_ours(other)) {
            (untold, rounds, fewest) = (untold + 1, rounds.max(had), fewest.max(needed));
            continue;
        }
        match pair.verdict {
            SpeedVerdict::NotResolved if is_ours(fastest) || is_ours(other) => alike += 1,
            _ if is_ours(fastest) => ours += 1,
            SpeedVerdict::Faster if is_ours(other) => {
                behind.push((pair.ratio.median, group, fastest, pair, other))
            }
            _ => {}
        }
    }
    if let (true, [first, ..]) = (sentences.is_empty(), &alone[..]) {
        let name = if alone.iter().all(|one| one == first) { first } else { "each" };
        return Some(format!("{name} was measured alone: there is nothing to compare it with"));
    }
    let of = ours + alike + untold + behind.len();
    if sentences.len() < 2 || of == 0 {
        // Its table has it too, unless nobody reads that far.
        return sentences.pop().filter(|_| sentences.is_empty());
    }
    if untold == of {
        return Some(too_few(rounds, fewest));
    }
    behind.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut line = format!("verisum is the fastest in {ours} of {of} comparisons");
    if !behind.is_empty() {
        line += &format!(", and behind in {}", behind.len());
    }
    if alike > 0 {
        line += &format!("; in {alike} there is no significant difference");
    }
    if untold > 0 {
        line += &format!("; in {untold} {}", too_few(rounds, fewest));
    }
    if let Some((_, group, fastest, pair, other)) = behind.first() {
        line += &format!("; at worst, {} {} ({group})", fastest.name, words(pair, &other.name));
    }
    Some(line)
}

/// The fastest, and whom it is compared with: verisum's best where there is one, else the next.
fn compared<'a>(ranked: &[&'a Series], ranking: &Ranking) -> Option<(&'a Series, &'a Series, RankedPair)> {
    let fastest = *ranked.first()?;
    let place = match is_ours(fastest) {
        true => ranked.iter().position(|one| !is_ours(one)),
        false => ranked.iter().position(|one| is_ours(one)),
    };
    let place = place.or_else(|| (ranked.len() > 1).then_some(1))?;
    Some((fastest, ranked[place], ranking.pair(0, place)?))
}

fn is_ours(series: &Series) -> bool {
    let rest = OURS.iter().find_map(|ours| series.name.strip_prefix(ours));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

fn names_of<'a>(fastest: &'a Series, pair: &RankedPair) -> std::borrow::Cow<'a, str> {
    match pair.verdict {
        SpeedVerdict::NotResolved => format!("between {}", fastest.name).into(),
        _ => fastest.name.as_str().into(),
    }
}

fn words(pair: &RankedPair, other: &str) -> String {
    match pair.verdict {
        SpeedVerdict::NotResolved => format!("and {other} there is no significant difference"),
        _ => format!("is {} as {other}", pair.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MeasuredMachine;
    use crate::measure::{About, Cache, MeasurePlan, Measured};
    use crate::summary::{Quantity, report};
    use std::time::Duration;

    fn results(rows: &[(&str, &str, u64)], rounds: u32) -> BenchResults {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for &(group, name, micros) in rows {
            let mut series = Series::new(&About::new(group, name).bytes(10_000_000));
            for round in 0..rounds {
                let wall = Duration::from_micros(micros * 100 + u64::from(round) % 3);
                series.add(round, &Measured { wall, ..Measured::default() }, Cache::Warm);
            }
            results.series.push(series);
        }
        results.complete = true;
        results
    }

    fn first(rows: &[(&str, &str, u64)]) -> String {
        report("T", &results(rows, 20), Quantity::Rate).to_text().lines().next().unwrap().to_string()
    }

    #[test]
    fn the_first_line_is_the_verdict() {
        let rows = [("g", "b3sum", 100), ("g", "verisum", 150), ("g", "slow", 500)];
        assert_eq!(first(&rows), "b3sum is 1.50 times as fast as verisum here");
        assert_eq!(
            first(&[("g", "verisum, 2 threads", 100), ("g", "verisum", 150), ("g", "slow", 500)]),
            "verisum, 2 threads is 5.00 times as fast as slow here"
        );
        assert_eq!(
            first(&[("g", "a", 100), ("g", "verisum", 100)]),
            "between a and verisum there is no significant difference here"
        );
        // What could not show a difference says nothing of one.
        let few = |rows: &[_]| report("T", &results(rows, 4), Quantity::Rate).to_text();
        let said = few(&[("g", "a", 100), ("g", "verisum", 100)]);
        assert!(said.starts_with("4 rounds are too few to tell (6 are needed)\n"), "{said}");
        let said = few(&[("g", "a", 100), ("g", "verisum", 100), ("h", "a", 100), ("h", "verisum", 100)]);
        assert!(said.starts_with("4 rounds are too few to tell (6 are needed)\n"), "{said}");
        assert!(!said.contains("there is no significant difference"), "{said}");
    }

    #[test]
    fn who_is_measured_alone_has_no_rival() {
        let alone = "was measured alone: there is nothing to compare it with";
        assert_eq!(first(&[("g", "b3sum", 100)]), format!("b3sum {alone}"));
        assert_eq!(first(&[("g", "b3sum", 100), ("h", "b3sum", 100)]), format!("b3sum {alone}"));
        assert_eq!(first(&[("g", "b3sum", 100), ("h", "verisum", 100)]), format!("each {alone}"));
    }

    #[test]
    fn of_many_groups_the_worst_is_named() {
        let rows =
            [("g", "b3sum", 100), ("g", "verisum", 150), ("h", "verisum", 1), ("h", "x", 2), ("i", "x", 100)];
        assert_eq!(
            first(&rows),
            "verisum is the fastest in 1 of 2 comparisons, and behind in 1; at worst, b3sum is 1.50 times as fast as verisum (g)"
        );
    }
}
