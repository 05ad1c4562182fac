//! `verisum bench scale`: tries the catalogue and the lake with any number of files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use verisum::catalog::scrub::{PlaceTree, ScrubOptions, ScrubSummary, scrub_tree};
use verisum::catalog::store::{Catalog, Lock, Moment, Stamp, State};
use verisum::digest::Digest;
use verisum::files::place::{Place, PlaceEvent};
use verisum::files::{Stop, Timestamp, Verdict};
use verisum::lake::{self, Lake, PartWriter, Row};
use verisum_bench::scale::{SyntheticFile, SyntheticPlace};

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::sizes::human;
use crate::ui::values::rough;

/// The name of the tree, as the catalogue and the lake have it.
const TREE: &str = "ssh://formula/files";

/// The digest that the made-up ones are said to be of.
const DIGEST: &str = "sha256";

/// A time in which every file is to be verified, and how long a run may take.
const MAX_AGE: Duration = Duration::from_secs(90 * 86_400);
const BUDGET: Duration = Duration::from_secs(8 * 3600);

/// What `verisum bench scale` takes.
#[derive(Args, Debug)]
pub(crate) struct ScaleArgs {
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    files: u64,

    /// One file in N rots between the two scrubs
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rot: u64,

    /// Write the lake from the made-up tree, and no catalogue
    #[arg(long)]
    only_lake: bool,

    /// A new directory for the catalogue and the lake
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Does all steps, and says after each how long it took.
pub(crate) fn run(arguments: &ScaleArgs, output: &mut Output) -> Result<Exit, Failure> {
    let failed = |error| Failure::file(&arguments.folder, "create", error);
    fs::create_dir(&arguments.folder).map_err(failed)?;
    let place = SyntheticPlace { rot: arguments.rot, ..SyntheticPlace::new(arguments.files) };
    let mut steps = Steps { files: arguments.files, place, folder: &arguments.folder, output };
    steps.list()?;
    match arguments.only_lake {
        true => steps.write_lake()?,
        false => steps.use_catalogue()?,
    }
    Ok(Exit::Clean)
}

struct Steps<'a> {
    files: u64,
    place: SyntheticPlace,
    folder: &'a Path,
    output: &'a mut Output,
}

impl Steps<'_> {
    fn list(&mut self) -> Result<(), Failure> {
        let clock = Instant::now();
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        self.place.list(TREE.as_bytes(), &|event| {
            if let PlaceEvent::Answer(answer) = event {
                files.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(answer.request.seen.size.unwrap_or_default(), Ordering::Relaxed);
            }
            true
        })?;
        let (files, bytes) = (files.into_inner(), bytes.into_inner());
        self.tell("list", clock, &format!("{files} files, {}", human(bytes)))
    }

    fn use_catalogue(&mut self) -> Result<(), Failure> {
        let path = self.folder.join("catalog.db");
        let _lock = Lock::take(&path)?;
        let mut catalog = Catalog::open(&path)?;
        let clock = Instant::now();
        let first = self.scrub(&mut catalog, Some(MAX_AGE))?;
        catalog.checkpoint()?;
        self.tell("record", clock, &format!("catalogue {}", self.per_file(&path)?))?;
        if let Some(forecast) = first.forecast {
            let all = format!("{} to verify all, of {} promised", rough(forecast.time), rough(MAX_AGE));
            self.output.line(&format!("forecast   {all}"))?;
        }
        self.export("export", &catalog)?;
        self.place.round += 1;
        let rotten = self.place.count_rotten();
        let clock = Instant::now();
        // By the promise nothing is due yet.
        let second = self.scrub(&mut catalog, None)?;
        let found = second.count(Verdict::Rot);
        self.tell("scrub", clock, &format!("{found} of {rotten} rotten files found"))?;
        self.export("export", &catalog)?;
        let other = self.folder.join("imported.db");
        let other_lock = Lock::take(&other)?;
        let clock = Instant::now();
        let imported =
            lake::import(&Catalog::open(&other)?, &self.lake(), Timestamp::now(), &Stop::default())?;
        self.tell("import", clock, &format!("{} files", imported.added))?;
        Ok(other_lock.discard(&other)?)
    }

    /// Reads what is due by that promise, or all.
    fn scrub(&self, catalog: &mut Catalog, max_age: Option<Duration>) -> Result<ScrubSummary, Failure> {
        let mut place = self.place.clone();
        let mut tree = PlaceTree { place: &mut place, root: TREE.as_bytes(), notes: &|_| true };
        let digest = Digest::find(DIGEST)?;
        let mut options = ScrubOptions::new(digest);
        options.max_age = max_age;
        options.budget = Some(BUDGET);
        let turn = Mutex::new(());
        Ok(scrub_tree(catalog, Path::new(TREE), (&options, &turn), &mut tree, &mut |_| {})?)
    }

    fn export(&mut self, step: &str, catalog: &Catalog) -> Result<(), Failure> {
        let before = size(&self.lake()).unwrap_or(0);
        let clock = Instant::now();
        let exported = lake::export(catalog, &self.lake(), Timestamp::now(), &Stop::default())?;
        let rows = exported.changed + exported.gone;
        let bytes = size(&self.lake()).map_err(|error| Failure::file(self.lake(), "read", error))? - before;
        let each = bytes as f64 / rows.max(1) as f64;
        self.tell(step, clock, &format!("{rows} rows of {each:.1} bytes"))
    }

    /// Writes the parts of an export without a catalogue.
    fn write_lake(&mut self) -> Result<(), Failure> {
        let clock = Instant::now();
        let lake = Lake::create(&self.lake())?;
        let place = lake.place(Path::new(TREE));
        let now = Moment::now();
        let mut parts = PartWriter::new(&place, now, &|_| None);
        for number in 0..self.files {
            parts.add(&row(self.place.file(number), number, now))?;
        }
        parts.finish()?;
        let lake = self.lake();
        self.tell("lake", clock, &self.per_file(&lake)?)
    }

    fn lake(&self) -> PathBuf {
        self.folder.join("lake")
    }

    fn per_file(&self, path: &Path) -> Result<String, Failure> {
        let bytes = size(path).map_err(|error| Failure::file(path, "read", error))?;
        Ok(format!("{:.1} bytes a file", bytes as f64 / self.files as f64))
    }

    fn tell(&mut self, step: &str, clock: Instant, what: &str) -> Result<(), Failure> {
        let seconds = clock.elapsed().as_secs_f64();
        let rate = self.files as f64 / seconds;
        let memory = most_memory().map(human).unwrap_or_default();
        let line = format!("{step:<10} {seconds:>8.1} s {rate:>10.0} files/s  {memory:>9}  {what}");
        self.output.line(&line)?;
        self.output.flush()
    }
}

/// A made-up file as a catalogue would export it.
fn row(file: SyntheticFile, number: u64, now: Moment) -> Row {
    let SyntheticFile { path, size, modified, digest, drawn } = file;
    let seen = Moment::of_milliseconds(modified * 1000);
    let verified = now - Duration::from_millis(drawn % MAX_AGE.as_millis() as u64);
    Row {
        path: path.into_bytes(),
        size: Some(size),
        mtime: Some(Stamp::of_nanoseconds(modified * 1_000_000_000)),
        ctime: Some(Stamp::of_nanoseconds(modified * 1_000_000_000)),
        inode: Some(number),
        algorithm: DIGEST.into(),
        digest: Some(digest),
        state: Some(State::Sound),
        first_seen: Some(seen),
        changed: Some(seen),
        verified: Some(verified),
        exported: now,
        replaces: None,
    }
}

/// The length of a file, or of all files below a folder.
fn size(path: &Path) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    match found.is_dir() {
        true => fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum(),
        false => Ok(found.len()),
    }
}

/// The most memory that this process ever had.
fn most_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
