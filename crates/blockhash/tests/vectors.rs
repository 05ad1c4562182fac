//! Every vector of the Python reference, by every way into the hasher.

mod common;

use common::{Vector, vectors};
use verisum_blockhash::{Completion, Hasher, Params};
use verisum_digest::Digest;

fn params(vector: &Vector, threads: usize) -> Params {
    let digest = Digest::find(&vector.digest).unwrap();
    Params::new(digest).block_size(vector.block_size).unwrap().threads(threads).unwrap()
}

#[test]
fn one_update() {
    for vector in vectors() {
        let data = vector.content();
        for threads in [1, 3] {
            let mut hasher = Hasher::new(&params(&vector, threads)).unwrap();
            hasher.update(&data).unwrap();
            assert_eq!(hasher.finish().unwrap().to_string(), vector.hex, "{vector:?}");
        }
    }
}

#[test]
fn data_and_zeros_apart_in_updates_of_odd_length() {
    for vector in vectors() {
        let data = vector.content();
        for threads in [1, 2] {
            let mut hasher = Hasher::new(&params(&vector, threads)).unwrap();
            let mut at = 0;
            for run in &vector.runs {
                let end = at + run.length;
                if run.zero {
                    hasher.zero(run.length as u64).unwrap();
                } else {
                    data[at..end].chunks(10_007).for_each(|chunk| hasher.update(chunk).unwrap());
                }
                at = end;
            }
            assert_eq!(hasher.finish().unwrap().to_string(), vector.hex, "{vector:?}");
        }
    }
}

#[test]
#[allow(unsafe_code)]
fn asynchronous_updates() {
    for (i, vector) in vectors().into_iter().enumerate() {
        let data = vector.content();
        let depth = 1 + i % 64;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1000);
        let notify = move || sender.try_send(()).unwrap();
        let mut hasher = Hasher::with_queue(&params(&vector, 1 + i % 5), depth, notify).unwrap();
        let mut in_flight = 0;
        for (token, chunk) in data.chunks(256 * 1024 + 4096 * (i % 3)).enumerate() {
            while in_flight == depth {
                receiver.recv().unwrap();
                let mut out = [Completion::default(); 3];
                let taken = hasher.completions(&mut out).unwrap();
                assert!(out[..taken].iter().all(|completion| !completion.failed));
                in_flight -= taken;
            }
            // SAFETY: `data` outlives the hasher.
            unsafe { hasher.submit(chunk, token) }.unwrap();
            in_flight += 1;
        }
        assert_eq!(hasher.finish().unwrap().to_string(), vector.hex, "{vector:?}");
        let mut out = [Completion::default(); 64];
        assert_eq!(hasher.completions(&mut out).unwrap(), in_flight);
    }
}

#[test]
fn sparse_messages_of_any_length() {
    for vector in common::sparse_vectors() {
        if vector.runs.iter().map(|run| run.length).sum::<usize>() > 1 << 40 {
            continue;
        }
        let mut hasher = Hasher::new(&params(&vector, 2)).unwrap();
        let mut at = 0;
        for run in &vector.runs {
            if run.zero {
                hasher.zero(run.length as u64).unwrap();
            } else {
                hasher.update(&common::data(at, run.length)).unwrap();
            }
            at += run.length;
        }
        assert_eq!(hasher.finish().unwrap().to_string(), vector.hex, "{vector:?}");
    }
}
