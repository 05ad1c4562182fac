//! `verisum bench filesystem` as it is called: what it measures, and that nothing is left of it.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Ended, VERISUM, command, signal, start, verisum, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use verisum_testkit::{copy_program, require_root, require_tool};

/// In a temporary folder of its own, which shows what it leaves.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = command(VERISUM);
    command.args(["bench", "filesystem"]).args(arguments).env("TMPDIR", folder);
    command
}

fn loop_devices(folder: &Path) -> usize {
    let folders = fs::read_dir("/sys/block").unwrap().flatten();
    let files = folders.filter_map(|disk| fs::read_to_string(disk.path().join("loop/backing_file")).ok());
    files.filter(|file| file.contains(folder.file_name().unwrap().to_str().unwrap())).count()
}

fn left(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

fn is_ready() -> Option<()> {
    require_root()?;
    for tool in ["mkfs.btrfs", "btrfs", "mount"] {
        require_tool(tool)?;
    }
    Some(())
}

#[test]
fn every_checksum_is_measured_and_nothing_is_left() {
    let Some(()) = is_ready() else { return };
    let folder = tempfile::Builder::new().prefix("bench-success-").tempdir().unwrap();
    let export = tempfile::NamedTempFile::new().unwrap();
    let arguments =
        ["--size", "4M", "--runs", "1", "--json", "--export-json", export.path().to_str().unwrap()];
    let out = Ended::of(bench(folder.path(), &arguments).output().unwrap()).clean();
    let found: Value = serde_json::from_str(&out).unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(export.path()).unwrap()).unwrap();
    assert_eq!(found, kept);
    assert_eq!(found["complete"], true);
    let series = found["series"].as_array().unwrap();
    let row = |group: &str, name: &str| {
        let row = series.iter().find(|one| one["group"] == group && one["name"] == name);
        row.unwrap_or_else(|| panic!("{group}, {name}"))
    };
    for group in ["btrfs: write and fsync", "btrfs: fsync alone", "btrfs: cold read", "btrfs: scrub"] {
        for (name, driver) in
            [("crc32c", "crc32c"), ("xxhash", "xxh"), ("sha256", "sha256"), ("blake2", "bl")]
        {
            let row = row(group, name);
            assert_eq!((&row["skipped"], row["wall"].as_array().unwrap().len()), (&Value::Null, 1));
            assert!(row["labels"]["driver"].as_str().unwrap().starts_with(driver), "{row}");
        }
        assert_eq!(row(group, "nodatasum")["control"], true);
        assert_eq!(row(group, "nodatasum")["skipped"], Value::Null);
    }
    assert_eq!(row("btrfs: cold read", "sha256")["cache"], "cold");
    for group in ["mkfs.btrfs --rootdir", "btrfs check --check-data-csum"] {
        assert_eq!(row(group, "blake2")["skipped"], Value::Null);
    }
    let model = row("model: sectors of 4 KiB, one after the other", "blake2b512");
    assert_eq!(model["labels"]["btrfs"], "blake2");
    assert!(row("other file systems", "ext4")["skipped"].as_str().unwrap().contains("crc32c"));
    assert_eq!((left(folder.path()), loop_devices(folder.path())), (0, 0));
}

#[test]
fn the_script_of_2024_prints_what_time_printed() {
    let Some(()) = is_ready() else { return };
    let folder = tempfile::Builder::new().prefix("bench-script-").tempdir().unwrap();
    let arguments = ["--style", "original", "--size", "128M", "--runs", "1"];
    let out = Ended::of(bench(folder.path(), &arguments).output().unwrap()).clean();
    for name in ["crc32c", "xxhash", "sha256", "blake2", "nodatasum", "/dev/urandom alone"] {
        assert!(out.contains(&format!("{name}\n\nreal\t0m")), "{name}\n{out}");
    }
    assert_eq!((left(folder.path()), loop_devices(folder.path())), (0, 0));
}

/// SIGKILL leaves an empty folder, which the next run removes.
#[test]
fn signals_leave_no_mount_and_no_device() {
    let Some(()) = is_ready() else { return };
    let folder = tempfile::Builder::new().prefix("bench-signals-").tempdir().unwrap();
    for (which, code) in [(Signal::KILL, None), (Signal::INT, Some(130)), (Signal::TERM, Some(130))] {
        let mut child = start(&mut bench(folder.path(), &["--size", "4M", "--runs", "1000"]));
        let mounts = format!("/proc/{}/mounts", child.id());
        let mounted =
            |path: &str| fs::read_to_string(path).unwrap_or_default().matches("bench-signals-").count();
        wait_until("file systems are mounted", || {
            assert!(child.try_wait().unwrap().is_none(), "it goes on");
            mounted(&mounts) > 3
        });
        assert_eq!(mounted("/proc/self/mounts"), 0, "nobody else sees them");
        signal(&child, which);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, code, "{}", ended.stderr);
        wait_until("the devices are gone", || loop_devices(folder.path()) == 0);
        match code {
            Some(_) => assert_eq!(left(folder.path()), 0, "also what a killed run left"),
            None => {
                let left = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
                assert_eq!(fs::read_dir(left).unwrap().count(), 0, "the memory is free");
            }
        }
    }
}

#[test]
fn what_cannot_be_had_is_told_and_leaves_nothing() {
    let bad = verisum(["bench", "filesystem", "--size", "1k"]);
    bad.failed(2, "verisum: --size: 1k: must be 4M to 1T, as 256M");
    let bad = verisum(["bench", "filesystem", "--style", "original", "--size", "64M"]);
    bad.failed(2, "verisum: --size: 64M: must be 128M or more with --style original");
    let Some(()) = is_ready() else { return };
    let folder = tempfile::Builder::new().prefix("bench-failure-").tempdir().unwrap();
    let too_much = bench(folder.path(), &["--style", "original", "--size", "1T"]).output().unwrap();
    let ended = Ended::of(too_much);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("it needs 1310720 MiB of memory, and "), "{}", ended.stderr);
    assert_eq!(left(folder.path()), 0);

    let missing = folder.path().join("missing");
    let out = Ended::of(bench(&missing, &["--size", "4M", "--runs", "1"]).output().unwrap()).clean();
    assert!(out.contains("SKIPPED: ") && out.contains("model: sectors"), "{out}");
}

#[test]
fn without_root_the_tools_and_the_model_are_measured() {
    let Some(()) = is_ready() else { return };
    let Some(setpriv) = require_tool("setpriv") else { return };
    let folder = tempfile::Builder::new().prefix("bench-user-").tempdir().unwrap();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    for path in [folder.path(), &temporary] {
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(path, everybody).unwrap();
    }
    let program = folder.path().join("verisum");
    copy_program(VERISUM, &program);
    let output = command(setpriv.to_str().unwrap())
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["bench", "filesystem", "--size", "4M", "--runs", "1"])
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    let out = Ended::of(output).clean();
    assert!(out.contains("SKIPPED: only root can mount file systems"), "{out}");
    assert!(out.contains("lie in the temporary folder"), "{out}");
    let check = out.split("\nbtrfs check --check-data-csum\n").nth(1).unwrap();
    let check = check.split("\n\n").next().unwrap();
    assert!(check.contains("blake2") && !check.contains("SKIPPED"), "{check}");
    assert_eq!(left(&temporary), 0);
}
