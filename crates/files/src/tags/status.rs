//! Counts and lists tags without reading data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use super::files::{OpenedFile, each, next_entry, open};
use super::session::Session;
use super::{Counts, Entries, TagSink, TaggingOptions, now};
use crate::store::xattr::{Defect, Origin, Stored, foreign, refused};
use crate::{Standing, Stat, Timestamp, lock};

/// What the tags of a tree say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Tags whose length and time are those of the file.
    pub current: u64,
    /// Tags that are in the catalogue, not in the files.
    pub apart: u64,
    /// Tags of files that were written to, or whose time was set, since then.
    pub outdated: u64,
    /// Tags with the file's time and another length.
    pub resized: u64,
    /// Tags without a time.
    pub untimed: u64,
    /// Tags that are not what was written once.
    pub damaged: u64,
    /// Tags of a later version or of a digest that is not known here.
    pub unknown: u64,
    /// Files without a tag.
    pub untagged: u64,
    /// Bytes of tagged files.
    pub tagged_bytes: u64,
    /// Bytes of untagged files.
    pub untagged_bytes: u64,
    /// Tags by digest.
    pub by_digest: BTreeMap<&'static str, u64>,
    /// Tags that tell of no verification, or of one [in the future](crate::FUTURE).
    pub unverified: u64,
    /// Tags that were verified too long ago, or never, where somebody said what is too long.
    pub stale: u64,
    /// When the tag that waits longest was verified.
    pub oldest: Option<Timestamp>,
    /// Untagged files that have a tag of another tool, by its name.
    pub adoptable: BTreeMap<&'static str, u64>,
}

/// Counts the tags of a tree. Only failures are reported, and only they are in the [`Counts`].
pub fn status(entries: Entries, options: &TaggingOptions, report: TagSink) -> (Status, Counts) {
    status_before(entries, options, None, report)
}

/// The same, with what was verified before this moment counted as stale.
pub fn status_before(
    entries: Entries,
    options: &TaggingOptions,
    before: Option<Timestamp>,
    report: TagSink,
) -> (Status, Counts) {
    let session = Session::new(options, report);
    let total = Mutex::new(Status::default());
    let (before, now) = (before.map(|before| Timestamp::of_seconds(before.seconds)), now());
    each(&session, entries, &|opened| {
        let origin = match opened.found.is_empty() {
            true => foreign(&opened.file, &opened.stat).ok().and_then(|found| Some(found.first()?.origin)),
            false => None,
        };
        lock(&total).add(&opened, origin, (before, now));
    });
    let total = std::mem::take(&mut *lock(&total));
    (total, session.counts())
}

impl Status {
    fn add(
        &mut self,
        opened: &OpenedFile,
        origin: Option<Origin>,
        (before, now): (Option<Timestamp>, Timestamp),
    ) {
        if opened.found.is_empty() {
            self.untagged += 1;
            self.untagged_bytes += opened.stat.size;
        } else {
            self.tagged_bytes += opened.stat.size;
        }
        self.apart += u64::from(opened.is_apart);
        if let Some(origin) = origin {
            *self.adoptable.entry(origin.name()).or_default() += 1;
        }
        for found in &opened.found {
            let record = match found {
                Ok(record) => record,
                Err(Defect::Damaged) => {
                    self.damaged += 1;
                    continue;
                }
                Err(Defect::Version(_) | Defect::Algorithm(_)) => {
                    self.unknown += 1;
                    continue;
                }
            };
            *match record.standing(&opened.stat) {
                Standing::Current => &mut self.current,
                Standing::Outdated => &mut self.outdated,
                Standing::Resized => &mut self.resized,
                Standing::Unknown => &mut self.untimed,
            } += 1;
            *self.by_digest.entry(record.algorithm.id).or_default() += 1;
            let verified = record.verified_by(now);
            let is_stale = |before| verified.is_none_or(|verified| verified < before);
            self.stale += u64::from(before.is_some_and(is_stale));
            match verified {
                None => self.unverified += 1,
                Some(verified) => {
                    self.oldest = Some(self.oldest.map_or(verified, |oldest| oldest.min(verified)));
                }
            }
        }
    }
}

/// A file and what its tags say.
#[derive(Clone, Copy, Debug)]
pub struct TaggedFile<'a> {
    /// The path as it was walked to.
    pub path: &'a Path,
    /// What the file is now.
    pub stat: &'a Stat,
    /// Its tags, or why they cannot be read as such. None if it has none.
    pub tags: &'a [Stored],
    /// They are in the catalogue, and not in its attributes.
    pub is_apart: bool,
}

/// Calls `each` for every file of a tree, on several threads, with what its tags say; reads no data. Only failures are
/// reported, and only they are in the [`Counts`].
pub fn list(
    entries: Entries,
    options: &TaggingOptions,
    report: TagSink,
    each: &(dyn Fn(&TaggedFile) + Sync),
) -> Counts {
    let session = Session::new(options, report);
    super::files::each(&session, entries, &|opened| {
        let OpenedFile { entry, stat, found, is_apart, .. } = &opened;
        each(&TaggedFile { path: &entry.path(), stat, tags: found, is_apart: *is_apart });
    });
    session.counts()
}

/// Whether tagging a tree would be the first time that its files get tags: some take attributes, and none of
/// the first `most` has a tag. What fails is passed over.
pub fn would_be_first(entries: Entries, options: &TaggingOptions, most: usize) -> bool {
    let session = Session::new(options, &|_| {});
    let mut takes_attributes = false;
    for _ in 0..most {
        let Some(entry) = next_entry(&session, entries) else { break };
        let Some(opened) = open(&session, entry, options.family) else { continue };
        if !opened.found.is_empty() && !opened.is_apart {
            return false;
        }
        takes_attributes = takes_attributes || refused(&opened.file).is_none();
    }
    takes_attributes
}
