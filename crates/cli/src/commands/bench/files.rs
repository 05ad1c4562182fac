//! `verisum bench files`: ways to the digest of a small and of a large file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum, ValueHint};
use verisum::digest::{Digest, Level, Policy};
use verisum_bench::digests::PROGRAMS;
use verisum_bench::export::{Cell, Table};
use verisum_bench::files::{FileWay, LARGE, SMALL, Timing, Within, cmpthese, parts, ways};
use verisum_bench::measure::{
    About, InProcess, MeasureAmount, MeasureError, Process, Subject, Work, find_program, version,
};
use verisum_bench::record::{BenchResults, NOT_RANKED, Series};
use verisum_bench::summary::Quantity;

use super::remote::{self, RemoteArgs};
use super::starter::own_program;
use super::{BenchOptions, Session};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::scratch::Folder;
use crate::ui::{Output, names};
use crate::ui::{digests, kernel, sizes};

/// What `verisum bench files` takes.
#[derive(Args, Debug)]
pub(crate) struct FilesArgs {
    /// Files to hash instead of those that are made
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// A way: a known name, `published` for the five of 2014, or NAME=COMMAND, where {} stands for the file's
    /// name; with --host, a program of the host. May be given several times; without it, all known ones
    #[arg(long = "way", value_name = "WAY")]
    pub(super) ways: Vec<String>,

    /// The digest [default: md5; with --host sha256]
    #[arg(short, long, value_name = "DIGEST")]
    pub(super) algorithm: Option<String>,

    /// The size of the small file [default: 2335; with --host 4K]
    #[arg(long, value_name = "SIZE")]
    pub(super) small: Option<String>,

    /// The size of the large file, which is all zeros, or with --host nearly all spaces [default: 1G; with
    /// --host 64M]
    #[arg(long, value_name = "SIZE")]
    pub(super) large: Option<String>,

    /// Runs with the small file, unless --runs or --time is given
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    small_runs: u32,

    /// Runs with the large file, unless --runs or --time is given
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    large_runs: u32,

    /// How many small files one start of a program hashes, in the rows that show the cost of a start
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1000))]
    shared: u32,

    /// Directory for the files that are made; they are removed at the end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    on: Option<PathBuf>,

    /// Print the matrix of a published experiment instead of tables
    #[arg(long, value_enum)]
    style: Option<FilesStyle>,

    #[command(flatten)]
    pub(super) remote: RemoteArgs,

    #[command(flatten)]
    pub(super) options: BenchOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FilesStyle {
    /// As perl's Benchmark prints it: processor time, runs a second, and percentages
    Cmpthese,
}

/// The digest of the experiment of 2014.
const ALGORITHM: &str = "md5";

/// The names of ways that are not in the table of ways.
const OURS: &str = "verisum";
const WITHIN: &str = "in-process";
const PUBLISHED: &str = "published";

/// The kind of rows of which a matrix of single starts says nothing.
const SHARED: &str = "shared start";

/// The kind of rows that show what is left without a start.
const NO_START: &str = "no start";

/// Reading by lines takes up to this many times the memory of the longest line.
const LINES_MEMORY: u64 = 3;

/// Measures.
pub(crate) fn run(arguments: &FilesArgs, output: &mut Output) -> Result<Exit, Failure> {
    if arguments.remote.host.is_some() {
        return remote::run(arguments, output);
    }
    let algorithm = arguments.algorithm.as_deref().unwrap_or(ALGORITHM);
    let digest = digests::find(algorithm, &kernel::policy()?)?;
    let chosen = ChosenWays::of(arguments, &digest)?;
    let place = arguments.on.clone().unwrap_or_else(std::env::temp_dir);
    let places = if arguments.files.is_empty() { vec![place] } else { arguments.files.clone() };
    let mut session =
        Session::begin("files", &arguments.options, MeasureAmount::Rounds(arguments.small_runs), &places)?;
    let folder = session.scratch.folder(arguments.on.as_deref())?;
    let measured = measure(arguments, &chosen, &digest, &folder, &mut session);
    let removed = folder.remove();
    measured.and(removed)?;
    let mut report = session.report("Ways to the digest of a file", Quantity::Time);
    report.tables.splice(..0, start_and_rate(&session.results));
    match arguments.style {
        None => session.finish(&report, output),
        Some(FilesStyle::Cmpthese) => {
            let lines = matrices(&session.results);
            session.finish_with(&lines, &report, output)
        }
    }
}

fn measure(
    arguments: &FilesArgs,
    chosen: &ChosenWays,
    digest: &Digest,
    folder: &Folder,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let files = match arguments.files.is_empty() {
        true => made(arguments, folder, session)?,
        false => given(arguments)?,
    };
    let scripts = chosen.write_scripts(folder)?;
    for way in &chosen.ways {
        if let Some(option) = version_option(way.program())
            && let Some(found) = find_program(way.program(), chosen.path.as_deref())
            && let Some(version) = version(&found, option)
        {
            session.results.host.versions.insert(way.program().to_string(), version);
        }
    }
    let amount = session.plan.amount;
    let given = arguments.options.runs.is_some() || arguments.options.time.is_some();
    for (index, file) in files.iter().enumerate() {
        if session.stopped() {
            session.skip_unreached([(file.name.as_str(), "every way")]);
            continue;
        }
        session.plan.amount = match amount {
            MeasureAmount::Time(time) => MeasureAmount::Time(time / files.len() as u32),
            _ if given => amount,
            _ => MeasureAmount::Rounds(file.runs),
        };
        let subjects = subjects(arguments, chosen, digest, file, &scripts, index == 0, session)?;
        session.measure(subjects);
    }
    session
        .note(format!("rows of {} files share a start: their times are those of one file", arguments.shared));
    Ok(())
}

/// Which ways were chosen.
struct ChosenWays {
    ways: Vec<FileWay>,
    ours: bool,
    within: bool,
    path: Option<std::ffi::OsString>,
}

impl ChosenWays {
    fn of(arguments: &FilesArgs, digest: &Digest) -> Result<ChosenWays, Failure> {
        let known = ways(digest.name());
        let mut chosen =
            ChosenWays { ways: Vec::new(), ours: false, within: false, path: std::env::var_os("PATH") };
        let mut users: Vec<FileWay> = Vec::new();
        let mut named = false;
        for text in &arguments.ways {
            named |= !text.contains('=');
            let mut add = |found: &mut dyn Iterator<Item = &FileWay>| {
                for way in found {
                    // Named by itself and among others it is still one.
                    if !chosen.ways.contains(way) {
                        chosen.ways.push(way.clone());
                    }
                }
            };
            match text.as_str() {
                PUBLISHED => add(&mut known.iter().filter(|way| way.published)),
                OURS => chosen.ours = true,
                WITHIN => chosen.within = true,
                name => match known.iter().find(|way| way.name == name) {
                    Some(way) => add(&mut std::iter::once(way)),
                    None => users.push(FileWay::parse(text).map_err(|must| {
                        let all: Vec<&str> = known.iter().map(|way| way.name.as_str()).collect();
                        let must =
                            format!("{must} (known: {PUBLISHED}, {}, {OURS}, {WITHIN})", all.join(", "));
                        Failure::value("--way", text, must)
                    })?),
                },
            }
        }
        if !named {
            chosen = ChosenWays { ways: known, ours: true, within: true, ..chosen };
        }
        chosen.ways.extend(users);
        let mut names: Vec<&str> = chosen.ways.iter().map(|way| way.name.as_str()).collect();
        names.extend([OURS, WITHIN]);
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => {
                Err(Failure::value("--way", twice[0], "must be another name: there is such a way already"))
            }
            None => Ok(chosen),
        }
    }

    /// Writes the scripts of ways that have one.
    fn write_scripts(&self, folder: &Folder) -> Result<Vec<Option<PathBuf>>, Failure> {
        let write = |(index, way): (usize, &FileWay)| {
            let Some(script) = way.script else { return Ok(None) };
            let path = folder.path().join(format!("script-{index}"));
            match std::fs::write(&path, script) {
                Ok(()) => Ok(Some(path)),
                Err(error) => Err(Failure::File { name: path, operation: "write", error }),
            }
        };
        self.ways.iter().enumerate().map(write).collect()
    }
}

/// A file that is hashed.
struct Hashed {
    /// What it is in the tables.
    name: String,
    path: PathBuf,
    length: u64,
    /// How often it is hashed if nothing else is said.
    runs: u32,
}

/// The files of the experiment.
fn made(arguments: &FilesArgs, folder: &Folder, session: &Session<'_>) -> Result<Vec<Hashed>, Failure> {
    let size = |option: &'static str, text: &str| {
        sizes::parse(text)
            .ok_or_else(|| Failure::value(option, text, "must be a number of bytes, as 2335 or 1G"))
    };
    let length = |option, text: &Option<String>, otherwise| match text {
        Some(text) => size(option, text),
        None => Ok(otherwise),
    };
    let small = length("--small", &arguments.small, SMALL)?;
    let large = length("--large", &arguments.large, LARGE)?;
    folder.needs(small.saturating_add(large))?;
    session.preparing("making the files");
    let make = |name: &str, length, byte: fn(u64) -> u8, runs| {
        let path = folder.path().join(name);
        let stop = session.stop();
        match fill(&path, length, byte, &stop) {
            Ok(()) => Ok(Hashed { name: format!("{name}: {length} bytes"), path, length, runs }),
            Err(error) => Err(Failure::File { name: path, operation: "write", error }),
        }
    };
    // Bytes of a text with lines of usual length.
    let text = |at: u64| if at % 61 == 60 { b'\n' } else { b'a' + (at * at % 23) as u8 };
    Ok(vec![
        make("small", small, text, arguments.small_runs)?,
        make("large", large, |_| 0, arguments.large_runs)?,
    ])
}

fn fill(path: &Path, length: u64, byte: fn(u64) -> u8, stop: &AtomicBool) -> std::io::Result<()> {
    let piece: Vec<u8> = (0..length.min(1 << 20)).map(byte).collect();
    let mut file = std::fs::File::create_new(path)?;
    let mut left = length;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let count = left.min(piece.len() as u64) as usize;
        file.write_all(&piece[..count])?;
        left -= count as u64;
    }
    file.sync_all()
}

/// The user's files.
fn given(arguments: &FilesArgs) -> Result<Vec<Hashed>, Failure> {
    let each = |path: &PathBuf| {
        let failed = |operation| move |error| Failure::File { name: path.clone(), operation, error };
        let about = std::fs::metadata(path).map_err(failed("open"))?;
        if !about.is_file() {
            return Err(failed("open")(std::io::Error::other("not a regular file")));
        }
        let runs = if about.len() < 1 << 20 { arguments.small_runs } else { arguments.large_runs };
        let name = format!("{}: {} bytes", names::quoted(path.as_os_str()), about.len());
        Ok(Hashed { name, path: path.clone(), length: about.len(), runs })
    };
    let mut files: Vec<Hashed> = Vec::new();
    for path in &arguments.files {
        let file = each(path)?;
        if files.iter().all(|other| other.name != file.name) {
            files.push(file);
        }
    }
    Ok(files)
}

/// All ways to the digest of one file, and the controls.
fn subjects<'a>(
    arguments: &FilesArgs,
    chosen: &ChosenWays,
    digest: &Digest,
    file: &'a Hashed,
    scripts: &[Option<PathBuf>],
    small: bool,
    session: &mut Session<'_>,
) -> Result<Vec<Box<dyn Subject + 'a>>, Failure> {
    let path = file.path.as_path();
    let about = |name: &str| {
        About::new(&file.name, name).bytes(file.length).file(path).label("digest", digest.name())
    };
    let mut subjects: Vec<Box<dyn Subject + 'a>> = Vec::new();
    let expected = expected(digest, path)?;
    let ours = ours(digest);
    for (way, script) in
        chosen.ways.iter().chain(chosen.ours.then_some(&ours)).zip(scripts.iter().chain([&None]))
    {
        let starts = about(&way.name).expect(&expected).label("kind", "start");
        let program = match way.name.as_str() {
            OURS => own_program().ok(),
            _ => find_program(way.program(), chosen.path.as_deref()),
        };
        let Some(program) = program else {
            session.skip(&starts, format!("{} is not installed", way.program()));
            continue;
        };
        if way.published && digest.name() != "md5" {
            session.skip(&starts, "computes MD5 only");
            continue;
        }
        if way.lines && file.length.saturating_mul(LINES_MEMORY) > memory_available() {
            session.skip(&starts, "reads by lines: zeros are one line, for which there is not enough memory");
            continue;
        }
        subjects.push(way.subject(starts, &program, script.as_deref(), &[path]));
        if small && ["md5sum", OURS].contains(&way.name.as_str()) {
            let name = format!("{}, {} files", way.name, arguments.shared);
            let shared = about(&name).expect(&expected).label("kind", SHARED).label(NOT_RANKED, SHARED);
            subjects.push(way.subject(shared, &program, None, &vec![path; arguments.shared as usize]));
        }
    }
    if chosen.within {
        let about = about(WITHIN).expect(&expected).label("kind", NO_START).label(NOT_RANKED, NO_START);
        subjects.push(in_process(about, Within::new(path, Some(digest.clone())), arguments));
    }
    let read = about("read the file").control();
    subjects.push(in_process(read, Within::new(path, None), arguments));
    let start = About::new(&file.name, "start a program").control();
    match find_program("true", chosen.path.as_deref()) {
        Some(program) => subjects.push(Process::new(start, program, [""; 0]).boxed()),
        None => session.skip(&start, "true is not installed"),
    }
    Ok(subjects)
}

/// Our own command.
fn ours(digest: &Digest) -> FileWay {
    let words = ["verisum", "sum", "-a", digest.name(), "--", verisum_bench::files::PLACE];
    let words = words.map(str::to_string).to_vec();
    FileWay { name: OURS.to_string(), words, script: None, lines: false, published: false }
}

fn in_process(about: About, work: Within, arguments: &FilesArgs) -> Box<dyn Subject> {
    let subject = InProcess::new(about, work);
    // A second reading would find what the first left in the cache.
    if arguments.options.cold { subject.once().boxed() } else { subject.boxed() }
}

/// The right digest, by our plainest code.
fn expected(digest: &Digest, path: &Path) -> Result<String, Failure> {
    let plain = match digest.algorithm() {
        Some(algorithm) => Digest::of(algorithm, &Policy { max_level: Level::Portable })?,
        None => digest.clone(),
    };
    let mut work = Within::new(path, Some(plain));
    work.work().map_err(|error| failure(error, path))?;
    Ok(work.digest().unwrap_or_default())
}

/// An error before the measurement, for the user.
pub(super) fn failure(error: MeasureError, path: &Path) -> Failure {
    match error {
        MeasureError::Io { path, operation, source } => {
            Failure::File { name: path, operation, error: source }
        }
        MeasureError::Digest(error) => Failure::Digest(error),
        other => Failure::file(path, "hash", std::io::Error::other(other.to_string())),
    }
}

/// Bytes of memory that programs can have without swapping.
fn memory_available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes * 1024)
}

/// What makes a program print its version. None of those that are not known by name: what a script of the
/// user's does with such an option nobody knows.
fn version_option(program: &str) -> Option<&'static [&'static str]> {
    PROGRAMS.iter().map(|known| known.version).find(|(name, _)| *name == program).map(|(_, option)| option)
}

/// What each way takes to begin, and how fast it is then.
fn start_and_rate(results: &BenchResults) -> Option<Table> {
    let mut table = Table::new(
        "Start-up and throughput",
        "way; start (ms); then (GB/s); then from (GB/s); then to (GB/s)",
    )
    .details(&["then from", "then to"]);
    let groups = results.groups();
    let [small, .., large] = groups.as_slice() else { return None };
    let of = |group: &str, name: &str| -> Option<&Series> {
        results.series.iter().find(|one| one.group == group && one.name == name)
    };
    let mut found: Vec<_> = results
        .series
        .iter()
        .filter(|one| one.group == *small)
        .filter_map(|one| Some((one, parts(one, of(large, &one.name)?)?)))
        .collect();
    found.sort_by(|a, b| a.1.start.total_cmp(&b.1.start));
    for (series, parts) in found {
        let rate = parts.rate.map(|rate| [rate.median, rate.low, rate.high]);
        let mut cells = vec![Cell::text(&series.name), Cell::Number(parts.start * 1e3, 3)];
        cells.extend((0..3).map(|at| rate.map_or(Cell::Missing, |rate| Cell::Number(rate[at] / 1e9, 2))));
        table.row(cells);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// A matrix for each file, and what was left out of it.
fn matrices(results: &BenchResults) -> String {
    let mut text = String::new();
    for group in results.groups() {
        let series: Vec<&Series> =
            results.series.iter().filter(|one| one.group == group && !one.control).collect();
        let runs = series.iter().map(|one| one.wall.len()).max().unwrap_or(0);
        let timings: Vec<Timing> = series
            .iter()
            .filter(|one| !one.wall.is_empty() && one.labels.get("kind").is_none_or(|kind| kind != SHARED))
            .map(|one| Timing {
                name: one.name.clone(),
                count: one.wall.len() as u64,
                seconds: one.user.iter().chain(&one.system).sum(),
            })
            .collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let runs = if runs == 1 { "1 run".to_string() } else { format!("{runs} runs") };
        text.push_str(&format!("{group}, {runs}\n{}", cmpthese(&timings)));
        for one in series {
            if let Some(why) = one.verdict() {
                text.push_str(&format!("{}: {}\n", names::plain(&one.name), names::plain(&why)));
            }
        }
    }
    text
}
