//! `verisum dirhash inspect`: the directories of an ext4 image.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum_bench::export::{Cell, Report, Table};
use verisum_dirhash::ext4::{DirectoryReport, Ext4, InodeFault, ReadError, VolumeSurvey};

use super::options;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;
use crate::ui::{Output, names};

/// What `verisum dirhash inspect` takes.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// An ext2, ext3 or ext4 image or device; better not a mounted one
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: PathBuf,

    /// One directory in it; without it, all
    #[arg(value_name = "PATH")]
    path: Option<OsString>,

    /// Show directories of one block too
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// Reads and checks; damage found is a mismatch.
pub(crate) fn run(arguments: &InspectArgs, output: &mut Output) -> Result<Exit, Failure> {
    let failed = |error: ReadError| {
        let (operation, error) = match error {
            ReadError::Io { operation, error } => (operation, error),
            other => ("read", std::io::Error::other(other.to_string())),
        };
        Failure::File { name: arguments.image.clone(), operation, error }
    };
    if arguments.path.as_ref().is_some_and(|path| path.is_empty()) {
        return Err(Failure::Usage("PATH must not be empty; / is the root".to_string()));
    }
    let image = Ext4::open(&arguments.image).map_err(failed)?;
    let VolumeSurvey { mut reports, troubles, more_troubles, is_damaged, is_incomplete } =
        match &arguments.path {
            Some(path) => {
                let inode = image.find(path.as_bytes()).map_err(failed)?;
                let survey = VolumeSurvey::one(&image, inode);
                if survey.reports.is_empty()
                    && !survey.troubles.iter().any(|trouble| trouble.inode == Some(inode))
                {
                    return Err(failed(ReadError::Damaged("that is no directory".to_string())));
                }
                survey
            }
            None => VolumeSurvey::all(&image),
        };
    let exit = match (is_damaged, is_incomplete) {
        (true, _) => Exit::Mismatch,
        (false, true) => Exit::Unchecked,
        (false, false) => Exit::Clean,
    };
    let paths = paths(&reports);
    let asked_for = arguments.path.as_ref().zip(reports.first().map(|report| report.inode));
    let path_of = |inode: u32| match (asked_for, paths.get(&inode)) {
        (Some((path, one)), _) if one == inode => names::quoted(path),
        (_, Some(path)) => names::quoted(OsStr::from_bytes(path)),
        (_, None) => "-".to_string(),
    };
    let is_asked_for = arguments.all || arguments.path.is_some();
    let all = reports.len();
    reports.retain(|report| is_asked_for || report.blocks > 1 || damages(report) > 0);
    let mut report = Report::new("Directories of an ext4 image");
    let mut line = format!("hash seed {}, block size {}", image.seed(), image.block_size());
    if arguments.path.is_none() {
        let hidden = if reports.len() < all { "; the others have one block (--all)" } else { "" };
        line.push_str(&format!(", {} of {all} directories shown{hidden}", reports.len()));
    }
    report.lines.push(line);
    if image.needs_recovery() {
        let line = "the journal was not replayed: what looks like damage may be none";
        report.lines.push(line.to_string());
    }
    report.parameters = options::parameters("inspect", &[]);
    report.parameters.push(("image", names::quoted(arguments.image.as_os_str())));
    report.parameters.push(("seed", image.seed().to_string()));
    report.parameters.push(("block size", image.block_size().to_string()));
    report.tables.push(table(&reports, image.block_size(), &path_of));
    for directory in reports.iter().filter(|directory| directory.unfolded > 0) {
        report.lines.push(format!(
            "{}: {} names not checked: folding their letters needs tables of Unicode",
            path_of(directory.inode),
            directory.unfolded
        ));
    }
    for directory in reports.iter().filter(|directory| directory.more_findings > 0) {
        report.lines.push(format!(
            "{}: the first {} of {} damages are shown",
            path_of(directory.inode),
            directory.findings.len(),
            damages(directory)
        ));
    }
    if more_troubles > 0 {
        let (shown, all) = (troubles.len(), troubles.len() as u64 + more_troubles);
        report.lines.push(format!("the first {shown} of {all} damages of the file system are shown"));
    }
    let damage = damage_table(&reports, &troubles, &path_of);
    if !damage.rows.is_empty() {
        report.tables.push(damage);
    }
    arguments.report.show(&report, output)?;
    Ok(exit)
}

/// What is wrong, in directories and elsewhere.
fn damage_table(
    reports: &[DirectoryReport],
    troubles: &[InodeFault],
    path_of: &dyn Fn(u32) -> String,
) -> Table {
    let mut damage = Table::new("Damage", "directory; inode; block; what");
    for directory in reports {
        for finding in &directory.findings {
            damage.row([
                Cell::Text(path_of(directory.inode)),
                Cell::Count(directory.inode.into()),
                finding.block.map_or(Cell::Missing, |block| Cell::Count(block.into())),
                Cell::text(finding.what.as_str()),
            ]);
        }
    }
    for trouble in troubles {
        damage.row([
            trouble.inode.map_or(Cell::Missing, |inode| Cell::Text(path_of(inode))),
            trouble.inode.map_or(Cell::Missing, |inode| Cell::Count(inode.into())),
            Cell::Missing,
            Cell::text(trouble.what.as_str()),
        ]);
    }
    damage
}

/// The path of every directory to which a chain of directories leads from the root. In a damaged image two
/// may lead to the same: then one of them is it.
fn paths(reports: &[DirectoryReport]) -> HashMap<u32, Vec<u8>> {
    const ROOT: u32 = 2;
    /// The longest path that is put together; in a loop of directories they would have no end.
    const LONGEST: usize = 4096;
    let below: HashMap<u32, &DirectoryReport> = reports.iter().map(|report| (report.inode, report)).collect();
    let mut paths = HashMap::from([(ROOT, b"/".to_vec())]);
    let mut next = vec![ROOT];
    while let Some(inode) = next.pop() {
        let Some(report) = below.get(&inode) else { continue };
        let above = paths[&inode].clone();
        for (child, name) in &report.subdirectories {
            if !below.contains_key(child) || above.len() + name.len() >= LONGEST {
                continue;
            }
            if let Entry::Vacant(place) = paths.entry(*child) {
                let slash: &[u8] = if above.ends_with(b"/") { b"" } else { b"/" };
                place.insert([&above, slash, name].concat());
                next.push(*child);
            }
        }
    }
    paths
}

/// All that is wrong, also what is not shown.
fn damages(report: &DirectoryReport) -> u64 {
    report.findings.len() as u64 + report.more_findings
}

fn table(reports: &[DirectoryReport], block_size: u32, path_of: &dyn Fn(u32) -> String) -> Table {
    let mut table = Table::new(
        "",
        "directory; inode; hash; levels; names; blocks; fill (%); pieces; blocks after e2fsck -fD; damage",
    );
    for report in reports {
        let leaves = report.leaves.max(1) as f64 * f64::from(block_size);
        table.row([
            Cell::Text(path_of(report.inode)),
            Cell::Count(report.inode.into()),
            Cell::text(match report.hash {
                Some(hash) => hash.id,
                None if report.encrypted => "encrypted",
                None if report.inline => "in the inode",
                None if report.indexed => "unknown",
                None => "none",
            }),
            Cell::Count(report.levels.into()),
            Cell::Count(report.names),
            Cell::Count(report.blocks),
            Cell::Number(report.live_bytes as f64 * 100.0 / leaves, 1),
            Cell::Count(report.pieces),
            Cell::Count(report.blocks_if_rebuilt),
            Cell::Count(damages(report)),
        ]);
    }
    table
}
