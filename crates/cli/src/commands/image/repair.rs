//! `verisum image repair`: repairs bad blocks of a raw image or a device from other copies.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;
use verisum::blockhash::BlockMap;
use verisum::files::Stop;
use verisum::image::{Image, Opened, is_nbd_uri};
use verisum::mend::image::{Mended, MendedRange, Target, journal_of, open_to_write};
use verisum::remote::Hosts;
use verisum::{DamagedImage, ImageCopy, ImageRepair, require_raw};

use super::map;
use super::options::ReadOptions;
use super::verify;
use crate::ui::catalog::{CatalogArgs, absolute, with_name};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs};
use crate::ui::input::{self, HashSettings, Input};
use crate::ui::names::{self, Name};
use crate::ui::repair_recorder::RepairRecorder;
use crate::ui::signals::Ending;
use crate::ui::sizes::human;
use crate::ui::{self, Output, PROGRAM};

/// What `verisum image repair` takes.
#[derive(Args, Debug)]
#[command(mut_arg("checksum_report", |report| report.hide(true)))]
pub(crate) struct ImageRepairArgs {
    /// A raw image or a block device, which is changed in place
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: OsString,

    /// The block map of the image as it should be
    #[arg(long, value_name = "MAP", value_hint = ValueHint::FilePath)]
    map: PathBuf,

    /// A copy of the image: an image in any format, a device, an NBD address, or HOST:PATH of a raw image. Can be given
    /// several times
    #[arg(long, value_name = "OTHER", required = true, value_hint = ValueHint::FilePath)]
    from: Vec<OsString>,

    /// Show what could be repaired and from where, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Also repair an image if less than a tenth of its blocks with data match the map; without it, that is
    /// refused, because the map may be of another image
    #[arg(long)]
    overwrite: bool,

    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    read: ReadOptions,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// Repairs an image.
pub(crate) fn run(arguments: ImageRepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    let map = map::open(&arguments.map)?;
    require_copies(&arguments)?;
    map.check().map_err(|error| input::failed(&Input::new(arguments.map.clone().into()), error))?;
    let settings = verify::settings(&arguments.read, &map)?;
    let input = Input::typed(arguments.image.clone(), false)?;
    let name = input.path();
    let file = open_to_write(&name, arguments.dry_run)?;
    let journal = journal_of(&arguments.map);
    let image = RawInput { map: &map, input: &input, settings: &settings, is_dry_run: arguments.dry_run };
    let end = image.open()?.exact_length();
    let target = Target { map: &map, file: &file, name: &name, end, journal: &journal };
    let reached =
        arguments.hosts.hosts(arguments.from.iter().filter(|text| hosts::is_remote(text)).count())?;
    let copies = copies(&arguments.from, &settings, &reached, &map)?;
    let ending = Ending::new()?;
    let stop = Stop::when(ending.asked().clone());
    let (overwrites, dry_run) = (arguments.overwrite, arguments.dry_run);
    let (mended, longer) = ImageRepair { target, copies, overwrites, dry_run, stop: &stop }.run(&image)?;
    if !dry_run && !mended.repaired.is_empty() {
        record(&arguments, &name, &mended, &stop)?;
    }
    let exit = print(&arguments, &mended, longer, output)?;
    ending.obey();
    Ok(exit)
}

/// Fails for copies that are none: the image itself, or a map.
fn require_copies(arguments: &ImageRepairArgs) -> Result<(), Failure> {
    let inode = |name: &OsStr| Path::new(name).metadata().ok().map(|found| (found.dev(), found.ino()));
    let image = inode(&arguments.image);
    for from in &arguments.from {
        let must = match () {
            () if image.is_some() && inode(from) == image => "is the image itself: --from takes a copy of it",
            () if map::is_map(Path::new(from)) => "is a block map: --from takes an image, and --map the map",
            () => continue,
        };
        return Err(Failure::value("--from", from.to_string_lossy(), must));
    }
    Ok(())
}

/// Records the repair where a catalogue knows the image as a file.
fn record(arguments: &ImageRepairArgs, name: &Path, mended: &Mended, stop: &Stop) -> Result<(), Failure> {
    let path = absolute(name)?;
    let mut recorder = RepairRecorder::new(&arguments.catalog, &path, stop)?;
    // Addresses are as they were typed.
    let named = |from: &OsString| match hosts::is_remote(from) || is_nbd_uri(from) {
        true => Ok(PathBuf::from(from)),
        false => absolute(Path::new(from)),
    };
    let names = arguments.from.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    recorder.take((path, false), None, mended.taken(&names));
    recorder.end()
}

/// The image as an input, opened anew whenever it is read.
struct RawInput<'a> {
    map: &'a BlockMap,
    input: &'a Input,
    settings: &'a HashSettings,
    is_dry_run: bool,
}

impl RawInput<'_> {
    fn say(&self, what: &str) {
        ui::say(PROGRAM, &format!("{}: {what}", names::quoted(self.input.name())));
    }
}

impl DamagedImage for RawInput<'_> {
    type Error = Failure;

    fn open(&self) -> Result<Box<dyn Image>, Failure> {
        require_raw(input::open(self.input, self.settings)?)
            .map_err(|error| Failure::file(self.input.path(), "repair", error))
    }

    fn compare(&self) -> Result<Option<Vec<Range<u64>>>, Failure> {
        match verify::compare(self.map, self.input, &mut Opened::Image(self.open()?), self.settings) {
            Ok((_, ranges)) => Ok(Some(ranges)),
            Err(Failure::Image(_)) => {
                self.say("it cannot be read as a whole: reading block by block");
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    fn finished(&self, blocks: u64) {
        let what = if self.is_dry_run { "the repair first finishes" } else { "finished" };
        self.say(&format!("{what} {blocks} blocks of an interrupted repair"));
    }
}

/// Opens the copies. One that cannot be opened is said to be so, and gives nothing, unless all are like that.
fn copies(
    from: &[OsString],
    settings: &HashSettings,
    hosts: &Hosts,
    map: &BlockMap,
) -> Result<Vec<ImageCopy>, Failure> {
    let mut copies: Vec<ImageCopy> = Vec::new();
    let mut failed: Vec<Failure> = Vec::new();
    for text in from {
        if !is_nbd_uri(text) && hosts::is_remote(text) {
            let (address, place) = hosts::tree(text, hosts)?;
            copies.push(ImageCopy::there(place, address.path, map));
            continue;
        }
        let input = Input::new(text.clone());
        match input::open(&input, settings) {
            Ok(Opened::Image(image)) => copies.push(ImageCopy::of(image)),
            Ok(Opened::Stream(_)) => {
                let error = io::Error::other("a pipe cannot be a copy");
                return Err(Failure::file(input.path(), "open", error));
            }
            Err(failure) => {
                copies.push(ImageCopy::none(failure.message()));
                failed.push(failure);
            }
        }
    }
    let last = if failed.len() == from.len() { failed.pop() } else { None };
    failed.iter().for_each(|failure| ui::say(PROGRAM, &failure.message()));
    last.map_or(Ok(copies), Err)
}

/// Why a copy cannot be read, without its name.
fn cause<'a>(copy: &OsStr, why: &'a str) -> &'a str {
    why.strip_prefix(&format!("{}: ", names::quoted(copy))).unwrap_or(why)
}

/// Prints a line of `OFFSET LENGTH` for each range, and what became of it.
fn print(
    arguments: &ImageRepairArgs,
    mended: &Mended,
    longer: u64,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let length = |range: &Range<u64>| range.end - range.start;
    let done: u64 = mended.repaired.iter().map(|one| length(&one.range)).sum();
    let left: u64 = mended.left.iter().map(length).sum();
    let exit = match (left + longer > 0, mended.interrupted) {
        (true, _) => Exit::Mismatch,
        (false, true) => Exit::Unchecked,
        (false, false) => Exit::Clean,
    };
    output.found(exit);
    let from = |which: usize| OsStr::from_bytes(arguments.from[which].as_bytes());
    let word = if arguments.dry_run { "mendable" } else { "repaired" };
    if arguments.json {
        let range = |range: &Range<u64>| json!({ "offset": range.start, "length": length(range) });
        let repaired = mended.repaired.iter().map(|MendedRange { range, copy }| {
            json!({ "offset": range.start, "length": length(range), "from": Name::new(from(*copy)) })
        });
        let unreadable = mended.unreadable_copies.iter().map(|(which, why)| {
            with_name(json!({ "error": cause(from(*which), why) }), Path::new(from(*which)))
        });
        let line = json!({
            "dry_run": arguments.dry_run,
            "repaired": repaired.collect::<Vec<_>>(),
            "left": mended.left.iter().map(range).collect::<Vec<_>>(),
            "bad_copies": mended.bad_copies.iter().map(|which| Name::new(from(*which))).collect::<Vec<_>>(),
            "unreadable_copies": unreadable.collect::<Vec<_>>(),
            "bytes_repaired": done,
            "bytes_left": left,
            "bytes_fetched": mended.fetched,
            "bytes_after_end": longer,
            "interrupted": mended.interrupted,
        });
        output.json("repair", &with_name(line, Path::new(&arguments.image)))?;
    } else {
        for MendedRange { range, copy } in &mended.repaired {
            let from = names::quoted(from(*copy));
            output.line(&format!("{} {}  {word} from {from}", range.start, length(range)))?;
        }
        for range in &mended.left {
            output.line(&format!("{} {}  no copy has it", range.start, length(range)))?;
        }
    }
    output.flush()?;
    let name = names::quoted(&arguments.image);
    let mut facts = match done + left + longer == 0 && !mended.interrupted {
        true => vec!["nothing to repair: all blocks are as the map says".to_string()],
        false => vec![format!("{} {word}", human(done))],
    };
    if left > 0 {
        facts.push(format!("{} that no copy has", human(left)));
    }
    for which in &mended.bad_copies {
        facts.push(format!("{} has other blocks than the map too", names::quoted(from(*which))));
    }
    for (which, why) in &mended.unreadable_copies {
        let copy = from(*which);
        facts.push(format!("{} cannot be read there ({})", names::quoted(copy), cause(copy, why)));
    }
    if longer > 0 {
        facts.push(format!("{} after its recorded end left alone", human(longer)));
    }
    if mended.interrupted {
        facts.push("interrupted".to_string());
    }
    ui::say(PROGRAM, &format!("{name}: {}", facts.join(", ")));
    Ok(exit)
}
