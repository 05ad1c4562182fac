//! `verisum bench files`: ways to a file's digest, in tables and as Perl's Benchmark prints them.

use crate::common;

use common::{VERISUM, command, start, verisum, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use verisum_testkit::require_tool;

#[test]
fn the_matrix_has_every_way_and_the_reasons_of_those_left_out() {
    if require_tool("md5sum").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let ended = verisum([
        "bench",
        "files",
        "--runs",
        "2",
        "--large",
        "100k",
        "--shared",
        "2",
        "--style",
        "cmpthese",
        "--way",
        "md5sum",
        "--way",
        "md5sum",
        "--way",
        "in-process",
        "--way",
        "mine=sh -c 'md5sum < \"$1\"' sh {}",
        "--way",
        "gone=no-such-program {}",
        "--way",
        "lie=echo d41d8cd98f00b204e9800998ecf8427e {}",
        "--on",
        folder.path().to_str().unwrap(),
        "--export-json",
        json.to_str().unwrap(),
    ]);
    let out = ended.out();
    assert_eq!(ended.code, Some(1), "a wrong digest: {out}{}", ended.stderr);
    let matrices: Vec<&str> = out.split("\n\n").collect();
    assert_eq!(matrices.len(), 2, "{out}");
    assert!(matrices[0].starts_with("small: 2335 bytes, 2 runs\n"), "{out}");
    assert!(matrices[1].starts_with("large: 102400 bytes, 2 runs\n"), "{out}");
    for matrix in matrices {
        let heading = matrix.lines().nth(1).unwrap();
        for name in ["md5sum", "mine", "in-process"] {
            assert!(heading.contains(name), "{out}");
            let row = matrix.lines().find(|line| line.starts_with(name)).unwrap();
            assert_eq!(row.matches("--").count(), 1, "{row}");
        }
        assert!(matrix.contains("\ngone: SKIPPED: no-such-program is not installed"), "{out}");
        assert!(matrix.contains("\nlie: WRONG: wrong digest: d41d8cd9"), "{out}");
    }
    let results: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(results["bench"], "files");
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|one| one.file_name()).collect();
    assert_eq!(names, ["r.json"], "nothing else is left");
}

#[test]
fn no_name_of_a_file_is_code_or_an_option() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["-rf", "it's \"$(touch made)\" `x`; |", "a\nb = 11111111111111111111111111111111", "\\"] {
        std::fs::write(folder.path().join(name), "content").unwrap();
        let output = command(VERISUM)
            .args(["bench", "files", "--runs", "1", "--json", "--"])
            .arg(name)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for series in results["series"].as_array().unwrap() {
            let skipped = series["skipped"].as_str().unwrap_or("is not installed");
            assert!(skipped.ends_with("is not installed"), "{name}: {series}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing was made");
}

#[test]
fn what_cannot_be_done_is_said() {
    verisum(["bench", "files", "--way", "x"]).failed(
        2,
        "verisum: --way: x: must be a known name, or NAME=COMMAND (known: published, script, one-liner, \
         addfile, binmode, md5sum, openssl, python, verisum, in-process)",
    );
    let ended = verisum(["bench", "files", "--large", "100000T"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains(": write: needs "), "{}", ended.stderr);
    verisum(["bench", "files", "--", "/no/such"])
        .failed(3, "verisum: /no/such: open: No such file or directory");
}

/// The first signal keeps what was measured, whatever hangs; the second ends the program, also when nothing
/// else does. Nothing is left by either.
#[test]
fn signals_leave_nothing_behind() {
    for signals in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let made = || std::fs::read_dir(folder.path()).unwrap().next();
        let mut child = start(
            // The default limit is longer than this test's patience.
            command(VERISUM)
                .args(["bench", "files", "--large", "1", "--runs", "10000"])
                .args(["--way", "stuck=sh -c 'exec sleep 1000'", "--on"])
                .arg(folder.path()),
        );
        let process = Pid::from_child(&child);
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let starter = || {
            let children = std::fs::read_to_string(&children).unwrap_or_default();
            Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
        };
        let hangs = |starter: Pid| {
            let starter = starter.as_raw_pid();
            let of_it = std::fs::read_to_string(format!("/proc/{starter}/task/{starter}/children"));
            let children = of_it.unwrap_or_default();
            let is_stuck = |child: &str| {
                std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
            };
            children.split_whitespace().any(is_stuck)
        };
        wait_until("the program hangs", || starter().is_some_and(hangs));
        if signals == 2 {
            // A process that starts programs and does not answer.
            let starter = starter().unwrap();
            kill_process(starter, Signal::STOP).unwrap();
            // Two that come before it looks are one to it.
            wait_until("it ends", || {
                let _ = kill_process(process, Signal::TERM);
                std::thread::sleep(std::time::Duration::from_millis(500));
                child.try_wait().unwrap().is_some()
            });
            // It ends what it started, and itself.
            kill_process(starter, Signal::CONT).unwrap();
        } else {
            kill_process(process, Signal::TERM).unwrap();
            wait_until("it ends", || child.try_wait().unwrap().is_some());
        }
        let ended = common::Ended::of(child.wait_with_output().unwrap());
        match signals {
            1 => assert_eq!(ended.code, Some(130), "{}", ended.stderr),
            _ => assert_eq!(ended.signal, Some(15), "{}", ended.stderr),
        }
        assert!(made().is_none(), "removed");
    }
}
