//! `-v` means the same in all commands: names also what nothing is wrong with; `-vv` tells also how the work is done.

use crate::common;

use std::fs;

use common::{Ended, VERISUM, command};
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for tree in ["a", "b"] {
        fs::create_dir(folder.path().join(tree)).unwrap();
        fs::write(folder.path().join(tree).join("inner.txt"), "same").unwrap();
    }
    folder
}

fn run(folder: &TempDir, config: &str, words: &[&str]) -> Ended {
    fs::write(folder.path().join("verisum.toml"), config).unwrap();
    let mut command = command(VERISUM);
    command.args(words).current_dir(folder.path()).env("VERISUM_CONFIG", "verisum.toml");
    command.env("HOME", folder.path()).env_remove("XDG_STATE_HOME");
    Ended::of(command.output().unwrap())
}

#[test]
fn what_nothing_is_wrong_with_is_named() {
    let folder = folder();
    for (words, names) in [
        (&["scrub", "--catalog", "a.db", "a"][..], "inner.txt"),
        (&["tag", "a"], "inner.txt"),
        (&["verify", "a"], "inner.txt"),
        (&["compare", "a", "b"], "inner.txt: SAME"),
        (&["copy", "a", "c"], "inner.txt"),
    ] {
        let told = |more: &[&str]| {
            let ended = run(&folder, "", &[words, more].concat());
            assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
            ended.out().lines().any(|line| line.contains(names))
        };
        assert!(!told(&["--log-file", "log"]), "{words:?}");
        let log = || fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(!log().contains(names), "{}", log());
        for db in ["a.db", "c"] {
            let _ = fs::remove_file(folder.path().join(db));
            let _ = fs::remove_dir_all(folder.path().join(db));
        }
        assert!(told(&["-v", "--log-file", "log"]), "{words:?}");
        assert!(log().contains(names), "{words:?}: {}", log());
        fs::remove_file(folder.path().join("log")).unwrap();
        let both = run(&folder, "", &[words, &["-q", "-v"]].concat());
        assert_eq!(both.code, Some(if words[0] == "compare" { 0 } else { 2 }), "{words:?}: {}", both.stderr);
    }
}

#[test]
fn how_the_work_is_done_is_told() {
    let folder = folder();
    let config = "[scrub]\nalgorithm = 'sha512'\n";
    let ended = run(&folder, config, &["scrub", "-vv", "--log-file", "log", "--catalog", "a.db", "a"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    for told in [
        "verisum: --algorithm sha512 (verisum.toml)",
        &format!("verisum: catalogue {}", folder.path().join("a.db").display()),
        "verisum: sha512 is computed by ",
        "verisum: took ",
    ] {
        let count = ended.stderr.lines().filter(|line| line.starts_with(told)).count();
        assert!(count == 1 && log.contains(told), "{told}: {}", ended.stderr);
    }
    // Of the configuration too, where quiet is typed.
    let ended = run(&folder, "verbose = 2\n", &["sum", "a/inner.txt"]);
    assert!(ended.code == Some(0) && ended.stderr.contains("is computed by"), "{}", ended.stderr);
    assert_eq!(run(&folder, "verbose = 1\n", &["scrub", "-q", "--catalog", "a.db", "a"]).clean(), "");
}
