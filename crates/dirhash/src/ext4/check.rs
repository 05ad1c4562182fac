//! Recomputes every hash of a directory, and compares it with the place of its name.

use std::collections::HashSet;

use crate::namehash::NameHash;

use super::image::{Ext4, ReadError};
use super::index::Walk;
use super::inode::DirectoryInfo;
use super::metadata;
use crate::htree::Geometry;

/// A directory as it was found.
#[derive(Clone, Debug)]
pub struct DirectoryReport {
    /// Its inode.
    pub inode: u32,
    /// Whether it has an index.
    pub indexed: bool,
    /// Whether its names are encrypted: then none was looked at.
    pub encrypted: bool,
    /// Whether its records lie in its inode: then it has no blocks.
    pub inline: bool,
    /// The directory that it says it is in.
    pub parent: Option<u32>,
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
    pub findings: Vec<DirectoryFault>,
    /// How much more is wrong.
    pub more_findings: u64,
    /// Blocks that `e2fsck -fD` would leave.
    pub blocks_if_rebuilt: u64,
    /// Its leaves in the order of the index.
    pub leaf_uses: Vec<LeafUse>,
    /// The directories in it: inode and name.
    pub subdirectories: Vec<(u32, Vec<u8>)>,
    /// How many names its inode says lead to it; `None` if they are not counted.
    pub(super) links: Option<u16>,
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
pub struct DirectoryFault {
    /// In which block of the directory; `None` if it is in none.
    pub block: Option<u32>,
    /// What, in words.
    pub what: String,
}

/// One record of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskRecord<'a> {
    pub(super) inode: u32,
    pub(super) name: &'a [u8],
    /// Bytes to the next.
    length: usize,
    /// What it is a name of: 1 for a file, 2 for a directory, 0 where that is not said.
    file_type: u8,
}

impl DiskRecord<'_> {
    /// Whether it is as it must be where no name may be.
    pub(super) fn is_empty(&self) -> bool {
        self.inode == 0 && self.name.is_empty() && self.file_type == 0
    }
}

/// The type of a directory in a record.
const DIRECTORY: u8 = 2;

const MOST_FINDINGS: usize = 1000;
/// What `e2fsck -D` leaves free in each leaf, in per cent of what records may fill.
const REBUILD_SLACK: u32 = 20;

/// The records of a block up to the first that makes no sense, and where that is, if there is one.
pub(super) fn records(block: &[u8], block_size: u32) -> (Vec<DiskRecord<'_>>, Option<usize>) {
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
        records.push(DiskRecord { inode, name, length, file_type: block[at + 7] });
        at += length;
    }
    (records, (at < block.len()).then_some(at))
}

/// Looks at a whole directory.
///
/// # Errors
/// If a block cannot be read at all; what is wrong in a block is a finding.
pub fn check(image: &Ext4, directory: &DirectoryInfo) -> Result<DirectoryReport, ReadError> {
    let blocks = match directory.inline {
        Some(_) => 0,
        None => directory.size.div_ceil(image.block_size.into()),
    };
    let mut report = DirectoryReport {
        inode: directory.inode,
        indexed: directory.indexed,
        encrypted: directory.encrypted,
        inline: directory.inline.is_some(),
        parent: None,
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
        links: Some(directory.links).filter(|&links| {
            let is_uncounted = links == 1 && directory.indexed && image.uncounted_links;
            !is_uncounted
        }),
    };
    for what in &directory.findings {
        say(&mut report, None, what.clone());
    }
    if directory.encrypted {
        return Ok(report);
    }
    let mut gathered = Gathered::default();
    match &directory.inline {
        Some(inline) => {
            report.parent = Some(inline.parent);
            expect_directory(image, "..", inline.parent, &mut report, None);
            for block in &inline.records {
                let (found, broken) = records(block, image.block_size);
                if let Some(at) = broken {
                    say(&mut report, None, format!("the record at byte {at} in the inode is damaged"));
                }
                names(image, directory, &found, None, None, &mut report, &mut gathered);
            }
        }
        None if blocks == 0 => (),
        None if directory.indexed => Walk::all(image, directory, &mut report, &mut gathered),
        None => {
            for block in 0..blocks as u32 {
                leaf(image, directory, block, None, &mut report, &mut gathered);
            }
        }
    }
    if blocks > 1 && image.indexes && Some(directory.inode) != image.lost_and_found() {
        report.blocks_if_rebuilt = rebuilt(image, &mut gathered.sizes).unwrap_or(blocks);
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

/// What is kept of a directory's names from block to block.
#[derive(Default)]
pub(super) struct Gathered {
    /// Key and record size of every name.
    sizes: Vec<(u32, u32)>,
    /// The names of the hash that goes on in the next leaf.
    continued: Vec<Vec<u8>>,
}

/// The keys that a leaf may hold.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) hash: &'static NameHash,
    pub(super) from: u32,
    /// The key of the next leaf, with the bit that says that a hash goes on there. It must be set where one
    /// does, and stays when the names are gone.
    pub(super) to: Option<u32>,
}

pub(super) fn say(report: &mut DirectoryReport, block: impl Into<Option<u32>>, what: String) {
    match report.findings.len() < MOST_FINDINGS {
        true => report.findings.push(DirectoryFault { block: block.into(), what }),
        false => report.more_findings += 1,
    }
}

/// Looks at the records that a directory with blocks begins with.
pub(super) fn dot_records(
    image: &Ext4,
    directory: &DirectoryInfo,
    dot: DiskRecord,
    dots: DiskRecord,
    block: &[u8],
    report: &mut DirectoryReport,
) {
    let typed = |record: DiskRecord| record.file_type == if image.file_types { DIRECTORY } else { 0 };
    if dot.name != b"." || dot.inode != directory.inode || dot.length != 12 || !typed(dot) {
        say(report, 0, "the record of . is damaged".to_string());
    } else if block[9] != 0 || (dots.name == b".." && block[22] != 0) {
        say(report, 0, "the records of . and .. do not end with zeros".to_string());
    }
    if dots.name != b".." || !typed(dots) {
        return say(report, 0, "the record of .. is damaged".to_string());
    }
    report.parent = Some(dots.inode);
    expect_directory(image, "..", dots.inode, report, Some(0));
}

fn expect_directory(image: &Ext4, name: &str, inode: u32, report: &mut DirectoryReport, block: Option<u32>) {
    match image.file_type(inode) {
        Ok(Some(DIRECTORY)) => (),
        Ok(_) => say(report, block, format!("{name}: inode {inode} is no directory")),
        Err(error) => say(report, block, format!("{name}: {error}")),
    }
}

/// Looks at the records of a block without an index.
pub(super) fn leaf(
    image: &Ext4,
    directory: &DirectoryInfo,
    number: u32,
    range: Option<Range>,
    report: &mut DirectoryReport,
    gathered: &mut Gathered,
) {
    report.leaves += 1;
    let block = match image.block(directory, number) {
        Ok(block) => block,
        Err(error) => return say(report, number, error.to_string()),
    };
    let (found, broken) = records(&block, image.block_size);
    if let Some(at) = broken {
        say(report, number, format!("the record at byte {at} is damaged"));
    }
    if image.checksums
        && let Some(what) = metadata::leaf(image, directory, &block)
    {
        say(report, number, format!("the leaf's records: {what}"));
    }
    let mut of_names = found.as_slice();
    if number == 0 && range.is_none() {
        match *of_names {
            [dot, dots, ref others @ ..] => {
                dot_records(image, directory, dot, dots, &block, report);
                of_names = others;
            }
            _ => say(report, 0, "the records of . and .. are missing".to_string()),
        }
    }
    names(image, directory, of_names, Some(number), range, report, gathered);
}

/// Looks at the records of names.
fn names(
    image: &Ext4,
    directory: &DirectoryInfo,
    records: &[DiskRecord],
    number: Option<u32>,
    range: Option<Range>,
    report: &mut DirectoryReport,
    gathered: &mut Gathered,
) {
    let mut used = LeafUse {
        block: number.unwrap_or_default(),
        key: range.map_or(0, |range| range.from),
        names: 0,
        live_bytes: 0,
    };
    let before = match range {
        Some(Range { from, .. }) if from & 1 == 1 => std::mem::take(&mut gathered.continued),
        _ => Vec::new(),
    };
    gathered.continued.clear();
    let mut seen: HashSet<&[u8]> = before.iter().map(Vec::as_slice).collect();
    for record in records.iter().filter(|record| record.inode > 0) {
        let name = || String::from_utf8_lossy(record.name).escape_default().to_string();
        if matches!(record.name, b"" | b"." | b"..")
            || record.name.iter().any(|byte| matches!(byte, 0 | b'/'))
        {
            say(report, number, format!("\"{}\" is no name", name()));
            continue;
        }
        if !seen.insert(record.name) {
            say(report, number, format!("{}: the name is there twice", name()));
        }
        report.names += 1;
        let size = u32::from(Geometry::record_size(record.name.len()));
        report.live_bytes += u64::from(size);
        used.names += 1;
        used.live_bytes += size;
        match image.file_type(record.inode) {
            Ok(None) => say(report, number, format!("{}: inode {} is free", name(), record.inode)),
            Ok(Some(kind)) => {
                if record.file_type != if image.file_types { kind } else { 0 } {
                    let said = record.file_type;
                    say(report, number, format!("{}: type {said} should be {kind}", name()));
                }
                if kind == DIRECTORY {
                    report.subdirectories.push((record.inode, record.name.to_vec()));
                }
            }
            Err(error) => say(report, number, format!("{}: {error}", name())),
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
        gathered.sizes.push((key, size));
        let Some(Range { from, to, .. }) = range else { continue };
        if to == Some(key | 1) {
            gathered.continued.push(record.name.to_vec());
        }
        // Other letters than ASCII's are folded by tables of Unicode, which are not here.
        if directory.casefolded && !record.name.is_ascii() {
            report.unfolded += 1;
            continue;
        }
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
    if let Some(Range { from, to: Some(to), .. }) = range
        && from == to
    {
        // All of this leaf is of one hash, which began before it.
        gathered.continued.extend(before);
    }
    if number.is_some() {
        report.leaf_uses.push(used);
    }
}
