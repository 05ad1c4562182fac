//! The head of a parity file: which pieces of which files a set is made of, and the digest of every part.
//!
//! docs/parity.md is the specification. Heads come from files that anybody may have written: what is read is
//! bounded, and every number is checked before it is used.

use std::ops::Range;

use verisum_files::Timestamp;

use crate::code::Shape;
use crate::list;

/// What a parity file begins with.
pub(crate) const MAGIC: &[u8; 16] = b"verisum parity 1";

/// What its last bytes begin with.
pub(crate) const END_MAGIC: &[u8; 16] = b"verisum parity e";

/// Bytes of the numbers at the start of a head.
pub(crate) const LABEL: usize = 96;

/// Bytes after the second head.
pub(crate) const TRAILER: usize = 32;

/// Bytes of the digest over a head.
const SEAL: usize = 32;

/// The longest head.
pub(crate) const LONGEST: usize = 64 << 20;

/// The most pieces in a set.
pub(crate) const MOST_PIECES: usize = 1 << 16;

/// The longest list of pieces, before it is compressed.
pub(crate) const LONGEST_LIST: usize = 16 << 20;

/// The largest block.
pub(crate) const LARGEST_BLOCK: usize = 1 << 20;

/// The most parity of a set, its blocks rounded up to a power of two: what is held in memory.
const MOST_PARITY: usize = 64 << 20;

/// The digest of a part of a block, or of a parity block: the first half of BLAKE3.
pub(crate) type PartDigest = [u8; 16];

/// A run of bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The path from the root of the tree.
    pub(crate) path: Box<[u8]>,
    /// The length of the file.
    pub(crate) size: u64,
    /// The file's time of modification.
    pub(crate) modified: Timestamp,
    /// The permissions, 12 bits.
    pub(crate) mode: u32,
    /// The owner and the group.
    pub(crate) owner: (u32, u32),
    /// Where the run begins in the file.
    pub(crate) offset: u64,
    /// How many bytes it has.
    pub(crate) length: u64,
}

/// What a set says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetHead {
    /// The number of the set.
    pub(crate) number: u64,
    /// Bytes of a block.
    pub(crate) block: usize,
    /// How many parity blocks there are.
    pub(crate) parity_blocks: usize,
    /// The runs that, one after the other, are the data.
    pub(crate) pieces: Vec<Piece>,
    /// The digest of each part: the data is cut at every multiple of the block, and where a piece ends.
    pub(crate) parts: Vec<PartDigest>,
    /// The digest of each parity block.
    pub(crate) parity: Vec<PartDigest>,
}

/// A run of bytes within one block and one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockPart {
    /// Its number among the parts of the set.
    pub(crate) index: usize,
    /// Which block.
    pub(crate) block: usize,
    /// Which bytes of the block.
    pub(crate) range: Range<usize>,
    /// Where it begins in its file.
    pub(crate) offset: u64,
}

impl SetHead {
    /// Bytes of data.
    pub(crate) fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.length).sum()
    }

    /// The shape of the code; none where there is no data.
    pub(crate) fn shape(&self) -> Option<Shape> {
        let data = self.length().div_ceil(self.block as u64) as usize;
        (data > 0).then_some(Shape { block: self.block, data, parity: self.parity_blocks })
    }

    /// The head as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let list = list::encode(&self.pieces);
        let stored = list::compress(&list);
        let digests = (self.parts.len() + self.parity.len()) * size_of::<PartDigest>();
        let length = LABEL + stored.len() + digests + SEAL;
        let mut head = Vec::with_capacity(length);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&(self.block as u32).to_le_bytes());
        head.extend_from_slice(&(self.parity_blocks as u32).to_le_bytes());
        let numbers = [
            self.number,
            self.length(),
            self.pieces.len() as u64,
            self.parts.len() as u64,
            list.len() as u64,
            stored.len() as u64,
            length as u64,
        ];
        numbers.iter().for_each(|number| head.extend_from_slice(&number.to_le_bytes()));
        head.resize(LABEL, 0);
        head.extend_from_slice(&stored);
        head.extend_from_slice(self.parts.as_flattened());
        head.extend_from_slice(self.parity.as_flattened());
        let seal = seal(&head);
        head.extend_from_slice(&seal);
        head
    }

    /// Reads a head; none if it is not whole.
    pub(crate) fn decode(head: &[u8]) -> Option<SetHead> {
        let body = &head[..head.len().checked_sub(SEAL)?];
        if head.len() > LONGEST || !head.starts_with(MAGIC) || seal(body)[..] != head[body.len()..] {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
        let small = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?) as usize);
        let (block, parity_blocks) = (small(16)?, small(20)?);
        // What follows divides by it.
        if !(1..=LARGEST_BLOCK).contains(&block) {
            return None;
        }
        let count = |at: usize, most: usize| usize::try_from(number(at)?).ok().filter(|count| *count <= most);
        let pieces = count(40, MOST_PIECES)?;
        let parts = count(48, LONGEST / size_of::<PartDigest>())?;
        let (list_len, stored) = (count(56, LONGEST_LIST)?, count(64, LONGEST)?);
        let list_end = LABEL.checked_add(stored)?;
        let list = list::decompress(body.get(LABEL..list_end)?, list_len)?;
        let mut digests = body.get(list_end..)?.as_chunks::<16>().0.to_vec();
        if parity_blocks > digests.len() || digests.len() != parts.checked_add(parity_blocks)? {
            return None;
        }
        let parity = digests.split_off(parts);
        let found = SetHead {
            number: number(24)?,
            block,
            parity_blocks,
            pieces: list::decode(&list, pieces)?,
            parts: digests,
            parity,
        };
        (found.length() == number(32)? && number(72)? == head.len() as u64 && found.is_sound())
            .then_some(found)
    }

    /// Whether the numbers fit together.
    fn is_sound(&self) -> bool {
        let is_possible = match self.shape() {
            Some(shape) => shape.is_possible() && shape.run() * self.block <= MOST_PARITY,
            None => self.parity_blocks == 0,
        };
        is_possible && self.count_parts() == self.parts.len() as u64
    }

    /// How many parts the pieces make.
    pub(crate) fn count_parts(&self) -> u64 {
        let block = self.block as u64;
        let mut start = 0_u64;
        let mut count = 0;
        for piece in &self.pieces {
            if piece.length > 0 {
                count += (start + piece.length).div_ceil(block) - start / block;
            }
            start += piece.length;
        }
        count
    }

    /// The parts of each piece, in order.
    pub(crate) fn parts_of_pieces(&self) -> impl Iterator<Item = (usize, Vec<BlockPart>)> {
        let mut start = 0_u64;
        let mut index = 0;
        let block = self.block as u64;
        self.pieces.iter().enumerate().map(move |(number, piece)| {
            let mut parts = Vec::new();
            let mut done = 0;
            while done < piece.length {
                let at = start + done;
                let within = at % block;
                let length = (block - within).min(piece.length - done);
                let range = within as usize..(within + length) as usize;
                parts.push(BlockPart {
                    index,
                    block: (at / block) as usize,
                    range,
                    offset: piece.offset + done,
                });
                done += length;
                index += 1;
            }
            start += piece.length;
            (number, parts)
        })
    }
}

/// The digest over a head.
fn seal(bytes: &[u8]) -> [u8; SEAL] {
    crate::digest::whole(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> SetHead {
        let piece = |path: &str, offset, length| Piece {
            path: path.as_bytes().into(),
            size: 10_000,
            modified: Timestamp { seconds: 1_700_000_000, nanoseconds: 5 },
            mode: 0o644,
            owner: (0, 7),
            offset,
            length,
        };
        let mut head = SetHead {
            number: 3,
            block: 1024,
            parity_blocks: 2,
            pieces: vec![piece("a", 0, 3000), piece("b/c", 0, 0), piece("b/d", 500, 72)],
            parts: Vec::new(),
            parity: vec![[1; 16], [2; 16]],
        };
        head.parts = vec![[9; 16]; head.count_parts() as usize];
        head
    }

    #[test]
    fn heads_come_back() {
        let head = example();
        assert_eq!(SetHead::decode(&head.encode()), Some(head));
    }

    #[test]
    fn parity_that_fills_the_memory_is_refused() {
        let mut head = example();
        (head.block, head.parity_blocks) = (1 << 20, 65);
        (head.parity, head.parts) = (vec![[0; 16]; 65], vec![[0; 16]; 2]);
        assert_eq!(SetHead::decode(&head.encode()), None);
        head.parity_blocks = 64;
        head.parity.truncate(64);
        assert!(SetHead::decode(&head.encode()).is_some());
    }

    #[test]
    fn parts_are_cut_at_blocks_and_pieces() {
        let parts: Vec<_> = example().parts_of_pieces().flat_map(|(_, parts)| parts).collect();
        let ranges: Vec<_> = parts.iter().map(|part| (part.block, part.range.clone(), part.offset)).collect();
        assert_eq!(ranges, [(0, 0..1024, 0), (1, 0..1024, 1024), (2, 0..952, 2048), (2, 952..1024, 500)]);
        assert_eq!(example().count_parts(), 4);
    }

    #[test]
    fn a_head_with_another_bit_is_none() {
        let head = example().encode();
        for at in 0..head.len() {
            let mut other = head.clone();
            other[at] ^= 1 << (at % 8);
            assert_eq!(SetHead::decode(&other), None, "byte {at}");
            assert_eq!(SetHead::decode(&head[..at]), None);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused_though_the_seal_is_right() {
        let head = example().encode();
        for at in (16..80).step_by(4) {
            for value in [0_u32, 1, 63, 65, 1 << 20, u32::MAX] {
                let mut other = head[..head.len() - SEAL].to_vec();
                let was = other[at..at + 4].to_vec();
                other[at..at + 4].copy_from_slice(&value.to_le_bytes());
                let changed = was != value.to_le_bytes();
                let sealed = seal(&other);
                other.extend_from_slice(&sealed);
                // The number of the set is free.
                let is_free = (24..32).contains(&at) || at == 16 && value == 0;
                assert!(!changed || is_free || SetHead::decode(&other).is_none(), "{at}: {value}");
            }
        }
    }
}
