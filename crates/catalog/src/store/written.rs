//! Records the files that `verisum copy` wrote.

use std::ffi::OsStr;
use std::path::Path;

use verisum_digest::Output;
use verisum_files::Stat;

use super::{Catalog, CatalogRecord, Moment, RecordChange, Result, Root, State};

/// A file that was written, with the digest of what was written.
#[derive(Clone, Debug)]
pub struct Written<'a> {
    /// Its path below the root.
    pub below: &'a Path,
    /// The name of the digest.
    pub algorithm: &'a str,
    /// The digest.
    pub digest: Output,
    /// What is said of it now.
    pub stat: Stat,
    /// When it was read back; [`Moment::NEVER`] if it never was.
    pub verified: Moment,
    /// When it was written.
    pub written: Moment,
}

impl Catalog {
    /// Records what a file of a tree is now, and returns whether it did. A record of the same length and time with
    /// another digest stays.
    ///
    /// # Errors
    /// The catalogue cannot be read or written. Without a name nothing is recorded.
    pub fn record_written(&self, root: &Root, file: &Written) -> Result<bool> {
        let Some(name) = file.below.file_name() else { return Ok(false) };
        let directory = self.make_directories(root, file.below.parent().unwrap_or(Path::new("")))?;
        let new = CatalogRecord {
            size: file.stat.size,
            mtime: file.stat.modified.into(),
            ctime: file.stat.changed.into(),
            inode: file.stat.inode,
            algorithm: self.algorithm(file.algorithm)?,
            digest: file.digest,
            first_seen: file.written,
            changed: file.written,
            verified: file.verified,
            state: State::Sound,
        };
        match self.record(directory, name)? {
            None => self.apply(root.id, directory, name, &RecordChange::Add(new)).map(|()| true),
            Some(old) => self.replace_record(root, (directory, name), &old, new),
        }
    }

    fn replace_record(
        &self,
        root: &Root,
        place: (i64, &OsStr),
        old: &CatalogRecord,
        new: CatalogRecord,
    ) -> Result<bool> {
        let is_same = (old.algorithm, old.digest) == (new.algorithm, new.digest);
        let is_known = old.state != State::DAMAGED;
        // A copy of a rotten copy: the good record stays, and the next scrub says what is wrong.
        let looks_the_same = (old.size, old.mtime) == (new.size, new.mtime);
        if is_known && old.algorithm == new.algorithm && !is_same && looks_the_same {
            return Ok(false);
        }
        let new = CatalogRecord {
            first_seen: if is_known { old.first_seen } else { new.first_seen },
            changed: if is_known && is_same { old.changed } else { new.changed },
            ..new
        };
        self.apply(root.id, place.0, place.1, &RecordChange::Confirm(new))?;
        self.add_length(root.id, new.size as i64 - old.size as i64).map(|()| true)
    }
}
