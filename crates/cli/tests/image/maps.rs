//! Block maps from the command line: written, verified, compared, brought up to date.

use crate::common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, VERISUM, command, image_sum, start, stdin_of, values, verisum, wait_until, with_pipe};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::{FsKind, Mount, Run, paint, require_python, require_tool};

/// A folder with images and maps in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `verisum image` in the folder.
    fn image(&self, words: &str) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    fn command(&self, words: &str) -> Command {
        let mut command = command(VERISUM);
        command.arg("image").args(words.split(' ')).current_dir(self.0.path());
        command
    }

    fn paint(&self, name: &str, runs: &[Run]) {
        paint(&self.path(name), runs).unwrap();
    }

    /// Writes bytes into a file that exists.
    fn edit(&self, name: &str, offset: u64, bytes: &[u8]) {
        fs::File::options().write(true).open(self.path(name)).unwrap().write_all_at(bytes, offset).unwrap();
    }

    fn resize(&self, name: &str, length: u64) {
        fs::File::options().write(true).open(self.path(name)).unwrap().set_len(length).unwrap();
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[track_caller]
fn differs(ended: Ended, ranges: &str) {
    assert_eq!((ended.code, ended.out()), (Some(1), ranges), "{}", ended.stderr);
    // Of an image that a map is of, what mends it is named too.
    let said = ended.stderr.lines().filter(|line| !line.contains("verisum image repair"));
    assert_eq!(said.count(), 1, "{}", ended.stderr);
}

const MIXED: [Run; 3] = [Run::data(300_000), Run::hole(3_000_000), Run::data(200_000 - 32)];

#[test]
fn a_map_prints_the_block_hash_and_verifies() {
    let folder = Folder::new();
    folder.paint("a.img", &MIXED);
    let sum = folder.image("sum a.img");
    let map = folder.image("map -o a.map a.img");
    assert_eq!((map.out(), &map.stderr), (sum.out(), &sum.stderr));
    let json: Value = serde_json::from_str(folder.image("sum --json a.img").out()).unwrap();
    let again: Value = serde_json::from_str(folder.image("map --json -o b.map a.img").out()).unwrap();
    assert_eq!(json, again);
    assert_eq!(folder.read("a.map"), folder.read("b.map"));
    assert_eq!(folder.image("verify --map a.map a.img").code, Some(0));
    let piped = with_pipe(&mut folder.command("map -o c.map -"), &folder.read("a.img"));
    assert_eq!(values(piped.out()), values(sum.out()));
    assert_eq!(folder.read("a.map"), folder.read("c.map"));
    let piped = with_pipe(&mut folder.command("verify --map a.map -"), &folder.read("a.img"));
    assert_eq!((piped.code, piped.out()), (Some(0), ""));
    // The exact bytes are another message, and their map is verified as such.
    folder.image("map --exact -o exact.map a.img").clean();
    folder.image("verify --map exact.map a.img").clean();
    assert_eq!(folder.image("diff exact.map a.map").code, Some(1));
    assert_eq!(folder.names(), ["a.img", "a.map", "b.map", "c.map", "exact.map"]);
}

#[test]
fn the_reference_reads_and_writes_the_same_maps() {
    let Some(python) = require_python() else { return };
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(5000), Run::hole(20_000), Run::data(1001)]);
    let reference = |words: &str| {
        let program = common::repository().join("reference/blockmap.py");
        let mut command = command(python.to_str().unwrap());
        command.arg(program).args(words.split(' ')).current_dir(folder.0.path());
        Ended::of(command.output().unwrap())
    };
    for (ours, theirs) in [
        ("", ""),
        ("--exact", "--exact"),
        ("-a md5 --block-size 2", "-d md5 --block-size 2"),
        ("-a crc32c --block-size 512 --exact", "-d crc32c --block-size 512 --exact"),
    ] {
        let words = |words: &str| if words.is_empty() { String::new() } else { format!("{words} ") };
        let sum = folder.image(&format!("map {}-o ours.map a.img", words(ours)));
        let root = reference(&format!("write {}a.img theirs.map", words(theirs))).clean();
        assert_eq!(values(sum.out()), [root.trim()]);
        assert!(folder.read("ours.map") == folder.read("theirs.map"), "{ours}");
        assert_eq!(reference("check ours.map").clean(), root);
        assert_eq!(folder.image("verify --map theirs.map a.img").code, Some(0));
        folder.copy("a.img", "b.img");
        folder.edit("b.img", 4000, b"!");
        folder.edit("b.img", 25_000, &[0; 600]);
        let ranges = reference("verify ours.map b.img");
        assert_eq!(ranges.code, Some(1));
        assert_eq!(folder.image("verify --map theirs.map b.img").out(), ranges.out());
    }
}

#[test]
fn every_way_to_compare_names_the_same_ranges() {
    let folder = Folder::new();
    folder.paint("a.img", &MIXED);
    folder.resize("a.img", 4 << 20);
    folder.copy("a.img", "b.img");
    folder.edit("b.img", 65_536, b"x");
    folder.edit("b.img", 131_071, b"x");
    folder.edit("b.img", 2 << 20, b"into the hole");
    folder.edit("b.img", 3_310_000, &[0; 10_000]);
    // Zeros over a hole change nothing.
    folder.edit("b.img", 1 << 20, &[0; 5000]);
    for name in ["a", "b"] {
        folder.image(&format!("map -o {name}.map {name}.img")).clean();
    }
    let ranges = "65536 65536\n2097152 65536\n3276800 65536\n";
    for words in [
        "diff a.img b.img",
        "diff a.map b.img",
        "diff a.img b.map",
        "diff a.map b.map",
        "diff -t 1 b.map a.map",
        "diff --cache b.img a.img",
        "verify --map a.map b.img",
    ] {
        differs(folder.image(words), ranges);
        let json: Value = serde_json::from_str(folder.image(&format!("{words} --json")).out()).unwrap();
        assert_eq!((&json["equal"], &json["differing"]), (&false.into(), &(3 * 65_536).into()), "{words}");
        assert_eq!(json["ranges"][1], serde_json::json!({"offset": 2097152, "length": 65536}));
        assert_eq!(json["modified"], false);
        assert_eq!(json["a"]["size"], 4 << 20);
    }
    differs(
        folder.image("diff --block-size 512 a.img b.img"),
        "65536 512\n130560 512\n2097152 512\n3309568 10752\n",
    );
    let piped = folder.command("diff a.map -").stdin(stdin_of(&folder.path("b.img"))).output().unwrap();
    differs(Ended::of(piped), ranges);
    differs(with_pipe(&mut folder.command("diff a.map -"), &folder.read("b.img")), ranges);
    for words in ["diff a.img a.img", "diff a.map a.img", "diff a.img a.map", "diff b.map b.map"] {
        folder.image(words).clean();
    }
    let json: Value = serde_json::from_str(&folder.image("diff --json a.map a.img").clean()).unwrap();
    assert_eq!((&json["equal"], &json["ranges"]), (&true.into(), &Value::Array(vec![])));
}

#[test]
fn what_mends_an_image_is_told() {
    let folder = Folder::new();
    fs::create_dir(folder.path("images")).unwrap();
    let paint = || {
        folder.paint("images/a.img", &MIXED);
        folder.resize("images/a.img", 4 << 20);
    };
    paint();
    folder.image("map -o a.map images/a.img").clean();
    let verify = |words: &str| {
        let mut command = folder.command(&format!("verify --map a.map {words}"));
        Ended::of(command.env("XDG_STATE_HOME", folder.path("state")).output().unwrap())
    };
    let scrub = || {
        let mut command = command(VERISUM);
        command.args(["scrub", "--quiet", "images"]).current_dir(folder.0.path());
        Ended::of(command.env("XDG_STATE_HOME", folder.path("state")).output().unwrap()).clean()
    };
    scrub();
    folder.edit("images/a.img", 65_536, b"x");
    let ended = verify("images/a.img");
    let command = "no copy is known; if nobody wrote to the image, mend it from a copy: verisum image repair --map a.map ";
    let said = &ended.stderr;
    assert!(said.contains(command) && said.ends_with("images/a.img' --from PLACE\n"), "{said}");
    let json: Value = serde_json::from_str(verify("--json images/a.img").out()).unwrap();
    assert_eq!((&json["equal"], &json["mend"]), (&false.into(), &Value::Null));

    // A copy that the catalogue knows is named, and the command works as it stands.
    paint();
    folder.copy("images/a.img", "images/copy.img");
    scrub();
    folder.edit("images/a.img", 65_536, b"x");
    let ended = verify("images/a.img");
    let (_, command) = ended.stderr.trim_end().split_once("mend it: ").unwrap();
    assert!(command.ends_with("/images/copy.img'"), "{command}");
    let json: Value = serde_json::from_str(verify("--json images/a.img").out()).unwrap();
    assert_eq!(json["mend"], command);
    let mut shell = common::command("sh");
    shell.args(["-c", &command.replacen("verisum", VERISUM, 1)]).current_dir(folder.0.path());
    assert!(shell.env("XDG_STATE_HOME", folder.path("state")).status().unwrap().success());
    assert_eq!(verify("images/a.img").code, Some(0));

    // Of others it is said that no command mends them.
    let Some(qemu_img) = require_tool("qemu-img") else { return };
    let convert = ["convert", "-O", "qcow2", "images/a.img", "a.qcow2"];
    assert!(Command::new(qemu_img).args(convert).current_dir(folder.0.path()).status().unwrap().success());
    folder.edit("images/a.img", 65_536, b"x");
    folder.image("map -o a.map images/a.img").clean();
    let ended = verify("a.qcow2");
    let said = "no copy is known; `verisum image repair` cannot write to such an image: put a good copy in its place\n";
    assert!(ended.code == Some(1) && ended.stderr.ends_with(said), "{}", ended.stderr);
}

#[test]
fn other_lengths_are_told() {
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(200_000 - 200_000 % 512)]);
    folder.copy("a.img", "b.img");
    folder.resize("b.img", 1 << 20);
    for name in ["a", "b"] {
        folder.image(&format!("map -o {name}.map {name}.img")).clean();
    }
    let said = |words: &str, lengths: &str| {
        let ended = folder.image(words);
        assert!(
            ended.stderr.contains(&format!("1 range, 832 KiB; they are {lengths} bytes long\n")),
            "{}",
            ended.stderr
        );
        differs(ended, "196608 851968\n");
    };
    said("diff a.img b.img", "199680 and 1048576");
    said("diff b.img a.map", "1048576 and 199680");
    said("diff a.map b.map", "199680 and 1048576");
    said("verify --map b.map a.img", "1048576 and 199680");
}

#[test]
fn an_update_is_a_full_run() {
    let folder = Folder::new();
    folder.paint("a.img", &MIXED);
    folder.resize("a.img", 4 << 20);
    folder.image("map -o old.map a.img").clean();
    let check = |ranges: &str, hashed: u64| {
        fs::write(folder.path("ranges"), ranges).unwrap();
        let full = folder.image("map -o full.map a.img").clean();
        assert_eq!(folder.image("update --map old.map --ranges ranges -o new.map a.img").clean(), full);
        assert!(folder.read("new.map") == folder.read("full.map"));
        let mut piped = folder.command("update --json --map old.map --ranges - -o piped.map a.img");
        let json: Value = serde_json::from_str(&with_pipe(&mut piped, ranges.as_bytes()).clean()).unwrap();
        assert_eq!((&json["digest"], &json["hashed"]), (&values(&full)[0].into(), &hashed.into()));
        assert!(folder.read("piped.map") == folder.read("full.map"));
    };
    check("", 0);
    folder.edit("a.img", 70_000, b"new");
    folder.edit("a.img", 3_200_000, &[7; 70_000]);
    check("70000 3\n3200000 70000\n", 3 * 65_536);
    let ranges = folder.image("diff --json old.map a.img");
    check(ranges.out(), 3 * 65_536);
    folder.resize("a.img", (4 << 20) + 512);
    check("70000 3\n3200000 70000\n", 3 * 65_536 + 512);
    folder.resize("a.img", 3_250_000 - 3_250_000 % 512);
    check("70000 3\n3200000 700000000000\n", 65_536 + 3_249_664 - 3_145_728);
    folder.resize("a.img", 0);
    check("", 0);
    folder.image("update --map old.map --ranges ranges -o old.map a.img").clean();
    assert!(folder.read("old.map") == folder.read("full.map"), "a map is updated in its place");
    folder.image("update --map old.map --ranges /dev/null -o new.map a.img").clean();
    fs::write(folder.path("ranges"), "5 x\n").unwrap();
    folder
        .image("update --map old.map --ranges ranges -o new.map a.img")
        .failed(3, "verisum: ranges: read: line 1 is not `OFFSET LENGTH` in bytes");
    folder
        .image("update --map old.map --ranges - -o new.map -")
        .failed(2, "verisum: --ranges and IMAGE both read standard input: one must be a file");
}

#[test]
fn nothing_but_a_map_is_replaced() {
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(1000 * 512)]);
    folder.paint("b.img", &[Run::data(512)]);
    std::os::unix::fs::symlink("a.img", folder.path("link")).unwrap();
    fs::hard_link(folder.path("a.img"), folder.path("hard")).unwrap();
    let itself = "it is the image, or a part of it";
    let foreign = "a file of this name exists that is not a block map";
    for (words, name, why) in [
        ("map -o a.img a.img", "a.img", itself),
        ("map -o link a.img", "link", itself),
        ("map -o a.img link", "a.img", itself),
        ("map -o hard a.img", "hard", itself),
        ("map -o b.img a.img", "b.img", foreign),
        ("map -o . a.img", ".", "Is a directory"),
        ("map -o /dev/null a.img", "/dev/null", "not a regular file"),
        ("map -o no/a.map a.img", "no/a.map", "No such file or directory"),
    ] {
        folder.image(words).failed(3, &format!("verisum: {name}: create: {why}"));
    }
    let mut from_stdin = folder.command("map -o a.img -");
    let ended = Ended::of(from_stdin.stdin(stdin_of(&folder.path("a.img"))).output().unwrap());
    ended.failed(3, &format!("verisum: a.img: create: {itself}"));
    folder
        .image("map -o - a.img")
        .failed(2, "verisum: -o -: a map is a file and needs a name (./- is a file of that name)");
    assert_eq!(folder.names(), ["a.img", "b.img", "hard", "link"]);
    assert_eq!(folder.image("map a.img").code, Some(2));
    assert_eq!(folder.image("map -a null -o new.map a.img").code, Some(2));
    // An empty file is nobody's, and an older map is replaced.
    fs::write(folder.path("a.map"), "").unwrap();
    folder.image("map -o a.map a.img").clean();
    folder.image("map -o a.map -a md5 b.img").clean();
    assert!(folder.image("info a.map").clean().contains("md5"));
}

#[test]
fn a_full_disk_or_a_missing_image_leaves_the_old_map() {
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(16 << 20)]);
    folder.paint("small.img", &[Run::data(512)]);
    let Some(mount) = Mount::new(FsKind::Tmpfs, 256 << 10) else { return };
    let map = mount.path().join("a.map");
    let words = |rest: &str| format!("map --block-size 512 -o {} {rest}", map.display());
    folder.image(&words("small.img")).clean();
    let old = fs::read(&map).unwrap();
    // The file system has a size of at least 1 MiB; the map takes as much.
    let full = format!("verisum: {}: write: No space left on device", map.display());
    folder.image(&words("a.img")).failed(3, &full);
    folder.image(&words("missing.img")).failed(3, "verisum: missing.img: open: No such file or directory");
    assert!(fs::read(&map).unwrap() == old);
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 1);
}

#[test]
fn a_kill_leaves_the_old_map_and_nothing_else() {
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(64 << 20)]);
    folder.paint("small.img", &[Run::data(512)]);
    folder.image("map -o a.map small.img").clean();
    let old = folder.read("a.map");
    for how in [Signal::KILL, Signal::INT] {
        let mut slow = folder.command("map -a sha3-512 --block-size 512 -t 1 -o a.map a.img");
        let child = start(slow.env("VERISUM_KERNEL", "portable"));
        // Until something of the map was written.
        let written = || {
            let fds = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
            fds.filter_map(|fd| fs::metadata(fd.path()).ok()).any(|file| {
                use std::os::unix::fs::MetadataExt;
                file.is_file() && file.nlink() == 0 && file.len() > 100_000
            })
        };
        wait_until("the map is being written", written);
        common::signal(&child, how);
        assert_eq!(Ended::of(child.wait_with_output().unwrap()).signal, Some(how.as_raw()));
        assert!(folder.read("a.map") == old);
        assert_eq!(folder.names(), ["a.img", "a.map", "small.img"]);
    }
}

#[test]
fn hostile_maps_are_refused_in_a_line() {
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(512 * 5000), Run::hole(512 * 5000), Run::data(512)]);
    folder.image("map --block-size 512 -o a.map a.img").clean();
    let good = folder.read("a.map");
    let refused = |what: &str, bytes: &[u8], why: &str| {
        fs::write(folder.path("bad.map"), bytes).unwrap();
        for words in
            ["verify --map bad.map a.img", "diff bad.map a.map", "diff a.img bad.map", "info bad.map"]
        {
            let ended = folder.image(words);
            assert_eq!(
                ended.stderr,
                format!("verisum: bad.map: the block map is corrupt: {why}\n"),
                "{what}: {words}"
            );
            assert_eq!((ended.code, ended.out()), (Some(1), ""), "{what}: {words}");
        }
    };
    let with = |offset: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[offset..offset + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let trailer = good.len() - 128;
    let huge = u64::MAX.to_le_bytes();
    refused(
        "cut",
        &good[..good.len() - 1],
        "it does not end as a block map does: it was cut, or something was added",
    );
    refused("short", &good[..100], "it is shorter than the shortest");
    refused("sections", &with(trailer + 16, &huge), "it names more sections than it has room for");
    refused("length", &with(trailer, &huge), "its index does not match its checksum");
    refused("block size", &with(12, &[0; 4]), "its block size is no even number above 0");
    refused("digest", &with(16, &[65]), "no digest has the length that it names");
    refused("name", &with(18, b"\n"), "the name of its digest is not printable");
    refused("root", &with(trailer + 24, b"x"), "its index does not match its checksum");
    let first_entry = trailer - 3 * 48;
    refused("order", &with(first_entry, &[1]), "its sections are not in order");
    refused("beyond", &with(first_entry + 96, &huge), "a section lies beyond the end of the image");
    refused("blocks", &with(first_entry + 8, &huge), "a section has no blocks or too many");
    // What only those see who read the digests.
    fs::write(folder.path("bad.map"), with(1000, b"x")).unwrap();
    folder.image("verify --map bad.map a.img").failed(
        1,
        "verisum: bad.map: the block map is corrupt: the digests from block 0 on: they do not match their checksum",
    );
    folder.image("info bad.map").clean();
    // Whether these are maps at all is not known.
    for (bytes, why) in [
        (&[0; 100][..], "open: not a block map (--map takes what `verisum image map -o MAP IMAGE` wrote)"),
        (&with(8, &[2]), "open: a block map of version 2, which is not known"),
    ] {
        fs::write(folder.path("bad.map"), bytes).unwrap();
        folder.image("verify --map bad.map a.img").failed(3, &format!("verisum: bad.map: {why}"));
    }
}

#[test]
fn info_tells_what_is_known() {
    let folder = Folder::new();
    folder.paint("a.img", &[Run::data(65_536), Run::hole(1 << 20)]);
    folder.resize("a.img", (1 << 20) + 65_537);
    let text = folder.image("info a.img").clean();
    for line in [
        "format:       raw",
        "virtual size: 1.06 MiB (1114624 bytes)",
        "padding:      511 bytes",
        "data:         64 KiB (65536 bytes)",
    ] {
        assert!(text.lines().any(|other| other == line), "{text}");
    }
    let json: Value = serde_json::from_str(&folder.image("info --json a.img").clean()).unwrap();
    assert_eq!((&json["size"], &json["data"]), (&1_114_624.into(), &65_536.into()));
    assert_eq!(json["layers"][0]["format"], "raw");
    folder.image("map --exact -o a.map a.img").clean();
    let json: Value = serde_json::from_str(&folder.image("info --json a.map").clean()).unwrap();
    let root = image_sum(["--exact".as_ref(), folder.path("a.img").as_os_str()]).clean();
    assert_eq!(json["digest"], values(&root)[0]);
    assert_eq!(
        (&json["size"], &json["data_blocks"], &json["blocks"]),
        (&1_114_113.into(), &2.into(), &18.into())
    );
    assert!(folder.image("info a.map").clean().contains("zero blocks:  16\n"));
    let piped = with_pipe(&mut folder.command("info -"), b"x");
    piped.failed(3, "verisum: standard input: info: nothing is known of a pipe before it is read");
    assert_eq!(verisum(["image", "info", "/no/such"]).code, Some(3));
}

#[test]
fn an_overlay_is_compared_with_its_base_and_updated_from_it() {
    let (Some(qemu_img), Some(qemu_io)) = (require_tool("qemu-img"), require_tool("qemu-io")) else { return };
    let folder = Folder::new();
    folder.paint("base.img", &[Run::hole(1 << 20), Run::data(3 << 20), Run::hole(4 << 20)]);
    let run = |program: &Path, words: &[&str]| {
        let mut command = command(program.to_str().unwrap());
        Ended::of(command.args(words).current_dir(folder.0.path()).output().unwrap()).clean()
    };
    run(&qemu_img, &["create", "-q", "-f", "qcow2", "-b", "base.img", "-F", "raw", "top.qcow2", "9M"]);
    let edits = ["write -P 7 2M 100k", "write -z 3M 64k", "write -P 9 8M 512"];
    for edit in edits {
        run(&qemu_io, &["-f", "qcow2", "-c", edit, "top.qcow2"]);
    }
    let ranges = "2097152 131072\n3145728 65536\n8388608 1048576\n";
    for words in ["map -o base.map base.img", "map -o top.map top.qcow2"] {
        folder.image(words).clean();
    }
    for words in ["diff base.img top.qcow2", "diff base.map top.qcow2", "diff base.map top.map"] {
        differs(folder.image(words), ranges);
    }
    run(&qemu_img, &["snapshot", "-c", "monday", "top.qcow2"]);
    run(&qemu_io, &["-f", "qcow2", "-c", "write -P 8 5M 512", "top.qcow2"]);
    let since = "5242880 65536\n";
    differs(folder.image("diff --snapshot-a monday top.qcow2 top.qcow2"), since);
    differs(folder.image("diff top.qcow2 top.qcow2 --snapshot-b 1"), since);
    differs(folder.image("diff --snapshot-b monday --format-b qcow2 top.qcow2 top.qcow2"), since);
    differs(folder.image("diff --snapshot-b monday base.map top.qcow2"), ranges);
    folder.image("diff --snapshot-b monday top.map top.qcow2").clean();
    assert_eq!(folder.image("diff --snapshot monday top.qcow2 top.qcow2").code, Some(2));
    assert_eq!(folder.image("diff --snapshot-a monday top.map top.qcow2").code, Some(2));
    run(&qemu_img, &["snapshot", "-a", "monday", "top.qcow2"]);
    run(&qemu_img, &["convert", "-q", "-c", "-O", "qcow2", "top.qcow2", "flat.qcow2"]);
    folder.image("diff flat.qcow2 top.qcow2").clean();
    folder.image("verify --map top.map flat.qcow2").clean();
    fs::write(folder.path("ranges"), run(&qemu_img, &["map", "--output=json", "top.qcow2"])).unwrap();
    let updated = folder.image("update --map base.map --ranges ranges -o new.map top.qcow2").clean();
    assert_eq!(updated, folder.image("sum top.qcow2").clean());
    assert!(folder.read("new.map") == folder.read("top.map"));
    for name in ["base.img", "top.qcow2"] {
        let failed = format!("verisum: {name}: create: it is the image, or a part of it");
        folder.image(&format!("map -o {name} top.qcow2")).failed(3, &failed);
    }
}
