//! Repairs a file with only the blocks that differ from a copy on a host, which computes their digests.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use verisum_files::Stop;
use verisum_files::place::BlockDigests;

use super::super::blocks::{Giver, Givers};
use super::super::source::{Candidate, Source};
use super::waiting::NotMended;
use super::{BadFile, Blocks, ContentOrigin, Damaged, Done, Tree, moves_less};

/// So many bytes come in the time that it takes to ask for some.
const REQUEST: u64 = 256 << 10;

impl Tree<'_> {
    /// Repairs a file by the blocks that differ from a copy, whose content is the recorded one; none where the place
    /// of the copy does not hash blocks, or where the whole copy comes sooner, or does better: it is no longer as it was.
    pub(super) fn block_by_block(
        &mut self,
        damaged: &Damaged,
        bad: &BadFile,
        (source, length): (&mut Source, Option<u64>),
        candidate: &Candidate,
    ) -> Option<Done> {
        let length = length.filter(|_| moves_less(bad, source))?;
        if self.other_name(bad, &damaged.recorded).is_some() {
            return None;
        }
        let old = self.opened(damaged)?;
        let blocks = &source.place.hash_blocks(&damaged.digest, &candidate.path, length)?;
        if cost(blocks, &old, &self.options.stop)? >= length {
            return None;
        }
        let copies = vec![Giver { source: 0, candidate: candidate.clone(), failures: 0 }];
        let (sources, bad_copies) = (std::slice::from_mut(source), &mut BTreeSet::new());
        let givers = Givers { sources, copies, helper: None, damaged: &[], bad_copies };
        let from = ContentOrigin::Blocks(Blocks { blocks, givers });
        self.replace(damaged, bad, from, candidate).or_else(NotMended::ended).ok()
    }
}

/// What the blocks cost that the bad file lacks, in bytes; none if it is time to stop.
fn cost(blocks: &BlockDigests, old: &File, stop: &Stop) -> Option<u64> {
    let (mut cost, mut was_good, mut bytes) = (0, true, Vec::new());
    for number in 0..blocks.count() {
        let block = blocks.block(number);
        bytes.resize((block.end - block.start) as usize, 0);
        let is_read = !stop.is_due() && old.read_exact_at(&mut bytes, block.start).is_ok();
        let is_good = is_read && blocks.is_good(number, &bytes).ok()?;
        if !is_good {
            cost += block.end - block.start + if was_good { REQUEST } else { 0 };
        }
        was_good = is_good;
    }
    (!stop.is_due()).then_some(cost)
}

#[cfg(test)]
mod tests {
    use verisum_digest::Digest;

    use super::*;

    #[test]
    fn blocks_that_are_bad_or_cannot_be_read_cost_their_bytes_and_each_run_of_them_a_request() {
        let (digest, old) = (Digest::find("sha256").unwrap(), tempfile::tempfile().unwrap());
        let mut blocks = BlockDigests::new(digest.clone(), 16);
        for number in 0..10 {
            blocks.push(1000, digest.hash(&[number; 1000]).unwrap().as_bytes());
            old.write_all_at(&[number; 1000], u64::from(number) * 1000).unwrap();
        }
        let stop = Stop::default();
        assert_eq!(cost(&blocks, &old, &stop), Some(0));
        for at in [2000, 4000, 5999] {
            old.write_all_at(b"r", at).unwrap();
        }
        assert_eq!(cost(&blocks, &old, &stop), Some(3000 + 2 * REQUEST));
        old.set_len(8001).unwrap();
        assert_eq!(cost(&blocks, &old, &stop), Some(5000 + 3 * REQUEST));
        stop.request();
        assert_eq!(cost(&blocks, &old, &stop), None);
    }
}
