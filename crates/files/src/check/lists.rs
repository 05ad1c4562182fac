//! Finds and opens the lists.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::feed::AHEAD;
use super::place::FilePlace;
use super::{Base, OpenList};
use crate::store::manifest::{Dialect, Line, ListOptions, Listed, ReadError, Reader};
use crate::{Kind, NamedDigest, Stat, try_name};

/// Opens standard input, whose name is `-`.
pub type OpenInput = fn() -> io::Result<Box<dyn Read + Send>>;

/// The file that makes a directory a bag.
const BAG: &str = "bagit.txt";

/// How the names of the lists of a bag's payload begin.
const PAYLOAD: &[u8] = b"manifest-";

/// Lists of checksums, opened one by one.
#[derive(Clone)]
pub struct Lists {
    lists: std::vec::IntoIter<List>,
    reading: ListOptions,
    base: Option<PathBuf>,
    stdin: OpenInput,
}

/// A list that is to be checked.
#[derive(Clone, Debug)]
struct List {
    /// As it was typed, `-` for standard input.
    name: OsString,
    /// The bag that it belongs to.
    bag: Option<PathBuf>,
    /// What says which digest it is of: its name, unless files deny that.
    hint: Vec<u8>,
    /// What that is taken for.
    named: Option<NamedDigest>,
}

impl List {
    fn new(name: OsString, bag: Option<PathBuf>) -> List {
        List { hint: name.as_bytes().to_vec(), name, bag, named: None }
    }
}

impl Lists {
    /// Those of these names; standard input if there are none. A bag stands for all of its manifests. Names in the
    /// others begin at `base`, or at the working directory.
    pub fn new(names: &[OsString], reading: ListOptions, base: Option<PathBuf>, stdin: OpenInput) -> Lists {
        let input = [OsString::from("-")];
        let names = if names.is_empty() { &input[..] } else { names };
        let may_be_bags = reading.dialect == Dialect::Any;
        let mut lists: Vec<List> = names
            .iter()
            .flat_map(|name| match may_be_bags {
                true => expanded(name),
                false => vec![List::new(name.clone(), None)],
            })
            .collect();
        for list in lists.iter_mut().filter(|list| list.bag.is_none()) {
            let mut options = ListOptions { name: std::mem::take(&mut list.hint), ..reading.clone() };
            list.named =
                try_name(Path::new(&list.name), base.as_deref().unwrap_or(Path::new("")), &mut options);
            list.hint = options.name;
        }
        Lists { lists: lists.into_iter(), reading, base, stdin }
    }

    /// All that are not opened yet.
    pub fn names(&self) -> Vec<OsString> {
        self.lists.as_slice().iter().map(|list| list.name.clone()).collect()
    }

    /// What bare numbers of each of them are taken for, if its name says another digest than their length.
    pub fn named_digests(&self) -> Vec<Option<NamedDigest>> {
        self.lists.as_slice().iter().map(|list| list.named.clone()).collect()
    }

    /// The directories of payload of the bags among them, which must hold nothing that is not listed.
    pub fn payloads(&self) -> Vec<PathBuf> {
        let bags = self.lists.as_slice().iter().filter_map(|list| list.bag.as_ref());
        let mut payloads: Vec<PathBuf> = bags.map(|bag| bag.join("data")).collect();
        payloads.dedup();
        payloads
    }

    /// For each of them, the directory where its names begin, if that is not the working directory.
    pub fn bases(&self) -> Vec<Option<PathBuf>> {
        let lists = self.lists.as_slice().iter();
        lists.map(|list| list.bag.clone().or_else(|| self.base.clone())).collect()
    }

    /// The files that are read to check the lists, for who adds them up; none if a list cannot be read twice.
    pub fn files(&self) -> Option<impl Iterator<Item = Stat> + Send + use<>> {
        let is_file = |list: &List| std::fs::metadata(&list.name).is_ok_and(|about| about.is_file());
        self.lists.as_slice().iter().all(is_file).then(|| ListedFiles {
            lists: self.clone(),
            source: None,
            near: HashSet::new(),
            lines: 0,
        })
    }

    /// Where the names of lists that are in no bag begin.
    fn base(&self) -> Base {
        self.base.clone().map_or(Base::Here, Base::Directory)
    }

    fn open(&self, list: &List) -> Result<OpenList, ReadError> {
        let is_stdin = list.name == "-";
        let input: Box<dyn Read + Send> = match is_stdin {
            true => (self.stdin)()?,
            false => Box::new(File::open(&list.name)?),
        };
        let mut reading = self.reading.clone();
        reading.name.clone_from(&list.hint);
        let base = match &list.bag {
            Some(bag) => {
                reading.dialect = Dialect::Bag;
                Base::Inside(bag.clone())
            }
            None => self.base(),
        };
        Ok(OpenList { reader: Reader::new(input, &reading)?, base, is_stdin })
    }
}

impl Iterator for Lists {
    type Item = Result<OpenList, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let list = self.lists.next()?;
        Some(self.open(&list))
    }
}

/// The files that lists name.
struct ListedFiles {
    lists: Lists,
    source: Option<OpenList>,
    /// Those of the lines that a check looks at together: they are read once.
    near: HashSet<FilePlace>,
    lines: usize,
}

impl Iterator for ListedFiles {
    type Item = Stat;

    fn next(&mut self) -> Option<Stat> {
        loop {
            let Some(source) = &mut self.source else {
                self.source = Some(self.lists.find_map(Result::ok)?);
                continue;
            };
            self.lines += 1;
            if self.lines.is_multiple_of(AHEAD) {
                self.near.clear();
            }
            match source.reader.line() {
                Ok(Some(Line::File(listed))) => {
                    let place = FilePlace::new(&Some(source.base.clone()), &listed);
                    if let Some(stat) = stat_of(&place, &listed)
                        && self.near.insert(place)
                    {
                        return Some(stat);
                    }
                }
                Ok(Some(Line::Bad(_))) => {}
                Ok(None) | Err(_) => self.source = None,
            }
        }
    }
}

/// What the file system says of a file, if a check reads it. Every name of it is read.
fn stat_of(place: &FilePlace, listed: &Listed) -> Option<Stat> {
    if listed.claims.is_empty() || listed.block_hash.is_some() {
        return None;
    }
    let stat = place.entry()?.ok()?.stat().ok()?;
    let is_read = stat.kind == Kind::File && listed.size.is_none_or(|size| size == stat.size);
    is_read.then_some(Stat { links: 1, ..stat })
}

/// A list, or the manifests of a bag.
fn expanded(name: &OsStr) -> Vec<List> {
    let path = Path::new(name);
    if path.is_dir() && path.join(BAG).is_file() {
        let mut manifests: Vec<OsString> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .filter(|name| is_bag_manifest(name))
            .collect();
        // Every bag has one of its payload. Without it nobody knows what is in the bag: it cannot be opened.
        if !manifests.iter().any(|name| name.as_bytes().starts_with(PAYLOAD)) {
            manifests.push("manifest-*.txt".into());
        }
        // Those of the payload come first: `manifest-…`, then `tagmanifest-…`.
        manifests.sort();
        let list = |manifest| List::new(path.join(manifest).into(), Some(path.into()));
        return manifests.into_iter().map(list).collect();
    }
    vec![List::new(name.into(), bag_of(path))]
}

/// The BagIt bag of which a list is a manifest: bags have rules of their own for names.
pub fn bag_of(list: &Path) -> Option<PathBuf> {
    let folder = list.parent().map(Path::to_path_buf).unwrap_or_default();
    let is_manifest = is_bag_manifest(list.file_name()?) && folder.join(BAG).is_file();
    is_manifest.then_some(folder)
}

fn is_bag_manifest(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let name = name.strip_prefix(b"tag").unwrap_or(name);
    name.starts_with(PAYLOAD) && name.ends_with(b".txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bag_stands_for_its_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["manifest-md5.txt", "tagmanifest-md5.txt", "other.txt"] {
            std::fs::write(path(name), "").unwrap();
        }
        let lists = || {
            Lists::new(&[folder.path().into()], ListOptions::default(), None, || Ok(Box::new(io::stdin())))
        };
        assert_eq!(lists().names(), [folder.path()]);
        std::fs::write(path(BAG), "").unwrap();
        assert_eq!(lists().names(), [path("manifest-md5.txt"), path("tagmanifest-md5.txt")]);
        assert_eq!(lists().payloads(), [path("data")]);
        std::fs::remove_file(path("manifest-md5.txt")).unwrap();
        assert_eq!(lists().names(), [path("manifest-*.txt"), path("tagmanifest-md5.txt")]);
        let lists = Lists::new(&[path("other.txt").into()], ListOptions::default(), None, || {
            Ok(Box::new(io::stdin()))
        });
        assert!(lists.payloads().is_empty());
    }

    #[test]
    fn files_are_those_that_a_check_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            std::fs::write(path(name), "abc").unwrap();
        }
        std::fs::hard_link(path("a"), path("c")).unwrap();
        let line = |name: &str| format!("{}  {name}\n", "0".repeat(64));
        // The first is listed twice, and is read once.
        std::fs::write(path("list"), ["a", "gone", "b", "a", "c"].map(line).concat()).unwrap();
        let files = |names: &[OsString]| {
            let base = Some(folder.path().to_path_buf());
            Lists::new(names, ListOptions::default(), base, || Ok(Box::new(io::stdin()))).files()
        };
        let found: Vec<u64> = files(&[path("list").into()]).unwrap().map(|stat| stat.size).collect();
        assert_eq!(found, [3, 3, 3]);
        assert!(files(&[]).is_none() && files(&["/dev/null".into()]).is_none());
    }
}
