//! Renews the parity of changed files, and of nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use verisum_files::{Progress, Stop, Timestamp};

use crate::ParityError;
use crate::build::Builder;
use crate::coverage::coverage;
use crate::create::Made;
use crate::digest::Hasher;
use crate::draft::unplaced_name;
use crate::folder::{ParityFolder, ParityLocation};
use crate::head::Piece;
use crate::index::Index;
use crate::newest::FileRecord;
use crate::options::{self, threads};
use crate::scan::{merge, scan};
use crate::tree::Tree;
use crate::verdict::{FileVerdict, Finding, ParityFileVerdict, lost_set};
use crate::verify::{Files, look};

/// How parity is renewed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// Threads; at least one.
    pub threads: usize,
    /// Take damaged files that share a set with changed ones as they are now. Without it their set is kept, so
    /// that they can be repaired.
    pub accept_damage: bool,
    /// Also give up parity of most files, where they were written to or are gone. Without it that fails, for a file
    /// system may not be mounted.
    pub accept_changes: bool,
    /// How far it is: files and bytes that were read.
    pub progress: Arc<Progress>,
    /// When to end early, with [`ParityError::Stopped`].
    pub stop: Arc<Stop>,
}

impl Default for UpdateOptions {
    /// A thread for each core, and no damage accepted.
    fn default() -> UpdateOptions {
        UpdateOptions {
            threads: threads(),
            accept_damage: false,
            accept_changes: false,
            progress: Arc::default(),
            stop: Arc::default(),
        }
    }
}

/// A piece that has parity.
struct Known {
    path: Box<[u8]>,
    size: u64,
    modified: Timestamp,
    offset: u64,
    length: u64,
    set: u64,
    record: FileRecord,
}

/// What is to be done.
#[derive(Default)]
struct Plan {
    /// Sets to be made anew.
    touched: BTreeSet<u64>,
    /// Pieces of sets that count no more, for the same bytes have parity in a later one, as set and path.
    superseded: BTreeSet<(u64, Box<[u8]>)>,
    /// Files, or pieces of them, that get new parity.
    wanted: Vec<Piece>,
    made: Made,
}

/// Gives parity to files that are new or were written to, and takes away that of files that are gone. Sets that
/// have none of them are left as they are.
pub fn update<'p>(
    tree: &Path,
    parity: impl Into<ParityLocation<'p>>,
    options: &UpdateOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Made, ParityError> {
    let tree = Tree::open(tree, &options.progress, &options.stop)?;
    let parity_folder = ParityFolder::open(tree.path(), parity.into(), true)?;
    tree.require_apart(parity_folder.identity()?)?;
    let index = parity_folder.index()?;
    let notes = parity_folder.notes()?;
    if let Some(note) = notes.first().filter(|_| !options.accept_damage) {
        let what = "a repair in place was interrupted (`verisum parity repair` finishes it)";
        return Err(ParityError::damaged(&tree.path_of(&note.path), what));
    }
    for note in &notes {
        parity_folder.remove_note(&note.path)?;
    }
    let mut job = UpdateJob { tree: &tree, parity_folder: &parity_folder, options, index, sizes: Vec::new() };
    let (known, lost) = job.known(report)?;
    let (mut plan, total) = job.compare(known, report)?;
    job.merge_a_small_set(&mut plan, options::set_bytes(total, &job.index));
    job.take_over(&mut plan, report)?;
    let Plan { touched, mut wanted, mut made, .. } = plan;
    made.sets_lost = lost.len() as u64;
    let is_index_whole = !job.index.is_scratched && !job.index.is_half_new;
    if touched.is_empty() && wanted.is_empty() && lost.is_empty() && is_index_whole {
        made.sets_kept = job.index.sets.len() as u64;
        // A run that was killed may have left sets that do not count. Nobody is at work on them: who reserves numbers writes
        // one copy of the index.
        let _ = parity_folder.remove_all_but(&job.index);
        return Ok(made);
    }
    wanted.sort_by(|one, other| (&one.path, one.offset).cmp(&(&other.path, other.offset)));
    let builder = Builder {
        tree: &tree,
        parity_folder: &parity_folder,
        set_bytes: options::set_bytes(total, &job.index),
        threads: options.threads,
    };
    let mut index = Index { is_scratched: false, is_half_new: false, is_lost: false, ..job.index.clone() };
    parity_folder.claim(&mut index)?;
    let built = builder.build(&mut index, wanted, report).and_then(|built| {
        index.sets.retain(|set| !touched.contains(set) && !lost.contains(set));
        made.sets_kept = index.sets.len() as u64;
        index.sets.extend(&built.sets);
        index.sets.sort_unstable();
        index.generation += 1;
        parity_folder.commit(&index, &built.sets)?;
        Ok(built)
    });
    let built = built.inspect_err(|_| parity_folder.undo_failed_run())?;
    made.sets_written = built.sets.len() as u64;
    made.written = built.stored;
    Ok(made)
}

/// So many files are too few to tell anything, unless all are gone.
const FEW: u64 = 100;

/// Whether so much of what has parity is gone or was written to that something must be wrong, as scrubs have it.
fn is_too_much(changed: u64, gone: u64, of: u64) -> bool {
    let lost = changed + gone;
    of > 0 && (gone == of || lost >= FEW && 2 * lost > of)
}

struct UpdateJob<'a> {
    tree: &'a Tree,
    parity_folder: &'a ParityFolder,
    options: &'a UpdateOptions,
    index: Index,
    /// The sets and the bytes of data in them.
    sizes: Vec<(u64, u64)>,
}

impl UpdateJob<'_> {
    /// All pieces that have parity, by path and offset, and the sets that are lost.
    fn known(&mut self, report: &mut dyn FnMut(Finding)) -> Result<(Vec<Known>, BTreeSet<u64>), ParityError> {
        let mut known = Vec::new();
        let mut lost = BTreeSet::new();
        for number in &self.index.sets {
            let set = match self.parity_folder.set(*number) {
                Ok(set) => set,
                Err(error) => {
                    report(lost_set(error)?);
                    lost.insert(*number);
                    continue;
                }
            };
            if set.is_scratched {
                let of = set.head.parity_blocks;
                report(Finding::parity(set.path(), ParityFileVerdict::Damaged { blocks: 0, of }));
            }
            self.sizes.push((*number, set.head.length()));
            known.extend(set.head.pieces.into_iter().map(|piece| Known {
                record: FileRecord::new(*number, &piece),
                path: piece.path,
                size: piece.size,
                modified: piece.modified,
                offset: piece.offset,
                length: piece.length,
                set: *number,
            }));
        }
        known.sort_unstable_by(|one, other| {
            (&one.path, one.offset, other.set).cmp(&(&other.path, other.offset, one.set))
        });
        Ok((known, lost))
    }

    /// Goes through the tree and what is known of it side by side.
    fn compare(
        &self,
        known: Vec<Known>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<(Plan, u64), ParityError> {
        let mut plan = Plan::default();
        let of = known.chunk_by(|one, next| one.path == next.path).count() as u64;
        let mut gone: Vec<Known> = Vec::new();
        let (mut total, mut is_complete) = (0, true);
        let mut known = known.into_iter().peekable();
        for found in self.tree.files(self.parity_folder.identity()?) {
            let file = match found {
                Ok(file) => file,
                Err(error) => {
                    is_complete = false;
                    report(Finding::Unseen(error));
                    continue;
                }
            };
            total += file.size;
            while let Some(one) = known.next_if(|one| one.path < file.path) {
                gone.push(one);
            }
            let mut pieces = Vec::new();
            while let Some(one) = known.next_if(|one| one.path == file.path) {
                pieces.push(one);
            }
            // The last step of a repair without links begins with an empty file.
            if file.size == 0 && pieces.first().is_some_and(|one| one.size > 0) {
                self.require_not_half_repaired(&file.path)?;
            }
            plan.add(file, pieces);
        }
        gone.extend(known);
        // What cannot be seen is not gone.
        if is_complete {
            let paths: BTreeSet<&[u8]> = gone.iter().map(|one| &*one.path).collect();
            paths.iter().try_for_each(|path| self.require_not_half_repaired(path))?;
            plan.made.gone = paths.len() as u64;
            plan.touched.extend(gone.iter().map(|one| one.set));
        }
        let Made { changed, gone, .. } = plan.made;
        match is_too_much(changed, gone, of) && !self.options.accept_changes {
            true => Err(ParityError::TooMuch { path: self.tree.path().to_path_buf(), changed, gone, of }),
            false => Ok((plan, total)),
        }
    }

    /// Fails for a missing file whose repair was killed before it had its name.
    fn require_not_half_repaired(&self, path: &[u8]) -> Result<(), ParityError> {
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let left = [&path[..folder], unplaced_name(path).as_bytes()].concat();
        match !self.options.accept_damage && self.tree.file(&left).is_ok() {
            true => {
                let what = "its repair was interrupted (`verisum parity repair` finishes it)";
                Err(ParityError::damaged(&self.tree.path_of(path), what))
            }
            false => Ok(()),
        }
    }

    /// Where something is added, a set that is less than half full is made anew with it: else every update would
    /// leave one more of them.
    fn merge_a_small_set(&self, plan: &mut Plan, set_bytes: u64) {
        if plan.wanted.is_empty() {
            return;
        }
        let left = self.sizes.iter().filter(|(set, _)| !plan.touched.contains(set));
        let smallest = left.min_by_key(|(_, bytes)| *bytes);
        if let Some((set, _)) = smallest.filter(|(_, bytes)| *bytes < set_bytes / 2) {
            plan.touched.insert(*set);
        }
    }

    /// Takes over what is as recorded from the sets that are made anew. A set in which something is damaged is kept
    /// instead: its parity is all that can mend it.
    fn take_over(&self, plan: &mut Plan, report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        let renewed: BTreeSet<Box<[u8]>> = plan
            .wanted
            .iter()
            .filter(|piece| piece.length == piece.size)
            .map(|piece| piece.path.clone())
            .collect();
        let mut hasher = Hasher::new()?;
        let scanned_sets = plan.touched.clone();
        let mut damaged = Files::default();
        for number in &scanned_sets {
            let number = *number;
            let mut set = self.parity_folder.set(number)?;
            let scanned = scan(self.tree, &set.head, &mut hasher, &mut |_, _, _| Ok(()))?;
            let mut left: Vec<Piece> = Vec::new();
            let mut bad = Vec::new();
            for (piece, state) in std::mem::take(&mut set.head.pieces).into_iter().zip(scanned.pieces) {
                let is_superseded = plan.superseded.contains(&(number, piece.path.clone()));
                if renewed.contains(&piece.path) || is_superseded {
                    continue;
                }
                match state.verdict(true) {
                    None | Some(FileVerdict::Touched) => left.push(piece),
                    Some(FileVerdict::Missing { .. } | FileVerdict::Changed) => {}
                    Some(FileVerdict::Damaged { .. }) if self.options.accept_damage => left.push(piece),
                    Some(verdict) => bad.push((piece, verdict)),
                }
            }
            if bad.is_empty() {
                plan.wanted.append(&mut left);
                continue;
            }
            plan.touched.remove(&number);
            let can_be_repaired = scanned.lost.len() <= set.good_parity(&mut hasher, &|_| ())?;
            for (piece, verdict) in bad {
                let verdict = match verdict {
                    FileVerdict::Damaged { bytes: 1.., .. } if !can_be_repaired => verdict.beyond_repair(),
                    verdict => verdict,
                };
                if let Some(verdict) = damaged.add(&piece, verdict) {
                    report(Finding::of(&piece.path, verdict));
                }
            }
        }
        self.tell_long(damaged, &scanned_sets, report)
    }

    /// Tells of damaged files that lie in several sets what all of these say, those too that nothing else is read of.
    fn tell_long(
        &self,
        damaged: Files,
        scanned: &BTreeSet<u64>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<(), ParityError> {
        let damaged: BTreeMap<_, _> = damaged.rest().collect();
        let sets: &[u64] = if damaged.is_empty() { &[] } else { &self.index.sets };
        let mut long = coverage(self.parity_folder, sets, &|path| damaged.contains_key(path))?;
        for (path, mut verdict) in damaged {
            if let Some(file) = long.remove(&path) {
                for number in file.sets.iter().filter(|set| !scanned.contains(set)) {
                    let state = look(self.tree, &self.parity_folder.set(*number)?)?;
                    let can_be_repaired = state.can_be_repaired();
                    let those = state.pieces.into_iter().filter(|(piece, _)| piece.path == path);
                    let verdicts = those.filter_map(|(_, state)| state.verdict(can_be_repaired));
                    verdict = verdicts.fold(verdict, merge);
                }
                if file.is_partly_lost(self.tree, &path) {
                    verdict = verdict.beyond_repair();
                }
            }
            report(Finding::of(&path, verdict));
        }
        Ok(())
    }
}

impl Plan {
    /// Decides what is to be done about a file that is there, given the pieces of it that have parity.
    fn add(&mut self, file: Piece, known: Vec<Known>) {
        self.made.files += 1;
        self.made.data += file.size;
        if known.is_empty() {
            self.made.new += 1;
            self.wanted.push(file);
            return;
        }
        let newest = known.iter().map(|one| one.record).max();
        let counts = |one: &Known| newest.is_none_or(|newest| one.record.counts(&newest));
        let (known, old): (Vec<Known>, Vec<Known>) = known.into_iter().partition(counts);
        for one in old {
            self.touched.insert(one.set);
            self.superseded.insert((one.set, one.path));
        }
        if known.iter().any(|one| (one.size, one.modified) != (file.size, file.modified)) {
            self.made.changed += 1;
            self.touched.extend(known.iter().map(|one| one.set));
            self.wanted.push(file);
            return;
        }
        // Ranges that no piece has, for a set was lost, get parity again; what two have is kept once.
        let mut covered = 0;
        for one in known {
            if one.offset < covered {
                self.touched.insert(one.set);
                self.superseded.insert((one.set, one.path));
                continue;
            }
            if one.offset > covered {
                self.wanted.push(Piece { offset: covered, length: one.offset - covered, ..file.clone() });
            }
            covered = one.offset + one.length;
        }
        if covered < file.size {
            self.wanted.push(Piece { offset: covered, length: file.size - covered, ..file });
        }
    }
}
