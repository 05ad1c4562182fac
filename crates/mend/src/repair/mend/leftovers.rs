//! Removes the files that killed repairs left in a tree.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use verisum_files::replace::remove_passing;
use verisum_files::{Entry, reread};

use super::{ANY_LENGTH, Damaged, Tree, by_way_of};

impl Tree<'_> {
    /// Removes what repairs that were killed left beside files that are good now.
    pub(super) fn remove_left(&self, mut good: Vec<&Damaged>) {
        good.sort_by(|one, other| one.path.cmp(&other.path));
        for good in good.chunk_by(|one, other| one.path.parent() == other.path.parent()) {
            if let Ok((folder, _)) = self.folder(&good[0].path) {
                let is_left = |about: &Metadata, path: &Path| {
                    good.iter().any(|good| self.is_left_of(good, about, path))
                };
                remove_passing(&by_way_of(&folder, OsStr::new("")), &is_left);
            }
        }
    }

    /// Whether a file that was to change places with a good one is the bad one, or has the good content.
    fn is_left_of(&self, good: &Damaged, about: &Metadata, path: &Path) -> bool {
        let modified = about.mtime().wrapping_mul(1_000_000_000).wrapping_add(about.mtime_nsec());
        // What is to be kept has another name.
        let may_go = self.options.keep_bad.is_none() && !good.may_be_meant || about.nlink() > 1;
        if good.found.contains(&(about.size(), modified)) {
            return may_go;
        }
        let may_be = good.size == about.size() || good.size >= ANY_LENGTH;
        let read = || {
            let file = Entry::named(path).and_then(|entry| entry.open_regular()).ok()?;
            reread::past_the_cache_until(&file, &good.digest, &self.options.stop).ok()
        };
        may_be && read().is_some_and(|read| read.digest == good.recorded)
    }
}
