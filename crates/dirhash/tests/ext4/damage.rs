//! Damage is found, named, and is what e2fsck calls damage.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use verisum_dirhash::Hashing;
use verisum_dirhash::attack;
use verisum_dirhash::ext4::{Ext4, VolumeSurvey, check};
use verisum_dirhash::namehash::{NameHash, Seed};
use verisum_testkit::{FsKind, Mount, require_tool};

use crate::{debugfs_block, filled, inode_at, look, made_of};

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
        let mut byte = [0];
        file.read_exact_at(&mut byte, entry(2)).unwrap();
        damage(entry(2), &[byte[0] ^ 1], "the index: checksum");
        damage(entry(3), &[0xff; 4], "out of order");
        let mut pair = [0; 16];
        file.read_exact_at(&mut pair, entry(4)).unwrap();
        pair.rotate_left(8);
        damage(entry(4), &pair, "out of order");
        let mut key = [0; 4];
        file.read_exact_at(&mut key, entry(5)).unwrap();
        key[0] |= 1;
        damage(entry(5), &key, "the index: checksum");
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
        // What no checksum is needed for: what is not used, and the records of . and ..
        damage(root + 27, &[1], "zeros must be");
        damage(root + 31, &[1], "zeros must be");
        damage(root, &[99], "the record of . is damaged");
        damage(root + 4, &[16], "before the index are damaged");
        damage(root + 12 + 4, &[0xe8], "before the index are damaged");
        damage(root + 12, &[99], "..: inode 99 is no directory");
        damage(root + 12 + 8, b"x", "the record of .. is damaged");
        // A name's inode and type.
        damage(leaf * 4096, &[200, 0, 0, 0], "inode 200 is free");
        damage(leaf * 4096, &[0xff; 4], "there is no inode 4294967295");
        damage(leaf * 4096 + 7, &[2], "type 2 should be 1");
        damage(leaf * 4096 + 8, b"/", "is no name");
        // Another seed, and characters without a sign.
        damage(1024 + 236, &[1, 2, 3, 4], "the leaf");
        damage(1024 + 352, &[2], "the leaf");
        let inode = look(image).inode;
        let mut flags = [0; 4];
        let at = inode_at(&debugfs, image, inode) + 32;
        file.read_exact_at(&mut flags, at).unwrap();
        let with = |bit: u32| (u32::from_le_bytes(flags) | bit).to_le_bytes();
        // Folded, as long as all letters are ASCII's: these are not, and must not be called damaged. But the
        // inode is.
        file.write_all_at(&with(0x4000_0000), at).unwrap();
        let report = look(image);
        assert_eq!(report.unfolded, 8000);
        assert!(matches!(&report.findings[..], [inode, feature]
            if inode.what.contains("the inode: checksum") && feature.what.contains("casefold")));
        file.write_all_at(&with(0x800), at).unwrap();
        let report = look(image);
        assert!(report.encrypted && report.findings.iter().any(|found| found.what.contains("encrypt")));
        // A flag without its feature, and with it.
        file.write_all_at(&with(0x1000_0000), at).unwrap();
        let refused = |image: &Path| Ext4::open(image).unwrap().directory(inode).unwrap_err().to_string();
        assert!(refused(image).ends_with("entries in the inode, without the feature inline_data"));
        let mut incompatible = [0; 4];
        file.read_exact_at(&mut incompatible, 1024 + 96).unwrap();
        let inline = u32::from_le_bytes(incompatible) | 0x8000;
        file.write_all_at(&inline.to_le_bytes(), 1024 + 96).unwrap();
        assert!(refused(image).ends_with("entries in the inode, but no attribute for them"));
        let survey = VolumeSurvey::all(&Ext4::open(image).unwrap());
        let found: Vec<&str> = survey.troubles.iter().map(|trouble| trouble.what.as_str()).collect();
        assert!(survey.is_damaged && found[0].starts_with("the superblock: checksum"), "{found:?}");
        assert!(found[1].ends_with("but no attribute for them"), "{found:?}");
        file.write_all_at(&incompatible, 1024 + 96).unwrap();
        file.write_all_at(&flags, at).unwrap();
        // An image that ends in the middle: blocks are outside, nothing else happens.
        let whole = file.metadata().unwrap().len();
        file.set_len(leaf * 4096).unwrap();
        let ext4 = Ext4::open(image).unwrap();
        let directory = ext4.directory(inode);
        assert!(directory.map_or(true, |found| !check(&ext4, &found.unwrap()).unwrap().findings.is_empty()));
        assert_eq!(ext4.missing_bytes(), whole - leaf * 4096);
        let survey = VolumeSurvey::all(&ext4);
        let lacks = format!("the image lacks the last {} bytes of its file system", whole - leaf * 4096);
        assert_eq!(survey.troubles[0].what, lacks);
        file.set_len(whole).unwrap();
    });
}

#[test]
fn bits_that_a_hash_goes_on_may_outlive_its_names_and_must_not_be_missing() {
    let tools = ["tune2fs", "e2fsck", "debugfs"].map(require_tool);
    let [Some(tune2fs), Some(e2fsck), Some(_)] = tools else { return };
    let Some(mut mount) = Mount::new(FsKind::Ext4, 64 << 20) else { return };
    mount.edit_image(|image| {
        let done = Command::new(&tune2fs).args(["-E", "hash_alg=legacy"]).arg(image).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    });
    let folder = mount.path().join("d");
    std::fs::create_dir(&folder).unwrap();
    let hashing = Hashing { hash: NameHash::find("legacy").unwrap(), seed: Seed::ZERO };
    let colliding = attack::collide(hashing, b"hello", 600, 0, &mut |_, _| ()).names;
    for number in 0..200 {
        std::fs::write(folder.join(format!("other {number}")), "").unwrap();
    }
    let path = |name: &[u8]| folder.join(String::from_utf8(name.to_vec()).unwrap());
    for name in &colliding {
        std::fs::write(path(name), "").unwrap();
    }
    mount.edit_image(|image| assert_eq!(look(image).findings, []));
    for name in &colliding {
        std::fs::remove_file(path(name)).unwrap();
    }
    mount.edit_image(|image| {
        assert_eq!(look(image).findings, []);
        assert!(look(image).leaf_uses.iter().any(|leaf| leaf.key & 1 == 1));
        let checked = Command::new(&e2fsck).arg("-fn").arg(image).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    });
    for name in &colliding {
        std::fs::write(path(name), "").unwrap();
    }
    mount.edit_image(|image| {
        let uses = look(image).leaf_uses;
        let place = uses.iter().position(|leaf| leaf.key & 1 == 1 && leaf.names > 0).unwrap();
        let root = debugfs_block(image, "/d", 0) * 4096;
        assert_eq!(look(image).levels, 1);
        let file = OpenOptions::new().write(true).open(image).unwrap();
        let at = root + 32 + 8 * place as u64;
        file.write_all_at(&(uses[place].key & !1).to_le_bytes(), at).unwrap();
        let found = look(image).findings;
        assert!(found.iter().any(|finding| finding.what.contains("is beyond the leaf")), "{found:?}");
    });
}

#[test]
fn what_e2fsck_says_of_inodes_and_their_maps_is_said() {
    let tools = (require_tool("debugfs"), require_tool("e2fsck"));
    let (Some(debugfs), Some(e2fsck)) = tools else { return };
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
    std::fs::create_dir_all(tree.join("d/below")).unwrap();
    for number in 0..12 {
        std::fs::write(tree.join("d").join(format!("name {number:02}")), "").unwrap();
    }
    let inode = |at: u64, bytes: &[u8]| (Some(at), bytes.to_vec());
    let leaf = |at: u32, bytes: &[u8]| (None, [&at.to_le_bytes(), bytes].concat());
    let extents = [
        (inode(44, &[36, 0]), "1 of 36 extents, where 4 have room"),
        (inode(44, &[0, 0]), "1 of 0 extents"),
        (inode(46, &[6, 0]), "1 extents of depth 6"),
        (inode(56, &[32, 78]), "the extent of block 0 lies outside the file system"),
        (inode(56, &[1, 128]), "the extent of block 0 was never written"),
        (inode(56, &[0, 0]), "the extent of block 0 has an impossible length"),
        (inode(56, &[2, 0]), "block 1 is behind the end"),
        (inode(60, &[0, 0, 0, 0]), "the extent of block 0 lies outside the file system"),
        (inode(108, &[0, 255, 0, 0]), "65280 in the upper half of its length, without the feature large_dir"),
        (inode(26, &[7, 0]), "counts 7 names that lead to it, where there are 3"),
        (inode(20, &[7, 0, 0, 0]), "a time of deletion"),
        (leaf(9, b"x"), "the records of . and .. do not end with zeros"),
        (leaf(22, b"x"), "the records of . and .. do not end with zeros"),
    ];
    let map = [
        (inode(96, &60160u32.to_le_bytes()), "block 60160 lies outside the image"),
        (inode(84, &60160u32.to_le_bytes()), "block 11 is behind the end"),
        (inode(84, &200u32.to_le_bytes()), "block 11 is behind the end"),
    ];
    for (features, damages) in
        [("^metadata_csum,extents", &extents[..]), ("^metadata_csum,^extents,^64bit", &map[..])]
    {
        if !made_of(&tree, &image, &["-b", "4096", "-O", features], "4M") {
            return;
        }
        let survey = || VolumeSurvey::all(&Ext4::open(&image).unwrap());
        let is_sound = || Command::new(&e2fsck).arg("-fn").arg(&image).output().unwrap().status.success();
        assert!(!survey().is_damaged && is_sound(), "{:?}", survey());
        let at = inode_at(&debugfs, &image, look(&image).inode);
        let block = debugfs_block(&image, "/d", 0) * 4096;
        let before = std::fs::read(&image).unwrap();
        for ((offset, bytes), wanted) in damages {
            let (at, bytes) = match offset {
                Some(offset) => (at + offset, &bytes[..]),
                None => (block + u64::from(bytes[0]), &bytes[4..]),
            };
            let file = OpenOptions::new().write(true).open(&image).unwrap();
            file.write_all_at(bytes, at).unwrap();
            let found = survey();
            let findings = found.reports.iter().flat_map(|report| &report.findings);
            let mut said = findings.map(|finding| &finding.what);
            let said = said.any(|what| what.contains(wanted))
                || found.troubles.iter().any(|trouble| trouble.what.contains(wanted));
            assert!(found.is_damaged && said, "{wanted}: {found:?}");
            assert!(!is_sound(), "{wanted}");
            std::fs::write(&image, &before).unwrap();
        }
    }
}

#[test]
fn a_name_that_is_there_twice_is_found_with_an_index_and_without() {
    let Some(e2fsck) = require_tool("e2fsck") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
    std::fs::create_dir_all(tree.join("d")).unwrap();
    for count in [12, 300] {
        for number in 0..count {
            std::fs::write(tree.join("d").join(format!("a name of some length {number:03}")), "").unwrap();
        }
        if !made_of(&tree, &image, &["-b", "4096", "-O", "^metadata_csum"], "8M") {
            return;
        }
        let done = Command::new(&e2fsck).args(["-fyD"]).arg(&image).output().unwrap();
        assert!(done.status.code().is_some_and(|code| code <= 1), "{done:?}");
        let before = look(&image);
        assert_eq!((before.findings.as_slice(), before.indexed), (&[][..], count > 12));
        let at = debugfs_block(&image, "/d", before.leaf_uses[0].block) * 4096;
        let file = OpenOptions::new().read(true).write(true).open(&image).unwrap();
        let mut leaf = vec![0; 4096];
        file.read_exact_at(&mut leaf, at).unwrap();
        // The last three digits of the second name become those of the first.
        let places: Vec<usize> = (0..4000).filter(|&place| leaf[place..].starts_with(b"a name of")).collect();
        leaf.copy_within(places[0]..places[0] + 25, places[1]);
        file.write_all_at(&leaf, at).unwrap();
        let found = look(&image).findings;
        assert!(found.iter().any(|finding| finding.what.ends_with("the name is there twice")), "{found:?}");
        assert_eq!(Command::new(&e2fsck).arg("-fn").arg(&image).status().unwrap().code(), Some(4));
    }
}

#[test]
fn damage_is_found_without_checksums_and_between_directories() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    let Some(e2fsck) = require_tool("e2fsck") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
    std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
    std::fs::create_dir_all(tree.join("d")).unwrap();
    for number in 0..3000 {
        std::fs::write(tree.join("d").join(format!("a name of some length {number}")), "").unwrap();
    }
    // Small blocks: two levels of index.
    let options = ["-b", "1024", "-N", "8000", "-O", "^metadata_csum,^has_journal"];
    if !made_of(&tree, &image, &options, "16M") {
        return;
    }
    let done = Command::new(&e2fsck).args(["-fyD"]).arg(&image).output().unwrap();
    assert!(done.status.code().is_some_and(|code| code <= 1), "{done:?}");
    let survey = || VolumeSurvey::all(&Ext4::open(&image).unwrap());
    let sound = survey();
    assert!(!sound.is_damaged && !sound.is_incomplete, "{sound:?}");
    assert_eq!(sound.reports.len(), 6, "the root, a, b, c, d and lost+found");
    assert_eq!(look(&image).levels, 2);
    let debugfs = |writing: &[&str], request: &str| {
        let out = Command::new(&debugfs).args(writing).args(["-R", request]).arg(&image).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let inode_of = |path: &str| Ext4::open(&image).unwrap().find(path.as_bytes()).unwrap();
    let findings = || -> Vec<String> {
        let survey = survey();
        assert!(survey.is_damaged);
        let found = survey.reports.into_iter().flat_map(|report| report.findings);
        let troubles = survey.troubles.into_iter().map(|trouble| trouble.what);
        found.map(|finding| finding.what).chain(troubles).collect()
    };
    let [a, b, d] = ["/a", "/a/b", "/d"].map(inode_of);
    // The record that interior blocks of the index begin with: the first child of the root.
    let root: u64 = debugfs(&[], "bmap /d 0").trim().parse().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&image).unwrap();
    let mut child = [0; 4];
    file.read_exact_at(&mut child, root * 1024 + 36).unwrap();
    let child = debugfs(&[], &format!("bmap /d {}", u32::from_le_bytes(child)));
    let child = child.trim().parse::<u64>().unwrap() * 1024;
    let before = std::fs::read(&image).unwrap();
    let expect = |wanted: &str| {
        let found = findings();
        assert!(found.iter().any(|what| what.contains(wanted)), "{wanted}: {found:?}");
        std::fs::write(&image, &before).unwrap();
    };
    for at in [0, 4, 6, 7] {
        file.write_all_at(&[13], child + at).unwrap();
        expect("the empty record before the index is damaged");
    }
    file.write_all_at(&[1], root * 1024 + 24).unwrap();
    expect("zeros must be");
    // What debugfs does to directories.
    debugfs(&["-w"], "unlink /a/b");
    expect("no name leads to this directory");
    debugfs(&["-w"], "ln /a/b /twice");
    expect("lead to it");
    debugfs(&["-w"], &format!("ln <{a}> /a/b/circle"));
    debugfs(&["-w"], "unlink /a");
    expect("only directories inside it lead to this directory");
    debugfs(&["-w"], &format!("sif <{b}> mode 0100644"));
    expect("type 2 should be 1");
    debugfs(&["-w"], "sif <2> mode 0100644");
    expect("the root is no directory");
    debugfs(&["-w"], &format!("sif <{d}> size 1500"));
    expect("not whole blocks");
}
