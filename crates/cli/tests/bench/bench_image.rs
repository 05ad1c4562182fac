//! `verisum bench image`: images by their sources, and the library alone.

use crate::common;

use common::{VERISUM, command, start, verisum, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn commands_are_measured_on_every_source() {
    let folder = tempfile::tempdir().unwrap();
    let on = folder.path().to_str().unwrap();
    let out = verisum([
        "bench", "image", "--only", "commands", "--size", "3M", "--image", "50", "--image", "zeros",
        "--runs", "1", "--on", on, "--json",
    ])
    .clean();
    let results: Value = serde_json::from_str(&out).unwrap();
    let series = results["series"].as_array().unwrap();
    for content in ["50% full", "zeros"] {
        for source in ["raw file", "qcow2", "redirected", "pipe", "NBD"] {
            let group = format!("{content}, {source}");
            let ours = series.iter().find(|one| one["group"] == *group && one["name"] == "verisum");
            let ours = ours.unwrap_or_else(|| panic!("no {group}"));
            // Without a server, or without libnbd, there is a reason.
            let measured = ours["wall"].as_array().unwrap().len() == 1;
            assert!(measured || matches!(source, "qcow2" | "NBD") && ours["skipped"].is_string(), "{ours}");
        }
    }
    for (source, control) in [("qcow2", "verisum, null digest"), ("NBD", "nbdcopy to nothing")] {
        let group = format!("zeros, {source}");
        let is_there = series.iter().any(|one| one["group"] == *group && one["wall"][0].is_number());
        let limits = |one: &Value| one["group"] == *group && one["name"] == control && one["control"] == true;
        assert!(!is_there || series.iter().any(limits), "{group}: {out}");
    }
    // Every program that digests files has a row, if only with a reason.
    for name in ["sha256sum", "openssl", "perl", "rhash", "busybox", "sha256deep", "python", "b3sum"] {
        let has = |one: &Value| one["group"] == "50% full, raw file" && one["name"] == name;
        assert!(series.iter().any(has), "{name}: {out}");
    }
    assert!(series.iter().all(|one| one["wrong"] == false), "{out}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn without_other_programs_there_are_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(VERISUM)
        .args(["bench", "image", "--style", "blkhash", "--size", "1M", "--image", "25", "--image", "empty"])
        .args(["--runs", "1", "--on"])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let names: Vec<&str> = text.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        names,
        ["25% full", "empty", "redirected, 25% full", "redirected, empty", "pipe, 25% full", "pipe, empty"]
    );
    for line in text.lines().filter(|line| !line.contains("SKIPPED")) {
        let compared = [" x faster than sha256sum (", " x slower than sha256sum ("];
        assert!(compared.iter().any(|words| line.contains(words)), "{line}");
    }
}

#[test]
fn what_there_is_nothing_to_compare_with_has_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(VERISUM)
        .args(["bench", "image", "--style", "blkhash", "--size", "1M", "--image", "empty", "--runs", "1"])
        .arg("--on")
        .arg(folder.path())
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let ended = common::Ended::of(output);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.out().lines().count(), 3, "{}", ended.out());
    for line in ended.out().lines() {
        let why = "empty: SKIPPED: nothing to compare with: sha256sum is not installed; openssl is not";
        assert!(line.contains(why), "{line}");
    }
}

/// What is compared with a limit does as much work.
#[test]
fn controls_are_of_as_many_bytes_and_threads() {
    let out = verisum([
        "bench",
        "image",
        "--only",
        "library",
        "--runs",
        "1",
        "--threads",
        "1,2",
        "--input-size",
        "1M",
        "--block-size",
        "64k",
        "--queue-size",
        "1M",
        "--json",
    ])
    .clean();
    let results: Value = serde_json::from_str(&out).unwrap();
    let series = results["series"].as_array().unwrap();
    for (group, bytes) in [("library, sha256: data", 1 << 20), ("library, blake3: zero", 4 << 20)] {
        for threads in ["1", "2"] {
            let name = format!("read memory, threads: {threads}");
            let read = series.iter().find(|one| one["group"] == group && one["name"] == *name);
            let read = read.unwrap_or_else(|| panic!("no {name}"));
            assert_eq!((&read["control"], &read["bytes"]), (&true.into(), &bytes.into()));
            let null = |one: &&Value| one["control"] == true && one["labels"]["digest-name"] == "null";
            let with = |one: &&Value| one["labels"]["threads"] == threads;
            assert!(series.iter().filter(|one| one["group"] == group).filter(null).any(|one| with(&one)));
        }
    }
}

#[test]
fn too_little_memory_is_said() {
    let script = "ulimit -v 300000; exec \"$0\" bench image --size 8M --runs 1";
    let output = command("/bin/sh").args(["-c", script, VERISUM]).output().unwrap();
    let ended = common::Ended::of(output);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("needs 384 MiB of address space"), "{}", ended.stderr);
}

#[test]
fn the_library_is_measured_as_blkhash_bench_does() {
    let out = verisum([
        "bench",
        "image",
        "--style",
        "blkhash-bench",
        "--runs",
        "1",
        "--threads",
        "1,2",
        "--input-size",
        "1M",
        "--block-size",
        "64k,128k",
        "--queue-size",
        "1M",
    ])
    .clean();
    let runs: Vec<Value> = serde_json::from_str(&out).unwrap();
    let of = |input: &str, digest: &str| {
        let same = move |run: &&Value| run["input-type"] == input && run["digest-name"] == digest;
        runs.iter().filter(same).collect::<Vec<_>>()
    };
    // Two numbers of threads, sync and async; two block sizes and a queue.
    assert_eq!(of("data", "sha256").len(), 4 + 2 + 1, "{out}");
    assert_eq!((of("zero", "blake3").len(), of("hole", "blake3").len()), (4, 2));
    let usual = |run: &&&Value| run["block-size"] == 65536;
    for (input, digest) in [("data", "sha256"), ("zero", "sha256"), ("data", "blake3")] {
        let all = of(input, digest);
        let values: Vec<&Value> = all.iter().filter(usual).map(|run| &run["checksum"]).collect();
        assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{out}");
    }
    // Nothing of this is measured, but computed: the value of 1 MiB of zeros by the command.
    let folder = tempfile::tempdir().unwrap();
    let zeros = folder.path().join("zeros");
    std::fs::write(&zeros, vec![0; 4 << 20]).unwrap();
    let value = common::image_sum([zeros]).clean();
    assert_eq!(common::values(&value)[0], of("zero", "sha256")[0]["checksum"]);
}

#[test]
fn what_cannot_be_done_is_said() {
    verisum(["bench", "image", "--image", "33"])
        .failed(2, "verisum: --image: 33: must be 25, 50, 75, 100, empty or zeros");
    verisum(["bench", "image", "--size", "1000"])
        .failed(2, "verisum: --size: 1000: must be whole sectors, and at least 1M");
    let ended = verisum(["bench", "image", "--size", "1000T"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains(": write: needs "), "{}", ended.stderr);
}

/// The first signal keeps what was measured, the second ends the program; neither leaves files or servers.
#[test]
fn signals_leave_nothing_behind() {
    for signals in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let raw = || {
            let made = std::fs::read_dir(folder.path()).unwrap().next();
            made.is_some_and(|folder| folder.unwrap().path().join("image.raw").exists())
        };
        let mut child = start(
            command(VERISUM)
                .args(["bench", "image", "--only", "commands", "--size", "1M", "--runs", "10000", "--on"])
                .arg(folder.path()),
        );
        wait_until("an image is there", raw);
        for _ in 0..signals {
            // It may have ended already.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        wait_until("it ends", || child.try_wait().unwrap().is_some());
        let ended = common::Ended::of(child.wait_with_output().unwrap());
        // Two signals in a row may be one.
        assert!(ended.code == Some(130) || signals == 2 && ended.signal == Some(15), "{ended:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "removed");
    }
}
