//! Inodes of directories, and where their records lie.

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
/// Extents and index blocks of one inode, so that a loop ends.
const MOST_EXTENT_BLOCKS: u32 = 1000;
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
        // Before there were so large ones, directories had something else here.
        let high = if self.large_dir { u64::from(u32_at(&raw, 108)) << 32 } else { 0 };
        let mut directory = DirectoryInfo {
            inode,
            size: u64::from(u32_at(&raw, 4)) | high,
            indexed: flags & 0x1000 != 0,
            encrypted: flags & 0x800 != 0,
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
        let mut extents = Vec::new();
        match flags & 0x8_0000 != 0 {
            true => self.extents(&raw[40..100], 0, &mut 0, &mut extents, inode)?,
            false => self.indirect(&raw[40..100], blocks as u32, &mut extents)?,
        }
        extents.sort_by_key(|extent| extent.logical);
        directory.extents = extents;
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

    fn extents(
        &self,
        node: &[u8],
        depth: u32,
        visited: &mut u32,
        extents: &mut Vec<Extent>,
        inode: u32,
    ) -> Result<(), ReadError> {
        let damaged = || ReadError::Damaged(format!("inode {inode}: its extents are damaged"));
        *visited += 1;
        let count = usize::from(u16_at(node, 2));
        if u16_at(node, 0) != 0xf30a
            || 12 + 12 * count > node.len()
            || depth > 5
            || *visited > MOST_EXTENT_BLOCKS
        {
            return Err(damaged());
        }
        let leaf = u16_at(node, 6) == 0;
        for entry in node[12..12 + 12 * count].chunks_exact(12) {
            if leaf {
                let physical = u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32;
                let length = u32::from(u16_at(entry, 4));
                extents.push(Extent { logical: u32_at(entry, 0), count: length.min(32768), physical });
            } else {
                let block = u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32;
                let below = self.physical(block).map_err(|_| damaged())?;
                self.extents(&below, depth + 1, visited, extents, inode)?;
            }
        }
        Ok(())
    }

    /// The map of ext2 and ext3: twelve blocks, then blocks of block numbers.
    fn indirect(&self, map: &[u8], blocks: u32, extents: &mut Vec<Extent>) -> Result<(), ReadError> {
        let mut logical = 0;
        for slot in 0..15u32 {
            let number = u32_at(map, 4 * slot as usize);
            self.add(number, slot.saturating_sub(11), blocks, &mut logical, extents)?;
        }
        Ok(())
    }

    fn add(
        &self,
        number: u32,
        depth: u32,
        blocks: u32,
        logical: &mut u32,
        extents: &mut Vec<Extent>,
    ) -> Result<(), ReadError> {
        if *logical >= blocks {
            return Ok(());
        }
        let each = self.block_size / 4;
        if number == 0 {
            *logical = logical.saturating_add(each.saturating_pow(depth));
            return Ok(());
        }
        if depth == 0 {
            match extents.last_mut() {
                Some(last)
                    if last.logical + last.count == *logical
                        && last.physical + u64::from(last.count) == u64::from(number) =>
                {
                    last.count += 1;
                }
                _ => extents.push(Extent { logical: *logical, count: 1, physical: number.into() }),
            }
            *logical += 1;
            return Ok(());
        }
        let below = self.physical(number.into())?;
        for slot in below.chunks_exact(4) {
            self.add(u32_at(slot, 0), depth - 1, blocks, logical, extents)?;
        }
        Ok(())
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
