//! Directories in a steady state, like a mailer's: names come and go, but their number stays the same.

use crate::htree::{Events, Fill, Geometry, IndexFull, RemovalPolicy, SplitRule};
use crate::names::{Names, mix};
use crate::{HashedDirectory, Hashing, Rand};

/// Which names come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTraffic {
    /// The thread's program: the base and `rand() % range`, glibc's generator with seed 1. A name that is
    /// drawn while one is missing is created if it is not there, else removed if it is.
    Program {
        /// One more than the greatest number.
        range: u32,
        /// As the program was posted: it opens without `O_EXCL`, so that a name that exists already
        /// counts as created, and the directory slowly becomes empty.
        as_written: bool,
    },
    /// A new name for a removed one that is drawn at random.
    Random,
    /// A new name for the oldest.
    FirstInFirstOut,
}

impl NameTraffic {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            NameTraffic::Program { as_written: false, .. } => "program",
            NameTraffic::Program { as_written: true, .. } => "program-as-written",
            NameTraffic::Random => "random",
            NameTraffic::FirstInFirstOut => "fifo",
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct SteadyQuestion<'a> {
    /// The names.
    pub names: &'a Names,
    /// How many at a time.
    pub count: u32,
    /// How many are removed and created again.
    pub cycles: u64,
    /// Which.
    pub traffic: NameTraffic,
    /// The file system's measures.
    pub geometry: Geometry,
    /// What is done about empty leaves.
    pub policy: RemovalPolicy,
    /// Where leaves are split.
    pub split_rule: SplitRule,
}

/// The directory changed its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Cycles done by then.
    pub cycle: u64,
    /// Its length then.
    pub blocks: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct SteadyAnswer {
    /// Blocks when the directory was first full.
    pub start: u64,
    /// Blocks at the end.
    pub end: u64,
    /// The longest it was.
    pub most: u64,
    /// Names at the end.
    pub names: u64,
    /// Each change of length, the first ten thousand.
    pub growth: Vec<Growth>,
    /// The leaves at the end.
    pub fill: Fill,
    /// What happened in the cycles.
    pub events: Events,
    /// Cycles done: fewer than asked for if the index became full or, as the program was written, the
    /// directory empty.
    pub cycles: u64,
}

/// The most changes of length that are kept.
const MOST_GROWTH: usize = 10_000;

/// One step of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The name of this number is created.
    Create(u32),
    /// The name of this number is removed.
    Delete(u32),
}

/// The steps: first `count` creates, then deletes and creates in turn. The same for the model and for
/// a real file system.
pub fn steps(traffic: NameTraffic, count: u32, cycles: u64) -> Box<dyn Iterator<Item = Step>> {
    match traffic {
        NameTraffic::FirstInFirstOut => {
            Box::new((0..count).map(Step::Create).chain((0..cycles).flat_map(move |cycle| {
                [Step::Delete(cycle as u32), Step::Create((u64::from(count) + cycle) as u32)]
            })))
        }
        NameTraffic::Random => {
            let mut live: Vec<u32> = (0..count).collect();
            Box::new((0..count).map(Step::Create).chain((0..cycles).flat_map(move |cycle| {
                let place = (mix(cycle) % live.len() as u64) as usize;
                let new = (u64::from(count) + cycle) as u32;
                let old = std::mem::replace(&mut live[place], new);
                [Step::Delete(old), Step::Create(new)]
            })))
        }
        NameTraffic::Program { range, as_written } => {
            Box::new(Program::new(range, as_written, count, cycles))
        }
    }
}

/// The thread's program.
struct Program {
    rand: Rand,
    there: Vec<bool>,
    live: u32,
    balance: u32,
    target: u32,
    range: u32,
    cycles: u64,
    as_written: bool,
}

impl Program {
    fn new(range: u32, as_written: bool, target: u32, cycles: u64) -> Program {
        let there = vec![false; range as usize];
        Program { rand: Rand::new(1), there, live: 0, balance: 0, target, range, cycles, as_written }
    }
}

impl Iterator for Program {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        // An almost empty directory, which the program as written ends with, takes for ever to hit.
        for _ in 0..u64::from(self.range) * 64 {
            let number = self.rand.next() % self.range;
            let there = self.there[number as usize];
            if self.balance < self.target {
                if self.as_written || !there {
                    self.balance += 1;
                }
                if !there {
                    self.there[number as usize] = true;
                    self.live += 1;
                    return Some(Step::Create(number));
                }
                if !self.as_written && self.live == self.range {
                    return None;
                }
            } else if self.cycles == 0 || u64::from(self.live) * 100 < u64::from(self.target) {
                return None;
            } else if there {
                self.there[number as usize] = false;
                self.live -= 1;
                self.balance -= 1;
                self.cycles -= 1;
                return Some(Step::Delete(number));
            }
        }
        None
    }
}

/// Runs the steps in the model. `checkpoint` is told of the directory every so many cycles, 0 for never.
pub fn run(
    question: &SteadyQuestion<'_>,
    hashing: Hashing,
    every: u64,
    checkpoint: &mut dyn FnMut(u64, &HashedDirectory),
) -> SteadyAnswer {
    let mut directory =
        HashedDirectory::with(hashing, question.geometry, question.policy, question.split_rule);
    let mut name = Vec::new();
    let mut cycle = 0;
    let mut started: Option<(u64, Events)> = None;
    let mut growth = Vec::new();
    let mut length = 0;
    let mut most = 0;
    for step in steps(question.traffic, question.count, question.cycles) {
        match step {
            Step::Create(number) => {
                let name = question.names.name(number.into(), &mut name);
                if let Err(IndexFull) = directory.create(name, number) {
                    break;
                }
            }
            Step::Delete(number) => {
                if started.is_none() {
                    length = directory.tree.blocks();
                    started = Some((length, directory.tree.events()));
                }
                if every > 0 && cycle > 0 && cycle % every == 0 {
                    checkpoint(cycle, &directory);
                }
                let name = question.names.name(number.into(), &mut name);
                directory.delete(name, number);
                cycle += 1;
            }
        }
        let blocks = directory.tree.blocks();
        most = most.max(blocks);
        if started.is_some() && blocks != length {
            length = blocks;
            if growth.len() < MOST_GROWTH {
                growth.push(Growth { cycle, blocks });
            }
        }
    }
    let end = directory.tree.blocks();
    let (start, before) = started.unwrap_or((end, directory.tree.events()));
    if every > 0 && cycle > 0 && cycle % every == 0 {
        checkpoint(cycle, &directory);
    }
    SteadyAnswer {
        start,
        end,
        most,
        names: directory.tree.len(),
        growth,
        fill: directory.tree.fill(),
        events: since(before, directory.tree.events()),
        cycles: cycle,
    }
}

fn since(before: Events, after: Events) -> Events {
    Events {
        leaf_splits: after.leaf_splits - before.leaf_splits,
        index_splits: after.index_splits - before.index_splits,
        merges: after.merges - before.merges,
        rebuilds: after.rebuilds - before.rebuilds,
        writes: after.writes - before.writes,
        merge_reads: after.merge_reads - before.merge_reads,
    }
}
