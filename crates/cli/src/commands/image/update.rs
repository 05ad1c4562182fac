//! `verisum image update`: updates the map of an image that changed in known places.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::blockhash::{MapWriter, update_map};
use verisum::image::Opened;

use super::options::ReadOptions;
use super::{changed_ranges, map, sum, verify};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::input::{self, Input, Sum};
use crate::ui::{Output, progress, standard_input};

/// What `verisum image update` takes.
#[derive(Args, Debug)]
pub(crate) struct MapUpdateArgs {
    /// The block map of the image as it was
    #[arg(long, value_name = "MAP", value_hint = ValueHint::FilePath)]
    map: PathBuf,

    /// Where the image may have changed since: lines of `OFFSET LENGTH` as `diff` prints them, or the JSON of
    /// `diff`, `nbdinfo --map --json` or `qemu-img map --output=json`; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ranges: OsString,

    /// The map to write; it may be the old one
    #[arg(short, long, value_name = "NEW", value_hint = ValueHint::FilePath)]
    output: PathBuf,

    #[command(flatten)]
    read: ReadOptions,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    /// An image file, block device or NBD address
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: OsString,
}

#[derive(Serialize)]
struct MapUpdateRecord<'a> {
    #[serde(flatten)]
    sum: sum::ImageSumRecord<'a>,
    /// How many bytes were hashed again.
    hashed: u64,
}

/// Hashes the blocks that may have changed and takes the other digests from the old map.
pub(crate) fn run(arguments: MapUpdateArgs, output: &mut Output) -> Result<Exit, Failure> {
    let ranges_input = Input::typed(arguments.ranges, false)?;
    let input = Input::typed(arguments.image, false)?;
    let readers = [("--ranges", &ranges_input), ("IMAGE", &input)];
    for (reader, _) in readers.into_iter().filter(|(_, input)| **input == Input::Stdin) {
        standard_input::take(reader)?;
    }
    let old = map::open(&arguments.map)?;
    let settings = verify::settings(&arguments.read, &old)?;
    let touched = changed_ranges::read(&ranges_input)?;
    let opened = input::open(&input, &settings)?;
    let file = map::replacement(&arguments.output, &input, &opened)?;
    let Opened::Image(image) = &opened else {
        return Err(Failure::file(
            input.path(),
            "update",
            std::io::Error::other("a pipe cannot be read in places"),
        ));
    };
    let params = settings.params(&input, Some(image.length()))?;
    let bytes = touched.iter().map(|range| range.end - range.start).sum::<u64>().min(image.length());
    let work = |progress: &_| {
        let writer = MapWriter::new(file.file(), &arguments.output, old.params())?;
        update_map(&old, &**image, touched, &params, writer, progress, &|| true)
    };
    let (digest, hashed, _) =
        progress::of_image(settings.progress, settings.name_of(&input), Some(bytes), work)
            .map_err(|error| input::failed(&input, error))?;
    let sum =
        Sum { digest, length: image.length(), padded: image.padded_by(), modified: image.modified_during() };
    file.place()?;
    match arguments.json {
        true => output.json(
            "image",
            &MapUpdateRecord { sum: sum::ImageSumRecord::new(&input, &settings, &sum), hashed },
        )?,
        false => sum::print(&input, &settings, &sum, sum::Form::default(), output)?,
    }
    output.flush()?;
    sum::remark(&input, &sum);
    Ok(Exit::Clean)
}
