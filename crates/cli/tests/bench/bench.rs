//! `verisum bench`: historical lines, wrong programs, missing ones, full disks, signals, comparisons.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Ended, VERISUM, command, data_file, signal, start, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use verisum_testkit::copy_program;

/// A folder of links to these programs, and nothing else to be found in it.
fn programs(folder: &Path, names: &[&str]) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    for name in names {
        if let Some(program) = verisum_testkit::require_tool(name) {
            std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
        }
    }
    bin
}

fn bench<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ended {
    // On a terminal that has room for every table.
    Ended::of(command(VERISUM).arg("bench").args(arguments).env("COLUMNS", "500").output().unwrap())
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Lines with their seconds made equal: what else they hold never changes.
fn without_times(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(" seconds over ") {
            Some((start, end)) => {
                let (start, seconds) = start.rsplit_once(' ').unwrap();
                assert!(seconds.parse::<u32>().is_ok(), "whole seconds: {line}");
                format!("{start} N seconds over {end}")
            }
            None => line.to_string(),
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn the_historical_lines_are_those_of_the_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "it's a file", 100_000);
    let json = folder.path().join("r.json");
    let ended = bench([
        "digests",
        "--style",
        "test-digests",
        "--runs",
        "2",
        "--export-json",
        json.to_str().unwrap(),
        file.to_str().unwrap(),
    ]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let of = |program: &str, digest: &str, ran: bool| match ran {
        true => format!("TEST: {program} / DIGEST: {digest} / N seconds over 2 runs"),
        false => format!("TEST: {program} / DIGEST: {digest} / SKIPPED"),
    };
    // Perl's RIPEMD-160 and OpenSSL's MD4 are in packages that many have not.
    let series = read(&json)["series"].as_array().unwrap().clone();
    let measured = |program: &str, digest: &str| {
        series.iter().any(|one| {
            one["name"] == program
                && one["labels"]["digest"] == digest
                && !one["wall"].as_array().unwrap().is_empty()
        })
    };
    let mut expected = vec![String::new()];
    for program in ["coreutils", "openssl", "perl", "rhash"] {
        for digest in ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "ripemd160"] {
            let ran = match (program, digest) {
                ("coreutils", "ripemd160") => false,
                ("perl", "ripemd160") => measured(program, digest),
                _ => true,
            };
            expected.push(of(program, digest, ran));
        }
    }
    expected.push(of("coreutils", "sum", true));
    expected.push(of("coreutils", "cksum", true));
    expected.push(of("openssl", "md4", measured("openssl", "md4")));
    expected.push(of("openssl", "md5", true));
    expected.sort();
    // After the tables stand the checks of lists, and why what was skipped was.
    let tables: Vec<&str> = ended.out().split("\n\n").take(2).collect();
    assert_eq!(without_times(&tables.join("\n\n")), expected);
    for program in ["md5sum", "sha1sum", "sha256sum", "sha512sum"] {
        let line = ended.out().lines().find(|line| line.starts_with(&format!("CHECK: {program} -c / real ")));
        assert!(
            line.is_some_and(|line| line.contains(" / user ") && line.ends_with(" seconds")),
            "{program}"
        );
    }
    for (program, digest) in [("perl", "ripemd160"), ("openssl", "md4")] {
        let why = format!("\n{program} {digest}: SKIPPED: ");
        assert_eq!(ended.out().contains(&why), !measured(program, digest), "{}", ended.out());
    }
    // Those that were skipped come last.
    let first = ended.out().split("\n\n").next().unwrap();
    let skipped: Vec<bool> = first.lines().map(|line| line.ends_with("SKIPPED")).collect();
    assert!(skipped.is_sorted(), "{first}");
}

#[test]
fn the_historical_lines_are_of_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 50_000);
    let only = ["--program", "coreutils", "-a", "md5", "-a", "ripemd160", file.to_str().unwrap()];
    let ended = bench(["digests", "--style", "test-digests", "--runs", "2"].into_iter().chain(only));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let lines = [
        "",
        "TEST: coreutils / DIGEST: md5 / N seconds over 2 runs",
        "TEST: coreutils / DIGEST: ripemd160 / SKIPPED",
        "coreutils ripemd160: SKIPPED: it has none",
    ];
    assert_eq!(without_times(ended.out().trim_end()), lines);
}

#[test]
fn a_wrong_program_is_caught_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let bin = programs(folder.path(), &["true"]);
    // As what is found first in the path: it is no script, so that it is taken for the real one.
    copy_program("/bin/echo", bin.join("md5sum"));
    let file = data_file(folder.path(), "file", 50_000);
    let output = command(VERISUM)
        .args(["bench", "digests", "--only", "programs", "-a", "md5", "--runs", "3"])
        .args(["--program", "coreutils", "--program", "busybox", "--program", "verisum"])
        .arg(&file)
        .env("PATH", &bin)
        .env("COLUMNS", "500")
        .output()
        .unwrap();
    let ended = Ended::of(output);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "{}", ended.out());
    assert!(ended.out().contains("WRONG: coreutils (md5 of a file): wrong digest: "), "{}", ended.out());
    let row = |name: &str| ended.out().lines().find(|line| line.starts_with(name)).unwrap_or("").to_string();
    assert!(row("coreutils").contains("WRONG: wrong digest"), "{}", row("coreutils"));
    let ours = ended.out().lines().filter(|line| line.starts_with("verisum ")).count();
    assert!(ours >= 1 && ended.out().contains("start a program"), "{}", ended.out());
}

/// What verisum itself occupies does not hide what others need. OpenSSL's program needs several times what the
/// process that starts it has, in a test build too: the least, md5sum's, is about as much as that.
#[test]
fn the_memory_of_programs_is_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 50_000);
    let out = bench([
        "digests",
        "--only",
        "programs",
        "-a",
        "md5",
        "--program",
        "openssl",
        "--runs",
        "2",
        "--json",
        file.to_str().unwrap(),
    ])
    .clean();
    let results: Value = serde_json::from_str(&out).unwrap();
    let of = |name: &str| {
        let same = |one: &&Value| one["name"] == name && one["group"] == "md5 of a file";
        results["series"].as_array().unwrap().iter().find(same).unwrap().clone()
    };
    let (theirs, ours) = (of("openssl"), of("verisum, null digest"));
    let (small, large) = (theirs["memory"].as_u64().unwrap(), ours["memory"].as_u64().unwrap());
    assert!((2 << 20..12 << 20).contains(&small) && small < large, "{small} {large}");
    assert!(theirs["program"].as_str().unwrap().ends_with("/openssl"), "{theirs}");
}

#[test]
fn what_hangs_is_killed_and_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 100);
    let output = command(VERISUM)
        .args([
            "bench",
            "files",
            "--way",
            "stuck=sh -c 'sleep 1000; sleep 1000'",
            "--run-timeout",
            "1s",
            "--runs",
            "2",
        ])
        .arg(&file)
        .output()
        .unwrap();
    let ended = Ended::of(output);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), ""), "{}", ended.out());
    assert!(ended.out().contains("took longer than 1 s and was killed"), "{}", ended.out());
    assert!(ended.out().contains("FAILED: stuck ("), "{}", ended.out());
}

/// What a killed run left goes with the next one; what others use stays.
#[test]
fn folders_of_killed_runs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("verisum-bench-1-2");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("large"), "data").unwrap();
    let on = folder.path().to_str().unwrap();
    bench(
        ["digests", "--only", "programs", "-a", "md5", "--program", "verisum", "--size", "1k", "--runs", "1"]
            .into_iter()
            .chain(["--on", on]),
    )
    .clean();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn our_own_program_is_not_taken_for_a_wrong_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "back\\slash", 5000);
    let old = folder.path().join("results.html");
    fs::write(&old, "older").unwrap();
    let digests = ["-a", "sha256", "-a", "xxh3-64"];
    let arguments = ["digests", "--only", "programs", "--program", "verisum", "--runs", "1", "--export-html"];
    let paths = [old.to_str().unwrap(), file.to_str().unwrap()];
    let out = bench(arguments.iter().chain(&paths[..1]).chain(&digests).chain(&paths[1..]).copied()).clean();
    assert!(!out.contains("WRONG"), "{out}");
    assert!(fs::read_to_string(&old).unwrap().starts_with("<!doctype html>"));
}

#[test]
fn a_full_disk_loses_nothing_that_is_printed() {
    let ended = bench([
        "digests",
        "--only",
        "process",
        "-a",
        "crc32c",
        "--runs",
        "2",
        "--message",
        "1k",
        "--export-json",
        "/dev/full",
        "--export-html",
        "/dev/full",
        "--details",
    ]);
    assert_eq!(ended.code, Some(3));
    // Beside much other work it takes so long that results are saved, in vain, before the end too.
    let told: BTreeSet<&str> = ended.stderr.lines().collect();
    assert_eq!(told, ["verisum: /dev/full: write: No space left on device"].into());
    assert!(ended.out().contains("crc32c in process") && ended.out().contains("Host"), "{}", ended.out());
}

#[test]
fn a_signal_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let mut child = start(
        command(VERISUM)
            .args(["bench", "digests", "--only", "process", "-a", "md5", "-a", "sha256", "--time", "1h"])
            // The most rounds that there are take longer than any test waits.
            .args(["--size", "64M", "--export-json"])
            .arg(&json),
    );
    // It saves while it measures.
    wait_until("something is saved", || json.exists() || child.try_wait().unwrap().is_some());
    let saved = read(&json);
    assert_eq!((&saved["complete"], &saved["type"]), (&Value::Bool(false), &"bench".into()));
    signal(&child, Signal::INT);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), ""));
    assert!(ended.out().starts_with("stopped early"), "{}", ended.out());
    let kept = read(&json);
    let times = |value: &Value| value["series"][0]["wall"].as_array().map_or(0, Vec::len);
    assert!(times(&kept) >= times(&saved) && times(&saved) > 0);
    std::thread::sleep(Duration::from_millis(1));
}

#[test]
fn results_are_compared_and_others_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (a, b) = (path("a.json"), path("b.json"));
    for file in [&a, &b] {
        let ended = bench([
            "digests",
            "--only",
            "process",
            "-a",
            "crc32",
            "--runs",
            "2",
            "--message",
            "1k",
            "--export-json",
            file,
        ]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
    let compared = bench(["compare", &a, &b]).clean();
    let row = compared.lines().find(|line| line.contains("copy in memory")).unwrap();
    // Two runs of each are never enough.
    assert!(row.contains("no significant difference"), "{row}");
    let mut other = read(Path::new(&b));
    other["version"] = 2.into();
    fs::write(&b, other.to_string()).unwrap();
    bench(["compare", &a, &b]).failed(
        3,
        &format!("verisum: {b}: read: version 2 of the results; this program knows version 1 only"),
    );
    bench(["compare", &a, "/dev/zero"]).failed(3, "verisum: /dev/zero: read: not a regular file");
    let missing = path("none.json");
    bench(["compare", &a, &missing])
        .failed(3, &format!("verisum: {missing}: read: No such file or directory"));
}

#[test]
fn runs_that_contradict_each_other_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (a, b) = (path("a.json"), path("b.json"));
    let once =
        ["digests", "--only", "process", "-a", "md5", "--message", "1k", "--runs", "1", "--export-json"];
    bench(once.into_iter().chain([a.as_str()])).clean();
    let mut results = read(Path::new(&a));
    let rows = results["series"].as_array_mut().unwrap();
    rows.retain(|one| one["control"] == false && one["skipped"].is_null());
    rows.truncate(2);
    for (file, seconds) in [(&a, [1.0, 1.5]), (&b, [2.0, 1.5])] {
        for (row, seconds) in results["series"].as_array_mut().unwrap().iter_mut().zip(seconds) {
            let times: Vec<f64> = (0..6).map(|round| seconds * (1.0 + f64::from(round) / 100.0)).collect();
            row["rounds"] = (1..=6).collect::<Vec<u32>>().into();
            for field in ["wall", "user", "system"] {
                row[field] = times.clone().into();
            }
            for field in ["cycles", "crowding"] {
                row[field] = Value::Array(Vec::new());
            }
        }
        fs::write(file, results.to_string()).unwrap();
    }
    let agree = bench(["compare", &a, &a]).clean();
    let verdict =
        "the second takes neither more nor less time than the first: of 2 rows none differs significantly\n";
    let agree = agree.strip_prefix(verdict).unwrap_or_else(|| panic!("{agree}"));
    assert!(agree.starts_with("pairs: 1; significant in both 1, of which 1 agree; "), "{agree}");
    assert!(!agree.contains("significant in any of the two"), "{agree}");
    assert!(bench(["compare", "--pairs", &a, &a]).clean().contains("significant in any of the two"));
    let ended = bench(["compare", &a, &b]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    assert!(ended.out().starts_with("CONTRADICTION: "), "{}", ended.out());
    assert!(ended.out().contains(": 1.50 times as fast, then 1.33 times as slow"), "{}", ended.out());
    // On another machine it is a result.
    results["host"]["processor"] = "another".into();
    fs::write(&b, results.to_string()).unwrap();
    assert!(bench(["compare", &a, &b]).clean().contains("CONTRADICTION: "));
}

#[test]
fn all_that_rots_in_a_made_up_tree_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let told = bench(["scale", "--files", "3000", "--rot", "100", made.to_str().unwrap()]).clean();
    let found = told.lines().find(|line| line.ends_with("rotten files found")).unwrap();
    let numbers: Vec<u64> = found.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [.., found, rotten] = numbers[..] else { panic!("{told}") };
    assert!(found == rotten && rotten > 0, "{told}");
    let names = fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["catalog.db", "catalog.db.lock", "lake"]);
}

#[test]
fn bad_usage_is_one_line() {
    for (arguments, message) in [
        (&["digests", "-a", "sha265"][..], "verisum: unknown digest: sha265 (did you mean sha256?)"),
        (&["digests", "--message", "0"], "verisum: --message: 0: must be 1 byte to 64M"),
        (&["--time", "soon"], "verisum: --time: soon: must be a number and s, m, h, d, w or y, as in 90d"),
    ] {
        bench(arguments.iter().copied()).failed(2, message);
    }
    bench(["digests", "/no/such/file"]).failed(3, "verisum: /no/such/file: open: No such file or directory");
}

#[test]
fn cold_runs_are_cold_or_skipped_with_a_reason() {
    // Not in memory, if it can be helped.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = data_file(folder.path(), "file", 2 << 20);
    let json = folder.path().join("r.json");
    let ended = bench([
        "digests",
        "--only",
        "programs",
        "--program",
        "verisum",
        "-a",
        "sha256",
        "--runs",
        "2",
        "--cold",
        "--export-json",
        json.to_str().unwrap(),
        file.to_str().unwrap(),
    ]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    for series in read(&json)["series"].as_array().unwrap() {
        if series["name"] == "start a program" {
            // It reads nothing of the file, whether that can be dropped or not.
            assert_eq!((&series["cache"], &series["skipped"]), (&"none".into(), &Value::Null), "{series}");
            continue;
        }
        let of_file = series["group"] == "sha256 of a file";
        let skipped = series["skipped"].as_str().unwrap_or("");
        if of_file && skipped.is_empty() {
            assert_eq!(series["cache"], "cold", "{series}");
        } else if of_file {
            assert!(skipped.contains("cannot be dropped from the cache"), "{skipped}");
        }
    }
}
