//! `verisum copy` from and to a bucket of a real server of S3, and a host behind a real sshd.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::answers::{Answer, Server};
use common::bucket::Store;
use common::sshd::sshd;
use common::{Ended, VERISUM, change_and_restore_time, command, start, trees, wait_until};
use verisum_testkit::{require_root, require_tool, write_script};

/// The regular files below a directory, with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        if stat.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if stat.is_file() {
            found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Bytes that differ everywhere.
fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    for at in 0..length.div_ceil(8) as u64 {
        bytes.extend_from_slice(&(at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[track_caller]
fn expect(ended: &Ended, code: i32, out: &str, part: &str) {
    let about = format!("{:?} {} {}", ended.code, ended.out(), ended.stderr);
    assert_eq!((ended.code, ended.out()), (Some(code), out), "{about}");
    assert!(ended.stderr.contains(part), "{about}");
}

#[test]
fn a_bucket_is_copied_and_compared_with_its_records() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("backup").join("data");
    fs::create_dir_all(bucket.join("sub/deeper")).unwrap();
    for number in 0..60 {
        fs::write(bucket.join(format!("sub/{number}")), format!("content {number}")).unwrap();
    }
    // More than one piece, and bytes that differ everywhere.
    fs::write(bucket.join("sub/deeper/large"), bytes(9 << 20)).unwrap();
    fs::write(bucket.join("empty"), "").unwrap();
    fs::write(bucket.join("a b+c%\u{e9}\n"), "odd").unwrap();
    let path = |name: &str| store.path(name).to_str().unwrap().to_string();
    let (to, catalog, sums) = (path("to"), path("catalog.db"), path("sums"));
    let scrubbed = store.run(&["scrub", "--quiet", "--catalog", &catalog, "s3://backup/data"]);
    assert_eq!(scrubbed.code, Some(0), "{}", scrubbed.stderr);
    let copy = |options: &[&str]| {
        store.run(&[&["copy", "--catalog", &catalog], options, &["s3://backup/data", &to]].concat())
    };

    // A file is rotten behind the server's back: it is reported, and the others are copied.
    let good = fs::read(bucket.join("sub/7")).unwrap();
    change_and_restore_time(&bucket.join("sub/7"), "cOntent 7");
    let ended = copy(&["--sums", &sums]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().starts_with("s3://backup/data/sub/7: rot: sha256 is "), "{}", ended.out());
    assert!(ended.out().ends_with("(catalogue): not copied\n"), "{}", ended.out());
    assert!(
        ended.stderr.contains("62 files copied, ") && ended.stderr.contains("62 compared"),
        "{}",
        ended.stderr
    );
    let mut expected = files(&bucket);
    expected.remove(Path::new("sub/7"));
    assert_eq!(files(Path::new(&to)), expected);
    let checked = store.run(&["check", "--quiet", "-C", &to, &sums]);
    assert_eq!((checked.code, checked.out()), (Some(0), ""), "{}", checked.stderr);

    // What is there is not fetched again, the time tells; what was mended is.
    change_and_restore_time(&bucket.join("sub/7"), &String::from_utf8(good).unwrap());
    expect(&copy(&[]), 0, "", "1 file copied, 9 bytes, in ");
    assert_eq!(files(Path::new(&to)), files(&bucket));
    expect(&copy(&[]), 0, "", "0 files copied, 0 bytes, in ");
    let time = |path: &Path| fs::metadata(path).unwrap().mtime();
    assert_eq!(time(&Path::new(&to).join("sub/7")), time(&bucket.join("sub/7")));

    // One object gets TO's name, or its own in TO.
    let one = path("one");
    expect(&store.run(&["copy", "s3://backup/data/sub/8", &one]), 0, "", "1 file copied");
    assert_eq!(fs::read(&one).unwrap(), b"content 8");
    expect(&store.run(&["copy", "s3://backup/data/sub/9", &to]), 0, "", "1 file copied");
    assert_eq!(fs::read(format!("{to}/9")).unwrap(), b"content 9");

    // What is not there, and what cannot be.
    expect(&store.run(&["copy", "s3://backup/none", &path("none")]), 3, "", "No such file or directory");
    assert!(!store.path("none").exists());
    expect(
        &store.run(&["copy", "--update", "s3://backup/data", &to]),
        2,
        "",
        "not for files on other machines",
    );
    fs::write(store.path("file"), "").unwrap();
    expect(&store.run(&["copy", "s3://backup/data", &path("file")]), 3, "", "a file is in the way");
}

#[test]
fn a_tree_is_copied_to_a_bucket_and_back() {
    let Some(store) = Store::start() else { return };
    let (bucket, from) = (store.bucket("backup"), store.path("from"));
    fs::create_dir_all(from.join("sub")).unwrap();
    for number in 0..40 {
        fs::write(from.join(format!("sub/{number}")), format!("content {number}")).unwrap();
    }
    // Several parts, the last of them shorter; one that ends with a part; and one that is no longer than a part.
    for (name, length) in
        [("parts", (32 << 20) + 7), ("part", 16 << 20), ("less", (16 << 20) - 1), ("empty", 0)]
    {
        fs::write(from.join(name), bytes(length)).unwrap();
    }
    fs::write(from.join("a b+c%\u{e9}\n"), "odd").unwrap();
    symlink("less", from.join("link")).unwrap();
    let path = |name: &str| store.path(name).to_str().unwrap().to_string();
    let (here, back, catalog) = (path("from"), path("back"), path("catalog.db"));
    let scrubbed = store.run(&["scrub", "--quiet", "--catalog", &catalog, &here]);
    assert_eq!(scrubbed.code, Some(0), "{}", scrubbed.stderr);
    let copy = |options: &[&str]| {
        store.run(&[&["copy", "--catalog", &catalog], options, &[&here, "s3://backup/photos"]].concat())
    };

    // What is rotten here is not sent.
    change_and_restore_time(&from.join("sub/7"), "cOntent 7");
    let ended = copy(&[]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().ends_with("(catalogue): not copied\n"), "{}", ended.out());
    assert!(ended.stderr.contains("44 files copied, "), "{}", ended.stderr);
    assert!(ended.stderr.contains("TO cannot hold 1 link or special file"), "{}", ended.stderr);
    change_and_restore_time(&from.join("sub/7"), "content 7");
    expect(&copy(&[]), 0, "", "1 file copied, 9 bytes, in ");
    assert_eq!(files(&bucket.join("photos")), files(&from));
    expect(&copy(&[]), 0, "", "0 files copied, 0 bytes, in ");

    // And back, with the times that the files had.
    expect(&store.run(&["copy", "s3://backup/photos", &back]), 0, "", "45 files copied");
    assert_eq!(files(Path::new(&back)), files(&from));
    for name in files(&from).keys() {
        let time = |folder: &Path| fs::metadata(folder.join(name)).unwrap().modified().unwrap();
        assert_eq!(time(Path::new(&back)), time(&from), "{}", name.display());
    }
    expect(&store.run(&["copy", "s3://backup/photos", &back]), 0, "", "0 files copied");

    // What was modified is sent again, be it as long and older than what is there.
    change_and_restore_time(&from.join("sub/8"), "another 8");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(from.join("sub/8")).unwrap().set_modified(old).unwrap();
    expect(&copy(&["--verify", "none"]), 0, "", "1 file copied, 9 bytes, in ");
    assert_eq!(fs::read(bucket.join("photos/sub/8")).unwrap(), b"another 8");

    // One file, by a name and into a folder.
    let one = from.join("sub/9");
    let one = one.to_str().unwrap();
    expect(&store.run(&["copy", one, "s3://backup/one"]), 0, "", "1 file copied");
    expect(&store.run(&["copy", one, "s3://backup/folder/"]), 0, "", "1 file copied");
    assert_eq!(fs::read(bucket.join("one")).unwrap(), b"content 9");
    assert_eq!(fs::read(bucket.join("folder/9")).unwrap(), b"content 9");

    // Each failure is a line, beside the totals and what the store was asked for.
    let ended = store.run(&["copy", one, "s3://none/one"]);
    expect(&ended, 3, "", "s3://none/one");
    assert_eq!(ended.stderr.lines().count(), 3, "{}", ended.stderr);
    expect(&store.run(&["copy", &path("nothing"), "s3://backup/x"]), 3, "", "No such file or directory");
    // A store that fails for one file after the other is given up.
    let failing = Server::start(|_| Answer::new(500, ""));
    let ended = store.run(&["copy", "--endpoint", &failing.url, &here, "s3://backup/photos"]);
    expect(&ended, 3, "", "not all was copied, because the host or the store refused many files in a row");
    assert!(ended.stderr.lines().count() < 30, "{}", ended.stderr);
    // One that cannot be reached is told of once.
    let ended = store.run(&["copy", "--endpoint", "http://127.0.0.1:1", &here, "s3://backup/photos"]);
    expect(&ended, 3, "", "; 1 failed; not all was copied: 44 other files not tried\n");
    assert_eq!(ended.stderr.matches("the store cannot be reached").count(), 1, "{}", ended.stderr);
    // What a place did not come to list, nobody can count.
    let there = format!("local:{here}");
    let distant = store.run(&["copy", "--endpoint", "http://127.0.0.1:1", &there, "s3://backup/photos"]);
    expect(&distant, 3, "", "; not all was copied\n");
    let note = "note: TO cannot hold 1 link or special file: left out\n";
    assert!(ended.stderr.lines().count() == 4 && ended.stderr.ends_with(note), "{}", ended.stderr);

    // What looks like the address of a version is no name of an object.
    let odd = store.path("odd");
    fs::create_dir(&odd).unwrap();
    for name in ["a", "q?versionId=3"] {
        fs::write(odd.join(name), name).unwrap();
    }
    let ended = store.run(&["copy", odd.to_str().unwrap(), "s3://backup/odd"]);
    let why =
        "s3://backup/odd/q?versionId=3: create: its name ends as the address of a version of an object does";
    expect(&ended, 3, "", why);
    assert!(ended.stderr.contains("1 file copied"), "{}", ended.stderr);
    let ended = store.run(&["copy", &path("odd/a"), "s3://backup/q?versionId=3"]);
    expect(&ended, 3, "", "s3://backup/q?versionId=3: create: its name ends as the address of a version");
}

/// Neither place is this machine: from a bucket to another, to a host and back, and from one host to another.
#[test]
fn between_other_places_files_are_compared_and_keep_their_times() {
    let Some(store) = Store::start() else { return };
    let (bucket, from) = (store.bucket("backup"), store.path("from"));
    fs::create_dir_all(from.join("sub")).unwrap();
    for number in 0..150 {
        fs::write(from.join(format!("sub/{number}")), format!("content {number}")).unwrap();
    }
    fs::write(from.join("sub-1"), "beside the directory in order").unwrap();
    fs::write(from.join("a b+c%\u{e9}\n"), "odd").unwrap();
    fs::write(from.join("large"), bytes(17 << 20)).unwrap();
    let all = files(&from);
    let copied = format!("{} files copied, ", all.len());
    let path = |name: &str| store.path(name).to_str().unwrap().to_string();
    let (here, there, other) =
        (path("from"), format!("local:{}", path("there")), format!("local:{}", path("other")));
    expect(&store.run(&["copy", &here, "s3://backup/a"]), 0, "", &copied);
    for (one, two, folder) in [
        ("s3://backup/a", "s3://backup/b", bucket.join("b")),
        ("s3://backup/b", &there, store.path("there")),
        (&there, &other, store.path("other")),
        (&other, "s3://backup/c", bucket.join("c")),
    ] {
        expect(&store.run(&["copy", one, two]), 0, "", &copied);
        assert!(files(&folder) == all, "{one} {two}");
        expect(&store.run(&["copy", one, two]), 0, "", "0 files copied, 0 bytes, in ");
    }
    let time = |folder: &str, name: &PathBuf| fs::metadata(store.path(folder).join(name)).unwrap().modified();
    for name in all.keys() {
        assert_eq!(time("other", name).unwrap(), time("from", name).unwrap(), "{}", name.display());
    }
    // What the catalogue calls rotten goes nowhere.
    let catalog = path("catalog.db");
    expect(&store.run(&["scrub", "--quiet", "--catalog", &catalog, "s3://backup/a"]), 0, "", "");
    change_and_restore_time(&bucket.join("a/sub/7"), "cOntent 7");
    for to in ["s3://backup/d", &format!("local:{}", path("d"))] {
        let ended = store.run(&["copy", "--catalog", &catalog, "s3://backup/a", to]);
        assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
        assert!(ended.out().starts_with("s3://backup/a/sub/7: rot: sha256 is "), "{}", ended.out());
    }
    for folder in [bucket.join("d"), store.path("d")] {
        let found = files(&folder);
        assert!(found.len() == all.len() - 1 && !found.contains_key(Path::new("sub/7")));
    }
    // One file, and what is not there.
    expect(&store.run(&["copy", "s3://backup/b/sub/8", "s3://backup/one"]), 0, "", "1 file copied");
    assert_eq!(fs::read(bucket.join("one")).unwrap(), b"content 8");
    expect(&store.run(&["copy", "s3://backup/none", &there]), 3, "", "No such file or directory");
    expect(
        &store.run(&["copy", "--update", "s3://backup/a", &there]),
        2,
        "",
        "not for files on other machines",
    );
}

#[test]
fn a_host_is_copied_with_odd_names_and_times() {
    let Some(server) = sshd("") else { return };
    let from = server.path("srv");
    fs::create_dir_all(&from).unwrap();
    trees::fill(&from);
    let to = server.path("to");
    let address = format!("ssh://web1{}", from.display());
    let copy = |options: &[&str]| {
        let mut command = server.verisum(&["copy"]);
        server.run(command.args(options).arg(&address).arg(&to))
    };
    let ended = copy(&["--exclude", "*.tmp"]);
    assert_eq!((ended.code, ended.out()), (Some(0), ""), "{}", ended.stderr);
    assert_eq!(files(&to), files(&from));
    for name in files(&from).keys() {
        let time = |folder: &Path| fs::metadata(folder.join(name)).unwrap().modified().unwrap();
        assert_eq!(time(&to), time(&from), "{}", name.display());
    }
    expect(&copy(&[]), 0, "", "0 files copied, 0 bytes, in ");
    fs::write(from.join("later"), "later").unwrap();
    fs::write(from.join("file-1"), "another").unwrap();
    expect(&copy(&["--tag"]), 0, "", "2 files copied, 12 bytes, in ");
    assert_eq!(files(&to), files(&from));
    let verified = common::verisum(["verify", "--quiet", to.join("later").to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out(), verified.stderr);

    // A link at TO is replaced, and nothing is written where it leads; a link in the way to a file is not followed.
    let outside = server.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "a letter").unwrap();
    fs::remove_file(to.join("later")).unwrap();
    symlink(outside.join("precious"), to.join("later")).unwrap();
    expect(&copy(&[]), 0, "", "1 file copied");
    assert_eq!(fs::read(to.join("later")).unwrap(), b"later");
    fs::create_dir(from.join("folder")).unwrap();
    fs::write(from.join("folder/precious"), "overwritten").unwrap();
    symlink(&outside, to.join("folder")).unwrap();
    let ended = copy(&[]);
    expect(&ended, 3, "", "a symbolic link is in the way");
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"a letter");
}

/// Modes and times of regular files, by their names.
fn states(folder: &Path) -> Vec<(PathBuf, u32, i64, i64)> {
    let state = |name: PathBuf| {
        let stat = fs::metadata(folder.join(&name)).unwrap();
        (name, stat.mode() & 0o7777, stat.mtime(), stat.mtime_nsec())
    };
    files(folder).into_keys().map(state).collect()
}

/// The names in a tree that copies have only while they are made.
fn passing(folder: &Path) -> Vec<PathBuf> {
    let mut find = Command::new("find");
    let found = find.arg(folder).args(["-name", ".verisum-copy-*", "-printf", "%P\\n"]).output().unwrap();
    let mut names: Vec<PathBuf> =
        String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect();
    names.sort();
    names
}

/// Copies to this machine by the programs of a host, in a folder.
fn copy_there(folder: &Path, programs: &str, arguments: &[&str]) -> Ended {
    let mut command = command(VERISUM);
    command.arg("copy").args(arguments).current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    Ended::of(command.env("PATH", programs).output().unwrap())
}

/// Where programs are.
fn path() -> String {
    std::env::var("PATH").unwrap()
}

#[test]
fn a_tree_is_copied_to_a_host_with_odd_names_modes_and_times() {
    let Some(server) = sshd("") else { return };
    let (from, to) = (server.path("from"), server.path("srv"));
    for folder in [&from, &to] {
        fs::create_dir(folder).unwrap();
    }
    fs::set_permissions(&to, fs::Permissions::from_mode(0o777)).unwrap();
    trees::fill(&from);
    fs::write(from.join("large"), (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    for (name, mode) in [("file-1", 0o755), ("file-2", 0o444), ("file-3", 0o600), ("large", 0o4711)] {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let (here, address) = (from.display().to_string(), format!("ssh://web1{}/photos", to.display()));
    let copy = |options: &[&str]| server.run(server.verisum(&["copy"]).args(options).args([&here, &address]));
    let sums = server.path("sums").display().to_string();
    expect(&copy(&["--sums", &sums, "--exclude", "link"]), 0, "", "214 files copied");
    let copied = to.join("photos");
    assert_eq!((files(&copied), states(&copied)), (files(&from), states(&from)));
    let checked = common::verisum(["check", "--quiet", "-C", copied.to_str().unwrap(), &sums]);
    assert_eq!((checked.code, checked.out()), (Some(0), ""), "{}", checked.stderr);
    expect(&copy(&[]), 0, "", "0 files copied, 0 bytes, in ");

    // What has another size or time is sent again, and what is rotten is not.
    fs::write(from.join("later"), "later").unwrap();
    fs::write(copied.join("file-9"), "damaged").unwrap();
    let tagged = common::verisum(["tag", "--quiet", from.join("file-7").to_str().unwrap()]);
    assert_eq!(tagged.code, Some(0), "{}", tagged.stderr);
    change_and_restore_time(&from.join("file-7"), &"x".repeat(7 * 37));
    fs::remove_file(copied.join("file-7")).unwrap();
    let ended = copy(&["--verify", "written"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().ends_with("(tag): not copied\n"), "{}", ended.out());
    assert!(ended.stderr.contains("2 files copied, 338 bytes, in "), "{}", ended.stderr);
    assert!(!copied.join("file-7").exists());
    expect(&copy(&["--allow-bad", "--quiet"]), 1, ended.out().replace("not copied", "copied").as_str(), "");
    assert_eq!((files(&copied), states(&copied)), (files(&from), states(&from)));

    // A link that has the name of a file is replaced; one that has that of a directory is not followed.
    let outside = server.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(from.join("folder")).unwrap();
    fs::write(from.join("folder/letter"), "overwritten").unwrap();
    fs::write(from.join("precious"), "new").unwrap();
    fs::write(from.join("taken"), "new").unwrap();
    symlink(&outside, copied.join("folder")).unwrap();
    symlink(&outside, copied.join("precious")).unwrap();
    fs::create_dir(copied.join("taken")).unwrap();
    let ended = copy(&["--verify", "none"]);
    expect(&ended, 3, "", "/photos/folder/letter: create: a symbolic link is in the way");
    assert!(ended.stderr.contains("/photos/taken: create: a directory is in the way"), "{}", ended.stderr);
    assert_eq!(fs::read(copied.join("precious")).unwrap(), b"new");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(passing(&to).is_empty());

    // What the host's user may not write to, each in a line; and one file, by a name and into a folder.
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    let one = from.join("file-8").display().to_string();
    let denied = format!("ssh://web1{}/denied", to.display());
    let ended = server.run(server.verisum(&["copy"]).args([&one, &denied]));
    expect(&ended, 3, "", "/denied: create: Permission denied");
    let ended = server.run(server.verisum(&["copy"]).args([&here, &denied]));
    expect(&ended, 3, "", "/denied: create TO: Permission denied");
    assert!(ended.stderr.lines().count() < 6, "{}", ended.stderr);
    expect(
        &server.run(server.verisum(&["copy"]).args([&one, &format!("{address}/one")])),
        0,
        "",
        "1 file copied",
    );
    expect(
        &server.run(server.verisum(&["copy"]).args([&one, &format!("{address}/")])),
        0,
        "",
        "0 files copied",
    );
    assert_eq!(fs::read(copied.join("one")).unwrap(), fs::read(&one).unwrap());
}

#[test]
fn a_host_with_busybox_alone_takes_a_tree() {
    let Some(busybox) = require_tool("busybox") else { return };
    let (folder, programs) = (trees::tree(), tempfile::tempdir().unwrap());
    for name in
        String::from_utf8(Command::new(&busybox).arg("--list").output().unwrap().stdout).unwrap().lines()
    {
        symlink(&busybox, programs.path().join(name)).unwrap();
    }
    let to = tempfile::tempdir().unwrap();
    let copy = || {
        let (from, programs) = (folder.path().to_str().unwrap(), programs.path().to_str().unwrap());
        copy_there(to.path(), programs, &["--verify", "reread", from, "local:copy"])
    };
    expect(&copy(), 0, "", "213 files copied");
    assert_eq!(files(&to.path().join("copy")), files(folder.path()));
    expect(&copy(), 0, "", "0 files copied");
}

#[test]
fn what_is_damaged_on_the_way_gets_no_name() {
    let programs = tempfile::tempdir().unwrap();
    let Some(dd) = require_tool("dd") else { return };
    let script = format!("#!/bin/sh\nexec {} \"$@\" | tr x y\n", dd.display());
    write_script(programs.path().join("dd"), &script);
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("from/a", "fox"), ("from/b", "good"), ("to/a", "older")] {
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = format!("{}:{}", programs.path().display(), path());
    let copy =
        |options: &[&str]| copy_there(folder.path(), &path, &[options, &["from", "local:to"]].concat());
    let ended = copy(&[]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().starts_with("from/a: differs: sha256 read back is "), "{}", ended.out());
    assert!(ended.out().ends_with(": not kept\n"), "{}", ended.out());
    let expected = [("a", "older"), ("b", "good")].map(|(name, text)| (name.into(), text.into()));
    assert_eq!(files(&folder.path().join("to")), expected.into());
    // Nobody looks.
    expect(&copy(&["--verify", "written"]), 0, "", "1 file copied");
    assert_eq!(fs::read(folder.path().join("to/a")).unwrap(), b"foy");
}

#[test]
fn a_full_and_a_read_only_place_are_told_once_and_keep_what_they_have() {
    if require_root().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for name in [&from, &to] {
        fs::create_dir(name).unwrap();
    }
    let mount = |arguments: &[&str]| {
        assert!(Command::new("mount").args(arguments).arg(&to).status().unwrap().success());
    };
    mount(&["-t", "tmpfs", "-o", "size=1M", "none"]);
    for number in 0..100 {
        fs::write(from.join(format!("small-{number}")), vec![number; 20_000]).unwrap();
    }
    fs::write(to.join("small-99"), "older").unwrap();
    let copy = || copy_there(folder.path(), &path(), &["from", "local:to"]);
    let full = copy();
    let left = passing(&to);
    let copied = files(&to);
    fs::remove_file(to.join("small-99")).unwrap();
    mount(&["-o", "remount,ro"]);
    let read_only = copy();
    assert!(Command::new("umount").arg(&to).status().unwrap().success());
    assert_eq!((full.code, full.out(), left), (Some(3), "", vec![]), "{}", full.stderr);
    assert_eq!(full.stderr.matches("write: No space left on device").count(), 1, "{}", full.stderr);
    assert!(full.stderr.contains("not all was copied"), "{}", full.stderr);
    for (name, content) in copied {
        let is_whole = content == fs::read(from.join(&name)).unwrap();
        assert!(is_whole || content == b"older", "{}", name.display());
    }
    expect(&read_only, 3, "", "create: Read-only file system");
    assert!(read_only.stderr.lines().count() <= 3, "{}", read_only.stderr);
}

#[test]
fn a_copy_to_a_host_that_is_killed_leaves_no_half_file_and_the_next_removes_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    fs::create_dir_all(folder.path().join("from/sub")).unwrap();
    let large: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.path().join("from/large"), &large).unwrap();
    fs::write(folder.path().join("from/sub/small"), "small").unwrap();
    let mut command = command(VERISUM);
    command.args(["copy", "--limit", "1M", "from", "local:to"]).current_dir(folder.path());
    let mut child = start(command.env("XDG_STATE_HOME", folder.path().join("state")));
    let arrives = |path: &PathBuf| fs::metadata(to.join(path)).is_ok_and(|stat| stat.len() > 1 << 20);
    wait_until("some of it has arrived", || passing(&to).iter().any(arrives));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the host has removed it", || passing(&to).is_empty());
    assert!(!to.join("large").exists());
    // As if the host itself had been killed: no process has this number. What a process is at work on stays.
    let at_work = format!(".verisum-copy-unfinished-{}-1", std::process::id());
    let (own, similar) = (".verisum-copy-4194305-1", ".verisum-copy-unfinished-x");
    fs::create_dir_all(to.join("sub")).unwrap();
    for left in [".verisum-copy-unfinished-4194305-1", "sub/.verisum-copy-unfinished-4194305-7"] {
        fs::write(to.join(left), "half").unwrap();
    }
    for name in [own, &at_work, similar] {
        fs::write(to.join(name), "half").unwrap();
    }
    let ended = copy_there(folder.path(), &path(), &["from", "local:to"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(passing(&to), [own, &at_work, similar].map(PathBuf::from));
    assert_eq!(fs::read(to.join("large")).unwrap(), large);
    assert_eq!(fs::read(to.join("sub/small")).unwrap(), b"small");
}

#[test]
fn a_connection_that_breaks_while_a_file_is_sent_is_made_again() {
    let Some(server) = sshd("") else { return };
    let (from, to) = (server.path("from"), server.path("srv"));
    for folder in [&from, &to] {
        fs::create_dir(folder).unwrap();
    }
    fs::set_permissions(&to, fs::Permissions::from_mode(0o777)).unwrap();
    let large: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(from.join("large"), &large).unwrap();
    fs::write(from.join("small"), "small").unwrap();
    let mut command = server.verisum(&["copy", "--limit", "1M"]);
    let mut child = start(command.arg(&from).arg(format!("ssh://web1{}", to.display())));
    let arrives = |path: &PathBuf| fs::metadata(to.join(path)).is_ok_and(|stat| stat.len() >= 1 << 20);
    let mut found = None;
    wait_until("some of it has arrived", || {
        found = passing(&to).into_iter().find(arrives);
        found.is_some()
    });
    // The number of the shell that writes it stands in its name; the server's own process is the shell's parent.
    let name = found.unwrap().to_str().unwrap().to_string();
    let shell = name.strip_prefix(".verisum-copy-unfinished-").unwrap().split('-').next().unwrap();
    let status = fs::read_to_string(format!("/proc/{shell}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_string();
    assert!(Command::new("kill").args(["-9", &parent]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    wait_until("the host has removed what it had", || passing(&to).is_empty());
    assert_eq!(files(&to), files(&from));
}
