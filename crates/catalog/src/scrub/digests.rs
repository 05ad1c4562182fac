//! The digests that a run computes: those of its records, and the digest for new files.

use std::collections::HashMap;

use verisum_digest::{Digest, DigestError};

use super::{ScrubError, ScrubOptions};
use crate::store::{Catalog, CatalogRecord};

/// The digests that records need and new files get.
pub(super) struct Digests {
    /// Each that can be computed here.
    pub(super) sets: Vec<Digest>,
    /// The place of each algorithm among them.
    pub(super) set_of: HashMap<i64, usize>,
    /// The place of that of new files.
    pub(super) new: usize,
    /// Algorithms that cannot be computed here, and why not.
    pub(super) unavailable: HashMap<i64, DigestError>,
}

impl Digests {
    pub(super) fn new(catalog: &Catalog, options: &ScrubOptions) -> Result<Digests, ScrubError> {
        let (mut sets, mut set_of, mut unavailable) = (Vec::new(), HashMap::new(), HashMap::new());
        for (number, name) in catalog.algorithms()? {
            let digest = match name == options.digest.name() {
                true => Ok(options.digest.clone()),
                false => Digest::find_with(&name, &options.policy),
            };
            match digest {
                Ok(digest) => {
                    set_of.insert(number, sets.len());
                    sets.push(digest);
                }
                // Its files cannot be compared, which each of them is told of; the others can.
                Err(error) => {
                    unavailable.insert(number, error);
                }
            }
        }
        let new = sets.iter().position(|digest| digest.name() == options.digest.name()).unwrap_or_default();
        Ok(Digests { sets, set_of, new, unavailable })
    }

    /// The place of the digest that a file is read with. One with a damaged record, or with one of a digest that cannot
    /// be computed here, is compared with nothing.
    pub(super) fn of(&self, record: Option<&CatalogRecord>) -> usize {
        record.and_then(|record| self.set_of.get(&record.algorithm).copied()).unwrap_or(self.new)
    }
}

/// The digest that all records are to have, if somebody wants that.
pub(super) fn rehash_target(catalog: &Catalog, options: &ScrubOptions) -> Result<Option<Digest>, ScrubError> {
    let Some(name) = catalog.rehash_target()? else { return Ok(None) };
    Digest::find_with(&name, &options.policy).map(Some).map_err(digest_failed(&name))
}

pub(super) fn digest_failed(name: &str) -> impl FnOnce(DigestError) -> ScrubError {
    move |source| ScrubError::Digest { name: name.to_string(), source }
}
