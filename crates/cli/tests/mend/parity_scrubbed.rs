//! Scrubs verify the parity of a tree: what is told of damage, and how much of it a run reads.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Ended, verisum};
use serde_json::Value;
use tempfile::TempDir;

struct World {
    folder: TempDir,
    catalog: PathBuf,
}

impl World {
    /// Four files of the same length in `photos/old`, a set for each.
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let catalog = folder.path().join("c.db");
        let world = World { folder, catalog };
        fs::create_dir_all(world.tree().join("old")).unwrap();
        (0..4).for_each(|at| world.write(at, at as u8));
        world
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("photos")
    }

    fn old(&self) -> PathBuf {
        self.tree().join("old")
    }

    fn write(&self, at: usize, seed: u8) {
        let mut bytes = vec![0; 100_000];
        fastrand::Rng::with_seed(seed.into()).fill(&mut bytes);
        fs::write(self.old().join(at.to_string()), bytes).unwrap();
    }

    fn parity(&self, words: &[&str]) -> Ended {
        let old = self.old();
        verisum([&["parity"], words, &[old.to_str().unwrap()]].concat())
    }

    fn scrub(&self, words: &[&str]) -> Ended {
        let (tree, catalog) = (self.tree(), self.catalog.clone());
        let all = [&["scrub", "--catalog", catalog.to_str().unwrap()], words, &[tree.to_str().unwrap()]];
        verisum(all.concat())
    }
}

/// Damages a block of the parity in a set.
fn damage(set: &Path) {
    let mut bytes = fs::read(set).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(set, bytes).unwrap();
}

#[track_caller]
fn assert_said(ended: &Ended, code: i32, part: &str) {
    let about = format!("{:?} {} {}", ended.code, ended.out(), ended.stderr);
    assert!(ended.code == Some(code) && ended.out().contains(part), "{about}");
}

fn lines(ended: &Ended, kind: &str) -> Vec<Value> {
    let lines = ended.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == kind).collect()
}

#[test]
fn a_scrub_tells_of_damaged_parity_and_what_mends_it() {
    let world = World::new();
    world.parity(&["create", "--set-size", "100k"]).clean();
    assert_said(&world.scrub(&[]), 0, "4 files");
    let set = world.old().join(".verisum-parity/set-00000002.parity");
    damage(&set);
    let (shown, mend) = (set.display(), format!("verisum parity repair '{}'", world.old().display()));
    let found = world.scrub(&[]);
    assert_said(&found, 1, &format!("damaged       {shown}  (1 of "));
    assert_said(&found, 1, &format!(" parity blocks; mend it: {mend})\n"));
    assert_said(&found, 1, "damaged of the parity 1\n");
    assert!(world.scrub(&["--quiet"]).out().starts_with("damaged "));

    let found = world.scrub(&["--json"]);
    let line = &lines(&found, "parity")[0];
    assert_eq!((&line["path"], &line["outcome"]), (&set.to_str().unwrap().into(), &"damaged".into()));
    assert_eq!((&line["mend"], found.code), (&mend.into(), Some(1)));
    assert_eq!(lines(&found, "summary")[0]["damaged_parity"], 1);
    let prom = world.folder.path().join("verisum.prom");
    let found = world.scrub(&["--nagios", "--prometheus", prom.to_str().unwrap()]);
    assert_said(&found, 2, ", 0 bad, 0 unchecked, 1 damaged of the parity |");
    assert_said(&found, 2, &format!("\ndamaged {shown}; mend it: verisum parity repair "));
    let told = fs::read_to_string(prom).unwrap();
    assert!(told.contains(r#"verisum_scrub_damaged_parity_files{root=""#), "{told}");
    assert!(told.contains("photos\"} 1\n"), "{told}");

    world.parity(&["repair"]).clean();
    assert_said(&world.scrub(&[]), 0, "4 files");
    fs::remove_file(&set).unwrap();
    assert_said(&world.scrub(&[]), 1, "mend it: verisum parity update ");
    assert_said(&world.parity(&["update"]), 1, "1 set written");
    assert_said(&world.scrub(&["--nagios"]), 0, "OK");
}

#[test]
fn parity_in_another_directory_is_verified_where_it_is_named() {
    let world = World::new();
    let to = world.folder.path().join("par");
    let tree = world.tree();
    verisum(["parity", "create", "--to", to.to_str().unwrap(), tree.to_str().unwrap()]).clean();
    damage(&to.join("set-00000001.parity"));
    assert_said(&world.scrub(&[]), 0, "4 files");
    let mend = format!("mend it: verisum parity repair --to '{}' '{}'", to.display(), tree.display());
    assert_said(&world.scrub(&["--parity", to.to_str().unwrap()]), 1, &mend);
}

#[test]
fn runs_verify_as_much_of_the_parity_as_they_read_of_the_files() {
    let world = World::new();
    world.parity(&["create", "--set-size", "100k"]).clean();
    assert_said(&world.scrub(&[]), 0, "4 files");
    let place = world.old().join(".verisum-parity");
    (1..5).for_each(|number| damage(&place.join(format!("set-0000000{number}.parity"))));
    // Nothing is due.
    assert_said(&world.scrub(&["--max-age", "1y"]), 0, "read 0");
    let mut found = BTreeSet::new();
    for at in 0..4 {
        world.write(at, 100);
        let ended = world.scrub(&["--max-age", "1y", "--json"]);
        let sets = lines(&ended, "parity");
        assert_eq!((sets.len(), ended.code), (1, Some(1)), "{at}: {}", ended.out());
        found.extend(sets.into_iter().map(|set| set["path"].as_str().unwrap().to_string()));
    }
    assert_eq!(found.len(), 4);
}
