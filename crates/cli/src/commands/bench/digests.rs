//! `verisum bench digests`: programs and implementations of digests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use verisum_digest::{ALGORITHMS, Algorithm};
use verisum_lab::digests::{self, CKSUM, FILE, Message, PROGRAMS, SMALL, SUM, Way};
use verisum_lab::export::Report;
use verisum_lab::measure::{self, About, Amount, Error, InProcess, Process, Subject, Work, find_program};
use verisum_lab::record::{NOT_REACHED, Series};
use verisum_lab::stats::median;
use verisum_lab::summary::{Quantity, processor_time};

use super::leftovers::Folder;
use super::{BenchOptions, Session};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{Output, names};
use crate::{kernel, sizes};

/// What `verisum bench digests` takes.
#[derive(Args, Debug)]
pub(crate) struct DigestsArgs {
    /// The file that programs hash; without it one is made, and removed in the end
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// A digest; may be given several times. `all` is every digest that verisum or a program computes
    #[arg(short, long = "alg", value_name = "DIGEST")]
    algorithm: Vec<String>,

    /// A program, as coreutils, openssl or verisum; may be given several times
    #[arg(long, value_name = "PROGRAM")]
    program: Vec<String>,

    /// Only programs, or only implementations in this process
    #[arg(long, value_enum, conflicts_with = "style")]
    only: Option<Only>,

    /// The size of the file that is made for programs: a larger one leaves fewer rounds
    #[arg(long, value_name = "SIZE", default_value = "16M")]
    size: String,

    /// The length of the 16 messages that are hashed in this process
    #[arg(long, value_name = "SIZE", default_value = "64k")]
    message: String,

    /// Where files are made; they are removed in the end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    on: Option<PathBuf>,

    /// Print the lines of a published experiment instead of tables
    #[arg(long, value_enum)]
    style: Option<Style>,

    #[command(flatten)]
    options: BenchOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    Programs,
    Process,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Style {
    /// An administrator's script of 2011: whole seconds over all runs, and checks of lists
    TestDigests,
}

/// The digests of the experiment, in its order.
const HISTORICAL: [&str; 7] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "ripemd160"];

/// The programs of the experiment, in its order.
const HISTORICAL_PROGRAMS: [&str; 4] = ["coreutils", "openssl", "perl", "rhash"];

/// Its second table.
const SECOND: [(&str, &str); 4] =
    [("coreutils", SUM), ("coreutils", CKSUM), ("openssl", "md4"), ("openssl", "md5")];

/// Its third: programs that check lists.
const CHECKS: [(&str, &str); 4] =
    [("md5sum", "md5"), ("sha1sum", "sha1"), ("sha256sum", "sha256"), ("sha512sum", "sha512")];

/// The name of their group.
const LISTS: &str = "checks of a list of two files";

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

/// A small file's length: what a program takes for it is its start.
const SMALL_LENGTH: u64 = 1024;

/// Measures.
pub(crate) fn run(arguments: &DigestsArgs, output: &mut Output) -> Result<Exit, Failure> {
    kernel::policy()?;
    let chosen = Chosen::of(arguments)?;
    let (rounds, seconds) = (Amount::Rounds(30), Amount::Time(Duration::from_secs(60)));
    let otherwise = if arguments.style.is_some() { rounds } else { seconds };
    let with_programs = arguments.only != Some(Only::Process);
    let place = arguments.file.as_ref().or(arguments.on.as_ref()).cloned();
    let places = if with_programs { vec![place.unwrap_or_else(std::env::temp_dir)] } else { Vec::new() };
    let mut session = Session::begin("digests", &arguments.options, otherwise, &places)?;
    let files = match with_programs {
        true => Some(Files::of(arguments, &session)?),
        false => None,
    };
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    if arguments.style.is_none() && arguments.only != Some(Only::Programs) {
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
        if chosen.lists {
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
        Some(Style::TestDigests) => {
            let lines = test_digests(&session);
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

/// What was chosen of digests and programs.
struct Chosen {
    inside: Vec<&'static Algorithm>,
    ways: Vec<Way>,
    /// Digests that our own program computes for comparison.
    ours: Vec<&'static str>,
    programs: Vec<&'static str>,
    /// Digests that programs which were asked for by name do not have.
    lacking: Vec<(&'static str, &'static str)>,
    /// Whether programs also check lists.
    lists: bool,
}

impl Chosen {
    fn of(arguments: &DigestsArgs) -> Result<Chosen, Failure> {
        let known: Vec<&'static str> = ALGORITHMS.iter().map(|row| row.id).chain([CKSUM, SUM]).collect();
        let mut named = Vec::new();
        for name in &arguments.algorithm {
            match name.as_str() {
                "all" => named.extend(known.iter().copied().filter(|id| *id != "null")),
                CKSUM => named.push(CKSUM),
                SUM => named.push(SUM),
                // Errors with hints as elsewhere.
                name => match Algorithm::find(name) {
                    Some(row) => named.push(row.id),
                    None => {
                        crate::digests::find(name, &kernel::policy()?)?;
                    }
                },
            }
        }
        let mut seen = Vec::new();
        named.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        let programs: Vec<&'static str> = PROGRAMS.iter().map(|program| program.name).chain([OURS]).collect();
        let mut chosen = Vec::new();
        for name in &arguments.program {
            let found = programs.iter().find(|program| *program == name);
            chosen.push(*found.ok_or_else(|| Failure::Value {
                option: "--program",
                value: name.clone(),
                must: format!("must be one of {}", programs.join(", ")),
            })?);
        }
        if chosen.is_empty() {
            chosen = match arguments.style {
                Some(_) => HISTORICAL_PROGRAMS.to_vec(),
                None => programs,
            };
        }
        let or = |usual: &[&'static str]| if named.is_empty() { usual.to_vec() } else { named.clone() };
        let historical = arguments.style.is_some();
        let of_programs = or(if historical { &HISTORICAL } else { &USUAL_PROGRAMS });
        let second =
            |way: &Way| historical && named.is_empty() && SECOND.contains(&(way.program, way.digest));
        let mut ways = digests::ways();
        ways.retain(|way| {
            chosen.contains(&way.program) && (of_programs.contains(&way.digest) || second(way))
        });
        let ours = match chosen.contains(&OURS) {
            true => of_programs.iter().copied().filter(|id| Algorithm::find(id).is_some()).collect(),
            false => Vec::new(),
        };
        let has = |program: &str, digest: &str| {
            (program == OURS && Algorithm::find(digest).is_some())
                || ways.iter().any(|way| (way.program, way.digest) == (program, digest))
        };
        let asked = chosen.iter().filter(|program| arguments.program.iter().any(|name| name == *program));
        let lacking = asked
            .flat_map(|&program| of_programs.iter().map(move |&digest| (program, digest)))
            .filter(|(program, digest)| !historical && !has(program, digest))
            .collect();
        let inside = or(&USUAL_INSIDE).iter().filter_map(|id| Algorithm::find(id)).collect();
        let lists = historical && named.is_empty() && arguments.program.is_empty();
        Ok(Chosen { inside, ways, ours, programs: chosen, lacking, lists })
    }

    /// The digests that programs are compared by, in the order of the table.
    fn digests(&self) -> Vec<&'static str> {
        let mut found: Vec<&'static str> = self.ways.iter().map(|way| way.digest).collect();
        found.extend(&self.ours);
        let mut seen = Vec::new();
        found.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        found
    }
}

/// Implementations in this process.
fn inside(
    chosen: &Chosen,
    arguments: &DigestsArgs,
    session: &mut Session<'_>,
    subjects: &mut Vec<Box<dyn Subject>>,
) -> Result<(), Failure> {
    let length = sizes::parse(&arguments.message).filter(|length| (1..=64 << 20).contains(length));
    let length = length.ok_or_else(|| Failure::Value {
        option: "--message",
        value: arguments.message.clone(),
        must: "must be 1 byte to 64M".to_string(),
    })?;
    let message = Message { length: length as usize, ..Message::default() };
    for algorithm in &chosen.inside {
        add_inside(algorithm, message, session, subjects);
    }
    session.note(format!("in process: {} messages of {length} bytes, in memory, one thread", message.count));
    Ok(())
}

/// The implementations of one digest.
pub(super) fn add_inside(
    algorithm: &'static Algorithm,
    message: Message,
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

/// Programs, and the controls beside them.
fn programs(
    chosen: &Chosen,
    file: &Path,
    size: &str,
    session: &mut Session<'_>,
    subjects: &mut Vec<Box<dyn Subject>>,
) -> Result<(), Failure> {
    let failed = |error| Failure::File { name: file.to_path_buf(), operation: "read", error };
    let length = std::fs::metadata(file).map_err(failed)?.len();
    let path = std::env::var_os("PATH");
    let path = path.as_deref();
    for program in PROGRAMS.iter().filter(|program| chosen.programs.contains(&program.name)) {
        session.record_version(program.name, program.version);
    }
    let ours = std::env::current_exe()
        .map_err(|error| Failure::Program { name: OURS.to_string(), why: error.to_string() })?;
    for digest in chosen.digests() {
        let group = format!("{digest} {size}");
        let kind = if size == SMALL { "small" } else { "large" };
        // Made before the right digest is computed: a file that changes from now on is seen.
        let row = About::new(&group, "").bytes(length).file(file).label("digest", digest);
        let row = row.label("kind", "program").label("size", kind);
        let about = |name: &str| row.clone().named(name);
        let expected = match digests::expected(digest, file) {
            Ok(expected) => expected,
            Err(Error::Io { path, operation, source }) => {
                return Err(Failure::File { name: path, operation, error: source });
            }
            Err(error) => {
                session.skip(&about("any"), error.to_string());
                continue;
            }
        };
        for way in chosen.ways.iter().filter(|way| way.digest == digest) {
            let about = about(way.program).expect(&expected);
            match way.find(path) {
                Some(executable) => subjects.push(way.subject(about, &executable, file).boxed()),
                None => session.skip(&about, format!("{} is not installed", way.executable)),
            }
        }
        if chosen.ours.contains(&digest) {
            subjects.push(our_program(about(OURS).expect(&expected), &ours, digest, file).boxed());
        }
        // Without competitors there is nothing that a limit would limit.
        let null = Algorithm::find("null").map_or("null", |row| row.id);
        subjects.push(our_program(about("verisum, null digest").control(), &ours, null, file).boxed());
        subjects.push(InProcess::new(about("read the file").control(), ReadFile::new(file)).once().boxed());
        match find_program("true", path) {
            Some(program) => {
                let about = about("start a program").bytes(0).control();
                subjects.push(Process::new(about, program, [""; 0]).boxed());
            }
            None => session.skip(&about("start a program").control(), "true is not installed"),
        }
    }
    Ok(())
}

fn our_program(about: About, ours: &Path, digest: &str, file: &Path) -> Process {
    // Before a difficult name stands a backslash, and before this digest its name, as xxhsum has it.
    let parse: measure::Parse = |text| {
        let word = text.split_whitespace().next()?.trim_start_matches('\\');
        Some(word.strip_prefix("XXH3_").unwrap_or(word).to_string())
    };
    let check = about.expected.is_some();
    let arguments = ["sum".into(), "-a".into(), digest.into(), "--".into(), file.as_os_str().to_owned()];
    let process = Process::new(about, ours, arguments);
    if check { process.parse(parse) } else { process }
}

/// The third table of the experiment: programs that check a list of two files, which are the same one here.
fn lists(
    files: &Files,
    session: &mut Session<'_>,
    subjects: &mut Vec<Box<dyn Subject>>,
) -> Result<(), Failure> {
    let path = std::env::var_os("PATH");
    for (program, digest) in CHECKS {
        let about = About::new(LISTS, format!("{program} -c")).file(&files.large).label("digest", digest);
        let length = std::fs::metadata(&files.large).map_or(0, |about| about.len());
        let about = about.bytes(2 * length);
        let Some(found) = find_program(program, path.as_deref()) else {
            session.skip(&about, format!("{program} is not installed"));
            continue;
        };
        let expected = match digests::expected(digest, &files.large) {
            Ok(expected) => expected,
            Err(error) => {
                session.skip(&about, error.to_string());
                continue;
            }
        };
        let list = files.folder.path().join(program);
        let line = listed(&expected, &files.large);
        std::fs::write(&list, [&line[..], &line].concat()).map_err(|error| Failure::File {
            name: list.clone(),
            operation: "write",
            error,
        })?;
        subjects.push(Process::new(about, found, ["-c".into(), list.into_os_string()]).boxed());
    }
    Ok(())
}

/// A line as md5sum writes it.
fn listed(digest: &str, file: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let name = file.as_os_str().as_bytes();
    let mut escaped = Vec::new();
    for &byte in name {
        match byte {
            b'\\' => escaped.extend(b"\\\\"),
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
            byte => escaped.push(byte),
        }
    }
    let start: &[u8] = if escaped == name { b"" } else { b"\\" };
    [start, digest.as_bytes(), b"  ", &escaped, b"\n"].concat()
}

/// Reads a file and does nothing with it.
pub(super) struct ReadFile {
    path: PathBuf,
    buffer: Vec<u8>,
}

impl ReadFile {
    pub(super) fn new(path: &Path) -> ReadFile {
        ReadFile { path: path.to_path_buf(), buffer: vec![0; 256 * 1024] }
    }
}

impl Work for ReadFile {
    fn work(&mut self) -> Result<(), Error> {
        use std::io::Read;
        let mut file =
            std::fs::File::open(&self.path).map_err(|error| Error::io(&self.path, "open", error))?;
        loop {
            let read = file.read(&mut self.buffer).map_err(|error| Error::io(&self.path, "read", error))?;
            if read == 0 {
                return Ok(());
            }
        }
    }
}

/// The lines of the historical script: fastest first, then those that were skipped.
fn test_digests(session: &Session<'_>) -> String {
    let mut lines = String::new();
    let asked: Vec<(&str, &str)> =
        HISTORICAL_PROGRAMS.iter().flat_map(|program| HISTORICAL.map(|digest| (*program, digest))).collect();
    let find = |program: &str, digest: &str| {
        let labelled = |one: &&Series| {
            one.name == program && one.labels.get("digest").is_some_and(|label| label == digest)
        };
        session.results.series.iter().find(labelled)
    };
    for table in [&asked[..], &SECOND[..]] {
        let mut done: Vec<(f64, String)> = Vec::new();
        let mut skipped = Vec::new();
        for (program, digest) in table {
            match find(program, digest) {
                Some(series) if !series.wall.is_empty() => {
                    let total: f64 = series.wall.iter().sum();
                    done.push((total, line(program, digest, Ok((total, series.wall.len())))));
                }
                unmeasured => {
                    let verdict = unmeasured.and_then(Series::verdict).unwrap_or_default();
                    let word = verdict.split(':').next().filter(|word| !word.is_empty());
                    skipped.push(line(program, digest, Err(word.unwrap_or("SKIPPED"))));
                }
            }
        }
        done.sort_by(|a, b| a.0.total_cmp(&b.0));
        for line in done.into_iter().map(|(_, line)| line).chain(skipped) {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines.push('\n');
    }
    let series = || session.results.series.iter();
    for check in series().filter(|one| one.group == LISTS && !one.wall.is_empty()) {
        let Some((user, system)) = processor_time(check) else { continue };
        let real = median(&check.wall);
        lines.push_str(&format!(
            "CHECK: {} / real {real:.3} / user {user:.3} / sys {system:.3} seconds\n",
            check.name
        ));
    }
    lines.truncate(lines.trim_end().len());
    lines.push('\n');
    // The lines above say only that.
    let reached = |one: &&Series| one.skipped.as_deref() != Some(NOT_REACHED);
    let skipped: Vec<_> =
        series().filter(|one| one.skipped.is_some() && !one.control).filter(reached).collect();
    let mut reasons: Vec<String> = Vec::new();
    let of = |one: &Series| one.labels.get("digest").cloned().unwrap_or_default();
    for one in skipped {
        let why = names::plain(&one.verdict().unwrap_or_default());
        reasons.push(format!("{} {}: {why}\n", one.name, of(one)));
    }
    for (program, digest) in asked.iter().chain(&SECOND) {
        let known = digests::ways().iter().any(|way| (way.program, way.digest) == (*program, *digest));
        if !series().any(|one| one.name == *program && of(one) == *digest) {
            let why = if known { "was not asked for" } else { "it has none" };
            reasons.push(format!("{program} {digest}: SKIPPED: {why}\n"));
        }
    }
    reasons.dedup();
    if !reasons.is_empty() {
        lines.push('\n');
    }
    lines.extend(reasons);
    lines
}

/// Seconds over so many runs, or the word for why there are none.
fn line(program: &str, digest: &str, measured: Result<(f64, usize), &str>) -> String {
    let what = match measured {
        Ok((seconds, runs)) => format!("{seconds:.0} seconds over {runs} runs"),
        Err(word) => word.to_string(),
    };
    format!("TEST: {program} / DIGEST: {digest} / {what}")
}

/// What programs hash. Dropping it removes what was made.
struct Files {
    folder: Folder,
    large: PathBuf,
    small: PathBuf,
}

impl Files {
    fn of(arguments: &DigestsArgs, session: &Session<'_>) -> Result<Files, Failure> {
        let folder = session.leftovers.folder(arguments.on.as_deref())?;
        let small = folder.path().join("small");
        fill(&small, SMALL_LENGTH, session)?;
        let large = match &arguments.file {
            Some(file) => {
                // Absolute: no program takes it for an option.
                let failed = |error| Failure::File { name: file.clone(), operation: "open", error };
                let file = std::fs::canonicalize(file).map_err(failed)?;
                match std::fs::metadata(&file).map_err(failed)?.is_file() {
                    true => file,
                    false => return Err(failed(std::io::Error::other("not a regular file"))),
                }
            }
            None => {
                let length = sizes::parse(&arguments.size).ok_or_else(|| Failure::Value {
                    option: "--size",
                    value: arguments.size.clone(),
                    must: "must be a size, as 64M".to_string(),
                })?;
                let large = folder.path().join("large");
                folder.needs(length)?;
                session.preparing("making the file");
                fill(&large, length, session)?;
                large
            }
        };
        Ok(Files { folder, large, small })
    }

    fn remove(self) -> Result<(), Failure> {
        self.folder.remove()
    }
}

/// Writes a file of bytes without a pattern; less of it when the user wants no more.
pub(super) fn fill(path: &Path, length: u64, session: &Session<'_>) -> Result<(), Failure> {
    let failed = |error| Failure::File { name: path.to_path_buf(), operation: "write", error };
    let mut file = std::fs::File::create(path).map_err(failed)?;
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut buffer = vec![0; 256 * 1024];
    let mut left = length;
    while left > 0 && !session.stopped() {
        for word in buffer.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let count = left.min(buffer.len() as u64) as usize;
        file.write_all(&buffer[..count]).map_err(failed)?;
        left -= count as u64;
    }
    file.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_experiment() {
        assert_eq!(
            line("coreutils", "md5", Ok((58.2, 30))),
            "TEST: coreutils / DIGEST: md5 / 58 seconds over 30 runs"
        );
        assert_eq!(
            line("coreutils", "ripemd160", Err("SKIPPED")),
            "TEST: coreutils / DIGEST: ripemd160 / SKIPPED"
        );
        assert_eq!(listed("d4", Path::new("/a b")), b"d4  /a b\n");
        assert_eq!(listed("d4", Path::new("/a\n\\")), b"\\d4  /a\\n\\\\\n");
    }

    #[test]
    fn groups_are_told_apart_by_their_names() {
        assert!(SMALL != FILE && !FILE.contains(SMALL) && !digests::INSIDE.contains(FILE));
    }
}
