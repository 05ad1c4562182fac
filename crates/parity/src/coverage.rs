//! Finds the sets that have parts of a long file, and whether a part is in no set that can be read.

use std::collections::BTreeMap;
use std::ops::Range;

use verisum_files::Stat;

use crate::ParityError;
use crate::folder::ParityFolder;
use crate::newest::FileRecord;
use crate::tree::Tree;

/// Where a file lies that has pieces in several sets.
pub(crate) struct Coverage {
    /// The sets, ascending.
    pub(crate) sets: Vec<u64>,
    pieces: Vec<Range<u64>>,
    size: u64,
    record: FileRecord,
}

/// The coverage of wanted files, by their newest records; the sets ascend. A lost set covers nothing.
pub(crate) fn coverage(
    parity_folder: &ParityFolder,
    sets: &[u64],
    is_wanted: &dyn Fn(&[u8]) -> bool,
) -> Result<BTreeMap<Box<[u8]>, Coverage>, ParityError> {
    let mut found: BTreeMap<Box<[u8]>, Coverage> = BTreeMap::new();
    for number in sets {
        let Some(set) = parity_folder.set_unless_lost(*number)? else { continue };
        for piece in set.head.pieces {
            if !is_wanted(&piece.path) {
                continue;
            }
            let record = FileRecord::new(*number, &piece);
            let empty = || Coverage { sets: Vec::new(), pieces: Vec::new(), size: piece.size, record };
            let file = found.entry(piece.path).or_insert_with(empty);
            if !file.record.counts(&record) {
                *file = empty();
            }
            file.pieces.push(piece.offset..piece.offset + piece.length);
            if file.sets.last() != Some(number) {
                file.sets.push(*number);
            }
        }
    }
    for file in found.values_mut() {
        file.pieces.sort_unstable_by_key(|piece| piece.start);
    }
    Ok(found)
}

impl Coverage {
    /// Whether every byte of the file has parity.
    pub(crate) fn is_whole(&self) -> bool {
        let mut covered = 0;
        let is_next = |piece: &Range<u64>| {
            let follows = piece.start <= covered;
            covered = covered.max(piece.end);
            follows
        };
        self.pieces.iter().all(is_next) && covered == self.size
    }

    /// Whether a part of it has no parity, and it is not there to have that part.
    pub(crate) fn is_partly_lost(&self, tree: &Tree, path: &[u8]) -> bool {
        !self.is_whole() && !self.has_its_length(tree, path)
    }

    /// Whether the file is there and as long as it was: then its parts without parity can stay as they are.
    pub(crate) fn has_its_length(&self, tree: &Tree, path: &[u8]) -> bool {
        let stat = tree.file(path).ok().and_then(|(_, file)| Stat::of(&file).ok());
        stat.is_some_and(|stat| stat.size == self.size)
    }
}
