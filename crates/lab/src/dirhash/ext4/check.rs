//! Recomputes every hash of a directory, and compares it with where its name lies.

use verisum_digest::namehash::{NAME_HASHES, NameHash};

use super::super::htree::Geometry;
use super::image::{DirectoryInfo, Ext4, Opaque, ReadError};
use super::metadata;

/// A directory as it was found.
#[derive(Clone, Debug)]
pub struct DirectoryReport {
    /// Its inode.
    pub inode: u32,
    /// Whether it has an index.
    pub indexed: bool,
    /// Why nothing in it was looked at, if nothing was.
    pub opaque: Option<Opaque>,
    /// The hash of the index.
    pub hash: Option<&'static NameHash>,
    /// Index levels.
    pub levels: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Leaves; without an index, all blocks.
    pub leaves: u64,
    /// Names, `.` and `..` not among them.
    pub names: u64,
    /// Names whose hashes were not computed, since folding their letters needs tables of Unicode.
    pub unfolded: u64,
    /// Bytes that their records need.
    pub live_bytes: u64,
    /// Pieces on the disk.
    pub pieces: u64,
    /// What is wrong; the first thousand.
    pub findings: Vec<Finding>,
    /// How much more is wrong.
    pub more_findings: u64,
    /// Blocks that `e2fsck -fD` would leave.
    pub blocks_if_rebuilt: u64,
    /// Its leaves in the order of the index.
    pub leaf_uses: Vec<LeafUse>,
    /// The directories in it: inode and name. Without the feature filetype, all that is in it.
    pub subdirectories: Vec<(u32, Vec<u8>)>,
}

/// What is in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafUse {
    /// Its number among the blocks of the directory.
    pub block: u32,
    /// The key that leads to it, with the bit that says that its first hash began in the leaf before.
    pub key: u32,
    /// Names in it.
    pub names: u32,
    /// Bytes that their records need.
    pub live_bytes: u32,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In which block of the directory.
    pub block: u32,
    /// What, in words.
    pub what: String,
}

/// One record of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskRecord<'a> {
    pub(super) inode: u32,
    pub(super) name: &'a [u8],
    /// What it is a name of: 2 for a directory, 0 where that is not said.
    kind: u8,
}

/// The type of a directory in a record.
const DIRECTORY: u8 = 2;

const MOST_FINDINGS: usize = 1000;
/// What `e2fsck -D` leaves free in each leaf, in per cent of what records may fill.
const REBUILD_SLACK: u32 = 20;

/// The records of a block, up to the first that makes no sense.
pub(super) fn records(block: &[u8], block_size: u32) -> Vec<DiskRecord<'_>> {
    walk(block, block_size).0
}

/// Also where the records cease to make sense, if they do.
fn walk(block: &[u8], block_size: u32) -> (Vec<DiskRecord<'_>>, Option<usize>) {
    let mut records = Vec::new();
    let mut at = 0;
    while at + 8 <= block.len() {
        let inode = u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let length = match u16::from_le_bytes([block[at + 4], block[at + 5]]) {
            0 | 65535 if block_size == 65536 => 65536,
            other => usize::from(other),
        };
        let name_len = usize::from(block[at + 6]);
        let fits = length >= 8 && length % 4 == 0 && at + length <= block.len();
        if !fits || (inode > 0 && 8 + name_len > length) {
            return (records, Some(at));
        }
        let name = block.get(at + 8..at + 8 + name_len).unwrap_or_default();
        records.push(DiskRecord { inode, name, kind: block[at + 7] });
        at += length;
    }
    (records, None)
}

/// Looks at a whole directory.
///
/// # Errors
/// If a block cannot be read at all; what is wrong in a block is a finding.
pub fn check(image: &Ext4, directory: &DirectoryInfo) -> Result<DirectoryReport, ReadError> {
    let blocks = directory.size.div_ceil(image.block_size.into());
    let mut report = DirectoryReport {
        inode: directory.inode,
        indexed: directory.indexed,
        opaque: directory.opaque,
        hash: None,
        levels: 0,
        blocks,
        leaves: 0,
        names: 0,
        unfolded: 0,
        live_bytes: 0,
        pieces: directory.extents.len() as u64,
        findings: Vec::new(),
        more_findings: 0,
        blocks_if_rebuilt: blocks,
        leaf_uses: Vec::new(),
        subdirectories: Vec::new(),
    };
    let mut sizes = Vec::new();
    if directory.opaque.is_some() || blocks == 0 {
        return Ok(report);
    }
    match directory.indexed {
        true => {
            let mut seen = vec![false; blocks as usize];
            seen[0] = true;
            let mut walk =
                Walk { image, directory, report: &mut report, sizes: &mut sizes, seen, last: 0, whole: true };
            walk.root();
            walk.unreached();
        }
        false => {
            for block in 0..blocks as u32 {
                leaf(image, directory, block, None, &mut report, &mut sizes);
            }
        }
    }
    if blocks > 1 && image.indexes && Some(directory.inode) != image.lost_and_found() {
        report.blocks_if_rebuilt = rebuilt(image, &mut sizes).unwrap_or(blocks);
    }
    Ok(report)
}

/// Blocks after `e2fsck -fD`: it fills each leaf with names in the order of their hashes until less than a
/// fifth is left, and makes an index over more than one block whatever is in them.
fn rebuilt(image: &Ext4, sizes: &mut [(u32, u32)]) -> Option<u64> {
    let geometry = Geometry::new(image.block_size, image.checksums, image.large_dir).ok()?;
    sizes.sort_by_key(|&(key, _)| key);
    let slack = geometry.leaf_space() * REBUILD_SLACK / 100;
    let (mut leaves, mut left) = (0u64, 0);
    for &mut (_, size) in sizes {
        if size > left {
            leaves += 1;
            left = geometry.leaf_space();
        }
        left = left.saturating_sub(size);
        if left < slack {
            left = 0;
        }
    }
    let mut level = leaves.max(1);
    let mut blocks = 1 + level;
    while level > geometry.root_limit() as u64 {
        level = level.div_ceil(geometry.node_limit() as u64);
        blocks += level;
    }
    Some(blocks)
}

fn say(report: &mut DirectoryReport, block: u32, what: String) {
    match report.findings.len() < MOST_FINDINGS {
        true => report.findings.push(Finding { block, what }),
        false => report.more_findings += 1,
    }
}

/// The keys that a leaf may hold.
#[derive(Clone, Copy)]
struct Range {
    hash: &'static NameHash,
    from: u32,
    /// The key of the next leaf, with the bit that says that a hash goes on there.
    to: Option<u32>,
}

struct Walk<'a> {
    image: &'a Ext4,
    directory: &'a DirectoryInfo,
    report: &'a mut DirectoryReport,
    /// Key and record size of every name.
    sizes: &'a mut Vec<(u32, u32)>,
    /// Which blocks the index has led to; each has one way.
    seen: Vec<bool>,
    /// The greatest key so far, over all index blocks.
    last: u32,
    /// Whether all of the index could be followed.
    whole: bool,
}

impl Walk<'_> {
    fn root(&mut self) {
        let block = match self.image.block(self.directory, 0) {
            Ok(block) => block,
            Err(error) => return self.lost(0, error.to_string()),
        };
        let version = block[28];
        let unsigned = if self.image.unsigned && version < 3 { 3 } else { 0 };
        let Some(hash) = NAME_HASHES[..7].get(usize::from(version + unsigned)).filter(|_| version < 7) else {
            return self.lost(0, format!("hash version {version} is unknown"));
        };
        let levels = u32::from(block[30]) + 1;
        if block[29] != 8 || levels > 3 {
            return self.lost(0, "the root of the index is damaged".to_string());
        }
        self.report.hash = Some(hash);
        self.report.levels = levels;
        self.index(&block, 0, 32, hash, levels, (0, None));
    }

    /// Says why a part of the index cannot be followed.
    fn lost(&mut self, block: u32, what: String) {
        self.whole = false;
        say(self.report, block, what);
    }

    /// Blocks without a way to them: nobody finds the names there.
    fn unreached(&mut self) {
        if !self.whole {
            return;
        }
        for block in (0..self.seen.len()).filter(|&block| !self.seen[block]) {
            say(self.report, block as u32, "the index does not lead to this block".to_string());
        }
    }

    /// An index block, its entries at `start`, so many levels above the leaves.
    fn index(
        &mut self,
        block: &[u8],
        number: u32,
        start: usize,
        hash: &'static NameHash,
        levels: u32,
        bounds: (u32, Option<u32>),
    ) {
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let count = usize::from(u16::from_le_bytes([block[start + 2], block[start + 3]]));
        if count == 0 || start + 8 * count > block.len() {
            return self.lost(number, format!("an index of {count} entries"));
        }
        let limit = usize::from(u16::from_le_bytes([block[start], block[start + 1]]));
        let expected = (block.len() - start) / 8 - usize::from(self.image.checksums);
        if limit != expected || count > limit {
            say(self.report, number, format!("{count} of {limit} entries, where {expected} have room"));
        }
        if self.image.checksums
            && let Some(what) = metadata::index(self.image, self.directory, block, start)
        {
            say(self.report, number, format!("the index: {what}"));
        }
        for place in 0..count {
            let from = if place == 0 { bounds.0 } else { word(start + 8 * place) };
            let to = if place + 1 < count { Some(word(start + 8 * place + 8)) } else { bounds.1 };
            let child = word(start + 8 * place + 4) & 0x0fff_ffff;
            if from & !1 < self.last & !1 || to.is_some_and(|to| to & !1 < from & !1) {
                say(self.report, number, format!("entry {place}: key {from:08x} is out of order"));
            }
            self.last = from;
            match self.seen.get_mut(child as usize) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => {
                    // Following it again could go on for ever.
                    say(
                        self.report,
                        number,
                        format!("entry {place}: another entry leads to block {child} too"),
                    );
                    continue;
                }
                None => {
                    say(self.report, number, format!("entry {place}: block {child} is not in the directory"));
                    continue;
                }
            }
            if levels == 1 {
                let range = Range { hash, from, to };
                leaf(self.image, self.directory, child, Some(range), self.report, self.sizes);
                continue;
            }
            match self.image.block(self.directory, child) {
                Ok(below) => self.index(&below, child, 8, hash, levels - 1, (from, to)),
                Err(error) => self.lost(child, error.to_string()),
            }
        }
    }
}

fn leaf(
    image: &Ext4,
    directory: &DirectoryInfo,
    number: u32,
    range: Option<Range>,
    report: &mut DirectoryReport,
    sizes: &mut Vec<(u32, u32)>,
) {
    report.leaves += 1;
    let block = match image.block(directory, number) {
        Ok(block) => block,
        Err(error) => return say(report, number, error.to_string()),
    };
    let (records, broken) = walk(&block, image.block_size);
    if let Some(at) = broken {
        say(report, number, format!("the record at byte {at} is damaged"));
    }
    if image.checksums
        && let Some(what) = metadata::leaf(image, directory, &block)
    {
        say(report, number, format!("the leaf's records: {what}"));
    }
    let mut used =
        LeafUse { block: number, key: range.map_or(0, |range| range.from), names: 0, live_bytes: 0 };
    let mut greatest = None;
    for record in records.iter().filter(|record| record.inode > 0 && !record.name.is_empty()) {
        if matches!(record.name, b"." | b"..") {
            continue;
        }
        report.names += 1;
        let size = u32::from(Geometry::record_size(record.name.len()));
        report.live_bytes += u64::from(size);
        used.names += 1;
        used.live_bytes += size;
        if record.inode > image.inodes() {
            let name = String::from_utf8_lossy(record.name).escape_default().to_string();
            say(report, number, format!("{name}: there is no inode {}", record.inode));
        }
        if matches!(record.kind, 0 | DIRECTORY) {
            report.subdirectories.push((record.inode, record.name.to_vec()));
        }
        let Some(hash) = range.map(|range| range.hash).or(image.new_hash()) else { continue };
        let folded;
        let hashed = match directory.casefolded {
            false => record.name,
            true => {
                folded = record.name.to_ascii_lowercase();
                &folded
            }
        };
        let key = hash.index_key(hashed, &image.seed);
        sizes.push((key, size));
        let Some(Range { from, to, .. }) = range else { continue };
        // Other letters than ASCII's are folded by tables of Unicode, which are not here.
        if directory.casefolded && !record.name.is_ascii() {
            report.unfolded += 1;
            continue;
        }
        greatest = greatest.max(Some(key));
        let name = || String::from_utf8_lossy(record.name).escape_default().to_string();
        if key < from & !1 {
            say(report, number, format!("{}: hash {key:08x} is below the leaf's {from:08x}", name()));
        } else if to.is_some_and(|to| key > to & !1 || (key == to & !1 && to & 1 == 0)) {
            let to = to.unwrap_or_default();
            say(
                report,
                number,
                format!("{}: hash {key:08x} is beyond the leaf: the next has {to:08x}", name()),
            );
        }
    }
    report.leaf_uses.push(used);
    // The bit that a hash goes on: then this leaf, too, must have a name of it.
    if let Some(Range { to: Some(to), .. }) = range
        && to & 1 == 1
        && report.unfolded == 0
        && greatest.is_some_and(|key| key < to & !1)
    {
        say(report, number, format!("the next leaf's key {to:08x} says that this one has such a hash too"));
    }
}
