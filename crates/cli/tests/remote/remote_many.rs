//! Trees on hosts, and very many names: what is asked and answered goes through, and is not kept.

use crate::common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::sshd::{Sshd, sshd};
use common::trees::place;
use common::{Ended, VERISUM};
use tempfile::TempDir;
use verisum_testkit::{copy_program, require_tool, write_script};

/// How many files there are; lists name each of them many times.
const FILES: usize = 500;

/// How many names; `TEST_NAMES` sets another number.
const NAMES: usize = 100_000;

/// In KiB: more than the names that may wait between both sides take, however slow one of them is, and
/// less than half of what a list of all names would take.
const MOST: u64 = 20 << 10;

fn files() -> TempDir {
    let folder = tempfile::Builder::new().prefix("verisum-many-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..FILES {
        fs::write(folder.path().join(number.to_string()), number.to_string()).unwrap();
    }
    folder
}

/// So many names; every hundredth is of no file.
fn list(path: &Path, count: usize) {
    let mut text = String::new();
    for number in 0..count {
        let file = if number % 100 == 99 { FILES } else { number % FILES };
        // Long, and nearly no two alike.
        text.push_str(&format!("{}{file}\0", "./".repeat(number % 301)));
    }
    fs::write(path, text).unwrap();
}

/// A program of the host whose peak of memory is seen while it runs.
fn told(folder: &Path, name: &str, program: &Path) {
    let text = format!(
        "#!/bin/sh\nexec 3<&0\n{program} \"$@\" <&3 &\np=$! peak=0\n\
         while now=$(sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$p/status 2>/dev/null); [ -n \"$now\" ]; do\n\
         peak=$now; sleep 0.01\ndone\necho $peak >> {folder}/peaks\nwait $p\n",
        program = program.display(),
        folder = folder.display()
    );
    write_script(folder.join(name), &text);
}

/// The peaks of the asker and of the host for so many names, in KiB.
fn peaks(server: &Sshd, programs: &Path, way: &str, folder: &Path, count: usize) -> (u64, u64) {
    let peaks = programs.join("peaks");
    fs::write(&peaks, "").unwrap();
    fs::set_permissions(&peaks, fs::Permissions::from_mode(0o666)).unwrap();
    let names = server.path("names");
    list(&names, count);
    let mut command = server.remote("sum");
    command.args(["-z", "--way", way, "--files0-from"]).arg(&names).arg(place("web1:", folder));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        // It has none any more when it has ended.
        while let Some(now) = fs::read_to_string(&status).ok().and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
        }) {
            peak = now;
            std::thread::sleep(Duration::from_millis(5));
        }
        peak
    });
    let ended = Ended::of(child.wait_with_output().unwrap());
    let here = watcher.join().unwrap();
    let listed = ended.stdout.iter().filter(|byte| **byte == 0).count();
    let missing = ended.stderr.matches(": No such file or directory\n").count();
    assert_eq!(
        (ended.code, listed, missing),
        (Some(3), count - count / 100, count / 100),
        "{way}: {}",
        first(&ended)
    );
    let there = fs::read_to_string(&peaks).unwrap();
    (here, there.lines().map(|line| line.parse::<u64>().unwrap()).max().unwrap())
}

/// The first of what may be very many lines.
fn first(ended: &Ended) -> String {
    ended.stderr.lines().take(3).collect::<Vec<_>>().join("; ")
}

#[test]
fn memory_does_not_grow_with_the_names() {
    let folder = files();
    let programs = tempfile::Builder::new().prefix("verisum-told-").tempdir().unwrap();
    fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let Some(server) = sshd(&format!("SetEnv PATH={}:/usr/bin:/bin", programs.path().display())) else {
        return;
    };
    // A copy: the user may not reach the build.
    copy_program(VERISUM, programs.path().join("own"));
    told(programs.path(), "verisum", &programs.path().join("own"));
    for name in ["sha256sum", "perl"] {
        let Some(program) = require_tool(name) else { return };
        told(programs.path(), name, &program);
    }
    let names = std::env::var("TEST_NAMES").map_or(NAMES, |text| text.parse().unwrap());
    for way in ["verisum", "coreutils", "perl"] {
        let (here, there) = peaks(&server, programs.path(), way, folder.path(), 2_000);
        let (here_many, there_many) = peaks(&server, programs.path(), way, folder.path(), names);
        if names != NAMES {
            let told = format!("{way}, {names} names: {here_many} KiB here, {there_many} KiB on the host\n");
            std::io::stderr().write_all(told.as_bytes()).unwrap();
        }
        // More names fill the bounded queues between both sides, and no more than them.
        assert!(here_many < here + MOST, "{way}: {here} KiB, then {here_many} KiB");
        assert!(there_many < there + MOST, "{way}: {there} KiB, then {there_many} KiB on the host");
    }
}
