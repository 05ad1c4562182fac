//! `verisum bench image`: disk images by their formats and sources, and the library alone.

mod commands;
mod library;
mod nbd_server;
mod style;

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use verisum_bench::images::{CONTENTS, ImageContent, Memory, blkhash_bench};
use verisum_bench::measure::{About, InProcess, MeasureAmount, Subject};
use verisum_bench::record::NOT_REACHED;
use verisum_bench::stats::fewest_rounds;
use verisum_bench::summary::Quantity;

use super::{BenchOptions, Session};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{digests, kernel, sizes};
use commands::Commands;

/// What `verisum bench image` takes.
#[derive(Args, Debug)]
pub(crate) struct ImageArgs {
    /// The size of the images; without it 256M, or less if the disk has less room
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,

    /// Make images of 6 GiB, as the published experiment did
    #[arg(long, conflicts_with = "size")]
    full: bool,

    /// An image: 25, 50, 75, 100, empty or zeros. May be given several times; without it all are made
    #[arg(long = "image", value_name = "IMAGE")]
    images: Vec<String>,

    /// The digest; BLAKE3 is always measured too
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// Measure only commands on images, or only the library on memory
    #[arg(long, value_enum)]
    only: Option<OnlySubjects>,

    #[command(flatten)]
    library: library::LibraryArgs,

    /// Directory for the images, made one after the other; they are removed at the end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    on: Option<PathBuf>,

    /// Print what was published instead of tables
    #[arg(long, value_enum)]
    style: Option<ImageStyle>,

    #[command(flatten)]
    options: BenchOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnlySubjects {
    Commands,
    Library,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImageStyle {
    /// How many times faster than sha256sum, a line for each image
    Blkhash,
    /// The runs of the library as a list in JSON, with the fields of blkhash-bench
    BlkhashBench,
}

/// How commands come to an image; each is a group of its own.
const SOURCES: [&str; 5] = ["raw file", "qcow2", "redirected", "pipe", "NBD"];

/// The name of our command in tables.
const OURS: &str = "verisum";

/// Measures.
pub(crate) fn run(arguments: &ImageArgs, output: &mut Output) -> Result<Exit, Failure> {
    let digest = digests::find(&arguments.algorithm, &kernel::policy()?)?;
    let contents = contents(arguments)?;
    let place = arguments.on.clone().unwrap_or_else(std::env::temp_dir);
    let mut session =
        Session::begin("image", &arguments.options, MeasureAmount::Rounds(LEAST_ROUNDS), &[place])?;
    // Only what prints them needs runs of the library, or of commands.
    let (commands, alone) = match (arguments.only, arguments.style) {
        (Some(OnlySubjects::Commands), _) | (None, Some(ImageStyle::Blkhash)) => (true, false),
        (Some(OnlySubjects::Library), _) | (None, Some(ImageStyle::BlkhashBench)) => (false, true),
        (None, None) => (true, true),
    };
    let parts = [commands, alone].iter().filter(|part| **part).count() as u32;
    let whole = session.plan.amount;
    let share = |amount| match amount {
        MeasureAmount::Time(time) => MeasureAmount::Time(time / parts),
        rounds => rounds,
    };
    if commands {
        session.plan.amount = share(whole);
        let folder = session.scratch.folder(arguments.on.as_deref())?;
        let measured = Commands::new(arguments, &contents, &digest, &folder, &mut session)
            .and_then(|commands| commands.measure(&mut session));
        let removed = folder.remove();
        measured.and(removed)?;
        if session.stopped() {
            for content in &contents {
                let groups = SOURCES.map(|source| format!("{}, {source}", content.name));
                session.skip_unreached(groups.iter().map(|group| (group.as_str(), "every command")));
            }
        }
    }
    if alone && session.stopped() {
        session.skip_unreached([("library", "every row")]);
    } else if alone {
        session.plan.amount = share(whole);
        let most = arguments.size.as_deref().and_then(sizes::parse);
        arguments.library.measure(&digest, most, &mut session)?;
    }
    let report = session.report("Disk images", Quantity::Rate);
    let lines = match arguments.style {
        None => return session.finish(&report, output),
        Some(ImageStyle::Blkhash) => style::published(&session.results, &contents),
        Some(ImageStyle::BlkhashBench) => {
            let runs: Vec<_> = session.results.series.iter().filter_map(blkhash_bench).collect();
            format!("{:#}\n", serde_json::Value::Array(runs))
        }
    };
    session.finish_with(&lines, &report, output)
}

fn contents(arguments: &ImageArgs) -> Result<Vec<ImageContent>, Failure> {
    if arguments.images.is_empty() {
        return Ok(CONTENTS.to_vec());
    }
    let find = |name: &String| {
        let named = |content: &&ImageContent| content.name == name || content.name == format!("{name}% full");
        CONTENTS
            .iter()
            .find(named)
            .copied()
            .ok_or_else(|| Failure::value("--image", name, "must be 25, 50, 75, 100, empty or zeros"))
    };
    let mut found: Vec<ImageContent> = Vec::new();
    for name in &arguments.images {
        let content = find(name)?;
        if !found.contains(&content) {
            found.push(content);
        }
    }
    Ok(found)
}

/// What memory bandwidth is measured on, in bytes: more than caches hold.
const MEMORY: u64 = 128 << 20;

/// A subject, or the reason why there is none.
type FoundSubject<'a> = Result<Box<dyn Subject + 'a>, Box<(About, String)>>;

/// Reading so many bytes in so much memory; there may not be enough of it.
fn read_memory<'a>(about: About, room: u64, bytes: u64, threads: usize) -> FoundSubject<'a> {
    let about = about.bytes(bytes).control();
    match Memory::new(room as usize, bytes, threads) {
        Ok(memory) => Ok(InProcess::new(about, memory).boxed()),
        Err(error) => missing(about, error.to_string()),
    }
}

fn missing<'a>(about: About, why: impl Into<String>) -> FoundSubject<'a> {
    Err(Box::new((about, why.into())))
}

fn session_measure(session: &mut Session<'_>, found: Vec<FoundSubject<'_>>) {
    let mut subjects = Vec::new();
    for one in found {
        match one {
            Ok(subject) => subjects.push(subject),
            Err(missing) => session.skip(&missing.0, missing.1),
        }
    }
    if session.may_choose_rounds() {
        let compared = subjects.iter().filter(|subject| !subject.about().control).count();
        session.plan.amount = MeasureAmount::Rounds(enough_rounds(compared));
    }
    match session.stopped() {
        false => session.measure(subjects),
        true => subjects.iter().for_each(|subject| session.skip(subject.about(), NOT_REACHED)),
    }
}

/// The rounds of each table where nobody says how many: never less than these.
const LEAST_ROUNDS: u32 = 10;

/// As many as resolve a difference among so many although one or two rounds do not show it.
fn enough_rounds(subjects: usize) -> u32 {
    LEAST_ROUNDS.max(fewest_rounds(subjects) as u32 + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_rounds_that_they_need() {
        assert_eq!([1, 2, 4, 12].map(enough_rounds), [10, 10, 10, 14]);
    }
}
