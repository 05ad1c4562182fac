//! Digests made of blocks, beside the programs that are their source.

mod common;

use std::path::Path;
use std::process::Command;

use common::{data_file, verisum};
use verisum_testkit::require_tool;

fn ours(name: &str, path: &Path) -> String {
    let out = verisum(["sum", "-a", name, path.to_str().unwrap()]).clean();
    out.split_once(' ').unwrap().0.to_string()
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fsverity_is_what_its_program_prints() {
    let Some(fsverity) = require_tool("fsverity") else { return };
    let folder = tempfile::tempdir().unwrap();
    for length in [0, 1, 4096, 4097, 128 * 4096, 128 * 4096 + 1, 3_000_000] {
        let file = data_file(folder.path(), "file", length);
        for (name, hash) in [("fsverity", "sha256"), ("fsverity-sha512", "sha512")] {
            let out = said(Command::new(&fsverity).args(["digest", "--hash-alg", hash]).arg(&file));
            let theirs =
                out.split(' ').next().unwrap().strip_prefix(&format!("{hash}:")).unwrap().to_string();
            assert_eq!(ours(name, &file), theirs, "{length} bytes");
        }
    }
}

#[test]
fn dmverity_is_what_veritysetup_prints() {
    let Some(veritysetup) = require_tool("veritysetup") else { return };
    let folder = tempfile::tempdir().unwrap();
    for blocks in [1, 2, 128, 129, 700] {
        let (file, tree) = (data_file(folder.path(), "file", blocks * 4096), folder.path().join("tree"));
        let out = said(Command::new(&veritysetup).args(["format", "--salt=-"]).arg(&file).arg(&tree));
        let root = out.lines().find_map(|line| line.strip_prefix("Root hash:")).unwrap().trim();
        assert_eq!(ours("dmverity", &file), root, "{blocks} blocks");
        std::fs::remove_file(tree).unwrap();
    }
}

#[test]
fn lists_name_them_and_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 5_000_000);
    let list = folder.path().join("SUMS");
    let all = "dropbox,glacier,bittorrent-v2,fsverity,fsverity-sha512,dmverity,sha256";
    let out = verisum(["sum", "--tag", "-a", all, file.to_str().unwrap()]).clean();
    assert_eq!(out.lines().count(), 7);
    assert!(out.starts_with("DROPBOX (") && out.contains("\nFSVERITY-SHA512 ("), "{out}");
    std::fs::write(&list, out).unwrap();
    let checked = verisum(["check", list.to_str().unwrap()]);
    assert_eq!((checked.code, checked.out().matches(": OK").count()), (Some(0), 7), "{}", checked.stderr);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4_999_999] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let checked = verisum(["check", list.to_str().unwrap()]);
    assert_eq!((checked.code, checked.out().matches(": FAILED").count()), (Some(1), 7));
}
