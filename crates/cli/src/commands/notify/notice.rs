//! The message: the output of the command, and the state of the archive.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use verisum::catalog::store::Moment;
use verisum::files::{Verdict, VerdictClass};

use super::limited_program::{self, ProgramEnd};
use super::watched_command::{Said, Watched};
use crate::ui::bad_file::{self, BadFile, NAMED};
use crate::ui::catalog::CatalogArgs;
use crate::ui::config::{REPORT, WATCHED_VARIABLE};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::help::EXIT_CODES;
use crate::ui::json::Object;
use crate::ui::repair_commands::RepairCommands;
use crate::ui::values::written;
use crate::ui::{names, shell};

/// The longest report.
const LONGEST: u64 = 64 << 20;

/// How many commands that mend files a chat is shown, and how many reasons.
const SHOWN: usize = 3;

/// The state of the archive, as `verisum report` tells it.
pub(super) struct ArchiveState {
    /// What it comes to.
    pub(super) lines: Vec<String>,
    /// What is bad, which the summary names the first of.
    bad: WorstFiles,
    /// The page.
    pub(super) page: Option<Vec<u8>>,
    /// Why there is no page.
    pub(super) trouble: Option<String>,
}

impl ArchiveState {
    /// Asks for it; after a scrub what is bad is what is so in the trees that it saw. A catalogue that cannot be read
    /// does not keep word from being sent.
    pub(super) fn of(
        catalog: &CatalogArgs,
        scrubbed_since: Option<Moment>,
        timeout: Duration,
    ) -> ArchiveState {
        let ask = |options: &[&str]| -> Result<Vec<u8>, String> {
            let program = env::current_exe().map_err(|error| error.to_string())?;
            let mut command = Command::new(program);
            command
                .arg("report")
                .args(options)
                .arg("--")
                .args(&catalog.catalog)
                .env(WATCHED_VARIABLE, REPORT);
            let ended = limited_program::run(&mut command, Vec::new(), LONGEST, timeout)?;
            made(ended)
        };
        let told = ask(&["--json"]).and_then(|bytes| {
            let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            let lines = value["lines"].as_array().into_iter().flatten();
            let lines = lines.filter_map(|line| line.as_str().map(str::to_string)).collect::<Vec<_>>();
            let bad = bad_files(catalog, scrubbed_since).map_err(|failure| failure.message())?;
            Ok((lines, bad))
        });
        let page = told.as_ref().ok().map(|_| ask(&[]));
        let (page, trouble) = match (page, &told) {
            (Some(Ok(page)), _) => (Some(page), None),
            (Some(Err(why)), _) => (None, Some(why)),
            (None, Err(why)) => (None, Some(why.clone())),
            (None, Ok(_)) => (None, None),
        };
        let (lines, bad) = told.unwrap_or_default();
        ArchiveState { lines, bad, page, trouble }
    }
}

/// The first files in trouble, the worst first, and how many there are beyond them.
type WorstFiles = (Vec<BadFile>, u64);

/// Those of the trees that were scrubbed since a moment; without one, of all trees.
fn bad_files(catalog_args: &CatalogArgs, scrubbed_since: Option<Moment>) -> Result<WorstFiles, Failure> {
    let catalog = catalog_args.open_shared()?;
    let mut roots = Vec::new();
    for root in catalog.roots()? {
        let last = catalog.runs(root.id, 1)?.first().map(|run| run.started);
        let was_scrubbed = |since: Moment| last.is_some_and(|last| last >= since);
        roots.extend(Some(root).filter(|_| scrubbed_since.is_none_or(was_scrubbed)));
    }
    let commands = RepairCommands::new(catalog_args.catalog.as_deref());
    bad_file::of_trees(&catalog, &commands, &roots.iter().collect::<Vec<_>>(), (true, None), NAMED)
}

/// The worst file: what it is, and whether it can be had again.
fn worst((alarms, beyond): &WorstFiles) -> Option<String> {
    let first = alarms.first()?;
    let more = match alarms.len() as u64 - 1 + beyond {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let copy = match (&first.copy, &first.parity) {
        (Some(_), _) => Some("a good copy is known"),
        (None, Some(_)) => Some("parity may mend it"),
        (None, None) => None,
    };
    let facts: Vec<&str> = first.advice().into_iter().chain(copy).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) };
    Some(format!("{}: {}{facts}{more}", first.outcome, names::quoted(first.path.as_os_str())))
}

/// What a report printed; it also ends with other codes than 0, if something is wrong with the archive.
fn made(ended: ProgramEnd) -> Result<Vec<u8>, String> {
    match ended.stdout.is_empty() {
        true => Err(format!("verisum report: {}", ended.said())),
        false => Ok(ended.stdout),
    }
}

/// Word for somebody.
pub(super) struct Notice {
    host: String,
    command: Vec<OsString>,
    watched: Option<Watched>,
    started: Moment,
    finished: Moment,
    said: Said,
    pub(super) state: ArchiveState,
}

impl Notice {
    pub(super) fn new(
        command: &[OsString],
        watched: Option<Watched>,
        started: Moment,
        said: Said,
        state: ArchiveState,
    ) -> Notice {
        let host = names::plain(&rustix::system::uname().nodename().to_string_lossy());
        let finished = Moment::now();
        Notice { host, command: command.to_vec(), watched, started, finished, said, state }
    }

    /// One line: where, what, and the worst.
    pub(super) fn summary(&self) -> String {
        let what = match &self.watched {
            None => "state of the archive".to_string(),
            Some(_) => self.ending(),
        };
        let worst = worst(&self.state.bad).map_or(String::new(), |worst| format!("; {worst}"));
        format!("verisum on {}: {what}{worst}", self.host)
    }

    /// How the command ended, in words.
    fn ending(&self) -> String {
        let verb = self.command.first().map(|verb| verb.to_string_lossy()).unwrap_or_default();
        let verb = names::plain(&verb);
        let Some(watched) = &self.watched else { return String::new() };
        match (watched.code(), watched.signal()) {
            (Some(code), _) => {
                let meaning = EXIT_CODES.iter().find(|(known, _)| *known == code.to_string());
                let meaning = meaning.filter(|_| !self.is_nagios());
                format!(
                    "{verb} ended with {code}{}",
                    meaning.map_or(String::new(), |(_, text)| format!(": {text}"))
                )
            }
            (None, Some(signal)) => format!("{verb} was ended by signal {signal}"),
            (None, None) => format!("{verb} ended"),
        }
    }

    /// Whether its exit codes have another meaning.
    fn is_nagios(&self) -> bool {
        is_nagios(&self.command)
    }

    fn command_line(&self) -> String {
        command_line(&self.command)
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.watched.is_some() {
            let (from, to) = (written(self.started), written(self.finished));
            text +=
                &format!("{} on {}.\n\n{}\n{from} to {to}\n", self.ending(), self.host, self.command_line());
        }
        section(&mut text, "What it said:", &self.said.lines());
        section(&mut text, "What is bad:", &self.bad());
        section(&mut text, "State of the archive:", &self.state.lines);
        if let Some(why) = &self.state.trouble {
            section(&mut text, "There is no report:", std::slice::from_ref(why));
        }
        text
    }

    /// What is bad, but what the command says: it does not name what an earlier one found missing.
    fn bad(&self) -> Vec<String> {
        let said = if self.watched.is_some() { self.said.lines() } else { Vec::new() };
        // It may be a part of another name, which may have spaces.
        let begins = |before: &str| {
            before.trim_start().is_empty() || [": ", ", ", "\""].iter().any(|end| before.ends_with(end))
        };
        let ends = |after: &str| {
            after.is_empty() || [":", ",", "\"", " ("].iter().any(|begin| after.starts_with(begin))
        };
        let names_it = |line: &String, name: &str| {
            line.match_indices(name).any(|(at, name)| begins(&line[..at]) && ends(&line[at + name.len()..]))
        };
        let is_said = |alarm: &BadFile| {
            let name = names::quoted(alarm.path.as_os_str());
            said.iter().any(|line| names_it(line, &name))
        };
        let (alarms, beyond) = &self.state.bad;
        let unsaid: Vec<&BadFile> = alarms.iter().filter(|alarm| !is_said(alarm)).collect();
        let paragraphs = bad_file::paragraphs(&unsaid);
        let lines = paragraphs.iter().flat_map(|paragraph| paragraph.lines()).map(str::to_string);
        let more = (*beyond > 0 && said.is_empty()).then(|| format!("... and {beyond} more"));
        lines.chain(more).collect()
    }

    /// Why a command that found nothing bad failed, as it said.
    fn reasons(&self) -> impl Iterator<Item = String> {
        let watched = self.watched.as_ref();
        let is_unchecked = watched.is_some_and(|watched| {
            !["clean", "mismatch"].contains(&outcome(watched.exit(), self.is_nagios()))
        });
        let said = if is_unchecked { self.said.lines() } else { Vec::new() };
        let is_reason = |line: &String| match line.split(' ').next() {
            Some("verisum:" | "VERISUM") => true,
            first => {
                first.and_then(Verdict::find).is_some_and(|found| found.class() == VerdictClass::Unchecked)
            }
        };
        said.into_iter().filter(is_reason).take(SHOWN)
    }

    /// What chats show: where, what, the worst, and what the archive comes to.
    fn told(&self) -> String {
        let lines = self.state.lines.iter().map(|line| format!("\n{line}"));
        let said = self.said.lines();
        let bad = self.bad();
        let remedies = said.iter().chain(&bad).filter(|line| line.contains("mend it: ")).take(SHOWN);
        let remedies = remedies.map(|line| format!("\n{}", line.trim()));
        // A command that failed for it says so itself.
        let trouble = self.state.trouble.clone().filter(|_| self.watched.is_none());
        let reasons = self.reasons().chain(trouble).map(|line| format!("\n{line}"));
        self.summary() + &reasons.chain(lines).chain(remedies).collect::<String>()
    }

    /// For programs.
    pub(super) fn json(&self) -> String {
        let (alarms, _) = &self.state.bad;
        let mut fields = ended(&self.command, self.watched.as_ref(), [self.started, self.finished]);
        fields["text"] = json!(without_markup(&self.told()));
        fields["verisum"] = json!(env!("CARGO_PKG_VERSION"));
        fields["host"] = json!(self.host);
        fields["said"] = json!(self.said.lines());
        fields["lines"] = json!(self.state.lines);
        fields["alarms"] = alarms.iter().map(|alarm| json!(Object::new("alarm", &alarm.json()))).collect();
        fields["error"] = json!(self.state.trouble);
        json!(Object::new("notice", &fields)).to_string()
    }
}

/// A text that a chat shows as it is. Many take these characters for markup, as in `<!channel>`, which wakes everybody.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// How a command ended that began and ended at these moments, for programs.
pub(super) fn ended(
    command: &[OsString],
    watched: Option<&Watched>,
    [started, finished]: [Moment; 2],
) -> Value {
    json!({
        "outcome": watched.map_or("state", |watched| outcome(watched.exit(), is_nagios(command))),
        "command": watched.map(|_| command_line(command)),
        "exit_code": watched.and_then(Watched::code),
        "signal": watched.and_then(Watched::signal),
        "started": started,
        "finished": finished,
    })
}

fn is_nagios(command: &[OsString]) -> bool {
    command.iter().any(|word| word == "--nagios")
}

fn command_line(command: &[OsString]) -> String {
    let words = command.iter().map(|word| shell::word(word.as_bytes()));
    std::iter::once("verisum".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// How a command ended, as one word. For Nagios 2 is that something is wrong, and 1 a warning.
fn outcome(exit: Exit, is_nagios: bool) -> &'static str {
    match exit {
        Exit::Usage if is_nagios => "mismatch",
        Exit::Mismatch if is_nagios => "unchecked",
        Exit::Clean => "clean",
        Exit::Mismatch => "mismatch",
        Exit::Usage => "usage",
        Exit::Interrupted => "interrupted",
        Exit::Unchecked | Exit::Nagios(_) => "unchecked",
    }
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    *text += &format!("{title}\n");
    for line in lines {
        *text += &format!("  {line}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_no_markup_of_chats() {
        assert_eq!(without_markup("a <!channel> & <@U1>"), "a &lt;!channel&gt; &amp; &lt;@U1&gt;");
    }
}
