//! Adding names, as the kernel does: `ext4_dx_add_entry`, `do_split`, `make_indexed_dir`.

use super::leaf::{Leaf, Slot};
use super::tree::{Path, TreeBlock};
use super::{Htree, IndexEntry, IndexFull};

impl Htree {
    /// Adds a name. Whether it is there already is for the caller to know.
    ///
    /// # Errors
    /// If the index is full; the directory is then as the kernel leaves it, and stays usable.
    pub fn insert(&mut self, slot: Slot) -> Result<(), IndexFull> {
        debug_assert!(slot.key & 1 == 0 && slot.id != u32::MAX);
        loop {
            let path = self.probe(slot.key);
            let block = self.target(&path);
            if self.leaf_mut(block).insert(slot) {
                break;
            }
            let path = match self.levels {
                0 => self.make_indexed(),
                _ if self.is_full(&path, path.len() - 1) => match self.split_index(path)? {
                    Some(path) => path,
                    None => continue,
                },
                _ => path,
            };
            self.split_leaf(&path, slot);
            break;
        }
        self.events.writes += 1;
        self.entries += 1;
        self.live_bytes += u64::from(slot.size);
        Ok(())
    }

    /// The linear block becomes the root; its names go to a leaf.
    fn make_indexed(&mut self) -> Path {
        let root = TreeBlock::Index(vec![IndexEntry { key: 0, block: 1 }]);
        let linear = std::mem::replace(&mut self.blocks[0], root);
        if let TreeBlock::Leaf(linear) = linear {
            let leaf = linear.without_dots(self.geometry.leaf_space());
            self.blocks.push(TreeBlock::Leaf(leaf));
        }
        self.levels = 1;
        self.events.writes += 1;
        vec![(0, 0)]
    }

    fn split_leaf(&mut self, path: &Path, slot: Slot) {
        let (geometry, rule) = (self.geometry, self.split_rule);
        let block = self.target(path);
        let (mut upper, key): (Leaf, u32) = self.leaf_mut(block).split(&geometry, rule);
        let fits = match slot.key >= key & !1 {
            true => upper.insert(slot),
            false => self.leaf_mut(block).insert(slot),
        };
        assert!(fits, "half a block has room for one name");
        let new = self.append(TreeBlock::Leaf(upper));
        let &(parent, place) = path.last().expect("a leaf of an index");
        self.index_mut(parent).insert(place + 1, IndexEntry { key, block: new });
        self.events.leaf_splits += 1;
        // The other leaf and the index block; the caller counts the leaf with the name.
        self.events.writes += 2;
    }

    /// Makes room in the index. `None` if the search has to be repeated, else the path as it is now.
    fn split_index(&mut self, mut path: Path) -> Result<Option<Path>, IndexFull> {
        let lowest = path.len() - 1;
        // The lowest full index block below one with room.
        let mut level = lowest;
        while level > 0 && self.is_full(&path, level - 1) {
            level -= 1;
        }
        if level == 0 {
            return self.add_level().map(|()| None);
        }
        let (block, place) = path[level];
        let half = self.index(block).len() / 2;
        let upper = self.index_mut(block).split_off(half);
        let key = upper[0].key;
        let new = self.append(TreeBlock::Index(upper));
        let (above, above_place) = path[level - 1];
        self.index_mut(above).insert(above_place + 1, IndexEntry { key, block: new });
        self.events.index_splits += 1;
        self.events.writes += 3;
        if level < lowest {
            return Ok(None);
        }
        if place >= half {
            path[level] = (new, place - half);
            path[level - 1].1 += 1;
        }
        Ok(Some(path))
    }

    /// Copies the root to a child of its own.
    fn add_level(&mut self) -> Result<(), IndexFull> {
        if self.levels == self.geometry.most_levels() {
            return Err(IndexFull);
        }
        let entries = std::mem::take(self.index_mut(0));
        let block = self.append(TreeBlock::Index(entries));
        *self.index_mut(0) = vec![IndexEntry { key: 0, block }];
        self.levels += 1;
        self.events.writes += 2;
        Ok(())
    }

    fn is_full(&self, path: &Path, level: usize) -> bool {
        let limit = match level {
            0 => self.geometry.root_limit(),
            _ => self.geometry.node_limit(),
        };
        self.index(path[level].0).len() >= limit
    }
}
