//! Copies on real file systems, beside those of `cp -a`, and of sources that are not as they should be.

mod copying;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use copying::{change_and_keep_time, copy_to, fill, options, snapshot};
use verisum_digest::Digest;
use verisum_files::store::xattr::Family;
use verisum_files::{Record, Stat};
use verisum_mend::copy::{Reflink, Verification};
use verisum_testkit::{FsKind, Mount, fault};

#[test]
fn a_copy_is_what_cp_makes() {
    let plain = tempfile::tempdir().unwrap();
    let mounts: Vec<Mount> = FsKind::ALL.iter().filter_map(|kind| Mount::new(*kind, 128 << 20)).collect();
    for folder in mounts.iter().map(Mount::path).chain([plain.path().to_path_buf()]) {
        let (from, to, theirs) = (folder.join("from"), folder.join("to"), folder.join("theirs"));
        fs::create_dir(&from).unwrap();
        fill(&from);
        let original = snapshot(&from);
        let made = Command::new("cp").arg("-a").arg(&from).arg(&theirs).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(snapshot(&theirs), original);
        fs::remove_dir_all(&theirs).unwrap();
        for verification in [Verification::Reread, Verification::Written, Verification::None] {
            let mut options = options();
            options.verification = verification;
            let told = copy_to(&from, &to, &options);
            assert_eq!(told.problems, Vec::<String>::new(), "{}", folder.display());
            assert_eq!(told.summary.linked, 2);
            let found = snapshot(&to);
            for (name, kept) in &original {
                assert_eq!(found.get(name), Some(kept), "{} {}", folder.display(), name.display());
            }
            assert_eq!(found.len(), original.len());
            // The second time nothing is read.
            let again = copy_to(&from, &to, &options);
            assert_eq!((again.summary.copied, again.summary.bytes, again.summary.failed), (0, 0, 0));
            assert!(snapshot(&to) == original);
            fs::remove_dir_all(&to).unwrap();
        }
        assert!(snapshot(&from) == original, "FROM is as it was");
    }
}

#[test]
fn holes_stay_holes() {
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs] {
        let Some(mount) = Mount::new(kind, 64 << 20) else { return };
        let (from, to) = (mount.path().join("from"), mount.path().join("to"));
        let file = File::create(&from).unwrap();
        // More than there is room for.
        file.set_len(2 << 30).unwrap();
        file.write_all_at(&[7; 100_000], 1 << 30).unwrap();
        file.sync_all().unwrap();
        let mut options = options();
        options.algorithm = Some(Digest::find("xxh3-64").unwrap());
        let told = copy_to(&from, &to, &options);
        assert_eq!((told.summary.copied, told.problems), (1, Vec::new()));
        let copied = fs::metadata(&to).unwrap();
        assert_eq!(copied.len(), 2 << 30);
        assert!(copied.blocks() * 512 < 1 << 20, "{}", copied.blocks());
        let mut bytes = vec![0; 100_000];
        File::open(&to).unwrap().read_exact_at(&mut bytes, 1 << 30).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn storage_is_shared_where_asked() {
    for (kind, can) in [(FsKind::Btrfs, true), (FsKind::Xfs, true), (FsKind::Ext4, false)] {
        let Some(mount) = Mount::new(kind, 0) else { return };
        let (from, to) = (mount.path().join("from"), mount.path().join("to"));
        fs::write(&from, vec![3; 1 << 20]).unwrap();
        let mut options = options();
        options.reflink = Reflink::Always;
        let told = copy_to(&from, &to, &options);
        assert_eq!(told.summary.copied == 1, can, "{kind:?}: {:?}", told.problems);
        assert_eq!(to.exists(), can);
        options.reflink = Reflink::Auto;
        assert_eq!(copy_to(&from, &mount.path().join("other"), &options).summary.copied, 1);
        assert_eq!(fs::read(mount.path().join("other")).unwrap(), vec![3; 1 << 20]);
    }
}

#[test]
fn a_full_disk_leaves_whole_files() {
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs, FsKind::Tmpfs] {
        let Some(mount) = Mount::new(kind, 16 << 20) else { return };
        let room = rustix::fs::statvfs(mount.path()).unwrap();
        let room = room.f_bavail * room.f_frsize;
        let from = tempfile::tempdir().unwrap();
        for number in 0..room / (1 << 20) + 40 {
            fs::write(from.path().join(number.to_string()), vec![number as u8; 1 << 20]).unwrap();
        }
        for verification in [Verification::Reread, Verification::None] {
            let to = mount.path().join("to");
            let mut options = options();
            options.verification = verification;
            let told = copy_to(from.path(), &to, &options);
            assert_eq!(told.problems.len(), 1, "{kind:?}: {:?}", told.problems);
            assert!(told.problems[0].contains("No space left"), "{:?}", told.problems);
            assert!(told.summary.stopped);
            for entry in fs::read_dir(&to).unwrap() {
                let path = entry.unwrap().path();
                let original = from.path().join(path.file_name().unwrap());
                assert!(fs::read(&path).unwrap() == fs::read(original).unwrap(), "{}", path.display());
            }
            fs::remove_dir_all(&to).unwrap();
            rustix::fs::syncfs(File::open(mount.path()).unwrap()).unwrap();
        }
    }
}

#[test]
fn rot_is_not_copied() {
    for length in [100, 300_000, 5 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir(&from).unwrap();
        for name in ["good", "bad", "written", "short"] {
            fs::write(from.join(name), vec![b'a'; length]).unwrap();
            let file = File::open(from.join(name)).unwrap();
            let digest = Digest::find("blake3").unwrap();
            let sum = digest.hash(&vec![b'a'; length]).unwrap();
            let stat = Stat::of(&file).unwrap();
            let record = Record::new(digest.algorithm().unwrap(), sum, &stat, Some(stat.changed));
            if Family::Verisum.write(&file, &record).is_err() {
                return verisum_testkit::skip("no attributes here");
            }
        }
        let told = copy_to(&from, &to, &options());
        assert_eq!((told.summary.copied, told.summary.compared), (4, 4));
        assert_eq!(told.digests["good"].0, "blake3", "the record's");
        let mut rotten = vec![b'a'; length];
        rotten[length / 2] = b'b';
        change_and_keep_time(&from.join("bad"), &rotten);
        change_and_keep_time(&from.join("short"), &vec![b'a'; length - 1]);
        std::thread::sleep(Duration::from_millis(20));
        fs::write(from.join("written"), &rotten).unwrap();
        let other = folder.path().join("other");
        // Of the size and time that TO has already nothing is read.
        for (to, copied, bad) in [(&to, 1, 1), (&other, 2, 2)] {
            let told = copy_to(&from, to, &options());
            assert_eq!((told.summary.copied, told.problems.len()), (copied, bad), "{:?}", told.problems);
            for problem in &told.problems {
                assert!(problem.contains("Bad") && problem.contains("blake3"), "{problem}");
            }
            assert_eq!(fs::read(to.join("written")).unwrap(), rotten);
        }
        assert_eq!(fs::read(to.join("bad")).unwrap(), vec![b'a'; length], "the good one is kept");
        assert_eq!(fs::read(to.join("short")).unwrap(), vec![b'a'; length], "the good one is kept");
        assert!(!other.join("bad").exists() && !other.join("short").exists());
        let mut options = options();
        options.allow_bad = true;
        let recorded = Digest::find("blake3").unwrap().hash(&vec![b'a'; length]).unwrap();
        for tag in [false, true] {
            options.tag = tag;
            let other = folder.path().join(format!("tagged-{tag}"));
            let told = copy_to(&from, &other, &options);
            assert_eq!((told.summary.copied, told.summary.bad), (4, 2));
            assert_eq!(fs::read(other.join("bad")).unwrap(), rotten);
            // It stays known to be bad.
            let mut found = Vec::new();
            Family::Verisum.read(&File::open(other.join("bad")).unwrap(), &mut found).unwrap();
            let found: Vec<_> = found.into_iter().flatten().map(|record| record.digest).collect();
            assert_eq!(found, [recorded], "--tag: {tag}");
        }
        options.tag = false;
        // A digest of the caller's own does not keep the record's from being compared.
        options.allow_bad = false;
        options.algorithm = Some(Digest::find("md5").unwrap());
        let told = copy_to(&from, &folder.path().join("third"), &options);
        assert_eq!((told.summary.copied, told.summary.bad), (2, 2));
        let md5 = Digest::find("md5").unwrap().hash(&vec![b'a'; length]).unwrap().to_string();
        assert_eq!(told.digests["good"], ("md5".into(), md5));
    }
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_copied() {
    let Some(bad) = fault::btrfs_bad_file() else { return };
    fs::write(bad.mount.path().join("good"), "good").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let told = copy_to(&bad.mount.path(), &to, &options());
    assert_eq!((told.summary.copied, told.summary.failed), (1, 1), "{:?}", told.problems);
    assert!(told.problems[0].contains("read at 2"), "{:?}", told.problems);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
}

#[test]
fn records_of_both_sides_say_what_to_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    let digest = Digest::find("sha256").unwrap();
    let tag = |path: &Path, content: &str| {
        let file = File::open(path).unwrap();
        let sum = digest.hash(content.as_bytes()).unwrap();
        let record = Record::new(digest.algorithm().unwrap(), sum, &Stat::of(&file).unwrap(), None);
        Family::Verisum.write(&file, &record).is_ok()
    };
    for name in ["same", "touched", "other"] {
        fs::write(from.join(name), "content").unwrap();
        if !tag(&from.join(name), "content") {
            return verisum_testkit::skip("no attributes here");
        }
    }
    copy_to(&from, &to, &options());
    let file = File::options().write(true).open(from.join("touched")).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    file.set_modified(time + Duration::from_secs(100)).unwrap();
    tag(&from.join("touched"), "content");
    change_and_keep_time(&from.join("other"), b"CONTENT");
    tag(&from.join("other"), "CONTENT");
    let mut options = options();
    let told = copy_to(&from, &to, &options);
    // By sizes and times the changed one seems the same, and the other not.
    let counts = (told.summary.current, told.summary.touched, told.summary.copied);
    assert_eq!(counts, (2, 0, 1), "{:?}", told.problems);
    file.set_modified(time).unwrap();
    tag(&from.join("touched"), "content");
    options.update = true;
    let told = copy_to(&from, &to, &options);
    let counts = (told.summary.current, told.summary.touched, told.summary.copied);
    assert_eq!(counts, (1, 1, 1), "{:?}", told.problems);
    assert_eq!(fs::read_to_string(to.join("other")).unwrap(), "CONTENT");
    assert_eq!(snapshot(&to), snapshot(&from));
}

#[test]
fn tags_are_those_of_the_copies() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), "content").unwrap();
    for (verification, is_verified) in [(Verification::Reread, true), (Verification::None, false)] {
        let mut options = options();
        options.tag = true;
        options.verification = verification;
        let told = copy_to(&from, &to, &options);
        if told.summary.failed > 0 {
            return verisum_testkit::skip("no attributes here");
        }
        let file = File::open(to.join("file")).unwrap();
        let mut found = Vec::new();
        Family::Verisum.read(&file, &mut found).unwrap();
        let record = found.remove(0).unwrap();
        assert_eq!(record.digest, Digest::find("sha256").unwrap().hash(b"content").unwrap());
        assert_eq!(record.standing(&Stat::of(&file).unwrap()), verisum_files::Standing::Current);
        assert_eq!(record.verified.is_some(), is_verified);
        fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn what_is_written_to_meanwhile_is_copied_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let file = File::create(&from).unwrap();
    file.write_all_at(&vec![1; 24 << 20], 0).unwrap();
    let (mut copied, mut changed) = (0, 0);
    for round in 0..6 {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let write = || {
                let mut number = 0_u64;
                while round > 0 && !done.load(Ordering::Relaxed) {
                    number += 1;
                    file.write_all_at(&number.to_le_bytes(), number * 7919 % (24 << 20)).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                }
            };
            scope.spawn(write);
            let told = copy_to(&from, &to, &options());
            done.store(true, Ordering::Relaxed);
            copied += told.summary.copied;
            changed += told.summary.failed;
            for problem in &told.problems {
                assert!(problem.contains("it changed while it was read"), "{problem}");
            }
            if told.summary.copied == 1 {
                // The digest is that of the bytes at TO.
                let sum = Digest::find("sha256").unwrap().hash(&fs::read(&to).unwrap()).unwrap();
                assert_eq!(told.digests["to"].1, sum.to_string());
            }
        });
    }
    assert!(copied >= 1 && changed >= 1, "{copied} {changed}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn what_is_read_back_differently_gets_no_name() {
    // Somebody changes the disk below the file system as soon as something is written to it.
    const MARKER: &[u8; 16] = b"verisum: a block";
    const LENGTH: u64 = 128 << 20;
    let Some(mount) = Mount::new(FsKind::Ext4, LENGTH) else { return };
    let from = tempfile::tempdir().unwrap();
    let mut block = vec![0; 4096];
    block[..16].copy_from_slice(MARKER);
    fs::write(from.path().join("file"), block.repeat(2 << 8)).unwrap();
    let image = mount.path().with_file_name("image");
    let done = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let damage = || {
            let image = File::options().read(true).write(true).open(&image).unwrap();
            let mut piece = vec![0; 1 << 20];
            while !done.load(Ordering::Relaxed) {
                for offset in (0..LENGTH).step_by(1 << 20) {
                    image.read_exact_at(&mut piece, offset).unwrap();
                    for at in (0..piece.len()).step_by(4096) {
                        if piece[at..].starts_with(MARKER) {
                            image.write_all_at(b"V", offset + at as u64).unwrap();
                        }
                    }
                }
            }
        };
        scope.spawn(damage);
        let found = (0..30).find_map(|round| {
            let to = mount.path().join(round.to_string());
            let told = copy_to(from.path(), &to, &options());
            let is_found = told.summary.differ == 1;
            assert_eq!(to.join("file").exists(), !is_found);
            is_found.then_some(told)
        });
        done.store(true, Ordering::Relaxed);
        found
    });
    let found = found.expect("damage is found");
    assert!(found.problems[0].contains("Differs"), "{:?}", found.problems);
}

#[test]
fn directories_without_a_right_to_write_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir_all(from.join("closed")).unwrap();
    fs::write(from.join("closed/file"), "x").unwrap();
    fs::set_permissions(from.join("closed"), Permissions::from_mode(0o500)).unwrap();
    let told = copy_to(&from, &to, &options());
    assert_eq!(told.problems, Vec::<String>::new());
    assert_eq!(fs::metadata(to.join("closed")).unwrap().mode() & 0o777, 0o500);
    assert_eq!(fs::read_to_string(to.join("closed/file")).unwrap(), "x");
}
