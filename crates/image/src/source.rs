//! The trait that every image format implements.

use std::ffi::OsString;
use std::ops::Range;

use verisum_pagecache::CachedBytes;

use crate::ImageError;

/// What a part of an image is known to hold before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Bytes that must be read. They may still turn out to be zeros.
    Data,
    /// Bytes that must be read and decompressed. They may still turn out to be zeros.
    Compressed,
    /// Bytes that read as zeros: a hole, an unallocated or a zero cluster.
    Zero,
}

impl ExtentKind {
    /// Whether the bytes are zeros that need no reading.
    pub fn is_zero(self) -> bool {
        self == ExtentKind::Zero
    }
}

/// Where a file stores the bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtentLocation {
    /// The device of the file, as `stat` tells it.
    pub device: u64,
    /// The inode of the file.
    pub inode: u64,
    /// Byte offset in the file.
    pub offset: u64,
}

/// A run of bytes of one kind, `start` inclusive, `end` exclusive, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Byte offsets in the guest's view of the image.
    pub range: Range<u64>,
    /// What is known about them.
    pub kind: ExtentKind,
    /// Where the first byte is stored, the others following it, where that is known: two extents of
    /// the same place hold the same bytes. Of a compressed extent it is the place of the compressed
    /// bytes, and the extent is then a whole cluster, or it is `None`.
    pub place: Option<ExtentLocation>,
}

impl Extent {
    /// An extent of which nobody knows where it is stored.
    pub fn new(range: Range<u64>, kind: ExtentKind) -> Extent {
        Extent { range, kind, place: None }
    }
}

/// What a file is to the image that needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The image itself.
    #[default]
    Image,
    /// What shows where the file above it has nothing.
    BackingFile,
    /// The file that holds the guest's data of the file above it.
    DataFile,
    /// A part of the guest's data of the file above it.
    Extent,
}

impl Role {
    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Image => "image",
            Role::BackingFile => "backing file",
            Role::DataFile => "data file",
            Role::Extent => "extent",
        }
    }
}

/// What a format says of an image under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    /// A name or a word.
    Text(String),
    /// A count, or a length in bytes.
    Number(u64),
    /// Whether something is so.
    Flag(bool),
}

impl From<&str> for Property {
    fn from(text: &str) -> Property {
        Property::Text(text.to_string())
    }
}

impl From<u64> for Property {
    fn from(number: u64) -> Property {
        Property::Number(number)
    }
}

impl From<bool> for Property {
    fn from(flag: bool) -> Property {
        Property::Flag(flag)
    }
}

/// One file or server behind an image: the image itself first, then what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// What it is to the image.
    pub role: Role,
    /// Its name: a path, or the address of a server.
    pub name: OsString,
    /// The format's name, as in `qcow2`.
    pub format: &'static str,
    /// Length in bytes of what a guest sees of it, where that is known.
    pub length: Option<u64>,
    /// Length in bytes of the file, where it is a file.
    pub file_length: Option<u64>,
    /// Bytes of storage that the file takes, where it is a file.
    pub stored: Option<u64>,
    /// Cluster or block size in bytes of the format, where it has one.
    pub cluster_size: Option<u64>,
    /// What else the format says of itself, by its usual names with `_` between words.
    pub properties: Vec<(&'static str, Property)>,
    /// What its user should know: that it was not closed cleanly, or is marked corrupt.
    pub warnings: Vec<String>,
}

/// How many bytes of an image are of each kind, as far as that is known before they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownContent {
    /// Stored as they are.
    pub data: u64,
    /// Stored compressed.
    pub compressed: u64,
    /// Known to be zeros.
    pub zero: u64,
}

impl KnownContent {
    /// That of an image.
    ///
    /// # Errors
    /// Those of [`Image::extents`].
    pub fn of(image: &dyn Image) -> Result<KnownContent, ImageError> {
        let mut known = KnownContent::default();
        let mut extents = Vec::new();
        let mut position = 0;
        while position < image.length() {
            extents.clear();
            image.extents(position..image.length(), &mut extents)?;
            for extent in &extents {
                let sum = match extent.kind {
                    ExtentKind::Data => &mut known.data,
                    ExtentKind::Compressed => &mut known.compressed,
                    ExtentKind::Zero => &mut known.zero,
                };
                *sum += extent.range.end - extent.range.start;
                position = extent.range.end;
            }
        }
        Ok(known)
    }
}

/// A disk image of known length that can be read anywhere, from any thread.
pub trait Image: Send + Sync {
    /// Length in bytes of what a guest would see. It stays the same for the life of the value.
    fn length(&self) -> u64;

    /// Appends the extents at the start of `range` to `out`, in order and without gaps.
    ///
    /// At least one extent is appended when `range` is not empty, and an implementation may stop early
    /// to bound its time and memory: the caller goes on from the end of the last one. No extent
    /// reaches beyond `range`. `range` lies within the image.
    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError>;

    /// Fills all of `buf` with the bytes at `offset`. `offset + buf.len()` lies within the image.
    ///
    /// Fast where `offset`, the length and the address of `buf` are multiples of [`Image::alignment`];
    /// correct everywhere.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError>;

    /// The same bytes of a file that may be in the page cache, to be looked at there without a copy. `None` where that
    /// cannot be. Asked for in order, mostly.
    fn in_page_cache(&self, range: Range<u64>) -> Option<CachedBytes> {
        let _ = range;
        None
    }

    /// The alignment in bytes, a power of two, at which reads are fastest.
    fn alignment(&self) -> usize {
        1
    }

    /// Length in bytes of the largest unit that is decompressed as a whole, 1 where nothing is: reads that
    /// hold whole units, counted from the start of the image, do nothing twice.
    fn unit(&self) -> u64 {
        1
    }

    /// What the image consists of, the image itself first, then its backing files in order; each is followed
    /// by the files that hold its data. Empty where nothing is known.
    fn layers(&self) -> Vec<Layer> {
        Vec::new()
    }

    /// Fails if the image was seen to change its length since it was opened, so that what was read is
    /// no single state of it. Called once, after the last read.
    fn check_unchanged(&self) -> Result<(), ImageError> {
        Ok(())
    }

    /// How many zero bytes at the end of [`Image::length`] are not stored: what a guest sees after the
    /// end of a raw file whose length is no multiple of a sector.
    fn padded_by(&self) -> u64 {
        0
    }

    /// Length in bytes of what is stored: [`Image::length`] without the padding.
    fn exact_length(&self) -> u64 {
        self.length() - self.padded_by()
    }

    /// Whether the stored bytes may have been written to since the image was opened, though the length
    /// stayed the same. `false` where nobody can tell, as for block devices.
    fn modified_during(&self) -> bool {
        false
    }
}
