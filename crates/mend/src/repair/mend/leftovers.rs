//! Removes the files that killed repairs left in a tree.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use verisum_files::replace::remove_passing;
use verisum_files::{AsRead, Entry, KeptFile, Timestamp, reread};

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
        let modified = Timestamp { seconds: about.mtime(), nanoseconds: about.mtime_nsec() as u32 };
        let is_bad = good.found.contains(&(about.size(), modified.into()));
        // What is to be kept has another name.
        if is_bad && (self.options.keep_bad.is_none() && !good.may_be_meant || about.nlink() > 1) {
            return true;
        }
        let may_be_good = good.size == about.size() || good.size >= ANY_LENGTH;
        let opened = Entry::named(path).and_then(|entry| entry.open_regular());
        let Some(file) = opened.ok().filter(|_| is_bad || may_be_good) else { return false };
        let (digest, stop) = (&good.digest, &*self.options.stop);
        let read = reread::past_the_cache_until(&file, digest, stop).ok().map(|read| read.digest);
        let as_read = AsRead { digest, value: read, stop };
        // A scrub sees neither the content nor the time of a file that rots, so what has those of the bad one may be good.
        let keep = self.options.keep_bad.as_deref().filter(|_| is_bad);
        read == Some(good.recorded)
            || keep.is_some_and(|keep| KeptFile::has_copy((keep, &good.kept), &file, as_read))
    }
}
