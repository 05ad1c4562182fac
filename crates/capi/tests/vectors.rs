//! Every vector of the reference, by every way into the C interface.

mod common;

use common::{Bench, Vector, text};

fn run(form: &str, schedule: &str, choice: impl Fn(&Vector) -> bool) {
    let Some(bench) = Bench::new() else { return };
    let (list, count) = bench.write_vectors("list", choice);
    let program = bench.compile("tests/c/vectors.c");
    let printed = text(bench.command(program).arg(list).args([form, schedule]));
    let hashes = if schedule == "sweep" { 64 * count } else { count };
    assert_eq!(printed, format!("{hashes} hashes\n"));
}

#[test]
fn updates() {
    run("simple", "rotate", |vector| !vector.sparse);
}

/// Also of messages of terabytes, except one with so many blocks that their digests alone are 8 GB.
#[test]
fn data_and_zeros_apart() {
    run("zero", "rotate", |vector| vector.length / vector.block_size < 1 << 26);
}

#[test]
fn asynchronous_updates() {
    run("aio", "rotate", |vector| !vector.sparse);
}

#[test]
fn all_by_turns() {
    run("mix", "rotate", |vector| !vector.sparse);
}

/// Messages longer than a batch with each number of threads, and most of them with each queue depth.
#[test]
fn every_number_of_threads() {
    for form in ["simple", "zero", "aio", "mix"] {
        run(form, "sweep", |vector| match vector.block_size {
            4096 => vector.length == 17 * 4096,
            65536 => vector.length == 33 * 65536 + 5 && vector.digest == "md5",
            _ => false,
        });
    }
}
