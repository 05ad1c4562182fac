//! Measures a directory: fill, collisions, and how far it can grow.

use super::{Geometry, Htree};

/// How full the leaves are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fill {
    /// Leaves; for a directory of one linear block, that one.
    pub leaves: u64,
    /// Blocks of the index.
    pub index_blocks: u64,
    /// Blocks that are neither, under policies that keep free ones.
    pub free_blocks: u64,
    /// Bytes that the records of names need.
    pub live_bytes: u64,
    /// Leaves without a name.
    pub empty_leaves: u64,
    /// Names whose hash another name has too.
    pub colliding: u64,
    /// The most names of one hash.
    pub most_of_one_hash: u64,
    /// Leaves that begin with a hash that the leaf before also has.
    pub continued_leaves: u64,
    /// Leaves by fill in tenths.
    pub histogram: [u64; 10],
}

impl Fill {
    /// Bytes used in an average leaf.
    pub fn bytes_per_leaf(&self) -> f64 {
        self.live_bytes as f64 / self.leaves.max(1) as f64
    }

    /// The part of the leaves' bytes that is used.
    pub fn fraction(&self, geometry: Geometry) -> f64 {
        self.bytes_per_leaf() / f64::from(geometry.block_size())
    }
}

/// When a directory is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexLimit {
    /// If every block of leaves and index were full.
    pub most_names: f64,
    /// With a hash that spreads evenly it is not full before: index blocks split in step, and the root is
    /// too small for the next doubling. Since they do not split all at once, an eighth to a third more fit.
    pub least_names: f64,
}

impl IndexLimit {
    /// For names of which a record needs this many bytes on average, in leaves as full as this.
    pub fn of(geometry: Geometry, record: f64, fill: f64) -> IndexLimit {
        let root = geometry.root_limit() as f64;
        let node = geometry.node_limit() as f64;
        let levels = geometry.most_levels() as i32;
        // Every level but the lowest has a power of two of blocks, the most that the root can lead to.
        let in_step = match levels {
            2 => 2f64.powi(root.log2().floor() as i32) * node,
            _ => 2f64.powi((root * 2f64.powi(node.log2().floor() as i32)).log2().floor() as i32) * node,
        };
        let names_per_leaf = f64::from(geometry.leaf_space()) / record;
        IndexLimit {
            most_names: root * node.powi(levels - 1) * names_per_leaf.floor(),
            least_names: in_step * names_per_leaf * fill,
        }
    }
}

impl Htree {
    /// Looks at every leaf.
    pub fn fill(&self) -> Fill {
        let entries = self.leaf_entries();
        let mut fill = Fill { leaves: entries.len() as u64, ..Fill::default() };
        fill.live_bytes = self.live_bytes;
        fill.free_blocks = self.free.len() as u64;
        fill.index_blocks = self.blocks() - fill.leaves - fill.free_blocks;
        let mut run = Run::default();
        let mut keys = Vec::new();
        for entry in entries {
            let leaf = self.leaf(entry.block);
            let live = leaf.live();
            fill.empty_leaves += u64::from(live == 0);
            fill.continued_leaves += u64::from(entry.key & 1 == 1);
            fill.histogram[(live * 10 / self.geometry.block_size()).min(9) as usize] += 1;
            keys.clear();
            keys.extend(leaf.slots().map(|slot| slot.key));
            keys.sort_unstable();
            keys.iter().for_each(|&key| run.add(key, &mut fill));
        }
        run.end(&mut fill);
        fill
    }
}

/// Names of one hash, one after the other, also over the border of a leaf.
#[derive(Default)]
struct Run {
    key: u32,
    length: u64,
}

impl Run {
    fn add(&mut self, key: u32, fill: &mut Fill) {
        if self.length > 0 && self.key != key {
            self.end(fill);
        }
        self.key = key;
        self.length += 1;
    }

    fn end(&mut self, fill: &mut Fill) {
        if self.length > 1 {
            fill.colliding += self.length;
        }
        fill.most_of_one_hash = fill.most_of_one_hash.max(self.length);
        self.length = 0;
    }
}
