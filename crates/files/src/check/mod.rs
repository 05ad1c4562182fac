//! Checking files against manifests: many files at once, results in the manifests' order.
//!
//! Lines that stand near each other and name the same file are answered by one read of it. Memory does
//! not depend on how long the manifests are. What is listed without a digest is compared by what can be seen
//! without reading it, and a file of another length than listed is not read.

mod answers;
mod existence;
mod extra;
mod feed;
mod group;
mod list_class;
mod listed_files;
mod listed_path;
mod lists;

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use verisum_digest::{Digest, Output};

use crate::store::manifest::{Bad, Listed, ReadError, Reader, Skipped};
use crate::{Excludes, FileError, Hashed, Kind, Plan, lock};

pub use extra::Extra;
pub use list_class::ListClass;
pub use listed_files::{LongestDigest, STDIN, UselessLine, listed_files};
pub use lists::{ListFile, ListReader, Lists, OpenInput, bag_of, manifests_of, open_to_record};

use answers::Answers;
use feed::Feed;
use group::LineGroup;

/// Makes digests.
pub type Find<'a> = &'a (dyn Fn(&str) -> Result<Digest, verisum_digest::DigestError> + Sync);

/// Computes the block hash of what a line names, which may be no file of a tree: by the digest and in the way
/// that the line says. The directory is that where its name begins.
pub type BlockHashOf<'a> = &'a (dyn Fn(&Path, &Listed) -> Result<Output, FileError> + Sync);

/// What computes the values that manifests list.
#[derive(Clone, Copy)]
pub struct Compute<'a> {
    /// Makes digests.
    pub find: Find<'a>,
    /// Where lines of block hashes are read, who computes those.
    pub block_hash: BlockHashOf<'a>,
    /// Whether listed pipes and devices are read, as the coreutils do, for as long as it takes, and `-` is standard
    /// input where names begin at the working directory. Else they are no files, and `-` is one.
    pub reads_streams: bool,
}

/// Opens manifests one by one.
pub type Sources<'a> = &'a mut (dyn Iterator<Item = Result<OpenList, ReadError>> + Send);

/// A manifest to check.
pub struct OpenList {
    /// Its lines.
    pub reader: Reader<Box<dyn Read + Send>>,
    /// Where its names begin.
    pub base: Base,
    /// Whether it is standard input itself, which then is no file that it may name `-`.
    pub is_stdin: bool,
    /// Which files that it names are left out.
    pub excludes: Option<Arc<Excludes>>,
}

impl OpenList {
    fn leaves_out(&self, listed: &Listed) -> bool {
        self.excludes.as_ref().is_some_and(|excludes| excludes.leaves_out_listed(listed))
    }
}

/// Where the names in a manifest begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// At the working directory.
    Here,
    /// At this directory.
    Directory(PathBuf),
    /// At this directory, which no name may leave.
    Inside(PathBuf),
}

/// What was found.
#[derive(Debug)]
pub enum Event {
    /// A file was checked, or could not be.
    File {
        /// The number of its manifest, from 0.
        manifest: usize,
        /// The line, from 1.
        number: u64,
        /// What the manifest says.
        listed: Listed,
        /// What was found.
        outcome: CheckOutcome,
    },
    /// A line cannot be understood.
    Bad {
        /// The number of its manifest, from 0.
        manifest: usize,
        /// The line, from 1.
        number: u64,
        /// Why.
        bad: Bad,
    },
    /// A manifest ended, or could not be read any further.
    End {
        /// Its number, from 0.
        manifest: usize,
        /// Why there is no more of it, if that is not its end.
        error: Option<ReadError>,
        /// What of it was skipped.
        skipped: Skipped,
    },
}

/// What was found of a file.
#[derive(Debug)]
pub enum CheckOutcome {
    /// Every digest that could be computed is the one that is listed.
    Match,
    /// A digest is another: those of the file, in the order of the listed ones; none for those that
    /// nothing here computes.
    Mismatch(Vec<Option<Output>>),
    /// There is no such file.
    Missing(Arc<FileError>),
    /// It could not be opened, read or hashed.
    Failed(Arc<FileError>),
    /// It is listed without a digest, and is there, of the kind that is listed. Its content was not read.
    Present {
        /// Whether its length is listed, and is the same.
        sized: bool,
    },
    /// There is no such file, and the manifest says that there need not be.
    Absent,
    /// It is left out: nobody looked whether it is there.
    LeftOut,
    /// It is of another length than listed, whatever its digests, for which it was not read if that could
    /// be seen without; or it is listed without a digest, and is there, of another kind or length.
    Unlike(Difference),
}

/// What is other than it is listed, to be seen without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The kind of file.
    Kind {
        /// What it should be.
        listed: Kind,
        /// What it is.
        found: Kind,
    },
    /// The length in bytes.
    Size {
        /// What it should be.
        listed: u64,
        /// What it is.
        found: u64,
    },
    /// The number of parts that a digest of an object store is of: another length has them.
    Parts {
        /// How many there should be.
        listed: u64,
        /// How many there are.
        found: u64,
    },
}

/// Checks everything that manifests list, and tells of it in order.
///
/// `plan` says how; its sets are not used. `compute` computes what is compared, and `sources` opens manifests
/// one by one. `tell` is called on one thread at a time, and breaks to end early.
pub fn check(
    plan: &Plan,
    compute: Compute,
    sources: Sources,
    tell: &mut (dyn FnMut(Event) -> ControlFlow<()> + Send),
) {
    let answers = Mutex::new(Answers::new(tell));
    let mut feed = Feed::new(&answers, compute, sources);
    loop {
        let names = feed.begin();
        let sets = names.iter().map(|set| feed.digests(set)).collect();
        let plan = Plan { sets, ..plan.clone() };
        let done = |hashed: Hashed<LineGroup>| {
            if matches!(hashed.result, Err(FileError::Stopped { .. })) {
                return ControlFlow::Break(());
            }
            let outcomes = hashed.token.outcomes(&names, hashed.result);
            lock(&answers).give(outcomes)
        };
        crate::hash(&plan, &mut feed, &done);
        if feed.is_done() || plan.stop.is_due() || lock(&answers).ended() {
            break;
        }
    }
}
