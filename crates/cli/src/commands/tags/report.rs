//! What the verbs of tags print: findings on standard output; errors and the counts on standard error.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::Serialize;
use verisum::catalog::store::Moment;
use verisum::files::tags::{Counts, RecordStore, TagFinding, TagOutcome, TaggingOptions};
use verisum::files::{FileError, Operation, Record, Stop, Timestamp, Verdict, VerdictClass};

use super::options::TagTreeArgs;
use crate::ui::PROGRAM;
use crate::ui::bad_file::{self, BadFile, BadFileRepair};
use crate::ui::exit::Exit;
use crate::ui::failure::{self, Failure};
use crate::ui::json::DigestState;
use crate::ui::names::{self, Name};
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{self, Output, repair_commands, verbosity};

/// Prints findings as they come, from several threads.
pub(crate) struct TagReporter<'a> {
    json: bool,
    quiet: bool,
    verbose: bool,
    dry: bool,
    stop: Arc<Stop>,
    apart: Option<Arc<dyn RecordStore>>,
    started: Instant,
    /// The trees that were named.
    roots: Vec<PathBuf>,
    /// Where copies are looked for.
    catalog: Option<PathBuf>,
    shared: Mutex<TagShared<'a>>,
}

struct TagShared<'a> {
    output: &'a mut Output,
    /// The first bad files, and how many there are beyond them.
    bad: (Vec<BadFile>, u64),
    /// Why nothing more can be printed.
    failed: Option<Failure>,
}

impl<'a> TagReporter<'a> {
    /// The run is asked to end when nobody can hear of the findings any more.
    pub(crate) fn new(
        arguments: &TagTreeArgs,
        options: &TaggingOptions,
        output: &'a mut Output,
    ) -> TagReporter<'a> {
        TagReporter {
            json: arguments.json,
            quiet: arguments.quiet,
            verbose: verbosity::names_all(),
            dry: options.dry,
            stop: options.plan.stop.clone(),
            apart: options.apart.clone(),
            started: Instant::now(),
            roots: arguments.roots(),
            catalog: None,
            shared: Mutex::new(TagShared { output, bad: (Vec::new(), 0), failed: None }),
        }
    }

    /// Looks for copies in this catalogue instead of the usual one.
    pub(crate) fn with_catalog(self, catalog: Option<PathBuf>) -> TagReporter<'a> {
        TagReporter { catalog, ..self }
    }

    /// Prints a finding, if it is of a kind that is asked for.
    pub(crate) fn finding(&self, finding: &TagFinding) {
        if let Some(error) = finding.error {
            let is_removal = matches!(error, FileError::Io { operation: Operation::RemoveAttribute, .. });
            let all = match finding.stands_for_all {
                true if is_removal => " (as for all files of this file system)",
                true => {
                    " (as for all files of this file system; with --catalog their records are kept apart)"
                }
                false if error.is_behind_link() => " (--follow-links follows it)",
                false => "",
            };
            ui::say(PROGRAM, &format!("{}{all}", failure::tree_message(error)));
        }
        let is_unreadable = finding.outcome == TagOutcome::Judged(Verdict::IoError);
        if (finding.outcome.class() == VerdictClass::Corrupt || is_unreadable)
            && let Some(record) = finding.record
        {
            let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let bad_file = bad_file(finding, record, (&self.roots, self.catalog.as_deref()));
            match shared.bad.0.len() < bad_file::NAMED {
                // A file may have tags of several digests.
                true if shared.bad.0.iter().any(|other| other.path == bad_file.path) => {}
                true => shared.bad.0.push(bad_file),
                false => shared.bad.1 += 1,
            }
        }
        if !self.is_shown(finding) {
            return;
        }
        self.print(|output| {
            output.found(finding.outcome.class().into());
            match self.json {
                true => output.json("file", &TagLine::new(finding, self.dry)),
                false => {
                    let (line, word) = text(finding, self.dry);
                    output.outcome(&line, word, finding.outcome.class())
                }
            }
        });
    }

    /// Prints a line of a verb that has lines of its own.
    pub(crate) fn line(&self, print: impl FnOnce(&mut Output) -> Result<(), Failure>) {
        self.print(print);
    }

    /// Ends the run: prints the counts and says how it ended.
    pub(crate) fn end(self, counts: &Counts) -> Result<Exit, Failure> {
        let seconds = self.started.elapsed().as_secs_f64();
        self.tell_of_bad_files();
        if self.json {
            self.print(|output| output.json("summary", &TagSummary::new(counts, seconds, self.dry)));
        } else if !self.quiet {
            let dry = if self.dry { "dry run, nothing was changed: " } else { "" };
            ui::say(PROGRAM, &format!("{dry}{}", summary(counts, seconds)));
            if counts.worst() == VerdictClass::Corrupt {
                ui::say(PROGRAM, "restore what is bad; its tags keep what was recorded");
            }
        }
        let shared = self.shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let exit = ended(self.apart.as_deref(), counts)?;
        shared.output.found(exit);
        shared.failed.map_or(Ok(exit), Err)
    }

    /// The same for a verb that has a result of its own to print.
    pub(crate) fn end_with(
        self,
        counts: &Counts,
        print: impl FnOnce(&mut Output) -> Result<(), Failure>,
    ) -> Result<Exit, Failure> {
        let shared = self.shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        match shared.failed {
            Some(failure) => return Err(failure),
            None => print(shared.output)?,
        }
        ended(self.apart.as_deref(), counts)
    }

    /// Says of the first bad files what helps to mend them.
    fn tell_of_bad_files(&self) {
        let (mut bad_files, beyond) = {
            let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut shared.bad)
        };
        if !bad_files.is_empty() {
            bad_files.sort_by(|a, b| a.path.cmp(&b.path));
            bad_file::find_copies(self.catalog.as_deref(), &mut bad_files);
            bad_file::join_sources(&mut bad_files);
            self.print(|output| bad_file::tell(&bad_files, beyond, None, self.json, output));
        }
    }

    fn is_shown(&self, finding: &TagFinding) -> bool {
        // Errors in words are on standard error.
        if finding.error.is_some() {
            return self.json;
        }
        match (finding.outcome.class(), finding.outcome) {
            (VerdictClass::Clean, outcome) if self.dry && writes(outcome) => !self.quiet,
            (VerdictClass::Clean, _) | (_, TagOutcome::Judged(Verdict::New | Verdict::Missing)) => {
                self.verbose
            }
            (VerdictClass::Change, _) => !self.quiet,
            (VerdictClass::Unchecked | VerdictClass::Corrupt, _) => true,
        }
    }

    fn print(&self, print: impl FnOnce(&mut Output) -> Result<(), Failure>) {
        let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if shared.failed.is_none()
            && let Err(failure) = print(shared.output)
        {
            shared.failed = Some(failure);
            self.stop.request();
        }
    }
}

/// What helps to mend a file that is not as its tag says: one command for all of the tree that was named.
fn bad_file(finding: &TagFinding, record: &Record, (roots, catalog): (&[PathBuf], Option<&Path>)) -> BadFile {
    let path = std::path::absolute(finding.path()).unwrap_or_else(|_| finding.path().to_path_buf());
    let tree = roots.iter().find(|root| **root != path && path.starts_with(root));
    let directory = tree.map(PathBuf::as_path).or(path.parent());
    BadFile {
        outcome: finding.outcome.name(),
        since: None,
        // What keeps no length keeps no time of verification either.
        last_good: record.size.map(|_| record.verified.map_or(Moment::NEVER, Moment::from)),
        size: record.size,
        algorithm: record.algorithm.id.to_string(),
        digest: Some(record.digest),
        copy: None,
        parity: None,
        accept: None,
        mend: match directory.and_then(|directory| Some((directory, path.strip_prefix(directory).ok()?))) {
            Some((directory, below)) => {
                let mut command = match catalog.filter(|_| finding.is_apart) {
                    Some(catalog) => repair_commands::repair_by_scrub(catalog, directory),
                    None => repair_commands::repair_by_tags(directory),
                };
                // Somebody may have written to it. Where no time of verification is recorded, rot cannot be told from a
                // time that was set back.
                let is_suspicious = matches!(finding.outcome, TagOutcome::Judged(Verdict::Suspicious));
                if is_suspicious || record.verified.is_none() {
                    command += &repair_commands::keep_bad(Some(directory));
                }
                BadFileRepair::Directory { command, below: below.to_path_buf() }
            }
            None => BadFileRepair::Nothing,
        },
        path,
    }
}

/// How a run ended. A catalogue that failed is told of, and does not hide what is worse.
fn ended(apart: Option<&dyn RecordStore>, counts: &Counts) -> Result<Exit, Failure> {
    let exit = Exit::from(counts.worst());
    let Some(failed) = apart.and_then(RecordStore::take_failure) else { return Ok(exit) };
    ui::say(PROGRAM, &names::plain(&failed.to_string()));
    Ok(exit.max(Exit::Unchecked))
}

/// Whether an outcome says that something was written or removed.
fn writes(outcome: TagOutcome) -> bool {
    matches!(
        outcome,
        TagOutcome::Tagged
            | TagOutcome::Updated
            | TagOutcome::Refreshed
            | TagOutcome::Retagged
            | TagOutcome::Removed
            | TagOutcome::Adopted
            | TagOutcome::Catalogued
    )
}

/// `NAME: verdict`, and both digests where they differ; and where the verdict stands in it.
fn text(finding: &TagFinding, dry: bool) -> (String, Range<usize>) {
    let would = if dry && writes(finding.outcome) { "would be " } else { "" };
    let mut text = format!("{}: ", names::quoted(finding.path().as_os_str()));
    let start = text.len();
    let _ = write!(text, "{would}{}", finding.outcome);
    let word = start..text.len();
    if let (Some(record), Some(computed)) = (finding.record, finding.computed)
        && record.digest != *computed
    {
        let _ = write!(text, ": {} is {computed}, recorded {}", record.algorithm.id, record.digest);
    }
    (text, word)
}

/// `12 files: 10 tagged, 2 current; 40 KiB read in 0.1 s`.
fn summary(counts: &Counts, seconds: f64) -> String {
    let parts: Vec<String> = counts.occurred().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let mut text = counted(counts.files(), "file");
    if !parts.is_empty() {
        let _ = write!(text, ": {}", parts.join(", "));
    }
    let _ = write!(text, "; {} read in {seconds:.1} s", human(counts.bytes));
    text
}

/// A finding as JSON.
#[derive(Serialize)]
struct TagLine<'a> {
    /// The path as it was walked to.
    #[serde(flatten)]
    name: Name,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<DigestState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<DigestState>,
    /// When the recorded digest was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether all other files of its file system fail alike, and are only counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stands_for_all: bool,
    /// False where the outcome is what would be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<bool>,
}

impl<'a> TagLine<'a> {
    fn new(finding: &TagFinding<'a>, dry: bool) -> TagLine<'a> {
        let algorithm = finding.record.map(|record| record.algorithm.id);
        // No digest in tags is of parts.
        let state = |digest| DigestState::of(algorithm.unwrap_or_default(), digest, None);
        TagLine {
            name: Name::new(finding.path()),
            outcome: finding.outcome.name(),
            algorithm,
            recorded: finding.record.map(|record| state(&record.digest)),
            found: finding.computed.map(state),
            verified: finding.record.and_then(|record| record.verified).map(Timestamp::to_rfc3339),
            error: finding.error.map(failure::tree_message),
            stands_for_all: finding.stands_for_all,
            written: (dry && writes(finding.outcome)).then_some(false),
        }
    }
}

/// The last line of JSON.
#[derive(Serialize)]
struct TagSummary {
    files: u64,
    bytes: u64,
    seconds: f64,
    outcomes: BTreeMap<&'static str, u64>,
    /// Whether all this was not done, but would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

impl TagSummary {
    fn new(counts: &Counts, seconds: f64, dry_run: bool) -> TagSummary {
        let outcomes = counts.occurred().map(|(outcome, count)| (outcome.name(), count)).collect();
        TagSummary { files: counts.files(), bytes: counts.bytes, seconds, outcomes, dry_run }
    }
}
