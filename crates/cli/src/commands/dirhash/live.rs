//! `verisum dirhash live`: a mounted directory's hashes.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum_bench::export::{Cell, Report, Table};
use verisum_dirhash::ext4::{Ext4, LeafUse, check};
use verisum_dirhash::htree::Geometry;
use verisum_dirhash::live::{self, LiveError};

use super::options;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;
use crate::ui::{Output, names, shell};

/// What `verisum dirhash live` takes.
#[derive(Args, Debug)]
pub(crate) struct LiveArgs {
    /// Show every name, quoted for a shell, with its hash and minor hash
    #[arg(long)]
    list: bool,

    /// Show the fill of every leaf; needs root, to read the index from the device
    #[arg(long)]
    leaves: bool,

    /// A directory on a mounted ext4; no privileges are needed
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// Reads the directory.
pub(crate) fn run(arguments: &LiveArgs, output: &mut Output) -> Result<Exit, Failure> {
    let found = live::read(&arguments.directory).map_err(|error| match error {
        LiveError::System { operation, error } => {
            Failure::File { name: arguments.directory.clone(), operation, error }
        }
        other => {
            Failure::file(&arguments.directory, "read the hashes", std::io::Error::other(other.to_string()))
        }
    })?;
    let blocks = found.size.div_ceil(found.block_size.max(1));
    let live: u64 =
        found.entries.iter().map(|entry| u64::from(Geometry::record_size(entry.name.len()))).sum();
    let mut colliding = 0;
    let mut most = 0;
    for run in found.entries.chunk_by(|a, b| a.hash == b.hash) {
        most = most.max(run.len());
        colliding += if run.len() > 1 { run.len() } else { 0 };
    }
    let file_system = found.file_system();
    let seed = file_system.as_ref().map(Ext4::seed);
    let unsigned = file_system.as_ref().map(Ext4::has_unsigned_characters);
    let hashes: Vec<&str> = found.hashes(seed, unsigned).iter().map(|hash| hash.id).collect();
    let hash = match (hashes.is_empty(), seed) {
        (false, _) => hashes.join(" or "),
        (true, Some(_)) => "unknown".to_string(),
        (true, None) => "unknown: the seed cannot be read".to_string(),
    };
    let index = file_system.and_then(|ext4| {
        let directory = ext4.directory(u32::try_from(found.inode).ok()?).ok()??;
        Some(check(&ext4, &directory).ok()?.leaf_uses)
    });
    let leaves = index.as_ref().map_or(found.most_leaves(), |index| index.len() as u64);
    let mut table = Table::new(
        "",
        "names; blocks; block size (bytes); hash; indexed; needed (bytes); fill (%); colliding (names); \
         most of one hash",
    );
    table.row([
        Cell::Count(found.entries.len() as u64),
        Cell::Count(blocks),
        Cell::Count(found.block_size),
        Cell::Text(hash),
        Cell::text(if found.indexed { "yes" } else { "no" }),
        Cell::Count(live),
        Cell::Number(live as f64 * 100.0 / (leaves * found.block_size).max(1) as f64, 1),
        Cell::Count(colliding as u64),
        Cell::Count(most as u64),
    ]);
    let mut report = Report::new(names::quoted(arguments.directory.as_os_str()));
    report.parameters = options::parameters("live", &[]);
    report.parameters.push(("directory", report.title.clone()));
    report.tables.push(table);
    if arguments.leaves {
        let index = index.ok_or_else(|| {
            Failure::file(&arguments.directory, "read the index", rustix::io::Errno::ACCESS.into())
        })?;
        let mut table = Table::new("Leaves", "block; from hash; names; fill (%)");
        for (leaf, used) in index.iter().zip(found.leaf_uses(&index)) {
            let fill = |used: LeafUse| f64::from(used.live_bytes) * 100.0 / found.block_size.max(1) as f64;
            table.row([
                Cell::Count(leaf.block.into()),
                Cell::Text(format!("0x{:08x}", leaf.key)),
                used.map_or(Cell::Missing, |used| Cell::Count(used.names.into())),
                used.map_or(Cell::Missing, |used| Cell::Number(fill(used), 1)),
            ]);
        }
        report.tables.push(table);
    }
    if arguments.list {
        let mut list = Table::new("Names", "hash; minor; name");
        for entry in found.entries {
            list.row([
                Cell::Text(format!("0x{:08x}", entry.hash)),
                Cell::Text(format!("0x{:08x}", entry.minor)),
                Cell::Text(shell::word(&entry.name)),
            ]);
        }
        report.tables.push(list);
    }
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}
