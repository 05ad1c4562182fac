//! Images of other features: blocks, groups and entries are where those put them.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use verisum_dirhash::ext4::{DirectoryReport, Ext4, VolumeSurvey, check};
use verisum_testkit::{FsKind, Mount, require_tool};

use crate::{inode_at, look, made_of};

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
        // The first block of descriptors then lies where the superblock's place says, the others do not.
        "bigalloc,meta_bg,^resize_inode",
    ] {
        let _ = std::fs::remove_file(&image);
        let made = Command::new(&mke2fs)
            .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features])
            .arg(&image)
            .arg(if features.contains("bigalloc") { "8G" } else { "512M" })
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let ext4 = Ext4::open(&image).unwrap();
        // In groups of each meta group, an inode of the group's table as debugfs sees it becomes a directory.
        let survey = VolumeSurvey::all(&ext4);
        assert!(!survey.is_damaged && survey.reports.len() == 2, "{features}: {survey:?}");
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
fn entries_in_an_attribute_of_the_inode_are_looked_at() {
    let (Some(mke2fs), Some(debugfs)) = (require_tool("mke2fs"), require_tool("debugfs")) else { return };
    let Some(mut mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    mount.edit_image(|image| {
        let features = ["-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-O", "inline_data"];
        assert!(Command::new(&mke2fs).args(features).arg(image).status().unwrap().success());
    });
    // The kernel puts what has no room where numbers of blocks would be into the attribute.
    std::fs::create_dir(mount.path().join("d")).unwrap();
    for number in 0..5 {
        std::fs::write(mount.path().join("d").join(format!("a name {number}")), "").unwrap();
    }
    mount.edit_image(|image| {
        let report = look(image);
        assert_eq!((report.names, report.inline, report.findings.as_slice()), (5, true, &[][..]));
        let survey = VolumeSurvey::all(&Ext4::open(image).unwrap());
        assert!(!survey.is_damaged && !survey.is_incomplete, "{survey:?}");
        let ext4 = Ext4::open(image).unwrap();
        let listed = Command::new(&debugfs).args(["-R", "ls -p /d"]).arg(image).output().unwrap().stdout;
        for line in String::from_utf8(listed).unwrap().lines().filter(|line| line.contains("a name")) {
            // /12/100644/0/0/a name 0/0/
            let fields: Vec<&str> = line.split('/').collect();
            let inode = ext4.find(format!("/d/{}", fields[5]).as_bytes()).unwrap();
            assert_eq!(inode.to_string(), fields[1]);
        }
    });
}

#[test]
fn directories_in_their_inodes_are_looked_at() {
    let Some(debugfs) = require_tool("debugfs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
    for (directory, count) in [("empty", 0), ("few", 2), ("more/inside", 3), ("many", 200)] {
        std::fs::create_dir_all(tree.join(directory)).unwrap();
        for number in 0..count {
            std::fs::write(tree.join(directory).join(format!("a name {number}")), "").unwrap();
        }
    }
    for features in ["inline_data", "inline_data,^metadata_csum"] {
        let _ = std::fs::remove_file(&image);
        if !made_of(&tree, &image, &["-b", "4096", "-I", "256", "-O", features], "16M") {
            return;
        }
        let ext4 = Ext4::open(&image).unwrap();
        let survey = VolumeSurvey::all(&ext4);
        assert!(!survey.is_damaged && !survey.is_incomplete, "{features}: {survey:?}");
        for (path, names, is_inline) in
            [("/empty", 0, true), ("/few", 2, true), ("/more/inside", 3, true), ("/many", 200, false)]
        {
            let inode = ext4.find(path.as_bytes()).unwrap();
            let report = survey.reports.iter().find(|report| report.inode == inode).unwrap();
            assert_eq!((report.names, report.inline), (names, is_inline), "{path}");
        }
        assert_eq!(ext4.find(b"/more/inside/../../few").unwrap(), ext4.find(b"/few").unwrap());
        // A record, the directory it is in, and its length.
        let inode = ext4.find(b"/more/inside").unwrap();
        let at = inode_at(&debugfs, &image, inode);
        let before = std::fs::read(&image).unwrap();
        for (offset, byte, wanted) in [
            (44 + 4, 3, "the record at byte 0 in the inode"),
            (40, 99, "..: inode 99 is no directory"),
            (44 + 7, 2, "type 2 should be 1"),
            (4, 1, "entries in the inode, of"),
            (128, 0, "but no attribute"),
        ] {
            let file = OpenOptions::new().write(true).open(&image).unwrap();
            file.write_all_at(&[byte], at + offset).unwrap();
            let survey = VolumeSurvey::one(&Ext4::open(&image).unwrap(), inode);
            assert!(survey.is_damaged && format!("{survey:?}").contains(wanted), "{wanted}: {survey:?}");
            std::fs::write(&image, &before).unwrap();
        }
    }
}
