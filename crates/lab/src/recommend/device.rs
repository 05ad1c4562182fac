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
use verisum_tree::{Entry, Job, Plan, Stop, hash};

use crate::measure::Error;
use crate::system;

/// The most bytes that are read: they displace others from the cache.
const MOST: u64 = 1 << 30;

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
}

/// What is known of the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Device {
    /// Small files.
    pub small: Read,
    /// Large files.
    pub large: Read,
}

impl Device {
    /// Whether what was read came from memory for a good part.
    pub fn from_memory(&self) -> bool {
        let resident = self.small.resident + self.large.resident;
        resident * 10 > self.small.bytes + self.large.bytes
    }
}

/// Puts files out of the cache, without writing anything and without rights, and reads them until their
/// end, a moment, or somebody's wish.
pub fn read_cold(
    files: &[PathBuf],
    threads: usize,
    until: Instant,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Read, Error> {
    let mut resident = 0;
    let mut entries = Vec::new();
    for path in files {
        if stopped() || Instant::now() >= until {
            break;
        }
        // What cannot be read is not measured.
        if let Ok(left) = drop_pages(path)
            && let Ok(entry) = Entry::named(path)
        {
            resident += left;
            entries.push(entry);
        }
    }
    let stop = Arc::new(Stop::default());
    let mut plan = Plan::new(vec![vec![Digest::find("null")?]], threads);
    plan.stop = stop.clone();
    let progress = plan.progress.clone();
    let ended = AtomicBool::new(false);
    let read = AtomicU64::new(0);
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
            read.fetch_add(u64::from(hashed.result.is_ok()), Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        time = started.elapsed();
        ended.store(true, Ordering::Relaxed);
    });
    Ok(Read { files: read.into_inner(), bytes: progress.bytes(), time, resident })
}

/// Returns how much stayed. A pipe that took the file's place is not waited for.
fn drop_pages(path: &Path) -> std::io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    // Whole pages, which may be more than the file.
    Ok(system::resident(file.as_fd(), about.len())?.min(about.len()))
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
        assert_eq!((read.files, read.bytes), (20, 100_000));
        assert!(read.time > Duration::ZERO && read.resident <= 100_000);
        assert_eq!(read_cold(&files, 2, until, &|| true).unwrap().files, 0);
        let memory =
            Device { small: Read { bytes: 100, resident: 50, ..Read::default() }, ..Device::default() };
        assert!(memory.from_memory() && !Device::default().from_memory());
    }
}
