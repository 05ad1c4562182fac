//! The experiment of 2011: what it measured, and the lines that its script printed.

use verisum_bench::digests::{CKSUM, SUM};
use verisum_bench::record::{NOT_REACHED, Series};
use verisum_bench::stats::median;
use verisum_bench::summary::{processor_time, unmeasured};

use super::selection::ChosenDigests;
use crate::commands::bench::Session;
use crate::ui::names;

/// The digests of the experiment, in its order.
pub(super) const HISTORICAL: [&str; 7] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "ripemd160"];

/// The programs of the experiment, in its order.
pub(super) const HISTORICAL_PROGRAMS: [&str; 4] = ["coreutils", "openssl", "perl", "rhash"];

/// Its second table.
pub(super) const SECOND: [(&str, &str); 4] =
    [("coreutils", SUM), ("coreutils", CKSUM), ("openssl", "md4"), ("openssl", "md5")];

/// Its third: programs that check lists.
pub(super) const CHECKS: [(&str, &str); 4] =
    [("md5sum", "md5"), ("sha1sum", "sha1"), ("sha256sum", "sha256"), ("sha512sum", "sha512")];

/// The name of their group.
pub(super) const LISTS: &str = "checks of a list of two files";

/// The lines of the historical script: fastest first, then those that were skipped.
pub(super) fn test_digests(session: &Session<'_>, chosen: &ChosenDigests) -> String {
    let mut lines = String::new();
    let second: &[(&str, &str)] = if chosen.further { &SECOND } else { &[] };
    let find = |program: &str, digest: &str| {
        let labelled = |one: &&Series| {
            one.name == program && one.labels.get("digest").is_some_and(|label| label == digest)
        };
        session.results.series.iter().find(labelled)
    };
    for table in [&chosen.pairs, second].into_iter().filter(|table| !table.is_empty()) {
        let mut done: Vec<(f64, String)> = Vec::new();
        let mut skipped = Vec::new();
        for (program, digest) in table {
            match find(program, digest) {
                Some(series) if !series.wall.is_empty() => {
                    let total: f64 = series.wall.iter().sum();
                    done.push((total, line(program, digest, Ok((total, series.wall.len())))));
                }
                unmeasured => {
                    let verdict = unmeasured.and_then(Series::verdict).unwrap_or_default();
                    let word = verdict.split(':').next().filter(|word| !word.is_empty());
                    skipped.push(line(program, digest, Err(word.unwrap_or("SKIPPED"))));
                }
            }
        }
        done.sort_by(|a, b| a.0.total_cmp(&b.0));
        for line in done.into_iter().map(|(_, line)| line).chain(skipped) {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines.push('\n');
    }
    let series = || session.results.series.iter();
    for check in series().filter(|one| one.group == LISTS && !one.wall.is_empty()) {
        let Some((user, system)) = processor_time(check) else { continue };
        let real = median(&check.wall);
        lines.push_str(&format!(
            "CHECK: {} / real {real:.3} / user {user:.3} / sys {system:.3} seconds\n",
            check.name
        ));
    }
    lines.truncate(lines.trim_end().len());
    lines.push('\n');
    // The lines above say only that.
    let mut reasons: Vec<String> = Vec::new();
    let of = |one: &Series| one.labels.get("digest").cloned().unwrap_or_default();
    let reached = |one: &&Series| one.skipped.as_deref() != Some(NOT_REACHED);
    for one in series().filter(|one| one.skipped.is_some() && !one.control).filter(reached) {
        let why = names::plain(&one.verdict().unwrap_or_default());
        reasons.push(format!("{} {}: {why}", one.name, of(one)));
    }
    for (program, digest) in chosen.pairs.iter().chain(second) {
        if !series().any(|one| one.name == *program && of(one) == *digest) {
            reasons.push(format!("{program} {digest}: SKIPPED: it has none"));
        }
    }
    reasons.dedup();
    reasons.extend(unmeasured(&session.results));
    if !reasons.is_empty() {
        lines.push_str(&format!("\n{}\n", reasons.join("\n")));
    }
    lines
}

/// Seconds over so many runs, or the word for why there are none.
fn line(program: &str, digest: &str, measured: Result<(f64, usize), &str>) -> String {
    let what = match measured {
        Ok((seconds, runs)) => format!("{seconds:.0} seconds over {runs} runs"),
        Err(word) => word.to_string(),
    };
    format!("TEST: {program} / DIGEST: {digest} / {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_experiment() {
        assert_eq!(
            line("coreutils", "md5", Ok((58.2, 30))),
            "TEST: coreutils / DIGEST: md5 / 58 seconds over 30 runs"
        );
        assert_eq!(
            line("coreutils", "ripemd160", Err("SKIPPED")),
            "TEST: coreutils / DIGEST: ripemd160 / SKIPPED"
        );
    }
}
