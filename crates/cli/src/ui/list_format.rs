//! The formats of lists, as options name them.

use clap::ValueEnum;
use verisum::files::store::manifest;

/// The formats of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// `HEX  NAME`, as the coreutils print it
    #[default]
    Gnu,
    /// `SHA256 (NAME) = HEX`
    Bsd,
    /// `NAME CRC`: crc32
    Sfv,
    /// Sizes and digests in columns: md5, sha1, sha256 and whirlpool
    Hashdeep,
    /// A specification of a tree for mtree: md5, sha1, sha256, sha384, sha512 and ripemd160
    Mtree,
    /// The manifest of a bag
    Bagit,
    /// A line of JSON for each file
    Json,
}

impl From<Format> for manifest::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Gnu => manifest::Format::Gnu,
            Format::Bsd => manifest::Format::Bsd,
            Format::Sfv => manifest::Format::Sfv,
            Format::Hashdeep => manifest::Format::Hashdeep,
            Format::Mtree => manifest::Format::Mtree,
            Format::Bagit => manifest::Format::Bagit,
            Format::Json => manifest::Format::Json,
        }
    }
}
