//! `verisum bench` where something is limited or missing: the length of files, /proc, the process itself.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Ended, VERISUM, command, signal, start, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use verisum_testkit::{require_root, require_tool, write_script};

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("ulimit -f 2 && exec {VERISUM} bench files --large 1M --runs 1 --on \"$0\"");
    let ended = Ended::of(Command::new("sh").args(["-c", &line]).arg(folder.path()).output().unwrap());
    assert_eq!((ended.code, ended.signal), (Some(3), None), "{}", ended.stderr);
    assert!(ended.stderr.ends_with(": write: File too large\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn nothing_goes_on_when_all_of_verisum_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(
        command(VERISUM)
            .args(["bench", "files", "--large", "1", "--runs", "10"])
            .args(["--way", "stuck=sh -c 'exec sleep 1000'", "--on"])
            .arg(folder.path()),
    );
    let child_of = |parent: u32| -> Option<u32> {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    };
    let is_sleep = |process: u32| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    let mut found = None;
    wait_until("the program hangs", || {
        found = child_of(child.id()).and_then(|starter| Some((starter, child_of(starter)?)));
        found.is_some_and(|(_, program)| is_sleep(program))
    });
    let (starter, program) = found.unwrap();
    kill_process(Pid::from_raw(starter as i32).unwrap(), Signal::KILL).unwrap();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("it is gone", || !is_sleep(program));
}

#[test]
fn what_is_not_known_by_name_is_not_asked_for_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("mine");
    write_script(&script, "#!/bin/sh\necho \"$@\" >> \"$0.log\"\nexec md5sum \"$1\"\n");
    let file = common::data_file(folder.path(), "file", 1000);
    let output = command(VERISUM)
        .args(["bench", "files", "--runs", "2", "--way", "md5sum", "--json", "--way"])
        .arg(format!("mine={}", script.display()))
        .arg(&file)
        .output()
        .unwrap();
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let log = fs::read_to_string(folder.path().join("mine.log")).unwrap();
    assert!(log.lines().count() >= 3 && log.lines().all(|line| Path::new(line) == file), "{log}");
    let versions = results["host"]["versions"].as_object().unwrap();
    assert!(versions.contains_key("md5sum") && versions.keys().all(|name| !name.contains("mine")));
}

#[test]
fn programs_are_measured_without_proc() {
    if require_root().is_none() || require_tool("unshare").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "mount -t tmpfs none /proc && exec {VERISUM} bench digests --only programs -a md5 --size 1k --runs 1 \
         --program coreutils --program verisum --on \"$0\""
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &line]).arg(folder.path()).output().unwrap();
    let ended = Ended::of(output);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    let row = |name: &str| ended.out().lines().any(|line| line.starts_with(name) && !line.contains(": "));
    assert!(row("coreutils ") && row("verisum "), "{}", ended.out());
}
