//! Complete copies that wait to be written to the disk, read back, and given their names.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verisum_digest::{Digest, Output};
use verisum_files::store::xattr::Family;
use verisum_files::{Record, Stat, Timestamp};

use super::digests::Sums;
use super::links::Identity;
use super::target::TargetName;
use super::temporary::Temporary;
use super::worker::Worker;
use super::{CopyEvent, CopyOutcome, Mismatch, Verification};

/// The most bytes that wait in one thread.
const MOST_BYTES: u64 = 256 << 20;

/// From so many files on, the whole file system is brought to the disk at once.
const MANY: usize = 8;

/// A copy that nobody sees yet.
pub(super) struct Pending<'a> {
    /// The path of the original.
    pub(super) path: PathBuf,
    pub(super) target: TargetName<'a>,
    pub(super) temporary: Temporary<'a>,
    pub(super) sums: Sums,
    /// What was said of the original.
    pub(super) stat: Stat,
    pub(super) mode: u32,
    pub(super) mismatch: Option<Mismatch>,
    /// Whether there was a record to compare it with.
    pub(super) is_compared: bool,
    pub(super) replaces: bool,
    pub(super) identity: Option<Identity>,
}

/// What came of a file, by its path, its name below TO, and what was said of it.
pub(super) fn event<'e>(
    (path, name): (&'e Path, &'e Path),
    (stat, mode): (&Stat, u32),
    outcome: CopyOutcome,
    digests: &'e [(Digest, Output)],
) -> CopyEvent<'e> {
    let (modified, mode) = (Some(stat.modified), Some(mode));
    CopyEvent { path, name, outcome, size: stat.size, modified, mode, digests }
}

impl<'a> Worker<'a, '_> {
    /// Keeps a copy until enough have gathered.
    pub(super) fn wait(&mut self, pending: Pending<'a>) {
        self.pending_bytes += pending.stat.stored.max(4096);
        self.pending.push(pending);
        if self.pending.len() >= self.common.most_pending || self.pending_bytes >= MOST_BYTES {
            self.flush();
        }
    }

    /// Brings all copies to the disk, reads them back, and gives them their names.
    pub(super) fn flush(&mut self) {
        self.pending_bytes = 0;
        let mut pending = std::mem::take(&mut self.pending);
        while !pending.is_empty() {
            let device = pending[0].target.directory.device;
            let (same, rest): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|one| one.target.directory.device == device);
            pending = rest;
            let synced = self.sync(same);
            let good = match self.shared.options.verification {
                Verification::Reread => self.read_back(synced),
                Verification::Written | Verification::None => synced,
            };
            for one in good {
                self.place(one);
            }
        }
    }

    fn sync(&mut self, pending: Vec<Pending<'a>>) -> Vec<Pending<'a>> {
        let directory = pending[0].target.directory.clone();
        if pending.len() >= MANY && directory.is_synced_whole {
            let synced = rustix::fs::syncfs(&*directory);
            return match synced {
                Ok(()) => pending,
                Err(errno) => {
                    pending.into_iter().for_each(|one| self.not_kept(&one, "sync", errno));
                    Vec::new()
                }
            };
        }
        let mut kept = Vec::with_capacity(pending.len());
        for one in pending {
            match rustix::fs::fsync(&one.temporary.file) {
                Ok(()) => kept.push(one),
                Err(errno) => self.not_kept(&one, "sync", errno),
            }
        }
        kept
    }

    /// Tells of a copy that is given up.
    pub(super) fn not_kept(&mut self, one: &Pending<'a>, operation: &'static str, errno: Errno) {
        let error = one.target.failed(operation)(errno);
        self.lost(&one.path, &one.target, one.identity, error);
    }

    /// Gives a copy its name.
    pub(super) fn place(&mut self, pending: Pending<'a>) {
        if self.shared.is_asked() {
            return self.give_up(pending.identity);
        }
        if self.shared.options.tag
            && let Err(errno) = self.tag(&pending)
        {
            return self.not_kept(&pending, "set attribute", errno);
        }
        let name = pending.target.below();
        let outcome = match &pending.mismatch {
            Some(mismatch) => CopyOutcome::CopiedBad(mismatch.clone()),
            None => CopyOutcome::Copied,
        };
        let digests = pending.sums.pairs();
        // Names of a bad file are as bad.
        let good = pending.mismatch.is_none().then_some((pending.stat, pending.mode));
        let Pending { path, target, temporary, stat, mode, is_compared, replaces, identity, .. } = pending;
        match temporary.place(self.shared, &target, replaces) {
            Ok(()) => {
                self.shared.summary().compared += u64::from(is_compared);
                self.shared.tell(&event((&path, &name), (&stat, mode), outcome, &digests));
                let digests = if good.is_some() { digests } else { Vec::new() };
                self.placed(identity, &target, good, digests);
            }
            Err(errno) => {
                let error = target.failed("rename")(errno);
                self.lost(&path, &target, identity, error);
            }
        }
    }

    /// Writes a tag, with the times that the copy has. What is known to be bad stays so: its tag has the recorded digest.
    fn tag(&self, pending: &Pending<'a>) -> Result<(), Errno> {
        let recorded = pending.mismatch.as_ref().and_then(|mismatch| {
            let algorithm = Digest::find(&mismatch.algorithm).ok()?.algorithm()?;
            Family::Verisum.holds(algorithm).then_some((algorithm, mismatch.expected))
        });
        let (algorithm, digest) = match (recorded, &pending.mismatch) {
            (Some(recorded), _) => recorded,
            // A tag has no place for it.
            (None, Some(_)) => return Ok(()),
            (None, None) => {
                (pending.sums.set.digests[0].algorithm().ok_or(Errno::INVAL)?, pending.sums.outputs[0])
            }
        };
        // What was not read back was not found to be so.
        let is_found = recorded.is_none() && self.shared.options.verification == Verification::Reread;
        let stat = Stat::of(&pending.temporary.file)?;
        let record = Record::new(algorithm, digest, &stat, is_found.then(Timestamp::now));
        Family::Verisum.write(&pending.temporary.file, &record)
    }
}
