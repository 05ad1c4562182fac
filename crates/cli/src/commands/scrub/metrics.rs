//! Metrics for monitoring: a file for Prometheus, a line for Nagios.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use verisum::catalog::scrub::ScrubSummary;
use verisum::catalog::store;
use verisum::catalog::store::{Moment, State, Trouble};
use verisum::files::{Replacement, Verdict, VerdictClass};

use super::results::Failing;
use crate::ui::exit::{Exit, Service};
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::repair_commands::Remedy;
use crate::ui::values::counted;

/// The directories of a run, each with its summary, or why there is none.
pub(crate) type Summaries = [(PathBuf, Result<ScrubSummary, Reason>)];

/// The trees of a run, each with how many of its files have which bad state after it.
#[derive(Default)]
pub(crate) struct KnownTroubles(pub(super) Vec<(PathBuf, Vec<(State, u64)>)>);

impl KnownTroubles {
    /// How many files have bad data.
    pub(crate) fn bad(&self) -> u64 {
        self.0.iter().map(|(_, troubles)| corrupt(troubles)).sum()
    }

    /// The trees that could not be scrubbed: none of their known bad files was tried.
    fn not_scrubbed(&self, summaries: &Summaries) -> Vec<(&Path, Vec<(State, u64)>)> {
        let is_failed =
            |path: &Path| summaries.iter().any(|(root, summary)| root == path && summary.is_err());
        let is_bad = |(state, _): &(State, u64)| matches!(state, State::Trouble(Trouble::Verdict(verdict)) if verdict.class() >= VerdictClass::Unchecked);
        let failed = self.0.iter().filter(|(path, _)| is_failed(path));
        failed.map(|(path, all)| (&**path, all.iter().copied().filter(is_bad).collect())).collect()
    }
}

fn corrupt(troubles: &[(State, u64)]) -> u64 {
    troubles.iter().filter(|(state, _)| state.is_corrupt()).map(|(_, count)| count).sum()
}

/// Why a directory was not scrubbed.
pub(crate) struct Reason {
    /// One of a few words.
    word: &'static str,
    /// The whole message.
    message: String,
    storage_failed: bool,
}

impl Reason {
    pub(crate) fn of(failure: &Failure) -> Reason {
        use verisum::catalog::scrub::ScrubError;
        let word = match failure {
            Failure::Catalog(store::CatalogError::InUse { .. }) => "locked",
            Failure::Catalog(_) | Failure::Scrub(ScrubError::Catalog(_)) => "catalog",
            Failure::Scrub(ScrubError::Tree(_) | ScrubError::Root { .. }) => "directory",
            Failure::Scrub(ScrubError::Remote { .. }) => "host",
            _ => "other",
        };
        let storage_failed =
            matches!(failure, Failure::Scrub(ScrubError::Tree(error)) if error.is_storage_failure());
        Reason { word, message: failure.message(), storage_failed }
    }
}

/// A figure of each directory: its name, meaning, and value, if it has one.
type Figure = (&'static str, &'static str, fn(&ScrubSummary) -> Option<f64>);

const NOT_TRIED: &str = "verisum_scrub_not_tried_files";

const FIGURES: [Figure; 16] = [
    ("verisum_scrub_recorded_files", "Files in the catalogue.", |s| Some(s.files as f64)),
    ("verisum_scrub_recorded_bytes", "Sum of their lengths.", |s| Some(s.bytes as f64)),
    ("verisum_scrub_read_bytes", "Bytes that the last run read.", |s| Some(s.read_bytes as f64)),
    ("verisum_scrub_duration_seconds", "How long the last run took.", |s| Some(s.time.as_secs_f64())),
    ("verisum_scrub_complete", "Whether everything due was verified.", |s| Some(f64::from(s.complete))),
    ("verisum_scrub_held_files", "Changed files that wait to be accepted.", |s| Some(s.held as f64)),
    ("verisum_scrub_waiting_files", "New or changed files not read yet.", |s| Some(s.waiting as f64)),
    ("verisum_scrub_given_up_files", "Files not read because their device fails.", |s| {
        Some(s.given_up as f64)
    }),
    (NOT_TRIED, "Known bad files not tried again.", |s| Some(s.not_tried as f64)),
    ("verisum_scrub_unlisted", "Directories and files that could not be looked at.", |s| {
        Some(s.unlisted as f64)
    }),
    ("verisum_scrub_still_missing_files", "Files that are missing since an earlier run.", |s| {
        Some(s.still_missing as f64)
    }),
    ("verisum_scrub_damaged_parity_files", "Damaged files of the parity.", |s| Some(s.damaged_parity as f64)),
    (
        "verisum_scrub_alarm",
        "Whether too much changed at once, or changed files are held until accepted.",
        |s| Some(f64::from(s.alarm.is_some() || s.held > 0)),
    ),
    (
        "verisum_scrub_oldest_verification_timestamp_seconds",
        "When the stalest file was verified; 0 for never.",
        |s| s.oldest.map(Moment::seconds),
    ),
    ("verisum_scrub_forecast_seconds", "How long it takes to verify everything at this budget.", |s| {
        s.forecast.map(|forecast| forecast.time.as_secs_f64())
    }),
    ("verisum_scrub_forecast_needed_ratio", "How many times the budget keeps the promise.", |s| {
        s.forecast.and_then(|forecast| forecast.needed)
    }),
];

/// What is told of an attempt that could not be made too.
const OF_ATTEMPTS: [&str; 3] =
    ["verisum_scrub_up", "verisum_scrub_last_attempt_timestamp_seconds", "verisum_scrub_failure"];

const CATALOG_UP: &str = "verisum_catalog_up";

/// What is told of every attempt: whether the catalogue could be used, when it was, and what failed.
fn attempt(is_up: bool, failed: &[(&Path, &Reason)], now: Moment) -> String {
    let [up, last, failure] = OF_ATTEMPTS;
    let mut text = format!(
        "# HELP {up} Whether the last attempt could use the catalogue.\n# TYPE {up} gauge\n{up} {}\n\
         # HELP {last} When it was made.\n# TYPE {last} gauge\n{last} {}\n",
        u8::from(is_up),
        now.seconds()
    );
    if !failed.is_empty() {
        let _ = writeln!(text, "# HELP {failure} What was not scrubbed, and why.\n# TYPE {failure} gauge");
    }
    for (root, reason) in failed {
        let _ = writeln!(text, "{failure}{{root=\"{}\",reason=\"{}\"}} 1", label(root), reason.word);
    }
    text
}

/// The text for the textfile collector.
pub(crate) fn prometheus(
    (summaries, known): (&Summaries, &KnownTroubles),
    remedies: &[(PathBuf, Option<Remedy>)],
    (failing, untold): (Failing, Exit),
    now: Moment,
) -> String {
    let failed: Vec<(&Path, &Reason)> = summaries
        .iter()
        .filter_map(|(root, summary)| Some((root.as_path(), summary.as_ref().err()?)))
        .collect();
    let mut text = attempt(true, &failed, now);
    figure(&mut text, "verisum_scrub_success", "Whether the last run could be made.", |text, name| {
        for (root, summary) in summaries {
            let _ = writeln!(text, "{name}{{root=\"{}\"}} {}", label(root), u8::from(summary.is_ok()));
        }
    });
    figure(&mut text, "verisum_scrub_start_time_seconds", "When the last run began.", |text, name| {
        for (root, _) in summaries {
            let _ = writeln!(text, "{name}{{root=\"{}\"}} {}", label(root), now.seconds());
        }
    });
    let done = || summaries.iter().filter_map(|(root, summary)| Some((root, summary.as_ref().ok()?)));
    let not_scrubbed = known.not_scrubbed(summaries);
    figure(&mut text, "verisum_scrub_files", "Files of the last run by verdict.", |text, name| {
        for (root, summary) in done() {
            for (verdict, count) in Verdict::ALL.iter().zip(summary.counts) {
                let root = label(root);
                let _ = writeln!(text, "{name}{{root=\"{root}\",verdict=\"{verdict}\"}} {count}");
            }
        }
        for (root, troubles) in &not_scrubbed {
            for (state, count) in troubles {
                let (root, verdict) = (label(root), state.name());
                let _ = writeln!(text, "{name}{{root=\"{root}\",verdict=\"{verdict}\"}} {count}");
            }
        }
    });
    let help = "What a run of this directory alone would end with.";
    figure(&mut text, "verisum_scrub_exit_code", help, |text, name| {
        for (root, summary) in done() {
            let code = super::run::exit(summary, failing).then(untold).code();
            let _ = writeln!(text, "{name}{{root=\"{}\"}} {code}", label(root));
        }
        for (root, troubles) in &not_scrubbed {
            let code =
                if corrupt(troubles) > 0 { Exit::Mismatch } else { Exit::Unchecked }.then(untold).code();
            let _ = writeln!(text, "{name}{{root=\"{}\"}} {code}", label(root));
        }
    });
    for (name, help, value) in FIGURES {
        figure(&mut text, name, help, |text, name| {
            for (root, summary) in done() {
                if let Some(value) = value(summary) {
                    let _ = writeln!(text, "{name}{{root=\"{}\"}} {value}", label(root));
                }
            }
            for (root, troubles) in not_scrubbed.iter().filter(|_| name == NOT_TRIED) {
                let _ = writeln!(
                    text,
                    "{name}{{root=\"{}\"}} {}",
                    label(root),
                    troubles.iter().map(|(_, count)| count).sum::<u64>()
                );
            }
        });
    }
    let remedies = remedies.iter().map(|(root, remedy)| (&**root, remedy.as_ref()));
    repairable(&mut text, "verisum_scrub_repairable_files", remedies);
    text
}

/// Writes a figure: what it is, then its rows.
pub(super) fn figure(text: &mut String, name: &str, help: &str, rows: impl FnOnce(&mut String, &str)) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    rows(text, name);
}

/// Writes how many files of trees are bad, missing or held, by what may bring them back.
pub(super) fn repairable<'a>(
    text: &mut String,
    name: &str,
    remedies: impl Iterator<Item = (&'a Path, Option<&'a Remedy>)>,
) {
    let help = "Files that are bad, missing or held, by what brings them back: a known copy, parity, nothing at all \
        for empty files, or a copy that has to be named.";
    figure(text, name, help, |text, name| {
        for (root, remedy) in remedies {
            for (from, count) in Remedy::figures(remedy) {
                let _ = writeln!(text, "{name}{{root=\"{}\",from=\"{from}\"}} {count}", label(root));
            }
        }
    });
}

/// Tells of an attempt for which the catalogue could not be used. The figures of the last run stay, beside
/// one that says that they are of an earlier one.
pub(super) fn write_failure(
    path: &Path,
    failure: &Failure,
    roots: &[PathBuf],
    now: Moment,
) -> Result<(), Failure> {
    let reason = Reason::of(failure);
    let failed: Vec<(&Path, &Reason)> = roots.iter().map(|root| (root.as_path(), &reason)).collect();
    write(path, &(attempt(false, &failed, now) + &before(path, "verisum_scrub_", &OF_ATTEMPTS)))
}

/// The same where `catalog status` cannot use the catalogue.
pub(super) fn write_catalog_failure(path: &Path) -> Result<(), Failure> {
    write(path, &(catalog_up(false) + &before(path, "verisum_catalog_", &[CATALOG_UP])))
}

/// Whether the figures that follow are of now.
pub(super) fn catalog_up(is_up: bool) -> String {
    let mut text = String::new();
    figure(&mut text, CATALOG_UP, "Whether the catalogue could be read the last time.", |text, name| {
        let _ = writeln!(text, "{name} {}", u8::from(is_up));
    });
    text
}

/// The figures with this beginning that a file has, but for some.
fn before(path: &Path, beginning: &str, but: &[&str]) -> String {
    // A pipe would be waited for.
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let before = if is_file { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let mut text = String::new();
    for line in before.lines() {
        let name = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
        let name = name.split([' ', '{']).next().unwrap_or_default();
        if name.starts_with(beginning) && !but.contains(&name) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// A path as the value of a label.
pub(super) fn label(path: &Path) -> String {
    // Names that differ only in bytes that are not UTF-8 stay different.
    let text = match path.to_str().filter(|text| !text.starts_with("$'")) {
        Some(text) => text.into(),
        None => names::quoted(path.as_os_str()),
    };
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes a file beside its name and renames it, so that nobody reads half of it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::File { name: path.to_path_buf(), operation: "write", error };
    let replacement = Replacement::new(path)?;
    let mut file = replacement.file();
    file.write_all(text.as_bytes()).map_err(failed)?;
    // Others have to read it: the collector is another user.
    file.set_permissions(Permissions::from_mode(0o644)).map_err(failed)?;
    Ok(replacement.place()?)
}

/// What Nagios is told of runs that could be made.
pub(crate) fn service(summaries: &Summaries, worst: Exit) -> Service {
    let failed = summaries.iter().any(|(_, summary)| summary.is_err());
    match worst {
        Exit::Unchecked if storage_errors(summaries) > 0 => Service::Critical,
        Exit::Mismatch => Service::Critical,
        Exit::Usage | Exit::Interrupted => Service::Unknown,
        _ if failed || summaries.is_empty() => Service::Unknown,
        Exit::Unchecked => Service::Warning,
        Exit::Clean => Service::Ok,
        Exit::Nagios(service) => service,
    }
}

/// Files and directories whose storage failed, or of whose device no more was read for that.
fn storage_errors(summaries: &Summaries) -> u64 {
    let errors = summaries.iter().map(|(_, summary)| match summary {
        Ok(summary) => summary.count(Verdict::IoError) + summary.given_up,
        Err(reason) => u64::from(reason.storage_failed),
    });
    errors.sum()
}

/// The line for Nagios of a run that could not be made.
pub(super) fn nagios_failure(message: &str) -> String {
    format!("VERISUM {} - {}", Service::Unknown.name(), message.replace('|', "_"))
}

/// The line for Nagios. So many files are known to be bad, whether or not these runs read them.
pub(super) fn nagios(
    (summaries, known_bad): (&Summaries, u64),
    service: Service,
    failing: Failing,
    now: Moment,
) -> String {
    let word = service.name();
    let all = || summaries.iter().filter_map(|(_, summary)| summary.as_ref().ok());
    let sum = |of: &dyn Fn(&ScrubSummary) -> u64| all().map(of).sum::<u64>();
    let class = |class: VerdictClass| {
        sum(&|s| Verdict::ALL.iter().filter(|v| v.class() == class).map(|v| s.count(*v)).sum())
    };
    let failed = summaries.len() - all().count();
    let bad = class(VerdictClass::Corrupt).max(known_bad);
    let unchecked = class(VerdictClass::Unchecked) + sum(&|s| s.given_up) + failed as u64;
    let files = counted(sum(&|s| s.files), "file");
    let mut line = format!("VERISUM {word} - {files}, {bad} bad, {unchecked} unchecked");
    let errors = storage_errors(summaries);
    if errors > 0 {
        let _ = write!(line, " ({errors} because storage fails)");
    }
    let held = sum(&|s| s.held);
    let gone = sum(&|s| s.count(Verdict::Missing) + s.still_missing);
    if held > 0 {
        let _ = write!(line, ", {} held until accepted", counted(held, "changed file"));
    }
    if gone > 0 {
        let archive = if failing.missing && failing.modified { ", archive" } else { "" };
        let _ = write!(line, ", {gone} missing{archive}");
    }
    let damaged = sum(&|s| s.damaged_parity);
    if damaged > 0 {
        let _ = write!(line, ", {damaged} damaged of the parity");
    }
    for (root, summary) in summaries {
        let root = names::quoted(root.as_os_str()).replace('|', "_");
        match summary {
            Err(reason) => line.push_str(&format!(", not scrubbed: {}", reason.message.replace('|', "_"))),
            Ok(summary) if summary.alarm.is_some() => line.push_str(&format!(", {root} changed too much")),
            Ok(summary) if summary.interrupted => line.push_str(&format!(", {root} interrupted")),
            Ok(_) => {}
        }
    }
    let _ = write!(
        line,
        " | files={} bad={bad} unchecked={unchecked} missing={gone} held={held} new={} modified={} read={}B time={:.1}s",
        sum(&|s| s.files),
        sum(&|s| s.count(Verdict::New)),
        sum(&|s| s.count(Verdict::Modified)),
        sum(&|s| s.read_bytes),
        all().fold(0.0, |time, summary| time + summary.time.as_secs_f64()),
    );
    // What was never verified has no age.
    if let Some(oldest) = all().filter_map(|s| s.oldest).min() {
        let _ = match oldest {
            Moment::NEVER => write!(line, " oldest=U"),
            oldest => write!(line, " oldest={}s", (now - oldest).as_secs()),
        };
    }
    let worst = |of: &dyn Fn(&ScrubSummary) -> Option<f64>| all().filter_map(of).reduce(f64::max);
    if let Some(seconds) = worst(&|s| Some(s.forecast?.time.as_secs_f64())) {
        let _ = write!(line, " forecast={seconds:.0}s");
    }
    if let Some(needed) = worst(&|s| s.forecast?.needed) {
        let _ = write!(line, " needed={needed:.2}");
    }
    line
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn labels_of_different_names_are_different() {
        let of = |name: &[u8]| label(Path::new(OsStr::from_bytes(name)));
        assert_eq!(of(b"/a \"b\"\\\n"), "/a \\\"b\\\"\\\\\\n");
        assert_eq!([of(b"/\xff"), of(b"/\xfe")], ["$'/\\\\377'", "$'/\\\\376'"]);
        assert_ne!(of(b"$'/\\377'"), of(b"/\xff"));
    }
}
