//! Repairs files that the catalogue calls bad or missing.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use verisum_catalog::scrub::require_tree;
use verisum_catalog::store::{Catalog, CatalogRecord, Moment, Position, RecordChange, Repair, Root, State};
use verisum_digest::Digest;
use verisum_files::place::Place;

use super::damaged::{ANY_LENGTH, Damaged};
use super::in_place::{Finished, ForetoldRepair, finish_in_place, give_up_replaced, journal_of};
use super::keep::require_room;
use super::mend::{DistantTree, Done, MendedTree, Tree};
use super::record::suspect_copies;
use super::{
    PathFault, RepairError, RepairFailure, RepairOptions, RepairOutcome, RepairRefusal, RepairSummary,
    Repaired, Source, Taken,
};

/// How many files are repaired together: a source is asked once for all of them.
const PAGE: usize = 1024;

/// How many copies of one content are looked at.
pub(super) const COPIES: usize = 8;

/// A file that waits for its repair.
struct WaitingRepair {
    position: Position,
    record: CatalogRecord,
    damaged: Damaged,
}

/// Where contents are, by algorithm and digest.
type Copies = HashMap<(i64, Vec<u8>), Vec<PathBuf>>;

/// Gives the files that a path names, or that are below it, their recorded content again, where the catalogue says
/// that they are bad or missing: from the files at the same paths in the sources, and from those that the catalogue
/// knows to have the same content there. Each repair is recorded. Whoever calls holds the catalogue's lock.
///
/// # Errors
/// The path is in no tree of this machine that the catalogue has, or is not what was recorded; the catalogue cannot
/// be read or written.
pub fn repair(
    catalog: &Catalog,
    path: &Path,
    sources: &mut [Source],
    options: &RepairOptions,
    report: &mut dyn FnMut(&Repaired),
) -> Result<RepairSummary, RepairError> {
    let root = root_of(catalog, path, false)?;
    require_tree(catalog, &root, path)?;
    if let Some(keep) = &options.keep_bad {
        require_room(keep, &root.path)?;
    }
    let unfinished = if options.dry { None } else { finish_in_place(catalog, &options.stop)? };
    // Where storage fails, the journal never can be written: unless this is to be in place too, a new file takes the
    // place of its file.
    let (waits, is_replaced) = match unfinished {
        Some(Finished::Waits { is_in_use: false, .. }) if !options.in_place => (None, true),
        Some(Finished::Waits { path, why, .. }) => (Some((path, why)), false),
        _ => (None, false),
    };
    let mut tree = Tree::open(&root.path, options).map_err(verisum_catalog::scrub::ScrubError::from)?;
    if options.in_place {
        tree = tree.in_place(journal_of(catalog.path()));
    }
    let mut work = Work::new(catalog, (&root, path), options, waits)?;
    work.foretold = if options.dry { ForetoldRepair::of(catalog)? } else { None };
    let all = work.all(&mut tree, sources, report);
    if is_replaced {
        // If that fails, the next run does it.
        let _ = give_up_replaced(catalog);
    }
    match all? {
        None if path.symlink_metadata().is_err() => Err(wrong(path, PathFault::Nothing)),
        summary => Ok(summary.unwrap_or_default()),
    }
}

/// The same of a tree in another place, such as a host or a bucket: the place, and the path of the tree there. Only
/// whole copies repair its files. A host keeps their owners and permissions. What a bad file is now is kept here.
///
/// # Errors
/// The address is in no tree of another place that the catalogue has, or nothing of it is there; the place cannot be
/// reached; the catalogue cannot be read or written.
pub fn repair_there(
    catalog: &Catalog,
    address: &Path,
    (place, top): (&mut dyn Place, &[u8]),
    sources: &mut [Source],
    options: &RepairOptions,
    report: &mut dyn FnMut(&Repaired),
) -> Result<RepairSummary, RepairError> {
    let root = root_of(catalog, address, true)?;
    if let Some(keep) = &options.keep_bad {
        require_room(keep, &root.path)?;
    }
    let mut tree = DistantTree::new(place, top, options);
    let work = Work::new(catalog, (&root, address), options, None)?;
    if let Some(summary) = work.all(&mut tree, sources, report)? {
        return Ok(summary);
    }
    let below = address.strip_prefix(&root.path).unwrap_or(Path::new(""));
    match tree.has_any(below) {
        Ok(true) => Ok(RepairSummary::default()),
        Ok(false) => Err(wrong(address, PathFault::Nothing)),
        Err(error) => Err(RepairError::Place { address: address.to_path_buf(), source: error }),
    }
}

fn wrong(path: &Path, why: PathFault) -> RepairError {
    RepairError::Path { path: path.to_path_buf(), why }
}

/// The tree that has a path.
fn root_of(catalog: &Catalog, path: &Path, is_remote: bool) -> Result<Root, RepairError> {
    match catalog.root_of(path)? {
        Some(root) if root.is_remote() == is_remote => Ok(root),
        Some(root) if root.is_remote() => Err(wrong(path, PathFault::OtherMachine)),
        _ => Err(wrong(path, PathFault::InNoTree)),
    }
}

/// Where the catalogue has the content of what is in trouble.
fn copies(catalog: &Catalog) -> Result<Copies, RepairError> {
    let mut copies = Copies::new();
    catalog.each_copy_of_troubled(&mut |file| {
        let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
        let known = copies.entry(content).or_default();
        if known.len() < COPIES {
            known.push(file.path);
        }
        Ok::<_, RepairError>(())
    })?;
    Ok(copies)
}

struct Work<'a> {
    catalog: &'a Catalog,
    root: &'a Root,
    path: &'a Path,
    options: &'a RepairOptions,
    /// The time of the start, which repairs are recorded with.
    started: Moment,
    algorithms: HashMap<i64, String>,
    copies: Copies,
    /// The file whose repair in place cannot be finished now, and why.
    waits: Option<(PathBuf, RepairFailure)>,
    /// The repair in place that a dry run says will be finished.
    foretold: Option<ForetoldRepair>,
}

impl<'a> Work<'a> {
    fn new(
        catalog: &'a Catalog,
        (root, path): (&'a Root, &'a Path),
        options: &'a RepairOptions,
        waits: Option<(PathBuf, RepairFailure)>,
    ) -> Result<Work<'a>, RepairError> {
        let (algorithms, copies) = (catalog.algorithms()?, copies(catalog)?);
        let started = Moment::now();
        Ok(Work { catalog, root, path, options, started, algorithms, copies, waits, foretold: None })
    }

    /// Repairs all files of the path that are in trouble; none if there are none.
    fn all(
        &self,
        tree: &mut dyn MendedTree,
        sources: &mut [Source],
        report: &mut dyn FnMut(&Repaired),
    ) -> Result<Option<RepairSummary>, RepairError> {
        let Work { catalog, root, path, options, .. } = *self;
        let mut summary = RepairSummary::default();
        let mut is_known = false;
        let mut after = Position::START;
        loop {
            if options.stop.is_due() {
                summary.interrupted = true;
                break;
            }
            let page = catalog.in_trouble(root.id, &after, true, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = last.clone();
            let mut waiting = Vec::new();
            for (position, record) in page {
                let folder = root.path.join(catalog.path_in_root(position.directory)?);
                let file = folder.join(OsStr::from_bytes(&position.name));
                if !file.starts_with(path) {
                    continue;
                }
                is_known = true;
                if record.state == State::MISSING && options.except_missing {
                    continue;
                }
                match self.damaged(&position, &record, file)? {
                    Ok(damaged) => waiting.push(WaitingRepair { position, record, damaged }),
                    Err(refused) => self.tell(refused, &mut summary, report),
                }
            }
            waiting.extend(self.other_names(&waiting)?);
            self.mend(waiting, tree, sources, &mut summary, report)?;
        }
        Ok((is_known || summary.interrupted).then_some(summary))
    }

    /// Other names of these files that are bad by the catalogue and not below the path: to repair one name alone would
    /// make two files of them, one of them bad.
    fn other_names(&self, waiting: &[WaitingRepair]) -> Result<Vec<WaitingRepair>, RepairError> {
        let Work { catalog, root, path, .. } = *self;
        let inode = |path: &Path| {
            let about = std::fs::symlink_metadata(path).ok().filter(|about| about.nlink() > 1)?;
            Some((about.dev(), about.ino()))
        };
        let mut names = Vec::new();
        let files = waiting.iter().filter(|_| path != root.path && !root.is_remote());
        let inodes: HashSet<_> = files.filter_map(|file| inode(&file.damaged.path)).collect();
        let mut after = Position::START;
        while !inodes.is_empty() {
            let page = catalog.in_trouble(root.id, &after, true, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = last.clone();
            for (position, record) in page {
                if !inodes.iter().any(|(_, inode)| *inode == record.inode) {
                    continue;
                }
                let folder = root.path.join(catalog.path_in_root(position.directory)?);
                let file = folder.join(OsStr::from_bytes(&position.name));
                if !file.starts_with(path)
                    && inode(&file).is_some_and(|inode| inodes.contains(&inode))
                    && let Ok(damaged) = self.damaged(&position, &record, file)?
                {
                    names.push(WaitingRepair { position, record, damaged });
                }
            }
        }
        Ok(names)
    }

    /// What is to be repaired, or why it must not be.
    fn damaged(
        &self,
        position: &Position,
        record: &CatalogRecord,
        path: PathBuf,
    ) -> Result<Result<Damaged, Repaired>, RepairError> {
        let algorithm = self.algorithms.get(&record.algorithm).cloned().unwrap_or_default();
        let digest = Digest::find(&algorithm);
        if let Some((_, why)) = self.waits.as_ref().filter(|(waits, _)| *waits == path) {
            let outcome = RepairOutcome::Failed(why.clone());
            return Ok(Err(self.repaired(path, record, algorithm, outcome)));
        }
        if let Some(foretold) = self.foretold.as_ref().filter(|foretold| foretold.mends(record)) {
            let (from, bytes) = (foretold.from.clone(), foretold.bytes);
            let outcome =
                RepairOutcome::Mendable { from, bytes, needs_keep_bad: false, also_from: Vec::new() };
            return Ok(Err(self.repaired(path, record, algorithm, outcome)));
        }
        let refused = match (record.state, &digest) {
            (State::DAMAGED, _) => Some(RepairRefusal::DamagedRecord),
            (state, _) if !state.may_be_meant() && !state.is_repairable() => {
                let finding = self.catalog.finding(position.directory, OsStr::from_bytes(&position.name))?;
                Some(RepairRefusal::NotCompared { detail: finding.and_then(|finding| finding.detail) })
            }
            (_, Err(error)) => Some(RepairRefusal::NoDigest { why: error.clone().into() }),
            _ => None,
        };
        if let Some(why) = refused {
            let outcome = RepairOutcome::Refused(why);
            return Ok(Err(self.repaired(path, record, algorithm, outcome)));
        }
        let Ok(digest) = digest else {
            return Err(RepairError::Path { path, why: PathFault::UnknownDigest });
        };
        let mut found = Vec::new();
        if record.state != State::MISSING {
            found.push((record.size, record.mtime));
            let finding = self.catalog.finding(position.directory, OsStr::from_bytes(&position.name))?;
            found.extend(finding.and_then(|finding| finding.read).map(|read| (read.size, read.mtime)));
        }
        let content = (record.algorithm, record.digest.as_bytes().to_vec());
        Ok(Ok(Damaged {
            below: path.strip_prefix(self.path).unwrap_or(Path::new("")).to_path_buf(),
            kept: path.strip_prefix(&self.root.path).unwrap_or(&path).to_path_buf(),
            path,
            digest,
            recorded: record.digest,
            // What was bad when it was first seen may have had another length before.
            size: record.known_size().filter(|_| record.verified > Moment::NEVER).unwrap_or(ANY_LENGTH),
            modified: record.known_mtime(),
            found,
            // 0 is not known.
            inode: (record.state == State::MISSING && record.inode != 0).then_some(record.inode),
            may_be_meant: record.state.may_be_meant(),
            copies: self.copies.get(&content).cloned().unwrap_or_default(),
        }))
    }

    fn repaired(
        &self,
        path: PathBuf,
        record: &CatalogRecord,
        algorithm: String,
        outcome: RepairOutcome,
    ) -> Repaired {
        Repaired {
            path,
            state: record.state,
            size: Some(record.size),
            algorithm,
            recorded: record.digest,
            outcome,
            before: None,
            ranges: None,
            taken: Vec::new(),
            kept_unread: 0,
            bad_copies: Vec::new(),
        }
    }

    fn tell(&self, file: Repaired, summary: &mut RepairSummary, report: &mut dyn FnMut(&Repaired)) {
        summary.count(&file);
        report(&file);
    }

    /// Repairs some files, and records each.
    fn mend(
        &self,
        mut waiting: Vec<WaitingRepair>,
        tree: &mut dyn MendedTree,
        sources: &mut [Source],
        summary: &mut RepairSummary,
        report: &mut dyn FnMut(&Repaired),
    ) -> Result<(), RepairError> {
        // Files that share a set of parity follow each other.
        waiting.sort_by(|one, other| one.damaged.path.cmp(&other.damaged.path));
        let (records, damaged): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|one| ((one.position, one.record), one.damaged)).unzip();
        for source in sources.iter_mut() {
            source.look_for(&damaged)?;
        }
        let mut written = Ok(());
        tree.mend(&damaged, sources, &mut |at, done| {
            let ((position, record), damaged) = (&records[at], &damaged[at]);
            if written.is_ok() {
                written = self.record((position, &damaged.path), record, &done);
            }
            if written.is_ok() && !self.options.dry {
                let copies = done.copies_with_other_content();
                written = suspect_copies(self.catalog, &copies, record, self.started);
            }
            let algorithm = damaged.digest.name().to_string();
            let file = self.repaired(damaged.path.clone(), record, algorithm, done.outcome);
            let Done { now, before, ranges, taken, kept_unread, bad_copies, .. } = done;
            let size = now.map(|now| now.size).or(file.size);
            let file = Repaired { size, before, ranges, taken, kept_unread, bad_copies, ..file };
            self.tell(file, summary, report);
        });
        written
    }

    /// Records that a file is good again.
    fn record(
        &self,
        (position, path): (&Position, &Path),
        old: &CatalogRecord,
        done: &Done,
    ) -> Result<(), RepairError> {
        let (RepairOutcome::Repaired { from, bytes, .. }, Some(now)) = (&done.outcome, &done.now) else {
            return Ok(());
        };
        let new = CatalogRecord {
            size: now.size,
            mtime: now.mtime,
            ctime: now.ctime,
            inode: now.inode,
            verified: self.started,
            state: State::Sound,
            ..*old
        };
        let repair = Repair {
            repaired: self.started,
            state: old.state,
            source: from.clone(),
            bytes: *bytes,
            algorithm: old.algorithm,
            before: done.before,
            digest: old.digest,
            ranges: done.ranges.clone(),
        };
        let several = done.taken.iter().map(|taken| {
            let Taken { from, bytes, ranges } = taken.clone();
            Repair { source: from, bytes, ranges, ..repair.clone() }
        });
        let mut repairs: Vec<Repair> = several.collect();
        if repairs.is_empty() {
            repairs.push(repair);
        }
        let (root, name) = (self.root.id, OsStr::from_bytes(&position.name));
        self.catalog.begin()?;
        let written =
            self.catalog.apply(root, position.directory, name, &RecordChange::Confirm(new)).and_then(|()| {
                self.catalog.absolve(root, &new)?;
                self.catalog.note_generation_at(self.root, path, &new)?;
                let key = (position.directory, position.name.clone());
                repairs.iter().try_for_each(|repair| self.catalog.add_repair(root, &key, repair))
            });
        match written {
            Ok(()) => Ok(self.catalog.commit()?),
            Err(error) => {
                self.catalog.roll_back();
                Err(error.into())
            }
        }
    }
}
