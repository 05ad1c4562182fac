//! The list of pairs of files to be compared, in bounded memory: what does not fit waits in an unlinked temporary file.

use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::path::Path;

use tempfile::{SpooledTempFile, spooled_tempfile_in};
use verisum_digest::Digest;

use super::{CompareError, ComparedFile, ContentEvidence, FileStatus, Pair, Tree, TreeSink, Unseen, read};
use crate::Progress;
use crate::place::{PlaceError, RecordedMd5, read_state, write_state};

/// So many pairs are compared at once: they are in memory.
const GROUP: usize = 32 << 10;

/// So many bytes are kept in memory.
const MOST_KEPT: usize = 8 << 20;

/// What listings told of all trees, to be compared group by group in the order of names.
#[derive(Debug)]
pub struct ListedPairs<const N: usize> {
    kept: BufReader<SpooledTempFile>,
    left: usize,
    /// Bytes that are to be read, as far as listings tell; none once that is told.
    bytes: u64,
    /// Those of the last group.
    group_bytes: u64,
    /// What of a tree could not be listed.
    unseen: [Unseen; N],
    /// Whether a place failed, so that nothing more is read.
    is_over: bool,
}

impl<const N: usize> ListedPairs<N> {
    /// The next pairs, settled as far as sizes do that: what is left is [`FileStatus::Asked`]. None after the last.
    ///
    /// # Errors
    /// They cannot be read again.
    pub fn group(&mut self) -> Result<Option<Vec<Pair<N>>>, CompareError> {
        let Some(mut pairs) = self.next()? else { return Ok(None) };
        self.group_bytes = pairs.iter().map(Pair::bytes_to_read).sum();
        pairs.retain(|pair| pair.files.iter().any(Option::is_some));
        for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
            if (0..N).any(|side| !pair.has(side) && self.unseen[side].may_be(&pair.name)) {
                pair.status = FileStatus::Unknown;
            } else if !(0..N).any(|side| pair.is_to_read(side)) {
                pair.status = pair.settled();
            }
        }
        Ok(Some(pairs))
    }

    /// Reads the files of a group that are [`FileStatus::Asked`], on all sides at once, and settles them. A side that
    /// fails in the middle leaves files unreadable, and those of all later groups. Tells how much all groups want, and
    /// each file that was read.
    ///
    /// # Errors
    /// A place fails; what was found before it does is in the pairs.
    pub fn read(
        &mut self,
        trees: [&mut Tree; N],
        digest: &Digest,
        pairs: &mut [Pair<N>],
        sink: TreeSink,
        progress: &Progress,
    ) -> Result<(), CompareError> {
        progress.expect(std::mem::take(&mut self.bytes));
        let asked = pairs.iter().map(Pair::bytes_to_read).sum();
        progress.expect_less(self.group_bytes.saturating_sub(asked));
        let ended = if self.is_over { Ok(()) } else { read(trees, digest, pairs, sink, progress) };
        self.is_over |= ended.is_err();
        for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
            (pair.status, pair.evidence) = (pair.settled(), ContentEvidence::Read);
        }
        ended
    }

    /// The next pairs as they were added.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Pair<N>>>, CompareError> {
        let count = self.left.min(GROUP);
        if count == 0 {
            return Ok(None);
        }
        self.left -= count;
        let pairs = (0..count).map(|_| read_pair(&mut self.kept)).collect::<io::Result<_>>();
        Ok(Some(pairs.map_err(not_kept)?))
    }
}

/// Takes pairs in the order of their names.
pub(super) struct PairWriter {
    kept: BufWriter<SpooledTempFile>,
    count: usize,
    bytes: u64,
}

impl PairWriter {
    /// Takes none yet, and may write to a file in this folder.
    pub(super) fn new(scratch: &Path) -> PairWriter {
        PairWriter { kept: BufWriter::new(spooled_tempfile_in(MOST_KEPT, scratch)), count: 0, bytes: 0 }
    }

    pub(super) fn add<const N: usize>(&mut self, pair: &Pair<N>) -> Result<(), CompareError> {
        self.count += 1;
        self.bytes += pair.bytes_to_read();
        write_pair(&mut self.kept, pair).map_err(not_kept)
    }

    pub(super) fn finish<const N: usize>(self, unseen: [Unseen; N]) -> Result<ListedPairs<N>, CompareError> {
        let rewound = self.kept.into_inner().map_err(io::IntoInnerError::into_error).and_then(|mut kept| {
            kept.seek(SeekFrom::Start(0))?;
            Ok(kept)
        });
        let kept = BufReader::new(rewound.map_err(not_kept)?);
        Ok(ListedPairs { kept, left: self.count, bytes: self.bytes, group_bytes: 0, unseen, is_over: false })
    }
}

fn not_kept(error: io::Error) -> CompareError {
    CompareError(vec![Some(PlaceError::Machine(format!("keep its names: {error}").into()))])
}

/// Whether it is known to be unknown, and the name; then of each side whether it is there, what was listed, whether it
/// is reported, and the recorded MD5 with the number of its parts.
fn write_pair<const N: usize>(kept: &mut impl Write, pair: &Pair<N>) -> io::Result<()> {
    kept.write_all(&[u8::from(pair.status == FileStatus::Unknown)])?;
    kept.write_all(&(pair.name.len() as u32).to_le_bytes())?;
    kept.write_all(&pair.name)?;
    for file in &pair.files {
        let Some(file) = file else {
            kept.write_all(&[0])?;
            continue;
        };
        kept.write_all(&[1 | u8::from(file.is_reported) << 1 | u8::from(file.recorded.is_some()) << 2])?;
        write_state(kept, &file.seen)?;
        if let Some(recorded) = &file.recorded {
            kept.write_all(&recorded.md5)?;
            kept.write_all(&recorded.parts.map_or(0, NonZeroU32::get).to_le_bytes())?;
        }
    }
    Ok(())
}

fn read_pair<const N: usize>(kept: &mut impl Read) -> io::Result<Pair<N>> {
    let status = if read_array(kept)? == [1] { FileStatus::Unknown } else { FileStatus::Asked };
    let mut name = vec![0; u32::from_le_bytes(read_array(kept)?) as usize];
    kept.read_exact(&mut name)?;
    let mut files = [const { None }; N];
    for file in &mut files {
        let [known] = read_array(kept)?;
        if known == 0 {
            continue;
        }
        let (seen, mut recorded) = (read_state(kept)?, None);
        if known & 4 != 0 {
            let (md5, parts) = (read_array(kept)?, u32::from_le_bytes(read_array(kept)?));
            recorded = Some(RecordedMd5 { md5, parts: NonZeroU32::new(parts) });
        }
        let is_reported = known & 2 != 0;
        *file = Some(ComparedFile { seen, read: None, contradicted: None, recorded, is_reported });
    }
    Ok(Pair { name, files, status, evidence: ContentEvidence::Listed, settled_by: None })
}

fn read_array<const N: usize>(kept: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    kept.read_exact(&mut array).map(|()| array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::place::{FileState, Modified};

    #[test]
    fn more_pairs_than_memory_takes_come_back_as_they_were() {
        let pair = |number: u32| -> Pair<2> {
            let side = |side: u32| {
                let recorded = RecordedMd5 { md5: [number as u8; 16], parts: NonZeroU32::new(number % 3) };
                (!(number + side).is_multiple_of(5)).then(|| ComparedFile {
                    seen: FileState {
                        size: Some(u64::from(number)),
                        modified: Some(Modified { time: Timestamp::default(), is_exact: side == 0 }),
                        identity: None,
                    },
                    read: None,
                    contradicted: None,
                    recorded: number.is_multiple_of(2).then_some(recorded),
                    is_reported: number.is_multiple_of(7),
                })
            };
            let status = if number.is_multiple_of(11) { FileStatus::Unknown } else { FileStatus::Asked };
            let name = format!("{:0300}", number).into_bytes();
            Pair {
                name,
                files: [side(0), side(1)],
                status,
                evidence: ContentEvidence::Listed,
                settled_by: None,
            }
        };
        let mut kept = PairWriter::new(&std::env::temp_dir());
        let numbers = 0..GROUP as u32 + 40_000;
        numbers.clone().for_each(|number| kept.add(&pair(number)).unwrap());
        let mut listed = kept.finish([const { Unseen::Nothing }; 2]).unwrap();
        let mut found = Vec::new();
        while let Some(group) = listed.next().unwrap() {
            assert!(group.len() <= GROUP);
            found.extend(group);
        }
        assert_eq!(found.len(), numbers.len());
        for (number, found) in numbers.zip(found) {
            assert_eq!(format!("{found:?}"), format!("{:?}", pair(number)));
        }
    }
}
