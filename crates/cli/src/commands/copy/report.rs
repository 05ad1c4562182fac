//! What `verisum copy` prints: problems on standard output, errors and the totals on standard error.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use verisum::catalog::store::Lock;
use verisum::digest::Output as DigestValue;
use verisum::files::{Stop, lock};
use verisum::mend::copy::{
    CopyError, CopyEvent, CopyOptions, CopyOutcome, CopyRecorder, CopySummary, Mismatch, SumsList,
};

use crate::ui::exit::Exit;
use crate::ui::failure::{self, Failure};
use crate::ui::hosts::Costs;
use crate::ui::json::DigestState;
use crate::ui::names::{self, Name};
use crate::ui::sizes::human;
use crate::ui::{self, Output, PROGRAM, digests};

/// What is printed, and how.
pub(super) struct Shown {
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
}

impl Shown {
    /// Prints what stores were asked for.
    fn costs(&self, costs: Option<&Costs>, output: &mut Output) -> Result<(), Failure> {
        match costs {
            Some(costs) if self.json => output.json("costs", costs)?,
            Some(costs) if !self.quiet => ui::say(PROGRAM, &costs.text()),
            _ => {}
        }
        Ok(())
    }
}

/// Prints what comes of files, from several threads.
pub(super) struct CopyReporter<'a> {
    shown: Shown,
    /// Whether TO is a bucket, where nothing is removed.
    is_bucket: bool,
    stop: Arc<Stop>,
    started: Instant,
    shared: Mutex<CopyShared<'a>>,
}

struct CopyShared<'a> {
    output: &'a mut Output,
    list: Option<SumsList>,
    /// Records the copies, while the catalogue is locked.
    recorder: Option<(Lock, CopyRecorder)>,
    /// Why nothing more can be printed, listed or recorded.
    failed: Option<Failure>,
}

impl<'a> CopyReporter<'a> {
    /// The run is asked to end when nobody can hear of it any more.
    pub(super) fn new(
        shown: Shown,
        is_bucket: bool,
        options: &CopyOptions,
        (list, recorder): (Option<SumsList>, Option<(Lock, CopyRecorder)>),
        output: &'a mut Output,
    ) -> CopyReporter<'a> {
        let shared = Mutex::new(CopyShared { output, list, recorder, failed: None });
        CopyReporter { shown, is_bucket, stop: options.stop.clone(), started: Instant::now(), shared }
    }

    /// Prints what came of a file, if it is of a kind that is asked for, and lists its digest.
    pub(super) fn event(&self, event: &CopyEvent) {
        if let CopyOutcome::Failed(error) = &event.outcome {
            ui::say(PROGRAM, &message(error));
        }
        let is_line = match &event.outcome {
            // Errors in words are on standard error.
            CopyOutcome::Failed(_) => self.shown.json,
            outcome => outcome.is_problem() || self.shown.verbose,
        };
        let mut shared = lock(&self.shared);
        let CopyShared { output, list, recorder, failed } = &mut *shared;
        if failed.is_some() {
            return;
        }
        let mut done = list.as_mut().map_or(Ok(()), |list| list.add(event).map_err(of_list));
        if let Some((_, recorder)) = recorder.as_mut().filter(|_| done.is_ok()) {
            done = recorder.add(event).map_err(Failure::from);
        }
        if done.is_ok() && is_line {
            output.found(exit(event.outcome.is_corrupt(), matches!(event.outcome, CopyOutcome::Failed(_))));
            done = match self.shown.json {
                true => output.json("file", &CopyLine::new(event)),
                false => output.line(&text(event, self.is_bucket)),
            };
        }
        if let Err(failure) = done {
            *failed = Some(failure);
            self.stop.request();
        }
    }

    /// Ends the run: prints the totals and what stores were asked for, and says how it ended.
    pub(super) fn end(
        self,
        copied: Result<CopySummary, CopyError>,
        costs: Option<&Costs>,
    ) -> Result<Exit, Failure> {
        let seconds = self.started.elapsed().as_secs_f64();
        let CopyShared { output, list, recorder, failed } =
            self.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unlisted = list.map(SumsList::end).transpose();
        let complaint = recorder.as_ref().and_then(|(_, recorder)| recorder.complaint());
        let recorded = recorder.map(|(_lock, recorder)| recorder.end()).transpose();
        let summary = match copied {
            Ok(summary) => summary,
            Err(error) => {
                ui::say(PROGRAM, &message(&error));
                self.shown.costs(costs, output)?;
                return Ok(output.worst().max(Exit::Unchecked));
            }
        };
        let is_corrupt = summary.bad + summary.differ > 0;
        let exit = exit(is_corrupt, summary.failed > 0 || summary.stopped || complaint.is_some());
        output.found(exit);
        if let Some(failure) = failed {
            return Err(failure);
        }
        let unlisted = unlisted.map_err(of_list)?.unwrap_or(0);
        let recorded = recorded?;
        if self.shown.json {
            output.json("summary", &totals(&summary, recorded, seconds))?;
        } else if !self.shown.quiet {
            ui::say(PROGRAM, &total(&summary, recorded, seconds));
        }
        if let Some(complaint) = complaint {
            ui::say(PROGRAM, &names::plain(&complaint));
        }
        self.shown.costs(costs, output)?;
        if unlisted > 0 && !self.shown.quiet {
            let files =
                counted(unlisted, "file that was there already is", "files that were there already are");
            ui::say(PROGRAM, &format!("note: {files} not in the list, and not read"));
        }
        if summary.left_out > 0 && !self.shown.quiet {
            let entries = counted(summary.left_out, "link or special file", "links and special files");
            ui::say(PROGRAM, &format!("note: TO cannot hold {entries}: left out"));
        }
        if summary.reduced > 0 && !self.shown.quiet {
            let entries = counted(summary.reduced, "entry", "entries");
            ui::say(PROGRAM, &format!("note: TO does not keep all owners, modes or attributes: {entries}"));
        }
        Ok(exit)
    }
}

/// Why the list of the copies cannot be used.
pub(super) fn of_list(error: CopyError) -> Failure {
    match error {
        CopyError::Source(error) => Failure::Tree(error),
        CopyError::Target { path, operation, source } => Failure::file(path, operation, source),
        other => Failure::Usage(other.to_string()),
    }
}

fn exit(is_corrupt: bool, is_failed: bool) -> Exit {
    match (is_corrupt, is_failed) {
        (true, _) => Exit::Mismatch,
        (false, true) => Exit::Unchecked,
        (false, false) => Exit::Clean,
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// An error in one line.
fn message(error: &CopyError) -> String {
    match error {
        CopyError::Source(error) => failure::tree_message(error),
        CopyError::Target { path, operation, source } => {
            format!("{}: {operation}: {}", names::quoted(path.as_os_str()), failure::cause(source))
        }
        CopyError::InTheWay { path, what } => {
            format!("{}: create: {what} is in the way", names::quoted(path.as_os_str()))
        }
        CopyError::Changed { path } => {
            format!("{}: read: it changed while it was read", names::quoted(path.as_os_str()))
        }
        CopyError::Reflink { path, source } => {
            format!("{}: reflink: {}", names::quoted(path.as_os_str()), failure::cause(source))
        }
        other => names::plain(&other.to_string()),
    }
}

/// `NAME: rot: sha256 is FOUND, recorded EXPECTED (tag): not copied`.
fn text(event: &CopyEvent, is_bucket: bool) -> String {
    let name = names::quoted(event.path.as_os_str());
    let shown = |algorithm: &str, output: &DigestValue| digests::shown(algorithm, output, Some(event.size));
    let bad = |mismatch: &Mismatch, what: &str| {
        let Mismatch { verdict, algorithm, expected, expected_size, found, place } = mismatch;
        let (verdict, place) = (verdict.name(), place.name());
        let (found, expected) =
            (shown(algorithm, found), digests::shown(algorithm, expected, *expected_size));
        format!("{name}: {verdict}: {algorithm} is {found}, recorded {expected} ({place}): {what}")
    };
    match &event.outcome {
        CopyOutcome::Bad(mismatch) => bad(mismatch, "not copied"),
        CopyOutcome::CopiedBad(mismatch) => bad(mismatch, "copied"),
        CopyOutcome::Differs { algorithm, written, found } => {
            let what = if is_bucket { "copy again" } else { "not kept" };
            let (found, written) = (shown(algorithm, found), shown(algorithm, written));
            format!("{name}: differs: {algorithm} read back is {found}, written {written}: {what}")
        }
        outcome => format!("{name}: {}", outcome.name()),
    }
}

/// `12 files copied, 40 KiB, in 0.1 s; 2 compared with records, 3 current; 1 failed`.
fn total(summary: &CopySummary, recorded: Option<u64>, seconds: f64) -> String {
    let files = counted(summary.copied, "file", "files");
    let mut text = format!("{files} copied, {}, in {seconds:.1} s", human(summary.bytes));
    let well = [
        (summary.compared, "compared with records"),
        (recorded.unwrap_or(0), "recorded"),
        (summary.linked, "linked"),
        (summary.current, "current"),
        (summary.touched, "touched"),
        (summary.made, "links and special files"),
    ];
    let bad = [
        (summary.bad, "not as recorded"),
        (summary.differ, "read back differently"),
        (summary.failed, "failed"),
    ];
    for parts in [&well[..], &bad] {
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        if !parts.is_empty() {
            text += &format!("; {}", parts.join(", "));
        }
    }
    if summary.stopped {
        text += "; not all was copied";
        if summary.gave_up {
            text += ", because the host or the store refused many files in a row";
        }
        if summary.not_tried > 0 {
            text += &format!(": {} not tried", counted(summary.not_tried, "other file", "other files"));
        }
    }
    text
}

/// What came of a file, as JSON.
#[derive(Serialize)]
struct CopyLine<'a> {
    /// The path as it was walked to.
    #[serde(flatten)]
    name: Name,
    outcome: &'static str,
    size: u64,
    copied: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<DigestState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<DigestState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<DigestState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<'a> CopyLine<'a> {
    fn new(event: &'a CopyEvent) -> CopyLine<'a> {
        let shown =
            |algorithm: &str, output: &DigestValue| digests::shown(algorithm, output, Some(event.size));
        let state =
            |algorithm: &str, output: &DigestValue| DigestState::of(algorithm, output, Some(event.size));
        let mut line = CopyLine {
            name: Name::new(event.path),
            outcome: event.outcome.name(),
            size: event.size,
            copied: !event.digests.is_empty()
                && !matches!(event.outcome, CopyOutcome::Linked | CopyOutcome::Current),
            algorithm: event.digests.first().map(|(digest, _)| digest.name()),
            digest: event.digests.first().map(|(digest, output)| shown(digest.name(), output)),
            recorded: None,
            written: None,
            found: None,
            error: None,
        };
        match &event.outcome {
            CopyOutcome::Bad(mismatch) | CopyOutcome::CopiedBad(mismatch) => {
                line.algorithm = Some(&mismatch.algorithm);
                let Mismatch { expected, expected_size, .. } = mismatch;
                line.found = Some(state(&mismatch.algorithm, &mismatch.found));
                line.recorded = Some(DigestState::of(&mismatch.algorithm, expected, *expected_size));
            }
            CopyOutcome::Differs { algorithm, written, found } => {
                line.algorithm = Some(algorithm);
                line.found = Some(state(algorithm, found));
                line.written = Some(state(algorithm, written));
            }
            CopyOutcome::Failed(error) => line.error = Some(message(error)),
            _ => {}
        }
        line
    }
}

/// The last line of JSON. `recorded` are the copies that the catalogue of TO has, if there is one.
fn totals(summary: &CopySummary, recorded: Option<u64>, seconds: f64) -> Value {
    let mut totals = json!({
        "copied": summary.copied,
        "bytes": summary.bytes,
        "compared": summary.compared,
        "linked": summary.linked,
        "current": summary.current,
        "touched": summary.touched,
        "made": summary.made,
        "directories": summary.directories,
        "bad": summary.bad,
        "differ": summary.differ,
        "failed": summary.failed,
        "reduced": summary.reduced,
        "left_out": summary.left_out,
        "not_tried": summary.not_tried,
        "stopped": summary.stopped,
        "seconds": seconds,
    });
    if let Some(recorded) = recorded {
        totals["recorded"] = recorded.into();
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_stands_apart_from_what_is_well() {
        let mut summary = CopySummary::default();
        (summary.copied, summary.compared, summary.current, summary.failed) = (7, 7, 2, 1);
        let text = total(&summary, None, 0.1);
        assert!(text.ends_with("; 7 compared with records, 2 current; 1 failed"), "{text}");
    }
}
