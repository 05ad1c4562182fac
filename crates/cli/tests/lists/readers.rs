//! `check`, `catalog import`, `adopt --from` and `repair --sums` understand a list in the same way.

use crate::common;

use std::fs;
use std::path::Path;

use common::tagging::attribute;
use common::{Ended, VERISUM, command};
use tempfile::TempDir;
use verisum_testkit::require_tool;

/// Runs it in a folder, with a catalogue beside that.
fn run(folder: &TempDir, words: &[&str]) -> Ended {
    let mut command = command(VERISUM);
    command.env("VERISUM_CATALOG", folder.path().join("c.db"));
    Ended::of(command.args(words).current_dir(folder.path().join("tree")).output().unwrap())
}

/// A folder with a tree of these files, a copy of it, and an empty catalogue.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for tree in ["tree", "copy"] {
        for (name, content) in files {
            let path = folder.path().join(tree).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }
    fs::create_dir(folder.path().join("none")).unwrap();
    run(&folder, &["scrub", "-q", "../none"]).clean();
    folder
}

fn write(folder: &TempDir, name: &str, text: &str) {
    fs::write(folder.path().join("tree").join(name), text).unwrap();
}

fn sums(folder: &TempDir, digest: &str, names: &[&str]) -> String {
    run(folder, &[&["sum", "-a", digest], names].concat()).clean()
}

/// The number of SHA-256 in tags.
const SHA256: u8 = 1;

/// The commands that read a list.
fn all(folder: &TempDir, list: &str) -> [Ended; 4] {
    let words: [&[&str]; 4] = [
        &["check", list],
        &["catalog", "import", list],
        &["adopt", "--dry-run", "--from", list, "."],
        &["repair", "--sums", list, "--from", "../copy", "."],
    ];
    words.map(|words| run(folder, words))
}

fn codes(ended: &[Ended; 4]) -> [i32; 4] {
    ended.each_ref().map(|ended| ended.code.unwrap())
}

#[test]
fn of_several_lines_the_longest_digest_counts() {
    for order in [["md5", "sha256", "sha1"], ["sha256", "md5", "sha1"], ["sha1", "md5", "sha256"]] {
        let folder = tree(&[("a", "abc")]);
        let lines = order.map(|digest| run(&folder, &["sum", "--tag", "-a", digest, "a"]).clean());
        write(&folder, "list", &lines.concat());
        assert_eq!(run(&folder, &["catalog", "import", "list"]).clean(), "1 recorded, 0 known already\n");
        let export = run(&folder, &["catalog", "export"]).clean();
        assert!(export.contains("\"algorithm\":\"sha256\""), "{order:?}: {export}");
        run(&folder, &["adopt", "-q", "--from", "list", "."]).clean();
        let tag = attribute(&folder.path().join("tree/a"), "user.verisum").unwrap();
        assert_eq!(tag[1], SHA256, "{order:?}");
    }
    let folder = tree(&[("a", "abc")]);
    let other = |digit: &str| format!("MD5 (a) = {}\n", digit.repeat(32));
    write(&folder, "list", &(other("0") + &run(&folder, &["sum", "--tag", "a"]).clean() + &other("1")));
    run(&folder, &["adopt", "-q", "--from", "list", "."]).clean();
    run(&folder, &["repair", "--sums", "list", "--from", "../copy", "."]).clean();
}

/// The name of a list and the number of digits may agree, and be wrong.
#[test]
fn the_content_of_a_small_file_decides() {
    for (name, not) in [("SHA256SUMS", ", and not for sha256 as the name of the list says"), ("list", "")] {
        let folder = tree(&[("a", "abc"), ("b", "xyz")]);
        write(&folder, name, &sums(&folder, "blake3", &["a", "b"]));
        let taken = format!("verisum: {name}: 64 digits were taken for blake3, which a file has{not}\n");
        let refused = "64 digits were taken for sha256, which none of 2 small files has: they are of blake3 \
                       (-a blake3)\n";
        let ended = all(&folder, name);
        assert_eq!(codes(&ended), [0, 3, 3, 0], "{ended:?}");
        assert_eq!(ended[0].stderr, format!("{taken}verisum: 2 verified\n"));
        assert_eq!(ended[1].stderr, format!("verisum: {name}: import: {refused}"));
        assert_eq!(ended[2].stderr, format!("verisum: {name}: read: {refused}"));
        assert_eq!(ended[3].stderr, taken);
        // Where files have changed, name and number stand together, and a number alone is told.
        let folder = tree(&[("a", "other")]);
        write(&folder, name, &format!("{}  a\n", "0".repeat(64)));
        let ended = all(&folder, name);
        let is_certain = name == "SHA256SUMS";
        assert_eq!(codes(&ended)[..3], if is_certain { [1, 0, 0] } else { [1, 3, 3] });
        let said = format!("{name}: 64 digits were taken for sha256 (-a names a different digest)\n");
        assert_eq!(ended[3].stderr.contains(&said), !is_certain, "{ended:?}");
    }
}

#[test]
fn names_of_lists_hint_at_every_digest() {
    for (name, digest) in [
        ("y.blake2b-256", "blake2b-256"),
        ("x.sha3", "sha3-256"),
        ("SHA3SUMS", "sha3-512"),
        ("x.dropbox", "dropbox"),
        ("x.blake2s", "blake2s256"),
    ] {
        let folder = tree(&[("a", "abc")]);
        write(&folder, name, &sums(&folder, digest, &["a"]));
        let ended = run(&folder, &["check", name]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), "verisum: 1 verified\n"), "{name}");
        assert_eq!(run(&folder, &["catalog", "import", name]).clean(), "1 recorded, 0 known already\n");
    }
    let folder = tree(&[("a", "abc")]);
    write(&folder, "list", &run(&folder, &["sum", "--tag", "-a", "blake2b-160", "a"]).clean());
    let ended = run(&folder, &["adopt", "--from", "list", "."]);
    let said = "list: read: line 1: tags have no place for blake2b-160\n";
    assert!(ended.code == Some(3) && ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn what_is_skipped_is_counted_and_said() {
    let folder = tree(&[("a", "abc"), ("b", "xyz")]);
    let [a, b] = ["a", "b"].map(|name| sums(&folder, "md5", &[name]));
    for mark in ["#", "; "] {
        write(&folder, "list", &format!("{b}{mark}{a}"));
        let ended = all(&folder, "list");
        assert_eq!(codes(&ended), [0; 4], "{ended:?}");
        for ended in ended {
            assert!(
                ended.stderr.contains(": WARNING: 1 skipped comment looks like the line of a file\n"),
                "{ended:?}"
            );
        }
    }
    write(&folder, "list", &format!("GOST (a) = {}\n{b}", "0".repeat(64)));
    let ended = all(&folder, "list");
    assert_eq!(codes(&ended), [3; 4], "{ended:?}");
    for ended in &ended {
        assert!(ended.stderr.contains(": WARNING: 1 line has an unknown digest: GOST\n"), "{ended:?}");
    }
    assert_eq!(ended[1].out(), "0 recorded, 1 known already\n");
    // A list of nothing is no success.
    write(&folder, "list", "# nothing\n");
    let ended = all(&folder, "list");
    assert_eq!(codes(&ended), [1; 4], "{ended:?}");
    assert_eq!(ended[3].stderr, "verisum: list: no file is listed with a digest\n");
}

#[test]
fn a_name_with_a_slash_is_no_file() {
    let folder = tree(&[("f1", "abc")]);
    let line = sums(&folder, "md5", &["f1"]);
    for (list, out) in [
        (line.clone() + &line.replace("f1", "f1/"), "f1: OK\nf1/: FAILED open or read\n"),
        (line.replace("f1", "f1/.") + &line, "f1/.: FAILED open or read\nf1: OK\n"),
    ] {
        write(&folder, "list", &list);
        let ended = run(&folder, &["check", "list"]);
        assert_eq!((ended.code, ended.out()), (Some(3), out));
        let Some(md5sum) = require_tool("md5sum") else { return };
        let mut peer = std::process::Command::new(md5sum);
        let peer = peer.args(["-c", "list"]).current_dir(folder.path().join("tree")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&peer.stdout), out);
    }
}

#[test]
fn bags_are_imported_by_their_own_rules() {
    let folder = tree(&[("bag/x", "abc"), ("bag/line\nend", "def"), ("bag/a%0Ab", "ghi")]);
    run(&folder, &["bag", "create", "-a", "md5", "-a", "sha256", "bag"]).clean();
    let of_catalogue = || run(&folder, &["catalog", "export", "--format", "json"]).clean();
    assert_eq!(run(&folder, &["catalog", "import", "bag"]).code, Some(0));
    let exported = of_catalogue();
    for name in ["line\\nend", "a%0Ab", "x"] {
        assert!(exported.contains(&format!("/bag/data/{name}\"")), "{exported}");
    }
    assert!(!exported.contains("\"md5\""), "the longest digest of a file is recorded: {exported}");
    let ended = run(&folder, &["scrub", "bag"]);
    assert!(ended.out().contains("0 missing") || !ended.out().contains("missing"), "{}", ended.out());
    // By a manifest alone, from anywhere.
    for (words, from) in [(["catalog", "import", "manifest-md5.txt"], "bag"), (["check", "-q", "bag"], ".")] {
        let mut command = command(VERISUM);
        command.env("VERISUM_CATALOG", folder.path().join("other.db"));
        let ended = command.args(words).current_dir(folder.path().join("tree").join(from)).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    }
    let adopted = run(&folder, &["adopt", "--from", "bag/manifest-md5.txt", "bag"]);
    assert!(adopted.code == Some(0) && adopted.stderr.contains("3 files: 3 adopted"), "{adopted:?}");
    // A directory that is no bag has nothing to import.
    let ended = run(&folder, &["catalog", "import", "../none"]);
    let what = "verisum: ../none: import: no bag, and no lake with records\n";
    assert_eq!((ended.code, &*ended.stderr), (Some(1), what));
}

#[test]
fn a_bag_is_valid_only_by_all_of_its_manifests() {
    let folder = tree(&[("bag/x", "abc"), ("bag/y", "def")]);
    run(&folder, &["bag", "create", "-a", "md5", "-a", "sha256", "bag"]).clean();
    let bag = folder.path().join("tree/bag");
    for tags in ["tagmanifest-md5.txt", "tagmanifest-sha256.txt"] {
        fs::remove_file(bag.join(tags)).unwrap();
    }
    let check = || run(&folder, &["check", "bag"]);
    assert_eq!(check().code, Some(0));
    let manifest = fs::read_to_string(bag.join("manifest-sha256.txt")).unwrap();
    let write = |name: &str, text: &str| fs::write(bag.join(name), text).unwrap();
    let (first, second) = manifest.split_once('\n').unwrap();
    write("manifest-sha256.txt", second);
    let ended = check();
    assert!(ended.code == Some(1) && ended.out().ends_with("bag/data/x: EXTRA\n"), "{ended:?}");
    assert!(ended.stderr.contains("bag/data/x: bag/manifest-sha256.txt does not list it\n"), "{ended:?}");
    assert!(ended.stderr.contains("the bag is NOT valid"), "{ended:?}");
    // Before 1.0, it was enough that one manifest lists a file.
    write("bagit.txt", "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n");
    assert_eq!(check().code, Some(0));
    write("bagit.txt", "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    for damaged in [format!("{manifest}junk\n"), format!("{manifest}{}\n", &first[1..])] {
        write("manifest-sha256.txt", &damaged);
        let ended = check();
        assert!(ended.code == Some(1) && ended.stderr.contains("the bag is NOT valid"), "{ended:?}");
    }
    write("manifest-sha256.txt", &manifest);
    fs::copy(bag.join("manifest-md5.txt"), bag.join("manifest-foo.txt")).unwrap();
    let ended = check();
    assert!(ended.code == Some(3) && ended.stderr.contains("the bag is NOT valid"), "{ended:?}");
    assert!(ended.stderr.starts_with("verisum: bag/manifest-foo.txt: unknown digest: foo\n"), "{ended:?}");
    let list = Path::new("bag/manifest-foo.txt").to_str().unwrap();
    assert_eq!(run(&folder, &["catalog", "import", list]).code, Some(3));
}
