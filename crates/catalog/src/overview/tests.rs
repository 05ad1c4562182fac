//! Compares overviews with sums over a list of the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use verisum_digest::Output;
use verisum_files::Verdict;

use super::*;
use crate::store::{CatalogRecord, Identity, Moment, RecordChange, RecordFinding, Stamp, Trouble};

const NOW: Moment = Moment::of_milliseconds(1_800_000_000_000);

/// A file of a test: where it is, and what is recorded of it.
#[derive(Clone)]
struct Made {
    catalog: usize,
    tree: &'static str,
    path: String,
    size: u64,
    content: u8,
    inode: u64,
    verified: Moment,
    state: State,
}

fn output(content: u8) -> Output {
    Output::from_bytes(&[content; 32]).unwrap()
}

fn made() -> Vec<Made> {
    let trees = [(0, "/a"), (0, "/b"), (1, "/c")];
    let rot = State::Trouble(Trouble::Verdict(Verdict::Rot));
    (0..600_u64)
        .map(|number| {
            // A cycle of no common length with any other.
            let drawn = number * 7919 % 1009;
            let (catalog, tree) = trees[(drawn % 3) as usize];
            let age = [0, 3, 20, 50, 100, 300, 500, 900, -1_i64][(drawn % 9) as usize];
            Made {
                catalog,
                tree,
                path: format!("d{}/e{}/f{number}", drawn % 5, drawn % 11),
                size: drawn % 4 * 1000,
                content: (drawn % 200) as u8,
                inode: if drawn.is_multiple_of(13) { 5 } else { number + 10 },
                verified: u64::try_from(age).map_or(Moment::NEVER, |age| NOW - days(age)),
                state: match number {
                    10..13 => rot,
                    13..15 => State::MISSING,
                    _ => State::Sound,
                },
            }
        })
        .map(|file| Made { size: u64::from(file.content % 4) * 1000, ..file })
        .collect()
}

fn catalogs(folder: &Path, files: &[Made]) -> Vec<Catalog> {
    let catalogs = [0, 1].map(|number| {
        let catalog = Catalog::open(&folder.join(format!("{number}.db"))).unwrap();
        // The same algorithm has another number in each.
        if number > 0 {
            catalog.algorithm("md5").unwrap();
        }
        let algorithm = catalog.algorithm("sha256").unwrap();
        for tree in ["/a", "/b", "/c"] {
            let mut here = files.iter().filter(|file| file.catalog == number && file.tree == tree).peekable();
            if here.peek().is_none() {
                continue;
            }
            let root = catalog.add_root(Path::new(tree), Identity { device: 1, inode: 2 }).unwrap();
            catalog.begin().unwrap();
            for file in here {
                let path = Path::new(&file.path);
                let directory = catalog.make_directories(&root, path.parent().unwrap()).unwrap();
                let record = CatalogRecord {
                    size: file.size,
                    mtime: Stamp::of_nanoseconds(1),
                    ctime: Stamp::of_nanoseconds(2),
                    inode: file.inode,
                    algorithm,
                    digest: output(file.content),
                    first_seen: NOW - days(40),
                    changed: Moment::of_milliseconds(5),
                    verified: file.verified,
                    state: State::Sound,
                };
                let name = path.file_name().unwrap();
                catalog.apply(root.id, directory, name, &RecordChange::Add(record)).unwrap();
                if file.state != State::Sound {
                    let finding =
                        RecordFinding { since: NOW - days(1), seen: NOW, ..RecordFinding::default() };
                    catalog
                        .apply(root.id, directory, name, &RecordChange::Suspect(file.state, finding))
                        .unwrap();
                }
            }
            catalog.commit().unwrap();
        }
        catalog
    });
    catalogs.into()
}

#[test]
fn overviews_are_sums_over_all_files() {
    let folder = tempfile::tempdir().unwrap();
    let files = made();
    let catalogs = catalogs(folder.path(), &files);
    let mut options = OverviewOptions::new(NOW);
    options.max_age = Some(Duration::from_secs(60 * 86_400));
    let overview = Overview::of(&catalogs, &options).unwrap();

    // Ages: the classes are those of the ages that were made, in order.
    let there = || files.iter().filter(|file| file.state != State::MISSING);
    let sum = |is_one: &dyn Fn(&Made) -> bool| {
        there().filter(|file| is_one(file)).fold(Amount::default(), |mut sum, file| {
            sum.add(1, file.size);
            sum
        })
    };
    for (class, age) in [0, 3, 20, 50, 100, 300, 500, 900].into_iter().enumerate() {
        assert_eq!(overview.ages[class], sum(&|file| file.verified == NOW - days(age)), "{class}");
    }
    assert_eq!(overview.ages[8], sum(&|file| file.verified == Moment::NEVER));
    assert_eq!(overview.stale, sum(&|file| file.verified < NOW - days(60)));
    assert_eq!(overview.oldest(), Some(Moment::NEVER));
    assert_eq!(overview.digests["sha256"].files, 600);
    assert_eq!(overview.months.values().map(|one| one.files).sum::<u64>(), 600);

    // Every file is in one of the directories that are told of.
    for most in [1, 8, 17, 48, 1000] {
        options.directories = most;
        let told = Overview::of(&catalogs, &options).unwrap().directories;
        assert_eq!(told.iter().map(|one| one.amount.files).sum::<u64>(), 600, "{most}");
        assert_eq!(
            told.iter().map(|one| one.amount.bytes).sum::<u64>(),
            files.iter().map(|f| f.size).sum::<u64>()
        );
        for one in told.iter().filter(|one| one.part == DirectoryPart::All) {
            let below = files.iter().filter(|f| Path::new(f.tree).join(&f.path).starts_with(&one.path));
            assert_eq!(below.clone().count() as u64, one.amount.files, "{one:?}");
            let oldest = below.filter(|f| f.state != State::MISSING).map(|f| f.verified).min();
            assert_eq!(one.oldest, oldest, "{one:?}");
        }
    }

    // Content: names of one inode of a tree are one file.
    let mut contents: BTreeMap<u8, BTreeSet<(usize, &str, u64)>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.state == State::Sound && file.size > 0) {
        contents.entry(file.content).or_default().insert((file.catalog, file.tree, file.inode));
    }
    let size = |content: &u8| u64::from(content % 4) * 1000;
    let [mut only, mut one_tree, mut several, mut extra] = <[Amount; 4]>::default();
    for (content, copies) in &contents {
        let trees: BTreeSet<_> = copies.iter().map(|(_, tree, _)| tree).collect();
        match (copies.len(), trees.len()) {
            (1, _) => only.add(1, size(content)),
            (_, 1) => one_tree.add(1, size(content)),
            _ => several.add(1, size(content)),
        }
        extra.add(copies.len() as u64 - 1, (copies.len() as u64 - 1) * size(content));
    }
    let found = &overview.content;
    assert_eq!((found.only, found.one_tree), (only, one_tree));
    assert_eq!((found.several_trees, found.extra), (several, extra));
    assert_eq!(overview.trees.iter().map(|tree| tree.only.files).sum::<u64>(), only.files);
    let room = found.largest.iter().map(|one| one.size * (one.files - 1));
    let mut all: Vec<u64> = contents.iter().map(|(c, copies)| (copies.len() as u64 - 1) * size(c)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(room.collect::<Vec<_>>(), all[..options.duplicates]);

    // What is wrong, worst first, and where a good one is.
    assert_eq!(overview.troubled.len(), 5);
    assert!(overview.troubled[..3].iter().all(|one| one.file.record.state.is_corrupt()));
    for one in &overview.troubled {
        assert_eq!(one.finding.as_ref().unwrap().since, NOW - days(1));
        let content = one.file.record.digest.as_bytes()[0];
        assert_eq!(one.copy.is_some(), one.file.record.size > 0 && contents.contains_key(&content));
        let Some(copy) = &one.copy else { continue };
        let path = |file: &Made| Path::new(file.tree).join(&file.path);
        let good = files.iter().find(|file| path(file) == copy.path).unwrap();
        assert_eq!((good.content, good.state, good.catalog), (content, State::Sound, copy.catalog));
    }
}

#[test]
fn an_empty_catalogue_has_an_overview() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    let overview = Overview::of(&[catalog], &OverviewOptions::new(NOW)).unwrap();
    assert!(overview.trees.is_empty() && overview.directories.is_empty() && overview.oldest().is_none());
}

/// As where somebody looks at a catalogue and its backup.
#[test]
fn a_bad_file_is_no_copy_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let made = |catalog: usize, tree, path: &str, state| Made {
        catalog,
        tree,
        path: path.to_string(),
        size: 1000,
        content: 1,
        inode: 7,
        verified: NOW,
        state,
    };
    let bad = State::Trouble(Trouble::Verdict(Verdict::Rot));
    let mut files = vec![made(0, "/a", "d/f", bad), made(1, "/a", "d/f", State::Sound)];
    for copy in [None, Some("/c/d/g")] {
        files.extend(copy.map(|_| made(1, "/c", "d/g", State::Sound)));
        let folder = tempfile::tempdir_in(folder.path()).unwrap();
        let overview = Overview::of(&catalogs(folder.path(), &files), &OverviewOptions::new(NOW)).unwrap();
        let found = overview.troubled[0].copy.as_ref().map(|copy| &*copy.path);
        assert_eq!(found, copy.map(Path::new));
        let tree = &overview.trees[0];
        assert_eq!((tree.mendable, tree.elsewhere), (0, u64::from(copy.is_some())));
    }
}
