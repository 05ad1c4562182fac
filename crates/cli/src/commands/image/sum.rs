//! `verisum image sum`: the block hashes of disk images.

use std::ffi::OsString;
use std::sync::Arc;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::files::store::manifest::BlockHashes;

use super::options::{BlockHashOptions, ReadOptions};
use crate::list_check;
use crate::ui::PROGRAM;
use crate::ui::block_hashes;
use crate::ui::digests;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::StoreArgs;
use crate::ui::input::{self, HashSettings, Input, Sum};
use crate::ui::names::{self, Name};
use crate::ui::{self, Output};

/// What `verisum image sum` takes.
#[derive(Args, Debug)]
pub(crate) struct ImageSumArgs {
    #[command(flatten)]
    hash: BlockHashOptions,

    #[command(flatten)]
    read: ReadOptions,

    /// Check images against lists, the FILEs; -a and --block-size say which block hash plain lines of `HEX
    /// NAME` have
    #[arg(short, long)]
    check: bool,

    #[command(flatten)]
    results: list_check::CheckResultArgs,

    /// Print lines of `HEX  NAME`, as blksum does, without the digest and the block size
    #[arg(long, conflicts_with = "check")]
    untagged: bool,

    /// Lines end with NUL, and names are not escaped
    #[arg(short, long)]
    zero: bool,

    /// Print a line of JSON for each image
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    stores: StoreArgs,

    /// Image files of any format, block devices, NBD addresses, s3://BUCKET/KEY, and pipes with raw images; `-`, or none at
    /// all, is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<OsString>,
}

/// Hashes every file. A file that cannot be hashed does not keep the others from it.
pub(crate) fn run(mut arguments: ImageSumArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.read.open.buckets = Some(arguments.stores.buckets()?);
    if arguments.check {
        let (digest, block_size) = arguments.hash.parse()?;
        let settings = arguments.read.settings(digest, block_size, arguments.files.len())?;
        return check(arguments, settings, output);
    }
    let digests = arguments.hash.parse_all()?.into_iter();
    let all_settings: Vec<HashSettings> = digests
        .map(|(digest, block_size)| arguments.read.settings(digest, block_size, arguments.files.len()))
        .collect::<Result<_, _>>()?;
    arguments.results.refuse()?;
    let form = Form { json: arguments.json, untagged: arguments.untagged, zero: arguments.zero };
    let typed = arguments.files.into_iter().map(|name| Input::typed(name, true));
    let mut inputs: Vec<Input> = typed.collect::<Result<_, _>>()?;
    if inputs.is_empty() {
        inputs.push(Input::Stdin);
    }
    let mut worst = Exit::Clean;
    for input in &inputs {
        match input::sums(input, &all_settings) {
            Ok(sums) => {
                for (settings, sum) in all_settings.iter().zip(&sums) {
                    print(input, settings, sum, form, output)?;
                }
                // Each value is there as soon as it is known, and before what is to be said of it.
                output.flush()?;
                sums.iter().take(1).for_each(|sum| remark(input, sum));
            }
            Err(failure) => {
                ui::say(PROGRAM, &failure.message());
                worst = worst.max(failure.exit());
            }
        }
    }
    all_settings.iter().take(1).try_for_each(|settings| settings.tell_costs(form.json, output))?;
    Ok(worst)
}

/// Checks images against lists.
fn check(arguments: ImageSumArgs, settings: HashSettings, output: &mut Output) -> Result<Exit, Failure> {
    let options = list_check::ListCheckOptions {
        program: PROGRAM.into(),
        algorithm: Some(settings.params.digest().name().to_string()),
        zero: arguments.zero,
        json: arguments.json,
        threads: settings.threads,
        block_hashes: BlockHashes::Bare(block_hashes::described(&settings, None)),
        images: Some(Arc::new(settings)),
        ..arguments.results.options()
    };
    list_check::lists_of(&arguments.files, &options, output)
}

/// In which form values are printed; tagged without any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Form {
    pub(super) json: bool,
    pub(super) untagged: bool,
    pub(super) zero: bool,
}

/// Prints a value.
pub(super) fn print(
    input: &Input,
    settings: &HashSettings,
    sum: &Sum,
    form: Form,
    output: &mut Output,
) -> Result<(), Failure> {
    if form.json {
        return output.json("image", &ImageSumRecord::new(input, settings, sum));
    }
    let mut line = Vec::new();
    let digest = shown(settings, sum);
    match form.untagged {
        true => names::list_line(&mut line, [&digest, "  ", ""], input.name(), form.zero),
        false => {
            let around = [&block_hashes::tag(settings, sum), " (", &format!(") = {digest}")];
            names::list_line(&mut line, around, input.name(), form.zero);
        }
    }
    output.bytes(&line)
}

/// A value as those show it whose digest it is.
fn shown(settings: &HashSettings, sum: &Sum) -> String {
    let name = settings.params.digest().name();
    match name == "ipfs" && !settings.is_made() {
        true => sum.digest.to_string(),
        false => digests::shown(name, &sum.digest, Some(sum.length)),
    }
}

/// Says on standard error what the user should know about a value.
pub(super) fn remark(input: &Input, sum: &Sum) {
    let name = || names::quoted(input.path().as_os_str());
    if sum.padded > 0 {
        let stored = sum.length - sum.padded;
        ui::say(
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
        input::warn_modified(input);
    }
}

/// What hashing an image gave, as JSON.
#[derive(Serialize)]
pub(super) struct ImageSumRecord<'a> {
    #[serde(flatten)]
    name: Name,
    algorithm: &'a str,
    block_size: u32,
    /// Length in bytes of what was hashed, padding included.
    size: u64,
    /// How many of those bytes are zeros that were added at the end.
    padded: u64,
    digest: String,
    /// Whether the file was written to meanwhile.
    modified: bool,
    /// What its line has that is not JSON.
    tag: String,
}

impl<'a> ImageSumRecord<'a> {
    pub(super) fn new(input: &Input, settings: &'a HashSettings, sum: &Sum) -> ImageSumRecord<'a> {
        ImageSumRecord {
            name: Name::new(input.name()),
            algorithm: settings.params.digest().name(),
            block_size: settings.params.block_bytes(),
            size: sum.length,
            padded: sum.padded,
            digest: sum.digest.to_string(),
            modified: sum.modified,
            tag: block_hashes::tag(settings, sum),
        }
    }
}
