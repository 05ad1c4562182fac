//! Measures which level hashes a given number of messages fastest on this machine, to check the built-in
//! choice.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use verisum_digest::{Batch, Digest, DigestError, DigestStream, Level};

/// How many messages are hashed at once: more than any level has lanes, and some left over.
pub const COUNTS: RangeInclusive<usize> = 1..=40;

/// The length of each message in bytes. All fit the cache of the second level.
pub const LENGTH: usize = 4096;

/// How many times as fast as the built-in choice another way is, where it is called better. Less is noise.
pub const BETTER: f64 = 1.25;

/// The place of the built-in choice among the ways.
pub const CHOICE: usize = 0;

/// How often a count is measured before another way is called better.
const TRIES: usize = 30;

/// How often a way is used before it is measured. A process measures what is fastest for a kernel after it hashed 4 MiB,
/// and for how few messages a stream is faster after 256 KiB in few messages.
const WARM_UPS: usize = 40;

/// The ways to hash messages of one digest.
pub struct Ways {
    /// What they are called: the built-in choice, `batch`; one message after the other, `stream`; or the
    /// level of a batch.
    pub names: Vec<&'static str>,
    /// What each count of [`COUNTS`] takes.
    pub counts: Vec<Times>,
}

/// What so many messages take, each way.
pub struct Times {
    /// How many messages.
    pub count: usize,
    /// Seconds, in the order of [`Ways::names`].
    pub seconds: Vec<f64>,
}

impl Times {
    /// Bytes a second of a way.
    pub fn rate(&self, way: usize) -> f64 {
        (self.count * LENGTH) as f64 / self.seconds[way]
    }

    /// The way that is fastest, if it is better than the built-in choice.
    pub fn better(&self) -> Option<usize> {
        let fastest = (0..self.seconds.len()).min_by(|&a, &b| self.seconds[a].total_cmp(&self.seconds[b]))?;
        (self.seconds[CHOICE] > BETTER * self.seconds[fastest]).then_some(fastest)
    }
}

/// A way at work.
enum LevelWork {
    Stream(Box<dyn DigestStream>),
    Batch(Batch),
}

impl LevelWork {
    /// Hashes the messages and returns the seconds that it took.
    fn time(
        &mut self,
        messages: &[&[u8]],
        digests: &mut [u8],
        digest_len: usize,
    ) -> Result<f64, DigestError> {
        let start = Instant::now();
        match self {
            LevelWork::Batch(batch) => batch.hash(black_box(messages), digests)?,
            LevelWork::Stream(stream) => {
                for (message, digest) in messages.iter().zip(digests.chunks_mut(digest_len)) {
                    stream.update(black_box(message))?;
                    stream.finish(digest)?;
                }
            }
        }
        black_box(digests);
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Measures each way of a digest up to a level, for about as long as that; `None` if it has no batches.
pub fn measure(digest: &Digest, most: Level, time: Duration) -> Result<Option<Ways>, DigestError> {
    if digest.batch_level().is_none() {
        return Ok(None);
    }
    let mut names = vec!["batch", "stream"];
    let mut work = vec![LevelWork::Batch(digest.batch()?), LevelWork::Stream(digest.stream()?)];
    for &level in Level::ALL.iter().filter(|&&level| level > Level::Portable && level <= most) {
        if let Some(at_level) = digest.at_level(level) {
            names.push(level.name());
            work.push(LevelWork::Batch(at_level.batch()?));
        }
    }
    let bytes: Vec<u8> = (0..LENGTH).map(|i| (i % 251) as u8).collect();
    let messages = [&bytes[..]; *COUNTS.end()];
    let mut digests = vec![0; messages.len() * digest.len()];
    let mut counts: Vec<Times> =
        COUNTS.map(|count| Times { count, seconds: vec![f64::INFINITY; names.len()] }).collect();
    for (way, count) in (0..work.len()).map(|way| (way, 2)).chain([(CHOICE, messages.len())]) {
        for _ in 0..WARM_UPS {
            work[way].time(&messages[..count], &mut digests[..count * digest.len()], digest.len())?;
        }
    }
    // The best time counts: whatever else the machine does only adds.
    let mut first = 0;
    let mut once = |times: &mut Times| -> Result<(), DigestError> {
        let digests = &mut digests[..times.count * digest.len()];
        // Each way follows each other one: after a kernel of another width the first messages take longer.
        first += 1;
        for turn in 0..work.len() {
            let way = (first + turn) % work.len();
            let seconds = work[way].time(&messages[..times.count], digests, digest.len())?;
            times.seconds[way] = times.seconds[way].min(seconds);
        }
        Ok(())
    };
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < 2 || start.elapsed() < time {
        counts.iter_mut().try_for_each(&mut once)?;
        rounds += 1;
    }
    for times in &mut counts {
        for _ in 0..TRIES {
            if times.better().is_none() {
                break;
            }
            once(times)?;
        }
    }
    Ok(Some(Ways { names, counts }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_better_that_is_much_faster() {
        let better = |seconds: [f64; 3]| Times { count: 2, seconds: seconds.to_vec() }.better();
        assert_eq!(better([1.0, 0.9, 2.0]), None);
        assert_eq!(better([2.0, 1.5, 1.0]), Some(2));
        assert_eq!(Times { count: 2, seconds: vec![1.0, 2.0] }.rate(1), LENGTH as f64);
    }

    #[test]
    fn every_level_is_measured() {
        let digest = Digest::find("sha256").unwrap();
        let ways = measure(&digest, Level::best(), Duration::ZERO).unwrap();
        let Some((level, _)) = digest.batch_level() else { return assert!(ways.is_none()) };
        let ways = ways.unwrap();
        assert!(ways.names[CHOICE] == "batch" && ways.names.contains(&level.name()));
        assert!(ways.counts.iter().map(|times| times.count).eq(COUNTS));
        assert!(ways.counts.iter().all(|times| times.seconds.iter().all(|seconds| seconds.is_finite())));
        let blake3 = Digest::find("blake3").unwrap();
        assert!(measure(&blake3, Level::best(), Duration::ZERO).unwrap().is_none());
    }
}
