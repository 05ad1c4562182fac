//! `verisum compare --quick`: what sizes, records and times settle unread.

use crate::common;

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

/// A list of another machine's files has neither lengths nor times.
#[test]
fn a_list_without_lengths_says_which_file_is_the_recorded_one() {
    let Some(server) = sshd("") else { return };
    let (here, there) = (tree(&server, "here", 1_000_000), tree(&server, "there", 1_000_000));
    let (catalog, list) = (server.path("catalog.db"), server.path("list"));
    let place = format!("web1:{}", there.display());
    let sums =
        std::process::Command::new("sha256sum").current_dir(&there).args(["a", "sub/b"]).output().unwrap();
    fs::write(&list, sums.stdout).unwrap();
    let tree = format!("ssh://web1{}", there.display());
    let mut import = command(VERISUM);
    import.args(["catalog", "import", "--catalog"]).arg(&catalog).args(["--tree", &tree]).arg(&list);
    let imported = Ended::of(import.output().unwrap());
    assert_eq!(
        (imported.code, imported.out()),
        (Some(0), "2 recorded, 0 known already\n"),
        "{}",
        imported.stderr
    );
    write(&here.join("a"), "eno", 1_000_000);
    write(&there.join("sub/b"), "longer", 1_000_000);
    let mut command = server.remote("compare");
    let ended = server.run(command.arg("--catalog").arg(&catalog).arg(&here).arg(&place));
    let said = "a: DIFFERS (B is as recorded)\nsub/b: DIFFERS (A is as recorded)\n";
    assert_eq!((ended.code, ended.out()), (Some(1), said), "{}", ended.stderr);
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
    let said = "f1: DIFFERS (A is as recorded)\nf2: DIFFERS (A is as recorded)\n\
                f3: DIFFERS (A is as recorded)\n";
    assert_eq!(compare("of-a", &a, &b, &[]).out(), said);
    assert!(compare("of-a", &b, &a, &[]).out().starts_with("f1: DIFFERS (B is as recorded)\n"));
    // What is recorded with another digest is read once more, and what differs by its size too; not with --quick.
    assert_eq!(compare("of-a", &a, &b, &["-a", "md5"]).out(), said);
    let ended = compare("of-a", &a, &b, &["--quick", "--json"]);
    assert!(ended.out().contains("\"as_recorded\":\"not-b\""), "{}", ended.out());
    // Whoever wrote to it wanted another content.
    write(&a.join("f3"), "F4UR", 1_000_000);
    let ended = compare("of-a", &a, &b, &[]);
    let changed = "f3: DIFFERS (B is not as recorded, A was changed since it was recorded)\n";
    assert!(ended.out().ends_with(changed), "{}", ended.out());
    scrub("both", &a);
    scrub("both", &b);
    assert!(compare("both", &a, &b, &[]).out().starts_with("f1: DIFFERS (both are as recorded)\n"));
}

/// The lines of JSON.
fn json(ended: &Ended) -> Vec<serde_json::Value> {
    ended.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares trees, without any catalogue.
fn compared(folder: &Path, more: &[&str], trees: &[&str]) -> Ended {
    let mut command = command(VERISUM);
    command.current_dir(folder).env("XDG_STATE_HOME", folder.join("none")).arg("compare").args(more);
    Ended::of(command.args(trees).output().unwrap())
}

/// Directories with a file each.
fn files(names: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, text, 1_000_000);
    }
    folder
}

#[test]
fn tags_on_either_side_say_which_of_two_files_is_the_recorded_one() {
    let folder = files(&[("a/x", "good"), ("a/y", "good"), ("b/x", "good"), ("b/y", "good"), ("b/z", "z")]);
    let tag = |tree: &str, digest: &str| {
        let mut command = command(VERISUM);
        let ended =
            command.current_dir(folder.path()).args(["tag", "-q", "-a", digest, tree]).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    };
    let compare = |more: &[&str]| compared(folder.path(), more, &["a", "b"]);
    tag("a", "blake3");
    // Without its time moved: rot. With it: somebody wrote to it.
    write(&folder.path().join("a/x"), "baad", 1_000_000);
    write(&folder.path().join("b/y"), "other", 2_000_000);
    let ended = compare(&[]);
    let said = "x: DIFFERS (B is as recorded)\ny: DIFFERS (A is as recorded)\nz: EXTRA\n";
    assert_eq!((ended.code, ended.out()), (Some(1), said), "{}", ended.stderr);
    tag("b", "sha256");
    assert!(compare(&[]).out().contains("y: DIFFERS (both are as recorded)\n"));
    write(&folder.path().join("b/y"), "third", 3_000_000);
    let ended = compare(&["--json"]);
    let line = &json(&ended)[1];
    assert_eq!((&line["as_recorded"], &line["b"]["as_recorded"]), (&"a".into(), &"changed".into()));
    let said = "y: DIFFERS (A is as recorded, B was changed since it was recorded)\n";
    assert!(compare(&[]).out().contains(said));
}

#[test]
fn lists_say_which_of_two_files_is_the_recorded_one_and_without_a_record_nobody_knows() {
    let folder = files(&[("a/sub/x\ny", "good"), ("b/sub/x\ny", "longer"), ("a/w", "1"), ("b/w", "2")]);
    let md5 =
        std::process::Command::new("md5sum").current_dir(folder.path().join("a")).arg("sub/x\ny").output();
    fs::write(folder.path().join("list"), md5.unwrap().stdout).unwrap();
    let ended = compared(folder.path(), &["--sums", "list"], &["a", "b"]);
    let said = "\\sub/x\\ny: DIFFERS (A is as recorded)\nw: DIFFERS\n";
    assert_eq!((ended.code, ended.out()), (Some(1), said), "{}", ended.stderr);
    let unknown = "verisum: nobody knows which copy is right of 1 file: no record tells\n";
    assert!(ended.stderr.contains(unknown), "{}", ended.stderr);
    let lines = json(&compared(folder.path(), &["--sums", "list", "--json"], &["b", "a"]));
    assert_eq!((&lines[0]["as_recorded"], &lines[1]["as_recorded"]), (&"b".into(), &"unknown".into()));
    assert_eq!(lines[2]["unrecorded"], 1);
    // A list with absolute names, of either tree, and one that is no list.
    let sums =
        std::process::Command::new("sha512sum").arg(folder.path().join("b/w")).output().unwrap().stdout;
    fs::write(folder.path().join("list"), sums).unwrap();
    assert!(compared(folder.path(), &["--sums", "list"], &["a", "b"]).out().contains("w: DIFFERS (B is as"));
    let ended = compared(folder.path(), &["--sums", "missing"], &["a", "b"]);
    assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
}

#[test]
fn of_three_places_the_odd_one_is_named_and_not_called_bad() {
    let folder = files(&[
        ("a/odd", "one"),
        ("b/odd", "two"),
        ("c/odd", "one"),
        ("a/size", "one"),
        ("b/size", "one"),
        ("c/size", "longer"),
        ("a/all", "1"),
        ("b/all", "2"),
        ("c/all", "3"),
        ("a/same", "same"),
        ("b/same", "same"),
        ("c/same", "same"),
        ("b/only", "b"),
        ("a/two", "x"),
        ("c/two", "x"),
        ("b/late", "x"),
        ("c/late", "y"),
    ]);
    let ended = compared(folder.path(), &[], &["a", "b", "local:c"]);
    let said = "all: DIFFERS (all differ)\nlate: DIFFERS (A lacks it)\nodd: DIFFERS (B is the odd one out)\n\
                only: EXTRA (only B has it)\nsize: DIFFERS (C is the odd one out)\n\
                two: MISSING (B lacks it)\n";
    assert_eq!((ended.code, ended.out()), (Some(1), said), "{}", ended.stderr);
    assert!(ended.stderr.contains("nobody knows which copy is right of 4 files:"), "{}", ended.stderr);
    assert!(
        ended.stderr.ends_with("verisum: 1 the same, 4 differ, 1 missing, 1 extra\n"),
        "{}",
        ended.stderr
    );
    // The odd one may be the right one.
    let sums = std::process::Command::new("sha1sum").current_dir(folder.path().join("b")).arg("odd").output();
    fs::write(folder.path().join("list"), sums.unwrap().stdout).unwrap();
    let ended = compared(folder.path(), &["--sums", "list"], &["a", "b", "c"]);
    assert!(
        ended.out().contains("odd: DIFFERS (B is the odd one out, B is as recorded)\n"),
        "{}",
        ended.out()
    );
    let lines = json(&compared(folder.path(), &["--sums", "list", "--json"], &["a", "b", "c"]));
    assert_eq!((&lines[2]["odd"], &lines[2]["b"]["as_recorded"]), (&"b".into(), &"yes".into()));
    assert_eq!((&lines[2]["c"]["as_recorded"], &lines[6]["c"]["path"]), (&"no".into(), &"c".into()));
    let ended = compared(folder.path(), &["--quick"], &["a", "b", "c"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    fs::remove_dir_all(folder.path().join("c")).unwrap();
    assert_eq!(compared(folder.path(), &[], &["a", "b", "c"]).code, Some(3));
}

#[test]
fn the_names_of_large_trees_are_not_held_in_memory() {
    const FILES: usize = 200_000;
    /// Prints the exit code, and the most KiB of memory that the program took.
    const MEASURE: &str = "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=open('out', 'wb'), stderr=open('err', 'wb')).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let folder = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("{:03}/{number:0200}", number / 1000);
    let make = |tree: &str, number: usize, text: &str| {
        let path = folder.path().join(tree).join(name(number));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    (0..FILES).for_each(|number| make("a", number, ""));
    let (other, same) = (FILES / 2, FILES - 1);
    make("b", other, "other");
    make("b", same, "");
    let mut measured = command("python3");
    measured.current_dir(folder.path()).env("XDG_STATE_HOME", folder.path()).args(["-c", MEASURE, VERISUM]);
    let ended = Ended::of(measured.args(["compare", "a", "b"]).output().unwrap());
    let (code, memory) = ended.out().trim().split_once(' ').unwrap();
    assert_eq!(code, "1");
    let memory: u64 = memory.parse().unwrap();
    assert!(memory < 80 << 10, "{memory} KiB");
    let line = |number| {
        let outcome = if number == other { "DIFFERS" } else { "MISSING" };
        format!("{}: {outcome}\n", name(number))
    };
    let expected: String = (0..same).map(line).collect();
    assert!(fs::read_to_string(folder.path().join("out")).unwrap() == expected);
    let told = fs::read_to_string(folder.path().join("err")).unwrap();
    assert!(told.ends_with(&format!("verisum: 1 the same, 1 differ, {} missing\n", FILES - 2)), "{told}");
}
