//! The manifest formats and their names.

/// A format of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `HEX  NAME`, as the coreutils print it.
    Gnu,
    /// `SHA256 (NAME) = HEX`, as BSD's programs and `cksum -a` print it.
    Bsd,
    /// `NAME CRC`, with `;` before comments.
    Sfv,
    /// `size,md5,sha256,name` below a `%%%% HASHDEEP-1.0`.
    Hashdeep,
    /// A specification of a tree for mtree(8), one file a line.
    Mtree,
    /// The `manifest-ALG.txt` of a BagIt bag.
    Bagit,
    /// One JSON object a line, with every digest of a file.
    Json,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 7] =
        [Format::Gnu, Format::Bsd, Format::Sfv, Format::Hashdeep, Format::Mtree, Format::Bagit, Format::Json];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Gnu => "gnu",
            Format::Bsd => "bsd",
            Format::Sfv => "sfv",
            Format::Hashdeep => "hashdeep",
            Format::Mtree => "mtree",
            Format::Bagit => "bagit",
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
