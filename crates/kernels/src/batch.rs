//! Hashes whole messages in memory.

use crate::drive::{More, Supply, drive};
use crate::kernel::Kernel;
use crate::spec::Spec;
use crate::state::MAX_LANES;

impl Kernel {
    /// Hashes each message and writes the digests one after another, in the
    /// order of the messages.
    ///
    /// Messages may have any lengths. Those of one length, as many as
    /// [`Kernel::lanes`] or a multiple, are hashed fastest; nothing is allocated
    /// for them.
    ///
    /// # Panics
    ///
    /// If the length of `digests` is not the number of messages times the length
    /// of a digest.
    pub fn hash_batch(self, messages: &[&[u8]], digests: &mut [u8]) {
        let digest_len = self.spec.digest_len;
        assert_eq!(digests.len(), messages.len() * digest_len, "the length of the digests");
        let mut order = Vec::new();
        if messages.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
            // The longest first, so that lanes run out at about the same time.
            order.extend(0..messages.len());
            order.sort_unstable_by_key(|&index| core::cmp::Reverse(messages[index].len()));
        }
        let mut supply = Batch {
            spec: self.spec,
            messages,
            digests,
            order,
            next: 0,
            slots: [BatchSlot { index: 0, offset: 0 }; MAX_LANES],
        };
        let stages = self.tuned(messages.iter().map(|message| message.len()).sum());
        drive(self.spec, stages, messages.len(), &mut supply);
    }
}

struct Batch<'a> {
    spec: &'static Spec,
    messages: &'a [&'a [u8]],
    digests: &'a mut [u8],
    /// The order in which messages are taken, if it is not theirs.
    order: Vec<usize>,
    next: usize,
    slots: [BatchSlot; MAX_LANES],
}

#[derive(Clone, Copy)]
struct BatchSlot {
    /// Which message.
    index: usize,
    /// How much of it has been given out.
    offset: usize,
}

// SAFETY: the messages are borrowed for longer than `drive` runs.
unsafe impl Supply for Batch<'_> {
    fn start(&mut self, slot: usize) -> bool {
        if self.next == self.messages.len() {
            return false;
        }
        let index = self.order.get(self.next).copied().unwrap_or(self.next);
        self.slots[slot] = BatchSlot { index, offset: 0 };
        self.next += 1;
        true
    }

    fn more(&mut self, slot: usize) -> More {
        let BatchSlot { index, offset } = &mut self.slots[slot];
        let message = self.messages[*index];
        let rest = &message[*offset..];
        let start = rest.as_ptr();
        let blocks = self.spec.body_blocks(rest.len());
        if blocks > 0 {
            *offset += blocks * self.spec.block_len;
            More::Blocks { start, blocks }
        } else {
            More::End { start, len: rest.len(), total: message.len() as u64 }
        }
    }

    fn finish(&mut self, slot: usize, digest: &[u8]) {
        let start = self.slots[slot].index * digest.len();
        self.digests[start..start + digest.len()].copy_from_slice(digest);
    }
}
