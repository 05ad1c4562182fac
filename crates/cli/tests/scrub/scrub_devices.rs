//! `verisum scrub` on storage that fails: how far it goes on, and what becomes of the files that it cannot
//! read.

use crate::common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::scrubbing::{expect, scrub};
use common::{Ended, flip, verisum};
use verisum_testkit::fault::SwitchedFile;
use verisum_testkit::{FsKind, Mount, copy_program, require_tool};

const BAD: usize = 4;
const GOOD: usize = 10;

/// Files of 8 KiB, of which each begins with its name, and some give EIO from now on.
fn files(mount: &Mount) -> Vec<(PathBuf, Vec<u8>)> {
    let name = |number: usize| if number < BAD { format!("bad{number}") } else { format!("good{number}") };
    (0..BAD + GOOD)
        .map(|number| {
            let mut content = vec![number as u8; 8192];
            let marker = format!("verisum: this is the file {}", name(number));
            content[..marker.len()].copy_from_slice(marker.as_bytes());
            let path = mount.path().join(name(number));
            fs::write(&path, &content).unwrap();
            (path, content)
        })
        .collect()
}

/// The summary of a run.
fn summary(ended: &Ended) -> serde_json::Value {
    let mut lines =
        ended.out().lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.rfind(|line| line["type"] == "summary").unwrap_or_else(|| panic!("{}{}", ended.out(), ended.stderr))
}

/// How many files were good, were tried and gave an error, were given up, and were known to be bad and not tried.
fn counts(ended: &Ended) -> [u64; 4] {
    let summary = summary(ended);
    let good = ["ok", "new"].iter().map(|word| summary["counts"][word].as_u64().unwrap()).sum();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let not_tried = number(&summary["not_tried"]);
    let failed = number(&summary["counts"]["io-error"]) - not_tried;
    [good, failed, number(&summary["given_up"]), not_tried]
}

#[test]
fn after_some_errors_nothing_more_of_a_device_is_read() {
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("c.db");
    let files = files(&mount);
    assert_eq!(scrub(&catalog, &mount.path(), &[]).code, Some(0));
    mount.edit_image(|image| files[..BAD].iter().for_each(|(_, content)| flip(image, &content[..64])));
    let root = mount.path();
    // One thread, so that no other is at a file when the last error comes. All files are one heap of jobs.
    let options = ["-t1", "--stop-after", "2", "--json"];
    let mut good = 0;
    let mut errors = Vec::new();
    for _ in 0..3 {
        let ended = scrub(&catalog, &root, &options);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let [read, failed, given_up, not_tried] = counts(&ended);
        good += read;
        errors.push((failed, given_up > 0, not_tried));
        if given_up > 0 {
            assert!(ended.stderr.contains("not read: the device fails too often"), "{}", ended.stderr);
        }
    }
    // Two new ones; those two again and two new ones; two of these four again, and what is left.
    assert_eq!(errors[0], (2, true, 0));
    assert_eq!(errors[1].0, 4);
    assert_eq!(errors[2], (2, false, 2));
    assert_eq!(good, GOOD as u64);
    // What is bad for ever keeps nobody from the rest.
    for _ in 0..2 {
        let ended = scrub(&catalog, &root, &options);
        assert_eq!((counts(&ended), ended.code), ([GOOD as u64, 2, 0, 2], Some(3)), "{}", ended.stderr);
        assert!(ended.stderr.contains("2 files known to be bad were not tried again"), "{}", ended.stderr);
    }
    // A file that was restored is tried, however many others are bad.
    let (last, content) = &files[BAD - 1];
    fs::remove_file(last).unwrap();
    fs::write(last, content).unwrap();
    let ended = scrub(&catalog, &root, &["-t1", "--stop-after", "2", "-v"]);
    assert!(ended.out().contains(&format!("touched       {}", last.display())), "{}", ended.out());

    // The same where none of them has a record.
    let catalog = folder.path().join("other.db");
    let runs: Vec<[u64; 4]> = (0..3).map(|_| counts(&scrub(&catalog, &root, &options))).collect();
    assert!(runs[0][1] == 2 && runs[0][2] > 0, "{runs:?}");
    assert!(runs.iter().all(|[_, failed, ..]| *failed <= 4), "{runs:?}");
    let [good, failed, given_up, not_tried] = runs[2];
    assert!(good > 0 && (failed, given_up, not_tried) == (2, 0, 1), "{runs:?}");
    let status = verisum(["catalog".as_ref(), "status".as_ref(), "--catalog".as_ref(), catalog.as_os_str()]);
    assert!(status.out().contains(": 11 files, "), "{}", status.out());
    assert!(status.out().contains("\n  io-error: 3\n"), "{}", status.out());
    let of_catalog = |verb: &str, option: &str| {
        verisum(
            ["catalog", verb, option, "--catalog"].map(OsStr::new).into_iter().chain([catalog.as_os_str()]),
        )
    };
    let nagios = of_catalog("status", "--nagios");
    let line = format!(
        "VERISUM CRITICAL - 11 files, 0 bad, 3 unchecked (3 because storage fails), 0 missing, \
         1 not looked at in {}, io-error ",
        root.display()
    );
    assert!(nagios.code == Some(2) && nagios.out().starts_with(&line), "{}", nagios.out());
    let list = of_catalog("list", "--bad");
    let told = "never read; read at 0: Input/output error; the storage failed: first copy what can be read \
                to a new disk (verisum copy), and mount that in its place";
    assert_eq!((list.code, list.out().matches(told).count()), (Some(3), 3), "{}", list.out());
    // How much failed by the storage is said apart from what was not looked at.
    let report = verisum(["report".as_ref(), "--json".as_ref(), catalog.as_os_str()]);
    let root = root.display();
    for line in [
        format!("UNCHECKED: the last run of {root} could not look at 1 file or directory.\""),
        format!("IO-ERROR: at 3 files or directories of {root} the storage failed: first copy"),
    ] {
        assert!(report.out().contains(&line), "{line}: {}", report.out());
    }
}

#[test]
fn a_disk_that_dies_is_as_loud_as_a_bad_file() {
    let Some(storage) = SwitchedFile::disk(32 << 20) else { return };
    let Some(mut mount) = Mount::on(FsKind::Ext4, &storage.path(), &["-O", "^has_journal"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("c.db");
    let tree = mount.path().canonicalize().unwrap().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("good"), "good").unwrap();
    fs::write(tree.join("bad"), "bad").unwrap();
    scrub(&catalog, &tree, &[]).clean();
    let time = fs::metadata(tree.join("bad")).unwrap().modified().unwrap();
    fs::write(tree.join("bad"), "BAD").unwrap();
    File::options().write(true).open(tree.join("bad")).unwrap().set_modified(time).unwrap();
    assert_eq!(scrub(&catalog, &tree, &[]).code, Some(1));
    mount.edit_image(|_| {});
    verisum_testkit::cache::forget(&storage.path()).unwrap();
    storage.fail(true);
    let ended = scrub(&catalog, &tree, &[]);
    assert!(ended.stderr.contains("Input/output error"), "{}{}", ended.out(), ended.stderr);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    let nagios = scrub(&catalog, &tree, &["--nagios"]);
    let is_told = nagios.out().starts_with("VERISUM CRITICAL - ")
        && nagios.out().contains(" 1 bad, 1 unchecked (1 because");
    assert!(nagios.code == Some(2) && is_told, "{}", nagios.out());
    let status = |words: &[&str]| {
        let words = [words, &["--catalog", catalog.to_str().unwrap()]].concat();
        verisum(words.into_iter().map(OsStr::new))
    };
    let nagios = status(&["catalog", "status", "--nagios"]);
    assert!(nagios.code == Some(2) && nagios.out().contains("(1 because storage fails)"), "{}", nagios.out());
    storage.fail(false);
    mount.edit_image(|_| {});
    assert_eq!(scrub(&catalog, &tree, &[]).code, Some(1));
}

#[test]
fn bad_files_that_are_not_tried_again_are_named_and_counted_as_what_they_are() {
    let (Some(mut mount), Some(chattr)) = (Mount::new(FsKind::Btrfs, 0), require_tool("chattr")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, figures) = (folder.path().join("c.db"), folder.path().join("figures.prom"));
    let mut files = files(&mount);
    for (path, content) in &mut files[BAD..BAD + 3] {
        // Without checksums of the file system what rots is read.
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap();
        assert!(Command::new(&chattr).arg("+C").arg(&path).status().unwrap().success());
        content.fill(0x77);
        let marker = format!("verisum: this is going to rot: {}", path.display());
        content[..marker.len()].copy_from_slice(marker.as_bytes());
        fs::write(path, content).unwrap();
    }
    assert_eq!(scrub(&catalog, &mount.path(), &[]).code, Some(0));
    mount.edit_image(|image| files[..BAD + 3].iter().for_each(|(_, content)| flip(image, &content[..64])));
    let root = mount.path();
    let verdict = |content: &[u8]| if content[100] == 0x77 { "rot" } else { "io-error" };
    let known: Vec<(&str, &Path)> =
        files[..BAD + 3].iter().map(|(path, content)| (verdict(content), &**path)).collect();
    expect(&scrub(&catalog, &root, &[]), 1, &known);
    // After one of them no more are tried.
    let options = ["-t1", "--stop-after", "1"];
    let ended = scrub(&catalog, &root, &options);
    expect(&ended, 1, &known);
    assert!(ended.out().contains("was not tried again: the device fails too often"), "{}", ended.out());
    let prometheus = format!("--prometheus={}", figures.display());
    let ended = scrub(&catalog, &root, &[&options[..], &["--json", &prometheus]].concat());
    let said = summary(&ended);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!((&said["counts"]["rot"], &said["counts"]["io-error"]), (&3.into(), &4.into()), "{said}");
    assert_eq!((&said["not_tried"], &said["complete"]), (&6.into(), &false.into()), "{said}");
    let figures = fs::read_to_string(figures).unwrap();
    for figure in ["verdict=\"rot\"} 3", "verdict=\"io-error\"} 4"] {
        assert!(figures.contains(figure), "{figures}");
    }
    // They are in the figures of their verdicts, and no others were skipped.
    let of =
        |name: &str| figures.lines().find(|line| line.starts_with(&format!("verisum_scrub_{name}_files{{")));
    assert!(of("not_tried").is_some_and(|line| line.ends_with("} 6")), "{figures}");
    assert!(of("given_up").is_some_and(|line| line.ends_with("} 0")), "{figures}");
    let nagios = scrub(&catalog, &root, &[&options[..], &["--nagios"]].concat());
    let line = "VERISUM CRITICAL - 14 files, 3 bad, 4 unchecked (4 because storage fails) | ";
    assert!(nagios.code == Some(2) && nagios.out().starts_with(line), "{}", nagios.out());
    // One that is tried again, as its inode changed, says nothing new of the device.
    let (unreadable, _) =
        files[..BAD + 3].iter().find(|(_, content)| verdict(content) == "io-error").unwrap();
    fs::set_permissions(unreadable, fs::Permissions::from_mode(0o600)).unwrap();
    for _ in 0..2 {
        let ended = scrub(&catalog, &root, &[&options[..], &["--json"]].concat());
        assert_eq!((ended.code, &summary(&ended)["given_up"]), (Some(1), &0.into()), "{}", ended.out());
    }
}

#[test]
fn what_was_rotten_and_cannot_be_read_is_rotten() {
    let content = vec![7; 64 << 10];
    let Some(file) = SwitchedFile::new(&content) else { return };
    let path = file.path().canonicalize().unwrap();
    let (root, behind) = (path.parent().unwrap().to_path_buf(), path.with_file_name("content"));
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("c.db");
    // What switches is a file of a file system of its own.
    let options = ["--cross-file-systems", "--exclude", "content", "--exclude", "fail"];
    let run = || scrub(&catalog, &root, &options);
    assert_eq!(run().code, Some(0));
    File::options().write(true).open(&behind).unwrap().write_all_at(&[8], 5000).unwrap();
    let ended = run();
    assert_eq!(ended.code, Some(1), "{}", ended.out());
    let verdict = ended.out().split(' ').next().unwrap().to_string();
    assert!(["rot", "suspicious", "flaky"].contains(&&*verdict), "{}", ended.out());
    file.fail(true);
    for _ in 0..2 {
        let ended = run();
        assert_eq!(ended.code, Some(1), "{}", ended.out());
        let said = format!("Input/output error; {verdict} when it was last read");
        assert!(ended.out().starts_with(&verdict) && ended.out().contains(&said), "{}", ended.out());
    }
    file.fail(false);
    assert_eq!(run().code, Some(1));
    File::options().write(true).open(&behind).unwrap().write_all_at(&[7], 5000).unwrap();
    let ended = run();
    assert_eq!(ended.code, Some(0), "{}", ended.out());
    assert!(ended.out().contains("its content is as recorded again"), "{}", ended.out());
}

#[test]
fn a_place_that_cannot_be_listed_keeps_nobody_from_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("closed")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    let closed = |mode| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(mode)).unwrap();
    };
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    closed(0);
    // The other user need not reach the folder that the program was built in.
    let program = folder.path().join("verisum");
    copy_program(common::VERISUM, &program);
    let as_other = |words: &[&str], more: &[&Path]| {
        let mut command = common::command(program.to_str().unwrap());
        command.args(words).arg("--catalog").arg(folder.path().join("c.db")).args(more);
        if verisum_testkit::require_root().is_some() {
            // Root may list everything.
            use std::os::unix::process::CommandExt;
            command.uid(65534).gid(65534);
        }
        Ended::of(command.output().unwrap())
    };
    let run = || {
        let ended = as_other(&["scrub", "--json"], &[&tree]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        summary(&ended)
    };
    run();
    for _ in 0..2 {
        let summary = run();
        assert_eq!(summary["read_files"], 1, "{summary}");
        assert_eq!((&summary["unlisted"], &summary["complete"]), (&1.into(), &false.into()));
    }
    // The catalogue names and counts it while that is so.
    let figures = folder.path().join("figures.prom");
    let prometheus = format!("--prometheus={}", figures.display());
    let expect_closed = |count: usize| {
        let code = Some(if count == 0 { 0 } else { 3 });
        let list = as_other(&["catalog", "list", "--bad"], &[]);
        let named = list.out().matches(tree.join("closed").to_str().unwrap()).count();
        assert_eq!((list.code, named), (code, count), "{}", list.out());
        assert!(count == 0 || list.out().contains("never read; "), "{}", list.out());
        let status = as_other(&["catalog", "status", &prometheus], &[]);
        assert_eq!(status.code, code, "{}", status.out());
        assert_eq!(status.out().contains("\n  unverifiable: 1\n"), count == 1, "{}", status.out());
        let figures = fs::read_to_string(&figures).unwrap();
        for figure in ["state=\"unverifiable\"", "verisum_catalog_unlisted{"] {
            let line = figures.lines().find(|line| line.contains(figure)).unwrap();
            assert!(line.ends_with(&format!("}} {count}")), "{line}");
        }
    };
    expect_closed(1);
    closed(0o755);
    assert_eq!(as_other(&["scrub"], &[&tree]).code, Some(0));
    expect_closed(0);
}

#[test]
fn files_that_no_run_could_read_are_known_until_they_are_read_gone_or_left_out() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o777);
    fs::create_dir_all(tree.join("part")).unwrap();
    fs::write(tree.join("part/good"), "content").unwrap();
    let closed = ["one", "two", "three"].map(|name| tree.join(name));
    for path in &closed {
        fs::write(path, "closed").unwrap();
        mode(path, 0);
    }
    let program = folder.path().join("verisum");
    copy_program(common::VERISUM, &program);
    let run = |words: &[&str], more: &[&Path]| {
        let mut command = common::command(program.to_str().unwrap());
        command.args(words).arg("--catalog").arg(folder.path().join("c.db")).args(more);
        if verisum_testkit::require_root().is_some() {
            // Root may read everything.
            command.uid(65534).gid(65534);
        }
        Ended::of(command.output().unwrap())
    };
    let figures = folder.path().join("figures.prom");
    let expect_unread = |count: usize| {
        let nagios = run(&["catalog", "status", "--nagios"], &[]);
        let (code, word) = if count == 0 { (0, "OK") } else { (1, "WARNING") };
        assert_eq!(nagios.code, Some(code), "{}", nagios.out());
        let told = format!("VERISUM {word} - {} files, 0 bad, {count} unchecked", 4 - count)
            .replace("1 files", "1 file");
        assert!(nagios.out().starts_with(&told), "{}", nagios.out());
        let code = Some(if count == 0 { 0 } else { 3 });
        let prometheus = format!("--prometheus={}", figures.display());
        assert_eq!(run(&["catalog", "status", &prometheus], &[]).code, code);
        let text = fs::read_to_string(&figures).unwrap();
        assert!(text.contains(&format!("state=\"unverifiable\"}} {count}\n")), "{text}");
        let list = run(&["catalog", "list", "--bad"], &[]);
        assert_eq!(
            (list.code, list.out().matches("never read; open: Permission denied").count()),
            (code, count)
        );
        let list = run(&["catalog", "list", "--bad", "--json"], &[]);
        assert_eq!(list.out().matches("\"recorded\":null").count(), count, "{}", list.out());
        let report = run(&["report", "--json"], &[]);
        assert_eq!(report.code, code, "{}", report.out());
        // There is nothing that a repair could bring back.
        assert!(!report.out().contains("verisum repair"), "{}", report.out());
    };
    assert_eq!(run(&["scrub"], &[&tree]).code, Some(3));
    expect_unread(3);
    // A run of another part, and one that leaves another file out.
    assert_eq!(run(&["scrub"], &[&tree.join("part")]).code, Some(0));
    assert_eq!(run(&["scrub", "--exclude", "good"], &[&tree]).code, Some(3));
    expect_unread(3);
    mode(&closed[0], 0o644);
    assert_eq!(run(&["scrub"], &[&tree]).code, Some(3));
    expect_unread(2);
    fs::remove_file(&closed[1]).unwrap();
    mode(&closed[2], 0o644);
    assert_eq!(run(&["scrub", "--exclude", "three"], &[&tree]).code, Some(0));
    let status = run(&["catalog", "status"], &[]);
    assert!(!status.out().contains("  unverifiable"), "{}", status.out());
    assert_eq!(run(&["scrub"], &[&tree]).code, Some(0));
    fs::write(&closed[1], "again").unwrap();
    assert_eq!(run(&["scrub"], &[&tree]).code, Some(0));
    expect_unread(0);
}

#[test]
fn a_tree_of_nothing_but_mount_points_says_so() {
    let Some(mount) = Mount::new(FsKind::Tmpfs, 1 << 20) else { return };
    fs::write(mount.path().join("file"), "content").unwrap();
    let root = mount.path().parent().unwrap().canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("c.db");
    let ended = scrub(&catalog, &root, &["--quiet"]);
    let said = "nothing to verify, and 1 mount point not entered (--cross-file-systems enters them)";
    assert_eq!(ended.stderr, format!("verisum: {}: {said}\n", root.display()));
    let ended = scrub(&catalog, &root, &["--cross-file-systems"]);
    assert!(ended.out().contains(": 1 file, 7 bytes; read 1 "), "{}", ended.out());
}
