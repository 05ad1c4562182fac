//! What the kernel lists of a mounted directory has the hashes that its index has.

use std::path::Path;
use std::process::Command;

use verisum_dirhash::ext4::Ext4;
use verisum_dirhash::live;
use verisum_testkit::{FsKind, Mount, require_tool};

use crate::{filled, look};

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
        let hash = &verisum_dirhash::namehash::NAME_HASHES[1];
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
