//! The manifest formats and their names.

/// The version of all objects of JSON that verisum prints; docs/json.md describes them.
pub const JSON_VERSION: u32 = 1;

/// A format of a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ListFormat {
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

/// What lists of a format can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatTraits {
    /// Lines as the coreutils print them: they may end with NUL, have digests in Base64, and comments between them.
    pub is_lines: bool,
    /// One digest of each file, and no more.
    pub has_one_digest: bool,
    /// Each line says which digests it has.
    pub names_digests: bool,
    /// Files of any place, not of this machine alone.
    pub any_place: bool,
}

impl ListFormat {
    /// All of them.
    pub const ALL: [ListFormat; 8] = [
        ListFormat::Gnu,
        ListFormat::Bsd,
        ListFormat::Sfv,
        ListFormat::Hashdeep,
        ListFormat::Mtree,
        ListFormat::Bagit,
        ListFormat::S3,
        ListFormat::Json,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            ListFormat::Gnu => "gnu",
            ListFormat::Bsd => "bsd",
            ListFormat::Sfv => "sfv",
            ListFormat::Hashdeep => "hashdeep",
            ListFormat::Mtree => "mtree",
            ListFormat::Bagit => "bagit",
            ListFormat::S3 => "s3",
            ListFormat::Json => "json",
        }
    }

    /// What its lists can have.
    pub const fn traits(self) -> FormatTraits {
        let none =
            FormatTraits { is_lines: false, has_one_digest: false, names_digests: false, any_place: false };
        match self {
            ListFormat::Gnu => FormatTraits { is_lines: true, any_place: true, ..none },
            ListFormat::Bsd => FormatTraits { is_lines: true, names_digests: true, any_place: true, ..none },
            ListFormat::Sfv | ListFormat::Bagit => FormatTraits { has_one_digest: true, ..none },
            ListFormat::Hashdeep => none,
            ListFormat::Mtree => FormatTraits { names_digests: true, ..none },
            ListFormat::S3 => FormatTraits { any_place: true, ..none },
            ListFormat::Json => FormatTraits { names_digests: true, any_place: true, ..none },
        }
    }

    /// The format of this name.
    pub fn find(name: &str) -> Option<ListFormat> {
        ListFormat::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl std::fmt::Display for ListFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
