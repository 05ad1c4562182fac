//! The tables of trees, ages, directories, growth and digests.

use std::path::Path;

use verisum::catalog::overview::{AGES, DirectoryOverview, DirectoryPart};
use verisum::catalog::store::{Catalog, State};
use verisum_bench::export::{Cell, Table};

use super::{Subject, bytes, moment, path, taken};
use crate::ui::exit::Exit;
use crate::ui::repair_commands::{self, Remedy};
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{names, shell};

/// How many months of growth are told one by one.
const MONTHS: usize = 36;

pub(super) const AGE: &str = "How old the verifications are";
pub(super) const DIRECTORIES: &str = "Largest directories";
pub(super) const DIGESTS: &str = "Digests in use";
pub(super) const GROWTH: &str = "Growth";

pub(super) fn trees(subject: &Subject) -> Table {
    let mut table = Table::new(
        "Trees",
        "tree; files; size; bad; missing; unchecked; copies known; stalest verification; mend with; catalogue; with parity",
    );
    let (mut files, mut size, mut in_trouble) = (0, 0_u64, [0; 3]);
    for (tree, remedy) in subject.overview.trees.iter().zip(&subject.remedies) {
        let sum = |is_one: &dyn Fn(State) -> bool| -> u64 {
            tree.troubles.iter().filter(|(state, _)| is_one(*state)).map(|(_, count)| count).sum()
        };
        let mend = match tree.wanted {
            0 => Cell::Missing,
            _ => subject.command(tree, remedy.as_ref()).map_or(Cell::Missing, Cell::Command),
        };
        let known = tree.mendable + tree.elsewhere;
        let of_wanted = |count: u64| match tree.wanted {
            0 => Cell::Missing,
            wanted => Cell::told(Cell::Count(count), format!("{count} of {wanted}")),
        };
        let troubled = [
            sum(&State::is_corrupt),
            sum(&|state| state == State::MISSING),
            sum(&|state| repair_commands::exit(state) == Exit::Unchecked),
        ];
        files += tree.root.files;
        size = size.saturating_add(tree.root.bytes);
        in_trouble = [0, 1, 2].map(|kind| in_trouble[kind] + troubled[kind]);
        let [bad, missing, unchecked] = troubled.map(Cell::Count);
        table.row([
            path(&tree.root.path),
            Cell::Count(tree.root.files),
            bytes(tree.root.bytes),
            bad,
            missing,
            unchecked,
            of_wanted(known),
            subject.stalest(tree.oldest),
            mend,
            match subject.catalog(tree.catalog) {
                Some(catalog) => path(catalog),
                None if subject.is_of_tags(tree.catalog) => Cell::text("tags"),
                None => Cell::text("the usual one"),
            },
            of_wanted(remedy.as_ref().map_or(0, Remedy::with_parity)),
        ]);
    }
    let table = table.blocks_below(90);
    match subject.overview.trees.len() {
        0 | 1 => table,
        trees => {
            let (files, size, [bad, missing, unchecked]) = (counted(files, "file"), human(size), in_trouble);
            table.note(format!(
                "In all {trees} trees: {files}, {size}; {bad} bad, {missing} missing, {unchecked} unchecked."
            ))
        }
    }
}

pub(super) fn ages(subject: &Subject) -> Table {
    let mut table = Table::new(AGE, "verified; files; size; share of the size (%)");
    let all: u64 = subject.overview.ages.iter().map(|amount| amount.bytes).sum();
    for ((name, _), amount) in AGES.iter().zip(subject.overview.ages) {
        let share = if all > 0 { amount.bytes as f64 * 100.0 / all as f64 } else { 0.0 };
        table.row([
            Cell::text(*name),
            Cell::Count(amount.files),
            bytes(amount.bytes),
            // To the thousandth: a spreadsheet shows all digits that it gets.
            Cell::Number((share * 1000.0).round() / 1000.0, 1),
        ]);
    }
    if !subject.images.is_empty() {
        table = table
            .note("Disk images count by the times of their block maps, unless they were written to since.");
    }
    table.note("What is missing cannot be verified, and is not counted.")
}

pub(super) fn forecast(subject: &Subject) -> Table {
    let mut table = Table::new(
        "Forecast",
        "tree; stalest verification; everything is verified once in; share of the permitted age (%); not verified in time; size of these; verdict",
    );
    for tree in &subject.overview.trees {
        let forecast = tree.forecast;
        let needed = forecast.and_then(|forecast| forecast.needed);
        let is_late = tree.stale.files > 0;
        let is_done = tree.runs.first().is_some_and(|run| run.complete);
        let verdict = match (subject.options.max_age, needed) {
            (None, _) => "no age was promised (--max-age)",
            _ if is_late => "late",
            (_, None) => "no run to go by",
            // Where nothing was left due, runs read no more than that.
            (_, Some(needed)) if needed > 1.0 && !is_done => "will be late at this pace",
            _ => "in time",
        };
        table.row([
            path(&tree.root.path),
            tree.oldest.map_or(Cell::Missing, moment),
            forecast.map_or(Cell::Missing, |forecast| taken(forecast.time)),
            needed.map_or(Cell::Missing, |needed| Cell::Number((needed * 1000.0).round() / 10.0, 0)),
            Cell::Count(tree.stale.files),
            bytes(tree.stale.bytes),
            Cell::text(verdict),
        ]);
    }
    table.note(
        "At the pace of the last runs: what they read, and how often they came; once a day where there was only one.",
    )
}

pub(super) fn growth(subject: &Subject) -> Table {
    let mut table = Table::new(GROWTH, "first recorded; files; size; size with all before");
    let mut total = 0;
    for (name, files, size) in months(subject) {
        total += size;
        table.row([Cell::Text(name), Cell::Count(files), bytes(size), bytes(total)]);
    }
    table.note("Of what is still recorded: what was removed meanwhile left no trace.")
}

/// The months in which files were first recorded, those of long ago as one: the name, files, bytes.
pub(super) fn months(subject: &Subject) -> Vec<(String, u64, u64)> {
    let months = &subject.overview.months;
    let name = |month: i64| format!("{:04}-{:02}", 1970 + month.div_euclid(12), month.rem_euclid(12) + 1);
    let old = months.len().saturating_sub(MONTHS);
    let mut told = Vec::new();
    if let Some((last, _)) = months.iter().take(old).next_back() {
        let amounts = || months.values().take(old);
        let (files, size) = (amounts().map(|one| one.files).sum(), amounts().map(|one| one.bytes).sum());
        told.push((format!("until {}", name(*last)), files, size));
    }
    told.extend(months.iter().skip(old).map(|(month, one)| (name(*month), one.files, one.bytes)));
    told
}

pub(super) fn digests(subject: &Subject) -> Table {
    let mut table = Table::new(DIGESTS, "digest; files; size");
    for (name, amount) in &subject.overview.digests {
        table.row([Cell::text(name), Cell::Count(amount.files), bytes(amount.bytes)]);
    }
    table
}

pub(super) fn directories(subject: &Subject) -> Table {
    let mut table = Table::new(DIRECTORIES, "directory; which part; files; size; stalest verification");
    for directory in &subject.overview.directories {
        table.row(directory_row(subject, directory));
    }
    table.note("Each file is in one of them. The colour is the age of the stalest verification.")
}

pub(super) fn stalest(subject: &Subject) -> Table {
    let mut table =
        Table::new("Stalest directories", "directory; which part; files; size; stalest verification");
    for directory in &subject.overview.stalest {
        table.row(directory_row(subject, directory));
    }
    table
}

fn directory_row(subject: &Subject, directory: &DirectoryOverview) -> [Cell; 5] {
    [
        path(&directory.path),
        Cell::Text(part(directory)),
        Cell::Count(directory.amount.files),
        bytes(directory.amount.bytes),
        subject.stalest(directory.oldest),
    ]
}

/// Which part of a directory is told of.
pub(super) fn part(directory: &DirectoryOverview) -> String {
    match directory.part {
        DirectoryPart::All => "all below it".to_string(),
        DirectoryPart::Own => "files right in it".to_string(),
        DirectoryPart::Others(1) => "1 more directory in it".to_string(),
        DirectoryPart::Others(count) => format!("{count} more directories in it"),
    }
}

pub(super) fn about(subject: &Subject, catalogs: &[Catalog]) -> Table {
    let mut table = Table::new("About this report", "what; value");
    table.row([Cell::text("written"), moment(subject.options.now)]);
    let mut row = |what: &str, value: String| table.row([Cell::text(what), Cell::Text(value)]);
    let host = rustix::system::uname();
    row("host", host.nodename().to_string_lossy().into_owned());
    let system =
        [host.sysname(), host.release(), host.machine()].map(|text| text.to_string_lossy().into_owned());
    row("system", system.join(" "));
    row("program", format!("verisum {}", env!("CARGO_PKG_VERSION")));
    row("command line", shell::line());
    for catalog in &catalogs[..subject.named.len()] {
        row("catalogue", catalog_line(catalog.path()));
    }
    table
}

fn catalog_line(path: &Path) -> String {
    let size = human(path.metadata().map_or(0, |about| about.len()));
    format!("{} ({})", names::quoted(path.as_os_str()), size)
}

/// So many files of something.
pub(super) fn files(count: u64) -> String {
    counted(count, "file")
}
