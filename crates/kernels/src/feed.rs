//! Hashes many messages that come in pieces, side by side in bounded memory.

use core::{array, slice};

use crate::drive::{More, Supply, drive};
use crate::kernel::Kernel;
use crate::spec::Spec;
use crate::state::MAX_LANES;

/// Where [`Kernel::hash_feed`] gets messages from, and gives digests to.
///
/// There are never more messages in progress than the kernel has lanes. As one
/// ends, the next takes its lane. Long messages before short ones keep the lanes
/// busy to the end.
pub trait Feed {
    /// A message in progress: a file, or its number in a list.
    type Message;

    /// Returns the next message, or `None` if there are no more. It is not
    /// called again after that.
    fn next_message(&mut self) -> Option<Self::Message>;

    /// Reads bytes of a message into `buffer` and returns how many: 0 at its
    /// end, fewer than asked for at will. `None` abandons the message, as after
    /// an error.
    fn read(&mut self, message: &mut Self::Message, buffer: &mut [u8]) -> Option<usize>;

    /// Takes the digest of a message that has come to its end, or `None` of one
    /// that was abandoned.
    fn done(&mut self, message: Self::Message, digest: Option<&[u8]>);
}

/// The least memory that a message in progress needs.
const LEAST_PER_LANE: usize = 1024;

impl Kernel {
    /// Hashes all messages of a feed.
    ///
    /// The buffer is shared out among the lanes; a few tens of KiB for each of
    /// [`Kernel::lanes`] make calls of [`Feed::read`] worth their cost, and as
    /// much as fits the second level cache is best. Nothing else is allocated.
    ///
    /// # Panics
    ///
    /// If the buffer has less than 1 KiB for each lane, or if [`Feed::read`]
    /// claims more bytes than it was asked for.
    pub fn hash_feed<F: Feed>(self, feed: &mut F, buffer: &mut [u8]) {
        let share = buffer.len() / self.lanes();
        assert!(share >= LEAST_PER_LANE, "a buffer of 1 KiB for each lane");
        // Whole cache lines, and an odd number of them: at a power of two the
        // lanes would compete for the same few sets of the cache.
        let stride = (share / 64 - 1) | 1;
        let mut supply = Pieces {
            spec: self.spec,
            feed,
            buffer: buffer.as_mut_ptr(),
            stride: stride * 64,
            slots: array::from_fn(|_| FeedSlot::default()),
        };
        // How much will come is not known; the buffer is filled at least once.
        let stages = self.tuned(buffer.len());
        drive(self.spec, stages, usize::MAX, &mut supply);
    }
}

/// A feed and its share of the buffer for each message in progress.
struct Pieces<'a, F: Feed> {
    spec: &'static Spec,
    feed: &'a mut F,
    /// Valid for reads and writes of `stride` bytes for each lane, and used by
    /// nobody else while `hash_feed` runs.
    buffer: *mut u8,
    stride: usize,
    slots: [FeedSlot<F::Message>; MAX_LANES],
}

struct FeedSlot<M> {
    message: Option<M>,
    /// The bytes in the buffer.
    filled: usize,
    /// How many of them have been given out.
    given: usize,
    /// The bytes of the message so far.
    total: u64,
    ended: bool,
}

impl<M> Default for FeedSlot<M> {
    fn default() -> Self {
        FeedSlot { message: None, filled: 0, given: 0, total: 0, ended: false }
    }
}

// SAFETY: what `more` returns points into the slot's share of the buffer, which
// nothing but the next call for the same slot changes.
unsafe impl<F: Feed> Supply for Pieces<'_, F> {
    fn start(&mut self, slot: usize) -> bool {
        let message = self.feed.next_message();
        self.slots[slot] = FeedSlot { message, ..FeedSlot::default() };
        self.slots[slot].message.is_some()
    }

    fn more(&mut self, index: usize) -> More {
        let slot = &mut self.slots[index];
        // SAFETY: the shares of the lanes lie within the buffer and apart from
        // each other; no other slice of this one exists.
        let share = unsafe {
            let start = self.buffer.add(index * self.stride);
            slice::from_raw_parts_mut(start, self.stride)
        };
        share.copy_within(slot.given..slot.filled, 0);
        slot.filled -= slot.given;
        slot.given = 0;
        while !slot.ended && slot.filled < share.len() {
            let Some(message) = &mut slot.message else { unreachable!("a slot in use") };
            let space = &mut share[slot.filled..];
            let Some(count) = self.feed.read(message, space) else {
                if let Some(message) = slot.message.take() {
                    self.feed.done(message, None);
                }
                return More::Abandon;
            };
            assert!(count <= space.len(), "no more bytes than asked for");
            slot.ended = count == 0;
            slot.filled += count;
            slot.total += count as u64;
        }
        let start = share.as_ptr();
        let blocks = self.spec.body_blocks(slot.filled);
        if blocks > 0 {
            slot.given = blocks * self.spec.block_len;
            More::Blocks { start, blocks }
        } else {
            // A full share has several blocks, so the message has ended.
            More::End { start, len: slot.filled, total: slot.total }
        }
    }

    fn finish(&mut self, slot: usize, digest: &[u8]) {
        if let Some(message) = self.slots[slot].message.take() {
            self.feed.done(message, Some(digest));
        }
    }
}
