//! Finds and opens the lists.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::feed::AHEAD;
use super::listed_path::ListedPath;
use super::{Base, OpenList};
use crate::store::manifest::{Dialect, Line, ListOptions, Listed, ReadError, Reader};
use crate::{Excludes, IsBlockHash, Kind, NamedDigest, Stat, digest_guess};

/// Opens standard input, whose name is `-`.
pub type OpenInput = fn() -> io::Result<Box<dyn Read + Send>>;

/// The file that makes a directory a bag.
const BAG: &str = "bagit.txt";

/// How many bytes of a list are looked at to find small files.
const HEAD: u64 = 1 << 20;

/// How many bytes of what declares a bag are looked at for its version.
const DECLARATION: u64 = 64 << 10;

/// How the names of the lists of a bag's payload begin.
const PAYLOAD: &[u8] = b"manifest-";

/// Lists of checksums, opened one by one.
#[derive(Clone)]
pub struct Lists {
    lists: std::vec::IntoIter<ListFile>,
    base: Option<PathBuf>,
    stdin: OpenInput,
    /// Which listed files are left out.
    excludes: Option<Arc<Excludes>>,
}

/// A list in a file, and what is known of it before it is read: all commands that read lists know it from here.
#[derive(Clone, Debug)]
pub struct ListFile {
    /// As it was typed, `-` for standard input.
    name: OsString,
    /// The bag that it belongs to.
    bag: Option<PathBuf>,
    reading: ListOptions,
    /// What its bare numbers are taken for, where that is not certain.
    pub named: Option<NamedDigest>,
}

/// A manifest that must have all files of a bag's payload.
#[derive(Clone, Debug)]
pub(super) struct PayloadList {
    /// Its number, from 0.
    pub(super) manifest: usize,
    pub(super) payload: PathBuf,
}

impl ListFile {
    /// A list whose names begin at `base`, if not in the bag that it belongs to. Small files say what its bare numbers are.
    pub fn new(name: &OsStr, reading: &ListOptions, base: &Path) -> ListFile {
        let path = Path::new(name);
        let (mut reading, bag) = of_list(path, reading);
        // Whatever is no file can be read only once.
        let can_be_tried = reading.dialect == Dialect::Any
            && reading.algorithm.is_none()
            && std::fs::metadata(path).is_ok_and(|about| about.is_file());
        let file = can_be_tried.then(|| File::open(path).ok()).flatten();
        let named = file.and_then(|file| digest_guess::take(file, base, &mut reading));
        ListFile { name: name.to_os_string(), bag, reading, named }
    }

    /// Opens it.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn open(&self, stdin: OpenInput) -> Result<Reader<Box<dyn Read + Send>>, ReadError> {
        let input: Box<dyn Read + Send> = match self.name == "-" {
            true => stdin()?,
            false => Box::new(File::open(&self.name)?),
        };
        Reader::new(input, &self.reading)
    }
}

/// How a list of this name is read, and the bag that it belongs to.
fn of_list(list: &Path, reading: &ListOptions) -> (ListOptions, Option<PathBuf>) {
    let bag = bag_of(list).filter(|_| reading.dialect == Dialect::Any);
    let dialect = if bag.is_some() { Dialect::Bag } else { reading.dialect };
    (ListOptions { name: list.as_os_str().as_bytes().to_vec(), dialect, ..reading.clone() }, bag)
}

/// What reads a list that was opened.
pub type ListReader<R> = Reader<io::Chain<Cursor<Vec<u8>>, R>>;

/// Opens a list, by the same rules, for who records what it says: its numbers must be what they are taken for if a small
/// file below `base` can tell; without one, as on another machine, none can. Tells what they are taken for if none can.
///
/// # Errors
/// It cannot be read, is none, or its numbers are something else.
pub fn open_to_record<R: Read>(
    mut input: R,
    list: &Path,
    base: Option<&Path>,
    reading: &ListOptions,
    is_block_hash: IsBlockHash,
) -> Result<(ListReader<R>, Option<NamedDigest>), ReadError> {
    let (reading, _) = of_list(list, reading);
    let mut head = Vec::new();
    input.by_ref().take(HEAD).read_to_end(&mut head)?;
    let end = match (head.len() as u64) < HEAD {
        true => head.len(),
        false => head.iter().rposition(|byte| matches!(byte, b'\n' | 0)).unwrap_or(0),
    };
    let unproven = digest_guess::prove(&head[..end], base, &reading, is_block_hash)?;
    Ok((Reader::new(Cursor::new(head).chain(input), &reading)?, unproven))
}

impl Lists {
    /// Those of these names; standard input if there are none. A bag stands for all of its manifests. Names in the
    /// others begin at `base`, or at the working directory.
    pub fn new(names: &[OsString], reading: ListOptions, base: Option<PathBuf>, stdin: OpenInput) -> Lists {
        let input = [OsString::from("-")];
        let names = if names.is_empty() { &input[..] } else { names };
        let may_be_bags = reading.dialect == Dialect::Any;
        let expanded = names.iter().flat_map(|name| match manifests_of(Path::new(name)) {
            Some(manifests) if may_be_bags => manifests,
            _ => vec![name.clone()],
        });
        let from = base.as_deref().unwrap_or(Path::new(""));
        let lists: Vec<ListFile> = expanded.map(|name| ListFile::new(&name, &reading, from)).collect();
        Lists { lists: lists.into_iter(), base, stdin, excludes: None }
    }

    /// The same without the listed files that match these patterns, which are for paths from where names begin.
    pub fn excluding(self, excludes: Option<Arc<Excludes>>) -> Lists {
        Lists { excludes, ..self }
    }

    /// All that are not opened yet.
    pub fn names(&self) -> Vec<OsString> {
        self.lists.as_slice().iter().map(|list| list.name.clone()).collect()
    }

    /// What bare numbers of each of them are taken for, if that is not certain.
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

    /// The manifests of payload that must have all files of it: those of bags of version 1.0 and later, if a bag has
    /// several. Earlier ones may share the files among them.
    pub(super) fn payload_lists(&self) -> Vec<PayloadList> {
        let lists = self.lists.as_slice().iter().enumerate();
        let of_bag = lists.filter_map(|(manifest, list)| {
            let name = Path::new(&list.name).file_name()?;
            let payload = list.bag.as_ref().filter(|_| name.as_bytes().starts_with(PAYLOAD))?.join("data");
            Some(PayloadList { manifest, payload })
        });
        let all: Vec<PayloadList> = of_bag.collect();
        let mut several = all.clone();
        several.retain(|one| {
            let is_early = one.payload.parent().is_none_or(is_early);
            !is_early && all.iter().filter(|other| other.payload == one.payload).count() > 1
        });
        several
    }

    /// For each of them, the directory where its names begin, if that is not the working directory.
    pub fn bases(&self) -> Vec<Option<PathBuf>> {
        let lists = self.lists.as_slice().iter();
        lists.map(|list| list.bag.clone().or_else(|| self.base.clone())).collect()
    }

    /// The files that are read to check the lists, for who adds them up; none if a list cannot be read twice.
    pub fn files(&self) -> Option<impl Iterator<Item = Stat> + Send + use<>> {
        let is_file = |list: &ListFile| std::fs::metadata(&list.name).is_ok_and(|about| about.is_file());
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

    fn open(&self, list: &ListFile) -> Result<OpenList, ReadError> {
        let base = list.bag.clone().map_or_else(|| self.base(), Base::Inside);
        let excludes = self.excludes.clone();
        Ok(OpenList { reader: list.open(self.stdin)?, base, is_stdin: list.name == "-", excludes })
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
    near: HashSet<ListedPath>,
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
                Ok(Some(Line::File(listed))) if source.leaves_out(&listed) => {}
                Ok(Some(Line::File(listed))) => {
                    let place = ListedPath::new(&Some(source.base.clone()), &listed);
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
fn stat_of(place: &ListedPath, listed: &Listed) -> Option<Stat> {
    if listed.claims.is_empty() || listed.block_hash.is_some() {
        return None;
    }
    let stat = place.entry()?.ok()?.stat().ok()?;
    let is_read = stat.kind == Kind::File && listed.size.is_none_or(|size| size == stat.size);
    is_read.then_some(Stat { links: 1, ..stat })
}

/// The manifests of a bag; none if this is none.
pub fn manifests_of(path: &Path) -> Option<Vec<OsString>> {
    if !path.is_dir() || !path.join(BAG).is_file() {
        return None;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten();
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut manifests: Vec<OsString> = names.filter(|name| is_bag_manifest(name)).collect();
    // Every bag has one of its payload. Without it nobody knows what is in the bag: it cannot be opened.
    if !manifests.iter().any(|name| name.as_bytes().starts_with(PAYLOAD)) {
        manifests.push("manifest-*.txt".into());
    }
    // Those of the payload come first: `manifest-…`, then `tagmanifest-…`.
    manifests.sort();
    Some(manifests.into_iter().map(|manifest| path.join(manifest).into()).collect())
}

/// Whether a bag is of a version before 1.0.
fn is_early(bag: &Path) -> bool {
    let mut declaration = String::new();
    let _ =
        File::open(bag.join(BAG)).and_then(|file| file.take(DECLARATION).read_to_string(&mut declaration));
    let mut lines = declaration.trim_start_matches('\u{feff}').lines();
    lines.any(|line| line.strip_prefix("BagIt-Version:").is_some_and(|it| it.trim_start().starts_with("0.")))
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
