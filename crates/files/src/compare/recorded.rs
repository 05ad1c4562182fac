//! Compares files by digests that a place has recorded, so that nobody reads them there.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::lock;
use verisum_digest::{Digest, Output};

use super::{CompareError, ComparedFile, ContentEvidence, FileStatus, Pair, Tree, TreeSink};
use crate::place::{
    FileAnswer, FileRead, FileRecord, FileRequest, Files, Modified, PlaceError, PlaceEvent, RecordedDigest,
    RecordedMd5, join,
};

/// So many files are asked for at once: what is recorded of them is in memory.
const AT_ONCE: usize = 1000;

/// Of so many files what listings told is compared at once.
const LISTED_AT_ONCE: usize = 8192;

/// What may be recorded of a file, and what it takes to see it.
struct RecordedCandidate {
    digest: RecordedDigest,
    /// The value is the digest of the digest.
    is_of_digest: bool,
    at: Option<Modified>,
}

/// By the numbers of pairs, what is recorded of one side.
type Candidates = BTreeMap<usize, Vec<RecordedCandidate>>;

/// Settles files that are [`FileStatus::Asked`], but those with numbers in `to_read`, by what the keeper of one place recorded of them: first by what listings
/// told, which proves only that files are the same, then by what the place tells of each file that is left. Only the other
/// side is read, if it is this machine. Returns how many are settled. Of more than two trees all are read.
///
/// # Errors
/// The files of this machine cannot be read; what was found before is in the pairs.
pub fn settle_recorded<const N: usize>(
    mut trees: [&mut Tree; N],
    pairs: &mut [Pair<N>],
    to_read: &BTreeSet<usize>,
    sink: TreeSink,
) -> Result<u64, CompareError> {
    if N != 2 {
        return Ok(0);
    }
    // Until the end nothing is asked of them.
    for number in to_read {
        pairs[*number].status = FileStatus::Unknown;
    }
    let settled = settle_all(&mut trees, pairs, sink);
    for number in to_read {
        pairs[*number].status = FileStatus::Asked;
    }
    settled
}

fn settle_all<const N: usize>(
    trees: &mut [&mut Tree; N],
    pairs: &mut [Pair<N>],
    sink: TreeSink,
) -> Result<u64, CompareError> {
    let mut settled = 0;
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        if let [Some(a), Some(b)] = &pair.files[..]
            && a.recorded.is_some()
            && a.recorded == b.recorded
            && a.seen.size.is_some()
            && !(a.is_reported && b.is_reported)
        {
            let at = a.seen.modified;
            settled += RecordedOutcome { same: Some(name_of(a).into()), differs: None }.settle(pair, at);
        }
    }
    for start in (0..pairs.len()).step_by(LISTED_AT_ONCE) {
        let group = start..pairs.len().min(start + LISTED_AT_ONCE);
        for (side, tree) in trees.iter_mut().enumerate() {
            let found = listed(side, pairs, group.clone());
            let count = settle(side, tree, pairs, &found, sink);
            settled += count.map_err(|error| CompareError::of::<N>(side, error))?;
        }
    }
    let asked = |(at, pair): (usize, &Pair<N>)| {
        let is_both = pair.files.iter().all(Option::is_some);
        (pair.status == FileStatus::Asked && is_both).then_some(at)
    };
    let left: Vec<usize> = pairs.iter().enumerate().filter_map(asked).collect();
    for group in left.chunks(AT_ONCE) {
        let mut told = [const { Vec::new() }; N];
        for side in 0..N {
            let other = &trees[1 - side].place;
            // One record alone settles nothing.
            if trees[side].place.tells_records() && (other.is_here() || other.tells_records()) {
                let requests: Vec<FileRequest> =
                    group.iter().map(|at| request(trees[side], &pairs[*at], side, *at)).collect();
                let records = trees[side].place.records(&requests);
                told[side] = records.map_err(|error| CompareError::of::<N>(side, error))?;
            }
        }
        settled += both(group, pairs, &told);
        for (side, tree) in trees.iter_mut().enumerate() {
            let found = candidates(group, pairs, (1 - side, &told[1 - side]));
            let count = settle(side, tree, pairs, &found, sink);
            settled += count.map_err(|error| CompareError::of::<N>(side, error))?;
        }
    }
    Ok(settled)
}

fn request<const N: usize>(tree: &Tree, pair: &Pair<N>, side: usize, tag: usize) -> FileRequest {
    FileRequest {
        path: join(&tree.root, &pair.name),
        tag: tag as u64,
        seen: pair.files[side].as_ref().map(|file| file.seen).unwrap_or_default(),
        ..FileRequest::default()
    }
}

/// What the listing of the other side told of the files that are left.
fn listed<const N: usize>(side: usize, pairs: &[Pair<N>], group: Range<usize>) -> Candidates {
    let mut found = Candidates::new();
    for (at, pair) in group.map(|at| (at, &pairs[at])).filter(|(_, pair)| pair.status == FileStatus::Asked) {
        let [Some(_), Some(other)] = [&pair.files[side], &pair.files[1 - side]] else { continue };
        // A report may say something else of it: both are compared at once then.
        let candidates = if other.is_reported { Vec::new() } else { listed_of(other) };
        if !candidates.is_empty() {
            found.insert(at, candidates);
        }
    }
    found
}

/// What the listing told of a file.
fn listed_of(file: &ComparedFile) -> Vec<RecordedCandidate> {
    let (Some(recorded), Some(size)) = (&file.recorded, file.seen.size) else { return Vec::new() };
    let Some(digest) = Output::from_bytes(&recorded.md5) else { return Vec::new() };
    let candidate = |algorithm: String| RecordedCandidate {
        digest: RecordedDigest { algorithm, digest, is_certain: false },
        is_of_digest: recorded.parts == Some(NonZeroU32::MIN),
        at: file.seen.modified,
    };
    digests_of(recorded, size).into_iter().map(candidate).collect()
}

/// Whether a record is of the file that was listed.
fn is_of<const N: usize>(record: &FileRecord, pair: &Pair<N>, side: usize) -> bool {
    pair.files[side].as_ref().is_some_and(|file| {
        let times = file.seen.modified.zip(record.of.modified);
        file.seen.size.is_some()
            && file.seen.size == record.of.size
            && times.is_none_or(|(listed, told)| listed.is_same(&told))
    })
}

/// What was told of the files of one side.
fn candidates<const N: usize>(
    group: &[usize],
    pairs: &[Pair<N>],
    (other, told): (usize, &Vec<Option<FileRecord>>),
) -> Candidates {
    let mut found = Candidates::new();
    for (at, record) in group.iter().zip(told) {
        let Some(record) = record.as_ref().filter(|record| is_of(record, &pairs[*at], other)) else {
            continue;
        };
        let Some(file) = &pairs[*at].files[other] else { continue };
        if pairs[*at].status == FileStatus::Asked && !record.digests.is_empty() {
            let candidate = |digest: &RecordedDigest| RecordedCandidate {
                digest: digest.clone(),
                is_of_digest: false,
                at: record.of.modified.or(file.seen.modified),
            };
            let listed = if file.is_reported { listed_of(file) } else { Vec::new() };
            found.insert(*at, record.digests.iter().map(candidate).chain(listed).collect());
        }
    }
    found
}

/// Settles files that both sides have a record of.
fn both<const N: usize>(group: &[usize], pairs: &mut [Pair<N>], told: &[Vec<Option<FileRecord>>; N]) -> u64 {
    let mut settled = 0;
    for (place, at) in group.iter().enumerate() {
        let pair = &pairs[*at];
        let of = |side: usize| {
            let record = told[side].get(place)?.as_ref()?;
            is_of(record, pair, side).then_some(record)
        };
        let [Some(one), Some(other)] = [of(0), of(1)] else { continue };
        let listed = |side: usize| pair.files[side].as_ref().and_then(|file| file.recorded.as_ref());
        let is_same = listed(0).is_some() && listed(0) == listed(1);
        let name = pair.files[0].as_ref().filter(|_| is_same).map(name_of);
        let mut outcome = RecordedOutcome { same: name.map(Arc::from), differs: None };
        for digest in &one.digests {
            let of_other = other.digests.iter().find(|other| other.algorithm == digest.algorithm);
            if let Some(of_other) = of_other {
                let is_certain = digest.is_certain && of_other.is_certain;
                outcome.add(digest.digest == of_other.digest, is_certain, &digest.algorithm.as_str().into());
            }
        }
        // Both records count: that of the older is the one to know.
        let older = [one, other].into_iter().filter_map(|record| record.of.modified).min_by_key(|at| at.time);
        settled += outcome.settle(&mut pairs[*at], older);
    }
    settled
}

/// The digest that a listing tells of a file, as far as it tells which that is.
fn name_of(file: &ComparedFile) -> &'static str {
    match file.recorded.as_ref().is_some_and(|recorded| recorded.parts.is_some()) {
        true => "s3-etag",
        false => "md5",
    }
}

/// What digests say of a file: the first that says that it is the same, and the first that says that it differs.
#[derive(Debug, Default)]
struct RecordedOutcome {
    same: Option<Arc<str>>,
    differs: Option<Arc<str>>,
}

impl RecordedOutcome {
    fn add(&mut self, is_equal: bool, is_certain: bool, name: &Arc<str>) {
        if is_equal || is_certain {
            let said = if is_equal { &mut self.same } else { &mut self.differs };
            said.get_or_insert_with(|| name.clone());
        }
    }

    /// Settles a pair, unless nothing is known or the record contradicts itself: then reading decides.
    fn settle<const N: usize>(self, pair: &mut Pair<N>, at: Option<Modified>) -> u64 {
        let (status, name) = match (self.same, self.differs) {
            (Some(name), None) => (FileStatus::Same, name),
            (None, Some(name)) => (FileStatus::Differs, name),
            _ => return 0,
        };
        (pair.status, pair.evidence, pair.settled_by) = (status, ContentEvidence::Recorded(at), Some(name));
        1
    }
}

/// Reads the files of one side, if it is this machine, and compares them with what is recorded of the other.
fn settle<const N: usize>(
    side: usize,
    tree: &mut Tree,
    pairs: &mut [Pair<N>],
    candidates: &Candidates,
    sink: TreeSink,
) -> Result<u64, PlaceError> {
    if !tree.place.is_here() {
        return Ok(0);
    }
    // By the digests to compute, the places of the pairs. What this build cannot compute tells nothing.
    let mut groups: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
    for (at, candidates) in candidates {
        let names = candidates.iter().map(|candidate| &candidate.digest.algorithm[..]);
        let names: Vec<&str> = names.filter(|name| Digest::find(name).is_ok()).collect();
        if !names.is_empty() {
            groups.entry(names).or_default().push(*at);
        }
    }
    let mut settled = 0;
    for (names, members) in groups {
        let wrong = |error: verisum_digest::DigestError| PlaceError::Digest(error.into());
        let digests: Vec<Digest> =
            names.iter().map(|name| Digest::find(name)).collect::<Result<_, _>>().map_err(wrong)?;
        let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        let outcomes: Mutex<Vec<(usize, RecordedOutcome)>> = Mutex::default();
        let answered = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result }) => {
                let at = request.tag as usize;
                // What cannot be read is said by whoever reads it in earnest.
                if let (Ok(read), Some(candidates)) = (result, candidates.get(&at))
                    && !read.changed
                {
                    let outcome = judged(&names, &read, candidates);
                    lock(&outcomes).push((at, outcome));
                }
                true
            }
            PlaceEvent::Unlisted(line) => sink(side, PlaceEvent::Note(line)),
            other => sink(side, other),
        };
        let requests: Vec<FileRequest> =
            members.iter().map(|at| request(tree, &pairs[*at], side, *at)).collect();
        tree.place.hash(&digests, Files::Named(&mut requests.into_iter()), &answered)?;
        for (at, outcome) in outcomes.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let time = candidates[&at].first().and_then(|candidate| candidate.at);
            settled += outcome.settle(&mut pairs[at], time);
        }
    }
    Ok(settled)
}

/// What the digests of a file say beside those that are recorded.
fn judged(names: &[Arc<str>], read: &FileRead, candidates: &[RecordedCandidate]) -> RecordedOutcome {
    let mut outcome = RecordedOutcome::default();
    for (name, digest) in names.iter().zip(&read.digests) {
        for candidate in candidates.iter().filter(|candidate| candidate.digest.algorithm == **name) {
            let recorded = candidate.digest.digest.as_bytes();
            let is_equal = match candidate.is_of_digest {
                // The only part is the file.
                true => {
                    let twice = Digest::find(name).and_then(|found| found.hash(digest.as_bytes()));
                    twice.is_ok_and(|twice| twice.as_bytes() == recorded)
                }
                false => digest.as_bytes() == recorded,
            };
            outcome.add(is_equal, candidate.digest.is_certain, name);
        }
    }
    outcome
}

/// The lengths of parts that programs use, in MiB. A listing does not tell theirs.
const PARTS: [u64; 13] = [5, 8, 10, 15, 16, 25, 32, 50, 64, 100, 128, 256, 512];

/// The digests of which one may be the recorded one of a file of this length; none if no usual parts are as many.
fn digests_of(recorded: &RecordedMd5, size: u64) -> Vec<String> {
    const MIB: u64 = 1 << 20;
    let parts = match recorded.parts {
        None | Some(NonZeroU32::MIN) => return vec!["md5".to_string()],
        Some(parts) => u64::from(parts.get()),
    };
    let even = size.div_ceil(parts).div_ceil(MIB);
    let mut lengths: Vec<u64> = PARTS.into_iter().chain([even]).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.retain(|length| *length > 0 && size.div_ceil(length * MIB) == parts);
    lengths.into_iter().map(|length| format!("s3-etag:{length}M")).collect()
}
