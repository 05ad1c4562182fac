//! How fast files come from their device, through the engine that hashes trees, and a digest that computes
//! nothing.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, Mode, OFlags};
use verisum_digest::Digest;
use verisum_tree::{Entry, Error as TreeError, Job, Operation, Plan, Stop, hash};

use super::survey::SMALL;
use super::{Cost, Load};
use crate::measure::Error;
use crate::stats::interval;
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
    /// Adds a pass over small files.
    pub fn add_small(&mut self, read: &Read) {
        self.small.add(read);
        self.small_file.extend((read.files > 0).then(|| read.time.as_secs_f64() / read.files as f64));
    }

    /// Adds a pass over large files.
    pub fn add_large(&mut self, read: &Read) {
        self.large.add(read);
        self.large_byte.extend((read.bytes > 0).then(|| read.time.as_secs_f64() / read.bytes as f64));
    }

    /// What reading costs these files: the median, and the interval's ends. `None` where nothing was read of
    /// what there is.
    pub fn cost(&self, load: &Load) -> Option<[Cost; 3]> {
        let of = |there: bool, times: &[f64]| match (there, times.is_empty()) {
            (false, _) => Some([0.0; 3]),
            (true, true) => None,
            (true, false) => Some(interval(times)).map(|found| [found.median, found.low, found.high]),
        };
        let small = of(load.small_files > 0, &self.small_file)?;
        let large = of(load.large_stored > 0, &self.large_byte)?;
        Some([0, 1, 2].map(|at| Cost { small_file: small[at], large_byte: large[at] }))
    }

    /// Whether what was read came from memory for a good part; `None` where the kernel does not say.
    pub fn from_memory(&self) -> Option<bool> {
        let [resident, unknown, bytes] = [
            self.small.resident + self.large.resident,
            self.small.unknown + self.large.unknown,
            self.small.bytes + self.large.bytes,
        ];
        match resident * 10 > bytes {
            true => Some(true),
            false => (unknown * 10 <= bytes).then_some(false),
        }
    }
}

impl Read {
    fn add(&mut self, other: &Read) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.time += other.time;
        self.resident += other.resident;
        self.unknown += other.unknown;
        // A file that cannot be read fails in every pass.
        self.failed = self.failed.max(other.failed);
    }
}

/// Reads files cold as [`read_cold`], again and again until a moment, or somebody's wish: each pass has its
/// share of the time and begins with another file.
pub fn read_often(
    files: &[PathBuf],
    threads: usize,
    until: Instant,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Read>, Error> {
    let mut found = Vec::new();
    let mut files = files.to_vec();
    for left in (1..=PASSES).rev() {
        let now = Instant::now();
        if files.is_empty() || stopped() || (now >= until && !found.is_empty()) {
            break;
        }
        let share = now + until.saturating_duration_since(now) / left;
        found.push(read_cold(&files, threads, share, stopped)?);
        let step = files.len().div_ceil(PASSES as usize);
        files.rotate_left(step);
    }
    Ok(found)
}

/// Puts files out of the cache, without writing anything and without rights, and reads them until their
/// end, a moment, or somebody's wish.
pub fn read_cold(
    files: &[PathBuf],
    threads: usize,
    until: Instant,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Read, Error> {
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
        let mut device = Device::default();
        passes.iter().for_each(|read| device.add_small(read));
        assert_eq!((device.small.files, device.small.failed), (20 * 8, 1));
        let load = Load { small_files: 20, ..Load::default() };
        let [cost, low, high] = device.cost(&load).unwrap();
        assert!(low.small_file <= cost.small_file && cost.small_file <= high.small_file);
        assert_eq!(device.cost(&Load { large_stored: 1, ..load }), None);
        let memory =
            Device { small: Read { bytes: 100, resident: 50, ..Read::default() }, ..Device::default() };
        assert_eq!((memory.from_memory(), Device::default().from_memory()), (Some(true), Some(false)));
        let unknown =
            Device { small: Read { bytes: 100, unknown: 50, ..Read::default() }, ..Device::default() };
        assert_eq!(unknown.from_memory(), None);
    }
}
