//! Whether numbers of a list are the digests that they were taken for, where nothing but their length tells.
//!
//! 64 digits are a SHA-256 in most lists, and a BLAKE3 in those of b3sum. Whoever records the one for the
//! other calls every file bad from then on, so some small files are read before anything is recorded.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_digest::{ALGORITHMS, Digest, Output};

use crate::{Directory, Entry, Error, Operation};

/// How many files are read for each digest, until one has it.
const SAMPLES: usize = 4;

/// The longest file that is read, in bytes: it is held in memory.
const LARGEST: u64 = 64 << 20;

/// The smallest files of a list, for each digest that numbers of it were taken for.
#[derive(Debug, Default)]
pub struct Assumed {
    samples: BTreeMap<String, Vec<Sample>>,
    digits: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Sample {
    size: u64,
    directory: Arc<Directory>,
    name: PathBuf,
    digest: Output,
}

/// What became of a digest that was assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// A file has it.
    Right,
    /// No file could be read.
    Unproven {
        /// How many hexadecimal digits were taken for it.
        digits: usize,
        /// Its id.
        id: String,
    },
    /// No file has it.
    Wrong(Misjudged),
}

/// Numbers were taken for a digest that no file has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{digits} digits were taken for {id}, which none of {read} small files has: {}", advice(instead.as_deref(), id))]
pub struct Misjudged {
    /// How many hexadecimal digits were taken for it.
    pub digits: usize,
    /// Its id.
    pub id: String,
    /// How many files were read.
    pub read: usize,
    /// The id of a digest that a file has.
    pub instead: Option<String>,
}

impl Assumed {
    /// Notes a number that was taken for the digest `id`. `place` is the file's, with its length in bytes,
    /// where it is there.
    pub fn note(&mut self, id: &str, digest: Output, place: Option<(&Arc<Directory>, &Path, u64)>) {
        if !self.samples.contains_key(id) {
            self.samples.insert(id.to_string(), Vec::new());
            self.digits.insert(id.to_string(), digest.as_bytes().len() * 2);
        }
        let Some(samples) = self.samples.get_mut(id) else { return };
        let Some((directory, name, size)) = place.filter(|(.., size)| *size <= LARGEST) else { return };
        if samples.len() == SAMPLES && samples.last().is_some_and(|largest| largest.size <= size) {
            return;
        }
        let at = samples.partition_point(|sample| sample.size <= size);
        samples.insert(at, Sample { size, directory: directory.clone(), name: name.to_path_buf(), digest });
        samples.truncate(SAMPLES);
    }

    /// Reads files until one has the digest: once for each that was noted.
    pub fn judge(self) -> impl Iterator<Item = Guess> {
        let Assumed { samples, digits } = self;
        samples.into_iter().map(move |(id, samples)| {
            let digits = digits.get(&id).copied().unwrap_or_default();
            let mut read = Vec::new();
            for sample in samples {
                let Ok(content) = sample.read() else { continue };
                if has(&content, &id, sample.digest) {
                    return Guess::Right;
                }
                read.push(sample);
            }
            match read.len() {
                0 => Guess::Unproven { digits, id },
                count => {
                    let instead = read.iter().find_map(|sample| sample.other(&id));
                    Guess::Wrong(Misjudged { digits, id, read: count, instead })
                }
            }
        })
    }
}

impl Sample {
    fn read(&self) -> Result<Vec<u8>, Error> {
        let entry = Entry::beneath(&self.directory, &self.name)?;
        let mut content = Vec::new();
        let read = entry.open_regular()?.take(LARGEST + 1).read_to_end(&mut content);
        read.map_err(|error| Error::io(&entry.path(), Operation::Read, error))?;
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
        None => format!("-a names another digest, or {id} if the files have changed since"),
    }
}
