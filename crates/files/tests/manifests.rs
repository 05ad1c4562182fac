//! Manifests beside the programs that write and check them: they check what we write, and we read what
//! they write, for every digest that both have and for names of any bytes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output as Ended};

use tempfile::TempDir;
use verisum_digest::Digest;
use verisum_files::store::manifest::{Item, Line, ListFormat, ListOptions, Reader, Writer};
use verisum_files::{Stat, Timestamp};
use verisum_testkit::{require_python, require_tool};

/// Names that lists get wrong.
const NAMES: [&[u8]; 14] = [
    b"plain",
    b"a b",
    b" two  blanks ",
    b"-dash",
    b"--",
    b"#comment",
    b"it's \"quoted\"",
    b"back\\slash\\n",
    b"new\nline",
    b"return\r",
    b"sub/x",
    b"not utf-8 \xff\xfe",
    b"100% = (a) *?[x] ) = y,z",
    b"\\",
];

/// A tree with a file of each name that a program can have in its lists.
struct Tree {
    folder: TempDir,
    names: Vec<&'static [u8]>,
}

impl Tree {
    fn new(fits: fn(&[u8]) -> bool) -> Tree {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let names: Vec<&[u8]> = NAMES.into_iter().filter(|name| fits(name)).collect();
        for name in &names {
            std::fs::write(folder.path().join(OsStr::from_bytes(name)), content(name)).unwrap();
        }
        Tree { folder, names }
    }

    /// What a writer makes of it.
    fn listed(&self, format: ListFormat, digests: &[&str], binary: bool) -> Vec<u8> {
        let digests: Vec<Digest> = digests.iter().map(|name| Digest::find(name).unwrap()).collect();
        let mut writer = Writer::new(format, &digests).unwrap().binary(binary);
        let mut out = Vec::new();
        writer.header(&mut out);
        for name in &self.names {
            let content = content(name);
            let outputs: Vec<_> = digests.iter().map(|digest| digest.hash(&content).unwrap()).collect();
            let file = std::fs::File::open(self.folder.path().join(OsStr::from_bytes(name))).unwrap();
            let stat = Stat::of(&file).unwrap();
            let item = Item {
                name,
                size: content.len() as u64,
                modified: Some(stat.modified),
                mode: None,
                digests: &outputs,
            };
            writer.item(&mut out, &item).unwrap();
        }
        out
    }

    /// Asserts that a list has every file and its digests.
    #[track_caller]
    fn assert_lists(&self, list: &[u8], name: &str, digests: &[&str]) {
        let found = read(list, name);
        let mut expected = BTreeMap::new();
        for name in &self.names {
            for digest in digests {
                let value = Digest::find(digest).unwrap().hash(&content(name)).unwrap();
                expected.insert((name.escape_ascii().to_string(), digest.to_string()), value.to_string());
            }
        }
        assert_eq!(found, expected, "{}", list.escape_ascii());
    }

    /// Runs a program in the tree with the list in a file beside it, whose path takes the place of `LIST`.
    fn run(&self, program: &Path, arguments: &[&str], list: &[u8]) -> Ended {
        let beside = tempfile::tempdir().unwrap();
        let path = beside.path().join("list");
        std::fs::write(&path, list).unwrap();
        let arguments = arguments.iter().map(|word| match *word {
            "LIST" => path.as_os_str(),
            other => OsStr::new(other),
        });
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).env("LC_ALL", "C.UTF-8");
        command.output().unwrap()
    }

    /// What a program prints when it is given all names.
    fn printed(&self, program: &Path, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(program);
        command.args(arguments).args(self.names.iter().map(|name| OsStr::from_bytes(name)));
        let ended = command.current_dir(self.folder.path()).env("LC_ALL", "C.UTF-8").output().unwrap();
        assert!(ended.status.success(), "{}", text(&ended));
        ended.stdout
    }

    /// Asserts that a program finds a list right, and finds it wrong once a file changed.
    #[track_caller]
    fn assert_checked(&self, program: &Path, arguments: &[&str], list: &[u8]) {
        let ended = self.run(program, arguments, list);
        assert!(ended.status.success(), "{}\n{}", list.escape_ascii(), text(&ended));
        let path = self.folder.path().join("plain");
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, "other").unwrap();
        let ended = self.run(program, arguments, list);
        std::fs::write(&path, content(b"plain")).unwrap();
        std::fs::File::open(&path).unwrap().set_modified(time).unwrap();
        assert!(!ended.status.success(), "{} notices nothing", program.display());
    }
}

fn content(name: &[u8]) -> Vec<u8> {
    [b"content of ", name].concat()
}

fn text(ended: &Ended) -> String {
    format!("{}\n{}", ended.stdout.escape_ascii(), ended.stderr.escape_ascii())
}

/// Every digest of every file, by name and digest.
#[track_caller]
fn read(list: &[u8], name: &str) -> BTreeMap<(String, String), String> {
    let mut options = ListOptions::default();
    options.name = name.into();
    let mut reader = Reader::new(list, &options).unwrap();
    let mut found = BTreeMap::new();
    while let Some(line) = reader.line().unwrap() {
        let Line::File(listed) = line else {
            panic!("line {} of {}", reader.number(), list.escape_ascii());
        };
        let name = listed.name.strip_prefix(b"./").unwrap_or(&listed.name);
        for claim in &listed.claims {
            let key = (name.escape_ascii().to_string(), claim.algorithm.to_string());
            found.insert(key, claim.digest.to_string());
        }
    }
    found
}

fn any(_: &[u8]) -> bool {
    true
}

/// Names that stand in a line as they are.
fn one_line(name: &[u8]) -> bool {
    !name.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

#[test]
fn coreutils() {
    for (program, digest) in [
        ("md5sum", "md5"),
        ("sha1sum", "sha1"),
        ("sha224sum", "sha224"),
        ("sha256sum", "sha256"),
        ("sha384sum", "sha384"),
        ("sha512sum", "sha512"),
        ("b2sum", "blake2b512"),
    ] {
        let Some(path) = require_tool(program) else { return };
        let tree = Tree::new(any);
        for (format, binary) in [(ListFormat::Gnu, false), (ListFormat::Gnu, true), (ListFormat::Bsd, false)]
        {
            let list = tree.listed(format, &[digest], binary);
            tree.assert_checked(&path, &["--check", "--strict", "--quiet", "LIST"], &list);
        }
        let hint = format!("{}S", program.to_uppercase());
        for arguments in [&["--"][..], &["-b", "--"], &["--tag", "--"], &["-z", "--"], &["--tag", "-z", "--"]]
        {
            tree.assert_lists(&tree.printed(&path, arguments), &hint, &[digest]);
        }
        // Ours is theirs, to the byte.
        assert_eq!(tree.printed(&path, &["--"]), tree.listed(ListFormat::Gnu, &[digest], false));
        assert_eq!(tree.printed(&path, &["--tag", "--"]), tree.listed(ListFormat::Bsd, &[digest], false));
    }
}

#[test]
fn cksum_of_coreutils() {
    let Some(path) = require_tool("cksum") else { return };
    let tree = Tree::new(any);
    for (name, digest) in [
        ("md5", "md5"),
        ("sha1", "sha1"),
        ("sha224", "sha224"),
        ("sha256", "sha256"),
        ("sha384", "sha384"),
        ("sha512", "sha512"),
        ("blake2b", "blake2b512"),
        ("sm3", "sm3"),
    ] {
        let printed = tree.printed(&path, &["-a", name, "--"]);
        tree.assert_lists(&printed, "list", &[digest]);
        assert_eq!(printed, tree.listed(ListFormat::Bsd, &[digest], false));
        tree.assert_checked(&path, &["--check", "--strict", "LIST"], &printed);
        tree.assert_lists(
            &tree.printed(&path, &["-a", name, "--untagged", "--"]),
            &format!("x.{digest}"),
            &[digest],
        );
    }
    let mixed = tree.listed(ListFormat::Bsd, &["md5", "sm3"], false);
    tree.assert_checked(&path, &["--check", "--strict", "LIST"], &mixed);
}

#[test]
fn b3sum() {
    let Some(path) = require_tool("b3sum") else { return };
    let tree = Tree::new(|name| std::str::from_utf8(name).is_ok() && !name.contains(&b'\r'));
    let list = tree.listed(ListFormat::Gnu, &["blake3"], false);
    assert_eq!(tree.printed(&path, &["--"]), list);
    tree.assert_checked(&path, &["--check", "LIST"], &list);
    tree.assert_lists(&list, "B3SUMS", &["blake3"]);
}

#[test]
fn xxhsum() {
    let Some(path) = require_tool("xxhsum") else { return };
    let tree = Tree::new(|name| one_line(name) && !name.contains(&b'\\'));
    for (option, digest) in [("-H0", "xxh32"), ("-H1", "xxh64"), ("-H2", "xxh3-128"), ("-H3", "xxh3-64")] {
        let hint = format!("list.{digest}");
        tree.assert_lists(&tree.printed(&path, &[option, "--"]), &hint, &[digest]);
        for arguments in [&["--tag", option, "--"][..], &["--tag", "--little-endian", option, "--"]] {
            tree.assert_lists(&tree.printed(&path, arguments), "list", &[digest]);
        }
        tree.assert_checked(
            &path,
            &["--check", "--strict", "LIST"],
            &tree.listed(ListFormat::Bsd, &[digest], false),
        );
        if digest != "xxh3-64" {
            let list = tree.listed(ListFormat::Gnu, &[digest], false);
            tree.assert_checked(&path, &["--check", "--strict", "LIST"], &list);
        }
    }
}

#[test]
fn openssl() {
    let Some(path) = require_tool("openssl") else { return };
    let tree = Tree::new(|name| one_line(name) && !name.starts_with(b"-") && name[0] != b'\\');
    for digest in
        ["md5", "sha1", "sha256", "sha512-256", "sha3-256", "blake2b512", "blake2s256", "ripemd160", "sm3"]
    {
        let option = format!("-{digest}");
        tree.assert_lists(&tree.printed(&path, &["dgst", &option]), "list", &[digest]);
        let hint = format!("list.{digest}");
        tree.assert_lists(&tree.printed(&path, &["dgst", "-r", &option]), &hint, &[digest]);
    }
}

#[test]
fn rhash() {
    let Some(path) = require_tool("rhash") else { return };
    // Its own names of these are others, and `#` begins a comment.
    let fits = |name: &[u8]| {
        one_line(name) && !name.contains(&b'\\') && name[0] != b'#' && name.trim_ascii() == name
    };
    let tree = Tree::new(fits);
    tree.assert_lists(&tree.printed(&path, &["--sfv", "--"]), "list", &["crc32"]);
    tree.assert_lists(&tree.printed(&path, &["--md5", "--sha1", "--"]), "list", &["md5", "sha1"]);
    tree.assert_checked(&path, &["--check", "LIST"], &tree.listed(ListFormat::Sfv, &["crc32"], false));
    for (option, digest) in [
        ("--md4", "md4"),
        ("--md5", "md5"),
        ("--sha1", "sha1"),
        ("--sha224", "sha224"),
        ("--sha256", "sha256"),
        ("--sha384", "sha384"),
        ("--sha512", "sha512"),
        ("--sha3-224", "sha3-224"),
        ("--sha3-256", "sha3-256"),
        ("--sha3-384", "sha3-384"),
        ("--sha3-512", "sha3-512"),
        ("--blake2b", "blake2b512"),
        ("--blake2s", "blake2s256"),
        ("--ripemd160", "ripemd160"),
        ("--whirlpool", "whirlpool"),
        ("--crc32c", "crc32c"),
    ] {
        if Digest::find(digest).is_err() {
            continue;
        }
        let hint = format!("list.{digest}");
        tree.assert_lists(&tree.printed(&path, &[option, "--"]), &hint, &[digest]);
        tree.assert_lists(&tree.printed(&path, &["--bsd", option, "--"]), "list", &[digest]);
        tree.assert_checked(
            &path,
            &["--check", option, "LIST"],
            &tree.listed(ListFormat::Gnu, &[digest], false),
        );
        tree.assert_checked(&path, &["--check", "LIST"], &tree.listed(ListFormat::Bsd, &[digest], false));
    }
}

#[test]
fn hashdeep() {
    let Some(path) = require_tool("hashdeep") else { return };
    let tree = Tree::new(one_line);
    let digests =
        ["md5", "sha1", "sha256", "whirlpool"].map(|name| Digest::find(name).is_ok().then_some(name));
    let digests: Vec<&str> = digests.into_iter().flatten().collect();
    let columns = digests.join(",");
    tree.assert_lists(&tree.printed(&path, &["-l", "-c", &columns, "--"]), "list", &digests);
    let list = tree.listed(ListFormat::Hashdeep, &digests, false);
    tree.assert_checked(&path, &["-a", "-r", "-l", "-k", "LIST", "."], &relative(&tree, &digests));
    tree.assert_lists(&list, "list", &digests);
    let Some(path) = require_tool("md5deep") else { return };
    tree.assert_lists(&tree.printed(&path, &["-l", "--"]), "list", &["md5"]);
}

/// A list of names as hashdeep finds them below `.`.
fn relative(tree: &Tree, digests: &[&str]) -> Vec<u8> {
    let list = tree.listed(ListFormat::Hashdeep, digests, false);
    let mut out = Vec::new();
    for line in list.split_inclusive(|byte| *byte == b'\n') {
        let mut columns: Vec<&[u8]> = line.splitn(digests.len() + 2, |byte| *byte == b',').collect();
        let name = columns.pop().unwrap();
        out.extend(columns.iter().flat_map(|column| [column, &b","[..]].concat()));
        if line[0].is_ascii_digit() {
            out.extend_from_slice(b"./");
        }
        out.extend_from_slice(name);
    }
    out
}

#[test]
fn mtree_of_netbsd() {
    let Some(path) = require_tool("mtree") else { return };
    let tree = Tree::new(any);
    let digests = ["md5", "sha1", "sha256", "sha384", "sha512", "ripemd160"];
    let keywords = "type,size,time,md5,sha1,sha256,sha384,sha512,rmd160";
    let ended = tree.run(&path, &["-c", "-k", keywords, "-p", "."], b"");
    assert!(ended.status.success(), "{}", text(&ended));
    tree.assert_lists(&ended.stdout, "list", &digests);
    // Directories are no part of our lists.
    let list = tree.listed(ListFormat::Mtree, &digests, false);
    tree.assert_checked(&path, &["-e", "-f", "LIST", "-p", "."], &list);
    tree.assert_lists(&list, "list", &digests);
}

#[test]
fn mtree_of_libarchive() {
    let Some(path) = require_tool("bsdtar") else { return };
    let tree = Tree::new(any);
    let digests = ["md5", "sha1", "sha256", "sha384", "sha512", "ripemd160"];
    let options = "--options=mtree:md5,mtree:sha1,mtree:sha256,mtree:sha384,mtree:sha512,mtree:rmd160";
    for more in ["", ",mtree:use-set", ",mtree:indent"] {
        let ended = tree.run(&path, &["-cf", "-", "--format=mtree", &[options, more].concat(), "."], b"");
        assert!(ended.status.success(), "{}", text(&ended));
        tree.assert_lists(&ended.stdout, "list", &digests);
    }
    let ended = tree.run(&path, &["-tf", "LIST"], &tree.listed(ListFormat::Mtree, &digests, false));
    assert!(ended.status.success(), "{}", text(&ended));
    // The directory itself, and the one in it.
    assert_eq!(ended.stdout.iter().filter(|byte| **byte == b'\n').count(), tree.names.len() + 2);
}

#[test]
fn the_reference() {
    let Some(path) = require_python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/manifests.py");
    let script = script.to_str().unwrap();
    let tree = Tree::new(any);
    let lines = Tree::new(one_line);
    let bag = Tree::new(|name| name[0] != b' ');
    let trimmed = Tree::new(|name| one_line(name) && name.trim_ascii() == name);
    for (format, tree, digests) in [
        (ListFormat::Gnu, &tree, &["md5", "sha256"][..]),
        (ListFormat::Bsd, &tree, &["md5", "sha256", "blake2b512"]),
        (ListFormat::Hashdeep, &lines, &["md5", "sha256"]),
        (ListFormat::Mtree, &tree, &["md5", "sha256"]),
        (ListFormat::Bagit, &bag, &["sha256"]),
        (ListFormat::Json, &tree, &["md5", "sha256"]),
        (ListFormat::Sfv, &trimmed, &["crc32"]),
    ] {
        let list = tree.listed(format, digests, false);
        tree.assert_checked(&path, &[script, "check", format.name(), "LIST"], &list);
        let words = [script, "write", format.name(), &digests.join(",")];
        let printed = tree.printed(&path, &words);
        if format == ListFormat::Bagit {
            // Only the name of a bag's manifest tells what it is.
            assert_eq!(printed, list);
        } else {
            tree.assert_lists(&printed, if format == ListFormat::Sfv { "x.sfv" } else { "list" }, digests);
        }
    }
}

#[test]
fn a_time_is_written_as_it_is_read() {
    let tree = Tree::new(|name| name == b"plain");
    let list = tree.listed(ListFormat::Mtree, &["md5"], false);
    let mut reader = Reader::new(&list[..], &ListOptions::default()).unwrap();
    let Some(Line::File(root)) = reader.line().unwrap() else { panic!("the directory is listed") };
    assert_eq!(root.name, b".");
    let Some(Line::File(listed)) = reader.line().unwrap() else { panic!("a file is listed") };
    let file = std::fs::File::open(tree.folder.path().join("plain")).unwrap();
    let Timestamp { seconds, nanoseconds } = Stat::of(&file).unwrap().modified;
    let found = listed.modified.unwrap();
    assert_eq!((found.seconds, found.nanoseconds), (seconds, nanoseconds));
}
