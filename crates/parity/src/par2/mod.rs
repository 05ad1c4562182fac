//! PAR2: reads the recovery files of par2cmdline, MultiPar and others, and repairs with them.
//!
//! The format is that of Parity Volume Set Specification 2.0 (2003). Blocks are looked for where they were: a file
//! with bytes put in or taken out counts as damaged from there on.

mod field;
mod judge;
mod packet;
mod repair;
mod scan;
mod set;
mod solve;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use verisum_digest::Digest;
use verisum_files::{Progress, Stop};

use crate::tree::Tree;
use crate::{Finding, ParityError, ParityRepairOptions, ParityRepairSummary, ParityVerifyOptions, Verified};
use scan::{Par2FileState, Scan};
use set::Set;

/// An MD5.
type Md5 = [u8; 16];

/// A set of PAR2 files with the directory that they and their files are in.
struct Opened {
    tree: Tree,
    set: Set,
    md5: Digest,
}

fn open(file: &Path, progress: &Arc<Progress>, stop: &Arc<Stop>) -> Result<Opened, ParityError> {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let tree = Tree::open(folder, progress, stop)?;
    let md5 = Digest::find("md5")?;
    let set = Set::read(&tree, file.file_name().unwrap_or(OsStr::new("")), &md5)?;
    Ok(Opened { tree, set, md5 })
}

/// Compares the files of the set of a PAR2 file, and the set itself, with the recorded MD5.
pub fn verify_par2(
    file: &Path,
    options: &ParityVerifyOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Verified, ParityError> {
    let opened = open(file, &options.progress, &options.stop)?;
    let scan = Scan::new(&opened, options.threads)?;
    let can_be_repaired = scan.can_be_repaired();
    let mut totals = Verified { files: opened.set.members.len() as u64, ..Verified::default() };
    for finding in scan.of_volumes(&opened.set) {
        totals.parity_damaged += 1;
        report(finding);
    }
    for (member, state) in opened.set.members.iter().zip(scan.files) {
        totals.bytes += member.size;
        let is_beyond = !can_be_repaired && !state.lost().is_empty();
        match state {
            Par2FileState::Found { .. } if !state.is_bad(member) => continue,
            Par2FileState::Found { is_steady: true, .. } => totals.damaged += 1,
            Par2FileState::Missing { .. } => totals.missing += 1,
            _ => totals.unreadable += 1,
        }
        totals.beyond_repair += u64::from(is_beyond && state.is_wanted());
        report(Finding::of(&member.path, state.verdict(&opened.set, member, can_be_repaired)));
    }
    Ok(totals)
}

/// Mends the files of the set of a PAR2 file. The PAR2 files themselves stay as they are.
pub fn repair_par2(
    file: &Path,
    options: &ParityRepairOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<ParityRepairSummary, ParityError> {
    repair::repair(&open(file, &options.progress, &options.stop)?, options, report)
}
