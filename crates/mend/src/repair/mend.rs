//! Repairs the files of one tree, with records from any source.

mod block_by_block;
mod distant;
mod leftovers;
mod long_file;
mod new_file;
mod waiting;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::AsFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use verisum_catalog::store::Stamp;
use verisum_digest::{Digest, Output};
use verisum_files::place::BlockDigests;
use verisum_files::{AsRead, Directory, Entry, FileError, KeptFile, Kind, Stat};
use verisum_files::{has_writer, reread, says_storage_failed};

use super::blocks::{Combination, CombineError, Giver, Givers};
use super::damaged::{ANY_LENGTH, Damaged};
use super::foretold::Foretold;
use super::helper::Helper;
use super::keep::dress_as;
use super::record::Taken;
use super::source::{Candidate, Source};
use super::{CopyFault, RepairFailure, RepairOptions, RepairOutcome, RepairRefusal};

use long_file::not_in_place;
use new_file::{Filled, bytes_of, givers_of};
use waiting::{NotMended, WaitingFiles, interrupted};

pub(super) use distant::DistantTree;

/// From this length on only bad blocks are asked of a copy that is not here.
const LONG: u64 = 1 << 20;

/// What was done with a damaged file.
pub(super) struct Done {
    pub(super) outcome: RepairOutcome,
    /// What the repaired file is.
    pub(super) now: Option<FileAfter>,
    /// The digest that it had before, if it could be read.
    pub(super) before: Option<Output>,
    /// Which of its bytes are others now, if it was repaired.
    pub(super) ranges: Option<Vec<Range<u64>>>,
    /// What it took from several copies, if it did.
    pub(super) taken: Vec<Taken>,
    /// How many bytes of the kept copy are zeros because storage did not give them.
    pub(super) kept_unread: u64,
    /// The copies that have other content, if it is or can be repaired.
    pub(super) bad_copies: Vec<PathBuf>,
}

impl Done {
    /// The copies that were found to have other content.
    pub(super) fn copies_with_other_content(&self) -> Vec<PathBuf> {
        let mut copies = self.bad_copies.clone();
        if let RepairOutcome::NoSource { tried } = &self.outcome {
            let others = tried.iter().filter(|(_, why)| why.is_other_content());
            copies.extend(others.map(|(path, _)| path.clone()));
        }
        copies
    }
}

impl From<RepairOutcome> for Done {
    fn from(outcome: RepairOutcome) -> Done {
        let (taken, bad_copies) = (Vec::new(), Vec::new());
        Done { outcome, now: None, before: None, ranges: None, taken, kept_unread: 0, bad_copies }
    }
}

/// What is known of a repaired file, as records have it.
#[derive(Clone, Copy)]
pub(super) struct FileAfter {
    pub(super) size: u64,
    pub(super) mtime: Stamp,
    /// [`Stamp::UNKNOWN`] of files in other places.
    pub(super) ctime: Stamp,
    /// 0 of those.
    pub(super) inode: u64,
}

impl From<Stat> for FileAfter {
    fn from(stat: Stat) -> FileAfter {
        FileAfter {
            size: stat.size,
            mtime: stat.modified.into(),
            ctime: stat.changed.into(),
            inode: stat.inode,
        }
    }
}

/// A tree whose files are repaired.
pub(super) trait MendedTree {
    /// Repairs files, and tells what became of each, by its number, as soon as that is known: a kill later must not
    /// lose it.
    fn mend(&mut self, damaged: &[Damaged], sources: &mut [Source], tell: &mut dyn FnMut(usize, Done));
}

/// A bad file, or none, as it was found to be just now.
struct BadFile {
    stat: Option<Stat>,
    /// The inode that it is, or was a name of.
    inode: Option<Inode>,
    before: Option<Output>,
    /// Whether somebody may have written it.
    may_be_meant: bool,
}

/// A device and an inode on it.
type Inode = (u64, u64);

fn inode(stat: &Stat) -> Inode {
    (stat.device, stat.inode)
}

/// A tree of this machine that is repaired.
pub(super) struct Tree<'a> {
    top: Arc<Directory>,
    path: PathBuf,
    /// The one device that files are looked for on; none for any.
    device: Option<u64>,
    options: &'a RepairOptions,
    /// Where the journal is while a file is written in place; none if that is not wanted.
    journal: Option<PathBuf>,
    /// What became of bad inodes with several names: the repaired file, its inode and content.
    linked: HashMap<Inode, (PathBuf, Inode, Output)>,
    /// What helps parity to repair the files that wait.
    helper: Helper,
    /// How many of the files that are repaired together are names of an inode.
    names: HashMap<Inode, u64>,
}

impl MendedTree for Tree<'_> {
    fn mend(&mut self, damaged: &[Damaged], sources: &mut [Source], tell: &mut dyn FnMut(usize, Done)) {
        for source in sources.iter_mut() {
            source.place.end_by(&self.options.stop);
        }
        self.helper = Helper::knowing(std::mem::take(&mut self.helper.foretold));
        let mut good = Vec::new();
        let tell = &mut |at: usize, done: Done| {
            if let RepairOutcome::Repaired { .. } | RepairOutcome::Sound = done.outcome {
                good.push(&damaged[at]);
            }
            tell(at, done);
        };
        let mut waiting = self.examined(damaged, tell);
        for which in 0..sources.len() {
            if !sources[which].is_parity {
                self.take_blocks(which, sources, &mut waiting);
                self.take_copies(&mut sources[which], &mut waiting);
            }
        }
        loop {
            let before = waiting.count();
            self.put_all_together(sources, &mut waiting);
            // Parity is asked for whole files last. What is on the disk helps it then, which a dry run does not have; both
            // runs have put together what that makes possible.
            for source in sources.iter_mut().filter(|source| source.is_parity) {
                self.take_copies(source, &mut waiting);
            }
            if self.options.stop.is_due() || [0, before].contains(&waiting.count()) {
                break;
            }
        }
        for at in 0..damaged.len() {
            self.end_waiting(at, sources, &mut waiting);
        }
        drop(waiting);
        if !self.options.dry {
            self.remove_left(good);
        }
    }
}

impl<'a> Tree<'a> {
    /// Opens a tree by the path of its top.
    pub(super) fn open(path: &Path, options: &'a RepairOptions) -> Result<Tree<'a>, FileError> {
        let top = Directory::trusted(path)?;
        let device = Entry::within(&top, OsStr::new("."))?.1.device;
        let device = (!options.cross_file_systems).then_some(device);
        let (linked, names, helper) = (HashMap::new(), HashMap::new(), Helper::default());
        let journal = None;
        Ok(Tree { top, path: path.to_path_buf(), device, options, journal, linked, helper, names })
    }

    /// Has long files written in place, with a journal of this path.
    pub(super) fn in_place(mut self, journal: PathBuf) -> Tree<'a> {
        self.journal = Some(journal);
        self
    }

    /// Looks at all files. Those wait that still are what was found bad.
    fn examined<'w>(
        &mut self,
        damaged: &'w [Damaged],
        tell: &'w mut dyn FnMut(usize, Done),
    ) -> WaitingFiles<'w, BadFile> {
        let mut bad = Vec::new();
        for (at, file) in damaged.iter().enumerate() {
            let found = match self.options.stop.is_due() {
                true => Err(interrupted()),
                false => self.examine(file),
            };
            let found = found.map_err(|outcome| tell(at, outcome.into())).ok();
            if let Some(inode) = found.as_ref().filter(|bad| bad.stat.is_none()).and_then(|bad| bad.inode) {
                self.find_other_name(file, inode);
            }
            bad.push(found);
        }
        self.names.clear();
        for stat in bad.iter().flatten().filter_map(|bad| bad.stat.as_ref()) {
            *self.names.entry(inode(stat)).or_default() += 1;
        }
        WaitingFiles::new(damaged, bad, tell)
    }

    /// Looks for another name of a missing file's inode that is as recorded: it becomes a name of that again.
    fn find_other_name(&mut self, missing: &Damaged, of: Inode) {
        for path in missing.copies.iter().filter(|path| path.starts_with(&self.path)) {
            let found = self.folder(path).and_then(|(folder, name)| Entry::within(&folder, &name));
            let Some((entry, stat)) = found.ok().filter(|(_, stat)| inode(stat) == of) else { continue };
            let has_its_time = missing.modified == Some(Stamp::from(stat.modified));
            let Some(file) = entry.open_regular().ok().filter(|_| has_its_time) else { continue };
            let read = reread::past_the_cache_until(&file, &missing.digest, &self.options.stop);
            if read.is_ok_and(|read| read.digest == missing.recorded) {
                self.linked.entry(of).or_insert((path.clone(), of, missing.recorded));
                return;
            }
        }
    }

    /// Takes bad blocks alone from a source, for files that are written in place, and where that moves less.
    fn take_blocks(&mut self, which: usize, sources: &mut [Source], waiting: &mut WaitingFiles<BadFile>) {
        for (at, damaged) in waiting.damaged.iter().enumerate() {
            let Some(bad) = &waiting.bad[at] else { continue };
            let is_wanted = moves_less(bad, &sources[which]) || self.is_in_place(damaged, bad);
            if is_wanted && let Some(Ok(done)) = self.combined(at, waiting, sources, Some(which)) {
                waiting.end(at, done);
            }
        }
    }

    /// Takes whole files from a source, unless they are written in place.
    fn take_copies(&mut self, source: &mut Source, waiting: &mut WaitingFiles<BadFile>) {
        let damaged = waiting.damaged;
        let is_whole =
            |at: &usize| waiting.bad[*at].as_ref().is_some_and(|bad| !self.is_in_place(&damaged[*at], bad));
        let those: Vec<usize> = (0..damaged.len()).filter(is_whole).collect();
        let stop = self.options.stop.clone();
        waiting.try_copies(source, &those, &stop, &mut |(damaged, bad), source, size, candidate| {
            let done = match self.block_by_block(damaged, bad, (source, size), candidate) {
                Some(done) => done,
                None => {
                    let from = ContentOrigin::Source(Some(&mut *source), size);
                    self.replace(damaged, bad, from, candidate)?
                }
            };
            if is_mendable(&done) {
                self.helper.foretold.add(damaged, source, candidate);
            }
            Ok(done)
        });
    }

    /// Puts together all files that can be. What was repaired may be what the parity of another file lacked, or its block
    /// map.
    fn put_all_together(&mut self, sources: &mut [Source], waiting: &mut WaitingFiles<BadFile>) {
        loop {
            let before = waiting.count();
            for at in 0..waiting.damaged.len() {
                self.put_together(at, sources, waiting);
            }
            if [0, before].contains(&waiting.count()) {
                break;
            }
            self.helper.try_again();
        }
    }

    /// Repairs a file that still waits by another name of it, or by blocks of all sources together.
    fn put_together(&mut self, at: usize, sources: &mut [Source], waiting: &mut WaitingFiles<BadFile>) {
        let damaged = &waiting.damaged[at];
        let Some(bad) = waiting.bad[at].as_ref().filter(|_| !self.options.stop.is_due()) else { return };
        let done = if self.is_in_place(damaged, bad) {
            let named = self.mended_by_name(damaged, bad).map(Ok);
            match named.or_else(|| self.combined(at, waiting, sources, None)) {
                Some(Err(why)) => return waiting.note(at, damaged.path.clone(), why),
                done => done.and_then(Result::ok),
            }
        } else {
            // Another name of it may have found a source.
            let linked = bad.inode.and_then(|inode| self.linked.get(&inode)).map(|(path, ..)| path.clone());
            let linked = linked.and_then(|path| {
                let candidate = Candidate { path: Vec::new(), shown: path };
                self.replace(damaged, bad, ContentOrigin::Name, &candidate).or_else(NotMended::ended).ok()
            });
            let linked = linked.or_else(|| self.combined(at, waiting, sources, None)?.ok());
            linked.or_else(|| self.emptied(damaged, waiting.bad[at].as_ref()?))
        };
        let Some(done) = done else { return };
        if let RepairOutcome::Mendable { from, needs_keep_bad: false, .. } = &done.outcome
            && let Some(source) =
                sources.iter_mut().find(|source| source.is_parity && source.address == *from)
            && let Some(candidate) = source.at_path(&damaged.below)
        {
            self.helper.foretold.add(damaged, source, &candidate);
        }
        waiting.end(at, done);
    }

    /// Ends a file that still waits: nothing repairs it.
    fn end_waiting(&self, at: usize, sources: &mut [Source], waiting: &mut WaitingFiles<BadFile>) {
        let damaged = &waiting.damaged[at];
        let Some(bad) = &waiting.bad[at] else { return };
        let tried = std::mem::take(&mut waiting.tried[at]);
        let done = match self.is_in_place(damaged, bad) {
            // A source that was not read to its end may have the content.
            _ if self.options.stop.is_due() => interrupted().into(),
            true => {
                let foretold = &self.helper.foretold;
                let mut found = BLOCK_DIGESTS.iter().filter_map(|find| find(damaged, sources, foretold));
                not_in_place(found.any(|blocks| blocks.length() == damaged.size), tried)
            }
            false => RepairOutcome::NoSource { tried }.into(),
        };
        waiting.end(at, done);
    }

    /// Makes a file empty whose recorded content is that: no copy is needed to know it.
    fn emptied(&mut self, damaged: &Damaged, bad: &BadFile) -> Option<Done> {
        let nothing = nothing_for(damaged)?;
        let from = ContentOrigin::Source(None, Some(0));
        self.replace(damaged, bad, from, &nothing).or_else(NotMended::ended).ok()
    }

    /// Looks whether a file still is what was found bad.
    fn examine(&self, damaged: &Damaged) -> Result<BadFile, RepairOutcome> {
        let failed = |error: FileError| RepairOutcome::Failed(RepairFailure::File(error.into()));
        let gone = match self.options.except_missing {
            true => Err(RepairOutcome::Refused(RepairRefusal::Missing)),
            false => {
                let inode = self.device.zip(damaged.inode);
                Ok(BadFile { stat: None, inode, before: None, may_be_meant: false })
            }
        };
        let found = match self.folder(&damaged.path) {
            Ok((folder, name)) => Entry::within(&folder, &name),
            Err(error) => Err(error),
        };
        let (entry, stat) = match found {
            Ok(found) => found,
            Err(error) if error.errno() == Some(Errno::NOENT) => return gone,
            Err(error) => return Err(failed(error)),
        };
        if entry.kind() != Kind::File {
            return Err(RepairOutcome::Refused(RepairRefusal::OtherKind));
        }
        let file = entry.open().map_err(failed)?;
        if has_writer(&file) {
            return Err(RepairOutcome::Refused(RepairRefusal::InUse));
        }
        let before = match reread::past_the_cache_until(&file, &damaged.digest, &self.options.stop) {
            Ok(read) if read.digest == damaged.recorded => return Err(RepairOutcome::Sound),
            Ok(read) => Some(read.digest),
            Err(reread::Failed::System(errno)) if says_storage_failed(errno) => None,
            Err(reread::Failed::Stopped) => return Err(interrupted()),
            Err(error) => return Err(RepairOutcome::Failed(RepairFailure::Read(error.into()))),
        };
        let (found, now) = (&damaged.found, (stat.size, Stamp::from(stat.modified)));
        // No scrub records what a file is that storage does not give.
        let is_unread = before.is_none() && !found.is_empty();
        let has_its_time = found.iter().any(|(_, modified)| *modified == now.1);
        let may_be_meant = damaged.may_be_meant || is_unread && !has_its_time;
        let bad = BadFile { stat: Some(stat), inode: Some(inode(&stat)), before, may_be_meant };
        match self.needs_keep_bad(&bad) && !self.options.dry {
            _ if !is_unread && !found.contains(&now) => Err(RepairOutcome::Refused(RepairRefusal::Changed)),
            true if damaged.may_be_meant => Err(RepairOutcome::Refused(RepairRefusal::MayBeAccepted)),
            true => Err(RepairOutcome::Refused(RepairRefusal::MayBeMeantUnread)),
            false => Ok(bad),
        }
    }

    fn needs_keep_bad(&self, bad: &BadFile) -> bool {
        bad.may_be_meant && self.options.keep_bad.is_none()
    }

    /// The directory of a file, open, and the file's name in it.
    fn folder(&self, path: &Path) -> Result<(Arc<Directory>, OsString), FileError> {
        let below = path.strip_prefix(&self.path).unwrap_or(path);
        let folder = self.top.beneath(below.parent().unwrap_or(Path::new("")), self.device)?;
        Ok((folder, below.file_name().unwrap_or_default().to_os_string()))
    }

    /// A bad file, if it is there and can be opened.
    fn opened(&self, damaged: &Damaged) -> Option<File> {
        let (folder, name) = self.folder(&damaged.path).ok()?;
        Entry::within(&folder, &name).ok()?.0.open().ok()
    }

    /// The directory of a file, with the directories on the way made where they are missing.
    fn made_folder(&self, path: &Path) -> Result<(Arc<Directory>, OsString), FileError> {
        match self.folder(path) {
            Err(error) if error.errno() == Some(Errno::NOENT) => {}
            found => return found,
        }
        let below = path.strip_prefix(&self.path).unwrap_or(path);
        let mut reached = PathBuf::new();
        for name in below.parent().into_iter().flat_map(Path::components) {
            let folder = self.top.beneath(&reached, self.device)?;
            reached.push(name);
            match rustix::fs::mkdirat(folder.as_fd(), name.as_os_str(), Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(FileError::io(
                        &self.path.join(&reached),
                        verisum_files::Operation::Open,
                        errno,
                    ));
                }
            }
        }
        self.folder(path)
    }

    /// Puts a file together from its own good blocks and those of one source, or of all; none where nobody recorded
    /// digests of its blocks, or there is no source. Those of its map count where those of parity do not lead to it:
    /// parity may be of older content.
    ///
    /// # Errors
    /// In words, why they do not suffice.
    fn combined(
        &mut self,
        at: usize,
        waiting: &mut WaitingFiles<BadFile>,
        sources: &mut [Source],
        only: Option<usize>,
    ) -> Option<Result<Done, CopyFault>> {
        let damaged = &waiting.damaged[at];
        let of_other = RepairOutcome::Refused(RepairRefusal::OtherBlocks);
        let mut ended = None;
        for find in BLOCK_DIGESTS {
            let found = find(damaged, sources, &self.helper.foretold);
            let Some(blocks) = found.filter(|blocks| may_be_of(blocks, damaged)) else { continue };
            match self.combined_by(&blocks, (at, waiting), sources, only)? {
                Ok(done) if done.outcome != of_other => return Some(Ok(done)),
                other => ended = Some(other),
            }
        }
        ended
    }

    /// The same by these digests.
    fn combined_by(
        &mut self,
        blocks: &BlockDigests,
        (at, waiting): (usize, &mut WaitingFiles<BadFile>),
        sources: &mut [Source],
        only: Option<usize>,
    ) -> Option<Result<Done, CopyFault>> {
        let (damaged, bad) = (&waiting.damaged[at], waiting.bad[at].as_ref()?);
        let bad_copies = &mut waiting.bad_copies[at];
        let mut copies = Vec::new();
        for (number, source) in
            sources.iter().enumerate().filter(|(at, _)| only.is_none_or(|only| only == *at))
        {
            let candidates = source.candidates(damaged).into_iter();
            let candidates = candidates.filter(|candidate| candidate.shown != damaged.path);
            copies.extend(candidates.map(|candidate| Giver { source: number, candidate, failures: 0 }));
        }
        let candidate = copies.first()?.candidate.clone();
        // The new file is the tree's work, too.
        let mut helper = std::mem::take(&mut self.helper);
        // What all sources have comes from them rather than by way of parity.
        let all = only.is_none().then_some(&mut helper);
        let givers = Givers { sources, copies, helper: all, damaged: waiting.damaged, bad_copies };
        let from = ContentOrigin::Blocks(Blocks { blocks, givers });
        let done = self.replace(damaged, bad, from, &candidate);
        self.helper = helper;
        Some(done.or_else(NotMended::ended))
    }

    /// Puts the content of a copy in a file's place, or the repaired file of another name of it; by its name only
    /// that.
    fn replace(
        &mut self,
        damaged: &Damaged,
        bad: &BadFile,
        from: ContentOrigin,
        candidate: &Candidate,
    ) -> Result<Done, NotMended> {
        if self.options.dry {
            let done = self.could_be(damaged, bad, from, candidate)?;
            // Another name of a file that is left alone is not mended by it either.
            if let Some(stat) = bad.stat.filter(|_| is_mendable(&done)) {
                let name = (damaged.path.clone(), inode(&stat), damaged.recorded);
                self.linked.entry(inode(&stat)).or_insert(name);
            }
            return Ok(done);
        }
        let of_old = |error: FileError| NotMended::failed(RepairFailure::File(error.into()));
        let (folder, name) = self.made_folder(&damaged.path).map_err(of_old)?;
        let open = || Entry::within(&folder, &name)?.0.open();
        let old = bad.stat.map(|_| open()).transpose().map_err(of_old)?;
        let from = match (from, &old) {
            (ContentOrigin::Blocks(blocks), Some(old)) if self.is_in_place(damaged, bad) => {
                return self.write_in_place(damaged, (bad, old), blocks, candidate);
            }
            (from, _) => from,
        };
        let target = by_way_of(&folder, &name);
        let Filled { new, bytes, ranges, has_usual_permissions, taken } =
            self.new_file(damaged, (bad, old.as_ref()), from, candidate, &target)?;
        if old.as_ref().is_some_and(has_writer) {
            return Err(NotMended::refused(RepairRefusal::InUse));
        }
        let kept = match (&old, &self.options.keep_bad) {
            (Some(old), Some(keep)) => {
                let dress = |copy: &File| dress_as(copy, old);
                let kept = KeptFile::new((keep, &damaged.kept), old, self.as_read(damaged, bad), &dress);
                Some(kept.map_err(NotMended::not_kept)?)
            }
            _ => None,
        };
        let made = Stat::of(new.file()).map(|stat| inode(&stat));
        let is_as_found = new.swap(bad.stat.as_ref(), kept.as_ref().and_then(KeptFile::to_move_to));
        if !is_as_found.map_err(NotMended::of_new)? {
            return Err(NotMended::refused(RepairRefusal::Changed));
        }
        // A name that an earlier repair gave it there, before it was killed, is none that is left bad.
        let kept_before = kept.as_ref().map_or(0, KeptFile::names_before);
        let kept_unread = kept.map_or(0, KeptFile::stay);
        let now = Entry::within(&folder, &name).ok().map(|(_, stat)| stat);
        let now = now.filter(|stat| made.is_ok_and(|made| made == inode(stat)));
        let mut other_names = 0;
        if let (Some(old), Some(now)) = (bad.inode, now) {
            self.linked.entry(old).or_insert((damaged.path.clone(), inode(&now), damaged.recorded));
        }
        if let (Some(old), Some(_)) = (bad.stat, now) {
            let known = self.names.entry(inode(&old)).or_insert(1);
            *known += kept_before;
            other_names = old.links.saturating_sub(*known);
        }
        let (from, also_from) = givers_of(&taken, candidate);
        let outcome = RepairOutcome::Repaired { from, bytes, other_names, has_usual_permissions, also_from };
        let now = now.map(FileAfter::from);
        Ok(Done { now, before: bad.before, ranges, taken, kept_unread, ..Done::from(outcome) })
    }

    /// What a bad file was read as just now.
    fn as_read<'r>(&'r self, damaged: &'r Damaged, bad: &BadFile) -> AsRead<'r> {
        AsRead { digest: &damaged.digest, value: bad.before, stop: &self.options.stop }
    }

    /// What a repair would take, and from where.
    ///
    /// # Errors
    /// As [`Tree::replace`].
    fn could_be(
        &self,
        damaged: &Damaged,
        bad: &BadFile,
        from: ContentOrigin,
        candidate: &Candidate,
    ) -> Result<Done, CopyFault> {
        if let Some(done) =
            self.is_in_place(damaged, bad).then(|| self.mended_by_name(damaged, bad)).flatten()
        {
            return Ok(done);
        }
        let has_other_name = self.other_name(bad, &damaged.recorded).is_some();
        let mut taken = Vec::new();
        let bytes = match from {
            _ if has_other_name => 0,
            ContentOrigin::Name => return Err(CopyFault::OtherName),
            ContentOrigin::Source(..) if damaged.size < ANY_LENGTH => damaged.size,
            ContentOrigin::Source(source, size) => {
                let asked = || source?.place.state(&candidate.path).ok().and_then(|state| state.now.size);
                size.or_else(asked).unwrap_or_default()
            }
            ContentOrigin::Blocks(Blocks { blocks, mut givers }) => {
                let old = self.opened(damaged);
                let of_file = Combination::of(blocks, &damaged.digest, &damaged.recorded, &self.options.stop);
                let combination = Combination { old: old.as_ref(), ..of_file };
                let filled = match combination.fill(&mut givers, &mut |_| Ok(())) {
                    Err(CombineError::Other) if self.is_in_place(damaged, bad) => {
                        return Ok(RepairOutcome::Refused(RepairRefusal::OtherBlocks).into());
                    }
                    filled => filled.map_err(|error| CopyFault::Combine(error.into()))?,
                };
                taken = filled.into_iter().map(|(_, taken)| taken).collect();
                bytes_of(&taken)
            }
        };
        let (from, also_from) = givers_of(&taken, candidate);
        let needs_keep_bad = self.needs_keep_bad(bad);
        Ok(RepairOutcome::Mendable { from, bytes, needs_keep_bad, also_from }.into())
    }

    /// The repaired file of another name of the same bad inode, open, if it still is what was put there.
    fn other_name(&self, bad: &BadFile, recorded: &Output) -> Option<File> {
        let (path, made, content) = self.linked.get(&bad.inode?)?;
        let (folder, name) = self.folder(path).ok()?;
        let (entry, stat) = Entry::within(&folder, &name).ok()?;
        if content != recorded || inode(&stat) != *made {
            return None;
        }
        let file = entry.open().ok()?;
        Stat::of(&file).is_ok_and(|stat| inode(&stat) == *made).then_some(file)
    }
}

/// Where the new content comes from.
enum ContentOrigin<'a, 's> {
    /// A copy that has all of it, and its length, if that is known; no copy for empty content.
    Source(Option<&'a mut Source<'s>>, Option<u64>),
    Blocks(Blocks<'a, 's>),
    /// Another name of the file.
    Name,
}

/// What blocks a file has, and who may give some.
struct Blocks<'a, 's> {
    blocks: &'a BlockDigests,
    givers: Givers<'a, 's>,
}

/// Whether less is read or moved if only bad blocks are asked of a source.
fn moves_less(bad: &BadFile, source: &Source) -> bool {
    let is_long = bad.stat.is_some_and(|stat| stat.size >= LONG);
    is_long && !source.place.is_here()
}

/// Whether a dry run found that this run would repair a file.
fn is_mendable(done: &Done) -> bool {
    matches!(done.outcome, RepairOutcome::Mendable { needs_keep_bad: false, .. })
}

/// What finds digests of a file's blocks.
type FindBlocks = fn(&Damaged, &mut [Source], &Foretold) -> Option<BlockDigests>;

/// All of them, the better one first.
const BLOCK_DIGESTS: [FindBlocks; 2] = [of_parity, |damaged, _, foretold| foretold.of_map(&damaged.path)];

fn may_be_of(blocks: &BlockDigests, damaged: &Damaged) -> bool {
    damaged.size >= ANY_LENGTH || damaged.size == blocks.length()
}

fn of_parity(damaged: &Damaged, sources: &mut [Source], _: &Foretold) -> Option<BlockDigests> {
    sources.iter_mut().filter(|source| source.is_parity).find_map(|source| {
        let below = damaged.below.strip_prefix(&source.part).ok()?;
        let path = source.path_of(below);
        source.place.block_digests(&path)
    })
}

/// Whether a digest says that a file is empty: no copy is needed to make it again.
pub fn is_of_nothing(digest: &Digest, value: &Output) -> bool {
    // Some checksums are 0 for nothing and for any number of zeros.
    let tells = value.as_bytes().iter().any(|byte| *byte != 0);
    tells && digest.hash(b"").is_ok_and(|empty| empty == *value)
}

/// What an empty file is made of: no copy is needed to know its content. None if it is not empty.
fn nothing_for(damaged: &Damaged) -> Option<Candidate> {
    let may_be = damaged.size == 0 || damaged.size >= ANY_LENGTH;
    let is_empty = may_be && is_of_nothing(&damaged.digest, &damaged.recorded);
    is_empty.then(|| Candidate { path: Vec::new(), shown: PathBuf::from("/dev/null") })
}

/// A name in an open directory, as a path.
fn by_way_of(folder: &Arc<Directory>, name: &OsStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())).join(name)
}
