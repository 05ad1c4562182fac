//! Measures how fast files come from their device, with the engine that hashes trees and a digest that
//! computes nothing.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, Mode, OFlags};
use verisum_digest::Digest;
use verisum_files::{Entry, FileError as TreeError, Job, Operation, Plan, Stop, hash};

use super::survey::SMALL;
use super::{Cost, TreeLoad};
use crate::measure::MeasureError;
use crate::stats::{fewest_rounds_of, interval, median};
use crate::system;

/// The most bytes that are read at once: they displace others from the cache.
const MOST: u64 = 1 << 27;

/// How often the files are read, so that it is seen how much that differs: as many as an interval needs, and
/// two more.
const PASSES: u32 = 8;

/// What was read of one kind of files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Read {
    /// Files that were read to their end.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
    /// Bytes of the files that were to be read, without their holes; the time may end before all are.
    pub wanted: u64,
    /// Bytes of these files that stayed in memory although they were to be dropped.
    pub resident: u64,
    /// Bytes of files of which the kernel does not say whether they did.
    pub unknown: u64,
    /// Files that could not be read.
    pub failed: u64,
}

/// What is known of the device.
#[derive(Clone, Debug, Default)]
pub struct Device {
    /// Small files, all passes together.
    pub small: Read,
    /// Large files, all passes together.
    pub large: Read,
    /// Seconds for a small file in each pass.
    pub small_file: Vec<f64>,
    /// Seconds for a byte of large files in each pass.
    pub large_byte: Vec<f64>,
}

impl Device {
    /// What passes over small and large files found. What was just written stays in memory until the kernel
    /// wrote it: where other passes came from the device, those from memory say nothing of it.
    pub fn of(small: &[Read], large: &[Read]) -> Device {
        let counted = |passes: &[Read]| -> (Read, Vec<Read>) {
            let read = passes.iter().filter(|read| read.bytes > 0);
            let some_cold = read.clone().any(|read| !read.is_from_memory());
            let kept: Vec<Read> =
                read.filter(|read| !(some_cold && read.is_from_memory())).copied().collect();
            let mut all = Read::default();
            kept.iter().for_each(|read| all.add(read));
            // A file that cannot be read fails in every pass.
            all.failed = passes.iter().map(|read| read.failed).max().unwrap_or(0);
            (all, kept)
        };
        let [(small, of_small), (large, of_large)] = [counted(small), counted(large)];
        let seconds = |read: &Read, count: u64| read.time.as_secs_f64() / count as f64;
        Device {
            small,
            large,
            small_file: of_small
                .iter()
                .filter(|read| read.files > 0)
                .map(|read| seconds(read, read.files))
                .collect(),
            large_byte: of_large.iter().map(|read| seconds(read, read.bytes)).collect(),
        }
    }

    /// What reading costs these files, the medians. `None` where nothing was read of what there is.
    pub fn cost(&self, load: &TreeLoad) -> Option<Cost> {
        let of = |there: bool, times: &[f64]| match there {
            true => (!times.is_empty()).then(|| median(times)),
            false => Some(0.0),
        };
        let small_file = of(load.small_files > 0, &self.small_file)?;
        let large_byte = of(load.large_stored > 0, &self.large_byte)?;
        Some(Cost { small_file, large_byte })
    }

    /// Within what that lies; `None` of too few passes to say it.
    pub fn range(&self, load: &TreeLoad) -> Option<[Cost; 2]> {
        let of = |there: bool, times: &[f64]| match there {
            true if times.len() < fewest_rounds_of(1) => None,
            true => Some(interval(times)).map(|found| [found.low, found.high]),
            false => Some([0.0; 2]),
        };
        let small = of(load.small_files > 0, &self.small_file)?;
        let large = of(load.large_stored > 0, &self.large_byte)?;
        Some([0, 1].map(|at| Cost { small_file: small[at], large_byte: large[at] }))
    }

    /// Whether what was read came from memory for a good part; `None` where the kernel does not say.
    pub fn from_memory(&self) -> Option<bool> {
        let mut both = self.small;
        both.add(&self.large);
        match both.is_from_memory() {
            true => Some(true),
            false => (both.unknown * 10 <= both.wanted).then_some(false),
        }
    }
}

impl Read {
    fn add(&mut self, other: &Read) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.time += other.time;
        self.wanted += other.wanted;
        self.resident += other.resident;
        self.unknown += other.unknown;
    }

    /// Whether a good part of it did not come from the device.
    fn is_from_memory(&self) -> bool {
        self.resident * 10 > self.wanted
    }
}

/// Reads files cold as [`read_cold`], again and again until a moment, or somebody's wish: each pass has its
/// share of the time and begins with another file.
pub fn read_often(
    files: &[PathBuf],
    threads: usize,
    until: Instant,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Read>, MeasureError> {
    let mut found = Vec::new();
    let mut files = files.to_vec();
    for left in (1..=PASSES).rev() {
        let now = Instant::now();
        if files.is_empty() || stopped() || (now >= until && !found.is_empty()) {
            break;
        }
        let share = now + until.saturating_duration_since(now) / left;
        let read = read_cold(&files, threads, share, stopped)?;
        if found.is_empty() && read.is_from_memory() {
            wait_until_written(&files, share.min(now + WRITING), stopped);
        }
        found.push(read);
        let step = files.len().div_ceil(PASSES as usize);
        files.rotate_left(step);
    }
    Ok(found)
}

/// The longest that is waited for files that were just written to be on their device.
const WRITING: Duration = Duration::from_secs(1);

/// Waits until the kernel lets go of all files, a moment, or somebody's wish.
fn wait_until_written(files: &[PathBuf], until: Instant, stopped: &dyn Fn() -> bool) {
    for path in files {
        while drop_pages(path).is_ok_and(|left| left.is_some_and(|bytes| bytes > 0)) {
            if stopped() || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Puts files out of the cache, without writing anything and without rights, and reads them until their
/// end, a moment, or somebody's wish.
pub fn read_cold(
    files: &[PathBuf],
    threads: usize,
    until: Instant,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Read, MeasureError> {
    let mut found = Read::default();
    let (mut size, mut stored) = (0, 0);
    let mut entries = Vec::new();
    for path in files {
        if stopped() || Instant::now() >= until {
            break;
        }
        let ready = || -> Result<_, TreeError> {
            let (left, entry) = (drop_pages(path)?, Entry::named(path)?);
            Ok((left, entry.stat()?, entry))
        };
        match ready() {
            Ok((left, stat, entry)) => {
                found.resident += left.unwrap_or(0);
                found.unknown += if left.is_none() { stat.size } else { 0 };
                size += stat.size;
                stored += stat.size.min(stat.stored);
                entries.push(entry);
            }
            Err(_) => found.failed += 1,
        }
    }
    let entries_count = entries.len() as u64;
    let stop = Arc::new(Stop::default());
    let mut plan = Plan::new(vec![vec![Digest::find("null")?]], threads);
    plan.stop = stop.clone();
    let progress = plan.progress.clone();
    let ended = AtomicBool::new(false);
    let (read, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    let mut time = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if stopped() || Instant::now() >= until || progress.bytes() >= MOST {
                    stop.request();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut jobs = entries.into_iter().map(|entry| Job { entry, set: 0, token: () });
        hash(&plan, &mut jobs, &|hashed| {
            let lost = hashed.result.as_ref().is_err_and(|error| !matches!(error, TreeError::Stopped { .. }));
            read.fetch_add(u64::from(hashed.result.is_ok()), Ordering::Relaxed);
            failed.fetch_add(u64::from(lost), Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        time = started.elapsed();
        ended.store(true, Ordering::Relaxed);
    });
    found.files = read.into_inner();
    found.failed += failed.into_inner();
    // Small files may lie beside their names, in no block of their own.
    let is_large = size > entries_count * SMALL;
    let part = if is_large { stored as f64 / size as f64 } else { 1.0 };
    found.bytes = (progress.bytes() as f64 * part) as u64;
    found.wanted = if is_large { stored } else { size };
    found.time = time;
    Ok(found)
}

/// Returns how much stayed, if the kernel says it. A pipe that took the file's place is not waited for.
fn drop_pages(path: &Path) -> Result<Option<u64>, TreeError> {
    let failed =
        |source| TreeError::Io { path: path.to_path_buf(), operation: Operation::Open, offset: None, source };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| failed(error.into()))?);
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(TreeError::NotAFile { path: path.to_path_buf() });
    }
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    // Whole pages, which may be more than the file.
    Ok(system::resident(file.as_fd(), about.len()).ok().map(|left| left.min(about.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_what_is_missing_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut files: Vec<PathBuf> = (0..20).map(|n| folder.path().join(n.to_string())).collect();
        for file in &files {
            std::fs::write(file, vec![7; 5000]).unwrap();
        }
        files.push(folder.path().join("missing"));
        let until = Instant::now() + Duration::from_secs(60);
        let read = read_cold(&files, 2, until, &|| false).unwrap();
        assert_eq!((read.files, read.bytes, read.failed), (20, 100_000, 1));
        assert!(read.time > Duration::ZERO && read.resident <= 100_000);
        assert_eq!(read_cold(&files, 2, until, &|| true).unwrap().files, 0);
        let passes = read_often(&files, 2, until, &|| false).unwrap();
        assert_eq!(passes.len(), PASSES as usize);
        let device = Device::of(&passes, &[]);
        assert!(
            device.small.files >= 20 && device.small.files.is_multiple_of(20) && device.small.failed == 1
        );
        let load = TreeLoad { small_files: 20, ..TreeLoad::default() };
        assert!(device.cost(&load).unwrap().small_file > 0.0);
        assert_eq!(device.cost(&TreeLoad { large_stored: 1, ..load }), None);
    }

    fn pass(seconds: u64, resident: u64, unknown: u64) -> Read {
        let time = Duration::from_secs(seconds);
        Read { files: 1, bytes: 100, wanted: 100, time, resident, unknown, failed: 0 }
    }

    #[test]
    fn what_was_just_written_is_left_out_where_the_rest_came_from_the_device() {
        let mut passes = vec![pass(5, 0, 0); 7];
        passes.insert(0, pass(1, 100, 0));
        let load = TreeLoad { large_files: 1, large_stored: 100, ..TreeLoad::default() };
        let device = Device::of(&[], &passes);
        assert_eq!((device.from_memory(), device.large.files), (Some(false), 7));
        assert_eq!(device.range(&load).unwrap().map(|cost| cost.large_byte), [0.05; 2]);
        // Where all of it stays in memory, memory is what was measured.
        let device = Device::of(&[], &[pass(1, 100, 0); 8]);
        assert_eq!((device.from_memory(), device.large.files), (Some(true), 8));
        assert_eq!(Device::of(&[pass(1, 0, 50)], &[]).from_memory(), None);
        assert_eq!(Device::default().from_memory(), Some(false));
    }

    #[test]
    fn few_passes_have_no_range() {
        let load = TreeLoad { small_files: 1, ..TreeLoad::default() };
        let device = Device::of(&[pass(1, 0, 0); 5], &[]);
        assert_eq!((device.cost(&load).unwrap().small_file, device.range(&load)), (1.0, None));
        assert!(Device::of(&[pass(1, 0, 0); 6], &[]).range(&load).is_some());
    }
}
