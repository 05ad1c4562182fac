//! Random damage, and a model that says before what can be mended of it.

#![allow(clippy::print_stderr, reason = "a failure is repeated by its seed")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use common::{Tree, flip, quietly, unexpected};
use verisum_parity::{FileVerdict, Finding, ParityRepairOptions, ParityVerifyOptions, UpdateOptions};

/// What the model knows of a set: which bytes of which files it has, from the rule that files are laid one after the
/// other in the order of their paths.
struct ModelSet {
    block: u64,
    data: u64,
    parity: u64,
    path: PathBuf,
    /// Where the set begins in all the data.
    start: u64,
}

/// The sets by that rule. The sizes of blocks come from the files: where they are in a head is in docs/parity.md.
fn model_of(tree: &Tree, set_bytes: u64) -> Vec<ModelSet> {
    let total: u64 = tree.content.values().map(|bytes| bytes.len() as u64).sum();
    let mut sets: Vec<ModelSet> = tree
        .sets()
        .into_iter()
        .map(|path| {
            let head = fs::read(&path).unwrap();
            let number = |at: usize| u64::from(u32::from_le_bytes(head[at..at + 4].try_into().unwrap()));
            ModelSet { block: number(16), parity: number(20), data: number(32), path, start: 0 }
        })
        .collect();
    // Several threads number the sets as they finish: their order in the data is found by their first file.
    assert_eq!(sets.iter().map(|set| set.data).sum::<u64>(), total);
    assert!(sets.iter().all(|set| set.data <= set_bytes));
    for set in &mut sets {
        set.start = start_of(tree, set);
    }
    sets
}

/// Where a set begins, from the list in its head as the reference reads it: here by its digests, which is independent
/// of the list. The first part of a set is found among all the data.
fn start_of(tree: &Tree, set: &ModelSet) -> u64 {
    let head = fs::read(&set.path).unwrap();
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap()) as usize;
    let digests = 96 + number(64);
    let first = &head[digests..digests + 16];
    let mut start = 0;
    let blake3 = verisum_digest::Digest::find("blake3").unwrap();
    for bytes in tree.content.values() {
        let mut at = 0;
        while at < bytes.len() {
            let length = (bytes.len() - at).min(set.block as usize);
            if blake3.hash(&bytes[at..at + length]).unwrap().as_bytes()[..16] == *first {
                return start + at as u64;
            }
            at += 1;
            // Sets begin where files do or at multiples of the size of a set.
            let into = (start + at as u64) % SET;
            at += ((SET - into) % SET) as usize;
        }
        start += bytes.len() as u64;
    }
    panic!("no data of {}", set.path.display());
}

const SET: u64 = 64 << 10;

#[test]
fn exactly_what_the_model_says_can_be_mended_is() {
    let rounds = std::env::var("VERISUM_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap());
    let seed = std::env::var("VERISUM_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("VERISUM_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut mended, mut beyond) = (0, 0);
    for _ in 0..rounds {
        let redundancy = [20_000, 50_000, 100_000, 300_000, 1_000_000][random.usize(..5)];
        let tree = Tree::random(&mut random, 20, 40_000);
        tree.create(redundancy, Some(SET));
        let sets = model_of(&tree, SET);
        let mut lost: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); sets.len()];
        let mut parity_lost: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); sets.len()];
        let mut bad_files: BTreeSet<PathBuf> = BTreeSet::new();
        let mut sets_of_file: Vec<(PathBuf, BTreeSet<usize>)> = Vec::new();
        let starts: Vec<u64> = tree
            .content
            .values()
            .scan(0, |sum, bytes| {
                let start = *sum;
                *sum += bytes.len() as u64;
                Some(start)
            })
            .collect();
        let mut lose = |from: u64, to: u64| -> BTreeSet<usize> {
            let mut hit = BTreeSet::new();
            for byte in from..to {
                let at =
                    sets.iter().position(|set| (set.start..set.start + set.data).contains(&byte)).unwrap();
                lost[at].insert((byte - sets[at].start) / sets[at].block);
                hit.insert(at);
            }
            hit
        };
        for _ in 0..random.usize(1..12) {
            let at = random.usize(..tree.content.len());
            let (path, bytes) = tree.content.iter().nth(at).unwrap();
            let full = tree.path().join(path);
            if bytes.is_empty() || bad_files.contains(path) {
                continue;
            }
            let length = bytes.len() as u64;
            let (from, to) = match random.u8(..4) {
                0 => {
                    fs::remove_file(&full).unwrap();
                    (0, length)
                }
                1 => {
                    let left = random.u64(..length);
                    quietly(&full, |file| file.set_len(left).unwrap());
                    // A part that is cut anywhere is lost from its start.
                    (left, length)
                }
                _ => {
                    let byte = random.u64(..length);
                    flip(&full, byte);
                    (byte, byte + 1)
                }
            };
            bad_files.insert(path.clone());
            // A set in which it lost no byte need not give it anything, also if it is made anew.
            let hit = lose(starts[at] + from, starts[at] + to);
            sets_of_file.push((path.clone(), hit));
        }
        for (at, set) in sets.iter().enumerate() {
            if random.u8(..3) == 0 {
                let head = fs::read(&set.path).unwrap();
                let start = u64::from_le_bytes(head[72..80].try_into().unwrap());
                let block = random.u64(..set.parity);
                flip(&set.path, start + block * set.block + random.u64(..set.block));
                parity_lost[at].insert(block);
            }
        }
        let can = |at: usize| lost[at].len() + parity_lost[at].len() <= sets[at].parity as usize;
        let expected: BTreeSet<PathBuf> = sets_of_file
            .iter()
            .filter(|(_, sets)| sets.iter().all(|at| can(*at)))
            .map(|(path, _)| path.clone())
            .collect();
        let before = tree.now();
        // Looking says the same.
        let mut said = BTreeSet::new();
        let found =
            verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut |finding| {
                if let Finding::File(file) = finding {
                    match file.verdict {
                        FileVerdict::Damaged { can_be_repaired, .. }
                        | FileVerdict::Missing { can_be_repaired } => {
                            assert_eq!(
                                can_be_repaired,
                                expected.contains(&file.path),
                                "{}",
                                file.path.display()
                            );
                            said.insert(file.path);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
        assert_eq!(found.unwrap().files, tree.content.len() as u64);
        assert_eq!(said, bad_files);
        // So does a dry run, which changes nothing.
        let mut options = ParityRepairOptions::default();
        options.dry_run = true;
        let would = verisum_parity::repair(tree.path(), None, &options, &mut |_| {}).unwrap();
        assert_eq!(would.repaired, expected.len() as u64);
        assert!(tree.now() == before);
        let done =
            verisum_parity::repair(tree.path(), None, &ParityRepairOptions::default(), &mut |_| {}).unwrap();
        assert_eq!((done.repaired, done.not_repaired), (would.repaired, would.not_repaired), "seed {seed}");
        for (path, bytes) in &tree.content {
            let now = tree.now();
            match bad_files.contains(path) && !expected.contains(path) {
                // What cannot be mended is left as it is.
                true => assert_eq!(now.get(path), before.get(path)),
                false => assert!(now.get(path) == Some(bytes), "{}", path.display()),
            }
        }
        mended += expected.len();
        beyond += bad_files.len() - expected.len();
        if expected.len() == bad_files.len() {
            tree.assert_whole();
            // The parity is whole again too.
            verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut unexpected)
                .unwrap();
        }
    }
    eprintln!("{mended} mended, {beyond} beyond repair");
    assert!(mended > rounds / 2 && beyond > rounds / 4, "{mended} {beyond}");
}

#[test]
fn random_changes_and_updates_keep_everything_mendable() {
    let seed = std::env::var("VERISUM_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("VERISUM_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..6 {
        let mut tree = Tree::random(&mut random, 12, 60_000);
        tree.create(100_000, Some(SET));
        for step in 0..6 {
            let paths: Vec<PathBuf> = tree.content.keys().cloned().collect();
            for _ in 0..random.usize(1..4) {
                let path = &paths[random.usize(..paths.len())];
                match random.u8(..3) {
                    0 if tree.content.len() > 3 => {
                        let _ = fs::remove_file(tree.path().join(path));
                        tree.content.remove(path);
                    }
                    1 => {
                        let bytes = common::bytes(&mut random, step * 3000);
                        tree.write(path, &bytes);
                        tree.content.insert(path.clone(), bytes);
                    }
                    _ => {
                        let path = PathBuf::from(format!("new/{step}-{}", random.u8(..)));
                        let length = random.usize(..100_000);
                        let bytes = common::bytes(&mut random, length);
                        tree.write(&path, &bytes);
                        tree.content.insert(path, bytes);
                    }
                }
            }
            verisum_parity::update(tree.path(), None, &UpdateOptions::default(), &mut unexpected).unwrap();
            let verify = |tree: &Tree| {
                verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut unexpected)
                    .unwrap()
            };
            assert_eq!(verify(&tree).files, tree.content.len() as u64);
            let Some((path, bytes)) = tree.content.iter().find(|(_, bytes)| !bytes.is_empty()) else {
                continue;
            };
            flip(&tree.path().join(path), random.u64(..bytes.len() as u64));
            let done =
                verisum_parity::repair(tree.path(), None, &ParityRepairOptions::default(), &mut |_| {})
                    .unwrap();
            assert_eq!((done.repaired, done.not_repaired), (1, 0), "seed {seed}");
            tree.assert_whole();
            // Another update finds nothing to do.
            let again = verisum_parity::update(tree.path(), None, &UpdateOptions::default(), &mut unexpected)
                .unwrap();
            assert_eq!(again.sets_written, 0);
        }
    }
}
