//! Policies for directories other than the kernel's.

use super::leaf::Leaf;
use super::tree::TreeBlock;
use super::{Htree, IndexEntry};

/// What is done about leaves that names were removed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum RemovalPolicy {
    /// Nothing, as the kernel: a block once used stays.
    #[default]
    Never,
    /// A leaf is joined with its neighbour if both fit into one with a quarter to spare.
    ///
    /// The free block is used for the next split; the directory never becomes shorter. (Daniel Phillips's
    /// plan of 2001.)
    Coalesce,
    /// As coalesce, and the index says how full each leaf is, so that no neighbour is read for nothing.
    FullnessBits,
    /// As coalesce, and the last block is moved into the free one.
    SwapWithLast,
    /// All leaves are written again, full, when the names need less than three eighths of their space.
    ///
    /// It is `e2fsck -D` while mounted. An even hash keeps leaves half full or more as names come and go, and
    /// never gets there.
    Rebuild,
}

impl RemovalPolicy {
    /// Every policy.
    pub const ALL: [RemovalPolicy; 5] = [
        RemovalPolicy::Never,
        RemovalPolicy::Coalesce,
        RemovalPolicy::FullnessBits,
        RemovalPolicy::SwapWithLast,
        RemovalPolicy::Rebuild,
    ];

    /// Its name in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            RemovalPolicy::Never => "never",
            RemovalPolicy::Coalesce => "coalesce",
            RemovalPolicy::FullnessBits => "fullness-bits",
            RemovalPolicy::SwapWithLast => "swap-with-last",
            RemovalPolicy::Rebuild => "rebuild",
        }
    }
}

/// Where a full leaf is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SplitRule {
    /// At half of the bytes, as the kernel.
    #[default]
    Size,
    /// At half of the names.
    Count,
}

/// How full a leaf that two become may be, in quarters.
const JOINED_QUARTERS: u32 = 3;

/// Leaves below which it is no use to rebuild.
const FEW: u64 = 4;

impl Htree {
    /// Called after a removal, with the way to the leaf.
    pub(super) fn tidy(&mut self, parent: u32, place: usize) {
        match self.policy {
            RemovalPolicy::Never => {}
            RemovalPolicy::Rebuild => self.rebuild_if_sparse(),
            _ => self.join(parent, place),
        }
    }

    /// Joins a leaf with one of its neighbours below the same index block.
    fn join(&mut self, parent: u32, place: usize) {
        let most = self.geometry.leaf_space() * JOINED_QUARTERS / 4;
        let entries = self.index(parent).to_vec();
        let own = self.leaf(entries[place].block).live();
        let right = (place + 1 < entries.len()).then_some((place, place + 1));
        let left = (place > 0).then(|| (place - 1, place));
        for (low, high) in right.into_iter().chain(left) {
            let other = if low == place { high } else { low };
            let live = self.leaf(entries[other].block).live();
            let known = match self.policy {
                // Sixteenths of a block, rounded up: never too hopeful.
                RemovalPolicy::FullnessBits => {
                    live.div_ceil(self.geometry.block_size() / 16) * (self.geometry.block_size() / 16)
                }
                _ => {
                    self.events.merge_reads += 1;
                    live
                }
            };
            if own + known <= most {
                if self.policy == RemovalPolicy::FullnessBits {
                    self.events.merge_reads += 1;
                }
                self.join_two(parent, low, entries[low].block, entries[high].block);
                return;
            }
        }
    }

    fn join_two(&mut self, parent: u32, low_place: usize, low: u32, high: u32) {
        let slots: Vec<_> = self.leaf(low).slots().chain(self.leaf(high).slots()).collect();
        *self.leaf_mut(low) = Leaf::of(slots, self.geometry.leaf_space());
        self.index_mut(parent).remove(low_place + 1);
        self.events.merges += 1;
        // The leaf and the index block.
        self.events.writes += 2;
        self.blocks[high as usize] = TreeBlock::Free;
        match self.policy {
            RemovalPolicy::SwapWithLast => self.fill_hole(high),
            _ => self.free.push(high),
        }
    }

    /// Moves the last block into a free one and shortens the directory.
    fn fill_hole(&mut self, hole: u32) {
        let last = (self.blocks.len() - 1) as u32;
        if last == hole {
            self.blocks.pop();
            return;
        }
        let (above, place) = self.above(last);
        self.index_mut(above)[place].block = hole;
        self.blocks.swap_remove(hole as usize);
        // The block itself, and what leads to it.
        self.events.writes += 2;
    }

    /// The index entry that leads to a block, which is searched for by a hash that is in it.
    fn above(&self, block: u32) -> (u32, usize) {
        let key = match &self.blocks[block as usize] {
            TreeBlock::Leaf(leaf) => leaf.slots().next().map(|slot| slot.key),
            // The first key of an index block is not kept up.
            TreeBlock::Index(entries) => entries.get(1).map(|entry| entry.key),
            TreeBlock::Free => None,
        };
        if let Some(key) = key {
            let mut path = self.probe(key);
            loop {
                if let Some(&found) = path.iter().find(|step| self.index(step.0)[step.1].block == block) {
                    return found;
                }
                if !self.next_of_same_hash(&mut path, key & !1) {
                    break;
                }
            }
        }
        // Nothing in it says where it belongs: all entries are looked at.
        (0..)
            .zip(&self.blocks)
            .find_map(|(above, other)| match other {
                TreeBlock::Index(entries) => {
                    entries.iter().position(|entry| entry.block == block).map(|place| (above, place))
                }
                _ => None,
            })
            .expect("the index leads to every block")
    }

    fn rebuild_if_sparse(&mut self) {
        // Against the whole length, in bytes: cheap enough to ask after every removal.
        let space = u64::from(self.geometry.leaf_space());
        if self.blocks() > FEW && self.live_bytes * 2 < (self.blocks() - FEW) * space * 3 / 4 {
            self.rebuild();
        }
    }

    /// Writes all leaves anew, in the order of the hash, each as full as names allow.
    pub fn rebuild(&mut self) {
        if self.levels == 0 {
            return;
        }
        let mut slots: Vec<_> = self
            .leaf_entries()
            .into_iter()
            .flat_map(|entry| self.leaf(entry.block).slots().collect::<Vec<_>>())
            .collect();
        slots.sort_by_key(|slot| slot.key);
        let space = self.geometry.leaf_space();
        self.blocks = vec![TreeBlock::Index(Vec::new())];
        self.free.clear();
        let mut below = Vec::new();
        let mut rest = slots.as_slice();
        let mut last_key = None;
        while !rest.is_empty() || below.is_empty() {
            let mut used = 0;
            let count = rest
                .iter()
                .take_while(|slot| {
                    used += u32::from(slot.size);
                    used <= space
                })
                .count();
            let (now, later) = rest.split_at(count);
            rest = later;
            let key = now.first().map_or(0, |slot| slot.key);
            let continued = last_key == Some(key);
            last_key = now.last().map(|slot| slot.key);
            let block = self.append(TreeBlock::Leaf(Leaf::of(now.iter().copied(), space)));
            below.push(IndexEntry { key: key | u32::from(continued), block });
        }
        self.levels = 1;
        while below.len() > self.geometry.root_limit() {
            // Index blocks with a little room.
            let each = self.geometry.node_limit() * 3 / 4;
            let nodes: Vec<Vec<IndexEntry>> = below.chunks(each).map(<[_]>::to_vec).collect();
            below = nodes
                .into_iter()
                .map(|node| IndexEntry { key: node[0].key, block: self.append(TreeBlock::Index(node)) })
                .collect();
            self.levels += 1;
        }
        *self.index_mut(0) = below;
        self.events.rebuilds += 1;
        self.events.writes += self.blocks();
    }
}
