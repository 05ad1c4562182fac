//! Updates a map: hashes only the changed blocks again.

use std::io::Write;
use std::ops::Range;

use verisum_digest::Output;
use verisum_image::{Extent, ExtentKind, Image, ImageError};

use super::reader::{Cursor, Known};
use super::{BlockMap, MapError, MapWriter};
use crate::blocks::{Outer, ZEROS_AT_ONCE, ZeroBlock};
use crate::pump::hash_image_to;
use crate::ranges::whole_units;
use crate::{BlockHashError, DigestSink, ImageProgress, Params};

/// How much longer than its image the image of a map may have been: what costs time is the length, which a
/// map can claim without holding anything.
const MOST_SHRUNK: u64 = 64;

/// An image of this length is never too long.
const NEVER_TOO_LONG: u64 = 16 << 40;

/// Writes the map of `image` with a writer for the parameters of `old`, a map of what it was, given the byte ranges
/// `touched` in which it may have changed since. Gives the new block hash and how many bytes were hashed.
///
/// Where the length has changed, what is new or cut is taken as touched. The result is that of hashing all of the
/// image, provided that nothing else has changed. It ends with [`BlockHashError::Finished`] once `goes_on`, which is
/// asked every few milliseconds, says so.
pub fn update_map<W: Write + Send>(
    old: &BlockMap,
    image: &dyn Image,
    touched: Vec<Range<u64>>,
    params: &Params,
    writer: MapWriter<W>,
    progress: &ImageProgress,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<(Output, u64, W), BlockHashError> {
    let length = image.length();
    if old.length() > NEVER_TOO_LONG.max(length.saturating_mul(MOST_SHRUNK)) {
        let what = format!("the map is of an image of {} bytes, far longer than this one", old.length());
        return Err(MapError::Unlike(what).into());
    }
    // Otherwise the new root would vouch for digests that the old one does not.
    old.check_while(goes_on)?;
    let block_size = u64::from(old.geometry.block_size);
    let mut touched = touched;
    let end = length.min(old.length());
    touched.push(end..length);
    // A last block that was or is short has another digest.
    if old.length() != length && !end.is_multiple_of(block_size) {
        touched.push(end - 1..end);
    }
    let touched = whole_units(touched, block_size, length);
    let zero = ZeroBlock::new(old.params());
    let mut merge = Merge {
        outer: Outer::new(old.params(), zero)?,
        cursor: Cursor::new(old)?,
        writer,
        goes_on,
        digest_len: old.geometry.digest_len,
        blocks: touched
            .iter()
            .map(|range| range.start / block_size..range.end.div_ceil(block_size))
            .collect(),
        current: 0,
        block: 0,
    };
    let gathered = Gathered::new(image, touched);
    hash_image_to(&gathered, params, progress, &mut merge)?;
    let blocks = length.div_ceil(block_size);
    merge.copy_to(blocks)?;
    let Merge { outer, writer, .. } = merge;
    let root = outer.finish(length)?;
    Ok((root, gathered.length, writer.finish(length, &root)?))
}

/// Joins the digests of touched blocks, as they are computed, with the others, from the old map.
struct Merge<'a, W> {
    outer: Outer<'a>,
    cursor: Cursor<'a>,
    writer: MapWriter<W>,
    goes_on: &'a (dyn Fn() -> bool + Sync),
    digest_len: usize,
    /// The runs of touched blocks, and which of them is being computed.
    blocks: Vec<Range<u64>>,
    current: usize,
    /// The next block to write.
    block: u64,
}

impl<W: Write + Send> Merge<'_, W> {
    /// Copies untouched blocks up to `end` from the old map.
    fn copy_to(&mut self, end: u64) -> Result<(), BlockHashError> {
        self.cursor.advance(self.block - self.cursor.block());
        while self.block < end {
            self.require_going_on()?;
            let Some(known) = self.cursor.peek()? else { return Err(MapError::Miscounted.into()) };
            let count = match known {
                Known::Zeros(blocks) => {
                    let count = blocks.min(end - self.block).min(ZEROS_AT_ONCE);
                    self.outer.add_zeros(count)?;
                    self.writer.zeros(count)?;
                    count
                }
                Known::Digests(digests) => {
                    let len = digests.len().min((end - self.block) as usize * self.digest_len);
                    self.outer.add_digests(&digests[..len])?;
                    self.writer.digests(&digests[..len])?;
                    (len / self.digest_len) as u64
                }
            };
            self.cursor.advance(count);
            self.block += count;
        }
        Ok(())
    }

    fn require_going_on(&self) -> Result<(), BlockHashError> {
        if (self.goes_on)() { Ok(()) } else { Err(BlockHashError::Finished) }
    }

    /// Copies what comes before the next touched block, and gives how many touched ones follow.
    fn run(&mut self) -> Result<u64, BlockHashError> {
        self.require_going_on()?;
        let Some(run) = self.blocks.get(self.current).cloned() else {
            return Err(MapError::Miscounted.into());
        };
        if self.block < run.start {
            self.copy_to(run.start)?;
        }
        Ok(run.end - self.block)
    }

    fn pass(&mut self, count: u64) {
        self.block += count;
        if self.block == self.blocks[self.current].end {
            self.current += 1;
        }
    }
}

impl<W: Write + Send> DigestSink for Merge<'_, W> {
    fn digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError> {
        let mut rest = digests;
        while !rest.is_empty() {
            let room = self.run()?;
            let count = room.min((rest.len() / self.digest_len) as u64);
            let (now, later) = rest.split_at(count as usize * self.digest_len);
            self.outer.add_digests(now)?;
            self.writer.digests(now)?;
            self.pass(count);
            rest = later;
        }
        Ok(())
    }

    fn zeros(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        let mut left = blocks;
        while left > 0 {
            let count = self.run()?.min(left).min(ZEROS_AT_ONCE);
            self.outer.add_zeros(count)?;
            self.writer.zeros(count)?;
            self.pass(count);
            left -= count;
        }
        Ok(())
    }
}

/// Ranges of an image, one after the other, as an image of their own.
struct Gathered<'a> {
    image: &'a dyn Image,
    ranges: Vec<Range<u64>>,
    /// Where each range begins in this image.
    starts: Vec<u64>,
    length: u64,
}

impl<'a> Gathered<'a> {
    fn new(image: &'a dyn Image, ranges: Vec<Range<u64>>) -> Gathered<'a> {
        let mut length = 0;
        let starts = ranges.iter().map(|range| {
            length += range.end - range.start;
            length - (range.end - range.start)
        });
        Gathered { image, starts: starts.collect(), ranges, length }
    }

    /// The part of the image behind the start of `range`, which is not empty.
    fn part(&self, range: Range<u64>) -> Range<u64> {
        let place = self.starts.partition_point(|&start| start <= range.start) - 1;
        let start = self.ranges[place].start + (range.start - self.starts[place]);
        start..self.ranges[place].end.min(start + (range.end - range.start))
    }
}

impl Image for Gathered<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        if range.is_empty() {
            return Ok(());
        }
        let part = self.part(range.clone());
        let first = out.len();
        self.image.extents(part.clone(), out)?;
        for extent in &mut out[first..] {
            let start = range.start + (extent.range.start - part.start);
            extent.range = start..start + (extent.range.end - extent.range.start);
            // A compressed extent is a whole cluster only if it was not cut.
            if extent.kind == ExtentKind::Compressed {
                extent.place = None;
            }
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let part = self.part(at..offset + buf.len() as u64);
            let len = (part.end - part.start) as usize;
            self.image.read_at(&mut buf[done..done + len], part.start)?;
            done += len;
        }
        Ok(())
    }

    fn alignment(&self) -> usize {
        self.image.alignment()
    }

    fn check_unchanged(&self) -> Result<(), ImageError> {
        self.image.check_unchanged()
    }
}
