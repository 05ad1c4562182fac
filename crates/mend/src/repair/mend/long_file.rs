//! Writes bad blocks of long files into the files themselves, as a part of the repair of a tree.

use std::fs::File;
use std::path::{Path, PathBuf};

use verisum_files::{Entry, KeptFile, Stat, Stop, has_writer};

use super::super::blocks::{Combination, CombineError};
use super::super::fill::FillError;
use super::super::in_place::{Applied, apply};
use super::super::journal::{Draft, Journal, Subject};
use super::super::keep::dress_as;
use super::super::record::Taken;
use super::super::source::Candidate;
use super::super::{CopyFault, InPlaceFault, RepairFailure};
use super::new_file::{bytes_of, givers_of, ranges_of};
use super::waiting::NotMended;
use super::{BadFile, Blocks, Damaged, Done, LONG, RepairOutcome, RepairRefusal, Stamp, Tree, inode};

impl Tree<'_> {
    /// Whether a file is to be written in place: it is long, and no longer or shorter than it was.
    pub(super) fn is_in_place(&self, damaged: &Damaged, bad: &BadFile) -> bool {
        let is_long = |stat: Stat| stat.size >= LONG && stat.size == damaged.size;
        self.journal.is_some() && bad.stat.is_some_and(is_long)
    }

    /// Writes the bad blocks of a file into the file, once the whole is proved to be as recorded with them. What it was is
    /// in the journal until all is written.
    pub(super) fn write_in_place(
        &mut self,
        damaged: &Damaged,
        (bad, old): (&BadFile, &File),
        blocks: Blocks,
        candidate: &Candidate,
    ) -> Result<Done, NotMended> {
        if let Some(done) = self.mended_by_name(damaged, bad) {
            return Ok(done);
        }
        let (Some(journal), Some(stat)) = (&self.journal, &bad.stat) else {
            return Err(NotMended::refused(RepairRefusal::Changed));
        };
        let draft = self.drafted(journal, damaged, (stat, old), blocks)?;
        if has_writer(old) {
            return Err(NotMended::refused(RepairRefusal::InUse));
        }
        if !Stat::of(old).is_ok_and(|now| now.is_same_state(stat)) {
            return Err(NotMended::refused(RepairRefusal::Changed));
        }
        // A second name would be one of what is written to.
        let keep = self.options.keep_bad.as_deref();
        let dress = |copy: &File| dress_as(copy, old);
        let copy = |keep| KeptFile::copy((keep, &*damaged.kept), old, self.as_read(damaged, bad), &dress);
        let kept = keep.map(copy);
        let kept = kept.transpose().map_err(NotMended::not_kept)?;
        draft.place().map_err(|error| of_journal(journal, error))?;
        let applied = applied(journal, stat, &self.options.stop);
        // Of a file that is somebody's by now nothing was written.
        let is_left = matches!(&applied, Err(NotMended::ByAny(RepairOutcome::Refused(_))));
        let kept_unread = kept.filter(|_| !is_left).map_or(0, KeptFile::stay);
        let (now, taken) = applied?;
        self.linked.entry(inode(stat)).or_insert((damaged.path.clone(), inode(&now), damaged.recorded));
        let (from, also_from) = givers_of(&taken, candidate);
        let bytes = bytes_of(&taken);
        let outcome =
            RepairOutcome::Repaired { from, bytes, other_names: 0, has_usual_permissions: false, also_from };
        let ranges = Some(ranges_of(&taken));
        let now = Some(now.into());
        Ok(Done { now, before: bad.before, ranges, taken, kept_unread, ..Done::from(outcome) })
    }

    /// The journal of a file that is to be written in place, before it has its name.
    fn drafted(
        &self,
        journal: &Path,
        damaged: &Damaged,
        (stat, old): (&Stat, &File),
        Blocks { blocks, mut givers }: Blocks,
    ) -> Result<Draft, NotMended> {
        // Its file is half written, and only it says what with.
        if journal.symlink_metadata().is_ok() {
            return Err(NotMended::failed(RepairFailure::EarlierInPlace(journal.to_path_buf())));
        }
        let subject = Subject {
            path: damaged.path.clone(),
            algorithm: damaged.digest.name().to_string(),
            recorded: damaged.recorded,
            copies: givers.copies.iter().map(|giver| giver.candidate.shown.clone()).collect(),
            inode: stat.inode,
            size: stat.size,
            modified: damaged.modified.unwrap_or_else(|| Stamp::from(stat.modified)),
        };
        let mut draft = Draft::begin(journal, &subject).map_err(|error| of_journal(journal, error))?;
        let of_file = Combination::of(blocks, &damaged.digest, &damaged.recorded, &self.options.stop);
        let combination = Combination { old: Some(old), keeps_old: true, ..of_file };
        match combination.fill(&mut givers, &mut |block| draft.add(&block)) {
            Ok(_) => Ok(draft),
            // No other copy helps.
            Err(CombineError::Other) => Err(NotMended::refused(RepairRefusal::OtherBlocks)),
            Err(CombineError::Fill(FillError::Write(error))) => Err(of_journal(journal, error)),
            Err(error) => Err(CopyFault::Combine(error.into()).into()),
        }
    }

    /// What became of a file by another name of it that was written in place.
    pub(super) fn mended_by_name(&self, damaged: &Damaged, bad: &BadFile) -> Option<Done> {
        let (path, made, content) = self.linked.get(&bad.inode?)?;
        let (folder, name) = self.folder(&damaged.path).ok()?;
        let (_, now) = Entry::within(&folder, &name).ok()?;
        let from = path.clone();
        let (needs_keep_bad, also_from) = (self.needs_keep_bad(bad), Vec::new());
        let outcome = match self.options.dry {
            true => RepairOutcome::Mendable { from, bytes: 0, needs_keep_bad, also_from },
            false => RepairOutcome::Repaired {
                from,
                bytes: 0,
                other_names: 0,
                has_usual_permissions: false,
                also_from,
            },
        };
        let is_it = inode(&now) == *made && *content == damaged.recorded;
        is_it.then(|| Done { now: Some(now.into()), before: bad.before, ..Done::from(outcome) })
    }
}

/// Writes the blocks of a journal to its file, and removes it. Returns what the file is then, and what it took.
fn applied(path: &Path, stat: &Stat, stop: &Stop) -> Result<(Stat, Vec<Taken>), NotMended> {
    let opened = Journal::open(path).map_err(|error| InPlaceFault::Journal(error.into()));
    let applied = opened.and_then(|journal| match journal {
        Some(mut journal) => apply(&mut journal, Some(stat), stop),
        None => Err(InPlaceFault::NoJournal),
    });
    match applied {
        Ok(Applied::Done(now, taken)) => {
            std::fs::remove_file(path).map_err(|error| of_journal(path, error))?;
            Ok((now, taken))
        }
        Ok(Applied::Left(why)) => {
            let _ = std::fs::remove_file(path);
            Err(NotMended::refused(why))
        }
        Err(why) => Err(NotMended::failed(RepairFailure::InPlace { journal: path.to_path_buf(), why })),
    }
}

fn of_journal(path: &Path, error: std::io::Error) -> NotMended {
    NotMended::failed(RepairFailure::Journal { path: path.to_path_buf(), source: error.into() })
}

/// Why a long file is not written in place.
pub(super) fn not_in_place(has_blocks: bool, tried: Vec<(PathBuf, CopyFault)>) -> Done {
    match has_blocks {
        true => RepairOutcome::NoSource { tried }.into(),
        false => RepairOutcome::Refused(RepairRefusal::NoBlocks).into(),
    }
}
