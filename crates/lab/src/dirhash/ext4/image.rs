//! Superblock, inodes, and the blocks of a directory.

use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use super::metadata::crc32c;
use verisum_digest::namehash::{NAME_HASHES, NameHash, Seed};

/// Why an image, or a directory in it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{operation}: {error}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// The magic number is missing.
    #[error("not an ext2, ext3 or ext4 file system")]
    NotExt4,
    /// A field has a value that none can have.
    #[error("{0}")]
    Damaged(String),
}

/// An opened image.
#[derive(Debug)]
pub struct Ext4 {
    file: File,
    pub(super) block_size: u32,
    inode_size: u16,
    inodes: u32,
    inodes_per_group: u32,
    descriptor_size: u16,
    first_data_block: u32,
    blocks_per_group: u32,
    /// The block of descriptors from which on each lies in its own groups, with the feature meta_bg.
    first_meta_group: u32,
    backups: Backups,
    groups: u32,
    blocks: u64,
    pub(super) seed: Seed,
    pub(super) unsigned: bool,
    pub(super) checksums: bool,
    /// What all checksums begin with.
    pub(super) checksum_seed: u32,
    /// Whether directories may have an index at all.
    pub(super) indexes: bool,
    pub(super) large_dir: bool,
    default_hash: u8,
    lost_and_found: OnceLock<Option<u32>>,
}

/// Which groups begin with a copy of the superblock.
#[derive(Clone, Copy, Debug)]
enum Backups {
    All,
    /// The first two, and the powers of 3, 5 and 7.
    Sparse,
    /// The first, and these.
    Two([u32; 2]),
}

impl Backups {
    fn has(self, group: u32) -> bool {
        let power_of = |base: u32| {
            let mut power = u64::from(base);
            while power < u64::from(group) {
                power *= u64::from(base);
            }
            power == u64::from(group)
        };
        group == 0
            || match self {
                Backups::All => true,
                Backups::Sparse => group == 1 || [3, 5, 7].into_iter().any(power_of),
                Backups::Two(groups) => groups.contains(&group),
            }
    }
}

/// A directory's inode.
#[derive(Clone, Debug)]
pub struct DirectoryInfo {
    /// Its number.
    pub inode: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Whether it has an index.
    pub indexed: bool,
    /// Why what is in it is not looked at, if it is not.
    pub opaque: Option<Opaque>,
    /// Whether upper and lower case are one: then the hash is that of the folded name.
    pub(super) casefolded: bool,
    /// Which file it is of those that had this inode one after the other.
    pub(super) generation: u32,
    pub(super) extents: Vec<Extent>,
}

/// What hides the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opaque {
    /// The names are encrypted.
    Encrypted,
    /// The entries lie in the inode itself: too few for an index.
    Inline,
}

impl Opaque {
    /// The word used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Opaque::Encrypted => "encrypted",
            Opaque::Inline => "in the inode",
        }
    }
}

/// Blocks of a directory one after the other on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) logical: u32,
    pub(super) count: u32,
    pub(super) physical: u64,
}

const ROOT_INODE: u32 = 2;
const DIRECTORY_MODE: u16 = 0x4000;
/// The longest directory that is looked at, in blocks: that of three full levels of 4 KiB is longer, and
/// never was seen.
const MOST_BLOCKS: u64 = 1 << 22;
/// Extents and index blocks of one inode, so that a loop ends.
const MOST_EXTENT_BLOCKS: u32 = 1000;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Ext4 {
    /// Opens an image or a block device.
    ///
    /// # Errors
    /// If it cannot be read or is no ext4.
    pub fn open(path: &Path) -> Result<Ext4, ReadError> {
        let file = File::open(path).map_err(|error| ReadError::Io { operation: "open", error })?;
        Ext4::of(file)
    }

    /// Reads the superblock of an opened image.
    ///
    /// # Errors
    /// As [`Ext4::open`].
    pub fn of(mut file: File) -> Result<Ext4, ReadError> {
        let length = file
            .seek(io::SeekFrom::End(0))
            .map_err(|error| ReadError::Io { operation: "find the length", error })?;
        let mut sb = [0; 1024];
        file.read_exact_at(&mut sb, 1024).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::NotExt4,
            _ => ReadError::Io { operation: "read the superblock", error },
        })?;
        if u16_at(&sb, 56) != 0xef53 {
            return Err(ReadError::NotExt4);
        }
        let damaged = |what: &str| ReadError::Damaged(format!("the superblock is damaged: {what}"));
        let shift = u32_at(&sb, 24);
        if shift > 6 {
            return Err(damaged("the block size"));
        }
        let incompatible = u32_at(&sb, 96);
        let wide = incompatible & 0x80 != 0;
        let inode_size = if u32_at(&sb, 76) == 0 { 128 } else { u16_at(&sb, 88) };
        let descriptor_size = if wide { u16_at(&sb, 254) } else { 32 };
        let blocks = u64::from(u32_at(&sb, 4)) | if wide { u64::from(u32_at(&sb, 336)) << 32 } else { 0 };
        let (blocks_per_group, first_data_block) = (u32_at(&sb, 32), u32_at(&sb, 20));
        let bigalloc = u32_at(&sb, 100) & 0x200 != 0;
        let cluster_shift = if bigalloc { u32_at(&sb, 28).wrapping_sub(shift).min(30) } else { 0 };
        // A bitmap of one block has a bit for each.
        if blocks_per_group == 0 || u64::from(blocks_per_group) > (8192 << shift) << cluster_shift {
            return Err(damaged("the blocks of a group"));
        }
        let all_groups = blocks.saturating_sub(first_data_block.into()).div_ceil(blocks_per_group.into());
        if all_groups.checked_mul(u32_at(&sb, 40).into()) != Some(u32_at(&sb, 0).into()) {
            return Err(damaged("the groups do not have as many inodes as all together"));
        }
        // What a truncated image lacks cannot be read, whatever the superblock says.
        let blocks = blocks.min(length >> (10 + shift));
        let ext4 = Ext4 {
            block_size: 1024 << shift,
            inode_size,
            inodes: u32_at(&sb, 0),
            inodes_per_group: u32_at(&sb, 40),
            descriptor_size,
            first_data_block,
            blocks_per_group,
            first_meta_group: if incompatible & 0x10 != 0 { u32_at(&sb, 260) } else { u32::MAX },
            backups: match (u32_at(&sb, 92) & 0x200 != 0, u32_at(&sb, 100) & 1 != 0) {
                (true, _) => Backups::Two([u32_at(&sb, 588), u32_at(&sb, 592)]),
                (false, true) => Backups::Sparse,
                (false, false) => Backups::All,
            },
            groups: u32::try_from(blocks.div_ceil(u64::from(blocks_per_group.max(1)))).unwrap_or(u32::MAX),
            blocks,
            seed: Seed(sb[236..252].try_into().expect("16 bytes")),
            unsigned: u32_at(&sb, 352) & 2 != 0,
            checksums: u32_at(&sb, 100) & 0x400 != 0,
            checksum_seed: match incompatible & 0x2000 != 0 {
                true => u32_at(&sb, 624),
                false => crc32c(!0, &sb[104..120]),
            },
            indexes: u32_at(&sb, 92) & 0x20 != 0,
            large_dir: incompatible & 0x4000 != 0,
            default_hash: sb[252],
            lost_and_found: OnceLock::new(),
            file,
        };
        let sound = (128..=ext4.block_size).contains(&u32::from(inode_size))
            && inode_size.is_power_of_two()
            && (32..=1024).contains(&descriptor_size)
            && descriptor_size.is_power_of_two()
            // A bitmap of one block has a bit for each.
            && (1..=8 * ext4.block_size).contains(&ext4.inodes_per_group)
            && u32_at(&sb, 20) <= 1;
        match sound {
            true => Ok(ext4),
            false => Err(damaged("the sizes of groups and inodes")),
        }
    }

    /// The block size in bytes.
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// The seed of all directories' hashes.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The hash version that new directories get.
    pub fn default_hash(&self) -> u8 {
        self.default_hash
    }

    /// Whether names' characters are hashed as unsigned ones.
    pub fn has_unsigned_characters(&self) -> bool {
        self.unsigned
    }

    /// The hash of new directories, with the sign that characters have here.
    pub fn new_hash(&self) -> Option<&'static NameHash> {
        let unsigned = if self.unsigned && self.default_hash < 3 { 3 } else { 0 };
        NAME_HASHES[..7].get(usize::from(self.default_hash) + unsigned)
    }

    /// The number of the last inode.
    pub fn inodes(&self) -> u32 {
        self.inodes.min(self.groups.saturating_mul(self.inodes_per_group))
    }

    fn read(&self, at: u64, length: usize, operation: &'static str) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| ReadError::Io { operation, error })?;
        Ok(bytes)
    }

    /// Where the descriptor of a group begins.
    fn descriptor_at(&self, group: u32) -> u64 {
        let each = self.block_size / u32::from(self.descriptor_size);
        let (number, place) = (group / each, group % each);
        // The superblock lies in block 1 of 1 KiB and in block 0 of others. The first data block does not
        // tell where: with clusters of several such blocks it is 0.
        let block = if number < self.first_meta_group {
            u64::from(self.block_size).max(2048) / u64::from(self.block_size) + u64::from(number)
        } else {
            let first = number * each;
            u64::from(self.first_data_block)
                + u64::from(first) * u64::from(self.blocks_per_group)
                + u64::from(self.backups.has(first))
        };
        block * u64::from(self.block_size) + u64::from(place) * u64::from(self.descriptor_size)
    }

    /// A directory's inode; `None` if the inode is something else, or free.
    ///
    /// # Errors
    /// If it cannot be read or where its blocks lie makes no sense.
    pub fn directory(&self, inode: u32) -> Result<Option<DirectoryInfo>, ReadError> {
        if inode == 0 || inode > self.inodes() {
            return Err(ReadError::Damaged(format!("there is no inode {inode}")));
        }
        let (group, index) = ((inode - 1) / self.inodes_per_group, (inode - 1) % self.inodes_per_group);
        let descriptor =
            self.read(self.descriptor_at(group), self.descriptor_size.into(), "read a group descriptor")?;
        let high = if self.descriptor_size >= 64 { u64::from(u32_at(&descriptor, 40)) << 32 } else { 0 };
        let block = u64::from(u32_at(&descriptor, 8)) | high;
        if block >= self.blocks {
            return Err(ReadError::Damaged(format!("group {group}: its inodes lie outside the image")));
        }
        let at = block * u64::from(self.block_size) + u64::from(index) * u64::from(self.inode_size);
        let raw = self.read(at, 128, "read an inode")?;
        let used = u16_at(&raw, 26) > 0;
        if !used || u16_at(&raw, 0) & 0xf000 != DIRECTORY_MODE {
            return Ok(None);
        }
        let flags = u32_at(&raw, 32);
        let size = u64::from(u32_at(&raw, 4)) | u64::from(u32_at(&raw, 108)) << 32;
        let opaque = match flags {
            _ if flags & 0x800 != 0 => Some(Opaque::Encrypted),
            _ if flags & 0x1000_0000 != 0 => Some(Opaque::Inline),
            _ => None,
        };
        let blocks = size.div_ceil(self.block_size.into());
        // A directory has no holes: a longer one would show the same blocks again and again.
        if blocks > MOST_BLOCKS.min(self.blocks) {
            return Err(ReadError::Damaged(format!("inode {inode}: a directory of {size} bytes")));
        }
        let mut extents = Vec::new();
        if opaque.is_none() {
            match flags & 0x8_0000 != 0 {
                true => self.extents(&raw[40..100], 0, &mut 0, &mut extents, inode)?,
                false => self.indirect(&raw[40..100], blocks as u32, &mut extents)?,
            }
        }
        extents.sort_by_key(|extent| extent.logical);
        Ok(Some(DirectoryInfo {
            inode,
            size,
            indexed: flags & 0x1000 != 0,
            opaque,
            casefolded: flags & 0x4000_0000 != 0,
            generation: u32_at(&raw, 100),
            extents,
        }))
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

    fn physical(&self, block: u64) -> Result<Vec<u8>, ReadError> {
        if block == 0 || block >= self.blocks {
            return Err(ReadError::Damaged(format!("block {block} lies outside the image")));
        }
        self.read(block * u64::from(self.block_size), self.block_size as usize, "read a block")
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
            let mut found = None;
            for logical in 0..directory.size.div_ceil(self.block_size.into()) as u32 {
                // A damaged block does not hide the others.
                let Ok(block) = self.block(&directory, logical) else { continue };
                let records = super::check::records(&block, self.block_size);
                if let Some(record) = records.iter().find(|record| record.inode > 0 && record.name == part) {
                    found = Some(record.inode);
                    break;
                }
            }
            inode = found.ok_or_else(missing)?;
        }
        Ok(inode)
    }
}
