//! The charts. Each stands above a table with the same figures.

use std::path::Path;

use verisum::catalog::overview::{AGES, DirectoryOverview, DirectoryPart};
use verisum_bench::export::{Bar, Chart, Shape, Tile};
use verisum_bench::stats::Interval;

use super::{Subject, runs, tables};
use crate::ui::names;
use crate::ui::sizes::human;

/// How many runs are drawn.
const RUNS: usize = 16;

/// The colours of a treemap: what they mean, and the first class of ages that has each.
const LEVELS: [(&str, usize); 6] = [
    ("verified in the last 7 days", 0),
    ("30 days", 2),
    ("90 days", 3),
    ("a year", 4),
    ("longer ago", 6),
    ("never", 8),
];

pub(super) fn all(subject: &Subject) -> Vec<Chart> {
    let overview = &subject.overview;
    if overview.trees.is_empty() {
        return Vec::new();
    }
    // The table has those that nothing is in. One alone is no picture.
    let ages = AGES.iter().zip(overview.ages).filter(|(_, amount)| amount.files > 0);
    let ages: Vec<_> = ages.map(|((name, _), amount)| (name.to_string(), amount)).collect();
    let mut charts = Vec::new();
    if ages.len() > 1 {
        charts.push(amounts(tables::AGE, ages.iter().map(|(name, one)| (name.clone(), one.bytes)).collect()));
        charts.push(counts(tables::AGE, ages.iter().map(|(name, one)| (name.clone(), one.files)).collect()));
    }
    let is_one = overview.trees.len() == 1;
    let read = runs::newest(subject).into_iter().take(RUNS).map(|(tree, run)| {
        let moment = crate::ui::values::written(run.started);
        let moment = moment.get(..16).unwrap_or(&moment).replace('T', " ");
        let tree = if is_one { String::new() } else { end_of(&tree.root.path) };
        (format!("{moment} {tree}").trim_end().to_string(), run.read_bytes)
    });
    charts.push(amounts(runs::RUNS, read.collect()));
    charts.push(treemap(subject));
    let mut total = 0;
    let growth = tables::months(subject).into_iter().map(|(name, _, size)| {
        total = u64::saturating_add(total, size);
        (name, total)
    });
    charts.push(amounts(tables::GROWTH, growth.collect()));
    let digests = overview.digests.iter().map(|(name, amount)| (name.clone(), amount.files));
    charts.push(counts(tables::DIGESTS, digests.collect()));
    // Axes without anything between them say nothing.
    charts.retain(|chart| match &chart.shape {
        Shape::Bars(bars) => bars.iter().any(|bar| bar.value.median > 0.0),
        Shape::Tiles { tiles, .. } => tiles.iter().any(|tile| tile.value > 0.0),
        Shape::Lines { .. } => true,
    });
    charts
}

/// The longest end of a path that is as long as there is room for before a bar.
fn end_of(path: &Path) -> String {
    const ROOM: usize = 16;
    let whole = names::quoted(path.as_os_str());
    let mut starts = whole.char_indices().map(|(at, _)| at);
    match whole.chars().count().checked_sub(ROOM) {
        None | Some(0) => whole,
        Some(over) => {
            let end = &whole[starts.nth(over + 1).unwrap_or(0)..];
            // At a name where one fits; a line that is broken after the dots would part them from it.
            format!("…\u{2060}{}", end.find('/').map_or(end, |slash| &end[slash..]))
        }
    }
}

fn counts(title: &str, rows: Vec<(String, u64)>) -> Chart {
    bars(title, "files", rows, 1.0)
}

/// Bars of bytes, in the unit that suits the longest.
fn amounts(title: &str, rows: Vec<(String, u64)>) -> Chart {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let most = rows.iter().map(|(_, value)| *value).max().unwrap_or(0).max(1);
    let power = (most.ilog2() / 10).min(UNITS.len() as u32 - 1);
    bars(title, UNITS[power as usize], rows, 1024_f64.powi(power as i32))
}

fn bars(title: &str, unit: &str, rows: Vec<(String, u64)>, of: f64) -> Chart {
    let bar = |(name, value): (String, u64)| {
        let value = value as f64 / of;
        Bar { name, value: Interval { low: value, median: value, high: value }, control: false }
    };
    Chart::bars(title, unit, rows.into_iter().map(bar).collect())
}

fn treemap(subject: &Subject) -> Chart {
    let directories = &subject.overview.directories;
    let last = |path: &Path| path.file_name().map_or(names::quoted(path.as_os_str()), names::quoted);
    let tile = |directory: &DirectoryOverview| {
        let name = names::quoted(directory.path.as_os_str());
        // Directories of several trees may have the same name.
        let is_like = |other: &&DirectoryOverview| other.path.file_name() == directory.path.file_name();
        let is_other = |other: &DirectoryOverview| other.path != directory.path;
        let root = subject.root_of(directory.catalog, &directory.path).filter(|root| *root != directory.path);
        let label = match root.filter(|_| directories.iter().filter(is_like).any(is_other)) {
            Some(root) => {
                let below = directory.path.strip_prefix(root).unwrap_or(&directory.path);
                format!("{}/{}", last(root), names::quoted(below.as_os_str()))
            }
            None => last(&directory.path),
        };
        let age = directory.oldest.map_or("nothing to verify".to_string(), |oldest| subject.age(oldest));
        let (size, files) = (human(directory.amount.bytes), tables::files(directory.amount.files));
        let class = directory.oldest.map_or(0, |oldest| subject.options.age_class(oldest));
        Tile {
            label: match directory.part {
                DirectoryPart::All => label,
                _ => format!("{label}: {}", tables::part(directory)),
            },
            name: format!("{name} ({})", tables::part(directory)),
            note: format!("{size}, {files}, {age}"),
            value: directory.amount.bytes as f64,
            level: LEVELS.iter().rposition(|(_, first)| class >= *first).unwrap_or(0),
        }
    };
    let tiles = directories.iter().map(tile).collect();
    let levels = LEVELS.map(|(name, _)| name.to_string()).to_vec();
    Chart::tiles(tables::DIRECTORIES, "areas are sizes, colours the stalest verification", levels, tiles)
}
