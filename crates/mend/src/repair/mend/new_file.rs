//! Makes the new file that replaces a bad one: from its other name, a copy, or blocks of several copies.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use verisum_files::{Replacement, Stop};

use super::super::attributes::dressed;
use super::super::blocks::{Combination, CombineError};
use super::super::differences::Differences;
use super::super::fill::{FillError, Limits, fill};
use super::super::record::Taken;
use super::super::source::{Candidate, Source};
use super::super::{CopyFault, RepairFailure};
use super::waiting::NotMended;
use super::{BadFile, Blocks, ContentOrigin, Damaged, Tree};

/// A new file that waits to take its place.
pub(super) struct Filled {
    pub(super) new: Replacement,
    pub(super) bytes: u64,
    pub(super) ranges: Option<Vec<Range<u64>>>,
    pub(super) has_usual_permissions: bool,
    pub(super) taken: Vec<Taken>,
}

impl Tree<'_> {
    /// The new file that is to take the place of a bad one.
    pub(super) fn new_file(
        &self,
        damaged: &Damaged,
        (bad, old): (&BadFile, Option<&File>),
        from: ContentOrigin,
        candidate: &Candidate,
        target: &Path,
    ) -> Result<Filled, NotMended> {
        // Where there can be no link, it becomes a file of its own.
        if let Some(file) = self.other_name(bad, &damaged.recorded)
            && let Ok(new) = Replacement::of_file(target, file)
        {
            return Ok(Filled {
                new,
                bytes: 0,
                ranges: None,
                has_usual_permissions: false,
                taken: Vec::new(),
            });
        }
        match from {
            ContentOrigin::Name => Err(CopyFault::OtherName.into()),
            ContentOrigin::Source(source, _) => self.filled(damaged, (bad, old), source, candidate, target),
            ContentOrigin::Blocks(blocks) => {
                put_together(damaged, (bad, old), blocks, target, &self.options.stop)
            }
        }
    }

    /// A new file with the content of a copy, or of none, and with what else the old one has, or else the copy; and its
    /// length.
    fn filled(
        &self,
        damaged: &Damaged,
        (bad, old): (&BadFile, Option<&File>),
        mut source: Option<&mut Source>,
        candidate: &Candidate,
        target: &Path,
    ) -> Result<Filled, NotMended> {
        let new = Replacement::passing(target).map_err(NotMended::of_new)?;
        let range = 0..damaged.size.saturating_add(1);
        let mut content: Box<dyn Read + Send> = match &mut source {
            Some(source) => {
                source.place.read(&candidate.path, range).map_err(|error| CopyFault::Place(error.into()))?
            }
            None => Box::new(std::io::empty()),
        };
        let is_sparse = bad.stat.is_none_or(|stat| stat.stored < stat.size);
        let expected = (&damaged.digest, &damaged.recorded);
        let mut differences = Differences::from(old);
        let limits = Limits { most: damaged.size, is_sparse, stop: &self.options.stop };
        let filled = fill(new.file(), &mut *content, expected, &limits, &mut differences);
        let bytes = filled.map_err(of_fill)?;
        drop(content);
        let model = source.map(|source| (source, candidate));
        let dressed = dressed(new.file(), old, model, damaged.modified);
        let has_usual_permissions = dressed.map_err(NotMended::failed)?;
        let ranges = Some(differences.ranges());
        Ok(Filled { new, bytes, ranges, has_usual_permissions, taken: Vec::new() })
    }
}

/// A new file of blocks of the old one and of copies.
fn put_together(
    damaged: &Damaged,
    (bad, old): (&BadFile, Option<&File>),
    Blocks { blocks, mut givers }: Blocks,
    target: &Path,
    stop: &Stop,
) -> Result<Filled, NotMended> {
    let new = Replacement::passing(target).map_err(NotMended::of_new)?;
    let combination = Combination {
        old,
        new: Some(new.file()),
        is_sparse: bad.stat.is_none_or(|stat| stat.stored < stat.size),
        ..Combination::of(blocks, &damaged.digest, &damaged.recorded, stop)
    };
    let taken = combination.fill(&mut givers, &mut |_| Ok(())).map_err(|error| match error {
        CombineError::Fill(error) => of_fill(error),
        other => CopyFault::Combine(other.into()).into(),
    })?;
    // What gave nothing says nothing of owners and modes either.
    let first = taken.first().map_or(0, |(number, _)| *number);
    let giver = givers.copies.get(first).ok_or(CopyFault::NoAnswer)?;
    let model = Some((&mut givers.sources[giver.source], &giver.candidate));
    let dressed = dressed(new.file(), old, model, damaged.modified);
    let has_usual_permissions = dressed.map_err(NotMended::failed)?;
    let taken: Vec<Taken> = taken.into_iter().map(|(_, taken)| taken).collect();
    let (ranges, bytes) = (ranges_of(&taken), bytes_of(&taken));
    Ok(Filled { new, bytes, ranges: Some(ranges), has_usual_permissions, taken })
}

/// What failed where a new file was filled: the copy, or the new file.
fn of_fill(error: FillError) -> NotMended {
    match error {
        FillError::Stopped => NotMended::failed(RepairFailure::Interrupted),
        error if error.is_of_source() => CopyFault::Fill(error.into()).into(),
        error => NotMended::failed(RepairFailure::Fill(error.into())),
    }
}

/// Which bytes were taken from copies.
pub(super) fn ranges_of(taken: &[Taken]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = taken.iter().flat_map(|taken| taken.ranges.clone()).flatten().collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

pub(super) fn bytes_of(taken: &[Taken]) -> u64 {
    taken.iter().map(|taken| taken.bytes).sum()
}

/// The first copy that gave something, else the one that was asked for all, and the others that did.
pub(super) fn givers_of(taken: &[Taken], candidate: &Candidate) -> (PathBuf, Vec<PathBuf>) {
    let mut givers = taken.iter().map(|taken| taken.from.clone());
    (givers.next().unwrap_or_else(|| candidate.shown.clone()), givers.collect())
}
