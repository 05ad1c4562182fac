//! Hashes the blocks of one run, and the outer hash over all block digests.

use std::sync::{Arc, OnceLock};

use verisum_digest::{Batch, Digest, DigestStream, Output};

use crate::{BlockHashError, Params};

/// How many messages are handed to the kernels in one call: several times the widest kernel, so that
/// its lanes stay full, and few enough to keep the list on the stack.
const CALL: usize = 64;

/// The digest of a block of zeros, computed when first needed.
#[derive(Debug)]
pub(crate) struct ZeroBlock {
    digest: Digest,
    len: usize,
    value: OnceLock<Result<Output, BlockHashError>>,
}

impl ZeroBlock {
    pub(crate) fn new(params: &Params) -> Arc<ZeroBlock> {
        Arc::new(ZeroBlock {
            digest: params.digest().clone(),
            len: params.block_len(),
            value: OnceLock::new(),
        })
    }

    pub(crate) fn value(&self) -> Result<&Output, BlockHashError> {
        self.value.get_or_init(|| self.compute()).as_ref().map_err(Clone::clone)
    }

    fn compute(&self) -> Result<Output, BlockHashError> {
        let mut stream = self.digest.stream()?;
        update_zeros(&mut *stream, self.len as u64)?;
        let mut output = Output::zeroed(self.digest.len());
        stream.finish(output.as_mut_bytes())?;
        Ok(output)
    }
}

/// Adds `len` zeros to a message.
pub(crate) fn update_zeros(stream: &mut dyn DigestStream, len: u64) -> Result<(), BlockHashError> {
    let zeros = [0; 16 * 1024];
    let mut left = len;
    while left > 0 {
        let now = left.min(zeros.len() as u64);
        stream.update(&zeros[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// One worker's means of hashing blocks.
pub(crate) struct BlockHasher {
    batch: Batch,
    zero: Arc<ZeroBlock>,
    block_len: usize,
    digest_len: usize,
    /// Digests of one call, before they are spread over the places of the blocks that were not zero.
    call: Vec<u8>,
}

impl BlockHasher {
    pub(crate) fn new(params: &Params, zero: Arc<ZeroBlock>) -> Result<BlockHasher, BlockHashError> {
        let digest_len = params.digest().len();
        Ok(BlockHasher {
            batch: params.digest().batch()?,
            zero,
            block_len: params.block_len(),
            digest_len,
            call: vec![0; CALL * digest_len],
        })
    }

    /// Appends the digests of all blocks of `parts` to `digests`, in order. Each part is a run of whole
    /// blocks; only the very last block may be short. Returns how many blocks were zeros.
    pub(crate) fn hash<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        digests: &mut Vec<u8>,
    ) -> Result<usize, BlockHashError> {
        let mut messages = [&[][..]; CALL];
        let mut places = [0; CALL];
        let (mut filled, mut zeros) = (0, 0);
        let block_len = self.block_len;
        // Exactly: many pieces wait for their turn, and their slack would double what they take.
        digests.reserve_exact(
            parts.clone().map(|part| part.len().div_ceil(block_len)).sum::<usize>() * self.digest_len,
        );
        for block in parts.flat_map(|part| part.chunks(block_len)) {
            let place = digests.len();
            if block.len() == block_len && self.zero.digest.is_zero(block) {
                digests.extend_from_slice(self.zero.value()?.as_bytes());
                zeros += 1;
                continue;
            }
            digests.resize(place + self.digest_len, 0);
            (messages[filled], places[filled]) = (block, place);
            filled += 1;
            if filled == CALL {
                self.call(&messages, &places, digests)?;
                filled = 0;
            }
        }
        self.call(&messages[..filled], &places[..filled], digests)?;
        Ok(zeros)
    }

    fn call(
        &mut self,
        messages: &[&[u8]],
        places: &[usize],
        digests: &mut [u8],
    ) -> Result<(), BlockHashError> {
        let call = &mut self.call[..messages.len() * self.digest_len];
        self.batch.hash(messages, call)?;
        for (i, &place) in places.iter().enumerate() {
            digests[place..place + self.digest_len]
                .copy_from_slice(&call[i * self.digest_len..(i + 1) * self.digest_len]);
        }
        Ok(())
    }
}

/// Hashes a block that is too long to be held in memory, piece by piece. Zeros at its start are only
/// counted until something else appears, so that a block of zeros costs no hashing.
pub(crate) struct LongBlock {
    stream: Box<dyn DigestStream>,
    zero: Arc<ZeroBlock>,
    block_len: u64,
    digest_len: usize,
    filled: u64,
    leading_zeros: u64,
}

impl LongBlock {
    pub(crate) fn new(params: &Params, zero: Arc<ZeroBlock>) -> Result<LongBlock, BlockHashError> {
        Ok(LongBlock {
            stream: params.digest().stream()?,
            zero,
            block_len: params.block_len() as u64,
            digest_len: params.digest().len(),
            filled: 0,
            leading_zeros: 0,
        })
    }

    /// How many bytes the block still takes.
    pub(crate) fn room(&self) -> u64 {
        self.block_len - self.filled
    }

    /// Adds at most [`room`](LongBlock::room) bytes.
    pub(crate) fn update(&mut self, data: &[u8]) -> Result<(), BlockHashError> {
        if self.leading_zeros == self.filled {
            if self.zero.digest.is_zero(data) {
                return self.zeros(data.len() as u64);
            }
            update_zeros(&mut *self.stream, self.leading_zeros)?;
        }
        self.filled += data.len() as u64;
        Ok(self.stream.update(data)?)
    }

    /// Adds at most [`room`](LongBlock::room) zeros.
    pub(crate) fn zeros(&mut self, len: u64) -> Result<(), BlockHashError> {
        let leading = self.leading_zeros == self.filled;
        self.filled += len;
        if leading {
            self.leading_zeros = self.filled;
            return Ok(());
        }
        update_zeros(&mut *self.stream, len)
    }

    /// Ends the block, appends its digest, and starts the next one.
    pub(crate) fn finish(&mut self, digests: &mut Vec<u8>) -> Result<(), BlockHashError> {
        if self.leading_zeros == self.filled {
            if self.filled == self.block_len {
                (self.filled, self.leading_zeros) = (0, 0);
                digests.extend_from_slice(self.zero.value()?.as_bytes());
                return Ok(());
            }
            update_zeros(&mut *self.stream, self.leading_zeros)?;
        }
        (self.filled, self.leading_zeros) = (0, 0);
        let place = digests.len();
        digests.resize(place + self.digest_len, 0);
        Ok(self.stream.finish(&mut digests[place..])?)
    }
}

/// The digests of one run of blocks, in order.
#[derive(Default)]
pub(crate) struct Piece {
    /// The digests of the blocks that were given as data, one after the other.
    pub(crate) digests: Vec<u8>,
    /// How they alternate with blocks known to be zeros.
    pub(crate) layout: Vec<Span>,
}

/// A number of consecutive blocks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Blocks whose digests were computed.
    Data(u64),
    /// Blocks of zeros.
    Zeros(u64),
}

/// Appends a span, joining it to the last one when both are of one kind.
pub(crate) fn push_span(layout: &mut Vec<Span>, span: Span) {
    match (layout.last_mut(), span) {
        (_, Span::Data(0) | Span::Zeros(0)) => {}
        (Some(Span::Data(n)), Span::Data(more)) | (Some(Span::Zeros(n)), Span::Zeros(more)) => *n += more,
        _ => layout.push(span),
    }
}

/// Takes the digest of every block, in order, while a block hash is computed.
pub trait DigestSink: Send {
    /// The digests of blocks that were hashed, one after the other. Blocks of zeros may be among them.
    fn digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError>;

    /// A number of full blocks that are known to be zeros.
    fn zeros(&mut self, blocks: u64) -> Result<(), BlockHashError>;
}

/// Blocks of zeros that are added at a time, before somebody may end it: a millisecond.
pub(crate) const ZEROS_AT_ONCE: u64 = 1 << 12;

/// The hash over all block digests.
pub(crate) struct Outer<'a> {
    stream: Box<dyn DigestStream>,
    /// Who wants the digests too.
    sink: Option<&'a mut dyn DigestSink>,
    zero: Arc<ZeroBlock>,
    digest_len: usize,
    /// The zero block's digest many times over, so that holes cost few calls.
    zeros: Vec<u8>,
}

impl<'a> Outer<'a> {
    pub(crate) fn new(params: &Params, zero: Arc<ZeroBlock>) -> Result<Outer<'a>, BlockHashError> {
        Ok(Outer {
            stream: params.digest().stream()?,
            sink: None,
            zero,
            digest_len: params.digest().len(),
            zeros: Vec::new(),
        })
    }

    /// Gives the digests to `sink` too.
    #[cfg(feature = "image")]
    pub(crate) fn with_sink(self, sink: &'a mut dyn DigestSink) -> Outer<'a> {
        Outer { sink: Some(sink), ..self }
    }

    pub(crate) fn add(&mut self, piece: &Piece) -> Result<(), BlockHashError> {
        let mut digests = &piece.digests[..];
        for span in &piece.layout {
            match *span {
                Span::Data(blocks) => {
                    let (now, later) = digests.split_at(blocks as usize * self.digest_len);
                    self.add_digests(now)?;
                    digests = later;
                }
                Span::Zeros(blocks) => self.add_zeros(blocks)?,
            }
        }
        Ok(())
    }

    /// Adds the digests of blocks of data.
    pub(crate) fn add_digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError> {
        if let Some(sink) = &mut self.sink {
            sink.digests(digests)?;
        }
        Ok(self.stream.update(digests)?)
    }

    /// Adds a number of full blocks of zeros.
    pub(crate) fn add_zeros(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        const AT_ONCE: u64 = 256;
        if self.zeros.is_empty() {
            self.zeros = self.zero.value()?.as_bytes().repeat(AT_ONCE as usize);
        }
        let mut left = blocks;
        while left > 0 {
            let mut told = left.min(ZEROS_AT_ONCE);
            left -= told;
            // A sink may end it.
            if let Some(sink) = &mut self.sink {
                sink.zeros(told)?;
            }
            while self.digest_len > 0 && told > 0 {
                let now = told.min(AT_ONCE);
                self.stream.update(&self.zeros[..now as usize * self.digest_len])?;
                told -= now;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, length: u64) -> Result<Output, BlockHashError> {
        let mut output = Output::zeroed(self.digest_len);
        self.stream.update(&length.to_le_bytes())?;
        self.stream.finish(output.as_mut_bytes())?;
        Ok(output)
    }
}
