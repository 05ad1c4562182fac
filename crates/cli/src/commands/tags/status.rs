//! `verisum status`: counts checksums without reading data.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use verisum::catalog::store::Moment;
use verisum::files::Timestamp;
use verisum::files::store::xattr::Family;
use verisum::files::tags::{self, Counts, Status};

use super::options::{ApartArgs, TagTreeArgs, Writes};
use super::report::TagReporter;
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::sizes::human;
use crate::ui::values;

/// What `verisum status` takes.
#[derive(Args, Debug)]
pub(crate) struct TagsStatusArgs {
    /// The attribute format
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// Count tags whose last verification is older than this, or that were never verified, and end with 3 if
    /// there are any: 90d
    #[arg(long, value_name = "DURATION")]
    older_than: Option<String>,

    #[command(flatten)]
    apart: ApartArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

pub(crate) fn run(arguments: TagsStatusArgs, output: &mut Output) -> Result<Exit, Failure> {
    let options = arguments.tree.options_with(arguments.family, &arguments.apart, Writes::No)?;
    let age = values::optional_duration("--older-than", &arguments.older_than)?;
    let before = age.map(|age| (Moment::now() - age).timestamp());
    let mut walk = arguments.tree.walk()?;
    let json = arguments.tree.json;
    let reporter = TagReporter::new(&arguments.tree, &options, output);
    let (status, counts) =
        tags::status_before(&mut walk, &options, before, &|finding| reporter.finding(finding));
    let exit = reporter.end_with(&counts, |output| match json {
        true => output.json("status", &Json::new(&status, &counts, before.is_some())),
        false => print(&status, &counts, arguments.older_than.as_deref(), output),
    })?;
    Ok(match (status.damaged, status.unknown + status.stale) {
        (0, 0) => exit,
        (0, _) => exit.max(Exit::Unchecked),
        (_, _) => exit.max(Exit::Mismatch),
    })
}

/// What is not zero, a line each.
fn print(
    status: &Status,
    counts: &Counts,
    older_than: Option<&str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let tagged = format!("({})", human(status.tagged_bytes));
    let untagged = format!("({})", human(status.untagged_bytes));
    let rows = [
        ("current", status.current, "by length and time as recorded"),
        ("in the catalogue", status.apart, "recorded there; the files have no tag, or an older one"),
        ("outdated", status.outdated, "the time differs from the recorded one: `verisum tag` updates them"),
        ("resized", status.resized, "the time as recorded, a different length"),
        ("without time", status.untimed, "only reading tells"),
        ("damaged", status.damaged, "the tag is not what was written"),
        ("unknown", status.unknown, "the tag is of a later version of verisum"),
        ("untagged", status.untagged, untagged.as_str()),
        ("unreadable", counts.files(), ""),
    ];
    let total = status.current + status.outdated + status.resized + status.untimed;
    row(output, "tagged", total, &tagged)?;
    for (name, count, remark) in rows {
        if count > 0 {
            row(output, &format!("  {name}"), count, remark)?;
        }
    }
    for (digest, count) in &status.by_digest {
        row(output, digest, *count, "")?;
    }
    for (tool, count) in &status.adoptable {
        row(output, &format!("adoptable: {tool}"), *count, "")?;
    }
    if let Some(age) = older_than {
        row(
            output,
            &format!("older than {age}"),
            status.stale,
            "`verisum tags list --older-than` names them",
        )?;
    }
    if status.unverified > 0 {
        row(output, "never verified", status.unverified, "")?;
    }
    if let Some(oldest) = status.oldest {
        let days = Timestamp::now().seconds.saturating_sub(oldest.seconds).max(0) / 86_400;
        row(output, "oldest check", days.cast_unsigned(), "days ago")?;
    }
    Ok(())
}

fn row(output: &mut Output, name: &str, count: u64, remark: &str) -> Result<(), Failure> {
    output.sentence(format!("{name:<22}{count:>12}  {remark}").trim_end())
}

#[derive(Serialize)]
struct Json<'a> {
    current: u64,
    /// In the catalogue, not in the files.
    apart: u64,
    outdated: u64,
    resized: u64,
    untimed: u64,
    damaged: u64,
    unknown: u64,
    untagged: u64,
    unreadable: u64,
    tagged_bytes: u64,
    untagged_bytes: u64,
    by_digest: &'a BTreeMap<&'static str, u64>,
    adoptable: &'a BTreeMap<&'static str, u64>,
    unverified: u64,
    oldest_verified: Option<String>,
    /// Older than was asked for, if that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<u64>,
}

impl<'a> Json<'a> {
    fn new(status: &'a Status, counts: &Counts, is_aged: bool) -> Json<'a> {
        Json {
            current: status.current,
            apart: status.apart,
            outdated: status.outdated,
            resized: status.resized,
            untimed: status.untimed,
            damaged: status.damaged,
            unknown: status.unknown,
            untagged: status.untagged,
            unreadable: counts.files(),
            tagged_bytes: status.tagged_bytes,
            untagged_bytes: status.untagged_bytes,
            by_digest: &status.by_digest,
            adoptable: &status.adoptable,
            unverified: status.unverified,
            oldest_verified: status.oldest.map(Timestamp::to_rfc3339),
            stale: is_aged.then_some(status.stale),
        }
    }
}
