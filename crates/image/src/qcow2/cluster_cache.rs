//! A cache of decompressed clusters: a cluster that one reader needed is kept for the reader of its next
//! part.
//!
//! Runs of an image may end inside a compressed cluster. Whoever needs it first decompresses it; others
//! that need it meanwhile wait for that, and nobody does it twice while it is kept.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::ImageError;

/// What is kept at most, in bytes, besides the latest cluster.
const KEPT_LEN: usize = 32 << 20;

/// Which file of a chain, and where in the guest's view a cluster begins.
type ClusterKey = (usize, u64);

/// The kept clusters.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    entries: Mutex<Vec<Entry>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Entry {
    key: ClusterKey,
    /// Nothing while somebody works on it.
    bytes: Option<Arc<Vec<u8>>>,
    /// How many bytes nobody has asked for yet. With the last one the cluster has served.
    left: u64,
}

impl Shared {
    /// The bytes of a cluster, of which the caller takes `wanted`; `visible` are all that anybody may want.
    /// `make` is called if they are not there.
    pub(crate) fn get(
        &self,
        key: ClusterKey,
        wanted: u64,
        visible: u64,
        make: impl FnOnce() -> Result<Vec<u8>, ImageError>,
    ) -> Result<Arc<Vec<u8>>, ImageError> {
        let mut entries = self.lock();
        loop {
            match entries.iter().position(|entry| entry.key == key) {
                None => break,
                Some(place) => match entries[place].bytes.clone() {
                    Some(bytes) => {
                        take(&mut entries, place, wanted);
                        return Ok(bytes);
                    }
                    None => {
                        entries = self.changed.wait(entries).unwrap_or_else(PoisonError::into_inner);
                    }
                },
            }
        }
        entries.push(Entry { key, bytes: None, left: visible });
        drop(entries);

        let unfinished = Unfinished { shared: self, key };
        let bytes = Arc::new(make()?);
        std::mem::forget(unfinished);
        let mut entries = self.lock();
        if let Some(place) = entries.iter().position(|entry| entry.key == key) {
            entries[place].bytes = Some(bytes.clone());
            take(&mut entries, place, wanted);
        }
        forget_oldest(&mut entries, bytes.len());
        drop(entries);
        self.changed.notify_all();
        Ok(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what was asked for.
fn take(entries: &mut Vec<Entry>, place: usize, wanted: u64) {
    entries[place].left = entries[place].left.saturating_sub(wanted);
    if entries[place].left == 0 {
        entries.remove(place);
    }
}

/// Makes room, the oldest first.
fn forget_oldest(entries: &mut Vec<Entry>, latest: usize) {
    let len = |entry: &Entry| entry.bytes.as_ref().map_or(0, |bytes| bytes.len());
    let mut excess = entries.iter().map(len).sum::<usize>().saturating_sub(KEPT_LEN + latest);
    entries.retain(|entry| {
        let goes = excess > 0 && entry.bytes.is_some();
        excess = excess.saturating_sub(if goes { len(entry) } else { 0 });
        !goes
    });
}

/// Takes an entry away that could not be made, so that those who wait for it try themselves.
struct Unfinished<'a> {
    shared: &'a Shared,
    key: ClusterKey,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.shared.lock().retain(|entry| entry.key != self.key);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::{io, path::Path};

    #[test]
    fn each_cluster_is_made_once_for_all_its_readers() {
        let (shared, made) = (Shared::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for reader in 0..8_u64 {
                let (shared, made) = (&shared, &made);
                scope.spawn(move || {
                    for cluster in 0..100 {
                        let make = || {
                            made.fetch_add(1, Ordering::Relaxed);
                            Ok(vec![cluster as u8; 80])
                        };
                        let bytes = shared.get((0, cluster), 10, 80, make).unwrap();
                        assert_eq!(bytes[reader as usize], cluster as u8);
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 100);
        assert!(shared.lock().is_empty());
    }

    #[test]
    fn a_failure_is_not_kept_and_memory_is_bounded() {
        let shared = Shared::default();
        let fail =
            || Err(ImageError::io(Path::new("x"), crate::ImageOperation::Read, io::ErrorKind::Other.into()));
        assert!(shared.get((0, 0), 1, 2, fail).is_err());
        assert!(shared.lock().is_empty());
        for cluster in 0..100 {
            shared.get((0, cluster), 1, 2, || Ok(vec![0; 1 << 20])).unwrap();
        }
        assert_eq!(shared.lock().len(), (KEPT_LEN >> 20) + 1);
    }
}
