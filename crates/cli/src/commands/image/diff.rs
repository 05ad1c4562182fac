//! `verisum image diff`: prints where two images or maps differ.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, ValueHint};
use verisum::blockhash::{BlockMap, DEFAULT_BLOCK_SIZE, Params, compare_images, compare_maps};
use verisum::digest::Digest;
use verisum::image::{Image, Opened};

use super::difference::{Difference, ImageSide};
use super::options::{FormatArg, ReadOptions, format_parser};
use super::{map, sum, verify};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::StoreArgs;
use crate::ui::input::{self, HashSettings, Input};
use crate::ui::{self, Output, PROGRAM, progress};
use crate::ui::{kernel, sizes, standard_input};

/// What `verisum image diff` takes.
#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// The unit of the ranges: 65536, 64k or 64KiB; without it, 64k for two images. With a map, it can only
    /// be the map's block size
    #[arg(long, value_name = "N")]
    block_size: Option<String>,

    #[command(flatten)]
    read: ReadOptions,

    /// The format of A; --format is for both
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format_a: Option<FormatArg>,

    /// The format of B
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format_b: Option<FormatArg>,

    /// Compare this snapshot inside A, by its name or identifier
    #[arg(long, value_name = "NAME")]
    snapshot_a: Option<String>,

    /// Compare this snapshot inside B
    #[arg(long, value_name = "NAME")]
    snapshot_b: Option<String>,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    stores: StoreArgs,

    /// An image or a block map
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    a: OsString,

    /// Another image or block map
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    b: OsString,
}

/// Compares two images by whatever takes the least reading.
pub(crate) fn run(arguments: DiffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let block_size = arguments.block_size.as_deref().map(sizes::block_size).transpose()?;
    let inputs = [Input::typed(arguments.a, true)?, Input::typed(arguments.b, true)?];
    for (reader, _) in ["A", "B"].into_iter().zip(&inputs).filter(|(_, input)| **input == Input::Stdin) {
        standard_input::take(reader)?;
    }
    let mut read = arguments.read;
    let buckets = arguments.stores.buckets()?;
    read.open.buckets = Some(buckets.clone());
    if read.open.snapshot().is_some() {
        let what = "--snapshot would be of both images: give --snapshot-a or --snapshot-b";
        return Err(Failure::Usage(what.to_string()));
    }
    let side = |format, snapshot| read.of_side(format, snapshot);
    let read =
        &[side(arguments.format_a, arguments.snapshot_a), side(arguments.format_b, arguments.snapshot_b)];
    let maps = [0, 1].map(|i| is_map(&inputs[i], &read[i]));
    if (0..2).any(|i| maps[i] && read[i].open.snapshot().is_some()) {
        return Err(Failure::Usage("a block map has no snapshots".to_string()));
    }
    let found = match maps {
        [true, true] => of_maps(&inputs, read, block_size)?,
        [true, false] => of_map_and_image(&inputs, 0, read, block_size)?,
        [false, true] => of_map_and_image(&inputs, 1, read, block_size)?,
        [false, false] => of_images(&inputs, read, block_size.unwrap_or(DEFAULT_BLOCK_SIZE))?,
    };
    let sides = [0, 1].map(|i| ImageSide { name: inputs[i].name(), length: found.lengths[i] });
    let Differences { block_size, ranges, modified, .. } = found;
    let exit =
        Difference { sides, block_size, ranges, modified, mend: None }.print(arguments.json, output)?;
    match buckets.costs() {
        Some(costs) if arguments.json => output.json("costs", &costs)?,
        Some(costs) => ui::say(PROGRAM, &costs.text()),
        None => {}
    }
    Ok(exit)
}

/// What was found.
struct Differences {
    lengths: [u64; 2],
    block_size: u32,
    ranges: Vec<std::ops::Range<u64>>,
    /// Whether an image was written to meanwhile.
    modified: bool,
}

/// Whether an input is a map, unless it is said to be of some format.
fn is_map(input: &Input, read: &ReadOptions) -> bool {
    matches!(input, Input::Named(name) if read.open.detects() && map::is_map(Path::new(name)))
}

fn of_maps(
    inputs: &[Input; 2],
    read: &[ReadOptions; 2],
    block_size: Option<u32>,
) -> Result<Differences, Failure> {
    let [a, b] = [map::open(&inputs[0].path())?, map::open(&inputs[1].path())?];
    check_block_size(&a, block_size)?;
    let settings = read[0].settings_with(a.params().clone(), 1)?;
    let ranges = compare_maps(&a, &b, settings.threads.unwrap_or_else(sizes::usable_cores))
        .map_err(|error| input::failed(&inputs[1], error))?;
    let block_size = a.params().block_bytes();
    Ok(Differences { lengths: [a.length(), b.length()], block_size, ranges, modified: false })
}

/// Compares the map, which is the input of this place, with the other input.
fn of_map_and_image(
    inputs: &[Input; 2],
    place: usize,
    read: &[ReadOptions; 2],
    block_size: Option<u32>,
) -> Result<Differences, Failure> {
    let map = map::open(&inputs[place].path())?;
    check_block_size(&map, block_size)?;
    let image = &inputs[1 - place];
    let settings = verify::settings(&read[1 - place], &map)?;
    let mut opened = input::open(image, &settings)?;
    let (sum, ranges) = verify::compare(&map, image, &mut opened, &settings)?;
    sum::remark(image, &sum);
    let mut lengths = [sum.length; 2];
    lengths[place] = map.length();
    Ok(Differences { lengths, block_size: map.params().block_bytes(), ranges, modified: sum.modified })
}

fn of_images(inputs: &[Input; 2], read: &[ReadOptions; 2], block_size: u32) -> Result<Differences, Failure> {
    // Nothing is hashed: of the parameters only the size of a block counts.
    let digest = Digest::find_with("sha256", &kernel::policy()?)?;
    let params = Params::new(digest).block_size(block_size).map_err(|e| Failure::Usage(e.to_string()))?;
    let [settings, other] = [read[0].settings_with(params.clone(), 1)?, read[1].settings_with(params, 1)?];
    let [a, b] = [open(&inputs[0], &settings)?, open(&inputs[1], &other)?];
    let shorter = a.length().min(b.length());
    let threads = settings.threads.unwrap_or_else(sizes::usable_cores);
    let work = |progress: &_| compare_images(&*a, &*b, block_size, threads, progress);
    let ranges = progress::of_image(settings.progress, settings.name_of(&inputs[0]), Some(shorter), work)
        .map_err(|error| input::failed(&inputs[0], error))?;
    for (input, image) in inputs.iter().zip([&a, &b]) {
        if image.modified_during() {
            input::warn_modified(input);
        }
    }
    let modified = a.modified_during() || b.modified_during();
    Ok(Differences { lengths: [a.length(), b.length()], block_size, ranges, modified })
}

fn open(input: &Input, settings: &HashSettings) -> Result<Box<dyn Image>, Failure> {
    match input::open(input, settings)? {
        Opened::Image(image) => Ok(image),
        Opened::Stream(_) => Err(Failure::file(
            input.path(),
            "compare",
            std::io::Error::other("a pipe can be compared with a block map only"),
        )),
    }
}

/// Fails if another block size is asked for than a map has.
fn check_block_size(map: &BlockMap, wanted: Option<u32>) -> Result<(), Failure> {
    let own = map.params().block_bytes();
    match wanted {
        Some(wanted) if wanted != own => {
            Err(Failure::value("--block-size", wanted, format!("the map has blocks of {own} bytes")))
        }
        _ => Ok(()),
    }
}
