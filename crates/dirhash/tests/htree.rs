//! The htree model against directory sizes that the kernel gave.

use verisum_dirhash::bakeoff::{self, BakeoffQuestion};
use verisum_dirhash::htree::{Geometry, RemovalPolicy, SplitRule};
use verisum_dirhash::namehash::{NameHash, Seed};
use verisum_dirhash::names::Names;
use verisum_dirhash::steady::{self, NameTraffic};
use verisum_dirhash::{HashedDirectory, Hashing};

const SEED: &str = "11223344-5566-7788-99aa-bbccddeeff00";

fn hashing(id: &str) -> Hashing {
    Hashing { hash: NameHash::find(id).unwrap(), seed: Seed::parse(SEED).unwrap() }
}

fn creates(id: &str, names: &str, count: u32, geometry: Geometry) -> bakeoff::BakeoffAnswer {
    let names = Names::parse(names).unwrap();
    let question = BakeoffQuestion {
        names: &names,
        count,
        geometry,
        policy: RemovalPolicy::Never,
        split_rule: SplitRule::Size,
        points: 20,
    };
    bakeoff::run(&question, hashing(id))
}

#[test]
fn two_hundred_thousand_creates_give_the_kernels_sizes() {
    for (id, plain, checksums) in
        [("half_md4", 4_890_624, 4_964_352), ("legacy", 5_214_208, 5_246_976), ("tea", 4_886_528, 4_923_392)]
    {
        for (with, size) in [(false, plain), (true, checksums)] {
            let answer = creates(id, "foo%ld", 200_000, Geometry::new(4096, with, false).unwrap());
            assert_eq!(answer.directory_blocks * 4096, size, "{id}, checksums: {with}");
        }
    }
}

#[test]
fn the_threads_line_is_reproduced_with_names_of_one_width() {
    for (id, bytes) in [("half_md4", 2859), ("legacy", 2843), ("tea", 2869)] {
        let answer = creates(id, "foo%09ld", 200_000, Geometry::USUAL);
        assert_eq!(answer.fill.bytes_per_leaf().round() as u32, bytes, "{id}");
    }
}

#[test]
fn a_million_cycles_end_as_in_the_kernel() {
    let names = Names::parse("foo%d").unwrap();
    for (id, start, end) in [("half_md4", 65, 90), ("legacy", 59, 475), ("tea", 62, 85)] {
        let question = steady::SteadyQuestion {
            names: &names,
            count: 10_000,
            cycles: 1_000_000,
            traffic: NameTraffic::FirstInFirstOut,
            geometry: Geometry::USUAL,
            policy: RemovalPolicy::Never,
            split_rule: SplitRule::Size,
        };
        let answer = steady::run(&question, hashing(id), 0, &mut |_, _| {});
        assert_eq!((answer.start, answer.end, answer.names), (start, end, 10_000), "{id}");
    }
}

#[test]
fn every_policy_keeps_every_name() {
    let names = Names::parse("foo%d").unwrap();
    for policy in RemovalPolicy::ALL {
        for split_rule in [SplitRule::Size, SplitRule::Count] {
            let mut directory = HashedDirectory::with(
                hashing("half_md4"),
                Geometry::new(1024, true, false).unwrap(),
                policy,
                split_rule,
            );
            let mut name = Vec::new();
            let mut live = std::collections::BTreeSet::new();
            for step in steady::steps(NameTraffic::Random, 3000, 20_000) {
                match step {
                    steady::Step::Create(n) => {
                        directory.create(names.name(n.into(), &mut name), n).unwrap();
                        live.insert(n);
                    }
                    steady::Step::Delete(n) => {
                        assert!(directory.delete(names.name(n.into(), &mut name), n), "{policy:?} {n}");
                        live.remove(&n);
                    }
                }
            }
            // Nothing but deletes, until few are left: leaves are joined.
            for n in live.iter().copied().take(2900).collect::<Vec<_>>() {
                assert!(directory.delete(names.name(n.into(), &mut name), n), "{policy:?} {n}");
                live.remove(&n);
            }
            let mut before = 0;
            let mut found = std::collections::BTreeSet::new();
            for (_, key, records) in directory.tree.leaves() {
                assert!(key >= before, "{policy:?}: leaves are in the order of their keys");
                before = key;
                assert_eq!(records.iter().map(|record| record.length).sum::<u32>(), 1012);
                found.extend(records.iter().filter_map(|record| record.slot).map(|slot| slot.id));
            }
            assert_eq!(found, live, "{policy:?}");
            for &n in &live {
                let key = directory.hashing.key(names.name(n.into(), &mut name));
                assert!(directory.tree.lookup(key, n).1, "{policy:?} {n}");
            }
            let events = directory.tree.events();
            let blocks = directory.tree.blocks();
            match policy {
                RemovalPolicy::Never => assert_eq!((events.merges, events.rebuilds), (0, 0)),
                RemovalPolicy::Rebuild => assert!(events.rebuilds > 0 && blocks < 40, "{blocks}"),
                RemovalPolicy::SwapWithLast => assert!(events.merges > 0 && blocks < 40, "{blocks}"),
                RemovalPolicy::Coalesce | RemovalPolicy::FullnessBits => assert!(events.merges > 0),
            }
        }
    }
}

#[test]
fn a_full_index_is_where_it_was_predicted() {
    let answer = creates("half_md4", "foo%09d", 500_000, Geometry::new(1024, false, false).unwrap());
    assert!(answer.full);
    assert_eq!(answer.levels, 2);
    let ratio = answer.names as f64 / answer.limit.least_names;
    assert!((1.0..1.4).contains(&ratio), "{} of {}", answer.names, answer.limit.least_names);
    assert!((answer.names as f64) < answer.limit.most_names);
    let answer = creates("half_md4", "foo%09d", 500_000, Geometry::new(1024, false, true).unwrap());
    assert_eq!((answer.full, answer.levels), (false, 3));
}

#[test]
fn every_hash_and_block_size_works() {
    for row in verisum_dirhash::namehash::NAME_HASHES {
        for block_size in [1024, 2048, 16384, 65536] {
            let answer = creates(row.id, "foo%d", 5000, Geometry::new(block_size, true, true).unwrap());
            assert_eq!((answer.names, answer.full), (5000, false), "{}", row.id);
        }
    }
    assert!(Geometry::new(512, false, false).is_err());
    assert!(Geometry::new(131_072, false, false).is_err());
}
