//! The contents of the test images and their right values. Also the controls: reading alone, and hashing
//! memory.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use verisum_blockhash::{Hasher, Params};
use verisum_digest::{Digest, Output};

use crate::digests::{self, DigestCall};
use crate::measure::{MeasureError, Work};

/// What an image holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageContent {
    /// As it was published.
    pub name: &'static str,
    /// The part that is allocated, in percent; the rest is one hole or several.
    pub percent: u64,
    /// Whether what is allocated is zeros.
    pub zeros: bool,
    /// How many times faster than sha256sum blksum was in what was published, from a file.
    pub published: f64,
}

/// The published images.
pub static CONTENTS: [ImageContent; 6] = [
    ImageContent { name: "25% full", percent: 25, zeros: false, published: 15.1 },
    ImageContent { name: "50% full", percent: 50, zeros: false, published: 7.0 },
    ImageContent { name: "75% full", percent: 75, zeros: false, published: 4.5 },
    ImageContent { name: "100% full", percent: 100, zeros: false, published: 3.2 },
    ImageContent { name: "empty", percent: 0, zeros: false, published: 365.0 },
    ImageContent { name: "zeros", percent: 100, zeros: true, published: 6.7 },
];

/// Images are allocated or not in pieces of this many bytes.
const PIECE: u64 = 1 << 20;

impl ImageContent {
    /// Bytes that an image of this size takes on the disk.
    pub fn allocated(&self, size: u64) -> u64 {
        (size / 100).saturating_mul(self.percent).saturating_add(PIECE)
    }

    /// Makes a raw image. No two blocks of its data are equal. Ends early when `stop` says so.
    pub fn make(&self, path: &Path, size: u64, stop: &AtomicBool) -> io::Result<()> {
        let file = File::create_new(path)?;
        file.set_len(size)?;
        let mut piece = vec![0; PIECE as usize];
        for index in 0..size.div_ceil(PIECE) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // As many of all pieces as of these so far.
            if (index + 1) * self.percent / 100 == index * self.percent / 100 {
                continue;
            }
            if !self.zeros {
                fastrand::Rng::with_seed(index).fill(&mut piece);
            }
            let at = index * PIECE;
            file.write_all_at(&piece[..(size - at).min(PIECE) as usize], at)?;
        }
        file.sync_all()
    }
}

/// The programs that digest a whole file, in the order of [`PROGRAMS`](digests::PROGRAMS).
pub fn programs(digest: &str) -> Vec<DigestCall> {
    let all = digests::ways();
    let of = |program: &digests::RivalProgram| {
        all.iter().find(|way| way.program == program.name && way.digest == digest).cloned()
    };
    digests::PROGRAMS.iter().filter_map(of).collect()
}

/// Reads a file with some threads, and does nothing with it.
pub struct Reading {
    /// The file.
    pub path: PathBuf,
    /// How many threads.
    pub threads: usize,
}

impl Work for Reading {
    fn work(&mut self) -> Result<(), MeasureError> {
        let path = self.path.as_path();
        let failed = |operation| move |error| MeasureError::io(path, operation, error);
        let length = std::fs::metadata(path).map_err(failed("open"))?.len();
        let part = length.div_ceil(self.threads.max(1) as u64).next_multiple_of(PIECE);
        let read = |from: u64| -> Result<(), MeasureError> {
            let file = File::open(path).map_err(failed("open"))?;
            let mut buffer = vec![0; PIECE as usize / 4];
            let (mut at, end) = (from, (from + part).min(length));
            while at < end {
                let count = file.read_at(&mut buffer, at).map_err(failed("read"))?;
                if count == 0 {
                    break;
                }
                at += count as u64;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let start = |n: u64| std::thread::Builder::new().spawn_scoped(scope, move || read(n * part));
            let others: Vec<_> = (1..self.threads as u64).map(start).collect();
            let mine = read(0);
            let theirs = others.into_iter().map(|thread| {
                let thread = thread.map_err(|error| {
                    MeasureError::Unavailable(format!("a thread cannot be started: {error}"))
                })?;
                thread
                    .join()
                    .unwrap_or_else(|_| Err(MeasureError::Unavailable("a thread panicked".to_string())))
            });
            std::iter::once(mine).chain(theirs).collect()
        })
    }
}

/// Reads memory with some threads: what no digest of as many bytes there can pass.
pub struct Memory {
    words: Vec<u64>,
    bytes: u64,
    threads: usize,
}

impl Memory {
    /// Memory of `room` bytes, if there is so much, of which `bytes` are read: again and again if that is more.
    pub fn new(room: usize, bytes: u64, threads: usize) -> Result<Memory, MeasureError> {
        let mut words = Vec::new();
        words
            .try_reserve_exact(room / 8)
            .map_err(|_| MeasureError::Unavailable(format!("not enough memory for {room} bytes")))?;
        words.extend(0..room as u64 / 8);
        Ok(Memory { words, bytes, threads: threads.max(1) })
    }
}

impl Work for Memory {
    fn work(&mut self) -> Result<(), MeasureError> {
        let look = |part: &[u64]| {
            black_box(black_box(part).iter().fold(0, |sum, word| sum ^ word));
        };
        let room = self.words.len().max(1);
        let words = (self.bytes / 8) as usize;
        // Each thread reads its part of the memory as often as all of it is read.
        let (times, rest) = (words / room, words % room);
        let parts = self.words.chunks(room.div_ceil(self.threads));
        let read = |part: &[u64]| {
            (0..times).for_each(|_| look(part));
            look(&part[..(part.len() * rest).div_ceil(room)]);
        };
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(move || read(part));
            }
        });
        Ok(())
    }
}

/// The digest of a whole file as programs print it, and its block hash, in one plain read on one thread.
pub fn values(path: &Path, digest: &Digest) -> Result<(String, String), MeasureError> {
    let failed = |error: verisum_blockhash::BlockHashError| MeasureError::Unavailable(error.to_string());
    let mut file = File::open(path).map_err(|error| MeasureError::io(path, "open", error))?;
    let mut stream = digest.stream()?;
    let mut hasher = Hasher::new(&Params::new(digest.clone())).map_err(failed)?;
    let mut buffer = vec![0; PIECE as usize];
    loop {
        let count = file.read(&mut buffer).map_err(|error| MeasureError::io(path, "read", error))?;
        if count == 0 {
            break;
        }
        stream.update(&buffer[..count])?;
        hasher.update(&buffer[..count]).map_err(failed)?;
    }
    let mut whole = Output::zeroed(digest.len());
    stream.finish(whole.as_mut_bytes())?;
    Ok((whole.to_string(), hasher.finish().map_err(failed)?.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn images_are_as_full_as_their_names_say() {
        let folder = tempfile::tempdir().unwrap();
        let size = 100 * PIECE;
        for content in CONTENTS {
            let path = folder.path().join(content.name);
            content.make(&path, size, &AtomicBool::new(false)).unwrap();
            let about = std::fs::metadata(&path).unwrap();
            assert_eq!(about.len(), size);
            let allocated = about.blocks() * 512;
            let wanted = size / 100 * content.percent;
            assert!(allocated.abs_diff(wanted) <= PIECE, "{}: {allocated} of {wanted}", content.name);
            assert!(wanted <= content.allocated(size));
            let bytes = std::fs::read(&path).unwrap();
            let full =
                bytes.chunks(PIECE as usize).filter(|piece| piece.iter().any(|byte| *byte != 0)).count();
            assert_eq!(full as u64, if content.zeros { 0 } else { content.percent });
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn programs_are_those_of_the_table() {
        let of = |digest: &str| programs(digest).iter().map(DigestCall::name).collect::<Vec<_>>();
        assert_eq!(
            of("sha256"),
            ["sha256sum", "openssl", "perl", "rhash", "busybox", "sha256deep", "python"]
        );
        assert_eq!((of("blake3"), of("xxh3-64")), (vec!["b3sum"], vec!["xxhsum"]));
    }

    #[test]
    fn controls_read_all_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 3_000_001]).unwrap();
        for threads in [1, 2, 5] {
            Reading { path: file.path().into(), threads }.work().unwrap();
            for bytes in [1000, 1 << 20, 5_000_000] {
                Memory::new(1 << 20, bytes, threads).unwrap().work().unwrap();
            }
        }
        assert!(Memory::new(usize::MAX / 16, 1, 1).is_err());
        assert!(Reading { path: "/no/such".into(), threads: 2 }.work().is_err());
    }
}
