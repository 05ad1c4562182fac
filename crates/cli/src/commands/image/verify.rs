//! `verisum image verify`: compares an image with its block map.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use verisum::blockhash::{BlockMap, MapComparison};
use verisum::image::Opened;

use super::difference::{Difference, ImageSide};
use super::options::ReadOptions;
use super::{map, sum};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::StoreArgs;
use crate::ui::input::{self, How, Input, Sum};
use crate::ui::{Output, bad_file, shell};

/// What `verisum image verify` takes.
#[derive(Args, Debug)]
pub(crate) struct ImageVerifyArgs {
    /// The block map of the image as it should be
    #[arg(long, value_name = "MAP", value_hint = ValueHint::FilePath)]
    map: PathBuf,

    #[command(flatten)]
    read: ReadOptions,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    stores: StoreArgs,

    /// An image file, block device, pipe, NBD address or s3://BUCKET/KEY; `-` is standard input
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: OsString,
}

/// Hashes an image and compares every block with the map.
pub(crate) fn run(mut arguments: ImageVerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.read.open.buckets = Some(arguments.stores.buckets()?);
    let map = map::open(&arguments.map)?;
    let input = Input::new(arguments.image);
    let how = how(&arguments.read, &map)?;
    let mut opened = input::open(&input, &how)?;
    let (sum, ranges) = compare(&map, &input, &mut opened, &how)?;
    let sides = [
        ImageSide { name: arguments.map.as_os_str(), length: map.length() },
        ImageSide { name: input.name(), length: sum.length },
    ];
    let (block_size, modified) = (map.params().block_bytes(), sum.modified);
    // Copies give no other length.
    let differs = !ranges.is_empty() && map.length() == sum.length;
    let exit = Difference { sides, block_size, ranges, modified }.print(arguments.json, output)?;
    sum::remark(&input, &sum);
    if differs && !arguments.json && is_mendable(&opened) {
        output.flush()?;
        let [map, image] =
            [arguments.map.as_os_str(), input.name()].map(|name| shell::word(name.as_encoded_bytes()));
        let command = format!("verisum image repair --map {map} --from PLACE {image}");
        bad_file::advise_mending("if nobody wrote to it, mend it from a copy", &command);
    }
    how.tell_costs(arguments.json, output)?;
    Ok(exit)
}

/// Whether `image repair` takes such an image: a raw one of this machine.
fn is_mendable(opened: &Opened) -> bool {
    let Opened::Image(image) = opened else { return false };
    let layers = image.layers();
    let only = layers.first().filter(|_| layers.len() == 1);
    only.is_some_and(|layer| layer.format == "raw" && Path::new(&layer.name).exists())
}

/// How to hash an image that is compared with a map: as what the map is of was hashed.
pub(super) fn how(read: &ReadOptions, map: &BlockMap) -> Result<How, Failure> {
    let mut how = read.how_with(map.params().clone(), 1)?;
    if !map.length().is_multiple_of(input::SECTOR) {
        (how.pad_files, how.pad_streams) = (false, false);
    }
    Ok(how)
}

/// Hashes an image and finds where it differs from what the map is of.
pub(super) fn compare(
    map: &BlockMap,
    input: &Input,
    opened: &mut Opened,
    how: &How,
) -> Result<(Sum, Vec<std::ops::Range<u64>>), Failure> {
    let failed = |error| input::failed(input, error);
    let mut comparison = MapComparison::new(map).map_err(failed)?;
    let sum = input::sum_opened(input, opened, how, Some(&mut comparison))?;
    let ranges = comparison.finish(sum.length, &sum.digest).map_err(failed)?;
    // Where nothing differs, the root of the map was computed from the image. The time this takes grows
    // with the length, of which a map can claim any.
    if !ranges.is_empty() && map.length() <= sum.length {
        map.check().map_err(failed)?;
    }
    Ok((sum, ranges))
}
