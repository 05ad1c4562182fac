//! Verifies the guessed algorithm of a list whose digests tell only their length.
//!
//! 64 digits are a SHA-256 in most lists, and a BLAKE3 in those of b3sum. Whoever records the one for the
//! other calls every file bad from then on, so some small files are read before anything is recorded. The
//! name of a list is only a hint, too: `backup-b2.txt` may be of any digest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_digest::{ALGORITHMS, Digest, Output};

use crate::store::manifest::{Claim, Dialect, Line, ListOptions, Reader, by_length, is_named_otherwise};
use crate::{Directory, Entry, FileError, Kind, Operation};

/// How many files are read for each digest, until one has it.
const SAMPLES: usize = 4;

/// The longest file that is read, in bytes: it is held in memory.
const LARGEST: u64 = 64 << 20;

/// How many lines of a list are looked at to find small files.
const LOOKED_AT: usize = 1000;

/// Whether a number is the block hash by this digest of the image at a path.
pub type IsBlockHash = fn(&Path, &str, Output) -> bool;

/// The smallest files of a list, for each digest that its numbers are said to be or were taken for.
#[derive(Debug, Default)]
pub struct Assumed {
    /// By the digest's id, and whether it was assumed.
    groups: BTreeMap<(String, bool), GuessGroup>,
    is_block_hash: Option<IsBlockHash>,
}

#[derive(Debug, Default)]
struct GuessGroup {
    digits: usize,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    size: u64,
    directory: Arc<Directory>,
    name: PathBuf,
    digest: Output,
}

/// A file that may be read to try a guess.
#[derive(Clone, Copy, Debug)]
pub struct SamplePlace<'a> {
    /// The open folder that `name` is relative to.
    pub directory: &'a Arc<Directory>,
    /// The name of the file in it.
    pub name: &'a Path,
    /// Its length in bytes.
    pub size: u64,
}

/// What became of a digest that was assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// A file has it, or the list says that it is this one.
    Right,
    /// No file could be read.
    Unproven {
        /// How many hexadecimal digits were taken for it.
        digits: usize,
        /// Its id.
        id: String,
    },
    /// No file has it, or the number of one is something else.
    Wrong(Misjudged),
}

/// Numbers are not the digests that they were taken for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misjudged {
    /// No file has the digest.
    #[error("{digits} digits were taken for {id}, which none of {read} small files has: {}", advice(instead.as_deref(), id))]
    Digest {
        /// How many hexadecimal digits were taken for it.
        digits: usize,
        /// Its id.
        id: String,
        /// How many files were read.
        read: usize,
        /// The id of a digest that a file has.
        instead: Option<String>,
    },
    /// The list's name says one digest and the number of digits another, and no file tells which it is.
    #[error(
        "{digits} digits are {id} by the name of the list and {usual} by their number, and no small file tells which \
         (-a names it)"
    )]
    Ambiguous {
        /// How many hexadecimal digits.
        digits: usize,
        /// The id that the name says.
        id: String,
        /// The id of the usual digest of so many digits.
        usual: &'static str,
    },
    /// The number of a file is its block hash.
    #[error(
        "the list holds block hashes (verisum image sum, blksum), not digests of files (`verisum image sum -c` \
         checks them)"
    )]
    BlockHashes,
    /// The same by a digest that nobody said the list was of.
    #[error(
        "the list holds block hashes by {id} (verisum image sum, blksum), not digests of files (`verisum image sum \
         -c -a {id}` checks them)"
    )]
    BlockHashesBy {
        /// The digest's id.
        id: &'static str,
    },
    /// The number of an image is the digest of the file.
    #[error("the list holds digests of files, not block hashes of images (`verisum check` checks them)")]
    Files,
    /// A line says that it is of a block hash.
    #[error("the list holds block hashes of images, which are not digests of files and cannot be taken over")]
    Images,
}

/// What the bare numbers of a list are taken for whose name says another digest than their length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamedDigest {
    /// A file has another digest than the name says.
    #[error(
        "{digits} digits were taken for {id}, which a file has, and not for {named} as the name of the list says"
    )]
    Denied {
        /// How many hexadecimal digits.
        digits: usize,
        /// The id of the digest that the file has.
        id: String,
        /// The id that the name says.
        named: String,
    },
    /// No file tells.
    #[error(
        "{digits} digits were taken for {id}, as the name of the list says (-a names a different digest)"
    )]
    Unproven {
        /// How many hexadecimal digits.
        digits: usize,
        /// The id that the name says.
        id: String,
    },
}

/// Tries what a list's name says of bare numbers, where their length says otherwise, on small files of the list, whose
/// names begin at `base`. If a file has another digest, `options` have that from then on. None where the name is right,
/// says nothing, or does not matter.
pub fn try_name(list: &Path, base: &Path, options: &mut ListOptions) -> Option<NamedDigest> {
    if options.algorithm.is_some()
        || options.dialect != Dialect::Any
        || !is_named_otherwise(&options.name)
        // Whatever is no file can be read only once.
        || !std::fs::metadata(list).is_ok_and(|about| about.is_file())
    {
        return None;
    }
    let mut reader = Reader::new(File::open(list).ok()?, options).ok()?;
    let mut assumed = Assumed::default();
    for _ in 0..LOOKED_AT {
        let Ok(Some(line)) = reader.line() else { break };
        let Line::File(listed) = line else { continue };
        let path = base.join(OsStr::from_bytes(&listed.name));
        let is_doubtful = |claim: &&Claim| {
            let usual = by_length(2 * claim.digest.as_bytes().len());
            claim.assumed && usual.is_some_and(|usual| usual != claim.algorithm)
        };
        for claim in listed.claims.iter().filter(is_doubtful) {
            let directory = path.parent().and_then(|folder| Directory::named(folder).ok());
            let place = directory.as_ref().and_then(|directory| {
                let name = Path::new(path.file_name()?);
                let stat = Entry::beneath(directory, name).ok()?.stat().ok()?;
                (stat.kind == Kind::File).then_some(SamplePlace { directory, name, size: stat.size })
            });
            assumed.note(&claim.algorithm, true, claim.digest, place);
        }
    }
    let (mut other, mut unproven, mut is_right) = (None, None, false);
    for guess in assumed.judge() {
        match guess {
            Guess::Right => is_right = true,
            Guess::Wrong(Misjudged::Digest { digits, id: named, instead: Some(id), .. }) => {
                other = Some(NamedDigest::Denied { digits, id, named });
            }
            Guess::Wrong(Misjudged::Ambiguous { digits, id, .. } | Misjudged::Digest { digits, id, .. }) => {
                unproven = Some(NamedDigest::Unproven { digits, id });
            }
            Guess::Unproven { .. } | Guess::Wrong(_) => {}
        }
    }
    let told = other.or(unproven).filter(|_| !is_right);
    if let Some(NamedDigest::Denied { id, .. }) = &told {
        options.name = id.clone().into_bytes();
    }
    told
}

impl Assumed {
    /// Nothing yet. `is_block_hash` is asked about files that have another digest.
    pub fn new(is_block_hash: IsBlockHash) -> Assumed {
        Assumed { is_block_hash: Some(is_block_hash), ..Assumed::default() }
    }

    /// Notes a number that is said to be of the digest `id`, or was but taken for it, which is `assumed`.
    /// `place` is the file's, where it is there.
    pub fn note(&mut self, id: &str, assumed: bool, digest: Output, place: Option<SamplePlace>) {
        let GuessGroup { digits, samples } = self.groups.entry((id.to_string(), assumed)).or_default();
        *digits = digest.as_bytes().len() * 2;
        // Of nothing, many a CRC is zero.
        let least = u64::from(digest.as_bytes().len() <= 8);
        let Some(SamplePlace { directory, name, size }) =
            place.filter(|place| (least..=LARGEST).contains(&place.size))
        else {
            return;
        };
        if samples.len() == SAMPLES && samples.last().is_some_and(|largest| largest.size <= size) {
            return;
        }
        let at = samples.partition_point(|sample| sample.size <= size);
        samples.insert(at, Sample { size, directory: directory.clone(), name: name.to_path_buf(), digest });
        samples.truncate(SAMPLES);
    }

    /// Reads files: once for each digest that was noted. All samples are read, for digests of files may stand
    /// beside block hashes.
    pub fn judge(self) -> impl Iterator<Item = Guess> {
        let Assumed { groups, is_block_hash } = self;
        groups.into_iter().map(move |((id, assumed), GuessGroup { digits, samples })| {
            let mut read = Vec::new();
            let mut is_right = !assumed;
            for sample in samples {
                let Ok(content) = sample.read() else { continue };
                if has(&content, &id, sample.digest) {
                    is_right = true;
                    continue;
                }
                let path = sample.directory.path().join(&sample.name);
                if is_block_hash.is_some_and(|is_block_hash| is_block_hash(&path, &id, sample.digest)) {
                    return Guess::Wrong(Misjudged::BlockHashes);
                }
                read.push(sample);
            }
            match read.len() {
                _ if is_right => Guess::Right,
                0 => match by_length(digits).filter(|usual| *usual != id) {
                    Some(usual) => Guess::Wrong(Misjudged::Ambiguous { digits, id, usual }),
                    None => Guess::Unproven { digits, id },
                },
                count => {
                    let instead = read.iter().find_map(|sample| sample.other(&id));
                    Guess::Wrong(Misjudged::Digest { digits, id, read: count, instead })
                }
            }
        })
    }
}

impl Sample {
    fn read(&self) -> Result<Vec<u8>, FileError> {
        let entry = Entry::beneath(&self.directory, &self.name)?;
        let mut content = Vec::new();
        let read = entry.open_regular()?.take(LARGEST + 1).read_to_end(&mut content);
        read.map_err(|error| FileError::io(&entry.path(), Operation::Read, error))?;
        Ok(content)
    }

    /// A digest of the same length that the file has.
    fn other(&self, id: &str) -> Option<String> {
        let content = self.read().ok()?;
        let length = self.digest.as_bytes().len();
        // MD4 is also the ED2K of a small file; a larger one has another.
        let rows =
            ALGORITHMS.iter().filter(|row| row.digest_len() == length && ![id, "md4"].contains(&row.id));
        let ids = rows.map(|row| row.id.to_string()).chain([format!("blake2b-{}", length * 8)]);
        ids.into_iter().find(|other| has(&content, other, self.digest))
    }
}

fn has(content: &[u8], id: &str, digest: Output) -> bool {
    Digest::find(id).and_then(|digest| digest.hash(content)).is_ok_and(|computed| computed == digest)
}

fn advice(instead: Option<&str>, id: &str) -> String {
    match instead {
        Some(other) => format!("they are of {other} (-a {other})"),
        None => format!("-a names a different digest, or {id} if the files have changed since"),
    }
}
