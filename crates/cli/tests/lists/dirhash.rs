//! `verisum dirhash`, as users run it. What the numbers must be is tested in verisum-dirhash.

use crate::common;

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use verisum_testkit::{FsKind, Mount};

const SEED: &str = "11223344-5566-7788-99aa-bbccddeeff00";

fn dirhash(arguments: &[&str]) -> common::Ended {
    // On a terminal that has room for every table.
    let mut command = common::command(common::VERISUM);
    common::Ended::of(command.arg("dirhash").args(arguments).env("COLUMNS", "500").output().unwrap())
}

#[test]
fn hashes_are_printed_as_debugfs_prints_them() {
    let out = dirhash(&["hash", "--hash", "tea", "--seed", SEED, "foo0", "a b"]).clean();
    assert!(out.starts_with("Hash of foo0 is 0xf830f7c2 (minor 0xa56b0573)\nHash of a b is 0x"), "{out}");
    let out = dirhash(&["hash", "--hash", "xfs", "--hash", "btrfs", "hello"]).clean();
    assert_eq!(out, "xfs: Hash of hello is 0x8cbb3669\nbtrfs: Hash of hello is 0x5d9f2b1f\n");
    let out = dirhash(&["hash", "--hash", "xfs", "$'x'", "x\n", "''", ""]).clean();
    let names: Vec<&str> = out.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert_eq!(names, [r"$'$\'x\''", r"$'x\n'", r"$'\'\''", "''"]);
    let out = dirhash(&["hash", "--json", "foo0"]).clean();
    let expected = r#"{"version":1,"type":"name","hash":"half_md4","name":"foo0","value":"0x5ea80d76","minor":"0x665baf43"}"#;
    assert_eq!(out.trim_end(), expected);
    let mut command = Command::new(common::VERISUM);
    let name = OsStr::from_bytes(b"a \xff");
    let output = command.args(["dirhash", "hash", "--json", "--hash", "xfs"]).arg(name).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("\"name\":\"a \u{fffd}\",\"name_bytes_hex\":\"6120ff\","), "{out}");
    let long = dirhash(&["hash", &"x".repeat(256)]);
    assert_eq!(long.code, Some(0));
    assert!(long.stderr.ends_with("x: 256 bytes, where names have at most 255\n"), "{}", long.stderr);
}

#[test]
fn the_bakeoff_prints_the_threads_line_and_the_golden_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("out.csv");
    let arguments = ["bakeoff", "--seed", SEED, "--points", "4", "--export-csv", csv.to_str().unwrap()];
    let out = dirhash(&arguments).clean();
    for size in ["4890624", "5214208", "4886528"] {
        assert!(out.contains(size), "{out}");
    }
    assert!(out.contains("avg bytes filled per 4k block ("), "{out}");
    assert!(std::fs::read_to_string(csv).unwrap().contains("4890624"));
}

#[test]
fn exports_say_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (json, csv, html) = (path("json"), path("csv"), path("html"));
    let files = ["--export-json", &json, "--export-csv", &csv, "--export-html", &html];
    let asked = ["bakeoff", "-n", "3000", "--seed", SEED, "--policy", "coalesce", "--checksums"];
    let out = dirhash(&[&asked[..], &files].concat()).clean();
    assert!(out.contains('▌') && out.contains("the model: user "), "{out}");
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let value: serde_json::Value = serde_json::from_str(&read(&json)).unwrap();
    let said = &value["parameters"];
    assert_eq!((said["seed"].as_str(), said["policy"].as_str()), (Some(SEED), Some("coalesce")));
    assert_eq!((said["checksums"].as_str(), said["count"].as_str()), (Some("yes"), Some("3000")));
    assert!(said["verisum"].is_string());
    assert!(read(&csv).contains("policy,coalesce\r\n"));
    assert!(read(&html).contains("policy coalesce") && read(&html).contains("<svg"));
    for file in [&json, &csv, &html] {
        assert!(!read(file).contains('▌'), "{file}");
    }
    // The index is full: when it became so, and when it could not be yet.
    let out = dirhash(&[
        "bakeoff",
        "-n",
        "200000",
        "--block-size",
        "1k",
        "--names",
        "%060d",
        "--hash",
        "tea",
        "--points",
        "0",
    ]);
    assert!(out.clean().contains("the index was full after"));
    dirhash(&["hash", "foo0", "--export-json", &json]).clean();
    assert!(read(&json).contains("0x5ea80d76"));
}

#[test]
fn steady_names_cost_quality_and_attack_run() {
    let out = dirhash(&["steady", "--seed", SEED, "-n", "2000", "--cycles", "3000", "--growth"]).clean();
    assert!(out.contains("half_md4"), "{out}");
    let out = dirhash(&[
        "steady",
        "--traffic",
        "program",
        "-n",
        "2000",
        "--cycles",
        "3000",
        "--policy",
        "coalesce",
    ]);
    assert!(out.clean().contains("policy coalesce"));
    let out = dirhash(&["names", "-n", "2000", "--json"]).clean();
    assert!(out.contains("maildir"), "{out}");
    let out =
        dirhash(&["cost", "--hash", "tea", "--algorithm", "xfs", "--length", "16", "--samples", "3"]).clean();
    assert!(out.contains("no significant difference"), "three measurements resolve nothing: {out}");
    // The verdict first, and a table that a terminal has room for; the intervals are details.
    assert!(out.lines().next().unwrap().contains(" has the lowest median at "), "{out}");
    assert!(!out.contains("ratio from"), "{out}");
    let out = dirhash(&["quality", "--hash", "siphash24", "-n", "2000"]).clean();
    assert!(out.contains("bad-control"), "{out}");
    let out = dirhash(&["attack", "--hash", "btrfs", "--hash", "xfs", "-n", "300"]).clean();
    assert!(out.contains("linear equations"), "{out}");
}

#[test]
fn colliding_names_are_listed_as_a_shell_takes_them() {
    let hashes = ["legacy", "btrfs", "xfs", "gfs2", "zfs48", "bcachefs_crc64", "reiserfs_r5", "ubifs"];
    for hash in hashes {
        let of = ["--hash", hash, "--seed", SEED];
        let list = dirhash(&[&["attack", "--list", "-n", "40", "--like", "größe"][..], &of].concat()).clean();
        let wanted = dirhash(&[&["hash"][..], &of, &["größe"]].concat()).clean();
        let wanted = wanted.rsplit(" is ").next().unwrap();
        let script = format!("\"$0\" dirhash hash --hash {hash} --seed {SEED} {}", list.replace('\n', " "));
        let output = Command::new("bash").args(["-c", &script, common::VERISUM]).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!((list.lines().count(), out.lines().count()), (40, 40), "{hash}");
        assert!(
            out.split_inclusive('\n').all(|line| line.ends_with(&format!(" is {wanted}"))),
            "{hash}: {out}"
        );
    }
    let out = dirhash(&["attack", "--list", "--json", "--hash", "xfs", "-n", "2"]).clean();
    assert!(
        out.lines().count() == 2 && out.starts_with(r#"{"version":1,"type":"name","hash":"xfs","name":""#),
        "{out}"
    );
}

#[test]
fn fewer_names_than_asked_for_are_said() {
    let ended = dirhash(&["attack", "--hash", "half_md4", "-n", "2", "--tries", "1000"]);
    let message = "verisum: half_md4: 0 of 2 names found in 1000 tries (--tries)\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), message));
    assert!(ended.out().contains("search"), "the table is there: {}", ended.out());
    // Nobody asked for so many.
    let ended = dirhash(&["attack", "--hash", "half_md4", "--tries", "1000"]);
    let message = "verisum: half_md4: 0 of 60 names found in 1000 tries (--tries)\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), message));
}

#[test]
fn lines_that_are_no_names_are_counted() {
    let names = |input: &[u8]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), input).unwrap();
        let mut command = Command::new(common::VERISUM);
        command
            .args(["dirhash", "names", "--hash", "xfs", "-"])
            .stdin(std::fs::File::open(file.path()).unwrap());
        let output = command.output().unwrap();
        let [out, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, stderr)
    };
    let long = "x".repeat(256);
    let (code, out, stderr) = names(format!("a\nb/c\n/d\n\ne\0f\n{long}\na\n.\n..\ng").as_bytes());
    let message = "verisum: -: lines left out: 2 with /, 1 with NUL, 1 longer than 255 bytes, 1 empty, \
                   2 . or .., 1 repeated\n";
    assert_eq!((code, stderr.as_str()), (Some(0), message), "{out}");
    let (code, _, stderr) = names(b"a\nb\n");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (code, out, stderr) = names(b"");
    assert_eq!((code, out.as_str()), (Some(3), ""));
    assert_eq!(stderr, "verisum: -: read: there are no names\n");
}

#[test]
fn images_are_inspected() {
    let Some(mke2fs) = verisum_testkit::require_tool("mke2fs") else { return };
    let Some(debugfs) = verisum_testkit::require_tool("debugfs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("d")).unwrap();
    for number in 0..300 {
        std::fs::write(tree.join("d").join(format!("a name {number}")), "").unwrap();
    }
    let made = Command::new(mke2fs)
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-d"])
        .args([&tree, &image])
        .arg("16M")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = image.to_str().unwrap();
    let out = dirhash(&["inspect", path, "/d"]).clean();
    assert!(out.contains("none") && out.contains("300"), "{out}");
    let out = dirhash(&["inspect", path]).clean();
    assert!(out.contains("1 of 3 directories shown") || out.contains("2 of 3 directories shown"), "{out}");
    let out = dirhash(&["inspect", "--all", path]).clean();
    assert!(out.contains("3 of 3 directories shown\n"), "{out}");
    dirhash(&["inspect", "--all", "--json", path]).clean();
    // e2fsck makes the index; 1 says that it changed something.
    if let Some(e2fsck) = verisum_testkit::require_tool("e2fsck") {
        let done = Command::new(e2fsck).args(["-fyD"]).arg(&image).output().unwrap();
        assert!(done.status.code().is_some_and(|code| code <= 1));
        let out = dirhash(&["inspect", path, "/d"]).clean();
        assert!(out.contains("half_md4"), "{out}");
        // Another seed: every hash is wrong.
        let seed = "ssv hash_seed 11223344-5566-7788-99aa-bbccddeeff11";
        assert!(Command::new(debugfs).args(["-w", "-R", seed]).arg(&image).status().unwrap().success());
        let ended = dirhash(&["inspect", path]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.out().contains("the leaf"), "{}", ended.out());
    }
    let ended = dirhash(&["inspect", path, ""]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(2), "verisum: PATH must not be empty; / is the root\n")
    );
    let out = dirhash(&["inspect", "--json", path, "/"]);
    assert!(out.out().contains(r#""directory":"/""#), "one block, and asked for: {}", out.out());
    let whole = std::fs::metadata(&image).unwrap().len();
    std::fs::File::options().write(true).open(&image).unwrap().set_len(whole - 5000).unwrap();
    let ended = dirhash(&["inspect", path]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.out().contains("the image lacks the last 5000 bytes"), "{}", ended.out());
    // Nobody writes to it: opening it must not wait.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for other in [pipe.to_str().unwrap(), "/dev/null"] {
        let ended = dirhash(&["inspect", other]);
        let message = format!("verisum: {other}: open: neither a file nor a block device\n");
        assert_eq!((ended.code, ended.stderr), (Some(3), message));
    }
    let ended = dirhash(&["inspect", folder.path().to_str().unwrap()]);
    assert!(
        ended.code == Some(3) && ended.stderr.to_lowercase().contains("is a directory"),
        "{}",
        ended.stderr
    );
    let ended = dirhash(&["inspect", path, "/nothing"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
    let ended = dirhash(&["live", "/proc"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
}

/// Without any right but to list it, and without the seed, which only root can read.
#[test]
fn a_mounted_directory_shows_its_hashes_to_everybody() {
    let tools = ["setpriv", "debugfs"].map(verisum_testkit::require_tool);
    let [Some(setpriv), Some(debugfs)] = tools else { return };
    let Some(mut mount) = Mount::new(FsKind::Ext4, 64 << 20) else { return };
    let (target, directory) = (mount.path().join("target"), mount.path().join("d"));
    std::fs::write(&target, "").unwrap();
    std::fs::create_dir(&directory).unwrap();
    for number in 0..2000 {
        std::fs::hard_link(&target, directory.join(format!("name{number}"))).unwrap();
    }
    let folder = mount.path().parent().unwrap().to_path_buf();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    // A copy that everybody may run, made by another process: a program cannot be started while a file of
    // it is open for writing, and other tests start children that would inherit one from here.
    let program = folder.join("verisum");
    assert!(Command::new("cp").arg(common::VERISUM).arg(&program).status().unwrap().success());
    let live = |options: &[&str]| {
        let mut nobody = Command::new(&setpriv);
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        common::Ended::of(nobody.args(["dirhash", "live"]).args(options).arg(&directory).output().unwrap())
    };
    let report: serde_json::Value = serde_json::from_str(&live(&["--list", "--json"]).clean()).unwrap();
    let ended = live(&["--leaves"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("/d: read the index: Permission denied\n"), "{}", ended.stderr);
    // {"tables": [..., {"title": "Names", "rows": [{"hash": "0x…", "minor": "0x…", "name": …}, …]}]}
    let names = report["tables"].as_array().unwrap().last().unwrap()["rows"].as_array().unwrap();
    let field = |row: &serde_json::Value, column: &str| row[column].as_str().unwrap().to_owned();
    let mut shown: Vec<String> = names
        .iter()
        .map(|row| format!("{}-{}", field(row, "hash"), field(row, "minor").strip_prefix("0x").unwrap()))
        .collect();
    mount.edit_image(|image| {
        let out = Command::new(&debugfs).args(["-R", "htree_dump /d"]).arg(image).output().unwrap().stdout;
        let out = String::from_utf8(out).unwrap();
        // A record is an inode, hash and minor hash as 0x00000000-00000000, a length, and a name.
        let is_record = |word: &&str| word.len() == 19 && word.starts_with("0x") && &word[10..11] == "-";
        let mut dumped: Vec<&str> = out.split_whitespace().filter(is_record).collect();
        shown.sort();
        dumped.sort();
        assert_eq!((shown.len(), shown), (2000, dumped.into_iter().map(str::to_owned).collect()));
    });
}

#[test]
fn bad_usage_is_one_line() {
    for (arguments, message) in [
        (&["hash", "--hash", "md6", "x"][..], "--hash: md6: must be all, or one of legacy, half_md4"),
        (&["hash", "--seed", "1", "x"], "--seed: 1: must be 32 hexadecimal digits"),
        (&["bakeoff", "--names", "foo"], "--names: foo: a pattern needs one counter"),
        (&["bakeoff", "--block-size", "5k"], "--block-size: 5k: the block size must be a power of two"),
        (&["bakeoff", "--count", "0"], "--count: 0: must be 1 or more"),
        (&["attack", "--count", "4000000000"], "--count: 4000000000: must be at most 100000"),
        (
            &["bakeoff", "--export-csv", "x", "--export-json", "./x"],
            "x: only one form can be written to one file",
        ),
        (&["steady", "--range", "20000"], "--range: 20000: needs --traffic program"),
        (&["bakeoff", "--export-json", "-"], "must be a file; --json prints to standard output"),
        (
            &["steady", "--traffic", "program", "--range", "5"],
            "--range: 5: must be 10000 to 10000000: a name",
        ),
        (&["steady", "--traffic", "program", "--range", "2147483647"], "must be 10000 to 10000000: a name"),
        (&["steady", "--count", "4000000000"], "--count: 4000000000: must be at most 200000000"),
        (&["bakeoff", "--count", "4000000000"], "--count: 4000000000: must be at most 200000000"),
    ] {
        let ended = dirhash(arguments);
        assert_eq!((ended.code, ended.out()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(message) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
    // Found before anything is measured, which would take hours.
    for verb in ["bakeoff", "cost", "quality"] {
        let ended = dirhash(&[verb, "--hash", "all", "--export-html", "/nonexistent/x"]);
        let message = "verisum: /nonexistent/x: create: No such file or directory\n";
        assert_eq!((ended.code, ended.out(), ended.stderr.as_str()), (Some(3), "", message));
    }
    let ended = dirhash(&["names", "/nonexistent"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
}

/// What this program may have left behind.
fn leftovers(folder: &std::path::Path) -> (usize, bool) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    (std::fs::read_dir(folder).unwrap().count(), mounts.contains(folder.to_str().unwrap()))
}

#[test]
fn a_bakeoff_on_mounted_file_systems_agrees_with_the_model_and_leaves_nothing() {
    let tools = ["mke2fs", "tune2fs", "mkfs.xfs", "mkfs.btrfs", "mount"];
    if verisum_testkit::require_root().is_none()
        || tools.iter().any(|tool| verisum_testkit::require_tool(tool).is_none())
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let out = Command::new(common::VERISUM)
            .arg("dirhash")
            .args(arguments)
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(leftovers(folder.path()), (0, false));
        String::from_utf8(out.stdout).unwrap()
    };
    let out = run(&["bakeoff", "--real", "-n", "3000", "--rounds", "1", "--seed", SEED]);
    assert_eq!(out.matches("exact").count(), 3, "{out}");
    assert!(
        !out.contains("DIFFERS") && out.contains("btrfs") && out.contains("no significant difference"),
        "{out}"
    );
    let out = run(&["bakeoff", "--real", "-n", "2000", "--rounds", "1", "--hash", "tea", "--checksums"]);
    assert_eq!(out.matches("exact").count(), 1, "{out}");
    let out = run(&["attack", "--real", "-n", "3", "--rounds", "1"]);
    assert!(out.contains("colliding"), "{out}");
}

#[test]
fn a_signal_ends_a_bakeoff_on_mounted_file_systems_and_leaves_nothing() {
    if verisum_testkit::require_root().is_none()
        || ["mke2fs", "mount"].iter().any(|tool| verisum_testkit::require_tool(tool).is_none())
    {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("env")
            // Whoever runs the tests may ignore signals.
            .args(["--default-signal", common::VERISUM])
            .args(["dirhash", "bakeoff", "--real", "--hash", "legacy", "--rounds", "1000"])
            .env("TMPDIR", folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !leftovers(folder.path()).1 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        assert_eq!(leftovers(folder.path()), (0, false));
    }
}
