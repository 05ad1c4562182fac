//! Groups the lines of a manifest that one read of a file answers.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use verisum_digest::Output;

use super::listed_path::ListedPath;
use super::{CheckOutcome, Difference, Event};
use crate::place::Reason;
use crate::store::manifest::{Claim, Listed};
use crate::{Content, Entry, FileError, Kind};

/// Lines about one file.
#[derive(Debug)]
pub(super) struct LineGroup {
    pub(super) place: ListedPath,
    pub(super) members: Vec<Member>,
    /// Which set of digests they need.
    pub(super) set: usize,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Member {
    /// Its place in the order of answers.
    pub(super) slot: u64,
    pub(super) manifest: usize,
    pub(super) number: u64,
    pub(super) listed: Listed,
}

impl LineGroup {
    /// What a read of the file means for each line. `sets` has the names of the digests.
    pub(super) fn outcomes(
        self,
        sets: &[Vec<Cow<'static, str>>],
        result: Result<Content, FileError>,
    ) -> Vec<(u64, Event)> {
        match result {
            Ok(content) => {
                let set = self.set;
                self.compared(&sets[set], &content.digests, content.length)
            }
            Err(error) => self.failed(error),
        }
    }

    /// The line, if it is of a block hash; no other is in its group.
    pub(super) fn block_hash(&self) -> Option<&Listed> {
        self.members.iter().map(|member| &member.listed).find(|listed| listed.block_hash.is_some())
    }

    /// Compares the block hash that is listed with this one.
    pub(super) fn of_block_hash(self, computed: Result<Output, FileError>) -> Vec<(u64, Event)> {
        let computed = match computed {
            Ok(computed) => computed,
            Err(error) => return self.failed(error),
        };
        let event = |member: Member| {
            let is_match = member.listed.claims.iter().all(|claim| claim.digest == computed);
            member.event(if is_match {
                CheckOutcome::Match
            } else {
                CheckOutcome::Mismatch(vec![Some(computed)])
            })
        };
        self.members.into_iter().map(event).collect()
    }

    /// The length of the file, if every line lists another: then it need not be read.
    pub(super) fn unlisted_size(&self, entry: &Entry) -> Option<u64> {
        let listed = || self.members.iter().map(|member| member.listed.size);
        if listed().any(|size| size.is_none()) {
            return None;
        }
        // What takes no room on a disk may be made up as it is read, and its length too.
        let stat = entry.stat().ok().filter(|stat| stat.kind == Kind::File && stat.stored > 0)?;
        listed().all(|size| size != Some(stat.size)).then_some(stat.size)
    }

    /// What it means that no line lists the length of the file.
    pub(super) fn of_size(self, found: u64) -> Vec<(u64, Event)> {
        let event = |member: Member| {
            let listed = member.listed.size.unwrap_or_default();
            member.event(CheckOutcome::Unlike(Difference::Size { listed, found }))
        };
        self.members.into_iter().map(event).collect()
    }

    /// Compares what is listed with this length and these digests of these names.
    pub(super) fn compared(
        self,
        names: &[Cow<'static, str>],
        digests: &[Output],
        length: u64,
    ) -> Vec<(u64, Event)> {
        let find = |id: &str| names.iter().position(|name| name == id).map(|place| digests[place]);
        let event = |member: Member| {
            let found = member.listed.claims.iter().map(|claim| find(&claim.computed())).collect();
            let outcome = CheckOutcome::of_read(&member.listed, Some(length), found);
            member.event(outcome)
        };
        self.members.into_iter().map(event).collect()
    }

    pub(super) fn failed(self, error: FileError) -> Vec<(u64, Event)> {
        let error = Arc::new(error);
        let event = |member: Member| {
            let outcome = CheckOutcome::of_failure(&member.listed, error.clone());
            member.event(outcome)
        };
        self.members.into_iter().map(event).collect()
    }
}

impl Member {
    fn event(self, outcome: CheckOutcome) -> (u64, Event) {
        let Member { slot, manifest, number, listed } = self;
        (slot, Event::File { manifest, number, listed, outcome })
    }
}

impl CheckOutcome {
    /// What a read of a file means for a line: by its length, if that is known, and what it has for each listed digest,
    /// as far as that was computed.
    pub fn of_read(listed: &Listed, length: Option<u64>, computed: Vec<Option<Output>>) -> CheckOutcome {
        if let (Some(listed), Some(found)) = (listed.size, length)
            && listed != found
        {
            return CheckOutcome::Unlike(Difference::Size { listed, found });
        }
        if let Some((listed, found)) = listed.unlike_parts(length) {
            return CheckOutcome::Unlike(Difference::Parts { listed, found });
        }
        let in_form = |(claim, computed): (&Claim, Option<Output>)| Some(claim.in_form(computed?));
        let found: Vec<Option<Output>> = listed.claims.iter().zip(computed).map(in_form).collect();
        let mut pairs = listed.claims.iter().zip(&found);
        match pairs.all(|(claim, found)| found.is_none_or(|found| found == claim.digest)) {
            true => CheckOutcome::Match,
            false => CheckOutcome::Mismatch(found),
        }
    }

    /// What an error means for the line of the file that it is about.
    pub fn of_failure(listed: &Listed, error: Arc<FileError>) -> CheckOutcome {
        match listed.optional && is_missing(&error) {
            true => CheckOutcome::Absent,
            false => CheckOutcome::of_error(error),
        }
    }

    /// What an error means for the file that it is about.
    pub(super) fn of_error(error: Arc<FileError>) -> CheckOutcome {
        match is_missing(&error) {
            true => CheckOutcome::Missing(error),
            false => CheckOutcome::Failed(error),
        }
    }
}

/// Whether there is no such file.
pub(super) fn is_missing(error: &FileError) -> bool {
    match error {
        FileError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        FileError::NotRead { reason, .. } => *reason == Reason::Missing,
        _ => false,
    }
}
