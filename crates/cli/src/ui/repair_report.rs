//! The report of a repair, from copies or parity: a line for each file, and the totals, as text or JSON.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verisum::catalog::store::{State, Trouble};
use verisum::files::VerdictClass;
use verisum::mend::repair::{RepairOutcome, RepairSummary, Repaired};

use crate::ui::catalog::with_name;
use crate::ui::exit::Exit;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::names::{self, Name};
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{Output, digests, progress};

/// Prints what became of each file, and keeps the worst of it.
pub(crate) struct RepairReport<'o> {
    /// What JSON calls the line of a file and that of the totals.
    types: [&'static str; 2],
    json: bool,
    /// Whether only what could not be repaired is printed.
    quiet: bool,
    output: &'o mut Output,
    /// How many records could not be read, and so nothing was compared with them.
    not_compared: u64,
    worst: Exit,
    printed: Result<(), Failure>,
}

impl<'o> RepairReport<'o> {
    pub(crate) fn new(
        types: [&'static str; 2],
        json: bool,
        quiet: bool,
        output: &'o mut Output,
    ) -> RepairReport<'o> {
        let (worst, printed) = (Exit::Clean, Ok(()));
        RepairReport { types, json, quiet, output, not_compared: 0, worst, printed }
    }

    /// Takes note of records that could not be read, which were told.
    pub(crate) fn not_compared(&mut self, count: u64) {
        self.not_compared += count;
        if count > 0 {
            self.worst = self.worst.max(Exit::Unchecked);
        }
    }

    pub(crate) fn file(&mut self, file: &Repaired) {
        progress::steps_done(1);
        let exit = exit(file);
        self.worst = self.worst.max(exit);
        if self.printed.is_err() || self.quiet && exit == Exit::Clean && !self.json {
            return;
        }
        self.printed = match self.json {
            true => self.output.json(self.types[0], &line(file)),
            false => self.output.told(&told(file), 0..file.outcome.name().len(), exit),
        };
        if self.printed.is_ok() {
            self.printed = self.output.flush();
        }
    }

    /// Prints the totals, and returns the worst that is left.
    pub(crate) fn end(self, summary: &RepairSummary, dry: bool) -> Result<Exit, Failure> {
        self.output.found(self.worst);
        self.printed?;
        if self.json {
            self.output.json(self.types[1], &summary_line(summary))?;
        } else if !self.quiet {
            self.output.line(&summary_text(summary, self.not_compared, dry))?;
        }
        Ok(self.worst)
    }
}

/// What a file that was to be repaired means for the end of the run.
fn exit(file: &Repaired) -> Exit {
    let is_good = matches!(
        file.outcome,
        RepairOutcome::Repaired { .. }
            | RepairOutcome::Mendable { needs_keep_bad: false, .. }
            | RepairOutcome::Sound
    );
    match file.state {
        _ if is_good => Exit::Clean,
        State::Trouble(Trouble::Verdict(verdict)) if verdict.class() == VerdictClass::Corrupt => {
            Exit::Mismatch
        }
        _ => Exit::Unchecked,
    }
}

fn told(file: &Repaired) -> FactLine {
    let shown = |path: &Path| names::quoted(path.as_os_str());
    let givers = |first: &PathBuf, others: &[PathBuf]| {
        let from: Vec<_> = std::iter::once(first).chain(others).map(|from| shown(from)).collect();
        format!("from {}", from.join(" and "))
    };
    let mut facts = vec![format!("was {}", file.state.name())];
    match &file.outcome {
        RepairOutcome::Repaired { from, bytes, other_names, has_usual_permissions, also_from } => {
            facts.push(givers(from, also_from));
            facts.push(taken(file, *bytes));
            facts.push(format!("{} {} read back", file.algorithm, digest(file)));
            if *has_usual_permissions {
                facts.push("its permissions are those of a new file".to_string());
            }
            if *other_names > 0 {
                facts.push(format!("{} elsewhere keep the bad content", counted(*other_names, "more name")));
            }
            facts.extend(not_kept(file.kept_unread));
        }
        RepairOutcome::Mendable { from, bytes, needs_keep_bad, also_from } => {
            facts.push(givers(from, also_from));
            facts.push(taken(file, *bytes));
            if *needs_keep_bad {
                facts.push("needs --keep-bad".to_string());
            }
        }
        RepairOutcome::Sound => facts.push("it is as recorded now".to_string()),
        RepairOutcome::NoSource { tried } if tried.is_empty() => {
            facts.push("no copy of it is known".to_string())
        }
        RepairOutcome::NoSource { tried } => {
            facts.extend(
                tried
                    .iter()
                    .map(|(path, why)| format!("{}: {}", shown(path), names::plain(&why.to_string()))),
            );
        }
        RepairOutcome::Refused(why) => facts.push(names::plain(&why.to_string())),
        RepairOutcome::Failed(why) => facts.push(names::plain(&why.to_string())),
    }
    if !file.bad_copies.is_empty() {
        let copies: Vec<_> = file.bad_copies.iter().map(|copy| shown(copy)).collect();
        facts.push(format!("not as recorded either: {}", copies.join(" and ")));
    }
    FactLine { what: format!("{:<12}  {}", file.outcome.name(), shown(&file.path)), facts }
}

/// What is not in the copy that is kept of a bad file, if it is not whole.
pub(crate) fn not_kept(unread: u64) -> Option<String> {
    (unread > 0).then(|| {
        let bytes = counted(unread, "byte");
        format!("{bytes} of the kept copy could not be read and are zeros")
    })
}

/// What a file takes from a copy.
fn taken(file: &Repaired, bytes: u64) -> String {
    match bytes {
        0 if file.size != Some(0) => "linked to another name of it".to_string(),
        bytes => human(bytes),
    }
}

/// The recorded digest.
fn digest(file: &Repaired) -> String {
    digests::shown(&file.algorithm, &file.recorded, file.size)
}

fn line(file: &Repaired) -> Value {
    let mut line = json!({
        "outcome": file.outcome.name(),
        "was": file.state.name(),
        "algorithm": file.algorithm,
        "digest": digest(file),
        "size": file.size,
    });
    match &file.outcome {
        RepairOutcome::Repaired { from, bytes, other_names, has_usual_permissions, also_from } => {
            line["also_from"] = also_from.iter().map(|from| json!(Name::new(from))).collect();
            line["usual_permissions"] = (*has_usual_permissions).into();
            line["from"] = json!(Name::new(from));
            line["bytes"] = (*bytes).into();
            line["other_names"] = (*other_names).into();
            line["kept_unread"] = file.kept_unread.into();
        }
        RepairOutcome::Mendable { from, bytes, needs_keep_bad, also_from } => {
            line["also_from"] = also_from.iter().map(|from| json!(Name::new(from))).collect();
            line["needs_keep_bad"] = (*needs_keep_bad).into();
            line["from"] = json!(Name::new(from));
            line["bytes"] = (*bytes).into();
        }
        RepairOutcome::NoSource { tried } => {
            let tried = tried.iter().map(|(path, why)| with_name(json!({ "error": why.to_string() }), path));
            line["tried"] = tried.collect();
        }
        RepairOutcome::Refused(why) => line["error"] = why.to_string().into(),
        RepairOutcome::Failed(why) => line["error"] = why.to_string().into(),
        RepairOutcome::Sound => {}
    }
    if let RepairOutcome::Repaired { .. } | RepairOutcome::Mendable { .. } = file.outcome {
        line["bad_copies"] = file.bad_copies.iter().map(|copy| json!(Name::new(copy))).collect();
    }
    with_name(line, &file.path)
}

fn summary_text(summary: &RepairSummary, not_compared: u64, dry: bool) -> String {
    let mut facts = Vec::new();
    if summary.repaired + summary.mendable > 0 {
        let done = if dry { "could be repaired" } else { "repaired" };
        let files = counted(summary.repaired + summary.mendable, "file");
        facts.push(format!("{files} {done} ({})", human(summary.bytes)));
    }
    let count = |count, what: &str| (count > 0).then(|| format!("{count} {what}"));
    facts.extend(count(summary.sound, "as recorded now"));
    facts.extend(count(summary.without_source, "without a good copy"));
    facts.extend(count(summary.left, "left alone"));
    facts.extend(count(not_compared, "not compared"));
    if facts.is_empty() {
        facts.push("nothing to repair".to_string());
    }
    if summary.interrupted {
        facts.push("interrupted".to_string());
    }
    facts.join(", ")
}

fn summary_line(summary: &RepairSummary) -> Value {
    json!({
        "repaired": summary.repaired,
        "mendable": summary.mendable,
        "ok": summary.sound,
        "no_source": summary.without_source,
        "left": summary.left,
        "bytes": summary.bytes,
        "interrupted": summary.interrupted,
    })
}
