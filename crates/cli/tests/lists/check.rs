//! `verisum check`: beside the coreutils to the byte, bags, extra files, several lists, bad input.

use crate::common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{VERISUM, command};
use tempfile::TempDir;
use verisum_testkit::require_tool;

const ABC: &str = "900150983cd24fb0d6963f7d28e17f72";
const OTHER: &str = "00000000000000000000000000000000";

/// How a check ended.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    code: Option<i32>,
    out: Vec<u8>,
    err: Vec<u8>,
}

fn run(mut command: Command, folder: &Path) -> Ended {
    let output = command.current_dir(folder).env("LC_ALL", "C.UTF-8").output().unwrap();
    Ended { code: output.status.code(), out: output.stdout, err: output.stderr }
}

/// A folder with files that hold `abc`.
fn folder(names: &[&[u8]]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "abc").unwrap();
    }
    folder
}

/// `verisum check` in a folder.
fn check(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = command(VERISUM);
    command.arg("check").args(arguments);
    run(command, folder)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Asserts that `verisum check` says and does what `md5sum -c` does; only our last line, the totals, and
/// the exit codes of failures are other.
#[track_caller]
fn assert_same(peer: &Path, folder: &Path, list: &[u8], options: &[&str]) {
    std::fs::write(folder.join("the list"), list).unwrap();
    let mut theirs = Command::new(peer);
    theirs.arg0("md5sum").args(["-c", "the list"]).args(options);
    let theirs = run(theirs, folder);
    let mut ours = check(folder, &[&["-a", "md5", "the list"], options].concat());
    let err = text(&ours.err).replace("verisum: ", "md5sum: ");
    let mut lines: Vec<&str> = err.split_inclusive('\n').collect();
    // What helps to mend files, which the coreutils know nothing of.
    lines.retain(|line| line.starts_with("md5sum: "));
    if !options.contains(&"--quiet") && !options.contains(&"--status") {
        assert!(lines.pop().unwrap().contains("verified"), "{err}");
    }
    ours.err = lines.concat().into_bytes();
    assert_eq!(text(&ours.err), text(&theirs.err), "{}", list.escape_ascii());
    assert_eq!(ours.out.escape_ascii().to_string(), theirs.out.escape_ascii().to_string());
    assert_eq!(ours.code == Some(0), theirs.code == Some(0), "{:?} {:?}", ours.code, theirs.code);
}

#[test]
fn messages_are_those_of_the_coreutils() {
    let Some(md5sum) = require_tool("md5sum") else { return };
    let odd: Vec<Vec<u8>> = [
        &b"a"[..],
        b"a b",
        b"it's",
        b"it's a:b",
        b"a:b",
        b"back\\slash",
        b"new\nline",
        b"'new\nline'",
        b"ret\rurn",
        b"tab\t",
        b"\xff\xfe",
        "\u{fc}\u{2028}".as_bytes(),
        b"#",
        b"~",
        b"{",
        b"x=$y",
        b"\"",
        b"-",
        b"-x",
        b" ",
        b"a)",
        b"(",
        b"\x1b[0m",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    let names: Vec<&[u8]> = odd.iter().map(Vec::as_slice).filter(|name| *name != b"-").collect();
    let folder = folder(&names);
    std::fs::create_dir(folder.path().join("directory")).unwrap();
    std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
    let line = |digest: &str, name: &[u8]| {
        let escaped: Vec<u8> = name
            .iter()
            .flat_map(|byte| match byte {
                b'\\' => b"\\\\".to_vec(),
                b'\n' => b"\\n".to_vec(),
                b'\r' => b"\\r".to_vec(),
                other => vec![*other],
            })
            .collect();
        let slash = if escaped == name { "" } else { "\\" };
        [format!("{slash}{digest}  ").as_bytes(), &escaped, b"\n"].concat()
    };
    let all = |digest: &str, missing: &str| -> Vec<u8> {
        names.iter().flat_map(|name| line(digest, &[name, missing.as_bytes()].concat())).collect()
    };
    let mut lists: Vec<Vec<u8>> = vec![
        all(ABC, ""),
        all(OTHER, ""),
        all(ABC, "~missing"),
        [all(ABC, ""), all(OTHER, ""), all(ABC, "!")].concat(),
    ];
    for list in [
        "",
        "\n\n",
        "# only a comment\n",
        "nonsense\n",
        &format!("nonsense\n{ABC}  a\n"),
        &format!("{ABC}  a"),
        &format!("{ABC}  a\r\n{ABC}  it's\r\n"),
        &format!("{}  a\n", ABC.to_uppercase()),
        &format!("{ABC} *a\n{ABC}\t a\n  {ABC}  a\n"),
        &format!("{ABC} a\n{ABC} it's\n"),
        &format!("{ABC} a\n{ABC}  it's\n"),
        &format!("{ABC}  a\n{ABC} it's\n"),
        &format!("{ABC}\n{ABC} \n{ABC}  \n{ABC} x\n"),
        &format!("{ABC}0  a\n{ABC}00  a\n{}  a\n", &ABC[1..]),
        &format!("MD5 (a) = {ABC}\nMD5 (a b)={ABC}\nMD5(it's)= {ABC}\n"),
        &format!("MD5 (a) = {OTHER}\nMD5 (a)) = {ABC}\nMD5 (() = {ABC}\nMD5 (a = {ABC}\nMD5 (a) {ABC}\n"),
        &format!("\\MD5 (new\\nline) = {ABC}\n\\{ABC}  back\\\\slash\n\\{ABC}  a\\t\n\\{ABC}  a\\\n"),
        &format!("{ABC}  directory\n{ABC}  link\n{ABC}  dangling\n{ABC}  /dev/null\n{ABC}  a/b\n"),
        &format!("{ABC}  ../{ABC}\n{ABC}  ./a\n{ABC}  {}\n", folder.path().join("a").display()),
        &format!("{ABC}  -\n"),
        &format!("{ABC}  a\n{ABC}  a\n{OTHER}  a\n"),
        &format!("{ABC}  {}\n", "n".repeat(300)),
    ] {
        lists.push(list.as_bytes().to_vec());
    }
    lists.push([ABC.as_bytes(), b"  a", &b"x".repeat(5000), b"\n"].concat());
    for list in &lists {
        for options in [
            &[][..],
            &["--warn"],
            &["--quiet"],
            &["--status"],
            &["--strict", "--warn"],
            &["--ignore-missing"],
            &["--ignore-missing", "--quiet", "--strict"],
        ] {
            assert_same(&md5sum, folder.path(), list, options);
        }
    }
}

#[test]
fn a_list_that_cannot_be_read_is_a_line() {
    let folder = folder(&[b"a"]);
    std::fs::write(folder.path().join("utf16"), b"\xff\xfe9\x000\x00").unwrap();
    for (name, message) in [
        ("no list", "'no list': No such file or directory"),
        (".", ".: is a directory without bagit.txt; verisum check takes a bag or a list"),
        ("utf16", "utf16: this is UTF-16 text, which is not read (save it as UTF-8)"),
    ] {
        let ended = check(folder.path(), &["--quiet", name]);
        assert_eq!((ended.code, text(&ended.err)), (Some(3), format!("verisum: {message}\n").as_str()));
    }
    let ended = check(folder.path(), &["-a", "nothing", "x"]);
    assert_eq!(ended.code, Some(2));
}

#[test]
fn exit_codes_tell_wrong_from_unreadable() {
    let folder = folder(&[b"a", b"b"]);
    for (list, code) in [
        (format!("{ABC}  a\n"), 0),
        (format!("{OTHER}  a\n"), 1),
        (format!("{ABC}  a\n{ABC}  gone\n"), 3),
        (format!("{OTHER}  a\n{ABC}  gone\n"), 1),
        ("nothing\n".to_string(), 1),
        (format!("{ABC}  a\nnothing\n"), 0),
    ] {
        std::fs::write(folder.path().join("list"), &list).unwrap();
        assert_eq!(check(folder.path(), &["list"]).code, Some(code), "{list}");
    }
    assert_eq!(check(folder.path(), &["--strict", "list"]).code, Some(1));
    std::fs::write(folder.path().join("list"), format!("{ABC}  gone\n")).unwrap();
    assert_eq!(check(folder.path(), &["--ignore-missing", "list"]).code, Some(1));
}

#[test]
fn several_digests_and_lists_are_answered_in_order() {
    let folder = folder(&[b"a", b"b"]);
    let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
    let first = format!("SHA1 (a) = {sha1}\nMD5 (b) = {OTHER}\nMD5 (a) = {ABC}\n{sha1}  b\n");
    std::fs::write(folder.path().join("first"), first).unwrap();
    std::fs::write(folder.path().join("second"), format!("a 352441C2\n{ABC}  b\n")).unwrap();
    let ended = check(folder.path(), &["first", "second"]);
    assert_eq!(text(&ended.out), "a: OK\nb: FAILED\na: OK\nb: OK\na: OK\nb: OK\n");
    let said: Vec<&str> =
        text(&ended.err).split_inclusive('\n').filter(|line| line.starts_with("verisum: ")).collect();
    assert_eq!(
        said.concat(),
        "verisum: WARNING: 1 computed checksum did NOT match\nverisum: 5 verified, 1 failed\n"
    );
    assert_eq!(ended.code, Some(1));
    let ended = check(folder.path(), &["--json", "first"]);
    let lines: Vec<serde_json::Value> =
        text(&ended.out).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[1]["outcome"], "failed");
    assert_eq!(lines[1]["line"], 2);
    assert_eq!(lines[1]["found"]["digests"]["md5"], ABC);
    let alarm = &lines[4];
    assert_eq!(
        (&alarm["type"], &alarm["algorithm"], &alarm["digest"]),
        (&"alarm".into(), &"md5".into(), &OTHER.into())
    );
    assert_eq!(lines[5]["verified"], 3);
}

#[test]
fn many_lines_stay_in_order_whatever_is_in_them() {
    let folder = folder(&[b"a"]);
    let mut list = String::new();
    let mut expected = String::new();
    for number in 0..20_000 {
        match number % 5 {
            0 => list.push_str("bad\n"),
            1 => list.push_str(&format!("SHA1 (a) = {}\n", "0".repeat(40))),
            2 => list.push_str(&format!("{OTHER}  gone {number}\n")),
            _ => list.push_str(&format!("{ABC}  a\n")),
        }
        match number % 5 {
            0 => {}
            1 => expected.push_str("a: FAILED\n"),
            2 => expected.push_str(&format!("gone {number}: FAILED open or read\n")),
            _ => expected.push_str("a: OK\n"),
        }
    }
    std::fs::write(folder.path().join("list"), list).unwrap();
    let ended = check(folder.path(), &["list"]);
    assert_eq!(text(&ended.out), expected);
}

#[test]
fn standard_input_is_a_list_or_a_file() {
    let folder = folder(&[b"a"]);
    let mut with = command(VERISUM);
    with.args(["check", "-"]).current_dir(folder.path());
    let ended = common::with_pipe(&mut with, format!("{ABC}  a\n{ABC}  -\n").as_bytes());
    assert_eq!(ended.out(), "a: OK\n");
    assert!(ended.stderr.contains("1 line is improperly formatted"));
    std::fs::write(folder.path().join("list"), format!("{ABC}  -\n{ABC}  a\n")).unwrap();
    let mut with = command(VERISUM);
    with.args(["check", "list"]).current_dir(folder.path());
    assert_eq!(common::with_pipe(&mut with, b"abc").out(), "-: OK\na: OK\n");
}

#[test]
fn names_begin_where_they_are_said_to() {
    let tree = folder(&[b"in/a"]);
    std::fs::write(tree.path().join("list"), format!("{ABC}  a\n")).unwrap();
    assert_eq!(check(tree.path(), &["list"]).code, Some(3));
    assert_eq!(check(tree.path(), &["-C", "in", "list"]).code, Some(0));
    assert_eq!(check(tree.path(), &["--base", "in", "list"]).code, Some(0));
}

#[test]
fn a_directory_behind_the_lists_is_where_their_names_begin() {
    let folder = folder(&[b"tree/a", b"tree/b"]);
    let list = |name: &str| format!("{ABC}  {name}\n");
    std::fs::write(folder.path().join("x"), list("a")).unwrap();
    std::fs::write(folder.path().join("y"), list("b")).unwrap();
    let checked = check(folder.path(), &["x", "y", "tree"]);
    assert_eq!((checked.code, text(&checked.out)), (Some(0), "a: OK\nb: OK\n"), "{}", text(&checked.err));
    let twice = check(folder.path(), &["-C", "tree", "x", "tree"]);
    assert_eq!(twice.code, Some(2), "{}", text(&twice.err));
    let alone = check(folder.path(), &["tree"]);
    assert!(
        alone.code == Some(3) && text(&alone.err).contains("tree: is a directory without bagit.txt;"),
        "{}",
        text(&alone.err)
    );
}

#[test]
fn names_of_any_bytes_end_with_nul() {
    let tree = folder(&[b"new\nline"]);
    std::fs::write(tree.path().join("list"), format!("{ABC}  new\nline\0")).unwrap();
    for options in [&["-z", "list"][..], &["list"]] {
        let ended = check(tree.path(), options);
        assert_eq!((ended.code, text(&ended.out)), (Some(0), "\\new\\nline: OK\n"));
    }
}

#[test]
fn extra_and_missing_files_are_told() {
    let tree = folder(&[b"t/a", b"t/sub/b", b"t/sub/extra", b"t/extra"]);
    let list = format!("{ABC}  t/a\n{ABC}  ./t//sub/../sub/b\n{ABC}  t/gone\n");
    std::fs::write(tree.path().join("t/list"), list).unwrap();
    let ended = check(tree.path(), &["--strict-tree", "t", "t/list"]);
    let lines: Vec<&str> = text(&ended.out).lines().collect();
    assert_eq!(lines[2..], ["t/gone: FAILED open or read", "t/extra: EXTRA", "t/sub/extra: EXTRA"]);
    assert!(text(&ended.err).ends_with("verisum: 2 verified, 1 missing, 2 not listed\n"));
    assert_eq!(ended.code, Some(1));
}

#[test]
fn where_no_file_of_a_list_is_here_its_host_is_to_be_named() {
    let tree = folder(&[b"t/a"]);
    for (name, host, place) in [
        ("web:data/a", "web", "web:."),
        ("me@web:/data/a", "me@web", "me@web:."),
        ("ssh://web:22/~/a", "ssh://web:22", "'ssh://web:22/~/.'"),
        ("s3://box/a", "s3://box", "'s3://box'"),
    ] {
        std::fs::write(tree.path().join("list"), format!("{ABC}  {name}\n")).unwrap();
        let told = text(&check(tree.path(), &["list"]).err).to_string();
        let hint =
            format!("list: if its files are on {host}, check them there: verisum check list {place}\n");
        assert!(told.contains(&hint), "{told}");
        // The numbers would be taken for others there.
        let told = text(&check(tree.path(), &["-a", "shake128", "list"]).err).to_string();
        assert!(told.contains(&format!("verisum check -a shake128 list {place}\n")), "{told}");
    }
    // What is here is not elsewhere.
    std::fs::write(tree.path().join("list"), format!("{ABC}  web:data/a\n{ABC}  t/a\n")).unwrap();
    assert!(!text(&check(tree.path(), &["list"]).err).contains("check them there"));
    std::fs::write(tree.path().join("list"), format!("{ABC}  t/gone\n{ABC}  local:gone\n")).unwrap();
    assert!(!text(&check(tree.path(), &["list"]).err).contains("check them there"));
}

#[test]
fn a_bag_is_checked_as_a_whole() {
    let tree = folder(&[b"bag/data/a", b"bag/data/line\nend", b"bag/data/100%25", b"outside"]);
    let bag = tree.path().join("bag");
    std::fs::write(bag.join("bagit.txt"), "BagIt-Version: 1.0\n").unwrap();
    let manifest = format!("{ABC}  data/a\n{ABC} data/line%0Aend\n{ABC}  data/100%25\n");
    std::fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    let clean = check(tree.path(), &["bag"]);
    assert_eq!((clean.code, text(&clean.err)), (Some(0), "verisum: the bag is valid: 3 verified\n"));
    // From wherever it is called, by directory or by manifest.
    assert_eq!(check(Path::new("/"), &[bag.join("manifest-md5.txt").to_str().unwrap()]).code, Some(0));
    assert_eq!(check(&bag, &["manifest-md5.txt"]).code, Some(0));
    assert_eq!(check(&bag, &["."]).code, Some(0));
    std::os::unix::fs::symlink("../../outside", bag.join("data/link")).unwrap();
    for name in ["data/../../outside", "../outside", "/etc/passwd", "data/link"] {
        std::fs::write(bag.join("manifest-md5.txt"), format!("{manifest}{ABC}  {name}\n")).unwrap();
        let ended = check(tree.path(), &["bag"]);
        assert_eq!(ended.code, Some(3), "{name}");
        assert!(text(&ended.err).contains("out of its directory"), "{}", text(&ended.err));
    }
    std::fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    // Nobody ever writes to it.
    let pipe = Command::new("mkfifo").arg(bag.join("data/pipe")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    std::fs::write(bag.join("manifest-md5.txt"), format!("{manifest}{ABC}  data/pipe\n")).unwrap();
    assert_eq!(check(tree.path(), &["bag"]).code, Some(3));
    std::fs::remove_file(bag.join("data/pipe")).unwrap();
    std::fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    std::fs::write(bag.join("data/extra"), "").unwrap();
    let ended = check(tree.path(), &["bag"]);
    assert_eq!(ended.code, Some(1));
    assert!(text(&ended.out).ends_with("bag/data/extra: EXTRA\n"));
    let quiet = check(tree.path(), &["--quiet", "bag"]);
    assert!(text(&quiet.err).contains("the bag is NOT valid: 3 verified, 1 not listed\n"), "{quiet:?}");
    let json = check(tree.path(), &["--json", "bag"]);
    assert!(text(&json.out).contains("\"valid\":false"), "{json:?}");
    std::fs::remove_file(bag.join("data/extra")).unwrap();
    assert_eq!(text(&check(tree.path(), &["--quiet", "bag"]).err), "");
    assert!(text(&check(tree.path(), &["--json", "bag"]).out).contains("\"valid\":true"));
    // Without its list nobody knows what is extra, whether another list says that it is missing or none is there.
    std::fs::write(bag.join("tagmanifest-md5.txt"), format!("{ABC}  manifest-md5.txt\n")).unwrap();
    std::fs::remove_file(bag.join("manifest-md5.txt")).unwrap();
    for _ in 0..2 {
        let ended = check(tree.path(), &["bag"]);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(text(&ended.err).contains("'bag/manifest-*.txt': No such file or directory"), "{ended:?}");
        assert!(!text(&ended.out).contains("EXTRA"), "{ended:?}");
        let _ = std::fs::remove_file(bag.join("tagmanifest-md5.txt"));
    }
}

#[test]
fn nothing_is_extra_if_a_list_cannot_be_read() {
    let tree = folder(&[b"t/a", b"t/b"]);
    std::fs::write(tree.path().join("list"), format!("{ABC}  t/a\n")).unwrap();
    let ended = check(tree.path(), &["--strict-tree", "t", "list", "none"]);
    assert_eq!((ended.code, text(&ended.out)), (Some(3), "t/a: OK\n"));
}

#[test]
fn an_assumption_that_may_be_wrong_is_told() {
    let tree = folder(&[b"a"]);
    let blake3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    let list = tree.path().join("list");
    std::fs::write(&list, format!("{blake3}  a\n")).unwrap();
    let ended = check(tree.path(), &["list"]);
    let taken = "verisum: list: 64 digits were taken for blake3, which a file has\nverisum: 1 verified\n";
    assert_eq!((ended.code, text(&ended.err)), (Some(0), taken));
    // What can be read only once is not tried, nor can be what no file has.
    let said = "nothing matched: all files differ, or the 64 digits that were taken for sha256 are of another digest \
                (-a names a different digest; `verisum image sum -c` checks ";
    let mut from_pipe = command("bash");
    from_pipe.args(["-c", &format!("cat list | {VERISUM} check")]);
    assert!(text(&run(from_pipe, tree.path()).err).contains(said));
    std::fs::write(tree.path().join("a"), "other").unwrap();
    assert!(text(&check(tree.path(), &["list"]).err).contains(said));
    std::fs::write(tree.path().join("a"), "abc").unwrap();
    assert_eq!(check(tree.path(), &["-a", "blake3", "list"]).code, Some(0));
    std::fs::rename(tree.path().join("list"), tree.path().join("B3SUMS")).unwrap();
    let ended = check(tree.path(), &["B3SUMS"]);
    assert_eq!((ended.code, text(&ended.err)), (Some(0), "verisum: 1 verified\n"));
}

/// A list's name is but a hint: files tell what its numbers are.
#[test]
fn a_name_that_says_another_digest_than_the_numbers_are_of() {
    let tree = folder(&[b"a", b"b"]);
    std::fs::write(tree.path().join("b"), "abd").unwrap();
    let sums = |digest: &str, names: &[&str]| {
        let mut sum = command(VERISUM);
        sum.args(["sum", "-a", digest]).args(names);
        run(sum, tree.path()).out
    };
    for (name, digest, taken) in [
        (
            "backup-b2.txt",
            "sha256",
            "64 digits were taken for sha256, which a file has, and not for blake2b-256",
        ),
        ("backup-b2.txt", "md5", "32 digits were taken for md5, which a file has, and not for blake2b-128"),
        ("x.b3", "sha256", "64 digits were taken for sha256, which a file has, and not for blake3"),
        ("B3", "sha3-256", "64 digits were taken for sha3-256, which a file has, and not for blake3"),
        ("sm3.list", "blake3", "64 digits were taken for blake3, which a file has, and not for sm3"),
    ] {
        std::fs::write(tree.path().join(name), sums(digest, &["a", "b"])).unwrap();
        let ended = check(tree.path(), &[name]);
        assert_eq!((ended.code, text(&ended.out)), (Some(0), "a: OK\nb: OK\n"), "{name}");
        let said = format!("verisum: {name}: {taken} as the name of the list says\nverisum: 2 verified\n");
        assert_eq!(text(&ended.err), said);
        // One bad file does not make the list one of another digest.
        std::fs::write(tree.path().join("a"), "rot").unwrap();
        let ended = check(tree.path(), &[name]);
        assert_eq!((ended.code, text(&ended.out)), (Some(1), "a: FAILED\nb: OK\n"), "{name}");
        std::fs::write(tree.path().join("a"), "abc").unwrap();
    }
    // Where no file tells, the name stands, and that is said.
    std::fs::write(tree.path().join("B3"), sums("blake3", &["a"])).unwrap();
    std::fs::rename(tree.path().join("a"), tree.path().join("c")).unwrap();
    let ended = check(tree.path(), &["B3"]);
    let said = "verisum: B3: 64 digits were taken for blake3, as the name of the list says (-a names a different digest)\n";
    assert!(ended.code == Some(3) && text(&ended.err).starts_with(said), "{}", text(&ended.err));
}

#[test]
fn a_line_longer_than_any_name_is_skipped() {
    let tree = folder(&[b"a"]);
    let list = format!("{ABC}  {}\n{ABC}  a\n", "x".repeat(3 << 20));
    std::fs::write(tree.path().join("list"), list).unwrap();
    let ended = check(tree.path(), &["list"]);
    assert_eq!((ended.code, text(&ended.out)), (Some(3), "a: OK\n"));
    assert!(text(&ended.err).contains("list: 1: line is longer than 1048576 bytes"), "{}", text(&ended.err));
}

/// Whoever made the list may have meant that.
#[test]
fn a_list_that_repeats_a_bad_name_takes_little_memory() {
    let tree = folder(&[b"a"]);
    let most = |lines: usize| {
        std::fs::write(tree.path().join("list"), format!("{}  a\n", "0".repeat(32)).repeat(lines)).unwrap();
        let script = format!("ulimit -v {}; exec {VERISUM} check --threads 1 --quiet list", 400 << 10);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]);
        let ended = run(shell, tree.path());
        assert_eq!(ended.code, Some(1), "{}", text(&ended.err));
        assert_eq!(text(&ended.out).lines().filter(|line| *line == "a: FAILED").count(), lines);
    };
    most(600_000);
}

/// No system call takes such a name, so no directory in it is asked for.
#[test]
fn a_name_of_very_many_directories_takes_no_time() {
    let tree = folder(&[b"a"]);
    std::fs::write(tree.path().join("list"), format!("{ABC}  {}a\n", "d/".repeat(400_000))).unwrap();
    let begin = std::time::Instant::now();
    assert_eq!(check(tree.path(), &["list"]).code, Some(3));
    assert!(begin.elapsed() < std::time::Duration::from_secs(100), "{:?}", begin.elapsed());
}

#[test]
fn the_reasons_of_the_first_missing_files_are_told() {
    let tree = folder(&[b"a"]);
    let list: String = (0..1003).map(|number| format!("{ABC}  gone{number}\n")).collect();
    std::fs::write(tree.path().join("list"), list).unwrap();
    let reasons = |options: &[&str]| {
        let ended = check(tree.path(), &[options, &["list"]].concat());
        assert_eq!((ended.code, text(&ended.out).lines().count()), (Some(3), 1003), "{options:?}");
        let err = text(&ended.err).to_string();
        (err.matches(": No such file or directory\n").count(), err)
    };
    let (told, err) = reasons(&[]);
    assert!(told == 1000 && err.contains("list: ... and 3 more (--verbose tells why)\n"), "{told}: {err}");
    let (told, err) = reasons(&["--verbose"]);
    assert!(told == 1003 && !err.contains("tells why"), "{told}: {err}");
}

#[test]
fn a_path_longer_than_the_system_takes_is_found() {
    let tree = tempfile::tempdir().unwrap();
    // A directory at a time, for no system call takes the whole path.
    let script = format!(
        "set -e; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do mkdir {0}; cd -P {0}; done; printf abc > a",
        "d".repeat(200)
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    assert_eq!(run(shell, tree.path()).code, Some(0));
    let path: PathBuf = std::iter::repeat_n("d".repeat(200), 24).collect();
    let list = [ABC.as_bytes(), b"  ", path.join("a").into_os_string().as_bytes(), b"\n"].concat();
    std::fs::write(tree.path().join("list"), list).unwrap();
    assert_eq!(check(tree.path(), &["--quiet", "list"]).code, Some(0));
}

/// A corrupt file beside good lines must not pass because of how its line is written.
#[test]
fn every_length_of_blake2b_is_checked() {
    let Some(b2sum) = require_tool("b2sum") else { return };
    let tree = folder(&[b"a", b"b"]);
    for length in ["8", "24", "160", "256", "504", "512"] {
        for tag in [&[][..], &["--tag"]] {
            let mut theirs = Command::new(&b2sum);
            theirs.args(["-l", length]).args(tag).args(["a", "b"]);
            let theirs = run(theirs, tree.path()).out;
            let mut ours = command(VERISUM);
            let digest = format!("blake2b-{length}");
            ours.args(["sum", "-a", &digest]).args(tag).args(["a", "b"]);
            assert_eq!(text(&run(ours, tree.path()).out), text(&theirs));
            std::fs::write(tree.path().join("B2SUMS"), &theirs).unwrap();
            assert_eq!(check(tree.path(), &["B2SUMS"]).code, Some(0), "{length}");
            let mut by_them = Command::new(&b2sum);
            by_them.args(["-c", "B2SUMS"]);
            assert_eq!(run(by_them, tree.path()).code, Some(0));
            std::fs::write(tree.path().join("b"), "abd").unwrap();
            let ended = check(tree.path(), &["B2SUMS"]);
            std::fs::write(tree.path().join("b"), "abc").unwrap();
            assert_eq!((ended.code, text(&ended.out)), (Some(1), "a: OK\nb: FAILED\n"), "{length}");
        }
    }
}

#[test]
fn what_nobody_here_can_check_is_named_and_no_success() {
    let tree = folder(&[b"a"]);
    let check = |list: &str, options: &[&str]| {
        std::fs::write(tree.path().join("list"), list).unwrap();
        let ended = check(tree.path(), &[options, &["list"]].concat());
        (ended.code, String::from_utf8(ended.err).unwrap(), String::from_utf8(ended.out).unwrap())
    };
    for line in [format!("GOST (a) = {ABC}"), "1219131554 3 a".to_string(), "00036     1 a".to_string()] {
        let (code, err, out) = check(&format!("MD5 (a) = {ABC}\n{line}\n"), &["--warn"]);
        assert_eq!((code, &*out), (Some(3), "a: OK\n"), "{err}");
        assert!(err.contains("list: 2: unknown digest: "), "{err}");
        assert!(err.contains("WARNING: 1 line has an unknown digest: "), "{err}");
        assert!(err.contains("1 verified, 1 of unknown digests"), "{err}");
        let (code, err, _) = check(&format!("{line}\n"), &["--status"]);
        assert_eq!((code, &*err), (Some(3), ""));
    }
    assert_eq!(check(&format!("MD5 (a) = {OTHER}\nGOST (a) = {ABC}\n"), &[]).0, Some(1));
    let (_, _, out) = check(&format!("GOST (a) = {ABC}\n"), &["--json"]);
    assert!(out.contains("\"unknown_digests\":1"), "{out}");
}

#[test]
fn what_was_not_verified_is_no_success() {
    let tree = folder(&[b"a"]);
    let code = |list: String| {
        std::fs::write(tree.path().join("list"), format!("#mtree\n{list}\n")).unwrap();
        check(tree.path(), &["list"]).code
    };
    assert_eq!(code("a type=file size=3 cksum=123".into()), Some(3));
    assert_eq!(code("a type=file size=3 skein256digest=00".into()), Some(3));
    assert_eq!(code(format!("a size=3 cksum=123 md5digest={ABC}")), Some(0));
    assert_eq!(code("/set sha256digest=00\na type=file size=3".into()), Some(1));
    assert_eq!(code("a type=file size=3".into()), Some(1));
}

#[test]
fn a_line_with_a_name_that_is_too_long_says_so() {
    let tree = folder(&[b"a"]);
    let list = format!("#mtree\na md5={ABC}\n./{} md5={ABC}\n", "n".repeat(4100));
    std::fs::write(tree.path().join("list"), list).unwrap();
    let ended = check(tree.path(), &["-w", "list"]);
    let said = "verisum: list: 3: improperly formatted: a name of more than 4095 bytes\n";
    assert!(ended.code == Some(0) && text(&ended.err).starts_with(said), "{}", text(&ended.err));
}

#[test]
fn entries_without_a_digest_are_compared_by_what_can_be_seen() {
    let tree = folder(&[b"a", b"sub/b", b"c"]);
    std::os::unix::fs::symlink("a", tree.path().join("link")).unwrap();
    let check = |lines: &[&str], options: &[&str]| {
        std::fs::write(tree.path().join("list"), format!("#mtree\n{}\n", lines.join("\n"))).unwrap();
        let ended = check(tree.path(), &[options, &["list"]].concat());
        (ended.code, String::from_utf8(ended.err).unwrap(), String::from_utf8(ended.out).unwrap())
    };
    let c = format!("./c size=3 md5digest={ABC}");
    let good = [
        "./sub type=dir",
        "./a type=file size=3",
        "./sub/b size=3",
        &c,
        "./link type=link",
        "./gone optional size=1",
    ];
    let (code, err, out) = check(&good, &[]);
    assert_eq!((code, &*out), (Some(0), "./a: OK (size only)\n./sub/b: OK (size only)\n./c: OK\n"));
    assert!(err.ends_with("1 verified, 2 by size only, 2 by presence only\n"), "{err}");
    assert_eq!(check(&good, &["--quiet"]), (Some(0), String::new(), String::new()));
    for (line, code, said) in [
        ("./a size=4", 1, "./a: has 3 bytes, listed with 4"),
        ("./a type=dir", 1, "./a: is a file, listed as a directory"),
        ("./sub type=file size=3", 1, "./sub: is a directory, listed as a file"),
        ("./a type=link", 1, "./a: is a file, listed as a symbolic link"),
        ("./nowhere size=3", 3, "./nowhere: No such file or directory"),
        ("./nowhere type=dir", 3, "./nowhere: No such file or directory"),
    ] {
        let (found, err, _) = check(&[line, &c], &[]);
        assert_eq!(found, Some(code), "{line}: {err}");
        assert!(err.contains(said), "{line}: {err}");
    }
    assert_eq!(check(&["./nowhere size=3", &c], &["--ignore-missing"]).0, Some(0));
}

#[test]
fn a_length_that_is_not_the_listed_one_needs_no_digest() {
    let tree = folder(&[b"a"]);
    let check = |size: u64, options: &[&str]| {
        let list = format!("%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n{size},{ABC},./a\n");
        std::fs::write(tree.path().join("list"), list).unwrap();
        let ended = check(tree.path(), &[options, &["list"]].concat());
        (ended.code, String::from_utf8(ended.err).unwrap(), String::from_utf8(ended.out).unwrap())
    };
    assert_eq!(check(3, &[]).0, Some(0));
    let (code, err, out) = check(4, &[]);
    assert_eq!((code, &*out), (Some(1), "./a: FAILED\n"));
    assert!(err.contains("./a: has 3 bytes, listed with 4\n"), "{err}");
    let (code, _, out) = check(4, &["--json"]);
    assert_eq!(code, Some(1));
    assert!(out.contains(r#""listed":{"size":4,"#) && out.contains(r#""found":{"size":3}"#), "{out}");
    assert_eq!(check(4, &["--status"]).2, "");
    // It is not even opened.
    std::fs::remove_file(tree.path().join("a")).unwrap();
    let sparse = std::fs::File::create(tree.path().join("a")).unwrap();
    std::io::Write::write_all(&mut &sparse, b"abc").unwrap();
    sparse.set_len(1 << 36).unwrap();
    sparse.sync_all().unwrap();
    assert_eq!(check(3, &[]).0, Some(1));
}

#[test]
fn extra_files_may_be_excluded() {
    let tree = folder(&[b"tree/a", b"tree/b.tmp", b"tree/c"]);
    std::fs::write(tree.path().join("list"), format!("{ABC}  tree/a\n")).unwrap();
    std::fs::write(tree.path().join("patterns"), "*.tmp\n").unwrap();
    let ended = check(
        tree.path(),
        &[
            "--strict-tree",
            "tree",
            "--exclude",
            "c",
            "--exclude-from",
            "patterns",
            "--limit",
            "1GB/s",
            "list",
        ],
    );
    assert_eq!((ended.code, text(&ended.out)), (Some(0), "tree/a: OK\n"));
    let ended = check(tree.path(), &["--strict-tree", "tree", "--exclude", "*.tmp", "-j", "1", "list"]);
    assert_eq!((ended.code, text(&ended.out)), (Some(1), "tree/a: OK\ntree/c: EXTRA\n"));
}

#[test]
fn listed_files_may_be_excluded() {
    let tree = folder(&[b"tree/a", b"tree/bad", b"tree/cache/x", b"tree/top"]);
    let names = ["./tree/a", "tree/bad", "tree/cache/gone", "../none/skipped", "tree/top"];
    let bare = |name: &&str| format!("{} *{name}\n", if *name == "tree/bad" { OTHER } else { ABC });
    std::fs::write(tree.path().join("list"), names.iter().map(bare).collect::<String>()).unwrap();
    // `.*` is for no `.` or `..`, and `/top` for no file below another directory.
    let patterns = ["--exclude=bad", "--exclude=cache/", "--exclude=skip*", "--exclude=.*", "--exclude=/top"];
    let ended = check(tree.path(), &[&patterns[..], &["--strict-tree=tree", "list"]].concat());
    assert_eq!((ended.code, text(&ended.out)), (Some(0), "./tree/a: OK\ntree/top: OK\n"));
    assert_eq!(text(&ended.err), "verisum: 2 verified, 3 left out\n");
    let ended = check(tree.path(), &["--json", "--exclude=*", "list"]);
    assert_eq!(ended.code, Some(1));
    assert!(text(&ended.out).contains(r#""left_out":5"#), "{}", text(&ended.out));
    assert_eq!(text(&ended.err), "verisum: list: no file was verified\n");
    let tree_list = "#mtree\ncache type=dir\n    x type=file\n..\na type=file size=3\n";
    std::fs::write(tree.path().join("mtree"), tree_list).unwrap();
    let ended = check(tree.path(), &["-C", "tree", "--exclude=cache/", "mtree"]);
    assert!(text(&ended.err).ends_with("2 left out\n"), "{}", text(&ended.err));
    std::fs::write(tree.path().join("tree/bagit.txt"), "BagIt-Version: 1.0\n").unwrap();
    std::fs::create_dir(tree.path().join("tree/data")).unwrap();
    std::fs::write(tree.path().join("tree/data/a"), "abc").unwrap();
    std::fs::write(tree.path().join("tree/manifest-md5.txt"), format!("{ABC}  data/a\n{ABC}  data/b\n"))
        .unwrap();
    let ended = check(tree.path(), &["--exclude=/data/b", "tree"]);
    assert_eq!((ended.code, text(&ended.err)), (Some(0), "verisum: 1 verified, 1 left out\n"));
}

#[test]
fn a_list_of_symbolic_links_gets_its_digest_recognized() {
    let Some(b2sum) = require_tool("b2sum") else { return };
    let folder = folder(&[b"f"]);
    std::os::unix::fs::symlink("f", folder.path().join("latest")).unwrap();
    let mut theirs = Command::new(b2sum);
    theirs.arg("latest");
    std::fs::write(folder.path().join("list"), run(theirs, folder.path()).out).unwrap();
    let ended = check(folder.path(), &["list"]);
    assert_eq!((ended.code, text(&ended.out)), (Some(0), "latest: OK\n"), "{}", text(&ended.err));
}

#[test]
fn what_a_link_to_the_tree_leads_to_is_listed() {
    let folder = folder(&[b"q/a", b"q/below/b", b"q/extra"]);
    std::os::unix::fs::symlink("q", folder.path().join("ql")).unwrap();
    let list = |tree: &str| format!("{ABC}  {tree}/a\n{ABC}  {tree}/below/b\n");
    for (listed, named) in [("q", "ql"), ("q", "ql/"), ("ql", "q"), ("ql", "ql"), ("q", "q/../ql")] {
        std::fs::write(folder.path().join("list"), list(listed)).unwrap();
        let ended = check(folder.path(), &["--quiet", "--strict-tree", named, "list"]);
        let extra = format!("{}/extra: EXTRA\n", named.trim_end_matches('/'));
        assert_eq!((ended.code, text(&ended.out)), (Some(1), &*extra), "{listed} {named}");
    }
    std::fs::write(folder.path().join("list"), list(".")).unwrap();
    let ended = check(folder.path(), &["--quiet", "-C", "ql", "--strict-tree", "q", "list"]);
    assert_eq!((ended.code, text(&ended.out)), (Some(1), "q/extra: EXTRA\n"));
}
