//! Surveys the files of a tree: counts them, adds up their lengths, and chooses some to be read.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use serde::Serialize;
use verisum_files::{Entry, FileError, Kind, Operation, Stat, Walk, WalkOptions};

/// Files of up to so many bytes are small: the engine reads them whole.
pub const SMALL: u64 = 64 << 10;

/// How many small files are kept to be read.
const KEPT_SMALL: usize = 2000;

/// How many large files are kept to be read.
const KEPT_LARGE: usize = 64;

/// The files of a tree, in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeLoad {
    /// Regular files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those without a byte: nothing of them is read or hashed.
    pub empty_files: u64,
    /// Those of up to [`SMALL`] bytes.
    pub small_files: u64,
    /// Their bytes.
    pub small_bytes: u64,
    /// The others.
    pub large_files: u64,
    /// Their bytes.
    pub large_bytes: u64,
    /// Those of them that lie on the device: holes are hashed, but not read.
    pub large_stored: u64,
    /// Whether these are all.
    pub complete: bool,
    /// Directories that cannot be looked at and files that cannot be read; these files are not counted above.
    pub unreadable: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// The figures.
    pub load: TreeLoad,
    /// How many files have at most 0, 1, 2, 4, … bytes and more than the one before.
    pub sizes: Vec<u64>,
    /// Some small files, by chance.
    pub small: Vec<PathBuf>,
    /// Some large files, by chance.
    pub large: Vec<PathBuf>,
    /// The device of the root.
    pub device: u64,
    /// The first error.
    pub error: Option<FileError>,
}

/// Walks a tree until its end, a moment, or somebody's wish. Other file systems below it are left out. The moment waits for
/// one file: without any there is nothing to measure.
pub fn survey(root: &Path, until: Instant, stopped: &dyn Fn() -> bool) -> Survey {
    let mut found = Survey::default();
    match Entry::followed(root).and_then(|entry| entry.stat()) {
        Ok(stat) => found.device = stat.device,
        Err(error) => {
            found.load.unreadable = 1;
            found.error = Some(error);
            return found;
        }
    }
    let mut options = WalkOptions::default();
    options.one_file_system = true;
    // The same tree gives the same files.
    let mut chance = Rng::with_seed(1);
    for entry in Walk::new(vec![root.to_path_buf()], options) {
        let has_one = found.load.small_files + found.load.large_files > 0;
        if stopped() || has_one && Instant::now() >= until {
            return found;
        }
        match entry.and_then(readable) {
            Ok(Some((stat, entry))) => found.add(stat.size, stat.stored, &entry, &mut chance),
            Ok(None) => {}
            Err(error) => {
                found.load.unreadable += 1;
                found.error.get_or_insert(error);
            }
        }
    }
    found.load.complete = true;
    found
}

/// A regular file that this user may read; none for what is no regular file.
fn readable(entry: Entry) -> Result<Option<(Stat, Entry)>, FileError> {
    if entry.kind() != Kind::File {
        return Ok(None);
    }
    let (stat, path) = (entry.stat()?, entry.path());
    match accessat(CWD, &path, Access::READ_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(Some((stat, entry))),
        // A name that is too long for one call says nothing of the file.
        Err(Errno::NAMETOOLONG) => Ok(Some((stat, entry))),
        Err(error) => Err(FileError::io(&path, Operation::Open, error)),
    }
}

/// A file of which less than this part is stored is mostly holes, and says nothing of reading.
const STORED: u64 = 8;

impl Survey {
    fn add(&mut self, size: u64, stored: u64, entry: &Entry, chance: &mut Rng) {
        let load = &mut self.load;
        load.files += 1;
        load.bytes += size;
        let class = (u64::BITS - size.saturating_sub(1).leading_zeros()) as usize + usize::from(size > 0);
        self.sizes.resize(self.sizes.len().max(class + 1), 0);
        self.sizes[class] += 1;
        let (kept, most, seen) = match size <= SMALL {
            true if size == 0 => {
                load.empty_files += 1;
                return;
            }
            true => {
                load.small_files += 1;
                load.small_bytes += size;
                (&mut self.small, KEPT_SMALL, load.small_files)
            }
            false => {
                load.large_files += 1;
                load.large_bytes += size;
                load.large_stored += size.min(stored);
                if stored < size / STORED {
                    return;
                }
                (&mut self.large, KEPT_LARGE, load.large_files)
            }
        };
        // Algorithm R (Vitter 1985): each has the same chance to be kept.
        if kept.len() < most {
            kept.push(entry.path());
        } else {
            let place = chance.u64(..seen) as usize;
            if place < most {
                kept[place] = entry.path();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn files_are_counted_by_size() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("sub")).unwrap();
        for (name, size) in [("a", 0), ("b", 1), ("sub/c", 4096), ("sub/d", 4097), ("e", 70_000)] {
            std::fs::write(tree.path().join(name), vec![0; size]).unwrap();
        }
        std::os::unix::fs::symlink("a", tree.path().join("link")).unwrap();
        let found = survey(tree.path(), soon(), &|| false);
        let load = found.load;
        assert_eq!((load.files, load.bytes, load.complete), (5, 78_194, true));
        assert_eq!((load.small_files, load.small_bytes, load.large_bytes), (3, 8194, 70_000));
        assert_eq!((load.empty_files, load.unreadable), (1, 0));
        assert_eq!((found.sizes[0], found.sizes[1], found.sizes[13], found.sizes[14]), (1, 1, 1, 1));
        assert_eq!((found.small.len(), found.large.len()), (3, 1));
        let late = survey(tree.path(), Instant::now(), &|| false).load;
        assert_eq!((late.small_files + late.large_files, late.complete), (1, false));
        let stopped = survey(tree.path(), soon(), &|| true);
        assert!(!stopped.load.complete && stopped.load.files == 0);
    }

    #[test]
    fn no_more_files_are_kept_than_are_read() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("a"), "").unwrap();
        let entry = Entry::named(&tree.path().join("a")).unwrap();
        let mut found = Survey::default();
        let mut chance = Rng::with_seed(1);
        for _ in 0..10_000 {
            found.add(1 << 20, 1 << 20, &entry, &mut chance);
        }
        assert_eq!((found.load.large_files, found.large.len()), (10_000, KEPT_LARGE));
    }

    #[test]
    fn holes_are_not_read() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::File::create(tree.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let found = survey(tree.path(), soon(), &|| false);
        assert_eq!((found.load.large_bytes, found.large.len()), (1 << 30, 0));
        assert!(found.load.large_stored < 1 << 20);
    }

    #[test]
    fn nothing_there_is_an_error() {
        let found = survey(Path::new("/no/such"), soon(), &|| false);
        assert!(found.error.is_some() && found.load.files == 0);
    }
}
