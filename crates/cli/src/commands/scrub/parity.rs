//! Verifies the parity of trees that were scrubbed, which has digests of its own and no records.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verisum::catalog::scrub::{ScrubOptions, ScrubSummary};
use verisum::catalog::store::Catalog;
use verisum::parity::{Finding, ParityFileVerdict, verify_parity};

use crate::ui::catalog::with_name;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::parity::{NamedParity, damage};
use crate::ui::shell;

/// A damaged file of parity.
pub(super) struct DamagedParity {
    path: PathBuf,
    verdict: ParityFileVerdict,
    /// The command that mends it.
    mend: String,
}

impl DamagedParity {
    pub(super) fn told(&self) -> FactLine {
        let what = format!("{:<12}  {}", self.verdict.name(), names::quoted(self.path.as_os_str()));
        FactLine { what, facts: vec![damage(self.verdict), format!("mend it: {}", self.mend)] }
    }

    pub(super) fn word(&self) -> Range<usize> {
        0..self.verdict.name().len()
    }

    pub(super) fn line(&self) -> Value {
        with_name(json!({ "outcome": self.verdict.name(), "mend": self.mend }), &self.path)
    }

    /// For Nagios, which shows nothing after a `|`.
    pub(super) fn line_without_pipes(&self) -> String {
        let path = names::quoted_without_pipes(self.path.as_os_str());
        format!("{} {path}; mend it: {}", self.verdict.name(), shell::without_pipes(&self.mend))
    }
}

/// Verifies the parity in a tree, and what was named for it: all of it where all files were due, or else as large a part as
/// was read of the files. Tells what is damaged, and which parity could not be verified.
pub(super) fn verify(
    catalog: &Catalog,
    options: &ScrubOptions,
    summary: &ScrubSummary,
    named: Option<&NamedParity>,
    report: &mut dyn FnMut(Result<DamagedParity, Failure>),
) {
    let named = named.filter(|named| named.tree == summary.root);
    let named = named.map(|named| (&named.tree, Some(&*named.place)));
    let all: Vec<_> = summary.parity.iter().map(|top| (top, None)).chain(named).collect();
    if all.is_empty() {
        return;
    }
    let rounds = match rounds(catalog, options, summary) {
        Ok(rounds) => rounds,
        Err(failure) => return report(Err(failure)),
    };
    let limits = (options.limits.as_deref(), &*options.stop);
    for (top, place) in all {
        let verified = verify_parity(top, place, rounds.clone(), limits, &mut |finding| {
            if let Finding::Parity(found) = finding {
                let mend = mend_command(top, place, found.verdict);
                report(Ok(DamagedParity { path: found.path, verdict: found.verdict, mend }));
            }
        });
        if let Err(error) = verified
            && !options.stop.is_due()
        {
            report(Err(error.into()));
        }
    }
}

/// Which part of the parity a run verifies, in rounds through all of it. Together, all runs verify as much of the parity
/// as they read of the files: each goes on where the last one ended.
fn rounds(catalog: &Catalog, options: &ScrubOptions, summary: &ScrubSummary) -> Result<Range<f64>, Failure> {
    let is_in_part = options.budget.is_some() || options.sample < 1.0;
    if !is_in_part && options.since.is_none() && options.max_age.is_none() {
        return Ok(0.0..1.0);
    }
    let of_tree = |bytes: u64| bytes as f64 / summary.bytes.max(1) as f64;
    let root = catalog.root_of(&summary.root)?;
    Ok(match root.map(|root| catalog.read_by_runs(root.id)).transpose()?.flatten() {
        Some(read) => of_tree(read.saturating_sub(summary.hashed_bytes))..of_tree(read),
        None => {
            let start = fastrand::f64();
            start..start + of_tree(summary.hashed_bytes)
        }
    })
}

fn mend_command(top: &Path, place: Option<&Path>, verdict: ParityFileVerdict) -> String {
    let word = |path: &Path| shell::word(path.as_os_str().as_encoded_bytes());
    let verb = match verdict {
        ParityFileVerdict::Lost | ParityFileVerdict::IndexLost => "update",
        _ => "repair",
    };
    let to = place.map_or(String::new(), |place| format!("--to {} ", word(place)));
    format!("verisum parity {verb} {to}{}", word(top))
}
