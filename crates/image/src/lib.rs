//! Disk images as a sequence of bytes and extents.
//!
//! An [`Image`] knows how long it is, which parts of it read as zeros without being looked at, and how
//! to read any part of itself from several threads at once. It knows nothing of hashes.
//!
//! [`open`] looks at a name and gives either an [`Image`] (a file of any of the [`FORMATS`], or a block
//! device) or a [`Stream`] (a pipe, a terminal, a file whose length is not known before it is read);
//! [`open_stdin`] does the same for standard input, and [`NbdImage::open`] takes the address of a server.
//!
//! ```
//! use std::fs::File;
//! use std::path::Path;
//! use verisum_image::{OpenOptions, Opened, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! let path = Path::new("disk.img");
//! File::create(path)?.set_len(1 << 20)?;
//! let Opened::Image(image) = open(path, &OpenOptions::default())? else { panic!("it is a file") };
//! assert_eq!(image.length(), 1 << 20);
//! let mut extents = Vec::new();
//! image.extents(0..image.length(), &mut extents)?;
//! assert!(extents[0].kind.is_zero(), "nothing was written");
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

mod buffer;
mod buffered;
mod by_name;
mod direct;
mod error;
mod extents;
mod format;
mod nbd;
mod numbers;
mod opened;
mod options;
mod qcow2;
mod qemu;
mod ranged;
mod raw;
mod snapshots;
mod source;
mod stream;

pub use buffer::AlignedBuffer;
pub use error::{ImageError, ImageOperation};
pub use format::{Description, FORMATS, ImageFormat, START_LEN};
pub use nbd::{NbdImage, is_nbd_uri};
pub use opened::{Opened, describe, kept, open, open_named, open_ranged, open_stdin};
pub use options::{Detect, Follow, OpenOptions};
pub use ranged::RangedSource;
pub use raw::RawImage;
pub use snapshots::{Bitmap, Kept, KeptSnapshot};
pub use source::{Extent, ExtentKind, ExtentLocation, Image, KnownContent, Layer, Property, Role};
pub use stream::Stream;
