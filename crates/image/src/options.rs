//! How images are opened.

use crate::ImageFormat;

/// Which of the files that an image names are opened. An image comes from anywhere: what it names may be
/// something that whoever made it wants to be read by whoever hashes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Follow {
    /// An image that needs another file is an error.
    None,
    /// Files in the image's own folder or below it, after links are resolved.
    #[default]
    SameDir,
    /// All files; if QEMU decodes the format, also files on servers.
    Any,
}

/// Which formats are looked for where none is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detect {
    /// All of [`crate::FORMATS`].
    #[default]
    All,
    /// qcow2; everything else is raw.
    Qcow2,
    /// None: everything is raw.
    Raw,
}

impl Detect {
    /// What is taken for the format of an image that looks like one of `format`.
    pub fn detected(self, format: ImageFormat) -> ImageFormat {
        match (self, format) {
            (Detect::All, _) | (Detect::Qcow2, ImageFormat::Qcow2) => format,
            _ => ImageFormat::Raw,
        }
    }
}

/// How to read an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Read through the page cache and leave there what was read. Otherwise what is not in it is read
    /// past it by direct I/O, where the file system can, and what is in it stays and is used.
    pub cache: bool,
    /// Pad the length with zeros to a multiple of 512, as a guest would see a raw file.
    pub sector_padding: bool,
    /// Let zeros follow the end of a stream in the same way: its length is not known before.
    pub stream_padding: bool,
    /// The format of the image itself; `None` to tell it from its bytes.
    pub format: Option<ImageFormat>,
    /// Which formats its bytes may tell.
    pub detect: Detect,
    /// Which of the files that it names are opened.
    pub follow: Follow,
    /// The state to read instead of the current one: the name or the identifier of a snapshot that the
    /// image keeps inside.
    pub snapshot: Option<String>,
}
