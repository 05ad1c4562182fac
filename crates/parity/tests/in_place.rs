//! Repairs in place that were interrupted, or that somebody wrote into.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use common::{Tree, flip, unexpected};
use verisum_files::Stop;
use verisum_parity::{
    FileVerdict, Finding, ParityError, ParityRepairOptions, ParityRepairSummary, UpdateOptions,
};

/// Where nothing is bad.
const GOOD: u64 = 30_000;

const BAD: [u64; 3] = [1_000, 70_000, 140_000];

/// A long file in three sets, bad in each.
fn tree() -> Tree {
    let mut random = fastrand::Rng::with_seed(11);
    let tree = Tree::new([(PathBuf::from("long"), common::bytes(&mut random, 150_000))].into());
    tree.create(500_000, Some(64 << 10));
    assert_eq!(tree.sets().len(), 3);
    for at in BAD {
        flip(&path(&tree), at);
    }
    tree
}

fn path(tree: &Tree) -> PathBuf {
    tree.path().join("long")
}

fn modified(tree: &Tree) -> SystemTime {
    fs::metadata(path(tree)).unwrap().modified().unwrap()
}

/// What somebody writes.
fn write(tree: &Tree, at: u64) {
    let file = File::options().write(true).open(path(tree)).unwrap();
    file.write_all_at(b"theirs", at).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn has_note(tree: &Tree) -> bool {
    let place = tree.path().join(verisum_parity::USUAL_PLACE);
    fs::read_dir(place)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().as_encoded_bytes().starts_with(b"in-place-"))
}

/// Repairs in place; `between` happens once the first set is through, whose parity is bad too, so that this is told.
fn repair_with(
    tree: &Tree,
    between: &dyn Fn(&Stop),
) -> (Result<ParityRepairSummary, ParityError>, Vec<String>) {
    let set = &tree.sets()[0];
    flip(set, fs::metadata(set).unwrap().len() / 2);
    let mut options = ParityRepairOptions::default();
    (options.in_place, options.stop) = (true, Arc::default());
    let mut found = Vec::new();
    let done = verisum_parity::repair(tree.path(), None, &options, &mut |finding| match finding {
        Finding::Parity(_) => between(&options.stop),
        Finding::File(file) => found.push(match file.verdict {
            FileVerdict::NotRepaired(error) => error.to_string(),
            verdict => verdict.name().to_string(),
        }),
        other => unexpected(other),
    });
    (done, found)
}

fn repair(tree: &Tree, set: impl FnOnce(&mut ParityRepairOptions)) -> Vec<String> {
    let mut options = ParityRepairOptions::default();
    set(&mut options);
    let mut found = Vec::new();
    verisum_parity::repair(tree.path(), None, &options, &mut |finding| match finding {
        Finding::File(file) => found.push(match file.verdict {
            FileVerdict::NotRepaired(error) => error.to_string(),
            verdict => verdict.name().to_string(),
        }),
        other => unexpected(other),
    })
    .unwrap();
    found
}

fn update(tree: &Tree, accepts: bool) -> Result<(), ParityError> {
    let mut options = UpdateOptions::default();
    options.accept_damage = accepts;
    verisum_parity::update(tree.path(), None, &options, &mut unexpected).map(drop)
}

/// A tree whose repair in place ended after its first set.
fn interrupted() -> Tree {
    let tree = tree();
    let (ended, found) = repair_with(&tree, &|stop| stop.request());
    assert!(matches!(ended, Err(ParityError::Stopped)) && found.is_empty(), "{ended:?} {found:?}");
    assert!(has_note(&tree));
    tree
}

#[test]
fn what_was_interrupted_goes_on() {
    let tree = interrupted();
    assert!(update(&tree, false).unwrap_err().to_string().contains("a repair in place was interrupted"));
    assert_eq!(repair(&tree, |options| options.in_place = true), ["repaired"]);
    tree.assert_whole();
    assert!(!has_note(&tree));
    update(&tree, false).unwrap();
}

#[test]
fn what_somebody_writes_meanwhile_is_not_overwritten() {
    let tree = tree();
    let (done, found) = repair_with(&tree, &|_| write(&tree, GOOD));
    assert_eq!(done.unwrap().not_repaired, 1);
    assert!(found.len() == 1 && found[0].contains("it changed while it was repaired"), "{found:?}");
    let now = fs::read(path(&tree)).unwrap();
    assert_eq!(&now[GOOD as usize..][..6], b"theirs");
    assert_eq!(modified(&tree), SystemTime::UNIX_EPOCH, "no time comes back that hides a write");
}

#[test]
fn nothing_is_kept_of_a_file_that_is_left_alone() {
    let tree = tree();
    let set = &tree.sets()[0];
    flip(set, fs::metadata(set).unwrap().len() / 2);
    let keep = tempfile::tempdir().unwrap();
    let mut options = ParityRepairOptions::default();
    options.keep_bad = Some(keep.path().to_path_buf());
    let mut found = Vec::new();
    verisum_parity::repair(tree.path(), None, &options, &mut |finding| match finding {
        // Its first set is through.
        Finding::Parity(_) => write(&tree, GOOD),
        Finding::File(file) => found.push(file.verdict.name()),
        other => unexpected(other),
    })
    .unwrap();
    assert_eq!(found, ["not-repaired"]);
    assert_eq!(fs::read_dir(keep.path()).unwrap().count(), 0);
}

#[test]
fn after_somebodys_write_only_who_says_so_ends_it() {
    for gives_back in [true, false] {
        let tree = interrupted();
        let good = modified(&tree);
        write(&tree, GOOD);
        let found = repair(&tree, |options| options.in_place = true);
        assert!(found[0].contains("`repair --changed` brings back what it was"), "{found:?}");
        assert!(found[0].contains("`update --accept-damage` takes it as it is"), "{found:?}");
        assert!(has_note(&tree) && update(&tree, false).is_err());
        assert_eq!(&fs::read(path(&tree)).unwrap()[GOOD as usize..][..6], b"theirs");
        if gives_back {
            assert_eq!(repair(&tree, |o| (o.changed, o.in_place) = (true, true)), ["repaired"]);
            tree.assert_whole();
            assert_eq!(modified(&tree), good);
        } else {
            update(&tree, true).unwrap();
            assert_eq!(repair(&tree, |_| {}), Vec::<String>::new());
        }
        assert!(!has_note(&tree));
        update(&tree, false).unwrap();
    }
}

#[test]
fn where_all_that_was_bad_is_good_a_write_since_is_any_other() {
    let tree = interrupted();
    // As from a backup, and edited.
    fs::write(path(&tree), &tree.content[Path::new("long")]).unwrap();
    write(&tree, GOOD);
    assert_eq!(repair(&tree, |options| options.in_place = true), ["changed"]);
    assert!(!has_note(&tree));
    update(&tree, false).unwrap();
    assert_eq!(repair(&tree, |_| {}), Vec::<String>::new());
    assert_eq!(&fs::read(path(&tree)).unwrap()[GOOD as usize..][..6], b"theirs");
}

#[test]
fn what_was_killed_after_it_had_written_all_is_finished_and_told() {
    for has_time in [false, true] {
        let tree = interrupted();
        let good = modified(&tree);
        fs::write(path(&tree), &tree.content[Path::new("long")]).unwrap();
        if has_time {
            File::open(path(&tree)).unwrap().set_modified(good).unwrap();
        }
        assert_eq!(repair(&tree, |options| options.dry_run = true), ["finished"]);
        assert!(has_note(&tree));
        assert_eq!(repair(&tree, |_| {}), ["finished"]);
        assert_eq!((has_note(&tree), modified(&tree)), (false, good));
        assert_eq!(repair(&tree, |_| {}), Vec::<String>::new());
    }
}

#[test]
fn other_names_of_a_file_are_repaired_beside_it() {
    let mut random = fastrand::Rng::with_seed(12);
    let long = common::bytes(&mut random, 150_000);
    let mut tree =
        Tree::new([("a".into(), common::bytes(&mut random, 30_000)), ("long".into(), long)].into());
    tree.create(500_000, Some(64 << 10));
    // The parity of the other name is in later sets, and that of the begin of the file in a still later one.
    fs::hard_link(path(&tree), tree.path().join("other")).unwrap();
    tree.content.insert("other".into(), tree.content[Path::new("long")].clone());
    update(&tree, false).unwrap();
    tree.content.insert("a".into(), common::bytes(&mut random, 31_000));
    tree.write(Path::new("a"), &tree.content[Path::new("a")]);
    update(&tree, false).unwrap();
    for at in BAD {
        flip(&path(&tree), at);
    }
    assert_eq!(repair(&tree, |options| options.in_place = true), ["repaired", "repaired"]);
    tree.assert_whole();
    assert!(!has_note(&tree));
}

#[test]
fn a_missing_file_whose_repair_was_killed_is_not_given_up() {
    let mut random = fastrand::Rng::with_seed(13);
    let file = |name: &str, random: &mut fastrand::Rng| (PathBuf::from(name), common::bytes(random, 20_000));
    let tree = Tree::new([file("below/gone", &mut random), file("kept", &mut random)].into());
    tree.create(1_000_000, None);
    // What a killed repair leaves, by the name that a repair which ended gives no more.
    fs::remove_file(tree.path().join("below/gone")).unwrap();
    let left = tree.path().join("below").join(left_by_a_kill(b"below/gone"));
    fs::write(&left, "half").unwrap();
    assert!(update(&tree, false).unwrap_err().to_string().contains("its repair was interrupted"));
    // Where there are no links, an empty file takes the place first.
    fs::write(tree.path().join("below/gone"), "").unwrap();
    assert!(update(&tree, false).unwrap_err().to_string().contains("its repair was interrupted"));
    fs::remove_file(tree.path().join("below/gone")).unwrap();
    assert_eq!(repair(&tree, |_| {}), ["repaired"]);
    tree.assert_whole();
    // Beside a file that is as recorded again, a kill leaves what the file was.
    fs::write(&left, "bad").unwrap();
    fs::write(tree.path().join(".verisum-repair-notes"), "somebody's").unwrap();
    repair(&tree, |options| options.dry_run = true);
    assert!(left.exists());
    repair(&tree, |_| {});
    assert!(!left.exists());
    fs::remove_file(tree.path().join(".verisum-repair-notes")).unwrap();
    // Beside one that is not, it stays.
    fs::write(&left, "bad").unwrap();
    fs::write(tree.path().join("below/gone"), "somebody wrote to it").unwrap();
    repair(&tree, |_| {});
    assert!(left.exists());
    fs::remove_file(tree.path().join("below/gone")).unwrap();
    assert_eq!(repair(&tree, |_| {}), ["repaired"]);
    update(&tree, false).unwrap();
    fs::remove_file(tree.path().join("below/gone")).unwrap();
    fs::write(&left, "half").unwrap();
    update(&tree, true).unwrap();
}

/// The name of a file that is repaired and has not taken its place yet.
fn left_by_a_kill(path: &[u8]) -> String {
    let digest = verisum_digest::Digest::find("blake3").unwrap().hash(path).unwrap();
    let seal: String = digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!(".verisum-repair-{seal}")
}
