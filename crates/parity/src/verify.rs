//! Reads files and parity, and names what is not as recorded.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use verisum_files::{Limits, Progress, Stop};

use crate::ParityError;
use crate::coverage::coverage;
use crate::digest::Hasher;
use crate::draft::require_folder;
use crate::folder::{ParityFolder, ParityLocation, SetFile};
use crate::head::Piece;
use crate::newest::Newest;
use crate::options::threads;
use crate::parallel;
use crate::scan::{PieceState, merge, scan};
use crate::tree::Tree;
use crate::verdict::{FileVerdict, Finding, lost_set};

/// How a tree is verified.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParityVerifyOptions {
    /// Threads; at least one.
    pub threads: usize,
    /// How far it is: files and bytes that were read.
    pub progress: Arc<Progress>,
    /// When to end early, with [`ParityError::Stopped`].
    pub stop: Arc<Stop>,
}

impl Default for ParityVerifyOptions {
    /// A thread for each core.
    fn default() -> ParityVerifyOptions {
        ParityVerifyOptions { threads: threads(), progress: Arc::default(), stop: Arc::default() }
    }
}

/// What was found, in files unless another unit is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Files that have parity.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Damaged ones.
    pub damaged: u64,
    /// Those that are not there.
    pub missing: u64,
    /// Of the damaged and the missing ones, those that cannot be repaired.
    pub beyond_repair: u64,
    /// Those that were written to since.
    pub changed: u64,
    /// Those whose time moved though their bytes are as recorded.
    pub touched: u64,
    /// Those that could not be read, or changed while they were.
    pub unreadable: u64,
    /// Files of the parity itself that are damaged.
    pub parity_damaged: u64,
    /// Of these, those that only an update can make anew.
    pub parity_lost: u64,
    /// Sets.
    pub sets: u64,
    /// The sets in which something is damaged or missing: a repair need read no others.
    pub bad_sets: Vec<u64>,
}

/// What was found of one set.
pub(crate) struct SetState {
    pub(crate) number: u64,
    /// Files in it that begin in it, and the bytes of all its pieces.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// The pieces that are not as recorded.
    pub(crate) pieces: Vec<(Piece, PieceState)>,
    /// How many blocks are lost.
    pub(crate) lost: usize,
    /// How many parity blocks are as recorded, and how many there should be.
    pub(crate) parity: (usize, usize),
    /// What is wrong with the set's own file.
    pub(crate) finding: Option<Finding>,
}

impl SetState {
    /// Whether there is parity enough.
    pub(crate) fn can_be_repaired(&self) -> bool {
        self.lost <= self.parity.0
    }
}

/// Reads all of a set: its data, and its parity blocks.
pub(crate) fn look(tree: &Tree, set: &SetFile) -> Result<SetState, ParityError> {
    let mut hasher = Hasher::new()?;
    let head = &set.head;
    let scanned = scan(tree, head, &mut hasher, &mut |_, _, _| Ok(()))?;
    let good = set.good_parity(&mut hasher, &|_| ())?;
    let files = head.pieces.iter().filter(|piece| piece.offset == 0).count() as u64;
    let pieces = head.pieces.iter().zip(scanned.pieces);
    Ok(SetState {
        number: head.number,
        files,
        bytes: head.length(),
        pieces: pieces
            .filter(|(_, state)| state.is_notable())
            .map(|(piece, state)| (piece.clone(), state))
            .collect(),
        lost: scanned.lost.len(),
        parity: (good, head.parity_blocks),
        finding: set.finding(good),
    })
}

/// Looks at sets, several at a time; what one says of a file and a newer one says anew is left out. Those that cannot be opened are told to `report`; their number is returned.
pub(crate) fn look_at_all(
    (tree, parity_folder): (&Tree, &ParityFolder),
    sets: &[u64],
    threads: usize,
    report: &mut dyn FnMut(Finding),
    mut take: impl FnMut(SetState, &mut dyn FnMut(Finding)) -> Result<(), ParityError>,
) -> Result<u64, ParityError> {
    let newest = Newest::of(parity_folder, sets)?;
    let mut next = sets.iter();
    let mut lost = 0;
    parallel::each(
        threads,
        || next.next().copied(),
        |number| match parity_folder.set(number) {
            Ok(set) => {
                let mut state = look(tree, &set)?;
                state.pieces.retain(|(piece, _)| newest.counts(number, piece));
                Ok(Ok(state))
            }
            Err(error) => Ok(Err(lost_set(error)?)),
        },
        |found: Result<SetState, Finding>| match found {
            Ok(state) => take(state, report),
            Err(finding) => {
                lost += 1;
                report(finding);
                Ok(())
            }
        },
    )?;
    Ok(lost)
}

/// The verdict on a file that parity could give, unless it can have no place: then why not.
pub(crate) fn within_reach(tree: &Tree, path: &[u8], verdict: FileVerdict) -> FileVerdict {
    match verdict {
        FileVerdict::Missing { can_be_repaired: true } => {
            require_folder(tree, path).map_or_else(FileVerdict::NotRepaired, |()| verdict)
        }
        verdict => verdict,
    }
}

/// What pieces say of files, until all that is known of a file was said.
#[derive(Default)]
pub(crate) struct Files {
    /// Of files that have pieces in several sets.
    open: BTreeMap<Box<[u8]>, FileVerdict>,
}

impl Files {
    /// Takes what a piece says; returns the verdict if it is the file's only piece.
    pub(crate) fn add(&mut self, piece: &Piece, verdict: FileVerdict) -> Option<FileVerdict> {
        if piece.length == piece.size {
            return Some(verdict);
        }
        let merged = match self.open.remove(&piece.path) {
            Some(before) => merge(before, verdict),
            None => verdict,
        };
        self.open.insert(piece.path.clone(), merged);
        None
    }

    /// The verdicts on the other files.
    pub(crate) fn rest(self) -> impl Iterator<Item = (Box<[u8]>, FileVerdict)> {
        self.open.into_iter()
    }
}

/// Reads all files that have parity, and the parity, and tells `report` what is not as it was. Files that are new
/// are not looked for.
pub fn verify<'p>(
    tree: &Path,
    parity: impl Into<ParityLocation<'p>>,
    options: &ParityVerifyOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Verified, ParityError> {
    let tree = Tree::open(tree, &options.progress, &options.stop)?;
    let parity_folder = ParityFolder::open(tree.path(), parity.into(), false)?;
    let index = parity_folder.index()?;
    let mut totals = Verified::default();
    if let Some(finding) = parity_folder.index_finding(&index) {
        totals.parity_damaged += 1;
        totals.parity_lost += u64::from(index.is_lost);
        report(finding);
    }
    totals.sets = index.sets.len() as u64;
    let mut files = Files::default();
    let lost = look_at_all((&tree, &parity_folder), &index.sets, options.threads, report, |set, report| {
        let can_be_repaired = set.can_be_repaired();
        totals.files += set.files;
        totals.bytes += set.bytes;
        let mut is_bad = false;
        for (piece, state) in set.pieces {
            let verdict = state.verdict(can_be_repaired);
            let is_lost = |verdict: &FileVerdict| {
                matches!(verdict, FileVerdict::Damaged { .. } | FileVerdict::Missing { .. })
            };
            is_bad |= verdict.as_ref().is_some_and(is_lost);
            let verdict = verdict.map(|verdict| within_reach(&tree, &piece.path, verdict));
            let verdict = verdict.and_then(|verdict| files.add(&piece, verdict));
            if let Some(verdict) = verdict {
                totals.count(&verdict);
                report(Finding::of(&piece.path, verdict));
            }
        }
        is_bad |= set.finding.is_some();
        if let Some(finding) = set.finding {
            totals.parity_damaged += 1;
            report(finding);
        }
        if is_bad {
            totals.bad_sets.push(set.number);
        }
        Ok(())
    })?;
    totals.bad_sets.sort_unstable();
    totals.parity_damaged += lost;
    totals.parity_lost += lost;
    let rest: BTreeMap<_, _> = files.rest().collect();
    let sets: &[u64] = if lost > 0 { &index.sets } else { &[] };
    let long = coverage(&parity_folder, sets, &|path| rest.contains_key(path))?;
    for (path, verdict) in rest {
        let verdict = match long.get(&path).is_some_and(|file| file.is_partly_lost(&tree, &path)) {
            true => verdict.beyond_repair(),
            false => verdict,
        };
        totals.count(&verdict);
        report(Finding::of(&path, verdict));
    }
    Ok(totals)
}

/// Reads parity alone, and no file of the tree, and tells `report` what is damaged. `rounds` says which part of its sets:
/// from 0 to 1 are all of them once, from 2.25 to 2.5 are those of the second quarter. It reads no faster than `limits`.
///
/// # Errors
/// There is no parity, another process writes to it, or it cannot be read.
pub fn verify_parity<'p>(
    tree: &Path,
    parity: impl Into<ParityLocation<'p>>,
    rounds: Range<f64>,
    (limits, stop): (Option<&Limits>, &Stop),
    report: &mut dyn FnMut(Finding),
) -> Result<(), ParityError> {
    let parity_folder = ParityFolder::open(tree, parity.into(), false)?;
    let index = parity_folder.index()?;
    parity_folder.index_finding(&index).into_iter().for_each(&mut *report);
    let mut hasher = Hasher::new()?;
    let place = |round: f64| (round * index.sets.len() as f64) as usize;
    for at in (place(rounds.start)..place(rounds.end)).take(index.sets.len()) {
        let wait = |bytes: u64| {
            if let Some(limits) = limits {
                limits.wait(bytes, 1, stop);
            }
        };
        let set = parity_folder.set(index.sets[at % index.sets.len()]);
        let finding = match set {
            Ok(set) => set.finding(set.good_parity(&mut hasher, &wait)?),
            Err(error) => Some(lost_set(error)?),
        };
        finding.into_iter().for_each(&mut *report);
        if stop.is_due() {
            return Err(ParityError::Stopped);
        }
    }
    Ok(())
}

impl Verified {
    fn count(&mut self, verdict: &FileVerdict) {
        match verdict {
            FileVerdict::Damaged { can_be_repaired, .. } => {
                self.damaged += 1;
                self.beyond_repair += u64::from(!can_be_repaired);
            }
            FileVerdict::Missing { can_be_repaired } => {
                self.missing += 1;
                self.beyond_repair += u64::from(!can_be_repaired);
            }
            // What has the name of its directory is in the way.
            FileVerdict::NotRepaired(_) => {
                self.missing += 1;
                self.beyond_repair += 1;
            }
            FileVerdict::Changed => self.changed += 1,
            FileVerdict::Touched => self.touched += 1,
            _ => self.unreadable += 1,
        }
    }
}
