//! `verisum copy` from a bucket of a real server of S3, and from a host behind a real sshd.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::bucket::Store;
use common::sshd::sshd;
use common::{Ended, change_and_restore_time, trees};

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
    let large: Vec<u8> = (0..9 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(bucket.join("sub/deeper/large"), large).unwrap();
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
    expect(
        &store.run(&["copy", "s3://backup/data", "s3://backup/x"]),
        2,
        "",
        "FROM or TO must be on this machine",
    );
    expect(&store.run(&["copy", &to, "host:x"]), 2, "", "TO must be on this machine or in a bucket");
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
    let bytes = |length: usize| {
        (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<_>>()
    };
    for (name, length) in
        [("parts", (40 << 20) + 7), ("part", 16 << 20), ("less", (16 << 20) - 1), ("empty", 0)]
    {
        fs::write(from.join(name), bytes(length)).unwrap();
    }
    fs::write(from.join("a b+c%\u{e9}\n"), "odd").unwrap();
    std::os::unix::fs::symlink("less", from.join("link")).unwrap();
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

    // Each failure is a line.
    let ended = store.run(&["copy", one, "s3://none/one"]);
    expect(&ended, 3, "", "s3://none/one");
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
    expect(&store.run(&["copy", &path("nothing"), "s3://backup/x"]), 3, "", "No such file or directory");
    // A store that fails for one file after the other is given up.
    let ended = store.run(&["copy", &here, "s3://none/photos"]);
    expect(&ended, 3, "", "not all was copied");
    assert!(ended.stderr.lines().count() < 30, "{}", ended.stderr);
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
    std::os::unix::fs::symlink(outside.join("precious"), to.join("later")).unwrap();
    expect(&copy(&[]), 0, "", "1 file copied");
    assert_eq!(fs::read(to.join("later")).unwrap(), b"later");
    fs::create_dir(from.join("folder")).unwrap();
    fs::write(from.join("folder/precious"), "overwritten").unwrap();
    std::os::unix::fs::symlink(&outside, to.join("folder")).unwrap();
    let ended = copy(&[]);
    expect(&ended, 3, "", "a symbolic link is in the way");
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"a letter");
}
