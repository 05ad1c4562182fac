//! What goes wrong besides lost bytes: changed files, lost parity files, links, writers, hostile parity.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Content, Tree, flip, unexpected};
use verisum_files::Stop;
use verisum_parity::{
    CreateOptions, FileVerdict, Finding, ParityError, ParityRepairOptions, ParityVerifyOptions, UpdateOptions,
};

fn tree() -> Tree {
    let mut random = fastrand::Rng::with_seed(3);
    let files = [("a", 50_000), ("b/c", 100_000), ("b/d", 10), ("e", 0)];
    let content = files.map(|(name, length)| (PathBuf::from(name), common::bytes(&mut random, length)));
    Tree::new(Content::from(content))
}

fn said(act: impl FnOnce(&mut dyn FnMut(Finding))) -> Vec<String> {
    let mut found = Vec::new();
    act(&mut |finding| {
        found.push(match finding {
            Finding::File(file) => {
                let verdict = match file.verdict {
                    FileVerdict::NotRepaired(error) => format!("NotRepaired {error}"),
                    verdict => format!("{verdict:?}"),
                };
                format!("{}: {verdict}", file.path.display())
            }
            Finding::Parity(parity) => {
                format!("{}: {:?}", parity.path.file_name().unwrap().display(), parity.verdict)
            }
            other => format!("{other:?}"),
        });
    });
    found.sort();
    found
}

fn verify(tree: &Tree) -> Vec<String> {
    said(|say| {
        verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), say).unwrap();
    })
}

fn repair(tree: &Tree, options: &ParityRepairOptions) -> Vec<String> {
    said(|say| {
        verisum_parity::repair(tree.path(), None, options, say).unwrap();
    })
}

fn update(tree: &Tree) -> Vec<String> {
    said(|say| {
        verisum_parity::update(tree.path(), None, &UpdateOptions::default(), say).unwrap();
    })
}

#[test]
fn a_changed_file_is_no_damage_and_is_not_overwritten() {
    let mut tree = tree();
    tree.create(100_000, None);
    let path = PathBuf::from("a");
    tree.write(&path, b"written since");
    assert_eq!(verify(&tree), ["a: Changed"]);
    assert_eq!(repair(&tree, &ParityRepairOptions::default()), ["a: Changed"]);
    assert_eq!(fs::read(tree.path().join("a")).unwrap(), b"written since");
    // What shares a block with it can be mended all the same.
    flip(&tree.path().join("b/d"), 3);
    let said = repair(&tree, &ParityRepairOptions::default());
    assert_eq!(said.len(), 2);
    tree.content.insert(path.clone(), b"written since".to_vec());
    match said[1].contains("Repaired") {
        true => tree.assert_whole(),
        // 50 blocks of it are lost for the code: more than the parity has.
        false => {
            assert!(said[1].contains("can_be_repaired: false"), "{said:?}");
            // So it is kept from being taken for good.
            assert!(update(&tree)[0].starts_with("b/d: Damaged"));
            flip(&tree.path().join("b/d"), 3);
        }
    }
    assert_eq!(update(&tree), Vec::<String>::new());
    assert_eq!(verify(&tree), Vec::<String>::new());
}

fn options(set: impl FnOnce(&mut ParityRepairOptions)) -> ParityRepairOptions {
    let mut options = ParityRepairOptions::default();
    set(&mut options);
    options
}

#[test]
fn a_changed_file_comes_back_if_that_is_wanted() {
    let tree = tree();
    tree.create(500_000, None);
    let modified = fs::metadata(tree.path().join("a")).unwrap().modified().unwrap();
    tree.write(Path::new("a"), b"written since");
    let keep = tempfile::tempdir().unwrap();
    let said = repair(&tree, &options(|o| (o.changed, o.keep_bad) = (true, Some(keep.path().into()))));
    assert!(said[0].starts_with("a: Repaired"), "{said:?}");
    tree.assert_whole();
    assert_eq!(fs::metadata(tree.path().join("a")).unwrap().modified().unwrap(), modified);
    assert_eq!(fs::read(keep.path().join("a")).unwrap(), b"written since");
}

#[test]
fn what_belongs_to_a_file_stays() {
    let tree = tree();
    let path = tree.path().join("b/c");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let has_attributes =
        rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    }
    tree.create(100_000, None);
    flip(&path, 77);
    // cap_net_raw+ep, as setcap writes it; a write would have taken it away.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let is_capable = is_root
        && rustix::fs::setxattr(&path, "security.capability", &capability, rustix::fs::XattrFlags::empty())
            .is_ok();
    let before = fs::metadata(&path).unwrap();
    assert!(repair(&tree, &ParityRepairOptions::default())[0].starts_with("b/c: Repaired"));
    tree.assert_whole();
    let after = fs::metadata(&path).unwrap();
    let told = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid(), of.mtime(), of.mtime_nsec());
    assert_eq!(told(&after), told(&before));
    if is_capable {
        let mut value = [0; 32];
        let length = rustix::fs::getxattr(&path, "security.capability", &mut value[..]);
        assert_eq!(length.map(|length| value[..length].to_vec()), Ok(capability.to_vec()));
    }
    if has_attributes {
        let mut value = [0; 9];
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value[..]), Ok(4));
    }
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let mut tree = tree();
    let bytes = tree.content[Path::new("a")].clone();
    for name in ["b/link", "z"] {
        fs::hard_link(tree.path().join("a"), tree.path().join(name)).unwrap();
        tree.content.insert(name.into(), bytes.clone());
    }
    tree.create(300_000, None);
    flip(&tree.path().join("a"), 5);
    assert_eq!(repair(&tree, &ParityRepairOptions::default()).len(), 3);
    tree.assert_whole();
    let inode = |name: &str| fs::metadata(tree.path().join(name)).unwrap().ino();
    assert_eq!([inode("b/link"), inode("z")], [inode("a"); 2]);
    assert_eq!(verify(&tree), Vec::<String>::new());
}

/// Sets that were made again are in no order of paths, so that names of one file are begun side by side.
#[test]
fn names_of_one_long_file_stay_names_of_one_file() {
    let mut random = fastrand::Rng::with_seed(7);
    let content = common::bytes(&mut random, 150_000);
    let tree = Tree::new([(PathBuf::from("a"), content)].into_iter().collect());
    let (a, z) = (tree.path().join("a"), tree.path().join("z"));
    fs::hard_link(&a, &z).unwrap();
    tree.create(500_000, Some(64 << 10));
    fs::remove_file(&tree.sets()[1]).unwrap();
    update(&tree);
    for at in (1_000..150_000).step_by(50_000) {
        flip(&a, at);
    }
    assert_eq!(repair(&tree, &ParityRepairOptions::default()).len(), 2);
    assert_eq!(fs::metadata(&a).unwrap().ino(), fs::metadata(&z).unwrap().ino());
    assert_eq!(fs::read(&z).unwrap(), tree.content[Path::new("a")]);
    assert!(verify(&tree).is_empty());
}

#[test]
fn what_lost_no_bytes_needs_no_parity() {
    let mut tree = tree();
    tree.content.insert("c/empty".into(), Vec::new());
    tree.write(Path::new("c/empty"), b"");
    tree.create(100_000, None);
    fs::remove_dir_all(tree.path().join("c")).unwrap();
    let long = tree.content.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap().0.clone();
    common::quietly(&tree.path().join("a"), |file| file.set_len(file.metadata().unwrap().len() + 3).unwrap());
    assert_ne!(long, Path::new("a"));
    fs::remove_file(tree.path().join(&long)).unwrap();
    let verdicts = |can_be_repaired: &str| {
        let found = verify(&tree);
        found.iter().filter(|one| one.ends_with(&format!("can_be_repaired: {can_be_repaired} }}"))).count()
    };
    assert_eq!((verdicts("true"), verdicts("false")), (2, 1), "{:?}", verify(&tree));
    let done = repair(&tree, &options(|_| {}));
    assert_eq!(done.iter().filter(|one| one.contains(": Repaired")).count(), 2, "{done:?}");
    let now = tree.now();
    for name in ["a", "c/empty"] {
        assert!(now[Path::new(name)] == tree.content[Path::new(name)], "{name}");
    }
}

#[test]
fn a_whole_directory_comes_back() {
    let tree = tree();
    tree.create(1_000_000, None);
    fs::remove_dir_all(tree.path().join("b")).unwrap();
    fs::remove_file(tree.path().join("e")).unwrap();
    let said = repair(&tree, &ParityRepairOptions::default());
    assert_eq!(said.iter().filter(|line| line.contains("Repaired")).count(), 3, "{said:?}");
    tree.assert_whole();
    assert_eq!(verify(&tree), Vec::<String>::new());
}

#[test]
fn damaged_parity_files_are_made_again() {
    let tree = tree();
    tree.create(100_000, None);
    let set = &tree.sets()[0];
    let whole = fs::read(set).unwrap();
    let length = whole.len() as u64;
    let index = set.with_file_name("index");
    for damage in [
        &(|| flip(set, 3)) as &dyn Fn(),
        &|| flip(set, length - 100),
        &|| flip(set, length - 3),
        &|| flip(set, length / 2),
        &|| fs::write(set, &whole[..whole.len() - 9]).unwrap(),
        &|| fs::write(set, [&whole[..], b"more"].concat()).unwrap(),
        &|| fs::write(set, [&[0; 4096], &whole[4096..]].concat()).unwrap(),
        &|| flip(&index, 9),
        &|| fs::remove_file(&index).unwrap(),
    ] {
        damage();
        assert_eq!(verify(&tree).len(), 1);
        assert!(repair(&tree, &ParityRepairOptions::default())[0].ends_with(": Repaired"));
        assert_eq!(verify(&tree), Vec::<String>::new());
        assert!(fs::read(set).unwrap() == whole);
    }
    tree.assert_whole();
}

#[test]
fn parity_that_was_cut_off_anywhere_after_its_head_is_made_again() {
    let tree = tree();
    tree.create(200_000, None);
    let set = &tree.sets()[0];
    let whole = fs::read(set).unwrap();
    let head = u64::from_le_bytes(whole[72..80].try_into().unwrap()) as usize;
    for length in [head, head + 1, 2 * head - 1, 2 * head, (head + whole.len()) / 2, whole.len() - 1] {
        fs::write(set, &whole[..length]).unwrap();
        assert_eq!(repair(&tree, &ParityRepairOptions::default()).len(), 1, "{length} of {}", whole.len());
        assert!(fs::read(set).unwrap() == whole, "{length} of {}", whole.len());
    }
}

#[test]
fn what_a_killed_run_left_goes_with_the_next_update() {
    let tree = tree();
    tree.create(100_000, None);
    let sets = tree.sets();
    fs::copy(&sets[0], sets[0].with_file_name("set-00000099.parity")).unwrap();
    assert_eq!(update(&tree), Vec::<String>::new());
    assert_eq!(tree.sets(), sets);
    assert_eq!(verify(&tree), Vec::<String>::new());
}

#[test]
fn lost_parity_is_said_and_made_anew() {
    let tree = tree();
    tree.create(100_000, Some(64 << 10));
    let sets = tree.sets();
    assert!(sets.len() > 2);
    fs::remove_file(&sets[1]).unwrap();
    fs::write(&sets[0], b"no parity").unwrap();
    let lost = ["set-00000001.parity: Lost", "set-00000002.parity: Lost"];
    assert_eq!(verify(&tree), lost);
    assert_eq!(repair(&tree, &ParityRepairOptions::default()), lost);
    assert_eq!(update(&tree), lost);
    assert_eq!(verify(&tree), Vec::<String>::new());
    for name in ["index", "index.copy"] {
        fs::remove_file(sets[0].with_file_name(name)).unwrap();
    }
    flip(&tree.path().join("a"), 7);
    // Without an index all sets count.
    assert!(repair(&tree, &ParityRepairOptions::default())[0].starts_with("a: Repaired"));
    assert_eq!(update(&tree), Vec::<String>::new());
    assert_eq!(verify(&tree), Vec::<String>::new());
    tree.assert_whole();
}

#[test]
fn only_touched_sets_are_written_again() {
    let mut random = fastrand::Rng::with_seed(9);
    let names = (0..8).map(|at| (PathBuf::from(format!("f{at}")), common::bytes(&mut random, 64 << 10)));
    let tree = Tree::new(names.collect());
    tree.create(100_000, Some(64 << 10));
    let before: Vec<_> = tree.sets().iter().map(|set| (set.clone(), fs::read(set).unwrap())).collect();
    tree.write(Path::new("f3"), &common::bytes(&mut random, 64 << 10));
    fs::remove_file(tree.path().join("f5")).unwrap();
    let made = verisum_parity::update(tree.path(), None, &UpdateOptions::default(), &mut unexpected).unwrap();
    assert_eq!((made.changed, made.gone, made.new), (1, 1, 0));
    assert_eq!((made.sets_written, made.sets_kept), (1, 6));
    let kept = before.iter().filter(|(set, bytes)| fs::read(set).is_ok_and(|now| now == *bytes)).count();
    assert_eq!(kept, 6);
    assert_eq!(verify(&tree), Vec::<String>::new());
}

#[test]
fn links_lead_nowhere() {
    let tree = tree();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("c"), "theirs").unwrap();
    tree.create(1_000_000, None);
    fs::remove_dir_all(tree.path().join("b")).unwrap();
    symlink(outside.path(), tree.path().join("b")).unwrap();
    fs::remove_file(tree.path().join("a")).unwrap();
    symlink(outside.path().join("c"), tree.path().join("a")).unwrap();
    // A link in the place of a file is a change; behind one in the place of a directory there is no file.
    // Nothing is written through them, and a verification and a dry run know it.
    let repair = |dry_run| repair(&tree, &options(|o| (o.changed, o.dry_run) = (true, dry_run)));
    for said in [verify(&tree), repair(true), repair(false)] {
        for (said, path) in said.iter().zip(["a: Changed", "b/c: NotRepaired", "b/d: NotRepaired"]) {
            assert!(said.starts_with(path), "{said}");
        }
        assert_eq!(said.len(), 3);
    }
    assert_eq!(fs::read_to_string(outside.path().join("c")).unwrap(), "theirs");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // A link in the place of the parity is not followed either, unless it is ours: its files never are.
    let set = &tree.sets()[0];
    let bytes = fs::read(set).unwrap();
    fs::remove_file(set).unwrap();
    fs::write(outside.path().join("set"), bytes).unwrap();
    symlink(outside.path().join("set"), set).unwrap();
    let result = verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut |_| {});
    assert!(result.is_err());
}

#[test]
fn a_file_in_the_place_of_a_directory_is_in_the_way() {
    let tree = tree();
    tree.create(1_000_000, None);
    fs::remove_dir_all(tree.path().join("b")).unwrap();
    fs::write(tree.path().join("b"), "theirs").unwrap();
    let repair = |dry_run| repair(&tree, &options(|o| o.dry_run = dry_run));
    for said in [verify(&tree), repair(true), repair(false)] {
        assert!(said.iter().all(|said| said.contains("is in the place of the directory")), "{said:?}");
        assert_eq!(said.len(), 2);
    }
    let found =
        verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((found.missing, found.beyond_repair, found.unreadable), (2, 2, 0));
    assert_eq!(fs::read_to_string(tree.path().join("b")).unwrap(), "theirs");
}

#[test]
fn of_a_set_only_the_named_file_is_mended() {
    let tree = tree();
    tree.create(1_000_000, None);
    for name in ["a", "b/c"] {
        flip(&tree.path().join(name), 100);
    }
    let only = |dry_run| repair(&tree, &options(|o| (o.only, o.dry_run) = (vec!["b/c".into()], dry_run)));
    for said in [only(true), only(false)] {
        assert!(said.len() == 1 && said[0].starts_with("b/c: "), "{said:?}");
    }
    let left = verify(&tree);
    assert!(left.len() == 1 && left[0].starts_with("a: Damaged"), "{left:?}");
    // A name that nothing has was mistyped.
    let options = options(|o| o.only = vec!["a".into(), "b/C".into()]);
    let error = verisum_parity::repair(tree.path(), None, &options, &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}/b/C: there is no parity of it", tree.path().display()));
}

#[test]
fn a_file_that_is_open_to_be_written_to_is_left_alone() {
    let tree = tree();
    tree.create(100_000, None);
    let path = tree.path().join("a");
    flip(&path, 100);
    let writer = fs::File::options().append(true).open(&path).unwrap();
    let said = repair(&tree, &ParityRepairOptions::default());
    assert!(said[0].contains("somebody has it open"), "{said:?}");
    drop(writer);
    assert!(repair(&tree, &ParityRepairOptions::default())[0].starts_with("a: Repaired"));
    tree.assert_whole();
}

#[test]
fn a_kept_copy_is_for_nobody_else() {
    let tree = tree();
    tree.create(100_000, None);
    let path = tree.path().join("b/c");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let keep = tempfile::tempdir().unwrap();
    for in_place in [false, true] {
        flip(&path, 100);
        let kept = keep.path().join(format!("{in_place}"));
        let options = options(|o| (o.in_place, o.keep_bad) = (in_place, Some(kept.clone())));
        assert!(repair(&tree, &options)[0].starts_with("b/c: Repaired"));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&kept), mode(&kept.join("b/c"))), (0o700, 0o600));
    }
}

#[test]
fn what_is_stopped_leaves_what_was_there() {
    let tree = tree();
    let stop = Arc::new(Stop::default());
    let mut create = CreateOptions::default();
    create.stop = stop.clone();
    stop.request();
    let ended = verisum_parity::create(tree.path(), None, &create, &mut unexpected);
    assert!(matches!(ended, Err(ParityError::Stopped)), "{ended:?}");
    assert!(!tree.path().join(verisum_parity::USUAL_PLACE).exists());
    // A directory that was there stays.
    let place = tempfile::tempdir().unwrap();
    assert!(verisum_parity::create(tree.path(), Some(place.path()), &create, &mut unexpected).is_err());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    tree.create(100_000, None);
    flip(&tree.path().join("b/c"), 70_000);
    let now = tree.now();
    let repair = options(|options| options.stop = stop.clone());
    let ended = verisum_parity::repair(tree.path(), None, &repair, &mut unexpected);
    assert!(matches!(ended, Err(ParityError::Stopped)) && tree.now() == now, "{ended:?}");
    let mut verify = ParityVerifyOptions::default();
    verify.stop = stop.clone();
    let ended = verisum_parity::verify(tree.path(), None, &verify, &mut unexpected);
    assert!(matches!(ended, Err(ParityError::Stopped)), "{ended:?}");
}

#[test]
fn create_replaces_nothing_and_two_do_not_write() {
    let tree = tree();
    tree.create(100_000, None);
    let create = || verisum_parity::create(tree.path(), None, &CreateOptions::default(), &mut unexpected);
    assert!(matches!(create(), Err(ParityError::Exists { .. })));
    let empty = tempfile::tempdir().unwrap();
    let verified =
        verisum_parity::verify(empty.path(), None, &ParityVerifyOptions::default(), &mut unexpected);
    assert!(matches!(verified, Err(ParityError::None { .. })));
    let lock = fs::File::open(tree.path().join(verisum_parity::USUAL_PLACE)).unwrap();
    lock.lock().unwrap();
    let verified =
        verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut unexpected);
    assert!(matches!(verified, Err(ParityError::Busy { .. })));
}

#[test]
fn parity_may_lie_elsewhere_and_costs_what_was_said() {
    let mut random = fastrand::Rng::with_seed(1);
    // As many small files as par2cmdline spent 41% on.
    let names = (0..1762).map(|at| {
        let length = random.usize(1000..8000);
        (PathBuf::from(format!("DSC{at:05}.txt")), common::bytes(&mut random, length))
    });
    let tree = Tree::new(names.collect());
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("parity");
    let made =
        verisum_parity::create(tree.path(), Some(&*to), &CreateOptions::default(), &mut unexpected).unwrap();
    assert!(made.written * 100 < made.data * 6, "{made:?}");
    assert!(made.written * 100 > made.data * 4, "{made:?}");
    assert!(!tree.path().join(verisum_parity::USUAL_PLACE).exists());
    flip(&tree.path().join("DSC00100.txt"), 50);
    verisum_parity::repair(tree.path(), Some(&*to), &ParityRepairOptions::default(), &mut |_| {}).unwrap();
    tree.assert_whole();
}
