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
use crate::draft::{Draft, Keep, Proof, remove_left};
use crate::folder::{ParityFolder, ParityLocation, SetFile};
use crate::head::{Piece, SetHead};
use crate::in_place::{InPlace, Note, NoteEnd};
use crate::index::Index;
use crate::options::threads;
use crate::scan::merge;
use crate::solve::{Solved, lost_blocks, parity_again};
use crate::tree::Tree;
use crate::verdict::{FileVerdict, Finding, Mended, ParityFileVerdict};
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
struct BadFile {
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
struct SetToRepair {
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
    parity: impl Into<ParityLocation<'p>>,
    options: &ParityRepairOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<ParityRepairSummary, ParityError> {
    let tree = Tree::open(tree, &options.progress, &options.stop)?;
    let parity_folder = ParityFolder::open(tree.path(), parity.into(), !options.dry_run)?;
    let index = parity_folder.index()?;
    let mut job = RepairJob {
        tree: &tree,
        parity_folder: &parity_folder,
        options,
        index: &index,
        bad_files: BTreeMap::new(),
        sets_to_repair: Vec::new(),
        long_files: BTreeMap::new(),
        drafts: BTreeMap::new(),
        in_place: BTreeMap::new(),
        interrupted: parity_folder.notes()?.into_iter().map(|note| (note.path.clone(), note)).collect(),
        linked: BTreeMap::new(),
        looked_at: Vec::new(),
        not_good: HashSet::new(),
        totals: ParityRepairSummary::default(),
    };
    job.repair_index(report)?;
    job.find_damage(report)?;
    job.finish_touched(report)?;
    match options.dry_run {
        true => job.report_dry_run(report),
        false => {
            job.repair_sets(report)?;
            job.remove_left();
        }
    }
    Ok(job.totals)
}

struct RepairJob<'a> {
    tree: &'a Tree,
    parity_folder: &'a ParityFolder,
    options: &'a ParityRepairOptions,
    index: &'a Index,
    bad_files: BTreeMap<Box<[u8]>, BadFile>,
    sets_to_repair: Vec<SetToRepair>,
    /// Where the files lie that are to be repaired and have pieces in several sets.
    long_files: BTreeMap<Box<[u8]>, Coverage>,
    drafts: BTreeMap<Box<[u8]>, Draft>,
    /// Files that are being mended in place.
    in_place: BTreeMap<Box<[u8]>, InPlace>,
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
    fn repair_index(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        if !self.index.is_scratched && !self.index.is_half_new {
            return Ok(());
        }
        let path = self.parity_folder.path().join("index");
        // Without any index nobody knows which sets count: `update` finds out.
        let can = !self.index.is_lost;
        if can && !self.options.dry_run {
            let index = Index { generation: self.index.generation + 1, ..self.index.clone() };
            self.parity_folder.commit(&index, &[])?;
        }
        if self.index.is_half_new {
            return Ok(());
        }
        let verdict = if can { ParityFileVerdict::Repaired } else { ParityFileVerdict::NotRepaired };
        self.count_parity(verdict);
        let told = if can && self.options.dry_run {
            ParityFileVerdict::Damaged { blocks: 0, of: 0 }
        } else {
            verdict
        };
        report(Finding::parity(&path, told));
        Ok(())
    }

    fn count_parity(&mut self, verdict: ParityFileVerdict) {
        match verdict {
            ParityFileVerdict::Repaired => self.totals.parity_repaired += 1,
            _ => self.totals.parity_damaged += 1,
        }
    }

    /// The sets to look at.
    fn sets_to_look_at(&self) -> Result<Vec<u64>, ParityError> {
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
            .filter(|number| match self.parity_folder.set(*number) {
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
    fn find_damage(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        if self.options.sets.iter().any(|number| !self.index.sets.contains(number)) {
            return Err(ParityError::damaged(
                self.parity_folder.path(),
                "it has no set of a number that was given",
            ));
        }
        let sets = self.sets_to_look_at()?;
        self.totals.sets = sets.len() as u64;
        self.looked_at.clone_from(&sets);
        let mut others = Files::default();
        let (tree, parity_folder, threads) = (self.tree, self.parity_folder, self.options.threads);
        let lost = look_at_all((tree, parity_folder), &sets, threads, report, |set, report| {
            self.add_set(set, &mut others, report);
            Ok(())
        })?;
        self.totals.parity_damaged += lost;
        for (path, verdict) in others.rest() {
            self.note_touched(&path, &verdict);
            self.leave_alone(&path, verdict, report);
        }
        // What somebody else wrote to in one set is not overwritten in another.
        let is_kept = |path: &[u8]| self.interrupted.get(path).is_some_and(|note| note.end == NoteEnd::Keep);
        self.bad_files.retain(|path, _| !is_kept(path));
        let (bad_files, tree) = (std::mem::take(&mut self.bad_files).into_iter(), self.tree);
        self.bad_files = bad_files
            .map(|(path, one)| {
                let verdict = within_reach(tree, &path, one.verdict);
                (path, BadFile { verdict, ..one })
            })
            .collect();
        self.sets_to_repair.sort_by_key(|set| set.number);
        self.find_long_files(lost > 0)
    }

    /// Finds out where long files lie, and leaves those alone that a lost set has a part of, or that stay bad in sets that
    /// were not named.
    fn find_long_files(&mut self, is_lost: bool) -> Result<(), ParityError> {
        let is_long = |path: &[u8]| self.bad_files.get(path).is_some_and(|bad_file| !bad_file.is_in_one_set);
        let needs_none = self.options.in_place && !is_lost && self.options.sets.is_empty();
        if needs_none || self.bad_files.values().all(|bad_file| bad_file.is_in_one_set) {
            return Ok(());
        }
        self.long_files = coverage(self.parity_folder, &self.index.sets, &is_long)?;
        for (path, file) in self.long_files.iter().filter(|(_, file)| !file.is_whole()) {
            let may_stay = file.has_its_length(self.tree, path);
            let bad_file = self.bad_files.get_mut(path).filter(|bad_file| bad_file.verdict.can_be_repaired());
            if let Some(bad_file) = bad_file.filter(|_| !(may_stay && self.options.in_place)) {
                let what = if may_stay { PART_WITHOUT } else { PART_LOST };
                let error = ParityError::damaged(&self.tree.path_of(path), what);
                bad_file.verdict = FileVerdict::NotRepaired(error);
            }
        }
        let is_unseen = |number: &&u64| !self.options.sets.is_empty() && !self.looked_at.contains(number);
        for (path, file) in &self.long_files {
            let unseen = file.sets.iter().filter(is_unseen);
            if self.options.in_place && file.has_its_length(self.tree, path) {
                self.bad_files
                    .entry(path.clone())
                    .and_modify(|bad_file| bad_file.unread_sets = unseen.count() as u64);
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
            let bad_file = self.bad_files.get_mut(path).filter(|bad_file| bad_file.verdict.can_be_repaired());
            if let Some(bad_file) = bad_file.filter(|_| !sets.is_empty()) {
                let path = self.tree.path_of(path);
                bad_file.verdict = FileVerdict::NotRepaired(ParityError::OtherSets { path, sets });
            }
        }
        Ok(())
    }

    fn add_set(&mut self, set: SetState, others: &mut Files, report: &mut dyn FnMut(Finding)) {
        let can_be_repaired = set.can_be_repaired();
        let mut has_work = set.finding.is_some();
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
                    self.note_touched(&piece.path, &verdict);
                    self.leave_alone(&piece.path, verdict, report);
                }
                continue;
            }
            has_work = true;
            let is_in_one_set = piece.length == piece.size;
            let mut bad_file = match self.bad_files.remove(&piece.path) {
                None => BadFile {
                    sets: BTreeMap::new(),
                    verdict,
                    is_in_one_set,
                    ranges: Vec::new(),
                    unread_sets: 0,
                },
                Some(before) => BadFile { verdict: merge(before.verdict, verdict), ..before },
            };
            bad_file.sets.insert(set.number, bytes > 0);
            if self.options.in_place {
                bad_file.ranges.extend(bad);
            }
            self.bad_files.insert(piece.path, bad_file);
        }
        if has_work {
            self.sets_to_repair.push(SetToRepair {
                number: set.number,
                finding: set.finding,
                can_be_repaired,
            });
        }
    }

    /// Takes note of what all of a file is that a repair in place was killed at.
    fn note_touched(&mut self, path: &[u8], verdict: &FileVerdict) {
        if let Some(note) = self.interrupted.get_mut(path) {
            note.end = match verdict {
                FileVerdict::Touched => NoteEnd::SetTime,
                // All that was to be written is there; the rest is somebody's, and `update` may have it.
                FileVerdict::Changed if !note.has_lost => NoteEnd::Remove,
                _ => NoteEnd::Keep,
            };
        }
    }

    fn leave_alone(&mut self, path: &[u8], verdict: FileVerdict, report: &mut dyn FnMut(Finding)) {
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
    fn report_dry_run(&mut self, report: &mut dyn FnMut(Finding)) {
        for to_repair in std::mem::take(&mut self.sets_to_repair) {
            match to_repair.finding {
                None => {}
                Some(Finding::Parity(parity)) if !to_repair.can_be_repaired => {
                    self.count_parity(ParityFileVerdict::NotRepaired);
                    report(Finding::parity(&parity.path, ParityFileVerdict::NotRepaired));
                }
                Some(finding) => {
                    self.count_parity(ParityFileVerdict::Repaired);
                    report(finding);
                }
            }
        }
        for (path, bad_file) in std::mem::take(&mut self.bad_files) {
            match bad_file.verdict.can_be_repaired() {
                true => self.totals.repaired += 1,
                false => self.totals.not_repaired += 1,
            }
            report(Finding::of(&path, bad_file.verdict));
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
        for (path, note) in self.interrupted.iter().filter(|(path, _)| !self.bad_files.contains_key(*path)) {
            match note.end {
                NoteEnd::Keep => continue,
                _ if self.options.dry_run => {}
                NoteEnd::SetTime => note.finish(self.tree, self.parity_folder)?,
                NoteEnd::Remove => self.parity_folder.remove_note(path)?,
            }
            let has_it = |set: &SetFile| set.head.pieces.iter().any(|piece| piece.path == *path);
            let mut sets = self.looked_at.iter().filter_map(|number| self.parity_folder.set(*number).ok());
            if is_all_seen && !self.not_good.contains(path) && sets.any(|set| has_it(&set)) {
                self.totals.repaired += 1;
                report(Finding::of(path, note.finished()));
            }
        }
        Ok(())
    }

    /// Does what is to be done, set by set.
    fn repair_sets(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        let beyond: Vec<Box<[u8]>> = self
            .bad_files
            .iter()
            .filter(|(_, one)| !one.verdict.can_be_repaired())
            .map(|(path, _)| path.clone())
            .collect();
        for path in beyond {
            if let Some(bad_file) = self.bad_files.remove(&path) {
                self.totals.not_repaired += 1;
                report(Finding::of(&path, bad_file.verdict));
                self.not_good.insert(path);
            }
        }
        let (long, nothing) = (std::mem::take(&mut self.long_files), Solved::new());
        for to_repair in std::mem::take(&mut self.sets_to_repair) {
            let set = self.parity_folder.set(to_repair.number)?;
            let is_needed =
                self.bad_files.values().any(|bad_file| bad_file.sets.contains_key(&to_repair.number));
            if !is_needed && to_repair.finding.is_none() {
                continue;
            }
            let solved = match lost_blocks(self.tree, &set) {
                // Parity that gives other bytes than were recorded mends nothing.
                Err(ParityError::Damaged { .. }) => None,
                solved => solved?,
            };
            let head = Arc::new(set.head.clone());
            for piece in &head.pieces {
                let bad_file = self.bad_files.get(&piece.path);
                if let Some(has_lost) = bad_file.and_then(|bad_file| bad_file.sets.get(&to_repair.number)) {
                    let solved = solved.as_ref().or((!has_lost).then_some(&nothing));
                    let done = self.repair_piece((&head, piece), solved, &long);
                    self.report_repaired(&piece.path, done, report);
                }
            }
            if to_repair.finding.is_some() {
                let is_mended = match &solved {
                    Some(solved) => parity_again((self.tree, self.parity_folder), &set, solved)?,
                    None => false,
                };
                let verdict =
                    if is_mended { ParityFileVerdict::Repaired } else { ParityFileVerdict::NotRepaired };
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
        for set in sets.iter().filter_map(|number| self.parity_folder.set(*number).ok()) {
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
    fn report_repaired(
        &mut self,
        path: &[u8],
        done: Result<Option<Mended>, ParityError>,
        report: &mut dyn FnMut(Finding),
    ) {
        let verdict = match done {
            Ok(None) => return,
            Ok(Some(mended)) => {
                self.totals.repaired += 1;
                FileVerdict::repaired(
                    mended,
                    self.bad_files.get(path).map_or(0, |bad_file| bad_file.unread_sets),
                )
            }
            Err(error) => {
                self.totals.not_repaired += 1;
                self.not_good.insert(path.into());
                FileVerdict::NotRepaired(error)
            }
        };
        self.drafts.remove(path);
        self.in_place.remove(path);
        self.bad_files.remove(path);
        report(Finding::of(path, verdict));
    }

    /// Writes what a set gives for a file. Returns what that came to, if that was the last of its sets and the file has
    /// taken its place.
    fn repair_piece(
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
            && let Some(mended) = self.repair_piece_in_place(head, piece, solved)?
        {
            return Ok(mended);
        }
        let mut draft = match self.drafts.remove(&piece.path) {
            Some(draft) => draft,
            None => Draft::begin(self.tree, piece, self.may_differ(&piece.path))?,
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
        let Some(bad_file) = self.bad_files.get_mut(&piece.path) else { return Ok(None) };
        bad_file.sets.remove(&head.number);
        if !bad_file.sets.is_empty() {
            self.drafts.insert(piece.path.clone(), draft);
            return Ok(None);
        }
        let heads = match long.get(&piece.path) {
            Some(file) if !bad_file.is_in_one_set => self.heads(&file.sets)?,
            None if !bad_file.is_in_one_set => self.heads(&self.sets_of(&piece.path)?)?,
            _ => vec![head.clone()],
        };
        draft.prove(self.tree, &heads)?;
        let (identity, has_links) = (draft.identity(), draft.has_links());
        if let Some(other) = identity.and_then(|identity| self.linked.get(&identity)) {
            draft.link_to(self.tree, other, &heads)?;
        }
        let mended = draft.place(self.tree, self.options.keep())?;
        if self.interrupted.contains_key(&piece.path) {
            self.parity_folder.remove_note(&piece.path)?;
        }
        if let Some(identity) = identity.filter(|_| has_links) {
            self.linked.entry(identity).or_insert_with(|| piece.path.clone());
        }
        Ok(Some(mended))
    }

    /// Whether a file is repaired that has another time than recorded: at the user's wish, or as an interrupted repair
    /// in place gave it that.
    fn may_differ(&self, path: &[u8]) -> bool {
        self.options.changed || self.interrupted.contains_key(path)
    }

    /// Writes what a set gives for a file into the file. None if it is not there, or not as long as it was; else what
    /// that came to, if that was the last of its sets.
    fn repair_piece_in_place(
        &mut self,
        head: &Arc<SetHead>,
        piece: &Piece,
        solved: &Solved,
    ) -> Result<Option<Option<Mended>>, ParityError> {
        let mut open = match self.in_place.remove(&piece.path) {
            Some(open) => open,
            None => {
                let bad = self
                    .bad_files
                    .get(&piece.path)
                    .map(|bad_file| bad_file.ranges.clone())
                    .unwrap_or_default();
                let may_differ = self.may_differ(&piece.path);
                match InPlace::begin(self.tree, piece, (bad, may_differ), self.options.keep())? {
                    Some(open) => open,
                    None => return Ok(None),
                }
            }
        };
        let before = open.state();
        open.write((self.tree, self.parity_folder), head, solved)?;
        // Its other names may be among them, as sets are in no order of files.
        self.in_place.values_mut().for_each(|other| other.follow((&before, open.state())));
        let Some(bad_file) = self.bad_files.get_mut(&piece.path) else { return Ok(Some(None)) };
        bad_file.sets.remove(&head.number);
        if !bad_file.sets.is_empty() {
            self.in_place.insert(piece.path.clone(), open);
            return Ok(Some(None));
        }
        open.finish(self.tree, self.parity_folder).map(|mended| Some(Some(mended)))
    }

    /// The sets that a file lies in.
    fn sets_of(&self, path: &[u8]) -> Result<Vec<u64>, ParityError> {
        let found = coverage(self.parity_folder, &self.index.sets, &|other| other == path)?;
        Ok(found.into_values().flat_map(|file| file.sets).collect())
    }

    fn heads(&self, sets: &[u64]) -> Result<Vec<Arc<SetHead>>, ParityError> {
        sets.iter().map(|number| Ok(Arc::new(self.parity_folder.set(*number)?.head))).collect()
    }
}
