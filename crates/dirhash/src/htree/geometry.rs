//! The sizes that follow from a file system's features.

/// What an htree's blocks can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    block_size: u32,
    checksums: bool,
    large_dir: bool,
}

/// Why there is no such file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block size must be a power of two from 1024 to 65536, not {0}")]
pub struct GeometryError(pub u32);

/// Bytes of an index entry.
const INDEX_ENTRY: u32 = 8;

impl Geometry {
    /// Blocks of 4096 bytes, no checksums, no large directories: ext3's usual measures.
    pub const USUAL: Geometry = Geometry { block_size: 4096, checksums: false, large_dir: false };

    /// `checksums` is the feature metadata_csum, `large_dir` the feature of that name.
    ///
    /// # Errors
    /// If no file system has such blocks.
    pub fn new(block_size: u32, checksums: bool, large_dir: bool) -> Result<Geometry, GeometryError> {
        match block_size.is_power_of_two() && (1024..=65536).contains(&block_size) {
            true => Ok(Geometry { block_size, checksums, large_dir }),
            false => Err(GeometryError(block_size)),
        }
    }

    /// In bytes.
    pub fn block_size(self) -> u32 {
        self.block_size
    }

    /// Whether blocks end with a checksum.
    pub fn checksums(self) -> bool {
        self.checksums
    }

    /// Whether the index may have three levels.
    pub fn large_dir(self) -> bool {
        self.large_dir
    }

    /// What a record with a name of this many bytes needs: a multiple of four.
    pub const fn record_size(name_len: usize) -> u16 {
        ((8 + name_len + 3) & !3) as u16
    }

    /// What the records of a leaf fill.
    pub fn leaf_space(self) -> u32 {
        self.block_size - if self.checksums { 12 } else { 0 }
    }

    /// Entries of the root.
    pub fn root_limit(self) -> usize {
        self.limit(32)
    }

    /// Entries of an index block below the root.
    pub fn node_limit(self) -> usize {
        self.limit(8)
    }

    /// The most index levels, the root's among them.
    pub fn most_levels(self) -> usize {
        if self.large_dir { 3 } else { 2 }
    }

    fn limit(self, before: u32) -> usize {
        ((self.block_size - before) / INDEX_ENTRY) as usize - usize::from(self.checksums)
    }
}
