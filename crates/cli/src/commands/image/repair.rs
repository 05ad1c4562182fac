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
use verisum::mend::image::{Mended, ReadAt, Target, journal_of, open_to_write};
use verisum::mend::repair::Taken;
use verisum::remote::Hosts;
use verisum::{ImageCopy, damage, image_end, image_reader, reader_until, require_raw};

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
    let own = raw(&input, &settings)?.exact_length();
    let mut target = Target { map: &map, file: &file, name: &name, end: own, journal: &journal };
    let reached =
        arguments.hosts.hosts(arguments.from.iter().filter(|text| hosts::is_remote(text)).count())?;
    let mut copies = copies(&arguments.from, &settings, &reached, &map)?;
    let end = image_end(&target, own, &mut copies)?;
    target.end = end.unwrap_or(own);
    let mut copies: Vec<ReadAt> = copies.into_iter().map(|copy| copy.read).collect();
    let ending = Ending::new()?;
    let stop = Stop::when(ending.asked().clone());
    let found = || -> Result<(Vec<Range<u64>>, u64), Failure> {
        let (bad, longer) = bad(&input, &settings, (&target, end.is_some()), &stop)?;
        if !arguments.overwrite {
            target.require_same(&bad, raw(&input, &settings)?.length())?;
        }
        Ok((bad, longer))
    };
    let say = |what: String| ui::say(PROGRAM, &format!("{}: {what} of an interrupted repair", shown(&name)));
    let mut foretold = Vec::new();
    if journal.symlink_metadata().is_ok() {
        // What it has is for the image of the map only.
        found()?;
        if arguments.dry_run {
            foretold = target.recoverable()?;
            say(format!("the repair first finishes {} blocks", foretold.len()));
        } else if let count @ 1.. = target.recover()? {
            say(format!("finished {count} blocks"));
        }
    }
    let (bad, longer) = found()?;
    let bad = without(bad, foretold);
    let mended = target.repair(&bad, &mut copies, !arguments.dry_run, &stop)?;
    if !arguments.dry_run && !mended.repaired.is_empty() {
        let again = raw(&input, &settings)?;
        target.verify(&mended, &mut reader_until(image_reader(again), target.end))?;
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
    let mut taken: Vec<Taken> = Vec::new();
    for (which, from) in arguments.from.iter().enumerate() {
        let ranges: Vec<Range<u64>> =
            mended.repaired.iter().filter(|(_, of)| *of == which).map(|(range, _)| range.clone()).collect();
        if !ranges.is_empty() {
            let bytes = ranges.iter().map(|range| range.end - range.start).sum();
            // Addresses are as they were typed.
            let from = match hosts::is_remote(from) || is_nbd_uri(from) {
                true => PathBuf::from(from),
                false => absolute(Path::new(from))?,
            };
            taken.push(Taken { from, bytes, ranges: Some(ranges) });
        }
    }
    recorder.take((path, false), None, taken);
    recorder.end()
}

/// Ranges without some blocks, each of which is in one of them or in none.
fn without(ranges: Vec<Range<u64>>, mut blocks: Vec<Range<u64>>) -> Vec<Range<u64>> {
    blocks.sort_by_key(|block| block.start);
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        for block in blocks.iter().filter(|block| range.start <= block.start && block.start < range.end) {
            left.push(start..block.start);
            start = block.end;
        }
        left.push(start..range.end);
    }
    left.retain(|range| range.start < range.end);
    left
}

fn shown(name: &Path) -> String {
    names::quoted(name.as_os_str())
}

/// Opens the image to read, and fails unless its bytes are what a guest sees.
fn raw(input: &Input, settings: &HashSettings) -> Result<Box<dyn Image>, Failure> {
    require_raw(input::open(input, settings)?).map_err(|error| Failure::file(input.path(), "repair", error))
}

/// The ranges that are not what the map says, and how many bytes the image has after its recorded end.
fn bad(
    input: &Input,
    settings: &HashSettings,
    (target, knows_end): (&Target, bool),
    stop: &Stop,
) -> Result<(Vec<Range<u64>>, u64), Failure> {
    let mut image = raw(input, settings)?;
    let mut opened = Opened::Image(image);
    let ranges = match verify::compare(target.map, input, &mut opened, settings) {
        Ok((_, ranges)) => ranges,
        Err(Failure::Image(_)) => {
            ui::say(
                PROGRAM,
                &format!("{}: it cannot be read as a whole: reading block by block", shown(&input.path())),
            );
            image = raw(input, settings)?;
            target.scan(&mut reader_until(image_reader(image), target.end), stop)?
        }
        Err(failure) => return Err(failure),
    };
    Ok(damage(target, ranges, raw(input, settings)?, knows_end)?)
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
    let done: u64 = mended.repaired.iter().map(|(range, _)| length(range)).sum();
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
        let repaired = mended.repaired.iter().map(|(found, which)| {
            json!({ "offset": found.start, "length": length(found), "from": Name::new(from(*which)) })
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
        for (range, which) in &mended.repaired {
            let from = names::quoted(from(*which));
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
