//! `verisum retag`: what is verified gets another digest, and nothing else does.

use crate::common;

use common::tagging::{attribute, outcomes, run, sealed, set_attribute, tree};
use common::{change_and_restore_time as rot, verisum};
use tempfile::TempDir;

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
fn files_of_other_digests_are_counted_apart() {
    let folder = tree();
    let path = folder.path();
    let retag = |from: &str| {
        let ended = verisum(["retag", "--json", "--from", from, "--to", "sha256", path.to_str().unwrap()]);
        let last = ended.out().lines().last().unwrap();
        let summary: serde_json::Value = serde_json::from_str(last).unwrap();
        (ended.code, summary["outcomes"].clone(), ended.stderr)
    };
    run(&["tag", "-q", "-a", "md5"], &path.join("a"));
    run(&["tag", "-q", "-a", "blake3"], &path.join("b"));
    let before = attribute(&path.join("a"), "user.verisum");
    let (code, outcomes, stderr) = retag("sha1");
    assert_eq!((code, outcomes), (Some(3), serde_json::json!({"other-digest": 2, "untagged": 1})));
    assert_eq!(stderr, "verisum: no file has a tag of sha1\n");
    assert_eq!(attribute(&path.join("a"), "user.verisum"), before);
    let (code, outcomes, _) = retag("md5");
    let expected = serde_json::json!({"retagged": 1, "other-digest": 1, "untagged": 1});
    assert_eq!((code, outcomes), (Some(0), expected));
    // Taken up again, there is nothing left to do.
    let (code, outcomes, stderr) = retag("md5");
    let expected = serde_json::json!({"current": 1, "other-digest": 1, "untagged": 1});
    assert_eq!((code, outcomes, stderr.as_str()), (Some(0), expected, ""));
}
