//! `verisum sum` and the programs that it answers to print what theirs print, byte for byte.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Ended, VERISUM, command, data_file, verisum, wait_until, with_pipe};
use proptest::prelude::*;
use rustix::process::Signal;
use verisum_testkit::{Run, paint, require_python, require_root, require_tool};

/// Names that trouble those who print, split or escape them.
const NAMES: [&[u8]; 12] = [
    b"plain",
    b"two words",
    b" leading",
    b"line\nfeed",
    b"carriage\rreturn",
    b"-dash",
    b"--check",
    b"quote'\"`$",
    b"back\\slash",
    b"\xff\xfe invalid",
    b"tab\t*?[",
    "größer".as_bytes(),
];

/// The digest by our name, and who else computes it in the same words.
const PEERS: [(&str, &[&str]); 16] = [
    ("md5", &["md5sum"]),
    ("sha1", &["sha1sum"]),
    ("sha224", &["sha224sum"]),
    ("sha256", &["sha256sum"]),
    ("sha384", &["sha384sum"]),
    ("sha512", &["sha512sum"]),
    ("blake2b512", &["b2sum"]),
    ("sm3", &["cksum", "-a", "sm3", "--untagged"]),
    ("blake3", &["b3sum"]),
    ("xxh32", &["xxhsum", "-H0"]),
    ("xxh64", &["xxhsum", "-H1"]),
    ("xxh3-128", &["xxhsum", "-H2"]),
    ("sha3-256", &["openssl", "dgst", "-r", "-sha3-256"]),
    ("blake2s256", &["openssl", "dgst", "-r", "-blake2s256"]),
    ("sha512-256", &["openssl", "dgst", "-r", "-sha512-256"]),
    ("ripemd160", &["openssl", "dgst", "-r", "-ripemd160"]),
];

#[test]
fn values_are_those_of_every_peer() {
    let folder = odd_files();
    let files = ["plain", "two words", "empty", "large", "sparse"];
    for (digest, peer) in PEERS {
        let Some(tool) = require_tool(peer[0]) else { continue };
        let ours = verisum_in(folder.path(), ["sum", "-a", digest].iter().chain(&files));
        let theirs =
            Command::new(tool).args(&peer[1..]).args(files).current_dir(folder.path()).output().unwrap();
        // OpenSSL marks every file as binary.
        let theirs = String::from_utf8(theirs.stdout).unwrap().replace(" *", "  ");
        assert_eq!(ours.clean(), theirs, "{digest}");
    }
    for (digest, option) in
        [("crc32", "--crc32"), ("crc32c", "--crc32c"), ("whirlpool", "--whirlpool"), ("md4", "--md4")]
    {
        let Some(rhash) = require_tool("rhash") else { break };
        let theirs = Command::new(rhash)
            .args([option, "--simple"])
            .args(files)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let ours = verisum_in(folder.path(), ["sum", "-a", digest].iter().chain(&files));
        if ours.code == Some(0) {
            assert_eq!(ours.clean(), String::from_utf8(theirs.stdout).unwrap(), "{digest}");
        }
    }
}

#[test]
fn lists_are_those_of_the_coreutils_to_the_byte() {
    let folder = odd_files();
    let links = links(folder.path());
    let names: Vec<&OsStr> = NAMES.iter().map(|name| OsStr::from_bytes(name)).collect();
    for (program, options) in [
        ("md5sum", &[][..]),
        ("sha1sum", &["-b"]),
        ("sha224sum", &["-t", "-z"]),
        ("sha256sum", &["--tag"]),
        ("sha384sum", &["--tag", "-z"]),
        ("sha512sum", &[]),
        ("b2sum", &["--tag"]),
        ("b2sum", &["-l", "512"]),
        ("cksum", &["-a", "sha256"]),
        ("cksum", &["-a", "sm3", "--untagged"]),
        ("cksum", &["-a", "blake2b"]),
    ] {
        let Some(tool) = require_tool(program) else { continue };
        let run = |program: &Path| {
            let mut command = command(program.to_str().unwrap());
            command
                .args(options)
                .args(["--"])
                .args(&names)
                .arg("missing")
                .arg(".")
                .arg("it is not")
                .arg("it's not");
            let output = command.current_dir(folder.path()).env("LC_ALL", "C.UTF-8").output().unwrap();
            (output.status.code(), output.stdout, output.stderr)
        };
        let (code, ours, errors) = run(&links.join(program));
        let (expected_code, theirs, their_errors) = run(&tool);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs), "{program} {options:?}");
        assert_eq!(ours, theirs);
        assert_eq!(code, expected_code);
        // Their name of themselves is how they were called.
        let errors = String::from_utf8_lossy(&errors).into_owned();
        assert_eq!(errors, String::from_utf8_lossy(&their_errors).replace(tool.to_str().unwrap(), program));
    }
}

#[test]
fn lists_are_checked_as_the_coreutils_do() {
    let folder = odd_files();
    let links = links(folder.path());
    let names: Vec<&OsStr> = NAMES.iter().map(|name| OsStr::from_bytes(name)).collect();
    for program in ["md5sum", "sha256sum", "b2sum"] {
        let Some(tool) = require_tool(program) else { continue };
        let made = command(tool.to_str().unwrap())
            .arg("--")
            .args(&names)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let mut list = made.stdout;
        fs::write(folder.path().join("good"), &list).unwrap();
        // One digit of the first line is wrong, one file is missing, one line is none.
        list[0] = if list[0] == b'0' { b'1' } else { b'0' };
        let digits = list.iter().position(|byte| *byte == b' ').unwrap();
        let missing = [&list[..digits], b"  missing\n"].concat();
        fs::write(folder.path().join("bad"), [&list[..], &missing, b"no line\n"].concat()).unwrap();
        fs::write(folder.path().join("none"), "no line\n").unwrap();
        for options in [&[][..], &["--quiet"], &["--status"], &["--ignore-missing"], &["--strict"], &["-w"]] {
            for lists in [&["good"][..], &["bad"], &["none"], &["good", "bad"], &["no-list"]] {
                let run = |program: &Path| {
                    let mut command = command(program.to_str().unwrap());
                    command.arg("-c").args(options).args(lists).current_dir(folder.path());
                    let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
                    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                    (output.status.code(), text(output.stdout), text(output.stderr))
                };
                let theirs = run(&tool);
                let errors = theirs.2.replace(tool.to_str().unwrap(), program);
                assert_eq!(run(&links.join(program)), (theirs.0, theirs.1, errors), "{options:?} {lists:?}");
            }
        }
    }
}

#[test]
fn other_programs_print_what_theirs_print() {
    let folder = odd_files();
    let links = links(folder.path());
    for (program, options) in [
        ("b3sum", &[][..]),
        ("xxhsum", &[]),
        ("xxhsum", &["-H0"]),
        ("xxh64sum", &[]),
        ("xxh128sum", &["--tag"]),
    ] {
        let Some(tool) = require_tool(program) else { continue };
        let files = ["plain", "two words", "back\\slash", "large", "empty"];
        let files = if program == "b3sum" { &files[..] } else { &["plain", "two words", "large", "empty"] };
        let run = |program: &Path| {
            let mut command = command(program.to_str().unwrap());
            Ended::of(command.args(options).args(files).current_dir(folder.path()).output().unwrap())
        };
        assert_eq!(run(&links.join(program)).clean(), run(&tool).out(), "{program} {options:?}");
        // Standard input.
        let from_pipe = |program: &Path| {
            with_pipe(command(program.to_str().unwrap()).args(options), b"some bytes").stdout
        };
        assert_eq!(from_pipe(&links.join(program)), from_pipe(&tool), "{program} {options:?}");
    }
}

#[test]
fn several_digests_are_lines_of_their_own() {
    let folder = odd_files();
    let out =
        verisum_in(folder.path(), ["sum", "-a", "md5", "-a", "sha256", "-a", "crc32", "plain", "large"])
            .clean();
    let mut expected = String::new();
    for file in ["plain", "large"] {
        for digest in ["md5", "sha256", "crc32"] {
            expected += &verisum_in(folder.path(), ["sum", "-a", digest, file]).clean();
        }
    }
    assert_eq!(out, expected);
}

#[test]
fn trees_come_in_the_order_of_sorted_paths() {
    let folder = odd_files();
    fs::create_dir_all(folder.path().join("d/e")).unwrap();
    for name in ["d/x", "d/e/x", "d.txt", "d0"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    symlink("plain", folder.path().join("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let Some(shell) = require_tool("sh") else { return };
    let pipeline = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum -z --";
    let theirs =
        Command::new(shell).args(["-c", pipeline]).current_dir(folder.path()).output().unwrap().stdout;
    for threads in ["1", "4"] {
        let ours = verisum_in(folder.path(), ["sum", "-r", "-a", "md5", "-z", "-j", threads, "."]);
        assert_eq!((ours.code, ours.stderr.as_str()), (Some(0), ""));
        assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs));
    }
    // Without names it is the working directory; other orders have the same lines.
    let sorted = |arguments: &[&str]| {
        let out = verisum_in(folder.path(), ["sum", "-r", "-a", "md5", "-z"].iter().chain(arguments));
        let mut lines: Vec<Vec<u8>> = out.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    for order in ["name", "auto", "inode", "extent", "none"] {
        assert_eq!(sorted(&["--order", order]), sorted(&["."]));
    }
    let out = verisum_in(folder.path(), ["sum", "-r", "--exclude", "*", "--exclude", "!d.txt", "."]).clean();
    assert!(out.ends_with("  ./d.txt\n") && out.lines().count() == 1, "{out}");
    fs::write(folder.path().join("patterns"), "# what stays out\n/d/\n*\n!d0\n").unwrap();
    let out = verisum_in(folder.path(), ["sum", "-r", "--exclude-from", "patterns", "."]).clean();
    assert!(out.ends_with("  ./d0\n") && out.lines().count() == 1, "{out}");
    let out = verisum_in(folder.path(), ["sum", "-rL", "link", "--exclude", "x", "d"]).clean();
    assert!(out.ends_with("  link\n") && out.lines().count() == 1, "{out}");
}

#[test]
fn names_may_begin_below_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a/b/c", "a/ d", "e"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let names = |arguments: &[&str]| {
        let words = [&["sum", "--relative"], arguments].concat();
        let out = verisum_in(folder.path(), words).clean();
        out.lines().map(|line| line.split_once("  ").unwrap().1.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["-r", "a"]), [" d", "b/c"]);
    assert_eq!(names(&["-r", "./a/", "e"]), [" d", "b/c", "e"]);
    assert_eq!(names(&["-r"]), ["a/ d", "a/b/c", "e"]);
    assert_eq!(names(&["-r", folder.path().to_str().unwrap()]), ["a/ d", "a/b/c", "e"]);
    assert_eq!(names(&["a/b/c", "e"]), ["c", "e"]);
    let listed = verisum_in(folder.path(), ["sum", "--relative", "--files0-from", "e"]);
    assert_eq!(listed.code, Some(2), "{}", listed.stderr);
}

#[test]
fn names_come_from_a_list_too() {
    let folder = odd_files();
    let list: Vec<u8> = NAMES.join(&b"\0"[..]);
    fs::write(folder.path().join("list"), &list).unwrap();
    let named =
        verisum_in(folder.path(), [&b"sum"[..], b"--"].into_iter().chain(NAMES).map(OsStr::from_bytes));
    let listed = verisum_in(folder.path(), ["sum", "--files0-from", "list"]);
    assert_eq!(named.stdout, listed.stdout);
    assert_eq!(named.stdout.split(|byte| *byte == b'\n').count(), NAMES.len() + 1);
    let piped =
        with_pipe(command(VERISUM).args(["sum", "--files0-from=-"]).current_dir(folder.path()), &list);
    assert_eq!(named.stdout, piped.stdout);
    verisum(["sum", "--files0-from", "/no/list"])
        .failed(3, "verisum: /no/list: open: No such file or directory");
}

#[test]
fn failures_are_lines_and_a_code_and_the_rest_is_done() {
    let folder = odd_files();
    let ended = verisum_in(folder.path(), ["sum", "plain", "missing", ".", "two words"]);
    assert_eq!(ended.code, Some(3));
    assert_eq!(
        ended.stderr,
        "verisum: missing: open: No such file or directory\nverisum: .: open: Is a directory\n"
    );
    assert_eq!(ended.out().lines().count(), 2);
    verisum(["sum", "-a", "sha265"]).failed(2, "verisum: unknown digest: sha265 (did you mean sha256?)");
    verisum(["sum", "--format", "sfv"])
        .failed(2, "verisum: the sfv format has no place for sha256 (only -a crc32 fits)");
    verisum(["sum", "--limit", "fast"]).failed(
        2,
        "verisum: --limit: fast: must be a number of bytes a second and its unit, as 200MB/s or 64MiB/s",
    );
    let full = command(VERISUM)
        .arg("sum")
        .arg(folder.path().join("plain"))
        .stdout(fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&full.stderr),
        "verisum: standard output: write: No space left on device\n"
    );
}

#[test]
fn pipes_and_devices_are_read_when_they_are_named() {
    let out = with_pipe(command(VERISUM).args(["sum", "-a", "md5"]), b"abc");
    assert_eq!(out.clean(), "900150983cd24fb0d6963f7d28e17f72  -\n");
    let out = with_pipe(command(VERISUM).args(["sum", "-a", "md5", "/dev/stdin", "/dev/null"]), b"abc");
    assert_eq!(
        out.clean(),
        "900150983cd24fb0d6963f7d28e17f72  /dev/stdin\nd41d8cd98f00b204e9800998ecf8427e  /dev/null\n"
    );
    // A file of unknown length.
    let out = verisum(["sum", "-a", "md5", "/proc/self/mounts"]).clean();
    assert!(!out.starts_with("d41d8cd98f"), "{out}");
}

#[test]
fn every_format_is_written() {
    let folder = odd_files();
    for (format, start) in [
        ("gnu", ""),
        ("bsd", "CRC32 (plain) = "),
        ("sfv", "; Generated by verisum\nplain "),
        ("mtree", "#mtree\n"),
        ("bagit", ""),
        ("json", "{"),
    ] {
        let digest = if format == "mtree" { "sha256" } else { "crc32" };
        let out = verisum_in(folder.path(), ["sum", "-a", digest, "--format", format, "plain"]).clean();
        assert!(out.starts_with(start) && out.contains("plain"), "{format}: {out}");
    }
    let json = verisum_in(folder.path(), ["sum", "--json", "-a", "md5", "-a", "sha256", "plain"]).clean();
    let row: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(row.is_object() && json.lines().count() == 1);
    let tagged = verisum_in(folder.path(), ["sum", "--tag", "plain"]).clean();
    assert_eq!(tagged, verisum_in(folder.path(), ["sum", "--format", "bsd", "plain"]).clean());
}

#[test]
fn links_touch_nothing_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("md5sum"), "mine").unwrap();
    let ended = verisum([OsStr::new("links"), folder.path().as_os_str()]);
    assert_eq!(ended.code, Some(3));
    assert_eq!(ended.stderr, format!("verisum: {}/md5sum: link: File exists\n", folder.path().display()));
    assert_eq!(fs::read(folder.path().join("md5sum")).unwrap(), b"mine");
    assert!(ended.out().lines().any(|line| line.ends_with("/b3sum")));
    // The directory is made, where nothing else is in its place.
    let bin = folder.path().join("new/bin");
    assert_eq!(verisum([OsStr::new("links"), bin.as_os_str()]).clean().lines().count(), 15);
    assert!(fs::symlink_metadata(bin.join("sum")).unwrap().is_symlink());
    assert_eq!(verisum([OsStr::new("links"), bin.as_os_str()]).clean(), "", "they are there");
    let below = folder.path().join("md5sum/bin");
    verisum([OsStr::new("links"), below.as_os_str()])
        .failed(3, &format!("verisum: {}: make directory: Not a directory", below.display()));
}

#[test]
fn links_are_made_through_no_link_of_another_user() {
    if require_root().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("bin")).unwrap();
    for (name, leads) in [("ours", "bin"), ("theirs", "bin"), ("bin/md5sum", "victim")] {
        symlink(leads, path(name)).unwrap();
    }
    for name in ["theirs", "bin/md5sum"] {
        lchown(path(name), Some(65534), Some(65534)).unwrap();
    }
    for name in ["theirs", "theirs/new/bin"] {
        let why = "make directory: a link of another user leads there";
        verisum([OsStr::new("links"), path(name).as_os_str()])
            .failed(3, &format!("verisum: {}: {why}", path(name).display()));
    }
    assert_eq!(fs::read_dir(path("bin")).unwrap().count(), 1);
    let ended = verisum([OsStr::new("links"), path("ours").as_os_str()]);
    assert_eq!(ended.stderr, format!("verisum: {}/md5sum: link: File exists\n", path("ours").display()));
    assert_eq!(fs::read_link(path("bin/md5sum")).unwrap(), Path::new("victim"));
    assert!(path("bin/b3sum").exists() && !path("bin/victim").exists());
}

#[test]
fn digests_may_be_one_list() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "abc").unwrap();
    let one = verisum_in(folder.path(), ["sum", "--tag", "-a", "md5,sha1", "a"]).clean();
    assert_eq!(one, verisum_in(folder.path(), ["sum", "--tag", "-a", "md5", "-a", "sha1", "a"]).clean());
}

#[test]
fn a_signal_asks_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = data_file(folder.path(), "file", 8 << 20);
    let mut child = common::start(command(VERISUM).args(["sum", "--limit", "4MiB/s"]).arg(&path));
    common::wait_for_open(&mut child, &path);
    common::signal(&child, Signal::USR1);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stderr.starts_with("verisum: 0 of 1 file  ") && ended.stderr.contains(" of 8 MiB"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_closed_pipe_ends_it() {
    let folder = odd_files();
    let mut child = common::start(
        command(VERISUM)
            .args(["sum", "--limit", "1MiB/s"])
            .args(["plain", "large"])
            .current_dir(folder.path()),
    );
    drop(child.stdout.take());
    let mut code = None;
    wait_until("it ended", || {
        std::thread::sleep(Duration::from_millis(5));
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Any tree against a list made by Python.
    #[test]
    fn any_tree_is_listed_as_the_oracle_lists_it(
        files in prop::collection::btree_map(
            prop::collection::vec(prop::collection::vec(prop_oneof![1_u8..=46, 48_u8..=255], 1..6), 1..4),
            0_u64..200_000,
            0..25,
        ),
    ) {
        let Some(python) = require_python() else { return Ok(()) };
        let folder = tempfile::tempdir().unwrap();
        for (path, length) in &files {
            // Asked of each name, because a path keeps no dot at its end.
            if path.iter().any(|name| name == b"." || name == b"..") {
                continue;
            }
            let path: PathBuf = path.iter().map(|name| OsStr::from_bytes(name)).collect();
            let path = folder.path().join(path);
            // Where a file stands where a directory should, there is one file less.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
                paint(&path, &[Run::data(*length)]).unwrap();
            }
        }
        let oracle = common::repository().join("reference/tree.py");
        for digest in ["sha256", "md5"] {
            let theirs = Command::new(&python).arg(&oracle).args([digest, "."]).current_dir(folder.path()).output().unwrap();
            prop_assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
            let ours = verisum_in(folder.path(), ["sum", "-r", "-a", digest, "."]);
            prop_assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
        }
    }
}

#[test]
fn few_open_files_are_enough_and_too_few_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..40 {
        let below: PathBuf = (0..index).map(|level| format!("level-{level}")).collect();
        let directory = folder.path().join(format!("{index:02}")).join(below);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("small"), index.to_string()).unwrap();
        data_file(&directory, "large", 70_000);
    }
    let limited = |limit: u32, command: &str| {
        let line = format!("ulimit -n {limit} && exec {VERISUM} {command}");
        Ended::of(Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap())
    };
    let all = verisum_in(folder.path(), ["sum", "-r", "."]);
    assert_eq!(all.stdout.iter().filter(|byte| **byte == b'\n').count(), 80);
    for threads in [1, 2, 16] {
        let few = limited(32, &format!("sum -r -j {threads} ."));
        assert_eq!((few.code, few.stderr.as_str()), (Some(0), ""));
        assert_eq!(few.stdout, all.stdout);
    }
    let too_few = limited(16, "sum -r .");
    assert_eq!(too_few.code, Some(3));
    assert_eq!(too_few.stderr, "verisum: the limit of open files: 16: must be at least 32 (ulimit -n 32)\n");
}

fn verisum_in<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Ended {
    Ended::of(command(VERISUM).args(arguments).current_dir(folder).output().unwrap())
}

/// Files of odd names, an empty one, a large one and one with holes.
fn odd_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (index, name) in NAMES.iter().enumerate() {
        fs::write(folder.path().join(OsStr::from_bytes(name)), vec![b'x'; index * 37]).unwrap();
    }
    fs::write(folder.path().join("empty"), "").unwrap();
    data_file(folder.path(), "large", (3 << 20) + 17);
    paint(&folder.path().join("sparse"), &[Run::data(5000), Run::hole(1 << 20), Run::data(1)]).unwrap();
    folder
}

/// A folder with links to the program beside the others.
fn links(folder: &Path) -> PathBuf {
    let links = folder.join("links-to-verisum");
    fs::create_dir(&links).unwrap();
    assert_eq!(verisum([OsStr::new("links"), links.as_os_str()]).code, Some(0));
    links
}
