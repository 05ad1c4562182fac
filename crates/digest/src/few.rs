//! Chooses how to hash a few messages: one after the other with the fastest stream, or side by side with most lanes idle.
//! It measures both. The choice changes only the speed, never a value.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use verisum_kernels::{Kernel, Level};

use crate::error::DigestError;

/// How much of each message is hashed: it fits the nearest cache with few messages.
const LENGTH: usize = 4096;

/// How often; the best time counts, as whatever else the machine does only adds.
const TRIES: usize = 8;

/// More messages are always hashed side by side.
const MOST: usize = 16;

/// What was measured, by the name of the digest and the level: some tens at most.
static KNOWN: Mutex<Vec<((&str, Level), usize)>> = Mutex::new(Vec::new());

/// Hashes one message.
pub(crate) type HashAlone<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Result<(), DigestError>;

/// The most messages that are hashed sooner one after the other, 1 at least.
pub(crate) fn most_alone(
    name: &'static str,
    kernel: &Kernel,
    alone: HashAlone,
    digest_len: usize,
) -> Result<usize, DigestError> {
    let key = (name, kernel.level());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, most)) = known().iter().find(|(known, _)| *known == key) {
        return Ok(*most);
    }
    let most = measure(kernel, alone, digest_len)?;
    known().push((key, most));
    Ok(most)
}

fn measure(kernel: &Kernel, alone: HashAlone, digest_len: usize) -> Result<usize, DigestError> {
    let bytes = [0x5a; LENGTH];
    let messages = [&bytes[..]; MOST];
    let mut digests = vec![0; MOST * digest_len];
    let mut one = f64::INFINITY;
    for count in 2..=kernel.lanes().min(MOST) {
        let mut side_by_side = f64::INFINITY;
        // In turns, so that what else the machine does for a moment falls on both.
        for _ in 0..TRIES {
            let start = Instant::now();
            alone(black_box(&bytes), &mut digests[..digest_len])?;
            one = one.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            kernel.hash_batch(black_box(&messages[..count]), &mut digests[..count * digest_len]);
            side_by_side = side_by_side.min(start.elapsed().as_secs_f64());
        }
        if side_by_side <= one * count as f64 {
            return Ok(count - 1);
        }
    }
    Ok(kernel.lanes().min(MOST))
}
