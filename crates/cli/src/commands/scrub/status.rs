//! `verisum catalog status`: what is recorded, what is wrong, and how the last runs went.

use serde_json::{Value, json};
use verisum::catalog::store::{Catalog, Lock, Root, Run, UNLISTED};
use verisum::files::Verdict;

use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, with_name};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::sizes::human;
use crate::ui::values::{counted, written};

/// How many runs of each tree are listed.
const RUNS: usize = 5;

/// Prints the trees of a catalogue.
pub(super) fn status(catalog: &CatalogArgs, json: bool, output: &mut Output) -> Result<Exit, Failure> {
    let catalog = catalog.open_shared()?;
    catalog.at_one_moment(|| status_of(&catalog, json, output))
}

fn status_of(catalog: &Catalog, json: bool, output: &mut Output) -> Result<Exit, Failure> {
    catalog.require_complete()?;
    let roots = catalog.roots()?;
    let mut runs = Vec::with_capacity(roots.len());
    for root in &roots {
        runs.push(catalog.runs(root.id, RUNS)?);
    }
    // One goes on at a time, and it is the last that was begun.
    let last = runs.iter().flatten().map(|run| run.id).max();
    let goes_on = last.filter(|_| Lock::is_taken(catalog.path()));
    for (root, runs) in roots.iter().zip(&runs) {
        match json {
            true => output.json(&line(catalog, root, runs, goes_on)?)?,
            false => print(catalog, root, runs, goes_on, output)?,
        }
    }
    Ok(Exit::Clean)
}

fn print(
    catalog: &Catalog,
    root: &Root,
    runs: &[Run],
    goes_on: Option<i64>,
    output: &mut Output,
) -> Result<(), Failure> {
    let path = names::quoted(root.path.as_os_str());
    output.line(&format!("{path}: {}, {}", counted(root.files, "file"), human(root.bytes)))?;
    for (state, count) in catalog.troubles(root.id)? {
        output.line(&format!("  {}: {count}", state.name()))?;
    }
    if let Some(oldest) = catalog.oldest(root.id)? {
        let when = if oldest == 0 { "never".to_string() } else { written(oldest) };
        output.line(&format!("  stalest verification: {when}"))?;
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
        output.line(&line)?;
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

fn line(catalog: &Catalog, root: &Root, runs: &[Run], goes_on: Option<i64>) -> Result<Value, Failure> {
    let troubles: serde_json::Map<_, _> = catalog
        .troubles(root.id)?
        .into_iter()
        .map(|(state, count)| (state.name().to_string(), count.into()))
        .collect();
    let runs: Vec<Value> = runs
        .iter()
        .map(|run| {
            json!({
                "started_ms": run.started,
                "finished_ms": run.finished,
                "how": run.how(goes_on == Some(run.id)),
                "error": run.error,
                "seconds": run.seconds,
                "read_files": run.read_files,
                "read_bytes": run.read_bytes,
                "counts": serde_json::from_str(&run.counts).unwrap_or(Value::Null),
            })
        })
        .collect();
    let line = json!({
        "files": root.files,
        "bytes": root.bytes,
        "troubles": troubles,
        "stalest_verification_ms": catalog.oldest(root.id)?,
        "runs": runs,
    });
    Ok(with_name(line, &root.path))
}
