//! Parity in a bucket: made, renewed, verified and repaired there, and runs that are killed.

use crate::common;

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use common::Ended;
use common::bucket::Store;
use tempfile::TempDir;

fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// A tree of some files.
fn tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..12_u64 {
        fs::write(folder.path().join(format!("{at:02}")), content(200_000 + at as usize, at)).unwrap();
    }
    folder
}

/// Flips a byte of a file, and leaves its time alone.
fn flip(path: &Path, at: usize) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x55;
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn assert_ended(ended: &Ended, code: i32, part: &str) {
    let about = format!("{:?} {}{}", ended.code, ended.out(), ended.stderr);
    let said = format!("{}{}", ended.out(), ended.stderr);
    assert!(ended.code == Some(code) && said.contains(part), "{about}");
}

#[test]
fn a_bucket_keeps_the_parity_of_a_tree() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("parity");
    let tree = tree();
    let path = tree.path().to_str().unwrap();
    let run = |verb: &str, more: &[&str]| {
        store.run(&[&["parity", verb, "--to", "s3://parity/of/photos"], more, &[path]].concat())
    };
    assert_ended(&run("verify", &[]), 3, "s3://parity/of/photos: there is no parity");
    assert_ended(&run("create", &["--redundancy", "30%", "--set-size", "1M"]), 0, "3 sets written");
    assert_ended(&run("create", &[]), 3, "there is parity already");
    let sets = ["set-00000001.parity", "set-00000002.parity", "set-00000003.parity"];
    assert_eq!(names(&bucket.join("of/photos")), [&["index", "index.copy"], &sets[..]].concat());
    assert!(!tree.path().join(".verisum-parity").exists());
    assert_ended(&run("verify", &[]), 0, "12 files, 2.29 MiB: all as recorded");

    // Damage of files, in place or not, and of the parity.
    flip(&tree.path().join("03"), 5_000);
    fs::remove_file(tree.path().join("07")).unwrap();
    let set = bucket.join("of/photos").join(sets[0]);
    let length = fs::metadata(&set).unwrap().len() as usize;
    flip(&set, length / 2);
    let found = run("verify", &[]);
    assert_ended(&found, 1, &format!("s3://parity/of/photos/{}: damaged (1 of ", sets[0]));
    let remedy = format!("mend it: verisum parity repair --to 's3://parity/of/photos' '{path}'\n");
    assert_ended(&found, 1, &remedy);
    assert_ended(&run("repair", &["--dry-run"]), 0, "2 can be repaired, 1 of the parity can be repaired");
    assert_ended(&run("repair", &["--in-place"]), 0, "2 repaired, 1 of the parity repaired");
    let found = run("verify", &["--json"]);
    assert_ended(&found, 0, r#""type":"costs""#);
    for at in 0..12_u64 {
        let now = fs::read(tree.path().join(format!("{at:02}"))).unwrap();
        assert!(now == content(200_000 + at as usize, at), "{at}");
    }
    assert_eq!(names(&bucket.join("of/photos")).len(), 5, "the note of the repair in place is gone");

    // A new set takes the place of an old one.
    fs::write(tree.path().join("00"), "changed").unwrap();
    assert_ended(&run("verify", &[]), 3, "00: changed (`update` gives it new parity)");
    assert_ended(&run("update", &[]), 0, "2 sets written");
    let now = names(&bucket.join("of/photos"));
    let kept = sets.iter().filter(|set| now.contains(&set.to_string())).count();
    assert_eq!((now.len(), kept), (5, 1), "{now:?}");
    assert_ended(&run("update", &[]), 0, "0 sets written");
    assert_ended(&run("verify", &[]), 0, "all as recorded");

    // What is no bucket is told at once.
    let at = |to: &str| store.run(&["parity", "create", "--to", to, path]);
    assert_ended(&at("web1:/srv"), 2, "--to: web1:/srv: must be a directory of this machine, or in a bucket");
    assert_ended(&at("s3://none/x"), 3, "s3://none/x");
    assert_ended(&at("ftp://x/y"), 2, "--to: ftp://x/y: no place has this scheme");
    // A whole bucket will do.
    let whole = store.bucket("whole");
    assert_ended(&at("s3://whole"), 0, "12 files");
    assert!(whole.join("index.copy").exists());
    // Objects of somebody else stay.
    let theirs = store.bucket("theirs");
    fs::write(theirs.join("index"), "theirs").unwrap();
    assert_ended(&at("s3://theirs"), 3, "s3://theirs/index: this is no parity of verisum");
    assert_eq!(
        (names(&theirs), fs::read(theirs.join("index")).unwrap()),
        (vec!["index".into()], b"theirs".into())
    );
}

#[test]
fn parity_in_a_bucket_survives_runs_that_are_killed() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("parity");
    let tree = tree();
    let path = tree.path().to_str().unwrap();
    let words = |verb| ["parity", verb, "--to", "s3://parity/p", path];
    let create = ["parity", "create", "--set-size", "256k", "--to", "s3://parity/p", path];
    assert_ended(&store.run(&create), 0, "sets written");
    let kills = std::env::var("TEST_KILLS").map_or(12, |kills| kills.parse().unwrap());
    for kill in 0..kills {
        for at in 0..5_u64 {
            let bytes = content(150_000 + kill as usize, 100 + at);
            fs::write(tree.path().join(format!("{at:02}")), bytes).unwrap();
        }
        let mut update = store.verisum(&words("update")).spawn().unwrap();
        sleep(Duration::from_millis(fastrand::u64(..120)));
        let _ = update.kill();
        update.wait().unwrap();
        // What did not change has parity all the while.
        flip(&tree.path().join("09"), 1_000 + kill as usize);
        let found = store.run(&words("verify"));
        assert!(
            !found.out().contains("parity:") && found.out().contains("09: damaged"),
            "{kill}: {}",
            found.out()
        );
        let repaired = store.run(&["parity", "repair", "--only", "09", "--to", "s3://parity/p", path]);
        assert_ended(&repaired, 0, "09: repaired");
    }
    assert_ended(&store.run(&words("update")), 0, "12 files");
    assert_ended(&store.run(&words("verify")), 0, "all as recorded");
    let index = fs::read_to_string(bucket.join("p/index")).unwrap();
    let sets = index.lines().filter(|line| line.starts_with("set ")).count();
    assert_eq!(names(&bucket.join("p")).len(), sets + 2, "what was left behind is gone");
}
