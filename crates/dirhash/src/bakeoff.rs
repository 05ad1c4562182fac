//! The bakeoff of June 2002: creates a number of names, and measures how full the leaves are.

use crate::htree::{Events, Fill, Geometry, IndexFull, IndexLimit, RemovalPolicy, SplitRule};
use crate::names::Names;
use crate::workload::{Clock, Spent};
use crate::{HashedDirectory, Hashing};

/// What is asked.
#[derive(Clone, Debug)]
pub struct BakeoffQuestion<'a> {
    /// The names, the first `count` of them.
    pub names: &'a Names,
    /// How many.
    pub count: u32,
    /// The file system's measures.
    pub geometry: Geometry,
    /// What is done about empty leaves.
    pub policy: RemovalPolicy,
    /// Where leaves are split.
    pub split_rule: SplitRule,
    /// How many points of the curve are wanted.
    pub points: u32,
}

/// A point of the curve of fill over names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Names so far.
    pub names: u64,
    /// Blocks so far.
    pub blocks: u64,
    /// Part of the leaves' bytes that is used.
    pub fill: f64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct BakeoffAnswer {
    /// The directory at the end.
    pub directory_blocks: u64,
    /// Its index levels.
    pub levels: usize,
    /// Its names: fewer than asked for if the index became full.
    pub names: u64,
    /// Whether it became full.
    pub full: bool,
    /// Its leaves.
    pub fill: Fill,
    /// What happened.
    pub events: Events,
    /// Fill over names.
    pub curve: Vec<Point>,
    /// Until when such names fit.
    pub limit: IndexLimit,
    /// What the model took; says nothing of a file system.
    pub spent: Spent,
}

impl BakeoffAnswer {
    /// The line that the thread's own program printed.
    pub fn thread_line(&self, geometry: Geometry) -> String {
        let unit = match geometry.block_size() {
            4096 => "4k".to_string(),
            other => format!("{}k", other / 1024),
        };
        format!(
            "{:.0} avg bytes filled per {unit} block ({:.0}%)",
            self.fill.bytes_per_leaf(),
            self.fill.fraction(geometry) * 100.0
        )
    }

    /// The mean of the curve over its last doubling: what one number can say of a fill that swings.
    pub fn mean_fill(&self) -> f64 {
        let from = self.names / 2;
        let last: Vec<f64> =
            self.curve.iter().filter(|point| point.names >= from).map(|point| point.fill).collect();
        last.iter().sum::<f64>() / last.len().max(1) as f64
    }
}

/// Creates the names in the model.
///
/// # Panics
/// If there are fewer given names than asked for.
pub fn run(question: &BakeoffQuestion<'_>, hashing: Hashing) -> BakeoffAnswer {
    let clock = Clock::start();
    let mut directory =
        HashedDirectory::with(hashing, question.geometry, question.policy, question.split_rule);
    let mut curve = Vec::new();
    let mut bytes = 0u64;
    let mut full = false;
    let mut next = f64::from(question.count.clamp(1, 1000));
    // Points are evenly spaced on a logarithmic axis: fill repeats with each doubling.
    let factor = (f64::from(question.count) / next).powf(1.0 / f64::from(question.points.max(2) - 1));
    for (number, (key, length)) in (0..question.count).zip(hashed(question, hashing)) {
        bytes += u64::from(Geometry::record_size(length));
        if let Err(IndexFull) = directory.create_hashed(key, length, number) {
            full = true;
            break;
        }
        let made = f64::from(number + 1);
        if made >= next.floor() || number + 1 == question.count {
            let tree = &directory.tree;
            let leaves = tree.blocks() - index_blocks(&directory);
            let used = bytes as f64 / (leaves as f64 * f64::from(question.geometry.block_size()));
            curve.push(Point { names: tree.len(), blocks: tree.blocks(), fill: used });
            while next.floor() <= made {
                next = (next * factor).max(made + 1.0);
            }
        }
    }
    let fill = directory.tree.fill();
    let record = bytes as f64 / directory.tree.len().max(1) as f64;
    BakeoffAnswer {
        directory_blocks: directory.tree.blocks(),
        levels: directory.tree.levels(),
        names: directory.tree.len(),
        full,
        fill,
        events: directory.tree.events(),
        curve,
        limit: IndexLimit::of(question.geometry, record, std::f64::consts::LN_2),
        spent: clock.spent(),
    }
}

/// The key and the length of each name, hashed many at once.
fn hashed<'a>(
    question: &'a BakeoffQuestion<'_>,
    hashing: Hashing,
) -> impl Iterator<Item = (u32, usize)> + 'a {
    const AT_ONCE: usize = 512;
    let mut name = Vec::new();
    (0..question.count).step_by(AT_ONCE).flat_map(move |first| {
        let last = first.saturating_add(AT_ONCE as u32).min(question.count);
        let mut bytes = Vec::new();
        let ends: Vec<usize> = (first..last)
            .map(|number| {
                bytes.extend_from_slice(question.names.name(number.into(), &mut name));
                bytes.len()
            })
            .collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let names: Vec<&[u8]> = starts.zip(&ends).map(|(start, &end)| &bytes[start..end]).collect();
        let mut keys = vec![0; names.len()];
        hashing.hash.index_keys(&names, &hashing.seed, &mut keys);
        let lengths: Vec<usize> = names.iter().map(|name| name.len()).collect();
        keys.into_iter().zip(lengths)
    })
}

/// Without a look at the leaves: splits of the index and added levels are all that make index blocks.
fn index_blocks(directory: &HashedDirectory) -> u64 {
    let tree = &directory.tree;
    tree.levels() as u64 + tree.events().index_splits
}
