//! The superblock, and the places of the inodes of each group.

use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};

use super::metadata::{self, crc32c};
use crate::namehash::{NameHash, Seed, ext4_hashes};

/// Why an image, or a directory in it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// Nothing but a journal.
    #[error("an external journal, and no file system")]
    Journal,
    /// A field has a value that none can have.
    #[error("{0}")]
    Damaged(String),
}

/// An opened image.
#[derive(Debug)]
pub struct Ext4 {
    file: File,
    pub(super) block_size: u32,
    pub(super) inode_size: u16,
    inodes: u32,
    pub(super) inodes_per_group: u32,
    descriptor_size: u16,
    pub(super) first_data_block: u32,
    blocks_per_group: u32,
    /// The block of descriptors from which on each lies in its own groups, with the feature meta_bg.
    first_meta_group: u32,
    backups: Backups,
    pub(super) groups: u32,
    /// As many as the superblock says.
    pub(super) all_blocks: u64,
    /// As many as are in the file.
    pub(super) blocks: u64,
    /// By how many bytes the file is shorter than its file system.
    missing: u64,
    /// What is wrong with the superblock.
    findings: Vec<String>,
    pub(super) seed: Seed,
    pub(super) unsigned: bool,
    pub(super) checksums: bool,
    /// What all checksums begin with.
    pub(super) checksum_seed: u32,
    /// Whether directories may have an index at all.
    pub(super) indexes: bool,
    pub(super) large_dir: bool,
    /// Whether records say what they are names of.
    pub(super) file_types: bool,
    /// Whether a directory with an index may have so many others in it that they are not counted.
    pub(super) uncounted_links: bool,
    /// How many blocks a directory may have behind its end.
    pub(super) spare_blocks: u8,
    /// Whether directories may lie in their inodes.
    pub(super) inline_data: bool,
    pub(super) encryption: bool,
    pub(super) casefolding: bool,
    needs_recovery: bool,
    /// Whether a group's inodes may not have been written yet.
    lazy_inodes: bool,
    default_hash: u8,
    pub(super) lost_and_found: OnceLock<Option<u32>>,
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

/// The inode of the root.
pub(super) const ROOT_INODE: u32 = 2;

/// What an inode is, as its mode has it.
pub(super) const DIRECTORY_MODE: u16 = 0x4000;

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Ext4 {
    /// Opens an image or a block device.
    ///
    /// # Errors
    /// If it cannot be read or is no ext4.
    pub fn open(path: &Path) -> Result<Ext4, ReadError> {
        let failed = |error| ReadError::Io { operation: "open", error };
        // A pipe without a writer must not keep anybody waiting.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file =
            File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?);
        let kind = file.metadata().map_err(failed)?.file_type();
        match kind.is_file() || kind.is_block_device() {
            true => Ext4::of(file),
            false if kind.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
            false => Err(failed(io::Error::other("neither a file nor a block device"))),
        }
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
        let incompatible = u32_at(&sb, 96);
        if incompatible & 0x8 != 0 {
            return Err(ReadError::Journal);
        }
        let shift = u32_at(&sb, 24);
        if shift > 6 {
            return Err(damaged("the block size"));
        }
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
        let Ok(groups) = u32::try_from(all_groups) else { return Err(damaged("the number of groups")) };
        // What a truncated image lacks cannot be read, whatever the superblock says.
        let missing = (u128::from(blocks) << (10 + shift)).saturating_sub(length.into());
        let missing = u64::try_from(missing).unwrap_or(u64::MAX);
        let (all_blocks, blocks) = (blocks, blocks.min(length >> (10 + shift)));
        let checksums = u32_at(&sb, 100) & 0x400 != 0;
        let findings = match checksums {
            true => {
                metadata::superblock(&sb).map(|what| format!("the superblock: {what}")).into_iter().collect()
            }
            false => Vec::new(),
        };
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
            groups,
            all_blocks,
            blocks,
            missing,
            findings,
            seed: Seed(sb[236..252].try_into().expect("16 bytes")),
            unsigned: u32_at(&sb, 352) & 2 != 0,
            checksums,
            checksum_seed: match incompatible & 0x2000 != 0 {
                true => u32_at(&sb, 624),
                false => crc32c(!0, &sb[104..120]),
            },
            indexes: u32_at(&sb, 92) & 0x20 != 0,
            large_dir: incompatible & 0x4000 != 0,
            file_types: incompatible & 0x2 != 0,
            uncounted_links: u32_at(&sb, 100) & 0x20 != 0,
            spare_blocks: sb[205],
            inline_data: incompatible & 0x8000 != 0,
            encryption: incompatible & 0x1_0000 != 0,
            casefolding: incompatible & 0x2_0000 != 0,
            lazy_inodes: u32_at(&sb, 100) & 0x410 != 0,
            needs_recovery: incompatible & 0x4 != 0,
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
        ext4_hashes().get(usize::from(self.default_hash) + unsigned)
    }

    /// The number of the last inode.
    pub fn inodes(&self) -> u32 {
        self.inodes
    }

    /// By how many bytes the file is shorter than the superblock says.
    pub fn missing_bytes(&self) -> u64 {
        self.missing
    }

    /// What is wrong with the superblock.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Whether a journal waits to be replayed: until then what looks like damage may be none.
    pub fn needs_recovery(&self) -> bool {
        self.needs_recovery
    }

    pub(super) fn read(&self, at: u64, length: usize, operation: &'static str) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| ReadError::Io { operation, error })?;
        Ok(bytes)
    }

    pub(super) fn physical(&self, block: u64) -> Result<Vec<u8>, ReadError> {
        if block == 0 || block >= self.blocks {
            return Err(ReadError::Damaged(format!("block {block} lies outside the image")));
        }
        self.read(block * u64::from(self.block_size), self.block_size as usize, "read a block")
    }

    /// The descriptor of a group.
    fn descriptor(&self, group: u32) -> Result<Vec<u8>, ReadError> {
        let at = self.descriptor_at(group);
        if at / u64::from(self.block_size) >= self.blocks {
            return Err(ReadError::Damaged(format!("group {group}: its descriptor lies outside the image")));
        }
        self.read(at, self.descriptor_size.into(), "read a group descriptor")
    }

    /// Where the descriptor of a group begins.
    fn descriptor_at(&self, group: u32) -> u64 {
        let each = self.block_size / u32::from(self.descriptor_size);
        let (number, place) = (group / each, group % each);
        // Blocks of 1 KiB have the superblock in block 1, others in block 0. The first data block does not
        // tell where: with clusters of several such blocks it is 0.
        let superblock = u64::from(self.block_size == 1024);
        let block = if number < self.first_meta_group {
            superblock + 1 + u64::from(number)
        } else if number == 0 {
            superblock + 1
        } else {
            let first = number * each;
            u64::from(self.first_data_block)
                + u64::from(first) * u64::from(self.blocks_per_group)
                + u64::from(self.backups.has(first))
        };
        block * u64::from(self.block_size) + u64::from(place) * u64::from(self.descriptor_size)
    }

    /// How many of a group's inodes may be in use. What is behind them was perhaps never written, and is
    /// whatever the device had there before.
    pub(super) fn used_inodes(&self, group: u32) -> Result<u32, ReadError> {
        const UNUSED: u16 = 1;
        const WRITTEN: u16 = 4;
        let descriptor = self.descriptor(group)?;
        let high = if self.descriptor_size >= 64 { u32::from(u16_at(&descriptor, 50)) << 16 } else { 0 };
        let unused = u32::from(u16_at(&descriptor, 28)) | high;
        Ok(match u16_at(&descriptor, 18) {
            _ if !self.lazy_inodes => self.inodes_per_group,
            flags if flags & WRITTEN != 0 => self.inodes_per_group,
            flags if flags & UNUSED != 0 => 0,
            _ => self.inodes_per_group.saturating_sub(unused),
        })
    }

    /// The first block of a group's inodes.
    pub(super) fn inode_table(&self, group: u32) -> Result<u64, ReadError> {
        let descriptor = self.descriptor(group)?;
        let high = if self.descriptor_size >= 64 { u64::from(u32_at(&descriptor, 40)) << 32 } else { 0 };
        let block = u64::from(u32_at(&descriptor, 8)) | high;
        match block > 0 && block < self.blocks {
            true => Ok(block),
            false => Err(ReadError::Damaged(format!("group {group}: its inodes lie outside the image"))),
        }
    }

    /// What is wrong with the checksum of a group's descriptor.
    pub(super) fn descriptor_finding(&self, group: u32) -> Result<Option<String>, ReadError> {
        let descriptor = self.descriptor(group)?;
        let finding = if self.checksums { metadata::descriptor(self, group, &descriptor) } else { None };
        Ok(finding.map(|what| format!("the descriptor of group {group}: {what}")))
    }
}
