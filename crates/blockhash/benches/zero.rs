//! The speed of zero detection: of what is zeros to the end, where all must be read, in the caches and
//! in memory; and of what shows itself early, where the call itself is the cost.

#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use verisum_digest::Digest;

fn zero_detection(c: &mut Criterion) {
    let digest = Digest::find("null").unwrap();
    let mut group = c.benchmark_group("zero");
    group.sample_size(20);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(700));
    for (place, length) in
        [("L1", 16 << 10), ("L2", 64 << 10), ("L2", 512 << 10), ("L3", 8 << 20), ("memory", 256 << 20)]
    {
        // Pages that nobody has written are one and the same page.
        let mut memory = black_box(vec![1_u8; length + 4096]);
        memory.fill(0);
        let aligned = memory.as_ptr().align_offset(4096);
        group.throughput(Throughput::Bytes(length as u64));
        for (name, start) in [("aligned", aligned), ("unaligned", aligned + 1)] {
            let id = BenchmarkId::new(format!("zeros/{place}/{name}"), length);
            let zeros = &memory[start.min(memory.len() - length)..][..length];
            group.bench_function(id, |b| b.iter(|| digest.is_zero(black_box(zeros))));
        }
    }
    let mut block = vec![0_u8; 64 << 10];
    for (name, place) in [("first", 0), ("sector", 511), ("last", (64 << 10) - 1)] {
        block[place] = 1;
        group.throughput(Throughput::Elements(1));
        group
            .bench_function(BenchmarkId::new("data", name), |b| b.iter(|| digest.is_zero(black_box(&block))));
        block[place] = 0;
    }
    group.finish();
}

criterion_group!(benches, zero_detection);
criterion_main!(benches);
