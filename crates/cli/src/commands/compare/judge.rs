//! Says which of the files that differ have recorded content: by the catalogue, by tags, and by lists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use verisum::digest::{Digest, Output as Sum};
use verisum::files::compare::{FileStatus, Pair};
use verisum::files::place::{FileAnswer, FileRequest, Files, PlaceEvent};
use verisum::files::store::xattr::Family;
use verisum::files::{Entry, Standing as TagStanding, Stat};
use verisum::remote::Host;

use super::Side;
use super::records::Records;
use crate::ui::catalog::absolute;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, Report};
use crate::ui::sums;

/// A content that is recorded of a name.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) algorithm: String,
    pub(super) digest: Sum,
    /// Its length, where that is recorded.
    pub(super) size: Option<u64>,
    /// Of a record that belongs to a file: whether the file was written to since, as its time tells.
    pub(super) is_changed: Option<bool>,
}

/// How a file stands to what is recorded of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has a recorded content.
    AsRecorded,
    /// It has another content, and was written to since it was recorded.
    Changed,
    /// It has another content.
    Other,
}

/// What is known of files that differ.
pub(super) struct Judgement<const N: usize> {
    /// Whether anything is recorded of the name.
    pub(super) is_recorded: bool,
    /// How each side stands; none where it is not there, or could not be read.
    pub(super) sides: [Option<Standing>; N],
}

/// What lists record, by names below the trees.
pub(super) type Lists = HashMap<Vec<u8>, Vec<Content>>;

/// Reads lists of checksums.
pub(super) fn lists<const N: usize>(
    named: &[PathBuf],
    algorithm: Option<&str>,
    sides: &[Side; N],
    report: &Report,
) -> Result<Lists, Failure> {
    let here = sides.iter().filter(|side| side.address.host == Host::Local);
    let paths = here.map(|side| absolute(Path::new(OsStr::from_bytes(&side.address.path))));
    let trees = paths.collect::<Result<Vec<_>, _>>()?;
    let mut lists = Lists::new();
    for list in named {
        let (records, useless) = sums::records(list, algorithm, &trees)?;
        if useless > 0 {
            report.worse(Exit::Unchecked);
        }
        for record in records {
            let content = Content {
                algorithm: record.digest.name().to_string(),
                digest: record.value,
                size: None,
                is_changed: None,
            };
            lists.entry(record.below.into_os_string().as_bytes().to_vec()).or_default().push(content);
        }
    }
    Ok(lists)
}

/// Judges files that differ.
pub(super) struct Judge<'a, const N: usize> {
    pub(super) records: [Option<Records<'a>>; N],
    pub(super) lists: Lists,
    /// The digest of what was read already.
    pub(super) digest: Digest,
    /// Whether files may be read whose digest is not known yet.
    pub(super) reads: bool,
}

/// What is recorded of a pair: each content, and the side whose own record it is.
type Contents = Vec<(Option<usize>, Content)>;

/// Digests by the number of the pair and the side.
type Found = HashMap<(usize, usize), Sum>;

impl<const N: usize> Judge<'_, N> {
    /// What is known of each pair that differs, by its number.
    pub(super) fn judge(
        &mut self,
        pairs: &[Pair<N>],
        sides: &mut [Side; N],
        report: &Report,
    ) -> Result<HashMap<usize, Judgement<N>>, Failure> {
        let mut contents: BTreeMap<usize, Contents> = BTreeMap::new();
        for (number, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Differs)
        {
            contents.insert(number, self.contents(pair, sides)?);
        }
        let names: BTreeSet<String> =
            contents.values().flatten().map(|(_, content)| content.algorithm.clone()).collect();
        let mut found: HashMap<String, Found> = HashMap::new();
        for name in names {
            // What this build cannot compute tells nothing.
            let Ok(digest) = hosts::digest(&name) else { continue };
            found.insert(name, self.digests(&digest, pairs, &contents, sides, report));
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
    fn contents(&mut self, pair: &Pair<N>, sides: &[Side; N]) -> Result<Contents, Failure> {
        let mut contents = Contents::new();
        for (side, records) in self.records.iter_mut().enumerate() {
            let file = pair.files[side].as_ref();
            if let Some(records) = records {
                let expected = records.expected(&pair.name, file.map(|file| &file.seen))?;
                contents.extend(expected.map(|content| (Some(side), content)));
            }
            if file.is_some() && sides[side].address.host == Host::Local {
                let path = sides[side].tree.path_of(&pair.name);
                contents.extend(tags(&path).into_iter().map(|content| (Some(side), content)));
            }
        }
        // Two files that are compared have no name below the trees.
        let name = match pair.name.is_empty() {
            true => sides[0].address.below(&sides[0].address.path),
            false => &pair.name,
        };
        contents.extend(self.lists.get(name).into_iter().flatten().map(|content| (None, content.clone())));
        Ok(contents)
    }

    /// The digests of all files whose record has this digest, as far as their lengths leave that open.
    fn digests(
        &self,
        digest: &Digest,
        pairs: &[Pair<N>],
        contents: &BTreeMap<usize, Contents>,
        sides: &mut [Side; N],
        report: &Report,
    ) -> Found {
        let found = Mutex::new(Found::new());
        for (number, tree) in sides.iter_mut().enumerate() {
            let mut requests = Vec::new();
            for (pair, contents) in contents {
                let Some(file) = &pairs[*pair].files[number] else { continue };
                let may_be = |content: &Content| {
                    let lengths = content.size.zip(file.seen.size);
                    content.algorithm == digest.name() && lengths.is_none_or(|(one, other)| one == other)
                };
                if !contents.iter().any(|(_, content)| may_be(content)) {
                    continue;
                }
                match &file.read {
                    Some(Ok(sum)) if digest.name() == self.digest.name() => {
                        found.lock().unwrap_or_else(PoisonError::into_inner).insert((*pair, number), *sum);
                    }
                    Some(Err(_)) => (),
                    _ if !self.reads => (),
                    _ => requests.push(FileRequest {
                        path: tree.tree.path_of(&pairs[*pair].name),
                        tag: *pair as u64,
                        seen: file.seen,
                        ..FileRequest::default()
                    }),
                }
            }
            if requests.is_empty() {
                continue;
            }
            let host = &tree.address.host;
            let sink = |event: PlaceEvent| match event {
                PlaceEvent::Answer(FileAnswer { request, result }) => {
                    if let Some(sum) = result.ok().and_then(|read| read.digest()) {
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.insert((request.tag as usize, number), sum);
                    }
                    true
                }
                // Every file has an answer, whatever its program said beside.
                PlaceEvent::Unlisted(line) => report.event(host, PlaceEvent::Note(line)),
                event => report.event(host, event),
            };
            let named = Files::Named(&mut requests.into_iter());
            if let Err(error) = tree.tree.place.hash(std::slice::from_ref(digest), named, &sink) {
                report.failed(host, error.to_string());
            }
        }
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a side stands to what is recorded: of each content, whether the file has it.
fn standing(side: usize, contents: &Contents, has: impl Fn(&Content) -> Option<bool>) -> Option<Standing> {
    let has: Vec<Option<bool>> = contents.iter().map(|(_, content)| has(content)).collect();
    if has.contains(&Some(true)) {
        return Some(Standing::AsRecorded);
    }
    if has.is_empty() || has.contains(&None) {
        return None;
    }
    let own =
        contents.iter().filter(|(of, _)| *of == Some(side)).filter_map(|(_, content)| content.is_changed);
    // One record that fits the time says that nobody wrote.
    Some(if own.min() == Some(true) { Standing::Changed } else { Standing::Other })
}

/// What a file's own tags record of it.
fn tags(path: &[u8]) -> Vec<Content> {
    let opened = Entry::followed(Path::new(OsStr::from_bytes(path))).and_then(|entry| entry.open_regular());
    let Ok(file) = opened else { return Vec::new() };
    let Ok(stat) = Stat::of(&file) else { return Vec::new() };
    let mut found = Vec::new();
    for family in Family::ALL {
        let _ = family.read(&file, &mut found);
    }
    let content = |record: verisum::files::Record| Content {
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
