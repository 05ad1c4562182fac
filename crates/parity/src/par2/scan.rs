//! Compares all files of a set, and its recovery blocks, with their MD5.

use std::fs::File;

use verisum_files::Stat;

use super::Opened;
use super::judge::{Run, judge};
use super::set::{Member, Set};
use crate::scan::is_absent;
use crate::tree::Tree;
use crate::verdict::{FileVerdict, Finding, ParityFileVerdict};
use crate::{ParityError, parallel};

/// What was found of a file.
pub(super) enum Par2FileState {
    Found {
        size: u64,
        /// Whether it stayed the same while it was read.
        is_steady: bool,
        /// Its blocks that are not as recorded.
        lost: Vec<usize>,
    },
    Missing {
        /// All of its blocks.
        lost: Vec<usize>,
    },
    Unreadable {
        error: verisum_files::FileError,
        lost: Vec<usize>,
    },
}

impl Par2FileState {
    /// The blocks that are not as recorded, by their numbers in the file.
    pub(super) fn lost(&self) -> &[usize] {
        match self {
            Par2FileState::Found { lost, .. }
            | Par2FileState::Missing { lost }
            | Par2FileState::Unreadable { lost, .. } => lost,
        }
    }

    /// Whether the file is not as recorded.
    pub(super) fn is_bad(&self, member: &Member) -> bool {
        !matches!(self, Par2FileState::Found { size, lost, .. } if *size == member.size && lost.is_empty())
    }

    /// Whether it may be mended.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Par2FileState::Found { is_steady: true, .. } | Par2FileState::Missing { .. })
    }

    pub(super) fn verdict(self, set: &Set, member: &Member, can_be_repaired: bool) -> FileVerdict {
        let can_be_repaired = can_be_repaired || self.lost().is_empty();
        match self {
            Par2FileState::Missing { .. } => FileVerdict::Missing { can_be_repaired },
            Par2FileState::Unreadable { error, .. } => FileVerdict::Unreadable(error),
            Par2FileState::Found { is_steady: false, .. } => FileVerdict::Busy,
            Par2FileState::Found { size, lost, .. } => {
                let lost: u64 =
                    lost.iter().map(|block| set.block.min(member.size - *block as u64 * set.block)).sum();
                FileVerdict::Damaged { bytes: lost + size.saturating_sub(member.size), can_be_repaired }
            }
        }
    }
}

/// What was found of a set.
pub(super) struct Scan {
    /// Of each file.
    pub(super) files: Vec<Par2FileState>,
    /// Which recovery blocks are as recorded, by their place in the set, each exponent once.
    pub(super) good: Vec<usize>,
    /// Of each volume, how many recovery blocks are as recorded, and how many it has.
    volumes: Vec<(usize, usize)>,
}

/// A run of bytes to be compared: a block of a file, or a recovery block.
#[derive(Clone, Copy)]
enum ComparedPart {
    Block { member: usize, block: usize },
    Stored(usize),
}

impl Scan {
    pub(super) fn new(opened: &Opened, threads: usize) -> Result<Scan, ParityError> {
        let Opened { tree, set, md5 } = opened;
        let stats: Vec<_> = set.members.iter().map(|member| stat_of(tree, member)).collect();
        let blocks = set.members.iter().enumerate().zip(&stats).filter(|(_, stat)| stat.is_ok());
        let blocks = blocks.flat_map(|((member, its), _)| {
            (0..its.blocks.len()).map(move |block| ComparedPart::Block { member, block })
        });
        let parts: Vec<ComparedPart> =
            blocks.chain((0..set.stored.len()).map(ComparedPart::Stored)).collect();
        tree.expect(set.members.iter().map(|member| member.size).sum());
        let mut groups = parts.chunks(md5.lanes().max(1));
        let mut is_good = vec![false; set.blocks()];
        let mut is_stored = vec![false; set.stored.len()];
        let next = || groups.next();
        let work = |group| compare(opened, group).map(|found| (group, found));
        parallel::each(threads, next, work, |(group, found)| {
            for (part, found) in group.iter().zip(found) {
                match *part {
                    ComparedPart::Block { member, block } => {
                        is_good[set.members[member].first + block] = found
                    }
                    ComparedPart::Stored(number) => is_stored[number] = found,
                }
            }
            Ok::<(), ParityError>(())
        })?;
        let files = set.members.iter().zip(stats).map(|(member, stat)| {
            let lost = (0..member.blocks.len()).filter(|block| !is_good[member.first + block]).collect();
            match stat {
                Ok(before) => {
                    let now = stat_of(tree, member);
                    let is_steady = now.is_ok_and(|now| now.is_same_state(&before));
                    Par2FileState::Found { size: before.size, is_steady, lost }
                }
                Err(verisum_files::FileError::Io { source, .. }) if is_absent(&source) => {
                    Par2FileState::Missing { lost }
                }
                Err(error) => Par2FileState::Unreadable { error, lost },
            }
        });
        let files = files.collect();
        let mut volumes = vec![(0, 0); set.volumes.len()];
        for (stored, is_good) in set.stored.iter().zip(&is_stored) {
            let (good, all) = &mut volumes[stored.volume];
            (*good, *all) = (*good + usize::from(*is_good), *all + 1);
        }
        let mut exponents = std::collections::BTreeSet::new();
        let good = (0..set.stored.len())
            .filter(|&number| is_stored[number] && exponents.insert(set.stored[number].recovery.exponent))
            .collect();
        Ok(Scan { files, good, volumes })
    }

    /// How many blocks of all files are lost.
    pub(super) fn lost(&self) -> usize {
        self.files.iter().map(|file| file.lost().len()).sum()
    }

    /// Whether there are recovery blocks enough.
    pub(super) fn can_be_repaired(&self) -> bool {
        self.lost() <= self.good.len()
    }

    /// The PAR2 files that are damaged.
    pub(super) fn of_volumes(&self, set: &Set) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (volume, &(good, all)) in set.volumes.iter().zip(&self.volumes) {
            if volume.damaged > 0 || good < all {
                // Where bytes are in no packet, so many blocks may have been there.
                let gone = (volume.damaged / set.block) as usize;
                let verdict = ParityFileVerdict::Damaged { blocks: all - good + gone, of: all + gone };
                findings.push(Finding::parity(&volume.path, verdict));
            }
        }
        findings
    }
}

fn stat_of(tree: &Tree, member: &Member) -> Result<Stat, verisum_files::FileError> {
    let (entry, file) = tree.file(&member.path)?;
    Stat::of(&file).map_err(|errno| entry.failed(verisum_files::Operation::Stat, errno))
}

/// Compares some parts. Each file is opened once.
fn compare(opened: &Opened, group: &[ComparedPart]) -> Result<Vec<bool>, ParityError> {
    let Opened { tree, set, md5 } = opened;
    tree.go_on()?;
    let mut files: Vec<(ComparedPart, Option<File>)> = Vec::new();
    for part in group {
        let is_open = files.last().is_some_and(|(other, _)| is_same_file(set, other, part));
        if !is_open {
            let file = match *part {
                ComparedPart::Block { member, .. } => {
                    tree.file(&set.members[member].path).ok().map(|(_, file)| file)
                }
                ComparedPart::Stored(number) => set.volume(tree, set.stored[number].volume).ok(),
            };
            files.push((*part, file));
        }
    }
    let mut own = files.iter();
    let mut current = own.next();
    let runs: Vec<Run<'_>> = group
        .iter()
        .map(|part| {
            if !current.is_some_and(|(other, _)| is_same_file(set, other, part)) {
                current = own.next();
            }
            let file = current.and_then(|(_, file)| file.as_ref());
            match *part {
                ComparedPart::Block { member, block } => Run::block(set, &set.members[member], block, file),
                ComparedPart::Stored(number) => {
                    let (offset, length, md5) = set.stored[number].recovery.sealed();
                    Run { file, offset, length, padded: length, md5 }
                }
            }
        })
        .collect();
    let found = judge(md5, &runs)?;
    for part in group {
        if let ComparedPart::Block { member, block } = *part {
            let member = &set.members[member];
            tree.add(block + 1 == member.blocks.len(), set.block.min(member.size - block as u64 * set.block));
        }
    }
    Ok(found)
}

fn is_same_file(set: &Set, one: &ComparedPart, other: &ComparedPart) -> bool {
    match (one, other) {
        (ComparedPart::Block { member: one, .. }, ComparedPart::Block { member: other, .. }) => one == other,
        (ComparedPart::Stored(one), ComparedPart::Stored(other)) => {
            set.stored[*one].volume == set.stored[*other].volume
        }
        _ => false,
    }
}
