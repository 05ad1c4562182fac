//! L1 and L2 tables, read in slices through a cache. So they take bounded memory, however large they are and
//! however many files a chain has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Image, ImageError, RawImage};

/// Length of a slice in bytes at most: with clusters of 64 KiB it maps 128 MiB of the guest.
pub(crate) const SLICE_LEN: u64 = 16 << 10;

/// What each of two generations of slices holds at most, in bytes.
const GENERATION_LEN: usize = 4 << 20;

/// A part of a table.
pub(crate) type Slice = Arc<[u64]>;

/// Which file of a chain, and where in it.
type TableKey = (u32, u64);

/// The slices that were used last, of all files of a chain.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    kept: Mutex<TwoGenerations>,
}

/// Two generations: what is found in the old one moves to the young one, and when that is full it becomes
/// the old one. So the slices in use stay, at the cost of one look for each.
#[derive(Debug, Default)]
struct TwoGenerations {
    young: HashMap<TableKey, Slice>,
    young_len: usize,
    old: HashMap<TableKey, Slice>,
}

impl Tables {
    /// The `len` bytes at `offset` of file number `index` as entries. They lie within the file, and `len`
    /// is a multiple of 8 and always the same for an offset.
    /// What was not kept goes through `check` first.
    pub(crate) fn slice(
        &self,
        index: u32,
        file: &RawImage,
        offset: u64,
        len: u64,
        check: impl FnOnce(&[u64]) -> Result<(), ImageError>,
    ) -> Result<Slice, ImageError> {
        let key = (index, offset);
        if let Some(slice) = self.lock().find(key) {
            return Ok(slice);
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, offset)?;
        let (entries, _) = bytes.as_chunks::<8>();
        let slice: Slice = entries.iter().map(|entry| u64::from_be_bytes(*entry)).collect();
        check(&slice)?;
        self.lock().keep(key, slice.clone());
        Ok(slice)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TwoGenerations> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TwoGenerations {
    fn find(&mut self, key: TableKey) -> Option<Slice> {
        if let Some(slice) = self.young.get(&key) {
            return Some(slice.clone());
        }
        let slice = self.old.remove(&key)?;
        self.keep(key, slice.clone());
        Some(slice)
    }

    fn keep(&mut self, key: TableKey, slice: Slice) {
        /// What the map needs for a slice besides its entries, about.
        const OVERHEAD: usize = 64;
        let len = slice.len() * 8 + OVERHEAD;
        if self.young_len + len > GENERATION_LEN {
            self.old = std::mem::take(&mut self.young);
            self.young_len = 0;
        }
        if self.young.insert(key, slice).is_none() {
            self.young_len += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let mut kept = TwoGenerations::default();
        let slice: Slice = vec![0; SLICE_LEN as usize / 8].into();
        kept.keep((0, 0), slice.clone());
        for offset in 1..5000 {
            kept.keep((0, offset), slice.clone());
            assert!(kept.find((0, 0)).is_some());
        }
        assert!(kept.find((0, 1)).is_none());
        assert!((kept.young.len() + kept.old.len()) * SLICE_LEN as usize <= 2 * GENERATION_LEN);
    }
}
