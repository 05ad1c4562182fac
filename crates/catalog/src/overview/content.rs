//! Finds content that exists only once, and content with several copies, over all trees of all catalogues.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{Amount, KnownCopy, Overview, OverviewOptions, Result};
use crate::store::{Catalog, FileContent, SoundFile};

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
        let mut wanted: HashMap<(String, Vec<u8>), Vec<usize>> = HashMap::new();
        for (index, troubled) in self.troubled.iter().enumerate() {
            let record = &troubled.file.record;
            if record.size > 0 && record.state.is_repairable() {
                let content = (troubled.file.algorithm.clone(), record.digest.as_bytes().to_vec());
                wanted.entry(content).or_default().push(index);
            }
        }
        let mut found: Vec<Option<(usize, SoundFile)>> = vec![None; self.troubled.len()];
        let mut largest: BinaryHeap<Reverse<Large>> = BinaryHeap::new();
        let mut group: Option<Group> = None;
        Catalog::each_content(catalogs, &mut |number, content, file| {
            if !wanted.is_empty()
                && let Some(indexes) = wanted.get(&(content.algorithm.clone(), content.digest.clone()))
            {
                for index in indexes {
                    // One of the same catalogue is what its repair finds by itself.
                    let is_own = number == self.troubled[*index].catalog;
                    if found[*index].is_none() || is_own {
                        found[*index] = Some((number, file));
                    }
                }
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
        for (index, copy) in found.into_iter().enumerate() {
            let Some((number, file)) = copy else { continue };
            let digest = self.troubled[index].file.record.digest;
            let path = self.path_of(&catalogs[number], number, file, digest.as_bytes())?;
            let tree = self.root_path(number, file.root);
            self.troubled[index].copy = Some(KnownCopy { catalog: number, tree, path });
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
