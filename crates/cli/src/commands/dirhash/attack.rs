//! `verisum dirhash attack`: finds names with the same hash, and shows what they do to a directory.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use verisum_bench::export::{Cell, Report, Table};
use verisum_dirhash::Hashing;
use verisum_dirhash::attack::{self, Collisions, Method};

use super::attack_real::{self, Attack};
use super::options::{self, NameHashOptions, TreeOptions};
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;
use crate::ui::progress;
use crate::ui::{self, Output, names, shell};

/// What `verisum dirhash attack` takes.
#[derive(Args, Debug)]
pub(crate) struct AttackArgs {
    #[command(flatten)]
    hashes: NameHashOptions,

    #[command(flatten)]
    tree: TreeOptions,

    /// How many names with the same hash to make; without it, 60, or as many as can be found
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u32>,

    /// The name whose hash all of them have
    #[arg(long, value_name = "NAME", default_value = "hello")]
    like: OsString,

    /// Hashes to try if there is no better method than trying; a 32-bit hash takes 2147483648 tries for a
    /// name on average, because the index ignores a bit
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    tries: u64,

    /// Print the names instead, each on a line, quoted for a shell; with --json as a line of JSON
    #[arg(long, conflicts_with_all = ["export_json", "export_csv", "export_markdown", "export_html"])]
    list: bool,

    /// Also create and look up the names on a real ext4 in a file, with the seed they were made for and
    /// with another; needs root. Without --hash: legacy alone, which needs no long search
    #[arg(long, conflicts_with = "list")]
    real: bool,

    /// Number of rounds; each also runs with ordinary names. With few rounds no difference is significant,
    /// and the output says so
    #[arg(long, value_name = "N", default_value_t = 10, requires = "real", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// A name of `--list --json`.
#[derive(Serialize)]
struct AttackLine<'a> {
    hash: &'a str,
    name: &'a str,
}

/// What of a hash is in the key of an index.
const KEY_BITS: i32 = 31;

/// How many names are made of each hash where nobody says it.
const USUAL_COUNT: u32 = 60;

/// The most: they are all kept, and a directory of them takes time as their square.
const MOST_NAMES: u32 = 100_000;

/// How often the line of progress is drawn, at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// Builds the names and puts them into modelled directories.
pub(crate) fn run(arguments: &AttackArgs, output: &mut Output) -> Result<Exit, Failure> {
    let usual: &[&str] = match arguments.real {
        true => &["legacy"],
        false => &["legacy", "half_md4", "tea", "btrfs", "xfs", "reiserfs_r5", "crc32c_seeded"],
    };
    let hashings = arguments.hashes.hashings(usual)?;
    let count = options::at_least_one("--count", arguments.count.unwrap_or(USUAL_COUNT))?;
    if count > MOST_NAMES {
        let must = format!("must be at most {MOST_NAMES}");
        return Err(Failure::value("--count", count, must));
    }
    let count = count as usize;
    let geometry = arguments.tree.geometry()?;
    if arguments.real {
        attack_real::require(&hashings, geometry)?;
    }
    let mut parameters = options::parameters("attack", &hashings);
    parameters.extend(arguments.tree.parameters(false)?);
    parameters.extend([
        ("count", count.to_string()),
        ("like", names::quoted(&arguments.like)),
        ("tries", arguments.tries.to_string()),
    ]);
    if arguments.real {
        parameters.push(("rounds", arguments.rounds.to_string()));
    }
    let mut attacks = Vec::new();
    let mut made = Table::new(
        format!("Names with the hash of {}, the seed being known", names::quoted(&arguments.like)),
        "hash; method; equal; names; time (s); tried; rate (million/s); expected (s a name); for example",
    );
    let mut done = Table::new(
        "What they do to a directory with the seed they were made for, and with one that nobody knew",
        "hash; seed; names; blocks; leaves read (a lookup); most; index full",
    );
    let mut exit = Exit::Clean;
    for hashing in hashings {
        let found = collide(hashing, arguments, count);
        if found.names.len() < count {
            // Who asks for a number must learn that it is less; a search comes to what it comes to.
            if arguments.count.is_some() {
                exit = Exit::Unchecked;
            }
            ui::say(PROGRAM, &shortage(hashing, &found, count));
        }
        if arguments.list {
            print_names(hashing, &found.names, arguments.report.json(), output)?;
            continue;
        }
        made.row(making(hashing, &found));
        let secret = Hashing { seed: attack::other_seed(&hashing.seed), ..hashing };
        for (with, hashing) in [("known", hashing), ("secret", secret)] {
            if found.names.len() < 2 || (with == "secret" && !hashing.hash.is_seeded()) {
                continue;
            }
            let seed = if hashing.hash.is_seeded() { with } else { "none" };
            done.row(damage_row(hashing.hash.id, seed, &attack::damage(hashing, &found.names, geometry)));
        }
        if found.names.len() >= 2 {
            attacks.push(Attack { hashing, names: found.names });
        }
    }
    if !arguments.list {
        let mut report = Report::new("Names that all have one hash");
        report.parameters = parameters;
        report.tables = vec![made, done];
        if arguments.real {
            let (table, line) = attack_real::run(&attacks, geometry, arguments.rounds)?;
            report.tables.push(table);
            report.lines.extend(line);
        }
        arguments.report.show(&report, output)?;
    }
    Ok(exit)
}

/// Prints names that have one hash, and nothing else.
fn print_names(hashing: Hashing, names: &[Vec<u8>], json: bool, output: &mut Output) -> Result<(), Failure> {
    for name in names {
        match json {
            true => {
                let name = std::str::from_utf8(name).expect("they are of ASCII characters");
                output.json("name", &AttackLine { hash: hashing.hash.id, name })?;
            }
            false => output.line(&shell::word(name))?,
        }
    }
    Ok(())
}

fn damage_row(hash: &'static str, seed: &'static str, damage: &attack::Damage) -> [Cell; 7] {
    [
        Cell::text(hash),
        Cell::text(seed),
        Cell::Count(damage.names as u64),
        Cell::Count(damage.blocks),
        Cell::Number(damage.leaves_read, 2),
        Cell::Count(damage.most_leaves_read.into()),
        Cell::text(if damage.full { "yes" } else { "no" }),
    ]
}

/// How names of one hash were made, and how fast.
fn making(hashing: Hashing, found: &Collisions) -> Vec<Cell> {
    let time = found.time.as_secs_f64();
    let rate = (found.method == Method::Search && time > 0.0).then(|| found.tried as f64 / time);
    let expected = match found.method {
        Method::Inversion if !found.names.is_empty() => Some(time / found.names.len() as f64),
        _ => rate.map(|rate| 2f64.powi(KEY_BITS) / rate),
    };
    let example = found.names.first().map(|name| shell::word(name));
    vec![
        Cell::text(hashing.hash.id),
        Cell::text(found.method.name()),
        Cell::text(found.method.equal(hashing.hash)),
        Cell::Count(found.names.len() as u64),
        Cell::Number(time, 3),
        if found.tried > 0 { Cell::Count(found.tried) } else { Cell::Missing },
        rate.map_or(Cell::Missing, |rate| Cell::Number(rate / 1e6, 1)),
        expected.map_or(Cell::Missing, |time| Cell::Number(time, 2)),
        example.map_or(Cell::Missing, Cell::Text),
    ]
}

/// Why there are fewer names than were asked for.
fn shortage(hashing: Hashing, found: &Collisions, count: usize) -> String {
    let (hash, names) = (hashing.hash.id, found.names.len());
    match found.method {
        Method::Search => {
            format!("{hash}: {names} of {count} names found in {} tries (--tries)", found.tried)
        }
        _ => format!("{hash}: {names} of {count} names can be made"),
    }
}

/// Makes the names of one hash; a terminal is told how far a search is.
fn collide(hashing: Hashing, arguments: &AttackArgs, count: usize) -> Collisions {
    let started = Instant::now();
    let mut next = INTERVAL;
    let mut watch = |tried: u64, found: usize| {
        let time = started.elapsed();
        if time < next || Method::of(hashing.hash) != Method::Search {
            return;
        }
        next = time + INTERVAL;
        let rate = tried as f64 / time.as_secs_f64();
        let each = 2f64.powi(KEY_BITS) / rate;
        progress::show_line(&format!(
            "{}: {found} of {count} names, {tried} hashes, {:.0} million/s, about {each:.0} s a name",
            hashing.hash.id,
            rate / 1e6
        ));
    };
    let found = attack::collide(hashing, arguments.like.as_bytes(), count, arguments.tries, &mut watch);
    progress::show_line("");
    found
}
