//! The history of runs.

use std::time::Duration;

use verisum::catalog::overview::{RepairedFile, TreeOverview};
use verisum::catalog::store::Run;
use verisum_bench::export::{Cell, Table};

use super::{FOLDED, Subject, bytes, moment, path, taken};
use crate::ui::names;
use crate::ui::sizes::human;

pub(super) const RUNS: &str = "Runs";

/// What is said where nothing is.
const NONE: &str = "None is recorded.";

/// How many runs a page has.
const MOST: usize = 200;

/// The runs of all trees, newest first.
pub(super) fn newest(subject: &Subject) -> Vec<(&TreeOverview, &Run)> {
    let trees = subject.overview.trees.iter();
    let mut runs: Vec<_> = trees.flat_map(|tree| tree.runs.iter().map(move |run| (tree, run))).collect();
    runs.sort_by_key(|(_, run)| std::cmp::Reverse(run.started));
    runs.truncate(MOST);
    runs
}

pub(super) fn runs(subject: &Subject) -> Table {
    let mut table = Table::new(RUNS, "started; tree; ended; took; files read; size read; rate; verdicts");
    for (tree, run) in newest(subject) {
        let ended = match &run.error {
            Some(error) => format!("failed: {}", names::plain(error)),
            // Whether it is still alive only its lock tells.
            None if run.finished.is_none() => "not ended".to_string(),
            None => run.how(false).to_string(),
        };
        let verdicts: Vec<String> =
            run.verdicts().into_iter().map(|(verdict, count)| format!("{verdict} {count}")).collect();
        let rate = if run.seconds > 0.0 { (run.read_bytes as f64 / run.seconds) as u64 } else { 0 };
        table.row([
            moment(run.started),
            path(&tree.root.path),
            Cell::Text(ended),
            Duration::try_from_secs_f64(run.seconds).map_or(Cell::Missing, taken),
            Cell::Count(run.read_files),
            bytes(run.read_bytes),
            Cell::Amount { value: rate, shown: format!("{}/s", human(rate)) },
            Cell::text(verdicts.join(", ")),
        ]);
    }
    let table = table.folded_after(FOLDED);
    match newest(subject).iter().map(|(_, run)| run.read_bytes).max() {
        None => table.note(NONE),
        Some(0) => table.note("These runs read nothing: nothing was due."),
        Some(_) => table,
    }
}

/// What was repaired, the latest first.
pub(super) fn repairs(subject: &Subject) -> Table {
    let mut table =
        Table::new("Repairs", "repaired; file; was; from; size written; digest before; digest since");
    let mut repairs: Vec<&RepairedFile> =
        subject.overview.trees.iter().flat_map(|tree| &tree.repairs).collect();
    repairs.sort_by_key(|one| std::cmp::Reverse(one.repair.repaired));
    for RepairedFile { path: file, algorithm, repair } in repairs.into_iter().take(MOST) {
        table.row([
            moment(repair.repaired),
            path(file),
            Cell::text(repair.state.name()),
            path(&repair.source),
            bytes(repair.bytes),
            repair.before.map_or(Cell::Missing, |before| Cell::Text(format!("{algorithm} {before}"))),
            Cell::Text(format!("{algorithm} {}", repair.digest)),
        ]);
    }
    let table = table.blocks_below(120).folded_after(FOLDED);
    match table.rows.is_empty() {
        true => table.note(NONE),
        false => table.note("`verisum catalog list --repaired` lists all."),
    }
}
