//! What happens in the middle of a run: files that change, signals.

use crate::common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{BLKSUM, Ended, VERISUM, command, data_file, image_sum, start, wait_for_open, wait_until};
use rustix::process::Signal;

const LENGTH: u64 = 32 << 20;

/// A command that takes a second or so: every eight bytes are a block.
fn slow(program: &str, path: &Path) -> Command {
    let mut command = command(program);
    if program == VERISUM {
        command.args(["image", "sum", "--untagged"]);
    }
    command.args(["-t1", "--block-size=8"]).arg(path).env("VERISUM_KERNEL", "portable");
    command
}

/// Starts it and stops it in the middle.
fn stopped(program: &str, path: &Path) -> Child {
    for _ in 0..10 {
        let mut child = start(&mut slow(program, path));
        wait_for_open(&mut child, path);
        common::signal(&child, Signal::STOP);
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        wait_until("it stopped or ended", || state().contains(") T ") || state().contains(") Z "));
        if state().contains(") T ") {
            return child;
        }
        // It was quicker than this test.
        child.wait().unwrap();
    }
    panic!("it ends before it can be stopped");
}

fn go_on(child: Child) -> Ended {
    common::signal(&child, Signal::CONT);
    Ended::of(child.wait_with_output().unwrap())
}

#[test]
fn a_file_that_changes_its_length_has_no_value() {
    let folder = tempfile::tempdir().unwrap();
    for after in [5, LENGTH - 512, LENGTH + 512] {
        for (program, name, code) in [(VERISUM, "verisum", 3), (BLKSUM, "blksum", 1)] {
            let path = data_file(folder.path(), "image", LENGTH);
            let child = stopped(program, &path);
            File::options().write(true).open(&path).unwrap().set_len(after).unwrap();
            let change = format!("the file changed while it was read ({LENGTH} bytes, then {after})");
            go_on(child).failed(code, &format!("{name}: {}: read: {change}", path.display()));
        }
    }
}

#[test]
fn a_file_that_is_written_to_gets_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", LENGTH);
    let child = stopped(VERISUM, &path);
    File::options().write(true).open(&path).unwrap().write_all(b"changed").unwrap();
    let ended = go_on(child);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.out().lines().count(), 1);
    let warning = "WARNING: it was written to while it was read: the value may fit no state of it";
    assert_eq!(ended.stderr, format!("verisum: {}: {warning}\n", path.display()));
}

/// What a program says when a signal ends it: the blksum of blkhash does so of SIGTERM.
fn last_words(program: &str, signal: Signal) -> &'static str {
    match (program == BLKSUM, signal) {
        (true, Signal::TERM) => "blksum: Terminated by signal 15\n",
        _ => "",
    }
}

#[test]
fn signals_end_the_programs_at_once_and_without_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "image", LENGTH);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        for program in [VERISUM, BLKSUM] {
            let child = stopped(program, &path);
            common::signal(&child, signal);
            let ended = go_on(child);
            assert_eq!((ended.signal, ended.code), (Some(number), None));
            assert_eq!((ended.out(), ended.stderr.as_str()), ("", last_words(program, signal)));
        }
    }
    // Also while nothing comes from a pipe.
    for program in [VERISUM, BLKSUM] {
        let mut command = command(program);
        if program == VERISUM {
            command.args(["image", "sum", "--untagged"]);
        }
        let mut child = start(command.stdin(Stdio::piped()));
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&[1; 100_000]).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        common::signal(&child, Signal::INT);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!((ended.signal, ended.out(), ended.stderr.as_str()), (Some(2), "", ""));
    }
}

/// Else the system would end it where a mapped file is cut off.
#[test]
fn a_blocked_sigbus_is_blocked_no_more() {
    let arguments = ["--block-signal=BUS", VERISUM, "image", "sum"];
    let mut child = start(Command::new("env").args(arguments).stdin(Stdio::piped()));
    let blocked = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> (Signal::BUS.as_raw() - 1) & 1 == 1
    };
    wait_until("it gets SIGBUS", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.starts_with("Name:\tverisum") && !blocked(&status)
    });
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn what_was_finished_before_a_signal_was_printed() {
    let folder = tempfile::tempdir().unwrap();
    let small = data_file(folder.path(), "small", 512);
    let large = data_file(folder.path(), "large", LENGTH);
    let first = image_sum([Path::new("--block-size=8"), &small]).clean();
    let mut child = start(slow(VERISUM, &small).arg(&large));
    wait_for_open(&mut child, &large);
    common::signal(&child, Signal::TERM);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.signal, ended.out()), (Some(15), first.as_str()));
}

#[test]
fn the_demonstration_cleans_up_after_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let is_empty = || std::fs::read_dir(folder.path()).unwrap().next().is_none();
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        // Under `nohup` SIGHUP is ignored, by the programs started here too, and rightly so.
        if common::is_ignored(signal) {
            continue;
        }
        let child = start(command(VERISUM).arg("demo").env("TMPDIR", folder.path()));
        let image = || {
            let made = std::fs::read_dir(folder.path()).unwrap().next();
            made.is_some_and(|folder| folder.unwrap().path().join("disk.img").exists())
        };
        wait_until("the demonstration has an image", image);
        common::signal(&child, signal);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!((ended.signal, ended.stderr.as_str()), (Some(number), ""));
        assert!(is_empty(), "something is left behind");
    }
}
