//! `verisum copy`: what it prints, its list, the catalogue's records, and kills at any moment.

use crate::common;

use std::ffi::{OsStr, OsString};
use std::fs::{self, FileTimes};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::{
    Ended, VERISUM, change_and_restore_time, command, signal, start, trees, wait_for_open, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::{require_root, require_tool};

/// Runs `verisum copy`, which knows no catalogue but a named one.
fn copy<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Ended {
    let mut command = command(VERISUM);
    command.arg("copy").args(arguments).env("XDG_STATE_HOME", folder.join("state")).current_dir(folder);
    Ended::of(command.output().unwrap())
}

/// A folder with a tree of odd names in `from`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("from")).unwrap();
    trees::fill(&folder.path().join("from"));
    folder
}

fn check(folder: &Path, to: &str, list: &str) -> Ended {
    let mut command = command(VERISUM);
    Ended::of(command.args(["check", "--quiet", "-C", to, list]).current_dir(folder).output().unwrap())
}

/// The files below a directory, with their content.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        let Ok(stat) = fs::symlink_metadata(&path) else { continue };
        if stat.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if stat.is_file() {
            let name = path.strip_prefix(folder).unwrap().to_path_buf();
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_list_of_the_copies_is_checked() {
    let folder = folder();
    let path = folder.path();
    let ended = copy(path, ["--sums", "sums", "from", "to"]);
    assert_eq!((ended.code, ended.out()), (Some(0), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains(" files copied, "), "{}", ended.stderr);
    assert_eq!(files(&path.join("to")), files(&path.join("from")));
    let list = fs::read(path.join("sums")).unwrap();
    let lines = files(&path.join("from")).len();
    assert_eq!(list.iter().filter(|byte| **byte == b'\n').count(), lines);
    assert_eq!(check(path, "to", "sums").code, Some(0));
    // What is copied again has one line, and so has what comes later. A line that a kill cut off is removed.
    fs::write(path.join("from/file-1"), "another").unwrap();
    fs::write(path.join("from/later"), "later").unwrap();
    let mut cut = list.clone();
    cut.extend_from_slice(b"SHA256 (half of a li");
    fs::write(path.join("sums"), cut).unwrap();
    assert_eq!(copy(path, ["-q", "--sums", "sums", "from", "to"]).clean(), "");
    let list = fs::read(path.join("sums")).unwrap();
    assert_eq!(list.iter().filter(|byte| **byte == b'\n').count(), lines + 1);
    let checked = check(path, "to", "sums");
    assert_eq!((checked.code, checked.out()), (Some(0), ""), "{}", checked.stderr);
    // What was there before has no line in a new one, and that is said.
    let ended = copy(path, ["--sums", "new", "from", "to"]);
    assert!(ended.stderr.contains("not in the list"), "{}", ended.stderr);
    // Nothing else is written to.
    fs::write(path.join("precious"), "a letter\n").unwrap();
    symlink("precious", path.join("link")).unwrap();
    for name in ["precious", "link", "from", "no/list"] {
        let ended = copy(path, ["--sums", name, "from", "other"]);
        assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
        assert!(!path.join("other").exists());
    }
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "a letter\n");
    // Not even the end of a list, if no line of one was cut off there.
    for note in ["my only password", "SHA256 (a) = 00\nmy only password"] {
        fs::write(path.join("precious"), note).unwrap();
        let ended = copy(path, ["--sums", "precious", "from", "other"]);
        assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
        assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), note);
    }
}

#[test]
fn from_may_be_spelled_in_any_way() {
    let folder = folder();
    let path = folder.path();
    let expected = files(&path.join("from"));
    let absolute = path.join("from");
    for (number, from) in ["from/", "./from/.", "from/../from", absolute.to_str().unwrap()].iter().enumerate()
    {
        let to = format!("to{number}/");
        assert_eq!(copy(path, ["-q", from, &to]).clean(), "", "{from}");
        assert!(files(&path.join(to)) == expected, "{from}");
    }
    assert_eq!(copy(&path.join("from"), ["-q", ".", "../here"]).clean(), "");
    assert!(files(&path.join("here")) == expected);
    fs::create_dir(path.join("into")).unwrap();
    assert_eq!(copy(&path.join("into"), ["-q", "../from", "."]).clean(), "");
    assert!(files(&path.join("into")) == expected);
}

#[test]
fn what_the_catalogue_calls_rotten_is_not_copied() {
    let folder = folder();
    let path = folder.path();
    let scrub = |arguments: &[&str]| {
        let mut command = command(VERISUM);
        command.args(["scrub", "--quiet", "--catalog", "c.db"]).args(arguments).current_dir(path);
        Ended::of(command.output().unwrap())
    };
    assert_eq!(scrub(&["-a", "blake3", "from"]).code, Some(0));
    let (bad, good) = (path.join("from/file-3"), path.join("from/file-4"));
    change_and_restore_time(&bad, &"b".repeat(3 * 37));
    fs::write(&good, "written to").unwrap();
    let arguments = ["--catalog", "c.db", "--sums", "sums", "from", "to"];
    let ended = copy(path, arguments);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = ended.out();
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in ["from/file-3: ", "blake3 is ", ", recorded ", " (catalogue): not copied"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(ended.stderr.contains("1 not as recorded"), "{}", ended.stderr);
    assert!(!path.join("to/file-3").exists());
    assert_eq!(fs::read_to_string(path.join("to/file-4")).unwrap(), "written to");
    let list = fs::read_to_string(path.join("sums"));
    assert!(list.is_err() || list.is_ok_and(|list| list.starts_with("BLAKE3 (")), "the record's digest");
    let ended =
        copy(path, ["--json", "--allow-bad", "--catalog", "c.db", "--sums", "all.sums", "from", "to"]);
    assert_eq!(ended.code, Some(1));
    let list = fs::read_to_string(path.join("all.sums")).unwrap();
    assert!(!list.contains("file-3"), "{list}");
    let lines: Vec<Value> = ended.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["path"], &lines[0]["copied"]), (&"from/file-3".into(), &true.into()));
    assert!(["rot", "suspicious"].contains(&lines[0]["outcome"].as_str().unwrap()));
    assert_ne!(lines[0]["found"], lines[0]["recorded"]);
    assert_eq!((&lines[1]["copied"], &lines[1]["bad"]), (&1.into(), &1.into()));
    assert!(path.join("to/file-3").exists());
}

/// As of a disk that is copied whole: each file is compared with the record of the tree that it lies in.
#[test]
fn what_the_catalogue_calls_rotten_below_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for tree in ["all/one", "all/two/inner"] {
        fs::create_dir_all(path.join(tree)).unwrap();
        fs::write(path.join(tree).join("good"), tree).unwrap();
        fs::write(path.join(tree).join("bad"), tree).unwrap();
        let mut scrub = command(VERISUM);
        scrub.args(["scrub", "--quiet", "--catalog", "c.db", tree]).current_dir(path);
        Ended::of(scrub.output().unwrap()).clean();
        change_and_restore_time(&path.join(tree).join("bad"), &tree.to_uppercase());
    }
    fs::write(path.join("all/free"), "in no tree").unwrap();
    for (to, folder) in [("to", "to"), ("local:there", "there")] {
        let ended = copy(path, ["--catalog", "c.db", "all", to]);
        assert_eq!(
            (ended.code, ended.out().lines().count()),
            (Some(1), 2),
            "{}{}",
            ended.out(),
            ended.stderr
        );
        let names: Vec<PathBuf> = files(&path.join(folder)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["free", "one/good", "two/inner/good"].map(PathBuf::from));
    }
}

#[test]
fn the_catalogue_of_to_knows_the_copies() {
    let folder = folder();
    let path = folder.path();
    let run = |words: &[&str]| {
        let mut command = command(VERISUM);
        Ended::of(command.args(words).args(["--catalog", "c.db"]).current_dir(path).output().unwrap())
    };
    let records = || -> Vec<Value> {
        let exported = run(&["catalog", "export"]).clean();
        let lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["type"] == "file").collect()
    };
    let summary = |ended: &Ended| -> Value {
        assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
        serde_json::from_str(ended.out().lines().last().unwrap()).unwrap()
    };
    let copied = summary(&run(&["copy", "--json", "--record", "from", "to"]));
    let all = records();
    assert_eq!(copied["recorded"].as_u64().unwrap(), all.len() as u64);
    assert!(all.iter().all(|line| line["last_verified"].is_string()), "{all:?}");
    // The next scrub finds all as it was recorded.
    let scrubbed = summary(&run(&["scrub", "--json", "to"]));
    assert_eq!(
        (&scrubbed["counts"]["new"], &scrubbed["counts"]["modified"]),
        (&0.into(), &0.into()),
        "{scrubbed}"
    );
    assert_eq!(records().len(), all.len());
    // What it knows it is told of, also of other content in the place of the old one.
    fs::write(path.join("from/file-1"), "another and longer content").unwrap();
    fs::write(path.join("from/more"), "new").unwrap();
    let copied = summary(&run(&["copy", "--json", "--verify", "none", "from", "to"]));
    assert_eq!(copied["recorded"], 2, "{copied}");
    let unread = records().into_iter().filter(|line| line["last_verified"].is_null()).count();
    assert_eq!((records().len(), unread), (all.len() + 1, 2));
    let scrubbed = summary(&run(&["scrub", "--json", "to"]));
    assert_eq!(
        (&scrubbed["counts"]["new"], &scrubbed["counts"]["modified"]),
        (&0.into(), &0.into()),
        "{scrubbed}"
    );
    run(&["catalog", "check"]).clean();
    // Bad content gets no record that calls it good.
    run(&["scrub", "from"]).clean();
    change_and_restore_time(&path.join("from/file-3"), &"b".repeat(3 * 37));
    fs::remove_file(path.join("to/file-3")).unwrap();
    let before = records();
    assert_eq!(run(&["copy", "--allow-bad", "from", "to"]).code, Some(1));
    assert_eq!(records(), before);
    // A copy of a rotten copy, of which nothing is recorded, takes no good record's place.
    fs::create_dir(path.join("backup")).unwrap();
    let modified = fs::metadata(path.join("from/file-4")).unwrap().modified().unwrap();
    let length = fs::metadata(path.join("to/file-4")).unwrap().len() as usize;
    fs::write(path.join("backup/file-4"), vec![b'r'; length]).unwrap();
    fs::File::options().write(true).open(path.join("backup/file-4")).unwrap().set_modified(modified).unwrap();
    fs::remove_file(path.join("to/file-4")).unwrap();
    assert_eq!(run(&["copy", "backup", "to"]).code, Some(0));
    assert_eq!(records(), before);
    // Another tree is none of its business.
    let other = run(&["copy", "--json", "from", "other"]);
    assert!(!other.out().lines().last().unwrap().contains("\"recorded\":"), "{}", other.out());
    assert_eq!(records(), before);
}

/// Nothing is recorded of what is not where it would be recorded, and that is no success.
#[test]
fn copies_that_are_moved_away_meanwhile_are_said_not_to_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("from")).unwrap();
    fs::write(path.join("from/file"), vec![7; 2 << 20]).unwrap();
    let mut run = command(VERISUM);
    run.args(["copy", "--record", "--catalog", "c.db", "--limit", "1M", "from", "to"]).current_dir(path);
    let mut child = start(&mut run);
    wait_for_open(&mut child, &path.join("from/file"));
    fs::rename(path.join("to"), path.join("moved")).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let to = path.canonicalize().unwrap().join("to");
    let line = format!("{}: not recorded, as they were moved or removed meanwhile: 1 copies", to.display());
    assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    assert_eq!(fs::metadata(path.join("moved/file")).unwrap().len(), 2 << 20);
}

/// What is at TO already is recorded only after it was read, and copied again if it is not what FROM has.
#[test]
fn what_was_there_already_is_read_before_it_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("from")).unwrap();
    for (name, bytes) in [("one", "good"), ("two", "fine"), ("three", "nice"), ("four", "well")] {
        fs::write(path.join("from").join(name), bytes).unwrap();
    }
    fs::hard_link(path.join("from/two"), path.join("from/twin")).unwrap();
    let run = |words: &[&str]| {
        let mut command = command(VERISUM);
        let words = words.iter().chain(&["--catalog", "c.db"]);
        Ended::of(command.args(words).current_dir(path).output().unwrap())
    };
    let summary = |ended: &Ended| -> Value {
        assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
        serde_json::from_str(ended.out().lines().last().unwrap()).unwrap()
    };
    for (from, is_known) in [("from", false), ("from", true), ("local:from", false)] {
        for name in ["to", "c.db"] {
            let _ = fs::remove_dir_all(path.join(name));
            let _ = fs::remove_file(path.join(name));
        }
        if is_known {
            run(&["scrub", "from"]).clean();
        }
        copy(path, ["--quiet", from, "to"]).clean();
        change_and_restore_time(&path.join("to/one"), "baad");
        let copied = summary(&run(&["copy", "--json", "--record", from, "to"]));
        assert_eq!(copied["recorded"], 5, "{from}: {copied}");
        assert_eq!(fs::read(path.join("to/one")).unwrap(), b"good", "{from}");
        if from == "from" {
            assert_eq!((&copied["copied"], &copied["current"]), (&1.into(), &4.into()), "{copied}");
        }
        // What it knows it does not read again.
        let copied = summary(&run(&["copy", "--json", "--record", from, "to"]));
        assert_eq!((&copied["recorded"], &copied["current"]), (&0.into(), &5.into()), "{from}: {copied}");
        let scrubbed = summary(&run(&["scrub", "--json", "to"]));
        assert_eq!(scrubbed["counts"]["new"], 0, "{scrubbed}");
    }
}

/// What the catalogue calls bad at TO is copied again, though size and time are those of FROM.
#[test]
fn a_copy_that_is_known_to_be_bad_is_not_current() {
    let folder = folder();
    let path = folder.path();
    let run = |words: &[&str]| {
        let mut command = command(VERISUM);
        Ended::of(command.args(words).args(["--catalog", "c.db"]).current_dir(path).output().unwrap())
    };
    run(&["copy", "--quiet", "--record", "from", "to"]).clean();
    run(&["scrub", "from"]).clean();
    let good = fs::read(path.join("from/file-3")).unwrap();
    for options in [&["copy", "-u"][..], &["copy"]] {
        change_and_restore_time(&path.join("to/file-3"), &"b".repeat(good.len()));
        assert_eq!(run(&["scrub", "to"]).code, Some(1));
        let ended = run(&[options, &["from", "to"]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(fs::read(path.join("to/file-3")).unwrap() == good, "{options:?}");
        run(&["scrub", "to"]).clean();
    }
}

#[test]
fn what_does_not_go_is_said_in_one_line() {
    let folder = folder();
    let path = folder.path();
    copy(path, ["none", "to"]).failed(3, "verisum: none: stat: No such file or directory");
    copy(path, ["from", "from/to"]).failed(3, "verisum: from/to: create: it is in from");
    let refused = "connect: ssh: connect to host 127.0.0.1 port 1: Connection refused";
    copy(path, ["from", "ssh://127.0.0.1:1/photos"])
        .failed(3, &format!("verisum: ssh://127.0.0.1:1/photos: {refused}"));
    copy(path, ["--tag", "-a", "blake2b-40", "from", "to"])
        .failed(2, "verisum: --algorithm: blake2b-40: tags have no place for it");
    copy(path, ["-a", "sha265", "from", "to"])
        .failed(2, "verisum: unknown digest: sha265 (did you mean sha256?)");
    assert!(!path.join("to").exists());
    fs::create_dir_all(path.join("to/file-3")).unwrap();
    let ended = copy(path, ["-q", "from", "to"]);
    ended.failed(3, "verisum: to/file-3: create: a directory is in the way");
}

/// Kills copies at random moments, and says how many files were at TO when the last one went on.
#[test]
fn a_full_disk_keeps_what_was_written_whole() {
    let Some(unshare) = require_root().and_then(|()| require_tool("unshare")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    for name in 0..8 {
        fs::write(from.join(name.to_string()), vec![name; 1 << 20]).unwrap();
    }
    let script = "mount -t tmpfs -o size=5m none to\nset +e\n\"$0\" copy --json -j 1 from to\ncode=$?\n\
        for name in to/*; do cmp \"$name\" \"from/${name#to/}\" >&2; done\nls to >&2\nexit $code";
    let mut command = command(unshare.to_str().unwrap());
    command.args(["--mount", "/bin/sh", "-e", "-c", script, VERISUM]).current_dir(folder.path());
    let ended = Ended::of(command.env("XDG_STATE_HOME", folder.path()).output().unwrap());
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let summary = ended.out().lines().last().unwrap_or_else(|| panic!("{}", ended.stderr));
    let summary: Value = serde_json::from_str(summary).unwrap();
    let copied = summary["copied"].as_u64().unwrap();
    assert!((3..=5).contains(&copied), "{}", ended.out());
    let listed = ended.stderr.lines().filter(|line| line.parse::<u8>().is_ok()).count();
    assert_eq!((listed as u64, ended.stderr.contains("differ")), (copied, false), "{}", ended.stderr);
}

fn killed(verify: &str, kill: Signal) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let from = path.join("from");
    for number in 0..1500_usize {
        let file = from.join(format!("{}/{number}", number % 7));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, vec![number as u8; 1 + number * 97 % 200_000]).unwrap();
    }
    // Old ones that are replaced.
    for number in 0..300_usize {
        let file = path.join(format!("to/{}/{number}", number % 7));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "old").unwrap();
    }
    let expected = files(&from);
    let kills: u32 = std::env::var("TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for round in 0..kills {
        let mut run = command(VERISUM);
        run.args(["copy", "--sums", "sums", "--verify", verify, "from", "to"]).current_dir(path);
        run.env("XDG_STATE_HOME", path.join("state"));
        let child = start(&mut run);
        std::thread::sleep(Duration::from_millis(u64::from(fastrand::u32(1..40) * (1 + round / 4))));
        signal(&child, kill);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert!(ended.signal.is_some() || ended.code == Some(0), "{ended:?}");
        for (name, content) in files(&path.join("to")) {
            let name = name.as_path();
            if name.to_str().unwrap().contains(".verisum-copy-") {
                // It had a name for the moment in which it replaced another file.
                assert_eq!(kill, Signal::KILL);
                continue;
            }
            let at = expected.binary_search_by(|(other, _)| other.as_path().cmp(name)).unwrap();
            assert!(content == expected[at].1 || content == b"old", "{}", name.display());
        }
    }
    let ended = copy(path, ["--sums", "sums", "--verify", verify, "from", "to"]);
    assert_eq!((ended.code, ended.out()), (Some(0), ""), "{}", ended.stderr);
    assert!(files(&path.join("to")) == expected, "nothing is left behind");
    let checked = check(path, "to", "sums");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn killed_copies_leave_whole_files_and_go_on() {
    killed("none", Signal::KILL);
    killed("reread", Signal::KILL);
}

#[test]
fn signals_end_copies_in_good_order() {
    killed("written", Signal::TERM);
}

#[test]
fn a_copy_that_goes_on_reads_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("from")).unwrap();
    for number in 0..400 {
        fs::write(path.join(format!("from/{number}")), vec![1; 100_000]).unwrap();
    }
    let arguments: Vec<OsString> =
        ["copy", "--verify", "none", "--limit", "20MB/s", "from", "to"].map(OsString::from).to_vec();
    let mut run = command(VERISUM);
    run.args(&arguments).env("XDG_STATE_HOME", path.join("state")).current_dir(path);
    let mut child = start(&mut run);
    wait_until("some are copied", || {
        let copied = fs::read_dir(path.join("to")).map_or(0, Iterator::count);
        copied > 100 || child.try_wait().unwrap().is_some()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let there = fs::read_dir(path.join("to")).unwrap().count() as u64;
    let ended = copy(path, ["--json", "--verify", "none", "from", "to"]);
    let summary: Value = serde_json::from_str(ended.out()).unwrap();
    assert_eq!(summary["current"].as_u64(), Some(there));
    assert_eq!(summary["copied"].as_u64(), Some(400 - there));
    assert_eq!(summary["bytes"].as_u64(), Some((400 - there) * 100_000));
}

#[test]
fn copies_keep_the_times_of_their_last_access() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("from")).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (name, length) in [("short", 10), ("long", 300_000)] {
        let file = path.join("from").join(name);
        fs::write(&file, vec![7; length]).unwrap();
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_times(FileTimes::new().set_accessed(long_ago).set_modified(long_ago)).unwrap();
    }
    copy(path, ["-q", "from", "to"]).clean();
    for name in ["short", "long"] {
        let stat = fs::metadata(path.join("to").join(name)).unwrap();
        assert_eq!((stat.accessed().unwrap(), stat.modified().unwrap()), (long_ago, long_ago), "{name}");
    }
}

#[test]
fn each_name_of_a_file_has_a_line_and_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("from")).unwrap();
    fs::write(path.join("from/a"), "one").unwrap();
    fs::hard_link(path.join("from/a"), path.join("from/b")).unwrap();
    fs::write(path.join("from/c"), "two").unwrap();
    let words = ["--catalog", "c.db", "--sums", "sums", "from", "to"];
    let ended = copy(path, ["--record"].iter().chain(&words));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("3 recorded, 1 linked"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(path.join("sums")).unwrap().lines().count(), 3);
    assert_eq!(check(path, "to", "sums").code, Some(0));
    let mut scrub = command(VERISUM);
    scrub.args(["scrub", "--catalog", "c.db", "--max-age", "30d", "to"]).current_dir(path);
    let scrubbed = Ended::of(scrub.output().unwrap()).clean();
    assert!(scrubbed.contains("3 files") && !scrubbed.contains("new"), "{scrubbed}");
    let ended = copy(path, words);
    assert!(!ended.stderr.contains("not in the list"), "{}", ended.stderr);
    let ended = copy(path, ["--sums", "new", "from", "to"]);
    assert!(ended.stderr.contains("3 files that were there already are not in the list"), "{}", ended.stderr);
}
