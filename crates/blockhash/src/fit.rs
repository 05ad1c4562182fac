//! Recognizes block hashes in place of digests of files, by trying the usual block sizes.

use std::ops::Range;
use std::path::Path;

use verisum_digest::{Digest, Output};
use verisum_image::{Extent, Image, OpenOptions, Opened};

use crate::{BlockHashError, ImageProgress, MAX_THREADS, ONE_THREAD_BYTES, Params, digest_image, hash_image};

/// Up to this length all usual block sizes are tried, in bytes; each is another run over the image.
const SMALL: u64 = 64 << 20;

/// The usual block sizes but that of 64 KiB, which is the first to be tried: powers of two up to 16 MiB.
const OTHER_SIZES: [u32; 15] = [
    1 << 20,
    1 << 9,
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 21,
    1 << 22,
    1 << 23,
    1 << 24,
];

/// Whether `value`, which is not the digest of a file, is the block hash of it with one of the usual block sizes, as a
/// guest sees it or of exactly its bytes. What cannot be read has none, and a large image, which takes long, has none as
/// soon as `is_over` says yes.
pub fn is_block_hash(
    path: &Path,
    digest: &Digest,
    value: Output,
    is_over: &(dyn Fn() -> bool + Sync),
) -> bool {
    // What comes out of a pipe comes once.
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let open = |pads: bool| {
        let mut options = OpenOptions::default();
        options.sector_padding = pads;
        match verisum_image::open(path, &options) {
            Ok(Opened::Image(image)) => Some(image),
            _ => None,
        }
    };
    let has = |image: &dyn Image| has(&Ending { image, is_over }, digest, value).unwrap_or(false);
    let Some(guest) = is_file.then(|| open(true)).flatten() else { return false };
    has(&*guest) || guest.padded_by() > 0 && open(false).is_some_and(|exact| has(&*exact))
}

/// An image that cannot be read any more as soon as somebody says so.
struct Ending<'a> {
    image: &'a dyn Image,
    is_over: &'a (dyn Fn() -> bool + Sync),
}

impl Ending<'_> {
    fn go_on(&self) -> Result<&dyn Image, verisum_image::ImageError> {
        match (self.is_over)() {
            false => Ok(self.image),
            true => {
                let (path, what) = (Path::new(""), std::io::Error::other("interrupted"));
                Err(verisum_image::ImageError::io(path, verisum_image::ImageOperation::Read, what))
            }
        }
    }
}

impl Image for Ending<'_> {
    fn length(&self) -> u64 {
        self.image.length()
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
        self.go_on()?.extents(range, out)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::ImageError> {
        self.go_on()?.read_at(buf, offset)
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

fn has(image: &dyn Image, digest: &Digest, value: Output) -> Result<bool, BlockHashError> {
    let threads = match image.length() <= ONE_THREAD_BYTES {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_THREADS)),
    };
    let params = Params::new(digest.clone()).threads(threads)?;
    // Such a digest has blocks of its own size.
    if digest.blocks().is_some() {
        return Ok(digest_image(image, &params, &ImageProgress::default())? == value);
    }
    let others: &[u32] = if image.length() > SMALL { &OTHER_SIZES[..1] } else { &OTHER_SIZES };
    for size in std::iter::once(params.block_bytes()).chain(others.iter().copied()) {
        if hash_image(image, &params.clone().block_size(size)?, &ImageProgress::default())? == value {
            return Ok(true);
        }
    }
    Ok(false)
}
