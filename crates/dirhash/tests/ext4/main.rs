//! The reader of ext4 images against real ones, whole and damaged.

mod damage;
mod layouts;
mod listed;
mod strange;

use std::path::Path;
use std::process::Command;

use verisum_dirhash::ext4::{DirectoryReport, Ext4, check};
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

/// Where a block of a directory lies.
fn debugfs_block(image: &Path, directory: &str, block: u32) -> u64 {
    let request = format!("bmap {directory} {block}");
    let out = Command::new("debugfs").args(["-R", &request]).arg(image).output().unwrap().stdout;
    String::from_utf8(out).unwrap().trim().parse().unwrap()
}

/// An image with what a tree has, made by mke2fs, without a mount.
fn made_of(tree: &Path, image: &Path, options: &[&str], size: &str) -> bool {
    let Some(mke2fs) = require_tool("mke2fs") else { return false };
    let made = Command::new(mke2fs)
        .args(["-q", "-F", "-t", "ext4"])
        .args(options)
        .arg("-d")
        .args([tree, image])
        .arg(size)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}
