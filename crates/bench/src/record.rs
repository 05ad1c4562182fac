//! The file format of results: one JSON file of a documented form, docs/measuring.md.

mod validation;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use verisum_files::{Replacement, Timestamp};

use crate::host::MeasuredMachine;
use crate::measure::{About, Cache, MeasureAmount, MeasurePlan, Measured, crowded};
use crate::stats::{
    Interval, Ranking, SMALLEST_EFFECT, SMALLEST_EFFECT_INSIDE, TimeSample, difference, fewest_rounds_of,
    interval, median, outliers, rank,
};

/// The type of the form.
pub const TYPE: &str = "bench";

/// Its version: another number is another form.
pub const VERSION: u32 = 1;

/// The label of rows that do another thing than those of their group, whose value says which: such as
/// starting no program where the others do. They stand beside the others and are not ranked.
pub const NOT_RANKED: &str = "not ranked";

/// Why there is nothing of what came after the user wanted no more.
pub const NOT_REACHED: &str = "stopped before it was measured";

/// All times of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Those of one group are compared with each other.
    pub group: String,
    /// Whether it shows what the rest of a time is, and is not ranked.
    pub control: bool,
    /// The bytes of one repetition; zero where that has no meaning.
    pub bytes: u64,
    /// What else is known of it.
    pub labels: BTreeMap<String, String>,
    /// Why there are no times; none if there are.
    pub skipped: Option<String>,
    /// Whether that is because its digest is wrong.
    pub wrong: bool,
    /// Whether that is because it failed, and not because it is missing here.
    #[serde(default)]
    pub failed: bool,
    /// The program that was started, with its folder; none for work in this process.
    #[serde(default)]
    pub program: Option<String>,
    /// The digest that it computed, in its own letters.
    pub digest: Option<String>,
    /// The state of the cache before the runs; `partial` if it was not always the same.
    pub cache: Cache,
    /// How often each run repeated the work. All times below are of one repetition.
    pub repetitions: u32,
    /// The round of each time: times of one round can be compared in pairs.
    pub rounds: Vec<u32>,
    /// Seconds from beginning to end.
    pub wall: Vec<f64>,
    /// Seconds of processor time in the program.
    pub user: Vec<f64>,
    /// Seconds of processor time in the kernel.
    pub system: Vec<f64>,
    /// The most memory of any run in bytes; none where it is not known.
    pub memory: Option<u64>,
    /// Cycles of the processor; empty where there is no counter.
    pub cycles: Vec<f64>,
    /// How crowded the core was in each run; empty for programs.
    #[serde(default)]
    pub crowding: Vec<f64>,
}

impl Series {
    /// A series without times.
    pub fn new(about: &About) -> Series {
        Series {
            name: about.name.clone(),
            group: about.group.clone(),
            control: about.control,
            bytes: about.bytes,
            labels: about.labels.clone(),
            skipped: None,
            wrong: false,
            failed: false,
            program: about.program.as_ref().map(|program| program.to_string_lossy().into_owned()),
            digest: None,
            cache: Cache::None,
            repetitions: 1,
            rounds: Vec::new(),
            wall: Vec::new(),
            user: Vec::new(),
            system: Vec::new(),
            memory: None,
            cycles: Vec::new(),
            crowding: Vec::new(),
        }
    }

    /// A row for something that cannot be measured here, with the reason.
    pub fn skipped(about: &About, why: impl Into<String>) -> Series {
        let mut series = Series::new(about);
        series.skip(why);
        series
    }

    /// Gives it up: times that were measured before do not count either.
    pub fn skip(&mut self, why: impl Into<String>) {
        self.skipped = Some(why.into());
        for times in [&mut self.wall, &mut self.user, &mut self.system, &mut self.cycles, &mut self.crowding]
        {
            times.clear();
        }
        self.rounds.clear();
    }

    /// Gives it up, because it failed.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.failed = true;
        self.skip(why);
    }

    /// Why there are no times, after the word for it; none if there are.
    pub fn verdict(&self) -> Option<String> {
        let word = match (self.wrong, self.failed) {
            (true, _) => "WRONG",
            (false, true) => "FAILED",
            (false, false) => "SKIPPED",
        };
        self.skipped.as_ref().map(|why| format!("{word}: {why}"))
    }

    /// Adds a run.
    pub fn add(&mut self, round: u32, measured: &Measured, cache: Cache) {
        let each = |value: f64| value / f64::from(self.repetitions);
        self.cache = if self.wall.is_empty() || self.cache == cache { cache } else { Cache::Partial };
        self.wall.push(each(measured.wall.as_secs_f64()));
        self.user.push(each(measured.user.as_secs_f64()));
        self.system.push(each(measured.system.as_secs_f64()));
        self.cycles.extend(measured.cycles.map(|cycles| each(cycles as f64)));
        self.crowding.extend(measured.crowding);
        self.rounds.push(round);
        self.memory = self.memory.max(measured.memory);
        self.digest.clone_from(&measured.digest);
    }

    /// Whether its runs are so short that reading the clock is a good part of them.
    pub fn is_below_clock(&self) -> bool {
        /// Seconds; reading the clock takes some hundredths of it.
        const SHORTEST: f64 = 1e-6;
        median(&self.wall) * f64::from(self.repetitions) < SHORTEST
    }

    /// Whether it is a control whose time is that of the machine. What looks at no byte in this process takes
    /// some nanoseconds, which say where the code happens to lie.
    pub(crate) fn tells_of_the_machine(&self) -> bool {
        self.control && (self.program.is_some() || self.rate().is_some())
    }

    /// The part of its time below which no difference is called resolved.
    pub(crate) fn smallest_effect(&self) -> f64 {
        if self.program.is_some() { SMALLEST_EFFECT } else { SMALLEST_EFFECT_INSIDE }
    }

    /// Seconds: the median with its interval. `None` without times, and of what no clock can tell.
    pub fn time(&self) -> Option<Interval> {
        (!self.wall.is_empty() && !self.is_below_clock()).then(|| interval(&self.wall))
    }

    /// Bytes a second: the median with its interval. `None` without times or bytes.
    pub fn rate(&self) -> Option<Interval> {
        let time = self.time().filter(|time| self.bytes > 0 && time.low > 0.0)?;
        let bytes = self.bytes as f64;
        Some(Interval { low: bytes / time.high, median: bytes / time.median, high: bytes / time.low })
    }

    /// Cycles a byte; `None` where there is no counter.
    pub fn cycles_a_byte(&self) -> Option<f64> {
        (!self.cycles.is_empty() && self.bytes > 0).then(|| median(&self.cycles) / self.bytes as f64)
    }

    /// How many times lie apart from the others.
    pub fn outliers(&self) -> usize {
        outliers(&self.wall)
    }
}

/// Bytes a second of what makes the larger of two series take longer, so many bytes: with the interval that
/// the difference of their medians has. `None` where that may be nothing, and of too few rounds for an
/// interval.
pub fn rate_between(small: &Series, large: &Series, bytes: u64) -> Option<Interval> {
    let rounds = small.wall.len().min(large.wall.len());
    if bytes == 0 || rounds < fewest_rounds_of(1) {
        return None;
    }
    let more = difference(&large.wall, &small.wall);
    let rate = |seconds: f64| bytes as f64 / seconds;
    (more.low > 0.0).then(|| Interval {
        low: rate(more.high),
        median: rate(more.median),
        high: rate(more.low),
    })
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureMethod {
    /// Rounds, if their number was given.
    pub rounds: Option<u32>,
    /// Seconds, if a time was given.
    pub seconds: Option<f64>,
    /// Runs before those that count.
    pub warmup: u32,
    /// Where the order in each round came from.
    pub seed: u64,
    /// Whether the cache was emptied before each run.
    pub cold: bool,
}

impl From<&MeasurePlan> for MeasureMethod {
    fn from(plan: &MeasurePlan) -> MeasureMethod {
        let (rounds, seconds) = match plan.amount {
            MeasureAmount::Rounds(rounds) => (Some(rounds), None),
            MeasureAmount::Time(time) => (None, Some(time.as_secs_f64())),
        };
        MeasureMethod { rounds, seconds, warmup: plan.warmup.max(1), seed: plan.seed, cold: plan.cold }
    }
}

/// All that one measurement has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchResults {
    /// [`VERSION`].
    pub version: u32,
    /// [`TYPE`].
    pub r#type: String,
    /// Of which experiment, as `digests`.
    pub bench: String,
    /// When it began, as RFC 3339 has it; with the host it tells measurements apart.
    pub started: String,
    /// Whether all was measured that should be.
    pub complete: bool,
    /// How.
    pub method: MeasureMethod,
    /// Where.
    pub host: MeasuredMachine,
    /// Reasons to doubt the times.
    pub doubts: Vec<String>,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// The times.
    pub series: Vec<Series>,
}

impl BenchResults {
    /// Of nothing yet.
    pub fn new(bench: &str, plan: &MeasurePlan, host: MeasuredMachine) -> BenchResults {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        BenchResults {
            version: VERSION,
            r#type: TYPE.to_string(),
            bench: bench.to_string(),
            started: Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
                .to_rfc3339(),
            complete: false,
            method: plan.into(),
            host,
            doubts: Vec::new(),
            notes: Vec::new(),
            series: Vec::new(),
        }
    }

    /// The groups, in the order of their first series.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for series in &self.series {
            if !groups.contains(&series.group.as_str()) {
                groups.push(&series.group);
            }
        }
        groups
    }

    /// The series of a group: those with times, fastest first, then those without.
    pub fn of_group(&self, group: &str) -> Vec<&Series> {
        let mut series: Vec<&Series> = self.series.iter().filter(|series| series.group == group).collect();
        let by_byte = series.iter().all(|one| one.bytes > 0 || one.control || one.wall.is_empty());
        let key = |series: &Series| match series.wall.as_slice() {
            [] => f64::INFINITY,
            // A control that looks at no byte.
            _ if by_byte && series.bytes == 0 => 0.0,
            wall if by_byte => median(wall) / series.bytes as f64,
            wall => median(wall),
        };
        series.sort_by(|a, b| key(a).total_cmp(&key(b)));
        series
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<BenchResults, ResultsError> {
        let bytes = read_bounded(path).map_err(|source| ResultsError::Io {
            path: path.to_path_buf(),
            operation: "read",
            source,
        })?;
        /// What every version has.
        #[derive(Deserialize)]
        struct Form {
            version: u32,
            r#type: String,
        }
        let wrong = |what: String| ResultsError::Form { path: path.to_path_buf(), what };
        let form: Form = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("not a result of verisum bench: {error}")))?;
        if form.r#type != TYPE {
            return Err(wrong(format!("not a result of verisum bench: its type is {:?}", form.r#type)));
        }
        if form.version != VERSION {
            return Err(wrong(format!(
                "version {} of the results; this program knows version {VERSION} only",
                form.version
            )));
        }
        let results: BenchResults =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        results.nonsense().map_or(Ok(()), |what| Err(wrong(what.to_string())))?;
        let mut names = HashSet::new();
        for series in &results.series {
            if let Some(what) = series.nonsense() {
                return Err(wrong(format!("{:?}: {what}", series.name)));
            }
            if !names.insert((&series.group, &series.name)) {
                return Err(wrong(format!("{:?} is twice in {:?}", series.name, series.group)));
            }
        }
        Ok(results)
    }

    /// Writes a file, which takes the place of an older one at once or not at all.
    pub fn write(&self, path: &Path) -> Result<(), ResultsError> {
        let failed = |source| ResultsError::Io { path: path.to_path_buf(), operation: "write", source };
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        replace(path, &bytes).map_err(failed)
    }
}

/// Compares series of one measurement in pairs; places are those in `series`. Where all have bytes, it is
/// their times for a byte that are compared.
pub fn ranking(series: &[&Series]) -> Ranking {
    let by_byte = series.iter().all(|one| one.bytes > 0);
    let times: Vec<Vec<f64>> = series
        .iter()
        .map(|one| {
            let scale = if by_byte { 1.0 / one.bytes as f64 } else { 1.0 };
            one.wall.iter().map(|time| time * scale).collect()
        })
        .collect();
    let crowded = crowded(series);
    let samples: Vec<TimeSample<'_>> = series
        .iter()
        .zip(times.iter().zip(&crowded))
        .map(|(one, (times, crowded))| TimeSample { rounds: &one.rounds, times, crowded })
        .collect();
    let smallest = series.iter().map(|one| one.smallest_effect()).fold(0.0, f64::max);
    rank(&samples, smallest)
}

/// Why a file of results cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file cannot be read or written.
    #[error("{}: {operation}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was done.
        operation: &'static str,
        /// Why that failed.
        source: io::Error,
    },
    /// It has another form.
    #[error("{}: read: {what}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// More is no result of ours.
const MOST: u64 = 256 << 20;

/// All of a regular file, unless it is too long.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before it is opened, which a pipe without a writer would not end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST {
        true => Err(io::Error::other(format!("longer than the {} MiB of any result", MOST >> 20))),
        false => Ok(bytes),
    }
}

/// Replaces a regular file at once; what is not a regular file, such as a pipe, is written to.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return std::fs::write(path, bytes);
    }
    let replacement = Replacement::new(path).map_err(|error| error.source)?;
    replacement.file().write_all(bytes)?;
    replacement.place().map_err(|error| error.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    pub(super) fn results() -> BenchResults {
        let mut results = BenchResults::new("test", &MeasurePlan::default(), MeasuredMachine::default());
        for (name, ms) in [("b", 2), ("a", 1)] {
            let mut series = Series::new(&About::new("g", name).bytes(1000));
            series.repetitions = 10;
            for round in 1..=3 {
                let wall = Duration::from_millis(ms * 10);
                series.add(round, &Measured { wall, memory: Some(5), ..Measured::default() }, Cache::Warm);
            }
            results.series.push(series);
        }
        results.series.push(Series::skipped(&About::new("g", "c"), "is not installed"));
        results
    }

    #[test]
    fn files_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        let results = results();
        results.write(&path).unwrap();
        results.write(&path).unwrap();
        assert_eq!(BenchResults::read(&path).unwrap(), results);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        let names: Vec<&str> = results.of_group("g").iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(results.groups(), ["g"]);
        let rate = results.series[0].rate().unwrap();
        assert!((rate.median - 500_000.0).abs() < 1.0, "{rate:?}");
    }

    #[test]
    fn other_forms_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        let mut wrong = results();
        wrong.version = 2;
        wrong.write(&path).unwrap();
        let message = BenchResults::read(&path).unwrap_err().to_string();
        assert!(
            message.ends_with("version 2 of the results; this program knows version 1 only"),
            "{message}"
        );
        for text in ["", "{}", "[]", r#"{"type":"x","version":1}"#, r#"{"type":"bench","version":1}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(BenchResults::read(&path), Err(ResultsError::Form { .. })), "{text}");
        }
        for special in ["/dev/zero", "/dev/null", "/"] {
            assert!(
                BenchResults::read(Path::new(special))
                    .unwrap_err()
                    .to_string()
                    .ends_with("not a regular file")
            );
        }
        assert!(results().write(Path::new("/dev/full")).is_err());
    }
}
