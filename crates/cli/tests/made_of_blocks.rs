//! Digests made of blocks, beside the programs that are their source.

mod common;

use std::path::Path;
use std::process::Command;

use common::{data_file, verisum};
use verisum::digest::{Digest, Output};
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
fn digests_of_parts_are_written_and_checked_as_stores_show_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 5_000_000);
    let small = data_file(folder.path(), "small", 1 << 20);
    let list = folder.path().join("SUMS");
    let part = std::fs::read(&file).unwrap();
    let md5s: Vec<u8> = part.chunks(1 << 20).flat_map(|part| md5(part).as_bytes().to_vec()).collect();
    let expected = format!("{}-5", md5(&md5s));
    for (form, wanted) in [
        (["-a", "s3-etag:1M"], format!("{expected}  {}\n", file.display())),
        (["-a", "S3-ETAG:1024K"], format!("{expected}  {}\n", file.display())),
    ] {
        assert_eq!(verisum(["sum", form[0], form[1], file.to_str().unwrap()]).clean(), wanted);
    }
    let small_sum = format!("{}  {}\n", md5(&std::fs::read(&small).unwrap()), small.display());
    assert_eq!(verisum(["sum", "-a", "s3-etag:1M", small.to_str().unwrap()]).clean(), small_sum);
    for (form, lines) in [("--tag", 6), ("--format=json", 2)] {
        let out = verisum([
            "sum",
            form,
            "-a",
            "s3-etag:1M,s3-sha256:2M,md5",
            file.to_str().unwrap(),
            small.to_str().unwrap(),
        ])
        .clean();
        assert!(out.contains(&expected) && out.contains("s3-sha256:2M"), "{out}");
        std::fs::write(&list, out).unwrap();
        let checked = verisum(["check", list.to_str().unwrap()]);
        assert_eq!(
            (checked.code, checked.out().matches(": OK").count()),
            (Some(0), lines),
            "{}",
            checked.out()
        );
    }
}

fn md5(message: &[u8]) -> Output {
    Digest::find("md5").unwrap().hash(message).unwrap()
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
