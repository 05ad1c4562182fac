//! The htree model against the kernel: a mounted ext4, its directory sizes and its leaves.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use verisum_dirhash::htree::Geometry;
use verisum_dirhash::namehash::{NAME_HASHES, Seed};
use verisum_dirhash::names::Names;
use verisum_dirhash::steady::{NameTraffic, Step, steps};
use verisum_dirhash::{HashedDirectory, Hashing};
use verisum_testkit::{FsKind, Mount, require_tool};

const SEED: &str = "11223344-5566-7788-99aa-bbccddeeff00";

/// An empty directory `d` on a fresh ext4 with this hash, and its model.
fn mounted(version: usize) -> Option<(Mount, HashedDirectory)> {
    let debugfs = require_tool("debugfs")?;
    let dumpe2fs = require_tool("dumpe2fs")?;
    let mut mount = Mount::new(FsKind::Ext4, 96 << 20)?;
    let mut checksums = false;
    mount.edit_image(|image| {
        let requests = [
            format!("ssv hash_seed {SEED}"),
            format!("ssv def_hash_version {}", NAME_HASHES[version % 3].id),
            format!("ssv flags {}", if version < 3 { 1 } else { 2 }),
        ];
        for request in requests {
            assert!(
                Command::new(&debugfs).args(["-w", "-R", &request]).arg(image).status().unwrap().success()
            );
        }
        let out = Command::new(&dumpe2fs).arg("-h").arg(image).output().unwrap().stdout;
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(SEED), "{out}");
        checksums = out.contains("metadata_csum");
    });
    std::fs::create_dir(mount.path().join("d")).unwrap();
    let hashing = Hashing { hash: &NAME_HASHES[version], seed: Seed::parse(SEED).unwrap() };
    Some((mount, HashedDirectory::new(hashing, Geometry::new(4096, checksums, false).unwrap())))
}

/// Links instead of files: a directory does not care, and few inodes are needed.
struct Links {
    root: std::path::PathBuf,
    made: u64,
}

impl Links {
    /// ext4 allows 65,000 a file.
    const EACH: u64 = 64_000;

    fn create(&mut self, name: &str) {
        let target = self.root.join(format!("target{}", self.made / Links::EACH));
        if self.made.is_multiple_of(Links::EACH) {
            std::fs::write(&target, "").unwrap();
        }
        self.made += 1;
        std::fs::hard_link(target, self.root.join("d").join(name)).unwrap();
    }

    fn blocks(&self) -> u64 {
        std::fs::metadata(self.root.join("d")).unwrap().len() / 4096
    }
}

/// Runs the steps on both; compares their lengths every so many.
fn replay(
    version: usize,
    traffic: NameTraffic,
    count: u32,
    cycles: u64,
    every: usize,
) -> Option<(Mount, HashedDirectory)> {
    let (mount, mut directory) = mounted(version)?;
    let mut links = Links { root: mount.path(), made: 0 };
    let names = Names::parse("foo%d").unwrap();
    let mut buffer = Vec::new();
    let mut name = |number: u32| names.name(number.into(), &mut buffer).to_vec();
    for (at, step) in steps(traffic, count, cycles).enumerate() {
        match step {
            Step::Create(number) => {
                let name = name(number);
                links.create(std::str::from_utf8(&name).unwrap());
                directory.create(&name, number).unwrap();
            }
            Step::Delete(number) => {
                let name = name(number);
                std::fs::remove_file(mount.path().join("d").join(std::str::from_utf8(&name).unwrap()))
                    .unwrap();
                assert!(directory.delete(&name, number));
            }
        }
        if (at + 1).is_multiple_of(every) {
            assert_eq!(directory.tree.blocks(), links.blocks(), "{} after {at}", directory.hashing.hash.id);
        }
    }
    assert_eq!(directory.tree.blocks(), links.blocks(), "{} at the end", directory.hashing.hash.id);
    Some((mount, directory))
}

#[test]
fn two_hundred_thousand_creates_are_as_long_as_the_kernels() {
    for version in 0..3 {
        if replay(version, NameTraffic::FirstInFirstOut, 200_000, 0, 10_000).is_none() {
            return;
        }
    }
}

#[test]
fn a_steady_state_is_the_kernels_at_every_checkpoint() {
    // All six: with signed characters and without. Names are ASCII: both give the same directory.
    for version in 0..6 {
        for traffic in [NameTraffic::FirstInFirstOut, NameTraffic::Random] {
            if replay(version, traffic, 2000, 6000, 500).is_none() {
                return;
            }
        }
    }
}

/// A million cycles; minutes.
#[test]
#[ignore = "takes minutes; cargo test --release -p verisum-dirhash --test htree_mounted -- --ignored"]
fn a_million_cycles_are_the_kernels_at_every_checkpoint() {
    for version in 0..3 {
        for traffic in [NameTraffic::FirstInFirstOut, NameTraffic::Random] {
            replay(version, traffic, 10_000, 1_000_000, 10_000).expect("root and tools");
        }
    }
}

#[test]
fn leaves_are_the_kernels_record_by_record() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    let names = Names::parse("foo%d").unwrap();
    for version in 0..3 {
        let Some((mut mount, directory)) = replay(version, NameTraffic::Random, 3000, 3000, 1000) else {
            return;
        };
        mount.edit_image(|image| {
            let dumped = dump(&debugfs, image);
            let mut leaves = 0;
            for (block, _, records) in directory.tree.leaves() {
                let mut name = Vec::new();
                let wanted: Vec<(String, u32)> = records
                    .iter()
                    .filter_map(|record| Some((record.slot?, record.length)))
                    .map(|(slot, length)| {
                        let name = names.name(slot.id.into(), &mut name);
                        (String::from_utf8(name.to_vec()).unwrap(), length)
                    })
                    .collect();
                assert_eq!(dumped[&block], wanted, "{} block {block}", directory.hashing.hash.id);
                leaves += 1;
            }
            assert_eq!(dumped.len(), leaves);
        });
    }
}

/// The names and record lengths of each leaf, as debugfs prints them.
fn dump(debugfs: &Path, image: &Path) -> HashMap<u32, Vec<(String, u32)>> {
    let out = Command::new(debugfs).args(["-R", "htree_dump /d"]).arg(image).output().unwrap().stdout;
    let out = String::from_utf8(out).unwrap();
    let mut leaves: HashMap<u32, Vec<(String, u32)>> = HashMap::new();
    let mut leaf = None;
    for line in out.lines() {
        if let Some(rest) = line.strip_prefix("Reading directory block ") {
            let block = rest.split(',').next().unwrap().parse().unwrap();
            leaves.entry(block).or_default();
            leaf = Some(block);
        } else if line.starts_with("Entry #") || line.starts_with("Number of") {
            leaf = None;
        } else if let Some(block) = leaf {
            // 13 0x438e178e-dd654378 (12) foo1   13 ...
            let words: Vec<&str> = line.split_whitespace().collect();
            // A dead first record has no name.
            for record in words.windows(4).filter(|words| words[3].starts_with("foo")) {
                let length = record[2].trim_matches(['(', ')']).parse().unwrap();
                leaves.get_mut(&block).unwrap().push((record[3].to_string(), length));
            }
        }
    }
    leaves
}
