//! Tags beside their oracles: `reference/tags.py`, getfattr and setfattr.

mod common;

use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use common::{Ended, repository, verisum};
use tempfile::TempDir;
use verisum_testkit::require_tool;

/// A folder with a few files, whose times are in the past.
fn tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, content) in [("a", "one\n"), ("b", ""), ("sub/c", "three\n")] {
        write(&folder.path().join(name), content);
    }
    folder
}

/// Writes a file and makes it an hour old.
fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap();
    set_time(path, SystemTime::now() - Duration::from_secs(3600));
}

fn set_time(path: &Path, time: SystemTime) {
    File::options().append(true).open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Changes the content and puts the time of modification back.
fn rot(path: &Path, content: &str) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, content).unwrap();
    set_time(path, modified);
}

/// Runs a verb on a folder, and returns what it printed with the folder's name left out.
fn run(verb: &[&str], folder: &Path) -> (Option<i32>, Vec<String>) {
    let ended = verisum(verb.iter().map(|word| word.as_ref()).chain([folder.as_os_str()]));
    (ended.code, lines(&ended, folder))
}

fn lines(ended: &Ended, folder: &Path) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    let mut lines: Vec<String> = ended.out().lines().map(|line| line.replace(&prefix, "")).collect();
    lines.sort();
    lines
}

/// The first two fields of each line: the name and the outcome.
fn outcomes(verb: &[&str], folder: &Path) -> (Option<i32>, Vec<String>) {
    let (code, lines) = run(verb, folder);
    (code, lines.iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect())
}

/// Runs the reference; `None` without Python.
fn oracle(arguments: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(require_tool("python3")?);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(repository().join("reference/tags.py"));
    let output = command.args(arguments).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim_end().to_string())
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 512];
    let len = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

#[test]
fn the_oracle_reads_what_we_write_and_we_what_it_writes() {
    let folder = tree();
    let file = folder.path().join("a");
    for family in ["verisum", "shatag", "plain"] {
        let digests: &[&str] =
            if family == "shatag" { &["sha256"] } else { &["sha256", "xxh3-64", "crc32c"] };
        for digest in digests {
            let _ = run(&["untag", "-q", "--family", family], folder.path());
            if oracle(&["write", family, digest], &file).is_none() {
                return;
            }
            let theirs = oracle(&["read", family], &file).unwrap();
            assert_eq!(
                outcomes(&["verify", "-v", "--family", family], folder.path()),
                (Some(0), vec!["a: ok".into(), "b: untagged".into(), "sub/c: untagged".into()])
            );
            run(&["untag", "-q", "--family", family], folder.path());
            assert!(
                oracle(&["read", family], &file).unwrap().matches("null").count() != 0 || family == "plain"
            );
            assert_eq!(
                run(&["tag", "-q", "--family", family, "-a", digest], folder.path()),
                (Some(0), vec![])
            );
            let ours = oracle(&["read", family], &file).unwrap();
            // The seconds of verification may differ.
            let plain = |text: &str| text.split(", \"verified\"").next().unwrap().to_string();
            assert_eq!(plain(&ours), plain(&theirs), "{family} {digest}");
        }
    }
}

#[test]
fn getfattr_and_setfattr_agree() {
    let folder = tree();
    let file = folder.path().join("a");
    let (Some(getfattr), Some(setfattr)) = (require_tool("getfattr"), require_tool("setfattr")) else {
        return;
    };
    assert_eq!(run(&["tag", "-q"], folder.path()), (Some(0), vec![]));
    let get = |name: &str| {
        let output = Command::new(&getfattr)
            .args(["--absolute-names", "--only-values", "-n", name])
            .arg(&file)
            .output()
            .unwrap();
        output.stdout
    };
    let tag = get("user.verisum");
    assert_eq!((tag.len(), &tag[..2]), (64, &[1, 1][..]));
    assert_eq!(tag, attribute(&file, "user.verisum").unwrap());
    // printf 'one\n' | md5sum
    let md5 = "5bbf5a52328e7439ae6e719dfe712200";
    let set = |name: &str, value: &str| {
        assert!(
            Command::new(&setfattr).args(["-n", name, "-v", value]).arg(&file).status().unwrap().success()
        );
    };
    set("user.checksum.md5", &format!("{md5}\n"));
    set("user.checksum.sha1", &"0".repeat(40));
    let (code, lines) = outcomes(&["verify", "-v", "--family", "plain"], &file);
    assert_eq!(code, Some(1));
    assert!(lines[0].ends_with(": ok") && lines[1].ends_with(": suspicious"), "{lines:?}");
    assert_eq!(run(&["tag", "-q", "--family", "plain"], &file).0, Some(0));
    assert_eq!(get("user.checksum.md5"), format!("{md5}\n").as_bytes());
    assert_eq!(get("user.checksum.sha256").len(), 64);
    assert_eq!(run(&["untag", "-q", "--family", "plain", "-a", "sha1"], &file).0, Some(0));
    assert!(get("user.checksum.sha1").is_empty() && !get("user.checksum.md5").is_empty());
    assert_eq!(get("user.verisum"), tag);
}

#[test]
fn shatag_has_five_states_on_both_sides() {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    for writer in ["verisum", "oracle"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |state: &str| folder.path().join(state);
        for state in ["ok", "corrupt", "timechange", "outdated"] {
            write(&path(state), "before");
            match writer {
                "verisum" => assert_eq!(run(&["tag", "-q", "--family", "shatag"], &path(state)).0, Some(0)),
                _ => {
                    if oracle(&["write", "shatag", "sha256"], &path(state)).is_none() {
                        return;
                    }
                }
            }
        }
        rot(&path("corrupt"), "behind");
        set_time(&path("timechange"), hour_ago + Duration::from_micros(700_000_777));
        fs::write(path("outdated"), "later").unwrap();
        write(&path("new"), "new");
        for (state, verdict) in [
            ("ok", "ok"),
            ("corrupt", "rot"),
            ("timechange", "touched"),
            ("outdated", "modified"),
            ("new", "untagged"),
        ] {
            if let Some(theirs) = oracle(&["state"], &path(state)) {
                assert_eq!(theirs, state, "by {writer}");
            }
            let (code, ours) = outcomes(&["verify", "-v", "--family", "shatag"], &path(state));
            assert!(ours[0].ends_with(&format!(": {verdict}")), "{state} by {writer}: {ours:?}");
            let expected = match state {
                "corrupt" => 1,
                // Nothing was compared.
                "new" => 3,
                _ => 0,
            };
            assert_eq!(code, Some(expected), "{state}");
        }
        // What has changed is brought up to date, what is corrupt stays.
        let sum = attribute(&path("corrupt"), "user.shatag.sha256");
        assert_eq!(run(&["tag", "-q", "--family", "shatag"], folder.path()).0, Some(0));
        assert_eq!(attribute(&path("corrupt"), "user.shatag.sha256"), sum);
        for state in ["ok", "timechange", "outdated", "new"] {
            if let Some(theirs) = oracle(&["state"], &path(state)) {
                assert_eq!(theirs, "ok", "{state}");
            }
        }
    }
}

#[test]
fn tags_are_written_once_and_mtime_is_kept() {
    let folder = tree();
    let file = folder.path().join("a");
    fs::hard_link(&file, folder.path().join("hard")).unwrap();
    std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink(".", folder.path().join("loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"new\nline \xff -x"));
    write(&odd, "odd");
    let times = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()))
    };
    let before = times(&file);
    let first = verisum(["tag".as_ref(), folder.path().as_os_str()]);
    assert_eq!(first.code, Some(0));
    assert!(first.stderr.contains("backup"), "{}", first.stderr);
    assert!(first.stderr.contains("4 files: 4 tagged"), "{}", first.stderr);
    let tagged = times(&file);
    assert_eq!(tagged.0, before.0);
    assert_ne!(tagged.1, before.1);
    let second = verisum(["tag".as_ref(), folder.path().as_os_str()]);
    assert!(!second.stderr.contains("backup"), "{}", second.stderr);
    assert!(second.stderr.contains("4 files: 4 current; 0 bytes read"), "{}", second.stderr);
    assert_eq!(times(&file), tagged);
    let (code, lines) = run(&["verify", "-v"], folder.path());
    assert_eq!((code, lines.len()), (Some(0), 4));
    assert!(lines.iter().any(|line| line.ends_with(r"new\nline \377 -x': ok")), "{lines:?}");
    // A time that moved alone is brought up to date, and nothing else.
    set_time(&file, SystemTime::now());
    let (code, lines) = outcomes(&["tag", "-v"], &file);
    assert_eq!((code, lines[0].ends_with(": refreshed")), (Some(0), true));
    assert_eq!(run(&["untag", "-q"], folder.path()), (Some(0), vec![]));
    assert_eq!(attribute(&file, "user.verisum"), None);
}

#[test]
fn a_good_tag_is_never_overwritten_because_the_data_went_bad() {
    let folder = tree();
    let path = |name: &str| folder.path().join(name);
    assert_eq!(run(&["tag", "-q"], folder.path()).0, Some(0));
    let tags = |names: &[&str]| names.iter().map(|n| attribute(&path(n), "user.verisum")).collect::<Vec<_>>();
    let before = tags(&["a", "b", "sub/c"]);
    rot(&path("a"), "0ne\n");
    // Another length and the same time: no writing does that.
    rot(&path("b"), "grown");
    let (code, found) = outcomes(&["tag"], folder.path());
    assert_eq!(code, Some(1));
    assert!(found.len() == 1 && (found[0] == "b: rot" || found[0] == "b: suspicious"), "{found:?}");
    assert_eq!(tags(&["a", "b", "sub/c"]), before);
    let (code, found) = run(&["verify"], folder.path());
    assert_eq!((code, found.len()), (Some(1), 2));
    assert!(found[0].contains("recorded 2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"));
    let (code, _) = run(&["retag", "--from", "sha256", "--to", "blake3"], folder.path());
    assert_eq!(code, Some(1));
    assert_eq!(tags(&["a", "b"]), before[..2]);
    assert_eq!(attribute(&path("sub/c"), "user.verisum").unwrap()[1], 5);
    // Whoever wrote to the file moved its time.
    fs::write(path("a"), "0ne\n").unwrap();
    assert_eq!(outcomes(&["tag", "-v"], &path("a")).0, Some(0));
    assert_ne!(tags(&["a"]), before[..1]);
}

#[test]
fn a_damaged_tag_is_no_mismatch() {
    let folder = tree();
    let file = folder.path().join("a");
    assert_eq!(run(&["tag", "-q"], folder.path()).0, Some(0));
    let mut tag = attribute(&file, "user.verisum").unwrap();
    tag[40] ^= 1;
    for (value, code, message) in [
        (tag.clone(), 1, "the tag is damaged"),
        (vec![], 1, "the tag is damaged"),
        (vec![1; 400], 1, "the tag is damaged"),
        (later_version(), 3, "the tag is of version 9, which this version does not know"),
    ] {
        set_attribute(&file, "user.verisum", &value);
        for verb in ["tag", "verify", "adopt"] {
            let ended = verisum([verb.as_ref(), "-q".as_ref(), folder.path().as_os_str()]);
            assert_eq!(ended.code, Some(code), "{verb}: {}", ended.stderr);
            let expected = format!("verisum: {}: read attribute: {message}\n", file.display());
            assert_eq!(ended.stderr, expected, "{verb}");
            assert_eq!(attribute(&file, "user.verisum").unwrap(), value);
        }
        assert_eq!(run(&["status", "-q"], folder.path()).0, Some(code));
    }
    assert_eq!(run(&["untag", "-q"], &file).0, Some(0));
    assert_eq!(outcomes(&["tag", "-q"], folder.path()), (Some(0), vec![]));
    assert_eq!(run(&["verify", "-q"], folder.path()), (Some(0), vec![]));
}

/// A tag with a right check and the version 9.
fn later_version() -> Vec<u8> {
    sealed(9, 0)
}

/// A tag with a right check.
fn sealed(version: u8, digest: u8) -> Vec<u8> {
    let mut tag = vec![0; 64];
    (tag[0], tag[1]) = (version, digest);
    let covered = tag[..2].iter().chain(&tag[4..]);
    let crc =
        covered.fold(0xffff_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 }
            })
        });
    tag[2..4].copy_from_slice(&crc.to_le_bytes());
    tag
}

#[test]
fn retag_reads_also_what_has_the_new_tag_already() {
    let folder = tree();
    let file = folder.path().join("a");
    set_attribute(&file, "user.checksum.md5", b"00000000000000000000000000000000");
    verisum(["tag", "-q", folder.path().to_str().unwrap()]);
    let (code, found) = outcomes(&["retag", "--from", "plain:md5", "--to", "sha256"], folder.path());
    assert_eq!(code, Some(1), "{found:?}");
    assert!(attribute(&file, "user.checksum.md5").is_some(), "the older evidence is kept");
}

#[test]
fn retag_keeps_what_stands_in_the_new_place_unless_it_is_right() {
    let tag = |folder: &TempDir, algorithm| {
        verisum(["tag", "-q", "-a", algorithm, folder.path().join("a").to_str().unwrap()]);
    };
    // A digest of the rotten data, computed by somebody after the rot.
    let md5_of_0ne = b"765a1e38d6ca9d97ec1834a49893a05c";
    for algorithm in ["sha256", "blake3", "md5"] {
        let folder = tree();
        let file = folder.path().join("a");
        tag(&folder, algorithm);
        let before = attribute(&file, "user.verisum");
        rot(&file, "0ne\n");
        set_attribute(&file, "user.checksum.md5", md5_of_0ne);
        let (code, found) = outcomes(&["retag", "--from", "plain:md5", "--to", "sha256"], &file);
        assert_eq!((code, found.len()), (Some(1), 1), "{algorithm}: {found:?}");
        assert_eq!(attribute(&file, "user.verisum"), before, "{algorithm}: {found:?}");
        assert!(attribute(&file, "user.checksum.md5").is_some());
    }
    // One of a third digest that is right is replaced.
    let folder = tree();
    let file = folder.path().join("a");
    tag(&folder, "blake3");
    set_attribute(&file, "user.checksum.md5", b"5bbf5a52328e7439ae6e719dfe712200");
    let (code, found) = outcomes(&["retag", "--from", "plain:md5", "--to", "sha256", "-v"], &file);
    assert_eq!(code, Some(0), "{found:?}");
    assert!(found[0].ends_with(": retagged"), "{found:?}");
    // What cannot be understood is kept.
    let unknown = [
        (&[0_u8][..], "user.verisum", "sha256", 1),
        (&sealed(9, 1), "user.verisum", "sha256", 3),
        (&sealed(1, 250), "user.verisum", "sha256", 3),
        (b"nonsense", "user.checksum.sha256", "plain:sha256", 1),
    ];
    for (value, name, to, expected) in unknown {
        let folder = tree();
        let file = folder.path().join("a");
        set_attribute(&file, "user.checksum.md5", b"5bbf5a52328e7439ae6e719dfe712200");
        set_attribute(&file, name, value);
        let (code, found) = outcomes(&["retag", "--from", "plain:md5", "--to", to], &file);
        assert_eq!(code, Some(expected), "{value:?} {found:?}");
        assert_eq!(attribute(&file, name).as_deref(), Some(value), "{found:?}");
        assert!(attribute(&file, "user.checksum.md5").is_some());
    }
}

#[test]
fn named_links_and_pipes_are_refused() {
    let folder = tree();
    let path = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("sub", path("link")).unwrap();
    std::os::unix::fs::symlink("a", path("file-link")).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), kind, mode, 0).unwrap();
    for verb in ["tag", "verify", "status", "untag"] {
        for (name, why) in [
            ("link", "is a symbolic link"),
            ("file-link", "is a symbolic link"),
            ("pipe", "not a regular file"),
        ] {
            let ended = verisum([verb, path(name).to_str().unwrap()]);
            assert_eq!(ended.code, Some(3), "{verb} {name}: {}", ended.stderr);
            assert!(
                format!("{}{}", ended.out(), ended.stderr).contains(why),
                "{verb} {name}: {}",
                ended.stderr
            );
        }
    }
    assert!(attribute(&path("sub/c"), "user.verisum").is_none());
    assert!(attribute(&path("a"), "user.verisum").is_none());
}

#[test]
fn retag_verifies_and_replaces() {
    for (from, to) in
        [("md5", "sha256"), ("plain:md5", "plain:sha256"), ("plain:md5", "sha256"), ("md5", "shatag:sha256")]
    {
        let folder = tree();
        let family = |slot: &str| slot.split_once(':').map_or("verisum", |(family, _)| family).to_string();
        let (old, new) = (family(from), family(to));
        assert_eq!(run(&["tag", "-q", "-a", "md5", "--family", &old], folder.path()).0, Some(0));
        rot(&folder.path().join("a"), "0ne\n");
        let (code, found) = run(&["retag", "--from", from, "--to", to], folder.path());
        assert_eq!((code, found.len()), (Some(1), 1), "{found:?}");
        assert!(found[0].starts_with("a: "), "{found:?}");
        let (code, good) = outcomes(&["verify", "-v", "--family", &new], &folder.path().join("sub"));
        assert_eq!((code, good), (Some(0), vec!["c: ok".to_string()]), "{from} {to}");
        let ended = verisum(["retag", "--from", from, "--to", to, folder.path().to_str().unwrap()]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        // What is bad keeps its old tag and has no new one.
        let (code, bad) = outcomes(&["verify", "--family", &old], &folder.path().join("a"));
        assert_eq!((code, bad.len()), (Some(1), 1), "{bad:?}");
        if old == "plain" {
            let b = folder.path().join("b");
            assert!(attribute(&b, "user.checksum.md5").is_none());
            assert!(attribute(&folder.path().join("a"), "user.checksum.sha256").is_none());
        }
    }
}

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
        serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap()["status"].clone()
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
    let ended = verisum(["adopt", "--indexes", path]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("the index does not have the checksum that it claims"), "{}", ended.stderr);
    assert!(ended.stderr.contains("1 file: 1 adopted"), "{}", ended.stderr);
    verisum(["adopt", "--from", "sums", path, path])
        .failed(2, "verisum: --from takes one DIR, that of the names in the list");
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
    let Some(python) = require_tool("python3") else { return };
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
    let Some(python) = require_tool("python3") else { return };
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

#[test]
fn a_file_of_several_plain_tags_is_read_once() {
    let folder = tree();
    for digest in ["md5", "sha256", "sha1"] {
        verisum(["tag", "-q", "-a", digest, "--family", "plain", folder.path().to_str().unwrap()]).clean();
    }
    write(&folder.path().join("large"), vec![7; 1 << 20]);
    for digest in ["md5", "crc32"] {
        let large = folder.path().join("large");
        verisum(["tag", "-q", "-a", digest, "--family", "plain", large.to_str().unwrap()]).clean();
    }
    let verify = || verisum(["verify", "--family", "plain", "--json", folder.path().to_str().unwrap()]);
    let summary = |ended: &Ended| -> serde_json::Value {
        serde_json::from_str(ended.out().lines().last().unwrap()).unwrap()
    };
    let ended = verify();
    assert_eq!(ended.code, Some(0));
    assert_eq!(summary(&ended)["summary"]["outcomes"]["ok"], 3 * 3 + 2);
    assert_eq!(summary(&ended)["summary"]["bytes"], 4 + 6 + (1 << 20));
    rot(&folder.path().join("a"), "two\n");
    let ended = verify();
    assert_eq!(ended.code, Some(1));
    for digest in ["md5", "sha1", "sha256"] {
        let is_it =
            |line: &&str| line.contains("/a\"") && line.contains(&format!("\"algorithm\":\"{digest}\""));
        assert_eq!(ended.out().lines().filter(is_it).count(), 1, "{digest}: {}", ended.out());
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

#[test]
fn files_that_change_while_they_are_read_get_no_tag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, vec![7; 64 << 20]).unwrap();
    let ended = AtomicBool::new(false);
    let (code, found) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            let mut at = 0;
            while !ended.load(Ordering::Relaxed) {
                std::os::unix::fs::FileExt::write_at(&file, b"x", at).unwrap();
                at = (at + 4096) % (64 << 20);
            }
        });
        let result = outcomes(&["tag", "-q"], folder.path());
        ended.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!((code, found), (Some(3), vec!["log: busy".to_string()]));
    assert_eq!(attribute(&path, "user.verisum"), None);
}

#[test]
fn the_ways_to_end() {
    let folder = tree();
    let path = folder.path().to_str().unwrap();
    let missing = folder.path().join("missing");
    verisum(["verify", "-q", missing.to_str().unwrap()])
        .failed(3, &format!("verisum: {}: stat: No such file or directory", missing.display()));
    verisum(["verify", "-q", path]).failed(3, "verisum: no file has a tag of the family verisum");
    verisum(["tag", "-a", "md6", path]).failed(2, "verisum: unknown digest: md6 (did you mean md5 or md4?)");
    verisum(["tag", "-a", "md5", "--family", "shatag", path])
        .failed(2, "verisum: --algorithm: md5: shatag has tags of sha256 only");
    verisum(["tag", "-a", "null", path]).failed(2, "verisum: --algorithm: null: tags have no place for it");
    verisum(["retag", "--from", "md5", "--to", "verisum:MD5", path])
        .failed(2, "verisum: --from and --to are the same");
    verisum(["tag", "-q", path]).clean();
    verisum(["verify", "-q", path]).clean();
    let json = verisum(["verify", "--json", "-v", path]).clean();
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[..3].iter().all(|line| line["outcome"] == "ok" && line["algorithm"] == "sha256"));
    assert_eq!(lines[3]["summary"]["outcomes"]["ok"], 3);
    let excluded = verisum(["status", "--json", "--exclude", "sub", path]).clean();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&excluded).unwrap()["status"]["current"], 2);
    let empty: PathBuf = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    verisum(["verify", "-q", empty.to_str().unwrap()]).clean();
}
