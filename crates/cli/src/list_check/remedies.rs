//! The bad files that `verisum check` found: their good copies, and the commands that repair them.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use verisum::digest::Output;
use verisum::files::store::manifest::Listed;

use super::record;
use crate::ui::bad_file::{BadFile, BadFileRepair, NAMED, find_copies, join_sources};
use crate::ui::{repair_commands, shell};

/// The most good files whose content is remembered, as a copy of what may be found to be bad.
const MOST: usize = 1 << 16;

/// The most lines that are remembered of a bad file: more are of a list that repeats its name.
const LINES: usize = 16;

/// What is said of a file that is not there.
pub(super) const MISSING: &str = "missing";

/// What is said of a file that cannot be read.
pub(super) const UNREADABLE: &str = "unreadable";

/// A digest, or what makes it a block hash, and its value.
type ListedValue = (Cow<'static, str>, Output);

/// What a line says of a content.
#[derive(Clone, Debug)]
struct Content {
    values: Vec<ListedValue>,
    size: Option<u64>,
}

impl Content {
    fn of(listed: &Listed) -> Content {
        Content { values: values(listed).collect(), size: listed.size }
    }

    /// Whether another line may be of the same: all that both say is the same, and that is a digest at least.
    fn may_be(&self, others: &[ListedValue], size: Option<u64>) -> bool {
        let mut same = others.iter().filter_map(|(made, value)| {
            let (_, own) = self.values.iter().find(|(own, _)| own == made)?;
            Some(own == value)
        });
        same.next() == Some(true)
            && same.all(|is_same| is_same)
            && self.size.zip(size).is_none_or(|(one, other)| one == other)
    }
}

fn values(listed: &Listed) -> impl Iterator<Item = ListedValue> {
    let tag = record::tag(listed).map(Cow::Owned);
    listed
        .claims
        .iter()
        .map(move |claim| (tag.clone().unwrap_or_else(|| claim.algorithm.clone()), claim.digest))
}

/// What a list says of a bad file.
struct Claimed {
    bad_file: BadFile,
    content: Content,
    /// The number of the list.
    list: usize,
    /// The list that may repair it, and its name there.
    named: Option<(NamedList, PathBuf)>,
}

/// A list that another command can read again.
struct NamedList {
    path: PathBuf,
    /// Where its names begin.
    base: PathBuf,
    /// What says how its names and numbers are meant.
    options: String,
}

impl Claimed {
    /// Whether it has a digest of the content, and the other claim another one.
    fn contradicts(&self, other: &Claimed) -> bool {
        let is_other = |(made, value): &ListedValue| {
            other.content.values.iter().any(|(other, theirs)| other == made && theirs != value)
        };
        self.list == other.list && self.content.values.iter().any(is_other)
    }
}

/// A good file: hardly any is asked for, so its whole path is made then.
struct GoodFile {
    size: Option<u64>,
    /// The number of its list.
    list: usize,
    /// Where what the list says of it is among the values, and its name among the names.
    values: Range<usize>,
    name: Range<usize>,
}

/// A list that may repair files of this machine.
#[derive(Clone, Copy)]
pub(super) struct ListAt<'a> {
    pub(super) path: &'a Path,
    /// Where its names begin.
    pub(super) base: &'a Path,
    /// The digest that its bare numbers are said to be of.
    pub(super) algorithm: Option<&'a str>,
    /// Whether missing files are nothing to be told of.
    pub(super) ignores_missing: bool,
}

/// The bad files of lists, and which good ones have their content by the same lists. A file that several lists name is
/// one, as in a bag with two digests.
#[derive(Default)]
pub(super) struct BadFiles {
    /// The first of them, and what each list says that they should be.
    files: Vec<Vec<Claimed>>,
    /// Those beyond them, by hashes of their paths, as there may be millions, and the list that named each first.
    beyond: HashMap<u64, usize>,
    hashes: RandomState,
    /// The number of the list at hand.
    list: usize,
    /// Of each list, the directory that all its names are below, if these are whole paths.
    tops: HashMap<usize, Option<PathBuf>>,
    good: Vec<GoodFile>,
    /// Their values and their names, one after the other: as many small pieces between those that come and go, they would
    /// make every allocation slower.
    values: Vec<ListedValue>,
    names: Vec<u8>,
}

impl BadFiles {
    /// Takes note of a bad one at a path, and of the list that may repair it.
    pub(super) fn add(
        &mut self,
        list: Option<ListAt>,
        path: PathBuf,
        listed: &Listed,
        outcome: &'static str,
    ) {
        // As text: in a bucket `a//b` and `a/b` are two objects.
        let is_it = |one: &Claimed| one.bad_file.path.as_os_str() == path.as_os_str();
        let known = self.files.iter().position(|claims| claims.iter().any(is_it));
        let at = match known {
            Some(at) if self.files[at].len() == LINES => return,
            Some(at) => at,
            None if self.files.len() < NAMED => {
                self.files.push(Vec::new());
                self.files.len() - 1
            }
            None => match self.files.iter().rposition(|claims| is_missing(claims)) {
                // A list of another directory has nothing but missing files: what is there and bad says more.
                Some(at) if outcome != MISSING => {
                    let missing = std::mem::take(&mut self.files[at]);
                    missing.iter().for_each(|one| self.count(&one.bad_file.path, one.list));
                    at
                }
                _ => {
                    self.count(&path, self.list);
                    return;
                }
            },
        };
        let named = list.filter(|_| listed.block_hash.is_none() && !listed.claims.is_empty());
        let named = named.filter(|list| is_named_again(list.path));
        let named = named.map(|list| (NamedList::of(list), name(listed).to_path_buf()));
        let (bad_file, content) = (bad_file(path, listed, outcome), Content::of(listed));
        self.files[at].push(Claimed { bad_file, content, list: self.list, named });
    }

    /// Takes note of where the names of the list at hand begin.
    pub(super) fn meet(&mut self, listed: &Listed) {
        let directory = name(listed).parent().filter(|directory| directory.is_absolute());
        match self.tops.get_mut(&self.list) {
            None => drop(self.tops.insert(self.list, directory.map(Path::to_path_buf))),
            Some(top) => *top = top.take().zip(directory).map(|(top, directory)| common(top, directory)),
        }
    }

    /// Counts one beyond the first.
    fn count(&mut self, path: &Path, list: usize) {
        let hash = self.hashes.hash_one(path.as_os_str());
        self.beyond.entry(hash).or_insert(list);
    }

    /// Takes note of a good one. Nothing is looked up for it: that would be done for every file.
    pub(super) fn good(&mut self, listed: &Listed) {
        if self.good.len() < MOST {
            let (value, name) = (self.values.len(), self.names.len());
            self.values.extend(values(listed));
            self.names.extend_from_slice(&listed.name);
            self.good.push(GoodFile {
                size: listed.size,
                list: self.list,
                values: value..self.values.len(),
                name: name..self.names.len(),
            });
        }
    }

    /// The next ones are of the next list.
    pub(super) fn end_list(&mut self) {
        self.list += 1;
    }

    /// Forgets those of the list at hand: its numbers do not say how its files should be.
    pub(super) fn forget_list(&mut self) {
        self.files.iter_mut().for_each(|claims| claims.retain(|one| one.list != self.list));
        self.files.retain(|claims| !claims.is_empty());
        self.beyond.retain(|_, list| *list != self.list);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The first bad ones with what is known of their copies, and how many there are beyond them. `path_of` makes whole
    /// paths of the names in a list; `unfit` is why no list is to repair any of them.
    pub(super) fn bad_files(
        self,
        catalog: Option<&Path>,
        unfit: Option<&'static str>,
        path_of: impl Fn(usize, &[u8]) -> PathBuf,
    ) -> (Vec<BadFile>, u64) {
        let BadFiles { mut files, beyond, hashes, good, values, names, tops, .. } = self;
        let counts: Vec<usize> = files.iter().map(Vec::len).collect();
        let paths = files.iter().flatten().map(|one| one.bad_file.path.as_os_str());
        let bad: HashSet<OsString> = paths.map(OsStr::to_os_string).collect();
        // What is good by one line may be bad by another.
        let is_bad = |path: &OsStr| bad.contains(path) || beyond.contains_key(&hashes.hash_one(path));
        let contradicted = contradicted(&files, &good, &names, &path_of);
        let asked = good.iter().filter(|_| !beyond.is_empty());
        let good_paths = asked.map(|file| path_of(file.list, &names[file.name.clone()]));
        let beyond_and_good = good_paths.filter_map(|path| beyond.get(&hashes.hash_one(path.as_os_str())));
        let mut distrusted: HashSet<usize> = beyond_and_good.copied().collect();
        distrusted.extend(contradicted.iter().flat_map(|at| &files[*at]).map(|claim| claim.list));
        for (at, claims) in files.iter_mut().enumerate() {
            for claim in claims {
                let Some((list, name)) = &claim.named else { continue };
                let unfit = unfit
                    .or(distrusted.contains(&claim.list).then_some("other lines contradict its list"))
                    .or(is_bad(list.path.as_os_str()).then_some("its list is bad itself"));
                let top = tops.get(&claim.list).and_then(Option::as_deref);
                claim.bad_file.mend = match unfit {
                    _ if contradicted.contains(&at) => BadFileRepair::Contradicted,
                    Some(why) => BadFileRepair::Unfit(why),
                    None => list.repair(name, top, &claim.bad_file),
                };
            }
        }
        let with_copy = |Claimed { bad_file, content, list, .. }: Claimed| {
            let as_listed =
                good.iter().filter(|file| content.may_be(&values[file.values.clone()], file.size));
            let mut at_paths = as_listed.map(|file| (file, path_of(file.list, &names[file.name.clone()])));
            let found = at_paths.find(|(_, path)| !is_bad(path.as_os_str()));
            let mend = match (bad_file.mend, &found) {
                // The repair finds what its list has under another name, if that is below its directory.
                (BadFileRepair::Directory { command, below }, Some((file, copy)))
                    if file.list == list && is_beside(copy, &bad_file.path, &below) =>
                {
                    BadFileRepair::File(command)
                }
                (mend, _) => mend,
            };
            BadFile { copy: found.map(|(_, path)| path), mend, ..bad_file }
        };
        let mut claims: Vec<BadFile> = files.into_iter().flatten().map(with_copy).collect();
        find_copies(catalog, &mut claims);
        let is_contradicted = |one: &&mut BadFile| matches!(one.mend, BadFileRepair::Contradicted);
        claims.iter_mut().filter(is_contradicted).for_each(|one| one.copy = None);
        let mut claims = claims.into_iter();
        // The list that helps most speaks for all.
        let of_file = |count| claims.by_ref().take(count).max_by_key(BadFile::helpfulness);
        let mut files: Vec<BadFile> = counts.into_iter().filter_map(of_file).collect();
        join_sources(&mut files);
        (files, beyond.len() as u64)
    }
}

fn is_missing(claims: &[Claimed]) -> bool {
    claims.iter().all(|one| one.bad_file.outcome == MISSING)
}

/// Whether a copy is in the directory that a file is below.
fn is_beside(copy: &Path, file: &Path, below: &Path) -> bool {
    let directory = file.ancestors().nth(below.components().count());
    directory.and_then(|directory| copy.strip_prefix(directory).ok()).is_some_and(is_plain)
}

/// Whether a path leads down at every step.
fn is_plain(path: &Path) -> bool {
    path.components().all(|step| matches!(step, Component::Normal(_)))
}

fn name(listed: &Listed) -> &Path {
    Path::new(OsStr::from_bytes(&listed.name))
}

/// The last name of a path.
fn last(path: &Path) -> &[u8] {
    path.file_name().unwrap_or_default().as_bytes()
}

/// The directory that both are in or below.
fn common(one: PathBuf, other: &Path) -> PathBuf {
    match other.starts_with(&one) {
        true => one,
        false => one.components().zip(other.components()).map_while(|(a, b)| (a == b).then_some(a)).collect(),
    }
}

/// Whether the name of a list leads another command to the same list. A redirected stream leads to a file, and for
/// another command to another one.
fn is_named_again(list: &Path) -> bool {
    list.is_file() && !list.starts_with("/dev") && !list.starts_with("/proc")
}

impl NamedList {
    fn of(list: ListAt) -> NamedList {
        let mut options =
            list.algorithm.map_or(String::new(), |name| format!(" -a {}", shell::word(name.as_bytes())));
        if list.ignores_missing {
            options.push_str(" --except-missing");
        }
        let base = if list.base.as_os_str().is_empty() { Path::new(".") } else { list.base };
        NamedList { path: absolute(list.path), base: absolute(base), options }
    }

    /// The repair of a file that it names: of the directory where its names begin, or which all that are whole paths are
    /// below.
    fn repair(&self, name: &Path, top: Option<&Path>, bad_file: &BadFile) -> BadFileRepair {
        let (directory, below) = match (name.is_absolute(), top) {
            (false, _) => (self.base.as_path(), Some(name)),
            (true, Some(top)) => (top, name.strip_prefix(top).ok()),
            (true, None) => return BadFileRepair::Nothing,
        };
        let below = below.unwrap_or(Path::new(""));
        let below: PathBuf = below.components().filter(|step| *step != Component::CurDir).collect();
        if !is_plain(&below) || directory.components().any(|step| step == Component::ParentDir) {
            return BadFileRepair::Nothing;
        }
        if is_gone(directory) {
            return BadFileRepair::Unmounted(directory.to_path_buf());
        }
        let way = Way::look(directory, &below);
        if let Some(why) = way.obstacle {
            return BadFileRepair::Unfit(why);
        }
        let mut command = repair_commands::repair_by_list(&self.options, &self.path, directory);
        if way.crosses {
            command.push_str(" --cross-file-systems");
        }
        let digest = bad_file.digest.as_ref();
        match digest.is_some_and(|digest| repair_commands::is_empty(&bad_file.algorithm, None, digest)) {
            true => BadFileRepair::File(command),
            false => BadFileRepair::Directory { command, below },
        }
    }
}

/// Which bad files have another digest in another line, by their places among all: by one they are good, or two lines of a
/// list say two things.
fn contradicted(
    files: &[Vec<Claimed>],
    good: &[GoodFile],
    names: &[u8],
    path_of: &impl Fn(usize, &[u8]) -> PathBuf,
) -> HashSet<usize> {
    let is_good = |path: &Path| {
        let inode = inode(path);
        let mut of_its_name = good
            .iter()
            .map(|file| (file.list, &names[file.name.clone()]))
            .filter(|(_, name)| name.ends_with(last(path)));
        of_its_name.any(|(list, name)| {
            let other = path_of(list, name);
            other == path || inode.is_some() && inode == self::inode(&other)
        })
    };
    let is_contradicted = |claims: &Vec<Claimed>| {
        claims.iter().any(|one| claims.iter().any(|other| one.contradicts(other)))
            || claims.first().is_some_and(|one| is_good(&one.bad_file.path))
    };
    let contradicted = files.iter().enumerate().filter(|(_, claims)| is_contradicted(claims));
    contradicted.map(|(at, _)| at).collect()
}

/// What makes two paths one file.
fn inode(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// What is on the way from a directory to a file below it.
#[derive(Default)]
struct Way {
    /// What no repair takes the place of.
    obstacle: Option<&'static str>,
    /// Whether it leads to another file system.
    crosses: bool,
}

impl Way {
    fn look(directory: &Path, below: &Path) -> Way {
        let (mut way, mut at) = (Way::default(), directory.to_path_buf());
        let device = directory.metadata().ok().map(|found| found.dev());
        let mut steps = below.components().peekable();
        while let Some(step) = steps.next() {
            at.push(step);
            let Ok(found) = at.symlink_metadata() else { break };
            let is_last = steps.peek().is_none();
            way.obstacle = match found.file_type() {
                kind if is_last && !kind.is_file() => Some("something else is in its place"),
                kind if !is_last && kind.is_symlink() => Some("a link is in the place of its directory"),
                kind if !is_last && !kind.is_dir() => Some("something else is in the place of its directory"),
                _ => None,
            };
            way.crosses |= device.is_some_and(|device| device != found.dev());
            if way.obstacle.is_some() {
                break;
            }
        }
        way
    }
}

fn is_gone(directory: &Path) -> bool {
    directory.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// What is told of a file that a list names. Its repair depends on all of the lists.
fn bad_file(path: PathBuf, listed: &Listed, outcome: &'static str) -> BadFile {
    let claim = listed.claims.first();
    let mend = match claim {
        Some(claim) if listed.block_hash.is_some() => repair_commands::repair_image(&path, &claim.digest)
            .map_or(BadFileRepair::Nothing, BadFileRepair::FromCopy),
        _ => BadFileRepair::Nothing,
    };
    let algorithm = record::tag(listed).or_else(|| claim.map(|claim| claim.algorithm.to_string()));
    BadFile {
        path,
        outcome,
        since: None,
        last_good: None,
        size: None,
        algorithm: algorithm.unwrap_or_default(),
        digest: claim.map(|claim| claim.digest),
        copy: None,
        parity: None,
        mend,
        accept: None,
    }
}
