//! `verisum bench digests`: measures programs and implementations of digests.

mod data;
mod programs;
mod selection;
mod style;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use verisum::digest::Algorithm;
use verisum_bench::digests::{self, FILE, MessageShape, SMALL};
use verisum_bench::export::Report;
use verisum_bench::measure::{About, MeasureAmount, Subject};
use verisum_bench::summary::Quantity;

use super::{BenchOptions, Session};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{kernel, sizes};
use data::Files;
use programs::{lists, programs};
use selection::ChosenDigests;

pub(super) use data::fill;

/// What `verisum bench digests` takes.
#[derive(Args, Debug)]
pub(crate) struct BenchDigestsArgs {
    /// The file that programs hash; without it one is made, and removed at the end
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Digests, with commas between them; may be given several times. `all` is every digest that verisum or a program computes
    #[arg(short, long, value_name = "DIGEST", value_delimiter = ',')]
    algorithm: Vec<String>,

    /// A program, such as coreutils, openssl or verisum; may be given several times
    #[arg(long, value_name = "PROGRAM")]
    program: Vec<String>,

    /// Measure only programs, or only implementations in this process
    #[arg(long, value_enum, conflicts_with = "style")]
    only: Option<OnlyDigests>,

    /// Size of the file that is made for programs; a larger one leaves time for fewer rounds
    #[arg(long, value_name = "SIZE", default_value = "16M")]
    size: String,

    /// Length of the 16 messages that are hashed in this process
    #[arg(long, value_name = "SIZE", default_value = "64k")]
    message: String,

    /// Directory for the files that are made; they are removed at the end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    on: Option<PathBuf>,

    /// Print the lines of a published experiment instead of tables
    #[arg(long, value_enum)]
    style: Option<DigestsStyle>,

    #[command(flatten)]
    options: BenchOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnlyDigests {
    Programs,
    Process,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DigestsStyle {
    /// An administrator's script of 2011: whole seconds over all runs, and checks of lists
    TestDigests,
}

/// What programs are compared by without being asked for more.
const USUAL_PROGRAMS: [&str; 7] = ["md5", "sha1", "sha256", "sha512", "blake2b512", "blake3", "xxh3-64"];

/// What implementations are compared by without being asked for more.
pub(super) const USUAL_INSIDE: [&str; 12] = [
    "md5",
    "sha1",
    "sha256",
    "sha512",
    "sha3-256",
    "blake2b512",
    "blake2s256",
    "blake3",
    "xxh3-64",
    "xxh64",
    "crc32c",
    "crc32",
];

/// The name of our own program in tables.
const OURS: &str = "verisum";

/// Measures.
pub(crate) fn run(arguments: &BenchDigestsArgs, output: &mut Output) -> Result<Exit, Failure> {
    kernel::policy()?;
    let chosen = ChosenDigests::of(arguments)?;
    let (rounds, seconds) = (MeasureAmount::Rounds(30), MeasureAmount::Time(Duration::from_secs(60)));
    let otherwise = if arguments.style.is_some() { rounds } else { seconds };
    let with_programs = arguments.only != Some(OnlyDigests::Process);
    let place = arguments.file.as_ref().or(arguments.on.as_ref()).cloned();
    let places = if with_programs { vec![place.unwrap_or_else(std::env::temp_dir)] } else { Vec::new() };
    let mut session = Session::begin("digests", &arguments.options, otherwise, &places)?;
    let files = match with_programs {
        true => Some(Files::of(arguments, &session)?),
        false => None,
    };
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    if arguments.style.is_none() && arguments.only != Some(OnlyDigests::Programs) {
        inside(&chosen, arguments, &mut session, &mut subjects)?;
    }
    if let Some(files) = &files {
        let sizes: &[(&Path, &str)] = match arguments.style {
            Some(_) => &[(&files.large, FILE)],
            None => &[(&files.large, FILE), (&files.small, SMALL)],
        };
        for &(file, group) in sizes {
            programs(&chosen, file, group, &mut session, &mut subjects)?;
        }
        if chosen.further {
            lists(files, &mut session, &mut subjects)?;
        }
    }
    if with_programs {
        for (program, digest) in &chosen.lacking {
            let about = About::new(format!("{digest} {FILE}"), *program).label("digest", *digest);
            session.skip(&about, format!("{program} has no {digest}"));
        }
    }
    session.measure_together(subjects);
    let mut report = session.report("Digests on this machine", Quantity::Rate);
    digests_first(&mut report, &session);
    let ended = match arguments.style {
        None => session.finish(&report, output),
        Some(DigestsStyle::TestDigests) => {
            let lines = style::test_digests(&session, &chosen);
            session.finish_with(&lines, &report, output)
        }
    };
    let removed = files.map_or(Ok(()), Files::remove);
    let exit = ended?;
    removed.map(|()| exit)
}

/// Adds the overviews where a reader looks first.
pub(super) fn digests_first(report: &mut Report, session: &Session<'_>) {
    if let Some(table) = digests::start_up(&session.results) {
        report.tables.insert(0, table);
    }
    if let Some((table, chart)) = digests::overview(&session.results) {
        report.tables.insert(0, table);
        report.charts.insert(0, chart);
    }
}

/// Implementations in this process.
fn inside(
    chosen: &ChosenDigests,
    arguments: &BenchDigestsArgs,
    session: &mut Session<'_>,
    subjects: &mut Vec<Box<dyn Subject>>,
) -> Result<(), Failure> {
    let length = sizes::parse(&arguments.message).filter(|length| (1..=64 << 20).contains(length));
    let length =
        length.ok_or_else(|| Failure::value("--message", &arguments.message, "must be 1 byte to 64M"))?;
    let message = MessageShape { length: length as usize, ..MessageShape::default() };
    for algorithm in &chosen.inside {
        add_inside(algorithm, message, session, subjects);
    }
    session.note(format!(
        "in process: {} messages of {}, in memory, one thread",
        message.count,
        sizes::human(length)
    ));
    Ok(())
}

/// The implementations of one digest.
pub(super) fn add_inside(
    algorithm: &'static Algorithm,
    message: MessageShape,
    session: &mut Session<'_>,
    subjects: &mut Vec<Box<dyn Subject>>,
) {
    for found in digests::inside(algorithm, message) {
        match found {
            Ok(subject) => subjects.push(subject),
            Err((about, why)) => session.skip(&about, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_apart_by_their_names() {
        assert!(SMALL != FILE && !FILE.contains(SMALL) && !digests::INSIDE.contains(FILE));
    }
}
