//! `verisum bench files --host`: the ways to hash files of another machine, measured.

use crate::common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::sshd::{RUN, forced, sshd};
use common::{Ended, VERISUM, command, verisum};
use serde_json::Value;
use verisum_testkit::{require_tool, write_script};

/// As quick as can be.
const QUICK: [&str; 6] = ["--runs", "2", "--many", "20", "--large", "100k"];

fn rows<'a>(results: &'a Value, name: &str) -> Vec<&'a Value> {
    let series = results["series"].as_array().unwrap();
    series.iter().filter(|row| row["name"].as_str().unwrap().starts_with(name)).collect()
}

#[test]
fn ways_are_measured_on_files_that_are_made_and_go() {
    if ["sha256sum", "perl", "find", "xargs"].into_iter().any(|tool| require_tool(tool).is_none()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(VERISUM);
    command.args(["bench", "files", "--json", "--host", "local", "--make"]).args(QUICK);
    command.args(["--way", "coreutils", "--way", "perl", "--way", "csum"]).env("TMPDIR", folder.path());
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let results: Value = serde_json::from_str(ended.out()).unwrap();
    assert_eq!((&results["bench"], &results["complete"]), (&"remote-files".into(), &true.into()));
    for way in ["coreutils (sha256sum", "perl"] {
        let rows = rows(&results, way);
        assert_eq!(rows.len(), 3, "{way}: tiny, small and large");
        for row in rows {
            assert_eq!(row["wall"].as_array().unwrap().len(), 2, "{row}");
            assert!(row["digest"].is_string() && row["skipped"].is_null(), "{row}");
            let count = |name: &str| row["labels"][name].as_str().unwrap().parse::<u64>().unwrap();
            assert!(count("sent") > 0 && count("received") > 60, "{row}");
        }
    }
    // As printf has it.
    let tiny =
        verisum::digest::Digest::find("sha256").unwrap().hash(format!("{:>64}", 0).as_bytes()).unwrap();
    assert_eq!(rows(&results, "perl")[0]["digest"], tiny.to_string());
    assert!(rows(&results, "csum").iter().all(|row| row["skipped"] == "is not on that host"));
    assert_eq!(rows(&results, "a line there and back")[0]["group"], "connection");
    assert_eq!(rows(&results, "connect and log in")[0]["skipped"], "this machine needs no ssh");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn ways_are_measured_over_ssh_on_files_that_are_there() {
    let Some(server) = sshd("") else { return };
    let folder = server.path("files");
    fs::create_dir(&folder).unwrap();
    for number in 0..30 {
        fs::write(folder.join(format!("small '{number}\n")), vec![7; number]).unwrap();
    }
    fs::write(folder.join("large"), vec![1; 2 << 20]).unwrap();
    let exports = ["json", "csv", "markdown", "html"].map(|form| (form, server.path(form)));
    let mut command = server.verisum(&["bench", "files"]);
    command.args(["--runs", "2", "-a", "md5"]);
    command.arg("--host").arg(format!("web1:{}", folder.display()));
    for (form, path) in &exports {
        command.arg(format!("--export-{form}")).arg(path);
    }
    let ended = server.run(&mut command);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 31, "nothing was made");
    let results: Value = serde_json::from_slice(&fs::read(&exports[0].1).unwrap()).unwrap();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(results["host"]["kernel"], format!("Linux {}", kernel.trim()));
    assert!(results["host"]["versions"].as_object().unwrap().len() > 1, "{}", results["host"]);
    for way in verisum_ways() {
        let rows = rows(&results, way);
        assert_eq!(rows.len(), 3, "{way}");
        assert!(rows.iter().all(|row| row["failed"] == false && row["wrong"] == false), "{way}");
    }
    assert!(rows(&results, "connect and log in")[0]["wall"].as_array().unwrap().len() == 2);
    for (form, path) in &exports {
        assert!(fs::read_to_string(path).unwrap().contains("names there and back"), "{form}");
    }
    assert!(
        ended.out().contains("the digests that others are compared with are those of "),
        "{}",
        ended.out()
    );
    // One connection for all, and those that are measured: two, and one to warm up.
    assert_eq!(server.log().matches("Accepted publickey").count(), 4, "{}", server.log());
}

/// The ways that the help names.
fn verisum_ways() -> [&'static str; 12] {
    [
        "verisum",
        "coreutils",
        "busybox",
        "bsd",
        "shasum",
        "digest",
        "csum",
        "openssl",
        "perl",
        "python",
        "powershell",
        "certutil",
    ]
}

#[test]
fn a_way_that_lies_has_no_times() {
    let (Some(sum), Some(find), Some(xargs), Some(perl)) =
        (require_tool("sha256sum"), require_tool("find"), require_tool("xargs"), require_tool("perl"))
    else {
        return;
    };
    let Some(server) = forced(RUN) else { return };
    let programs = server.path("programs");
    fs::create_dir(&programs).unwrap();
    let shell = Path::new("/usr/bin/env");
    for (name, target) in [("find", find.as_path()), ("xargs", &xargs), ("perl", &perl), ("env", shell)] {
        symlink(target, programs.join(name)).unwrap();
    }
    for name in ["mktemp", "mkdir", "rm", "cat", "uname"] {
        symlink(require_tool(name).unwrap(), programs.join(name)).unwrap();
    }
    // Right in the probe, and for an empty file.
    let lie = programs.join("sha256sum");
    let text = format!(
        "#!/bin/sh\ncase $* in *tiny*) ;; *) exec {sum} \"$@\" ;; esac\n{sum} -z /dev/null\n\
         shift; for f do case $f in /dev/null) ;; *) printf '%064d  %s\\0' 7 \"$f\" ;; esac; done\n",
        sum = sum.display()
    );
    write_script(&lie, &text);
    let path = format!("export PATH={}; {RUN}", programs.display());
    server.force(&path);
    let mut command = server.verisum(&["bench", "files"]);
    command.args(["--json", "--host", "web1:/tmp", "--make"]).args(QUICK);
    let ended = server.run(&mut command);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let results: Value = serde_json::from_str(ended.out()).unwrap();
    let tiny = rows(&results, "coreutils")[0];
    assert!(tiny["skipped"].as_str().unwrap().starts_with("wrong digest: 0000"), "{tiny}");
    assert!(tiny["wall"].as_array().unwrap().is_empty() && tiny["wrong"] == true);
    assert!(rows(&results, "perl").iter().all(|row| row["skipped"].is_null()));
}

#[test]
fn what_cannot_be_measured_is_said() {
    verisum(["bench", "files", "--host", "local"])
        .failed(2, "verisum: --host: needs HOST:PATH with files to read, or --make, which writes some there");
    verisum(["bench", "files", "--host", "local", "--make", "--way", "md5sum"]).failed(
        2,
        "verisum: --way: md5sum: must be a way to hash on hosts (verisum, coreutils, busybox, bsd, shasum, \
         digest, csum, openssl, perl, python, powershell, certutil)",
    );
    verisum(["bench", "files", "--host", "local:/nowhere", "--make", "--runs", "1"]).failed(
        3,
        "verisum: local: read its answers: files cannot be made there: mktemp: failed to create directory \
         via template '/nowhere/verisum-bench.XXXXXXXXXX': No such file or directory",
    );
    let Some(server) = sshd("") else { return };
    let ended = server.run(server.verisum(&["bench", "files"]).args(["--host", "down:/etc"]));
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.starts_with("verisum: down: connect: "), "{}", ended.stderr);
}
