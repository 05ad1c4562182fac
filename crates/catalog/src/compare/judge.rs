//! Says which of the files that differ have recorded content: by the catalogue, by tags, and by lists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use verisum_digest::{Digest, Output};
use verisum_files::compare::{FileStatus, Pair, Tree, TreeSink};
use verisum_files::place::{Contradicted, FileAnswer, FileRequest, Files, PlaceError, PlaceEvent};
use verisum_files::store::xattr::Family;
use verisum_files::{Entry, Standing as TagStanding, Stat, lock};

use super::records::RecordedTree;
use crate::store::CatalogError;

/// A content that is recorded of a name.
#[derive(Clone, Debug)]
pub struct RecordedContent {
    /// The name of the digest.
    pub algorithm: String,
    /// The digest.
    pub digest: Output,
    /// Its length, where that is recorded.
    pub size: Option<u64>,
    /// Of a record that belongs to a file: whether the file was written to since, as its time tells.
    pub is_changed: Option<bool>,
}

/// How a file stands to what is recorded of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedStanding {
    /// It has a recorded content.
    AsRecorded,
    /// It has different content, and was written to since it was recorded.
    Changed,
    /// It has different content.
    Other,
}

/// What is known of files that differ.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<const N: usize> {
    /// Whether anything is recorded of the name.
    pub is_recorded: bool,
    /// How each side stands; none where it is not there, or could not be read.
    pub sides: [Option<RecordedStanding>; N],
}

impl<const N: usize> Judgement<N> {
    /// Which of two files is as recorded, in a word: `a`, `b`, `both`, `neither`; `not-a` or `not-b` where that is all that
    /// is known; `unknown` where nothing is recorded.
    pub fn as_recorded(&self) -> Option<&'static str> {
        let [a, b] = self.sides[..] else { return None };
        let is =
            |side: Option<RecordedStanding>| side.map(|standing| standing == RecordedStanding::AsRecorded);
        match (is(a), is(b)) {
            _ if !self.is_recorded => Some("unknown"),
            (Some(true), Some(true)) => Some("both"),
            (Some(true), _) => Some("a"),
            (_, Some(true)) => Some("b"),
            (Some(false), Some(false)) => Some("neither"),
            (Some(false), None) => Some("not-a"),
            (None, Some(false)) => Some("not-b"),
            (None, None) => None,
        }
    }
}

impl RecordedStanding {
    /// Its word in results.
    pub fn name(self) -> &'static str {
        match self {
            RecordedStanding::AsRecorded => "yes",
            RecordedStanding::Changed => "changed",
            RecordedStanding::Other => "no",
        }
    }
}

/// What lists record, by names below the trees.
#[derive(Debug, Default)]
pub struct ListedContents(HashMap<Vec<u8>, Vec<RecordedContent>>);

impl ListedContents {
    /// Adds a line of a list: the name of the file below the trees, and its digest.
    pub fn add(&mut self, name: Vec<u8>, algorithm: &str, digest: Output) {
        let algorithm = algorithm.to_string();
        let content = RecordedContent { algorithm, digest, size: None, is_changed: None };
        self.0.entry(name).or_default().push(content);
    }
}

/// Judges files that differ.
pub struct Judge<'a, const N: usize> {
    /// What the catalogue records of each tree.
    pub records: [Option<RecordedTree<'a>>; N],
    /// Which trees are files of this machine, whose tags can be read.
    pub is_local: [bool; N],
    /// What lists record.
    pub lists: ListedContents,
    /// What lists call the files, where the trees are files and so have no names below them.
    pub own_name: Vec<u8>,
    /// The digest of what was read already.
    pub digest: Digest,
    /// Whether files may be read whose digest is not known yet.
    pub reads: bool,
}

/// What is recorded of a pair: each content, and the side whose own record it is.
type Contents = Vec<(Option<usize>, RecordedContent)>;

/// Digests by the number of the pair and the side.
type DigestsFound = HashMap<(usize, usize), Output>;

impl<const N: usize> Judge<'_, N> {
    /// What is known of each pair that differs, by its number. A place that fails is told to `failed`, and its files stay
    /// without a digest.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn judge(
        &mut self,
        pairs: &[Pair<N>],
        mut trees: [&mut Tree; N],
        sink: TreeSink,
        failed: &mut dyn FnMut(usize, PlaceError),
    ) -> Result<HashMap<usize, Judgement<N>>, CatalogError> {
        let mut contents: BTreeMap<usize, Contents> = BTreeMap::new();
        for (number, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Differs)
        {
            contents.insert(number, self.contents(pair, &trees)?);
        }
        let names: BTreeSet<String> =
            contents.values().flatten().map(|(_, content)| content.algorithm.clone()).collect();
        let mut found: HashMap<String, DigestsFound> = HashMap::new();
        for (number, side) in contents.keys().flat_map(|number| (0..N).map(|side| (*number, side))) {
            if let Some(Contradicted { recorded, found: read }) = contradiction(&pairs[number], side) {
                found.entry(recorded.algorithm.clone()).or_default().insert((number, side), *read);
            }
        }
        for name in names {
            // What this build cannot compute tells nothing.
            let Ok(digest) = Digest::find(&name) else { continue };
            let digests = self.digests(&digest, (pairs, &contents), &mut trees, sink, failed);
            found.entry(name).or_default().extend(digests);
        }
        let judged = |(number, contents): (usize, Contents)| {
            let sides = std::array::from_fn(|side| {
                let file = pairs[number].files[side].as_ref()?;
                standing(side, &contents, |content| match content.size.zip(file.seen.size) {
                    Some((recorded, seen)) if recorded != seen => Some(false),
                    _ => Some(*found.get(&content.algorithm)?.get(&(number, side))? == content.digest),
                })
            });
            (number, Judgement { is_recorded: !contents.is_empty(), sides })
        };
        Ok(contents.into_iter().map(judged).collect())
    }

    /// All that is recorded of a name.
    fn contents(&mut self, pair: &Pair<N>, trees: &[&mut Tree; N]) -> Result<Contents, CatalogError> {
        let mut contents = Contents::new();
        for (side, records) in self.records.iter_mut().enumerate() {
            let file = pair.files[side].as_ref();
            if let Some(records) = records {
                let expected = records.expected(&pair.name, file.map(|file| &file.seen))?;
                contents.extend(expected.map(|content| (Some(side), content)));
            }
            if file.is_some() && self.is_local[side] {
                let path = trees[side].path_of(&pair.name);
                contents.extend(tags(&path).into_iter().map(|content| (Some(side), content)));
            }
            if let Some(Contradicted { recorded, .. }) = contradiction(pair, side) {
                let (algorithm, digest, is_changed) =
                    (recorded.algorithm.clone(), recorded.digest, Some(false));
                contents.push((Some(side), RecordedContent { algorithm, digest, size: None, is_changed }));
            }
        }
        let name = if pair.name.is_empty() { &self.own_name } else { &pair.name };
        contents.extend(self.lists.0.get(name).into_iter().flatten().map(|content| (None, content.clone())));
        Ok(contents)
    }

    /// The digests of all files whose record has this digest, as far as their lengths leave that open.
    fn digests(
        &self,
        digest: &Digest,
        (pairs, contents): (&[Pair<N>], &BTreeMap<usize, Contents>),
        trees: &mut [&mut Tree; N],
        sink: TreeSink,
        failed: &mut dyn FnMut(usize, PlaceError),
    ) -> DigestsFound {
        let found = Mutex::new(DigestsFound::new());
        for (number, tree) in trees.iter_mut().enumerate() {
            let mut requests = Vec::new();
            for (pair, contents) in contents {
                let Some(file) = &pairs[*pair].files[number] else { continue };
                let may_be = |content: &RecordedContent| {
                    let lengths = content.size.zip(file.seen.size);
                    content.algorithm == digest.name() && lengths.is_none_or(|(one, other)| one == other)
                };
                if !contents.iter().any(|(_, content)| may_be(content)) {
                    continue;
                }
                let is_known = |known: &Contradicted| known.recorded.algorithm == digest.name();
                match file.read.as_deref() {
                    _ if file.contradicted.as_deref().is_some_and(is_known) => (),
                    Some(Ok(sum)) if digest.name() == self.digest.name() => {
                        lock(&found).insert((*pair, number), *sum);
                    }
                    Some(Err(_)) => (),
                    _ if !self.reads => (),
                    _ => requests.push(FileRequest {
                        path: tree.path_of(&pairs[*pair].name),
                        tag: *pair as u64,
                        seen: file.seen,
                        ..FileRequest::default()
                    }),
                }
            }
            if requests.is_empty() {
                continue;
            }
            let answered = |event: PlaceEvent| match event {
                PlaceEvent::Answer(FileAnswer { request, result }) => {
                    if let Some(sum) = result.ok().and_then(|read| read.digest()) {
                        let mut found = lock(&found);
                        found.insert((request.tag as usize, number), sum);
                    }
                    true
                }
                // Every file has an answer, whatever its program said beside.
                PlaceEvent::Unlisted(line) => sink(number, PlaceEvent::Note(line)),
                event => sink(number, event),
            };
            let named = Files::Named(&mut requests.into_iter());
            if let Err(error) = tree.place.hash(std::slice::from_ref(digest), named, &answered) {
                failed(number, error);
            }
        }
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the keeper of a side's place recorded of a file, and what was read instead.
fn contradiction<const N: usize>(pair: &Pair<N>, side: usize) -> Option<&Contradicted> {
    pair.files[side].as_ref()?.contradicted.as_deref()
}

/// How a side stands to what is recorded: of each content, whether the file has it.
fn standing(
    side: usize,
    contents: &Contents,
    has: impl Fn(&RecordedContent) -> Option<bool>,
) -> Option<RecordedStanding> {
    let has: Vec<Option<bool>> = contents.iter().map(|(_, content)| has(content)).collect();
    if has.contains(&Some(true)) {
        return Some(RecordedStanding::AsRecorded);
    }
    if has.is_empty() || has.contains(&None) {
        return None;
    }
    let own =
        contents.iter().filter(|(of, _)| *of == Some(side)).filter_map(|(_, content)| content.is_changed);
    // One record that fits the time says that nobody wrote.
    Some(if own.min() == Some(true) { RecordedStanding::Changed } else { RecordedStanding::Other })
}

/// What a file's own tags record of it.
fn tags(path: &[u8]) -> Vec<RecordedContent> {
    let opened = Entry::followed(Path::new(OsStr::from_bytes(path))).and_then(|entry| entry.open_regular());
    let Ok(file) = opened else { return Vec::new() };
    let Ok(stat) = Stat::of(&file) else { return Vec::new() };
    let mut found = Vec::new();
    for family in Family::ALL {
        let _ = family.read(&file, &mut found);
    }
    let content = |record: verisum_files::Record| RecordedContent {
        algorithm: record.algorithm.id.to_string(),
        digest: record.digest,
        size: record.size,
        is_changed: match record.standing(&stat) {
            TagStanding::Unknown => None,
            standing => Some(standing == TagStanding::Outdated),
        },
    };
    found.into_iter().flatten().map(content).collect()
}
