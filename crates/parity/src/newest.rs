//! Finds the newest record of each file. A set that an update kept for its damaged files still has old records of others.

use std::collections::HashMap;

use verisum_files::Timestamp;

use crate::ParityError;
use crate::digest;
use crate::folder::ParityFolder;
use crate::head::Piece;

/// What a set says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileRecord {
    set: u64,
    size: u64,
    modified: Timestamp,
    is_whole: bool,
}

impl FileRecord {
    /// What a piece of a set says.
    pub(crate) fn new(set: u64, piece: &Piece) -> FileRecord {
        let &Piece { size, modified, length, .. } = piece;
        FileRecord { set, size, modified, is_whole: length == size }
    }

    /// Whether it counts, given that of the newest set that has the file: pieces in other sets are of the same content.
    pub(crate) fn counts(&self, newest: &FileRecord) -> bool {
        let is_piece = !self.is_whole && !newest.is_whole;
        self.set == newest.set || is_piece && (self.size, self.modified) == (newest.size, newest.modified)
    }
}

/// The newest records of the files that several sets have.
pub(crate) struct Newest(HashMap<u64, FileRecord>);

impl Newest {
    /// Reads them. Lost sets have none.
    pub(crate) fn of(parity_folder: &ParityFolder, sets: &[u64]) -> Result<Newest, ParityError> {
        let mut all = Vec::new();
        for number in sets.iter().filter(|_| sets.len() > 1) {
            let Some(set) = parity_folder.set_unless_lost(*number)? else { continue };
            let records = set.head.pieces.iter();
            all.extend(records.map(|piece| (number_of(&piece.path), FileRecord::new(*number, piece))));
        }
        all.sort_unstable();
        let several = all.chunk_by(|(one, _), (next, _)| one == next).filter(|records| records.len() > 1);
        Ok(Newest(several.filter_map(<[_]>::last).copied().collect()))
    }

    /// Whether what a set says of a file in a piece counts.
    pub(crate) fn counts(&self, set: u64, piece: &Piece) -> bool {
        let newest = self.0.get(&number_of(&piece.path)).filter(|_| !self.0.is_empty());
        newest.is_none_or(|newest| FileRecord::new(set, piece).counts(newest))
    }
}

/// A number that stands for a path.
pub(crate) fn number_of(path: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&digest::whole(path)[..8]);
    u64::from_le_bytes(number)
}
