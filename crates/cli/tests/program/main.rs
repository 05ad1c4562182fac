//! What all verbs share: the terminal, the configuration, the log, safety.

#[path = "../common/mod.rs"]
mod common;

mod completions;
mod config;
mod dry_run;
mod log;
mod readme;
mod safety;
mod terminal;
mod verbosity;
mod verisum;
