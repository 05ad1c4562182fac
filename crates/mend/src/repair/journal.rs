//! The journal of a repair in place: the old and the new blocks of a file. It is complete, or does not exist.
//!
//! `VRSMINP1`; the path of the file, the name of its digest and the digest, and the paths of the copies, each with its
//! length before it; inode, length and time of modification of the file; then for each block its offset, its
//! length, the number of its copy, the old bytes, unless they could not be read, and the new ones. At the end SHA-256
//! of all before. Numbers have eight bytes, little-endian.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use verisum_catalog::store::Stamp;
use verisum_digest::{Digest, DigestStream, Output};
use verisum_files::Replacement;
use verisum_files::replace::is_trusted;

const MAGIC: &[u8; 8] = b"VRSMINP1";

/// The bytes of the digest at the end.
const SEAL: u64 = 32;

/// No name is longer, and no block.
const LONGEST: u64 = 64 << 20;

/// A file that is written in place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Subject {
    pub(super) path: PathBuf,
    /// The name of the recorded digest, and its value.
    pub(super) algorithm: String,
    pub(super) recorded: Output,
    /// The copies that may have given blocks.
    pub(super) copies: Vec<PathBuf>,
    pub(super) inode: u64,
    pub(super) size: u64,
    /// The time of modification that it has to get again.
    pub(super) modified: Stamp,
}

/// A block of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) offset: u64,
    /// The number of the copy that gave it.
    pub(super) copy: usize,
    /// None if it could not be read.
    pub(super) old: Option<Vec<u8>>,
    pub(super) new: Vec<u8>,
}

impl Block {
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.new.len() as u64
    }
}

/// A journal that is being written.
pub(super) struct Draft {
    file: Replacement,
    seal: Box<dyn DigestStream>,
    /// How many blocks it has.
    pub(super) count: u64,
}

fn sealed(error: verisum_digest::DigestError) -> io::Error {
    io::Error::other(error)
}

fn seal() -> io::Result<Box<dyn DigestStream>> {
    Digest::find("sha256").and_then(|digest| digest.stream()).map_err(sealed)
}

impl Draft {
    pub(super) fn begin(path: &Path, subject: &Subject) -> io::Result<Draft> {
        let file = Replacement::private(path).map_err(io::Error::other)?;
        let mut draft = Draft { file, seal: seal()?, count: 0 };
        draft.put(MAGIC)?;
        draft.named(subject.path.as_os_str().as_bytes())?;
        draft.named(subject.algorithm.as_bytes())?;
        draft.named(subject.recorded.as_bytes())?;
        draft.number(subject.copies.len() as u64)?;
        for copy in &subject.copies {
            draft.named(copy.as_os_str().as_bytes())?;
        }
        for number in [subject.inode, subject.size, subject.modified.nanoseconds().cast_unsigned()] {
            draft.number(number)?;
        }
        Ok(draft)
    }

    pub(super) fn add(&mut self, block: &Block) -> io::Result<()> {
        self.count += 1;
        self.number(block.offset)?;
        self.number(block.copy as u64)?;
        self.named(&block.new)?;
        self.number(u64::from(block.old.is_some()))?;
        match &block.old {
            Some(old) => self.put(old),
            None => Ok(()),
        }
    }

    /// Gives it its name, once it is on the disk.
    pub(super) fn place(mut self) -> io::Result<()> {
        let mut value = [0; SEAL as usize];
        self.seal.finish(&mut value).map_err(sealed)?;
        let mut file = BufWriter::new(self.file.file());
        file.write_all(&value)?;
        file.flush()?;
        drop(file);
        self.file.place().map_err(io::Error::other)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.seal.update(bytes).map_err(sealed)?;
        self.file.file().write_all(bytes)
    }

    fn number(&mut self, number: u64) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    fn named(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64)?;
        self.put(bytes)
    }
}

/// A journal that is read.
pub(super) struct Journal {
    file: BufReader<File>,
    pub(super) subject: Subject,
    /// Where the blocks begin, and where they end.
    blocks: Range<u64>,
}

impl Journal {
    /// Opens a journal if there is one, and looks whether it is whole.
    pub(super) fn open(path: &Path) -> io::Result<Option<Journal>> {
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        let file = match File::options().read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let about = file.metadata()?;
        let unfit = || io::Error::other("it is no journal of a repair in place, or damaged: move it away");
        if !about.is_file() || about.len() < SEAL + MAGIC.len() as u64 {
            return Err(unfit());
        }
        // It says what is written where.
        if !is_trusted(about.uid()) || about.mode() & 0o022 != 0 {
            return Err(io::Error::other("another user could have written it: move it away"));
        }
        let end = about.len() - SEAL;
        if !is_whole(&file, end)? {
            return Err(unfit());
        }
        let mut file = BufReader::new(file);
        file.rewind()?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(unfit());
        }
        let path = |bytes: Vec<u8>| PathBuf::from(std::ffi::OsString::from_vec(bytes));
        let name = path(named(&mut file)?);
        let algorithm = String::from_utf8(named(&mut file)?).map_err(|_| unfit())?;
        let recorded = Output::from_bytes(&named(&mut file)?).ok_or_else(unfit)?;
        let mut copies = Vec::new();
        for _ in 0..number(&mut file)? {
            copies.push(path(named(&mut file)?));
        }
        let subject = Subject {
            path: name,
            algorithm,
            recorded,
            copies,
            inode: number(&mut file)?,
            size: number(&mut file)?,
            modified: Stamp::of_nanoseconds(number(&mut file)?.cast_signed()),
        };
        let start = file.stream_position()?;
        Ok(Some(Journal { file, subject, blocks: start..end }))
    }

    /// Takes the blocks, from the first on.
    pub(super) fn each(&mut self, take: &mut dyn FnMut(Block) -> io::Result<()>) -> io::Result<()> {
        self.file.seek(io::SeekFrom::Start(self.blocks.start))?;
        while self.file.stream_position()? < self.blocks.end {
            let (offset, copy) = (number(&mut self.file)?, number(&mut self.file)? as usize);
            let new = named(&mut self.file)?;
            let old = match number(&mut self.file)? {
                0 => None,
                _ => {
                    let mut old = vec![0; new.len()];
                    self.file.read_exact(&mut old)?;
                    Some(old)
                }
            };
            take(Block { offset, copy, old, new })?;
        }
        Ok(())
    }

    /// A copy by its number.
    pub(super) fn copy(&self, number: usize) -> &Path {
        self.subject.copies.get(number).map_or(Path::new(OsStr::new("")), PathBuf::as_path)
    }
}

/// Whether the bytes before `end` have the digest that follows them.
fn is_whole(file: &File, end: u64) -> io::Result<bool> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    reader.rewind()?;
    let mut stream = seal()?;
    let mut left = end;
    let mut piece = vec![0; 1 << 20];
    while left > 0 {
        let count = left.min(piece.len() as u64) as usize;
        reader.read_exact(&mut piece[..count])?;
        stream.update(&piece[..count]).map_err(sealed)?;
        left -= count as u64;
    }
    let (mut value, mut found) = ([0; SEAL as usize], [0; SEAL as usize]);
    stream.finish(&mut value).map_err(sealed)?;
    reader.read_exact(&mut found)?;
    Ok(value == found)
}

fn number(file: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn named(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = number(file)?;
    if length > LONGEST {
        return Err(io::Error::other("it is damaged: move it away"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert!(Journal::open(&path).unwrap().is_none());
        let subject = Subject {
            path: "/tree/a\nb".into(),
            algorithm: "sha256".to_string(),
            recorded: Output::from_bytes(&[7; 32]).unwrap(),
            copies: vec!["/copy/x".into(), "ssh://host/y".into()],
            inode: 2,
            size: 3 << 40,
            modified: Stamp::of_nanoseconds(-5),
        };
        let blocks = [
            Block { offset: 4096, copy: 1, old: Some(vec![1; 512]), new: vec![2; 512] },
            Block { offset: 1 << 40, copy: 0, old: None, new: vec![3; 70_000] },
        ];
        let mut draft = Draft::begin(&path, &subject).unwrap();
        blocks.iter().for_each(|block| draft.add(block).unwrap());
        assert!(!path.exists());
        draft.place().unwrap();
        let mut journal = Journal::open(&path).unwrap().unwrap();
        assert_eq!(journal.subject, subject);
        assert_eq!(journal.copy(1), Path::new("ssh://host/y"));
        let mut found = Vec::new();
        let mut take = |block| {
            found.push(block);
            Ok(())
        };
        journal.each(&mut take).unwrap();
        assert_eq!(found, blocks);
        let whole = std::fs::read(&path).unwrap();
        for at in [0, 9, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(Journal::open(&path).is_err(), "{at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(Journal::open(&path).is_err(), "{at}");
        }
    }
}
