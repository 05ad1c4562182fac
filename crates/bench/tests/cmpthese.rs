//! Our matrix beside the one that Perl's Benchmark prints of the same counts and times.

use std::process::Command;

use proptest::prelude::*;
use verisum_bench::files::{Timing, cmpthese};
use verisum_testkit::require_tool;

/// Makes Benchmark's objects out of its arguments (name, count, seconds), and has them compared.
const ORACLE: &str = r#"use Benchmark qw(cmpthese);
my %all;
while (my ($name, $count, $seconds) = splice @ARGV, 0, 3) {
    $all{$name} = bless [0, 0, 0, $seconds, 0, $count], "Benchmark";
}
cmpthese(\%all);"#;

fn oracle(perl: &std::path::Path, timings: &[Timing]) -> String {
    let mut command = Command::new(perl);
    command.arg("-e").arg(ORACLE).env("LC_ALL", "C");
    for timing in timings {
        command.args([&timing.name, &timing.count.to_string(), &format!("{:e}", timing.seconds)]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether the perl that was found has its modules: some distributions keep these in other packages.
fn benchmark(perl: &std::path::Path) -> bool {
    let has = Command::new(perl).args(["-MBenchmark", "-e1"]).output().unwrap().status.success();
    if !has {
        verisum_testkit::skip("perl has no module Benchmark");
    }
    has
}

fn timings() -> impl Strategy<Value = Vec<Timing>> {
    let one = (1usize..24, 1u64..2000, -7i32..5, 1.0..10.0f64);
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let named = all.into_iter().enumerate().map(|(place, (length, count, power, seconds))| Timing {
            // Unique, since names are keys for Benchmark.
            name: format!("{place}{}", "n".repeat(length)),
            count,
            seconds: seconds * 10f64.powi(power),
        });
        named.collect()
    })
}

#[test]
fn the_matrix_is_that_of_perl() {
    let Some(perl) = require_tool("perl") else { return };
    if !benchmark(&perl) {
        return;
    }
    proptest!(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() },
        |(timings in timings())| {
        prop_assert_eq!(cmpthese(&timings), oracle(&perl, &timings));
    });
    let fixed = |name: &str, count, seconds| Timing { name: name.to_string(), count, seconds };
    for timings in [
        vec![fixed("alone", 10, 0.5)],
        vec![fixed("nothing", 10, 0.0), fixed("something", 10, 1.0)],
        vec![fixed("script", 10, 32.7), fixed("addfile", 10, 23.1), fixed("md5sum", 10, 20.1)],
        vec![fixed("a", 1, 1.0), fixed("name longer than the others, by far", 1, 1.001)],
    ] {
        assert_eq!(cmpthese(&timings), oracle(&perl, &timings));
    }
}
