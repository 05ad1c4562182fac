//! Prints the results of many hosts on one standard output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use verisum::files::lock;

use crate::ui::PROGRAM;
use crate::ui::color::Paint;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::json::Object;
use crate::ui::{self, Output, names};
use verisum::files::place::{FileRead, PlaceEvent};
use verisum::remote::{Address, Host};

/// How long a result may wait to be seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// Prints what comes from several threads, and remembers the worst of it.
pub(crate) struct PlaceReport<'a>(Mutex<PlaceReportState<'a>>);

struct PlaceReportState<'a> {
    output: &'a mut Output,
    /// The name at the start of messages.
    program: &'static str,
    /// Whether only what is wrong is said.
    quiet: bool,
    /// Why hosts could not be gone through, by their names.
    failed: BTreeMap<String, String>,
    flushed: Instant,
    broken: Option<Failure>,
}

impl<'a> PlaceReport<'a> {
    pub(crate) fn new(output: &'a mut Output) -> PlaceReport<'a> {
        PlaceReport(Mutex::new(PlaceReportState {
            output,
            program: PROGRAM,
            quiet: false,
            failed: BTreeMap::new(),
            flushed: Instant::now(),
            broken: None,
        }))
    }

    /// The same for a program of another name.
    pub(crate) fn called(self, program: &'static str) -> PlaceReport<'a> {
        self.lock().program = program;
        self
    }

    /// Whether to say only what is wrong.
    pub(crate) fn quiet(self, quiet: bool) -> PlaceReport<'a> {
        self.lock().quiet = quiet;
        self
    }

    /// Lets somebody use the output while nobody else does.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Output) -> T) -> T {
        act(self.lock().output)
    }

    /// Takes note of what was printed, or why it could not be. False where nothing can be printed any more.
    pub(crate) fn printed_by(&self, written: Result<(), Failure>) -> bool {
        self.lock().keep(written)
    }

    /// Prints a result. False where nothing can be printed any more.
    pub(crate) fn result(&self, text: &[u8]) -> bool {
        self.printed(|output| output.bytes(text))
    }

    /// The same of one whose bytes `word` say how it is.
    pub(crate) fn outcome(&self, text: &[u8], word: Range<usize>, paint: impl Into<Paint>) -> bool {
        self.printed(|output| output.outcome_bytes(text, word, paint))
    }

    fn printed(&self, print: impl FnOnce(&mut Output) -> Result<(), Failure>) -> bool {
        let mut state = self.lock();
        let is_late = state.flushed.elapsed() > PATIENCE;
        let mut written = print(state.output);
        if is_late {
            written = written.and_then(|()| state.output.flush());
            state.flushed = Instant::now();
        }
        state.keep(written)
    }

    /// Prints a result as a line of JSON. False where nothing can be printed any more.
    pub(crate) fn json(&self, kind: &'static str, fields: &impl Serialize) -> bool {
        match serde_json::to_vec(&Object::new(kind, fields)) {
            Ok(mut line) => {
                line.push(b'\n');
                self.result(&line)
            }
            Err(error) => {
                let why = error.to_string();
                self.lock().keep(Err(Failure::Program { name: "JSON".to_string(), why }))
            }
        }
    }

    /// Says something about a host, after all results that were before it.
    pub(crate) fn note(&self, host: &Host, message: &str) -> bool {
        self.named(&host.name(), message)
    }

    /// The same about a tree of it, by its address.
    pub(crate) fn note_of_tree(&self, tree: &Address, message: &str) -> bool {
        self.named(&names::plain(&String::from_utf8_lossy(&tree.typed_form())), message)
    }

    fn named(&self, name: &str, message: &str) -> bool {
        let mut state = self.lock();
        let flushed = state.output.flush();
        ui::say(PROGRAM, &format!("{name}: {message}"));
        state.keep(flushed)
    }

    /// Says something about all.
    pub(crate) fn say(&self, message: &str) -> bool {
        let mut state = self.lock();
        let flushed = state.output.flush();
        ui::say(state.program, message);
        state.keep(flushed)
    }

    /// Says how a host is gone through, unless only what is wrong shall be said.
    pub(crate) fn remark(&self, host: &Host, message: &str) -> bool {
        let is_quiet = self.lock().quiet;
        is_quiet || self.note(host, message)
    }

    /// Says what a place tells beside answers.
    pub(crate) fn event(&self, host: &Host, event: PlaceEvent) -> bool {
        match event {
            PlaceEvent::Note(note) => self.note(host, &names::plain(&note)),
            PlaceEvent::Way(way) => self.remark(host, &way),
            PlaceEvent::Unlisted(line) => {
                self.worse(Exit::Unchecked);
                self.note(host, &names::plain(&line))
            }
            PlaceEvent::Answer(_) => true,
        }
    }

    /// Says that a file is not what its store recorded, if it is not: that is a mismatch.
    pub(crate) fn contradicted(&self, host: &Host, name: &[u8], read: &FileRead) -> bool {
        let Some(why) = read.contradiction() else { return true };
        self.worse(Exit::Mismatch);
        self.note(host, &format!("{}: {why}", names::quoted(OsStr::from_bytes(name))))
    }

    /// Says why a host could not be gone through.
    pub(crate) fn failed(&self, host: &Host, message: String) {
        self.note(host, &message);
        self.worse(Exit::Unchecked);
        self.lock().failed.insert(host.name(), message);
    }

    /// Why this host could not be gone through, if it could not.
    pub(crate) fn failure_of(&self, host: &Host) -> Option<String> {
        self.lock().failed.get(&host.name()).cloned()
    }

    /// Says what failed, and makes the exit code that of it.
    pub(crate) fn fail(&self, host: &Host, failure: &Failure) {
        self.note(host, &without_name(host, failure));
        self.worse(failure.exit());
    }

    /// The exit code is no better than this.
    pub(crate) fn worse(&self, exit: Exit) {
        let mut state = self.lock();
        state.output.found(exit);
    }

    /// Says how it ended.
    pub(crate) fn end(self) -> Result<Exit, Failure> {
        let state = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.broken {
            Some(failure) => Err(failure),
            None => Ok(state.output.worst()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PlaceReportState<'a>> {
        lock(&self.0)
    }
}

/// What failed, without the name of the host, which is said before.
pub(crate) fn without_name(host: &Host, failure: &Failure) -> String {
    let message = failure.message();
    message.strip_prefix(&format!("{}: ", host.name())).unwrap_or(&message).to_string()
}

/// So many of what is always told, and of those others that there are.
pub(crate) fn tally(count: u64, what: &str, others: &[(u64, &str)]) -> String {
    let mut line = format!("{count} {what}");
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        line.push_str(&format!(", {count} {what}"));
    }
    line
}

impl PlaceReportState<'_> {
    fn keep(&mut self, written: Result<(), Failure>) -> bool {
        if let Err(failure) = written {
            self.broken.get_or_insert(failure);
        }
        self.broken.is_none()
    }
}
