//! `verisum bench filesystem`: measures what the checksums of a file system cost.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use verisum_bench::filesystem::{self, CHECKSUMS, Data, Group, Programs, Tools, Volume, WorkFolder};
use verisum_bench::measure::{About, MeasureAmount, MeasureError};
use verisum_bench::record::NOT_REACHED;
use verisum_bench::summary::Quantity;

use super::{BenchOptions, Session};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::kernel;
use crate::ui::sizes;

/// What `verisum bench filesystem` takes.
#[derive(Args, Debug)]
pub(crate) struct FilesystemArgs {
    /// How much is written, read and scrubbed; with --style original, how long the images are
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,

    /// Run the script of 2024 as it was published, with one figure for each checksum: 4 GiB from /dev/urandom
    /// in one file, and again in a thousand. One round after one warm-up, unless --runs says more
    #[arg(long, value_enum)]
    style: Option<FilesystemStyle>,

    /// Directory to work in. For root, file systems in memory are mounted there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    on: Option<PathBuf>,

    #[command(flatten)]
    bench: BenchOptions,
}

impl FilesystemArgs {
    fn place(&self) -> PathBuf {
        self.on.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// How it is measured and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FilesystemStyle {
    /// As it was published
    Original,
}

/// The bytes of each file without --size.
const SIZE: u64 = 64 << 20;

/// The length of the images of the script.
const ORIGINAL_SIZE: u64 = 4 << 30;

/// How long all takes if nothing is said.
const TIME: Duration = Duration::from_secs(60);

/// The parts of the time for the kernel's file systems, the tools and the model.
const PARTS: [f64; 3] = [0.6, 0.25, 0.15];

/// Measures.
pub(crate) fn run(arguments: &FilesystemArgs, output: &mut Output) -> Result<Exit, Failure> {
    let original = arguments.style == Some(FilesystemStyle::Original);
    let size = match &arguments.size {
        Some(text) => size(text)?,
        None if original => ORIGINAL_SIZE,
        None => SIZE,
    };
    match original {
        true => script(arguments, size, output),
        false => all(arguments, size, output),
    }
}

fn size(text: &str) -> Result<u64, Failure> {
    let size = sizes::parse(text).filter(|size| (4 << 20..=1 << 40).contains(size));
    size.ok_or_else(|| Failure::value("--size", text, "must be 4M to 1T, as 256M"))
}

fn all(arguments: &FilesystemArgs, size: u64, output: &mut Output) -> Result<Exit, Failure> {
    let on = arguments.place();
    let places = std::slice::from_ref(&on);
    let mut session = Session::begin("filesystem", &arguments.bench, MeasureAmount::Time(TIME), places)?;
    record_versions(&mut session);
    let whole = session.plan.amount;
    let part = |place: usize| match whole {
        MeasureAmount::Time(time) => MeasureAmount::Time(time.mul_f64(PARTS[place])),
        rounds => rounds,
    };
    let data = Data::new(size);
    session.plan.amount = part(0);
    if let Err(error) = in_kernel(&mut session, &data, &on) {
        for group in Group::ALL {
            for checksum in &CHECKSUMS {
                let why = if session.stopped() { NOT_REACHED.to_string() } else { error.to_string() };
                session.skip(&About::new(group.name(), checksum.name), why);
            }
        }
    }
    if !session.stopped() {
        session.plan.amount = part(1);
        if let Err(error) = tools(&mut session, &data, &on) {
            for group in [filesystem::MKFS, filesystem::CHECK] {
                session.skip(&About::new(group, "btrfs-progs"), error.to_string());
            }
        }
    }
    if !session.stopped() {
        session.plan.amount = part(2);
        session.measure(filesystem::model(&data, &kernel::policy()?));
        session.note(
            "model: digests of verisum on sectors in memory, one thread; no kernel and no device take part",
        );
    }
    if session.stopped() {
        const LATER: [&str; 4] =
            [filesystem::MKFS, filesystem::CHECK, filesystem::ONE_BY_ONE, filesystem::SIDE_BY_SIDE];
        session.skip_unreached(LATER.map(|group| (group, "every checksum")));
    }
    others(&mut session);
    let title = format!("Checksums of file systems, {} each", sizes::human(data.length));
    let report = session.report(&title, Quantity::Rate);
    session.finish(&report, output)
}

fn programs() -> Result<Programs, MeasureError> {
    Programs::find(path().as_deref())
}

fn path() -> Option<OsString> {
    std::env::var_os("PATH")
}

fn root() -> Result<(), MeasureError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(MeasureError::Unavailable("only root can mount file systems".to_string())),
    }
}

/// Who makes and checks the file systems.
fn record_versions(session: &mut Session<'_>) {
    for program in ["mkfs.btrfs", "btrfs"] {
        session.record_version(program, (program, &["--version"]));
    }
}

/// The kernel's own file systems, in memory.
fn in_kernel(session: &mut Session<'_>, data: &Data, on: &Path) -> Result<(), MeasureError> {
    root()?;
    let programs = programs()?;
    let length = Volume::length(data.length);
    // The images, the file of the control, and the largest of the files in the cache.
    let needs = length * CHECKSUMS.len() as u64 + 2 * data.length;
    let place = WorkFolder::in_memory(on, needs)?;
    let mut volumes = Vec::new();
    for checksum in &CHECKSUMS {
        if session.stopped() {
            return Err(MeasureError::Stopped);
        }
        let volume = Volume::new(&place, checksum, length, &programs)?;
        let driver = filesystem::driver(&volume);
        if let Some(driver) = &driver
            && !checksum.none
        {
            session.note(format!("the kernel's driver of {}: {driver}", checksum.name));
        }
        volumes.push((volume, driver));
    }
    session.measure(filesystem::phases(&volumes, &place, data));
    session.note("system: with the kernel's own threads, in which btrfs computes most checksums");
    Ok(())
}

/// The tools, which everybody can use.
fn tools(session: &mut Session<'_>, data: &Data, on: &Path) -> Result<(), MeasureError> {
    let tools = Tools::find(path().as_deref())?;
    let in_memory = root().and_then(|()| WorkFolder::in_memory(on, filesystem::rootless_needs(data.length)));
    let place = match in_memory {
        Ok(place) => place,
        Err(_) => WorkFolder::in_folder(on)?,
    };
    let lies = if place.is_in_memory() { "in memory" } else { "in the temporary folder" };
    session.note(format!("the files of mkfs.btrfs --rootdir and btrfs check lie {lies}"));
    let subjects = filesystem::rootless(&place, &tools, data)?;
    session.measure(subjects);
    Ok(())
}

/// File systems that have nothing to choose, or that cannot be measured here.
fn others(session: &mut Session<'_>) {
    const GROUP: &str = "other file systems";
    session.skip(
        &About::new(GROUP, "ext4"),
        "crc32c of its metadata, which cannot be chosen; no checksums of data",
    );
    session.skip(&About::new(GROUP, "xfs"), "crc32c of its metadata, which cannot be chosen; none of data");
    for name in ["bcachefs", "zfs"] {
        session.skip(&About::new(GROUP, name), "verisum has no measurement of it");
    }
}

/// The script, and what it printed: the name, and what bash's `time` prints.
fn script(arguments: &FilesystemArgs, size: u64, output: &mut Output) -> Result<Exit, Failure> {
    let unavailable = |error: MeasureError| Failure::Program {
        name: "--style original".to_string(),
        why: error.to_string(),
    };
    let smallest = 128 << 20;
    if size < smallest {
        return Err(Failure::value(
            "--size",
            arguments.size.clone().unwrap_or_default(),
            "must be 128M or more with --style original",
        ));
    }
    root().map_err(unavailable)?;
    let programs = programs().map_err(unavailable)?;
    let on = arguments.place();
    let places = std::slice::from_ref(&on);
    let mut session =
        Session::begin("filesystem-original", &arguments.bench, MeasureAmount::Rounds(1), places)?;
    record_versions(&mut session);
    if size < ORIGINAL_SIZE {
        session.note(format!(
            "not what was published: images of {} and not of 4G, in which mkfs, mounting and a lack of room weigh \
             more",
            sizes::human(size)
        ));
    }
    // 5 GiB for 4, as published.
    let place = WorkFolder::in_memory(&on, size / 4 * 5).map_err(unavailable)?;
    let scripts = filesystem::original(&place, &programs, size);
    let written: Vec<_> = scripts.iter().map(|(_, written)| written.clone()).collect();
    let mut subjects: Vec<_> = scripts.into_iter().map(|(script, _)| Box::new(script) as _).collect();
    subjects.push(filesystem::urandom(size));
    session.measure(subjects);
    for (checksum, written) in CHECKSUMS.iter().zip(&written) {
        if written.get() < size && written.get() > 0 {
            let (found, length) = (sizes::human(written.get()), sizes::human(size));
            session.note(format!("{}: {found} of the file of {length} found room", checksum.name));
        }
    }
    drop(place);
    let report = session.report("btrfs, the script of 2024", Quantity::Time);
    let mut lines = String::new();
    for series in &session.results.series {
        match (&series.skipped, series.time()) {
            (None, Some(time)) => {
                let _ = write!(lines, "{}\n\nreal\t{}\n", series.name, clock(time.median));
                let of = |values: &[f64]| verisum_bench::stats::median(values);
                let _ = write!(
                    lines,
                    "user\t{}\nsys\t{}\n\n",
                    clock(of(&series.user)),
                    clock(of(&series.system))
                );
            }
            _ => {
                let why = series.verdict().unwrap_or_default();
                let _ = write!(lines, "{}\n\n{why}\n\n", series.name);
            }
        }
    }
    lines.push_str(&session.options.report.text(&report));
    session.finish_with(&lines, &report, output)
}

/// Seconds as bash's `time` prints them.
fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0).floor();
    format!("{minutes:.0}m{:.3}s", seconds - minutes * 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_bash_does() {
        assert_eq!([0.0, 35.1234, 61.5].map(clock), ["0m0.000s", "0m35.123s", "1m1.500s"]);
    }

    #[test]
    fn the_parts_are_all() {
        assert!((PARTS.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(size("64M").unwrap(), 64 << 20);
        assert!(size("1k").is_err() && size("x").is_err());
    }
}
