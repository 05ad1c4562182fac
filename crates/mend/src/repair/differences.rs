//! Finds the bytes of a file that a repair changes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are compared together: what storage loses together.
const BLOCK: usize = 4 << 10;

/// How many ranges are told apart; all after them are one.
const MOST: usize = 1000;

/// Compares the new content with the old file as it is written.
pub(super) struct Differences<'a> {
    /// None for a file that was missing.
    old: Option<&'a File>,
    room: Vec<u8>,
    ranges: Vec<Range<u64>>,
}

impl<'a> Differences<'a> {
    pub(super) fn from(old: Option<&'a File>) -> Differences<'a> {
        Differences { old, room: Vec::new(), ranges: Vec::new() }
    }

    /// Takes new bytes, which begin at an offset.
    pub(super) fn take(&mut self, new: &[u8], offset: u64) {
        let Some(old) = self.old else { return self.add(offset..offset + new.len() as u64) };
        let mut room = std::mem::take(&mut self.room);
        room.resize(new.len(), 0);
        let is_read = old.read_exact_at(&mut room, offset).is_ok();
        for start in (0..new.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(new.len());
            let at = offset + start as u64;
            // What cannot be read is as good as different.
            let is_here = is_read || old.read_exact_at(&mut room[range.clone()], at).is_ok();
            if !is_here || room[range.clone()] != new[range.clone()] {
                self.add(at..at + range.len() as u64);
            }
        }
        self.room = room;
    }

    fn add(&mut self, range: Range<u64>) {
        let is_full = self.ranges.len() == MOST;
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start || is_full => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }

    /// What differs, ascending.
    pub(super) fn ranges(self) -> Vec<Range<u64>> {
        self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_differ_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        std::fs::write(&path, [7; 5 * BLOCK]).unwrap();
        let old = File::open(&path).unwrap();
        let mut new = vec![7; 6 * BLOCK + 1];
        (new[0], new[3 * BLOCK], new[4 * BLOCK + 9]) = (0, 1, 2);
        let mut differences = Differences::from(Some(&old));
        let block = BLOCK as u64;
        // In two pieces, as files come.
        differences.take(&new[..4 * BLOCK], 0);
        differences.take(&new[4 * BLOCK..], 4 * block);
        // The old file ends after its fifth block.
        assert_eq!(differences.ranges(), [0..block, 3 * block..6 * block + 1]);
        let mut differences = Differences::from(None);
        differences.take(&new, 0);
        assert_eq!(differences.ranges(), std::slice::from_ref(&(0..6 * block + 1)));
        let mut differences = Differences::from(Some(&old));
        for number in 0..2 * MOST as u64 {
            differences.take(&[0], number * 2);
        }
        let ranges = differences.ranges();
        assert_eq!((ranges.len(), ranges[MOST - 1].end), (MOST, 4 * MOST as u64 - 1));
    }
}
