//! Disk images as what [`mend::image`](crate::mend::image) repairs, and reads copies from.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use verisum_blockhash::BlockMap;
use verisum_files::Stop;
use verisum_files::place::Place;
use verisum_image::{Image, Opened};
use verisum_mend::image::{ImageRepairError, Mended, ReadAt, Target};

/// Maps that are not exact round the length up to this.
const SECTOR: u64 = 512;

/// A copy of an image.
pub struct ImageCopy {
    /// Reads it.
    pub read: ReadAt<'static>,
    /// Its exact length, if that is known.
    pub length: Option<u64>,
}

impl ImageCopy {
    /// One that is open.
    pub fn of(image: Box<dyn Image>) -> ImageCopy {
        ImageCopy { length: Some(image.exact_length()), read: image_reader(image) }
    }

    /// A raw image of another place.
    pub fn there(mut place: Box<dyn Place>, path: Vec<u8>, map: &BlockMap) -> ImageCopy {
        let length = place.state(&path).ok().and_then(|known| known.now.size);
        let read: ReadAt = Box::new(move |buffer, offset| {
            let range = offset..offset + buffer.len() as u64;
            place.read(&path, range).map_err(io::Error::other)?.read_exact(buffer)
        });
        // A last sector that is not full is read as one of an image here.
        let end = length.filter(|end| end.next_multiple_of(SECTOR) == map.length());
        ImageCopy { read: reader_until(read, end.unwrap_or(map.length())), length }
    }

    /// One that cannot be opened, for this reason: it gives nothing.
    pub fn none(why: String) -> ImageCopy {
        ImageCopy { read: Box::new(move |_, _| Err(io::Error::other(why.clone()))), length: None }
    }
}

/// An image whose bytes are what a guest sees.
///
/// # Errors
/// It is a pipe, or of another format than raw: only what is raw can be changed in place.
pub fn require_raw(opened: Opened) -> io::Result<Box<dyn Image>> {
    match opened {
        Opened::Stream(_) => Err(io::Error::other("only raw image files and block devices can be repaired")),
        Opened::Image(image) => match &image.layers()[..] {
            [only] if only.format == "raw" => Ok(image),
            _ => Err(io::Error::other(
                "only raw images can be repaired in place: make another of a good copy (qemu-img convert), or repair it \
                 as a device of qemu-nbd",
            )),
        },
    }
}

/// What a repair of an image asks of the program that runs it.
pub trait DamagedImage {
    /// Why it fails.
    type Error: From<ImageRepairError>;

    /// Opens the image to read it.
    ///
    /// # Errors
    /// Also if it is not [raw](require_raw).
    fn open(&self) -> Result<Box<dyn Image>, Self::Error>;

    /// Where it differs from the map; none if it cannot be read as a whole.
    ///
    /// # Errors
    /// The map cannot be read.
    fn compare(&self) -> Result<Option<Vec<Range<u64>>>, Self::Error>;

    /// Is told how many blocks of an interrupted repair were finished, or would be.
    fn finished(&self, blocks: u64);
}

/// A repair of an image from copies.
pub struct ImageRepair<'a> {
    /// The image, whose end is that of its file.
    pub target: Target<'a>,
    /// The copies, which are tried in their order for each block.
    pub copies: Vec<ImageCopy>,
    /// Whether it repairs what may be another image.
    pub overwrites: bool,
    /// Whether it only finds out what could be repaired.
    pub dry_run: bool,
    /// When to end early.
    pub stop: &'a Stop,
}

impl ImageRepair<'_> {
    /// Finishes an interrupted repair, repairs, and reads back what was written. Returns also how many bytes the image has
    /// after its recorded end.
    ///
    /// # Errors
    /// Those of the image, of its map and of its journal.
    pub fn run<I: DamagedImage>(self, image: &I) -> Result<(Mended, u64), I::Error> {
        let ImageRepair { mut target, mut copies, overwrites, dry_run, stop } = self;
        let end = image_end(&target, target.end, &mut copies)?;
        target.end = end.unwrap_or(target.end);
        let damage = || -> Result<_, I::Error> {
            let (bad, longer) = damage(&target, image, end.is_some(), stop)?;
            if !overwrites {
                target.require_same(&bad, image.open()?.length())?;
            }
            Ok((bad, longer))
        };
        let mut foretold = Vec::new();
        if target.journal.symlink_metadata().is_ok() {
            // What it has is for the image of the map only.
            damage()?;
            if dry_run {
                foretold = target.recoverable()?;
                image.finished(foretold.len() as u64);
            } else if let count @ 1.. = target.recover()? {
                image.finished(count);
            }
        }
        let (bad, longer) = damage()?;
        let mut copies: Vec<ReadAt> = copies.into_iter().map(|copy| copy.read).collect();
        let mended = target.repair(&without(bad, foretold), &mut copies, !dry_run, stop)?;
        if !dry_run && !mended.repaired.is_empty() {
            target.verify(&mended, &mut reader_until(image_reader(image.open()?), target.end))?;
        }
        Ok((mended, longer))
    }
}

/// Ranges without some blocks, each of which is in one of them or in none.
fn without(ranges: Vec<Range<u64>>, mut blocks: Vec<Range<u64>>) -> Vec<Range<u64>> {
    blocks.sort_by_key(|block| block.start);
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        for block in blocks.iter().filter(|block| range.start <= block.start && block.start < range.end) {
            left.push(start..block.start);
            start = block.end;
        }
        left.push(start..range.end);
    }
    left.retain(|range| range.start < range.end);
    left
}

/// Where an image ends whose file is so long (`own`). A map that is not exact rounds that up, and so do many formats.
/// `own` stays where it can: where a good last block has only zeros after it, and no copy ends earlier. None if the file
/// ends within the last sector, and nobody knows whether somebody appended the bytes there.
fn image_end(target: &Target, own: u64, copies: &mut [ImageCopy]) -> Result<Option<u64>, ImageRepairError> {
    let length = target.map.length();
    let is_in_last = |end: u64| end.next_multiple_of(SECTOR) == length;
    let mut told: Option<u64> = None;
    for copy in copies.iter_mut() {
        // One with a full last sector may be filled up.
        if let Some(end) = copy.length.filter(|end| *end < length && is_in_last(*end))
            && target.has_last_block(&mut copy.read)?
        {
            told = Some(told.map_or(end, |other| other.min(end)));
        }
    }
    if own >= length || !is_in_last(own) {
        return Ok(Some(told.unwrap_or(length)));
    }
    if told.is_some_and(|end| end <= own) {
        return Ok(told);
    }
    // Whether the last block of a copy is good, and has only zeros from here on.
    let mut ends_before = |end: u64| -> Result<bool, ImageRepairError> {
        for copy in copies.iter_mut() {
            let mut cut: ReadAt = Box::new(|buffer, offset| read_until(&mut copy.read, end, buffer, offset));
            if target.has_last_block(&mut cut)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    if !ends_before(own)? {
        return Ok(told.or(ends_before(length)?.then_some(length)));
    }
    let is_appended = match last_byte(target.file, length.saturating_sub(SECTOR)..own) {
        Some(at) if told.is_none() => ends_before(at)?,
        _ => false,
    };
    Ok((!is_appended).then_some(own))
}

/// Where the last byte of a range is that is not zero.
fn last_byte(file: &File, range: Range<u64>) -> Option<u64> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start).ok()?;
    bytes.iter().rposition(|byte| *byte != 0).map(|at| range.start + at as u64)
}

/// What differs from the map before the end of an image, and how many bytes it has after that.
fn damage<I: DamagedImage>(
    target: &Target,
    image: &I,
    knows_end: bool,
    stop: &Stop,
) -> Result<(Vec<Range<u64>>, u64), I::Error> {
    let read = || Ok::<_, I::Error>(reader_until(image_reader(image.open()?), target.end));
    let ranges = match image.compare()? {
        Some(ranges) => ranges,
        None => target.scan(&mut read()?, stop)?,
    };
    let mut end = target.map.length();
    let longer = image.open()?.exact_length().saturating_sub(target.end);
    let is_last_bad = ranges.last().is_some_and(|range| range.end >= end);
    if is_last_bad && !knows_end {
        return Err(ImageRepairError::EndUnknown { path: target.name.to_path_buf() }.into());
    }
    // What follows the end is no damage of the last block.
    if longer > 0 && is_last_bad && target.has_last_block(&mut read()?)? {
        end = target.map.blocks().saturating_sub(1) * u64::from(target.map.params().block_bytes());
    }
    let within = |range: Range<u64>| range.start..range.end.min(end);
    Ok((ranges.into_iter().map(within).filter(|range| !range.is_empty()).collect(), longer))
}

/// Reads any part of an image.
fn image_reader(image: Box<dyn Image>) -> ReadAt<'static> {
    Box::new(move |buffer, offset| {
        if offset + buffer.len() as u64 > image.length() {
            return Err(io::Error::other("it is shorter"));
        }
        image.read_at(buffer, offset).map_err(io::Error::other)
    })
}

/// Reads an image as if it ended here, with zeros after it.
fn reader_until(mut read: ReadAt<'static>, end: u64) -> ReadAt<'static> {
    Box::new(move |buffer, offset| read_until(&mut read, end, buffer, offset))
}

fn read_until(read: &mut ReadAt, end: u64, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let stored = end.saturating_sub(offset).min(buffer.len() as u64) as usize;
    buffer[stored..].fill(0);
    read(&mut buffer[..stored], offset)
}
