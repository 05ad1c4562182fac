//! The progress line on a terminal.
//!
//! Why `indicatif` does not draw it: docs/architecture.md, "Charts and progress are our own".

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Read, Write, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::{FileType, fstat};
use verisum::blockhash::ImageProgress;
use verisum::catalog::store::{Catalog, CatalogPass, PassCost};
use verisum::files::{Kind, Stat, Walk};

use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{names, signals, terminal};

/// How often the line is drawn anew.
const INTERVAL: Duration = Duration::from_millis(100);

/// The widest bar; a wider terminal has room left.
const WIDEST_BAR: usize = 40;

/// To the start of the line, and erase it.
const ERASE: &str = "\r\x1b[K";

/// From when on it is drawn where nothing is said.
const DELAY: Duration = Duration::from_secs(1);

/// Whether the line is on the terminal now. Who prints holds this meanwhile.
static LINE: Mutex<bool> = Mutex::new(false);

/// Options of what may take long.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ProgressArgs {
    /// Show progress from the start; without it, after a second, unless the output goes to a pipe
    #[arg(short, long)]
    progress: bool,

    /// Show no progress
    #[arg(long, conflicts_with = "progress")]
    no_progress: bool,
}

impl ProgressArgs {
    /// Whether to draw progress.
    pub(crate) fn wanted(self) -> Wanted {
        match (self.progress, self.no_progress) {
            (_, true) => Wanted::Never,
            (true, false) => Wanted::Always,
            (false, false) => Wanted::Late,
        }
    }
}

/// Whether progress is to be drawn where standard error is a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    #[default]
    Never,
    /// After a second, unless the output goes to a pipe: a pager may have the terminal.
    Late,
    Always,
}

impl Wanted {
    /// After which time it is drawn, if ever.
    fn after(self) -> Option<Duration> {
        let delay = match self {
            Wanted::Never => return None,
            Wanted::Late if is_piped() => return None,
            Wanted::Late => DELAY,
            Wanted::Always => Duration::ZERO,
        };
        stderr().is_terminal().then_some(delay)
    }
}

/// Whether another program reads standard output.
fn is_piped() -> bool {
    let stat = fstat(rustix::stdio::stdout());
    stat.is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}

/// Erases the line, if there is one, for something to be printed in its place. It is not drawn again before
/// the result is dropped.
pub(crate) fn make_room() -> MutexGuard<'static, bool> {
    let mut drawn = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *drawn) {
        let _ = stderr().write_all(ERASE.as_bytes());
    }
    drawn
}

/// Whether the line is on the terminal.
pub(crate) fn is_shown() -> bool {
    *LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws the line anew.
fn draw(line: &str) {
    let mut drawn = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    *drawn = stderr().write_all(format!("{ERASE}{line}").as_bytes()).is_ok();
}

/// Draws a line on standard error, as much of it as fits, if that is a terminal; nothing erases what was there.
pub(crate) fn show(line: &str) {
    if stderr().is_terminal() {
        let line: String = line.chars().take(width().saturating_sub(1)).collect();
        let _ = stderr().write_all(format!("{ERASE}{line}").as_bytes());
    }
}

/// Does `work`, and draws the progress that it makes on standard error if that is `wanted` and standard
/// error is a terminal; of one of several inputs, with its name. The line is gone when this returns. Nothing
/// about the terminal is changed that a signal could leave behind.
pub(crate) fn drawn<T>(
    wanted: Wanted,
    name: Option<&OsStr>,
    length: Option<u64>,
    work: impl FnOnce(&ImageProgress) -> T,
) -> T {
    let progress = ImageProgress::default();
    let Some(delay) = wanted.after() else {
        return work(&progress);
    };
    let short = |name| names::quoted(Path::new(name).file_name().unwrap_or(name));
    let name = name.map(short).unwrap_or_default();
    let tick = |time: Duration| {
        if time < delay {
            return;
        }
        let width = width();
        // The name gives way to what is said of it.
        let (start, rests) = words(Unit::Bytes, progress.bytes(), length, None, time);
        let free = width.saturating_sub(start.len() + rests[0].len() + 1);
        let head = head(&name, width.min(3 * free));
        let line = line(progress.bytes(), length, time, width.saturating_sub(columns(&head)), "");
        draw(&format!("{head}{line}"));
    };
    let result = watched(&tick, || work(&progress));
    drop(make_room());
    result
}

/// Does `work`, and calls `tick` with the time that has passed again and again meanwhile.
fn watched<T>(tick: &(dyn Fn(Duration) + Sync), work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let watcher = move || {
            let started = Instant::now();
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                tick(started.elapsed());
            }
        };
        // Without a thread there is no line, and the work is done all the same.
        let watcher = thread::Builder::new().spawn_scoped(scope, watcher);
        let result = work();
        drop(done);
        if let Ok(watcher) = watcher {
            let _ = watcher.join();
        }
        result
    })
}

/// What is read in a moment: so many files, with so many bytes in all.
const BRIEF_FILES: u64 = 16;
const BRIEF_BYTES: u64 = 1 << 20;

/// How much there is to do in all.
pub(crate) enum Total {
    Unknown,
    /// So much.
    Known {
        files: u64,
        bytes: u64,
    },
    /// The files that this finds, and what the work tells of. It goes beside the work, and only if progress is drawn.
    Found(Box<dyn Iterator<Item = Stat> + Send>),
}

impl Total {
    pub(crate) fn walked(walk: Walk) -> Total {
        let files = walk.flatten().filter(|entry| entry.kind() == Kind::File);
        Total::Found(Box::new(files.filter_map(|entry| entry.stat().ok())))
    }

    /// Whether it is read before a thread has begun that would watch it.
    pub(crate) fn is_brief(&self) -> bool {
        matches!(self, Total::Known { files: ..=BRIEF_FILES, bytes: ..=BRIEF_BYTES })
    }
}

/// What was found so far.
#[derive(Default)]
struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Whether somebody counts.
    is_counted: bool,
    /// Whether that is all.
    is_whole: AtomicBool,
    /// Whether nobody asks any more.
    is_given_up: AtomicBool,
}

impl Tally {
    fn known(files: u64, bytes: u64) -> Tally {
        Tally { files: files.into(), bytes: bytes.into(), is_whole: true.into(), ..Tally::default() }
    }

    /// Adds up files, each once.
    fn count(&self, files: impl Iterator<Item = Stat>) {
        let mut linked = HashSet::new();
        for stat in files {
            if self.is_given_up.load(Ordering::Relaxed) {
                return;
            }
            if stat.links < 2 || linked.insert((stat.device, stat.inode)) {
                self.files.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(stat.size, Ordering::Relaxed);
            }
        }
        self.is_whole.store(true, Ordering::Release);
    }

    /// What is known of it.
    fn whole(&self) -> Whole {
        match (self.is_whole.load(Ordering::Acquire), self.is_counted) {
            (true, _) => Whole::Known {
                files: self.files.load(Ordering::Relaxed),
                bytes: self.bytes.load(Ordering::Relaxed),
            },
            (false, true) => Whole::Counted,
            (false, false) => Whole::Unknown,
        }
    }
}

/// How much of the whole is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// What the work tells of.
    Unknown,
    /// It is being counted.
    Counted,
    /// So much, and what the work tells of.
    Known { files: u64, bytes: u64 },
}

/// Does `work`, draws the progress of many files if that is `wanted` and standard error is a terminal, and
/// says how far it is whenever SIGUSR1 comes.
pub(crate) fn of_files<T>(
    wanted: Wanted,
    total: Total,
    progress: &verisum::files::Progress,
    work: impl FnOnce() -> T,
) -> T {
    let delay = wanted.after();
    let asked = Arc::new(AtomicBool::new(false));
    signals::note_question(&asked);
    let (tally, found) = match total {
        Total::Known { files, bytes } => (Tally::known(files, bytes), None),
        Total::Found(files) if delay.is_some() => {
            (Tally { is_counted: true, ..Tally::default() }, Some(files))
        }
        Total::Found(_) | Total::Unknown => (Tally::default(), None),
    };
    let tally = &tally;
    if delay.is_some() {
        progress.name_files();
    }
    let furthest = Furthest::default();
    let tick = |time: Duration| {
        let line = |width: usize| line_of_files(progress, &furthest, tally.whole(), time, width);
        if asked.swap(false, Ordering::Relaxed) {
            let _room = make_room();
            let _ = stderr().write_all(format!("verisum: {}\n", line(usize::MAX)).as_bytes());
        }
        if delay.is_some_and(|delay| time >= delay) {
            draw(&line(width()));
        }
    };
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        if let (Some(files), Some(delay)) = (found, delay) {
            // What is over before anything is drawn is not looked at twice.
            let count = move || {
                if wait.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                    tally.count(files);
                }
            };
            let _ = thread::Builder::new().spawn_scoped(scope, count);
        }
        let result = watched(&tick, work);
        tally.is_given_up.store(true, Ordering::Relaxed);
        drop(done);
        drop(make_room());
        result
    })
}

/// The greatest part of the work that was ever shown, in millionths. How much there is to do may grow, and what was
/// said to be done is not taken back.
#[derive(Default)]
struct Furthest(AtomicU64);

impl Furthest {
    /// How much there is to do, so that no less of it is done than was shown before.
    fn whole(&self, done: u64, whole: u64) -> u64 {
        const ALL: u64 = 1_000_000;
        let part = (u128::from(done) * u128::from(ALL) / u128::from(whole.max(1))).min(ALL.into()) as u64;
        let most = self.0.fetch_max(part, Ordering::Relaxed).max(part);
        match most > part {
            true => (u128::from(done) * u128::from(ALL) / u128::from(most)) as u64,
            false => whole,
        }
    }
}

/// Files, bytes, rate and, as far as the whole is known, the time that is left. What need not be read is
/// done as soon as that is seen.
fn line_of_files(
    progress: &verisum::files::Progress,
    furthest: &Furthest,
    whole: Whole,
    time: Duration,
    width: usize,
) -> String {
    let (skipped_files, skipped_bytes) = progress.skipped();
    let done = progress.files() + skipped_files;
    // A hole is neither read nor to be read.
    let (holes, told) = (progress.holes(), progress.expected());
    let read = progress.bytes().saturating_sub(holes);
    let (files, all) = match whole {
        // Files may come while it is at work.
        Whole::Known { files, bytes } if told.is_none() => {
            (format!("{done} of {}  ", counted(files.max(done), "file")), Some(bytes))
        }
        Whole::Known { bytes, .. } => (format!("{}  ", counted(done, "file")), told.map(|told| told + bytes)),
        Whole::Counted => (format!("{}  ", counted(done, "file")), None),
        Whole::Unknown => (format!("{}  ", counted(done, "file")), told),
    };
    let all = match whole {
        Whole::Known { .. } => all.map(|all| all.saturating_sub(skipped_bytes)),
        _ => all,
    };
    let all = all.map(|all| furthest.whole(read, all.saturating_sub(holes).max(read)));
    let rest = width.saturating_sub(files.len());
    let name = progress.current();
    let name = name.file_name().map(names::quoted).unwrap_or_default();
    files + &line(read, all, time, rest, &name)
}

/// Whether ssh may ask on the terminal: a line that is drawn again and again would hide what it asks.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Leaves the terminal to ssh, which may ask for a password on it.
pub(crate) fn leave_terminal() {
    IS_ASKED.store(true, Ordering::Relaxed);
}

/// How many steps work has, and how many of them are done; none in all if nobody knows.
static STEPS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Says how many steps the work has that [`during`] watches; 0 if nobody knows.
pub(crate) fn expect(steps: u64) {
    STEPS[0].store(steps, Ordering::Relaxed);
}

/// So many more steps are done.
pub(crate) fn advance(steps: u64) {
    STEPS[1].fetch_add(steps, Ordering::Relaxed);
}

/// A reader whose bytes are steps.
pub(crate) struct Counted<R>(pub(crate) R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        advance(count as u64);
        Ok(count)
    }
}

/// How many files all steps stand for; none where steps are bytes.
static FILES: AtomicU64 = AtomicU64::new(0);

/// Says that the work has a step for each of so many files more.
pub(crate) fn expect_files(files: u64) {
    FILES.fetch_add(files, Ordering::Relaxed);
    STEPS[0].fetch_add(files, Ordering::Relaxed);
}

/// The passes that the work makes over all records of each catalogue that it opens.
static PASSES: Mutex<&'static [CatalogPass]> = Mutex::new(&[]);

/// What those passes take, in the order in which they are made.
static COSTS: Mutex<Vec<PassCost>> = Mutex::new(Vec::new());

/// The pass that is being made, and since when.
#[derive(Default)]
struct Pace {
    pass: usize,
    began: Duration,
}

impl Pace {
    /// How many nanoseconds passes take in all, and how many of them are done after so many steps, by what such passes
    /// take as a rule; and how many seconds are left, by how long the one takes that is being made.
    fn told(&mut self, costs: &[PassCost], steps: u64, time: Duration) -> ([u64; 2], Option<u64>) {
        let (mut pass, mut steps_before, mut before) = (0, 0, 0);
        while pass + 1 < costs.len() && steps >= steps_before + costs[pass].steps {
            (steps_before, before) = (steps_before + costs[pass].steps, before + costs[pass].nanoseconds);
            pass += 1;
        }
        if pass != self.pass {
            *self = Pace { pass, began: time };
        }
        let Some(cost) = costs.get(pass) else { return ([0, 0], None) };
        let part = (steps - steps_before).min(cost.steps) as f64 / cost.steps.max(1) as f64;
        let inside = (cost.nanoseconds as f64 * part) as u64;
        let all = costs.iter().map(|cost| cost.nanoseconds).sum();
        let took = time.saturating_sub(self.began);
        // A pass that has just begun says nothing.
        let (done_in, took) = if took < DELAY { (before + inside, time) } else { (inside, took) };
        let rest = all - before - inside;
        let left = (done_in > 0).then(|| (rest as f64 / done_in as f64 * took.as_secs_f64()) as u64);
        ([all, before + inside], left)
    }
}

/// Has the steps of the passes over a catalogue counted, if [`during`] says how far they are. One that cannot be read
/// says why where it is used.
pub(crate) fn watch(catalog: &Catalog) {
    let passes = *PASSES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((records, costs)) = (!passes.is_empty()).then(|| catalog.costs_of(passes).ok()).flatten() {
        FILES.fetch_add(records, Ordering::Relaxed);
        COSTS.lock().unwrap_or_else(PoisonError::into_inner).extend(costs);
        catalog.count_steps(Arc::new(advance));
    }
}

/// From which width on a line says what is done.
const WIDE: usize = 80;

/// What is done by now, and how long it took or how long the rest will take; in files, if steps stand for any, or else
/// in bytes.
fn line_of_steps(
    what: &str,
    ([all, done], left): ([u64; 2], Option<u64>),
    files: u64,
    time: Duration,
    width: usize,
) -> String {
    if all == 0 || done == 0 {
        return format!("{what}  {} elapsed", clock(time.as_secs()));
    }
    let head = if width < WIDE { String::new() } else { format!("{what}  ") };
    let room = width.saturating_sub(head.len());
    let done = done.min(all);
    let part = |of: u64| (u128::from(done) * u128::from(of) / u128::from(all)) as u64;
    head + &match files {
        0 => line(done, Some(all), time, room, ""),
        files => line_in(Unit::Files, part(files), Some(files), left, time, room, ""),
    }
}

/// Does `work`, and says on a terminal how far it is, if that is wanted: as far as it [tells](expect), or by these passes
/// over catalogues, or only that it goes on.
pub(crate) fn during<T>(
    wanted: Wanted,
    what: &str,
    passes: &'static [CatalogPass],
    work: impl FnOnce() -> T,
) -> T {
    let Some(delay) = wanted.after() else { return work() };
    *PASSES.lock().unwrap_or_else(PoisonError::into_inner) = passes;
    let pace = Mutex::new(Pace::default());
    let tick = |time: Duration| {
        if time >= delay && !IS_ASKED.load(Ordering::Relaxed) {
            let [all, done, files] =
                [&STEPS[0], &STEPS[1], &FILES].map(|count| count.load(Ordering::Relaxed));
            let costs = COSTS.lock().unwrap_or_else(PoisonError::into_inner);
            let told = match costs.is_empty() {
                true => ([all, done], None),
                false => pace.lock().unwrap_or_else(PoisonError::into_inner).told(&costs, done, time),
            };
            draw(&line_of_steps(what, told, files, time, width()));
        }
    };
    let result = watched(&tick, work);
    drop(make_room());
    result
}

/// The number of columns of the terminal.
fn width() -> usize {
    terminal::width(rustix::stdio::stderr())
}

/// What a line that tells several files apart begins with: the name, or the end of a long one, within a
/// third of the width.
fn head(name: &str, width: usize) -> String {
    let room = (width / 3).saturating_sub(2);
    if name.is_empty() || room < 4 {
        return String::new();
    }
    format!("{}: ", end_of(name, room))
}

/// A name, or the end of one that is too long.
fn end_of(name: &str, room: usize) -> String {
    if columns(name) <= room {
        return name.to_string();
    }
    let mut end = name;
    while columns(end) + 3 > room && !end.is_empty() {
        let mut characters = end.chars();
        characters.next();
        end = characters.as_str();
    }
    format!("...{end}")
}

/// The most columns that a text may take: what is not ASCII may be two wide.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum()
}

/// The shortest room for the name of a file.
const LEAST_NAME: usize = 8;

/// What is counted.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Files,
}

impl Unit {
    fn amount(self, count: u64) -> String {
        match self {
            Unit::Bytes => human(count),
            Unit::Files => count.to_string(),
        }
    }

    /// What stands behind an amount of a whole.
    fn noun(self) -> &'static str {
        match self {
            Unit::Bytes => "",
            Unit::Files => " files",
        }
    }
}

/// The line, shorter than the terminal is wide; with a bar, or the name of a file in its place.
fn line(bytes: u64, length: Option<u64>, time: Duration, width: usize, name: &str) -> String {
    line_in(Unit::Bytes, bytes, length, None, time, width, name)
}

fn line_in(
    unit: Unit,
    done: u64,
    length: Option<u64>,
    left: Option<u64>,
    time: Duration,
    width: usize,
    name: &str,
) -> String {
    let (start, rests) = words(unit, done, length, left, time);
    let fits = |rest: &&String| start.len() + rest.len() < width;
    let rest = rests.iter().find(fits).or(rests.last()).map_or("", String::as_str);
    let text = format!("{start}{rest}");
    let room = width.saturating_sub(text.len() + 3);
    // The brackets, and a space.
    let bar = room.min(WIDEST_BAR + 1).saturating_sub(1);
    let text = match length {
        _ if room >= LEAST_NAME && !name.is_empty() && width < usize::MAX => {
            format!("{text}  {}", end_of(name, room))
        }
        Some(length) if bar >= 5 && name.is_empty() => {
            let part = (done as f64 / length.max(1) as f64 * bar as f64) as usize;
            format!("{} [{:<bar$}]  {rest}", start.trim_end(), "=".repeat(part))
        }
        _ => text,
    };
    text.chars().take(width.saturating_sub(1)).collect()
}

/// The share that is done, and what stands behind it: all, or less of it where there is no room; what is left comes
/// first to whoever waits.
fn words(
    unit: Unit,
    done: u64,
    length: Option<u64>,
    left: Option<u64>,
    time: Duration,
) -> (String, Vec<String>) {
    let rate = done as f64 / time.as_secs_f64().max(0.001);
    let rate_text = format!("{}/s", unit.amount(rate as u64));
    let Some(length) = length else {
        return (
            String::new(),
            vec![format!("{}  {rate_text}  {}", unit.amount(done), clock(time.as_secs()))],
        );
    };
    let left = match left {
        None if rate > 0.0 => Some((length.saturating_sub(done) as f64 / rate) as u64),
        left => left,
    };
    let left = format!("{} left", left.map_or("-:--".to_string(), clock));
    let part = done as f64 / length.max(1) as f64;
    let amount = format!("{} of {}{}", unit.amount(done), unit.amount(length), unit.noun());
    let rests = vec![format!("{amount}  {rate_text}  {left}"), format!("{amount}  {left}"), left];
    (format!("{:>3}%  ", (part * 100.0) as u64), rests)
}

/// Seconds as hours, minutes and seconds.
pub(crate) fn clock(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_line_has_what_is_known() {
        let half = line(512 << 20, Some(1 << 30), SECOND, 80, "");
        assert_eq!(half, " 50% [================                ]  512 MiB of 1 GiB  512 MiB/s  0:01 left");
        assert_eq!(line(3 << 20, None, 3 * SECOND, 80, ""), "3 MiB  1 MiB/s  0:03");
        assert!(line(1 << 30, Some(1 << 30), SECOND, 80, "").starts_with("100% [="));
        assert!(line(0, Some(1 << 30), Duration::ZERO, 80, "").ends_with("-:-- left"));
        assert!(line(0, Some(0), Duration::ZERO, 80, "").starts_with("  0%"));
    }

    #[test]
    fn the_line_of_files_has_the_whole_once_it_is_known() {
        let progress = verisum::files::Progress::default();
        assert_eq!(
            line_of_files(&progress, &Furthest::default(), Whole::Unknown, SECOND, 80),
            "0 files  0 bytes  0 bytes/s  0:01"
        );
        let whole = Whole::Known { files: 3, bytes: 1 << 30 };
        let known = line_of_files(&progress, &Furthest::default(), whole, SECOND, 80);
        assert!(known.starts_with("0 of 3 files    0% ["), "{known}");
        assert!(known.ends_with("0 bytes of 1 GiB  0 bytes/s  -:-- left"), "{known}");
        // What was read need not be all: the rest may be counted yet.
        progress.add(1, 1 << 20);
        let running = line_of_files(&progress, &Furthest::default(), Whole::Counted, SECOND, 80);
        assert_eq!(running, "1 file  1 MiB  1 MiB/s  0:01");
    }

    #[test]
    fn what_was_done_is_not_taken_back() {
        let furthest = Furthest::default();
        let percent = |done: u64, whole: u64| {
            let line = line(done, Some(furthest.whole(done, whole)), SECOND, 80, "");
            line.trim_start().split('%').next().unwrap().parse::<u64>().unwrap()
        };
        let mut last = 0;
        for (done, whole) in
            [(0, 0), (50, 100), (60, 1000), (61, 1000), (700, 1000), (990, 5000), (5000, 5000)]
        {
            let now = percent(done, whole);
            assert!(now >= last && now <= 100, "{done} of {whole}: {now} after {last}");
            last = now;
        }
        assert_eq!(last, 100);
    }

    #[test]
    fn the_file_that_is_read_is_named_where_there_is_room() {
        let shown = |width| line(512 << 20, Some(1 << 30), SECOND, width, "a-very-long-name-of-a-disk.img");
        assert_eq!(
            shown(100),
            " 50%  512 MiB of 1 GiB  512 MiB/s  0:01 left  a-very-long-name-of-a-disk.img"
        );
        assert_eq!(shown(60), " 50%  512 MiB of 1 GiB  512 MiB/s  0:01 left  ...a-disk.img");
        assert_eq!(shown(50), " 50%  512 MiB of 1 GiB  512 MiB/s  0:01 left");
    }

    #[test]
    fn a_walk_is_added_up_with_each_file_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "abc").unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("c"), "abcd").unwrap();
        let tally = Tally::default();
        let walk = Walk::new(vec![folder.path().into()], verisum::files::WalkOptions::default());
        let Total::Found(files) = Total::walked(walk) else { panic!("a walk is counted") };
        tally.count(files);
        assert_eq!(tally.whole(), Whole::Known { files: 2, bytes: 7 });
    }

    #[test]
    fn the_line_is_shorter_than_the_terminal() {
        for width in 1..200 {
            for bytes in [0, 1, 1 << 20, (1 << 40) + 12345] {
                let line = line(bytes, Some((1 << 40) + 12345), SECOND, width, "");
                assert!(line.chars().count() < width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn names_leave_room_for_the_rest() {
        assert_eq!(head("disk.img", 80), "disk.img: ");
        assert_eq!(head("", 80), "");
        assert_eq!(head("disk.img", 10), "");
        assert_eq!(head("a-very-long-name-of-a-disk.img", 60), "...e-of-a-disk.img: ");
        for width in 0..200 {
            for name in ["disk.img", "a-very-long-name-of-a-disk.img", "größer, 磁盘映像，第二个磁盘映像.img"]
            {
                let head = head(name, width);
                assert!(columns(&head) <= width / 3, "{width}: {head}");
            }
        }
    }

    #[test]
    fn the_line_of_steps_has_a_share_only_of_a_known_whole() {
        let line = |steps, files, width| line_of_steps("at work", (steps, None), files, 3 * SECOND, width);
        assert_eq!(line([0, 5], 9, 80), "at work  0:03 elapsed");
        assert_eq!(line([20, 0], 9, 80), "at work  0:03 elapsed");
        assert_eq!(line([400, 100], 60, 60), " 25% [=====               ]  15 of 60 files  5/s  0:09 left");
        assert_eq!(
            line([400, 100], 60_000, 80),
            "at work   25% [=====                 ]  15000 of 60000 files  5000/s  0:09 left"
        );
        assert!(
            line([20, 25], 20, 60).starts_with("100% [=") && line([20, 25], 20, 60).ends_with("0:00 left")
        );
        assert!(line([4 << 20, 1 << 20], 0, 80).ends_with("1 MiB of 4 MiB  341 KiB/s  0:09 left"));
        for width in 20..200 {
            assert!(line([400, 100], 60_000, width).len() < width, "{width}");
        }
    }

    #[test]
    fn what_is_left_is_told_by_the_pass_that_is_being_made() {
        // A second for the first, as a rule, and nine for the other, which takes the same steps.
        let costs = [1, 9].map(|seconds| PassCost { steps: 100, nanoseconds: seconds * 1_000_000_000 });
        let mut pace = Pace::default();
        let mut told = |steps, seconds| pace.told(&costs, steps, seconds * SECOND);
        assert_eq!(told(50, 2), ([10_000_000_000, 500_000_000], Some(38)));
        // All is four times as slow.
        assert_eq!(told(100, 4), ([10_000_000_000, 1_000_000_000], Some(36)));
        assert_eq!(told(150, 22), ([10_000_000_000, 5_500_000_000], Some(18)));
        assert_eq!(told(200, 40), ([10_000_000_000, 10_000_000_000], Some(0)));
        // The other one alone is slow.
        let mut pace = Pace::default();
        let mut told = |steps, seconds| pace.told(&costs, steps, seconds * SECOND).1;
        assert_eq!((told(100, 1), told(110, 21), told(300, 201)), (Some(9), Some(180), Some(0)));
        assert_eq!(Pace::default().told(&[], 5, SECOND), ([0, 0], None));
    }

    #[test]
    fn what_is_left_is_told_where_there_is_room_for_nothing_else() {
        let progress = verisum::files::Progress::default();
        progress.add(123_456, 512 << 20);
        for width in 46..200 {
            let whole = Whole::Known { files: 1_000_000, bytes: 1 << 30 };
            let shown = line_of_files(&progress, &Furthest::default(), whole, SECOND, width);
            assert!(shown.ends_with(" left") && shown.len() < width, "{width}: {shown}");
        }
        let shown = |width| line(512 << 20, Some(1 << 30), SECOND, width, "disk.img");
        assert_eq!(shown(40), " 50%  512 MiB of 1 GiB  0:01 left");
        assert_eq!(shown(30), " 50%  0:01 left  disk.img");
        assert_eq!(shown(20), " 50%  0:01 left");
    }

    #[test]
    fn bytes_that_are_read_are_steps() {
        let before = STEPS[1].load(Ordering::Relaxed);
        let mut read = Vec::new();
        Counted(&b"four"[..]).read_to_end(&mut read).unwrap();
        assert_eq!((read.len(), STEPS[1].load(Ordering::Relaxed) - before), (4, 4));
    }

    #[test]
    fn clocks_have_hours_when_needed() {
        assert_eq!((clock(0), clock(75)), ("0:00".to_string(), "1:15".to_string()));
        assert_eq!(clock(3 * 3600 + 62), "3:01:02");
    }
}
