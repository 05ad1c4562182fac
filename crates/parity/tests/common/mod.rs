//! Trees to be damaged, and how to damage them as a disk does: without moving a time.

#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use verisum_parity::{CreateOptions, Finding};

/// Bytes by path.
pub type Content = BTreeMap<PathBuf, Vec<u8>>;

/// A tree with its parity in it, and what it was made of.
pub struct Tree {
    pub folder: tempfile::TempDir,
    pub content: Content,
}

impl Tree {
    pub fn new(content: Content) -> Tree {
        let tree = Tree { folder: tempfile::tempdir().unwrap(), content };
        for (path, bytes) in &tree.content {
            tree.write(path, bytes);
        }
        tree
    }

    /// Files of random sizes, most of them small, in some directories.
    pub fn random(random: &mut fastrand::Rng, files: usize, most: usize) -> Tree {
        let file = |at: usize, random: &mut fastrand::Rng| {
            let length = match random.u8(..10) {
                0 => 0,
                1..=6 => random.usize(1..most / 20),
                _ => random.usize(1..most),
            };
            let path = PathBuf::from(format!("d{}/{}{at}", random.u8(..3), ["x", "ü ", "a\n"][at % 3]));
            (path, bytes(random, length))
        };
        Tree::new((0..files).map(|at| file(at, random)).collect())
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, path: &Path, bytes: &[u8]) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn create(&self, redundancy: u32, set_bytes: Option<u64>) -> verisum_parity::Made {
        let mut options = CreateOptions::default();
        (options.redundancy, options.set_bytes) = (redundancy, set_bytes);
        verisum_parity::create(self.path(), None, &options, &mut unexpected).unwrap()
    }

    /// The parity files, by name.
    pub fn sets(&self) -> Vec<PathBuf> {
        let place = self.path().join(verisum_parity::USUAL_PLACE);
        let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
        let mut sets: Vec<PathBuf> =
            names.filter(|path| path.extension().is_some_and(|e| e == "parity")).collect();
        sets.sort();
        sets
    }

    /// What is there now, without the parity.
    pub fn now(&self) -> Content {
        let mut found = Content::new();
        collect(self.path(), self.path(), &mut found);
        found
    }

    pub fn assert_whole(&self) {
        let now = self.now();
        assert!(now.keys().eq(self.content.keys()), "{:?} {:?}", now.keys(), self.content.keys());
        for (path, bytes) in &self.content {
            assert!(now[path] == *bytes, "{}", path.display());
        }
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Content) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with(verisum_parity::USUAL_PLACE) => {}
            true => collect(root, &path, found),
            false => drop(found.insert(path.strip_prefix(root).unwrap().into(), fs::read(&path).unwrap())),
        }
    }
}

pub fn unexpected(finding: Finding) {
    panic!("{finding:?}");
}

pub fn bytes(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Flips bits of a byte, and leaves the times alone.
pub fn flip(path: &Path, at: u64) {
    quietly(path, |file| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
    });
}

/// Does something to a file, and leaves the times alone.
pub fn quietly(path: &Path, act: impl FnOnce(&File)) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let metadata = file.metadata().unwrap();
    act(&file);
    let times = FileTimes::new().set_modified(metadata.modified().unwrap());
    file.set_times(times.set_accessed(metadata.accessed().unwrap())).unwrap();
}
