//! `verisum tags list`: prints the tags of files without reading data.

use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use verisum::files::store::xattr::{Defect, Family, Stored};
use verisum::files::tags::{self, TaggedFile};
use verisum::files::{Record, Standing, Timestamp};
use verisum_bench::export::csv_text;

use super::options::{ApartArgs, TagTreeArgs, Writes};
use super::report::TagReporter;
use crate::ui::Output;
use crate::ui::catalog::with_name;
use crate::ui::exit::Exit;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::{names, values, verbosity};

/// What `verisum tags list` takes.
#[derive(Args, Debug)]
pub(crate) struct TagsListArgs {
    /// The attribute format
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// List only tags whose last verification is older than this, or that were never verified: 90d
    #[arg(long, value_name = "DURATION")]
    older_than: Option<String>,

    /// Print CSV with a line for each tag, for spreadsheets
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    apart: ApartArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

/// The columns of CSV; those of [`csv_line`].
const CSV: [&str; 6] = ["outcome", "path", "verified", "size", "algorithm", "digest"];

/// Lists tags.
pub(super) fn run(arguments: TagsListArgs, output: &mut Output) -> Result<Exit, Failure> {
    let now = Timestamp::of_seconds(Timestamp::now().seconds);
    let age = values::optional_duration("--older-than", &arguments.older_than)?;
    let before = age.map(|age| now.seconds - age.as_secs().cast_signed());
    let options = arguments.tree.options_with(arguments.family, &arguments.apart, Writes::No)?;
    let mut walk = arguments.tree.walk()?;
    if arguments.csv {
        output.text(&format!("{}\r\n", CSV.join(",")))?;
    }
    let worst = Mutex::new(Exit::Clean);
    let reporter = TagReporter::new(&arguments.tree, &options, output);
    let counts = tags::list(&mut walk, &options, &|finding| reporter.finding(finding), &|file| {
        if file.tags.is_empty() && verbosity::names_all() && before.is_none() {
            reporter.line(|output| match (arguments.tree.json, arguments.csv) {
                (true, _) => output.json("tag", &with_name(json!({ "outcome": "untagged" }), file.path)),
                (_, true) => output.text(&csv_line(file, None)),
                _ => output.line(&format!("untagged  {}", names::quoted(file.path.as_os_str()))),
            });
        }
        for tag in file.tags {
            let is_young = |verified: Timestamp| before.is_some_and(|before| verified.seconds >= before);
            let is_old = |record: &Record| !record.verified_by(now).is_some_and(is_young);
            if tag.as_ref().is_ok_and(|record| !is_old(record)) {
                continue;
            }
            let exit = exit(tag);
            if let Ok(mut worst) = worst.lock() {
                *worst = exit.max(*worst);
            }
            reporter.line(|output| {
                output.found(exit);
                match (arguments.tree.json, arguments.csv) {
                    (true, _) => output.json("tag", &json_line(file, tag)),
                    (_, true) => output.text(&csv_line(file, Some(tag))),
                    _ => print(file, tag, now, output),
                }
            });
        }
    });
    let ended = reporter.end_with(&counts, |_| Ok(()))?;
    Ok(ended.max(worst.into_inner().unwrap_or(Exit::Unchecked)))
}

/// A tag that is not what was written once is as bad as a file that is not.
fn exit(tag: &Stored) -> Exit {
    match tag {
        Ok(_) => Exit::Clean,
        Err(Defect::Damaged) => Exit::Mismatch,
        Err(Defect::Version(_) | Defect::Algorithm(_)) => Exit::Unchecked,
    }
}

/// How a tag stands to its file, in a word.
fn outcome(file: &TaggedFile, tag: &Stored) -> &'static str {
    match tag {
        Ok(record) => match record.standing(file.stat) {
            Standing::Current => "current",
            Standing::Outdated => "outdated",
            Standing::Resized => "resized",
            Standing::Unknown => "untimed",
        },
        Err(Defect::Damaged) => "damaged",
        Err(Defect::Version(_) | Defect::Algorithm(_)) => "unknown",
    }
}

/// The digest first, as in lists of checksums, so that columns meet; on a terminal that has no room for it below the name.
fn print(file: &TaggedFile, tag: &Stored, now: Timestamp, output: &mut Output) -> Result<(), Failure> {
    let path = names::quoted(file.path.as_os_str());
    let apart = if file.is_apart { "  (in the catalogue)" } else { "" };
    let what = format!("{}  {path}{apart}", outcome(file, tag));
    let Ok(record) = tag else { return output.line(&what) };
    let when = match record.verified {
        None => "never verified".to_string(),
        Some(verified) if verified > now => {
            format!("{} (in the future)", verified.to_rfc3339_seconds())
        }
        Some(verified) => {
            let ago = Duration::from_secs(now.seconds.saturating_sub(verified.seconds).max(0).unsigned_abs());
            format!("{} ({} ago)", verified.to_rfc3339_seconds(), values::rough(ago))
        }
    };
    let digest = format!("{} {}", record.algorithm.id, record.digest);
    let line = format!("{digest}  {when}  {what}");
    match output.has_room(&line) {
        true => output.line(&line),
        false => output.told(&FactLine { what, facts: vec![when, digest] }, 0..0, Exit::Clean),
    }
}

/// A tag of a file, or that it has none, as a line of CSV.
fn csv_line(file: &TaggedFile, tag: Option<&Stored>) -> String {
    let record = tag.and_then(|tag| tag.as_ref().ok());
    let verified = record.and_then(|record| record.verified);
    let fields = [
        tag.map_or("untagged", |tag| outcome(file, tag)).to_string(),
        csv_text(&names::quoted(file.path.as_os_str())),
        verified.map(Timestamp::to_rfc3339_seconds).unwrap_or_default(),
        record.and_then(|record| record.size).map(|size| size.to_string()).unwrap_or_default(),
        record.map(|record| record.algorithm.id.to_string()).unwrap_or_default(),
        record.map(|record| record.digest.to_string()).unwrap_or_default(),
    ];
    format!("{}\r\n", fields.join(","))
}

fn json_line(file: &TaggedFile, tag: &Stored) -> serde_json::Value {
    let mut line = json!({ "outcome": outcome(file, tag) });
    if let Ok(record) = tag {
        line["algorithm"] = record.algorithm.id.into();
        line["recorded"] = json!({ "digest": record.digest.to_string(), "size": record.size });
        line["verified"] = record.verified.map(Timestamp::to_rfc3339).into();
    }
    if file.is_apart {
        line["in_catalogue"] = true.into();
    }
    with_name(line, file.path)
}
