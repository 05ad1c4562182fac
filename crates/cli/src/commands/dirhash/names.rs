//! `verisum dirhash names`: names as people have them.

use std::collections::HashSet;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum_bench::export::{Cell, Report, Table};
use verisum_dirhash::bakeoff::{self, BakeoffQuestion};
use verisum_dirhash::names::Names;

use super::options::{self, NameHashOptions, THREAD, TreeOptions};
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;
use crate::ui::{self, Output};

/// What `verisum dirhash names` takes.
#[derive(Args, Debug)]
pub(crate) struct NamesArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    #[command(flatten)]
    tree: TreeOptions,

    /// How many names of each corpus
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100_000)]
    count: u32,

    /// Compare on the names in these directories, instead of the corpora; `-` reads a list from standard
    /// input, a name a line
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    listings: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// The longest list that is read from a pipe.
const MOST_BYTES: u64 = 2 << 30;

/// Compares the hashes on each corpus.
pub(crate) fn run(arguments: &NamesArgs, output: &mut Output) -> Result<Exit, Failure> {
    let hashings = arguments.hashes.hashings(&THREAD)?;
    let geometry = arguments.tree.geometry()?;
    let count = options::names_in_memory("--count", arguments.count)?;
    let mut corpora: Vec<(String, Names)> = Vec::new();
    if arguments.listings.is_empty() {
        for pattern in ["foo%d", "foo%09d", "%08x"] {
            corpora.push((pattern.to_string(), options::names(pattern)?));
        }
        corpora.extend(Names::CORPORA.iter().map(|(name, corpus)| (name.to_string(), corpus.clone())));
    }
    for listing in &arguments.listings {
        let names = read(listing)?;
        corpora.push((ui::names::quoted(listing.as_os_str()), Names::List(names)));
    }
    let mut table = Table::new(
        "Directories of such names",
        "names; hash; count; blocks; fill (%); mean fill (%); colliding (names); expected (names); \
         most of one hash",
    );
    for (shown, names) in &corpora {
        for hashing in &hashings {
            let count = names.count().map_or(count, |most| most.min(u64::from(u32::MAX - 1)) as u32);
            let question = BakeoffQuestion {
                names,
                count,
                geometry,
                policy: arguments.tree.policy(),
                split_rule: arguments.tree.split_rule(),
                points: 200,
            };
            let answer = bakeoff::run(&question, *hashing);
            // Names that meet another one by chance, of so many in 2^31 values.
            let expected =
                f64::from(count) * -f64::exp_m1(-f64::from(count.max(1) - 1) / f64::from(1u32 << 31));
            table.row([
                Cell::text(shown.as_str()),
                Cell::text(hashing.hash.id),
                Cell::Count(answer.names),
                Cell::Count(answer.directory_blocks),
                Cell::Number(answer.fill.fraction(geometry) * 100.0, 1),
                Cell::Number(answer.mean_fill() * 100.0, 1),
                Cell::Count(answer.fill.colliding),
                Cell::Number(expected, 1),
                Cell::Count(answer.fill.most_of_one_hash),
            ]);
        }
    }
    let mut report = Report::new("Hashes on names as people have them");
    report.parameters = options::parameters("names", &hashings);
    report.parameters.extend(arguments.tree.parameters(true)?);
    report.parameters.push(("count", count.to_string()));
    report.tables.push(table);
    arguments.report.show(&report, output)?;
    Ok(Exit::Clean)
}

/// The names of a directory, or the lines of standard input; each once.
fn read(listing: &PathBuf) -> Result<Vec<Vec<u8>>, Failure> {
    let failed = |operation| move |error| Failure::File { name: listing.clone(), operation, error };
    let mut names: Vec<Vec<u8>> = Vec::new();
    if listing.as_os_str() == "-" {
        let mut text = Vec::new();
        std::io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut text).map_err(failed("read"))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(failed("read")(std::io::Error::other("the list is longer than 2 GiB")));
        }
        // What is behind the last end of a line is a line only if there is something.
        let lines = text.strip_suffix(b"\n").unwrap_or(&text);
        if !text.is_empty() {
            names.extend(lines.split(|&byte| byte == b'\n').map(<[u8]>::to_vec));
        }
    } else {
        for entry in std::fs::read_dir(listing).map_err(failed("open"))? {
            names.push(entry.map_err(failed("read"))?.file_name().into_vec());
        }
    }
    let mut left_out = LeftOut::default();
    let mut seen = HashSet::new();
    names.retain(|name| left_out.is_name(name) && (seen.insert(name.clone()) || left_out.repeated()));
    let shown = ui::names::quoted(listing.as_os_str());
    if let Some(message) = left_out.message() {
        ui::say(PROGRAM, &format!("{shown}: {message}"));
    }
    match names.is_empty() {
        true => Err(failed("read")(std::io::Error::other("there are no names"))),
        false => Ok(names),
    }
}

/// Lines that are no names, or none of their own, by the reason.
#[derive(Default)]
struct LeftOut {
    empty: u64,
    long: u64,
    slash: u64,
    nul: u64,
    dots: u64,
    repeated: u64,
}

impl LeftOut {
    fn is_name(&mut self, line: &[u8]) -> bool {
        let reason = match line {
            [] => &mut self.empty,
            b"." | b".." => &mut self.dots,
            _ if line.contains(&b'/') => &mut self.slash,
            _ if line.contains(&0) => &mut self.nul,
            _ if line.len() > 255 => &mut self.long,
            _ => return true,
        };
        *reason += 1;
        false
    }

    fn repeated(&mut self) -> bool {
        self.repeated += 1;
        false
    }

    fn message(&self) -> Option<String> {
        let reasons = [
            (self.slash, "with /"),
            (self.nul, "with NUL"),
            (self.long, "longer than 255 bytes"),
            (self.empty, "empty"),
            (self.dots, ". or .."),
            (self.repeated, "repeated"),
        ];
        let reasons: Vec<String> = reasons
            .into_iter()
            .filter(|(lines, _)| *lines > 0)
            .map(|(lines, reason)| format!("{lines} {reason}"))
            .collect();
        (!reasons.is_empty()).then(|| format!("lines left out: {}", reasons.join(", ")))
    }
}
