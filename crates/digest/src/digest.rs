//! A digest on this machine: the implementations for single streams and for batches.

use std::sync::Arc;

use verisum_kernels::{Level, Single};

use crate::algorithm::{Algorithm, DigestClass};
use crate::blocks;
use crate::error::DigestError;
use crate::few;
use crate::git;
use crate::output::Output;
use crate::parts::{BlockParts, Parts};
use crate::provider::{self, DigestStream, MultiBuffer, PROVIDERS, Policy, StreamFactory};

/// One digest and the implementations that this machine uses for it. Cheap to clone.
#[derive(Clone)]
pub struct Digest {
    name: Arc<str>,
    algorithm: Option<&'static Algorithm>,
    len: usize,
    stream: (&'static str, Arc<dyn StreamFactory>),
    batch: Option<(&'static str, MultiBuffer)>,
    max_level: Level,
    /// What stands before a message of so many bytes, where something does.
    header: Option<Header>,
}

/// Makes what stands before a message of so many bytes.
type Header = fn(u64) -> Vec<u8>;

impl Digest {
    /// The digest of this name or alias, `blake2b-N` for BLAKE2b with a digest of `N` bits, one
    /// [made of blocks](crate::block_digests) or of [parts](crate::part_length), one of [git](crate::git_digests), or
    /// `openssl:NAME` for one that only OpenSSL knows.
    pub fn find(name: &str) -> Result<Digest, DigestError> {
        Digest::find_with(name, &Policy::default())
    }

    /// As [`Digest::find`], with a say in which implementations may be used.
    pub fn find_with(name: &str, policy: &Policy) -> Result<Digest, DigestError> {
        if let Some(openssl_name) = name.strip_prefix("openssl:") {
            let (len, factory) = provider::openssl_by_name(openssl_name)?;
            return Ok(Digest {
                name: format!("openssl:{}", openssl_name.to_ascii_lowercase()).into(),
                algorithm: None,
                len,
                stream: ("openssl", factory),
                batch: None,
                max_level: policy.max_level,
                header: None,
            });
        }
        if let Some(made) = blocks::find(name, policy) {
            let made = made?;
            return Ok(Digest {
                name: made.name(),
                algorithm: None,
                len: made.digest_len(),
                stream: made.into_factory(),
                batch: None,
                max_level: policy.max_level,
                header: None,
            });
        }
        if let Some(found) = git::find(name, policy) {
            let (name, inner) = found?;
            let (len, batch, max_level) = (inner.len, inner.batch, inner.max_level);
            let stream = ("git", git::factory(name, inner));
            return Ok(Digest {
                name: name.into(),
                algorithm: None,
                len,
                stream,
                batch,
                max_level,
                header: Some(git::header),
            });
        }
        match (Algorithm::find(name), blake2b_len(name)) {
            (Some(algorithm), _) => Digest::of(algorithm, policy),
            (None, Some(len)) => Ok(Digest::blake2b(len, policy)),
            (None, None) => Err(DigestError::Unknown { name: name.to_string() }),
        }
    }

    /// BLAKE2b with a digest of 1 to 64 bytes. Each length is a digest of its own.
    fn blake2b(len: usize, policy: &Policy) -> Digest {
        let (kernel, batch) = provider::blake2b(len, policy);
        Digest {
            name: format!("blake2b-{}", len * 8).into(),
            algorithm: None,
            len,
            stream: ("portable", Arc::new(kernel)),
            batch: batch.map(|kernel| ("kernels", kernel)),
            max_level: policy.max_level,
            header: None,
        }
    }

    /// The first bytes of the endless output of an extendable digest, BLAKE3, under its name. `None` for other digests, or
    /// if `len` is more than [`MAX_DIGEST_LEN`](crate::MAX_DIGEST_LEN).
    pub fn extended_to(&self, len: usize) -> Option<Digest> {
        let is_extendable = self.name() == "blake3" && len <= crate::MAX_DIGEST_LEN;
        let stream = (self.stream.0, provider::blake3_of_length(len));
        is_extendable.then(|| Digest { len, stream, batch: None, ..self.clone() })
    }

    /// The best available implementations of `algorithm` that `policy` permits.
    pub fn of(algorithm: &'static Algorithm, policy: &Policy) -> Result<Digest, DigestError> {
        let rows = || PROVIDERS.iter().filter(|row| row.algorithm == algorithm.id);
        let mut refusal = None;
        let stream = rows().find_map(|row| match (row.stream?)(algorithm, policy) {
            Ok(factory) => Some((row.name, factory)),
            Err(reason) => {
                refusal = Some(reason);
                None
            }
        });
        let Some(stream) = stream else {
            return Err(refusal.unwrap_or_else(|| DigestError::Unknown { name: algorithm.id.to_string() }));
        };
        let batch = rows().find_map(|row| Some((row.name, (row.batch?)(algorithm, policy)?)));
        Ok(Digest {
            name: algorithm.id.into(),
            algorithm: Some(algorithm),
            len: algorithm.digest_len(),
            stream,
            batch,
            max_level: policy.max_level,
            header: None,
        })
    }

    /// The name under which it is printed and stored.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its row in the table; none for `openssl:NAME` and for lengths of BLAKE2b other than the usual one.
    pub fn algorithm(&self) -> Option<&'static Algorithm> {
        self.algorithm
    }

    /// What it is good for.
    pub fn class(&self) -> DigestClass {
        self.algorithm.map_or(DigestClass::Cryptographic, |a| a.class)
    }

    /// Length of the digest in bytes.
    #[allow(clippy::len_without_is_empty)] // A length of zero is a property of `null`, not a state.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Which implementation computes single streams.
    pub fn stream_provider(&self) -> &'static str {
        self.stream.0
    }

    /// The level of our own kernel that computes single streams; none if somebody else does.
    pub fn stream_level(&self) -> Option<Level> {
        self.stream.1.kernel_level()
    }

    /// The SIMD level that batches run at, and how many messages go side by side; none where batches
    /// are hashed one message at a time.
    pub fn batch_level(&self) -> Option<(Level, usize)> {
        self.batch.as_ref().map(|(_, kernel)| (kernel.level(), kernel.lanes()))
    }

    /// The same digest with batches at exactly this level, to measure it; none where the processor or the
    /// digest lacks it, and for digests that are not in the table.
    pub fn at_level(&self, level: Level) -> Option<Digest> {
        let (name, kernel) = self.batch.filter(|_| self.algorithm.is_some())?;
        let kernel = MultiBuffer::at(kernel.algorithm(), level)?;
        Some(Digest { batch: Some((name, kernel)), ..self.clone() })
    }

    /// Starts a message.
    pub fn stream(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        self.stream.1.start()
    }

    /// The parts that a long message can be hashed in, each on its own and by any thread; none where each byte waits
    /// for those before it.
    pub fn parts(&self) -> Option<Parts> {
        self.stream.1.parts()
    }

    /// The blocks that it is made of; none of a digest that is not [made of blocks](crate::block_digests).
    pub fn blocks(&self) -> Option<BlockParts> {
        self.parts()?.blocks()
    }

    /// Makes a context that hashes batches of messages, for one thread.
    pub fn batch(&self) -> Result<Batch, DigestError> {
        let engine = match self.batch {
            // What is not our own is preferred where it is the fastest.
            Some((_, kernel)) => {
                let is_ours = self.stream_level().is_some() || self.header.is_some();
                let alone = (!is_ours).then(|| self.stream()).transpose()?;
                let name = self.algorithm.map(|algorithm| algorithm.id);
                let alone = alone.map(|stream| Alone { stream, name, most: 1, hashed: 0 });
                Engine::SideBySide { kernel, alone }
            }
            None => match self.parts().as_ref().and_then(Parts::one_part) {
                Some((inner, most)) => Engine::Parts(Box::new((inner.batch()?, most)), self.stream()?),
                None => Engine::OneByOne(self.stream()?),
            },
        };
        Ok(Batch { engine, len: self.len, header: self.header })
    }

    /// Starts a message that can be continued side by side with others, by [`Digest::advance`].
    pub fn message(&self) -> Result<Message, DigestError> {
        Ok(Message(match self.batch.as_ref().filter(|_| self.header.is_none()) {
            Some((_, kernel)) => StreamProgress::Kernel(Box::new(kernel.single())),
            None => StreamProgress::Stream(self.stream()?),
        }))
    }

    /// As [`Digest::message`], for one that no other will be hashed beside: computed by whoever is fastest
    /// for a single message.
    pub fn lone_message(&self) -> Result<Message, DigestError> {
        Ok(Message(StreamProgress::Stream(self.stream()?)))
    }

    /// The most messages that are hashed sooner one after the other, as [`Digest::lone_message`] has it, than side by
    /// side: it is measured once where somebody else's single stream is preferred to ours, and is 1 elsewhere.
    pub fn most_alone(&self) -> usize {
        let is_ours = self.stream_level().is_some() || self.header.is_some();
        let (Some((_, kernel)), Some(algorithm), false) = (&self.batch, self.algorithm, is_ours) else {
            return 1;
        };
        let measured = self.stream().and_then(|mut stream| {
            few::most_alone(algorithm.id, kernel, &mut |message, out| stream.hash(message, out), self.len)
        });
        measured.unwrap_or(1)
    }

    /// Adds bytes to each message, side by side where the processor can. As many messages as
    /// [`Digest::lanes`], and pieces of one length, are the fast path.
    ///
    /// # Panics
    /// If a message is of another digest.
    pub fn advance(&self, messages: &mut [(&mut Message, &[u8])]) -> Result<(), DigestError> {
        let mut side_by_side = Vec::with_capacity(messages.len());
        for (message, bytes) in messages {
            match &mut message.0 {
                StreamProgress::Kernel(single) => side_by_side.push((&mut **single, *bytes)),
                StreamProgress::Stream(stream) => stream.update(bytes)?,
            }
        }
        if let Some((_, kernel)) = &self.batch {
            kernel.update_batch(&mut side_by_side);
        }
        Ok(())
    }

    /// How many messages a batch should at least hold to be hashed at full speed.
    pub fn lanes(&self) -> usize {
        self.batch.as_ref().map_or(1, |(_, kernel)| kernel.lanes())
    }

    /// Whether all of a message is zeros, found at the SIMD level that this digest may use.
    pub fn is_zero(&self, message: &[u8]) -> bool {
        let level = if self.max_level >= Level::Avx2 { self.max_level } else { Level::Portable };
        verisum_kernels::is_zero_at(level, message).unwrap_or_else(|| message.iter().all(|&byte| byte == 0))
    }

    /// The digest of one message.
    pub fn hash(&self, message: &[u8]) -> Result<Output, DigestError> {
        let mut stream = self.stream()?;
        let mut output = Output::zeroed(self.len);
        stream.expect(message.len() as u64)?;
        stream.hash(message, output.as_mut_bytes())?;
        Ok(output)
    }
}

/// The length in bytes of the digest that is called `blake2b-BITS`.
fn blake2b_len(name: &str) -> Option<usize> {
    let prefix = name.get(..8).filter(|prefix| prefix.eq_ignore_ascii_case("blake2b-"))?;
    let bits: usize = name[prefix.len()..].parse().ok()?;
    // One name for each: no sign, no zeros before it.
    let is_plain = bits.to_string() == name[prefix.len()..];
    (is_plain && bits.is_multiple_of(8) && (8..=512).contains(&bits)).then_some(bits / 8)
}

impl std::str::FromStr for Digest {
    type Err = DigestError;

    /// As [`Digest::find`].
    fn from_str(name: &str) -> Result<Digest, DigestError> {
        Digest::find(name)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digest")
            .field("name", &self.name)
            .field("len", &self.len)
            .field("stream", &self.stream.0)
            .field("batch", &self.batch_level())
            .finish()
    }
}

/// A message that comes in pieces, side by side with others.
pub struct Message(StreamProgress);

enum StreamProgress {
    Kernel(Box<Single>),
    Stream(Box<dyn DigestStream>),
}

impl Message {
    /// Whether others beside it make it no faster.
    pub fn is_alone(&self) -> bool {
        matches!(self.0, StreamProgress::Stream(_))
    }

    /// Says how long the message will be, before its first byte. A few digests need to know.
    pub fn expect(&mut self, length: u64) -> Result<(), DigestError> {
        match &mut self.0 {
            StreamProgress::Kernel(_) => Ok(()),
            StreamProgress::Stream(stream) => stream.expect(length),
        }
    }

    /// Ends the message, writes its digest, and makes ready for the next one.
    ///
    /// # Panics
    /// If `digest` is not exactly as long as the digest.
    pub fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        match &mut self.0 {
            StreamProgress::Kernel(single) => single.finish_into_and_reset(digest),
            StreamProgress::Stream(stream) => stream.finish(digest)?,
        }
        Ok(())
    }
}

/// A context that hashes independent messages, side by side where the processor can.
pub struct Batch {
    engine: Engine,
    len: usize,
    header: Option<Header>,
}

/// So many messages that something stands before are hashed side by side at most: they are copied.
const MOST_COPIED: usize = 64;

enum Engine {
    SideBySide {
        kernel: MultiBuffer,
        /// For a message that is alone in its batch, or almost, where somebody is faster than the kernel.
        alone: Option<Alone>,
    },
    OneByOne(Box<dyn DigestStream>),
    /// Messages of at most so many bytes are one part, whose digest is theirs.
    Parts(Box<(Batch, usize)>, Box<dyn DigestStream>),
}

/// Who hashes a few messages one after the other.
struct Alone {
    stream: Box<dyn DigestStream>,
    /// The name of the digest, if it is one of the table.
    name: Option<&'static str>,
    /// How many messages at most.
    most: usize,
    /// How many bytes came in batches of few messages, before the number was measured.
    hashed: usize,
}

/// What comes in batches of few messages before it is measured how many are few, in bytes: several times as much as is
/// hashed to measure.
const REPAID: usize = 256 << 10;

impl Alone {
    /// Whether so many messages are hashed one after the other.
    fn takes(&mut self, kernel: &MultiBuffer, messages: &[&[u8]], len: usize) -> Result<bool, DigestError> {
        if messages.len() >= kernel.lanes() {
            return Ok(false);
        }
        if let Some(name) = self.name.filter(|_| messages.len() > 1) {
            self.hashed += messages.iter().map(|message| message.len()).sum::<usize>();
            if self.hashed > REPAID {
                let alone = &mut |message: &[u8], out: &mut [u8]| self.stream.hash(message, out);
                self.most = few::most_alone(name, kernel, alone, len)?;
                self.name = None;
            }
        }
        Ok(messages.len() <= self.most)
    }
}

impl Batch {
    /// Hashes every message into its own `digest_len` bytes of `digests`, in order. Messages of equal
    /// length are the fast path.
    ///
    /// # Panics
    /// If `digests` is not exactly as long as all digests together.
    pub fn hash(&mut self, messages: &[&[u8]], digests: &mut [u8]) -> Result<(), DigestError> {
        assert_eq!(digests.len(), messages.len() * self.len, "room for one digest a message");
        let Some(header) = self.header else { return self.hash_plain(messages, digests) };
        let room = digests.chunks_mut(MOST_COPIED * self.len);
        for (messages, digests) in messages.chunks(MOST_COPIED).zip(room) {
            let whole = |message: &&[u8]| [&header(message.len() as u64), *message].concat();
            let copied: Vec<Vec<u8>> = messages.iter().map(whole).collect();
            let copied: Vec<&[u8]> = copied.iter().map(Vec::as_slice).collect();
            self.hash_plain(&copied, digests)?;
        }
        Ok(())
    }

    fn hash_plain(&mut self, messages: &[&[u8]], digests: &mut [u8]) -> Result<(), DigestError> {
        let stream = match &mut self.engine {
            Engine::SideBySide { kernel, alone } => {
                let takes = match alone {
                    Some(alone) => alone.takes(kernel, messages, self.len)?,
                    None => false,
                };
                let Some(alone) = alone.as_mut().filter(|_| takes) else {
                    kernel.hash_batch(messages, digests);
                    return Ok(());
                };
                &mut alone.stream
            }
            Engine::Parts(one_part, _) if messages.iter().all(|message| message.len() <= one_part.1) => {
                return one_part.0.hash(messages, digests);
            }
            Engine::OneByOne(stream) | Engine::Parts(_, stream) => stream,
        };
        for (i, message) in messages.iter().enumerate() {
            stream.hash(message, &mut digests[i * self.len..(i + 1) * self.len])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_in_one_piece_are_hashed_side_by_side() {
        let (parts, md5) = (Digest::find("s3-etag:8M").unwrap(), Digest::find("md5").unwrap());
        let mut batch = parts.batch().unwrap();
        let Engine::Parts(one_part, _) = &batch.engine else { panic!("it is made of parts") };
        assert_eq!(matches!(one_part.0.engine, Engine::SideBySide { .. }), md5.batch.is_some());
        assert_eq!(one_part.1, 8 << 20);
        let long = vec![7; (8 << 20) + 1];
        for messages in [&[&b""[..], b"a", &long[..8 << 20]][..], &[b"a", &long]] {
            let mut found = vec![0; messages.len() * 16];
            batch.hash(messages, &mut found).unwrap();
            for (message, found) in messages.iter().zip(found.chunks(16)) {
                assert_eq!(parts.hash(message).unwrap().as_bytes(), found, "{} bytes", message.len());
            }
        }
        let batch = Digest::find("glacier").unwrap().batch().unwrap();
        let is_alone = matches!(batch.engine, Engine::OneByOne(_));
        assert!(is_alone, "the digest of one block is not that of its content");
    }
}
