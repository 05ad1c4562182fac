//! One entry of a manifest: a file's name, its digests, and what else the line says.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use verisum_digest::{Digest, DigestError, Output, part_count, part_digest};

use super::mtree::MAX_NAME;
use crate::{Kind, Timestamp};

/// A file that a manifest names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its name: any bytes but NUL.
    pub name: Vec<u8>,
    /// Its name as the line has it, escapes and all; only where a program prints it so.
    pub written: Vec<u8>,
    /// Another name to look for where there is no file of this one: some programs encode names in bags,
    /// and some do not.
    pub otherwise: Option<Vec<u8>>,
    /// Its digests; none where the manifest lists it without.
    pub claims: Vec<Claim>,
    /// Its length in bytes.
    pub size: Option<u64>,
    /// When its bytes had last changed.
    pub modified: Option<Timestamp>,
    /// What it is, where the manifest says that.
    pub kind: Option<Kind>,
    /// Whether it need not be there.
    pub optional: bool,
    /// Where the one digest is not that of the file's bytes but its block hash: how that is made.
    pub block_hash: Option<BlockHash>,
}

impl Listed {
    /// The number of parts behind a digest, and that of a file of this length, where they are not the same. One part may
    /// be as long as any file.
    pub(crate) fn unlike_parts(&self, length: Option<u64>) -> Option<(u64, u64)> {
        let several = |claim: &Claim| claim.parts.filter(|parts| *parts != 1);
        let of = |claim: &Claim| Some((several(claim)?, part_count(&claim.algorithm, length?).unwrap_or(1)));
        self.claims.iter().filter_map(of).find(|(listed, found)| listed != found)
    }

    /// Why a line cannot be recorded: its digest is not one of a file of its own length, or none of a file at all.
    pub fn contradiction(&self) -> Option<String> {
        if !self.claims.is_empty() && self.claims.iter().all(Claim::is_of_digest) {
            return Some(
                "its digest is that of an upload in one part (-1), which is not recorded".to_string(),
            );
        }
        let (listed, found) = self.unlike_parts(self.size)?;
        Some(format!("its length is that of {found} parts, its digest one of {listed}"))
    }

    /// The longest of its digests that are of use, which is the hardest to forge; none if there is none.
    ///
    /// # Errors
    /// None of its digests can be computed here.
    pub fn longest(&self, is_of_use: fn(&Digest) -> bool) -> Result<Option<(Digest, Output)>, DigestError> {
        let mut longest: Option<(Digest, Output)> = None;
        let mut why = None;
        for claim in self.claims.iter().filter(|claim| !claim.is_of_digest()) {
            match Digest::find(&claim.computed()) {
                Ok(digest) if longest.as_ref().is_none_or(|(known, _)| known.len() < digest.len()) => {
                    if is_of_use(&digest) {
                        longest = Some((digest, claim.digest));
                    }
                }
                Ok(_) => {}
                Err(error) => why = Some(error),
            }
        }
        match (longest, why) {
            (None, Some(why)) => Err(why),
            (longest, _) => Ok(longest),
        }
    }

    /// Its name in a directory, whichever of its two is there, without `.` and empty parts.
    pub fn path(&self, is_there: impl Fn(&Path) -> bool) -> PathBuf {
        let plain = |name: &Vec<u8>| -> PathBuf {
            let parts = Path::new(OsStr::from_bytes(name)).components();
            parts.filter(|part| *part != Component::CurDir).collect()
        };
        let path = plain(&self.name);
        match self.otherwise.as_ref().map(plain) {
            Some(otherwise) if !is_there(&path) && is_there(&otherwise) => otherwise,
            _ => path,
        }
    }
}

/// How the block hash of a disk image is made, but for the digest. Nothing here computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHash {
    /// The block size in bytes.
    pub block_size: u32,
    /// What of the image is hashed if that is not what a guest sees of the format that it looks like:
    /// words, in capitals, that the program for images knows.
    pub view: Vec<String>,
}

/// A digest that a file should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The digest's id in the digest table, or `openssl:NAME`.
    pub algorithm: Cow<'static, str>,
    /// Its value.
    pub digest: Output,
    /// Whether that digest is a guess: by the length of the value alone, or by the manifest's name against it.
    pub assumed: bool,
    /// The number of parts that stands behind the value, as object stores write it.
    pub parts: Option<u64>,
}

impl Claim {
    /// The digest to compute of the file. With a digest that object stores make of parts, the form of the value tells how
    /// the object was uploaded: without a number behind it in one piece, with a 1 in one part, whose digest was hashed
    /// again. Both follow from the digest of the whole file, however long parts usually are.
    pub fn computed(&self) -> Cow<'static, str> {
        let whole = part_digest(&self.algorithm).filter(|_| self.parts.is_none_or(|parts| parts == 1));
        whole.map_or_else(|| self.algorithm.clone(), Cow::Borrowed)
    }

    /// Whether the value is the digest of the file's digest.
    pub(crate) fn is_of_digest(&self) -> bool {
        self.parts == Some(1)
    }

    /// A value that was computed of the file, in the form of the listed one.
    pub(crate) fn in_form(&self, computed: Output) -> Output {
        let twice = || Digest::find(&self.computed()).and_then(|digest| digest.hash(computed.as_bytes()));
        if self.is_of_digest() { twice().unwrap_or(computed) } else { computed }
    }
}

/// A line of a manifest, or the few that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// It names a file.
    File(Listed),
    /// It cannot be understood.
    Bad(Bad),
}

/// Why a line cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// It is not of the format.
    #[error("improperly formatted")]
    Malformed,
    /// The same in a manifest of a bag, which is damaged then: it has nothing but lines of files.
    #[error("improperly formatted")]
    Damaged,
    /// What stands for its digest is none of that name.
    #[error("improperly formatted: its {name} is not {digits} hexadecimal digits")]
    NoValue {
        /// The name of the digest, as tagged lines have it.
        name: Cow<'static, str>,
        /// How many digits it has.
        digits: usize,
    },
    /// It is not one of `cksum -c`, to which this was the last tag that it knew.
    #[error("improperly formatted {0} checksum line")]
    Untagged(Cow<'static, str>),
    /// It is not one of `b3sum -c`, which says this.
    #[error("{0}")]
    Refused(&'static str),
    /// Its name with the directories is longer than that of any file.
    #[error("improperly formatted: a name of more than {MAX_NAME} bytes")]
    LongName,
    /// It is longer than [`super::MAX_LINE`].
    #[error("longer than {} bytes", super::MAX_LINE)]
    TooLong,
    /// Nobody here knows its digest, which has this name there.
    #[error("unknown digest: {0}")]
    UnknownDigest(String),
}
