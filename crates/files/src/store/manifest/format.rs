//! The manifest formats and their names.

/// The version of all objects of JSON that verisum prints; docs/json.md describes them.
pub const JSON_VERSION: u32 = 1;

/// A format of a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// `HEX  NAME`, as the coreutils print it.
    #[default]
    Gnu,
    /// `SHA256 (NAME) = HEX`.
    Bsd,
    /// `NAME CRC`: crc32.
    Sfv,
    /// Sizes and digests in columns: md5, sha1, sha256 and whirlpool.
    Hashdeep,
    /// A specification of a tree for mtree: md5, sha1, sha256, sha384, sha512 and ripemd160.
    Mtree,
    /// The manifest of a bag.
    Bagit,
    /// Keys, lengths, ETags and checksums as object stores have them: md5 and s3-etag in hexadecimal, the others in Base64.
    S3,
    /// A line of JSON for each file.
    Json,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 8] = [
        Format::Gnu,
        Format::Bsd,
        Format::Sfv,
        Format::Hashdeep,
        Format::Mtree,
        Format::Bagit,
        Format::S3,
        Format::Json,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Gnu => "gnu",
            Format::Bsd => "bsd",
            Format::Sfv => "sfv",
            Format::Hashdeep => "hashdeep",
            Format::Mtree => "mtree",
            Format::Bagit => "bagit",
            Format::S3 => "s3",
            Format::Json => "json",
        }
    }

    /// The format of this name.
    pub fn find(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
