//! Implementations in this process: ours at every level, and those of others.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use data_encoding::HEXLOWER;
use verisum_digest::{Algorithm, Batch, Digest, DigestError, DigestStream, Level, PROVIDERS, Policy};

use super::messages::Messages;
use super::overview::INSIDE;
use crate::measure::{About, InProcess, MeasureError, Subject, Work};

/// What is hashed in process: so many messages of such a length, one after the other or side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageShape {
    /// Bytes of a message.
    pub length: usize,
    /// How many.
    pub count: usize,
}

impl Default for MessageShape {
    /// 1 MiB, which fits a cache of the second level with room for one message of overlap.
    fn default() -> MessageShape {
        MessageShape { length: 64 * 1024, count: 16 }
    }
}

impl MessageShape {
    pub(super) fn bytes(self) -> u64 {
        self.length as u64 * self.count as u64
    }

    /// The group of a digest's implementations.
    fn group(self, digest: &str) -> String {
        format!("{digest} {INSIDE}, {} × {} bytes", self.count, self.length)
    }
}

/// A subject or the reason why there is none.
pub type Found<'a> = Result<Box<dyn Subject + 'a>, (About, String)>;

/// Every implementation of a digest, and the controls.
pub fn inside(algorithm: &'static Algorithm, message: MessageShape) -> Vec<Found<'static>> {
    let messages = Messages::new(message);
    let about = |name: String| {
        About::new(message.group(algorithm.id), name)
            .bytes(message.bytes())
            .label("digest", algorithm.id)
            .label("messages", message.count.to_string())
            .label("length", message.length.to_string())
    };
    let mut found: Vec<Found<'static>> = Vec::new();
    let expected = match Digest::of(algorithm, &Policy { max_level: Level::Portable }) {
        Ok(digest) => expected(&digest, messages.bytes(), message),
        Err(error) => Err(error),
    };
    let expected = match expected {
        Ok(expected) => expected,
        Err(error) => return vec![Err((about("any".to_string()), error.to_string()))],
    };
    // All hash the same bytes at the same places.
    let messages = Rc::new(RefCell::new(messages));
    let len = algorithm.digest_len();
    let check = HEXLOWER.encode(&expected[..len]);
    let mut add = |name: String, kind: &str, work: Result<Job, DigestError>| {
        let about = about(name).label("kind", kind);
        found.push(match work {
            Ok(job) => {
                let digests = vec![0; expected.len()];
                let (messages, expected) = (messages.clone(), expected.clone());
                let work = Hash { messages, message, digests, expected, len, job };
                Ok(InProcess::new(about.expect(&check), work).boxed())
            }
            Err(error) => Err((about, error.to_string())),
        });
    };
    for provider in PROVIDERS.iter().filter(|provider| provider.algorithm == algorithm.id) {
        let name = match provider.name {
            // Our own code that hashes one message by the processor's instructions for it.
            "kernels" => {
                let digest = Digest::of(algorithm, &Policy::default());
                let level = digest.ok().and_then(|digest| digest.stream_level());
                format!("ours, {}", level.map_or("kernels", Level::name))
            }
            "portable" => "ours, portable".to_string(),
            other => other.to_string(),
        };
        match provider.stream(&Policy::default()) {
            // Most digests have no such instructions: that is no news.
            Some(Err(_)) if provider.name == "kernels" => {}
            Some(stream) => add(name, "stream", stream.map(Job::Stream)),
            None => {}
        }
    }
    for &level in Level::ALL {
        let digest = Digest::of(algorithm, &Policy { max_level: level });
        if let Ok(digest) = digest
            && let Some((found, lanes)) = digest.batch_level()
            && found == level
        {
            let name = format!("ours, {} × {lanes}", level.name());
            add(name, "batch", digest.batch().map(Job::Batch));
        }
    }
    #[cfg(feature = "rivals")]
    for (name, start) in super::rivals::streams(algorithm.id) {
        add(name.to_string(), "stream", Ok(Job::Stream(start)));
    }
    found.extend(controls(message, &messages, about));
    found
}

/// What is no hashing: a provider that does nothing, a copy, a read.
fn controls(
    message: MessageShape,
    messages: &Rc<RefCell<Messages>>,
    about: impl Fn(String) -> About,
) -> Vec<Found<'static>> {
    let label = |name: &str| about(name.to_string()).label("kind", "control").control();
    let null = PROVIDERS.iter().find(|provider| provider.name == "null");
    let null = null.and_then(|provider| provider.stream(&Policy::default())).and_then(Result::ok);
    let mut controls: Vec<Found<'static>> = Vec::new();
    if let Some(stream) = null {
        let work = Hash {
            messages: messages.clone(),
            message,
            digests: Vec::new(),
            expected: Vec::new(),
            len: 0,
            job: Job::Stream(stream),
        };
        // It looks at no byte, so that it has a time and no rate.
        controls.push(Ok(InProcess::new(label("null digest").bytes(0), work).boxed()));
    }
    let (from, mut to) = (messages.clone(), vec![0u8; message.bytes() as usize]);
    let copy = move || -> Result<(), MeasureError> {
        to.copy_from_slice(black_box(from.borrow().bytes()));
        black_box(&mut to);
        Ok(())
    };
    controls.push(Ok(InProcess::new(label("copy in memory"), copy).boxed()));
    let words = messages.clone();
    let read = move || -> Result<(), MeasureError> {
        read_bytes(words.borrow().bytes());
        Ok(())
    };
    controls.push(Ok(InProcess::new(label("read memory"), read).boxed()));
    controls
}

/// Reads bytes in memory, and does nothing with them.
pub(crate) fn read_bytes(bytes: &[u8]) {
    // The compiler makes of it the widest reads that every processor of this kind has.
    let (words, _) = black_box(bytes).as_chunks::<8>();
    black_box(words.iter().fold(0u64, |sum, word| sum ^ u64::from_ne_bytes(*word)));
}

/// A hash of all messages.
struct Hash {
    messages: Rc<RefCell<Messages>>,
    message: MessageShape,
    digests: Vec<u8>,
    expected: Vec<u8>,
    len: usize,
    job: Job,
}

enum Job {
    Stream(Box<dyn DigestStream>),
    Batch(Batch),
}

impl Work for Hash {
    fn prepare(&mut self) -> Result<(), MeasureError> {
        self.messages.borrow_mut().move_elsewhere();
        Ok(())
    }

    fn work(&mut self) -> Result<(), MeasureError> {
        let messages = self.messages.borrow();
        let messages = messages.bytes().chunks_exact(self.message.length);
        match &mut self.job {
            Job::Stream(stream) if self.len == 0 => {
                for message in messages {
                    stream.update(black_box(message))?;
                    stream.finish(&mut [])?;
                }
            }
            Job::Stream(stream) => {
                for (message, digest) in messages.zip(self.digests.chunks_exact_mut(self.len)) {
                    stream.update(black_box(message))?;
                    stream.finish(digest)?;
                }
            }
            Job::Batch(batch) => {
                let messages: Vec<&[u8]> = messages.collect();
                batch.hash(black_box(&messages), &mut self.digests)?;
            }
        }
        black_box(&mut self.digests);
        Ok(())
    }

    /// That of the first message that is wrong; if none is, that of the first.
    fn digest(&mut self) -> Option<String> {
        let mut pairs =
            self.digests.chunks_exact(self.len.max(1)).zip(self.expected.chunks_exact(self.len.max(1)));
        let wrong = pairs.find(|(found, wanted)| found != wanted).map(|(found, _)| found);
        // A later message's digest is no expected one either.
        wrong.or_else(|| self.digests.get(..self.len)).map(|digest| HEXLOWER.encode(digest))
    }
}

fn expected(digest: &Digest, data: &[u8], message: MessageShape) -> Result<Vec<u8>, DigestError> {
    let mut all = Vec::new();
    for message in data.chunks_exact(message.length) {
        all.extend_from_slice(digest.hash(message)?.as_mut_bytes());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{MeasureAmount, MeasurePlan, measure};
    use std::time::Duration;

    #[test]
    fn every_implementation_is_measured_and_right() {
        let message = MessageShape { length: 1024, count: 16 };
        for id in ["sha256", "md5", "blake3", "crc32c", "sha3-256"] {
            let found = inside(Algorithm::find(id).unwrap(), message);
            let mut subjects: Vec<_> = found.into_iter().filter_map(Result::ok).collect();
            let plan = MeasurePlan {
                amount: MeasureAmount::Rounds(1),
                least: Duration::from_micros(100),
                ..MeasurePlan::default()
            };
            let series = measure(&mut subjects, &plan, &mut ());
            assert!(series.iter().all(|one| one.wall.len() == 1), "{id}: {series:?}");
            let controls = series.iter().filter(|one| one.control).count();
            assert_eq!(controls, 3, "{id}");
            assert!(series.len() > controls, "{id}");
        }
        let names = |id| -> Vec<String> {
            let found = inside(Algorithm::find(id).unwrap(), message);
            found.iter().flatten().map(|subject| subject.about().name.clone()).collect()
        };
        assert!(names("md5").contains(&"ours, portable".to_string()), "{:?}", names("md5"));
        assert!(names("blake3").contains(&"blake3".to_string()));
    }

    #[test]
    fn a_wrong_lane_is_seen() {
        let message = MessageShape { length: 64, count: 4 };
        let messages = Messages::new(message);
        let digest = Digest::find("md5").unwrap();
        let mut expected = expected(&digest, messages.bytes(), message).unwrap();
        let first = HEXLOWER.encode(&expected[..16]);
        let mut work = Hash {
            messages: Rc::new(RefCell::new(messages)),
            message,
            digests: vec![0; 64],
            expected: expected.clone(),
            len: 16,
            job: Job::Stream(digest.stream().unwrap()),
        };
        work.work().unwrap();
        assert_eq!(work.digest(), Some(first.clone()));
        expected[63] ^= 1;
        work.expected = expected;
        assert_ne!(work.digest(), Some(first));
    }
}
