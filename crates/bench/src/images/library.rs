//! Measures the block hash library alone: bytes from memory, no files.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value, json};
use verisum_blockhash::{BlockHashError as HashError, Completion, Hasher, Params};
use verisum_digest::Digest;

use crate::measure::{About, InProcess, MeasureError, Subject, Work};
use crate::record::Series;

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageInput {
    /// Bytes that are not zero.
    Data,
    /// Bytes that are zero.
    Zero,
    /// Zeros of which only the number is told.
    Hole,
}

impl ImageInput {
    /// All of them.
    pub const ALL: [ImageInput; 3] = [ImageInput::Data, ImageInput::Zero, ImageInput::Hole];

    /// The word of blkhash-bench.
    pub const fn name(self) -> &'static str {
        match self {
            ImageInput::Data => "data",
            ImageInput::Zero => "zero",
            ImageInput::Hole => "hole",
        }
    }
}

/// One run of the library, in the terms of blkhash-bench.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is hashed.
    pub input: ImageInput,
    /// How many bytes of it.
    pub size: u64,
    /// The digest.
    pub digest: Digest,
    /// The block size in bytes.
    pub block_size: u32,
    /// Threads that hash.
    pub threads: usize,
    /// How many asynchronous updates may be on their way; `None` for updates that wait.
    pub queue_depth: Option<usize>,
    /// Bytes of an update; at most [`BUFFER`].
    pub read_size: usize,
}

/// Bytes that a hole has at most in one call.
pub const HOLE: u64 = 16 << 30;

/// The most bytes of an update.
pub const BUFFER: usize = 1 << 20;

impl Settings {
    /// As a subject that must compute `expected`.
    pub fn subject<'a>(
        &self,
        about: About,
        expected: Option<&str>,
    ) -> Result<Box<dyn Subject + 'a>, MeasureError> {
        let params = self.params()?;
        // Whoever looks at no byte has a time and no rate; zeros must be looked at to be known.
        let looks = self.digest.name() != "null" || self.input == ImageInput::Zero;
        let mut about = about.bytes(if looks { self.size } else { 0 });
        for (name, value) in self.fields() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            about = about.label(&name, text);
        }
        if let Some(expected) = expected {
            about = about.expect(expected);
        }
        Ok(InProcess::new(about, Library { settings: self.clone(), params, found: None }).boxed())
    }

    /// The block hash, computed once.
    pub fn value(&self) -> Result<String, MeasureError> {
        let mut work = Library { settings: self.clone(), params: self.params()?, found: None };
        work.work()?;
        Ok(work.digest().unwrap_or_default())
    }

    fn params(&self) -> Result<Params, MeasureError> {
        let params = Params::new(self.digest.clone()).block_size(self.block_size);
        params.and_then(|params| params.threads(self.threads)).map_err(failed)
    }

    /// What blkhash-bench says of a run before it begins.
    fn fields(&self) -> Map<String, Value> {
        let fields = json!({
            "input-type": self.input.name(),
            "digest-name": self.digest.name(),
            "input-size": self.size,
            "aio": self.queue_depth.is_some(),
            "queue-depth": self.queue_depth.unwrap_or(0),
            "block-size": self.block_size,
            "read-size": self.read_size,
            "hole-size": HOLE,
            "threads": self.threads,
        });
        if let Value::Object(fields) = fields { fields } else { Map::new() }
    }
}

/// The fields in which blkhash-bench counts, and those in which it has words or yes and no.
const NUMBERS: [&str; 6] = ["input-size", "queue-depth", "block-size", "read-size", "hole-size", "threads"];

/// A series of the library as blkhash-bench prints a run: `elapsed` is the median in seconds, `throughput`
/// bytes a second. `None` without times, or for a series of something else.
pub fn blkhash_bench(series: &Series) -> Option<Value> {
    let time = series.time()?;
    series.labels.get("input-type")?;
    let bytes: u64 = series.labels.get("input-size")?.parse().ok()?;
    let mut fields = Map::new();
    for (name, text) in &series.labels {
        let value = match name.as_str() {
            "aio" => json!(text == "true"),
            name if NUMBERS.contains(&name) => json!(text.parse::<u64>().ok()?),
            _ => json!(text),
        };
        fields.insert(name.clone(), value);
    }
    // Runs here are of a size, not of a time.
    fields.insert("timeout-seconds".to_string(), json!(0));
    fields.insert("total-size".to_string(), json!(bytes));
    fields.insert("elapsed".to_string(), json!(time.median));
    fields.insert("throughput".to_string(), json!((bytes as f64 / time.median) as u64));
    fields.insert("checksum".to_string(), json!(series.digest));
    Some(Value::Object(fields))
}

struct Library {
    settings: Settings,
    params: Params,
    found: Option<String>,
}

impl Work for Library {
    fn work(&mut self) -> Result<(), MeasureError> {
        let settings = &self.settings;
        let hashed = match (settings.input, settings.queue_depth) {
            (ImageInput::Hole, _) => holes(&self.params, settings.size),
            (input, None) => waiting(&self.params, settings, buffer(input)),
            (input, Some(depth)) => queued(&self.params, settings, buffer(input), depth),
        };
        self.found = Some(hashed.map_err(failed)?);
        Ok(())
    }

    fn digest(&mut self) -> Option<String> {
        self.found.clone()
    }
}

fn holes(params: &Params, size: u64) -> Result<String, HashError> {
    let mut hasher = Hasher::new(params)?;
    let mut left = size;
    while left > 0 {
        let now = left.min(HOLE);
        hasher.zero(now)?;
        left -= now;
    }
    Ok(hasher.finish()?.to_string())
}

fn waiting(params: &Params, settings: &Settings, buffer: &[u8]) -> Result<String, HashError> {
    let mut hasher = Hasher::new(params)?;
    for length in updates(settings) {
        hasher.update(&buffer[..length])?;
    }
    Ok(hasher.finish()?.to_string())
}

fn queued(
    params: &Params,
    settings: &Settings,
    buffer: &'static [u8],
    depth: usize,
) -> Result<String, HashError> {
    let arrived = Arc::new((Mutex::new(0usize), Condvar::new()));
    let notify = arrived.clone();
    let mut hasher = Hasher::with_queue(params, depth, move || {
        *notify.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        notify.1.notify_one();
    })?;
    let mut completions = vec![Completion::default(); depth];
    let mut on_their_way = 0;
    for (token, length) in updates(settings).enumerate() {
        if on_their_way == depth {
            let waiting = arrived.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = arrived.1.wait_while(waiting, |count| *count == 0);
            *waited.unwrap_or_else(PoisonError::into_inner) = 0;
            on_their_way -= hasher.completions(&mut completions)?;
            if on_their_way == depth {
                // What was told of has been taken before.
                continue_when_full(&hasher, &mut completions, &mut on_their_way)?;
            }
        }
        hasher.submit_static(&buffer[..length], token)?;
        on_their_way += 1;
    }
    Ok(hasher.finish()?.to_string())
}

/// Takes completions until there is one: they were counted before they could be taken.
fn continue_when_full(
    hasher: &Hasher,
    completions: &mut [Completion],
    on_their_way: &mut usize,
) -> Result<(), HashError> {
    loop {
        match hasher.completions(completions)? {
            0 => std::thread::yield_now(),
            count => {
                *on_their_way -= count;
                return Ok(());
            }
        }
    }
}

/// The lengths of the updates.
fn updates(settings: &Settings) -> impl Iterator<Item = usize> + use<> {
    let read = settings.read_size.clamp(1, BUFFER) as u64;
    let size = settings.size;
    (0..size.div_ceil(read)).map(move |index| read.min(size - index * read) as usize)
}

/// Bytes that live as long as the process.
fn buffer(input: ImageInput) -> &'static [u8] {
    static DATA: OnceLock<Vec<u8>> = OnceLock::new();
    static ZEROS: OnceLock<Vec<u8>> = OnceLock::new();
    match input {
        ImageInput::Data => DATA.get_or_init(|| vec![0x55; BUFFER]),
        ImageInput::Zero | ImageInput::Hole => ZEROS.get_or_init(|| vec![0; BUFFER]),
    }
}

fn failed(error: HashError) -> MeasureError {
    MeasureError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{MeasureAmount, MeasurePlan, measure};

    fn settings(input: ImageInput, threads: usize, queue_depth: Option<usize>) -> Settings {
        let digest = Digest::find("sha256").unwrap();
        let size = 3 * BUFFER as u64 + 12_345;
        Settings { input, size, digest, block_size: 65_536, threads, queue_depth, read_size: 100_000 }
    }

    #[test]
    fn every_way_gives_the_same_value() {
        let zeros = settings(ImageInput::Hole, 1, None).value().unwrap();
        for threads in [1, 3] {
            for depth in [None, Some(1), Some(4)] {
                assert_eq!(settings(ImageInput::Zero, threads, depth).value().unwrap(), zeros);
                let data = settings(ImageInput::Data, threads, depth).value().unwrap();
                assert_eq!(data, settings(ImageInput::Data, 1, None).value().unwrap());
                assert_ne!(data, zeros);
            }
        }
    }

    #[test]
    fn a_series_has_the_fields_of_blkhash_bench() {
        let settings = settings(ImageInput::Data, 2, Some(16));
        let value = settings.value().unwrap();
        let mut subjects = [settings.subject(About::new("g", "n"), Some(&value)).unwrap()];
        let plan = MeasurePlan { amount: MeasureAmount::Rounds(2), ..MeasurePlan::default() };
        let series = &measure(&mut subjects, &plan, &mut ())[0];
        let fields = blkhash_bench(series).unwrap();
        assert!(fields["throughput"].as_u64().unwrap() > 0 && fields["elapsed"].as_f64().unwrap() > 0.0);
        assert_eq!(
            (&fields["aio"], &fields["queue-depth"], &fields["threads"]),
            (&json!(true), &json!(16), &json!(2))
        );
        assert_eq!(fields["checksum"], json!(value));
        let names: Vec<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "aio",
                "block-size",
                "checksum",
                "digest-name",
                "elapsed",
                "hole-size",
                "input-size",
                "input-type",
                "queue-depth",
                "read-size",
                "threads",
                "throughput",
                "timeout-seconds",
                "total-size"
            ]
        );
    }
}
