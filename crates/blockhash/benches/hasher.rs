//! The speed of `Hasher`: what it is fed with, by which calls, with how many threads.
//!
//! `cargo bench -p verisum-blockhash --bench hasher -- sync/sha256` runs a part. Every benchmark hashes
//! 128 MiB, more than the caches hold, in pieces of 256 KiB, as programs that read a disk image do.
//! `null` is the engine alone. In `holes`, every second MiB is not given as bytes.

#![allow(missing_docs, unsafe_code)]

use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use verisum_blockhash::{Completion, Hasher, Params};
use verisum_digest::{Digest, Output};

const LENGTH: usize = 128 << 20;
const PIECE: usize = 256 << 10;
const HOLE: usize = 1 << 20;
const QUEUE_DEPTH: usize = 16;

fn params(digest: &str, threads: usize) -> Params {
    Params::new(Digest::find(digest).unwrap()).threads(threads).unwrap()
}

fn bytes() -> Vec<u8> {
    (0..LENGTH).map(|i| (i % 251 + 1) as u8).collect()
}

/// Zeros in memory of their own: pages that nobody has written are one and the same page.
fn zeros() -> Vec<u8> {
    let mut zeros = black_box(vec![1; LENGTH]);
    zeros.fill(0);
    zeros
}

fn synchronous(params: &Params, message: &[u8]) -> Output {
    let mut hasher = Hasher::new(params).unwrap();
    message.chunks(PIECE).for_each(|piece| hasher.update(piece).unwrap());
    hasher.finish().unwrap()
}

fn with_holes(params: &Params, message: &[u8]) -> Output {
    let mut hasher = Hasher::new(params).unwrap();
    for data in message.chunks(2 * HOLE) {
        data[..HOLE].chunks(PIECE).for_each(|piece| hasher.update(piece).unwrap());
        hasher.zero(HOLE as u64).unwrap();
    }
    hasher.finish().unwrap()
}

fn asynchronous(params: &Params, message: &[u8]) -> Output {
    let bell = Arc::new((Mutex::new(false), Condvar::new()));
    let rung = bell.clone();
    let notify = move || {
        *rung.0.lock().unwrap() = true;
        rung.1.notify_one();
    };
    let mut hasher = Hasher::with_queue(params, QUEUE_DEPTH, notify).unwrap();
    let mut in_flight = 0;
    for (token, piece) in message.chunks(PIECE).enumerate() {
        while in_flight == QUEUE_DEPTH {
            *bell.1.wait_while(bell.0.lock().unwrap(), |ringing| !*ringing).unwrap() = false;
            let mut out = [Completion::default(); QUEUE_DEPTH];
            let taken = hasher.completions(&mut out).unwrap();
            assert!(!out[..taken].iter().any(|completion| completion.failed));
            in_flight -= taken;
        }
        // SAFETY: the message outlives the hasher.
        unsafe { hasher.submit(piece, token) }.unwrap();
        in_flight += 1;
    }
    hasher.finish().unwrap()
}

fn hasher(c: &mut Criterion) {
    let (data, zeros) = (bytes(), zeros());
    let mut group = c.benchmark_group("hasher");
    group.throughput(Throughput::Bytes(LENGTH as u64)).sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1000));
    for digest in ["null", "sha256", "blake3", "md5"] {
        for threads in [1, 2] {
            let params = params(digest, threads);
            type Run = fn(&Params, &[u8]) -> Output;
            let runs: [(&str, &str, Run, &[u8]); 5] = [
                ("sync", "data", synchronous, &data),
                ("sync", "zeros", synchronous, &zeros),
                ("sync", "holes", with_holes, &data),
                ("async", "data", asynchronous, &data),
                ("async", "zeros", asynchronous, &zeros),
            ];
            for (calls, content, run, message) in runs {
                let id = BenchmarkId::new(format!("{calls}/{digest}/{content}"), threads);
                group.bench_function(id, |b| b.iter(|| run(&params, message)));
            }
        }
    }
    group.finish();
}

criterion_group!(benches, hasher);
criterion_main!(benches);
