//! One measurement from start to report: progress, signals, saving, exit code.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, fstat};
use rustix::process::{Resource, getrlimit};
use verisum_bench::export::Report;
use verisum_bench::host::{Folders, MeasuredMachine};
use verisum_bench::measure::{
    self, About, BenchProgress, MachineLoad, MeasureAmount, MeasurePlan, Subject, Watch,
};
use verisum_bench::record::{self, BenchResults, NOT_REACHED, Series};
use verisum_bench::summary::{self, Quantity};

use super::BenchOptions;
use super::starter::starter;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::progress::{self, clock};
use crate::ui::scratch::Scratch;
use crate::ui::{self, Output, names};
use crate::ui::{kernel, sizes};

/// How long what was measured may be unsaved.
const SAVED_EVERY: Duration = Duration::from_secs(2);

/// A measurement: begin, [`measure`](Session::measure) once or several times, finish.
pub(crate) struct Session<'a> {
    pub(super) options: &'a BenchOptions,
    /// How to measure; may be changed between measurements.
    pub(crate) plan: MeasurePlan,
    /// What was measured so far.
    pub(crate) results: BenchResults,
    stop: Arc<AtomicBool>,
    /// What a second signal removes.
    pub(crate) scratch: Scratch,
    before: MachineLoad,
    /// How many processors this machine has: results may be of another one.
    processors: usize,
    folders: Folders,
    /// When the results were last written.
    saved: Instant,
}

impl<'a> Session<'a> {
    /// Reads the options and the machine, and catches signals: the first keeps what was measured, the
    /// second ends the program at once, but for the [`Scratch`]. `files` are where the data lies.
    pub(crate) fn begin(
        bench: &str,
        options: &'a BenchOptions,
        otherwise: MeasureAmount,
        files: &[PathBuf],
    ) -> Result<Session<'a>, Failure> {
        let plan = options.plan(otherwise)?;
        options.report.require()?;
        enough_memory()?;
        let folders = Folders::default();
        let before = MachineLoad::now(&folders.proc);
        let host = MeasuredMachine::read(&folders, &kernel::policy()?, files);
        let processors = host.processors;
        let results = BenchResults::new(bench, &plan, host);
        let stop = Arc::new(AtomicBool::new(false));
        let scratch = Scratch::default();
        scratch.watch(Some(stop.clone()))?;
        let saved = Instant::now();
        Ok(Session { options, plan, results, stop, scratch, before, processors, folders, saved })
    }

    /// Says on a terminal what is made ready, until there is something else to say.
    pub(crate) fn preparing(&self, what: &str) {
        if !self.options.no_progress {
            progress::show_line(&names::plain(what));
        }
    }

    /// Adds a row for what cannot be measured here.
    pub(crate) fn skip(&mut self, about: &About, why: impl Into<String>) {
        self.results.series.push(Series::skipped(about, why));
    }

    /// Adds rows for what the user's wish to stop came before: groups, and what of them.
    pub(crate) fn skip_unreached<'s>(&mut self, rows: impl IntoIterator<Item = (&'s str, &'s str)>) {
        for (group, name) in rows {
            if !self.results.series.iter().any(|one| one.group == group) {
                self.skip(&About::new(group, name), NOT_REACHED);
            }
        }
    }

    /// Adds a sentence that readers of the results need.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.results.notes.push(note.into());
    }

    /// Notes the version of a program, if it is there: what is started for it, and with which arguments.
    pub(crate) fn record_version(&mut self, name: &str, (executable, arguments): (&str, &[&str])) {
        let found = measure::find_program(executable, std::env::var_os("PATH").as_deref());
        if let Some(version) = found.and_then(|found| measure::version(&found, arguments)) {
            self.results.host.versions.insert(name.to_string(), version);
        }
    }

    /// Whether the user did not say how much is measured.
    pub(crate) fn may_choose_rounds(&self) -> bool {
        self.options.runs.is_none() && self.options.time.is_none()
    }

    /// Whether the user wants no more.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Where `true` appears when the user wants no more, for work of one's own.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Measures these, those of a group in turns and one group after the other, by the plan, and adds
    /// their series to the results. A time is that of all groups together.
    pub(crate) fn measure(&mut self, subjects: Vec<Box<dyn Subject + '_>>) {
        let mut groups: Vec<(String, Vec<Box<dyn Subject + '_>>)> = Vec::new();
        for subject in subjects {
            let group = &subject.about().group;
            match groups.iter_mut().find(|(name, _)| name == group) {
                Some((_, subjects)) => subjects.push(subject),
                None => groups.push((group.clone(), vec![subject])),
            }
        }
        let started = Instant::now();
        let count = groups.len();
        // Begun anew, it sees the mounts that were made since.
        let starter = starter(self.stop());
        for (place, (_, subjects)) in groups.into_iter().enumerate() {
            let mut plan = self.plan.clone();
            plan.starter = Some(starter.clone());
            // What one group left over is for those after it.
            if let MeasureAmount::Time(time) = plan.amount {
                plan.amount =
                    MeasureAmount::Time(time.saturating_sub(started.elapsed()) / (count - place) as u32);
            }
            // Another order in each group.
            plan.seed = plan.seed.wrapping_add(place as u64);
            self.measure_group(subjects, &plan, (place, count));
        }
        progress::show_line("");
    }

    /// Measures these in rounds of all groups, so that each group sees what the machine does over the whole
    /// time: what uses the same core, as another virtual machine, comes and goes within seconds to minutes.
    pub(crate) fn measure_together(&mut self, subjects: Vec<Box<dyn Subject + '_>>) {
        let plan = MeasurePlan { starter: Some(starter(self.stop())), ..self.plan.clone() };
        self.measure_group(subjects, &plan, (0, 1));
        progress::show_line("");
    }

    fn measure_group(
        &mut self,
        mut subjects: Vec<Box<dyn Subject + '_>>,
        plan: &MeasurePlan,
        group: (usize, usize),
    ) {
        self.tell_of_scripts(&subjects);
        let mut watcher = Watcher {
            drawn: progress::is_drawn() && !self.options.no_progress,
            group,
            last: Instant::now(),
            saved: &mut self.saved,
            earlier: self.results.series.len(),
            export: self.options.report.export_json().map(PathBuf::from),
            stop: self.stop.clone(),
            results: &mut self.results,
        };
        let series = measure::measure(&mut subjects, plan, &mut watcher);
        let earlier = watcher.earlier;
        self.results.series.truncate(earlier);
        self.results.series.extend(series);
    }

    /// Notes each script that a shell would have started in a program's place.
    fn tell_of_scripts(&mut self, subjects: &[Box<dyn Subject + '_>]) {
        let path = std::env::var_os("PATH");
        for program in subjects.iter().filter_map(|subject| subject.about().program.as_deref()) {
            if let Some(script) = measure::passed_over(program, path.as_deref()) {
                let note = format!(
                    "{} is measured, and not the script {} that stands before it in PATH",
                    program.display(),
                    script.display()
                );
                if !self.results.notes.contains(&note) {
                    self.note(note);
                }
            }
        }
    }

    /// The report that every bench has.
    pub(crate) fn report(&mut self, title: &str, quantity: Quantity) -> Report {
        self.complete();
        summary::report(title, &self.results, quantity)
    }

    /// Says what is to be said of the machine when all is measured. A bench that makes its own report
    /// calls it before it does.
    pub(crate) fn complete(&mut self) {
        let after = MachineLoad::now(&self.folders.proc);
        self.results.complete = !self.stopped();
        self.results.doubts =
            measure::judge_noise(&self.results.series, &self.before, &after, self.processors);
    }

    /// Prints the report, writes the files, and gives the exit code.
    pub(crate) fn finish(self, report: &Report, output: &mut Output) -> Result<Exit, Failure> {
        self.options.report.show(report, output)?;
        self.warn(!self.options.report.json());
        Ok(self.exit())
    }

    /// Prints these lines instead of the report's, unless JSON is wanted; else as [`Session::finish`].
    pub(crate) fn finish_with(
        self,
        lines: &str,
        report: &Report,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        if self.options.report.json() {
            return self.finish(report, output);
        }
        output.bytes(&names::for_terminal(lines.as_bytes()))?;
        self.options.report.export(report)?;
        // However its lines are broken.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = words(lines);
        self.warn(self.results.doubts.iter().all(|doubt| said.contains(&words(doubt))));
        if let Some(what) = summary::unmeasured(&self.results).filter(|what| !said.contains(&words(what))) {
            ui::say(PROGRAM, &what);
        }
        Ok(self.exit())
    }

    /// Says why not to trust the times, unless somebody just read it there.
    fn warn(&self, is_told: bool) {
        if is_told && is_watched() {
            return;
        }
        for doubt in &self.results.doubts {
            ui::say(PROGRAM, &format!("noisy: {doubt}"));
        }
    }

    fn exit(&self) -> Exit {
        if self.stopped() {
            Exit::Interrupted
        } else if self.results.series.iter().any(|series| series.wrong) {
            Exit::Mismatch
        } else if self.results.series.iter().any(|series| series.failed) {
            Exit::Unchecked
        } else {
            Exit::Clean
        }
    }
}

/// Whether somebody reads what is printed as it comes: on a terminal, or through a pipe. A file is read later, if at
/// all.
fn is_watched() -> bool {
    let is_pipe = |about: rustix::fs::Stat| FileType::from_raw_mode(about.st_mode) == FileType::Fifo;
    stdout().is_terminal() || fstat(stdout()).is_ok_and(is_pipe)
}

/// The least address space for all that is measured and the threads' stacks, in bytes: of less than this
/// libraries end the program without a word to the user.
const LEAST_MEMORY: u64 = 384 << 20;

/// Refuses to begin where a limit leaves less.
fn enough_memory() -> Result<(), Failure> {
    match getrlimit(Resource::As).current {
        Some(limit) if limit < LEAST_MEMORY => Err(Failure::Program {
            name: "bench".to_string(),
            why: format!(
                "needs {} of address space, and the limit (ulimit -v) is {}",
                sizes::human(LEAST_MEMORY),
                sizes::human(limit)
            ),
        }),
        _ => Ok(()),
    }
}

/// Draws the line of progress and saves what there is.
struct Watcher<'a> {
    drawn: bool,
    /// Which group this is, and of how many.
    group: (usize, usize),
    last: Instant,
    saved: &'a mut Instant,
    earlier: usize,
    export: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    results: &'a mut BenchResults,
}

impl Watch for Watcher<'_> {
    fn progress(&mut self, now: &BenchProgress<'_>) {
        if !self.drawn || now.round > 0 && self.last.elapsed() < Duration::from_millis(100) {
            return;
        }
        self.last = Instant::now();
        let (place, count) = self.group;
        let left = match now.left {
            // Groups are taken to be alike until they are seen.
            Some(left) => format!("{} left", clock((left * (count - place) as u32).as_secs())),
            None => "warming up".to_string(),
        };
        let percent = (place as f64 + now.part) / count as f64 * 100.0;
        let name = names::plain(now.name);
        let group = match count {
            1 => names::plain(now.group).to_string(),
            _ => format!("group {} of {count}", place + 1),
        };
        progress::show_line(&format!("{:>3}%  {left}  {group}: {name}", percent as u32));
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn round(&mut self, series: &[Series]) {
        let Some(path) = &self.export else { return };
        if self.saved.elapsed() < SAVED_EVERY {
            return;
        }
        self.results.series.truncate(self.earlier);
        self.results.series.extend_from_slice(series);
        if let Err(error) = self.results.write(path) {
            // Said once; all is printed at the end, and writing is tried again then.
            ui::say(PROGRAM, &failure(error).message());
            self.export = None;
        }
        *self.saved = Instant::now();
    }
}

/// An error of a file of results, for the user.
pub(super) fn failure(error: record::ResultsError) -> Failure {
    match error {
        record::ResultsError::Io { path, operation, source } => {
            Failure::File { name: path, operation, error: source }
        }
        record::ResultsError::Form { path, what } => {
            Failure::File { name: path, operation: "read", error: std::io::Error::other(what) }
        }
    }
}
