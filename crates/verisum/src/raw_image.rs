//! Disk images as what [`mend::image`](crate::mend::image) repairs, and reads copies from.

use std::io;

use verisum_blockhash::BlockMap;
use verisum_image::{Image, Opened};
use verisum_mend::image::ReadAt;

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

/// How much of an image is stored: a file that ends within the last sector is as long as it was.
pub fn stored_length(image: &dyn Image, map: &BlockMap) -> u64 {
    if image.length() == map.length() { image.exact_length() } else { map.length() }
}

/// Reads any part of an image.
pub fn image_reader(image: Box<dyn Image>) -> ReadAt<'static> {
    Box::new(move |buffer, offset| {
        if offset + buffer.len() as u64 > image.length() {
            return Err(io::Error::other("it is shorter"));
        }
        image.read_at(buffer, offset).map_err(io::Error::other)
    })
}
