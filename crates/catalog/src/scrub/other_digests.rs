//! Reads files again by the digest of the record that is theirs.
//!
//! A file is read by the digest of the record of its name, or by that of new files. If it was renamed, its own record
//! may have another digest, and the two could not be compared.

use super::digests::Digests;
use super::finish::PAGE;
use super::writer::Writer;
use super::{ScrubError, top_directory::is_gone};
use crate::store::{OtherDigest, Seen};
use verisum_digest::Output;
use verisum_files::reread::{Failed, past_the_cache_until};

impl Writer<'_> {
    /// Gives the files that the run recorded the digests of the records that are theirs. Returns whether that was done,
    /// and nobody ended the run meanwhile. Files on hosts are not read again.
    pub(super) fn read_by_own_records(&self, digests: &Digests) -> Result<bool, ScrubError> {
        let (catalog, root) = (&*self.catalog, self.scope.root.id);
        let has_several = !self.scope.root.is_remote() && catalog.algorithms()?.len() > 1;
        if !has_several || !catalog.list_other_digests(root)? {
            return Ok(true);
        }
        let mut after = 0;
        loop {
            let page = catalog.other_digests(after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            let mut read = Vec::with_capacity(page.len());
            for (_, file) in page {
                if self.options.stop.is_due() {
                    return Ok(false);
                }
                let digest = self.digest_of(&file, digests)?;
                read.extend(digest.map(|digest| (file, digest)));
            }
            catalog.in_transaction(|| {
                read.iter().try_for_each(|(file, digest)| catalog.set_other_digest(root, file, *digest))
            })?;
        }
        Ok(true)
    }

    /// The digest of a file by the algorithm of its own record, if it still is what was recorded.
    fn digest_of(&self, file: &OtherDigest, digests: &Digests) -> Result<Option<Output>, ScrubError> {
        let Some(set) = digests.set_of.get(&file.algorithm) else { return Ok(None) };
        let found = self.find(&self.path(file.place.0, &file.place.1)?);
        if is_gone(&found) {
            return Ok(None);
        }
        let opened = found.and_then(|(entry, _)| entry.open_regular());
        let Ok(opened) = opened else { return Ok(None) };
        match past_the_cache_until(&opened, &digests.sets[*set], &self.options.stop) {
            Ok(read) => {
                let is_it = |stat| Seen::new(stat, file.seen.digest) == file.seen;
                Ok((is_it(&read.before) && is_it(&read.after)).then_some(read.digest))
            }
            Err(Failed::Stopped | Failed::System(_) | Failed::Digest(_)) => Ok(None),
        }
    }
}
