//! Measures digests in memory on files like those of the tree, as `sum` would compute them.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::MemfdFlags;
use rustix::process::{Resource, getrlimit};
use verisum_digest::{Digest, Policy};
use verisum_files::{Entry, Job, Plan, hash};

use super::{Cost, Purpose, TreeLoad};
use crate::measure::{About, InProcess, MeasureError, Subject};
use crate::record::Series;
use crate::stats::{difference, fewest_rounds_of};

/// The groups of the rows.
const SMALL: &str = "small files";
const LARGE: &str = "large files";

/// The length of the blocks of an image, and of the sectors of a file system.
const BLOCK: usize = 64 << 10;
const SECTOR: usize = 4 << 10;

/// Files in memory, as many and as long as suits the tree.
#[derive(Debug)]
pub struct FileSample {
    small: Vec<(File, Entry)>,
    /// How many small files a repetition hashes: each several times.
    small_jobs: usize,
    small_length: u64,
    large: Vec<(File, Entry)>,
    large_length: u64,
}

impl FileSample {
    /// Makes them, of about so many bytes each kind.
    pub fn new(load: &TreeLoad, bytes: u64) -> Result<FileSample, MeasureError> {
        let mut sample = FileSample {
            small: Vec::new(),
            small_jobs: 0,
            small_length: 0,
            large: Vec::new(),
            large_length: 0,
        };
        let most = open_files() / 4;
        if let Some(mean) = load.small_bytes.checked_div(load.small_files) {
            sample.small_length = mean;
            // Few open files; each is hashed several times.
            sample.small = files(load.small_files.min(128).min(most), sample.small_length)?;
            sample.small_jobs = (bytes / 4 / sample.small_length.max(1)).clamp(128, 4096) as usize;
        }
        if let Some(mean) = load.large_bytes.checked_div(load.large_files) {
            let count = load.large_files.min(64).min(most);
            sample.large_length = mean.min(bytes / count).max(SECTOR as u64);
            sample.large = files(count, sample.large_length)?;
        }
        Ok(sample)
    }
}

/// How many files this process may still open: the engine needs some too. At least a few.
fn open_files() -> u64 {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    most.saturating_sub(open).max(4)
}

fn files(count: u64, length: u64) -> Result<Vec<(File, Entry)>, MeasureError> {
    let content: Vec<u8> = (0..length).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect();
    let make = |_| {
        let failed = |error| MeasureError::io(Path::new("memory"), "create a file", error);
        let file = rustix::fs::memfd_create("sample", MemfdFlags::CLOEXEC);
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        file.write_all(&content).map_err(failed)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let entry = Entry::followed(Path::new(&path))
            .map_err(|error| MeasureError::Unavailable(format!("files in memory: {error}")))?;
        Ok((file, entry))
    };
    (0..count).map(make).collect()
}

/// The row of files that are opened, read and closed, and of which no digest is computed.
const NO_DIGEST: &str = "open and read, no digest";

/// The row of pieces of memory of which none is computed: they are not even looked at.
const NULL: &str = "null digest";

/// A row for each candidate and kind of files, and one without a digest as a control.
pub fn subjects<'a>(
    purpose: Purpose,
    sample: &'a FileSample,
    policy: &Policy,
    threads: usize,
) -> Vec<Box<dyn Subject + 'a>> {
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    let names = purpose.candidates().iter().map(|candidate| candidate.id).chain(["null"]);
    for name in names {
        let Ok(digest) = Digest::find_with(name, policy) else { continue };
        for (group, files, jobs, length) in [
            (SMALL, &sample.small, sample.small_jobs, sample.small_length),
            (LARGE, &sample.large, sample.large.len(), sample.large_length),
        ] {
            if files.is_empty() {
                continue;
            }
            let (control, in_files) = (name == "null", pieces_of(purpose).is_none());
            let shown = match (control, in_files) {
                (true, true) => NO_DIGEST,
                (true, false) => NULL,
                (false, _) => name,
            };
            let mut about = About::new(group, shown);
            about = if control && !in_files { about } else { about.bytes(jobs as u64 * length) };
            about.control = control;
            about = about.label("files", jobs.to_string()).label("threads", threads.to_string());
            let Some((piece, batch)) = pieces_of(purpose) else {
                subjects.push(InProcess::new(about, engine(files, jobs, &digest, threads)).boxed());
                continue;
            };
            let digest = digest.clone();
            let bytes = (jobs as u64 * length) as usize;
            about = about.label("pieces", piece.to_string());
            subjects
                .push(InProcess::new(about, move || pieces(&digest, bytes, piece, batch, threads)).boxed());
        }
    }
    subjects
}

/// How long the pieces are that are hashed, and whether side by side; none where whole files are.
const fn pieces_of(purpose: Purpose) -> Option<(usize, bool)> {
    match purpose {
        Purpose::Image => Some((BLOCK, true)),
        Purpose::Filesystem => Some((SECTOR, false)),
        Purpose::Bitrot | Purpose::Tamper | Purpose::Backup | Purpose::Dedup => None,
    }
}

/// Hashes files as `verisum sum` does.
fn engine<'a>(
    files: &'a [(File, Entry)],
    jobs: usize,
    digest: &Digest,
    threads: usize,
) -> impl FnMut() -> Result<(), MeasureError> + 'a {
    let plan = Plan::new(vec![vec![digest.clone()]], threads);
    move || {
        let failed = AtomicBool::new(false);
        let mut jobs =
            files.iter().cycle().take(jobs).map(|(_, entry)| Job { entry: entry.clone(), set: 0, token: () });
        hash(&plan, &mut jobs, &|hashed| {
            failed.fetch_or(hashed.result.is_err(), Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        match failed.into_inner() {
            true => Err(MeasureError::Unavailable("a file in memory cannot be hashed".to_string())),
            false => Ok(()),
        }
    }
}

/// Hashes blocks side by side, or sectors one after the other, on some threads.
fn pieces(
    digest: &Digest,
    bytes: usize,
    piece: usize,
    batch: bool,
    threads: usize,
) -> Result<(), MeasureError> {
    let each = (bytes / threads.max(1)).max(piece);
    let work = || -> Result<(), MeasureError> {
        // 1 MiB at a time, as the block hash reads it.
        let buffer = vec![7_u8; 1 << 20];
        let messages: Vec<&[u8]> = buffer.chunks_exact(piece).collect();
        let mut outputs = vec![0; messages.len() * digest.len()];
        let mut context = digest.batch()?;
        let mut stream = digest.stream()?;
        let mut left = each;
        while left > 0 {
            let count = messages.len().min(left.div_ceil(piece));
            if batch {
                context.hash(&messages[..count], &mut outputs[..count * digest.len()])?;
            } else {
                for message in &messages[..count] {
                    stream.update(message)?;
                    stream.finish(&mut outputs[..digest.len()])?;
                }
            }
            left = left.saturating_sub(count * piece);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for other in others {
            result = result.and(other.join().unwrap_or(Err(MeasureError::Stopped)));
        }
        result
    })
}

/// What a candidate costs, from its rows; `None` where one that the tree needs has no times.
pub fn cost(name: &str, series: &[Series], load: &TreeLoad) -> Option<Cost> {
    let time = |group: &str| {
        let one = series.iter().find(|one| one.name == name && one.group == group)?;
        let files = one.labels.get("files")?.parse::<f64>().ok()?;
        Some((one.time()?.median / files, one.time()?.median / one.bytes.max(1) as f64))
    };
    Some(Cost {
        small_file: if load.small_files > 0 { time(SMALL)?.0 } else { 0.0 },
        large_byte: if load.large_files > 0 { time(LARGE)?.1 } else { 0.0 },
    })
}

/// Whether a candidate surely took longer than the same without a digest, from its rows: where too few rounds
/// say it, or the difference may be nothing, the difference is no rate.
pub fn is_resolved(name: &str, purpose: Purpose, series: &[Series], load: &TreeLoad) -> bool {
    // The least seconds that hashing all files of a kind takes.
    let least = |group: &str| {
        let there = if group == SMALL { load.small_files } else { load.large_files };
        if there == 0 {
            return Some(0.0);
        }
        let of = |name: &str| {
            let mut found = series.iter().filter(|one| one.name == name && one.group == group);
            found.next().filter(|one| one.wall.len() >= fewest_rounds_of(1))
        };
        let one = of(name)?;
        let seconds = match purpose.opens_files() {
            true => difference(&one.wall, &of(NO_DIGEST)?.wall).low,
            false => one.time()?.low,
        };
        let share = match group {
            SMALL => there as f64 / one.labels.get("files")?.parse::<f64>().ok()?,
            _ => load.large_bytes as f64 / one.bytes.max(1) as f64,
        };
        Some(seconds * share)
    };
    let (small, large) = (least(SMALL), least(LARGE));
    small.zip(large).is_some_and(|(small, large)| small + large > 0.0)
}

/// What opening, reading and closing files in memory costs, from its rows; `None` where no file is opened, and
/// where it has no times.
pub fn opening(series: &[Series], load: &TreeLoad) -> Option<Cost> {
    cost(NO_DIGEST, series, load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{MeasureAmount, MeasurePlan, measure};

    #[test]
    fn every_purpose_is_measured_on_both_kinds_of_files() {
        let load = TreeLoad {
            files: 300,
            bytes: 300_000 + 900_000,
            small_files: 297,
            small_bytes: 300_000,
            large_files: 3,
            large_bytes: 900_000,
            large_stored: 900_000,
            empty_files: 0,
            complete: true,
            unreadable: 0,
        };
        let sample = FileSample::new(&load, 1 << 20).unwrap();
        for purpose in [Purpose::Bitrot, Purpose::Image, Purpose::Filesystem] {
            let mut subjects = subjects(purpose, &sample, &Policy::default(), 2);
            assert_eq!(subjects.len(), 2 * (purpose.candidates().len() + 1));
            let plan = MeasurePlan {
                amount: MeasureAmount::Rounds(1),
                least: std::time::Duration::ZERO,
                ..MeasurePlan::default()
            };
            let series = measure(&mut subjects, &plan, &mut ());
            for candidate in purpose.candidates() {
                let cost = cost(candidate.id, &series, &load).unwrap();
                assert!(cost.small_file > 0.0 && cost.large_byte > 0.0);
            }
            assert_eq!(cost("md5", &series, &load), None);
            // One round says nothing of a difference.
            assert!(!is_resolved("sha256", purpose, &series, &load));
            let often = |one: &Series| Series { wall: vec![one.wall[0]; 6], ..one.clone() };
            let mut series_often: Vec<Series> = series.iter().map(often).collect();
            let longer = |one: &mut Series| one.wall.fill(10.0);
            series_often.iter_mut().filter(|one| one.name == "sha256").for_each(longer);
            assert!(is_resolved("sha256", purpose, &series_often, &load));
            series_often.iter_mut().filter(|one| one.name == NO_DIGEST).for_each(longer);
            assert_eq!(is_resolved("sha256", purpose, &series_often, &load), !purpose.opens_files());
            assert_eq!(opening(&series, &load).is_some(), purpose == Purpose::Bitrot);
            // What looks at no byte has no rate.
            assert!(series.iter().all(|one| one.name != NULL || one.rate().is_none()));
        }
    }
}
