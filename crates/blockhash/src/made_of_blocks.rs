//! Computes digests made of blocks, such as `dmverity`, of an image: hashes its blocks on every thread, and
//! does not read holes.

use std::ops::Range;

use verisum_digest::{BlockParts, Digest, JoinedParts, Output};
use verisum_image::{Extent, ExtentKind, Image, Stream};

use crate::blocks::{DigestSink, update_zeros};
use crate::pump::{ImageProgress, hash_image_to};
use crate::{BlockHashError, Params};

/// So much of an image or a stream is read at once where one thread hashes it.
const PIECE: usize = 1 << 20;
/// The hash of a block of zeros is handed on so many times at once.
const ZEROS: u64 = 256;

/// The digest of an image, not its block hash: that of `params`, which must be [made of
/// blocks](verisum_digest::block_digests). The block size of `params` has no say.
///
/// # Errors
/// The image cannot be read, or changes its length meanwhile.
pub fn digest_image(
    image: &dyn Image,
    params: &Params,
    progress: &ImageProgress,
) -> Result<Output, BlockHashError> {
    let parts = params.digest().parts();
    let Some((parts, blocks)) = parts.and_then(|parts| Some((parts.clone(), parts.blocks()?))) else {
        return in_order(image, params.digest(), progress);
    };
    let BlockParts { digest, length: block, fills, .. } = blocks;
    let size = u32::try_from(block).ok().and_then(|block| params.clone().block_size(block).ok());
    let Some(params) = size else { return in_order(image, params.digest(), progress) };
    let params = params.with_digest(digest.clone());
    let mut sink = Leaves { joined: parts.join()?, digest, block, zeros: Vec::new() };
    let length = image.length();
    match fills {
        true => {
            let whole = Filled { image, length: length.next_multiple_of(block) };
            hash_image_to(&whole, &params, progress, &mut sink)?;
        }
        false => drop(hash_image_to(image, &params, progress, &mut sink)?),
    }
    Ok(sink.joined.finish(length)?)
}

/// The digest of all bytes of a stream, and how many there were.
///
/// # Errors
/// The stream cannot be read.
pub fn digest_stream(
    stream: &mut Stream,
    digest: &Digest,
    progress: &ImageProgress,
) -> Result<(Output, u64), BlockHashError> {
    let (mut hasher, mut buffer, mut length) = (digest.stream()?, vec![0; PIECE], 0);
    loop {
        let filled = stream.fill(&mut buffer)?;
        hasher.update(&buffer[..filled])?;
        length += filled as u64;
        progress.add(filled as u64);
        if filled < buffer.len() {
            break;
        }
    }
    let mut output = Output::zeroed(digest.len());
    hasher.finish(output.as_mut_bytes())?;
    Ok((output, length))
}

/// Hashes an image from its start to its end on this thread; holes are not read.
fn in_order(image: &dyn Image, digest: &Digest, progress: &ImageProgress) -> Result<Output, BlockHashError> {
    let (mut hasher, mut buffer, mut extents) = (digest.stream()?, vec![0; PIECE], Vec::new());
    let (mut at, length) = (0, image.length());
    hasher.expect(length)?;
    while at < length {
        extents.clear();
        image.extents(at..length, &mut extents)?;
        for Extent { range, kind, .. } in &extents {
            let size = range.end - range.start;
            if kind.is_zero() {
                update_zeros(&mut *hasher, size)?;
                progress.add(size);
            }
            let mut next = if kind.is_zero() { range.end } else { range.start };
            while next < range.end {
                let piece = &mut buffer[..(range.end - next).min(PIECE as u64) as usize];
                image.read_at(piece, next)?;
                hasher.update(piece)?;
                next += piece.len() as u64;
                progress.add(piece.len() as u64);
            }
            at = range.end;
        }
    }
    image.check_unchanged()?;
    let mut output = Output::zeroed(digest.len());
    hasher.finish(output.as_mut_bytes())?;
    Ok(output)
}

/// Joins the hashes of blocks.
struct Leaves {
    joined: JoinedParts,
    digest: Digest,
    block: u64,
    /// The hash of a block of zeros, many times.
    zeros: Vec<u8>,
}

impl DigestSink for Leaves {
    fn digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError> {
        Ok(self.joined.push_hashes(digests)?)
    }

    fn zeros(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        if self.zeros.is_empty() {
            let (mut hasher, mut zero) = (self.digest.stream()?, Output::zeroed(self.digest.len()));
            update_zeros(&mut *hasher, self.block)?;
            hasher.finish(zero.as_mut_bytes())?;
            self.zeros = zero.as_bytes().repeat(ZEROS as usize);
        }
        let mut left = blocks;
        while left > 0 {
            let now = left.min(ZEROS);
            self.joined.push_hashes(&self.zeros[..now as usize * self.digest.len()])?;
            left -= now;
        }
        Ok(())
    }
}

/// An image with zeros behind it.
struct Filled<'a> {
    image: &'a dyn Image,
    length: u64,
}

impl Image for Filled<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
        let end = self.image.length();
        match range.start < end {
            true => self.image.extents(range.start..range.end.min(end), out),
            false => {
                out.push(Extent::new(range, ExtentKind::Zero));
                Ok(())
            }
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::ImageError> {
        let stored = self.image.length().saturating_sub(offset).min(buf.len() as u64) as usize;
        let (stored, filling) = buf.split_at_mut(stored);
        filling.fill(0);
        if stored.is_empty() { Ok(()) } else { self.image.read_at(stored, offset) }
    }

    fn alignment(&self) -> usize {
        self.image.alignment()
    }

    fn unit(&self) -> u64 {
        self.image.unit()
    }

    fn check_unchanged(&self) -> Result<(), verisum_image::ImageError> {
        self.image.check_unchanged()
    }
}
