//! `verisum image verify`: compares an image with its block map.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum::blockhash::{BlockMap, MapComparison};
use verisum::image::Opened;

use super::difference::{Difference, ImageSide};
use super::options::ReadOptions;
use super::remedy::{ImageRemedy, is_raw_and_here};
use super::{map, sum};
use crate::ui::Output;
use crate::ui::catalog::CatalogArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::StoreArgs;
use crate::ui::input::{self, HashSettings, Input, Sum};

/// What `verisum image verify` takes.
#[derive(Args, Debug)]
pub(crate) struct ImageVerifyArgs {
    /// The block map of the image as it should be
    #[arg(long, value_name = "MAP", value_hint = ValueHint::FilePath)]
    map: PathBuf,

    #[command(flatten)]
    catalog: CatalogArgs,

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
    let input = Input::typed(arguments.image, true)?;
    let settings = settings(&arguments.read, &map)?;
    let mut opened = input::open(&input, &settings)?;
    let (sum, ranges) = compare(&map, &input, &mut opened, &settings)?;
    let sides = [
        ImageSide { name: arguments.map.as_os_str(), length: map.length() },
        ImageSide { name: input.name(), length: sum.length },
    ];
    let (block_size, modified) = (map.params().block_bytes(), sum.modified);
    // Copies give no other length.
    let is_mendable = map.length() == sum.length && is_raw_and_here(&opened);
    let of_image = || ImageRemedy::of(&arguments.map, input.name(), is_mendable, &arguments.catalog);
    // What came through a pipe has no place.
    let is_kept = matches!(opened, Opened::Image(_));
    let remedy = if ranges.is_empty() || !is_kept { None } else { Some(of_image()?) };
    let mend = remedy.as_ref().and_then(ImageRemedy::command);
    let exit = Difference { sides, block_size, ranges, modified, mend }.print(arguments.json, output)?;
    sum::remark(&input, &sum);
    if let Some(remedy) = remedy.filter(|_| !arguments.json) {
        output.flush()?;
        remedy.tell();
    }
    settings.tell_costs(arguments.json, output)?;
    Ok(exit)
}

/// How to hash an image that is compared with a map: as what the map is of was hashed.
pub(super) fn settings(read: &ReadOptions, map: &BlockMap) -> Result<HashSettings, Failure> {
    let mut settings = read.settings_with(map.params().clone(), 1)?;
    if !map.length().is_multiple_of(input::SECTOR) {
        (settings.pad_files, settings.pad_streams) = (false, false);
    }
    Ok(settings)
}

/// Hashes an image and finds where it differs from what the map is of.
pub(super) fn compare(
    map: &BlockMap,
    input: &Input,
    opened: &mut Opened,
    settings: &HashSettings,
) -> Result<(Sum, Vec<std::ops::Range<u64>>), Failure> {
    let failed = |error| input::failed(input, error);
    let mut comparison = MapComparison::new(map).map_err(failed)?;
    let sum = input::sum_opened(input, opened, settings, Some(&mut comparison))?;
    let ranges = comparison.finish(sum.length, &sum.digest).map_err(failed)?;
    // Where nothing differs, the root of the map was computed from the image. The time this takes grows
    // with the length, of which a map can claim any.
    if !ranges.is_empty() && map.length() <= sum.length {
        map.check().map_err(failed)?;
    }
    Ok((sum, ranges))
}
