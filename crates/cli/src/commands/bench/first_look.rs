//! `verisum bench` without a command: measures in a minute how fast each digest is here, and hashes a file
//! for comparison.

use std::path::Path;
use std::time::Duration;

use verisum::digest::{Algorithm, Digest, Policy};
use verisum_bench::digests::{self, INSIDE, MessageShape};
use verisum_bench::files::Within;
use verisum_bench::measure::{About, InProcess, MeasureAmount, Subject};
use verisum_bench::summary::{self, Quantity};

use super::digests::{USUAL_INSIDE, add_inside, fill};
use super::{BenchOptions, Session};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::scratch::Folder;
use crate::ui::{kernel, sizes};

/// What is measured of it, so that all is said within a minute.
const TIME: Duration = Duration::from_secs(45);

/// The length of the file.
const LENGTH: u64 = 64 << 20;

/// The digests that a file is hashed with.
const OF_FILE: [&str; 5] = ["md5", "sha256", "blake3", "xxh3-64", "crc32c"];

/// The name of their group.
const GROUP: &str = "A file of 64 MiB, one thread";

/// Measures.
pub(crate) fn run(options: &BenchOptions, output: &mut Output) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    let mut session = Session::begin("usual", options, MeasureAmount::Time(TIME), &[std::env::temp_dir()])?;
    let folder = session.scratch.folder(None);
    let room = |folder: &Folder| folder.needs(LENGTH).map(|()| folder.path().join("file"));
    let file = folder
        .as_ref()
        .map_err(Failure::message)
        .and_then(|folder| room(folder).map_err(|failure| failure.message()));
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    // A full disk takes the file away and nothing else.
    let made = file.and_then(|file| match fill(&file, LENGTH, &session) {
        Ok(()) => Ok(file),
        Err(failure) => Err(failure.message()),
    });
    match made {
        Ok(file) => of_file(&file, &policy, &mut subjects),
        Err(why) => session.skip(&About::new(GROUP, "read the file"), why),
    }
    for algorithm in USUAL_INSIDE.iter().filter_map(|id| Algorithm::find(id)) {
        add_inside(algorithm, MessageShape::default(), &mut session, &mut subjects);
    }
    let message = MessageShape::default();
    session.note(format!(
        "hashed: {} messages of {} in memory, and a file of {}, all on one thread",
        message.count,
        sizes::human(message.length as u64),
        sizes::human(LENGTH)
    ));
    session.note("`verisum bench digests` compares programs, and shows how fast each implementation is");
    session.measure_together(subjects);
    let mut report = session.report("How fast digests are on this machine", Quantity::Rate);
    // One row for each digest says what most people want to know; files of results have all.
    report.tables.retain(|table| !table.title.contains(INSIDE));
    report.charts.retain(|chart| !chart.title.contains(INSIDE));
    report.lines = summary::lines(&session.results);
    if let Some((mut table, chart)) = digests::overview(&session.results) {
        if let Some(verdict) = table.verdict.take() {
            summary::put_verdict(&mut report.lines, verdict);
        }
        report.tables.insert(0, table);
        report.charts.insert(0, chart);
    }
    session.finish(&report, output)
}

fn of_file(file: &Path, policy: &Policy, subjects: &mut Vec<Box<dyn Subject>>) {
    let about = |name: &str| About::new(GROUP, name).bytes(LENGTH).file(file);
    subjects.push(InProcess::new(about("read the file").control(), Within::new(file, None)).once().boxed());
    for id in OF_FILE {
        let digest = Algorithm::find(id).map(|row| Digest::of(row, policy));
        if let Some(Ok(digest)) = digest {
            subjects.push(InProcess::new(about(id), Within::new(file, Some(digest))).once().boxed());
        }
    }
}
