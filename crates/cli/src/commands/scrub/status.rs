//! `verisum catalog status`: lists the recorded trees, what is wrong in them, and the last runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use verisum::catalog::store::{Catalog, Lock, Moment, Run, UNLISTED};
use verisum::files::{FUTURE, Verdict};

use super::health::{Health, Limits, TreeStatus};
use super::results::Missing;
use super::{metrics, rehash, totals};
use crate::ui::catalog::{CatalogArgs, refuse_own, with_name};
use crate::ui::exit::{Exit, Service};
use crate::ui::export::{NO_STREAM, file};
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::progress::ProgressArgs;
use crate::ui::repair_commands::{Remedies, Remedy, RepairCommands};
use crate::ui::sizes::human;
use crate::ui::values::{self, UNFINISHED, counted, rough, verified_in_future, written};
use crate::ui::{self, Output, PROGRAM};

/// How many runs of each tree are listed.
const RUNS: usize = 5;

/// What `verisum catalog status` takes.
#[derive(Args, Debug)]
pub(crate) struct CatalogStatusArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    pub(super) progress: ProgressArgs,

    /// No verification may be older than this: 35d
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// Whether missing files are failures until you accept them
    #[arg(long, value_enum, value_name = "HOW", default_value = "warn")]
    missing: Missing,

    /// Print a line of JSON for each directory
    #[arg(long, conflicts_with = "nagios")]
    json: bool,

    /// Print one line for Nagios, and one for each of the first bad files below it
    #[arg(long)]
    nagios: bool,

    /// Write figures to this file for Prometheus's textfile collector
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        value_parser = file(NO_STREAM))]
    prometheus: Option<PathBuf>,
}

/// Prints the trees of a catalogue, and judges them if that is asked for.
pub(super) fn run(arguments: &CatalogStatusArgs, output: &mut Output) -> Result<Exit, Failure> {
    let max_age = values::optional_duration("--max-age", &arguments.max_age)?;
    let judged = judge(arguments, max_age, output);
    if let (Err(failure), Some(path)) = (&judged, &arguments.prometheus)
        && !matches!(failure, Failure::Output(_))
    {
        // Nothing is written over the catalogue, which is said already.
        let catalog = arguments.catalog.path();
        let told = catalog.and_then(|catalog| refuse_own(&catalog, path));
        if let Err(other) = told.and_then(|()| metrics::write_catalog_failure(path))
            && other.message() != failure.message()
        {
            ui::say(PROGRAM, &other.message());
        }
    }
    match judged {
        Err(failure) if arguments.nagios && !matches!(failure, Failure::Output(_)) => {
            output.line(&metrics::nagios_failure(&failure.message()))?;
            Ok(Exit::Nagios(Service::Unknown))
        }
        judged => judged,
    }
}

fn judge(
    arguments: &CatalogStatusArgs,
    max_age: Option<Duration>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let catalog = arguments.catalog.open_shared()?;
    if let Some(path) = &arguments.prometheus {
        refuse_own(catalog.path(), path)?;
    }
    // An output that fails must not hide what is wrong.
    let (health, printed) = catalog.at_one_moment(|| {
        let trees = status_of(&catalog, arguments, max_age)?;
        let printed = match arguments.nagios {
            true => Ok(()),
            false => print_all(&catalog, &trees, (arguments, max_age), output),
        };
        let limits = Limits {
            max_age,
            missing_fails: arguments.missing == Missing::Fail,
            names_bad: arguments.nagios,
        };
        let commands = RepairCommands::new(arguments.catalog.catalog.as_deref());
        Ok::<_, Failure>((Health::of(&catalog, &commands, trees, limits)?, printed))
    })?;
    let is_judged = max_age.is_some() || arguments.prometheus.is_some() || arguments.missing == Missing::Fail;
    let exit = match arguments.nagios {
        true => Exit::Nagios(health.service()),
        false if is_judged => health.exit(),
        false => Exit::Clean,
    };
    output.judged(exit);
    if let Some(path) = &arguments.prometheus {
        match metrics::write(path, &health.prometheus()) {
            Err(failure) if health.exit() == Exit::Mismatch => ui::say(PROGRAM, &failure.message()),
            written => written?,
        }
    }
    printed?;
    if arguments.nagios {
        output.line(&health.nagios())?;
    }
    Ok(exit)
}

/// How it is with each tree. Each fact that takes a pass over all records is read once.
fn status_of(
    catalog: &Catalog,
    arguments: &CatalogStatusArgs,
    max_age: Option<Duration>,
) -> Result<Vec<TreeStatus>, Failure> {
    let now = Moment::now();
    let mut surveys = catalog.survey(now + FUTURE)?;
    let commands = RepairCommands::new(arguments.catalog.catalog.as_deref());
    let mut remedies = Remedies::new(catalog, &commands);
    // A line for Nagios tells nothing of what mends a whole tree.
    let has_remedies = !arguments.nagios || arguments.prometheus.is_some();
    let mut trees = Vec::new();
    for root in catalog.roots()? {
        let survey = surveys.remove(&root.id).unwrap_or_default();
        trees.push(TreeStatus {
            runs: catalog.runs(root.id, RUNS)?,
            is_late: max_age.map(|most| survey.oldest.is_some_and(|oldest| now - oldest > most)),
            survey,
            remedy: if has_remedies { remedies.of(&root)? } else { None },
            root,
        });
    }
    Ok(trees)
}

/// Prints each tree, and what they come to.
fn print_all(
    catalog: &Catalog,
    trees: &[TreeStatus],
    (arguments, max_age): (&CatalogStatusArgs, Option<Duration>),
    output: &mut Output,
) -> Result<(), Failure> {
    // One goes on at a time, and it is the last that was begun.
    let last = trees.iter().flat_map(|tree| &tree.runs).map(|run| run.id).max();
    let goes_on = last.filter(|_| Lock::is_taken(catalog.path()));
    for tree in trees {
        match arguments.json {
            true => output.json("tree", &line(catalog, tree, goes_on)?)?,
            false => print(catalog, tree, (goes_on, max_age), output)?,
        }
    }
    if trees.len() > 1 && !arguments.json {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for tree in trees {
            for (state, count) in &tree.survey.troubles {
                *sums.entry(state.name()).or_default() += count;
            }
        }
        let sums: String = sums.iter().map(|(name, count)| format!(", {name} {count}")).collect();
        output.sentence(&format!("in all: {}{sums}", totals(trees.iter().map(|tree| &tree.root))))?;
    }
    Ok(())
}

fn print(
    catalog: &Catalog,
    TreeStatus { root, runs, survey, is_late, remedy }: &TreeStatus,
    (goes_on, max_age): (Option<i64>, Option<Duration>),
    output: &mut Output,
) -> Result<(), Failure> {
    let path = names::quoted(root.path.as_os_str());
    output.line(&format!("{path}: {}, {}", counted(root.files, "file"), human(root.bytes)))?;
    for (state, count) in &survey.troubles {
        output.line(&format!("  {}: {count}", state.name()))?;
    }
    if let Some(remedy) = remedy {
        output.sentence(&format!("  {}", remedy.text()))?;
    }
    let repairs = catalog.repairs(root.id)?;
    if let Some(last) = repairs.last {
        let files = counted(repairs.count, "file");
        let list = "`verisum catalog list --repaired` lists them";
        output.sentence(&format!("  repaired: {files}, the last one {} ({list})", written(last)))?;
    }
    if let Some(oldest) = survey.oldest {
        let when = oldest.known().map_or("never".to_string(), written);
        output.sentence(&format!("  stalest verification: {when}"))?;
    }
    if survey.future > 0 {
        output.sentence(&format!("  {}", verified_in_future(survey.future)))?;
    }
    if let Some(most) = max_age.filter(|_| *is_late == Some(true)) {
        let most = rough(most);
        output.sentence(&format!("  late: the stalest verification is older than {most} (--max-age)"))?;
    }
    if survey.is_unfinished {
        output.sentence(&format!("  {UNFINISHED}"))?;
    }
    if let Some(to) = catalog.rehash_target()?.filter(|_| !root.is_remote()) {
        output.sentence(&format!("  {}", rehash::left(catalog, Some(root.id), &to)?))?;
    }
    for run in runs {
        let mut line = format!("  run of {}: ", written(run.started));
        line.push_str(match run.how(goes_on == Some(run.id)) {
            "interrupted" => "was interrupted",
            "killed" => "was killed",
            "incomplete" => "not all that was due",
            other => other,
        });
        if let Some(error) = &run.error {
            line.push_str(&format!(" ({})", names::plain(error)));
        }
        if run.finished.is_some() {
            let files = counted(run.read_files, "file");
            line.push_str(&format!(", read {files}, {}", human(run.read_bytes)));
            let counts = counts(run);
            if !counts.is_empty() {
                line.push_str(&format!("; {}", counts.join(", ")));
            }
        }
        output.sentence(&line)?;
    }
    Ok(())
}

/// How many files had each verdict in a run, in the order of reports, and how many could not be looked at.
fn counts(run: &Run) -> Vec<String> {
    let counts = run.verdicts();
    let of = |name: &str| counts.get(name).copied();
    let counted = Verdict::ALL.iter().filter_map(|verdict| Some((verdict.name(), of(verdict.name())?)));
    let unlisted = of(UNLISTED).map(|count| ("not looked at", count));
    counted.chain(unlisted).map(|(name, count)| format!("{name} {count}")).collect()
}

fn line(
    catalog: &Catalog,
    TreeStatus { root, runs, survey, is_late, remedy }: &TreeStatus,
    goes_on: Option<i64>,
) -> Result<Value, Failure> {
    let troubles = survey.troubles.iter().map(|(state, count)| (state.name().to_string(), (*count).into()));
    let troubles: serde_json::Map<_, _> = troubles.collect();
    let runs: Vec<Value> = runs
        .iter()
        .map(|run| {
            json!({
                "started": run.started,
                "finished": run.finished,
                "outcome": run.how(goes_on == Some(run.id)).replace(' ', "-"),
                "error": run.error,
                "seconds": run.seconds,
                "read_files": run.read_files,
                "read_bytes": run.read_bytes,
                "counts": serde_json::from_str(&run.counts).unwrap_or(Value::Null),
            })
        })
        .collect();
    let rehash = match catalog.rehash_target()?.filter(|_| !root.is_remote()) {
        Some(to) => {
            let counts = catalog.files_by_algorithm(Some(root.id))?;
            let left: u64 = counts.iter().filter(|(name, _)| *name != to).map(|(_, count)| count).sum();
            Some(json!({ "to": to, "left": left }))
        }
        None => None,
    };
    let repairs = catalog.repairs(root.id)?;
    let line = json!({
        "repaired": { "count": repairs.count, "last": repairs.last.and_then(Moment::known) },
        "files": root.files,
        "bytes": root.bytes,
        "troubles": troubles,
        "repair": remedy.as_ref().map(Remedy::json),
        "stalest_verification": survey.oldest.and_then(Moment::known),
        "verified_in_future": survey.future,
        "late": is_late,
        "unfinished": survey.is_unfinished,
        "rehash": rehash,
        "runs": runs,
    });
    Ok(with_name(line, &root.path))
}
