//! Writes bad blocks of long files into the files themselves: their part of a tree's repair.

use std::fs::File;
use std::ops::Range;

use verisum_files::{Entry, Stat, has_writer};

use super::super::blocks::{Combination, CombineError};
use super::super::changes::{Draft, Journal, Subject};
use super::super::fill::FillError;
use super::super::in_place::{Applied, apply};
use super::super::keep::{keep_copy, room_for};
use super::super::source::Candidate;
use super::{BadFile, Blocks, CHANGED, Damaged, Done, IN_USE, LONG, Outcome, Tree, inode, stamp};

impl Tree<'_> {
    /// Whether a file is to be written in place: it is long, and no longer or shorter than it was.
    pub(super) fn is_in_place(&self, damaged: &Damaged, bad: &BadFile) -> bool {
        let is_long = |stat: Stat| stat.size >= LONG && stat.size == damaged.size;
        self.journal.is_some() && bad.stat.is_some_and(is_long)
    }

    /// Writes the bad blocks of a file into the file, once the whole is proved to be as recorded with them.
    ///
    /// # Errors
    /// The blocks do not suffice: nothing was written.
    pub(super) fn write_in_place(
        &mut self,
        damaged: &Damaged,
        (bad, old): (&BadFile, &File),
        Blocks { blocks, sources, givers }: Blocks,
        candidate: &Candidate,
    ) -> Result<Done, String> {
        if let Some(done) = self.mended_by_name(damaged, bad) {
            return Ok(done);
        }
        let failed = |why: String| Ok(Outcome::Failed(why).into());
        let (Some(path), Some(stat)) = (&self.journal, &bad.stat) else { return failed(CHANGED.to_string()) };
        let subject = Subject {
            path: damaged.path.clone(),
            algorithm: damaged.digest.name().to_string(),
            recorded: damaged.recorded,
            copies: givers.iter().map(|giver| giver.candidate.shown.clone()).collect(),
            inode: stat.inode,
            size: stat.size,
            modified: damaged.modified.unwrap_or_else(|| stamp(stat.modified)),
        };
        let of_journal = |error: std::io::Error| format!("{}: write: {error}", path.display());
        // Its file is half written, and only it says what with.
        if path.symlink_metadata().is_ok() {
            return failed(format!("{}: an earlier repair in place is to be finished first", path.display()));
        }
        let mut draft = match Draft::begin(path, &subject) {
            Ok(draft) => draft,
            Err(error) => return failed(of_journal(error)),
        };
        let combination = Combination {
            blocks,
            old: Some(old),
            new: None,
            digest: &damaged.digest,
            recorded: &damaged.recorded,
            is_sparse: false,
            keeps_old: true,
            stop: &self.options.stop,
        };
        match combination.fill(sources, givers, &mut |block| draft.add(&block)) {
            Ok(_) => {}
            Err(CombineError::Fill(FillError::Write(error))) => return failed(of_journal(error)),
            Err(error) => return Err(error.to_string()),
        }
        if has_writer(old) {
            return Ok(Outcome::Refused(IN_USE.to_string()).into());
        }
        if !Stat::of(old).is_ok_and(|now| now.is_same_state(stat)) {
            return Ok(Outcome::Refused(CHANGED.to_string()).into());
        }
        if let Some(keep) = &self.options.keep_bad {
            let kept = room_for(keep, damaged.kept_name()).and_then(|to| keep_copy(old, &to));
            if let Err(error) = kept {
                return failed(format!("--keep-bad: {error}"));
            }
        }
        if let Err(error) = draft.place() {
            return failed(of_journal(error));
        }
        let opened = Journal::open(path).map_err(|error| error.to_string());
        let applied = opened.and_then(|journal| match journal {
            Some(mut journal) => apply(&mut journal, Some(stat)),
            None => Err("its journal is gone".to_string()),
        });
        let (now, taken) = match applied {
            Ok(Applied::Done(now, taken)) => (now, taken),
            Ok(Applied::Left(why)) => {
                let _ = std::fs::remove_file(path);
                return Ok(Outcome::Refused(why.to_string()).into());
            }
            Err(why) => return failed(format!("{why} (the next repair goes on by {})", path.display())),
        };
        if let Err(error) = std::fs::remove_file(path) {
            return failed(of_journal(error));
        }
        self.linked.entry(inode(stat)).or_insert((damaged.path.clone(), inode(&now), damaged.recorded));
        let mut ranges: Vec<Range<u64>> =
            taken.iter().flat_map(|taken| taken.ranges.clone()).flatten().collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let from = taken.first().map_or_else(|| candidate.shown.clone(), |taken| taken.from.clone());
        let outcome = Outcome::Repaired {
            from,
            bytes: taken.iter().map(|taken| taken.bytes).sum(),
            other_names: 0,
            has_usual_permissions: false,
            also_from: taken.iter().skip(1).map(|taken| taken.from.clone()).collect(),
        };
        Ok(Done { outcome, now: Some(now), before: bad.before, ranges: Some(ranges), taken })
    }

    /// What became of a file by another name of it that was written in place.
    pub(super) fn mended_by_name(&self, damaged: &Damaged, bad: &BadFile) -> Option<Done> {
        let (path, made, content) = self.linked.get(&inode(&bad.stat?))?;
        let (folder, name) = self.folder(&damaged.path).ok()?;
        let (_, now) = Entry::within(&folder, &name).ok()?;
        let from = path.clone();
        let outcome = match self.options.dry {
            true => Outcome::Mendable { from, bytes: 0 },
            false => Outcome::Repaired {
                from,
                bytes: 0,
                other_names: 0,
                has_usual_permissions: false,
                also_from: Vec::new(),
            },
        };
        let is_it = inode(&now) == *made && *content == damaged.recorded;
        is_it.then(|| Done { now: Some(now), before: bad.before, ..Done::from(outcome) })
    }
}

/// Why a long file is not written in place.
pub(super) fn not_in_place(has_blocks: bool) -> Done {
    match has_blocks {
        true => Outcome::NoSource { tried: Vec::new() }.into(),
        false => {
            let why = "--in-place needs digests of its blocks: parity, or a block map (`verisum image map --exact`)";
            Outcome::Refused(why.to_string()).into()
        }
    }
}
