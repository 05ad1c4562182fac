//! Tags beside their oracles: `reference/tags.py`, getfattr and setfattr.

use crate::common;

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use common::tagging::{attribute, oracle, outcomes, run, sealed, set_attribute, set_time, tree, write};
use common::{Ended, change_and_restore_time as rot, verisum};
use verisum_testkit::require_tool;

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

/// cshatag has seconds as a number without a sign, which wraps before 1970. The bytes are those of its
/// `fmt.Sprintf("%010d.%09d", uint64(t.Unix()), t.Nanosecond())` (check.go, 2.0 to 2.2.1).
#[test]
fn times_before_1970_go_both_ways_with_cshatag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old");
    for (before, text) in
        [(1_500, "18446744073709551614.500000000"), (1_000_000_000_000, "18446744072709551616.000000000")]
    {
        write(&path, "abc");
        set_time(&path, SystemTime::UNIX_EPOCH - Duration::from_millis(before));
        assert_eq!(run(&["tag", "-q", "--family", "shatag"], &path).0, Some(0));
        assert_eq!(attribute(&path, "user.shatag.ts"), Some(text.into()));
        for (form, verdict) in [(text, "ok"), ("0000000001.000000000", "touched")] {
            set_attribute(&path, "user.shatag.ts", form.as_bytes());
            let (code, found) = outcomes(&["verify", "-v", "--family", "shatag"], &path);
            assert_eq!(code, Some(0), "{form}");
            assert!(found[0].ends_with(&format!(": {verdict}")), "{form}: {found:?}");
        }
    }
}

/// cshatag compares what is left of a time without its last two digits.
#[test]
fn times_of_shatag_are_the_same_to_100_nanoseconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let at = |nanoseconds| SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, nanoseconds);
    for (nanoseconds, same_content, other_content) in [
        (123_456_720, "ok", "rot"),
        (123_456_799, "ok", "rot"),
        (123_456_800, "touched", "modified"),
        (123_456_699, "touched", "modified"),
        (123_457_700, "touched", "modified"),
    ] {
        for (content, verdict) in [("before", same_content), ("behind", other_content)] {
            write(&path, "before");
            set_time(&path, at(123_456_789));
            assert_eq!(run(&["tag", "-q", "--family", "shatag"], &path).0, Some(0));
            fs::write(&path, content).unwrap();
            set_time(&path, at(nanoseconds));
            let (_, found) = outcomes(&["verify", "-v", "--family", "shatag"], &path);
            assert!(found[0].ends_with(&format!(": {verdict}")), "{nanoseconds} {content}: {found:?}");
            fs::remove_file(&path).unwrap();
        }
    }
}

/// It keeps neither a time of verification nor the inode's, so nothing is said of these.
#[test]
fn rot_by_a_tag_of_shatag_may_be_wanted_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (family, word, keeps) in [("shatag", "never verified", true), ("verisum", "last good", false)] {
        write(&path, "before");
        verisum(["tag", "-q", "--family", family, path.to_str().unwrap()]).clean();
        rot(&path, "behind");
        let ended = verisum(["verify", "--family", family, path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains(word), !keeps, "{}", ended.stderr);
        assert!(ended.stderr.contains("repair --tags"), "{}", ended.stderr);
        assert!(!keeps || ended.stderr.contains("--keep-bad"), "{}", ended.stderr);
        fs::remove_file(&path).unwrap();
    }
}

/// The recorded digest is what says which copy is the right one.
#[test]
fn nobody_is_told_to_throw_a_tag_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write(&path, "before");
    verisum(["tag", "-q", path.to_str().unwrap()]).clean();
    rot(&path, "behind");
    let ended = verisum(["verify", path.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.ends_with("restore what is bad; its tags keep what was recorded\n"),
        "{}",
        ended.stderr
    );
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
    assert_eq!(summary(&ended)["outcomes"]["ok"], 3 * 3 + 2);
    assert_eq!(summary(&ended)["bytes"], 4 + 6 + (1 << 20));
    rot(&folder.path().join("a"), "two\n");
    let ended = verify();
    assert_eq!(ended.code, Some(1));
    for digest in ["md5", "sha1", "sha256"] {
        let is_it =
            |line: &&str| line.contains("/a\"") && line.contains(&format!("\"algorithm\":\"{digest}\""));
        let files = ended.out().lines().filter(|line| line.contains("\"type\":\"file\""));
        assert_eq!(files.filter(is_it).count(), 1, "{digest}: {}", ended.out());
    }
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
    let none = "verisum: no file has a tag of the family verisum";
    let hint = "`verisum tag DIR` writes them; --catalog FILE has those of files that take none";
    verisum(["verify", "-q", path]).failed(3, &format!("{none} ({hint})"));
    verisum(["tag", "-q", "--family", "shatag", path]).clean();
    let ended = verisum(["verify", "-q", path]);
    let hint = "of shatag (`verisum adopt DIR` takes them over, --family shatag compares with them)\n";
    assert!(ended.code == Some(3) && ended.stderr.starts_with(none), "{}", ended.stderr);
    assert!(ended.stderr.ends_with(hint), "{}", ended.stderr);
    verisum(["untag", "-q", "--family", "shatag", path]).clean();
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
    assert_eq!(lines[3]["outcomes"]["ok"], 3);
    let excluded = verisum(["status", "--json", "--exclude", "sub", path]).clean();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&excluded).unwrap()["current"], 2);
    let empty: PathBuf = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    verisum(["verify", "-q", empty.to_str().unwrap()]).clean();
}

#[test]
fn verify_reads_what_is_due_within_its_budget() {
    let folder = tree();
    assert_eq!(run(&["tag", "-q"], folder.path()), (Some(0), vec![]));
    rot(&folder.path().join("a"), "two\n");
    // All were verified when they were tagged.
    let fresh = || run(&["verify", "-v", "--max-age", "1h"], folder.path());
    assert_eq!(fresh(), (Some(0), vec!["a: not-due".into(), "b: not-due".into(), "sub/c: not-due".into()]));
    common::wait_until("a second has passed", || {
        let lines = outcomes(&["verify", "-v", "--max-age", "1s", "--stamp"], folder.path()).1;
        lines.iter().any(|line| line.starts_with("a: rot"))
    });
    // What rotted keeps its time, and the others have a new one.
    let stamped = verisum(["verify", "--max-age", "1h", "--json", "-v", folder.path().to_str().unwrap()]);
    assert_eq!(stamped.code, Some(0), "{}", stamped.stderr);
    for share in ["0", "101%", "-1"] {
        let refused = verisum(["verify", &format!("--sample={share}"), "."]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    }

    let many = tempfile::tempdir().unwrap();
    for number in 0..400 {
        write(&many.path().join(number.to_string()), b"same");
    }
    assert_eq!(run(&["tag", "-q"], many.path()), (Some(0), vec![]));
    let (code, lines) = outcomes(&["verify", "-v", "--sample", "25%"], many.path());
    let read = lines.iter().filter(|line| line.ends_with(": ok")).count();
    // Six standard deviations.
    assert!(code == Some(0) && lines.len() == 400 && (48..152).contains(&read), "{read}");

    let large = tempfile::tempdir().unwrap();
    for number in 0..40 {
        write(&large.path().join(number.to_string()), vec![7; 1 << 20]);
    }
    assert_eq!(run(&["tag", "-q"], large.path()), (Some(0), vec![]));
    let path = large.path().to_str().unwrap();
    // All of it would take more than a minute.
    let cut = verisum(["verify", "-v", "--for", "1s", "--limit", "512KiB/s", path]);
    assert_eq!(cut.code, Some(0), "{}", cut.stderr);
    assert!(cut.stderr.contains("the time budget is used up"), "{}", cut.stderr);
    assert!(cut.out().lines().count() < 40, "{}", cut.out());
    // A file that takes longer than the budget is verified all the same, or rot in it would never be found.
    let one = large.path().join("39");
    let (code, lines) = outcomes(&["verify", "-v", "--for", "1s", "--limit", "512KiB/s"], &one);
    assert!(code == Some(0) && lines.len() == 1 && lines[0].ends_with(": ok"), "{lines:?}");
}
