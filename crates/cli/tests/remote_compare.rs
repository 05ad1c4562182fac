//! `verisum compare --quick`: what sizes, records and times settle unread.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::sshd::{Sshd, sshd};
use common::{Ended, VERISUM, command};

/// Three files that were written a while ago.
fn tree(server: &Sshd, name: &str, seconds: u64) -> std::path::PathBuf {
    let folder = server.path(name);
    fs::create_dir_all(folder.join("sub")).unwrap();
    for (file, text) in [("a", "one"), ("sub/b", "two"), ("sub/c'\n", "three")] {
        write(&folder.join(file), text, seconds);
    }
    folder
}

fn write(path: &Path, text: &str, seconds: u64) {
    fs::write(path, text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// The last two lines: how many are the same, and what settled it.
#[track_caller]
fn assert_settled(ended: &Ended, code: i32, same: &str, settled: &str) {
    let mut lines: Vec<&str> = ended.stderr.lines().rev().take(2).collect();
    lines.reverse();
    assert_eq!(
        lines,
        [format!("verisum: {same}"), format!("verisum: settled: {settled}")],
        "{}",
        ended.stderr
    );
    assert_eq!(ended.code, Some(code));
}

#[test]
fn records_of_unchanged_files_stand_for_reading_them() {
    let Some(server) = sshd("") else { return };
    let (here, there) = (tree(&server, "here", 1_000_000), tree(&server, "there", 2_000_000));
    let catalog = server.path("catalog.db");
    let scrubbed = command(VERISUM).arg("scrub").arg("--catalog").arg(&catalog).arg(&here).output().unwrap();
    assert_eq!(scrubbed.status.code(), Some(0), "{}", String::from_utf8_lossy(&scrubbed.stderr));
    let place = format!("web1:{}", there.display());
    let compare = |more: &[&str]| {
        let mut command = server.remote("compare");
        command.arg("--quick").arg("--catalog").arg(&catalog).args(more).arg(&here).arg(&place);
        server.run(&mut command)
    };
    // Times differ, and one side has records.
    let record = "0 by sizes, 3 by a record and reading the other side";
    assert_settled(&compare(&[]), 0, "3 the same", record);
    let scrub = server.run(server.remote("scrub").arg("--catalog").arg(&catalog).arg(&place));
    assert_eq!(scrub.code, Some(0), "{}", scrub.stderr);
    assert_settled(&compare(&[]), 0, "3 the same", "0 by sizes, 3 by records");
    // Nobody may read it, and nobody needs to.
    fs::set_permissions(there.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
    assert_settled(&compare(&[]), 0, "3 the same", "0 by sizes, 3 by records");
    // Below what is recorded, and with a digest that is not.
    let mut below = server.remote("compare");
    below.args(["--quick", "--catalog"]).arg(&catalog).arg(here.join("sub")).arg(format!("{place}/sub"));
    assert_settled(&server.run(&mut below), 0, "2 the same", "0 by sizes, 2 by records");
    fs::set_permissions(there.join("a"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_settled(&compare(&["-a", "md5"]), 0, "3 the same", "0 by sizes, 3 by reading");
    // Of the same size and time as the other side, but for what the records tell.
    write(&there.join("a"), "eno", 3_000_000);
    let scrub = server.run(server.remote("scrub").arg("--catalog").arg(&catalog).arg(&place));
    assert_eq!(scrub.code, Some(0), "{}", scrub.stderr);
    let ended = compare(&["--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let lines: Vec<serde_json::Value> =
        ended.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["path"], &lines[0]["outcome"]), (&"a".into(), &"differs".into()));
    assert_eq!(lines[1]["settled"]["records"], 3);
}

#[test]
fn records_of_changed_files_are_not_used() {
    let Some(server) = sshd("") else { return };
    let (here, there) = (tree(&server, "here", 1_000_000), tree(&server, "there", 2_000_000));
    let catalog = server.path("catalog.db");
    let scrubbed = command(VERISUM).arg("scrub").arg("--catalog").arg(&catalog).arg(&here).output().unwrap();
    assert_eq!(scrubbed.status.code(), Some(0));
    // The same size and time, and another content: the inode's time tells.
    write(&here.join("a"), "eno", 1_000_000);
    let mut command = server.remote("compare");
    command.args(["--quick", "--catalog"]).arg(&catalog).arg(&here).arg(format!("web1:{}", there.display()));
    let ended = server.run(&mut command);
    assert_eq!(ended.out(), "a: DIFFERS (B is as recorded)\n");
    let settled = "0 by sizes, 2 by a record and reading the other side, 1 by reading";
    assert_settled(&ended, 1, "2 the same, 1 differ", settled);
}

#[test]
fn what_is_known_to_be_bad_is_read_whatever_its_size_and_time() {
    let Some(server) = sshd("") else { return };
    let (here, there) = (tree(&server, "here", 1_000_000), tree(&server, "there", 1_000_000));
    let catalog = server.path("catalog.db");
    let place = format!("web1:{}", there.display());
    let scrub = || server.run(server.remote("scrub").arg("--catalog").arg(&catalog).arg(&place)).code;
    assert_eq!(scrub(), Some(0));
    write(&there.join("a"), "eno", 1_000_000);
    assert_eq!(scrub(), Some(1));
    let mut command = server.remote("compare");
    let ended = server.run(command.args(["--quick", "--catalog"]).arg(&catalog).arg(&here).arg(&place));
    assert_eq!(ended.out(), "a: DIFFERS (A is as recorded)\n");
    let settled = "0 by sizes, 2 by sizes and times, 1 by reading";
    assert_settled(&ended, 1, "2 the same, 1 differ", settled);
}

#[test]
fn what_was_not_recorded_is_settled_by_sizes_and_times() {
    let Some(server) = sshd("") else { return };
    let (here, there) = (tree(&server, "here", 1_000_000), tree(&server, "there", 1_000_000));
    write(&there.join("a"), "longer", 1_000_000);
    write(&there.join("sub/b"), "two", 2_000_000);
    let compare = |more: &[&str]| {
        let mut command = server.remote("compare");
        // No catalogue is in the usual place.
        command.env("XDG_STATE_HOME", server.path("none")).arg("--quick").args(more);
        server.run(command.arg(&here).arg(format!("web1:{}", there.display())))
    };
    let ended = compare(&[]);
    assert_eq!(ended.out(), "a: DIFFERS\n");
    assert_settled(&ended, 1, "2 the same, 1 differ", "1 by sizes, 1 by sizes and times, 1 by reading");
    let ended = compare(&["--catalog", "/no/such"]);
    assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
}

#[test]
fn the_catalogue_says_which_of_two_files_is_the_recorded_one() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    for (tree, texts) in
        [(&a, ["one", "two", "three", "four", "five"]), (&b, ["one", "owt", "threeee", "f0ur", "five"])]
    {
        fs::create_dir(tree).unwrap();
        for (number, text) in texts.iter().enumerate() {
            fs::write(tree.join(format!("f{number}")), text).unwrap();
        }
    }
    let compare = |catalog: &str, one: &Path, other: &Path, more: &[&str]| {
        let catalog = folder.path().join(catalog);
        let mut command = command(VERISUM);
        command.arg("compare").arg("--catalog").arg(catalog).args(more).arg(one).arg(other);
        Ended::of(command.output().unwrap())
    };
    let scrub = |catalog: &str, tree: &Path| {
        let mut command = command(VERISUM);
        command.arg("scrub").arg("--catalog").arg(folder.path().join(catalog)).arg(tree);
        assert!(command.output().unwrap().status.success());
    };
    scrub("of-a", &a);
    let said = "f1: DIFFERS (A is as recorded)\nf2: DIFFERS (B is not as recorded)\n\
                f3: DIFFERS (A is as recorded)\n";
    assert_eq!(compare("of-a", &a, &b, &[]).out(), said);
    assert!(compare("of-a", &b, &a, &[]).out().starts_with("f1: DIFFERS (B is as recorded)\n"));
    let ended = compare("of-a", &a, &b, &["--json"]);
    assert!(ended.out().contains("\"as_recorded\":\"not-b\""), "{}", ended.out());
    // Another digest says nothing.
    let other = compare("of-a", &a, &b, &["-a", "md5"]);
    assert_eq!(other.out(), "f1: DIFFERS\nf2: DIFFERS\nf3: DIFFERS\n");
    fs::write(a.join("f3"), "F4UR").unwrap();
    assert!(compare("of-a", &a, &b, &[]).out().ends_with("f3: DIFFERS (neither is as recorded)\n"));
    scrub("both", &a);
    scrub("both", &b);
    assert!(compare("both", &a, &b, &[]).out().starts_with("f1: DIFFERS (both are as recorded)\n"));
}
