//! The iterators of results over what the engines find: whole, and dropped early.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use verisum::catalog::scrub::ScrubOptions;
use verisum::catalog::store::{Catalog, Lock};
use verisum::files::check::{CheckOutcome, Event};
use verisum::files::compare::{FileStatus, Tree};
use verisum::files::place::{LocalPlace, Place};
use verisum::files::{Stop, Verdict, VerdictClass};
use verisum::mend::repair::RepairOptions;
use verisum::remote::{Address, Host, HostOptions, Hosts};
use verisum::{CheckOptions, CompareOptions, Compared, HashOptions, Scrubbed};

/// More files than results may wait.
const MANY: usize = 3000;

/// A tree of so many files, and a list of them.
fn tree(folder: &Path, files: usize) -> (PathBuf, PathBuf) {
    let (tree, list) = (folder.join("tree"), folder.join("SHA256SUMS"));
    fs::create_dir(&tree).unwrap();
    for number in 0..files {
        fs::write(tree.join(format!("{number:04}")), number.to_string()).unwrap();
    }
    let lines = verisum::hash_files(vec![tree.clone()], &HashOptions::default()).unwrap().map(|file| {
        let file = file.unwrap();
        format!("{}  {}\n", file.digests[0], file.path.display())
    });
    fs::write(&list, lines.collect::<String>()).unwrap();
    (tree, list)
}

#[test]
fn a_check_gives_every_file_and_counts_it() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, list) = tree(folder.path(), 10);
    fs::write(tree.join("0003"), "x").unwrap();
    fs::remove_file(tree.join("0004")).unwrap();
    let mut results = verisum::check(vec![list.clone()], &CheckOptions::default()).unwrap();
    let bad = results.by_ref().filter(|found| {
        assert_eq!(*found.list, *list);
        let Event::File { outcome, .. } = &found.event else { return false };
        matches!(outcome, CheckOutcome::Mismatch(_) | CheckOutcome::Missing(_))
    });
    assert_eq!(bad.count(), 2);
    let summary = results.finish();
    assert_eq!((summary.verified, summary.different, summary.missing), (8, 1, 1));
    assert_eq!(summary.class(), VerdictClass::Corrupt);
}

#[test]
fn a_manifest_of_a_bag_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    fs::create_dir_all(bag.join("data")).unwrap();
    fs::write(bag.join("bagit.txt"), "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n").unwrap();
    fs::write(bag.join("manifest-md5.txt"), "900150983cd24fb0d6963f7d28e17f72  data/file\n").unwrap();
    fs::write(bag.join("data/file"), "abd").unwrap();
    let none = folder.path().join("none");
    let results = verisum::check(vec![none.clone(), bag.clone()], &CheckOptions::default()).unwrap();
    let lists: Vec<_> = results.map(|found| found.list.to_path_buf()).collect();
    let manifest = bag.join("manifest-md5.txt");
    assert_eq!(lists, [none, manifest.clone(), manifest]);
}

#[test]
fn nothing_that_was_not_checked_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let check = |lists| verisum::check(lists, &CheckOptions::default()).unwrap().finish();
    assert_eq!(check(Vec::new()).class(), VerdictClass::Unchecked);
    let summary = check(vec![folder.path().join("none")]);
    assert_eq!((summary.unread_lists, summary.class()), (1, VerdictClass::Unchecked));
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert_eq!(check(vec![empty]).class(), VerdictClass::Corrupt);
    let (_, list) = tree(folder.path(), 10);
    let options = CheckOptions::default();
    options.stop.request();
    let summary = verisum::check(vec![list], &options).unwrap().finish();
    assert_eq!((summary.stopped, summary.class()), (true, VerdictClass::Unchecked));
}

/// As `verisum check` ends.
#[test]
fn a_file_that_is_not_there_was_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, list) = tree(folder.path(), 3);
    let class = || verisum::check(vec![list.clone()], &CheckOptions::default()).unwrap().finish().class();
    assert_eq!(class(), VerdictClass::Clean);
    fs::remove_file(tree.join("0001")).unwrap();
    assert_eq!(class(), VerdictClass::Unchecked);
    fs::write(tree.join("0002"), "x").unwrap();
    assert_eq!(class(), VerdictClass::Corrupt);
}

#[test]
fn a_list_by_which_nothing_was_verified_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    fs::write(folder.path().join("file"), "abc").unwrap();
    let class = |text: &str| {
        fs::write(&list, text).unwrap();
        let mut options = CheckOptions::default();
        options.base = Some(folder.path().into());
        verisum::check(vec![list.clone()], &options).unwrap().finish().class()
    };
    assert_eq!(class("no list\n"), VerdictClass::Corrupt);
    assert_eq!(class("GOST (file) = 00\n"), VerdictClass::Unchecked);
    assert_eq!(class("#mtree\n./file type=file size=3\n"), VerdictClass::Corrupt);
    let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(class(&format!("no list\n{sum}  file\n")), VerdictClass::Clean);
}

#[test]
fn a_listed_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, list) = (folder.path().join("pipe"), folder.path().join("list"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    fs::write(&list, format!("{:064}  {}\n", 0, pipe.display())).unwrap();
    let summary = verisum::check(vec![list], &CheckOptions::default()).unwrap().finish();
    assert_eq!((summary.unreadable, summary.class()), (1, VerdictClass::Unchecked));
}

#[test]
fn a_repair_makes_no_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("mistyped.db");
    let results = verisum::repair(&catalog, folder.path(), Vec::new(), &RepairOptions::default()).unwrap();
    assert!(results.finish().is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn options_that_are_used_again_are_of_the_time_of_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, _) = tree(folder.path(), 1);
    let catalog = folder.path().join("c.db");
    let options = ScrubOptions::default();
    let verified = || {
        std::thread::sleep(Duration::from_millis(10));
        verisum::scrub(&catalog, &tree, &options).unwrap().finish().unwrap();
        let catalog = Catalog::open(&catalog).unwrap();
        let root = catalog.roots().unwrap().remove(0);
        catalog.record(root.directory, "0000".as_ref()).unwrap().unwrap().verified
    };
    let first = verified();
    assert!(verified() > first);
}

#[test]
fn a_dropped_check_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (_, list) = tree(folder.path(), MANY);
    let options = CheckOptions::default();
    let mut results = verisum::check(vec![list], &options).unwrap();
    assert!(results.next().is_some());
    drop(results);
    // All that was begun has ended, and not all was begun.
    assert_eq!(Arc::strong_count(&options.progress), 1);
    assert!(options.progress.files() < MANY as u64, "{}", options.progress.files());
}

#[test]
fn a_comparison_gives_every_file_of_both_trees() {
    let folder = tempfile::tempdir().unwrap();
    let (a, _) = tree(folder.path(), 4);
    let b = folder.path().join("other");
    fs::create_dir(&b).unwrap();
    for (name, content) in [("0000", "0"), ("0001", "x"), ("0002", "2"), ("new", "new")] {
        fs::write(b.join(name), content).unwrap();
    }
    let trees =
        || [&a, &b].map(|path| Tree::new(Box::new(LocalPlace::default()), path.as_os_str().as_bytes()));
    let mut results = verisum::compare(trees(), &CompareOptions::default()).unwrap();
    let found: Vec<_> = results
        .by_ref()
        .filter_map(|compared| match compared {
            Compared::File(pair) => Some((String::from_utf8(pair.name).unwrap(), pair.status)),
            Compared::Event { .. } => None,
        })
        .collect();
    let expected = [
        ("0000", FileStatus::Same),
        ("0001", FileStatus::Differs),
        ("0002", FileStatus::Same),
        ("0003", FileStatus::Missing),
        ("new", FileStatus::Extra),
    ];
    assert_eq!(found, expected.map(|(name, status)| (name.to_string(), status)));
    assert_eq!(results.finish().unwrap().class(), VerdictClass::Corrupt);
    drop(verisum::compare(trees(), &CompareOptions::default()).unwrap());
}

#[test]
fn a_comparison_ends_in_the_middle_of_a_file() {
    const ENDS_WITHIN: Duration = Duration::from_secs(60);
    let folder = tempfile::tempdir().unwrap();
    // They are the same for longer than anybody waits, however fast the machine is.
    let roots = ["a", "b"].map(|name| {
        let root = folder.path().join(name);
        fs::create_dir(&root).unwrap();
        fs::File::create(root.join("large")).unwrap().set_len(4 << 40).unwrap();
        root.into_os_string().into_encoded_bytes()
    });
    let hosts = Hosts::new(HostOptions::default(), folder.path());
    let here = || Box::new(LocalPlace::default()) as Box<dyn Place>;
    // By the programs that a host would use.
    let host = || hosts.place(&Host::Local).unwrap();
    for places in [[here(), here()], [here(), host()], [host(), host()]] {
        let [a, b] = places;
        let trees = [Tree::new(a, &roots[0]), Tree::new(b, &roots[1])];
        let mut results = verisum::compare(trees, &CompareOptions::default()).unwrap();
        while let Poll::Ready(told) = results.next_within(Duration::from_millis(500)) {
            assert!(matches!(told, Some(Compared::Event { .. })), "{told:?}");
        }
        let dropped = Instant::now();
        drop(results);
        assert!(dropped.elapsed() < ENDS_WITHIN, "{:?}", dropped.elapsed());
    }
    let trees = [Tree::new(here(), &roots[0]), Tree::new(host(), &roots[1])];
    let mut options = CompareOptions::default();
    let begun = Instant::now();
    options.stop = Arc::new(Stop::at(begun + Duration::from_millis(500)));
    let summary = verisum::compare(trees, &options).unwrap().finish().unwrap();
    assert!(begun.elapsed() < ENDS_WITHIN, "{:?}", begun.elapsed());
    assert_eq!((summary.stopped, summary.class()), (true, VerdictClass::Unchecked));
}

#[test]
fn a_dropped_scrub_ends_in_good_order() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, _) = tree(folder.path(), MANY);
    let catalog = folder.path().join("catalog.db");
    let scrub = || verisum::scrub(&catalog, &tree, &ScrubOptions::default()).unwrap();
    let mut first = scrub();
    assert!(first.next().is_some(), "new files are told");
    drop(first);
    // Nobody has the catalogue any more, and what was recorded is there.
    drop(Lock::take(&catalog).unwrap());
    let summary = scrub().finish().unwrap();
    assert_eq!((summary.files, summary.interrupted), (MANY as u64, false));
}

#[test]
fn a_tree_is_the_same_by_whatever_path_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, _) = tree(folder.path(), 2);
    let catalog = folder.path().join("catalog.db");
    let scrub = |path: &Path| {
        let results = verisum::scrub(&catalog, path, &ScrubOptions::default()).unwrap();
        results.map(|file| file.verdict).collect::<Vec<_>>()
    };
    assert_eq!(scrub(&tree), [Verdict::New; 2]);
    let up: PathBuf = std::env::current_dir().unwrap().iter().skip(1).map(|_| "..").collect();
    let relative = up.join(tree.strip_prefix("/").unwrap());
    for path in [relative.clone(), relative.join(""), tree.join("."), tree.join("../tree")] {
        assert_eq!(scrub(&path), [], "{}", path.display());
    }
    // And bad data is no new file by another path.
    let modified = fs::metadata(tree.join("0001")).unwrap().modified().unwrap();
    fs::write(tree.join("0001"), "x").unwrap();
    fs::File::options().write(true).open(tree.join("0001")).unwrap().set_modified(modified).unwrap();
    assert_eq!(scrub(&relative), [Verdict::Suspicious]);
}

#[test]
fn a_tree_of_any_place_is_scrubbed_by_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, _) = tree(folder.path(), 3);
    let catalog = folder.path().join("catalog.db");
    let hosts = Hosts::new(HostOptions::default(), folder.path());
    let path = tree.as_os_str().as_bytes();
    // By the programs that a host would use.
    let there = (Address::new(Host::named(b"there", None).unwrap(), path), Host::Local);
    let scrub = |address: &Address, place: Box<dyn Place>| {
        let mut results = verisum::scrub_place(&catalog, address, place, &ScrubOptions::default()).unwrap();
        let files = results.by_ref().filter_map(|scrubbed| match scrubbed {
            Scrubbed::File(file) => Some((file.path, file.verdict)),
            Scrubbed::Event(_) => None,
        });
        let mut files: Vec<_> = files.collect();
        files.sort();
        results.finish().map(|summary| (files, summary.read_files))
    };
    let remote = || scrub(&there.0, hosts.place(&there.1).unwrap()).unwrap();
    let named = |name| there.0.recorded().unwrap().join(name);
    let new = ["0000", "0001", "0002"].map(|name| (named(name), Verdict::New));
    assert_eq!(remote(), (new.to_vec(), 3));
    // A tree of this machine is the same as by its path.
    let (here, place) = hosts.tree(tree.as_os_str()).unwrap();
    assert_eq!(scrub(&here, place).unwrap().0.len(), 3);
    let known = verisum::scrub(&catalog, &tree, &ScrubOptions::default()).unwrap().count();
    assert_eq!(known, 0);
    let modified = fs::metadata(tree.join("0001")).unwrap().modified().unwrap();
    fs::write(tree.join("0001"), "x").unwrap();
    fs::File::options().write(true).open(tree.join("0001")).unwrap().set_modified(modified).unwrap();
    assert_eq!(remote(), (vec![(named("0001"), Verdict::Rot)], 3));
    // No catalogue can know this one again.
    let above = Address::new(there.0.host.clone(), b"/srv/../photos");
    let error = scrub(&above, hosts.place(&Host::Local).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("ssh://there/srv/../photos: "), "{error}");
}

#[test]
fn what_is_wrong_with_a_catalogue_is_the_end_of_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, list) = tree(folder.path(), 1);
    let mut results = verisum::scrub(&list, &tree, &ScrubOptions::default()).unwrap();
    assert!(results.next().is_none());
    assert!(results.finish().is_err());
}
