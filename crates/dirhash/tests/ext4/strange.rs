//! What is no image, or one by chance: refused, without a panic and without an end that never comes.

use std::path::Path;
use std::process::Command;

use verisum_dirhash::ext4::{Ext4, ReadError, VolumeSurvey, check};
use verisum_testkit::require_tool;

#[test]
fn an_external_journal_is_no_file_system() {
    let Some(mke2fs) = require_tool("mke2fs") else { return };
    let image = tempfile::NamedTempFile::new().unwrap();
    let options = ["-q", "-F", "-b", "4096", "-O", "journal_dev"];
    let made = Command::new(mke2fs).args(options).arg(image.path()).arg("8M").status().unwrap();
    assert!(made.success());
    assert!(matches!(Ext4::open(image.path()), Err(ReadError::Journal)));
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

/// A seed that is no image any more would begin nothing.
#[test]
fn the_seeds_of_the_fuzz_target_are_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/ext4_dir");
    for seed in std::fs::read_dir(seeds).unwrap() {
        let seed = seed.unwrap().path();
        let mut image = vec![0; 1024];
        image.extend(std::fs::read(&seed).unwrap());
        image.resize(128 * 1024, 0);
        std::fs::write(&path, image).unwrap();
        let survey = VolumeSurvey::all(&Ext4::open(&path).unwrap());
        assert!(!survey.is_damaged && survey.reports.len() == 4, "{}: {survey:?}", seed.display());
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
