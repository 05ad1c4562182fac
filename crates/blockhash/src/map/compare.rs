//! Compares two maps, or a map with an image.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_digest::Output;

use super::format::SECTION_BLOCKS;
use super::reader::{Cursor, Known, Place, SectionReader, Sections};
use super::{BlockMap, MapError};
use crate::ranges::{merge_ranges, push_range, whole_units};
use crate::{BlockHashError, DigestSink};

/// The byte ranges in which the images of two maps differ, as whole blocks, found on `threads` threads.
///
/// Blocks beyond the end of the shorter image differ. Only sections whose checksums differ are read. Roots
/// are not computed anew, but a root that contradicts what was found is an error.
///
/// # Errors
/// [`MapError::Unlike`] if digests or block sizes differ.
pub fn compare_maps(a: &BlockMap, b: &BlockMap, threads: usize) -> Result<Vec<Range<u64>>, BlockHashError> {
    let name = |map: &BlockMap| map.params().digest().name().to_string();
    if name(a) != name(b) {
        let what = format!("the maps hold different digests, {} and {}", name(a), name(b));
        return Err(MapError::Unlike(what).into());
    }
    if a.geometry.block_size != b.geometry.block_size {
        let (a, b) = (a.geometry.block_size, b.geometry.block_size);
        return Err(MapError::Unlike(format!("the maps have different block sizes, {a} and {b}")).into());
    }
    let pairs = Mutex::new(Pairs::new(a, b)?);
    let work = || -> Result<Vec<Range<u64>>, BlockHashError> {
        let (mut one, mut other) = (SectionReader::new()?, SectionReader::new()?);
        let mut found = Vec::new();
        loop {
            let next = pairs.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next? {
                None => return Ok(found),
                Some([Some(left), Some(right)]) => {
                    a.read(&left, &mut one)?;
                    b.read(&right, &mut other)?;
                    differing(&one, &other, &mut found);
                }
                Some([Some(only), None]) => {
                    a.read(&only, &mut one)?;
                    data(&one, &mut found);
                }
                Some([None, Some(only)]) => {
                    b.read(&only, &mut one)?;
                    data(&one, &mut found);
                }
                Some([None, None]) => {}
            }
        }
    };
    let found = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for helper in helpers {
            let more = helper.join().unwrap_or(Err(BlockHashError::Panicked));
            found = found.and_then(|mut all| {
                all.append(&mut more?);
                Ok(all)
            });
        }
        found
    })?;
    let ranges = in_bytes(found, a.geometry.block_size, a.length(), b.length());
    let same_roots = a.root() == b.root() && a.length() == b.length();
    if ranges.is_empty() != same_roots {
        let what = match same_roots {
            true => "it has the root of the other map, but other digests",
            false => "it has the digests of the other map, but another root",
        };
        return Err(MapError::corrupt(b.path(), what).into());
    }
    Ok(ranges)
}

/// From differing blocks to differing bytes: those of the longer image after the end of the shorter one
/// are among them.
fn in_bytes(blocks: Vec<Range<u64>>, block_size: u32, a: u64, b: u64) -> Vec<Range<u64>> {
    let block_size = u64::from(block_size);
    let mut ranges: Vec<Range<u64>> = blocks
        .into_iter()
        .map(|range| range.start * block_size..range.end.saturating_mul(block_size))
        .collect();
    ranges.push(a.min(b)..a.max(b));
    whole_units(ranges, block_size, a.max(b))
}

/// The pairs of sections of two maps of which one or both must be read.
struct Pairs<'a> {
    sections: [Sections<'a>; 2],
    next: [Option<Place>; 2],
    /// From this section on the images have different numbers of blocks in each.
    uneven: u64,
}

impl<'a> Pairs<'a> {
    fn new(a: &'a BlockMap, b: &'a BlockMap) -> Result<Pairs<'a>, BlockHashError> {
        let mut sections = [a.sections(), b.sections()];
        let next = [sections[0].next()?, sections[1].next()?];
        let uneven = match a.blocks() == b.blocks() {
            true => u64::MAX,
            false => a.blocks().min(b.blocks()) / SECTION_BLOCKS,
        };
        Ok(Pairs { sections, next, uneven })
    }

    fn next(&mut self) -> Result<Option<[Option<Place>; 2]>, BlockHashError> {
        loop {
            let number = |place: &Option<Place>| place.map_or(u64::MAX, |place| place.entry.number);
            let first = number(&self.next[0]).min(number(&self.next[1]));
            if first == u64::MAX {
                return Ok(None);
            }
            let mut pair = [None; 2];
            for (i, found) in pair.iter_mut().enumerate() {
                if number(&self.next[i]) == first {
                    *found = std::mem::replace(&mut self.next[i], self.sections[i].next()?);
                }
            }
            match pair {
                [Some(a), Some(b)] if a.entry == b.entry && first < self.uneven => {}
                pair => return Ok(Some(pair)),
            }
        }
    }
}

/// Appends the blocks of the image in which two sections of the same number differ. Blocks that only one
/// of them has are left out.
fn differing(a: &SectionReader, b: &SectionReader, out: &mut Vec<Range<u64>>) {
    let first = a.first();
    let both = a.blocks.min(b.blocks);
    let (mut block, mut data) = (0, [0, 0]);
    while block < both {
        let runs = [a.run(block, data[0]), b.run(block, data[1])];
        let end = runs[0].blocks.end.min(runs[1].blocks.end).min(both);
        let count = (end - block) as usize;
        match [&runs[0].digests, &runs[1].digests] {
            [None, None] => {}
            [Some(one), Some(other)] => {
                let one = a.digests(one.start..one.start + count);
                let other = b.digests(other.start..other.start + count);
                compare(one, other, first + block, one.len() / count, out);
            }
            _ => push_range(out, first + block..first + end),
        }
        for (data, run) in data.iter_mut().zip(&runs) {
            *data += if run.digests.is_some() { count } else { 0 };
        }
        block = end;
    }
}

/// Appends all blocks of a section that are not zeros.
fn data(section: &SectionReader, out: &mut Vec<Range<u64>>) {
    let (mut block, mut data) = (0, 0);
    while block < section.blocks {
        let run = section.run(block, data);
        if let Some(places) = run.digests {
            push_range(out, section.first() + run.blocks.start..section.first() + run.blocks.end);
            data += places.len();
        }
        block = run.blocks.end;
    }
}

/// Appends the blocks, of which the first has number `first`, whose digests differ.
fn compare(a: &[u8], b: &[u8], first: u64, digest_len: usize, out: &mut Vec<Range<u64>>) {
    if a == b {
        return;
    }
    for (i, (a, b)) in a.chunks_exact(digest_len).zip(b.chunks_exact(digest_len)).enumerate() {
        if a != b {
            push_range(out, first + i as u64..first + i as u64 + 1);
        }
    }
}

/// Compares the digests of an image, as they are computed, with those of a map: the sink for
/// [`hash_image_to`](crate::hash_image_to) and [`hash_stream_to`](crate::hash_stream_to).
pub struct MapComparison<'a> {
    map: &'a BlockMap,
    cursor: Cursor<'a>,
    found: Vec<Range<u64>>,
}

impl<'a> MapComparison<'a> {
    /// Starts a comparison with an image that is hashed with the map's [`params`](BlockMap::params).
    pub fn new(map: &'a BlockMap) -> Result<MapComparison<'a>, BlockHashError> {
        Ok(MapComparison { map, cursor: Cursor::new(map)?, found: Vec::new() })
    }

    /// The byte ranges in which an image of `length` bytes and of block hash `root` differs from that of
    /// the map, as whole blocks. Blocks beyond the end of the shorter one differ.
    ///
    /// # Errors
    /// [`MapError::Corrupt`] if the roots contradict what was found.
    pub fn finish(self, length: u64, root: &Output) -> Result<Vec<Range<u64>>, BlockHashError> {
        let ranges = in_bytes(self.found, self.map.geometry.block_size, self.map.length(), length);
        let same = *root == *self.map.root() && length == self.map.length();
        if ranges.is_empty() != same {
            let what = match same {
                true => "it has the root of the image, but other digests",
                false => "it has the digests of the image, but another root",
            };
            return Err(MapError::corrupt(self.map.path(), what).into());
        }
        Ok(merge_ranges(ranges))
    }
}

impl DigestSink for MapComparison<'_> {
    fn digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError> {
        let digest_len = self.map.geometry.digest_len;
        let mut rest = digests;
        while !rest.is_empty() {
            let block = self.cursor.block();
            // What the map does not reach is found by its length.
            let Some(known) = self.cursor.peek()? else { return Ok(()) };
            let count = match known {
                Known::Zeros(blocks) => {
                    let zero = self.map.zero()?;
                    let count = (rest.len() / digest_len).min(blocks.try_into().unwrap_or(usize::MAX));
                    for (i, digest) in rest[..count * digest_len].chunks_exact(digest_len).enumerate() {
                        if digest != zero {
                            push_range(&mut self.found, block + i as u64..block + i as u64 + 1);
                        }
                    }
                    count
                }
                Known::Digests(known) => {
                    let len = known.len().min(rest.len());
                    compare(&rest[..len], &known[..len], block, digest_len, &mut self.found);
                    len / digest_len
                }
            };
            self.cursor.advance(count as u64);
            rest = &rest[count * digest_len..];
        }
        Ok(())
    }

    fn zeros(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        let mut left = blocks;
        while left > 0 {
            let block = self.cursor.block();
            let Some(known) = self.cursor.peek()? else { return Ok(()) };
            let count = match known {
                Known::Zeros(blocks) => blocks.min(left),
                Known::Digests(known) => {
                    let count = left.min((known.len() / self.map.geometry.digest_len) as u64);
                    // The map stores no digest of zeros.
                    push_range(&mut self.found, block..block + count);
                    count
                }
            };
            self.cursor.advance(count);
            left -= count;
        }
        Ok(())
    }
}
