//! The catalogue: who may read it, what its damage looks like, and what is told of its runs.

mod common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Ended, VERISUM, command, start, verisum};
use rustix::process::Signal;
use tempfile::TempDir;
use verisum_testkit::{FsKind, Mount, require_root, require_tool};

/// How many files a tree has: one that is read at one file a second takes half a minute.
const FILES: u32 = 30;

/// A tree of some files and the path of a catalogue beside it.
fn tree() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let (root, catalog) = (path.join("tree"), path.join("c.db"));
    fs::create_dir(&root).unwrap();
    for number in 0..FILES {
        fs::write(root.join(format!("f{number}")), format!("content {number}")).unwrap();
    }
    (folder, root, catalog)
}

fn run(words: &[&str], catalog: &Path, paths: &[&Path]) -> Ended {
    let words = words.iter().map(PathBuf::from);
    let paths = paths.iter().map(PathBuf::from);
    verisum(words.chain([PathBuf::from("--catalog"), catalog.into()]).chain(paths))
}

/// The verbs that only read.
const READ: [&str; 3] = ["status", "check", "export"];

#[test]
fn reading_needs_no_right_to_write() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    if require_root().is_none() {
        return;
    }
    // Another user's, in a folder that is closed to others, and none of SQLite's files beside it.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let before = fs::read(&catalog).unwrap();
    let as_other = |verb: &str| {
        let mut command = command(VERISUM);
        command.args(["catalog", verb, "--catalog"]).arg(&catalog).uid(65534).gid(65534);
        Ended::of(command.output().unwrap())
    };
    for verb in READ {
        let out = as_other(verb).clean();
        assert!(verb == "check" || out.contains("tree"), "{out}");
    }
    // A run of the owner goes on meanwhile.
    let mut child =
        start(command(VERISUM).args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root));
    common::wait_until("the run has begun", || {
        fs::metadata(catalog.with_file_name("c.db-wal")).is_ok_and(|log| log.len() > 0)
    });
    for verb in READ {
        as_other(verb).clean();
    }
    assert!(as_other("status").out().contains(": in progress\n"));
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = as_other("status");
    assert!(ended.out().contains(": was killed\n"), "{}{}", ended.out(), ended.stderr);
    run(&["scrub"], &catalog, &[&root]).clean();
    assert_ne!(before, fs::read(&catalog).unwrap());
}

#[test]
fn a_read_only_file_system_is_no_obstacle() {
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let (_folder, root, _) = tree();
    // A name that is special in SQLite's own.
    let catalog = mount.path().join("c %41?mode=x#.db");
    run(&["scrub"], &catalog, &[&root]).clean();
    let remount = |options: &str| {
        let status = Command::new("mount").args(["-o", options]).arg(mount.path()).status();
        assert!(status.unwrap().success());
    };
    remount("remount,ro");
    for verb in READ {
        run(&["catalog", verb], &catalog, &[]).clean();
    }
    let tags = run(&["verify"], &catalog, &[&root]);
    assert!(!tags.stderr.contains("c %41"), "{}", tags.stderr);
    run(&["scrub"], &catalog, &[&root]).failed(
        3,
        &format!("verisum: {}.lock: open: Read-only file system", catalog.canonicalize().unwrap().display()),
    );
    // With a log that nobody has worked in yet.
    remount("remount,rw");
    let mut child =
        start(command(VERISUM).args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root));
    let log = PathBuf::from(format!("{}-wal", catalog.display()));
    common::wait_until("the run has begun", || fs::metadata(&log).is_ok_and(|log| log.len() > 0));
    child.kill().unwrap();
    child.wait().unwrap();
    remount("remount,ro");
    let ended = run(&["catalog", "status"], &catalog, &[]);
    match ended.code {
        Some(0) => assert!(ended.out().contains("was killed"), "{}", ended.out()),
        code => assert_eq!((code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr),
    }
}

#[test]
fn runs_are_called_what_they_were() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let how = || -> Vec<String> {
        let out = run(&["catalog", "status", "--json"], &catalog, &[]).clean();
        let line: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&line["path"], &line["files"]), (&root.to_str().unwrap().into(), &FILES.into()));
        line["runs"].as_array().unwrap().iter().map(|run| run["how"].as_str().unwrap().into()).collect()
    };
    let slow = || {
        let child = start(
            command(VERISUM).args(["scrub", "--limit-iops", "1", "--catalog"]).arg(&catalog).arg(&root),
        );
        let runs = how().len();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while how()[0] != "in progress" && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(how().len() >= runs);
        child
    };
    for signal in [Signal::TERM, Signal::INT] {
        let child = slow();
        common::signal(&child, signal);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!((ended.code, how()[0].as_str()), (Some(130), "interrupted"));
    }
    let mut child = slow();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(how(), ["killed", "interrupted", "interrupted", "complete"]);
}

#[test]
fn damage_to_a_record_is_no_rot_of_the_file() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    // A bit of the recorded digest.
    let Some(sha256sum) = require_tool("sha256sum") else { return };
    let output = Command::new(sha256sum).arg(root.join("f3")).output().unwrap();
    let hex = String::from_utf8_lossy(&output.stdout)[..64].to_string();
    let digest: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut bytes = fs::read(&catalog).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 32).filter(|&at| bytes[at..at + 32] == digest).collect();
    assert_eq!(places.len(), 1, "a digest is kept once");
    bytes[places[0] + 7] ^= 4;
    fs::write(&catalog, &bytes).unwrap();
    let path = root.join("f3");
    let ended = run(&["catalog", "check"], &catalog, &[]);
    let message = format!("verisum: {}: check: {}: its record is damaged", catalog.display(), path.display());
    ended.failed(1, &message);
    for _ in 0..2 {
        let ended = run(&["scrub"], &catalog, &[&root]);
        assert_eq!(ended.code, Some(3), "{}{}", ended.out(), ended.stderr);
        assert!(ended.out().starts_with(&format!("record-damaged  {}", path.display())), "{}", ended.out());
        assert!(ended.out().contains(&format!("ok {}, record-damaged 1", FILES - 1)), "{}", ended.out());
    }
    // It is kept, also if the file goes.
    fs::rename(&path, root.join("away")).unwrap();
    let ended = run(&["scrub"], &catalog, &[&root]);
    assert!(ended.code == Some(3) && ended.out().contains("record-damaged"), "{}", ended.out());
    fs::rename(root.join("away"), &path).unwrap();
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    assert_eq!(export.matches("\"record-damaged\"").count(), 1, "{export}");
    run(&["accept"], &catalog, &[&path]).clean();
    assert_eq!(run(&["scrub"], &catalog, &[&root]).code, Some(0));
    run(&["catalog", "check"], &catalog, &[]).clean();
}

#[test]
fn what_is_no_catalogue_is_said_in_one_line() {
    let (folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let good = fs::read(&catalog).unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("text"), "some text, and more of it\n".repeat(50)).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("short"), &good[..good.len() / 3]).unwrap();
    fs::write(path("beginning"), &good[..50]).unwrap();
    let mkfifo = Command::new("mkfifo").arg(path("pipe")).status();
    assert!(mkfifo.is_ok_and(|status| status.success()));
    let mut random = 4321_u32;
    let mut flipped = good.clone();
    for _ in 0..200 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let place = 100 + random as usize % (good.len() - 100);
        flipped[place] ^= 1 << (random % 8);
    }
    fs::write(path("flipped"), &flipped).unwrap();
    let verbs: [&[&str]; 6] = [
        &["catalog", "status"],
        &["catalog", "check"],
        &["catalog", "export"],
        &["accept"],
        &["scrub", "--quiet"],
        &["verify"],
    ];
    for name in ["folder", "text", "empty", "short", "beginning", "pipe", "missing/c.db", "flipped"] {
        for verb in verbs {
            let paths: &[&Path] = if verb[0] == "catalog" { &[] } else { &[&root] };
            let ended = run(verb, &path(name), paths);
            assert!(!ended.stderr.contains("panicked") && ended.signal.is_none(), "{}", ended.stderr);
            assert!(!ended.stderr.contains("(os error"), "{}", ended.stderr);
            if name == "flipped" || verb[0] == "verify" {
                continue;
            }
            let code = if verb == ["catalog", "check"] && ended.code == Some(1) { 1 } else { 3 };
            assert_eq!(
                (ended.code, ended.stderr.lines().count()),
                (Some(code), 1),
                "{name} {verb:?} {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn monitoring_is_told_why_nothing_was_done() {
    let (folder, root, catalog) = tree();
    let file = folder.path().canonicalize().unwrap().join("verisum.prom");
    let prometheus = format!("--prometheus={}", file.display());
    run(&["scrub", "--quiet", &prometheus], &catalog, &[&root]).clean();
    let value = |name: &str| -> Option<f64> {
        let text = fs::read_to_string(&file).unwrap();
        let line = text.lines().find(|line| line.starts_with(name))?.to_string();
        line.rsplit(' ').next().unwrap().parse().ok()
    };
    assert_eq!(
        (value("verisum_scrub_up "), value("verisum_scrub_recorded_files{")),
        (Some(1.0), Some(f64::from(FILES)))
    );
    let began = value("verisum_scrub_start_time_seconds{").unwrap();
    assert!(value("verisum_scrub_oldest_verification_timestamp_seconds{").unwrap() >= began.floor());
    let lock = File::open(folder.path().join("c.db.lock")).unwrap();
    lock.try_lock().unwrap();
    let ended = run(&["scrub", "--nagios", &prometheus], &catalog, &[&root]);
    assert_eq!(ended.code, Some(3));
    let said = format!("VERISUM UNKNOWN - {}: lock: another run uses this catalogue\n", catalog.display());
    assert_eq!(ended.out(), said);
    // The figures are those of the run before, and it is told that they are.
    assert_eq!(
        (value("verisum_scrub_up "), value("verisum_scrub_recorded_files{")),
        (Some(0.0), Some(f64::from(FILES)))
    );
    assert_eq!(value("verisum_scrub_start_time_seconds{"), Some(began));
    assert!(value("verisum_scrub_last_attempt_timestamp_seconds ").unwrap() > began);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(",reason=\"locked\"} 1\n"), "{text}");
    for name in ["verisum_scrub_up ", "# TYPE verisum_scrub_up ", "# HELP verisum_scrub_files "] {
        assert_eq!(text.lines().filter(|line| line.starts_with(name)).count(), 1, "{text}");
    }
    drop(lock);
    let nowhere = root.join("nowhere");
    let ended = run(&["scrub", "--nagios", &prometheus], &catalog, &[&root, &nowhere]);
    let reason = format!(", not scrubbed: {}: stat: No such file or directory", nowhere.display());
    assert!(ended.out().contains(&reason), "{}", ended.out());
    assert!(ended.out().contains(" time=0.") && ended.out().contains("s oldest=0s"), "{}", ended.out());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("/nowhere\",reason=\"directory\"} 1\n"), "{text}");
    assert_eq!(value("verisum_scrub_up "), Some(1.0));
}

#[test]
fn values_that_mean_nothing_are_bad_usage() {
    let (_folder, root, catalog) = tree();
    for options in [
        ["--sample", "0"],
        ["--sample", "0%"],
        ["--sample", "-5%"],
        ["--sample", "200%"],
        ["--alarm-changed", "0"],
        ["--alarm-changed", "-1"],
        ["--alarm-changed", "1000%"],
        ["--max-age", "0d"],
        ["--for", "-2h"],
        ["--stop-after", "-1"],
        ["--threads", "0"],
        ["--since", "tomorrow"],
    ] {
        let ended = run(&["scrub", options[0], options[1]], &catalog, &[&root]);
        assert_eq!(ended.code, Some(2), "{options:?} {}", ended.stderr);
    }
    assert!(!catalog.exists());
}

#[test]
fn what_cannot_be_relocated_is_named() {
    let (_folder, root, catalog) = tree();
    run(&["scrub"], &catalog, &[&root]).clean();
    let relocate = |from: &Path, to: &Path| run(&["catalog", "relocate"], &catalog, &[from, to]);
    let other = root.with_file_name("other");
    let message = format!("verisum: {}: relocate: it is no tree of the catalogue", other.display());
    relocate(&other, &root).failed(3, &message);
    let message = format!(
        "verisum: {}: relocate: it is a tree of the catalogue already (`verisum catalog forget` removes one)",
        root.display()
    );
    relocate(&root, &root).failed(3, &message);
    let message = format!(
        "verisum: {}: relocate: no directory is there (--unmounted takes its place as it will be)",
        other.display()
    );
    relocate(&root, &other).failed(3, &message);
    run(&["catalog", "relocate", "--unmounted"], &catalog, &[&root, &other]).clean();
    fs::rename(&root, &other).unwrap();
    run(&["scrub", "--quiet"], &catalog, &[&other]).clean();
    fs::rename(&other, &root).unwrap();
    relocate(&other, &root).clean();
}

#[test]
fn a_full_file_system_of_small_blocks_is_an_error_and_no_signal() {
    let Some(mount) = Mount::formatted(FsKind::Ext4, 0, &["-b", "1024"]) else { return };
    let (_folder, root, _) = tree();
    let catalog = mount.path().join("c.db");
    run(&["scrub"], &catalog, &[&root]).clean();
    let filler = mount.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    for length in [1 << 20, 1 << 10] {
        while std::io::Write::write_all(&mut file, &vec![7; length]).is_ok() {}
    }
    fs::write(root.join("f1"), "another content").unwrap();
    let full = file.metadata().unwrap().len();
    let end = "no space left on device\n";
    // With a little space there are files that are long enough and have holes.
    for kibibytes in [0, 8, 24, 33] {
        file.set_len(full - (kibibytes << 10)).unwrap();
        file.sync_all().unwrap();
        for verb in READ {
            let out = run(&["catalog", verb], &catalog, &[]).clean();
            assert!(verb == "check" || out.contains("tree"), "{out}");
        }
        let ended = run(&["scrub"], &catalog, &[&root]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
        let begin = format!("verisum: {}: ", catalog.display());
        assert!(ended.stderr.starts_with(&begin) && ended.stderr.ends_with(end), "{}", ended.stderr);
    }
    drop(file);
    fs::remove_file(&filler).unwrap();
    let out = run(&["scrub", "--verbose"], &catalog, &[&root]).clean();
    assert!(out.contains("modified 1"), "{out}");
    run(&["catalog", "check"], &catalog, &[]).clean();
}

#[test]
fn lists_become_records_and_records_lists() {
    let (folder, root, catalog) = tree();
    fs::create_dir(root.join("data")).unwrap();
    fs::write(root.join("data/two\nlines"), "x").unwrap();
    run(&["scrub"], &catalog, &[&root]).clean();
    let list = folder.path().join("list");
    let within = |words: &[&str]| {
        let mut command = command(VERISUM);
        command.current_dir(&root).args(words);
        Ended::of(command.output().unwrap())
    };
    let tree = root.to_str().unwrap();
    for format in ["gnu", "bsd", "hashdeep", "mtree", "bagit", "json"] {
        let ended = run(&["catalog", "export", "--format", format, "--tree", tree], &catalog, &[&list]);
        if format == "hashdeep" {
            assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 2), "{}", ended.stderr);
            assert!(ended.stderr.contains("export: the hashdeep format cannot hold"));
            assert!(ended.stderr.ends_with("export: 1 unlistable name left out\n"), "{}", ended.stderr);
            let listed = fs::read_to_string(&list).unwrap();
            assert_eq!(
                listed.lines().filter(|line| line.contains(",f") && !line.contains("filename")).count(),
                FILES as usize,
                "{listed}"
            );
            continue;
        }
        assert_eq!((ended.clean().as_str(), format), ("", format));
        if format == "bagit" {
            fs::rename(&list, folder.path().join("manifest-sha256.txt")).unwrap();
            continue;
        }
        within(&["check", "--quiet", list.to_str().unwrap()]).clean();
        // Another catalogue takes it, and the files are what it says.
        let other = folder.path().join(format!("{format}.db"));
        let ended = run(&["catalog", "import", "--tree", tree], &other, &[&list]).clean();
        assert_eq!(ended, format!("{} recorded, 0 known already\n", FILES + 1));
        let export = run(&["catalog", "export"], &other, &[]).clean();
        assert_eq!(export.matches("\"last_verified_ms\":0,").count(), FILES as usize + 1, "{export}");
        let ended = run(&["catalog", "import", "--tree", tree], &other, &[&list]).clean();
        assert_eq!(ended, format!("0 recorded, {} known already\n", FILES + 1));
        let out = run(&["scrub", "--json"], &other, &[&root]).clean();
        let summary = out.lines().last().unwrap();
        assert!(summary.contains(&format!("\"ok\":{}", FILES + 1)), "{summary}");
        run(&["catalog", "check"], &other, &[]).clean();
    }
    // Names without a directory are whole.
    let out = run(&["catalog", "export", "--format", "bsd"], &catalog, &[]).clean();
    assert!(out.contains(&format!("SHA256 ({tree}/f3) = ")), "{out}");
    run(&["catalog", "export", "--format", "sfv"], &catalog, &[]).failed(
        3,
        &format!("verisum: {}: export: the sfv format has no place for sha256", catalog.display()),
    );
}

#[test]
fn lines_that_no_catalogue_could_have_are_refused() {
    let (folder, root, catalog) = tree();
    run(&["scrub", "-q"], &catalog, &[&root]).clean();
    let export = run(&["catalog", "export"], &catalog, &[]).clean().to_string();
    let lines: Vec<&str> = export.lines().collect();
    let file = lines[1];
    let long = format!("\"path\":\"{}", "n".repeat(4096));
    let other = folder.path().join("other.db");
    let list = folder.path().join("lines");
    let digest = file.split("\"digest\":\"").nth(1).unwrap().split('"').next().unwrap();
    let mut bad = vec![
        file.replace("\"algorithm\":\"", "\"algorithm\":\"nope-"),
        file.replace(digest, "00"),
        file.replace("\"path\":\"", &long),
        file.replace("\"path\":\"", "\"path\":\"a//"),
        file.replace("\"path\":\"", "\"path\":\"../"),
        file.replace("\"size\":", "\"size\":922337203685477580"),
    ];
    bad.push(format!("{file}\n{}", file.replace(digest, &"0".repeat(digest.len()))));
    for text in bad {
        fs::write(&list, format!("{}\n{text}\n", lines[0])).unwrap();
        let ended = run(&["catalog", "import"], &other, &[&list]);
        assert_eq!(ended.code, Some(3), "{text}: {}", ended.stderr);
        let number = 1 + text.lines().count();
        assert!(ended.stderr.contains(&format!("line {number}")), "{text}: {}", ended.stderr);
        assert_eq!(run(&["catalog", "export"], &other, &[]).clean(), "", "{text}");
    }
    // The same line twice is no contradiction.
    fs::write(&list, format!("{}\n{file}\n{file}\n", lines[0])).unwrap();
    assert_eq!(run(&["catalog", "import"], &other, &[&list]).clean(), "1 recorded, 1 known already\n");
    fs::write(&list, "").unwrap();
    assert_eq!(run(&["catalog", "import"], &other, &[&list]).code, Some(1));
}

/// Such a catalogue was made by an import that did not look, or by a later version.
#[test]
fn a_record_of_an_unknown_digest_stops_no_run() {
    let (_folder, root, catalog) = tree();
    run(&["scrub", "-q"], &catalog, &[&root]).clean();
    // A name of the same length, in the table and in its index.
    let mut bytes = fs::read(&catalog).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 6).filter(|at| &bytes[*at..*at + 6] == b"sha256").collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at..*at + 6].copy_from_slice(b"sha9z6"));
    fs::write(&catalog, bytes).unwrap();
    let ended = run(&["scrub", "-a", "md5"], &catalog, &[&root]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.out().contains("unknown digest: sha9z6"), "{}{}", ended.out(), ended.stderr);
    assert_eq!(run(&["catalog", "check"], &catalog, &[]).code, Some(1));
    run(&["accept"], &catalog, &[&root]).clean();
    run(&["scrub", "-a", "md5"], &catalog, &[&root]).clean();
    run(&["catalog", "check"], &catalog, &[]).clean();
}

#[test]
fn what_a_list_says_is_not_overwritten_by_what_is_there() {
    let (folder, root, catalog) = tree();
    let list = folder.path().join("list");
    let ended = verisum(["sum", "-r", root.to_str().unwrap()]).clean();
    fs::write(&list, ended).unwrap();
    // The content changed before the list was imported: nobody knows when, or who did it.
    fs::write(root.join("f3"), "CONTENT 3").unwrap();
    fs::remove_file(root.join("f4")).unwrap();
    let ended = run(&["catalog", "import", "--tree", root.to_str().unwrap()], &catalog, &[&list]);
    assert_eq!(ended.code, Some(3));
    let gone = root.join("f4");
    let expected = format!(
        "verisum: {}: import: there is no such file\nverisum: {}: import: 1 listed file not there\n",
        gone.display(),
        list.display()
    );
    assert_eq!((ended.out(), ended.stderr.as_str()), ("30 recorded, 0 known already\n", expected.as_str()));
    let ended = run(&["scrub"], &catalog, &[&root]);
    assert_eq!(ended.code, Some(1), "{}", ended.out());
    assert!(ended.out().contains("rot 1") && ended.out().contains("missing 1"), "{}", ended.out());
    fs::create_dir(root.join("sub")).unwrap();
    std::os::unix::fs::symlink("sub", root.join("inner")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
    // What cannot be taken is named by its line, and nothing is taken.
    for (text, line, what) in [
        ("# a comment\nno list\n", 2, "improperly formatted"),
        ("d41d8cd98f00b204e9800998ecf8427e  ../x\n", 1, "the name leads out of its directory"),
        ("d41d8cd98f00b204e9800998ecf8427e  ok\nNONE (x) = 00\n", 2, ""),
        ("d41d8cd98f00b204e9800998ecf8427e  /etc/x\n", 1, "it is in no tree of the catalogue"),
        ("d41d8cd98f00b204e9800998ecf8427e  out/f\n", 1, "or through a link"),
        ("d41d8cd98f00b204e9800998ecf8427e  inner/f\n", 1, "or through a link"),
        (
            "d41d8cd98f00b204e9800998ecf8427e  a\nd41d8cd98f00b204e9800998ecf8427f  a\n",
            2,
            "an earlier line has another digest of it",
        ),
        ("{\"type\":\"root\",\"path\":\"/x\",\"device\":1,\"inode\":1}\n{}\n", 2, "missing field"),
    ] {
        fs::write(&list, text).unwrap();
        let other = folder.path().join("other.db");
        let ended = run(&["catalog", "import", "--tree", root.to_str().unwrap()], &other, &[&list]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
        let begin = format!("verisum: {}: line {line}: ", list.display());
        assert!(ended.stderr.starts_with(&begin) && ended.stderr.contains(what), "{}", ended.stderr);
        assert_eq!(run(&["catalog", "export"], &other, &[]).clean(), "");
    }
}

#[test]
fn indexes_of_other_programs_are_imported() {
    let (folder, root, catalog) = tree();
    let md5 = verisum(["sum", "-a", "md5", root.join("f1").to_str().unwrap()]).clean();
    let idx = format!("{{\"f1\":{{\"mod\":1,\"a\":\"md5\",\"h\":\"{}\",\"s\":9}}}}", &md5[..32]);
    let path = folder.path().join("idx");
    fs::write(&path, &idx).unwrap();
    let hash = verisum(["sum", "-a", "md5", path.to_str().unwrap()]).clean();
    let index = format!("{{\"v\":2,\"idx\":{idx},\"idx_hash\":\"{}\"}}", &hash[..32]);
    fs::write(root.join(".chkbit"), index).unwrap();
    let ended = run(&["catalog", "import"], &catalog, &[&root.join(".chkbit")]).clean();
    assert_eq!(ended, "1 recorded, 0 known already\n");
    let out = run(&["scrub", "--json"], &catalog, &[&root]).clean();
    assert!(out.lines().last().unwrap().contains("\"touched\":1,"), "{out}");
    // Several at once, of which one cannot be read: the others are recorded.
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/f1"), "content 1").unwrap();
    fs::copy(root.join(".chkbit"), root.join("sub/.chkbit")).unwrap();
    fs::write(folder.path().join(".chkbit"), "{\"v\":2,\"idx\":{").unwrap();
    let several = [root.join(".chkbit"), folder.path().join(".chkbit"), root.join("sub/.chkbit")];
    let ended = run(&["catalog", "import"], &catalog, &several.each_ref().map(|path| path.as_path()));
    assert_eq!((ended.code, ended.out()), (Some(3), "1 recorded, 1 known already\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

/// bitrot decomposes names; records are of the files, and what is gone is named.
#[test]
fn names_of_bitrot_are_imported_as_those_of_the_files() {
    let (_folder, root, catalog) = tree();
    fs::create_dir(root.join("\u{e9}t\u{e9}")).unwrap();
    fs::write(root.join("\u{e9}t\u{e9}/\u{e4}"), "abc").unwrap();
    let rows = "import sqlite3, sys, unicodedata\n\
        db = sqlite3.connect(sys.argv[1])\n\
        db.execute('CREATE TABLE bitrot (path, mtime, hash, timestamp)')\n\
        name = unicodedata.normalize('NFKD', './\\u00e9t\\u00e9/\\u00e4')\n\
        sha1 = 'a9993e364706816aba3e25717850c26c9cd0d89d'\n\
        for path in [name] + sys.argv[2:]:\n    \
            db.execute('INSERT INTO bitrot VALUES (?, ?, ?, ?)', (path, 1600000000, sha1, ''))\n\
        db.commit()";
    let Some(python) = require_tool("python3") else { return };
    let database = root.join(".bitrot.db");
    let made = Command::new(python).args(["-c", rows]).arg(&database).arg("./gone").status();
    assert!(made.unwrap().success());
    let ended = run(&["catalog", "import"], &catalog, &[&database]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 2), "{}", ended.stderr);
    assert!(ended.stderr.contains("/gone: import: there is no such file\n"), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("import: 1 listed file not there\n"), "{}", ended.stderr);
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    assert!(export.contains("\"path\":\"\u{e9}t\u{e9}/\u{e4}\""), "{export}");
}

#[test]
fn a_tree_is_forgotten() {
    let (_folder, root, catalog) = tree();
    let other = root.with_file_name("other");
    fs::create_dir_all(other.join("a/b")).unwrap();
    fs::write(other.join("a/b/c"), "abc").unwrap();
    run(&["scrub"], &catalog, &[&root, &other]).clean();
    let forget =
        |words: &[&str], tree: &Path| run(&[&["catalog", "forget"], words].concat(), &catalog, &[tree]);
    let message = format!("verisum: {}: forget: it is no tree of the catalogue", other.join("a").display());
    forget(&[], &other.join("a")).failed(3, &message);
    fs::remove_file(root.join("f1")).unwrap();
    run(&["scrub"], &catalog, &[&root]);
    let message = format!(
        "verisum: {}: forget: 1 file of it bad, missing or waiting (--yes forgets such too)",
        root.display()
    );
    forget(&[], &root).failed(3, &message);
    assert_eq!(forget(&["--yes"], &root).clean(), format!("{FILES} records forgotten\n"));
    run(&["catalog", "check"], &catalog, &[]).clean();
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    assert!(export.contains("\"path\":\"a/b/c\"") && !export.contains("\"f2\""), "{export}");
    run(&["catalog", "relocate", "--unmounted"], &catalog, &[&other, &root]).clean();
    // The name is free again, and numbers that were used before bring nothing back.
    assert_eq!(forget(&[], &root).clean(), "1 record forgotten\n");
    run(&["scrub", "--quiet"], &catalog, &[&other]).clean();
    run(&["catalog", "check"], &catalog, &[]).clean();
}
