//! Exports of the catalogue to a lake, and the formats of exports.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::json;
use verisum::catalog::store::Catalog;
use verisum::files::store::manifest::ListFormat;
use verisum::files::{Stop, Timestamp};
use verisum::lake::LakeExport;

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::json::Outcome;
use crate::ui::values::counted;
use crate::ui::{self, Output, PROGRAM, names};

/// What an export is written as.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExportFormat {
    List(ListFormat),
    Parquet,
}

impl ValueEnum for ExportFormat {
    fn value_variants<'a>() -> &'a [ExportFormat] {
        const ALL: [ExportFormat; ListFormat::ALL.len() + 1] = {
            let mut all = [ExportFormat::Parquet; ListFormat::ALL.len() + 1];
            let mut at = 0;
            while at < ListFormat::ALL.len() {
                all[at] = ExportFormat::List(ListFormat::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            ExportFormat::List(format) => format.to_possible_value(),
            ExportFormat::Parquet => Some(
                PossibleValue::new("parquet").help("Parquet files in a directory, for DuckDB and others"),
            ),
        }
    }
}

/// Writes to a lake what changed since the last time, and says how much that was.
pub(super) fn export(
    catalog: &Catalog,
    lake: Option<&PathBuf>,
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let lake = lake.ok_or_else(|| Failure::Usage("--format parquet: needs a directory".to_string()))?;
    catalog.require_complete()?;
    let exported = verisum::lake::export(catalog, lake, Timestamp::now(), &Stop::default())?;
    let LakeExport { changed, gone, unchanged, damaged } = exported;
    let text = format!("{changed} new or changed, {gone} gone, {unchanged} as before");
    let counts = json!({ "changed": changed, "gone": gone, "unchanged": unchanged, "damaged": damaged });
    output.summary(json, Some(&text), &Outcome::of(lake, "exported", counts))?;
    if damaged == 0 {
        return Ok(Exit::Clean);
    }
    let path = names::quoted(catalog.path().as_os_str());
    ui::say(PROGRAM, &format!("{path}: export: {} left out", counted(damaged, "damaged record")));
    Ok(Exit::Unchecked)
}
