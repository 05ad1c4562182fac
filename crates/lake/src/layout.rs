//! Where the parts of a lake are.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use verisum_catalog::store::Moment;

use verisum_files::replace::require_trusted;
use verisum_files::{LockedFile, Timestamp, percent};

use crate::{LakeError, Result};

/// What the names of places begin with.
const PLACE: &str = "place=";

/// What the names of days begin with.
const DAY: &str = "day=";

/// What the names of parts end with.
const PARQUET: &[u8] = b".parquet";

/// The mode of a lake's folder that did not exist: names and digests are nobody else's business.
const PRIVATE: u32 = 0o700;

/// The folder of the histories of repairs. What reads a lake as a whole passes over names that begin like this.
const REPAIRS: &str = "_repairs";

/// A folder of places.
#[derive(Clone, Debug)]
pub struct Lake {
    path: PathBuf,
    mode: u32,
}

/// A tree of files in a lake.
#[derive(Clone, Debug)]
pub struct LakeTree {
    lake: Lake,
    name: PathBuf,
    path: PathBuf,
    repairs: PathBuf,
}

impl Lake {
    /// A lake that may have to be made. Its parts can be read by those who may read its folder.
    ///
    /// # Errors
    /// The folder cannot be made, or a link of another user leads to it.
    pub fn create(path: &Path) -> Result<Lake> {
        match require_trusted(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LakeError::io(path, "create", error));
            }
            _ => {}
        }
        let made = DirBuilder::new().mode(PRIVATE).recursive(true).create(path);
        made.map_err(|error| LakeError::io(path, "create", error))?;
        Lake::open(path)
    }

    /// A lake that is there.
    ///
    /// # Errors
    /// It is no folder, or cannot be looked at.
    pub fn open(path: &Path) -> Result<Lake> {
        let found = std::fs::metadata(path).map_err(|error| LakeError::io(path, "open", error))?;
        match found.is_dir() {
            true => Ok(Lake { path: path.to_path_buf(), mode: found.mode() & 0o777 }),
            false => Err(LakeError::io(path, "open", io::ErrorKind::NotADirectory.into())),
        }
    }

    /// Keeps other exports from the lake until it is dropped.
    pub(crate) fn lock(&self) -> Result<LockedFile> {
        let failed = |error| LakeError::io(&self.path, "lock", error);
        let folder = LockedFile::new(File::open(&self.path).map_err(failed)?);
        match folder.file().try_lock() {
            Ok(()) => Ok(folder),
            Err(TryLockError::WouldBlock) => Err(LakeError::InUse { path: self.path.clone() }),
            // Without locks two exports may write the same rows, which harms nobody.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(folder),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The place of this name, which need not be there.
    pub fn place(&self, name: &Path) -> LakeTree {
        let encoded = percent::encoded(name.as_os_str().as_bytes(), b"");
        LakeTree {
            lake: self.clone(),
            name: name.to_path_buf(),
            path: self.path.join(format!("{PLACE}{encoded}")),
            repairs: self.path.join(REPAIRS).join(encoded),
        }
    }

    /// All places, in the order of their folders' names.
    ///
    /// # Errors
    /// The folder cannot be read, or a name stands for no path.
    pub fn places(&self) -> Result<Vec<LakeTree>> {
        let of = |(path, name): (PathBuf, PathBuf)| LakeTree { path, ..self.place(&name) };
        Ok(named_in(&self.path, PLACE)?.into_iter().map(of).collect())
    }

    /// All places that have repairs. Some of them may have no parts.
    pub(crate) fn repaired_places(&self) -> Result<Vec<LakeTree>> {
        let of = |(repairs, name): (PathBuf, PathBuf)| LakeTree { repairs, ..self.place(&name) };
        Ok(named_in(&self.path.join(REPAIRS), "")?.into_iter().map(of).collect())
    }
}

impl LakeTree {
    /// The path or address of the tree.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Its folder in the lake.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mode of a new part: of a lake that a group may read, it may read the parts.
    pub(crate) fn mode(&self) -> u32 {
        self.lake.mode & 0o644
    }

    /// All files with repairs of the tree, in the order of their names.
    pub(crate) fn repairs(&self) -> Result<Vec<PathBuf>> {
        let names = names_in(&self.repairs)?.into_iter().filter(is_part);
        Ok(names.map(|name| self.repairs.join(name)).collect())
    }

    /// The name of a new file of repairs that are exported at a time. Its folder is made.
    pub(crate) fn new_repairs(&self, exported: Moment) -> Result<PathBuf> {
        self.new_file(self.repairs.clone(), exported)
    }

    /// All parts, in the order of days and names.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn parts(&self) -> Result<Vec<PathBuf>> {
        let mut parts = Vec::new();
        for day in names_in(&self.path)? {
            if !day.as_bytes().starts_with(DAY.as_bytes()) {
                continue;
            }
            let folder = self.path.join(day);
            let names = names_in(&folder)?.into_iter().filter(is_part);
            parts.extend(names.map(|name| folder.join(name)));
        }
        Ok(parts)
    }

    /// The name of a new part of rows that are exported at a time. Its folder is made.
    pub(crate) fn new_part(&self, exported: Moment) -> Result<PathBuf> {
        self.new_file(self.path.join(format!("{DAY}{}", day(exported))), exported)
    }

    /// Makes a folder in the lake, and those above it. Whoever may read the lake may read them, whatever the umask is.
    fn make(&self, folder: &Path) -> io::Result<()> {
        match std::fs::create_dir(folder) {
            Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(self.lake.mode)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != self.lake.path => {
                let above = folder.parent().ok_or(error)?;
                self.make(above).and_then(|()| self.make(folder))
            }
            Err(error) => Err(error),
        }
    }

    fn new_file(&self, folder: PathBuf, exported: Moment) -> Result<PathBuf> {
        self.make(&folder).map_err(|error| LakeError::io(&folder, "create", error))?;
        let random = RandomState::new().hash_one(std::process::id());
        Ok(folder.join(format!("{}-{random:016x}.parquet", exported.milliseconds())))
    }
}

/// The folders in a folder whose names are places after a prefix, and those places, in the order of their names.
fn named_in(folder: &Path, prefix: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut named = Vec::new();
    for name in names_in(folder)? {
        let Some(encoded) = name.as_bytes().strip_prefix(prefix.as_bytes()) else { continue };
        let path = folder.join(&name);
        // A file is no place.
        if !path.is_dir() {
            continue;
        }
        // Each place has one name: a file of another name would be of the same place.
        let Some(decoded) =
            decoded(encoded).filter(|place| percent::encoded(place, b"").as_bytes() == encoded)
        else {
            return Err(LakeError::part(&path, "its name is no place"));
        };
        named.push((path, PathBuf::from(OsString::from_vec(decoded))));
    }
    Ok(named)
}

/// Whether a name is that of a part.
fn is_part(name: &OsString) -> bool {
    let name = name.as_bytes();
    name.ends_with(PARQUET) && !name.starts_with(b".") && !name.starts_with(b"_")
}

/// What is in a folder, by name; nothing if there is no such folder.
fn names_in(folder: &Path) -> Result<Vec<OsString>> {
    let failed = |error| LakeError::io(folder, "read", error);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let names: io::Result<Vec<OsString>> = entries.map(|entry| Ok(entry?.file_name())).collect();
    let mut names = names.map_err(failed)?;
    names.sort_unstable();
    Ok(names)
}

/// The day of a moment in UTC.
fn day(moment: Moment) -> String {
    let time = Timestamp::of_milliseconds(moment.milliseconds()).to_rfc3339_seconds();
    time.split('T').next().unwrap_or_default().to_string()
}

/// What a name stands for, in bytes; none if it stands for nothing.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    percent::decoded(text).filter(|bytes| !bytes.is_empty() && !bytes.contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [(0, "1970-01-01"), (951_782_400_000, "2000-02-29"), (1_767_225_599_999, "2025-12-31")];
        for (time, expected) in days {
            assert_eq!(day(Moment::of_milliseconds(time)), expected);
        }
        assert_eq!(day(Moment::of_milliseconds(-1)), "1969-12-31");
    }

    #[test]
    fn places_have_names_that_lead_back() {
        for name in [&b"/srv/a b"[..], b"ssh://web2/srv", b"/\xff%", b"~"] {
            let text = percent::encoded(name, b"");
            assert_eq!(decoded(text.as_bytes()).as_deref(), Some(name), "{text}");
            assert!(!text.contains('/'));
        }
        assert_eq!(percent::encoded(b"/srv/photos", b""), "%2Fsrv%2Fphotos");
        for bad in ["", "%", "%2", "%+1", "a%00"] {
            assert_eq!(decoded(bad.as_bytes()), None, "{bad}");
        }
    }
}
