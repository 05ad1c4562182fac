//! The tree itself: its blocks, and searches in them.

use super::leaf::Leaf;
use super::{Geometry, LeafRecord, RemovalPolicy, SplitRule};

/// The directory's index is full, or its hash has too many equal values: the kernel's `ENOSPC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory's index is full")]
pub struct IndexFull;

/// What has happened in a directory so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Leaves that were split.
    pub leaf_splits: u64,
    /// Index blocks that were split.
    pub index_splits: u64,
    /// Leaves that were joined with a neighbour.
    pub merges: u64,
    /// Times that the whole directory was written anew.
    pub rebuilds: u64,
    /// Blocks written, each change of a block counted.
    pub writes: u64,
    /// Blocks read to find out whether two leaves can be joined; all else is read in any case.
    pub merge_reads: u64,
}

/// An index entry: keys from this one on are in this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The lowest key; its lowest bit says that the previous block has names of the same hash.
    pub key: u32,
    /// The number of the block.
    pub block: u32,
}

#[derive(Debug)]
pub(super) enum TreeBlock {
    Leaf(Leaf),
    /// The root and the nodes of the index. The first entry's key counts as 0.
    Index(Vec<IndexEntry>),
    Free,
}

/// A directory.
#[derive(Debug)]
pub struct Htree {
    pub(super) geometry: Geometry,
    pub(super) policy: RemovalPolicy,
    pub(super) split_rule: SplitRule,
    pub(super) blocks: Vec<TreeBlock>,
    /// Blocks of no use now, under the policies that make some.
    pub(super) free: Vec<u32>,
    /// Index levels; 0 while the directory is one linear block.
    pub(super) levels: usize,
    pub(super) entries: u64,
    pub(super) live_bytes: u64,
    pub(super) events: Events,
}

/// Where a search went: the index block and the place in it, from the root down.
pub(super) type Path = Vec<(u32, usize)>;

impl Htree {
    /// An empty directory of one block, which the kernel treats.
    pub fn new(geometry: Geometry) -> Htree {
        Htree::with(geometry, RemovalPolicy::Never, SplitRule::Size)
    }

    /// An empty directory under other rules than the kernel's.
    pub fn with(geometry: Geometry, policy: RemovalPolicy, split_rule: SplitRule) -> Htree {
        Htree {
            geometry,
            policy,
            split_rule,
            blocks: vec![TreeBlock::Leaf(Leaf::linear(&geometry))],
            free: Vec::new(),
            levels: 0,
            entries: 0,
            live_bytes: 0,
            events: Events { writes: 1, ..Events::default() },
        }
    }

    /// Its measures.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The number of names.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The length of the directory in blocks; times the block size, what `stat` shows as its size.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Index levels: 0 for one linear block, 1 for a root above leaves.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// What has happened so far.
    pub fn events(&self) -> Events {
        self.events
    }

    /// How many leaves a search for a name reads, and whether the name is there.
    pub fn lookup(&self, key: u32, id: u32) -> (u32, bool) {
        let mut reads = 0;
        let mut path = self.probe(key);
        loop {
            reads += 1;
            let (_, leaf) = self.leaf_at(&path);
            if leaf.find(id).is_some() {
                return (reads, true);
            }
            if !self.next_of_same_hash(&mut path, key) {
                return (reads, false);
            }
        }
    }

    /// The leaves in the order of the index: the number of each, the key that leads to it, its records.
    pub fn leaves(&self) -> impl Iterator<Item = (u32, u32, Vec<LeafRecord>)> {
        self.leaf_entries().into_iter().map(|entry| {
            let leaf = self.leaf(entry.block);
            (entry.block, entry.key, leaf.records().collect())
        })
    }

    /// The index entries that lead to leaves, in order.
    pub(super) fn leaf_entries(&self) -> Vec<IndexEntry> {
        let mut level = vec![IndexEntry { key: 0, block: 0 }];
        for _ in 0..self.levels {
            level = level
                .iter()
                .flat_map(|above| {
                    // The first key of a node is not stored; it is that of the entry above.
                    self.index(above.block).iter().enumerate().map(|(place, entry)| match place {
                        0 => IndexEntry { key: above.key, ..*entry },
                        _ => *entry,
                    })
                })
                .collect();
        }
        level
    }

    /// Searches the index: in each block the last entry with a key not above this one.
    pub(super) fn probe(&self, key: u32) -> Path {
        let mut path = Path::with_capacity(self.levels);
        let mut block = 0;
        for _ in 0..self.levels {
            let entries = self.index(block);
            let place = entries[1..].partition_point(|entry| entry.key <= key);
            path.push((block, place));
            block = entries[place].block;
        }
        path
    }

    /// Goes on to the next leaf if it has names of the same hash.
    pub(super) fn next_of_same_hash(&self, path: &mut Path, key: u32) -> bool {
        let Some(level) = path.iter().rposition(|&(block, place)| place + 1 < self.index(block).len()) else {
            return false;
        };
        let (block, place) = path[level];
        let next = self.index(block)[place + 1];
        if next.key & !1 != key {
            return false;
        }
        path[level].1 += 1;
        let mut below = next.block;
        for step in &mut path[level + 1..] {
            *step = (below, 0);
            below = self.index(below)[0].block;
        }
        true
    }

    /// The block that a path leads to.
    pub(super) fn target(&self, path: &Path) -> u32 {
        path.last().map_or(0, |&(block, place)| self.index(block)[place].block)
    }

    pub(super) fn leaf_at(&self, path: &Path) -> (u32, &Leaf) {
        let block = self.target(path);
        (block, self.leaf(block))
    }

    pub(super) fn leaf(&self, block: u32) -> &Leaf {
        match &self.blocks[block as usize] {
            TreeBlock::Leaf(leaf) => leaf,
            _ => unreachable!("the index leads to leaves"),
        }
    }

    pub(super) fn leaf_mut(&mut self, block: u32) -> &mut Leaf {
        match &mut self.blocks[block as usize] {
            TreeBlock::Leaf(leaf) => leaf,
            _ => unreachable!("the index leads to leaves"),
        }
    }

    pub(super) fn index(&self, block: u32) -> &[IndexEntry] {
        match &self.blocks[block as usize] {
            TreeBlock::Index(entries) => entries,
            _ => unreachable!("only index blocks are searched"),
        }
    }

    pub(super) fn index_mut(&mut self, block: u32) -> &mut Vec<IndexEntry> {
        match &mut self.blocks[block as usize] {
            TreeBlock::Index(entries) => entries,
            _ => unreachable!("only index blocks are searched"),
        }
    }

    /// Adds a block: at the end, or where one is of no use.
    pub(super) fn append(&mut self, block: TreeBlock) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        }
    }
}
