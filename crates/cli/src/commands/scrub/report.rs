//! Prints the results of a scrub: a line for each file that is not as recorded, and a summary.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use serde::Serialize;
use serde_json::{Map, Value, json};
use verisum::catalog::scrub::{ScrubReport, ScrubSummary, SecondReading, TooMuch};
use verisum::catalog::store::{Moment, Seen, Stamp, is_address};
use verisum::files::{Verdict, VerdictClass, lock};

use super::parity::DamagedParity;
use super::results::Failing;
use crate::ui::PROGRAM;
use crate::ui::catalog::with_name;
use crate::ui::color::Paint;
use crate::ui::digests;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::names::{self, Name};
use crate::ui::repair_commands::{Remedy, RepairCommands, keep_bad};
use crate::ui::sizes::human;
use crate::ui::values::{self, counted};
use crate::ui::{self, Output, log};

/// How many held files of a directory are named, and how many missing ones; there may be as many as files.
const NAMED: u64 = 10;

/// How much is printed, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScrubStyle {
    /// What is wrong.
    Quiet,
    /// What is wrong, missing or moved, and a summary.
    Usual,
    /// Every file that is not as it was, and a summary.
    Verbose,
    /// Lines of JSON.
    Json,
    /// Nothing: something else is printed instead.
    Nothing,
}

/// Prints, and keeps the first failure to do so.
pub(crate) struct ScrubReporter<'a, 'o> {
    /// Others may print to it at the same time, whole lines.
    output: &'a Mutex<&'o mut Output>,
    style: ScrubStyle,
    failing: Failing,
    /// The commands that are printed, with the options of this one.
    commands: RepairCommands,
    /// Held files of this directory so far.
    held: u64,
    /// Missing files of this directory so far.
    missing: u64,
    /// The first files that were modified, which are named if too many were.
    modified: Vec<ScrubReport>,
    /// What lines of JSON have besides: whose files they are.
    of: Map<String, Value>,
    result: Result<(), Failure>,
}

impl<'a, 'o> ScrubReporter<'a, 'o> {
    pub(crate) fn new(
        output: &'a Mutex<&'o mut Output>,
        style: ScrubStyle,
        failing: Failing,
    ) -> ScrubReporter<'a, 'o> {
        ScrubReporter {
            output,
            style,
            failing,
            commands: RepairCommands::default(),
            held: 0,
            missing: 0,
            modified: Vec::new(),
            of: Map::new(),
            result: Ok(()),
        }
    }

    /// Gives the commands that it prints what they need.
    pub(crate) fn with_commands(self, commands: RepairCommands) -> ScrubReporter<'a, 'o> {
        ScrubReporter { commands, ..self }
    }

    /// Says in lines of JSON of which host they are.
    pub(crate) fn of_host(self, host: &str) -> ScrubReporter<'a, 'o> {
        ScrubReporter { of: Map::from_iter([("host".to_string(), host.into())]), ..self }
    }

    fn output(&self) -> MutexGuard<'a, &'o mut Output> {
        lock(self.output)
    }

    fn json(&self, kind: &'static str, mut line: Value) -> Result<(), Failure> {
        if let Value::Object(line) = &mut line {
            line.extend(self.of.clone());
        }
        self.output().json(kind, &line)
    }

    /// Prints a file.
    pub(crate) fn file(&mut self, report: &ScrubReport) {
        let is_wrong = report.verdict.class() >= VerdictClass::Unchecked
            || report.held
            || self.failing.modified && report.verdict == Verdict::Modified
            || self.failing.missing && report.verdict == Verdict::Missing;
        let is_wanted = match self.style {
            ScrubStyle::Quiet => is_wrong || report.verdict == Verdict::Missing,
            ScrubStyle::Usual => {
                is_wrong || report.restored || matches!(report.verdict, Verdict::Missing | Verdict::Moved)
            }
            ScrubStyle::Verbose | ScrubStyle::Json => true,
            ScrubStyle::Nothing => false,
        };
        let is_bad = report.verdict.class() >= VerdictClass::Unchecked;
        let is_missing = report.verdict == Verdict::Missing;
        // Where a change is a failure, what an interrupted run replaced is named like what this one holds.
        let is_held = report.held || self.failing.modified && report.verdict == Verdict::Modified;
        self.held += u64::from(is_held && !is_bad);
        self.missing += u64::from(is_missing);
        let is_named = is_bad || is_held && self.held <= NAMED || is_missing && self.missing <= NAMED;
        if is_named || is_wrong && !is_held && !is_missing {
            log::note(told(report).line().as_bytes());
        }
        let is_short = matches!(self.style, ScrubStyle::Quiet | ScrubStyle::Usual);
        let is_one_of_many =
            is_short && !is_bad && (is_held && self.held > NAMED || is_missing && self.missing > NAMED);
        let may_be_of_alarm = report.verdict == Verdict::Modified && !is_held;
        if is_short && may_be_of_alarm && (self.modified.len() as u64) < NAMED {
            self.modified.push(report.clone());
        }
        if is_wanted && !is_one_of_many && self.result.is_ok() {
            self.result = match self.style {
                ScrubStyle::Json => self.json("file", json!(line(report))),
                _ => {
                    let paint = match is_wrong {
                        true => Paint::from(report.verdict.class().max(VerdictClass::Unchecked)),
                        false => Paint::from(report.verdict),
                    };
                    self.output().told(&told(report), 0..report.verdict.name().len(), paint)
                }
            };
            // Bad news is seen at once, and not when thousands of lines have gathered.
            if is_wrong && self.result.is_ok() {
                self.result = self.output().flush();
            }
        }
    }

    /// Prints a damaged file of parity.
    pub(super) fn parity(&mut self, found: &DamagedParity) {
        let told = found.told();
        log::note(told.line().as_bytes());
        if self.result.is_ok() {
            self.result = match self.style {
                ScrubStyle::Nothing => Ok(()),
                ScrubStyle::Json => self.json("parity", found.line()),
                _ => self.output().told(&told, found.word(), Paint::from(VerdictClass::Corrupt)),
            };
        }
    }

    /// Prints what a run over one directory came to, as JSON with what mends it.
    pub(crate) fn summary(&mut self, summary: &ScrubSummary, remedy: Option<&Remedy>) {
        let many = self.many(summary);
        many.iter().for_each(|line| log::note(line.as_bytes()));
        if self.result.is_ok() {
            self.result = many.iter().try_for_each(|line| self.output().line(line));
        }
        let printed = match self.style {
            ScrubStyle::Usual | ScrubStyle::Verbose => {
                summary_text(summary).lines().try_for_each(|line| self.output().sentence(line))
            }
            ScrubStyle::Json => self.json("summary", summary_line(summary, remedy)),
            ScrubStyle::Quiet | ScrubStyle::Nothing => Ok(()),
        };
        if self.result.is_ok() {
            self.result = printed;
        }
        (self.held, self.missing) = (0, 0);
        self.modified.clear();
        if self.style != ScrubStyle::Nothing {
            for remark in remarks(summary, &self.commands) {
                // What was printed stands above what is said of it.
                let flushed = self.output().flush();
                self.result = std::mem::replace(&mut self.result, Ok(())).and(flushed);
                ui::say(PROGRAM, &format!("{}: {remark}", names::quoted(summary.root.as_os_str())));
            }
        }
    }

    /// Says in JSON why a directory was not scrubbed; others read it on standard error.
    pub(crate) fn failed(&mut self, root: &Path, message: &str) {
        if self.style == ScrubStyle::Json && !self.of.is_empty() && self.result.is_ok() {
            self.result = self.json("failed", with_name(json!({ "error": message }), root));
        }
    }

    /// Some of the files of an alarm, and how many there are beyond those that were named.
    fn many(&self, summary: &ScrubSummary) -> Vec<String> {
        if !matches!(self.style, ScrubStyle::Quiet | ScrubStyle::Usual) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if let Some(alarm) = summary.alarm {
            let held = |report: &ScrubReport| {
                let mut report = report.clone();
                report.held = true;
                told(&report).line()
            };
            // Those that were held already, and those that were not read, have been named.
            let named = self.held.min(NAMED);
            lines.extend(self.modified.iter().take((NAMED - named) as usize).map(held));
            let gone = self.missing.min(NAMED);
            let rest = alarm.files.saturating_sub(named + lines.len() as u64 + gone);
            if rest > 0 {
                lines.push(format!("... and {rest} more that changed or are gone (--verbose names all)"));
            }
        } else if self.missing > NAMED {
            lines.push(format!(
                "... and {} more missing (`verisum catalog list --missing{}` names all)",
                self.missing - NAMED,
                self.commands.catalog()
            ));
        }
        lines
    }

    /// The first failure to print, if there was one.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.result
    }
}

/// What the user has to know beyond the counts.
fn remarks(summary: &ScrubSummary, commands: &RepairCommands) -> Vec<String> {
    let mut remarks = Vec::new();
    let (accept, repair) = (commands.accept(&summary.root), commands.repair(&summary.root));
    let keep = keep_bad(Some(&summary.root));
    // What is known is found at the end of the run, and may be nothing.
    let undo = format!(
        "; if it was not, `{repair}{keep}` brings back what has a known copy or parity, and --from PLACE names a copy"
    );
    if let Some(TooMuch { files, of, unread }) = summary.alarm {
        let not_read = match unread {
            0 => String::new(),
            unread => format!(", {unread} of them not read yet"),
        };
        remarks.push(format!(
            "ALARM: {files} of {of} files changed or went{not_read}: the records stay as they were (if that was you, \
             `{accept}` takes the files as they are{undo})"
        ));
    } else if summary.held > 0 {
        let files = if summary.held == 1 { "changed file waits" } else { "changed files wait" };
        remarks.push(format!(
            "{} {files} (if that was you, `{accept}` takes the files as they are, and `{accept} --dry-run` lists \
             them{undo})",
            summary.held
        ));
    }
    if summary.given_up > 0 {
        let were = if summary.given_up == 1 { "was" } else { "were" };
        let files = counted(summary.given_up, "file");
        remarks.push(format!("{files} {were} not read: the device fails too often"));
    }
    if summary.not_tried > 0 {
        let were = if summary.not_tried == 1 { "was" } else { "were" };
        let files = counted(summary.not_tried, "file");
        remarks.push(format!("{files} known to be bad {were} not tried again"));
    }
    if summary.files == 0 && summary.mount_points > 0 {
        remarks.push(format!(
            "nothing to verify, and {} not entered (--cross-file-systems enters them)",
            counted(summary.mount_points, "mount point")
        ));
    }
    if summary.clock_went_back {
        remarks.push("the clock shows an earlier time than at the last run".to_string());
    }
    remarks
}

fn told(report: &ScrubReport) -> FactLine {
    let path = names::quoted(report.path.as_os_str());
    let what = format!("{:<12}  {path}", report.verdict.name());
    let mut evidence = Vec::new();
    if let Some(from) = &report.from {
        evidence.push(format!("from {}", names::quoted(from.as_os_str())));
    }
    if let (Some(old), Some(new)) = (&report.recorded, &report.found) {
        evidence.extend(differences(old, new, &report.algorithm));
    }
    if let Some(SecondReading { same, bypass }) = report.second {
        let how = match bypass.name() {
            // Which caches are on the way there, nobody knows.
            "cached" if is_address(&report.path) => "second read",
            "cached" => "second read (the page cache could not be bypassed)",
            _ => "second read past the page cache",
        };
        evidence.push(format!("{how}: {}", if same { "the same" } else { "different" }));
    }
    if report.held {
        evidence.push("held until it is accepted".to_string());
    }
    evidence.extend(report.since.map(|since| format!("since {}", values::written(since))));
    evidence.extend(report.error.as_ref().map(|error| names::plain(&error.to_string())));
    if report.restored {
        evidence = vec!["its content is as recorded again".to_string()];
    }
    FactLine { what, facts: evidence }
}

/// What tells a file from its record, each in a few words.
pub(super) fn differences(old: &Seen, new: &Seen, algorithm: &str) -> Vec<String> {
    let mut found = Vec::new();
    if old.digest != new.digest {
        let [old, new] = [old, new].map(|seen| digests::shown(algorithm, &seen.digest, Some(seen.size)));
        found.push(format!("{algorithm} {old} recorded, {new} read"));
    }
    if old.size != new.size {
        found.push(format!("size {} recorded, {} now", old.size, new.size));
    }
    let time = |stamp: Stamp| stamp.timestamp().to_rfc3339();
    match (old.mtime == new.mtime, old.ctime == new.ctime) {
        (false, _) => found.push(format!("mtime {} recorded, {} now", time(old.mtime), time(new.mtime))),
        (true, false) => {
            found.push(format!(
                "mtime as recorded, ctime {} recorded, {} now (a chmod, chown, rename or tag moves it too)",
                time(old.ctime),
                time(new.ctime)
            ));
        }
        // Of files of other machines no more is known.
        (true, true) if old.ctime == Stamp::UNKNOWN => found.push("mtime as recorded".to_string()),
        (true, true) => found.push("mtime and ctime as recorded".to_string()),
    }
    if old.inode != new.inode {
        // In a bucket it is the version.
        let what = if old.ctime == Stamp::UNKNOWN { "inode or version differs" } else { "inode differs" };
        found.push(what.to_string());
    }
    found
}

#[derive(Serialize)]
struct ScrubLine<'a> {
    #[serde(flatten)]
    name: Name,
    outcome: &'static str,
    held: bool,
    restored: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    algorithm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    second_read: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn line(report: &ScrubReport) -> ScrubLine<'_> {
    ScrubLine {
        name: Name::new(&report.path),
        outcome: report.verdict.name(),
        held: report.held,
        restored: report.restored,
        algorithm: &report.algorithm,
        recorded: report.recorded.as_ref().map(|seen| state(seen, &report.algorithm)),
        found: report.found.as_ref().map(|seen| state(seen, &report.algorithm)),
        second_read: report.second.map(|read| json!({ "same": read.same, "how": read.bypass.name() })),
        since: report.since,
        from: report.from.as_deref().map(Name::new),
        error: report.error.as_ref().map(ToString::to_string),
    }
}

/// A file's state in JSON.
pub(super) fn state(seen: &Seen, algorithm: &str) -> Value {
    json!({
        "digest": digests::shown(algorithm, &seen.digest, Some(seen.size)),
        "size": seen.size,
        "mtime": seen.mtime,
        "ctime": seen.ctime.known(),
        "inode": (seen.inode != 0).then_some(seen.inode),
    })
}

fn summary_line(summary: &ScrubSummary, remedy: Option<&Remedy>) -> Value {
    let counts: Map<_, _> = Verdict::ALL
        .iter()
        .map(|verdict| (verdict.name().to_string(), summary.count(*verdict).into()))
        .collect();
    let line = json!({
        "counts": counts,
        "files": summary.files,
        "bytes": summary.bytes,
        "read_files": summary.read_files,
        "read_bytes": summary.read_bytes,
        "reported_files": summary.reported,
        "reported_at": summary.reported_at.and_then(Moment::known),
        "seconds": summary.time.as_secs_f64(),
        "complete": summary.complete,
        "interrupted": summary.interrupted,
        "waiting": summary.waiting,
        "given_up": summary.given_up,
        "not_tried": summary.not_tried,
        "mount_points": summary.mount_points,
        "stalest_verification": summary.oldest.and_then(Moment::known),
        "unlisted": summary.unlisted,
        "still_missing": summary.still_missing,
        "damaged_parity": summary.damaged_parity,
        "held": summary.held,
        "alarm": summary.alarm.is_some(),
        "repair": remedy.map(Remedy::json),
        "forecast": summary.forecast.map(|forecast| json!({
            "seconds": forecast.time.as_secs_f64(),
            "needed": forecast.needed,
            "assumed_daily": forecast.assumed_daily,
        })),
    });
    with_name(line, &summary.root)
}

fn summary_text(summary: &ScrubSummary) -> String {
    let mut text = format!(
        "{}: {}{}, {}; read {} ({}) in {}\n",
        names::quoted(summary.root.as_os_str()),
        counted(summary.files, "file"),
        match summary.count(Verdict::Missing) + summary.still_missing {
            0 => String::new(),
            missing => format!(", {missing} of them missing"),
        },
        human(summary.bytes),
        summary.read_files,
        human(summary.read_bytes),
        values::rough(summary.time),
    );
    let counts: Vec<String> = Verdict::ALL
        .iter()
        .filter(|verdict| summary.count(**verdict) > 0)
        .map(|verdict| format!("{} {}", verdict.name(), summary.count(*verdict)))
        .collect();
    if !counts.is_empty() {
        let _ = writeln!(text, "  {}", counts.join(", "));
    }
    if let (1.., Some(at)) = (summary.reported, summary.reported_at) {
        let files = counted(summary.reported, "file");
        let at = String::from(at);
        let _ = writeln!(text, "  {files} not read: recorded by the store at {at} as in the catalogue");
    }
    let mut rest = Vec::new();
    if summary.held > 0 {
        rest.push(format!("held until accepted {}", summary.held));
    }
    if summary.still_missing > 0 {
        rest.push(format!("missing since earlier {}", summary.still_missing));
    }
    if summary.waiting > 0 {
        rest.push(format!("new or changed and not read yet {}", summary.waiting));
    }
    if summary.damaged_parity > 0 {
        rest.push(format!("damaged of the parity {}", summary.damaged_parity));
    }
    if summary.unlisted > 0 {
        rest.push(format!("not looked at {}", summary.unlisted));
    }
    if summary.mount_points > 0 {
        rest.push(format!(
            "mount points not entered {} (--cross-file-systems enters them)",
            summary.mount_points
        ));
    }
    if summary.interrupted {
        rest.push("interrupted: the next run resumes it".to_string());
    } else if !summary.complete {
        rest.push("not everything due was verified".to_string());
    }
    if !rest.is_empty() {
        let _ = writeln!(text, "  {}", rest.join(", "));
    }
    if let Some(forecast) = summary.forecast {
        let schedule = if forecast.assumed_daily { " and a run a day" } else { "" };
        let _ = write!(
            text,
            "  at this budget{schedule} everything is verified in {}",
            values::rough(forecast.time)
        );
        let _ = match forecast.needed {
            Some(needed) if needed > 1.0 => writeln!(text, ": --max-age needs {needed:.1} times this budget"),
            Some(_) => writeln!(text, ": --max-age is kept"),
            None => writeln!(text),
        };
    }
    text
}
