//! Every level agrees with the portable one, on so little input that an
//! interpreter such as Miri gets through it. OpenSSL, which it could not call,
//! has no part in this.

use verisum_kernels::{Algorithm, Feed, Kernel, Level, is_zero_at};

/// A whole block and a few bytes, a part of a block, and nothing.
const LENGTHS: [usize; 3] = [141, 20, 0];

fn messages(bytes: &[u8], count: usize) -> Vec<&[u8]> {
    (0..count).map(|i| &bytes[i..i + LENGTHS[i % 3]]).collect()
}

/// Hashes one message after another with the portable level, in two pieces.
fn portable(algorithm: Algorithm, messages: &[&[u8]]) -> Vec<u8> {
    let mut single = Kernel::best(algorithm, Level::Portable).single();
    let mut digests = vec![0; messages.len() * algorithm.digest_len()];
    for (message, digest) in messages.iter().zip(digests.chunks_mut(algorithm.digest_len())) {
        let (first, second) = message.split_at(message.len() / 3);
        single.update(first);
        single.update(second);
        single.finish_into_and_reset(digest);
    }
    digests
}

fn kernels() -> impl Iterator<Item = Kernel> {
    let pairs = Algorithm::ALL.iter().flat_map(|&a| Level::ALL.iter().map(move |&l| (a, l)));
    // Miri knows the instructions for SHA-256, but not those for SHA-1.
    let known = |&(algorithm, level): &(Algorithm, Level)| {
        !(cfg!(miri) && algorithm == Algorithm::Sha1 && level == Level::ShaNi)
    };
    pairs.filter(known).filter_map(|(algorithm, level)| Kernel::at(algorithm, level))
}

#[test]
fn batches() {
    let bytes: Vec<u8> = (0..200).map(|i| i as u8).collect();
    for kernel in kernels() {
        let messages = messages(&bytes, kernel.lanes() + 1);
        let expected = portable(kernel.algorithm(), &messages);
        let mut digests = vec![0; expected.len()];
        kernel.hash_batch(&messages, &mut digests);
        assert_eq!(digests, expected, "{kernel:?}");
    }
}

struct List<'a> {
    messages: &'a [&'a [u8]],
    next: usize,
    digests: Vec<u8>,
}

impl<'a> Feed for List<'a> {
    type Message = (usize, &'a [u8]);

    fn next_message(&mut self) -> Option<Self::Message> {
        let message = self.messages.get(self.next)?;
        self.next += 1;
        Some((self.next - 1, message))
    }

    fn read(&mut self, (_, rest): &mut Self::Message, buffer: &mut [u8]) -> Option<usize> {
        let (first, second) = rest.split_at(rest.len().min(buffer.len()).min(50));
        buffer[..first.len()].copy_from_slice(first);
        *rest = second;
        Some(first.len())
    }

    fn done(&mut self, (index, _): Self::Message, digest: Option<&[u8]>) {
        let digest = digest.expect("nothing is abandoned");
        self.digests[index * digest.len()..][..digest.len()].copy_from_slice(digest);
    }
}

#[test]
fn feeds() {
    let bytes: Vec<u8> = (0..200).map(|i| i as u8).collect();
    // The same for every algorithm, so one of each word size will do.
    let some = [Algorithm::Sha1, Algorithm::Blake2b512];
    for kernel in kernels().filter(|k| some.contains(&k.algorithm())) {
        let messages = messages(&bytes, kernel.lanes() + 1);
        let expected = portable(kernel.algorithm(), &messages);
        let mut list = List { messages: &messages, next: 0, digests: vec![0; expected.len()] };
        kernel.hash_feed(&mut list, &mut vec![0; 1024 * kernel.lanes()]);
        assert_eq!(list.digests, expected, "{kernel:?}");
    }
}

#[test]
fn zeros() {
    let mut bytes = [0; 300];
    for &level in Level::ALL.iter().filter(|level| level.available()) {
        for len in [0, 1, 63, 64, 255, 256, 299] {
            assert_eq!(is_zero_at(level, &bytes[1..1 + len]), Some(true));
            if len > 0 {
                bytes[len] = 1;
                assert_eq!(is_zero_at(level, &bytes[1..1 + len]), Some(false));
                bytes[len] = 0;
            }
        }
    }
}
