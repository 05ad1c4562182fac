//! `verisum dirhash hash`: prints the hashes of names.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use serde::Serialize;
use verisum_bench::export::{Cell, Report, Table};

use super::options::{self, NameHashOptions};
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::export::ExportOptions;
use crate::ui::failure::Failure;
use crate::ui::{self, Output, names};

/// What `verisum dirhash hash` takes.
#[derive(Args, Debug)]
pub(crate) struct HashArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    /// Print a line of JSON for each name
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(super) files: ExportOptions,

    /// The names to hash; such files need not exist
    #[arg(value_name = "NAME", required = true)]
    names: Vec<OsString>,
}

#[derive(Serialize)]
struct NameHashLine<'a> {
    hash: &'a str,
    /// Where it is not UTF-8, with U+FFFD for what is not.
    name: Cow<'a, str>,
    /// All its bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes_hex: Option<String>,
    value: String,
    minor: Option<String>,
}

/// In bytes: the longest name that a file system takes.
const LONGEST_NAME: usize = 255;

/// Prints the hashes.
pub(crate) fn run(arguments: &HashArgs, output: &mut Output) -> Result<Exit, Failure> {
    let hashings = arguments.hashes.hashings(&["half_md4"])?;
    let mut table = Table::new("Hashes", "hash; name; value; minor");
    for name in arguments.names.iter().filter(|name| name.len() > LONGEST_NAME) {
        let what = format!("{} bytes, where names have at most {LONGEST_NAME}", name.len());
        ui::say(PROGRAM, &format!("{}: {what}", names::quoted(name)));
    }
    for hashing in &hashings {
        for name in &arguments.names {
            let value = hashing.hash.hash(name.as_bytes(), &hashing.seed);
            let minor = hashing.hash.has_minor.then_some(value.minor);
            let shown = names::quoted(name);
            table.row([
                Cell::text(hashing.hash.id),
                Cell::text(&shown),
                Cell::Text(format!("0x{:x}", value.hash)),
                minor.map_or(Cell::Missing, |minor| Cell::Text(format!("0x{minor:x}"))),
            ]);
            if arguments.json {
                let line = NameHashLine {
                    hash: hashing.hash.id,
                    name: name.to_string_lossy(),
                    name_bytes_hex: names::bytes_hex(name),
                    value: format!("0x{:x}", value.hash),
                    minor: minor.map(|minor| format!("0x{minor:x}")),
                };
                output.json("name", &line)?;
                continue;
            }
            // Which hash it is, is only said if there are several: debugfs says nothing of it.
            let of = if hashings.len() > 1 { format!("{}: ", hashing.hash.id) } else { String::new() };
            let minor = minor.map_or(String::new(), |minor| format!(" (minor 0x{minor:x})"));
            output.line(&format!("{of}Hash of {shown} is 0x{:x}{minor}", value.hash))?;
        }
    }
    let mut report = Report::new("Hashes of names");
    report.parameters = options::parameters("hash", &hashings);
    report.tables.push(table);
    arguments.files.export(&report)?;
    Ok(Exit::Clean)
}
