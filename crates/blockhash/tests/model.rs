//! Any sequence of calls on a `Hasher` gives the block hash of the bytes they stand for.

mod common;

use common::definition::block_hash;
use proptest::prelude::*;
use verisum_blockhash::{BlockHashError, Completion, Hasher, Params};
use verisum_digest::Digest;

/// One call, as a test draws it.
#[derive(Clone, Debug)]
enum Call {
    Update(usize),
    Zero(usize),
    /// Zeros that arrive as data.
    ZeroData(usize),
    Submit(usize),
    TakeCompletions,
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0usize..2000,
        2 => prop::sample::select(vec![511, 512, 513, 1024, 4096, 8192, 65_536, 131_072]),
        1 => 0usize..3_000_000,
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => length().prop_map(Call::Update),
        2 => length().prop_map(Call::Zero),
        1 => length().prop_map(Call::ZeroData),
        2 => length().prop_map(Call::Submit),
        1 => Just(Call::TakeCompletions),
    ]
}

/// Cuts the next `len` bytes of the message that a list of calls stands for.
fn content(calls: &[Call]) -> Vec<u8> {
    let mut message = Vec::new();
    for call in calls {
        match *call {
            Call::Update(len) | Call::Submit(len) => message.extend(common::data(message.len(), len)),
            Call::Zero(len) | Call::ZeroData(len) => message.resize(message.len() + len, 0),
            Call::TakeCompletions => {}
        }
    }
    message
}

#[allow(unsafe_code)]
fn run(calls: &[Call], params: &Params, message: &[u8]) -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut hasher = Hasher::with_queue(params, 4, move || sender.send(()).unwrap()).unwrap();
    let mut at = 0;
    let mut submitted = 0;
    let mut completed = Vec::new();
    let mut take = |hasher: &Hasher| {
        let mut out = [Completion::default(); 2];
        let taken = hasher.completions(&mut out).unwrap();
        completed.extend(out[..taken].iter().map(|completion| completion.token));
        taken
    };
    for call in calls {
        match *call {
            Call::Update(len) | Call::ZeroData(len) => {
                hasher.update(&message[at..at + len]).unwrap();
                at += len;
            }
            Call::Zero(len) => {
                hasher.zero(len as u64).unwrap();
                at += len;
            }
            Call::Submit(len) => {
                // SAFETY: `message` outlives the hasher.
                while let Err(error) = unsafe { hasher.submit(&message[at..at + len], submitted) } {
                    assert!(matches!(error, BlockHashError::QueueFull), "{error}");
                    receiver.recv().unwrap();
                    take(&hasher);
                }
                submitted += 1;
                at += len;
            }
            Call::TakeCompletions => {
                take(&hasher);
            }
        }
    }
    let hash = hasher.finish().unwrap();
    while take(&hasher) > 0 {}
    completed.sort_unstable();
    assert_eq!(completed, (0..submitted).collect::<Vec<_>>(), "every update completes once");
    hash.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_calls_give_the_defined_value(
        calls in prop::collection::vec(call(), 0..12),
        block_size in prop::sample::select(vec![2u32, 512, 1000, 4096, 65_536]),
        threads in 1usize..5,
        digest in prop::sample::select(vec!["sha256", "md5", "sha3-256", "crc32c", "null"]),
    ) {
        let message = content(&calls);
        // A block size of two bytes makes a digest of every two bytes; keep those messages short.
        prop_assume!(block_size >= 512 || message.len() < 20_000);
        let digest = Digest::find(digest).unwrap();
        let params = Params::new(digest.clone()).block_size(block_size).unwrap().threads(threads).unwrap();
        let expected = block_hash(&digest, block_size as usize, &message).to_string();
        prop_assert_eq!(run(&calls, &params, &message), expected);
    }
}

#[test]
fn updates_large_enough_to_be_hashed_in_place() {
    let digest = Digest::find("sha256").unwrap();
    let message = common::data(0, 9_999_999);
    let expected = block_hash(&digest, 65_536, &message);
    for threads in 1..=4 {
        let params = Params::new(digest.clone()).threads(threads).unwrap();
        for first in [0, 1, 65_536, 100_000] {
            let mut hasher = Hasher::new(&params).unwrap();
            hasher.update(&message[..first]).unwrap();
            hasher.update(&message[first..]).unwrap();
            assert_eq!(hasher.finish().unwrap(), expected, "{threads} threads after {first} bytes");
        }
    }
}

/// Blocks longer than a worker's buffer are hashed piece by piece.
#[test]
fn blocks_too_long_to_be_held() {
    const BLOCK: usize = 48 << 20;
    let digest = Digest::find("crc32c").unwrap();
    let params = Params::new(digest.clone()).block_size(BLOCK as u32).unwrap();
    let mut message = vec![0; 2 * BLOCK];
    message.extend(common::data(5, BLOCK));
    message[BLOCK + 1000] = 7;
    message.truncate(3 * BLOCK - 12_345);
    let expected = block_hash(&digest, BLOCK, &message);
    let mut hasher = Hasher::new(&params).unwrap();
    hasher.zero(BLOCK as u64 + 1000).unwrap();
    hasher.update(&message[BLOCK + 1000..BLOCK + 1001]).unwrap();
    hasher.zero(BLOCK as u64 - 1001).unwrap();
    message[2 * BLOCK..].chunks(7_000_001).for_each(|chunk| hasher.update(chunk).unwrap());
    assert_eq!(hasher.finish().unwrap(), expected);
    let mut hasher = Hasher::new(&params).unwrap();
    hasher.update(&message).unwrap();
    assert_eq!(hasher.finish().unwrap(), expected);
}

#[test]
fn a_finished_hasher_takes_nothing_more() {
    let mut hasher = Hasher::new(&Params::new(Digest::find("sha256").unwrap())).unwrap();
    hasher.finish().unwrap();
    assert!(matches!(hasher.finish(), Err(BlockHashError::Finished)));
    assert!(matches!(hasher.update(b"x"), Err(BlockHashError::Finished)));
    assert!(matches!(hasher.zero(1), Err(BlockHashError::Finished)));
}

#[test]
fn a_length_beyond_64_bits_fails_for_good() {
    let params = Params::new(Digest::find("null").unwrap()).block_size(1 << 30).unwrap();
    let mut hasher = Hasher::new(&params).unwrap();
    hasher.zero(u64::MAX).unwrap();
    assert!(matches!(hasher.zero(1), Err(BlockHashError::TooLong)));
    assert!(matches!(hasher.update(b""), Err(BlockHashError::TooLong)));
    assert!(matches!(hasher.finish(), Err(BlockHashError::TooLong)));
}

#[test]
fn wrong_parameters_are_refused() {
    let params = || Params::new(Digest::find("sha256").unwrap());
    for size in [0, 1, 511, u32::MAX] {
        assert!(matches!(params().block_size(size), Err(BlockHashError::BlockSize(_))), "{size}");
    }
    for threads in [0, 129] {
        assert!(matches!(params().threads(threads), Err(BlockHashError::Threads(_))), "{threads}");
    }
}

/// Dropping a hasher ends its use of the caller's bytes; under a memory checker this test shows it.
#[test]
#[allow(unsafe_code)]
fn dropping_with_updates_in_flight_is_safe() {
    for _ in 0..50 {
        let params = Params::new(Digest::find("sha256").unwrap()).threads(3).unwrap();
        let data = vec![1; 4 << 20];
        let mut hasher = Hasher::with_queue(&params, 8, || {}).unwrap();
        for token in 0..8 {
            // SAFETY: the hasher is dropped before the data.
            unsafe { hasher.submit(&data, token) }.unwrap();
        }
        drop(hasher);
    }
}

/// Whoever is told of completions may panic: the hash does not depend on it, and nothing waits for ever.
#[test]
#[allow(unsafe_code)]
fn a_panic_of_whoever_is_notified_changes_nothing() {
    let data = common::data(0, 1 << 20);
    let digest = Digest::find("sha256").unwrap();
    let expected = block_hash(&digest, 65_536, &data.repeat(16));
    for threads in [1, 3] {
        let params = Params::new(digest.clone()).threads(threads).unwrap();
        let mut hasher = Hasher::with_queue(&params, 8, || panic!("on purpose")).unwrap();
        for token in 0..8 {
            // SAFETY: the hasher is dropped before the data.
            unsafe { hasher.submit(&data, token) }.unwrap();
            hasher.update(&data).unwrap();
        }
        assert_eq!(hasher.finish().unwrap(), expected);
    }
}
