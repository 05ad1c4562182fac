//! `verisum adopt`: makes tags from the checksums of other tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueHint};
use verisum::files::store::xattr::Family;
use verisum::files::tags::{self, AdoptOptions};
use verisum::files::{FileError, Operation};

use super::lists::{self, AdoptedList};
use super::options::{DryArgs, TagTreeArgs, algorithm};
use super::report::TagReporter;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::progress::Total;
use crate::ui::reading::RateArgs;
use crate::ui::{self, Output, progress};

/// How many names are reported that are not below DIR, as long as no other one was.
const NAMED: u64 = 10;

/// How many are reported at most.
const MOST: u64 = 1000;

/// What `verisum adopt` takes.
#[derive(Args, Debug)]
pub(crate) struct AdoptArgs {
    /// Read each file, and adopt only digests that match
    #[arg(long)]
    verify: bool,

    /// Adopt the digests of files below DIR from this list: a list of checksums, .chkbit, .bitrot.db … If
    /// LIST is an index of chkbit in DIR, also take the indexes of that name in the directories below DIR
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,

    /// The digest, if the list does not name it
    #[arg(short, long, value_name = "DIGEST", requires = "from")]
    algorithm: Option<String>,

    /// Adopt what every .chkbit, .chkbit-db and .bitrot.db below DIR records
    #[arg(long, conflicts_with = "from")]
    indexes: bool,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    dry: DryArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

pub(crate) fn run(arguments: AdoptArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = arguments.tree.options(Family::Verisum)?;
    options.dry = arguments.dry.dry_run;
    options.plan.limits = arguments.rate.limits()?;
    let mut adopting = AdoptOptions::default();
    adopting.verify = arguments.verify;
    let mut walk = arguments.tree.walk()?;
    let told = arguments.algorithm.as_deref().map(|name| algorithm(name, options.family)).transpose()?;
    let indexes = Arc::new(AtomicU64::new(0));
    let mut listed = match &arguments.from {
        Some(list) => {
            let (base, walk) = (arguments.tree.base()?, arguments.tree.walk()?);
            Some(lists::list(list, base, told.map(|row| row.id), walk, arguments.verify)?)
        }
        None if arguments.indexes => {
            let walk = arguments.tree.walk()?;
            let indexes = lists::indexes(walk, indexes.clone(), lists::is_index, arguments.verify);
            Some(AdoptedList::of_index(indexes))
        }
        None => None,
    };
    let reporter = TagReporter::new(&arguments.tree, &options, output);
    let names = NameCounts::default();
    let is_bounded = arguments.from.is_some() && arguments.tree.is_bounded();
    let report = |finding: &tags::TagFinding| {
        if !names.hides(finding) || !is_bounded {
            reporter.finding(finding);
        }
    };
    // Without reading, and of a list, nobody knows how much there is.
    let total = match listed.is_none() && adopting.verify {
        true => arguments.tree.total()?,
        false => Total::Unknown,
    };
    let told = options.plan.progress.clone();
    let counts = progress::of_files(arguments.rate.progress(), total, &told, || match &mut listed {
        Some(listed) => tags::adopt_listed(&mut listed.items, &options, adopting, &report),
        None => tags::adopt(&mut walk, &options, adopting, &report),
    });
    let mut exit = reporter.end(&counts)?;
    if arguments.from.is_some() {
        names.tell(is_bounded);
    }
    if let (Some(list), Some(listed)) = (&arguments.from, &listed) {
        if let Some(unproven) = listed.unproven.as_ref().filter(|_| names.found.load(Ordering::Relaxed) > 0) {
            ui::say(PROGRAM, &format!("{}: {unproven}", ui::names::quoted(list.as_os_str())));
        }
        if listed.skipped.unknown_digests > 0 {
            exit = exit.max(Exit::Unchecked);
        }
    }
    match &arguments.from {
        Some(list) if counts.files() == 0 && exit == Exit::Clean => {
            let list = ui::names::quoted(list.as_os_str());
            ui::say(PROGRAM, &format!("{list}: no file is listed with a digest"));
            Ok(Exit::Mismatch)
        }
        None if arguments.indexes && indexes.load(Ordering::Relaxed) == 0 => {
            ui::say(
                PROGRAM,
                "no .chkbit, .chkbit-db or .bitrot.db is below DIR (--from takes an index of another name)",
            );
            Ok(exit.max(Exit::Unchecked))
        }
        _ => Ok(exit),
    }
}

/// How many names of a list were found below DIR.
#[derive(Default)]
struct NameCounts {
    found: AtomicU64,
    unfound: AtomicU64,
    hidden: AtomicU64,
    /// Lines that make no sense, which are told as often at most.
    wrong: AtomicU64,
}

impl NameCounts {
    /// Counts a finding, and says whether enough were reported that are like it.
    fn hides(&self, finding: &tags::TagFinding) -> bool {
        // What is wrong with a line says nothing of where names begin.
        let is_unfound = finding.entry.is_none()
            && matches!(
                finding.error,
                Some(FileError::Io { operation: Operation::Open | Operation::Stat, .. })
            );
        if finding.entry.is_none() && !is_unfound {
            return self.wrong.fetch_add(1, Ordering::Relaxed) >= NAMED;
        }
        if !is_unfound {
            self.found.fetch_add(u64::from(finding.entry.is_some()), Ordering::Relaxed);
            return false;
        }
        let most = if self.found.load(Ordering::Relaxed) == 0 { NAMED } else { MOST };
        let is_hidden = self.unfound.fetch_add(1, Ordering::Relaxed) >= most;
        self.hidden.fetch_add(u64::from(is_hidden), Ordering::Relaxed);
        is_hidden
    }

    fn tell(&self, is_bounded: bool) {
        let hidden = self.hidden.load(Ordering::Relaxed);
        if is_bounded && hidden > 0 {
            let names = if hidden == 1 { "name" } else { "names" };
            ui::say(PROGRAM, &format!("{hidden} more {names} not found (--verbose lists all)"));
        }
        let wrong = self.wrong.load(Ordering::Relaxed).saturating_sub(NAMED);
        if is_bounded && wrong > 0 {
            let lines = if wrong == 1 { "line is" } else { "lines are" };
            ui::say(PROGRAM, &format!("{wrong} more {lines} of no use (--verbose lists all)"));
        }
        if self.unfound.load(Ordering::Relaxed) > 0 && self.found.load(Ordering::Relaxed) == 0 {
            ui::say(PROGRAM, "no listed name was found below DIR: names begin at DIR");
        }
    }
}
