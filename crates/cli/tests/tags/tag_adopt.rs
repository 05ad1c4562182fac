//! `verisum adopt`: other tools' attributes, lists and indexes become tags.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use common::tagging::{attribute, oracle, outcomes, run, set_time, tree, write};
use common::{change_and_restore_time as rot, verisum};
use verisum_testkit::require_python;

#[test]
fn adopted_is_not_verified() {
    let kinds = ["fork", "hash", "hashrat", "checkit", "xrootd"];
    let folder = tempfile::tempdir().unwrap();
    for kind in kinds {
        write(&folder.path().join(kind), kind);
        if oracle(&["foreign", kind], &folder.path().join(kind)).is_none() {
            return;
        }
    }
    write(&folder.path().join("plain"), "plain");
    oracle(&["write", "plain", "sha512"], &folder.path().join("plain"));
    let status = || {
        let ended = verisum(["status".as_ref(), "--json".as_ref(), folder.path().as_os_str()]);
        serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap()
    };
    let before = status();
    assert_eq!(before["untagged"], 6);
    assert_eq!(before["adoptable"]["shatag"], 1);
    assert_eq!(before["adoptable"]["user.hash"], 1);
    assert_eq!(run(&["adopt", "-q"], folder.path()), (Some(0), vec![]));
    let after = status();
    assert_eq!(
        (&after["unverified"], &after["untimed"], &after["untagged"]),
        (&6.into(), &2.into(), &0.into())
    );
    // Others keep their tags.
    assert!(attribute(&folder.path().join("checkit"), "user.crc64").is_some());
    let (code, found) = outcomes(&["verify", "-v"], folder.path());
    assert_eq!((code, found.len()), (Some(0), 6));
    assert!(found.iter().all(|line| line.ends_with(": ok")), "{found:?}");
    // Adopted again, nothing changes; verified and stamped, all is.
    assert_eq!(run(&["verify", "-q", "--stamp"], folder.path()), (Some(0), vec![]));
    let stamped = status();
    assert_eq!((&stamped["unverified"], &stamped["current"]), (&0.into(), &6.into()));
    rot(&folder.path().join("fork"), "bad!");
    assert_eq!(run(&["adopt", "-q"], folder.path()), (Some(0), vec![]));
    assert_eq!(run(&["verify", "-q"], folder.path()).0, Some(1));
    // Another tool's record of a bad file is not adopted if it is verified.
    assert_eq!(run(&["untag", "-q"], folder.path()).0, Some(0));
    let (code, found) = outcomes(&["adopt", "--verify"], folder.path());
    assert_eq!((code, found), (Some(1), vec!["fork: rot".to_string()]));
    assert_eq!(attribute(&folder.path().join("fork"), "user.verisum"), None);
    let after = status();
    assert_eq!((&after["unverified"], &after["current"]), (&0.into(), &5.into()));
}

#[test]
fn lists_are_adopted() {
    let folder = tree();
    let list = folder.path().join("sums");
    // printf 'one\n' | md5sum; of b a wrong one.
    let md5 = "5bbf5a52328e7439ae6e719dfe712200";
    fs::write(&list, format!("{md5}  a\n{md5}  ./b\n{md5}  gone\n")).unwrap();
    let path = folder.path().to_str().unwrap();
    let adopt = |extra: &[&str]| {
        let ended = verisum([&["adopt"], extra, &["--from", list.to_str().unwrap(), path]].concat());
        (ended.code, ended.out().replace(&format!("{path}/"), ""), ended.stderr)
    };
    let (code, out, stderr) = adopt(&["--verify"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(out.starts_with("b: suspicious: md5 is d41d8cd9") && out.lines().count() == 1, "{out}");
    assert!(stderr.contains("gone: stat: No such file or directory"), "{stderr}");
    assert!(stderr.contains("3 files: 1 adopted, 1 unverifiable, 1 suspicious"), "{stderr}");
    assert_eq!(attribute(&folder.path().join("b"), "user.verisum"), None);
    assert_eq!(attribute(&folder.path().join("a"), "user.verisum").unwrap()[1], 4);
    assert!(adopt(&[]).2.contains("3 files: 1 adopted, 1 current, 1 unverifiable"));
    // A line that makes no sense is told of by its number, and the others are of use.
    fs::write(&list, format!("no sum\n{md5}  a\n")).unwrap();
    let (code, _, stderr) = adopt(&["--limit", "1MB/s", "--progress"]);
    assert_eq!(code, Some(3));
    assert!(stderr.contains(&format!("{}: read: line 1: ", list.display())), "{stderr}");
    assert!(stderr.contains("1 current"), "{stderr}");
    // What somebody hashed from a pipe is no file, whatever there is of its name.
    fs::write(folder.path().join("-"), "one\n").unwrap();
    fs::write(&list, format!("{md5}  -\n{md5}  a\n")).unwrap();
    let (code, _, stderr) = adopt(&[]);
    let stdin = "read: line 1: - is standard input (a file of this name is listed as ./-)";
    assert!(code == Some(3) && stderr.contains(stdin) && stderr.contains("1 current"), "{stderr}");
    assert_eq!(attribute(&folder.path().join("-"), "user.verisum"), None);
    fs::write(&list, format!("{md5}  ./-\n")).unwrap();
    assert_eq!(adopt(&[]).0, Some(0));
    fs::remove_file(folder.path().join("-")).unwrap();
    // Of lines that contradict each other none is taken, and a list of nothing is no success.
    let zeros = "0".repeat(32);
    fs::write(&list, format!("{md5}  sub/c\n{zeros}  ./sub/c\n")).unwrap();
    let (code, _, stderr) = adopt(&[]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("sub/c: read: the list has different digests of it"), "{stderr}");
    assert_eq!(attribute(&folder.path().join("sub/c"), "user.verisum"), None);
    fs::write(&list, "").unwrap();
    assert_eq!(adopt(&[]).0, Some(1));
    // What was adopted unverified is wrong, and seen.
    assert_eq!(outcomes(&["verify"], folder.path()), (Some(1), vec!["b: suspicious".to_string()]));

    let modified = fs::metadata(folder.path().join("sub/c")).unwrap().mtime() * 1000;
    let idx = format!(r#"{{"c":{{"mod":{modified},"a":"md5","h":"{}","s":6}}}}"#, "0".repeat(32));
    fs::write(folder.path().join("sub/.chkbit"), format!(r#"{{"v":2,"idx":{idx},"idx_hash":""}}"#)).unwrap();
    // One that rotted tells nothing, unless each file is read.
    let ended = verisum(["adopt", "--indexes", path]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("the index does not have the checksum that it claims"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("adopted"), "{}", ended.stderr);
    let ended = verisum(["adopt", "--verify", "--indexes", path]);
    assert!(ended.stderr.contains("1 file: 1 modified;"), "{}", ended.stderr);
    verisum(["adopt", "--from", "sums", path, path])
        .failed(2, "verisum: --from takes one DIR, that of the names in the list");
}

#[test]
fn a_list_of_another_digest_is_not_adopted() {
    let folder = tree();
    let (path, list) = (folder.path().to_str().unwrap(), folder.path().join("sums"));
    let sums = verisum(["sum", "-a", "blake3", &format!("{path}/a"), &format!("{path}/b")]).clean();
    fs::write(&list, &sums).unwrap();
    let adopt =
        |extra: &[&str]| verisum([&["adopt"], extra, &["--from", list.to_str().unwrap(), path]].concat());
    adopt(&[]).failed(
        3,
        &format!(
            "verisum: {}: read: 64 digits were taken for sha256, which none of 2 small files has: they are \
             of blake3 (-a blake3)",
            list.display()
        ),
    );
    assert_eq!(attribute(&folder.path().join("a"), "user.verisum"), None);
    let ended = adopt(&["-a", "blake3"]);
    assert!(ended.code == Some(0) && ended.stderr.contains("2 adopted"), "{}", ended.stderr);
    assert_eq!(outcomes(&["verify"], folder.path()), (Some(0), vec![]));
    // Of files that have changed since, nobody else can say what the numbers are.
    assert_eq!(run(&["untag", "-q"], folder.path()).0, Some(0));
    let wrong: String = sums.lines().map(|line| format!("{}{}\n", "e".repeat(64), &line[64..])).collect();
    fs::write(&list, wrong).unwrap();
    let ended = adopt(&[]);
    assert!(
        ended.stderr.contains("-a names a different digest, or sha256 if the files have"),
        "{}",
        ended.stderr
    );
    assert_eq!(adopt(&["-a", "sha256"]).code, Some(0));
    verisum(["adopt", "-a", "sha256", path])
        .failed(2, "verisum: the following required arguments were not provided: --from <LIST>");
}

/// Whoever may write into a tree says what its indexes name: nothing outside may get a tag.
#[test]
fn lists_name_nothing_outside_their_directory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("dir/s")).unwrap();
    fs::create_dir(root.join("victim")).unwrap();
    let (victim, dir) = (root.join("victim/v"), root.join("dir"));
    for file in [victim.clone(), dir.join("own"), dir.join("s/own")] {
        write(&file, "abc");
    }
    std::os::unix::fs::symlink("../victim", dir.join("lnk")).unwrap();
    std::os::unix::fs::symlink("../victim/v", dir.join("v")).unwrap();
    let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
    let bad = ["../victim/v", "./../victim/v", "s/../../victim/v", "lnk/v", "v", victim.to_str().unwrap()];
    let list = root.join("list");
    let good = format!("{sha1}  own\n{sha1}  ./s/own\n");
    fs::write(&list, good + &bad.map(|name| format!("{sha1}  {name}\n")).concat()).unwrap();
    let rows = "import sqlite3, sys\n\
        db = sqlite3.connect(sys.argv[1])\n\
        db.execute('CREATE TABLE bitrot (path, mtime, hash, timestamp)')\n\
        rows = [(name, 1600000000, sys.argv[2], '') for name in sys.argv[3:]]\n\
        db.executemany('INSERT INTO bitrot VALUES (?, ?, ?, ?)', rows)\n\
        db.commit()";
    let Some(python) = require_python() else { return };
    let mut python = Command::new(python);
    python.args(["-c", rows]).arg(dir.join(".bitrot.db")).args([sha1, "own", "./s/own"]).args(bad);
    assert!(python.status().unwrap().success());
    for how in [vec!["--indexes"], vec!["--from", list.to_str().unwrap()], vec!["--indexes", "--verify"]] {
        let ended = verisum([vec!["adopt"], how, vec![dir.to_str().unwrap()]].concat());
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("8 files: 2 adopted, 6 unverifiable"), "{}", ended.stderr);
        let refused = ["the name leads out of its directory, or through a link", "absolute, and outside DIR"]
            .map(|why| ended.stderr.matches(why).count());
        assert_eq!(refused.iter().sum::<usize>(), 5, "{}", ended.stderr);
        assert_eq!(attribute(&victim, "user.verisum"), None);
        verisum(["untag", "-q", dir.to_str().unwrap()]).clean();
    }
}

/// Some programs write absolute names.
#[test]
fn absolute_names_of_a_list_are_found_below_their_directory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("dir/s")).unwrap();
    std::os::unix::fs::symlink("dir", root.join("link")).unwrap();
    let list = root.join("list");
    let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
    let mut lines = String::new();
    for name in ["dir/a", "link/s/b"] {
        write(&root.join(name), "abc");
        lines += &format!("{sha1}  {}\n", root.join(name).display());
    }
    write(&root.join("outside"), "abc");
    lines += &format!("{sha1}  {}\n", root.join("outside").display());
    lines += &format!("{sha1}  {}/dir/../outside\n", root.display());
    fs::write(&list, lines).unwrap();
    let ended = verisum(["adopt", "--from", list.to_str().unwrap(), root.join("link").to_str().unwrap()]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("/outside: open: the name is absolute, and outside DIR\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("4 files: 2 adopted, 2 unverifiable"), "{}", ended.stderr);
    assert!(attribute(&root.join("dir/s/b"), "user.verisum").is_some());
    assert_eq!(attribute(&root.join("outside"), "user.verisum"), None);
    // Names that begin one directory up.
    let lines: String = (0..30).map(|number| format!("{sha1}  dir/{number}\n")).collect();
    fs::write(&list, lines).unwrap();
    let ended = verisum(["adopt", "--from", list.to_str().unwrap(), root.join("dir").to_str().unwrap()]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 13), "{}", ended.stderr);
    assert!(ended.stderr.contains("20 more names not found (--verbose lists all)\n"), "{}", ended.stderr);
    let hint = "no listed name was found below DIR: names begin at DIR\n";
    assert!(ended.stderr.ends_with(hint), "{}", ended.stderr);
    // Beside one that is there, so many are named as `check` names.
    let lines: String = (0..1200).map(|number| format!("{sha1}  dir/{number}\n")).collect();
    fs::write(&list, format!("{sha1}  a\n{lines}")).unwrap();
    let ended = verisum(["adopt", "--from", list.to_str().unwrap(), root.join("dir").to_str().unwrap()]);
    assert_eq!(ended.stderr.matches("No such file").count(), 1000);
    assert!(ended.stderr.contains("200 more names not found (--verbose lists all)\n"));
    // Lines that make no sense beside one that does.
    let lines: String = (0..30).map(|number| format!("nonsense {number}\n")).collect();
    fs::write(&list, format!("{sha1}  s/b\n{lines}")).unwrap();
    let dir = root.join("dir");
    let adopt = ["adopt", "--from", list.to_str().unwrap(), dir.to_str().unwrap()];
    let ended = verisum(adopt);
    assert_eq!(ended.stderr.matches("improperly formatted").count(), 10, "{}", ended.stderr);
    assert!(ended.stderr.contains("20 more lines are of no use (--verbose lists all)\n"), "{}", ended.stderr);
    let all = verisum([&["--verbose"], &adopt[..]].concat());
    assert_eq!((ended.code, all.stderr.matches("improperly formatted").count()), (all.code, 30));
}

/// bitrot decomposes names; files keep theirs.
#[test]
fn names_that_bitrot_decomposed_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("\u{e9}t\u{e9}/\u{fb01}n");
    fs::create_dir(file.parent().unwrap()).unwrap();
    write(&file, "abc");
    let rows = "import sqlite3, sys, unicodedata\n\
        db = sqlite3.connect(sys.argv[1])\n\
        db.execute('CREATE TABLE bitrot (path, mtime, hash, timestamp)')\n\
        name = unicodedata.normalize('NFKD', './\\u00e9t\\u00e9/\\ufb01n')\n\
        sha1 = 'a9993e364706816aba3e25717850c26c9cd0d89d'\n\
        db.execute('INSERT INTO bitrot VALUES (?, ?, ?, ?)', (name, 1600000000, sha1, ''))\n\
        db.commit()";
    let Some(python) = require_python() else { return };
    let made = Command::new(python).args(["-c", rows]).arg(folder.path().join(".bitrot.db")).status();
    assert!(made.unwrap().success());
    let ended = verisum(["adopt", "--indexes", folder.path().to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(attribute(&file, "user.verisum").is_some());
}

/// An index that cannot be read is told of by the exit code, and is not waited for.
#[test]
fn indexes_that_cannot_be_read_are_unchecked() {
    let folder = tempfile::tempdir().unwrap();
    let contents: [(&str, &[u8]); 6] = [
        (".chkbit", b"garbage"),
        (".chkbit", b""),
        (".chkbit", b"{\"v\":2,\"idx\":{"),
        (".chkbit", b"{\"v\":2,\"idx\":{\"\xff\":{}}}"),
        (".bitrot.db", b"garbage, and more of it, that is no database"),
        (".bitrot.db", b""),
    ];
    let check = |name: &str| {
        let ended = verisum(["adopt", "--indexes", folder.path().to_str().unwrap()]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("1 file: 1 unverifiable"), "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("/{name}: ")), "{}", ended.stderr);
    };
    for (name, content) in contents {
        fs::write(folder.path().join(name), content).unwrap();
        check(name);
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    for name in [".chkbit", ".bitrot.db"] {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        check(name);
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        check(name);
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        check(name);
        fs::remove_file(&path).unwrap();
        // Longer than any index, and mostly a hole.
        if name == ".chkbit" {
            File::create(&path).unwrap().set_len(1 << 40).unwrap();
            check(name);
            fs::remove_file(&path).unwrap();
        }
    }
}

/// What was recorded to the second must not become a time with nanoseconds that no file has.
#[test]
fn adopted_times_stay_as_coarse_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "abc").unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    set_time(&path, old);
    let list = folder.path().join("list");
    fs::write(&list, "#mtree\n./a size=3 time=1600000000.0 md5digest=900150983cd24fb0d6963f7d28e17f72\n")
        .unwrap();
    // It was touched since; then it gets back the time that it had.
    set_time(&path, old + Duration::from_secs(50));
    let folder_name = folder.path().to_str().unwrap();
    verisum(["adopt", "-q", "--from", list.to_str().unwrap(), folder_name]).clean();
    if let Some(oracle) = oracle(&["read", "verisum"], &path) {
        assert!(oracle.contains("1600000000000000000"), "{oracle}");
    }
    set_time(&path, old);
    fs::write(&path, "abd").unwrap();
    set_time(&path, old);
    let (code, found) = outcomes(&["verify", "-q", "--exclude", "list"], folder.path());
    assert_eq!((code, found), (Some(1), vec!["a: rot".to_string()]));
}
