//! The index of a directory: its blocks, their order, and the leaves that they lead to.

use crate::namehash::{NameHash, ext4_hashes};

use super::check::{DirectoryReport, Gathered, Range, dot_records, leaf, records, say};
use super::image::Ext4;
use super::inode::DirectoryInfo;
use super::metadata;

pub(super) struct Walk<'a> {
    image: &'a Ext4,
    directory: &'a DirectoryInfo,
    report: &'a mut DirectoryReport,
    gathered: &'a mut Gathered,
    /// Which blocks the index has led to; each has one way.
    seen: Vec<bool>,
    /// The greatest key so far, over all index blocks.
    last: u32,
    /// Whether all of the index could be followed.
    whole: bool,
}

impl<'a> Walk<'a> {
    /// Looks at all that the index leads to.
    pub(super) fn all(
        image: &'a Ext4,
        directory: &'a DirectoryInfo,
        report: &'a mut DirectoryReport,
        gathered: &'a mut Gathered,
    ) {
        let mut seen = vec![false; report.blocks as usize];
        seen[0] = true;
        let mut walk = Walk { image, directory, report, gathered, seen, last: 0, whole: true };
        walk.root();
        walk.unreached();
    }

    fn root(&mut self) {
        let block = match self.image.block(self.directory, 0) {
            Ok(block) => block,
            Err(error) => return self.lost(0, error.to_string()),
        };
        self.dots(&block);
        // What nobody uses yet, and the length of this description.
        if block[24..28] != [0; 4] || block[31] != 0 {
            say(self.report, 0, "the root of the index has values where zeros must be".to_string());
        }
        let version = block[28];
        let unsigned = if self.image.unsigned && version < 3 { 3 } else { 0 };
        let Some(hash) = ext4_hashes().get(usize::from(version + unsigned)).filter(|_| version < 7) else {
            return self.lost(0, format!("hash version {version} is unknown"));
        };
        let levels = u32::from(block[30]) + 1;
        if block[29] != 8 || levels > 3 {
            return self.lost(0, "the root of the index is damaged".to_string());
        }
        self.report.hash = Some(hash);
        self.report.levels = levels;
        self.index(&block, 0, 32, hash, levels, (0, None));
    }

    /// The records before the index, between which and the end of the block nothing else is.
    fn dots(&mut self, block: &[u8]) {
        let (found, _) = records(block, self.image.block_size);
        let [dot, dots] = found.as_slice() else {
            return say(self.report, 0, "the records of . and .. before the index are damaged".to_string());
        };
        dot_records(self.image, self.directory, *dot, *dots, block, self.report);
    }

    /// Says why a part of the index cannot be followed.
    fn lost(&mut self, block: u32, what: String) {
        self.whole = false;
        say(self.report, block, what);
    }

    /// Blocks without a way to them: nobody finds the names there.
    fn unreached(&mut self) {
        if !self.whole {
            return;
        }
        for block in (0..self.seen.len()).filter(|&block| !self.seen[block]) {
            say(self.report, block as u32, "the index does not lead to this block".to_string());
        }
    }

    /// An index block, its entries at `start`, so many levels above the leaves.
    fn index(
        &mut self,
        block: &[u8],
        number: u32,
        start: usize,
        hash: &'static NameHash,
        levels: u32,
        bounds: (u32, Option<u32>),
    ) {
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let count = usize::from(u16::from_le_bytes([block[start + 2], block[start + 3]]));
        if count == 0 || start + 8 * count > block.len() {
            return self.lost(number, format!("an index of {count} entries"));
        }
        let limit = usize::from(u16::from_le_bytes([block[start], block[start + 1]]));
        let expected = (block.len() - start) / 8 - usize::from(self.image.checksums);
        if limit != expected || count > limit {
            say(self.report, number, format!("{count} of {limit} entries, where {expected} have room"));
        }
        if self.image.checksums
            && let Some(what) = metadata::index(self.image, self.directory, block, start)
        {
            say(self.report, number, format!("the index: {what}"));
        }
        for place in 0..count {
            let from = if place == 0 { bounds.0 } else { word(start + 8 * place) };
            let to = if place + 1 < count { Some(word(start + 8 * place + 8)) } else { bounds.1 };
            let child = word(start + 8 * place + 4) & 0x0fff_ffff;
            if from & !1 < self.last & !1 || to.is_some_and(|to| to & !1 < from & !1) {
                say(self.report, number, format!("entry {place}: key {from:08x} is out of order"));
            }
            self.last = from;
            match self.seen.get_mut(child as usize) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => {
                    // Following it again could go on for ever.
                    say(
                        self.report,
                        number,
                        format!("entry {place}: another entry leads to block {child} too"),
                    );
                    continue;
                }
                None => {
                    say(self.report, number, format!("entry {place}: block {child} is not in the directory"));
                    continue;
                }
            }
            if levels == 1 {
                let range = Range { hash, from, to };
                leaf(self.image, self.directory, child, Some(range), self.report, self.gathered);
                continue;
            }
            match self.image.block(self.directory, child) {
                Ok(below) => {
                    // One empty record hides the entries from those who know no index.
                    let (found, _) = records(&below, self.image.block_size);
                    if !matches!(found[..], [only] if only.is_empty()) {
                        say(self.report, child, "the empty record before the index is damaged".to_string());
                    }
                    self.index(&below, child, 8, hash, levels - 1, (from, to));
                }
                Err(error) => self.lost(child, error.to_string()),
            }
        }
    }
}
