//! Messages in pieces through the lanes equal OpenSSL, in bounded memory.

mod common;

use common::{input, kernels, openssl};
use proptest::prelude::*;
use verisum_kernels::{Feed, Kernel};

/// Messages in memory, given out in pieces of these sizes, over and over.
struct Script<'a> {
    messages: &'a [&'a [u8]],
    piece_sizes: &'a [usize],
    pieces: usize,
    /// Every message of this remainder modulo 7 is abandoned half way.
    abandoned: Option<usize>,
    next: usize,
    exhausted: bool,
    in_progress: usize,
    most_in_progress: usize,
    digests: Vec<Option<Option<Vec<u8>>>>,
}

impl<'a> Script<'a> {
    fn new(messages: &'a [&'a [u8]], piece_sizes: &'a [usize]) -> Self {
        Script {
            messages,
            piece_sizes,
            pieces: 0,
            abandoned: None,
            next: 0,
            exhausted: false,
            in_progress: 0,
            most_in_progress: 0,
            digests: vec![None; messages.len()],
        }
    }
}

impl Feed for Script<'_> {
    type Message = (usize, usize);

    fn next_message(&mut self) -> Option<(usize, usize)> {
        assert!(!self.exhausted, "not called again after None");
        if self.next == self.messages.len() {
            self.exhausted = true;
            return None;
        }
        self.next += 1;
        self.in_progress += 1;
        self.most_in_progress = self.most_in_progress.max(self.in_progress);
        Some((self.next - 1, 0))
    }

    fn read(&mut self, (index, offset): &mut (usize, usize), buffer: &mut [u8]) -> Option<usize> {
        let message = self.messages[*index];
        if self.abandoned == Some(*index % 7) && *offset >= message.len() / 2 {
            return None;
        }
        let size = self.piece_sizes[self.pieces % self.piece_sizes.len()].max(1);
        self.pieces += 1;
        let count = size.min(buffer.len()).min(message.len() - *offset);
        buffer[..count].copy_from_slice(&message[*offset..][..count]);
        *offset += count;
        Some(count)
    }

    fn done(&mut self, (index, offset): (usize, usize), digest: Option<&[u8]>) {
        self.in_progress -= 1;
        assert!(digest.is_none() || offset == self.messages[index].len());
        let before = self.digests[index].replace(digest.map(<[u8]>::to_vec));
        assert!(before.is_none(), "message {index} is done once");
    }
}

fn assert_feed(kernel: Kernel, script: &mut Script, buffer: &mut [u8]) {
    kernel.hash_feed(script, buffer);
    assert!(script.most_in_progress <= kernel.lanes());
    for (index, message) in script.messages.iter().enumerate() {
        let expected = if script.abandoned == Some(index % 7) {
            None
        } else {
            Some(openssl(kernel.algorithm(), message))
        };
        let what = format!("{kernel:?}: message {index} of {} bytes", message.len());
        assert_eq!(script.digests[index], Some(expected), "{what}");
    }
}

#[test]
fn lanes_are_refilled() {
    let bytes = input(40_000);
    let messages: Vec<&[u8]> = (0..101usize)
        .map(|i| match i % 5 {
            0 => &bytes[i..][..i * 3571 % 39_000],
            1 => &bytes[i..][..i % 4 * 64],
            2 => &bytes[..0],
            _ => &bytes[i..][..i * 613 % 3000],
        })
        .collect();
    for kernel in kernels() {
        for share in [1024, 1088, 4096] {
            let mut buffer = vec![0; share * kernel.lanes()];
            for abandoned in [None, Some(3)] {
                let mut script = Script::new(&messages, &[1 << 20, 7, 500, 64, 4096]);
                script.abandoned = abandoned;
                assert_feed(kernel, &mut script, &mut buffer);
            }
        }
    }
}

#[test]
fn few_messages_and_none() {
    let bytes = input(5000);
    for kernel in kernels() {
        let mut buffer = vec![0; 1024 * kernel.lanes() + 13];
        for count in 0..=kernel.lanes() + 1 {
            let messages: Vec<&[u8]> = (0..count).map(|i| &bytes[i..5000 - 100 * i]).collect();
            assert_feed(kernel, &mut Script::new(&messages, &[usize::MAX]), &mut buffer);
        }
    }
}

#[test]
#[should_panic(expected = "1 KiB for each lane")]
fn a_buffer_that_is_too_small() {
    let kernel = kernels()[0];
    kernel.hash_feed(&mut Script::new(&[], &[1]), &mut vec![0; 1024 * kernel.lanes() - 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn random_messages_in_random_pieces(
        lengths in prop::collection::vec(prop_oneof![0..300usize, 0..9000usize], 0..50),
        piece_sizes in prop::collection::vec(1..5000usize, 1..20),
        share in 1024..6000usize,
    ) {
        let bytes = input(9300);
        let messages: Vec<&[u8]> =
            lengths.iter().enumerate().map(|(i, &len)| &bytes[i..][..len]).collect();
        for kernel in kernels() {
            let mut buffer = vec![0; share * kernel.lanes()];
            assert_feed(kernel, &mut Script::new(&messages, &piece_sizes), &mut buffer);
        }
    }
}
