//! Hashes one message at a time, in pieces.

use core::fmt;

use crate::KernelAlgorithm;
use crate::arch::CompressFn;
use crate::kernel::Kernel;
use crate::spec::{Spec, TAIL_LEN};
use crate::state::SingleState;

/// Hashes one message that comes in pieces.
#[derive(Clone)]
pub struct Single {
    pub(crate) spec: &'static Spec,
    /// The function of one lane; the processor has its level.
    compress: CompressFn,
    pub(crate) state: SingleState,
    /// Bytes that have not been hashed, at most a block.
    rest: [u8; TAIL_LEN],
    rest_len: usize,
    total: u64,
}

impl Single {
    pub(crate) fn new(kernel: Kernel) -> Single {
        let stage = kernel.stages[kernel.stages.len() - 1];
        assert_eq!(stage.lanes, 1);
        let mut state = SingleState::new();
        state.start(kernel.spec, 1, 0);
        Single {
            spec: kernel.spec,
            compress: stage.compress,
            state,
            rest: [0; TAIL_LEN],
            rest_len: 0,
            total: 0,
        }
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> KernelAlgorithm {
        self.spec.algorithm
    }

    /// Adds bytes to the message.
    pub fn update(&mut self, bytes: &[u8]) {
        let body = self.take_body(bytes);
        self.compress(body);
    }

    /// Takes bytes but for whole blocks, which are returned and are to be compressed.
    pub(crate) fn take_body<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        let block_len = self.spec.block_len;
        self.total += bytes.len() as u64;
        if self.rest_len > 0 {
            let taken = bytes.len().min(block_len - self.rest_len);
            self.rest[self.rest_len..self.rest_len + taken].copy_from_slice(&bytes[..taken]);
            self.rest_len += taken;
            bytes = &bytes[taken..];
            // What `body_blocks` says of the bytes left and one block more: the
            // rest may be hashed if it cannot be the last block.
            if self.rest_len < block_len || self.spec.body_blocks(block_len + bytes.len()) == 0 {
                return &[];
            }
            let rest = self.rest;
            self.compress(&rest[..block_len]);
            self.rest_len = 0;
        }
        let (body, rest) = bytes.split_at(self.spec.body_blocks(bytes.len()) * block_len);
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
        body
    }

    /// Writes the digest of the message and starts a new one.
    ///
    /// # Panics
    ///
    /// If `digest` has not the length of a digest.
    pub fn finish_into_and_reset(&mut self, digest: &mut [u8]) {
        assert_eq!(digest.len(), self.spec.digest_len, "the length of the digest");
        let mut tail = [0; TAIL_LEN];
        let rest = &self.rest[..self.rest_len];
        let blocks = self.spec.write_tail(rest, self.total, &mut tail);
        self.state.announce_last(self.spec, 1, 0, self.total);
        self.compress(&tail[..blocks * self.spec.block_len]);
        self.state.write_digest(self.spec, 1, 0, digest);
        self.state.start(self.spec, 1, 0);
        self.rest_len = 0;
        self.total = 0;
    }

    pub(crate) fn compress(&mut self, blocks: &[u8]) {
        let pointers = [blocks.as_ptr()];
        let count = blocks.len() / self.spec.block_len;
        // SAFETY: the state has the alignment of `SingleState` and 25 words, the
        // slice has that many blocks, and a `Kernel` exists only where the
        // processor has the level.
        unsafe { (self.compress)(self.state.as_mut_ptr(), pointers.as_ptr(), count) }
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("algorithm", &self.spec.algorithm)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
