//! The page cache: how much of the subjects' files is in it, and how to empty it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::MeasureError;
use crate::system;

/// In which state the cache was when a series was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// No files are read.
    None,
    /// All that is read was in the cache before the runs.
    Warm,
    /// Some of it was not: the file is larger than the memory has room for.
    Partial,
    /// Nothing of it was in the cache at the beginning of each run.
    Cold,
    /// The kernel does not say: of files that this user neither owns nor may write to.
    Unknown,
}

impl Cache {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Cache::None => "none",
            Cache::Warm => "warm",
            Cache::Partial => "partial",
            Cache::Cold => "cold",
            Cache::Unknown => "unknown",
        }
    }
}

/// How much of the files is in the cache. Devices and pipes are not asked.
pub fn state(files: &[PathBuf]) -> Cache {
    let (mut total, mut found) = (0, 0);
    for path in files {
        match resident(path) {
            Ok((length, bytes)) => {
                total += length;
                found += bytes.min(length);
            }
            Err(_) => return Cache::Unknown,
        }
    }
    match found {
        _ if total == 0 => Cache::None,
        0 => Cache::Cold,
        _ if found == total => Cache::Warm,
        // Holes have no pages until somebody reads them.
        _ if files.iter().all(|path| is_data_resident(path).unwrap_or(false)) => Cache::Warm,
        _ => Cache::Partial,
    }
}

/// A file in more pieces than these takes too long to ask about before each run.
const MOST_PIECES: usize = 10_000;

/// Whether all of a file that is no hole is in the cache.
fn is_data_resident(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let page = rustix::param::page_size() as u64;
    let mut end = 0;
    for _ in 0..MOST_PIECES {
        let data = match rustix::fs::seek(&file, SeekFrom::Data(end)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        end = rustix::fs::seek(&file, SeekFrom::Hole(data))?;
        let start = data / page * page;
        if system::resident_from(file.as_fd(), start, end - start)? < end - start {
            return Ok(false);
        }
    }
    Ok(false)
}

/// A file's length and how much of it is in the cache.
fn resident(path: &Path) -> Result<(u64, u64), MeasureError> {
    let failed = |error| MeasureError::io(path, "ask for its pages", error);
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    match about.is_file() {
        true => Ok((about.len(), system::resident(file.as_fd(), about.len()).map_err(failed)?)),
        false => Err(failed(io::ErrorKind::Unsupported.into())),
    }
}

/// Puts the files out of the cache and makes sure that they are gone. No rights are needed for files
/// that nobody else holds; root can drop everything.
pub fn drop_files(files: &[PathBuf]) -> Result<(), MeasureError> {
    for path in files {
        let failed = |operation| move |error| MeasureError::io(path, operation, error);
        let file = File::open(path).map_err(failed("open"))?;
        file.sync_all().map_err(failed("synchronize"))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|error| failed("drop from the cache")(error.into()))?;
    }
    let left = |files: &[PathBuf]| -> Result<Option<(PathBuf, u64)>, MeasureError> {
        for path in files {
            let (_, bytes) = resident(path).map_err(|error| {
                MeasureError::Unavailable(format!("{error}: whether it is out of the cache cannot be seen"))
            })?;
            if bytes > 0 {
                return Ok(Some((path.clone(), bytes)));
            }
        }
        Ok(None)
    };
    if left(files)?.is_none() {
        return Ok(());
    }
    rustix::fs::sync();
    let all = std::fs::write("/proc/sys/vm/drop_caches", "1\n");
    match left(files)? {
        None => Ok(()),
        Some((path, bytes)) => {
            let why = match all {
                Ok(()) => "its file system keeps them in memory",
                Err(_) => "and dropping all caches needs root",
            };
            Err(MeasureError::Unavailable(format!(
                "{}: {bytes} bytes cannot be dropped from the cache: {why}",
                path.display()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_gone() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = [folder.path().join("a"), folder.path().join("b")];
        assert_eq!(state(&[]), Cache::None);
        for file in &files {
            std::fs::write(file, vec![1; 1 << 20]).unwrap();
        }
        assert_eq!(state(&files), Cache::Warm);
        match drop_files(&files) {
            Ok(()) => assert_eq!(state(&files), Cache::Cold),
            // Sources on a file system in memory.
            Err(error) => assert!(error.to_string().contains("cannot be dropped"), "{error}"),
        }
        // A hole, data, a hole: only what is read has pages.
        let holes = [folder.path().join("holes")];
        let file = File::create(&holes[0]).unwrap();
        file.set_len(3 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 1 << 16], 1 << 20).unwrap();
        assert_eq!(state(&holes), Cache::Warm);
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 1 << 16], 2 << 20).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 2 << 20, None, Advice::DontNeed).unwrap();
        // Those on a file system in memory cannot be dropped.
        assert!(matches!(state(&holes), Cache::Partial | Cache::Warm));
        assert_eq!(is_data_resident(&holes[0]).unwrap(), state(&holes) == Cache::Warm);
        assert_eq!(state(&["/dev/null".into()]), Cache::Unknown);
        assert!(drop_files(&["/nowhere".into()]).is_err());
        if !rustix::process::geteuid().is_root() {
            assert_eq!(state(&["/etc/passwd".into()]), Cache::Unknown);
        }
    }
}
