//! Repairs the files of a set of PAR2 files.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::Opened;
use super::field::{GROUP, Par2Field, Products, Row};
use super::judge::{Run, judge};
use super::scan::{Par2FileState, Scan};
use super::set::Member;
use super::solve::{Equations, constants, factor};
use crate::draft::{Draft, Proof};
use crate::head::Piece;
use crate::repair::NO_PARITY;
use crate::tree::time;
use crate::verdict::{FileVerdict, Finding, Mended};
use crate::{ParityError, ParityRepairOptions, ParityRepairSummary, parallel};

/// The most files that are repaired at once: as many are open.
const FILES: usize = 256;

/// The most lost blocks: their equations take 2 bytes for each pair of them.
const MOST_LOST: usize = 10_000;

/// Bytes of lost blocks that a thread computes at a time, and the least of one of them.
const MEMORY: usize = 64 << 20;
const LEAST: usize = 4 << 10;

pub(super) fn repair(
    opened: &Opened,
    options: &ParityRepairOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<ParityRepairSummary, ParityError> {
    let is_known = |path: &&PathBuf| {
        opened.set.members.iter().any(|member| *member.path == *path.as_os_str().as_bytes())
    };
    if let Some(path) = options.only.iter().find(|path| !is_known(path)) {
        return Err(ParityError::damaged(path, NO_PARITY));
    }
    let scan = Scan::new(opened, options.threads)?;
    let can_be_repaired = scan.can_be_repaired();
    let mut totals = ParityRepairSummary { sets: 1, ..ParityRepairSummary::default() };
    for finding in scan.of_volumes(&opened.set) {
        totals.parity_damaged += 1;
        report(finding);
    }
    let mut job =
        Par2Job { opened, options, good: scan.good, lost: BTreeMap::new(), linked: BTreeMap::new(), totals };
    let mut wanted = Vec::new();
    for (number, (member, state)) in opened.set.members.iter().zip(scan.files).enumerate() {
        if !state.lost().is_empty() {
            job.lost.insert(number, state.lost().to_vec());
        }
        if !state.is_bad(member) || !options.is_asked_for(&member.path) {
            continue;
        }
        let is_able = state.is_wanted() && (can_be_repaired || state.lost().is_empty());
        match (is_able, &state) {
            (true, _) if !options.dry_run => {
                wanted.push(number);
                continue;
            }
            (true, _) => job.totals.repaired += 1,
            (false, Par2FileState::Unreadable { .. } | Par2FileState::Found { is_steady: false, .. }) => {
                job.totals.unreadable += 1;
            }
            (false, _) => job.totals.not_repaired += 1,
        }
        report(Finding::of(&member.path, state.verdict(&opened.set, member, can_be_repaired)));
    }
    for group in wanted.chunks(FILES) {
        job.group(group, report)?;
    }
    Ok(job.totals)
}

struct Par2Job<'a> {
    opened: &'a Opened,
    options: &'a ParityRepairOptions,
    /// The recovery blocks that may be used.
    good: Vec<usize>,
    /// The lost blocks of each file that has some still, by their numbers in the file.
    lost: BTreeMap<usize, Vec<usize>>,
    /// Bad files with several names, and the first that was repaired.
    linked: BTreeMap<(u64, u64), usize>,
    totals: ParityRepairSummary,
}

impl Par2Job<'_> {
    /// Repairs some files.
    fn group(&mut self, members: &[usize], report: &mut dyn FnMut(Finding)) -> Result<(), ParityError> {
        let Opened { tree, set, .. } = self.opened;
        let mut drafts = BTreeMap::new();
        for &number in members {
            // PAR2 records no times.
            match Draft::begin(tree, &piece_of(self.opened, &set.members[number]), true) {
                Ok(draft) => drop(drafts.insert(number, draft)),
                Err(error) => self.tell(number, Err(error), report),
            }
        }
        self.compute(&mut drafts)?;
        for (number, draft) in drafts {
            let placed = self.place(number, draft);
            if placed.is_ok() {
                self.lost.remove(&number);
            }
            self.tell(number, placed, report);
        }
        Ok(())
    }

    fn tell(&mut self, number: usize, done: Result<Mended, ParityError>, report: &mut dyn FnMut(Finding)) {
        let verdict = match done {
            Ok(mended) => {
                self.totals.repaired += 1;
                FileVerdict::repaired(mended, 0)
            }
            Err(error) => {
                self.totals.not_repaired += 1;
                FileVerdict::NotRepaired(error)
            }
        };
        report(Finding::of(&self.opened.set.members[number].path, verdict));
    }

    /// Computes all lost blocks, stripe by stripe, and writes those of these files.
    fn compute(&self, drafts: &mut BTreeMap<usize, Draft>) -> Result<(), ParityError> {
        let Opened { tree, set, .. } = self.opened;
        let lost: Vec<(usize, usize)> = self
            .lost
            .iter()
            .flat_map(|(&member, blocks)| blocks.iter().map(move |&block| (member, block)))
            .collect();
        if drafts.keys().all(|number| !self.lost.contains_key(number)) {
            return Ok(());
        }
        let damaged = |what| ParityError::damaged(&set.volumes[0].path, what);
        if lost.len() > MOST_LOST {
            return Err(damaged("more than 10,000 blocks are lost, and so many verisum does not compute"));
        }
        let constants: Vec<u64> = constants().collect();
        let number_of = |&(member, block): &(usize, usize)| set.members[member].first + block;
        let lost_constants: Vec<u64> = lost.iter().map(|lost| constants[number_of(lost)]).collect();
        let exponents: Vec<u32> =
            self.good.iter().map(|&number| set.stored[number].recovery.exponent).collect();
        let equations = Equations::new(&lost_constants, &exponents).ok_or_else(|| {
            damaged(
                "the recovery blocks that are left cannot give these blocks: PAR2 has such losses, if rarely",
            )
        })?;
        let width = (MEMORY / lost.len()).clamp(LEAST, 1 << 30) as u64;
        let width = width.min(set.block.div_ceil(self.options.threads as u64)).max(LEAST as u64);
        let width = width.next_multiple_of(GROUP as u64);
        let mut offsets = (0..set.block).step_by(width as usize);
        let solver = Solver { opened: self.opened, lost: &self.lost, good: &self.good, constants, equations };
        let work = |offset: u64| {
            let length = width.min(set.block - offset) as usize;
            solver.stripe(offset, length).map(|solved| (offset, solved))
        };
        parallel::each(
            self.options.threads,
            || offsets.next(),
            work,
            |(offset, solved)| {
                for (&(number, block), bytes) in lost.iter().zip(solved) {
                    let Some(draft) = drafts.get_mut(&number) else { continue };
                    let at = block as u64 * set.block + offset;
                    let length = set.members[number].size.saturating_sub(at).min(bytes.len() as u64) as usize;
                    draft.write(tree, &bytes[..length], at)?;
                }
                Ok(())
            },
        )
    }

    /// Proves a file and gives it its name.
    fn place(&mut self, number: usize, mut draft: Draft) -> Result<Mended, ParityError> {
        let Opened { tree, set, .. } = self.opened;
        let proof = Whole { opened: self.opened, member: &set.members[number] };
        draft.prove(tree, &proof)?;
        let (identity, has_links) = (draft.identity(), draft.has_links());
        if let Some(&other) = identity.and_then(|identity| self.linked.get(&identity)) {
            draft.link_to(tree, &set.members[other].path, &proof)?;
        }
        let mended = draft.place(tree, self.options.keep())?;
        if let Some(identity) = identity.filter(|_| has_links) {
            self.linked.entry(identity).or_insert(number);
        }
        Ok(mended)
    }
}

/// What a new file takes over: PAR2 records neither times nor owners.
fn piece_of(opened: &Opened, member: &Member) -> Piece {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = verisum_files::Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() };
    let stat = opened.tree.file(&member.path).ok().and_then(|(_, file)| verisum_files::Stat::of(&file).ok());
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Piece {
        path: member.path.clone(),
        size: member.size,
        modified: stat.map_or(now, |stat| time(stat.modified)),
        mode: 0o644,
        owner,
        offset: 0,
        length: 0,
    }
}

/// All of a file. Its blocks have an MD5 each, but only this one says that they are all, and this file's.
struct Whole<'a> {
    opened: &'a Opened,
    member: &'a Member,
}

impl Proof for Whole<'_> {
    fn proved(&self, _: &[u8], file: &File) -> Result<Option<u64>, ParityError> {
        let Member { size, md5, .. } = *self.member;
        let run = Run { file: Some(file), offset: 0, length: size, padded: size, md5 };
        let is_good = judge(&self.opened.md5, &[run])? == [true];
        Ok(is_good.then_some(size))
    }
}

/// Computes the same stripe of all lost blocks.
struct Solver<'a> {
    opened: &'a Opened,
    lost: &'a BTreeMap<usize, Vec<usize>>,
    good: &'a [usize],
    constants: Vec<u64>,
    equations: Equations,
}

impl Solver<'_> {
    fn stripe(&self, offset: u64, length: usize) -> Result<Vec<Vec<u8>>, ParityError> {
        let Opened { tree, set, .. } = self.opened;
        let field = Par2Field::get();
        let mut bytes = vec![0; length];
        let mut row = Row::new();
        let mut left: Vec<Row> = Vec::with_capacity(self.equations.used.len());
        let mut exponents = Vec::with_capacity(self.equations.used.len());
        for &used in &self.equations.used {
            let stored = &set.stored[self.good[used]];
            let file = set.volume(tree, stored.volume)?;
            let at = stored.recovery.offset() + offset;
            file.read_exact_at(&mut bytes, at)
                .map_err(|error| ParityError::io(&set.volumes[stored.volume].path, "read", error))?;
            field.read(&bytes, &mut row);
            left.push(row.clone());
            exponents.push(stored.recovery.exponent);
        }
        let none = Vec::new();
        let mut batch = Batch { exponents, left, rows: Vec::new(), used: 0, products: Products::new() };
        for (number, member) in set.members.iter().enumerate() {
            let lost = self.lost.get(&number).unwrap_or(&none);
            if lost.len() == member.blocks.len() {
                continue;
            }
            let (_, file) = tree.file(&member.path)?;
            for block in (0..member.blocks.len()).filter(|block| lost.binary_search(block).is_err()) {
                tree.go_on()?;
                let at = block as u64 * set.block + offset;
                let there = member.size.saturating_sub(at).min(length as u64) as usize;
                file.read_exact_at(&mut bytes[..there], at)
                    .map_err(|error| ParityError::io(&tree.path_of(&member.path), "read", error))?;
                bytes[there..].fill(0);
                batch.add(&bytes, self.constants[member.first + block]);
            }
        }
        batch.flush();
        let solved = self.equations.solve(batch.left, &mut batch.products);
        Ok(solved.iter().map(|row| field.write(row, length)).collect())
    }
}

/// Blocks that are there, taken off together: what is in the cache of a core is used for all of them.
struct Batch {
    exponents: Vec<u32>,
    /// What each recovery block has left.
    left: Vec<Row>,
    /// Blocks and their constants.
    rows: Vec<(Row, u64)>,
    used: usize,
    products: Products,
}

impl Batch {
    /// How many blocks are taken off together, and how many groups of each.
    const BLOCKS: usize = 16;
    const GROUPS: usize = (8 << 10) / GROUP;

    fn add(&mut self, bytes: &[u8], constant: u64) {
        if bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        if self.rows.len() == self.used {
            self.rows.push((Row::new(), 0));
        }
        let (row, its) = &mut self.rows[self.used];
        Par2Field::get().read(bytes, row);
        *its = constant;
        self.used += 1;
        if self.used == Batch::BLOCKS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let rows = &self.rows[..self.used];
        let groups = rows.first().map_or(0, |(row, _)| row.len());
        for first in (0..groups).step_by(Batch::GROUPS) {
            let range = first..groups.min(first + Batch::GROUPS);
            for (left, &exponent) in self.left.iter_mut().zip(&self.exponents) {
                for (row, constant) in rows {
                    let log = factor(*constant, exponent);
                    self.products.add(&mut left[range.clone()], &row[range.clone()], log);
                }
            }
        }
        self.used = 0;
    }
}
