//! The reader of ext4 images against real ones, whole and damaged.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use verisum_lab::dirhash::ext4::{DirectoryReport, Ext4, Opaque, check};
use verisum_lab::dirhash::live;
use verisum_testkit::{FsKind, Mount, require_tool};

/// A mount with a directory `d` of so many names.
fn filled(count: u32) -> Option<Mount> {
    let mount = Mount::new(FsKind::Ext4, 64 << 20)?;
    let (target, folder) = (mount.path().join("target"), mount.path().join("d"));
    std::fs::write(&target, "").unwrap();
    std::fs::create_dir(&folder).unwrap();
    for number in 0..count {
        std::fs::hard_link(&target, folder.join(format!("größe {number}"))).unwrap();
    }
    Some(mount)
}

fn look(image: &Path) -> DirectoryReport {
    let ext4 = Ext4::open(image).unwrap();
    let directory = ext4.directory(ext4.find(b"/d").unwrap()).unwrap().unwrap();
    check(&ext4, &directory).unwrap()
}

/// Where an inode begins in the image.
fn inode_at(debugfs: &Path, image: &Path, inode: u32) -> u64 {
    let request = format!("imap <{inode}>");
    let out = Command::new(debugfs).args(["-R", &request]).arg(image).output().unwrap().stdout;
    // located at block 37, offset 0x0a00
    let out = String::from_utf8(out).unwrap();
    let (block, offset) = out.split_once("at block ").unwrap().1.split_once(", offset 0x").unwrap();
    block.parse::<u64>().unwrap() * 4096 + u64::from_str_radix(offset.trim(), 16).unwrap()
}

#[test]
fn a_sound_directory_is_sound_and_damage_is_named() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    let Some(mut mount) = filled(8000) else { return };
    let size = std::fs::metadata(mount.path().join("d")).unwrap().len();
    mount.edit_image(|image| {
        let report = look(image);
        assert_eq!(report.findings, []);
        assert_eq!((report.names, report.blocks, report.levels), (8000, size / 4096, 1));
        assert_eq!(report.hash.unwrap().id, "half_md4");
        assert!(report.blocks_if_rebuilt < report.blocks);

        let out = Command::new(&debugfs).args(["-R", "bmap /d 0"]).arg(image).output().unwrap().stdout;
        let root: u64 = String::from_utf8(out).unwrap().trim().parse().unwrap();
        let out = Command::new(&debugfs).args(["-R", "bmap /d 1"]).arg(image).output().unwrap().stdout;
        let leaf: u64 = String::from_utf8(out).unwrap().trim().parse().unwrap();
        let file = OpenOptions::new().read(true).write(true).open(image).unwrap();
        let damage = |at: u64, bytes: &[u8], wanted: &str| {
            let mut before = vec![0; bytes.len()];
            file.read_exact_at(&mut before, at).unwrap();
            file.write_all_at(bytes, at).unwrap();
            let report = look(image);
            let found = report.findings.iter().any(|finding| finding.what.contains(wanted));
            assert!(found, "{wanted}: {:?}", &report.findings[..report.findings.len().min(3)]);
            file.write_all_at(&before, at).unwrap();
            assert_eq!(look(image).findings, []);
        };
        let root = root * 4096;
        let entry = |place: u64| root + 32 + 8 * place;
        // A letter of the first name; a key; two entries of the index; a continuation; a length.
        damage(leaf * 4096 + 8, b"X", "the leaf");
        damage(leaf * 4096 + 8, b"X", "the leaf's records: checksum");
        damage(entry(2), &[2], "the index: checksum");
        damage(entry(3), &[0xff; 4], "out of order");
        let mut pair = [0; 16];
        file.read_exact_at(&mut pair, entry(4)).unwrap();
        pair.rotate_left(8);
        damage(entry(4), &pair, "out of order");
        let mut key = [0; 4];
        file.read_exact_at(&mut key, entry(5)).unwrap();
        key[0] |= 1;
        damage(entry(5), &key, "this one has such a hash too");
        damage(leaf * 4096 + 4, &[3, 0], "record at byte 0");
        damage(root + 28, &[9], "hash version 9");
        damage(root + 34, &[0xff, 0xff], "entries");
        // A limit that is too large; ways in a circle, to one block twice, and out of the directory.
        damage(root + 32, &[0xff, 0xff], "have room");
        let block_of = |place: u64| {
            let mut block = [0; 4];
            file.read_exact_at(&mut block, entry(place) + 4).unwrap();
            block
        };
        damage(entry(6) + 4, &[0; 4], "another entry leads to block 0 too");
        damage(entry(7) + 4, &block_of(8), "another entry leads to");
        damage(entry(7) + 4, &block_of(8), "the index does not lead to this block");
        damage(entry(9) + 4, &[0xff, 0xff, 0xff, 0x0f], "is not in the directory");
        damage(root + 29, &[7], "the root of the index is damaged");
        damage(root + 30, &[3], "the root of the index is damaged");
        damage(root + 30, &[1], "entries");
        // Another seed, and characters without a sign.
        damage(1024 + 236, &[1, 2, 3, 4], "the leaf");
        damage(1024 + 352, &[2], "the leaf");
        let inode = look(image).inode;
        let mut flags = [0; 4];
        let at = inode_at(&debugfs, image, inode) + 32;
        file.read_exact_at(&mut flags, at).unwrap();
        let with = |bit: u32| (u32::from_le_bytes(flags) | bit).to_le_bytes();
        // Folded, as long as all letters are ASCII's: these are not, and must not be called damaged.
        file.write_all_at(&with(0x4000_0000), at).unwrap();
        let report = look(image);
        assert_eq!((report.findings.as_slice(), report.unfolded), (&[][..], 8000));
        file.write_all_at(&with(0x800), at).unwrap();
        assert_eq!(look(image).opaque, Some(Opaque::Encrypted));
        file.write_all_at(&with(0x1000_0000), at).unwrap();
        assert_eq!(look(image).opaque, Some(Opaque::Inline));
        file.write_all_at(&flags, at).unwrap();
        // An image that ends in the middle: blocks are outside, nothing else happens.
        let whole = file.metadata().unwrap().len();
        file.set_len(leaf * 4096).unwrap();
        let ext4 = Ext4::open(image).unwrap();
        let directory = ext4.directory(inode);
        assert!(directory.map_or(true, |found| !check(&ext4, &found.unwrap()).unwrap().findings.is_empty()));
        file.set_len(whole).unwrap();
    });
}

#[test]
fn a_mounted_directory_s_positions_are_its_hashes() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    let Some(mut mount) = filled(3000) else { return };
    let found = live::read(&mount.path().join("d")).unwrap();
    assert_eq!(found.entries.len(), 3000);
    let device = found.file_system().expect("root reads the device");
    let hashes: Vec<&str> = found.hashes(Some(device.seed()), None).iter().map(|hash| hash.id).collect();
    assert_eq!(hashes, ["half_md4"], "names with ö tell signed from unsigned characters");
    assert!(found.hashes(None, None).is_empty(), "the seed is random");
    drop(device);
    mount.edit_image(|image| {
        let ext4 = Ext4::open(image).unwrap();
        let hash = &verisum_digest::namehash::NAME_HASHES[1];
        for entry in &found.entries {
            let value = hash.hash(&entry.name, &ext4.seed());
            assert_eq!((entry.hash, entry.minor), (value.hash as u32, value.minor));
        }
        let out = Command::new(&debugfs).args(["-R", "htree_dump /d"]).arg(image).output().unwrap().stdout;
        let out = String::from_utf8_lossy(&out);
        for entry in found.entries.iter().step_by(100) {
            assert!(out.contains(&format!("0x{:08x}-{:08x}", entry.hash, entry.minor)));
        }
        // Leaves by position, as debugfs lists them; a record's name there may be cut, its bracket not.
        let index = look(image).leaf_uses;
        let by_position = found.leaf_uses(&index);
        assert!(by_position.iter().flatten().count() > index.len() / 2);
        for (leaf, used) in index.iter().zip(&by_position) {
            let text = out.split(&format!("Reading directory block {},", leaf.block)).nth(1).unwrap();
            let text = text.split("Entry #").next().unwrap().split("leaf block checksum").next().unwrap();
            let names = text.matches("größe").count() as u32;
            assert_eq!(leaf.names, names, "block {}", leaf.block);
            assert!(used.is_none_or(|used| used == *leaf), "{used:?} {leaf:?}");
        }
    });
    assert!(live::read(Path::new("/proc")).is_err());
}

#[test]
fn the_first_name_of_one_block_has_its_hash() {
    let Some(mount) = Mount::new(FsKind::Ext4, 64 << 20) else { return };
    for number in 0..60 {
        let folder = mount.path().join(format!("d{number}"));
        std::fs::create_dir(&folder).unwrap();
        for name in 0..number % 4 + 1 {
            std::fs::write(folder.join(format!("n{number} {name}")), "").unwrap();
        }
        let found = live::read(&folder).unwrap();
        assert!(!found.indexed);
        let device = found.file_system().expect("root reads the device");
        let hash = device.new_hash().unwrap();
        for entry in &found.entries {
            let value = hash.hash(&entry.name, &device.seed());
            assert_eq!((u64::from(entry.hash), entry.minor), (value.hash, value.minor), "{number}");
        }
        // ASCII alone: the superblock says what signs characters have.
        let unsigned = Some(device.has_unsigned_characters());
        let hashes: Vec<&str> =
            found.hashes(Some(device.seed()), unsigned).iter().map(|hash| hash.id).collect();
        assert_eq!(hashes, [hash.id]);
    }
}

#[test]
fn directories_that_the_kernel_does_not_hash_are_refused() {
    let Some(mke2fs) = require_tool("mke2fs") else { return };
    let tree = tempfile::tempdir().unwrap();
    for count in [3, 300] {
        let folder = tree.path().join(format!("d{count}"));
        std::fs::create_dir(&folder).unwrap();
        for number in 0..count {
            std::fs::write(folder.join(format!("a name {number}")), "").unwrap();
        }
    }
    // With the feature, what is in one block is hashed when it is listed.
    for (features, is_hashed) in [("dir_index", [true, false]), ("^dir_index", [false, false])] {
        let Some(mut mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
        mount.edit_image(|image| {
            let made = Command::new(&mke2fs)
                .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-O", features, "-d"])
                .args([tree.path(), image])
                .output()
                .unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        });
        for (name, is_hashed) in ["d3", "d300"].into_iter().zip(is_hashed) {
            let found = live::read(&mount.path().join(name));
            assert_eq!(found.is_ok(), is_hashed, "{features} {name}: {found:?}");
            let refused = matches!(found, Err(live::LiveError::NotHashed));
            assert_ne!(refused, is_hashed, "{features} {name}");
        }
    }
}

#[test]
fn e2fsck_leaves_as_many_blocks_as_was_said() {
    let (Some(e2fsck), Some(mke2fs)) = (require_tool("e2fsck"), require_tool("mke2fs")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    // Names of one length for each, by which leaves end at other places; and of many lengths.
    let mut directories: Vec<(String, u64)> = Vec::new();
    let mut fill = |directory: &str, count: u64, name: &dyn Fn(u64) -> String| {
        std::fs::create_dir_all(tree.join(directory)).unwrap();
        for number in 0..count {
            std::fs::write(tree.join(directory).join(name(number)), "").unwrap();
        }
        directories.push((directory.to_string(), count));
    };
    for count in [1, 60, 100, 400, 3000] {
        fill(&format!("d{count}"), count, &|number| {
            format!("{}{number}", "long".repeat(number as usize % 30))
        });
    }
    for length in (4..100).step_by(4) {
        fill(&format!("w{length}"), 260, &|number| format!("{number:0length$}"));
    }
    for (features, block_size) in [
        ("metadata_csum", "1024"),
        ("metadata_csum", "4096"),
        ("^metadata_csum", "1024"),
        ("^metadata_csum", "4096"),
        // The first group's descriptors then lie elsewhere than the first data block says.
        ("bigalloc", "1024"),
    ] {
        let image = folder.path().join(format!("{block_size}{features}"));
        let made = Command::new(&mke2fs)
            .args(["-q", "-F", "-t", "ext4", "-b", block_size, "-N", "12000", "-O", features, "-d"])
            .args([&tree, &image])
            .arg("256M")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let reports = |image: &Path| -> Vec<DirectoryReport> {
            let ext4 = Ext4::open(image).unwrap();
            let report = |(name, count): &(String, u64)| {
                let inode = ext4.find(format!("/{name}").as_bytes()).unwrap();
                let report = check(&ext4, &ext4.directory(inode).unwrap().unwrap()).unwrap();
                assert_eq!((report.findings.as_slice(), report.names), (&[][..], *count));
                report
            };
            // e2fsck leaves that one as it is.
            directories.iter().chain([&("lost+found".to_string(), 0)]).map(report).collect()
        };
        let before = reports(&image);
        let done = Command::new(&e2fsck).args(["-fyD"]).arg(&image).output().unwrap();
        assert!(done.status.code().is_some_and(|code| code <= 1), "{done:?}");
        for (before, after) in before.iter().zip(reports(&image)) {
            assert_eq!(before.blocks_if_rebuilt, after.blocks, "{features} {block_size} {before:?}");
            assert_eq!(after.blocks_if_rebuilt, after.blocks, "once more changes nothing");
        }
    }
}

#[test]
fn descriptors_in_their_own_groups_are_found_and_wrong_sizes_refused() {
    let (Some(mke2fs), Some(debugfs)) = (require_tool("mke2fs"), require_tool("debugfs")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    for features in [
        "meta_bg,^resize_inode,64bit",
        "meta_bg,^resize_inode,^64bit",
        "meta_bg,^resize_inode,^sparse_super",
        "sparse_super2,meta_bg,^resize_inode",
    ] {
        let _ = std::fs::remove_file(&image);
        let made = Command::new(&mke2fs)
            .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features])
            .args([image.as_os_str(), "512M".as_ref()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let ext4 = Ext4::open(&image).unwrap();
        // In groups of each meta group, an inode of the group's table as debugfs sees it becomes a directory.
        let per_group = ext4.inodes() / 64;
        for group in [1, 15, 16, 17, 31, 32, 40, 48, 63] {
            let inode = group * per_group + 1;
            let request = format!("imap <{inode}>");
            let out = Command::new(&debugfs).args(["-R", &request]).arg(&image).output().unwrap().stdout;
            let out = String::from_utf8(out).unwrap();
            let (block, offset) = out.split_once("at block ").unwrap().1.split_once(", offset 0x").unwrap();
            let at = block.parse::<u64>().unwrap() * 1024 + u64::from_str_radix(offset.trim(), 16).unwrap();
            let file = OpenOptions::new().write(true).open(&image).unwrap();
            file.write_all_at(&0x41edu16.to_le_bytes(), at).unwrap();
            file.write_all_at(&[1], at + 26).unwrap();
            assert!(ext4.directory(inode).unwrap().is_some(), "{features} group {group}");
        }
    }
    // Inodes of a group, and blocks of one: with fewer groups directories would be out of sight.
    for (at, value) in [(1064, 1), (1056, u32::MAX)] {
        let mut before = [0; 4];
        let file = OpenOptions::new().read(true).write(true).open(&image).unwrap();
        file.read_exact_at(&mut before, at).unwrap();
        file.write_all_at(&u32::to_le_bytes(value), at).unwrap();
        assert!(Ext4::open(&image).unwrap_err().to_string().contains("superblock is damaged"));
        file.write_all_at(&before, at).unwrap();
    }
}

#[test]
fn what_is_no_ext4_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    for content in [vec![], vec![0; 1000], vec![0xff; 8192]] {
        std::fs::write(&path, content).unwrap();
        assert!(Ext4::open(&path).is_err());
    }
}

/// What the fuzz target does, on some thousands of random images.
#[test]
fn damaged_images_neither_panic_nor_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let Some(mke2fs) = require_tool("mke2fs") else { return };
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("d")).unwrap();
    for number in 0..200 {
        std::fs::write(tree.join("d").join(format!("name {number}")), "").unwrap();
    }
    let made = Command::new(mke2fs)
        .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal", "-N", "256", "-d"])
        .args([&tree, &path])
        .arg("1M")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let sound = std::fs::read(&path).unwrap();
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    for round in 0..600 {
        let mut image = sound.clone();
        let end = if round % 3 == 0 { 2048 } else { image.len().min(300 * 1024) };
        for _ in 0..1 + next() % 40 {
            image[1024 + next() % (end - 1024)] = next() as u8;
        }
        std::fs::write(&path, image).unwrap();
        let Ok(ext4) = Ext4::open(&path) else { continue };
        for inode in 1..=ext4.inodes().min(300) {
            if let Ok(Some(directory)) = ext4.directory(inode) {
                let _ = check(&ext4, &directory);
            }
        }
        let _ = ext4.find(b"/d");
    }
}
