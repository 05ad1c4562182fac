//! `--log-file`: when a run began and ended, what it said, and what is wrong; nothing of that is lost silently.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::scrubbing::Tree;
use common::{Ended, VERISUM, command, start, verisum, wait_until};
use rustix::process::{Pid, Signal, kill_process};

fn entries(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let entries = text.lines().map(|entry| {
        let (time, rest) = entry.split_once(" [").unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{entry}");
        rest.split_once("] ").unwrap().1.to_string()
    });
    entries.collect()
}

fn scrub(tree: &Tree, log: &Path, more: &[&str]) -> Ended {
    let mut line = vec!["scrub".into(), "--log-file".into(), log.as_os_str().to_os_string()];
    line.extend(["--catalog".into(), tree.catalog().into()]);
    line.extend(more.iter().map(Into::into));
    line.push(tree.root().into());
    verisum(line)
}

#[test]
fn a_log_has_begin_end_and_what_is_wrong() {
    let tree = Tree::new();
    let log = tree.folder.path().join("log");
    scrub(&tree, &log, &[]).clean();
    let begin = format!("begin: verisum {} scrub --log-file ", env!("CARGO_PKG_VERSION"));
    let clean = entries(&log);
    assert_eq!(clean.len(), 2, "{clean:?}");
    assert!(clean[0].starts_with(&begin) && clean[1].starts_with("end: exit code 0, "), "{clean:?}");
    assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
    // Bad data, whatever is printed of it.
    let modified = fs::metadata(tree.path("f1")).unwrap().modified().unwrap();
    fs::write(tree.path("f1"), "contenT 1").unwrap();
    File::options().append(true).open(tree.path("f1")).unwrap().set_modified(modified).unwrap();
    for more in [&[][..], &["-q"], &["--json"]] {
        fs::remove_file(&log).unwrap();
        assert_eq!(scrub(&tree, &log, more).code, Some(1));
        let found = entries(&log);
        assert!(found[0].starts_with(&begin), "{found:?}");
        assert!(
            found.iter().any(|entry| entry.contains("suspicious") && entry.contains("/tree/f1")),
            "{found:?}"
        );
        assert!(!found.iter().any(|entry| entry.contains("/tree/f2")), "{found:?}");
        assert!(found.last().unwrap().starts_with("end: exit code 1, "), "{found:?}");
    }
    // The option may stand before the command, or be a variable; a failure is in it.
    let missing = tree.folder.path().join("no\nsuch");
    fs::remove_file(&log).unwrap();
    let line = ["--log-file".as_ref(), log.as_os_str(), "sum".as_ref(), missing.as_os_str()];
    assert_eq!(verisum(line).code, Some(3));
    let ended = start(command(VERISUM).args(["check", "/nonexistent"]).env("VERISUM_LOG_FILE", &log));
    assert_eq!(ended.wait_with_output().unwrap().status.code(), Some(3));
    let found = entries(&log);
    assert_eq!(found.len(), 7, "{found:?}");
    assert!(found[1].starts_with("verisum: ") && found[1].contains("No such file"), "{found:?}");
    assert!(found[4].contains("/nonexistent"), "{found:?}");
}

#[test]
fn a_log_that_cannot_be_written_is_a_failure_and_stops_nothing() {
    let tree = Tree::new();
    let ended = scrub(&tree, Path::new("/dev/full"), &[]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(3), "verisum: /dev/full: write: No space left on device\n")
    );
    assert!(ended.out().contains("11 files"), "{}", ended.out());
    let ended = scrub(&tree, &tree.folder.path().join("none/log"), &[]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
    assert!(
        ended.out().contains("11 files") && ended.stderr.contains("none/log: open: "),
        "{}",
        ended.stderr
    );
    // A line in the catalogue would be damage.
    scrub(&tree, Path::new("/dev/null"), &[]);
    let before = fs::read(tree.catalog()).unwrap();
    let ended = scrub(&tree, &tree.catalog(), &[]);
    assert!(ended.code == Some(3) && ended.stderr.contains("it is a database"), "{}", ended.stderr);
    assert_eq!(fs::read(tree.catalog()).unwrap(), before);
    if verisum_testkit::require_root().is_none() {
        return;
    }
    // What another user may have laid out for us.
    let shared = tree.folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let (target, link, file) = (tree.path("f5"), shared.join("link"), shared.join("file"));
    symlink(&target, &link).unwrap();
    rustix::fs::chownat(
        rustix::fs::CWD,
        &link,
        Some(rustix::fs::Uid::from_raw(1234)),
        None,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )
    .unwrap();
    File::create(&file).unwrap();
    chown(&file, Some(1234), None).unwrap();
    for (log, why) in [(link, "link"), (file, "file")] {
        let ended = scrub(&tree, &log, &[]);
        assert_eq!(ended.code, Some(3));
        // The kernel may refuse it first.
        let ours = ended.stderr.ends_with(&format!("open: it is a {why} of another user\n"));
        assert!(ours || ended.stderr.ends_with("open: Permission denied\n"), "{}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(target).unwrap(), "content 5");
}

#[test]
fn a_signal_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (log, tree) = (folder.path().join("log"), folder.path().join("tree"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("large"), vec![1; 8 << 20]).unwrap();
    let catalog: PathBuf = folder.path().join("c.db");
    let line = ["scrub", "--limit", "1MiB/s", "--log-file"];
    let child = start(command(VERISUM).args(line).arg(&log).arg("--catalog").arg(catalog).arg(&tree));
    wait_until("the log has begun", || !entries(&log).is_empty());
    std::thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait_with_output().unwrap();
    assert!(entries(&log).last().unwrap().starts_with("end: "), "{:?}", entries(&log));
}
