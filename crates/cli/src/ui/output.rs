//! Standard output that loses no write error. (`println!` panics on a closed pipe. `std::io::stdout` ignores
//! that a descriptor cannot be written, and ignores errors when it flushes at the end.)

use std::ops::Range;

use rustix::io::Errno;
use serde::Serialize;
use verisum_bench::export::columns;

use crate::ui::closed_streams;
use crate::ui::color::{self, Paint};
use crate::ui::exit::Exit;
use crate::ui::fact_line::{self, FactLine};
use crate::ui::failure::Failure;
use crate::ui::json::Object;
use crate::ui::log;
use crate::ui::names;
use crate::ui::progress;
use crate::ui::terminal;
use crate::ui::verbosity;

/// The most bytes held back between flushes.
const BUFFER: usize = 16 * 1024;

/// Buffered standard output. Call [`Output::flush`] whenever the user should see what there is, and at
/// the end: dropping it writes nothing.
///
/// Names of files may hold what a terminal takes for commands. What goes to one has those characters
/// escaped; what goes anywhere else is as it was added.
///
/// It also knows the worst that was found so far: a run whose output fails still ends with that. What is wrong
/// is seen at once, and not when many lines have gathered.
pub(crate) struct Output {
    buffer: Vec<u8>,
    worst: Exit,
    /// The next line is about something that is wrong.
    is_urgent: bool,
    /// Whether somebody reads it as it comes, and no program.
    is_terminal: bool,
    /// Words in the buffer that have a colour, in their order.
    painted: Vec<(Range<usize>, Paint)>,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Output {
        Output {
            buffer: Vec::new(),
            worst: Exit::Clean,
            is_urgent: false,
            is_terminal: rustix::termios::isatty(rustix::stdio::stdout()),
            painted: Vec::new(),
        }
    }

    /// Takes note of what was found, before the line about it is added.
    pub(crate) fn found(&mut self, exit: Exit) {
        self.judged(exit);
        self.is_urgent |= exit != Exit::Clean;
    }

    /// Takes note of what was found and can wait for its line, which may say no more than how much there is.
    pub(crate) fn judged(&mut self, exit: Exit) {
        self.worst = self.worst.max(exit);
    }

    /// The worst that was found.
    pub(crate) fn worst(&self) -> Exit {
        self.worst
    }

    /// Fails if nothing can be printed, for those who would otherwise work in vain.
    pub(crate) fn ready(&self) -> Result<(), Failure> {
        match closed_streams::standard_output() {
            true => Err(Failure::Output(Errno::BADF.into())),
            false => Ok(()),
        }
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Adds a line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Adds a line of text whose bytes `word` say how it is with what the line is about.
    pub(crate) fn outcome(
        &mut self,
        text: &str,
        word: Range<usize>,
        paint: impl Into<Paint>,
    ) -> Result<(), Failure> {
        self.outcome_bytes(format!("{text}\n").as_bytes(), word, paint)
    }

    /// The same of a file and the facts that tell how it is with it, as the terminal has room for them.
    pub(crate) fn told(
        &mut self,
        told: &FactLine,
        word: Range<usize>,
        paint: impl Into<Paint>,
    ) -> Result<(), Failure> {
        let text = match self.is_terminal {
            true => told.for_width(terminal::layout(false).width),
            false => told.line(),
        };
        self.outcome(&text, word, paint)
    }

    /// Whether a line fits the terminal, if it goes to one.
    pub(crate) fn has_room(&self, line: &str) -> bool {
        !self.is_terminal || columns(line) <= terminal::layout(false).width
    }

    /// Adds a sentence, on a terminal in as many lines as it needs.
    pub(crate) fn sentence(&mut self, text: &str) -> Result<(), Failure> {
        match self.is_terminal {
            true => self.line(&fact_line::broken(text, terminal::layout(false).width).join("\n")),
            false => self.line(text),
        }
    }

    /// The same of bytes.
    pub(crate) fn outcome_bytes(
        &mut self,
        bytes: &[u8],
        word: Range<usize>,
        paint: impl Into<Paint>,
    ) -> Result<(), Failure> {
        if color::is_wanted() {
            let start = self.buffer.len();
            self.painted.push((start + word.start..start + word.end, paint.into()));
        }
        self.bytes(bytes)
    }

    /// Adds bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.buffer.extend_from_slice(bytes);
        let is_line = matches!(bytes.last(), Some(b'\n' | b'\0'));
        let is_urgent = self.is_urgent && is_line;
        self.is_urgent &= !is_urgent;
        if is_line && (is_urgent || verbosity::names_all()) && log::is_kept() {
            log::note(last_line(&self.buffer));
        }
        // Who is shown how far it is does not wait for lines.
        let is_watched = self.is_terminal && is_line && progress::is_shown();
        match is_urgent || is_watched || self.buffer.len() > BUFFER {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Adds an object as a line of JSON.
    pub(crate) fn json(&mut self, kind: &'static str, fields: &impl Serialize) -> Result<(), Failure> {
        self.report(&Object::new(kind, fields))
    }

    /// Says what a command came to: as the line of JSON that `json` asks for, or as this sentence, if there is any.
    pub(crate) fn summary(
        &mut self,
        json: bool,
        text: Option<&str>,
        fields: &impl Serialize,
    ) -> Result<(), Failure> {
        match json {
            true => self.json("summary", fields),
            false => text.map_or(Ok(()), |text| self.sentence(text)),
        }
    }

    /// Adds an object that has its version and type already.
    pub(crate) fn report(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let object = serde_json::to_vec(object).map_err(|error| Failure::Output(error.into()))?;
        self.buffer.extend_from_slice(&verisum::remote::hidden(&object));
        self.text("\n")
    }

    /// Writes what was added so far.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let result = self.ready().and_then(|()| match self.is_terminal || !self.painted.is_empty() {
            true => {
                let _room = progress::make_room();
                write_all(&self.shown())
            }
            false => write_all(&self.buffer),
        });
        self.buffer.clear();
        self.painted.clear();
        result
    }

    /// The buffer with its colours; commands for the terminal are escaped in what goes to one.
    fn shown(&self) -> Vec<u8> {
        let part = |range: Range<usize>| match self.is_terminal {
            true => names::for_terminal(&self.buffer[range]),
            false => self.buffer[range].to_vec(),
        };
        let mut shown = Vec::with_capacity(self.buffer.len());
        let mut done = 0;
        for (word, paint) in &self.painted {
            let style = paint.style();
            shown.extend(part(done..word.start));
            shown.extend(style.render().to_string().into_bytes());
            shown.extend(part(word.clone()));
            shown.extend(style.render_reset().to_string().into_bytes());
            done = word.end;
        }
        shown.extend(part(done..self.buffer.len()));
        shown
    }
}

/// The line at the end, as far as it was not written yet.
fn last_line(text: &[u8]) -> &[u8] {
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\0');
    let before = text.split_last().map_or(text, |(_, before)| before);
    &text[before.iter().rposition(ends).map_or(0, |at| at + 1)..]
}

fn write_all(mut bytes: &[u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(0) => return Err(Failure::Output(std::io::ErrorKind::WriteZero.into())),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::Output(error.into())),
        }
    }
    Ok(())
}
