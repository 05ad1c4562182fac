//! Names of files: any bytes come out so that they can be read back.

use crate::common;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use common::{BLKSUM, Ended, VERISUM, command};

const NAMES: [&[u8]; 12] = [
    b"plain.img",
    b" two  words ",
    b"it's \"quoted\"",
    b"two\nlines\n",
    b"back\\slash",
    b"carriage\rreturn",
    b"tab\tand\x1b[31mcolour",
    b"invalid \xff\xfe UTF-8",
    b"--block-size",
    b"-a",
    b"*.img",
    "größer-磁盘".as_bytes(),
];

/// A folder with a file of 512 zeros for each name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        std::fs::write(folder.path().join(OsStr::from_bytes(name)), [0; 512]).unwrap();
    }
    folder
}

const ZEROS: &str = "7618b538a2a9b879ce5924dd79d727db2ec5b9f9519d1ff010a9366b9e80ec52";

fn run(command: &mut Command, folder: &tempfile::TempDir) -> Ended {
    Ended::of(command.current_dir(folder.path()).output().unwrap())
}

#[test]
fn text_has_the_names_as_sha256sum_prints_them() {
    let folder = folder();
    let names = NAMES.map(OsStr::from_bytes);
    let ours = run(command(VERISUM).args(["image", "sum", "--untagged", "--"]).args(names), &folder);
    assert_eq!((ours.code, ours.stderr.as_str()), (Some(0), ""));
    let Some(sha256sum) = verisum_testkit::require_tool("sha256sum") else { return };
    let theirs = run(command(sha256sum.to_str().unwrap()).arg("--").args(names), &folder);
    // The same but for the values.
    let hex_of_zeros = b"076a27c79e5ace2a3d47f9dd2e83e4ff6ea8872b3c2218f66c92b89b55f36560";
    let mut expected = theirs.stdout;
    let at = |bytes: &[u8]| bytes.windows(64).position(|window| window == hex_of_zeros);
    while let Some(place) = at(&expected) {
        expected.splice(place..place + 64, ZEROS.bytes());
    }
    assert_eq!(OsString::from_vec(ours.stdout), OsString::from_vec(expected));
}

#[test]
fn blksum_has_the_names_as_they_are() {
    let folder = folder();
    for name in NAMES {
        let ended = run(command(BLKSUM).arg("--").arg(OsStr::from_bytes(name)), &folder);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert_eq!(ended.stdout, [ZEROS.as_bytes(), b"  ", name, b"\n"].concat());
    }
}

#[test]
fn json_has_every_byte_of_the_names() {
    let folder = folder();
    let names = NAMES.map(OsStr::from_bytes);
    let out = run(command(VERISUM).args(["image", "sum", "--untagged", "--json", "--"]).args(names), &folder)
        .clean();
    assert_eq!(out.lines().count(), NAMES.len());
    for (line, name) in out.lines().zip(NAMES) {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["digest"], ZEROS);
        match std::str::from_utf8(name) {
            Ok(name) => {
                assert_eq!(record["path"], name);
                assert!(record.get("path_bytes_hex").is_none());
            }
            Err(_) => {
                assert_eq!(record["path"], "invalid \u{fffd}\u{fffd} UTF-8");
                assert_eq!(record["path_bytes_hex"], "696e76616c696420fffe205554462d38");
            }
        }
    }
}

#[test]
fn messages_are_one_line_whatever_the_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        let name = OsStr::from_bytes(name);
        let ended = run(command(VERISUM).args(["image", "sum", "--untagged", "--"]).arg(name), &folder);
        assert_eq!((ended.code, ended.stdout.len()), (Some(3), 0));
        assert_eq!(ended.stderr.lines().count(), 1);
        assert!(ended.stderr.ends_with(": open: No such file or directory\n"), "{}", ended.stderr);
        assert!(!ended.stderr.trim_end().contains(char::is_control), "{:?}", ended.stderr);
        let blksum = run(command(BLKSUM).arg("--").arg(name), &folder);
        assert_eq!(blksum.code, Some(1));
        assert_eq!(blksum.stderr, ended.stderr.replacen("verisum", "blksum", 1));
    }
    // A shell gives back the name that a message has.
    let ended = run(command(VERISUM).args(["image", "sum", "--untagged", "a\nb'\\"]), &folder);
    let name = ended.stderr.strip_prefix("verisum: ").unwrap().split(": open").next().unwrap().to_string();
    let echo = format!("printf %s {name}");
    assert_eq!(run(command("bash").args(["-c", &echo]), &folder).stdout, b"a\nb'\\");
}

#[test]
fn an_empty_name_is_no_file() {
    common::image_sum([""]).failed(3, "verisum: '': open: No such file or directory");
    common::blksum([""]).failed(1, "blksum: '': open: No such file or directory");
}
