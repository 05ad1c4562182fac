//! Repairs files and parity.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_files::{Directory, Progress, Stop};

use crate::ParityError;
use crate::coverage::{Coverage, coverage};
use crate::head::{Piece, SetHead};
use crate::in_place::{InPlace, Note, NoteEnd};
use crate::index::Index;
use crate::mend::{Solved, lost_blocks, parity_again};
use crate::options::threads;
use crate::place::{Draft, Keep, Proof, remove_left};
use crate::scan::merge;
use crate::store::{ParityFolder, SetFile, Store};
use crate::tree::Tree;
use crate::verdict::{FileVerdict, Finding, Mended, ParityVerdict};
use crate::verify::{Files, SetState, look_at_all, within_reach};

/// What is said of a file that a repair in place was killed at and that somebody wrote to before it went on.
const WRITTEN_SINCE: &str = "it was written to after a repair in place was interrupted, and may still have bad parts: \
    `repair --changed` brings back what it was, `update --accept-damage` takes it as it is";

/// What is said of a file that is to be repaired and that the parity does not have.
pub(crate) const NO_PARITY: &str = "there is no parity of it";

/// What is said of a file that can be repaired only where it is, as a set is lost that has a part of it.
const PART_WITHOUT: &str = "a part of it has no parity that can be read: --in-place repairs the rest";

/// The same of one that is not there, or has another length.
const PART_LOST: &str = "a part of it has no parity that can be read";

/// How a tree is repaired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParityRepairOptions {
    /// Threads; at least one.
    pub threads: usize,
    /// Say what would be done, and change nothing.
    pub dry_run: bool,
    /// Also bring back what files were when they were written to since.
    pub changed: bool,
    /// Keep a copy of each bad file in this directory.
    pub keep_bad: Option<PathBuf>,
    /// Mend only these files, by their paths from the root of the tree, and look only at the sets that they are in;
    /// all if there are none.
    pub only: Vec<PathBuf>,
    /// Look only at these sets, as [`Verified::bad_sets`](crate::Verified::bad_sets) names them, and at the rest of files
    /// that are made anew; at all if there are none.
    pub sets: Vec<u64>,
    /// Write what is lost into the bad files themselves, where they are there and as long as they were: no file is
    /// copied, and of long ones only the sets are read in which something is lost.
    pub in_place: bool,
    /// How far it is: files and bytes that were read.
    pub progress: Arc<Progress>,
    /// When to end early, with [`ParityError::Stopped`].
    pub stop: Arc<Stop>,
}

impl Default for ParityRepairOptions {
    /// A thread for each core, everything, and no copies.
    fn default() -> ParityRepairOptions {
        ParityRepairOptions {
            threads: threads(),
            dry_run: false,
            changed: false,
            keep_bad: None,
            only: Vec::new(),
            sets: Vec::new(),
            in_place: false,
            progress: Arc::default(),
            stop: Arc::default(),
        }
    }
}

impl ParityRepairOptions {
    /// Where bad files are kept.
    pub(crate) fn keep(&self) -> Keep<'_> {
        self.keep_bad.as_deref().map(|keep| (keep, &*self.stop))
    }

    /// Whether a file is to be mended if it is bad.
    pub(crate) fn is_asked_for(&self, path: &[u8]) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.as_os_str().as_bytes() == path)
    }
}

/// What was done, in files unless another unit is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParityRepairSummary {
    /// Those that were bad, or were left unfinished by a kill, and are as recorded now; of a dry run, those that would be.
    pub repaired: u64,
    /// Those that are bad and stay so.
    pub not_repaired: u64,
    /// Those that were written to since, and were left alone.
    pub changed: u64,
    /// Those that cannot be read.
    pub unreadable: u64,
    /// Files of the parity that are again as they were.
    pub parity_repaired: u64,
    /// Those that are damaged and stay so.
    pub parity_damaged: u64,
    /// Sets that were looked at.
    pub sets: u64,
}

/// A file that is to be repaired.
struct Wanted {
    /// The sets in which it is not as recorded and that were not mended yet, and whether bytes of it are lost there.
    sets: BTreeMap<u64, bool>,
    verdict: FileVerdict,
    is_in_one_set: bool,
    /// What is bad of it, for a repair in place.
    ranges: Vec<Range<u64>>,
    /// How many sets have parts of it and are not read, as they were not named.
    unread_sets: u64,
}

/// A set in which something is to be done.
struct Work {
    number: u64,
    /// What is wrong with the set's own file.
    finding: Option<Finding>,
    /// Whether there is parity enough.
    can_be_repaired: bool,
}

/// Mends what differs from the record, files and parity, where there is parity enough; all else is told to
/// `report` and left alone.
pub fn repair<'p>(
    tree: &Path,
    parity: impl Into<ParityFolder<'p>>,
    options: &ParityRepairOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<ParityRepairSummary, ParityError> {
    let tree = Tree::open(tree, &options.progress, &options.stop)?;
    let store = Store::open(tree.path(), parity.into(), !options.dry_run)?;
    let index = store.index()?;
    let mut job = RepairJob {
        tree: &tree,
        store: &store,
        options,
        index: &index,
        wanted: BTreeMap::new(),
        work: Vec::new(),
        long: BTreeMap::new(),
        drafts: BTreeMap::new(),
        open: BTreeMap::new(),
        interrupted: store.notes()?.into_iter().map(|note| (note.path.clone(), note)).collect(),
        linked: BTreeMap::new(),
        looked_at: Vec::new(),
        not_good: HashSet::new(),
        totals: ParityRepairSummary::default(),
    };
    job.index(report)?;
    job.look(report)?;
    job.finish_touched(report)?;
    match options.dry_run {
        true => job.say(report),
        false => {
            job.mend(report)?;
            job.remove_left();
        }
    }
    Ok(job.totals)
}

struct RepairJob<'a> {
    tree: &'a Tree,
    store: &'a Store,
    options: &'a ParityRepairOptions,
    index: &'a Index,
    wanted: BTreeMap<Box<[u8]>, Wanted>,
    work: Vec<Work>,
    /// Where the files lie that are to be repaired and have pieces in several sets.
    long: BTreeMap<Box<[u8]>, Coverage>,
    drafts: BTreeMap<Box<[u8]>, Draft>,
    /// Files that are being mended in place.
    open: BTreeMap<Box<[u8]>, InPlace>,
    /// What an earlier repair in place was killed at.
    interrupted: BTreeMap<Box<[u8]>, Note>,
    /// Bad files with several names, and the first name that was repaired.
    linked: BTreeMap<(u64, u64), Box<[u8]>>,
    /// The sets that were looked at.
    looked_at: Vec<u64>,
    /// The files in them that are not as recorded in the end.
    not_good: HashSet<Box<[u8]>>,
    totals: ParityRepairSummary,
}

impl RepairJob<'_> {
    /// Writes the index again where a copy of it is damaged.
    fn index(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        if !self.index.is_scratched && !self.index.is_half_new {
            return Ok(());
        }
        let path = self.store.path().join("index");
        // Without any index nobody knows which sets count: `update` finds out.
        let can = !self.index.is_lost;
        if can && !self.options.dry_run {
            let index = Index { generation: self.index.generation + 1, ..self.index.clone() };
            self.store.commit(&index, &[])?;
        }
        if self.index.is_half_new {
            return Ok(());
        }
        let verdict = if can { ParityVerdict::Repaired } else { ParityVerdict::NotRepaired };
        self.count_parity(verdict);
        let told =
            if can && self.options.dry_run { ParityVerdict::Damaged { blocks: 0, of: 0 } } else { verdict };
        report(Finding::parity(&path, told));
        Ok(())
    }

    fn count_parity(&mut self, verdict: ParityVerdict) {
        match verdict {
            ParityVerdict::Repaired => self.totals.parity_repaired += 1,
            _ => self.totals.parity_damaged += 1,
        }
    }

    /// The sets to look at.
    fn sets(&self) -> Result<Vec<u64>, ParityError> {
        let named = &self.options.sets;
        let sets: Vec<u64> =
            self.index.sets.iter().copied().filter(|set| named.is_empty() || named.contains(set)).collect();
        if self.options.only.is_empty() {
            return Ok(sets);
        }
        let only: Vec<&[u8]> = self.options.only.iter().map(|path| path.as_os_str().as_bytes()).collect();
        let mut unknown = only.clone();
        let mut has_any = |set: &SetFile| {
            let paths: HashSet<&[u8]> = set.head.pieces.iter().map(|piece| &*piece.path).collect();
            unknown.retain(|path| !paths.contains(path));
            only.iter().any(|path| paths.contains(path))
        };
        let mut is_all_known = named.is_empty();
        let sets = sets
            .into_iter()
            .filter(|number| match self.store.set(*number) {
                Ok(set) => has_any(&set),
                // It is told when it is looked at.
                Err(_) => {
                    is_all_known = false;
                    true
                }
            })
            .collect();
        match unknown.first().filter(|_| is_all_known) {
            Some(path) => Err(ParityError::damaged(&self.tree.path_of(path), NO_PARITY)),
            None => Ok(sets),
        }
    }

    /// Finds what is to be done.
    fn look(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        if self.options.sets.iter().any(|number| !self.index.sets.contains(number)) {
            return Err(ParityError::damaged(self.store.path(), "it has no set of a number that was given"));
        }
        let sets = self.sets()?;
        self.totals.sets = sets.len() as u64;
        self.looked_at.clone_from(&sets);
        let mut others = Files::default();
        let (tree, store, threads) = (self.tree, self.store, self.options.threads);
        let lost = look_at_all((tree, store), &sets, threads, report, |set, report| {
            self.take(set, &mut others, report);
            Ok(())
        })?;
        self.totals.parity_damaged += lost;
        for (path, verdict) in others.rest() {
            self.was_touched(&path, &verdict);
            self.left_alone(&path, verdict, report);
        }
        // What somebody else wrote to in one set is not overwritten in another.
        let is_kept = |path: &[u8]| self.interrupted.get(path).is_some_and(|note| note.end == NoteEnd::Keep);
        self.wanted.retain(|path, _| !is_kept(path));
        let (wanted, tree) = (std::mem::take(&mut self.wanted).into_iter(), self.tree);
        self.wanted = wanted
            .map(|(path, one)| {
                let verdict = within_reach(tree, &path, one.verdict);
                (path, Wanted { verdict, ..one })
            })
            .collect();
        self.work.sort_by_key(|work| work.number);
        self.find_long_files(lost > 0)
    }

    /// Finds out where long files lie, and leaves those alone that a lost set has a part of, or that stay bad in sets that
    /// were not named.
    fn find_long_files(&mut self, is_lost: bool) -> Result<(), ParityError> {
        let is_long = |path: &[u8]| self.wanted.get(path).is_some_and(|wanted| !wanted.is_in_one_set);
        let needs_none = self.options.in_place && !is_lost && self.options.sets.is_empty();
        if needs_none || self.wanted.values().all(|wanted| wanted.is_in_one_set) {
            return Ok(());
        }
        self.long = coverage(self.store, &self.index.sets, &is_long)?;
        for (path, file) in self.long.iter().filter(|(_, file)| !file.is_whole()) {
            let may_stay = file.has_its_length(self.tree, path);
            let wanted = self.wanted.get_mut(path).filter(|wanted| wanted.verdict.can_be_repaired());
            if let Some(wanted) = wanted.filter(|_| !(may_stay && self.options.in_place)) {
                let what = if may_stay { PART_WITHOUT } else { PART_LOST };
                let error = ParityError::damaged(&self.tree.path_of(path), what);
                wanted.verdict = FileVerdict::NotRepaired(error);
            }
        }
        let is_unseen = |number: &&u64| !self.options.sets.is_empty() && !self.looked_at.contains(number);
        for (path, file) in &self.long {
            let unseen = file.sets.iter().filter(is_unseen);
            if self.options.in_place && file.has_its_length(self.tree, path) {
                self.wanted
                    .entry(path.clone())
                    .and_modify(|wanted| wanted.unread_sets = unseen.count() as u64);
                continue;
            }
            // A new file is made of all of it.
            let mut sets = Vec::new();
            for number in unseen {
                self.tree.go_on()?;
                let heads = self.heads(&[*number])?;
                let file = self.tree.file(path).map_err(ParityError::from);
                if !matches!(file.and_then(|(_, file)| heads.proved(path, &file)), Ok(Some(_))) {
                    sets.push(*number);
                }
            }
            let wanted = self.wanted.get_mut(path).filter(|wanted| wanted.verdict.can_be_repaired());
            if let Some(wanted) = wanted.filter(|_| !sets.is_empty()) {
                let path = self.tree.path_of(path);
                wanted.verdict = FileVerdict::NotRepaired(ParityError::OtherSets { path, sets });
            }
        }
        Ok(())
    }

    fn take(&mut self, set: SetState, others: &mut Files, report: &mut dyn FnMut(Finding)) {
        let can_be_repaired = set.can_be_repaired();
        let mut is_wanted = set.finding.is_some();
        for (piece, mut state) in set.pieces {
            if !self.options.is_asked_for(&piece.path) {
                continue;
            }
            let is_changed_file = state.is_changed_file();
            let bytes = state.bad;
            let bad = std::mem::take(&mut state.ranges);
            let is_ours = self.interrupted.get_mut(&piece.path).is_some_and(|note| {
                note.has_lost |= note.concerns(&bad);
                // A repair in place changes no length.
                state.has_its_size() && note.explains(&bad)
            });
            let verdict = match state.verdict(can_be_repaired) {
                Some(FileVerdict::Changed) if is_changed_file && (self.options.changed || is_ours) => {
                    FileVerdict::Damaged { bytes, can_be_repaired }
                }
                Some(verdict) => verdict,
                None => continue,
            };
            if !matches!(verdict, FileVerdict::Damaged { .. } | FileVerdict::Missing { .. }) {
                if let Some(verdict) = others.add(&piece, verdict) {
                    self.was_touched(&piece.path, &verdict);
                    self.left_alone(&piece.path, verdict, report);
                }
                continue;
            }
            is_wanted = true;
            let is_in_one_set = piece.length == piece.size;
            let mut wanted = match self.wanted.remove(&piece.path) {
                None => Wanted {
                    sets: BTreeMap::new(),
                    verdict,
                    is_in_one_set,
                    ranges: Vec::new(),
                    unread_sets: 0,
                },
                Some(before) => Wanted { verdict: merge(before.verdict, verdict), ..before },
            };
            wanted.sets.insert(set.number, bytes > 0);
            if self.options.in_place {
                wanted.ranges.extend(bad);
            }
            self.wanted.insert(piece.path, wanted);
        }
        if is_wanted {
            self.work.push(Work { number: set.number, finding: set.finding, can_be_repaired });
        }
    }

    /// Takes note of what all of a file is that a repair in place was killed at.
    fn was_touched(&mut self, path: &[u8], verdict: &FileVerdict) {
        if let Some(note) = self.interrupted.get_mut(path) {
            note.end = match verdict {
                FileVerdict::Touched => NoteEnd::SetTime,
                // All that was to be written is there; the rest is somebody's, and `update` may have it.
                FileVerdict::Changed if !note.has_lost => NoteEnd::Remove,
                _ => NoteEnd::Keep,
            };
        }
    }

    fn left_alone(&mut self, path: &[u8], verdict: FileVerdict, report: &mut dyn FnMut(Finding)) {
        let has_lost = self.interrupted.get(path).is_some_and(|note| note.has_lost);
        if !matches!(verdict, FileVerdict::Touched) {
            self.not_good.insert(path.into());
        }
        match &verdict {
            FileVerdict::Touched => return,
            FileVerdict::Changed if has_lost => {
                self.totals.not_repaired += 1;
                let error = ParityError::damaged(&self.tree.path_of(path), WRITTEN_SINCE);
                return report(Finding::of(path, FileVerdict::NotRepaired(error)));
            }
            FileVerdict::Changed => self.totals.changed += 1,
            _ => self.totals.unreadable += 1,
        }
        report(Finding::of(path, verdict));
    }

    /// Tells what a dry run found.
    fn say(&mut self, report: &mut dyn FnMut(Finding)) {
        for work in std::mem::take(&mut self.work) {
            match work.finding {
                None => {}
                Some(Finding::Parity(parity)) if !work.can_be_repaired => {
                    self.count_parity(ParityVerdict::NotRepaired);
                    report(Finding::parity(&parity.path, ParityVerdict::NotRepaired));
                }
                Some(finding) => {
                    self.count_parity(ParityVerdict::Repaired);
                    report(finding);
                }
            }
        }
        for (path, wanted) in std::mem::take(&mut self.wanted) {
            match wanted.verdict.can_be_repaired() {
                true => self.totals.repaired += 1,
                false => self.totals.not_repaired += 1,
            }
            report(Finding::of(&path, wanted.verdict));
        }
    }

    /// Gives the files their time again that an earlier repair in place was through with, but for that, and tells which
    /// these are. Only who looked at all sets knows that.
    fn finish_touched(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        if !self.options.sets.is_empty() || !self.options.only.is_empty() {
            return Ok(());
        }
        // What has a part in a set that is lost may be bad there.
        let is_all_seen = self.totals.parity_damaged == 0;
        for (path, note) in self.interrupted.iter().filter(|(path, _)| !self.wanted.contains_key(*path)) {
            match note.end {
                NoteEnd::Keep => continue,
                _ if self.options.dry_run => {}
                NoteEnd::SetTime => note.finish(self.tree, self.store)?,
                NoteEnd::Remove => self.store.remove_note(path)?,
            }
            let has_it = |set: &SetFile| set.head.pieces.iter().any(|piece| piece.path == *path);
            let mut sets = self.looked_at.iter().filter_map(|number| self.store.set(*number).ok());
            if is_all_seen && !self.not_good.contains(path) && sets.any(|set| has_it(&set)) {
                self.totals.repaired += 1;
                report(Finding::of(path, note.finished()));
            }
        }
        Ok(())
    }

    /// Does what is to be done, set by set.
    fn mend(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        let beyond: Vec<Box<[u8]>> = self
            .wanted
            .iter()
            .filter(|(_, one)| !one.verdict.can_be_repaired())
            .map(|(path, _)| path.clone())
            .collect();
        for path in beyond {
            if let Some(wanted) = self.wanted.remove(&path) {
                self.totals.not_repaired += 1;
                report(Finding::of(&path, wanted.verdict));
                self.not_good.insert(path);
            }
        }
        let (long, nothing) = (std::mem::take(&mut self.long), Solved::new());
        for work in std::mem::take(&mut self.work) {
            let set = self.store.set(work.number)?;
            let is_needed = self.wanted.values().any(|wanted| wanted.sets.contains_key(&work.number));
            if !is_needed && work.finding.is_none() {
                continue;
            }
            let solved = match lost_blocks(self.tree, &set) {
                // Parity that gives other bytes than were recorded mends nothing.
                Err(ParityError::Damaged { .. }) => None,
                solved => solved?,
            };
            let head = Arc::new(set.head.clone());
            for piece in &head.pieces {
                let wanted = self.wanted.get(&piece.path);
                if let Some(has_lost) = wanted.and_then(|wanted| wanted.sets.get(&work.number)) {
                    let solved = solved.as_ref().or((!has_lost).then_some(&nothing));
                    let done = self.piece((&head, piece), solved, &long);
                    self.tell(&piece.path, done, report);
                }
            }
            if work.finding.is_some() {
                let is_mended = match &solved {
                    Some(solved) => parity_again((self.tree, self.store), &set, solved)?,
                    None => false,
                };
                let verdict = if is_mended { ParityVerdict::Repaired } else { ParityVerdict::NotRepaired };
                self.count_parity(verdict);
                report(Finding::parity(set.path(), verdict));
            }
        }
        Ok(())
    }

    /// Removes what repairs that were killed left beside files that are as recorded. Only who looked at all sets of a
    /// file knows that.
    fn remove_left(&self) {
        let sets: &[u64] = if self.options.sets.is_empty() { &self.looked_at } else { &[] };
        let mut last: (Box<[u8]>, Option<Arc<Directory>>) = (Box::default(), None);
        for set in sets.iter().filter_map(|number| self.store.set(*number).ok()) {
            for Piece { path, .. } in set.head.pieces {
                if !self.options.is_asked_for(&path) || self.not_good.contains(&path) {
                    continue;
                }
                let way = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
                if last.1.is_none() || *last.0 != *way {
                    let folder = self.tree.root().beneath(Path::new(OsStr::from_bytes(way)), None);
                    last = (way.into(), folder.ok());
                }
                if let Some(folder) = &last.1 {
                    remove_left(folder, &path);
                }
            }
        }
    }

    /// Says how the repair of a file ended, once it has.
    fn tell(
        &mut self,
        path: &[u8],
        done: Result<Option<Mended>, ParityError>,
        report: &mut dyn FnMut(Finding),
    ) {
        let verdict = match done {
            Ok(None) => return,
            Ok(Some(mended)) => {
                self.totals.repaired += 1;
                FileVerdict::repaired(mended, self.wanted.get(path).map_or(0, |wanted| wanted.unread_sets))
            }
            Err(error) => {
                self.totals.not_repaired += 1;
                self.not_good.insert(path.into());
                FileVerdict::NotRepaired(error)
            }
        };
        self.drafts.remove(path);
        self.open.remove(path);
        self.wanted.remove(path);
        report(Finding::of(path, verdict));
    }

    /// Writes what a set gives for a file. Returns what that came to, if that was the last of its sets and the file has
    /// taken its place.
    fn piece(
        &mut self,
        (head, piece): (&Arc<SetHead>, &Piece),
        solved: Option<&Solved>,
        long: &BTreeMap<Box<[u8]>, Coverage>,
    ) -> Result<Option<Mended>, ParityError> {
        let Some(solved) = solved else {
            let what = "its parity does not give the recorded bytes";
            return Err(ParityError::damaged(&self.tree.path_of(&piece.path), what));
        };
        if self.options.in_place
            && let Some(mended) = self.piece_in_place(head, piece, solved)?
        {
            return Ok(mended);
        }
        let mut draft = match self.drafts.remove(&piece.path) {
            Some(draft) => draft,
            None => Draft::begin(self.tree, piece)?,
        };
        for (number, parts) in head.parts_of_pieces() {
            if head.pieces[number].path != piece.path {
                continue;
            }
            for part in parts {
                if let Some(block) = solved.get(&part.block) {
                    draft.write(self.tree, &block[part.range], part.offset)?;
                }
            }
        }
        let Some(wanted) = self.wanted.get_mut(&piece.path) else { return Ok(None) };
        wanted.sets.remove(&head.number);
        if !wanted.sets.is_empty() {
            self.drafts.insert(piece.path.clone(), draft);
            return Ok(None);
        }
        let heads = match long.get(&piece.path) {
            Some(file) if !wanted.is_in_one_set => self.heads(&file.sets)?,
            None if !wanted.is_in_one_set => self.heads(&self.sets_of(&piece.path)?)?,
            _ => vec![head.clone()],
        };
        draft.prove(self.tree, &heads)?;
        let (identity, has_links) = (draft.identity(), draft.has_links());
        if let Some(other) = identity.and_then(|identity| self.linked.get(&identity)) {
            draft.link_to(self.tree, other, &heads)?;
        }
        let mended = draft.place(self.tree, self.options.keep())?;
        if self.interrupted.contains_key(&piece.path) {
            self.store.remove_note(&piece.path)?;
        }
        if let Some(identity) = identity.filter(|_| has_links) {
            self.linked.entry(identity).or_insert_with(|| piece.path.clone());
        }
        Ok(Some(mended))
    }

    /// Writes what a set gives for a file into the file. None if it is not there, or not as long as it was; else what
    /// that came to, if that was the last of its sets.
    fn piece_in_place(
        &mut self,
        head: &Arc<SetHead>,
        piece: &Piece,
        solved: &Solved,
    ) -> Result<Option<Option<Mended>>, ParityError> {
        let mut open = match self.open.remove(&piece.path) {
            Some(open) => open,
            None => {
                let bad =
                    self.wanted.get(&piece.path).map(|wanted| wanted.ranges.clone()).unwrap_or_default();
                let may_differ = self.options.changed || self.interrupted.contains_key(&piece.path);
                match InPlace::begin(self.tree, piece, (bad, may_differ), self.options.keep())? {
                    Some(open) => open,
                    None => return Ok(None),
                }
            }
        };
        let before = open.state();
        open.write((self.tree, self.store), head, solved)?;
        // Its other names may be among them, as sets are in no order of files.
        self.open.values_mut().for_each(|other| other.follow((&before, open.state())));
        let Some(wanted) = self.wanted.get_mut(&piece.path) else { return Ok(Some(None)) };
        wanted.sets.remove(&head.number);
        if !wanted.sets.is_empty() {
            self.open.insert(piece.path.clone(), open);
            return Ok(Some(None));
        }
        open.finish(self.tree, self.store).map(|mended| Some(Some(mended)))
    }

    /// The sets that a file lies in.
    fn sets_of(&self, path: &[u8]) -> Result<Vec<u64>, ParityError> {
        let found = coverage(self.store, &self.index.sets, &|other| other == path)?;
        Ok(found.into_values().flat_map(|file| file.sets).collect())
    }

    fn heads(&self, sets: &[u64]) -> Result<Vec<Arc<SetHead>>, ParityError> {
        sets.iter().map(|number| Ok(Arc::new(self.store.set(*number)?.head))).collect()
    }
}
