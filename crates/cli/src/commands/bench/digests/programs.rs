//! The programs to compare, and the files that they hash.

use std::path::Path;

use verisum::digest::Algorithm;
use verisum_bench::digests::{self, PROGRAMS, SMALL};
use verisum_bench::files::Within;
use verisum_bench::measure::{self, About, InProcess, MeasureError, Process, Subject, find_program};

use super::OURS;
use super::data::Files;
use super::selection::ChosenDigests;
use super::style::{CHECKS, LISTS};
use crate::commands::bench::Session;
use crate::commands::bench::starter::own_program;
use crate::ui::failure::Failure;
use crate::ui::names;

/// Programs, and the controls beside them.
pub(super) fn programs(
    chosen: &ChosenDigests,
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
    let ours = own_program()?;
    for digest in chosen.digests() {
        let group = format!("{digest} {size}");
        let kind = if size == SMALL { "small" } else { "large" };
        // Made before the right digest is computed: a file that changes from now on is seen.
        let row = About::new(&group, "").bytes(length).file(file).label("digest", digest);
        let row = row.label("kind", "program").label("size", kind);
        let about = |name: &str| row.clone().named(name);
        let expected = match digests::expected(digest, file) {
            Ok(expected) => expected,
            Err(MeasureError::Io { path, operation, source }) => {
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
                Some(_) if way.unable(file).is_some() => {
                    session.skip(&about, way.unable(file).unwrap_or_default());
                }
                Some(executable) => subjects.push(way.subject(about, &executable, file).boxed()),
                None => session.skip(&about, format!("{} is not installed", way.executable)),
            }
        }
        if chosen.ours.contains(&digest) {
            subjects.push(our_program(about(OURS).expect(&expected), &ours, digest, file).boxed());
        }
        // Without competitors there is nothing that a limit would limit.
        let null = Algorithm::find("null").map_or("null", |row| row.id);
        // It computes nothing, so that it has no rate.
        let nothing = about("verisum, null digest").bytes(0).control();
        subjects.push(our_program(nothing, &ours, null, file).boxed());
        subjects
            .push(InProcess::new(about("read the file").control(), Within::new(file, None)).once().boxed());
        // It reads no file, so that the cache is nothing to it.
        let start = About::new(&group, "start a program").control().label("digest", digest);
        let start = start.label("kind", "program").label("size", kind);
        match find_program("true", path) {
            Some(program) => subjects.push(Process::new(start, program, [""; 0]).boxed()),
            None => session.skip(&start, "true is not installed"),
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
pub(super) fn lists(
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
        let mut line = Vec::new();
        names::list_line(&mut line, [&expected, "  ", ""], files.large.as_os_str(), false);
        std::fs::write(&list, [&line[..], &line].concat())
            .map_err(|error| Failure::file(&list, "write", error))?;
        subjects.push(Process::new(about, found, ["-c".into(), list.into_os_string()]).boxed());
    }
    Ok(())
}
