//! Inodes of directories, and the places of their records.

use super::image::{DIRECTORY_MODE, Ext4, ROOT_INODE, ReadError, u16_at, u32_at};
use super::metadata;

/// A directory's inode.
#[derive(Clone, Debug)]
pub struct DirectoryInfo {
    /// Its number.
    pub inode: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Whether it has an index.
    pub indexed: bool,
    /// Whether its names are encrypted, and therefore not looked at.
    pub encrypted: bool,
    /// How many names lead to it, its own `.` and the `..` of those in it among them.
    pub(super) links: u16,
    /// Whether upper and lower case are one: then the hash is that of the folded name.
    pub(super) casefolded: bool,
    /// Which file it is of those that had this inode one after the other.
    pub(super) generation: u32,
    pub(super) extents: Vec<Extent>,
    /// Its records, if they lie in the inode itself.
    pub(super) inline: Option<Inline>,
    /// What is wrong with the inode.
    pub(super) findings: Vec<String>,
}

/// The records of a directory without blocks.
#[derive(Clone, Debug)]
pub(super) struct Inline {
    /// The directory that it is in.
    pub(super) parent: u32,
    /// Where other files have the numbers of their blocks; and the attribute for more.
    pub(super) records: [Vec<u8>; 2],
}

/// Blocks of a directory one after the other on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) logical: u32,
    pub(super) count: u32,
    pub(super) physical: u64,
}

/// What each type in a record is in the mode of an inode: a file, a directory, devices for characters and
/// for blocks, a pipe, a socket, a symbolic link.
const MODES: [u16; 7] = [0x8000, DIRECTORY_MODE, 0x2000, 0x6000, 0x1000, 0xc000, 0xa000];

/// The longest directory that is looked at, in blocks: that of three full levels of 4 KiB is longer, and
/// never was seen.
const MOST_BLOCKS: u64 = 1 << 22;
/// Blocks that lead to those of one inode, so that a loop ends.
const MOST_EXTENT_BLOCKS: u32 = 1000;
/// Levels of extents that the kernel follows, the inode's not among them.
const MOST_EXTENT_LEVELS: u16 = 5;
/// An extent that is longer stands for so many fewer blocks, which were never written.
const LONGEST_EXTENT: u16 = 32768;
/// So much of a group's inodes is read at once, in bytes: a multiple of the longest inode.
const INODES_AT_ONCE: u64 = 64 * 1024;

impl Ext4 {
    /// Where an inode begins, in bytes.
    fn inode_at(&self, inode: u32) -> Result<u64, ReadError> {
        if inode == 0 || inode > self.inodes() {
            return Err(ReadError::Damaged(format!("there is no inode {inode}")));
        }
        let (group, index) = ((inode - 1) / self.inodes_per_group, (inode - 1) % self.inodes_per_group);
        let at = self.inode_table(group)? * u64::from(self.block_size)
            + u64::from(index) * u64::from(self.inode_size);
        match at / u64::from(self.block_size) < self.blocks {
            true => Ok(at),
            false => Err(ReadError::Damaged(format!("inode {inode} lies outside the image"))),
        }
    }

    /// What records must say of an inode, from 1 on; `None` if it is free.
    pub(super) fn file_type(&self, inode: u32) -> Result<Option<u8>, ReadError> {
        let raw = self.read(self.inode_at(inode)?, 28, "read an inode")?;
        let mode = u16_at(&raw, 0) & 0xf000;
        let place = MODES.iter().position(|&known| known == mode).filter(|_| u16_at(&raw, 26) > 0);
        Ok(place.map(|place| place as u8 + 1))
    }

    /// The directories among a group's inodes, also those before one that cannot be read.
    pub(super) fn directories_in(&self, group: u32, found: &mut Vec<u32>) -> Result<(), ReadError> {
        let table = self.inode_table(group)? * u64::from(self.block_size);
        let length = u64::from(self.used_inodes(group)?) * u64::from(self.inode_size);
        let present = length.min(self.blocks * u64::from(self.block_size) - table);
        let first = group * self.inodes_per_group + 1;
        for at in (0..present).step_by(INODES_AT_ONCE as usize) {
            let inodes = self.read(table + at, (present - at).min(INODES_AT_ONCE) as usize, "read inodes")?;
            let number = first + (at / u64::from(self.inode_size)) as u32;
            for (raw, number) in inodes.chunks_exact(self.inode_size.into()).zip(number..) {
                if u16_at(raw, 0) & 0xf000 == DIRECTORY_MODE && u16_at(raw, 26) > 0 {
                    found.push(number);
                }
            }
        }
        match present == length {
            true => Ok(()),
            false => {
                Err(ReadError::Damaged(format!("group {group}: some of its inodes lie outside the image")))
            }
        }
    }

    /// A directory's inode; `None` if the inode is something else, or free.
    ///
    /// # Errors
    /// If it cannot be read or where its blocks lie makes no sense.
    pub fn directory(&self, inode: u32) -> Result<Option<DirectoryInfo>, ReadError> {
        let raw = self.read(self.inode_at(inode)?, self.inode_size.into(), "read an inode")?;
        let used = u16_at(&raw, 26) > 0;
        if !used || u16_at(&raw, 0) & 0xf000 != DIRECTORY_MODE {
            return Ok(None);
        }
        let flags = u32_at(&raw, 32);
        // Without the feature the kernel does not look at the upper half.
        let high = u32_at(&raw, 108);
        let counted = if self.large_dir { u64::from(high) << 32 } else { 0 };
        let mut directory = DirectoryInfo {
            inode,
            size: u64::from(u32_at(&raw, 4)) | counted,
            indexed: flags & 0x1000 != 0,
            encrypted: flags & 0x800 != 0,
            links: u16_at(&raw, 26),
            casefolded: flags & 0x4000_0000 != 0,
            generation: u32_at(&raw, 100),
            extents: Vec::new(),
            inline: None,
            findings: Vec::new(),
        };
        if self.checksums {
            let finding = metadata::inode(self, inode, &raw);
            directory.findings.extend(finding.map(|what| format!("the inode: {what}")));
        }
        for (is_so, is_possible, what) in [
            (directory.indexed, self.indexes, "an index without the feature dir_index"),
            (directory.encrypted, self.encryption, "encrypted without the feature encrypt"),
            (directory.casefolded, self.casefolding, "case-folded without the feature casefold"),
        ] {
            if is_so && !is_possible {
                directory.findings.push(what.to_string());
            }
        }
        if high != 0 && !self.large_dir {
            let what = format!("{high} in the upper half of its length, without the feature large_dir");
            directory.findings.push(what);
        }
        if u32_at(&raw, 20) != 0 {
            directory.findings.push("a time of deletion, though names lead to it".to_string());
        }
        let size = directory.size;
        if flags & 0x1000_0000 != 0 {
            directory.inline = Some(self.inline(&raw, size, inode)?);
            return Ok(Some(directory));
        }
        if size == 0 || !size.is_multiple_of(self.block_size.into()) {
            directory.findings.push(format!("a length of {size} bytes, which are not whole blocks"));
        }
        let blocks = size.div_ceil(self.block_size.into());
        // A directory has no holes: a longer one would show the same blocks again and again.
        if blocks > MOST_BLOCKS.min(self.blocks) {
            return Err(ReadError::Damaged(format!("inode {inode}: a directory of {size} bytes")));
        }
        let end = blocks as u32 + u32::from(self.spare_blocks);
        let mut walk =
            BlockWalk { image: self, inode, end, beyond: None, next: 0, visited: 0, extents: Vec::new() };
        match flags & 0x8_0000 != 0 {
            true => walk.extents(&raw[40..100], None)?,
            false => walk.map(&raw[40..100])?,
        }
        directory.extents = walk.extents;
        if let Some(block) = walk.beyond {
            directory.findings.push(format!("block {block} is behind the end: the length is {size} bytes"));
        }
        Ok(Some(directory))
    }

    /// The records in an inode: four bytes for the directory that it is in, then records in what is left of
    /// the numbers of blocks, and in the attribute system.data.
    fn inline(&self, raw: &[u8], size: u64, inode: u32) -> Result<Inline, ReadError> {
        let damaged = |what: &str| ReadError::Damaged(format!("inode {inode}: entries in the inode, {what}"));
        if !self.inline_data {
            return Err(damaged("without the feature inline_data"));
        }
        let more = inline_attribute(raw).ok_or_else(|| damaged("but no attribute for them"))?;
        if size != 60 + more.len() as u64 {
            return Err(damaged(&format!("of {size} bytes, where {} have room", 60 + more.len())));
        }
        Ok(Inline { parent: u32_at(raw, 40), records: [raw[44..100].to_vec(), more.to_vec()] })
    }

    /// A block of a directory.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub(super) fn block(&self, directory: &DirectoryInfo, logical: u32) -> Result<Vec<u8>, ReadError> {
        let after = directory.extents.partition_point(|extent| extent.logical <= logical);
        let extent = directory.extents[..after]
            .last()
            .filter(|extent| logical - extent.logical < extent.count)
            .ok_or_else(|| ReadError::Damaged(format!("block {logical} of the directory is missing")))?;
        self.physical(extent.physical + u64::from(logical - extent.logical))
    }

    /// The directory for what e2fsck finds, which keeps its blocks whatever happens.
    pub(super) fn lost_and_found(&self) -> Option<u32> {
        *self.lost_and_found.get_or_init(|| self.find(b"/lost+found").ok())
    }

    /// The inode of a directory by its path from the root.
    ///
    /// # Errors
    /// If a part of it is not there or cannot be read.
    pub fn find(&self, path: &[u8]) -> Result<u32, ReadError> {
        let mut inode = ROOT_INODE;
        for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            let missing =
                || ReadError::Damaged(format!("there is no directory {}", String::from_utf8_lossy(part)));
            let directory = self.directory(inode)?.ok_or_else(missing)?;
            let blocks = directory.size.div_ceil(self.block_size.into()) as u32;
            // A damaged block does not hide the others.
            let found = match &directory.inline {
                Some(inline) if part == b".." => Some(inline.parent),
                Some(inline) => inline.records.iter().find_map(|block| self.named(block, part)),
                None => {
                    (0..blocks).find_map(|logical| self.named(&self.block(&directory, logical).ok()?, part))
                }
            };
            inode = found.ok_or_else(missing)?;
        }
        Ok(inode)
    }

    /// The inode of a name in a block of records.
    fn named(&self, block: &[u8], name: &[u8]) -> Option<u32> {
        let (records, _) = super::check::records(block, self.block_size);
        records.iter().find(|record| record.inode > 0 && record.name == name).map(|record| record.inode)
    }
}

/// Collects where an inode's blocks lie.
struct BlockWalk<'a> {
    image: &'a Ext4,
    inode: u32,
    /// Behind the last block that it may have.
    end: u32,
    /// The first block that it has all the same.
    beyond: Option<u32>,
    /// Behind the last block so far.
    next: u32,
    /// Blocks that lead to others, without those that a map needs for blocks before the end.
    visited: u32,
    extents: Vec<Extent>,
}

/// What a block of extents must agree with in the one that leads to it.
#[derive(Clone, Copy)]
struct Above {
    depth: u16,
    logical: u32,
}

impl BlockWalk<'_> {
    fn damaged(&self, what: impl std::fmt::Display) -> ReadError {
        ReadError::Damaged(format!("inode {}: its map of blocks is damaged: {what}", self.inode))
    }

    /// Reads a block that leads to others, and may do so for ever.
    fn visit(&mut self, block: u64) -> Result<Vec<u8>, ReadError> {
        self.visited += 1;
        match self.visited > MOST_EXTENT_BLOCKS {
            true => Err(self.damaged("it has too many blocks")),
            false => self.image.physical(block).map_err(|error| self.damaged(error)),
        }
    }

    /// A node of extents: what is in the inode, or a block.
    fn extents(&mut self, node: &[u8], above: Option<Above>) -> Result<(), ReadError> {
        let (count, limit, depth) = (usize::from(u16_at(node, 2)), u16_at(node, 4), u16_at(node, 6));
        let room = (node.len() - 12) / 12;
        if u16_at(node, 0) != 0xf30a {
            return Err(self.damaged("the magic number of extents is missing"));
        }
        // Up to two may be missing, as e2fsck has it.
        if !(room - 2..=room).contains(&limit.into()) || count > limit.into() {
            return Err(self.damaged(format_args!("{count} of {limit} extents, where {room} have room")));
        }
        let expected = above.map_or(depth, |above| above.depth.wrapping_sub(1));
        if depth != expected || depth > MOST_EXTENT_LEVELS || (depth > 0 && count == 0) {
            return Err(self.damaged(format_args!("{count} extents of depth {depth}")));
        }
        for (place, entry) in node[12..12 + 12 * count].chunks_exact(12).enumerate() {
            let logical = u32_at(entry, 0);
            let is_expected = above.is_none_or(|above| place > 0 || logical == above.logical);
            if logical < self.next || !is_expected {
                return Err(self.damaged(format_args!("the extent of block {logical} is out of order")));
            }
            if depth == 0 {
                let physical = u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32;
                self.extent(logical, u16_at(entry, 4), physical)?;
            } else {
                let block = u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32;
                let below = self.visit(block)?;
                self.extents(&below, Some(Above { depth, logical }))?;
            }
        }
        Ok(())
    }

    fn extent(&mut self, logical: u32, length: u16, physical: u64) -> Result<(), ReadError> {
        let count = u32::from(length);
        let is_inside = physical > self.image.first_data_block.into()
            && physical + u64::from(count) <= self.image.all_blocks;
        let why = if length == 0 || logical.checked_add(count).is_none() {
            "has an impossible length"
        } else if length > LONGEST_EXTENT {
            "was never written"
        } else if !is_inside {
            "lies outside the file system"
        } else {
            self.next = logical + count;
            if self.next > self.end {
                self.beyond.get_or_insert(logical.max(self.end));
            }
            self.extents.push(Extent { logical, count, physical });
            return Ok(());
        };
        Err(self.damaged(format_args!("the extent of block {logical} {why}")))
    }

    /// The map of ext2 and ext3: twelve blocks, then blocks of block numbers.
    fn map(&mut self, map: &[u8]) -> Result<(), ReadError> {
        for slot in 0..15u32 {
            self.slot(u32_at(map, 4 * slot as usize), slot.saturating_sub(11))?;
        }
        Ok(())
    }

    /// A number in the map, so many blocks of numbers above the blocks.
    fn slot(&mut self, number: u32, depth: u32) -> Result<(), ReadError> {
        // One behind the end is enough to know.
        if number == 0 || self.beyond.is_some() {
            self.next = self.next.saturating_add((self.image.block_size / 4).saturating_pow(depth));
            return Ok(());
        }
        if depth > 0 {
            let numbers = match self.next < self.end {
                true => self.image.physical(number.into())?,
                false => self.visit(number.into())?,
            };
            for slot in numbers.chunks_exact(4) {
                self.slot(u32_at(slot, 0), depth - 1)?;
            }
            return Ok(());
        }
        if self.next >= self.end {
            self.beyond = Some(self.next);
            return Ok(());
        }
        match self.extents.last_mut() {
            Some(last)
                if last.logical + last.count == self.next
                    && last.physical + u64::from(last.count) == u64::from(number) =>
            {
                last.count += 1;
            }
            _ => self.extents.push(Extent { logical: self.next, count: 1, physical: number.into() }),
        }
        self.next += 1;
        Ok(())
    }
}

/// The value of the attribute system.data behind an inode's usual 128 bytes.
fn inline_attribute(raw: &[u8]) -> Option<&[u8]> {
    const SYSTEM: u8 = 7;
    let extra = usize::from(u16_at(raw.get(..130)?, 128));
    let area = raw.get(128 + extra..)?;
    let mut entries = area.get(4..).filter(|_| u32_at(area, 0) == 0xea02_0000)?;
    let values = entries;
    // Entries end with a word of zeros.
    while entries.len() >= 16 && u32_at(entries, 0) != 0 {
        let name_len = usize::from(entries[0]);
        if entries[1] == SYSTEM && entries.get(16..16 + name_len)? == b"data" {
            let (offset, size) = (usize::from(u16_at(entries, 2)), u32_at(entries, 8) as usize);
            return values.get(offset..)?.get(..size);
        }
        entries = entries.get((16 + name_len).next_multiple_of(4)..)?;
    }
    None
}
