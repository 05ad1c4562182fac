//! The file format of block maps; docs/block-map.md is its specification. Nothing here reads or writes files.

use verisum_digest::{Digest, DigestError, DigestStream, MAX_DIGEST_LEN, Output};

/// The first bytes of every block map. The first is no character of any text, and line ends that are
/// converted on the way make it another.
pub const MAP_MAGIC: [u8; 8] = *b"\x89VBM\r\n\x1a\n";

/// The last bytes.
const END_MAGIC: [u8; 8] = *b"VBM end\n";

/// The only version there is.
pub(super) const VERSION: u32 = 1;

/// Blocks that one section describes. A power of two: large enough that what a section costs is nothing
/// beside its digests, small enough that a change costs little to read.
pub(super) const SECTION_BLOCKS: u64 = 4096;

/// Length in bytes of the list of which blocks of a section are data, where not all are.
pub(super) const BITMAP_LEN: usize = SECTION_BLOCKS as usize / 8;

/// The longest name of a digest that a map can hold, in bytes.
pub(super) const MAX_NAME_LEN: usize = HEADER_LEN - 18;

pub(super) const HEADER_LEN: usize = 64;
pub(super) const ENTRY_LEN: usize = 48;
pub(super) const TRAILER_LEN: usize = 128;

/// Length of the trailer that its own checksum covers.
pub(super) const TRAILER_CHECKED: usize = 88;

/// A BLAKE3 digest.
pub(super) type Checksum = [u8; 32];

/// What the first bytes of a map say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) block_size: u32,
    pub(super) digest_len: u8,
    pub(super) digest_name: String,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&MAP_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.block_size.to_le_bytes());
        bytes[16] = self.digest_len;
        bytes[17] = self.digest_name.len() as u8;
        bytes[18..18 + self.digest_name.len()].copy_from_slice(self.digest_name.as_bytes());
        bytes
    }

    /// Decodes what has the right magic and version.
    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, &'static str> {
        let block_size = u32_at(bytes, 12);
        if block_size == 0 || block_size % 2 == 1 {
            return Err("its block size is no even number above 0");
        }
        let digest_len = bytes[16];
        if digest_len == 0 || usize::from(digest_len) > MAX_DIGEST_LEN {
            return Err("no digest has the length that it names");
        }
        let name_len = usize::from(bytes[17]);
        let Some((name, rest)) = bytes[18..].split_at_checked(name_len) else {
            return Err("the name of its digest is too long");
        };
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) || rest.iter().any(|&byte| byte != 0) {
            return Err("the name of its digest is not printable");
        }
        let digest_name = String::from_utf8_lossy(name).into_owned();
        Ok(Header { block_size, digest_len, digest_name })
    }
}

/// What the last bytes of a map say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Length in bytes of the image as it was hashed.
    pub(super) length: u64,
    /// Blocks whose digests are stored.
    pub(super) data_blocks: u64,
    /// Sections that are stored.
    pub(super) sections: u64,
    /// The block hash of the image.
    pub(super) root: Output,
    /// Of the header, the index, and the trailer up to here.
    pub(super) checksum: Checksum,
}

impl Trailer {
    /// The part that the checksum covers.
    pub(super) fn encode_checked(&self) -> [u8; TRAILER_CHECKED] {
        let mut bytes = [0; TRAILER_CHECKED];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.data_blocks.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sections.to_le_bytes());
        bytes[24..24 + self.root.as_bytes().len()].copy_from_slice(self.root.as_bytes());
        bytes
    }

    pub(super) fn encode(&self) -> [u8; TRAILER_LEN] {
        let mut bytes = [0; TRAILER_LEN];
        bytes[..TRAILER_CHECKED].copy_from_slice(&self.encode_checked());
        bytes[TRAILER_CHECKED..TRAILER_LEN - 8].copy_from_slice(&self.checksum);
        bytes[TRAILER_LEN - 8..].copy_from_slice(&END_MAGIC);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; TRAILER_LEN], digest_len: usize) -> Result<Trailer, &'static str> {
        if bytes[TRAILER_LEN - 8..] != END_MAGIC {
            return Err("it does not end as a block map does: it was cut, or something was added");
        }
        let (root, rest) = bytes[24..TRAILER_CHECKED].split_at(digest_len);
        if rest.iter().any(|&byte| byte != 0) {
            return Err("its root is longer than its digest");
        }
        let mut output = Output::zeroed(digest_len);
        output.as_mut_bytes().copy_from_slice(root);
        Ok(Trailer {
            length: u64_at(bytes, 0),
            data_blocks: u64_at(bytes, 8),
            sections: u64_at(bytes, 16),
            root: output,
            checksum: bytes[TRAILER_CHECKED..TRAILER_LEN - 8].try_into().expect("its length"),
        })
    }
}

/// What the index says of a section: only sections with data are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Place among all sections of the image, from 0.
    pub(super) number: u64,
    /// Blocks of the section whose digests are stored: at least one.
    pub(super) data_blocks: u64,
    /// Of the section's bytes.
    pub(super) checksum: Checksum,
}

impl Entry {
    pub(super) fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.data_blocks.to_le_bytes());
        bytes[16..].copy_from_slice(&self.checksum);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Entry {
        Entry {
            number: u64_at(bytes, 0),
            data_blocks: u64_at(bytes, 8),
            checksum: bytes[16..ENTRY_LEN].try_into().expect("its length"),
        }
    }
}

/// Where blocks and sections of an image begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) length: u64,
    pub(super) block_size: u32,
    pub(super) digest_len: usize,
}

impl Geometry {
    /// Blocks of the image, the last of which may be short.
    pub(super) fn blocks(&self) -> u64 {
        self.length.div_ceil(u64::from(self.block_size))
    }

    /// Sections of the image, stored or not.
    pub(super) fn sections(&self) -> u64 {
        self.blocks().div_ceil(SECTION_BLOCKS)
    }

    /// Blocks of a section of the image.
    pub(super) fn blocks_of(&self, section: u64) -> u64 {
        (self.blocks() - section * SECTION_BLOCKS).min(SECTION_BLOCKS)
    }

    /// Length in bytes that a section takes in the file, after a check that its numbers can be.
    pub(super) fn section_len(&self, entry: &Entry) -> Result<usize, &'static str> {
        if entry.number >= self.sections() {
            return Err("a section lies beyond the end of the image");
        }
        let blocks = self.blocks_of(entry.number);
        if entry.data_blocks == 0 || entry.data_blocks > blocks {
            return Err("a section has no blocks or too many");
        }
        let bitmap = if entry.data_blocks < blocks { BITMAP_LEN } else { 0 };
        Ok(bitmap + entry.data_blocks as usize * self.digest_len)
    }
}

/// Computes checksums.
pub(super) struct Checksummer(Box<dyn DigestStream>);

impl Checksummer {
    pub(super) fn new() -> Result<Checksummer, DigestError> {
        Ok(Checksummer(Digest::find("blake3")?.stream()?))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) -> Result<(), DigestError> {
        self.0.update(bytes)
    }

    /// The checksum of what was added since the last one.
    pub(super) fn finish(&mut self) -> Result<Checksum, DigestError> {
        let mut checksum = [0; 32];
        self.0.finish(&mut checksum)?;
        Ok(checksum)
    }

    pub(super) fn of(&mut self, bytes: &[u8]) -> Result<Checksum, DigestError> {
        self.update(bytes)?;
        self.finish()
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
