//! Digests made of blocks, as other systems define them. A message is cut into blocks, each block is hashed,
//! and the digest is made of these hashes. The processor hashes the blocks of one message side by side.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::digest::{Batch, Digest};
use crate::error::DigestError;
use crate::ipfs::{self, Tree};
use crate::output::Output;
use crate::parts::Parts;
use crate::provider::{DigestStream, Policy, StreamFactory};

/// What a digest is made of.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    name: &'static str,
    /// The digest of each block, and of what is made of them.
    inner: &'static str,
    /// The length of a block in bytes; the last one may be shorter.
    block: usize,
    /// Whether a last block that is shorter is filled with zeros.
    fills: bool,
    join: Join,
}

/// How the hashes of blocks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// The hash of all of them, one after the other.
    Flat,
    /// The same, but a single hash stays as it is.
    Parts,
    /// Neighbours are hashed in pairs; an odd one goes up as it is. Nothing has the hash of nothing.
    Pairs,
    /// The same, with zeros in place of hashes up to a power of two.
    FullPairs,
    /// Hashes are blocks again, filled with zeros, until one is left.
    Tree,
    /// A tree, and then the hash of the description that the kernel makes of it.
    Described { algorithm: u8 },
    /// A tree of nodes with links.
    Links,
}

const MIB: usize = 1 << 20;

/// All of them. The definitions are those of the systems that use them; reference/blocks.py has them in Python.
const RECIPES: [Recipe; 7] = [
    Recipe { name: "dropbox", inner: "sha256", block: 4 * MIB, fills: false, join: Join::Flat },
    Recipe { name: "glacier", inner: "sha256", block: MIB, fills: false, join: Join::Pairs },
    Recipe { name: "bittorrent-v2", inner: "sha256", block: 16 << 10, fills: false, join: Join::FullPairs },
    Recipe {
        name: "fsverity",
        inner: "sha256",
        block: 4096,
        fills: true,
        join: Join::Described { algorithm: 1 },
    },
    Recipe {
        name: "fsverity-sha512",
        inner: "sha512",
        block: 4096,
        fills: true,
        join: Join::Described { algorithm: 2 },
    },
    Recipe { name: "dmverity", inner: "sha256", block: 4096, fills: true, join: Join::Tree },
    Recipe { name: "ipfs", inner: "sha256", block: ipfs::BLOCK, fills: false, join: Join::Links },
];

/// How the names of digests begin that object stores make of the parts of an upload.
const OF_PARTS: &str = "s3-";

/// The shortest part, in bytes.
const SHORTEST_PART: u64 = 1 << 10;

/// The longest part, which is the longest upload in one piece, in bytes.
const LONGEST_PART: u64 = 5 << 30;

/// Units of the lengths of parts, the largest first.
const UNITS: [(char, u64); 3] = [('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// So many bytes of blocks are hashed side by side at most. What has longer blocks is hashed block after block.
const MOST_AT_ONCE: usize = 64 * MIB;

/// Their names, without those of the digests that stores make of parts.
pub fn block_digests() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|recipe| recipe.name)
}

/// The length of the parts that a digest of an object store is made of, in bytes: 8 MiB of `s3-etag:8M`. None for
/// other digests.
pub fn part_length(name: &str) -> Option<u64> {
    of_parts(name).map(|(_, length)| length)
}

/// The digest of each part of such a digest, which is also the one that a store has of an upload in one piece: md5 of
/// `s3-etag:8M`.
pub fn part_digest(name: &str) -> Option<&'static str> {
    of_parts(name).and_then(|(inner, _)| Algorithm::find(inner)).map(|inner| inner.id)
}

/// The number that a store puts behind such a digest, after a `-`: that of the parts of a message of so many bytes. None
/// of a message that is uploaded in one piece.
pub fn part_count(name: &str, length: u64) -> Option<u64> {
    part_length(name).filter(|part| length > *part).map(|part| length.div_ceil(part))
}

/// A digest as the system shows it that it is of: a CID, one of an object store with the number of its parts behind it
/// (see [`part_count`]), any other in hexadecimal.
pub fn digest_text(name: &str, digest: &Output, parts: Option<u64>) -> String {
    match parts {
        _ if name == "ipfs" => ipfs::cid_text(digest),
        Some(count) => format!("{digest}-{count}"),
        None => digest.to_string(),
    }
}

/// The digest of the parts, and their length.
fn of_parts(name: &str) -> Option<(&str, u64)> {
    let lengths = SHORTEST_PART..=LONGEST_PART;
    named_parts(name).filter(|(_, length)| lengths.contains(length))
}

/// The same with a length that may be none of parts.
fn named_parts(name: &str) -> Option<(&str, u64)> {
    let prefix = name.get(..OF_PARTS.len()).filter(|prefix| prefix.eq_ignore_ascii_case(OF_PARTS))?;
    let (inner, length) = name[prefix.len()..].split_once(':')?;
    let digits = length.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(length.len());
    let (number, unit) = length.split_at(digits);
    let unit = match unit.to_ascii_uppercase().trim_end_matches("IB") {
        "" => 1,
        unit => UNITS.iter().find(|(letter, _)| unit.chars().eq([*letter])).map(|(_, unit)| *unit)?,
    };
    // A number that is too large is a length that is.
    let number = (!number.is_empty()).then(|| number.parse().unwrap_or(u64::MAX))?;
    let length = u64::saturating_mul(number, unit);
    let inner = if inner.eq_ignore_ascii_case("etag") { "md5" } else { inner };
    Some((inner, length))
}

/// One name for each: with the largest unit that the length is a multiple of.
fn name_of_parts(inner: &str, length: u64) -> String {
    let inner = if inner == "md5" { "etag" } else { inner };
    match UNITS.iter().find(|(_, unit)| length.is_multiple_of(*unit)) {
        Some((letter, unit)) => format!("{OF_PARTS}{inner}:{}{letter}", length / unit),
        None => format!("{OF_PARTS}{inner}:{length}"),
    }
}

/// What makes the digest of this name, and its length in bytes.
pub(crate) fn find(name: &str, policy: &Policy) -> Option<Result<Made, DigestError>> {
    if let Some((inner, length)) = of_parts(name) {
        // Stores have such digests of those in the table only; of nothing nobody makes one.
        let inner = Algorithm::find(inner).filter(|inner| inner.digest_len() > 0)?;
        let join = Join::Parts;
        let block = usize::try_from(length).ok()?;
        let recipe = Recipe { name: "", inner: inner.id, block, fills: false, join };
        let made = |digest| Made { name: name_of_parts(inner.id, length).into(), recipe, inner: digest };
        return Some(Digest::find_with(inner.id, policy).map(made));
    }
    if let Some((inner, _)) = named_parts(name) {
        return Algorithm::find(inner).map(|_| Err(DigestError::PartLength { name: name.to_string() }));
    }
    let recipe = *RECIPES.iter().find(|recipe| recipe.name.eq_ignore_ascii_case(name))?;
    let made = |inner| Made { name: recipe.name.into(), recipe, inner };
    Some(Digest::find_with(recipe.inner, policy).map(made))
}

/// Makes the digests of one recipe.
#[derive(Clone)]
pub(crate) struct Made {
    name: Arc<str>,
    recipe: Recipe,
    inner: Digest,
}

impl Made {
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// How many blocks are hashed side by side.
    fn at_once(&self) -> usize {
        self.inner.lanes().clamp(1, (MOST_AT_ONCE / self.recipe.block).max(1))
    }

    /// Whether a block is too long to be kept.
    fn is_alone(&self) -> bool {
        self.recipe.block > MOST_AT_ONCE / 2
    }

    /// How many bytes are kept until they are hashed side by side.
    pub(crate) fn collects(&self) -> usize {
        if self.is_alone() { 0 } else { self.recipe.block * self.at_once() }
    }

    /// The length of the hash of a block, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.inner.len()
    }

    /// The length of the digest in bytes.
    pub(crate) fn digest_len(&self) -> usize {
        if self.recipe.join == Join::Links { ipfs::CID_LEN } else { self.len() }
    }

    /// The digest of messages of at most so many bytes, where that is the one of their only block.
    pub(crate) fn one_part(&self) -> Option<(&Digest, usize)> {
        (self.recipe.join == Join::Parts).then_some((&self.inner, self.recipe.block))
    }

    /// The digest of each block.
    pub(crate) fn inner(&self) -> &Digest {
        &self.inner
    }

    /// The length of a block in bytes; the last one may be shorter.
    pub(crate) fn block(&self) -> usize {
        self.recipe.block
    }

    /// Whether a last block that is shorter is filled with zeros.
    pub(crate) fn fills(&self) -> bool {
        self.recipe.fills
    }

    pub(crate) fn into_factory(self) -> (&'static str, Arc<dyn StreamFactory>) {
        ("blocks", Arc::new(self))
    }
}

impl StreamFactory for Made {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let alone = self.is_alone().then(|| self.inner.stream()).transpose()?;
        Ok(Box::new(Blocks { cut: Cut::new(self)?, alone, length: 0, levels: Levels::new(self)? }))
    }

    fn kernel_level(&self) -> Option<verisum_kernels::Level> {
        self.inner.stream_level()
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts::of_blocks(self.clone()))
    }
}

/// Cuts what comes into blocks, and hashes these side by side.
pub(crate) struct Cut {
    made: Made,
    batch: Batch,
    /// What is not hashed yet: fewer blocks than a batch has.
    buffer: Vec<u8>,
}

/// What takes the hashes of blocks, in order.
type Leaf<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), DigestError>;

impl Cut {
    pub(crate) fn new(made: &Made) -> Result<Cut, DigestError> {
        Ok(Cut { made: made.clone(), batch: made.inner.batch()?, buffer: Vec::new() })
    }

    pub(crate) fn update(&mut self, mut data: &[u8], leaf: Leaf) -> Result<(), DigestError> {
        let group = self.made.collects();
        if !self.buffer.is_empty() {
            let (head, rest) = data.split_at(data.len().min(group - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            data = rest;
            if self.buffer.len() == group {
                Cut::hash(&mut self.batch, &self.made, &self.buffer, leaf)?;
                self.buffer.clear();
            }
        }
        // What comes in large pieces is not copied.
        let whole = data.len() - data.len() % group;
        let (groups, rest) = data.split_at(whole);
        Cut::hash(&mut self.batch, &self.made, groups, leaf)?;
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    /// Hashes what is left, and makes ready for the next message.
    pub(crate) fn end(&mut self, leaf: Leaf) -> Result<(), DigestError> {
        let Recipe { block, fills, .. } = self.made.recipe;
        if fills {
            let length = self.buffer.len().next_multiple_of(block);
            self.buffer.resize(length, 0);
        }
        Cut::hash(&mut self.batch, &self.made, &self.buffer, leaf)?;
        self.buffer.clear();
        Ok(())
    }

    fn hash(batch: &mut Batch, made: &Made, bytes: &[u8], leaf: Leaf) -> Result<(), DigestError> {
        let blocks: Vec<&[u8]> = bytes.chunks(made.recipe.block).collect();
        let mut digests = vec![0; blocks.len() * made.len()];
        batch.hash(&blocks, &mut digests)?;
        digests.chunks(made.len()).try_for_each(leaf)
    }
}

/// A message that is cut into blocks.
struct Blocks {
    cut: Cut,
    /// Hashes a block that is too long to be kept.
    alone: Option<Box<dyn DigestStream>>,
    length: u64,
    levels: Levels,
}

impl Blocks {
    /// Hashes what comes of blocks that are too long to be kept.
    fn add_alone(&mut self, mut data: &[u8]) -> Result<(), DigestError> {
        let Blocks { alone: Some(stream), cut, levels, length } = self else { return Ok(()) };
        while !data.is_empty() {
            let block = cut.made.recipe.block as u64;
            let left = usize::try_from(block - *length % block).unwrap_or(usize::MAX);
            let (head, rest) = data.split_at(data.len().min(left));
            stream.update(head)?;
            *length += head.len() as u64;
            data = rest;
            if length.is_multiple_of(block) {
                end_alone(&mut **stream, levels)?;
            }
        }
        Ok(())
    }
}

/// Ends a block.
fn end_alone(stream: &mut dyn DigestStream, levels: &mut Levels) -> Result<(), DigestError> {
    let mut leaf = Output::zeroed(levels.inner.len());
    stream.finish(leaf.as_mut_bytes())?;
    levels.push(leaf.as_bytes())
}

impl DigestStream for Blocks {
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        if self.alone.is_some() {
            return self.add_alone(data);
        }
        self.length += data.len() as u64;
        let levels = &mut self.levels;
        self.cut.update(data, &mut |leaf| levels.push(leaf))
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        let block = self.cut.made.recipe.block as u64;
        if let Some(stream) = self.alone.as_mut().filter(|_| !self.length.is_multiple_of(block)) {
            end_alone(&mut **stream, &mut self.levels)?;
        }
        let levels = &mut self.levels;
        self.cut.end(&mut |leaf| levels.push(leaf))?;
        digest.copy_from_slice(self.levels.finish(self.length)?.as_bytes());
        self.length = 0;
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let cut = Cut { buffer: self.cut.buffer.clone(), ..Cut::new(&self.cut.made)? };
        let alone = self.alone.as_ref().map(|stream| stream.copy()).transpose()?;
        Ok(Box::new(Blocks { cut, alone, length: self.length, levels: self.levels.copy()? }))
    }
}

/// The hashes on their way to become one. Of a tree only what is not joined yet is kept.
pub(crate) struct Levels {
    join: Join,
    block: usize,
    inner: Digest,
    /// All hashes so far, where they are joined flat.
    flat: Box<dyn DigestStream>,
    /// The first of these, and how many there were.
    first: Option<Output>,
    count: u64,
    /// Of each level from the blocks up: the hashes that wait, one after the other, and how many there were.
    waiting: Vec<(Vec<u8>, u64)>,
    /// The same where nodes have links.
    tree: Tree,
}

impl Levels {
    pub(crate) fn new(made: &Made) -> Result<Levels, DigestError> {
        let Made { recipe: Recipe { join, block, .. }, inner, .. } = made;
        let (inner, flat, tree) = (inner.clone(), inner.stream()?, Tree::new(inner));
        Ok(Levels {
            join: *join,
            block: *block,
            inner,
            flat,
            first: None,
            count: 0,
            waiting: Vec::new(),
            tree,
        })
    }

    fn copy(&self) -> Result<Levels, DigestError> {
        let Levels { join, block, ref inner, ref flat, first, count, ref waiting, ref tree } = *self;
        let (inner, flat, waiting, tree) = (inner.clone(), flat.copy()?, waiting.clone(), tree.clone());
        Ok(Levels { join, block, inner, flat, first, count, waiting, tree })
    }

    pub(crate) fn push(&mut self, leaf: &[u8]) -> Result<(), DigestError> {
        match self.join {
            Join::Flat | Join::Parts => {
                self.first.get_or_insert_with(|| hash_of(leaf));
                self.count += 1;
                self.flat.update(leaf)
            }
            Join::Pairs | Join::FullPairs => self.push_to(0, leaf, 2 * leaf.len()),
            Join::Tree | Join::Described { .. } => self.push_to(0, leaf, self.block),
            Join::Links => self.tree.push(leaf),
        }
    }

    /// Adds a hash to a level. As soon as that level has so many bytes, they become a hash of the next one.
    fn push_to(&mut self, level: usize, hash: &[u8], full: usize) -> Result<(), DigestError> {
        if self.waiting.len() == level {
            self.waiting.push((Vec::with_capacity(full), 0));
        }
        let (waiting, count) = &mut self.waiting[level];
        waiting.extend_from_slice(hash);
        *count += 1;
        if waiting.len() < full {
            return Ok(());
        }
        let joined = self.inner.hash(waiting)?;
        waiting.clear();
        self.push_to(level + 1, joined.as_bytes(), full)
    }

    /// The digest of a message of so many bytes, of which nothing is left behind.
    pub(crate) fn finish(&mut self, length: u64) -> Result<Output, DigestError> {
        let mut digest = match self.join {
            Join::Flat | Join::Parts => {
                let mut digest = Output::zeroed(self.inner.len());
                self.flat.finish(digest.as_mut_bytes())?;
                let (first, count) = (self.first.take(), std::mem::take(&mut self.count));
                match first.filter(|_| self.join == Join::Parts && count == 1) {
                    Some(alone) => alone,
                    None => digest,
                }
            }
            Join::Pairs if self.waiting.is_empty() => self.inner.hash(&[])?,
            Join::Pairs => self.last_of_pairs()?,
            Join::FullPairs => self.last_of_full_pairs()?,
            Join::Tree | Join::Described { .. } => self.last_of_tree()?,
            Join::Links => self.tree.finish(length)?,
        };
        if let Join::Described { algorithm } = self.join {
            digest = self.inner.hash(&description(algorithm, length, &digest))?;
        }
        self.waiting.clear();
        Ok(digest)
    }

    /// An odd hash goes up until it meets one that waits.
    fn last_of_pairs(&self) -> Result<Output, DigestError> {
        let mut last: Option<Output> = None;
        for (waiting, _) in self.waiting.iter().filter(|(waiting, _)| !waiting.is_empty()) {
            last = Some(match last {
                None => hash_of(waiting),
                Some(last) => self.inner.hash(&[waiting, last.as_bytes()].concat())?,
            });
        }
        Ok(last.unwrap_or_else(|| Output::zeroed(self.inner.len())))
    }

    /// Where nothing is, there is the hash of pairs of nothing but zeros.
    fn last_of_full_pairs(&self) -> Result<Output, DigestError> {
        let mut zeros = Output::zeroed(self.inner.len());
        let mut last: Option<Output> = None;
        let top = self.waiting.len().saturating_sub(1);
        for (level, (waiting, count)) in self.waiting.iter().enumerate() {
            last = match (last, waiting.is_empty()) {
                (None, true) => None,
                // The only hash of the highest level is the root.
                (None, false) if level == top && *count == 1 => Some(hash_of(waiting)),
                (None, false) => Some(self.inner.hash(&[waiting, zeros.as_bytes()].concat())?),
                (Some(last), true) if level == top => Some(last),
                (Some(last), true) => Some(self.inner.hash(&[last.as_bytes(), zeros.as_bytes()].concat())?),
                (Some(last), false) => Some(self.inner.hash(&[waiting, last.as_bytes()].concat())?),
            };
            zeros = self.inner.hash(&[zeros.as_bytes(), zeros.as_bytes()].concat())?;
        }
        Ok(last.unwrap_or_else(|| Output::zeroed(self.inner.len())))
    }

    /// What waits is filled with zeros and goes up, until there is one hash. Without a block it is zeros.
    fn last_of_tree(&mut self) -> Result<Output, DigestError> {
        let mut level = 0;
        while level < self.waiting.len() {
            let is_top = level + 1 == self.waiting.len();
            let (waiting, count) = &mut self.waiting[level];
            if is_top && *count == 1 {
                return Ok(hash_of(waiting));
            }
            if !waiting.is_empty() {
                waiting.resize(self.block, 0);
                let joined = self.inner.hash(waiting)?;
                waiting.clear();
                self.push_to(level + 1, joined.as_bytes(), self.block)?;
            }
            level += 1;
        }
        Ok(Output::zeroed(self.inner.len()))
    }
}

/// These bytes as a hash.
pub(crate) fn hash_of(bytes: &[u8]) -> Output {
    let mut hash = Output::zeroed(bytes.len());
    hash.as_mut_bytes().copy_from_slice(bytes);
    hash
}

/// The description of 256 bytes that the kernel makes of a file with fs-verity: version, algorithm, length of a block
/// as a power of two, no salt, length of the file, root of the tree.
fn description(algorithm: u8, length: u64, root: &Output) -> [u8; 256] {
    let mut text = [0; 256];
    text[..3].copy_from_slice(&[1, algorithm, 12]);
    text[8..16].copy_from_slice(&length.to_le_bytes());
    text[16..16 + root.as_bytes().len()].copy_from_slice(root.as_bytes());
    text
}
