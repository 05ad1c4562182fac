//! Prints findings and totals, as text and as JSON.

use serde::Serialize;
use serde_json::{Value, json};
use verisum::parity::{FileVerdict, Finding, Made, ParityFileVerdict, ParityRepairSummary, Verified};

use super::ParityTreeArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::{Failure, tree_message};
use crate::ui::hosts::Costs;
use crate::ui::names::{self, Name};
use crate::ui::parity::damage;
use crate::ui::repair_report::not_kept;
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{self, Output, PROGRAM};

/// Says findings as they come.
pub(super) struct ParityReporter<'a> {
    json: bool,
    /// Whether only problems are said. JSON has all.
    quiet: bool,
    /// Whether files, and parity, that can be repaired are no failure, as in a dry run.
    foretells: (bool, bool),
    /// Whether the parity is PAR2 files, which stay as they are.
    is_par2: bool,
    output: &'a mut Output,
    exit: Exit,
    failure: Option<Failure>,
}

/// A finding in JSON.
#[derive(Serialize)]
struct ParityLine {
    #[serde(flatten)]
    name: Name,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    can_be_repaired: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_sets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The last line of a run.
pub(super) struct ParityTotals {
    text: String,
    json: Value,
}

impl<'a> ParityReporter<'a> {
    pub(super) fn new(tree: &ParityTreeArgs, output: &'a mut Output) -> ParityReporter<'a> {
        ParityReporter {
            json: tree.json,
            quiet: tree.quiet && !tree.json,
            foretells: (false, false),
            is_par2: false,
            output,
            exit: Exit::Clean,
            failure: None,
        }
    }

    /// Says of the parity that it is PAR2 files, if it is.
    pub(super) fn of_par2(self, is_par2: bool) -> Self {
        Self { is_par2, ..self }
    }

    /// Takes files, and parity, that can be repaired for good: a repair would make them so.
    pub(super) fn foretelling(self, files: bool, parity: bool) -> Self {
        Self { foretells: (files, parity), ..self }
    }

    /// Says a finding. An output that fails is told at the end.
    pub(super) fn take(&mut self, finding: Finding) {
        let will_be_good = match &finding {
            Finding::File(file) => self.foretells.0 && file.verdict.can_be_repaired(),
            Finding::Parity(parity) => {
                self.foretells.1 && matches!(parity.verdict, ParityFileVerdict::Damaged { .. })
            }
            _ => false,
        };
        let (exit, told) = match finding {
            Finding::Unseen(error) => {
                ui::say(PROGRAM, &tree_message(&error));
                self.exit = self.exit.max(Exit::Unchecked);
                return;
            }
            Finding::File(file) => of_file(Name::new(&file.path), &file.path, file.verdict),
            Finding::Parity(parity) => of_parity(&parity.path, parity.verdict, self.is_par2),
            // What a later version of the library finds.
            other => {
                ui::say(PROGRAM, &names::plain(&format!("{other:?}")));
                self.exit = self.exit.max(Exit::Unchecked);
                return;
            }
        };
        let exit = if will_be_good { Exit::Clean } else { exit };
        self.exit = self.exit.max(exit);
        self.output.found(exit);
        let printed = match self.json {
            true => self.output.json(told.kind, &told.line),
            false if self.quiet && exit == Exit::Clean => Ok(()),
            false => {
                let start = told.text.len() - told.tail;
                self.output.outcome(&told.text, start..start + told.line.outcome.len(), exit)
            }
        };
        self.failure = self.failure.take().or(printed.err());
    }

    /// Says the totals, what a store was asked for, and how the run ended.
    pub(super) fn end(self, totals: &ParityTotals, costs: Option<Costs>) -> Result<Exit, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match self.json {
            _ if self.quiet => return Ok(self.exit),
            true => self.output.json("summary", &totals.json)?,
            false => self.output.line(&totals.text)?,
        }
        match costs {
            Some(costs) if self.json => self.output.json("costs", &costs)?,
            Some(costs) => ui::say(PROGRAM, &costs.text()),
            None => {}
        }
        Ok(self.exit)
    }
}

/// A finding as text and as JSON.
struct ToldFinding {
    text: String,
    /// How many bytes of it stand after the path.
    tail: usize,
    /// `file`, or `parity` for a file of the parity itself.
    kind: &'static str,
    line: ParityLine,
}

fn of_file(name: Name, path: &std::path::Path, verdict: FileVerdict) -> (Exit, ToldFinding) {
    let outcome = verdict.name();
    let mut line =
        ParityLine { name, outcome, bytes: None, can_be_repaired: None, unread_sets: None, error: None };
    let able = |can: bool| if can { "can be repaired" } else { "too much is lost to repair it" };
    let (exit, rest) = match verdict {
        FileVerdict::Damaged { bytes, can_be_repaired } => {
            (line.bytes, line.can_be_repaired) = (Some(bytes), Some(can_be_repaired));
            (Exit::Mismatch, format!(" ({}; {})", human(bytes), able(can_be_repaired)))
        }
        FileVerdict::Missing { can_be_repaired } => {
            line.can_be_repaired = Some(can_be_repaired);
            (Exit::Mismatch, format!(" ({})", able(can_be_repaired)))
        }
        FileVerdict::Changed => (Exit::Unchecked, " (`update` gives it new parity)".to_string()),
        FileVerdict::Touched => (Exit::Clean, " (same bytes, another time)".to_string()),
        FileVerdict::Busy => (Exit::Unchecked, " (it changes while it is read)".to_string()),
        FileVerdict::Repaired { bytes, kept_unread, unread_sets, .. } => {
            (line.bytes, line.unread_sets) = (Some(bytes), Some(unread_sets).filter(|sets| *sets > 0));
            let not_kept = not_kept(kept_unread).map_or(String::new(), |what| format!("; {what}"));
            let (named, not_read) = match unread_sets {
                0 => ("", String::new()),
                sets => (" in the named sets", format!("; it has {sets} more, which were not read")),
            };
            (Exit::Clean, format!("{named} ({} from parity{not_read}{not_kept})", human(bytes)))
        }
        FileVerdict::Finished { bytes, .. } => {
            line.bytes = Some(bytes);
            (Exit::Clean, format!(" (a repair in place of {} was interrupted at its end)", human(bytes)))
        }
        FileVerdict::Unreadable(error) => {
            let reason = tree_message(&error);
            line.error = Some(reason.clone());
            (Exit::Unchecked, format!(" ({reason})"))
        }
        FileVerdict::NotRepaired(error) => {
            let reason = Failure::from(error).message();
            line.error = Some(reason.clone());
            (Exit::Mismatch, format!(" ({reason})"))
        }
        // What a later version of the library finds.
        _ => (Exit::Unchecked, String::new()),
    };
    (
        exit,
        ToldFinding {
            text: text(path, outcome, &rest),
            tail: outcome.len() + rest.len(),
            kind: "file",
            line,
        },
    )
}

fn of_parity(path: &std::path::Path, verdict: ParityFileVerdict, is_par2: bool) -> (Exit, ToldFinding) {
    let name = Name::new(path);
    let (exit, rest) = match verdict {
        ParityFileVerdict::Damaged { blocks, of } if is_par2 => {
            let what = match blocks {
                0 => "bytes in it are no part of PAR2".to_string(),
                blocks => format!("{blocks} of {of} recovery blocks"),
            };
            (Exit::Mismatch, format!(" ({what}; `repair` leaves PAR2 files as they are)"))
        }
        ParityFileVerdict::Damaged { .. } | ParityFileVerdict::Lost | ParityFileVerdict::IndexLost => {
            (Exit::Mismatch, format!(" ({})", damage(verdict)))
        }
        ParityFileVerdict::Repaired => (Exit::Clean, String::new()),
        ParityFileVerdict::NotRepaired => {
            (Exit::Mismatch, " (run update, once its files are well)".to_string())
        }
        _ => (Exit::Unchecked, String::new()),
    };
    let outcome = verdict.name();
    let line =
        ParityLine { name, outcome, bytes: None, can_be_repaired: None, unread_sets: None, error: None };
    (
        exit,
        ToldFinding {
            text: text(path, outcome, &rest),
            tail: outcome.len() + rest.len(),
            kind: "parity",
            line,
        },
    )
}

/// A finding in words.
fn text(path: &std::path::Path, outcome: &str, rest: &str) -> String {
    format!("{}: {}{rest}", names::quoted(path.as_os_str()), outcome.replace('-', " "))
}

/// The totals of `create` and `update`.
pub(super) fn made_totals(made: &Made) -> ParityTotals {
    let of_files = match (made.new, made.changed, made.gone) {
        (new, 0, 0) if new == made.files => String::new(),
        (new, changed, gone) => format!(" ({new} new, {changed} changed, {gone} gone)"),
    };
    ParityTotals {
        text: format!(
            "{}, {}{of_files}: {} written, {}; {} kept",
            counted(made.files, "file"),
            human(made.data),
            counted(made.sets_written, "set"),
            human(made.written),
            made.sets_kept
        ),
        json: json!({
            "files": made.files,
            "bytes": made.data,
            "new": made.new,
            "changed": made.changed,
            "gone": made.gone,
            "sets_written": made.sets_written,
            "sets_kept": made.sets_kept,
            "bytes_written": made.written,
            "sets_lost": made.sets_lost,
        }),
    }
}

/// How many sets are named at most.
const NAMED_SETS: usize = 50;

/// The counts that are not zero, in words.
fn notable(counts: &[(u64, &str)]) -> String {
    let said: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    match said.is_empty() {
        true => "all as recorded".to_string(),
        false => said.join(", "),
    }
}

/// The totals of `verify`. If something `can_be_repaired`, they name the sets that it is in.
pub(super) fn verified_totals(found: &Verified, can_be_repaired: bool) -> ParityTotals {
    let counts = notable(&[
        (found.damaged, "damaged"),
        (found.missing, "missing"),
        (found.beyond_repair, "beyond repair"),
        (found.changed, "changed"),
        (found.touched, "touched"),
        (found.unreadable, "unreadable"),
        (found.parity_damaged, "damaged of the parity"),
    ]);
    let mut text = format!("{}, {}: {counts}", counted(found.files, "file"), human(found.bytes));
    // The shortest way to repair, unless much is bad.
    if let bad @ 1..=NAMED_SETS = found.bad_sets.len()
        && bad * 2 <= found.sets as usize
        && can_be_repaired
    {
        let sets: Vec<String> = found.bad_sets.iter().map(u64::to_string).collect();
        text += &format!(" (with `--sets {}`, the repair reads only what is bad)", sets.join(","));
    }
    ParityTotals {
        text,
        json: json!({
            "files": found.files,
            "bytes": found.bytes,
            "damaged": found.damaged,
            "missing": found.missing,
            "beyond_repair": found.beyond_repair,
            "changed": found.changed,
            "touched": found.touched,
            "unreadable": found.unreadable,
            "parity_damaged": found.parity_damaged,
            "parity_lost": found.parity_lost,
            "bad_sets": found.bad_sets,
        }),
    }
}

/// The totals of `repair`.
pub(super) fn repaired_totals(done: &ParityRepairSummary, dry_run: bool) -> ParityTotals {
    let (file, parity) = match dry_run {
        true => ("can be repaired", "of the parity can be repaired"),
        false => ("repaired", "of the parity repaired"),
    };
    let counts = notable(&[
        (done.repaired, file),
        (done.not_repaired, "not repaired"),
        (done.changed, "changed"),
        (done.unreadable, "unreadable"),
        (done.parity_repaired, parity),
        (done.parity_damaged, "damaged of the parity"),
    ]);
    ParityTotals {
        text: format!("{}: {counts}", counted(done.sets, "set")),
        json: json!({
            "dry_run": dry_run,
            "sets": done.sets,
            "repaired": done.repaired,
            "not_repaired": done.not_repaired,
            "changed": done.changed,
            "unreadable": done.unreadable,
            "parity_repaired": done.parity_repaired,
            "parity_damaged": done.parity_damaged,
        }),
    }
}
