//! Parity in another place: kills at each step, lost answers, and two runs at once, without a lock.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{Content, Tree, flip, unexpected};
use verisum_digest::Digest;
use verisum_files::place::{
    Capabilities, FileIdentity, FileRequest, FileState, Files, KnownState, LocalPlace, Place, PlaceError,
    Sink,
};
use verisum_parity::{
    CreateOptions, FileVerdict, Finding, Made, ParityError, ParityLocation, ParityRepairOptions,
    ParityVerifyOptions, UpdateOptions, Verified,
};

/// What is done before a change of a place with this number; then whether the change is made, and told.
type Hook<'h> = Box<dyn FnMut(usize) -> (bool, bool) + Send + 'h>;

/// What is done before a question to a place with this number; then whether it is answered.
type Watch = Box<dyn FnMut(usize) -> bool + Send>;

/// A place that fails from some change on, or at some questions.
struct Shaky {
    inner: LocalPlace,
    hook: Hook<'static>,
    watch: Watch,
    changes: usize,
    asks: usize,
    is_gone: bool,
}

impl Shaky {
    fn new(hook: Hook<'static>, watch: Watch) -> Box<Shaky> {
        Box::new(Shaky { inner: LocalPlace::default(), hook, watch, changes: 0, asks: 0, is_gone: false })
    }
}

impl Shaky {
    fn change<T>(
        &mut self,
        act: impl FnOnce(&mut LocalPlace) -> Result<T, PlaceError>,
    ) -> Result<T, PlaceError> {
        let (is_made, is_told) = if self.is_gone { (false, false) } else { (self.hook)(self.changes) };
        self.changes += 1;
        self.is_gone |= !is_told;
        let changed = is_made.then(|| act(&mut self.inner));
        match changed {
            Some(changed) if is_told => changed,
            _ => Err(gone()),
        }
    }

    fn ask<T>(
        &mut self,
        act: impl FnOnce(&mut LocalPlace) -> Result<T, PlaceError>,
    ) -> Result<T, PlaceError> {
        let is_told = !self.is_gone && (self.watch)(self.asks);
        self.asks += 1;
        if is_told { act(&mut self.inner) } else { Err(gone()) }
    }
}

fn gone() -> PlaceError {
    PlaceError::Machine("the line is cut".into())
}

impl Place for Shaky {
    fn capabilities(&mut self, digests: &[Digest], sink: Sink) -> Result<Capabilities, PlaceError> {
        self.inner.capabilities(digests, sink)
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        self.ask(|place| place.list(root, sink))
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        self.ask(|place| place.hash(digests, files, sink))
    }

    fn state(&mut self, path: &[u8]) -> Result<KnownState, PlaceError> {
        self.ask(|place| place.state(path))
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        self.ask(|place| place.read(path, range))
    }

    fn read_listed(
        &mut self,
        file: &FileRequest,
        range: Range<u64>,
    ) -> Result<Box<dyn Read + Send>, PlaceError> {
        // As a store has it.
        let now = self.ask(|place| place.state(&file.path))?.now;
        if now != file.seen { Err(PlaceError::Replaced) } else { self.inner.read(&file.path, range) }
    }

    fn write(
        &mut self,
        path: &[u8],
        content: &mut dyn Read,
        about: &FileState,
        previous: Option<&FileState>,
    ) -> Result<Option<FileIdentity>, PlaceError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        self.change(|place| match place.write(path, &mut &*bytes, about, previous) {
            // A store that was asked twice, for an answer was lost, says so of the second time.
            Err(PlaceError::Replaced) if fs::read(Path::new(OsStr::from_bytes(path))).unwrap() == bytes => {
                Ok(None)
            }
            written => written,
        })
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), PlaceError> {
        self.change(|place| place.remove(path))
    }
}

fn far(path: &Path, hook: Option<Hook<'static>>) -> ParityLocation<'static> {
    let hook = hook.unwrap_or_else(|| Box::new(|_| (true, true)));
    watched(path, hook, Box::new(|_| true))
}

fn watched(path: &Path, hook: Hook<'static>, watch: Watch) -> ParityLocation<'static> {
    let root = path.as_os_str().as_bytes().to_vec();
    ParityLocation::Place { place: Shaky::new(hook, watch), root, name: PathBuf::from("far") }
}

/// A tree, and the folder of its parity elsewhere.
fn world() -> (Tree, tempfile::TempDir) {
    let mut random = fastrand::Rng::with_seed(7);
    let files = [("a", 9_000), ("b/c", 20_000), ("b/d", 10), ("e", 0), ("f", 6_000), ("g", 12_000)];
    let content = files.map(|(name, length)| (PathBuf::from(name), common::bytes(&mut random, length)));
    (Tree::new(Content::from(content)), tempfile::tempdir().unwrap())
}

fn create(tree: &Tree, folder: ParityLocation) -> Result<Made, ParityError> {
    let mut options = CreateOptions::default();
    (options.redundancy, options.set_bytes, options.threads) = (1_000_000, Some(16_384), 1);
    verisum_parity::create(tree.path(), folder, &options, &mut unexpected)
}

fn update(tree: &Path, folder: ParityLocation) -> Result<Made, ParityError> {
    let mut options = UpdateOptions::default();
    options.threads = 1;
    verisum_parity::update(tree, folder, &options, &mut unexpected)
}

fn verify(tree: &Tree, parity: &Path) -> Verified {
    let options = ParityVerifyOptions::default();
    verisum_parity::verify(tree.path(), far(parity, None), &options, &mut |_| {}).unwrap()
}

/// Changes some files of a tree, and leaves others alone.
fn change(tree: &mut Tree) {
    let mut random = fastrand::Rng::with_seed(8);
    for (name, length) in [("a", 9_500), ("new", 5_000)] {
        let bytes = common::bytes(&mut random, length);
        tree.write(Path::new(name), &bytes);
        tree.content.insert(name.into(), bytes);
    }
    fs::remove_file(tree.path().join("b/d")).unwrap();
    tree.content.remove(Path::new("b/d"));
}

/// Everything has parity and nothing is left behind.
fn assert_sound(tree: &Tree, parity: &Path, what: &str) {
    let found = verify(tree, parity);
    let bad = (found.damaged, found.missing, found.changed, found.unreadable, found.parity_damaged);
    assert_eq!((bad, found.files), ((0, 0, 0, 0, 0), tree.content.len() as u64), "{what}");
    let names = fs::read_dir(parity).unwrap().map(|entry| entry.unwrap().file_name());
    let sets = names.filter(|name| name.as_bytes().starts_with(b"set-")).count();
    assert_eq!(sets as u64, found.sets, "{what}");
    flip(&tree.path().join("b/c"), 7_000);
    fs::remove_file(tree.path().join("f")).unwrap();
    let options = ParityRepairOptions::default();
    verisum_parity::repair(tree.path(), far(parity, None), &options, &mut |_| {}).unwrap();
    tree.assert_whole();
}

/// Ends a run at each change in turn, with the last one made or not; until the run gets to its end.
fn cut_at_each_step(mut act: impl FnMut(usize, bool, Hook<'static>) -> bool) {
    for is_made in [false, true] {
        let ends = (0..1000).find(|step| {
            let step = *step;
            act(step, is_made, Box::new(move |at| (at < step || is_made, at < step)))
        });
        assert!(ends.is_some_and(|steps| steps > 5), "{ends:?}");
    }
}

#[test]
fn parity_that_is_cut_off_while_it_is_made_is_none_or_whole() {
    cut_at_each_step(|step, is_made, hook| {
        let (tree, parity) = world();
        let what = format!("{step} {is_made}");
        let made = create(&tree, far(parity.path(), Some(hook)));
        match create(&tree, far(parity.path(), None)) {
            Err(ParityError::Exists { .. }) => assert!(made.is_ok() || is_made || step > 5, "{what}"),
            again => drop(again.unwrap()),
        }
        // What is left behind goes with the next change.
        tree.write(Path::new("e"), b"");
        update(tree.path(), far(parity.path(), None)).unwrap();
        assert_sound(&tree, parity.path(), &what);
        made.is_ok()
    });
}

#[test]
fn an_update_that_is_cut_off_leaves_the_parity_of_before_or_the_new_one() {
    cut_at_each_step(|step, is_made, hook| {
        let (mut tree, parity) = world();
        create(&tree, far(parity.path(), None)).unwrap();
        change(&mut tree);
        let updated = update(tree.path(), far(parity.path(), Some(hook)));
        let what = format!("{step} {is_made}");
        let found = verify(&tree, parity.path());
        assert_eq!((found.damaged, found.parity_damaged), (0, 0), "{what}");
        assert!([0, 1].contains(&found.changed) && found.missing == found.changed, "{what}: {found:?}");
        // The files that did not change have parity all the while.
        flip(&tree.path().join("b/c"), 3_000);
        let options = ParityRepairOptions::default();
        verisum_parity::repair(tree.path(), far(parity.path(), None), &options, &mut |_| {}).unwrap();
        assert!(fs::read(tree.path().join("b/c")).unwrap() == tree.content[Path::new("b/c")], "{what}");
        let _ = fs::remove_file(tree.path().join("b/d"));
        update(tree.path(), far(parity.path(), None)).unwrap();
        assert_sound(&tree, parity.path(), &what);
        updated.is_ok()
    });
}

#[test]
fn of_two_updates_at_once_the_later_one_counts() {
    let mut ends = Vec::new();
    for step in 0.. {
        let (mut tree, parity) = world();
        create(&tree, far(parity.path(), None)).unwrap();
        change(&mut tree);
        let (path, to) = (tree.path().to_path_buf(), parity.path().to_path_buf());
        let hook: Hook = Box::new(move |at| {
            if at == step {
                fs::write(path.join("later"), b"written meanwhile").unwrap();
                update(&path, far(&to, None)).unwrap();
            }
            (true, true)
        });
        let updated = update(tree.path(), far(parity.path(), Some(hook)));
        let is_over = !tree.path().join("later").exists();
        if !is_over {
            tree.content.insert("later".into(), b"written meanwhile".to_vec());
        }
        let found = verify(&tree, parity.path());
        assert_eq!((found.parity_damaged, found.changed, found.missing), (0, 0, 0), "{step}: {updated:?}");
        assert_eq!(found.files, tree.content.len() as u64, "{step}");
        if let Err(error) = &updated {
            assert!(matches!(error, ParityError::Busy { .. }), "{step}: {error}");
        }
        // The next update that writes removes what the other one could not.
        tree.write(Path::new("last"), b"last");
        tree.content.insert("last".into(), b"last".to_vec());
        update(tree.path(), far(parity.path(), None)).unwrap();
        assert_sound(&tree, parity.path(), &step.to_string());
        ends.push(updated.is_ok());
        if is_over {
            break;
        }
    }
    // Until its index is there, the first one fails; after that, it is through.
    assert!(ends.is_sorted() && !ends[3] && ends[ends.len() - 2], "{ends:?}");
}

#[test]
fn an_update_that_has_nothing_to_do_removes_no_set_of_another_one() {
    for step in 0.. {
        let (mut tree, parity) = world();
        create(&tree, far(parity.path(), None)).unwrap();
        let same = Tree::new(tree.content.clone());
        for name in tree.content.keys() {
            let modified = fs::metadata(tree.path().join(name)).unwrap().modified().unwrap();
            let file = fs::File::options().write(true).open(same.path().join(name)).unwrap();
            file.set_modified(modified).unwrap();
        }
        change(&mut tree);
        let (to, is_over) = (parity.path().to_path_buf(), Arc::new(AtomicBool::new(true)));
        let over = is_over.clone();
        let hook: Hook = Box::new(move |at| {
            if at == step {
                over.store(false, Relaxed);
                let made = update(same.path(), far(&to, None));
                assert!(step > 2 || made.unwrap().sets_written == 0, "{step}");
            }
            (true, true)
        });
        let updated = update(tree.path(), far(parity.path(), Some(hook)));
        if let Err(error) = &updated {
            assert!(matches!(error, ParityError::Busy { .. }), "{step}: {error}");
        }
        assert_eq!(verify(&tree, parity.path()).parity_damaged, 0, "{step}");
        if is_over.load(Relaxed) {
            assert!(step > 5);
            break;
        }
    }
}

#[test]
fn two_updates_never_reserve_the_same_numbers() {
    let (mut tree, parity) = world();
    create(&tree, far(parity.path(), None)).unwrap();
    change(&mut tree);
    let (path, to) = (tree.path().to_path_buf(), parity.path().to_path_buf());
    // The other one gets so far as to have reserved its numbers.
    let hook: Hook = Box::new(move |at| {
        if at == 0 {
            update(&path, far(&to, Some(Box::new(|at| (at == 0, at == 0))))).unwrap_err();
        }
        (true, true)
    });
    let updated = update(tree.path(), far(parity.path(), Some(hook)));
    assert!(matches!(updated, Err(ParityError::Busy { .. })), "{updated:?}");
}

#[test]
fn files_that_are_no_parity_stay_where_they_are() {
    let (mut tree, parity) = world();
    let foreign = ["list.new", "set-1.parity", "index.old", "below/x.new", "below/set-00000009.parity"];
    fs::create_dir_all(parity.path().join("below")).unwrap();
    foreign.iter().for_each(|name| fs::write(parity.path().join(name), name).unwrap());
    let left = parity.path().join("set-00000001.parity.new");
    fs::write(&left, "verisum parity set, left behind").unwrap();
    create(&tree, ParityLocation::Directory(parity.path())).unwrap();
    assert!(!left.exists());
    change(&mut tree);
    update(tree.path(), far(parity.path(), None)).unwrap();
    for name in foreign {
        assert_eq!(fs::read_to_string(parity.path().join(name)).unwrap(), name);
    }
}

#[test]
fn what_a_place_does_not_give_is_no_damage() {
    for step in 0.. {
        let (tree, parity) = world();
        create(&tree, far(parity.path(), None)).unwrap();
        let is_over = Arc::new(AtomicBool::new(true));
        let over = is_over.clone();
        let watch: Watch = Box::new(move |at| {
            over.fetch_and(at != step, Relaxed);
            at != step
        });
        let folder = watched(parity.path(), Box::new(|_| (true, true)), watch);
        let options = ParityVerifyOptions::default();
        let ended = verisum_parity::verify(tree.path(), folder, &options, &mut unexpected);
        if is_over.load(Relaxed) {
            ended.unwrap();
            assert!(step > 10);
            break;
        }
        assert!(ended.unwrap_err().to_string().contains("the line is cut"), "{step}");
    }
}

#[test]
fn a_set_that_an_update_removed_meanwhile_is_not_lost() {
    for step in 0.. {
        let (mut tree, parity) = world();
        create(&tree, far(parity.path(), None)).unwrap();
        change(&mut tree);
        let (path, to) = (tree.path().to_path_buf(), parity.path().to_path_buf());
        let is_over = Arc::new(AtomicBool::new(true));
        let over = is_over.clone();
        let watch: Watch = Box::new(move |at| {
            if at == step {
                over.store(false, Relaxed);
                update(&path, far(&to, None)).unwrap();
            }
            true
        });
        let folder = watched(parity.path(), Box::new(|_| (true, true)), watch);
        let options = ParityVerifyOptions::default();
        let ended = verisum_parity::verify(tree.path(), folder, &options, &mut |_| {});
        match ended {
            Ok(found) => assert_eq!(found.parity_damaged, 0, "{step}"),
            Err(error) => assert!(matches!(error, ParityError::Busy { .. }), "{step}: {error}"),
        }
        if is_over.load(Relaxed) {
            assert!(step > 10);
            break;
        }
    }
}

#[test]
fn parity_elsewhere_is_repaired_and_told_of() {
    let (tree, parity) = world();
    create(&tree, far(parity.path(), None)).unwrap();
    let names = fs::read_dir(parity.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<PathBuf> = names.collect();
    names.sort();
    for path in &names {
        flip(path, fs::metadata(path).unwrap().len() / 2);
    }
    let mut told = Vec::new();
    let mut report = |finding| match finding {
        Finding::Parity(found) => told.push((found.path, found.verdict.name())),
        Finding::File(file) => panic!("{:?} {:?}", file.path, matches!(file.verdict, FileVerdict::Touched)),
        other => panic!("{other:?}"),
    };
    let options = ParityVerifyOptions::default();
    verisum_parity::verify(tree.path(), far(parity.path(), None), &options, &mut report).unwrap();
    assert!(told.iter().all(|(path, _)| path.starts_with("far")), "{told:?}");
    assert!(told.len() >= names.len() - 1, "{told:?}");
}
