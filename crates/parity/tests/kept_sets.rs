//! Sets that an update keeps for the sake of damaged files: what is said of these, and what old records in the sets do.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Content, Tree, flip};
use verisum_parity::{
    FileVerdict, Finding, ParityRepairOptions, ParityVerifyOptions, USUAL_PLACE, UpdateOptions, Verified,
};
use verisum_testkit::require_tool;

fn tree(files: &[(&str, usize)]) -> Tree {
    let mut random = fastrand::Rng::with_seed(41);
    let file = |(name, length): &(&str, usize)| (PathBuf::from(name), common::bytes(&mut random, *length));
    Tree::new(files.iter().map(file).collect::<Content>())
}

/// Updates the parity; returns of each damaged file whether it can be repaired.
fn update(tree: &Tree) -> Vec<(PathBuf, bool)> {
    let mut damaged = Vec::new();
    let report = &mut |finding| match finding {
        Finding::File(file) => match file.verdict {
            FileVerdict::Damaged { can_be_repaired, .. } => damaged.push((file.path, can_be_repaired)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    verisum_parity::update(tree.path(), None, &UpdateOptions::default(), report).unwrap();
    damaged
}

fn verify(tree: &Tree) -> (Verified, Vec<(PathBuf, &'static str)>) {
    let mut found = Vec::new();
    let report = &mut |finding| match finding {
        Finding::File(file) => found.push((file.path, file.verdict.name())),
        other => panic!("{other:?}"),
    };
    let totals = verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), report).unwrap();
    (totals, found)
}

#[test]
fn an_update_says_whether_a_damaged_file_can_be_repaired() {
    // Of the blocks of the set a tenth may be lost: those of the short file that changed are, too.
    for (flips, can_be_repaired) in [(1, true), (30, false)] {
        let tree = tree(&[("long", 60_000), ("short", 500)]);
        tree.create(100_000, None);
        (0..flips).for_each(|at| flip(&tree.path().join("long"), at * 2000));
        tree.write(Path::new("short"), b"changed");
        assert_eq!(update(&tree), [(PathBuf::from("long"), can_be_repaired)], "{flips}");
        let (totals, found) = verify(&tree);
        assert_eq!(found, [(PathBuf::from("long"), "damaged")]);
        assert_eq!(totals.beyond_repair, u64::from(!can_be_repaired));
    }
}

#[test]
fn a_file_in_several_sets_can_be_repaired_if_all_of_them_give_it() {
    // Most damage is in the second set; a little is in the last one, which what changed shares.
    for (flips, can_be_repaired) in [(1, true), (60, false)] {
        let tree = tree(&[("long", 240_000), ("short", 500)]);
        tree.create(100_000, Some(64 << 10));
        (0..flips).for_each(|at| flip(&tree.path().join("long"), 66_000 + at * 1024));
        flip(&tree.path().join("long"), 239_000);
        tree.write(Path::new("short"), b"changed");
        assert_eq!(update(&tree), [(PathBuf::from("long"), can_be_repaired)], "{flips}");
    }
}

#[test]
fn of_a_file_that_a_kept_set_has_only_the_newest_record_counts() {
    let mut tree = tree(&[("bad", 60_000), ("changes", 500), ("same", 60_000)]);
    tree.create(100_000, None);
    (0..30).for_each(|at| flip(&tree.path().join("bad"), at * 2000));
    let mut random = fastrand::Rng::with_seed(42);
    for _ in 0..2 {
        tree.content.insert("changes".into(), common::bytes(&mut random, 600));
        tree.write(Path::new("changes"), &tree.content[Path::new("changes")]);
        update(&tree);
        let (totals, found) = verify(&tree);
        assert_eq!(found, [(PathBuf::from("bad"), "damaged")]);
        assert_eq!((totals.damaged, totals.changed), (1, 0), "{totals:?}");
    }
    if let Some(python) = require_tool("python3") {
        let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/parity.py");
        let (folder, place) = (tempfile::tempdir().unwrap(), tree.path().join(USUAL_PLACE));
        let output = folder.path().join("recovered");
        let mut command = Command::new(python);
        command.arg(reader).args([&place, tree.path(), Path::new("changes"), &output]);
        assert!(command.status().unwrap().success());
        assert_eq!(fs::read(output).unwrap(), tree.content[Path::new("changes")]);
    }
    // What did not change is not renewed again and again.
    let made = verisum_parity::update(tree.path(), None, &UpdateOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((made.changed, made.sets_written), (0, 0), "{made:?}");
    tree.write(Path::new("changes"), b"once more");
    let (totals, found) = verify(&tree);
    assert_eq!(found.iter().filter(|(path, _)| path.ends_with("changes")).count(), 1);
    assert_eq!((totals.damaged, totals.changed), (1, 1), "{totals:?}");
    fs::remove_file(tree.path().join("changes")).unwrap();
    assert_eq!(verify(&tree).0.missing, 1);
    // Missing, it comes back as it was last, not as the kept set has it.
    let repair =
        || verisum_parity::repair(tree.path(), None, &ParityRepairOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((repair().repaired, repair().not_repaired), (1, 1));
    assert_eq!(tree.now()[Path::new("changes")], tree.content[Path::new("changes")]);
}
