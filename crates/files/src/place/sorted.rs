//! Sorts a listing by paths in bounded memory. The rest waits in unlinked temporary files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{FileIdentity, FileState, Modified};
use crate::Timestamp;

/// How many bytes are held in memory, about.
const HELD: usize = 32 << 20;

/// What a listed file takes beside its path.
const EACH: usize = 64;

/// A file of a listing.
type SortedFile = (Vec<u8>, FileState);

/// Takes a listing in any order, and gives it in the order of the paths' bytes.
#[derive(Debug)]
pub struct Sorted {
    held: Vec<SortedFile>,
    bytes: usize,
    most: usize,
    /// Sorted parts.
    parts: Vec<File>,
    folder: PathBuf,
}

impl Sorted {
    /// An empty listing, which may write to files in this folder.
    pub fn new(folder: &Path) -> Sorted {
        Sorted { held: Vec::new(), bytes: 0, most: HELD, parts: Vec::new(), folder: folder.to_path_buf() }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// What does not fit into memory cannot be written.
    pub fn add(&mut self, path: Vec<u8>, seen: FileState) -> io::Result<()> {
        self.bytes += path.len() + EACH;
        self.held.push((path, seen));
        if self.bytes < self.most {
            return Ok(());
        }
        self.sort();
        let mut part = BufWriter::new(tempfile::tempfile_in(&self.folder)?);
        for (path, seen) in self.held.drain(..) {
            part.write_all(&(path.len() as u32).to_le_bytes())?;
            part.write_all(&path)?;
            write_state(&mut part, &seen)?;
        }
        self.bytes = 0;
        let mut part = part.into_inner().map_err(io::IntoInnerError::into_error)?;
        part.seek(SeekFrom::Start(0))?;
        self.parts.push(part);
        Ok(())
    }

    /// Calls `each` with all files in order, until it returns false. A path that was added twice comes twice.
    ///
    /// # Errors
    /// What was written cannot be read.
    pub fn each(mut self, mut each: impl FnMut(Vec<u8>, FileState) -> bool) -> io::Result<()> {
        self.sort();
        let mut held = self.held.into_iter();
        let mut parts: Vec<BufReader<File>> = self.parts.into_iter().map(BufReader::new).collect();
        // What comes next of each part, and of what is held.
        let mut next = BinaryHeap::new();
        let mut states = vec![FileState::default(); parts.len() + 1];
        let mut refill =
            |at: usize, next: &mut BinaryHeap<_>, states: &mut Vec<FileState>| -> io::Result<()> {
                let found = match parts.get_mut(at) {
                    Some(part) => read(part)?,
                    None => held.next(),
                };
                if let Some((path, seen)) = found {
                    states[at] = seen;
                    next.push(Reverse((path, at)));
                }
                Ok(())
            };
        for at in 0..states.len() {
            refill(at, &mut next, &mut states)?;
        }
        while let Some(Reverse((path, at))) = next.pop() {
            if !each(path, states[at]) {
                break;
            }
            refill(at, &mut next, &mut states)?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.held.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    }
}

/// What is known, the size, the time, and the number and birth of the file.
pub(crate) fn write_state(part: &mut impl Write, seen: &FileState) -> io::Result<()> {
    let modified = seen.modified.map_or(0, |modified| 2 | u8::from(modified.is_exact) << 2);
    let born = seen.identity.and_then(|identity| identity.born);
    let known = modified | u8::from(seen.identity.is_some()) << 3 | u8::from(born.is_some()) << 4;
    part.write_all(&[u8::from(seen.size.is_some()) | known])?;
    part.write_all(&seen.size.unwrap_or(0).to_le_bytes())?;
    let time = seen.modified.map(|modified| modified.time).unwrap_or_default();
    write_time(part, time)?;
    let Some(identity) = seen.identity else { return Ok(()) };
    part.write_all(&identity.number.to_le_bytes())?;
    write_time(part, born.unwrap_or_default())
}

fn write_time(part: &mut impl Write, time: Timestamp) -> io::Result<()> {
    part.write_all(&time.seconds.to_le_bytes())?;
    part.write_all(&time.nanoseconds.to_le_bytes())
}

fn read_time(part: &mut impl Read) -> io::Result<Timestamp> {
    let (mut seconds, mut nanoseconds) = ([0; 8], [0; 4]);
    part.read_exact(&mut seconds)?;
    part.read_exact(&mut nanoseconds)?;
    Ok(Timestamp { seconds: i64::from_le_bytes(seconds), nanoseconds: u32::from_le_bytes(nanoseconds) })
}

fn read(part: &mut impl Read) -> io::Result<Option<SortedFile>> {
    let mut length = [0; 4];
    match part.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut path = vec![0; u32::from_le_bytes(length) as usize];
    part.read_exact(&mut path)?;
    Ok(Some((path, read_state(part)?)))
}

/// What was [written](write_state).
pub(crate) fn read_state(part: &mut impl Read) -> io::Result<FileState> {
    let (mut known, mut size) = ([0], [0; 8]);
    part.read_exact(&mut known)?;
    part.read_exact(&mut size)?;
    let time = read_time(part)?;
    let modified = (known[0] & 2 != 0).then_some(Modified { time, is_exact: known[0] & 4 != 0 });
    let mut identity = None;
    if known[0] & 8 != 0 {
        let mut number = [0; 8];
        part.read_exact(&mut number)?;
        let born = Some(read_time(part)?).filter(|_| known[0] & 16 != 0);
        identity = Some(FileIdentity { number: u64::from_le_bytes(number), born });
    }
    let size = (known[0] & 1 != 0).then_some(u64::from_le_bytes(size));
    Ok(FileState { size, modified, identity })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_memory_is_sorted_with_the_rest() {
        let name = |number: u32| format!("{:08x}", number.wrapping_mul(2_654_435_761)).into_bytes();
        let state = |number: u32| FileState {
            size: (!number.is_multiple_of(3)).then_some(number.into()),
            modified: (!number.is_multiple_of(5)).then_some(Modified {
                time: Timestamp { seconds: -i64::from(number), nanoseconds: number },
                is_exact: !number.is_multiple_of(2),
            }),
            identity: (!number.is_multiple_of(7)).then_some(FileIdentity {
                number: u64::MAX - u64::from(number),
                born: number
                    .is_multiple_of(4)
                    .then_some(Timestamp { seconds: number.into(), nanoseconds: 5 }),
            }),
        };
        for most in [1, 1000, HELD] {
            let mut sorted = Sorted { most, ..Sorted::new(&std::env::temp_dir()) };
            for number in 0..200 {
                sorted.add(name(number), state(number)).unwrap();
            }
            let mut expected: Vec<SortedFile> =
                (0..200).map(|number| (name(number), state(number))).collect();
            expected.sort_by(|one, other| one.0.cmp(&other.0));
            let mut found = Vec::new();
            sorted
                .each(|path, seen| {
                    found.push((path, seen));
                    true
                })
                .unwrap();
            assert_eq!(found, expected, "{most}");
        }
    }
}
