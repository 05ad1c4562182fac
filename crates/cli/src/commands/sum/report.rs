//! Prints the list of digests, in the order of the command line however the work goes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use verisum::digest::Output as Sum;
use verisum::files::store::manifest::{Item, Writer};
use verisum::files::{Hashed, Timestamp};

use super::personality;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output, names};

/// How long a value that is known may wait to be seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// What was read of one input.
pub(super) struct Read {
    pub(super) name: OsString,
    pub(super) length: u64,
    pub(super) modified: Option<Timestamp>,
    pub(super) digests: Vec<Sum>,
    /// Whether the file changed meanwhile.
    pub(super) changed: bool,
}

/// Puts lines in order and prints them.
pub(super) struct Report<'a> {
    program: &'static str,
    imitates: bool,
    writer: &'a Writer,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    output: &'a mut Output,
    flushed: Instant,
    /// The place of the first line that is not printed yet.
    next: u64,
    /// From there on, those that are known.
    waiting: VecDeque<Option<Line>>,
    worst: Exit,
    /// Standard output cannot be written.
    broken: Option<Failure>,
}

/// What comes of one input.
#[derive(Default)]
struct Line {
    /// For standard output.
    text: Vec<u8>,
    /// For standard error.
    message: Option<String>,
    exit: Option<Exit>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        program: &'static str,
        imitates: bool,
        writer: &'a Writer,
        output: &'a mut Output,
    ) -> Report<'a> {
        let state = State {
            output,
            flushed: Instant::now(),
            next: 0,
            waiting: VecDeque::new(),
            worst: Exit::Clean,
            broken: None,
        };
        Report { program, imitates, writer, state: Mutex::new(state) }
    }

    /// Takes a file of the engine.
    pub(super) fn hashed(&self, hashed: Hashed<u64>) -> ControlFlow<()> {
        let place = hashed.token;
        let line = match hashed.result {
            Ok(content) => self.line(Read {
                name: hashed.entry.path().into_os_string(),
                length: content.length,
                modified: Some(content.before.modified),
                changed: !content.before.is_same_state(&content.after),
                digests: content.digests,
            }),
            Err(error) => self.message(&Failure::Tree(error)),
        };
        self.put(place, line)
    }

    /// Takes something that was read elsewhere.
    pub(super) fn found(&self, place: u64, found: Read) {
        let line = self.line(found);
        let _ = self.put(place, line);
    }

    /// Takes a failure.
    pub(super) fn failed(&self, place: u64, failure: Failure) {
        let _ = self.put(place, self.message(&failure));
    }

    /// Prints what is left, and says how it ended.
    pub(super) fn end(self) -> Result<Exit, Failure> {
        let state = self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        match state.broken {
            Some(failure) => Err(failure),
            None => Ok(state.worst),
        }
    }

    fn line(&self, found: Read) -> Line {
        let mut line = Line::default();
        let item = Item {
            name: found.name.as_bytes(),
            size: found.length,
            modified: found.modified,
            mode: None,
            digests: &found.digests,
        };
        let quoted = || names::quoted(&found.name);
        if let Err(error) = self.writer.item(&mut line.text, &item) {
            line.message = Some(format!("{}: write: {error}", quoted()));
            line.exit = Some(Exit::Unchecked);
        } else if found.changed {
            line.message = Some(format!(
                "{}: read: the file changed while it was read: the value may fit no state of it",
                quoted()
            ));
            // The coreutils do not look; a script must not fail where it did not.
            line.exit = (!self.imitates).then_some(Exit::Unchecked);
        }
        line
    }

    fn message(&self, failure: &Failure) -> Line {
        let message = match self.imitates {
            true => personality::message(self.program, failure),
            false => failure.message(),
        };
        Line { text: Vec::new(), message: Some(message), exit: Some(failure.exit()) }
    }

    fn put(&self, place: u64, line: Line) -> ControlFlow<()> {
        let mut state = self.lock();
        let index = (place - state.next) as usize;
        if state.waiting.len() <= index {
            state.waiting.resize_with(index + 1, || None);
        }
        state.waiting[index] = Some(line);
        while let Some(Some(line)) = state.waiting.front_mut().map(Option::take) {
            state.waiting.pop_front();
            state.next += 1;
            state.print(self.program, line);
        }
        match state.broken {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State<'_> {
    fn print(&mut self, program: &str, line: Line) {
        if self.broken.is_some() {
            return;
        }
        let mut result = self.output.bytes(&line.text);
        if line.message.is_some() || self.flushed.elapsed() > PATIENCE {
            result = result.and_then(|()| self.output.flush());
            self.flushed = Instant::now();
        }
        if let Err(failure) = result {
            self.broken = Some(failure);
        }
        if let Some(message) = line.message {
            ui::say(program, &message);
        }
        self.worst = self.worst.max(line.exit.unwrap_or(Exit::Clean));
    }
}
