//! `verisum dirhash bakeoff --real`: the same creates on mounted file systems, and what they cost.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use verisum_bench::export::{Cell, Report, Table};
use verisum_bench::stats::{self, RankedPair};
use verisum_dirhash::ext4::{self, Ext4};
use verisum_dirhash::htree::Geometry;
use verisum_dirhash::names::Names;
use verisum_dirhash::workload::{self, Act, Done, Spent, WorkloadError};
use verisum_dirhash::{HashedDirectory, Hashing};

use super::options;
use super::volume::{self, FileSystemKind, Volume};
use crate::ui::failure::Failure;
use crate::ui::signals::Ending;

/// The hashes that can be had on a mounted file system; those of XFS and Btrfs bring theirs.
pub(super) const ALL: [&str; 5] = ["legacy", "half_md4", "tea", "xfs", "btrfs"];

/// What is asked.
pub(super) struct Question<'a> {
    pub(super) names: &'a Names,
    /// The names, as the user wrote them.
    pub(super) pattern: &'a str,
    pub(super) count: u32,
    /// How many directories get so many names each.
    pub(super) directories: u32,
    /// Of ext4 alone.
    pub(super) geometry: Geometry,
    pub(super) rounds: u32,
}

/// The file system that has a hash.
pub(super) fn kind(hashing: &Hashing, geometry: Geometry) -> Result<FileSystemKind, Failure> {
    match hashing.hash.id {
        hash @ ("legacy" | "half_md4" | "tea") => {
            Ok(FileSystemKind::Ext4 { hash, seed: hashing.seed, geometry })
        }
        "xfs" => Ok(FileSystemKind::Xfs),
        "btrfs" => Ok(FileSystemKind::Btrfs),
        other => {
            Err(Failure::value("--hash", other, format!("with --real, must be one of {}", ALL.join(", "))))
        }
    }
}

/// What is timed, in this order.
const PHASES: [&str; 5] = ["create", "remount", "stat in reverse", "delete", "create again"];

/// A real directory, and its model where it has one.
#[derive(Default)]
struct RealDirectory {
    blocks: Option<u64>,
    bytes: Option<u64>,
    /// Part of the leaves' bytes that is used.
    fill: Option<f64>,
    names: u64,
    blocks_again: Option<u64>,
    model: Option<(u64, u64)>,
}

/// Runs all rounds, in each every file system, beginning with another one each time.
pub(super) fn run(question: &Question<'_>, hashings: &[Hashing]) -> Result<Report, Failure> {
    let kinds: Vec<FileSystemKind> =
        hashings.iter().map(|hashing| kind(hashing, question.geometry)).collect::<Result<_, _>>()?;
    volume::require(&kinds)?;
    let stop = Ending::new()?;
    let result = measure(question, &kinds, &stop);
    // Everything is unmounted and removed by now.
    stop.obey();
    let (found, times) = result?;
    let mut report = Report::new(format!(
        "Bakeoff on mounted file systems: {} creates of {} in {}, {} rounds",
        question.count,
        question.pattern,
        match question.directories {
            1 => "one directory".to_string(),
            many => format!("each of {many} directories"),
        },
        question.rounds
    ));
    for ((hashing, kind), found) in hashings.iter().zip(&kinds).zip(&found) {
        if let (FileSystemKind::Ext4 { .. }, Some(fill)) = (kind, found.fill) {
            report.lines.push(format!(
                "{}: {:.0} avg bytes filled per {}k block ({:.0}%)",
                hashing.hash.id,
                fill * f64::from(question.geometry.block_size()),
                question.geometry.block_size() / 1024,
                fill * 100.0
            ));
        }
    }
    report.lines.push(
        "The files lie in the page cache: no disk was measured. Real times include what else ran here."
            .to_string(),
    );
    report.lines.extend(options::too_few(question.rounds as usize, (kinds.len() - 1) * JUDGED.len()));
    report.lines.extend(load());
    let labels: Vec<String> = kinds
        .iter()
        .map(|kind| match kind {
            FileSystemKind::Ext4 { hash, .. } => format!("ext4 {hash}"),
            other => other.name().to_string(),
        })
        .collect();
    report.tables.push(directories(&labels, &found));
    report.tables.push(timings(&labels, &times));
    Ok(report)
}

/// How busy the machine was: then times say less.
fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().ok()?;
    Some(format!("Load average at the end: {load:.1}, on {processors} processors"))
}

/// Of each file system, each round's phases.
type Times = Vec<Vec<[Spent; 5]>>;

fn measure(
    question: &Question<'_>,
    kinds: &[FileSystemKind],
    stop: &Ending,
) -> Result<(Vec<RealDirectory>, Times), Failure> {
    let mut found: Vec<RealDirectory> = kinds.iter().map(|_| RealDirectory::default()).collect();
    let mut times: Times = vec![Vec::new(); kinds.len()];
    for round in 0..question.rounds as usize {
        for place in 0..kinds.len() {
            let place = (place + round) % kinds.len();
            let (what, spent) = one(question, kinds[place], stop)?;
            found[place] = what;
            times[place].push(spent);
        }
    }
    Ok((found, times))
}

/// One file system, from its making to its end.
fn one(
    question: &Question<'_>,
    kind: FileSystemKind,
    stop: &Ending,
) -> Result<(RealDirectory, [Spent; 5]), Failure> {
    let count = u64::from(question.count);
    let mut volume = Volume::new(kind, (count + 1) * u64::from(question.directories))?;
    let folders: Vec<PathBuf> = (0..question.directories)
        .map(|number| volume.path().join(if number == 0 { "d".to_string() } else { format!("d{number}") }))
        .collect();
    for folder in &folders {
        std::fs::create_dir(folder).map_err(|error| Failure::file(folder, "create", error))?;
    }
    let names = question.names;
    let mut create = Spent::default();
    // An index is full in all directories or in none: the names are the same.
    let mut made = count;
    for folder in &folders {
        let done = perform(folder, Act::Create, names, 0..made, stop)?;
        create += done.spent;
        made = done.names;
    }
    let (blocks, bytes) = length(&folders[0], kind)?;
    let mut found = RealDirectory { blocks, bytes, names: made, ..RealDirectory::default() };

    let started = Instant::now();
    volume.unmount()?;
    let mut remount = started.elapsed();
    if matches!(kind, FileSystemKind::Ext4 { .. }) {
        look(&volume.image(), question, made, &mut found)?;
    }
    let started = Instant::now();
    volume.mount()?;
    remount += started.elapsed();

    let (mut stat, mut delete, mut again) = (Spent::default(), Spent::default(), Spent::default());
    for folder in folders.iter().rev() {
        stat += perform(folder, Act::Stat, names, (0..made).rev(), stop)?.spent;
    }
    for folder in &folders {
        delete += perform(folder, Act::Delete, names, 0..made, stop)?.spent;
    }
    for folder in &folders {
        again += perform(folder, Act::Create, names, 0..made, stop)?.spent;
    }
    found.blocks_again = length(&folders[0], kind)?.0;
    volume.remove()?;
    let remount = Spent { real: remount, ..Spent::default() };
    Ok((found, [create, remount, stat, delete, again]))
}

/// As [`workload::perform`], with the failures of this program.
pub(super) fn perform(
    folder: &Path,
    act: Act,
    names: &Names,
    numbers: impl Iterator<Item = u64>,
    stop: &Ending,
) -> Result<Done, Failure> {
    workload::perform(folder, act, names, numbers, stop.asked()).map_err(|error| {
        let (operation, error) = match error {
            WorkloadError::System { operation, error } => (operation, error),
            WorkloadError::Stopped => ("measure", std::io::ErrorKind::Interrupted.into()),
        };
        Failure::File { name: folder.to_path_buf(), operation, error }
    })
}

/// Blocks and bytes of a directory, where its file system tells.
pub(super) fn length(folder: &Path, kind: FileSystemKind) -> Result<(Option<u64>, Option<u64>), Failure> {
    let status = std::fs::metadata(folder).map_err(|error| Failure::file(folder, "stat", error))?;
    Ok(match kind {
        FileSystemKind::Ext4 { geometry, .. } => {
            (Some(status.len() / u64::from(geometry.block_size())), Some(status.len()))
        }
        FileSystemKind::Xfs => {
            (Some(status.blocks() * 512 / status.blksize().max(1)), Some(status.blocks() * 512))
        }
        // Its names lie in the tree of all files.
        FileSystemKind::Btrfs => (None, None),
    })
}

/// Reads the directory from the unmounted image, and lets the model do the same.
fn look(image: &Path, question: &Question<'_>, names: u64, found: &mut RealDirectory) -> Result<(), Failure> {
    let failed =
        |error: ext4::ReadError| Failure::file(image, "read", std::io::Error::other(error.to_string()));
    let ext4 = Ext4::open(image).map_err(failed)?;
    let inode = ext4.find(b"/d").map_err(failed)?;
    let Some(directory) = ext4.directory(inode).map_err(failed)? else { return Ok(()) };
    let report = ext4::check(&ext4, &directory).map_err(failed)?;
    if let Some(finding) = report.findings.first() {
        return Err(failed(ext4::ReadError::Damaged(finding.what.clone())));
    }
    let leaves = report.leaves * u64::from(ext4.block_size());
    found.fill = Some(report.live_bytes as f64 / leaves as f64);
    let Some(hash) = ext4.new_hash() else { return Ok(()) };
    let mut model = HashedDirectory::new(Hashing { hash, seed: ext4.seed() }, question.geometry);
    let mut buffer = Vec::new();
    let mut create = |model: &mut HashedDirectory| {
        for number in 0..names {
            // What was full in the kernel may be full here.
            let _ = model.create(question.names.name(number, &mut buffer), number as u32);
        }
        model.tree.blocks()
    };
    let first = create(&mut model);
    let mut buffer = Vec::new();
    for number in 0..names {
        model.delete(question.names.name(number, &mut buffer), number as u32);
    }
    found.model = Some((first, create(&mut model)));
    Ok(())
}

fn directories(labels: &[String], found: &[RealDirectory]) -> Table {
    let mut table = Table::new(
        "Directories",
        "file system; names; blocks; model (blocks); fill (%); a name (bytes); created again (blocks); \
         model of that (blocks); verdict",
    );
    let count = |number: Option<u64>| number.map_or(Cell::Missing, Cell::Count);
    for (label, found) in labels.iter().zip(found) {
        let same = found.model.map(|(first, again)| {
            let equal = (found.blocks, found.blocks_again) == (Some(first), Some(again));
            Cell::text(if equal { "exact" } else { "DIFFERS" })
        });
        table.row([
            Cell::text(label),
            Cell::Count(found.names),
            count(found.blocks),
            count(found.model.map(|model| model.0)),
            found.fill.map_or(Cell::Missing, |fill| Cell::Number(fill * 100.0, 1)),
            found
                .bytes
                .map_or(Cell::Missing, |bytes| Cell::Number(bytes as f64 / found.names.max(1) as f64, 1)),
            count(found.blocks_again),
            count(found.model.map(|model| model.1)),
            same.unwrap_or(Cell::Missing),
        ]);
    }
    table
}

/// Of the processor's time, which is what verdicts are given by; that of remounting is other programs'.
const JUDGED: [usize; 4] = [0, 2, 3, 4];

fn seconds(rounds: &[[Spent; 5]], phase: usize, which: fn(&Spent) -> Duration) -> Vec<f64> {
    rounds.iter().map(|round| which(&round[phase]).as_secs_f64()).collect()
}

fn timings(labels: &[String], times: &Times) -> Table {
    let mut table = Table::new(
        format!("Times: the median of the rounds, and processor times against {} by rounds", labels[0]),
        "phase; file system; user (s); system (s); real (s); real from (s); real to (s); processor (s); \
         ratio; ratio from; ratio to; by processor time",
    );
    let group = |phase: &usize| -> Vec<Vec<f64>> {
        times.iter().map(|rounds| seconds(rounds, *phase, |spent| spent.processor)).collect()
    };
    let pairs = stats::beside_first(&JUDGED.iter().map(group).collect::<Vec<_>>());
    for (phase, name) in PHASES.iter().enumerate() {
        for (place, (label, rounds)) in labels.iter().zip(times).enumerate() {
            let real = stats::interval(&seconds(rounds, phase, |spent| spent.real));
            let judged = JUDGED.iter().position(|&judged| judged == phase);
            let of_own = |which: fn(&Spent) -> Duration, digits| match judged {
                Some(_) => Cell::Number(stats::median(&seconds(rounds, phase, which)), digits),
                None => Cell::Missing,
            };
            let pair = judged.and_then(|group| Some(&pairs[group][place.checked_sub(1)?]));
            let ratio =
                |of: fn(&RankedPair) -> f64| pair.map_or(Cell::Missing, |pair| Cell::Number(of(pair), 3));
            table.row([
                Cell::text(*name),
                Cell::text(label),
                of_own(|spent| spent.user, 2),
                of_own(|spent| spent.system, 2),
                Cell::Number(real.median, 3),
                Cell::Number(real.low, 3),
                Cell::Number(real.high, 3),
                of_own(|spent| spent.processor, 3),
                ratio(|pair| pair.ratio.median),
                ratio(|pair| pair.ratio.low),
                ratio(|pair| pair.ratio.high),
                pair.map_or(Cell::Missing, |pair| Cell::text(pair.verdict.name())),
            ]);
        }
    }
    table
}
