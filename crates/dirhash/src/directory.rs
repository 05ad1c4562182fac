//! A modelled directory of names: a hash with its seed, on an htree.

use crate::namehash::{NameHash, Seed};

use crate::htree::{Geometry, Htree, IndexFull, RemovalPolicy, Slot, SplitRule};

/// A hash, and all that changes its values.
#[derive(Clone, Copy, Debug)]
pub struct Hashing {
    /// The hash, which says whether characters are signed.
    pub hash: &'static NameHash,
    /// Its seed.
    pub seed: Seed,
}

impl Hashing {
    /// The key of a name in the index.
    pub fn key(&self, name: &[u8]) -> u32 {
        self.hash.index_key(name, &self.seed)
    }
}

/// A directory.
#[derive(Debug)]
pub struct HashedDirectory {
    /// How names are hashed.
    pub hashing: Hashing,
    /// The index and leaves.
    pub tree: Htree,
}

impl HashedDirectory {
    /// An empty directory, treated as the kernel does.
    pub fn new(hashing: Hashing, geometry: Geometry) -> HashedDirectory {
        HashedDirectory { hashing, tree: Htree::new(geometry) }
    }

    /// An empty directory under other rules.
    pub fn with(
        hashing: Hashing,
        geometry: Geometry,
        policy: RemovalPolicy,
        rule: SplitRule,
    ) -> HashedDirectory {
        HashedDirectory { hashing, tree: Htree::with(geometry, policy, rule) }
    }

    /// Adds a name that is not there yet, and by whose number it will be known.
    ///
    /// # Errors
    /// If the index is full.
    pub fn create(&mut self, name: &[u8], id: u32) -> Result<(), IndexFull> {
        self.tree.insert(self.slot(name, id))
    }

    /// Adds a name whose key was computed before, of this length in bytes.
    ///
    /// # Errors
    /// If the index is full.
    pub fn create_hashed(&mut self, key: u32, length: usize, id: u32) -> Result<(), IndexFull> {
        self.tree.insert(Slot { key, id, size: Geometry::record_size(length) })
    }

    /// Removes a name; returns whether it was there.
    pub fn delete(&mut self, name: &[u8], id: u32) -> bool {
        self.tree.remove(self.hashing.key(name), id)
    }

    fn slot(&self, name: &[u8], id: u32) -> Slot {
        Slot { key: self.hashing.key(name), id, size: Geometry::record_size(name.len()) }
    }
}
