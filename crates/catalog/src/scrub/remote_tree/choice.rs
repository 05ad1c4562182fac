//! Chooses which of the listed files are read, and in which order.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use super::{Request, is_same_file, is_same_time};
use crate::scrub::due;
use crate::store::{Record, State, Trouble};
use verisum_files::Class;

/// Among so many files, shuffling takes place.
const PAGE: usize = 4096;

/// When a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// It was bad in an earlier run.
    Bad,
    /// It is new, or it changed, or it is back.
    Fresh,
    /// It was last verified then, in milliseconds since 1970.
    Stale(i64),
}

/// A file that is to be read.
struct Chosen {
    turn: Turn,
    set: usize,
    request: Request,
}

/// Files that are read in one go.
pub(super) struct Heap {
    /// The place of their digest.
    pub(super) set: usize,
    pub(super) files: Vec<Request>,
    /// Whether they are new or changed.
    pub(super) is_fresh: bool,
}

/// What a run reads of a tree that was listed.
pub(super) struct Choice<'a> {
    pub(super) plan: &'a due::Plan,
    sample: f64,
    dice: RandomState,
    chosen: Vec<Chosen>,
    /// Whether the time was over before the last of them.
    pub(super) is_stopped: bool,
}

impl<'a> Choice<'a> {
    pub(super) fn new(plan: &'a due::Plan, sample: f64) -> Choice<'a> {
        Choice { plan, sample, dice: RandomState::new(), chosen: Vec::new(), is_stopped: false }
    }

    /// Takes a file beside its record, if it is due.
    pub(super) fn add(&mut self, record: Option<&Record>, request: Request, set: usize) {
        if let Some(turn) = self.turn(record, &request) {
            self.chosen.push(Chosen { turn, set, request });
        }
    }

    fn turn(&self, record: Option<&Record>, request: &Request) -> Option<Turn> {
        let Some(record) = record else { return Some(Turn::Fresh) };
        match record.state {
            State::Sound | State::DAMAGED if is_written_to(record, request) => Some(Turn::Fresh),
            State::Sound | State::DAMAGED => {
                let is_due = record.verified < self.plan.before || record.verified > self.plan.future;
                let chance = self.dice.hash_one(&request.name) as f64 / u64::MAX as f64;
                (is_due && chance <= self.sample).then_some(Turn::Stale(record.verified))
            }
            State::MISSING => Some(Turn::Fresh),
            State::Trouble(Trouble::Verdict(verdict)) if verdict.class() < Class::Unchecked => {
                Some(Turn::Fresh)
            }
            State::Trouble(_) => Some(Turn::Bad),
        }
    }

    /// What is read, in this order: each heap has one digest.
    pub(super) fn heaps(&mut self, shuffle: bool) -> Vec<Heap> {
        let mut chosen = std::mem::take(&mut self.chosen);
        // In the order of the listing where they are equally urgent.
        chosen.sort_by_key(|file| file.turn);
        if shuffle {
            let stale = chosen.partition_point(|file| file.turn <= Turn::Fresh);
            for page in chosen[stale..].chunks_mut(PAGE) {
                page.sort_by_cached_key(|file| self.dice.hash_one(&file.request.name));
            }
        }
        let mut heaps: Vec<Heap> = Vec::new();
        let mut by_set: BTreeMap<(u8, usize), usize> = BTreeMap::new();
        for Chosen { turn, set, request } in chosen {
            let kind = match turn {
                Turn::Bad => 0,
                Turn::Fresh => 1,
                Turn::Stale(_) => 2,
            };
            let at = *by_set.entry((kind, set)).or_insert_with(|| {
                heaps.push(Heap { set, files: Vec::new(), is_fresh: kind == 1 });
                heaps.len() - 1
            });
            heaps[at].files.push(request);
        }
        heaps
    }
}

/// Whether somebody wrote to a file since it was recorded, or put another in its place, as far as the listing tells.
fn is_written_to(record: &Record, request: &Request) -> bool {
    let condition = &request.condition;
    // A list that was recorded says nothing of lengths and times.
    let is_from_list = record.verified == 0;
    let has_its_size = record.size == condition.size || is_from_list && record.size == 0;
    let has_its_time = is_same_time(record.mtime, condition.mtime) || is_from_list && record.mtime == 0;
    !has_its_size || !has_its_time || is_same_file(record, condition.identity) == Some(false)
}
