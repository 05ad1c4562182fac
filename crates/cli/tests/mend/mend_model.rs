//! A random model of damage, copies and parity: it predicts what `repair` mends, and `repair` mends exactly that.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Ended, VERISUM, command};
use fastrand::Rng;
use serde_json::Value;

/// How many cases are tried; `TEST_MODELS` sets another number.
const MODELS: u64 = 4;

/// The first seed; `TEST_SEED` sets another one.
const SEED: u64 = 1900;

/// Files of the tree that may be damaged.
const FILES: usize = 10;

/// Directories with copies.
const COPIES: usize = 2;

type Content = BTreeMap<PathBuf, Vec<u8>>;

/// What is where.
struct Model {
    /// As recorded.
    good: Content,
    /// What is in the tree; a missing file is not there.
    tree: Content,
    /// What the copies have, by the names of the files that they are copies of.
    copies: Vec<Content>,
    /// Bytes of a block of the parity, and how many blocks it has that are good.
    block: usize,
    parity: usize,
}

impl Model {
    /// The parts of a file for which there are digests: it is cut where blocks of the set end, in which files follow each
    /// other in the order of their paths.
    fn parts(&self, name: &Path) -> Vec<Range<usize>> {
        let start: usize = self
            .good
            .iter()
            .take_while(|(other, _)| other.as_path() != name)
            .map(|(_, bytes)| bytes.len())
            .sum();
        let end = start + self.good[name].len();
        let mut parts = Vec::new();
        let mut at = start;
        while at < end {
            let next = (at / self.block * self.block + self.block).min(end);
            parts.push(at - start..next - start);
            at = next;
        }
        parts
    }

    fn is_bad(&self, found: Option<&Vec<u8>>, name: &Path, part: &Range<usize>) -> bool {
        found.is_none_or(|found| found[part.clone()] != self.good[name][part.clone()])
    }

    /// Whether a copy has a part of a file.
    fn copies_have(&self, name: &Path, part: &Range<usize>) -> bool {
        self.copies.iter().any(|copy| !self.is_bad(copy.get(name), name, part))
    }

    /// The blocks of the set that neither the tree nor the copies have.
    fn lost(&self) -> BTreeSet<usize> {
        let mut lost = BTreeSet::new();
        let mut start = 0;
        for (name, bytes) in &self.good {
            let bad = |part: &Range<usize>| {
                self.is_bad(self.tree.get(name), name, part) && !self.copies_have(name, part)
            };
            let parts = self.parts(name);
            lost.extend(parts.into_iter().filter(bad).map(|part| (start + part.start) / self.block));
            start += bytes.len();
        }
        lost
    }

    /// The files that are not as recorded and could be now.
    fn mendable(&self) -> BTreeSet<PathBuf> {
        let parity_gives = self.lost().len() <= self.parity;
        let is_mendable = |name: &&PathBuf| {
            let now = self.tree.get(*name);
            let mut bad = self.parts(name).into_iter().filter(|part| self.is_bad(now, name, part));
            now != self.good.get(*name) && bad.all(|part| parity_gives || self.copies_have(name, &part))
        };
        self.good.keys().filter(is_mendable).cloned().collect()
    }

    /// Mends all that can be. That makes nothing else possible: what copies have counts from the start.
    fn mend(&mut self) {
        for name in self.mendable() {
            self.tree.insert(name.clone(), self.good[&name].clone());
        }
        assert!(self.mendable().is_empty());
    }
}

/// The directories of a case.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.args(words).current_dir(self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        Ended::of(command.output().unwrap())
    }

    /// What a repair says of each file.
    fn repair(&self, words: &[&str]) -> BTreeMap<PathBuf, Value> {
        let common = ["repair", "--json", "--keep-bad", "bad", "--from-catalog", "copies.db"];
        let ended = self.run(&[&common, words, &["--from", "copy0", "--from", "copy1", "tree"]].concat());
        let lines = ended.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let files = lines.filter(|line| line["type"] == "file").map(|line| {
            let path = PathBuf::from(line["path"].as_str().unwrap());
            (path.strip_prefix(self.path("tree")).unwrap().to_path_buf(), line)
        });
        files.collect()
    }
}

/// What of it a dry run foretells: the files that are repaired, from where, by how many bytes, and which copies are bad.
fn foretold(files: &BTreeMap<PathBuf, Value>) -> BTreeMap<&Path, [&Value; 3]> {
    let is_mended = |line: &Value| line["outcome"] == "mendable" || line["outcome"] == "repaired";
    let mended = files.iter().filter(|(_, line)| is_mended(line));
    mended.map(|(name, line)| (&**name, ["from", "bytes", "bad_copies"].map(|field| &line[field]))).collect()
}

/// All files of a directory, without parity.
fn content(root: &Path) -> Content {
    let mut found = Content::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".verisum-parity") => {}
                true => left.push(path),
                false => {
                    drop(found.insert(path.strip_prefix(root).unwrap().into(), fs::read(&path).unwrap()))
                }
            }
        }
    }
    found
}

fn write(root: &Path, content: &Content) {
    for (name, bytes) in content {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Damages some of a file: a few bytes, many, or all. Returns it as it is then; none if it is missing.
fn damaged(bytes: &[u8], random: &mut Rng) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let spots = match random.u8(..6) {
        0 => return None,
        1 => {
            random.fill(&mut bytes);
            return Some(bytes);
        }
        2 => 20,
        _ => random.usize(1..4),
    };
    for _ in 0..spots {
        let at = random.usize(..bytes.len());
        bytes[at] ^= random.u8(1..);
    }
    Some(bytes)
}

/// Puts files in a tree as a disk damages them: their times of modification stay.
fn put(root: &Path, before: &Content, now: &Content) {
    for (name, bytes) in before {
        let path = root.join(name);
        match now.get(name) {
            None => fs::remove_file(&path).unwrap(),
            Some(new) if new == bytes => {}
            Some(new) => {
                let modified = fs::metadata(&path).unwrap().modified().unwrap();
                let file = File::options().write(true).open(&path).unwrap();
                file.write_all_at(new, 0).unwrap();
                file.set_modified(modified).unwrap();
            }
        }
    }
}

/// A case: how many files the model says can be mended, and how many cannot.
fn case(seed: u64) -> (usize, usize) {
    let mut random = Rng::with_seed(seed);
    let trees = Trees { folder: tempfile::tempdir().unwrap() };
    let mut good = Content::new();
    for number in 0..FILES {
        let mut bytes = vec![0; random.usize(1..40_000)];
        random.fill(&mut bytes);
        good.insert(PathBuf::from(format!("d{}/f{number}", random.u8(..3))), bytes);
    }
    write(&trees.path("tree"), &good);
    trees.run(&["scrub", "tree"]).clean();
    let share = format!("{}%", random.usize(3..30));
    trees.run(&["parity", "create", "--redundancy", &share, "--set-size", "64M", "tree"]).clean();
    let set = trees.path("tree/.verisum-parity/set-00000001.parity");
    let head = fs::read(&set).unwrap();
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize;
    let mut model =
        Model { tree: good.clone(), copies: Vec::new(), block: number(16), parity: number(20), good };

    // Some blocks of the parity are bad too.
    let spoilt = random.usize(..3).min(model.parity);
    let length = u64::from_le_bytes(head[72..80].try_into().unwrap());
    let file = File::options().read(true).write(true).open(&set).unwrap();
    for block in 0..spoilt {
        let at = length + (block * model.block) as u64 + 5;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
    drop(file);
    model.parity -= spoilt;

    // The copies: some files are not there, some bad, some have another name that only their catalogue knows.
    for number in 0..COPIES {
        let (mut copy, mut named) = (Content::new(), Content::new());
        for (name, bytes) in &model.good {
            if random.u8(..3) == 0 {
                continue;
            }
            let mut place = name.clone();
            if random.u8(..3) == 0 {
                place = PathBuf::from(format!("moved/{}", random.u64(..)));
            }
            named.insert(place.clone(), bytes.clone());
            copy.insert(place, bytes.clone());
        }
        let root = trees.path(&format!("copy{number}"));
        fs::create_dir(&root).unwrap();
        write(&root, &named);
        trees.run(&["scrub", "--catalog", "copies.db", root.to_str().unwrap()]).clean();
        let mut rotten = Content::new();
        for (place, bytes) in &copy {
            match random.u8(..3) {
                0 => drop(rotten.insert(place.clone(), bytes.clone())),
                _ => drop(damaged(bytes, &mut random).map(|bytes| rotten.insert(place.clone(), bytes))),
            }
        }
        put(&root, &copy, &rotten);
        let origin = |bytes: &Vec<u8>| model.good.iter().find(|(_, good)| *good == bytes).unwrap().0.clone();
        let of_files =
            copy.iter().filter_map(|(place, bytes)| Some((origin(bytes), rotten.get(place)?.clone())));
        model.copies.push(of_files.collect());
    }

    let before = model.tree.clone();
    for (name, bytes) in &before {
        if random.u8(..2) == 0 {
            match damaged(bytes, &mut random) {
                Some(bytes) => drop(model.tree.insert(name.clone(), bytes)),
                None => drop(model.tree.remove(name)),
            }
        }
    }
    put(&trees.path("tree"), &before, &model.tree);
    trees.run(&["scrub", "tree"]);
    let copies: Vec<Content> =
        (0..COPIES).map(|number| content(&trees.path(&format!("copy{number}")))).collect();

    let dry = trees.repair(&["--dry-run"]);
    let said: BTreeSet<PathBuf> = foretold(&dry).into_keys().map(Path::to_path_buf).collect();
    assert_eq!(said, model.mendable(), "seed {seed}");
    assert!(content(&trees.path("tree")) == model.tree, "seed {seed}: a dry run");
    let bad = model.tree.iter().filter(|(name, bytes)| model.good[*name] != **bytes).count();
    let bad = bad + model.good.len() - model.tree.len();
    model.mend();
    let real = trees.repair(&[]);
    assert_eq!(foretold(&dry), foretold(&real), "seed {seed}");
    assert!(content(&trees.path("tree")) == model.tree, "seed {seed}");
    for (number, copy) in copies.iter().enumerate() {
        assert!(content(&trees.path(&format!("copy{number}"))) == *copy, "seed {seed}: copy {number}");
    }
    let left = model.tree.iter().filter(|(name, bytes)| model.good[*name] != **bytes).count();
    let left = left + model.good.len() - model.tree.len();
    (bad - left, left)
}

#[test]
fn exactly_what_copies_and_parity_have_is_mended() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (first, count) = (number("TEST_SEED", SEED), number("TEST_MODELS", MODELS));
    let cases: Vec<(usize, usize)> = (first..first + count).map(case).collect();
    let mended: usize = cases.iter().map(|(mended, _)| mended).sum();
    let left: usize = cases.iter().map(|(_, left)| left).sum();
    let told = format!("{count} cases: {mended} files mended, {left} that nothing could mend");
    writeln!(std::io::stderr(), "{told}").unwrap();
    assert!(count < MODELS || mended > 0 && left > 0, "{cases:?}");
}
