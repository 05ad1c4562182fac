//! `verisum image sum`: the block hashes of disk images.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum_digest::Digest;

use super::options::{HashOptions, ReadOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{self, Input, Sum};
use crate::render::{self, Output, names};
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

    /// Raw files, block devices and pipes; `-`, or none at all, is standard input
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
                let digest = sum.digest.to_string();
                if arguments.json {
                    output.json(&Record::new(input, how.params.digest(), block_size, &sum, &digest))?;
                } else {
                    let mut line = Vec::new();
                    names::sum_line(&mut line, &digest, input.name());
                    output.bytes(&line)?;
                }
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

/// Says on standard error what the user should know about a value.
fn remark(input: &Input, sum: &Sum) {
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
        render::say(
            PROGRAM,
            &format!(
                "{}: warning: it was written to while it was read: the value may fit no state of it",
                name()
            ),
        );
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    /// The name as it was given; where it is not UTF-8, with U+FFFD for what is not.
    path: String,
    /// All bytes of the name, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes_hex: Option<String>,
    algorithm: &'a str,
    block_size: u32,
    /// Length in bytes of what was hashed, padding included.
    length: u64,
    /// How many of those bytes are zeros that were added at the end.
    padded: u64,
    digest: &'a str,
    /// Whether the file was written to meanwhile.
    modified: bool,
}

impl<'a> Record<'a> {
    fn new(input: &Input, digest: &'a Digest, block_size: u32, sum: &Sum, hex: &'a str) -> Record<'a> {
        let name = input.name();
        Record {
            path: name.to_string_lossy().into_owned(),
            path_bytes_hex: name.to_str().is_none().then(|| hexadecimal(name.as_bytes())),
            algorithm: digest.name(),
            block_size,
            length: sum.length,
            padded: sum.padded,
            digest: hex,
            modified: sum.modified,
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
