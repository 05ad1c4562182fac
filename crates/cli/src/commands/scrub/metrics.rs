//! What monitoring reads: a file for Prometheus, a line for Nagios.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use verisum_tree::scrub::Summary;
use verisum_tree::{Class, Verdict};

use crate::exit::{Exit, Service};
use crate::failure::Failure;
use crate::render::names;

/// The directories of a run, each with its summary if it could be scrubbed.
type Summaries = [(PathBuf, Option<Summary>)];

/// A figure of each directory: its name, kind, meaning and value.
type Figure = (&'static str, &'static str, &'static str, fn(&Summary) -> f64);

const FIGURES: [Figure; 8] = [
    ("verisum_scrub_recorded_files", "gauge", "Files in the catalogue.", |s| s.files as f64),
    ("verisum_scrub_recorded_bytes", "gauge", "Sum of their lengths.", |s| s.bytes as f64),
    ("verisum_scrub_read_bytes", "gauge", "Bytes that the last run read.", |s| s.read_bytes as f64),
    ("verisum_scrub_duration_seconds", "gauge", "How long the last run took.", |s| s.time.as_secs_f64()),
    ("verisum_scrub_complete", "gauge", "Whether everything due was verified.", |s| f64::from(s.complete)),
    ("verisum_scrub_held_files", "gauge", "Changed files that wait to be accepted.", |s| s.held as f64),
    ("verisum_scrub_waiting_files", "gauge", "New or changed files not read yet.", |s| s.waiting as f64),
    ("verisum_scrub_alarm", "gauge", "Whether too much changed at once.", |s| f64::from(s.alarm.is_some())),
];

/// The text for the textfile collector.
pub(super) fn prometheus(summaries: &Summaries, now: i64) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# HELP verisum_scrub_success Whether the last run could be made.");
    let _ = writeln!(text, "# TYPE verisum_scrub_success gauge");
    for (root, summary) in summaries {
        let _ = writeln!(
            text,
            "verisum_scrub_success{{root=\"{}\"}} {}",
            label(root),
            u8::from(summary.is_some())
        );
    }
    let _ = writeln!(text, "# HELP verisum_scrub_start_time_seconds When the last run began.");
    let _ = writeln!(text, "# TYPE verisum_scrub_start_time_seconds gauge");
    for (root, _) in summaries {
        let _ = writeln!(
            text,
            "verisum_scrub_start_time_seconds{{root=\"{}\"}} {}",
            label(root),
            now as f64 / 1000.0
        );
    }
    let _ = writeln!(text, "# HELP verisum_scrub_files Files of the last run by verdict.");
    let _ = writeln!(text, "# TYPE verisum_scrub_files gauge");
    for (root, summary) in summaries {
        for (verdict, count) in Verdict::ALL.iter().zip(summary.iter().flat_map(|summary| summary.counts)) {
            let _ = writeln!(
                text,
                "verisum_scrub_files{{root=\"{}\",verdict=\"{}\"}} {count}",
                label(root),
                verdict.name()
            );
        }
    }
    for (name, kind, help, value) in FIGURES {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (root, summary) in summaries {
            if let Some(summary) = summary {
                let _ = writeln!(text, "{name}{{root=\"{}\"}} {}", label(root), value(summary));
            }
        }
    }
    text
}

/// A path as the value of a label.
fn label(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes a file beside its name and renames it, so that nobody reads half of it.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::File { name: path.to_path_buf(), operation: "write", error };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut partial = tempfile::Builder::new().prefix(".verisum-").tempfile_in(folder).map_err(failed)?;
    partial.write_all(text.as_bytes()).map_err(failed)?;
    // Others have to read it: the collector is another user.
    use std::os::unix::fs::PermissionsExt;
    partial.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    partial.as_file().sync_all().map_err(failed)?;
    partial.persist(path).map(drop).map_err(|error| failed(error.error))
}

/// What Nagios is told of runs that could be made.
pub(super) fn service(summaries: &Summaries, worst: Exit) -> Service {
    let failed = summaries.iter().any(|(_, summary)| summary.is_none());
    match worst {
        Exit::Mismatch => Service::Critical,
        Exit::Usage | Exit::Interrupted => Service::Unknown,
        _ if failed || summaries.is_empty() => Service::Unknown,
        Exit::Unchecked => Service::Warning,
        Exit::Clean => Service::Ok,
        Exit::Nagios(service) => service,
    }
}

/// The line for Nagios of a run that could not be made.
pub(super) fn nagios_failure(message: &str) -> String {
    format!("VERISUM {} - {}", Service::Unknown.name(), message.replace('|', "_"))
}

/// The line for Nagios.
pub(super) fn nagios(summaries: &Summaries, service: Service) -> String {
    let word = service.name();
    let all = || summaries.iter().filter_map(|(_, summary)| summary.as_ref());
    let sum = |of: &dyn Fn(&Summary) -> u64| all().map(of).sum::<u64>();
    let class = |class: Class| {
        sum(&|s| Verdict::ALL.iter().filter(|v| v.class() == class).map(|v| s.count(*v)).sum())
    };
    let failed = summaries.len() - all().count();
    let bad = class(Class::Corrupt);
    let unchecked = class(Class::Unchecked) + sum(&|s| s.unlisted + s.given_up) + failed as u64;
    let mut line = format!("VERISUM {word} - {} files, {bad} bad, {unchecked} unchecked", sum(&|s| s.files));
    for (root, summary) in summaries {
        let root = names::quoted(root.as_os_str()).replace('|', "_");
        match summary {
            None => line.push_str(&format!(", {root} not scrubbed")),
            Some(summary) if summary.alarm.is_some() => line.push_str(&format!(", {root} changed too much")),
            Some(summary) if summary.interrupted => line.push_str(&format!(", {root} interrupted")),
            Some(_) => {}
        }
    }
    let _ = write!(
        line,
        " | files={} bad={bad} unchecked={unchecked} missing={} new={} modified={} read={}B time={:.1}s",
        sum(&|s| s.files),
        sum(&|s| s.count(Verdict::Missing) + s.still_missing),
        sum(&|s| s.count(Verdict::New)),
        sum(&|s| s.count(Verdict::Modified)),
        sum(&|s| s.read_bytes),
        // The sum of none is negative zero.
        all().map(|s| s.time.as_secs_f64()).sum::<f64>() + 0.0,
    );
    line
}
