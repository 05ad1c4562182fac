//! Parity of most files is not given up at once.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Tree, unexpected};
use verisum_parity::{Made, ParityError, ParityRepairOptions, UpdateOptions};

fn update(tree: &Tree, accepts: bool) -> Result<Made, ParityError> {
    let mut options = UpdateOptions::default();
    options.accept_changes = accepts;
    verisum_parity::update(tree.path(), None, &options, &mut unexpected)
}

#[test]
fn parity_of_what_is_not_there_is_not_given_up() {
    let files = ["a", "b/c", "b/d"].map(|name| (PathBuf::from(name), vec![7; 70_000]));
    let tree = Tree::new(files.into());
    tree.create(300_000, None);
    let (sets, away) = (tree.sets(), tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        fs::rename(tree.path().join(name), away.path().join(name)).unwrap();
    }
    let ended = update(&tree, false);
    assert!(matches!(ended, Err(ParityError::TooMuch { changed: 0, gone: 3, of: 3, .. })), "{ended:?}");
    assert_eq!(tree.sets(), sets);
    for name in ["a", "b"] {
        fs::rename(away.path().join(name), tree.path().join(name)).unwrap();
    }
    common::flip(&tree.path().join("b/d"), 9);
    verisum_parity::repair(tree.path(), None, &ParityRepairOptions::default(), &mut |_| {}).unwrap();
    tree.assert_whole();
    for name in ["a", "b/c", "b/d"] {
        fs::remove_file(tree.path().join(name)).unwrap();
    }
    assert_eq!(update(&tree, true).unwrap().gone, 3);
}

#[test]
fn parity_of_most_files_is_not_given_up_when_they_changed() {
    let files = (0..120).map(|at| (PathBuf::from(format!("f{at}")), vec![at; 1000]));
    let tree = Tree::new(files.collect());
    tree.create(100_000, None);
    let write = |at: u8, text: &[u8]| tree.write(Path::new(&format!("f{at}")), text);
    for at in 0..99 {
        write(at, b"meant");
    }
    assert_eq!(update(&tree, false).unwrap().changed, 99);
    for at in 0..90 {
        write(at, b"encrypted");
    }
    for at in 100..120 {
        fs::remove_file(tree.path().join(format!("f{at}"))).unwrap();
    }
    let ended = update(&tree, false);
    assert!(matches!(ended, Err(ParityError::TooMuch { changed: 90, gone: 20, of: 120, .. })), "{ended:?}");
    let made = update(&tree, true).unwrap();
    assert_eq!((made.changed, made.gone), (90, 20));
}
