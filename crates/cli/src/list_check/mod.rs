//! Checks files against lists of checksums, with the options and messages of the coreutils. `verisum check`,
//! `image sum -c` and `md5sum -c` share it.

mod b3sum;
mod record;
mod remedies;
mod report;
mod words;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustix::io::Errno;
use verisum::blockhash::Params;
use verisum::digest::{Algorithm, Digest, Output};
use verisum::files::check::{Compute, Event, Extra, Find, Lists, check};
use verisum::files::store::manifest::{self, BlockHashes, Dialect, Listed};
use verisum::files::{Excludes, Limits, Misjudged, Plan};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::PlaceReport;
use crate::ui::input::HashSettings;
use crate::ui::progress::Total;
use crate::ui::{self, block_hashes, closed_streams, kernel, progress, sizes};

pub(crate) use report::{CheckReport, CheckedPlace};

/// What block hashes of 64 digits are of, if not of what so many digits are taken for. Others are too seldom to read
/// each image as often as there are digests.
const ALSO_USUAL: &str = "blake3";

/// What is said of files, and what is a failure.
#[derive(Args, Debug)]
pub(crate) struct CheckResultArgs {
    /// Do not fail or report status for missing files
    #[arg(long)]
    pub(crate) ignore_missing: bool,

    /// Do not print OK for each file that is verified
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Do not print anything about files; the exit code shows success
    #[arg(long, conflicts_with = "json")]
    pub(crate) status: bool,

    /// Fail also for lines that are improperly formatted
    #[arg(long)]
    pub(crate) strict: bool,

    /// Warn about each line that is improperly formatted
    #[arg(short, long)]
    pub(crate) warn: bool,
}

impl CheckResultArgs {
    /// Fails if there are any, where nothing is checked.
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--ignore-missing", self.ignore_missing),
            ("--quiet", self.quiet),
            ("--status", self.status),
            ("--strict", self.strict),
            ("--warn", self.warn),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!("{option} is for --check only"))),
            None => Ok(()),
        }
    }

    /// Options that have them.
    pub(crate) fn options(&self) -> ListCheckOptions {
        ListCheckOptions {
            ignore_missing: self.ignore_missing,
            quiet: self.quiet,
            status: self.status,
            strict: self.strict,
            warn: self.warn,
            ..ListCheckOptions::default()
        }
    }
}

/// How to check.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListCheckOptions {
    /// The program's name in messages.
    pub(crate) program: Cow<'static, str>,
    /// Whose lists are taken.
    pub(crate) dialect: Dialect,
    /// The id of the digest of bare numbers.
    pub(crate) algorithm: Option<String>,
    /// As [`CheckResultArgs::ignore_missing`], and so on.
    pub(crate) ignore_missing: bool,
    pub(crate) quiet: bool,
    pub(crate) status: bool,
    pub(crate) strict: bool,
    pub(crate) warn: bool,
    pub(crate) zero: bool,
    pub(crate) json: bool,
    pub(crate) base: Option<PathBuf>,
    pub(crate) strict_tree: Option<PathBuf>,
    /// The catalogue in which copies of bad files are looked for, instead of the usual one.
    pub(crate) catalog: Option<PathBuf>,
    pub(crate) threads: Option<usize>,
    /// What is left out of the lists, and of --strict-tree.
    pub(crate) excludes: Option<Arc<Excludes>>,
    pub(crate) limits: Option<Arc<Limits>>,
    /// Whether to draw progress.
    pub(crate) progress: progress::ShowProgress,
    /// Which lines are those of block hashes.
    pub(crate) block_hashes: BlockHashes,
    /// How their images are opened and read, where a line does not say it.
    pub(crate) images: Option<Arc<HashSettings>>,
}

/// Checks these lists: what `verisum check` does, and `md5sum -c` and its likes.
pub(crate) fn lists_of(
    lists: &[OsString],
    options: &ListCheckOptions,
    output: &mut ui::Output,
) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    let lists = Lists::new(lists, options.reading(), options.base.clone(), open_stdin);
    let mut lists = lists.excluding(options.excludes.clone());
    let mut extra = Extra::new(options.strict_tree.as_deref(), options.excludes.clone(), &lists)
        .map_err(|error| Failure::file(".", "open", error))?;
    let threads = options.threads.unwrap_or_else(sizes::usable_cores);
    let mut failure = None;
    let find = |name: &str| Digest::find_with(name, &policy);
    let usual = match &options.images {
        Some(settings) => settings.clone(),
        None => Arc::new(HashSettings {
            threads: options.threads,
            ..HashSettings::new(Params::new(find("sha256")?))
        }),
    };
    let block_hash =
        |directory: &Path, listed: &Listed| block_hashes::compute(&usual, &find, directory, listed);
    let bases = lists.bases();
    let instead = |manifest: usize, listed: &Listed| {
        let base = bases.get(manifest).cloned().flatten().unwrap_or_default();
        let [claim] = &listed.claims[..] else { return None };
        let path = base.join(OsStr::from_bytes(&listed.name));
        let is = |fits: Fits, id: &str| fits(&find, &path, id, claim.digest);
        if listed.block_hash.is_some() {
            return is(block_hashes::is_digest, &claim.algorithm).then_some(Misjudged::Files);
        }
        if is(block_hashes::fits, &claim.algorithm) {
            // `image sum -c` has to be told of any digest but its own.
            let named = Algorithm::find(&claim.algorithm).filter(|named| named.id != "sha256");
            return Some(
                named.map_or(Misjudged::BlockHashes, |named| Misjudged::BlockHashesBy { id: named.id }),
            );
        }
        let may_be_other =
            claim.assumed && claim.algorithm != ALSO_USUAL && claim.digest.as_bytes().len() == 32;
        let is_other = may_be_other && is(block_hashes::fits, ALSO_USUAL);
        is_other.then_some(Misjudged::BlockHashesBy { id: ALSO_USUAL })
    };
    let bags = if bases.iter().all(Option::is_some) { lists.payloads().len() } else { 0 };
    let shared = PlaceReport::new(output);
    let mut report = CheckReport::new(options, (lists.names(), bags), &instead, &shared);
    report.bases.clone_from(&bases);
    report.named_digests(&lists.named_digests())?;
    let mut tell = |event: Event| {
        extra.note(&event);
        match report.event(event) {
            Ok(()) if report.is_over => ControlFlow::Break(()),
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let plan = Plan { limits: options.limits.clone(), ..Plan::new(Vec::new(), threads) };
    let total = lists.files().map_or(Total::Unknown, |files| Total::Counted(Box::new(files)));
    progress::of_files(options.progress, total, &plan.progress, || {
        // Whoever lists a pipe for a command wants what comes out of it.
        let compute = Compute { find: &find, block_hash: &block_hash, reads_streams: true };
        check(&plan, compute, &mut lists, &mut tell);
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    for found in extra.find() {
        match found {
            Ok((path, list)) => report.extra(&path, list)?,
            Err(error) => report.unseen(&error)?,
        }
    }
    report.end(true)?;
    shared.end()
}

impl ListCheckOptions {
    /// How lists are read.
    pub(crate) fn reading(&self) -> manifest::ListOptions {
        let mut reading = manifest::ListOptions::default();
        reading.algorithm = self.algorithm.clone().map(Cow::Owned);
        reading.dialect = self.dialect;
        reading.zero = self.zero;
        reading.block_hashes = self.block_hashes.clone();
        reading
    }
}

/// Whether a file has a value of a digest, in some way.
type Fits = fn(Find, &Path, &str, Output) -> bool;

/// Standard input, unless it was closed at the start.
pub(crate) fn open_stdin() -> io::Result<Box<dyn Read + Send>> {
    match closed_streams::standard_input() {
        true => Err(Errno::BADF.into()),
        false => Ok(Box::new(io::stdin())),
    }
}
