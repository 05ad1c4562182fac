//! Verifies the guessed algorithm of a list whose digests tell only their length.
//!
//! 64 digits are a SHA-256 in most lists, and a BLAKE3 in those of b3sum. Whoever records the one for the
//! other calls every file bad from then on, so some small files are read before anything is recorded. The
//! name of a list is only a hint, too: `backup-b2.txt` may be of any digest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_digest::{ALGORITHMS, Digest, Output};

use crate::store::manifest::{Claim, Line, ListOptions, ReadError, Reader, by_length, is_named};
use crate::{Directory, Entry, FileError, Kind, Operation};

/// How many files are read for each digest, until one has it.
const SAMPLES: usize = 4;

/// The longest file that is read, in bytes: it is held in memory.
const LARGEST: u64 = 64 << 20;

/// How many lines of a list are looked at to find small files.
const LOOKED_AT: usize = 1000;

/// The same where nothing is recorded: whoever checks a list waits for it.
const LARGEST_TO_TAKE: u64 = 8 << 20;
const LOOKED_AT_TO_TAKE: usize = 100;

/// Whether a number is the block hash by this digest of the image at a path.
pub type IsBlockHash = fn(&Path, &str, Output) -> bool;

/// The smallest files of a list, for each digest that its numbers are said to be or were taken for.
#[derive(Debug, Default)]
struct Assumed {
    /// By the digest's id, and whether it was assumed.
    groups: BTreeMap<(String, bool), GuessGroup>,
    /// Whether a file that is listed with a relative name is there.
    is_any_there: bool,
    /// The longest file that is read, in bytes.
    largest: u64,
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
struct SamplePlace {
    directory: Arc<Directory>,
    name: PathBuf,
    size: u64,
}

/// What became of a digest that was assumed.
enum Guess {
    /// A file has it, or the list says that it is this one.
    Right,
    /// No file could be read.
    Unproven { digits: usize, id: String },
    /// No file has it, or the number of one is something else.
    Wrong(Misjudged),
}

/// Numbers are not the digests that they were taken for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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

/// What the bare numbers of a list are taken for, where that is not certain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamedDigest {
    /// A file has another digest than the name of the list, or else the number of digits, says.
    #[error(
        "{digits} digits were taken for {id}, which a file has{}",
        named.as_ref().map_or(String::new(), |named| format!(", and not for {named} as the name of the list says"))
    )]
    Denied {
        /// How many hexadecimal digits.
        digits: usize,
        /// The id of the digest that the file has.
        id: String,
        /// The id that the name says.
        named: Option<String>,
    },
    /// The name says another digest than the number of digits, and no file tells.
    #[error(
        "{digits} digits were taken for {id}, as the name of the list says (-a names a different digest)"
    )]
    Unproven {
        /// How many hexadecimal digits.
        digits: usize,
        /// The id that the name says.
        id: String,
    },
    /// Only the number of digits says which digest it is, and no file tells.
    #[error("{digits} digits were taken for {id} (-a names a different digest)")]
    ByNumber {
        /// How many hexadecimal digits.
        digits: usize,
        /// The id.
        id: String,
    },
}

/// Tries on small files below `base` what the bare numbers at the beginning of a list are. If a file has another digest,
/// `options` have that from then on.
pub(crate) fn take(head: impl Read, base: &Path, options: &mut ListOptions) -> Option<NamedDigest> {
    let assumed = Assumed::of(head, Some(base), options, false).ok()?;
    let is_any_there = assumed.is_any_there;
    let (mut other, mut unproven) = (None, None);
    for guess in assumed.judge(None) {
        match guess {
            Guess::Right => return None,
            Guess::Wrong(Misjudged::Digest { digits, id: named, instead: Some(id), .. }) => {
                let is_by_number = by_length(digits) == Some(&*named) && !is_named(&options.name, &named);
                let named = Some(named).filter(|_| !is_by_number);
                other = Some(NamedDigest::Denied { digits, id, named });
            }
            Guess::Wrong(Misjudged::Ambiguous { digits, id, .. } | Misjudged::Digest { digits, id, .. })
            | Guess::Unproven { digits, id } => {
                unproven = match by_length(digits) {
                    Some(usual) if usual == id => unproven.or(Some(NamedDigest::ByNumber { digits, id })),
                    _ => Some(NamedDigest::Unproven { digits, id }),
                };
            }
            Guess::Wrong(_) => {}
        }
    }
    if let Some(NamedDigest::Denied { id, .. }) = &other {
        options.name = id.clone().into_bytes();
    }
    other.or(unproven).filter(|told| is_any_there || !matches!(told, NamedDigest::ByNumber { .. }))
}

/// The same for who records what a list says, which must be certain if a file can tell. `is_block_hash` is asked about
/// files that have another digest.
///
/// # Errors
/// The numbers are something else.
pub(crate) fn prove(
    head: impl Read,
    base: Option<&Path>,
    options: &ListOptions,
    is_block_hash: IsBlockHash,
) -> Result<Option<NamedDigest>, ReadError> {
    let mut unproven = None;
    for guess in Assumed::of(head, base, options, true)?.judge(Some(is_block_hash)) {
        match guess {
            Guess::Right => {}
            Guess::Unproven { digits, id } => unproven = Some(NamedDigest::ByNumber { digits, id }),
            Guess::Wrong(misjudged) => return Err(misjudged.into()),
        }
    }
    Ok(unproven)
}

impl Assumed {
    /// The digests at the beginning of a list that are assumed or only named by the list's name, or `all`.
    fn of(
        head: impl Read,
        base: Option<&Path>,
        options: &ListOptions,
        all: bool,
    ) -> Result<Assumed, ReadError> {
        let mut reader = Reader::new(head, options)?;
        let (largest, lines) = if all { (LARGEST, LOOKED_AT) } else { (LARGEST_TO_TAKE, LOOKED_AT_TO_TAKE) };
        let mut assumed = Assumed { largest, ..Assumed::default() };
        let is_told = |claim: &Claim| !claim.assumed && !is_named(&options.name, &claim.algorithm);
        let is_doubtful = |claim: &&Claim| !claim.is_of_digest() && (all || !is_told(claim));
        for _ in 0..lines {
            let Some(line) = reader.line()? else { break };
            let Line::File(listed) = line else { continue };
            match listed.block_hash {
                Some(_) if all => return Err(Misjudged::Images.into()),
                Some(_) => continue,
                None => {}
            }
            let mut claims = listed.claims.iter().filter(is_doubtful).peekable();
            let place = claims.peek().and_then(|_| {
                let path = base?.join(OsStr::from_bytes(&listed.name));
                match SamplePlace::of(&path)? {
                    (place, Kind::File) => Some(place),
                    // Who only checks follows links, who records a digest does not.
                    (_, Kind::Link) if !all => {
                        let (place, kind) = SamplePlace::of(&path.canonicalize().ok()?)?;
                        (kind == Kind::File).then_some(place)
                    }
                    _ => None,
                }
            });
            // An absolute name is rather of another tree.
            assumed.is_any_there |=
                place.is_some() && Path::new(OsStr::from_bytes(&listed.name)).is_relative();
            for claim in claims {
                assumed.note(&claim.computed(), claim.assumed, claim.digest, place.as_ref());
            }
        }
        Ok(assumed)
    }

    /// Notes a number that is said to be of the digest `id`, or was but taken for it, which is `assumed`. `place` is the
    /// file's, where it is there.
    fn note(&mut self, id: &str, assumed: bool, digest: Output, place: Option<&SamplePlace>) {
        let GuessGroup { digits, samples } = self.groups.entry((id.to_string(), assumed)).or_default();
        *digits = digest.as_bytes().len() * 2;
        // Of nothing, many a CRC is zero.
        let least = u64::from(digest.as_bytes().len() <= 8);
        let Some(SamplePlace { directory, name, size }) =
            place.filter(|place| (least..=self.largest).contains(&place.size))
        else {
            return;
        };
        if samples.len() == SAMPLES && samples.last().is_some_and(|largest| largest.size <= *size) {
            return;
        }
        let is = |sample: &Sample| sample.name == *name && sample.directory.path() == directory.path();
        if let Some(at) = samples.iter().position(is) {
            // A file with two numbers of one kind says nothing of any.
            if samples[at].digest != digest {
                samples.remove(at);
            }
            return;
        }
        let at = samples.partition_point(|sample| sample.size <= *size);
        let (directory, name) = (directory.clone(), name.clone());
        samples.insert(at, Sample { size: *size, directory, name, digest });
        samples.truncate(SAMPLES);
    }

    /// Reads files: once for each digest that was noted. Where block hashes are asked about, all samples are read, for
    /// digests of files may stand beside them.
    fn judge(self, is_block_hash: Option<IsBlockHash>) -> impl Iterator<Item = Guess> {
        self.groups.into_iter().map(move |((id, assumed), GuessGroup { digits, samples })| {
            let mut read = Vec::new();
            let mut is_right = false;
            for sample in samples {
                let Ok(content) = sample.read() else { continue };
                if has(&content, &id, sample.digest) {
                    is_right = true;
                    if is_block_hash.is_none() {
                        break;
                    }
                    continue;
                }
                let path = sample.directory.path().join(&sample.name);
                if is_block_hash.is_some_and(|is_block_hash| is_block_hash(&path, &id, sample.digest)) {
                    return Guess::Wrong(Misjudged::BlockHashes);
                }
                read.push(sample);
            }
            if is_right || !assumed && read.is_empty() {
                return Guess::Right;
            }
            let instead = read.iter().find_map(|sample| sample.other(&id));
            match by_length(digits).filter(|usual| *usual != id) {
                // Files change; that one has another digest of the same length is no chance.
                _ if !assumed && instead.is_none() => Guess::Right,
                Some(usual) if read.is_empty() => Guess::Wrong(Misjudged::Ambiguous { digits, id, usual }),
                None if read.is_empty() => Guess::Unproven { digits, id },
                _ => Guess::Wrong(Misjudged::Digest { digits, id, read: read.len(), instead }),
            }
        })
    }
}

impl SamplePlace {
    /// What is at `path`, and of which kind it is; none if nothing is.
    fn of(path: &Path) -> Option<(SamplePlace, Kind)> {
        let directory = Directory::named(path.parent()?).ok()?;
        let name = path.file_name()?;
        let stat = Entry::beneath(&directory, Path::new(name)).ok()?.stat().ok()?;
        Some((SamplePlace { directory, name: name.into(), size: stat.size }, stat.kind))
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
