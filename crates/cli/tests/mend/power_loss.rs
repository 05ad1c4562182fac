//! Losses of power: whatever the disk kept, a file is the old or the new one, and the next run ends the work.
//!
//! Each run writes to a disk that remembers. Then the power goes after any of its steps, with all that was flushed
//! and a random part of what was not; `TEST_POWER_LOSSES` sets another number of such moments.

use crate::common;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use common::verisum;
use verisum_testkit::{FsKind, Mount};

const LOSSES: usize = 12;

const SIZE: u64 = 48 << 20;

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn good() -> BTreeMap<PathBuf, Vec<u8>> {
    let lengths = [10, 5000, 70_000, 300_000, 1_500_000];
    (0..).zip(lengths).map(|(at, length)| (format!("f{at}").into(), bytes(at, length))).collect()
}

/// Writes other bytes into some files, and leaves their time alone.
fn damage(tree: &Path) {
    for (name, content) in good() {
        let path = tree.join(&name);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut content = content;
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(&path, content).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    }
}

fn is_bad(name: &Path, found: &[u8]) -> bool {
    let mut good = good()[name].clone();
    let middle = good.len() / 2;
    good[middle] ^= 1;
    good == found
}

/// Runs a command with a disk, which is mounted at ROOT; or at SAME, as a catalogue knows files by their paths.
fn run(words: &[&str], root: &Path) -> common::Ended {
    if words.iter().any(|word| word.contains("SAME")) {
        let mut command = common::command("unshare");
        let script = r#"mount --bind "$0" /mnt && exec "$@""#;
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(root);
        command.arg(common::VERISUM).args(words.iter().map(|word| word.replace("SAME", "/mnt")));
        return common::Ended::of(command.output().unwrap());
    }
    let words = words.iter().map(|word| OsString::from(word.replace("ROOT", root.to_str().unwrap())));
    verisum(words.map(PathBuf::from).collect::<Vec<_>>())
}

/// Prepares a disk, runs a command on it, and loses the power at many moments of that. Each time `holds` is told of
/// what is there, the command runs again, and all must be well.
fn lose_power(prepare: impl Fn(&Path), words: &[&str], holds: impl Fn(&Path, &str), is_well: impl Fn(&Path)) {
    let Some(mount) = Mount::recorded(FsKind::Ext4, SIZE) else { return };
    let Some(disk) = mount.disk() else { return };
    prepare(&mount.path());
    rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
    disk.begin();
    let ended = run(words, &mount.path());
    assert_eq!(ended.code, Some(0), "{} {}", ended.out(), ended.stderr);
    is_well(&mount.path());
    let losses = std::env::var("TEST_POWER_LOSSES").map_or(LOSSES, |text| text.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(losses as u64);
    let steps = disk.steps();
    assert!(steps > 10, "{steps} steps");
    for loss in 0..losses {
        // Each part of the run has its turn.
        let at = (loss * steps + random.usize(..steps)) / losses;
        let kept = random.u8(..=100);
        let image = disk.after_power_loss(at, || random.u8(..100) < kept);
        let after = Mount::of_image(FsKind::Ext4, &image).expect("the journal mends the file system");
        let moment = format!("step {at} of {steps}, {kept}% kept");
        holds(&after.path(), &moment);
        let ended = run(words, &after.path());
        assert_eq!(ended.code, Some(0), "{moment}: {} {}", ended.out(), ended.stderr);
        is_well(&after.path());
    }
}

fn is_good(tree: &Path) {
    for (name, content) in good() {
        assert!(fs::read(tree.join(&name)).unwrap() == content, "{}", name.display());
    }
}

fn old_or_new(tree: &Path, moment: &str) {
    for (name, content) in good() {
        let found = fs::read(tree.join(&name)).unwrap();
        assert!(found == content || is_bad(&name, &found), "{moment}: {}", name.display());
    }
}

fn write(tree: &Path) {
    fs::create_dir(tree).unwrap();
    good().iter().for_each(|(name, content)| fs::write(tree.join(name), content).unwrap());
}

#[test]
fn a_copy_is_whole_or_not_there() {
    let prepare = |root: &Path| write(&root.join("from"));
    let holds = |root: &Path, moment: &str| {
        for (name, content) in good() {
            match fs::read(root.join("to").join(&name)) {
                Ok(found) => assert!(found == content, "{moment}: {}", name.display()),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{moment}: {error}"),
            }
        }
    };
    lose_power(prepare, &["copy", "ROOT/from", "ROOT/to"], holds, |root| is_good(&root.join("to")));
}

#[test]
fn a_repair_leaves_the_old_file_or_the_new_one() {
    // The disk has another path each time, so a list says what is wanted.
    let prepare = |root: &Path| {
        write(&root.join("tree"));
        let mut copy = std::process::Command::new("cp");
        assert!(copy.arg("-a").args([root.join("tree"), root.join("copy")]).status().unwrap().success());
        let names: Vec<String> = good().keys().map(|name| format!("ROOT/copy/{}", name.display())).collect();
        let words: Vec<&str> = std::iter::once("sum").chain(names.iter().map(String::as_str)).collect();
        let list = run(&words, root).clean().replace(&format!("{}/copy/", root.display()), "");
        fs::write(root.join("list"), list).unwrap();
        damage(&root.join("tree"));
    };
    let words =
        ["repair", "--sums", "ROOT/list", "--from", "ROOT/copy", "--keep-bad", "ROOT/bad", "ROOT/tree"];
    let holds = |root: &Path, moment: &str| old_or_new(&root.join("tree"), moment);
    lose_power(prepare, &words, holds, |root| is_good(&root.join("tree")));
}

#[test]
fn a_repair_by_parity_in_place_goes_on() {
    let prepare = |root: &Path| {
        write(&root.join("tree"));
        run(&["parity", "create", "--redundancy", "30%", "ROOT/tree"], root).clean();
        damage(&root.join("tree"));
    };
    let words = ["parity", "repair", "--in-place", "ROOT/tree"];
    let holds = |root: &Path, moment: &str| old_or_new(&root.join("tree"), moment);
    lose_power(prepare, &words, holds, |root| {
        is_good(&root.join("tree"));
        run(&["parity", "verify", "ROOT/tree"], root).clean();
        run(&["parity", "update", "ROOT/tree"], root).clean();
    });
}

#[test]
fn a_repair_in_place_by_a_catalogue_ends_with_its_journal() {
    let good = || bytes(9, 3_000_320);
    let bad = || {
        let mut bad = good();
        (0..bad.len()).step_by(300_000).for_each(|at| bad[at] ^= 1);
        bad
    };
    let scrub = ["scrub", "--catalog", "SAME/c.db", "SAME/tree"];
    let prepare = |root: &Path| {
        let file = root.join("tree/long");
        fs::create_dir(root.join("tree")).unwrap();
        fs::write(&file, good()).unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(run(&scrub, root).code, Some(0));
        run(&["parity", "create", "--redundancy", "30%", "SAME/tree"], root).clean();
        fs::write(&file, bad()).unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_eq!(run(&scrub, root).code, Some(1));
    };
    let journal = |root: &Path| root.join("c.db.in-place");
    let holds = |root: &Path, moment: &str| {
        let found = fs::read(root.join("tree/long")).unwrap();
        match journal(root).exists() {
            true => assert!(
                found.iter().zip(good()).zip(bad()).all(|((now, new), old)| [new, old].contains(now)),
                "{moment}"
            ),
            false => assert!(found == good() || found == bad(), "{moment}: half of it, and no journal"),
        }
    };
    let words = ["repair", "--in-place", "--keep-bad", "SAME/bad", "--catalog", "SAME/c.db", "SAME/tree"];
    lose_power(prepare, &words, holds, |root| {
        assert!(fs::read(root.join("tree/long")).unwrap() == good());
        assert!(!journal(root).exists());
        assert_eq!(run(&scrub, root).code, Some(0));
    });
}

#[test]
fn an_update_of_parity_keeps_what_can_be_mended() {
    let prepare = |root: &Path| {
        write(&root.join("tree"));
        run(&["parity", "create", "--redundancy", "30%", "ROOT/tree"], root).clean();
        fs::write(root.join("tree/g"), bytes(77, 200_000)).unwrap();
    };
    let holds = |root: &Path, moment: &str| {
        // Old parity or new: what was there before can be mended with it.
        damage(&root.join("tree"));
        let ended = run(&["parity", "repair", "ROOT/tree"], root);
        assert_eq!(ended.code, Some(0), "{moment}: {} {}", ended.out(), ended.stderr);
        is_good(&root.join("tree"));
    };
    lose_power(prepare, &["parity", "update", "ROOT/tree"], holds, |root| {
        run(&["parity", "verify", "ROOT/tree"], root).clean();
    });
}

#[test]
fn an_image_has_old_or_new_blocks_or_a_journal() {
    let image = || bytes(4, 3_000_320);
    let prepare = |root: &Path| {
        fs::write(root.join("image"), image()).unwrap();
        fs::write(root.join("copy"), image()).unwrap();
        run(&["image", "map", "--output", "ROOT/map", "ROOT/image"], root).clean();
        let mut bad = image();
        (0..bad.len()).step_by(200_000).for_each(|at| bad[at] ^= 1);
        fs::write(root.join("image"), bad).unwrap();
    };
    let words = ["image", "repair", "--map", "ROOT/map", "--from", "ROOT/copy", "ROOT/image"];
    let holds = |root: &Path, moment: &str| {
        let (found, good) = (fs::read(root.join("image")).unwrap(), image());
        if root.join("map.repair").exists() {
            return;
        }
        for (number, (found, good)) in found.chunks(65536).zip(good.chunks(65536)).enumerate() {
            let differing = found.iter().zip(good).filter(|(one, other)| one != other).count();
            assert!(differing <= 1, "{moment}: block {number}: {differing} bytes differ");
        }
    };
    lose_power(prepare, &words, holds, |root| {
        assert!(fs::read(root.join("image")).unwrap() == image());
        assert!(!root.join("map.repair").exists());
    });
}

#[test]
fn what_nobody_flushes_is_lost_in_part() {
    let Some(mount) = Mount::recorded(FsKind::Ext4, SIZE) else { return };
    let Some(disk) = mount.disk() else { return };
    let path = mount.path().join("file");
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
    disk.begin();
    // In place, as no command of ours does it.
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let is_mixed = (1..=disk.steps()).any(|at| {
        let image = disk.after_power_loss(at, || random.bool());
        let after = Mount::of_image(FsKind::Ext4, &image).expect("the journal mends the file system");
        let found = fs::read(after.path().join("file")).unwrap();
        found.contains(&0) && found.contains(&1)
    });
    assert!(is_mixed, "{} steps", disk.steps());
}
