//! `verisum scrub` of what storage and other programs do to files: which of it is rot, and which is not.

use crate::common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use common::scrubbing::{Tree, check, expect, export, s, scrub};
use common::{flip, verisum};
use verisum_testkit::{FsKind, Mount, require_tool};

#[test]
fn rot_on_a_disk_is_found() {
    let Some(mut mount) = Mount::new(FsKind::Ext4, 32 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, path) = (folder.path().join("c.db"), mount.path().canonicalize().unwrap().join("file"));
    let marker = b"verisum: these bytes are going to rot";
    let mut content = vec![7; 100_000];
    content[..marker.len()].copy_from_slice(marker);
    fs::write(&path, &content).unwrap();
    fs::write(mount.path().join("other"), "other").unwrap();
    assert_eq!(scrub(&catalog, &mount.path(), &[]).code, Some(0));
    let mut image = PathBuf::new();
    mount.edit_image(|file| {
        flip(file, marker);
        image = file.to_path_buf();
        // While nothing is mounted, nothing is missing.
        let ended = scrub(&catalog, file.parent().unwrap().join("mount").as_path(), &[]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("is it mounted?"), "{}", ended.stderr);
        // Who watches the catalogue is told, and so is who reads a report.
        let status = verisum([s("catalog"), s("status"), s("--nagios"), s("--catalog"), catalog.clone()]);
        assert_eq!(status.code, Some(1), "{}", status.out());
        let line = status.out();
        assert!(line.starts_with("VERISUM WARNING") && line.contains(" failed: "), "{line}");
        let report = verisum([s("report"), s("--json"), catalog.clone()]);
        assert_eq!(report.code, Some(3), "{}", report.out());
        assert!(report.out().contains("FAILED: the last run of "), "{}", report.out());
    });
    let ended = scrub(&catalog, &mount.path(), &[]);
    expect(&ended, 1, &[("rot", &path)]);
    assert!(ended.out().contains("second read past the page cache: the same"), "{}", ended.out());

    // The disk is good again, and the page cache is not: that is no rot.
    assert_ne!(fs::read(&path).unwrap(), content);
    flip(&image, &{
        let mut flipped = *marker;
        flipped[0] ^= 0x55;
        flipped
    });
    expect(&scrub(&catalog, &mount.path(), &[]), 1, &[("flaky", &path)]);
    expect(&scrub(&catalog, &mount.path(), &[]), 0, &[("ok", &path)]);
    check(&catalog);
}

#[test]
fn a_checksum_error_of_the_file_system_is_an_error_of_its_storage() {
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, path) = (folder.path().join("c.db"), mount.path().canonicalize().unwrap().join("file"));
    let marker = b"verisum: these bytes are going to rot";
    let mut content = vec![7; 100_000];
    content[..marker.len()].copy_from_slice(marker);
    fs::write(&path, &content).unwrap();
    assert_eq!(scrub(&catalog, &mount.path(), &[]).code, Some(0));
    mount.edit_image(|file| flip(file, marker));
    expect(&scrub(&catalog, &mount.path(), &[]), 3, &[("io-error", &path)]);
    let nagios = scrub(&catalog, &mount.path(), &["--nagios"]);
    let line = "VERISUM CRITICAL - 1 file, 0 bad, 1 unchecked (1 because storage fails) | ";
    assert!(nagios.code == Some(2) && nagios.out().starts_with(line), "{}", nagios.out());
    // Its record follows it to another name, and nobody forgets it.
    let renamed = path.with_file_name("renamed");
    fs::rename(&path, &renamed).unwrap();
    for _ in 0..2 {
        expect(&scrub(&catalog, &mount.path(), &[]), 3, &[("io-error", &renamed)]);
    }
    let accept = verisum([s("accept"), s("--catalog"), catalog.clone(), mount.path()]);
    assert_eq!(accept.code, Some(3), "{}", accept.out());
    check(&catalog);
    // Restored from a backup.
    fs::write(&renamed, &content).unwrap();
    expect(&scrub(&catalog, &mount.path(), &["-v"]), 0, &[("touched", &renamed)]);
}

/// Two files of one time and of these contents, as a scrub knows them: the catalogue, and their paths.
fn neighbours(mount: &Mount, folder: &Path, contents: [&[u8]; 2]) -> (PathBuf, [PathBuf; 2]) {
    let top = mount.path().canonicalize().unwrap();
    let paths = [top.join("one"), top.join("two")];
    for (path, content) in paths.iter().zip(contents) {
        fs::write(path, content).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
        file.sync_all().unwrap();
    }
    let catalog = folder.join("c.db");
    assert_eq!(scrub(&catalog, &top, &[]).code, Some(0));
    (catalog, paths)
}

/// Lets two files change places.
fn swap([one, two]: &[PathBuf; 2]) {
    let aside = one.with_file_name("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(two, one).unwrap();
    fs::rename(aside, two).unwrap();
}

/// The digest that a catalogue records of a name.
fn recorded(catalog: &Path, name: &str) -> String {
    let text = export(catalog);
    let line = text.lines().find(|line| line.contains(&format!("\"path\":\"{name}\""))).unwrap();
    line.split("\"digest\":\"").nth(1).unwrap().split('"').next().unwrap().to_string()
}

#[test]
fn a_record_follows_a_file_whose_second_read_differs_to_its_new_name() {
    let marker = b"verisum: these bytes are going to rot";
    let mut content = vec![7; 100_000];
    content[..marker.len()].copy_from_slice(marker);
    let other = [b"verisum: and these are to rot as well".as_slice(), &[9; 70_000]].concat();
    for both in [false, true] {
        let Some(mut mount) = Mount::new(FsKind::Ext4, 32 << 20) else { return };
        let folder = tempfile::tempdir().unwrap();
        let mut image = PathBuf::new();
        mount.edit_image(|file| image = file.to_path_buf());
        let (catalog, paths) = neighbours(&mount, folder.path(), [&content, &other]);
        let records = [recorded(&catalog, "one"), recorded(&catalog, "two")];
        // The page cache has what was written, and the disk no longer.
        let (one, two) = (fs::read(&paths[0]).unwrap(), fs::read(&paths[1]).unwrap());
        assert!(one == content && two == other);
        flip(&image, marker);
        if both {
            flip(&image, &other[..37]);
        }
        swap(&paths);
        let ended = scrub(&catalog, &mount.path(), &["-v"]);
        let first = if both { "flaky" } else { "modified" };
        expect(&ended, 1, &[(first, &paths[0]), ("flaky", &paths[1])]);
        assert_eq!([recorded(&catalog, "two"), recorded(&catalog, "one")], records, "{both}");
        // From the disk alone it is bad by its own record. The new name has moved the time of its inode.
        let bad: &[(&str, &Path)] = &[("suspicious", &paths[1]), ("suspicious", &paths[0])];
        let ended = scrub(&catalog, &mount.path(), &[]);
        expect(&ended, 1, if both { bad } else { &bad[..1] });
        fs::write(&paths[1], &content).unwrap();
        fs::write(&paths[0], &other).unwrap();
        assert_eq!(scrub(&catalog, &mount.path(), &["-q"]).clean(), "", "{both}");
        check(&catalog);
    }
}

#[test]
fn a_record_follows_a_file_that_cannot_be_read_to_the_name_of_another() {
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let marker = b"verisum: these bytes are going to rot";
    let mut content = vec![7; 100_000];
    content[..marker.len()].copy_from_slice(marker);
    let (catalog, paths) = neighbours(&mount, folder.path(), [&content, &[9; 70_000]]);
    let records = [recorded(&catalog, "one"), recorded(&catalog, "two")];
    mount.edit_image(|file| flip(file, marker));
    swap(&paths);
    let ended = scrub(&catalog, &mount.path(), &["-v"]);
    expect(&ended, 3, &[("modified", &paths[0]), ("io-error", &paths[1])]);
    assert_eq!([recorded(&catalog, "two"), recorded(&catalog, "one")], records);
    expect(&scrub(&catalog, &mount.path(), &[]), 3, &[("io-error", &paths[1])]);
    fs::write(&paths[1], &content).unwrap();
    expect(&scrub(&catalog, &mount.path(), &["-v"]), 0, &[("touched", &paths[1])]);
    check(&catalog);
}

#[test]
fn a_file_that_is_written_to_all_the_time_is_busy() {
    let tree = Tree::new();
    let path = tree.path("log");
    fs::write(&path, vec![1; 32 << 20]).unwrap();
    tree.scrub(&[]).clean();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            for number in 0_u64.. {
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                file.write_all_at(&number.to_le_bytes(), 4096).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        // Each reading takes a second: the writer gets its turn.
        let ended = tree.scrub(&["--foreground", "--limit", "32MiB/s"]);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        expect(&ended, 3, &[("busy", &path)]);
    });
    expect(&tree.scrub(&["-v"]), 0, &[("modified", &path)]);
}

/// Maps a file and, for each line of input, writes a byte into it and says so; at the end it brings the
/// file to the disk.
const MAPPED: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, 8192)
for number, line in enumerate(sys.stdin):
    memory[number] = 65 + number
    print('done', flush=True)
memory.flush()
";

#[test]
fn what_is_written_through_mapped_memory_is_no_rot() {
    let (Some(mount), Some(python)) = (Mount::new(FsKind::Ext4, 0), require_tool("python3")) else { return };
    let tree = Tree::new();
    let path = mount.path().join("data");
    for tagged in [false, true] {
        fs::write(&path, [7; 8192]).unwrap();
        let read = |verb: [&str; 2]| match tagged {
            true => verisum([s(verb[1]), path.clone()]),
            false => scrub(&tree.catalog(), &mount.path(), &["-v"]),
        };
        let mut child = Command::new(&python);
        child.args(["-c", MAPPED]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut store = || {
            to.write_all(b"\n").unwrap();
            from.read_line(&mut String::new()).unwrap();
        };
        // What is written after it was recorded goes into a page that was written to before.
        store();
        let ended = read(["", "tag"]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
        store();
        let ended = read(["", "verify"]);
        let word = if tagged { "data: modified" } else { "modified  " };
        assert!(ended.out().contains(word), "{}{}", ended.out(), ended.stderr);
        drop(to);
        child.wait().unwrap();
    }
}

#[test]
fn a_device_that_fails_is_left_alone() {
    let Some(bad) = verisum_testkit::fault::btrfs_bad_file() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, root) = (folder.path().join("c.db"), bad.mount.path().canonicalize().unwrap());
    expect(&scrub(&catalog, &root, &["--stop-after", "1"]), 3, &[("io-error", &root.join("bad"))]);
    for number in 0..5 {
        fs::write(root.join(format!("later{number}")), "x").unwrap();
    }
    // Whichever comes first, files that are given up are counted and not taken for missing.
    let ended = scrub(&catalog, &root, &["-t1", "--stop-after", "1"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(!ended.out().contains("missing"), "{}", ended.out());
    assert_eq!(scrub(&catalog, &root, &["--stop-after", "0"]).code, Some(3));
    assert_eq!(export(&catalog).matches("\"later").count(), 5);
}

/// Flips a bit of each place in an image where some bytes are, the journal among them.
fn flip_all(image: &Path, bytes: &[u8]) {
    let mut content = fs::read(image).unwrap();
    let places: Vec<usize> =
        (0..content.len() - bytes.len()).filter(|at| content[*at..].starts_with(bytes)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| content[at] ^= 1);
    fs::write(image, content).unwrap();
}

/// Flips a bit of the inode of a file of an ext4, by its path there.
fn flip_inode(debugfs: &Path, image: &Path, path: &str) {
    let ask = |request: &str| {
        let output = Command::new(debugfs).args(["-R", request]).arg(image).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let after = |text: &str, word: &str| {
        let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("{word}: {text}"));
        rest.trim_start().split([',', '\n']).next().unwrap().to_string()
    };
    let (place, features) = (ask(&format!("imap {path}")), ask("show_super_stats -h"));
    assert!(features.contains("metadata_csum"), "{features}");
    let size: u64 = after(&features, "Block size:").parse().unwrap();
    let block: u64 = after(&place, "located at block ").parse().unwrap();
    let offset = u64::from_str_radix(&after(&place, "offset 0x"), 16).unwrap();
    let file = File::options().read(true).write(true).open(image).unwrap();
    // A part of its time of change.
    let (at, mut byte) = (block * size + offset + 12, [0]);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn what_the_walk_cannot_look_at_because_storage_fails_is_an_error_of_it() {
    let (Some(mut mount), Some(debugfs)) = (Mount::new(FsKind::Ext4, 32 << 20), require_tool("debugfs"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, root) = (folder.path().join("c.db"), mount.path().canonicalize().unwrap());
    let (file, below) = (root.join("file"), root.join("below"));
    fs::write(&file, "content").unwrap();
    fs::create_dir(&below).unwrap();
    fs::write(below.join("what-is-beneath"), "content").unwrap();
    scrub(&catalog, &root, &[]).clean();
    mount.edit_image(|image| {
        flip_inode(&debugfs, image, "/file");
        flip_all(image, b"what-is-beneath");
    });
    let summary = |ended: &common::Ended| -> String {
        ended.out().lines().find(|line| line.contains("\"type\":\"summary\"")).unwrap().to_string()
    };
    for _ in 0..2 {
        let ended = scrub(&catalog, &root, &["--json"]);
        assert_eq!(ended.code, Some(3), "{}{}", ended.out(), ended.stderr);
        let line = summary(&ended);
        assert!(line.contains("\"io-error\":2") && line.contains("\"unverifiable\":0"), "{line}");
        for path in [&file, &below] {
            let name = format!("\"path\":\"{}\"", path.display());
            let named = |line: &&str| {
                line.contains("\"type\":\"file\"")
                    && line.contains(&name)
                    && line.contains("\"outcome\":\"io-error\"")
            };
            assert_eq!(ended.out().lines().filter(named).count(), 1, "{}", ended.out());
        }
    }
    let nagios = scrub(&catalog, &root, &["--nagios"]);
    let line = "VERISUM CRITICAL - 2 files, 0 bad, 2 unchecked (2 because storage fails)";
    assert!(nagios.code == Some(2) && nagios.out().starts_with(line), "{}", nagios.out());
    let ended = verisum([s("accept"), s("--catalog"), catalog.clone(), root]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("file: ") && !ended.stderr.contains("has a problem"), "{}", ended.stderr);
    check(&catalog);
}
