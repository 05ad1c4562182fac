//! PAR2 files of par2cmdline, and hostile ones.

#![allow(clippy::print_stderr, reason = "a failure is repeated by its seed")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Content, Tree, bytes, flip, quietly};
use verisum_digest::Digest;
use verisum_parity::{
    FileVerdict, Finding, ParityError, ParityFileVerdict, ParityRepairOptions, ParityRepairSummary,
    ParityVerifyOptions, Verified, repair_par2, verify_par2,
};
use verisum_testkit::require_tool;

/// A tree with a set of PAR2 files made by par2cmdline, which ends at names of one letter; none without it.
fn with_par2(content: Content, options: &[&str]) -> Option<Tree> {
    let par2 = require_tool("par2")?;
    let tree = Tree::new(content);
    let made = Command::new(par2)
        .current_dir(tree.path())
        .args(["create", "-q", "-q"])
        .args(options)
        .arg("set.par2")
        .args(tree.content.keys())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    Some(tree)
}

fn is_par2(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "par2")
}

/// Whether par2cmdline finds nothing wrong.
fn is_whole_to_par2(tree: &Tree) -> bool {
    let verify =
        Command::new("par2").current_dir(tree.path()).args(["verify", "-q", "-q", "set.par2"]).status();
    verify.unwrap().success()
}

fn assert_whole(tree: &Tree) {
    let mut now = tree.now();
    now.retain(|path, _| !is_par2(path));
    assert!(now == tree.content, "{:?}", now.keys());
}

fn verify(tree: &Tree) -> Verified {
    verify_par2(&tree.path().join("set.par2"), &ParityVerifyOptions::default(), &mut |_| {}).unwrap()
}

fn repair(tree: &Tree, findings: &mut Vec<Finding>) -> ParityRepairSummary {
    let options = ParityRepairOptions::default();
    repair_par2(&tree.path().join("set.par2"), &options, &mut |finding| findings.push(finding)).unwrap()
}

/// The PAR2 files with recovery blocks.
fn volumes(tree: &Tree) -> Vec<PathBuf> {
    let names = fs::read_dir(tree.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut volumes: Vec<PathBuf> =
        names.filter(|path| is_par2(path) && !path.ends_with("set.par2")).collect();
    volumes.sort();
    volumes
}

fn files(random: &mut fastrand::Rng) -> Content {
    let count = random.usize(1..12);
    let file = |at: usize, random: &mut fastrand::Rng| {
        let length = [1, random.usize(1..400), random.usize(1..90_000)][random.usize(..3)];
        (PathBuf::from(format!("{}file{at}", ["", "d/", "d/ü e/"][at % 3])), bytes(random, length))
    };
    (0..count).map(|at| file(at, random)).collect()
}

#[test]
fn exactly_what_there_are_recovery_blocks_for_comes_back() {
    if require_tool("par2").is_none() {
        return;
    }
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..12 {
        let content = files(&mut random);
        let block = 4 * random.usize(16..1500);
        let recovery = random.usize(1..60);
        let (size, count) = (format!("-s{block}"), format!("-c{recovery}"));
        let Some(tree) = with_par2(content, &[&size, &count]) else { return };
        assert_eq!(verify(&tree).damaged + verify(&tree).missing, 0);
        // The model: blocks that differ are lost, wherever they are.
        let mut lost = BTreeSet::new();
        let mut bad = BTreeSet::new();
        for _ in 0..random.usize(1..recovery + 4) {
            let (name, content) = tree.content.iter().nth(random.usize(..tree.content.len())).unwrap();
            let path = tree.path().join(name);
            let all = content.len().div_ceil(block);
            let now = fs::metadata(&path).map_or(0, |file| file.len() as usize);
            match random.u8(..20) {
                0 if now > 0 => {
                    fs::remove_file(&path).unwrap();
                    lost.extend((0..all).map(|block| (name, block)));
                }
                1 if now > 0 => {
                    let end = random.usize(..now);
                    quietly(&path, |file| file.set_len(end as u64).unwrap());
                    lost.extend((end / block..all).map(|block| (name, block)));
                }
                _ if now > 0 => {
                    let at = random.usize(..now);
                    flip(&path, at as u64);
                    // A byte that is flipped twice is as it was.
                    let is_as_it_was = |at: usize| fs::read(&path).unwrap().get(at) == content.get(at);
                    let its = at / block * block..((at / block + 1) * block).min(content.len());
                    match its.clone().all(is_as_it_was) {
                        true => lost.remove(&(name, at / block)),
                        false => lost.insert((name, at / block)),
                    };
                }
                _ => {}
            }
        }
        bad.extend(lost.iter().map(|(name, _)| *name));
        let before = tree.now();
        let found = verify(&tree);
        assert_eq!(found.damaged + found.missing, bad.len() as u64);
        let can = lost.len() <= recovery;
        assert_eq!(found.beyond_repair, if can { 0 } else { bad.len() as u64 });
        let done = repair(&tree, &mut Vec::new());
        match can {
            true => {
                assert_eq!((done.repaired, done.not_repaired), (bad.len() as u64, 0));
                assert_whole(&tree);
                assert!(is_whole_to_par2(&tree));
            }
            false => {
                assert_eq!((done.repaired, done.not_repaired), (0, bad.len() as u64));
                assert!(tree.now() == before, "what cannot be mended stays as it is");
            }
        }
    }
}

#[test]
fn a_file_that_is_only_too_long_needs_no_recovery_block() {
    let mut random = fastrand::Rng::with_seed(6);
    let content =
        [("aa", 90_000), ("bb", 3_000)].map(|(name, length)| (name.into(), bytes(&mut random, length)));
    let Some(tree) = with_par2(Content::from(content), &["-s1000", "-c2", "-n1"]) else { return };
    fs::remove_file(tree.path().join("aa")).unwrap();
    quietly(&tree.path().join("bb"), |file| file.set_len(3_001).unwrap());
    let done = repair(&tree, &mut Vec::new());
    assert_eq!((done.repaired, done.not_repaired), (1, 1));
    assert!(fs::read(tree.path().join("bb")).unwrap() == tree.content[Path::new("bb")]);
}

#[test]
fn damaged_par2_files_are_said_and_the_rest_of_them_is_used() {
    let mut random = fastrand::Rng::with_seed(5);
    let content =
        [("aa", 90_000), ("bb", 3_000)].map(|(name, length)| (name.into(), bytes(&mut random, length)));
    let Some(tree) = with_par2(Content::from(content), &["-s1000", "-c20", "-n1"]) else { return };
    // One file with all recovery blocks: one block of it, the magic of another packet, and its end.
    let [volume] = &volumes(&tree)[..] else { panic!("{:?}", volumes(&tree)) };
    let whole = fs::read(volume).unwrap();
    let packets: Vec<usize> =
        (0..whole.len() - 8).filter(|&at| whole[at..].starts_with(b"PAR2\0PKT")).collect();
    let recovery: Vec<usize> =
        packets.iter().copied().filter(|&at| whole[at + 48..].starts_with(b"PAR 2.0\0RecvSlic")).collect();
    assert_eq!(recovery.len(), 20);
    flip(volume, recovery[3] as u64 + 500);
    flip(volume, recovery[7] as u64 + 2);
    quietly(volume, |file| file.set_len(recovery[19] as u64 + 100).unwrap());
    // Something before the first packet, too.
    let mut bytes = b"PAR2\0PKT is what it begins with".to_vec();
    bytes.extend(fs::read(volume).unwrap());
    fs::write(volume, bytes).unwrap();
    assert_eq!(verify(&tree).parity_damaged, 1);
    for at in 0..17 {
        flip(&tree.path().join("aa"), at * 1000 + 77);
    }
    let mut findings = Vec::new();
    let done = repair(&tree, &mut findings);
    assert_eq!((done.repaired, done.parity_damaged), (1, 1));
    assert!(
        findings.iter().any(|finding| matches!(finding, Finding::Parity(parity)
        if parity.verdict == ParityFileVerdict::Damaged { blocks: 2, of: 19 })),
        "{findings:?}"
    );
    assert_whole(&tree);
    // Any of the files will do, and what belongs to another set is passed over.
    fs::write(tree.path().join("other.par2"), b"nothing of this set").unwrap();
    symlink("set.par2", tree.path().join("link.par2")).unwrap();
    flip(&tree.path().join("bb"), 5);
    let options = ParityRepairOptions::default();
    assert_eq!(repair_par2(volume, &options, &mut |_| {}).unwrap().repaired, 1);
    assert!(is_whole_to_par2(&tree));
}

#[test]
fn a_file_keeps_what_belongs_to_it_and_names_stay_together() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let mut random = fastrand::Rng::with_seed(6);
    let mut content =
        Content::from([("aa", 9_000), ("bb", 700)].map(|(n, l)| (n.into(), bytes(&mut random, l))));
    content.insert("zz".into(), content[Path::new("aa")].clone());
    let Some(tree) = with_par2(content, &["-s500", "-c25"]) else { return };
    let [a, b, z] = ["aa", "bb", "zz"].map(|name| tree.path().join(name));
    fs::remove_file(&z).unwrap();
    fs::hard_link(&a, &z).unwrap();
    fs::set_permissions(&a, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&a).unwrap();
    flip(&a, 4_321);
    quietly(&b, |file| file.set_len(1_000).unwrap());
    let mut options = ParityRepairOptions::default();
    options.dry_run = true;
    let set = tree.path().join("set.par2");
    assert_eq!(repair_par2(&set, &options, &mut |_| {}).unwrap().repaired, 3);
    assert_eq!(fs::metadata(&b).unwrap().len(), 1_000);
    options.dry_run = false;
    options.only = vec!["bb".into()];
    options.keep_bad = Some(tree.path().join("bad"));
    assert_eq!(repair_par2(&set, &options, &mut |_| {}).unwrap().repaired, 1);
    assert_eq!(fs::metadata(tree.path().join("bad/bb")).unwrap().len(), 1_000);
    fs::remove_dir_all(tree.path().join("bad")).unwrap();
    assert_eq!(repair(&tree, &mut Vec::new()).repaired, 2);
    assert_whole(&tree);
    let after = [fs::metadata(&a).unwrap(), fs::metadata(&z).unwrap()];
    assert_eq!(after[0].ino(), after[1].ino());
    assert_eq!((after[0].mode(), after[0].modified().unwrap()), (before.mode(), before.modified().unwrap()));
}

/// A packet with the right MD5.
fn packet(set: [u8; 16], kind: &[u8; 16], body: &[u8]) -> Vec<u8> {
    let sealed = [&set[..], kind, body].concat();
    let mut packet = b"PAR2\0PKT".to_vec();
    packet.extend((64 + body.len() as u64).to_le_bytes());
    packet.extend(md5(&sealed));
    packet.extend(sealed);
    packet
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Digest::find("md5").unwrap().hash(bytes).unwrap().as_bytes().try_into().unwrap()
}

/// A set of one file that is missing and has one block, which the one recovery block is.
fn set_of(name: &[u8], block: u64, size: u64, count: u32) -> Vec<u8> {
    let content = vec![7; size.min(5_000) as usize];
    let padded =
        [&content[..], &vec![0; (block.min(10_000) as usize).saturating_sub(content.len())]].concat();
    let (set, id) = ([1; 16], [2; 16]);
    let mut name = name.to_vec();
    name.resize(name.len().next_multiple_of(4), 0);
    let main = [&block.to_le_bytes()[..], &count.to_le_bytes(), &id].concat();
    let file = [&id[..], &md5(&content), &md5(&content), &size.to_le_bytes(), &name].concat();
    let blocks = [&id[..], &md5(&padded), &[0; 4]].concat();
    let recovery = [&[0; 4][..], &padded].concat();
    [
        packet(set, b"PAR 2.0\0Main\0\0\0\0", &main),
        packet(set, b"PAR 2.0\0FileDesc", &file),
        packet(set, b"PAR 2.0\0IFSC\0\0\0\0", &blocks),
        packet(set, b"PAR 2.0\0RecvSlic", &recovery),
    ]
    .concat()
}

/// Repairs in a directory that has nothing but this set, and says what became of it.
fn repair_with(set: &[u8]) -> Result<ParityRepairSummary, ParityError> {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("x.par2"), set).unwrap();
    let done = repair_par2(&root.join("x.par2"), &ParityRepairOptions::default(), &mut |finding| {
        if let Finding::File(file) = finding {
            assert!(!matches!(file.verdict, FileVerdict::Unreadable(_)), "{file:?}");
        }
    });
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1, "nothing is written outside");
    done
}

#[test]
fn hostile_sets_lead_nowhere() {
    assert_eq!(repair_with(&set_of(b"a/b", 5_000, 5_000, 1)).unwrap().repaired, 1);
    assert_eq!(repair_with(&set_of(b"a", 5_000, 123, 1)).unwrap().repaired, 1);
    for name in ["../a", "/a", "a/../../b", "..", "a//b", "./a", "a/"] {
        let error = repair_with(&set_of(name.as_bytes(), 5_000, 5_000, 1)).unwrap_err().to_string();
        assert!(error.ends_with("it names a file outside its directory"), "{error}");
    }
    // Its own PAR2 file.
    let error = repair_with(&set_of(b"x.par2", 5_000, 5_000, 1)).unwrap_err().to_string();
    assert!(error.ends_with("it names one of its own PAR2 files as a file to repair"), "{error}");
    // More files than are listed, blocks of no bytes, files of a size that nothing fits.
    assert!(repair_with(&set_of(b"a", 5_000, 5_000, 2)).is_err());
    assert!(repair_with(&set_of(b"a", 0, 5_000, 1)).is_err());
    assert!(repair_with(&set_of(b"a", 5_000, u64::MAX, 1)).is_err());
    assert_eq!(repair_with(&set_of(b"a", 1 << 62, 1 << 61, 1)).unwrap().not_repaired, 1);
    assert!(repair_with(b"").is_err());
    // Cut off anywhere, and with other bytes in it.
    let whole = set_of(b"a", 5_000, 5_000, 1);
    for end in (0..whole.len()).step_by(7) {
        let _ = repair_with(&whole[..end]);
    }
    for round in 0..400 {
        let mut set = whole.clone();
        for _ in 0..=round % 3 {
            set[fastrand::usize(..450)] = [0, 1, 0x7f, 0x80, 0xff, fastrand::u8(..)][fastrand::usize(..6)];
        }
        if round % 2 == 0 {
            seal(&mut set);
        }
        let _ = repair_with(&set);
    }
}

/// Changes the packets that describe files, in all PAR2 files of a tree.
fn redescribe(tree: &Tree, change: impl Fn(&mut Vec<u8>)) {
    for volume in volumes(tree).into_iter().chain([tree.path().join("set.par2")]) {
        let (old, mut new, mut at) = (fs::read(&volume).unwrap(), Vec::new(), 0);
        while at < old.len() {
            let length = u64::from_le_bytes(old[at + 8..at + 16].try_into().unwrap()) as usize;
            let mut packet = old[at..at + length].to_vec();
            if packet[48..].starts_with(b"PAR 2.0\0FileDesc") {
                change(&mut packet);
            }
            let length = packet.len() as u64;
            packet[8..16].copy_from_slice(&length.to_le_bytes());
            new.extend(packet);
            at += length as usize;
        }
        seal(&mut new);
        fs::write(volume, new).unwrap();
    }
}

#[test]
fn a_set_that_contradicts_itself_changes_no_file() {
    let describes = |packet: &[u8], name: &[u8]| packet[120..].starts_with(name);
    let lie_of_length = |packet: &mut Vec<u8>| {
        if describes(packet, b"bb") {
            packet[112..120].fill(0);
        }
    };
    let lie_of_name = |packet: &mut Vec<u8>| {
        if describes(packet, b"bb") {
            packet[120..122].copy_from_slice(b"aa");
        }
    };
    let lie_of_content = |packet: &mut Vec<u8>| {
        if describes(packet, b"aa") {
            packet[80..96].fill(1);
        }
    };
    for lie in [&lie_of_length as &dyn Fn(&mut Vec<u8>), &lie_of_name, &lie_of_content] {
        let mut random = fastrand::Rng::with_seed(7);
        let content =
            [("aa", 9_000), ("bb", 700)].map(|(name, length)| (name.into(), bytes(&mut random, length)));
        let Some(tree) = with_par2(Content::from(content), &["-s500", "-c20"]) else { return };
        redescribe(&tree, lie);
        flip(&tree.path().join("aa"), 4_321);
        let before = tree.now();
        let done = repair_par2(&tree.path().join("set.par2"), &ParityRepairOptions::default(), &mut |_| {});
        assert!(done.is_err() || done.is_ok_and(|done| done.repaired == 0));
        assert!(tree.now() == before);
    }
}

/// Writes the right MD5 into each packet, as far as their lengths lead from one to the next.
fn seal(set: &mut [u8]) {
    let mut at = 0;
    while let Some(length) = set.get(at + 8..at + 16) {
        let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let Some(end) = at.checked_add(length).filter(|end| (at + 64..=set.len()).contains(end)) else {
            return;
        };
        let digest = md5(&set[at + 32..end]);
        set[at + 16..at + 32].copy_from_slice(&digest);
        at = end;
    }
}
