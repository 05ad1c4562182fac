//! The hash states of a group of lanes, as compression functions keep them.

use crate::spec::{MAX_STATE_WORDS, Padding, Spec};

/// The most lanes that any kernel has.
pub(crate) const MAX_LANES: usize = 32;

/// The states of up to [`MAX_LANES`] lanes: a matrix with a row for each word of
/// the state and a column for each lane, so that a row is a vector.
///
/// Words are 4 or 8 bytes long, by the algorithm. The matrix is never wider
/// than 128 bytes: 32 lanes of 4 or 16 lanes of 8.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct State<const QUADS: usize = { MAX_STATE_WORDS * 16 }> {
    quads: [u64; QUADS],
}

/// The state of a single lane.
pub(crate) type SingleState = State<{ MAX_STATE_WORDS }>;

impl<const QUADS: usize> State<QUADS> {
    pub(crate) const fn new() -> Self {
        State { quads: [0; QUADS] }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.quads.as_mut_ptr()
    }

    fn word(&self, spec: &Spec, index: usize) -> u64 {
        if spec.word_len == 8 {
            return self.quads[index];
        }
        let quad = self.quads[index / 2].to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = quad;
        let half = [[a, b, c, d], [e, f, g, h]][index % 2];
        u64::from(u32::from_ne_bytes(half))
    }

    fn set_word(&mut self, spec: &Spec, index: usize, value: u64) {
        if spec.word_len == 8 {
            self.quads[index] = value;
            return;
        }
        let mut quad = self.quads[index / 2].to_ne_bytes();
        let start = index % 2 * 4;
        quad[start..start + 4].copy_from_slice(&(value as u32).to_ne_bytes());
        self.quads[index / 2] = u64::from_ne_bytes(quad);
    }

    /// Sets `lane` of `lanes` to the state before the first block.
    pub(crate) fn start(&mut self, spec: &Spec, lanes: usize, lane: usize) {
        for (row, &word) in spec.initial.iter().enumerate() {
            self.set_word(spec, row * lanes + lane, word);
        }
    }

    /// Tells `lane` that the next block is the last of a message of `total`
    /// bytes.
    pub(crate) fn announce_last(&mut self, spec: &Spec, lanes: usize, lane: usize, total: u64) {
        if spec.padding != Padding::Blake2 {
            return;
        }
        // The compression function adds the length of a whole block first.
        let before = total.wrapping_sub(spec.block_len as u64);
        self.set_word(spec, 8 * lanes + lane, before);
        if spec.word_len == 4 {
            self.set_word(spec, 9 * lanes + lane, before >> 32);
        }
        let flag = spec.initial.len() - 1;
        self.set_word(spec, flag * lanes + lane, u64::MAX);
    }

    /// Copies a lane of another group.
    pub(crate) fn copy_lane<const FROM: usize>(
        &mut self,
        spec: &Spec,
        (lanes, lane): (usize, usize),
        from: &State<FROM>,
        (from_lanes, from_lane): (usize, usize),
    ) {
        for row in 0..spec.initial.len() {
            let word = from.word(spec, row * from_lanes + from_lane);
            self.set_word(spec, row * lanes + lane, word);
        }
    }

    /// Writes the digest of `lane`, which has had its last block.
    pub(crate) fn write_digest(&self, spec: &Spec, lanes: usize, lane: usize, digest: &mut [u8]) {
        for (row, bytes) in digest.chunks_mut(spec.word_len).enumerate() {
            let word = self.word(spec, row * lanes + lane);
            let little = word.to_le_bytes();
            let big = (word << (64 - 8 * spec.word_len)).to_be_bytes();
            let word = if spec.big_endian { big } else { little };
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }
}
