//! Files that wait for their repair while sources are asked for them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;

use verisum_files::{ReplaceError, Stop};

use super::super::source::{Candidate, CopyDigest, Source};
use super::super::{CopyFault, RepairFailure};
use super::{Damaged, Done, RepairOutcome, RepairRefusal};

/// The files that are to be repaired; of each what it was found to be.
pub(super) struct WaitingFiles<'w, B> {
    pub(super) damaged: &'w [Damaged],
    /// None of those that were told of.
    pub(super) bad: Vec<Option<B>>,
    /// The copies of each that would not do, and why.
    pub(super) tried: Vec<Vec<(PathBuf, CopyFault)>>,
    /// The copies of each whose content is not the recorded one.
    pub(super) bad_copies: Vec<BTreeSet<PathBuf>>,
    tell: &'w mut dyn FnMut(usize, Done),
}

impl<'w, B> WaitingFiles<'w, B> {
    pub(super) fn new(
        damaged: &'w [Damaged],
        bad: Vec<Option<B>>,
        tell: &'w mut dyn FnMut(usize, Done),
    ) -> WaitingFiles<'w, B> {
        let (tried, bad_copies) = damaged.iter().map(|_| (Vec::new(), BTreeSet::new())).unzip();
        WaitingFiles { damaged, bad, tried, bad_copies, tell }
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.bad.iter().flatten().count()
    }

    /// Takes note of why a copy does not do, instead of what was noted of it before. A list may name many copies that
    /// are not there: two of one reason are enough, but all that have other content are named.
    pub(super) fn note(&mut self, at: usize, path: PathBuf, why: CopyFault) {
        let tried = &mut self.tried[at];
        tried.retain(|(known, _)| *known != path);
        if why.is_other_content() || tried.iter().filter(|(_, known)| *known == why).count() < 2 {
            tried.push((path, why));
        }
    }

    /// Tells what became of one, which waits no more.
    pub(super) fn end(&mut self, at: usize, mut done: Done) {
        self.bad[at] = None;
        if let RepairOutcome::Repaired { .. } | RepairOutcome::Mendable { .. } = done.outcome {
            done.bad_copies = std::mem::take(&mut self.bad_copies[at]).into_iter().collect();
        }
        (self.tell)(at, done);
    }

    /// Tries the copies that a source has of `those`: one that has the recorded digest is given to `replace`, with its
    /// length if that is known.
    pub(super) fn try_copies(
        &mut self,
        source: &mut Source,
        those: &[usize],
        stop: &Stop,
        replace: Replace<B>,
    ) {
        for (at, candidate, answer) in ask(source, (self.damaged, those), stop) {
            let Some(bad) = &self.bad[at] else { continue };
            let damaged = &self.damaged[at];
            let is_over = stop.is_due();
            let ended = match answer {
                _ if is_over => Ok(interrupted().into()),
                Ok(copy) if copy.digest != damaged.recorded => Err(CopyFault::OtherContent),
                Err(why) => Err(why),
                Ok(copy) => replace((damaged, bad), source, copy.size, &candidate).or_else(NotMended::ended),
            };
            match ended {
                Ok(done) => self.end(at, done),
                Err(why) => {
                    if why.is_other_content() {
                        self.bad_copies[at].insert(candidate.shown.clone());
                    }
                    self.note(at, candidate.shown, why);
                }
            }
        }
    }
}

/// Gives a file the content of a copy in a source.
pub(super) type Replace<'r, B> =
    &'r mut dyn FnMut((&Damaged, &B), &mut Source, Option<u64>, &Candidate) -> Result<Done, NotMended>;

/// Why a copy does not repair a file.
pub(super) enum NotMended {
    /// The copy is not what it was a moment ago: another may do.
    ByThisCopy(CopyFault),
    /// No copy can, for this is what becomes of the file.
    ByAny(RepairOutcome),
}

impl NotMended {
    pub(super) fn failed(why: RepairFailure) -> NotMended {
        NotMended::ByAny(RepairOutcome::Failed(why))
    }

    pub(super) fn of_new(error: ReplaceError) -> NotMended {
        NotMended::failed(RepairFailure::NewFile(error.into()))
    }

    pub(super) fn not_kept(error: io::Error) -> NotMended {
        NotMended::failed(RepairFailure::NotKept(error.into()))
    }

    pub(super) fn refused(why: RepairRefusal) -> NotMended {
        NotMended::ByAny(RepairOutcome::Refused(why))
    }

    /// What becomes of the file, unless another copy may do: then why this one does not.
    pub(super) fn ended(self) -> Result<Done, CopyFault> {
        match self {
            NotMended::ByAny(outcome) => Ok(outcome.into()),
            NotMended::ByThisCopy(why) => Err(why),
        }
    }
}

/// What is said of a copy.
impl From<CopyFault> for NotMended {
    fn from(why: CopyFault) -> NotMended {
        NotMended::ByThisCopy(why)
    }
}

/// What a source says of the files that wait: each candidate with its digest, or why it has none.
fn ask(
    source: &mut Source,
    (damaged, waiting): (&[Damaged], &[usize]),
    stop: &Stop,
) -> Vec<(usize, Candidate, Result<CopyDigest, CopyFault>)> {
    let mut answers = Vec::new();
    let mut of_digest: HashMap<&str, Vec<(usize, Candidate)>> = HashMap::new();
    for at in waiting {
        let file = &damaged[*at];
        let candidates = source.candidates(file).into_iter();
        for candidate in candidates.filter(|candidate| candidate.shown != file.path) {
            match source.has_other_length(&candidate, file.size) {
                true => answers.push((*at, candidate, Err(CopyFault::OtherLength))),
                false => of_digest.entry(file.digest.name()).or_default().push((*at, candidate)),
            }
        }
    }
    for candidates in of_digest.into_values().take_while(|_| !stop.is_due()) {
        let digest = &damaged[candidates[0].0].digest;
        let paths = candidates.iter().map(|(_, candidate)| candidate.path.clone()).collect();
        let digests = source.digests(digest, paths, stop);
        answers.extend(candidates.into_iter().zip(digests).map(|((at, file), digest)| (at, file, digest)));
    }
    answers.sort_by_key(|(at, ..)| *at);
    answers
}

pub(super) fn interrupted() -> RepairOutcome {
    RepairOutcome::Failed(RepairFailure::Interrupted)
}
