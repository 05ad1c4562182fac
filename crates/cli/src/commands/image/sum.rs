//! `verisum image sum`: the block hashes of disk images.

use std::ffi::OsString;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum_blockhash::Params;

use super::options::{HashOptions, ReadOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{self, How, Input, Sum};
use crate::render::names::{self, Name};
use crate::render::{self, Output};
use crate::verisum::PROGRAM;

/// What `verisum image sum` takes.
#[derive(Args, Debug)]
pub(crate) struct SumArgs {
    #[command(flatten)]
    hash: HashOptions,

    #[command(flatten)]
    read: ReadOptions,

    /// Print a line of JSON for each image
    #[arg(long)]
    json: bool,

    /// Image files of any format, block devices, NBD addresses, and pipes with raw images; `-`, or none at
    /// all, is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<OsString>,
}

/// Hashes every file. A file that cannot be hashed does not keep the others from it.
pub(crate) fn run(arguments: SumArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (digest, block_size) = arguments.hash.parse()?;
    let how = arguments.read.how(digest, block_size, arguments.files.len())?;
    let mut inputs: Vec<Input> = arguments.files.into_iter().map(Input::new).collect();
    if inputs.is_empty() {
        inputs.push(Input::Stdin);
    }
    let mut worst = Exit::Clean;
    for input in &inputs {
        match input::sum(input, &how) {
            Ok(sum) => {
                print(input, &how, &sum, arguments.json, output)?;
                // Each value is there as soon as it is known, and before what is to be said of it.
                output.flush()?;
                remark(input, &sum);
            }
            Err(failure) => {
                render::say(PROGRAM, &failure.message());
                worst = worst.max(failure.exit());
            }
        }
    }
    Ok(worst)
}

/// Prints a value.
pub(super) fn print(
    input: &Input,
    how: &How,
    sum: &Sum,
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    if json {
        return output.json(&Record::new(input, &how.params, sum));
    }
    let mut line = Vec::new();
    names::sum_line(&mut line, &sum.digest.to_string(), input.name());
    output.bytes(&line)
}

/// Says on standard error what the user should know about a value.
pub(super) fn remark(input: &Input, sum: &Sum) {
    let name = || names::quoted(input.path().as_os_str());
    if sum.padded > 0 {
        let stored = sum.length - sum.padded;
        render::say(
            PROGRAM,
            &format!(
                "{}: length {stored} is not a multiple of 512: hashed with {} zero bytes after it, as a guest \
                 sees it (--exact hashes it alone)",
                name(),
                sum.padded
            ),
        );
    }
    if sum.modified {
        warn_modified(input);
    }
}

/// Says on standard error that an image was written to meanwhile.
pub(super) fn warn_modified(input: &Input) {
    let name = names::quoted(input.path().as_os_str());
    let warning = "warning: it was written to while it was read: the value may fit no state of it";
    render::say(PROGRAM, &format!("{name}: {warning}"));
}

/// What hashing an image gave, as JSON.
#[derive(Serialize)]
pub(super) struct Record<'a> {
    #[serde(flatten)]
    name: Name,
    algorithm: &'a str,
    block_size: u32,
    /// Length in bytes of what was hashed, padding included.
    length: u64,
    /// How many of those bytes are zeros that were added at the end.
    padded: u64,
    digest: String,
    /// Whether the file was written to meanwhile.
    modified: bool,
}

impl<'a> Record<'a> {
    pub(super) fn new(input: &Input, params: &'a Params, sum: &Sum) -> Record<'a> {
        Record {
            name: Name::new(input.name()),
            algorithm: params.digest().name(),
            block_size: params.block_bytes(),
            length: sum.length,
            padded: sum.padded,
            digest: sum.digest.to_string(),
            modified: sum.modified,
        }
    }
}
