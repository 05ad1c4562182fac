//! Chooses the listed files to read, and their order. A table holds them, because there may be any number of
//! them.

use std::collections::VecDeque;

use super::{Condition, Request, has_its_size, has_its_time, is_same_file};
use crate::scrub::plan::{Dice, PAGE, Plan, Turn};
use crate::store::{Catalog, CatalogError, CatalogRecord, DueFile, DuePlace, Heap, Moment};

/// How many files are kept at once.
const BATCH: usize = 1000;

/// What a run reads of a tree that is listed.
pub(super) struct Choice<'a> {
    /// A connection of its own: others write while files are taken from it.
    catalog: Catalog,
    plan: &'a Plan,
    sample: f64,
    dice: Dice,
    next: i64,
    waiting: Vec<DueFile>,
}

impl<'a> Choice<'a> {
    pub(super) fn new(catalog: Catalog, plan: &'a Plan, sample: f64) -> Result<Choice<'a>, CatalogError> {
        catalog.begin_due()?;
        Ok(Choice { catalog, plan, sample, dice: Dice::default(), next: 0, waiting: Vec::new() })
    }

    /// Takes a file beside its record, if it is due.
    pub(super) fn add(
        &mut self,
        record: Option<&CatalogRecord>,
        request: Request,
        set: usize,
    ) -> Result<(), CatalogError> {
        match self.turn(record, &request) {
            Some(turn) => self.add_at(turn, record, request, set),
            None => Ok(()),
        }
    }

    /// Takes a file when its turn is this.
    pub(super) fn add_at(
        &mut self,
        turn: Turn,
        record: Option<&CatalogRecord>,
        request: Request,
        set: usize,
    ) -> Result<(), CatalogError> {
        let Condition { size, mtime, is_exact, identity } = request.condition;
        // In the order of the listing where they are equally urgent.
        let verified = record.filter(|_| turn == Turn::Stale).map_or(Moment::NEVER, |record| record.verified);
        let place = DuePlace { verified, number: self.next };
        let heap = Heap { turn: turn as i64, set };
        self.next += 1;
        self.waiting.push(DueFile { heap, place, name: request.name, size, mtime, is_exact, identity });
        if self.waiting.len() >= BATCH {
            self.keep()?;
        }
        Ok(())
    }

    fn turn(&self, record: Option<&CatalogRecord>, request: &Request) -> Option<Turn> {
        let Some(record) = record else { return Some(Turn::Fresh) };
        let turn = self.plan.turn(record.state, record.verified, || is_written_to(record, request));
        turn.filter(|turn| *turn != Turn::Stale || self.dice.takes((&request.name, 0), self.sample))
    }

    fn keep(&mut self) -> Result<(), CatalogError> {
        self.catalog.add_due(&std::mem::take(&mut self.waiting))
    }

    /// What is read, in this order: each heap has one digest.
    pub(super) fn heaps(&mut self) -> Result<Vec<Heap>, CatalogError> {
        self.keep()?;
        self.catalog.due_heaps()
    }

    /// The files of a heap.
    pub(super) fn files(&mut self, heap: Heap, shuffle: bool) -> HeapFiles<'_> {
        let dice = shuffle.then_some(&self.dice);
        let (after, page) = (DuePlace::START, VecDeque::new());
        HeapFiles { catalog: &mut self.catalog, heap, dice, after, page, failed: None }
    }
}

/// The files of a heap, in their order. Some thousands are in memory.
pub(super) struct HeapFiles<'a> {
    /// Nobody else uses it: it may be another thread that takes files.
    catalog: &'a mut Catalog,
    heap: Heap,
    dice: Option<&'a Dice>,
    after: DuePlace,
    page: VecDeque<DueFile>,
    failed: Option<CatalogError>,
}

impl HeapFiles<'_> {
    /// The next file, if `may` says that it is to be taken; else it stays the next.
    pub(super) fn next_if(&mut self, may: impl FnOnce(u64) -> bool) -> Option<Request> {
        if self.page.is_empty() {
            self.turn_page();
        }
        if !may(self.page.front()?.size) {
            return None;
        }
        let DueFile { name, size, mtime, is_exact, identity, .. } = self.page.pop_front()?;
        Some(Request { name, condition: Condition { size, mtime, is_exact, identity } })
    }

    /// Begins again.
    pub(super) fn rewind(&mut self) {
        (self.after, self.page) = (DuePlace::START, VecDeque::new());
    }

    /// Fails if the table could not be read.
    pub(super) fn end(self) -> Result<(), CatalogError> {
        self.failed.map_or(Ok(()), Err)
    }

    fn turn_page(&mut self) {
        match self.catalog.due(self.heap, self.after, PAGE) {
            Ok(page) => {
                self.after = page.last().map_or(self.after, |last| last.place);
                self.page = page.into();
                if let Some(dice) = self.dice.filter(|_| self.heap.turn == Turn::Stale as i64) {
                    self.page.make_contiguous().sort_by_cached_key(|file| dice.throw(&file.name));
                }
            }
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }
}

impl Iterator for HeapFiles<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.next_if(|_| true)
    }
}

/// Whether somebody wrote to a file since it was recorded, or put another in its place, as far as the listing tells.
pub(super) fn is_written_to(record: &CatalogRecord, request: &Request) -> bool {
    let condition = &request.condition;
    !has_its_size(record, condition.size)
        || !has_its_time(record, condition.mtime)
        || is_same_file(record, condition.identity) == Some(false)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::scrub::ScrubOptions;

    #[test]
    fn files_that_wait_are_not_in_memory() {
        const FILES: usize = 3 * PAGE + BATCH / 2;
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
        let plan = Plan::new(&ScrubOptions::default(), &[], Instant::now());
        let mut choice = Choice::new(catalog, &plan, 1.0).unwrap();
        for number in 0..FILES {
            let condition = Condition { size: number as u64, ..Condition::default() };
            choice.add(None, Request { name: number.to_string().into_bytes(), condition }, 0).unwrap();
            assert!(choice.waiting.len() < BATCH);
        }
        let [heap] = choice.heaps().unwrap()[..] else { panic!("all have one digest and one turn") };
        let mut files = choice.files(heap, true);
        for number in 0..FILES - 1 {
            let file = files.next_if(|size| size == number as u64).unwrap();
            assert_eq!(file.name, number.to_string().as_bytes());
            assert!(files.page.len() < PAGE);
        }
        // What there is no time for is still there to be told of.
        assert_eq!(files.next_if(|_| false), None);
        assert_eq!(files.by_ref().map(|file| file.condition.size).collect::<Vec<_>>(), [FILES as u64 - 1]);
        files.rewind();
        assert_eq!(files.by_ref().count(), FILES);
        files.end().unwrap();
    }
}
