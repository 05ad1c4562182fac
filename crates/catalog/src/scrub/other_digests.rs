//! Reads renamed files again whose own records have another digest.
//!
//! A run reads a file by the digest of the record of its name, or by that of new files. What it read says nothing of the
//! record that is the file's own, if that has another.

use super::ScrubError;
use super::digests::Digests;
use super::finish::PAGE;
use super::writer::Writer;
use crate::store::{OtherDigest, Seen};
use verisum_digest::Output;
use verisum_files::Stat;
use verisum_files::reread::past_the_cache_until;

impl Writer<'_> {
    /// Finds out the digests of such files by the algorithms of their own records. Files on hosts are not read again.
    pub(super) fn read_by_own_records(&self, digests: &Digests) -> Result<(), ScrubError> {
        let (catalog, root, stop) = (&*self.catalog, &self.scope.root, &self.options.stop);
        let may_differ = !root.is_remote() && !stop.is_due() && catalog.algorithms()?.len() > 1;
        if !may_differ || !catalog.list_other_digests(root.id)? {
            return Ok(());
        }
        let mut after = 0;
        loop {
            let page = catalog.other_digests(after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            let mut read = Vec::with_capacity(page.len());
            for (_, file) in page {
                if stop.is_due() {
                    return Ok(());
                }
                let digest = self.digest_of(&file, digests)?;
                read.extend(digest.map(|digest| (file, digest)));
            }
            catalog.in_transaction(|| {
                read.iter().try_for_each(|(file, digest)| catalog.set_other_digest(root.id, file, *digest))
            })?;
        }
    }

    /// The digest of a file by the algorithm of its own record. None if that cannot be had, or the file is no longer what
    /// the run saw.
    fn digest_of(&self, file: &OtherDigest, digests: &Digests) -> Result<Option<Output>, ScrubError> {
        let Some(set) = digests.set_of.get(&file.algorithm) else { return Ok(None) };
        let found = self.find(&self.path(file.place.0, &file.place.1)?);
        let Ok(opened) = found.and_then(|(entry, _)| entry.open_regular()) else { return Ok(None) };
        let is_it = |stat: &Stat| Seen::new(stat, file.seen.digest) == file.seen;
        let read = past_the_cache_until(&opened, &digests.sets[*set], &self.options.stop).ok();
        Ok(read.filter(|read| is_it(&read.before) && is_it(&read.after)).map(|read| read.digest))
    }
}
