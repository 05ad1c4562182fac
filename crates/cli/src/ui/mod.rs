//! The parts of the user interface that all verbs share. They import no verb.
//!
//! Results go to standard output through [`Output`], messages and progress to standard error. Everything
//! that fails is a [`failure::Failure`], and every way to end is in [`exit`].

pub(crate) mod bad_file;
pub(crate) mod block_hashes;
pub(crate) mod catalog;
#[allow(unsafe_code)]
pub(crate) mod closed_streams;
pub(crate) mod color;
pub(crate) mod config;
mod config_file;
pub(crate) mod configured_places;
pub(crate) mod digests;
pub(crate) mod examples;
pub(crate) mod exit;
pub(crate) mod export;
pub(crate) mod fact_line;
pub(crate) mod failure;
mod find_program;
pub(crate) mod getopt;
pub(crate) mod help;
pub(crate) mod hosts;
pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod kernel;
pub(crate) mod list_records;
#[allow(unsafe_code)]
pub(crate) mod locale;
pub(crate) mod log;
pub(crate) mod messages;
pub(crate) mod names;
mod nfkd_names;
mod output;
pub(crate) mod parity;
pub(crate) mod progress;
pub(crate) mod reading;
pub(crate) mod recipients;
pub(crate) mod refused_values;
pub(crate) mod repair_commands;
pub(crate) mod repair_recorder;
pub(crate) mod repair_report;
pub(crate) mod repair_run;
pub(crate) mod repair_sources;
pub(crate) mod scratch;
pub(crate) mod secrets;
pub(crate) mod shell;
pub(crate) mod signals;
pub(crate) mod sizes;
pub(crate) mod standard_input;
pub(crate) mod terminal;
pub(crate) mod untyped;
pub(crate) mod values;
pub(crate) mod verbosity;

use std::io::{IsTerminal as _, Write};

pub(crate) use find_program::find_program;
pub(crate) use nfkd_names::Decomposed;
pub(crate) use output::Output;

/// The name at the start of messages.
pub(crate) const PROGRAM: &str = "verisum";

/// Writes `program: message` to standard error as one write. Nobody is left to tell if that fails.
pub(crate) fn say(program: &str, message: &str) {
    let line = format!("{program}: {message}");
    log::note(&secrets::hidden(line.as_bytes()));
    match program == PROGRAM {
        true => advise(&line),
        // The programs that it stands for leave long lines to the terminal.
        false => write(&line),
    }
}

/// Writes lines to standard error, as wide as a terminal has room for; whoever else reads them gets whole lines.
pub(crate) fn advise(text: &str) {
    if !std::io::stderr().is_terminal() {
        return write(text);
    }
    let width = terminal::width_or_asked(rustix::stdio::stderr());
    let shown = String::from_utf8_lossy(&secrets::hidden(text.as_bytes())).into_owned();
    write(&shown.lines().flat_map(|line| fact_line::broken(line, width)).collect::<Vec<_>>().join("\n"));
}

fn write(text: &str) {
    let _room = progress::make_room();
    let _ = std::io::stderr().write_all(&secrets::hidden(format!("{text}\n").as_bytes()));
}
