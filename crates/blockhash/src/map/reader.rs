//! Reads a block map: its header, its sections, and its digests in order.
//!
//! Memory is bounded by a window of the index and one section, whatever the file says. Every section is
//! checked against its checksum when it is read.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_digest::{Digest, Output, Policy};

use super::MapError;
use super::format::{
    BITMAP_LEN, Checksummer, ENTRY_LEN, Entry, Geometry, HEADER_LEN, Header, MAP_MAGIC, SECTION_BLOCKS,
    TRAILER_LEN, Trailer, VERSION, u32_at,
};
use crate::blocks::{Outer, ZEROS_AT_ONCE, ZeroBlock};
use crate::{BlockHashError, Params};

/// Entries of the index that are read at a time.
const WINDOW: u64 = 1024;

/// A block map in a file: the digest of every block of an image.
#[derive(Debug)]
pub struct BlockMap {
    file: File,
    path: PathBuf,
    params: Params,
    /// Computed when it is needed: a map can claim blocks that take seconds to hash.
    zero: Arc<ZeroBlock>,
    pub(super) geometry: Geometry,
    trailer: Trailer,
    /// Where in the file the index begins.
    index: u64,
}

impl BlockMap {
    /// Whether a file that begins with these bytes is meant to be a block map.
    pub fn is_map(start: &[u8]) -> bool {
        start.starts_with(&MAP_MAGIC)
    }

    /// Opens a map and checks all of it but the contents of the sections, which are checked when they are
    /// read. The digest is found with `policy`.
    ///
    /// # Errors
    /// [`MapError::NotAMap`] for other files, [`MapError::Corrupt`] for what contradicts itself.
    pub fn open(path: &Path, policy: &Policy) -> Result<BlockMap, BlockHashError> {
        let open = |error| MapError::io(path, "open", error);
        // A named pipe would be waited for.
        let found = std::fs::metadata(path).map_err(open)?;
        if !found.is_file() {
            let what = "a block map is a regular file".to_string();
            return Err(MapError::NotAMap { path: path.to_path_buf(), what }.into());
        }
        BlockMap::read_file(File::open(path).map_err(open)?, path, policy)
    }

    /// Reads a map from an open file; `path` is its name in errors.
    pub fn read_file(file: File, path: &Path, policy: &Policy) -> Result<BlockMap, BlockHashError> {
        let not_a_map = |what: &str| MapError::NotAMap { path: path.to_path_buf(), what: what.to_string() };
        let corrupt = |what: &str| MapError::corrupt(path, what);
        let read = |error| MapError::io(path, "read", error);
        let file_len = file.metadata().map_err(read)?.len();
        let mut bytes = [0; HEADER_LEN];
        let start = &mut bytes[..file_len.min(HEADER_LEN as u64) as usize];
        file.read_exact_at(start, 0).map_err(read)?;
        if !BlockMap::is_map(start) {
            return Err(not_a_map("not a block map").into());
        }
        if start.len() >= 12 && u32_at(start, 8) != VERSION {
            let version = u32_at(start, 8);
            let what = format!("a block map of version {version}, which is not known");
            return Err(not_a_map(&what).into());
        }
        let Some(rest) = file_len.checked_sub((HEADER_LEN + TRAILER_LEN) as u64) else {
            return Err(corrupt("it is shorter than the shortest").into());
        };
        let header = Header::decode(&bytes).map_err(corrupt)?;
        let digest_len = usize::from(header.digest_len);
        let mut last = [0; TRAILER_LEN];
        file.read_exact_at(&mut last, HEADER_LEN as u64 + rest).map_err(read)?;
        let trailer = Trailer::decode(&last, digest_len).map_err(corrupt)?;
        let index_len = trailer.sections.checked_mul(ENTRY_LEN as u64).filter(|&len| len <= rest);
        let Some(index_len) = index_len else {
            return Err(corrupt("it names more sections than it has room for").into());
        };
        let geometry = Geometry { length: trailer.length, block_size: header.block_size, digest_len };
        let index = HEADER_LEN as u64 + rest - index_len;
        check_index(&file, path, &geometry, &header, &trailer, index)?;
        // Now what it says is what was written, and a digest that is not known here is no corruption.
        let digest = Digest::find_with(&header.digest_name, policy)?;
        if digest.len() != digest_len || digest.name() != header.digest_name {
            return Err(corrupt("the length or the name of its digest is another").into());
        }
        let params = Params::new(digest).block_size(header.block_size)?;
        let zero = ZeroBlock::new(&params);
        Ok(BlockMap { file, path: path.to_path_buf(), params, zero, geometry, trailer, index })
    }

    /// The digest and the block size.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The name of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes of the image as it was hashed, sector padding included.
    pub fn length(&self) -> u64 {
        self.geometry.length
    }

    /// The block hash of the image, as the map states it.
    pub fn root(&self) -> &Output {
        &self.trailer.root
    }

    /// How many blocks the image has.
    pub fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    /// How many of them are not zeros: their digests are stored.
    pub fn data_blocks(&self) -> u64 {
        self.trailer.data_blocks
    }

    /// Length in bytes of the file.
    pub fn file_length(&self) -> u64 {
        self.index + self.trailer.sections * ENTRY_LEN as u64 + TRAILER_LEN as u64
    }

    /// The digest of a full block of zeros.
    pub(super) fn zero(&self) -> Result<&[u8], BlockHashError> {
        Ok(self.zero.value()?.as_bytes())
    }

    /// Reads every section and fails unless their digests give the root.
    ///
    /// The time is that of the outer hash: it grows with the length of the image, also of an empty one.
    pub fn check(&self) -> Result<(), BlockHashError> {
        self.check_while(&|| true)
    }

    /// The same while `goes_on` says so, which is asked every few milliseconds; [`BlockHashError::Finished`] where it
    /// does not.
    pub fn check_while(&self, goes_on: &dyn Fn() -> bool) -> Result<(), BlockHashError> {
        let mut outer = Outer::new(&self.params, self.zero.clone())?;
        let mut cursor = Cursor::new(self)?;
        while let Some(known) = cursor.peek()? {
            if !goes_on() {
                return Err(BlockHashError::Finished);
            }
            let blocks = match known {
                Known::Zeros(blocks) => {
                    let blocks = blocks.min(ZEROS_AT_ONCE);
                    outer.add_zeros(blocks)?;
                    blocks
                }
                Known::Digests(digests) => {
                    outer.add_digests(digests)?;
                    (digests.len() / self.geometry.digest_len) as u64
                }
            };
            cursor.advance(blocks);
        }
        match outer.finish(self.length())? == *self.root() {
            true => Ok(()),
            false => Err(MapError::corrupt(&self.path, "its digests do not give its root").into()),
        }
    }

    /// The digests of these blocks one after the other, those of zeros too. Only the sections that hold them are
    /// read.
    ///
    /// # Panics
    /// If there are no such blocks.
    pub fn digests(&self, blocks: Range<u64>) -> Result<Vec<u8>, BlockHashError> {
        assert!(blocks.start <= blocks.end && blocks.end <= self.blocks(), "the map has these blocks");
        let digest_len = self.geometry.digest_len;
        let mut digests = Vec::new();
        let mut cursor = Cursor::new(self)?;
        cursor.advance(blocks.start);
        while cursor.block() < blocks.end {
            let left = blocks.end - cursor.block();
            let Some(known) = cursor.peek()? else { break };
            let now = match known {
                Known::Zeros(found) => {
                    let now = found.min(left);
                    let zero = self.zero()?;
                    (0..now).for_each(|_| digests.extend_from_slice(zero));
                    now
                }
                Known::Digests(found) => {
                    let now = ((found.len() / digest_len) as u64).min(left);
                    digests.extend_from_slice(&found[..now as usize * digest_len]);
                    now
                }
            };
            cursor.advance(now);
        }
        Ok(digests)
    }

    /// The sections that are stored, in order.
    pub(super) fn sections(&self) -> Sections<'_> {
        Sections::new(&self.file, &self.path, &self.geometry, self.index, self.trailer.sections)
    }

    /// Reads a section and checks it.
    pub(super) fn read(&self, at: &Place, section: &mut SectionReader) -> Result<(), BlockHashError> {
        section.bytes.resize(at.len, 0);
        self.file
            .read_exact_at(&mut section.bytes, at.offset)
            .map_err(|error| MapError::io(&self.path, "read", error))?;
        let corrupt = |what: &str| {
            let first = at.entry.number * SECTION_BLOCKS;
            MapError::corrupt(&self.path, format!("the digests from block {first} on: {what}"))
        };
        if section.checksummer.of(&section.bytes)? != at.entry.checksum {
            return Err(corrupt("they do not match their checksum").into());
        }
        section.number = at.entry.number;
        section.blocks = self.geometry.blocks_of(at.entry.number);
        let all_data = at.entry.data_blocks == section.blocks;
        section.digests = if all_data { 0 } else { BITMAP_LEN };
        section.digest_len = self.geometry.digest_len;
        if !all_data {
            let bitmap = &section.bytes[..BITMAP_LEN];
            let bits: u64 = bitmap.iter().map(|byte| u64::from(byte.count_ones())).sum();
            let beyond = (section.blocks..SECTION_BLOCKS).any(|block| is_set(bitmap, block as usize));
            if bits != at.entry.data_blocks || beyond {
                return Err(corrupt("it is unclear which blocks they belong to").into());
            }
        }
        let zero = self.zero()?;
        let mut digests = section.bytes[section.digests..].chunks_exact(section.digest_len);
        if digests.any(|digest| digest == zero) {
            return Err(corrupt("one is that of zeros, which are not stored").into());
        }
        Ok(())
    }
}

/// Checks the index: its checksum, its order, and that its sections fill the file up to it.
fn check_index(
    file: &File,
    path: &Path,
    geometry: &Geometry,
    header: &Header,
    trailer: &Trailer,
    index: u64,
) -> Result<(), BlockHashError> {
    let mut checksummer = Checksummer::new()?;
    checksummer.update(&header.encode())?;
    let mut sections = Sections::new(file, path, geometry, index, trailer.sections);
    let mut data_blocks = 0;
    while let Some(at) = sections.next()? {
        checksummer.update(&at.entry.encode())?;
        data_blocks += at.entry.data_blocks;
    }
    let corrupt = |what: &str| Err(MapError::corrupt(path, what).into());
    if checksummer.of(&trailer.encode_checked())? != trailer.checksum {
        return corrupt("its index does not match its checksum");
    }
    if sections.offset != index || data_blocks != trailer.data_blocks {
        return corrupt("its sections are not as long as its index says");
    }
    Ok(())
}

/// A stored section and where it lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) entry: Entry,
    pub(super) offset: u64,
    len: usize,
}

/// Walks the index, a window of it at a time.
#[derive(Debug)]
pub(super) struct Sections<'a> {
    file: &'a File,
    path: &'a Path,
    geometry: &'a Geometry,
    /// Where in the file the index begins.
    index: u64,
    /// Entries in it, and how many were given out.
    count: u64,
    given: u64,
    window: Vec<u8>,
    /// Where the next section begins.
    offset: u64,
    last: Option<u64>,
}

impl<'a> Sections<'a> {
    fn new(file: &'a File, path: &'a Path, geometry: &'a Geometry, index: u64, count: u64) -> Sections<'a> {
        let offset = HEADER_LEN as u64;
        Sections { file, path, geometry, index, count, given: 0, window: Vec::new(), offset, last: None }
    }

    pub(super) fn next(&mut self) -> Result<Option<Place>, BlockHashError> {
        if self.given == self.count {
            return Ok(None);
        }
        let place = (self.given % WINDOW) as usize * ENTRY_LEN;
        if place == 0 {
            self.window.resize((self.count - self.given).min(WINDOW) as usize * ENTRY_LEN, 0);
            self.file
                .read_exact_at(&mut self.window, self.index + self.given * ENTRY_LEN as u64)
                .map_err(|error| MapError::io(self.path, "read", error))?;
        }
        let entry = Entry::decode(&self.window[place..place + ENTRY_LEN]);
        let corrupt = |what: &str| MapError::corrupt(self.path, what);
        let len = self.geometry.section_len(&entry).map_err(corrupt)?;
        if self.last.is_some_and(|last| entry.number <= last) {
            return Err(corrupt("its sections are not in order").into());
        }
        if len as u64 > self.index - self.offset {
            return Err(corrupt("its sections are longer than the file").into());
        }
        let at = Place { entry, offset: self.offset, len };
        (self.last, self.given, self.offset) = (Some(entry.number), self.given + 1, self.offset + len as u64);
        Ok(Some(at))
    }
}

/// The content of one section.
pub(super) struct SectionReader {
    number: u64,
    /// Blocks of the image in it.
    pub(super) blocks: u64,
    bytes: Vec<u8>,
    /// Where in the bytes the digests begin.
    digests: usize,
    digest_len: usize,
    checksummer: Checksummer,
}

impl SectionReader {
    pub(super) fn new() -> Result<SectionReader, BlockHashError> {
        let checksummer = Checksummer::new()?;
        Ok(SectionReader { number: 0, blocks: 0, bytes: Vec::new(), digests: 0, digest_len: 1, checksummer })
    }

    /// Which block of the image is its first.
    pub(super) fn first(&self) -> u64 {
        self.number * SECTION_BLOCKS
    }

    /// The run of blocks of one kind that begins at `block` of the section; `data` is how many blocks of
    /// data come before it.
    pub(super) fn run(&self, block: u64, data: usize) -> MapRun {
        if self.digests == 0 {
            return MapRun { blocks: block..self.blocks, digests: Some(data..self.blocks as usize) };
        }
        let bitmap = &self.bytes[..BITMAP_LEN];
        let is_data = is_set(bitmap, block as usize);
        let mut end = block as usize + 1;
        while end < self.blocks as usize && is_set(bitmap, end) == is_data {
            end += 1;
        }
        let digests = is_data.then(|| data..data + end - block as usize);
        MapRun { blocks: block..end as u64, digests }
    }

    /// The digests of the blocks of data of these places among them.
    pub(super) fn digests(&self, places: Range<usize>) -> &[u8] {
        let all = &self.bytes[self.digests..];
        &all[places.start * self.digest_len..places.end * self.digest_len]
    }
}

/// Consecutive blocks of a section of one kind.
#[derive(Debug)]
pub(super) struct MapRun {
    /// Within the section.
    pub(super) blocks: Range<u64>,
    /// Which of its digests are theirs; `None` for zeros.
    pub(super) digests: Option<Range<usize>>,
}

fn is_set(bitmap: &[u8], block: usize) -> bool {
    bitmap[block / 8] >> (block % 8) & 1 == 1
}

/// What a map says of the blocks from some place on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// A number of blocks of zeros.
    Zeros(u64),
    /// The digests of blocks of data.
    Digests(&'a [u8]),
}

/// Walks the digests of a map in the order of the blocks.
pub(super) struct Cursor<'a> {
    map: &'a BlockMap,
    sections: Sections<'a>,
    section: SectionReader,
    /// The next stored section, not read yet.
    next: Option<Place>,
    /// Whether `section` holds the blocks at `block`.
    loaded: bool,
    block: u64,
    /// Blocks of data in `section` before `block`.
    data: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(map: &'a BlockMap) -> Result<Cursor<'a>, BlockHashError> {
        let mut sections = map.sections();
        let next = sections.next()?;
        Ok(Cursor { map, sections, section: SectionReader::new()?, next, loaded: false, block: 0, data: 0 })
    }

    /// Which block comes next.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// What is known of the next blocks; `None` at the end of the image.
    pub(super) fn peek(&mut self) -> Result<Option<Known<'_>>, BlockHashError> {
        if self.block >= self.map.blocks() {
            return Ok(None);
        }
        if !self.loaded {
            // Sections that were passed unread.
            while self.next.is_some_and(|next| (next.entry.number + 1) * SECTION_BLOCKS <= self.block) {
                self.next = self.sections.next()?;
            }
            let first = self.next.map_or(self.map.blocks(), |next| next.entry.number * SECTION_BLOCKS);
            if first > self.block {
                return Ok(Some(Known::Zeros(first - self.block)));
            }
            let next = self.next.take().expect("a section begins here");
            self.map.read(&next, &mut self.section)?;
            self.next = self.sections.next()?;
            (self.loaded, self.data) = (true, 0);
            // Blocks of it that were passed before it was read.
            let target = std::mem::replace(&mut self.block, self.section.first());
            self.walk(target);
        }
        let run = self.section.run(self.block - self.section.first(), self.data);
        Ok(Some(match run.digests {
            None => Known::Zeros(run.blocks.end - run.blocks.start),
            Some(places) => Known::Digests(self.section.digests(places)),
        }))
    }

    /// Goes on by a number of blocks, which may be more than were seen.
    pub(super) fn advance(&mut self, blocks: u64) -> &mut Self {
        let target = (self.block + blocks).min(self.map.blocks());
        if self.loaded {
            self.walk(target);
        } else {
            self.block = target;
        }
        self
    }

    /// Goes to `target`, counting the digests that are passed in the section that is loaded.
    fn walk(&mut self, target: u64) {
        let end = self.section.first() + self.section.blocks;
        while self.block < target.min(end) {
            let run = self.section.run(self.block - self.section.first(), self.data);
            let now = (run.blocks.end - run.blocks.start).min(target - self.block);
            self.block += now;
            if run.digests.is_some() {
                self.data += now as usize;
            }
        }
        if target >= end {
            (self.block, self.loaded) = (target, false);
        }
    }
}
