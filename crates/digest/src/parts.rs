//! Hashes long messages in parts. Any thread can hash a part without waiting for another one, because BLAKE3
//! and digests made of blocks are trees, and the CRC of a message can be computed from those of its parts.
//!
//! Parts are numbered from 0. All have the same length, but for the last one, which may be shorter; none is empty.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crc_fast::CrcAlgorithm;

use crate::blocks::{Cut, Levels, Made, hash_of};
use crate::digest::{Digest, Message};
use crate::error::DigestError;
use crate::output::Output;

/// How long a part is that has many blocks, about: the time to hand it out is none beside that to hash it.
const USUAL: usize = 1 << 20;

/// How long a part of a CRC is: to join two takes about as long as to compute one of a mebibyte.
const LONG: u64 = 8 << 20;

/// Blocks that are longer are parts themselves, and go side by side through the processor.
const SHORT: usize = 256 << 10;

/// The parts that messages of one digest can be hashed in.
#[derive(Clone)]
pub struct Parts(Kind);

/// The blocks that a digest is made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlockParts {
    /// What hashes a block.
    pub digest: Digest,
    /// The length of a block in bytes.
    pub length: u64,
    /// Whether a last block that is shorter is filled with zeros.
    pub fills: bool,
}

#[derive(Clone)]
enum Kind {
    Blake3,
    /// With the length of its digest and that of a part, in bytes.
    Crc(CrcAlgorithm, usize, u64),
    /// A part is one block.
    LongBlocks(Made),
    /// A part has many blocks.
    ShortBlocks(Made),
}

impl Parts {
    pub(crate) fn of_blake3() -> Parts {
        Parts(Kind::Blake3)
    }

    pub(crate) fn of_crc(algorithm: CrcAlgorithm, len: usize) -> Parts {
        Parts(Kind::Crc(algorithm, len, LONG))
    }

    pub(crate) fn of_blocks(made: Made) -> Parts {
        Parts(if made.block() > SHORT { Kind::LongBlocks(made) } else { Kind::ShortBlocks(made) })
    }

    /// The length of a part in bytes.
    pub fn length(&self) -> u64 {
        let length = match &self.0 {
            Kind::Blake3 => USUAL,
            Kind::Crc(.., length) => return *length,
            Kind::LongBlocks(made) => made.block(),
            Kind::ShortBlocks(made) => USUAL / made.block() * made.block(),
        };
        length as u64
    }

    /// The same digest in parts of this length. A CRC has parts of any length, another digest of its own only.
    pub fn with_length(&self, length: u64) -> Option<Parts> {
        match &self.0 {
            Kind::Crc(algorithm, len, _) if length > 0 => Some(Parts(Kind::Crc(*algorithm, *len, length))),
            _ => (self.length() == length).then(|| self.clone()),
        }
    }

    /// The blocks that the digest is made of; none where it is not made of blocks.
    pub fn blocks(&self) -> Option<BlockParts> {
        match &self.0 {
            Kind::Blake3 | Kind::Crc(..) => None,
            Kind::LongBlocks(made) | Kind::ShortBlocks(made) => Some(BlockParts {
                digest: made.inner().clone(),
                length: made.block() as u64,
                fills: made.fills(),
            }),
        }
    }

    /// The digest of messages of at most so many bytes, where that is the one of their only block.
    pub(crate) fn one_part(&self) -> Option<(&Digest, usize)> {
        match &self.0 {
            Kind::Blake3 | Kind::Crc(..) => None,
            Kind::LongBlocks(made) | Kind::ShortBlocks(made) => made.one_part(),
        }
    }

    /// How many parts are worth hashing side by side on one thread.
    pub fn lanes(&self) -> usize {
        match &self.0 {
            Kind::LongBlocks(made) => made.inner().lanes(),
            Kind::Blake3 | Kind::Crc(..) | Kind::ShortBlocks(_) => 1,
        }
    }

    /// How many bytes a [stream](Digest::stream) collects before it hashes them side by side: pieces of that length it does not
    /// copy. 0 where it collects nothing.
    pub fn collects(&self) -> usize {
        match &self.0 {
            Kind::Blake3 | Kind::Crc(..) => 0,
            Kind::LongBlocks(made) | Kind::ShortBlocks(made) => made.collects(),
        }
    }

    /// Starts a part.
    ///
    /// # Errors
    /// The digest is not available.
    pub fn start(&self, number: u64) -> Result<PartHasher, DigestError> {
        Ok(PartHasher(match &self.0 {
            Kind::Blake3 => {
                let mut hasher = Box::new(blake3::Hasher::new());
                hasher.set_input_offset(number * self.length());
                PartsProgress::Blake3 { hasher, is_first: number == 0 }
            }
            Kind::Crc(algorithm, ..) => PartsProgress::Crc(Box::new(crc_fast::Digest::new(*algorithm))),
            Kind::LongBlocks(made) => PartsProgress::LongBlock(made.inner().message()?, made.len()),
            Kind::ShortBlocks(made) => PartsProgress::ShortBlocks(Box::new(Cut::new(made)?), Vec::new()),
        }))
    }

    /// Adds bytes to each part, side by side where the processor can.
    ///
    /// # Errors
    /// An implementation failed.
    pub fn advance(&self, parts: &mut [(&mut PartHasher, &[u8])]) -> Result<(), DigestError> {
        let mut side_by_side = Vec::with_capacity(parts.len());
        for (part, bytes) in parts {
            match &mut part.0 {
                PartsProgress::Blake3 { hasher, .. } => drop(hasher.update(bytes)),
                PartsProgress::Crc(crc) => crc.update(bytes),
                PartsProgress::LongBlock(message, _) => side_by_side.push((message, *bytes)),
                PartsProgress::ShortBlocks(cut, hashes) => {
                    cut.update(bytes, &mut |leaf| {
                        hashes.extend_from_slice(leaf);
                        Ok(())
                    })?;
                }
            }
        }
        match &self.0 {
            Kind::LongBlocks(made) => made.inner().advance(&mut side_by_side),
            Kind::Blake3 | Kind::Crc(..) | Kind::ShortBlocks(_) => Ok(()),
        }
    }

    /// Starts what makes one digest of the hashes of all parts.
    ///
    /// # Errors
    /// The digest is not available.
    pub fn join(&self) -> Result<JoinedParts, DigestError> {
        Ok(JoinedParts(match &self.0 {
            Kind::Blake3 => Joined::Blake3 { subtrees: Vec::new(), alone: None },
            Kind::Crc(algorithm, len, _) => {
                Joined::Crc(*algorithm, crc_fast::Digest::new(*algorithm).finalize(), *len)
            }
            Kind::LongBlocks(made) | Kind::ShortBlocks(made) => {
                Joined::Blocks(Box::new(Levels::new(made)?), made.len())
            }
        }))
    }
}

/// A part that is being hashed.
pub struct PartHasher(PartsProgress);

enum PartsProgress {
    Blake3 {
        hasher: Box<blake3::Hasher>,
        is_first: bool,
    },
    Crc(Box<crc_fast::Digest>),
    /// With the length of its digest in bytes.
    LongBlock(Message, usize),
    ShortBlocks(Box<Cut>, Vec<u8>),
}

impl PartHasher {
    /// Ends the part.
    ///
    /// # Errors
    /// An implementation failed.
    ///
    /// # Panics
    /// If it is a part of BLAKE3, and empty.
    pub fn finish(self) -> Result<PartHashes, DigestError> {
        Ok(PartHashes(match self.0 {
            PartsProgress::Blake3 { hasher, is_first } => {
                let mut hashes = hasher.finalize_non_root().to_vec();
                if is_first {
                    // The digest, if no other part follows.
                    hashes.extend_from_slice(hasher.finalize().as_bytes());
                }
                hashes
            }
            PartsProgress::Crc(crc) => {
                [crc.finalize().to_be_bytes(), crc.get_amount().to_be_bytes()].concat()
            }
            PartsProgress::LongBlock(mut message, len) => {
                let mut hash = vec![0; len];
                message.finish(&mut hash)?;
                hash
            }
            PartsProgress::ShortBlocks(mut cut, mut hashes) => {
                cut.end(&mut |leaf| {
                    hashes.extend_from_slice(leaf);
                    Ok(())
                })?;
                hashes
            }
        }))
    }
}

/// What is left of a part that was hashed.
pub struct PartHashes(Vec<u8>);

/// The hashes of parts on their way to become one digest.
pub struct JoinedParts(Joined);

enum Joined {
    Blake3 {
        /// Those that are not merged yet, each with the number of its parts: powers of two, smaller and smaller.
        subtrees: Vec<(ChainingValue, u64)>,
        /// The digest of the first part alone.
        alone: Option<Output>,
    },
    /// With the CRC so far, and its length in bytes.
    Crc(CrcAlgorithm, u64, usize),
    /// With the length of a hash in bytes.
    Blocks(Box<Levels>, usize),
}

impl JoinedParts {
    /// Adds the next part.
    ///
    /// # Errors
    /// An implementation failed.
    pub fn push(&mut self, part: &PartHashes) -> Result<(), DigestError> {
        match &mut self.0 {
            Joined::Blake3 { subtrees, alone } => {
                // Only now is it known that these two are not the whole message.
                while let [.., (left, parts), (right, others)] = &subtrees[..]
                    && parts == others
                {
                    let merged = (merge_subtrees_non_root(left, right, Mode::Hash), 2 * parts);
                    subtrees.truncate(subtrees.len() - 2);
                    subtrees.push(merged);
                }
                let (value, digest) = part.0.split_at(blake3::OUT_LEN);
                let mut chaining_value = ChainingValue::default();
                chaining_value.copy_from_slice(value);
                subtrees.push((chaining_value, 1));
                if !digest.is_empty() {
                    *alone = Some(hash_of(digest));
                }
                Ok(())
            }
            Joined::Crc(algorithm, crc, _) => {
                let number =
                    |at: usize| u64::from_be_bytes(part.0[at..at + 8].try_into().unwrap_or_default());
                *crc = crc_fast::checksum_combine(*algorithm, *crc, number(0), number(8));
                Ok(())
            }
            Joined::Blocks(levels, len) => part.0.chunks(*len).try_for_each(|leaf| levels.push(leaf)),
        }
    }

    /// Adds the hashes of the next blocks, one after the other, of a digest that is [made of blocks](Parts::blocks).
    ///
    /// # Errors
    /// An implementation failed, or it is another digest.
    pub fn push_hashes(&mut self, hashes: &[u8]) -> Result<(), DigestError> {
        match &mut self.0 {
            Joined::Blake3 { .. } | Joined::Crc(..) => {
                Err(DigestError::Unknown { name: "a digest that is not made of blocks".to_string() })
            }
            Joined::Blocks(levels, len) => hashes.chunks(*len).try_for_each(|leaf| levels.push(leaf)),
        }
    }

    /// The digest of a message of so many bytes.
    ///
    /// # Errors
    /// An implementation failed.
    pub fn finish(self, length: u64) -> Result<Output, DigestError> {
        match self.0 {
            Joined::Blake3 { mut subtrees, alone } => {
                let Some((mut right, _)) = subtrees.pop() else {
                    return Ok(hash_of(blake3::hash(&[]).as_bytes()));
                };
                while let Some((left, _)) = subtrees.pop() {
                    if subtrees.is_empty() {
                        return Ok(hash_of(merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()));
                    }
                    right = merge_subtrees_non_root(&left, &right, Mode::Hash);
                }
                Ok(alone.unwrap_or_else(|| hash_of(&right)))
            }
            Joined::Crc(_, crc, len) => Ok(hash_of(&crc.to_be_bytes()[8 - len..])),
            Joined::Blocks(mut levels, _) => levels.finish(length),
        }
    }
}
