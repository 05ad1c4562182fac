//! What is found wrong is told at once, and ranks above an output that fails.

use crate::common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Ended, VERISUM, change_and_restore_time, command, wait_until};
use tempfile::TempDir;
use verisum_testkit::{Run, paint};

/// A folder whose tree has a rotten file, with all that knows its digest.
struct Rotten(TempDir);

impl Rotten {
    fn new(more: &[(&str, u64)]) -> Rotten {
        let rotten = Rotten(tempfile::tempdir().unwrap());
        fs::create_dir(rotten.path("tree")).unwrap();
        fs::write(rotten.path("tree/a"), "good").unwrap();
        for (name, length) in more {
            paint(&rotten.path(&format!("tree/{name}")), &[Run::data(*length)]).unwrap();
        }
        rotten.clean("tag -q tree");
        rotten.clean("scrub -q --catalog catalog tree");
        fs::write(rotten.path("SUMS"), rotten.clean("sum -r tree")).unwrap();
        rotten.clean("image map -o map tree/a");
        change_and_restore_time(&rotten.path("tree/a"), "evil");
        rotten
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = command(VERISUM);
        command.args(words.split(' ')).current_dir(self.0.path());
        command
    }

    fn clean(&self, words: &str) -> String {
        let ended = Ended::of(self.command(words).output().unwrap());
        assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
        ended.out().to_string()
    }
}

#[test]
fn a_mismatch_ranks_above_an_output_that_fails() {
    let rotten = Rotten::new(&[]);
    for words in [
        "check SUMS",
        "check --json SUMS",
        "image verify --map map tree/a",
        "image diff map tree/a",
        "verify tree",
        "verify --json tree",
        "scrub --catalog catalog --prometheus figures tree",
        "check SUMS local:.",
        "compare local:tree local:other",
    ] {
        if words.starts_with("compare") {
            fs::create_dir(rotten.path("other")).unwrap();
            fs::write(rotten.path("other/a"), "good").unwrap();
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let full = File::options().write(true).open("/dev/full").unwrap();
        for output in [Stdio::from(writer), Stdio::from(full)] {
            let ended = Ended::of(rotten.command(words).stdout(output).output().unwrap());
            assert_eq!(ended.code, Some(1), "{words}: {ended:?}");
            assert!(ended.stderr.contains("verisum: standard output: write: "), "{words}: {ended:?}");
        }
        if words.starts_with("scrub") {
            let figures = fs::read_to_string(rotten.path("figures")).unwrap();
            let has = |start: &str, end: &str| {
                figures.lines().any(|line| line.starts_with(start) && line.ends_with(end))
            };
            assert!(has("verisum_scrub_exit_code", " 1"), "{figures}");
            let bad = ["verdict=\"rot\"} 1", "verdict=\"suspicious\"} 1"];
            assert!(bad.iter().any(|bad| figures.contains(bad)), "{figures}");
        }
    }
}

/// As where its file system was not mounted yet when it was recorded.
#[test]
fn a_tree_without_files_says_nothing() {
    let rotten = Rotten::new(&[]);
    fs::create_dir(rotten.path("empty")).unwrap();
    rotten.clean("scrub -q --catalog e.db empty");
    for (words, said) in [
        ("catalog status --nagios --catalog e.db", "VERISUM UNKNOWN - nothing is recorded"),
        ("catalog status --max-age 1d --catalog e.db", ""),
        ("report --json e.db", "UNCHECKED: nothing is recorded in "),
    ] {
        let ended = Ended::of(rotten.command(words).output().unwrap());
        assert!(ended.code == Some(3) && ended.out().contains(said), "{words}: {ended:?}");
    }
}

#[test]
fn what_a_catalogue_knows_ranks_above_a_long_output_that_fails() {
    let rotten = Rotten::new(&[]);
    // Lines that do not wait for the end, as they are longer together than what is held back.
    let long = vec!["n".repeat(250); 13].join("/");
    let trees: Vec<String> = (0..6).map(|number| format!("{long}/{number}")).collect();
    for tree in &trees {
        fs::create_dir_all(rotten.path(tree)).unwrap();
        fs::write(rotten.path(&format!("{tree}/a")), "good").unwrap();
    }
    let scrub = format!("scrub -q --catalog long {}", trees.join(" "));
    rotten.clean(&scrub);
    trees.iter().for_each(|tree| change_and_restore_time(&rotten.path(&format!("{tree}/a")), "evil"));
    assert_eq!(rotten.command(&scrub).output().unwrap().status.code(), Some(1));
    for (words, code) in [
        ("status --max-age 1d", 1),
        ("status --max-age 1d --json", 1),
        ("status --prometheus figures", 1),
        ("status --nagios", 2),
        ("list", 1),
        ("list --bad --json", 1),
        ("list --csv", 1),
    ] {
        let words = format!("catalog {words} --catalog long");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = Ended::of(rotten.command(&words).stdout(full).output().unwrap());
        assert_eq!(ended.code, Some(code), "{words}: {ended:?}");
        assert!(ended.stderr.contains("verisum: standard output: write: "), "{words}: {ended:?}");
    }
    // Another program reads these.
    assert!(fs::read_to_string(rotten.path("figures")).unwrap().contains("verisum_catalog_"));
}

#[test]
fn what_nobody_could_read_is_told_by_the_next_scrub() {
    let rotten = Rotten::new(&[]);
    change_and_restore_time(&rotten.path("tree/a"), "good");
    fs::write(rotten.path("tree/gone"), "gone").unwrap();
    let scrub = |output: Stdio| {
        let mut command = rotten.command("scrub -q --catalog catalog --prometheus figures tree");
        Ended::of(command.stdout(output).output().unwrap())
    };
    let exit_code = || {
        let figures = fs::read_to_string(rotten.path("figures")).unwrap();
        figures.lines().find(|line| line.starts_with("verisum_scrub_exit_code{")).unwrap().to_string()
    };
    scrub(Stdio::piped());
    assert!(exit_code().ends_with(" 0"), "{}", exit_code());
    fs::remove_file(rotten.path("tree/gone")).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(scrub(Stdio::from(full)).code, Some(3));
    assert!(exit_code().ends_with(" 3"), "{}", exit_code());
    let status = Ended::of(rotten.command("catalog status --nagios --catalog catalog").output().unwrap());
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.out().contains("failed: standard output: write: "), "{status:?}");
    let told = scrub(Stdio::piped());
    assert!(told.out().contains("missing"), "{told:?}");
    let told = scrub(Stdio::piped());
    assert_eq!(told.out(), "");
}

#[test]
fn nagios_is_not_told_that_all_is_well_where_nothing_can_be_told() {
    let rotten = Rotten::new(&[]);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let scrub = || {
        let mut command = rotten.command("scrub --nagios --catalog catalog tree");
        Ended::of(command.stdout(full()).output().unwrap()).code
    };
    assert_eq!(scrub(), Some(2), "rot is CRITICAL");
    change_and_restore_time(&rotten.path("tree/a"), "good");
    assert_eq!(scrub(), Some(3), "OK that nobody can read is UNKNOWN");
}

#[test]
fn rot_of_the_last_tree_is_named_before_what_is_held_in_the_first() {
    let rotten = Rotten::new(&[]);
    let file = rotten.path("tree/a");
    change_and_restore_time(&file, "good");
    fs::create_dir(rotten.path("early")).unwrap();
    let early = |content: &str| {
        for number in 0..5 {
            fs::write(rotten.path(&format!("early/{number}")), content).unwrap();
        }
    };
    early("old");
    for tree in ["early", "tree"] {
        rotten.clean(&format!("scrub -q --catalog both {tree}"));
    }
    early("changed");
    change_and_restore_time(&file, "evil");
    for tree in ["early", "tree"] {
        let words = format!("scrub --alarm-changed 10% --catalog both {tree}");
        let ended = Ended::of(rotten.command(&words).output().unwrap());
        assert_eq!(ended.code, Some(1), "{ended:?}");
    }
    let ended = Ended::of(rotten.command("catalog status --nagios --catalog both").output().unwrap());
    assert!(ended.out().contains(", 5 held, "), "{ended:?}");
    let named = ended.out().find("tree/a").unwrap_or_else(|| panic!("{ended:?}"));
    assert!(named < ended.out().find("early/").unwrap(), "{ended:?}");
}

/// A program that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a file has a line, while the program that writes to it still works.
fn told(mut running: Running, file: &Path, line: &str) {
    wait_until(line, || {
        let ended = running.0.try_wait().unwrap();
        let is_told = fs::read_to_string(file).unwrap().lines().any(|told| told.contains(line));
        assert!(is_told || ended.is_none(), "{line}: {ended:?}");
        is_told
    });
    assert_eq!(running.0.try_wait().unwrap(), None, "it was told before the end");
}

#[test]
fn what_is_wrong_is_told_before_the_end() {
    let rotten = Rotten::new(&[("slow", 4 << 20)]);
    for (words, line) in [
        ("check -j2 --limit 1KiB/s SUMS", "tree/a: FAILED"),
        ("check -j1 --limit 1KiB/s SUMS", "tree/a: FAILED"),
        ("check --json -j2 --limit 1KiB/s SUMS", "\"outcome\":\"failed\""),
        // Rot, or suspicious where more than a moment passed since it was tagged.
        ("verify -j2 --limit 1KiB/s tree", "tree/a: "),
        ("verify --json -j2 --limit 1KiB/s tree", "\"path\":\"tree/a\""),
    ] {
        let output = rotten.path("output");
        let child =
            rotten.command(words).stdout(File::create(&output).unwrap()).stderr(Stdio::null()).spawn();
        told(Running(child.unwrap()), &output, line);
    }
}
