//! `verisum image repair`: bad blocks are written anew, and nothing but bytes with the map's digests.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use common::sshd::sshd;
use common::{Ended, VERISUM, command, start, verisum};
use verisum_testkit::fault::btrfs_bad_file;
use verisum_testkit::{FsKind, LoopDevice, Mount, Run, paint, require_root, require_tool};

const BLOCK: u64 = 65536;

/// An image with data, holes and an end within a sector, its map, and two copies.
struct Images {
    folder: tempfile::TempDir,
}

impl Images {
    fn new(length: u64) -> Images {
        let images = Images { folder: tempfile::tempdir().unwrap() };
        let file = File::create(images.path("good")).unwrap();
        file.set_len(length).unwrap();
        for block in (0..length / BLOCK).filter(|block| block % 5 < 3) {
            let bytes: Vec<u8> = (0..BLOCK).map(|at| (at * 31 + block * 7 + at / 251) as u8).collect();
            file.write_all_at(&bytes, block * BLOCK).unwrap();
        }
        if !length.is_multiple_of(BLOCK) {
            file.write_all_at(b"end", length - 3).unwrap();
        }
        for name in ["image", "one", "two"] {
            fs::copy(images.path("good"), images.path(name)).unwrap();
        }
        let (map, image) = (images.path("map"), images.path("image"));
        let made = verisum(["image".into(), "map".into(), "-o".into(), map, image]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        images
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn damage(&self, name: &str, blocks: &[u64]) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        for block in blocks {
            file.write_all_at(b"damage", block * BLOCK + 77).unwrap();
        }
    }

    fn repair(&self, copies: &[&str], options: &[&str]) -> Ended {
        let mut arguments: Vec<PathBuf> =
            vec!["image".into(), "repair".into(), "--map".into(), self.path("map")];
        for copy in copies {
            arguments.extend(["--from".into(), self.path(copy)]);
        }
        arguments.extend(options.iter().map(PathBuf::from));
        arguments.push(self.path("image"));
        verisum(arguments)
    }

    fn is_good(&self) -> bool {
        fs::read(self.path("image")).unwrap() == fs::read(self.path("good")).unwrap()
    }
}

#[test]
fn who_mixes_up_image_map_and_copy_is_told_what_to_write() {
    let images = Images::new(8 * BLOCK);
    let [map, image, one] = ["map", "image", "one"].map(|name| images.path(name).display().to_string());
    let run = |words: &[&str]| verisum(words);
    let to_make = "(`verisum image map -o MAP IMAGE` makes a map while the image is good)";
    let made =
        "nowhere: open: no such file (`verisum image map -o MAP IMAGE` makes it while the image is good)";
    let one_image = "(one image is named here: --map names its block map, and --from of `repair` a copy)";
    for (words, code, told) in [
        (&["verify", &image][..], 2, to_make),
        (&["repair", "--from", &one, &image], 2, to_make),
        (&["verify", &map, &image], 2, one_image),
        (&["repair", "--map", &map, &image, &one], 2, one_image),
        (
            &["verify", "--map", &image, &map],
            3,
            "/image: open: not a block map (--map takes what `verisum image map",
        ),
        (&["verify", "--map", "nowhere", &image], 3, made),
        (
            &["repair", "--map", &map, "--from", &image, &image],
            2,
            "/image: is the image itself: --from takes a copy",
        ),
        (
            &["repair", "--map", &map, "--from", &map, &image],
            2,
            "/map: is a block map: --from takes an image",
        ),
        (
            &["repair", "--map", &map, "--from", &one, &image],
            0,
            "/image: nothing to repair: all blocks are as",
        ),
    ] {
        let ended = run(&[&["image"], words].concat());
        assert!(ended.code == Some(code) && ended.stderr.contains(told), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn copies_of_which_none_is_good_give_what_each_has() {
    for length in [40 * BLOCK, 40 * BLOCK + 1000] {
        let images = Images::new(length);
        images.damage("image", &[0, 1, 2, 7, 12, 20]);
        images.damage("one", &[1, 3, 20]);
        images.damage("two", &[2, 7, 20]);
        let before = fs::read(images.path("image")).unwrap();
        let tried = images.repair(&["one", "two"], &["--dry-run"]);
        assert_eq!((tried.code, fs::read(images.path("image")).unwrap() == before), (Some(1), true));
        let ended = images.repair(&["one", "two"], &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let [one, two] = ["one", "two"].map(|name| images.path(name).display().to_string());
        let expected = format!(
            "0 65536  repaired from {one}\n65536 65536  repaired from {two}\n131072 65536  repaired from {one}\n\
             458752 65536  repaired from {one}\n786432 65536  repaired from {one}\n1310720 65536  no copy has it\n"
        );
        let mut lines: Vec<&str> = ended.out().lines().collect();
        let mut wanted: Vec<&str> = expected.lines().collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
        for bad in [one, two] {
            assert!(
                ended.stderr.contains(&format!("{bad} has other blocks than the map too")),
                "{}",
                ended.stderr
            );
        }
        fs::copy(images.path("good"), images.path("one")).unwrap();
        let ended = images.repair(&["two", "one"], &["--json"]);
        let told: serde_json::Value = serde_json::from_str(ended.out()).unwrap();
        let bad: Vec<_> = told["bad_copies"].as_array().unwrap().iter().map(|copy| &copy["path"]).collect();
        assert_eq!(bad, [images.path("two").to_str().unwrap()]);
        assert!(images.is_good());
        assert!(!images.path("map.repair").exists());
    }
}

#[test]
fn what_was_cut_comes_back_with_its_holes() {
    let images = Images::new(1000 * BLOCK);
    let sparse = images.path("sparse");
    let Some(cp) = require_tool("cp") else { return };
    let mut copy = std::process::Command::new(cp);
    assert!(copy.arg("--sparse=always").args([images.path("good"), sparse]).status().unwrap().success());
    File::options().write(true).open(images.path("image")).unwrap().set_len(5000).unwrap();
    assert_eq!(images.repair(&["sparse"], &[]).code, Some(0));
    assert!(images.is_good());
    let [image, sparse] = ["image", "sparse"].map(|name| images.path(name).metadata().unwrap().blocks());
    assert!(image <= sparse + 256, "{image} {sparse}");
    // What was appended is told, and left alone.
    let file = File::options().append(true).open(images.path("image")).unwrap();
    file.write_all_at(&[1; 4096], 1000 * BLOCK).unwrap();
    drop(file);
    let ended = images.repair(&["good"], &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("4 KiB after its recorded end left alone"), "{}", ended.stderr);
}

#[test]
fn only_raw_images_that_nobody_writes_to_are_repaired() {
    let images = Images::new(10 * BLOCK);
    images.damage("image", &[1]);
    let writer = File::options().append(true).open(images.path("image")).unwrap();
    let ended = images.repair(&["one"], &[]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("a program has it open to write to it"), "{}", ended.stderr);
    drop(writer);
    let Some(qemu) = require_tool("qemu-img") else { return };
    let convert = |from: &str, to: &str| {
        let mut command = std::process::Command::new(&qemu);
        let (from, to) = (images.path(from), images.path(to));
        let done = command.args(["convert", "-f", "raw", "-O", "qcow2"]).args([from, to]).status();
        assert!(done.unwrap().success());
    };
    convert("one", "copy.qcow2");
    convert("image", "image.qcow2");
    let arguments = ["image", "repair", "--map"].map(PathBuf::from).into_iter();
    let rest = [images.path("map"), "--from".into(), images.path("one"), images.path("image.qcow2")];
    let ended = verisum(arguments.chain(rest));
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("only raw images can be repaired in place"), "{}", ended.stderr);
    // A copy may have any format.
    assert_eq!(images.repair(&["copy.qcow2"], &[]).code, Some(0));
    assert!(images.is_good());
    let Some(_) = require_root() else { return };
    // No driver has this device: opened, it would say so.
    let made =
        std::process::Command::new("mknod").arg(images.path("device")).args(["c", "241", "240"]).status();
    if made.is_ok_and(|made| made.success()) {
        let arguments = ["image", "repair", "--map"].map(PathBuf::from).into_iter();
        let rest = [images.path("map"), "--from".into(), images.path("one"), images.path("device")];
        let ended = verisum(arguments.chain(rest));
        assert_eq!(ended.code, Some(3));
        assert!(ended.stderr.contains("only raw image files and block devices"), "{}", ended.stderr);
    }
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let file = mount.path().parent().unwrap().join("image");
    let device = fs::read_to_string("/proc/mounts").unwrap();
    let device = device.lines().find(|line| line.contains(mount.path().to_str().unwrap())).unwrap();
    let device = device.split(' ').next().unwrap().to_string();
    let arguments = ["image", "repair", "--map"].map(PathBuf::from).into_iter();
    let rest = [images.path("map"), "--from".into(), file, device.into()];
    let ended = verisum(arguments.chain(rest));
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("busy"), "{}", ended.stderr);
}

#[test]
fn another_image_is_not_overwritten() {
    let images = Images::new(100 * BLOCK);
    let other: Vec<u8> = (0..100 * BLOCK).map(|at| (at * 7 % 253) as u8).collect();
    fs::write(images.path("image"), &other).unwrap();
    for options in [&[][..], &["--dry-run"]] {
        let ended = images.repair(&["one"], options);
        assert_eq!(ended.code, Some(3), "{}", ended.out());
        let what = "0 of 60 blocks with data are as the map says: it may be another image (--overwrite)";
        assert!(ended.stderr.contains(what), "{}", ended.stderr);
    }
    assert!(fs::read(images.path("image")).unwrap() == other);
    assert_eq!(images.repair(&["one"], &["--overwrite"]).code, Some(0));
    assert!(images.is_good());
}

#[test]
fn devices_are_repaired_too() {
    let Some(_) = require_root() else { return };
    let images = Images::new(64 * BLOCK);
    images.damage("image", &[0, 13, 40]);
    let Some(device) = LoopDevice::new(&images.path("image")) else { return };
    let arguments = ["image", "repair", "--map"].map(PathBuf::from).into_iter();
    let rest = [images.path("map"), "--from".into(), images.path("one"), device.path().to_path_buf()];
    let ended = verisum(arguments.chain(rest));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    drop(device);
    assert!(images.is_good());
}

#[test]
fn a_host_sends_only_what_is_bad() {
    let Some(server) = sshd("") else { return };
    let images = Images::new(200 * BLOCK);
    images.damage("image", &[3, 100]);
    let mut repair = server.verisum(&["image", "repair", "--json"]);
    let there = format!("web1:{}", images.path("one").display());
    let ended = server
        .run(repair.arg("--map").arg(images.path("map")).arg("--from").arg(there).arg(images.path("image")));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.out().contains("\"bytes_fetched\":131072"), "{}", ended.out());
    assert!(images.is_good());
}

/// How often a repair is killed; `TEST_KILLS` sets another number.
const KILLS: u32 = 30;

#[test]
fn killed_at_any_moment_every_block_is_old_or_new_and_the_next_run_ends_it() {
    let images = Images::new(400 * BLOCK);
    let good = fs::read(images.path("good")).unwrap();
    // All of them would be another image.
    let bad: Vec<u64> = (0..400).filter(|block| block % 5 < 2).collect();
    let kills = std::env::var("TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut random = 77_u32;
    for round in 0..kills {
        images.damage("image", &bad);
        let damaged = fs::read(images.path("image")).unwrap();
        let mut repair = command(VERISUM);
        repair
            .args(["image", "repair", "--map"])
            .arg(images.path("map"))
            .arg("--from")
            .arg(images.path("one"));
        let mut child = start(repair.arg(images.path("image")));
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(Duration::from_micros(u64::from(random >> 14)));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = fs::read(images.path("image")).unwrap();
        let is_journalled = images.path("map.repair").exists();
        for block in 0..400 {
            let place = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
            let is_whole =
                found[place.clone()] == good[place.clone()] || found[place.clone()] == damaged[place];
            assert!(is_whole || is_journalled, "round {round}: block {block}");
        }
        // The copy may be gone by now: what the journal has is enough for what was begun.
        if is_journalled {
            images.damage("two", &bad);
            let ended = images.repair(&["two"], &[]);
            assert!(ended.stderr.contains("of an interrupted repair"), "{}", ended.stderr);
            assert!(!images.path("map.repair").exists());
            fs::copy(images.path("good"), images.path("two")).unwrap();
        }
        assert_eq!(images.repair(&["one"], &[]).code, Some(0), "round {round}");
        assert!(images.is_good(), "round {round}");
    }
}

#[test]
fn a_journal_that_does_not_fit_changes_nothing() {
    let images = Images::new(10 * BLOCK);
    images.damage("image", &[1]);
    let before = fs::read(images.path("image")).unwrap();
    let refused = |journal: &[u8], words: &str| {
        fs::write(images.path("map.repair"), journal).unwrap();
        for options in [&[][..], &["--dry-run"]] {
            let ended = images.repair(&["one"], options);
            assert_eq!(ended.code, Some(3), "{options:?} {}", ended.stderr);
            assert!(ended.stderr.contains(words), "{options:?} {}", ended.stderr);
            assert_eq!(fs::read(images.path("image")).unwrap(), before);
        }
    };
    let root = verisum(["image".into(), "sum".into(), images.path("good")]).clean();
    let root = root.trim_end().rsplit(' ').next().unwrap();
    let root: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&root[2 * at..2 * at + 2], 16).unwrap()).collect();
    let head = [&b"VRSMREP1\x20"[..], &root].concat();
    let block = |number: u64, length: u32, bytes: &[u8]| {
        [&head[..], &number.to_le_bytes(), &length.to_le_bytes(), bytes].concat()
    };
    // A whole one is finished first, whatever the copies have.
    images.damage("one", &[1]);
    let good = &fs::read(images.path("good")).unwrap()[BLOCK as usize..2 * BLOCK as usize];
    fs::write(images.path("map.repair"), block(1, 65536, good)).unwrap();
    let told = images.repair(&["one"], &["--dry-run"]);
    assert_eq!((told.code, told.out()), (Some(0), ""), "{}", told.stderr);
    assert!(told.stderr.contains("the repair first finishes 1 blocks"), "{}", told.stderr);
    assert!(fs::read(images.path("image")).unwrap() == before && images.path("map.repair").exists());
    fs::copy(images.path("good"), images.path("one")).unwrap();
    refused(b"something else", "no journal of a repair with this map");
    refused(&block(10, 65536, &[0; 65536]), "a block that the image does not have");
    refused(&block(1, u32::MAX, &[]), "a block that the image does not have");
    refused(&block(1, 65536, &[0; 1000]), "it is cut short: move it away and repair again");
    refused(&block(1, 65536, &[0; 65536]), "a block in it is not what the map says");
    fs::remove_file(images.path("map.repair")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, images.path("map.repair"), rustix::fs::Mode::RUSR).unwrap();
    let ended = images.repair(&["one"], &[]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("not a regular file"), "{}", ended.stderr);
    fs::remove_file(images.path("map.repair")).unwrap();
    assert_eq!(images.repair(&["one"], &[]).code, Some(0));
    assert!(images.is_good());
}

#[test]
fn an_image_whose_storage_fails_is_read_block_by_block_and_written_anew() {
    let Some(bad) = btrfs_bad_file() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (copy, map) = (folder.path().join("copy"), folder.path().join("map"));
    paint(&copy, &[Run::data(bad.length)]).unwrap();
    let file = File::options().write(true).open(&copy).unwrap();
    file.write_all_at(b"verisum testkit: this goes wrong", bad.bad_offset).unwrap();
    drop(file);
    verisum(["image".into(), "map".into(), "-o".into(), map.clone(), copy.clone()]).clean();
    let repair = |more: &[&str]| {
        let mut arguments: Vec<PathBuf> = vec!["image".into(), "repair".into(), "--map".into(), map.clone()];
        arguments.extend(more.iter().map(PathBuf::from));
        arguments.extend(["--from".into(), copy.clone(), bad.path.clone()]);
        verisum(arguments)
    };
    let line = format!("{} 65536  mendable from {}\n", bad.bad_offset / BLOCK * BLOCK, copy.display());
    let tried = repair(&["-n"]);
    assert_eq!((tried.code, tried.out()), (Some(0), line.as_str()), "{}", tried.stderr);
    assert!(tried.stderr.contains("reading block by block"), "{}", tried.stderr);
    assert!(fs::read(&bad.path).is_err());
    assert_eq!(repair(&[]).code, Some(0));
    assert!(fs::read(&bad.path).unwrap() == fs::read(&copy).unwrap());
}

#[test]
fn an_image_behind_a_link_of_another_user_is_refused() {
    if require_root().is_none() {
        return;
    }
    let images = Images::new(10 * BLOCK);
    images.damage("image", &[1]);
    let before = fs::read(images.path("image")).unwrap();
    fs::rename(images.path("image"), images.path("theirs")).unwrap();
    std::os::unix::fs::symlink("theirs", images.path("image")).unwrap();
    std::os::unix::fs::lchown(images.path("image"), Some(65534), Some(65534)).unwrap();
    let ended = images.repair(&["one"], &[]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("a link of another user leads there"), "{}", ended.stderr);
    assert!(fs::read(images.path("theirs")).unwrap() == before);
    std::os::unix::fs::lchown(images.path("image"), Some(0), Some(0)).unwrap();
    assert_eq!(images.repair(&["one"], &[]).code, Some(0));
    assert!(fs::read(images.path("theirs")).unwrap() == fs::read(images.path("good")).unwrap());
}

/// A map that is not exact takes the last sector for full: the image keeps its own length, and what follows it.
#[test]
fn what_a_map_rounds_up_is_not_written() {
    let good: Vec<u8> = (0..1_999_999_u32).map(|at| (at * 31 + at / 251) as u8).collect();
    let new = || {
        let images = Images::new(10 * BLOCK);
        for name in ["image", "one"] {
            fs::write(images.path(name), &good).unwrap();
        }
        let (map, image) = (images.path("map"), images.path("image"));
        assert_eq!(verisum(["image".into(), "map".into(), "-o".into(), map, image]).code, Some(0));
        images
    };
    let with = |tail: &[u8]| [&good[..], tail].concat();
    for tail in [&b"tail"[..], &[7; 385], &[7; 5000]] {
        for damaged in [None, Some(77), Some(good.len() - 3)] {
            let images = new();
            let mut found = with(tail);
            if let Some(at) = damaged {
                found[at] ^= 1;
            }
            fs::write(images.path("image"), &found).unwrap();
            let ended = images.repair(&["one"], &[]);
            assert!(fs::read(images.path("image")).unwrap() == with(tail), "{damaged:?} {}", tail.len());
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            assert!(ended.stderr.contains("after its recorded end left alone"), "{}", ended.stderr);
        }
    }
    let images = new();
    File::options().write(true).open(images.path("image")).unwrap().set_len(1_999_000).unwrap();
    let ended = images.repair(&["one"], &[]);
    assert!(ended.code == Some(0) && fs::read(images.path("image")).unwrap() == good, "{}", ended.stderr);
    // A copy with a full last sector does not tell.
    fs::write(images.path("image"), with(b"tail")).unwrap();
    fs::write(images.path("one"), with(&[0; 385])).unwrap();
    fs::write(images.path("two"), with(&[0; 1000])).unwrap();
    let ended = images.repair(&["two"], &[]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("says where it ends"), "{}", ended.stderr);
    assert!(fs::read(images.path("image")).unwrap() == with(b"tail"));
}

/// Copies that are longer by zeros, as those of other formats are, do not make an image longer.
#[test]
fn an_image_keeps_its_length_where_that_fits() {
    let Some(qemu_img) = require_tool("qemu-img") else { return };
    for length in [198_001_u64, 65_537, 1000] {
        let images = Images::new(BLOCK);
        let good: Vec<u8> = (0..length).map(|at| (at * 31 + at / 251) as u8 | 1).collect();
        let padded = [&good[..], &vec![0; (length.next_multiple_of(512) - length) as usize]].concat();
        for (name, bytes) in [("good", &good), ("image", &good), ("padded", &padded)] {
            fs::write(images.path(name), bytes).unwrap();
        }
        let (map, image) = (images.path("map"), images.path("image"));
        assert_eq!(verisum(["image".into(), "map".into(), "-o".into(), map, image]).code, Some(0));
        let (from, to) = (images.path("padded"), images.path("qcow2"));
        let convert = ["convert", "-f", "raw", "-O", "qcow2"];
        let converted = std::process::Command::new(&qemu_img).args(convert).args([from, to]).status();
        assert!(converted.unwrap().success());
        for copies in [&["qcow2"][..], &["padded"], &["qcow2", "padded"]] {
            let mut rotten = good.clone();
            rotten[length as usize - 2..].copy_from_slice(b"\0X");
            fs::write(images.path("image"), &rotten).unwrap();
            let ended = images.repair(copies, &["--overwrite"]);
            assert!(ended.code == Some(0) && images.is_good(), "{length} {copies:?} {}", ended.stderr);
            // One that lost good bytes does not fit: and these copies do not say where it ends.
            fs::write(images.path("image"), &good[..length as usize - 2]).unwrap();
            let ended = images.repair(copies, &["--overwrite"]);
            assert!(ended.code == Some(0), "{length} {copies:?} {}", ended.stderr);
            assert!(fs::read(images.path("image")).unwrap() == padded, "{length} {copies:?}");
        }
        // Bytes that somebody may have appended are left alone.
        let appended = [&good[..], b"X"].concat();
        fs::write(images.path("image"), &appended).unwrap();
        for copy in ["qcow2", "padded"] {
            assert_eq!(images.repair(&[copy], &["--overwrite"]).code, Some(3));
            assert!(fs::read(images.path("image")).unwrap() == appended);
        }
    }
}

#[test]
fn a_copy_that_gives_nothing_is_named_and_the_next_one_is_asked() {
    let images = Images::new(10 * BLOCK);
    images.damage("image", &[1]);
    let alone = images.repair(&["nothere"], &[]);
    assert_eq!(alone.code, Some(3), "{}", alone.stderr);
    let none = images.repair(&["nothere", "gone"], &[]);
    assert_eq!(none.code, Some(3), "{}", none.stderr);
    for name in ["nothere", "gone"] {
        let why = format!("{}: open: No such file or directory", images.path(name).display());
        assert!(none.stderr.contains(&why), "{}", none.stderr);
    }
    File::options().write(true).open(images.path("two")).unwrap().set_len(100).unwrap();
    let ended = images.repair(&["nothere", "two", "one"], &["--json"]);
    assert!(ended.code == Some(0) && images.is_good(), "{}", ended.stderr);
    let [nothere, two] = ["nothere", "two"].map(|name| images.path(name).display().to_string());
    assert!(ended.stderr.contains(&format!("{nothere}: ")), "{}", ended.stderr);
    for why in [
        format!("{two} cannot be read there (it is shorter)"),
        format!("{nothere} cannot be read there (open: No such file or directory)"),
    ] {
        assert!(ended.stderr.contains(&why), "{why}: {}", ended.stderr);
    }
    let told: serde_json::Value = serde_json::from_str(ended.out()).unwrap();
    let names: Vec<_> =
        told["unreadable_copies"].as_array().unwrap().iter().map(|copy| &copy["path"]).collect();
    assert_eq!(names, [&nothere, &two]);
    assert_eq!(told["unreadable_copies"][1]["error"], "it is shorter");
    assert_eq!(told["bytes_fetched"], BLOCK);
}
