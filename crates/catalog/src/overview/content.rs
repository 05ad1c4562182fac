//! Finds content that exists only once, and content with several copies, over all trees of all catalogues.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{Amount, KnownCopy, Overview, OverviewOptions, Result, Troubled};
use crate::store::{Catalog, CatalogError, FileContent, ListedRecord, SoundFile};

/// How often content is there. Of sound files that are not empty; names of one inode are one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentOverview {
    /// Content that one file alone has.
    pub only: Amount,
    /// Content that several files of one tree have and no other tree has: how many contents, and their bytes once.
    pub one_tree: Amount,
    /// Content that several trees have: how many contents, and their bytes once.
    pub several_trees: Amount,
    /// Files beyond the first of each content, and the room that they take.
    pub extra: Amount,
    /// Where the most room is taken by copies, most first.
    pub largest: Vec<Duplicate>,
}

/// Content that several files have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The name of the digest's algorithm.
    pub algorithm: String,
    /// The digest in hexadecimal digits.
    pub digest: String,
    /// The length of one, in bytes.
    pub size: u64,
    /// How many files have it.
    pub files: u64,
    /// One of them.
    pub path: PathBuf,
}

/// How many contents are looked for: more are nothing that somebody reads.
const WANTED: usize = 100_000;

/// A content that files in trouble had.
#[derive(Default)]
struct Wanted {
    /// Those of [`Overview::troubled`], by their indexes.
    files: Vec<usize>,
    /// How many files of each tree, by its index.
    trees: BTreeMap<usize, u64>,
    /// A sound file of each tree that has it.
    found: Vec<(usize, SoundFile)>,
}

/// Files of one content, which follow each other.
struct Group {
    content: FileContent,
    first: (usize, SoundFile),
    last: (usize, SoundFile),
    files: u64,
    is_in_several_trees: bool,
}

/// The room that copies of a content take, which content, how many files, and one of them.
type Large = (u64, FileContent, u64, (usize, SoundFile));

impl Overview {
    /// Compares the content of all files, and finds copies of those in trouble.
    pub(super) fn compare_content(&mut self, catalogs: &[Catalog], options: &OverviewOptions) -> Result<()> {
        let mut wanted = self.wanted(catalogs)?;
        let mut largest: BinaryHeap<Reverse<Large>> = BinaryHeap::new();
        let mut group: Option<Group> = None;
        Catalog::each_content(catalogs, &mut |number, content, file| {
            if !wanted.is_empty()
                && let Some(wanted) = wanted.get_mut(&(content.algorithm.clone(), content.digest.clone()))
                && wanted.found.last().is_none_or(|(last, other)| (*last, other.root) != (number, file.root))
            {
                wanted.found.push((number, file));
            }
            match &mut group {
                Some(group) if group.content == content => group.add((number, file)),
                _ => {
                    let file = (number, file);
                    let new =
                        Group { content, first: file, last: file, files: 1, is_in_several_trees: false };
                    if let Some(done) = group.replace(new) {
                        self.count_content(done, &mut largest, options);
                    }
                }
            }
        })?;
        if let Some(done) = group {
            self.count_content(done, &mut largest, options);
        }
        let mut named = Vec::new();
        for Reverse((_, content, files, (number, file))) in largest.into_sorted_vec() {
            named.push(Duplicate {
                path: self.path_of(&catalogs[number], number, file, &content.digest)?,
                digest: data_encoding::HEXLOWER.encode(&content.digest),
                algorithm: content.algorithm,
                size: content.size,
                files,
            });
        }
        self.content.largest = named;
        wanted.iter().try_for_each(|((_, digest), wanted)| self.found(catalogs, digest, wanted))
    }

    /// The contents that files in trouble had.
    fn wanted(&self, catalogs: &[Catalog]) -> Result<HashMap<(String, Vec<u8>), Wanted>> {
        let mut all: HashMap<(String, Vec<u8>), Wanted> = HashMap::new();
        let content = |number: usize, file: &ListedRecord| {
            let is_wanted = file.wants_content() && file.record.size > 0;
            is_wanted.then(|| catalogs[number].content_of(file)).transpose()
        };
        for (index, troubled) in self.troubled.iter().enumerate() {
            if let Some(content) = content(troubled.catalog, &troubled.file)? {
                all.entry(content).or_default().files.push(index);
            }
        }
        for (index, tree) in self.trees.iter().enumerate().filter(|(_, tree)| tree.wanted > 0) {
            catalogs[tree.catalog].each_in_trouble(&tree.root, true, true, &mut |file| {
                if let Some(content) = content(tree.catalog, &file)?
                    && (all.len() < WANTED || all.contains_key(&content))
                {
                    *all.entry(content).or_default().trees.entry(index).or_default() += 1;
                }
                Ok::<_, CatalogError>(())
            })?;
        }
        Ok(all)
    }

    /// Says of files and trees where a content is that they want. One of the same catalogue is what its repair finds by
    /// itself. One in the same tree, as another catalogue knows it, is none: it may be the bad file.
    fn found(&mut self, catalogs: &[Catalog], digest: &[u8], wanted: &Wanted) -> Result<()> {
        let best = |all: &Overview, own: usize, path: &Path| {
            let paths = |found: &&(usize, SoundFile)| all.root_path(found.0, found.1.root);
            let of_own = wanted.found.iter().find(|(number, _)| *number == own);
            of_own.or_else(|| wanted.found.iter().find(|found| !path.starts_with(paths(found)))).copied()
        };
        for index in &wanted.files {
            let Troubled { catalog, file, .. } = &self.troubled[*index];
            if let Some((number, file)) = best(self, *catalog, &file.path) {
                let path = self.path_of(&catalogs[number], number, file, digest)?;
                let tree = self.root_path(number, file.root);
                self.troubled[*index].copy = Some(KnownCopy { catalog: number, tree, path });
            }
        }
        for (index, count) in &wanted.trees {
            let tree = &self.trees[*index];
            match best(self, tree.catalog, &tree.root.path) {
                Some((number, _)) if number == tree.catalog => {
                    self.trees[*index].mendable += count;
                }
                Some((number, file)) => {
                    let source = (number, self.root_path(number, file.root));
                    self.trees[*index].elsewhere += count;
                    self.trees[*index].sources.insert(source);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn count_content(
        &mut self,
        group: Group,
        largest: &mut BinaryHeap<Reverse<Large>>,
        options: &OverviewOptions,
    ) {
        let size = group.content.size;
        if group.files == 1 {
            self.content.only.add(1, size);
            let (number, file) = group.first;
            let is_it = |tree: &&mut super::TreeOverview| tree.catalog == number && tree.root.id == file.root;
            if let Some(tree) = self.trees.iter_mut().find(is_it) {
                tree.only.add(1, size);
            }
            return;
        }
        match group.is_in_several_trees {
            true => self.content.several_trees.add(1, size),
            false => self.content.one_tree.add(1, size),
        }
        let extra = size.saturating_mul(group.files - 1);
        self.content.extra.add(group.files - 1, extra);
        largest.push(Reverse((extra, group.content, group.files, group.first)));
        if largest.len() > options.duplicates {
            largest.pop();
        }
    }

    fn path_of(&self, catalog: &Catalog, number: usize, file: SoundFile, digest: &[u8]) -> Result<PathBuf> {
        let folder = self.root_path(number, file.root).join(catalog.path_in_root(file.directory)?);
        let name = catalog.name_of_content(file.directory, digest)?;
        Ok(name.map_or(folder.clone(), |name| folder.join(OsString::from_vec(name))))
    }
}

impl Group {
    fn add(&mut self, file: (usize, SoundFile)) {
        let tree = |(number, file): (usize, SoundFile)| (number, file.root);
        let is_same_tree = tree(file) == tree(self.last);
        // Stores of objects have no inodes.
        let is_link = is_same_tree && file.1.inode == self.last.1.inode && file.1.inode != 0;
        self.files += u64::from(!is_link);
        self.is_in_several_trees |= !is_same_tree;
        self.last = file;
    }
}
