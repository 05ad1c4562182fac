//! `verisum recommend` as it is called.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Ended, VERISUM, command, signal, start, verisum, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use verisum_testkit::{copy_program, require_tool};

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for number in 0..50 {
        fs::write(tree.path().join(format!("small {number}")), vec![number; 3000]).unwrap();
    }
    for number in 0..3 {
        fs::write(tree.path().join(format!("large {number}")), vec![number; 300_000]).unwrap();
    }
    tree
}

fn recommend(tree: &Path, arguments: &[&str]) -> Ended {
    let on = ["recommend", "--for", "2s", "--on", tree.to_str().unwrap()];
    verisum(on.iter().chain(arguments))
}

#[test]
fn each_purpose_gets_an_answer_with_its_figures() {
    let tree = tree();
    for (purpose, candidates) in [
        ("bitrot", &["sha256", "blake3", "blake2b512", "xxh3-128", "crc64-nvme"][..]),
        ("tamper", &["sha256", "blake3", "sha512", "blake2b512", "sha3-256"]),
        ("image", &["sha256", "blake3", "sha512", "blake2b512"]),
        ("filesystem", &["xxh64", "crc32c", "sha256", "blake2b512"]),
    ] {
        let out = recommend(tree.path(), &["--purpose", purpose, "--json"]).clean();
        let found: Value = serde_json::from_str(&out).unwrap();
        let answer = &found["recommendation"];
        let choice = answer["decision"]["choice"]["name"].as_str().unwrap();
        assert!(candidates.contains(&choice), "{purpose}: {choice}");
        assert_eq!(answer["decision"]["rows"].as_array().unwrap().len(), candidates.len());
        assert_eq!(answer["load"]["files"], 53);
        assert_eq!(answer["load"]["bytes"], 50 * 3000 + 3 * 300_000);
        assert!(answer["lines"][1].as_str().unwrap().starts_with("53 files, 1.1 MB: "), "{answer}");
        assert_ne!(answer["decision"]["runner_up"], Value::Null);
        assert_eq!(found["type"], "bench");
    }
}

#[test]
fn nothing_is_written_and_the_results_can_be_compared() {
    let tree = tree();
    let state = || {
        let mut found: Vec<_> = fs::read_dir(tree.path()).unwrap().map(Result::unwrap).collect();
        found.sort_by_key(|entry| entry.file_name());
        let of = |entry: &fs::DirEntry| {
            let about = entry.metadata().unwrap();
            (entry.file_name(), about.modified().unwrap(), about.len())
        };
        found.iter().map(of).collect::<Vec<_>>()
    };
    let before = state();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let path = path.to_str().unwrap();
    let out = recommend(tree.path(), &["--threads", "1", "--export-json", path]).clean();
    assert!(out.contains("runner-up: "), "{out}");
    let found: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(found["recommendation"]["threads"], 1);
    assert_eq!(state(), before);
    verisum(["bench", "compare", path, path]).clean();
}

/// One figure for reading, and nothing said of a device, where files are in memory.
#[test]
fn of_files_in_memory_reading_and_hashing_are_added() {
    let tree = match tempfile::tempdir_in("/dev/shm") {
        Ok(tree) => tree,
        Err(error) => return verisum_testkit::skip(&format!("/dev/shm: {error}")),
    };
    for number in 0..4 {
        fs::write(tree.path().join(number.to_string()), vec![number; 2 << 20]).unwrap();
    }
    for purpose in ["bitrot", "image"] {
        let out = recommend(tree.path(), &["--purpose", purpose, "--json"]).clean();
        let answer = serde_json::from_str::<Value>(&out).unwrap()["recommendation"].take();
        assert_eq!(answer["from_memory"], true);
        for row in answer["decision"]["rows"].as_array().unwrap() {
            let of = |name: &str| row[name].as_f64().unwrap();
            assert!(row["device"].is_null() && row["disk_bound"] == false);
            assert!((of("opening") + of("hash") - of("total")).abs() < 1e-9, "{row}");
            assert!(["memory", "hashing"].contains(&row["bound_by"].as_str().unwrap()), "{row}");
        }
        let lines: Vec<&str> =
            answer["lines"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        assert!(lines[1].ends_with("; the files are in memory"), "{lines:?}");
        assert!(lines[2].starts_with("reading: ") && lines[2].contains(" from memory: "), "{lines:?}");
        assert!(lines[3].starts_with("of these ") && !lines[3].contains("device"), "{lines:?}");
    }
}

#[test]
fn few_open_files_are_enough() {
    let tree = tree();
    let script = "ulimit -n 64; exec \"$0\" recommend --for 2s --on \"$1\"";
    let output = command("/bin/sh").args(["-c", script, VERISUM]).arg(tree.path()).output().unwrap();
    let out = Ended::of(output).clean();
    assert!(out.contains("53 files") && out.contains("runner-up: "), "{out}");
}

#[test]
fn exports_say_where_and_on_what_machine() {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("r.html");
    let out = recommend(tree.path(), &["--export-html", page.to_str().unwrap()]).clean();
    assert!(!out.contains("highest level of our kernels"), "{out}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("highest level of our kernels") && page.contains("hashing, sha256"));
    assert!(page.contains(tree.path().to_str().unwrap()));
}

#[test]
fn what_a_terminal_shows_is_not_said_again() {
    let (tree, Some(script)) = (tree(), require_tool("script")) else { return };
    let words = format!("stty cols 60; {VERISUM} recommend --for 2s --on {}", tree.path().display());
    let mut terminal = command(script.to_str().unwrap());
    terminal.args(["-qec", &words, "/dev/null"]).env("TERM", "xterm").env_remove("COLUMNS");
    let shown = Ended::of(terminal.output().unwrap());
    assert!(shown.out().contains("runner-up: "), "{}", shown.out());
    // On a machine that is not quiet: its lines are broken where a table is, too.
    assert!(!shown.out().contains("verisum: noisy: "), "{}", shown.out());
}

#[test]
fn what_a_pipe_shows_is_not_said_again() {
    let tree = tree();
    let output =
        command(VERISUM).args(["recommend", "--for", "2s", "--on"]).arg(tree.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // On a machine that is not quiet.
    assert!(output.status.success() && !stderr.contains("noisy: "), "{stderr}");
}

#[test]
fn what_cannot_be_read_is_counted() {
    let Some(()) = verisum_testkit::require_root() else { return };
    let Some(setpriv) = require_tool("setpriv") else { return };
    let tree = tree();
    let everybody = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode;
    fs::set_permissions(tree.path(), everybody(0o755)).unwrap();
    fs::set_permissions(tree.path().join("small 7"), everybody(0o600)).unwrap();
    let program = tree.path().join("small 1");
    copy_program(VERISUM, &program);
    let output = command(setpriv.to_str().unwrap())
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["recommend", "--for", "2s", "--on"])
        .arg(tree.path())
        .output()
        .unwrap();
    let ended = Ended::of(output);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("open: Permission denied (1 in all cannot be looked at)"),
        "{}",
        ended.stderr
    );
    assert!(ended.out().contains("52 files"), "{}", ended.out());
}

#[test]
fn without_files_there_is_a_message_and_no_answer() {
    let empty = tempfile::tempdir().unwrap();
    let name = empty.path().to_str().unwrap();
    recommend(empty.path(), &[])
        .failed(3, &format!("verisum: {name}: read: no regular files, so there is nothing to measure"));
    fs::write(empty.path().join("empty"), "").unwrap();
    recommend(empty.path(), &[])
        .failed(3, &format!("verisum: {name}: read: only empty files, so there is nothing to measure"));
    let missing = empty.path().join("missing");
    let name = missing.to_str().unwrap();
    recommend(&missing, &[]).failed(3, &format!("verisum: {name}: stat: No such file or directory"));
    verisum(["recommend", "--for", "x"])
        .failed(2, "verisum: --for: x: must be a number and s, m, h, d, w or y, as in 90d");
}

#[test]
fn a_signal_keeps_what_was_measured() {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let mut child = start(
        command(VERISUM)
            .args(["recommend", "--for", "300s", "--export-json", path.to_str().unwrap(), "--on"])
            .arg(tree.path()),
    );
    // It is saved while it is measured; the device comes first, then digests of small files.
    let measured = || {
        let results: Value = serde_json::from_slice(&fs::read(&path).ok()?).unwrap();
        let series = results["series"].as_array().unwrap();
        let digests = series.iter().filter(|one| one["control"] == false && one["wall"][0].is_number());
        Some((results["complete"].as_bool().unwrap(), digests.count()))
    };
    wait_until("a digest was measured", || {
        assert!(child.try_wait().unwrap().is_none());
        measured().is_some_and(|(_, digests)| digests > 0)
    });
    signal(&child, Signal::INT);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let (complete, digests) = measured().unwrap();
    assert!(!complete && digests > 0);
    // How far it came until the signal was seen depends on how busy the processors are.
    for said in ["stopped early: ", "not measured, since it was stopped before: "] {
        assert!(ended.out().contains(said), "{}", ended.out());
    }
}

#[test]
fn a_purpose_in_place_of_a_time_budget_is_told_where_it_belongs() {
    let ended = verisum(["recommend", "--for", "bitrot"]);
    ended.failed(
        2,
        "verisum: --for is a time budget, as 60s; what the digest is wanted for is --purpose bitrot",
    );
}
