//! `verisum image map`: the block map of a disk image.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use verisum::blockhash::{BlockHashError, BlockMap, MapError, MapWriter};
use verisum::files::Replacement;
use verisum::image::Opened;
pub(super) use verisum::mend::image::is_map;
use verisum::mend::image::require_replaceable;

use super::options::{BlockHashOptions, ReadOptions};
use super::sum;
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::StoreArgs;
use crate::ui::input::{self, Input};
use crate::ui::kernel;

/// What `verisum image map` takes.
#[derive(Args, Debug)]
pub(crate) struct MapArgs {
    /// The map to write; an older map of this name is replaced
    #[arg(short, long, value_name = "MAP", value_hint = ValueHint::FilePath)]
    output: PathBuf,

    #[command(flatten)]
    hash: BlockHashOptions,

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

/// Hashes an image and keeps the digest of each block.
pub(crate) fn run(mut arguments: MapArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.read.open.buckets = Some(arguments.stores.buckets()?);
    let (digest, block_size) = arguments.hash.parse()?;
    let settings = arguments.read.settings(digest, block_size, 1)?;
    if settings.is_made() {
        let name = settings.params.digest().name();
        return Err(Failure::Usage(format!("{name}: a digest made of blocks has no block map")));
    }
    let input = Input::typed(arguments.image, true)?;
    let mut opened = input::open(&input, &settings)?;
    let file = replacement(&arguments.output, &input, &opened)?;
    let writer = MapWriter::new(file.file(), &arguments.output, &settings.params);
    let mut writer = writer.map_err(|error| input::failed(&input, error))?;
    let sum = input::sum_opened(&input, &mut opened, &settings, Some(&mut writer))?;
    writer.finish(sum.length, &sum.digest).map_err(|error| input::failed(&input, error))?;
    file.place()?;
    let form = sum::Form { json: arguments.json, ..sum::Form::default() };
    sum::print(&input, &settings, &sum, form, output)?;
    output.flush()?;
    sum::remark(&input, &sum);
    settings.tell_costs(arguments.json, output)?;
    Ok(Exit::Clean)
}

/// Opens the map that `--map` names.
pub(super) fn open(name: &Path) -> Result<BlockMap, Failure> {
    BlockMap::open(name, &kernel::policy()?).map_err(|error| match &error {
        BlockHashError::Map(MapError::NotAMap { .. }) if !is_map(name) => {
            let why = "not a block map (--map takes what `verisum image map -o MAP IMAGE` wrote)";
            Failure::file(name, "open", io::Error::other(why))
        }
        BlockHashError::Map(MapError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let why = "no such file (`verisum image map -o MAP IMAGE` makes it while the image is good)";
            Failure::file(name, "open", io::Error::other(why))
        }
        _ => input::failed(&Input::new(name.as_os_str().to_os_string()), error),
    })
}

/// Begins a map. Nothing but an older map, or an empty file, is replaced: least of all an image.
pub(super) fn replacement(name: &Path, input: &Input, opened: &Opened) -> Result<Replacement, Failure> {
    if name.as_os_str() == "-" {
        return Err(Failure::Usage(
            "-o -: a map is a file and needs a name (./- is a file of that name)".into(),
        ));
    }
    let itself = match input {
        Input::Stdin => "/dev/stdin".into(),
        Input::Named(_) => input.path(),
    };
    require_replaceable(name, &opened.files(itself)).map_err(|error| Failure::file(name, "create", error))?;
    Ok(Replacement::new(name)?)
}
