//! `verisum dirhash inspect`: the directories of an ext4 image.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum_lab::dirhash::ext4::{DirectoryReport, Ext4, Opaque, ReadError, check};
use verisum_lab::export::{Cell, Report, Table};

use super::options;
use crate::commands::report::ReportOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{Output, names};

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
    report: ReportOptions,
}

/// So many inodes that cannot be read are shown.
const MOST_UNREAD: usize = 1000;

/// Reads and checks; damage found is a mismatch.
pub(crate) fn run(arguments: &InspectArgs, output: &mut Output) -> Result<Exit, Failure> {
    let failed = |error: ReadError| {
        let (operation, error) = match error {
            ReadError::Io { operation, error } => (operation, error),
            other => ("read", std::io::Error::other(other.to_string())),
        };
        Failure::File { name: arguments.image.clone(), operation, error }
    };
    let image = Ext4::open(&arguments.image).map_err(failed)?;
    let mut reports = Vec::new();
    let mut exit = Exit::Clean;
    let mut unread = Vec::new();
    let mut unreadable = 0;
    match &arguments.path {
        Some(path) => {
            let inode = image.find(path.as_bytes()).map_err(failed)?;
            let missing = || ReadError::Damaged("that is no directory".to_string());
            let directory = image.directory(inode).map_err(failed)?.ok_or_else(missing).map_err(failed)?;
            reports.push(check(&image, &directory).map_err(failed)?);
        }
        None => {
            for inode in 1..=image.inodes() {
                let found = match image.directory(inode) {
                    Ok(None) => continue,
                    Ok(Some(directory)) => check(&image, &directory),
                    Err(error) => Err(error),
                };
                match found {
                    // Of a large image's directories only what is shown is kept.
                    Ok(report) => reports.push(DirectoryReport { leaf_uses: Vec::new(), ..report }),
                    Err(error) => {
                        exit = exit.max(Exit::Unchecked);
                        unreadable += 1;
                        if unread.len() < MOST_UNREAD {
                            unread.push((inode, error.to_string()));
                        }
                    }
                }
            }
        }
    }
    let paths = paths(&reports);
    let path_of = |inode: u32| match (&arguments.path, paths.get(&inode)) {
        (Some(path), _) => names::quoted(path),
        (None, Some(path)) => names::quoted(OsStr::from_bytes(path)),
        (None, None) => "-".to_string(),
    };
    if reports.iter().any(|report| !report.findings.is_empty()) {
        exit = exit.max(Exit::Mismatch);
    }
    if reports.iter().any(|report| report.opaque == Some(Opaque::Encrypted) || report.unfolded > 0) {
        exit = exit.max(Exit::Unchecked);
    }
    reports.retain(|report| arguments.all || report.blocks > 1 || !report.findings.is_empty());
    let mut report = Report::new("Directories of an ext4 image");
    report.lines.push(format!(
        "hash seed {}, block size {}, {} directories shown",
        image.seed(),
        image.block_size(),
        reports.len()
    ));
    report.parameters = options::parameters("inspect", &[]);
    report.parameters.push(("image", names::quoted(arguments.image.as_os_str())));
    report.parameters.push(("seed", image.seed().to_string()));
    report.parameters.push(("block size", image.block_size().to_string()));
    report.tables.push(table(&reports, image.block_size(), &path_of));
    let mut damage = Table::new("Damage", &[("directory", ""), ("inode", ""), ("block", ""), ("what", "")]);
    for directory in &reports {
        for finding in &directory.findings {
            damage.row([
                Cell::Text(path_of(directory.inode)),
                Cell::Count(directory.inode.into()),
                Cell::Count(finding.block.into()),
                Cell::text(finding.what.as_str()),
            ]);
        }
    }
    for (inode, what) in unread {
        damage.row([Cell::Text(path_of(inode)), Cell::Count(inode.into()), Cell::Missing, Cell::Text(what)]);
    }
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
    if unreadable > MOST_UNREAD {
        report.lines.push(format!("the first {MOST_UNREAD} of {unreadable} unreadable inodes are shown"));
    }
    if !damage.rows.is_empty() {
        report.tables.push(damage);
    }
    arguments.report.show(&report, output)?;
    Ok(exit)
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
        &[
            ("directory", ""),
            ("inode", ""),
            ("hash", ""),
            ("levels", ""),
            ("names", ""),
            ("blocks", ""),
            ("fill", "%"),
            ("pieces", ""),
            ("blocks after e2fsck -fD", ""),
            ("damage", ""),
        ],
    );
    for report in reports {
        let leaves = report.leaves.max(1) as f64 * f64::from(block_size);
        table.row([
            Cell::Text(path_of(report.inode)),
            Cell::Count(report.inode.into()),
            Cell::text(match (report.hash, report.opaque) {
                (Some(hash), _) => hash.id,
                (None, Some(opaque)) => opaque.name(),
                (None, None) if report.indexed => "unknown",
                (None, None) => "none",
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
