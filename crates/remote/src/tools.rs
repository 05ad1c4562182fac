//! Hashes with the programs of the host: `find` lists, `xargs` starts a program for thousands of names.
//!
//! The program's lines are told apart by the names in them, which come in the order in which they were
//! asked; a name without a line was not read, and is asked about afterwards. Each start of the program
//! begins with an empty file whose digest is known. Names that would be escaped in a line, or would end it,
//! go to the standard input of the program one by one.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use verisum_digest::{Digest, Output};
use verisum_files::lock;

use crate::error::SessionError;
use crate::helper_session::Ended;
use crate::link::{Link, Running, Script, record};
use crate::probe::Lister;
use crate::protocol::number;
use crate::timeout::{Load, Timeout};
use crate::ways::Tool;
use crate::{FileAnswer, FileRequest, PlaceEvent, Reason, Sink, hexadecimal, reason};

const SUM: &str = include_str!("script/sum.sh");
const GUARD: &str = include_str!("script/guard.sh");
const SINGLE: &str = include_str!("script/single.sh");
const WHY: &str = include_str!("script/why.sh");

/// The file that each start of the program begins with.
const EMPTY: &[u8] = b"/dev/null";

/// How many names are asked about at once that were not read, or cannot be in a line.
const ASIDE: usize = 4096;

/// How many names may wait for their lines: more than a start of any program takes. If more do, they are
/// asked about before the others go on.
const MOST_WAITING: usize = 1 << 16;

/// The same, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// How often files that can be read and have no line are given to the program again.
const ROUNDS: usize = 3;

/// A program that hashes, and how its host lists trees.
pub(crate) struct Tools {
    pub(crate) tool: Tool,
    pub(crate) lister: Lister,
    pub(crate) length: usize,
    /// The digest of nothing.
    pub(crate) empty: Output,
}

impl Tools {
    pub(crate) fn new(tool: Tool, lister: Lister, digest: &Digest) -> Result<Tools, SessionError> {
        let empty = digest.hash(b"").map_err(|error| SessionError::Here(error.to_string()))?;
        Ok(Tools { tool, lister, length: digest.len(), empty })
    }

    /// Hashes the files of these names. With `regular` they are known to be regular files.
    pub(crate) fn names(
        &self,
        link: &Link,
        names: &mut (dyn Iterator<Item = FileRequest> + Send),
        regular: bool,
        sink: Sink,
    ) -> Ended {
        let mut again = VecDeque::new();
        let mut rounds = 0;
        let mut is_over = false;
        while !is_over {
            let mut round = Round::default();
            let mut all = std::iter::from_fn(|| {
                let next = again.pop_front().or_else(|| names.next());
                is_over = next.is_none();
                next
            });
            let ended = self.round(link, &mut all, regular, &mut round, sink);
            match ended {
                Ended::Done => {}
                Ended::Stopped => return Ended::Stopped,
                Ended::Broken(error, mut left) => {
                    left.extend(round.silent);
                    left.extend(again);
                    return Ended::Broken(error, left);
                }
            }
            if round.silent.is_empty() {
                continue;
            }
            if rounds < ROUNDS {
                let (count, what) = (round.silent.len(), ended_as(round.code));
                sink(PlaceEvent::Note(format!(
                    "{} {what}: asked again for what is left, {count}",
                    self.tool.batch
                )));
                again.append(&mut round.silent);
                rounds += 1;
                is_over = false;
                continue;
            }
            let why = format!("{} {}", self.tool.batch, ended_as(round.code));
            for request in round.silent {
                if !sink(PlaceEvent::Answer(FileAnswer::failed(request, Reason::Failed(why.clone())))) {
                    return Ended::Stopped;
                }
            }
        }
        Ended::Done
    }

    /// The same, up to so many names as may wait.
    fn round(
        &self,
        link: &Link,
        names: &mut (dyn Iterator<Item = FileRequest> + Send),
        regular: bool,
        round: &mut Round,
        sink: Sink,
    ) -> Ended {
        let mut aside = VecDeque::new();
        // A program without names would read its standard input: there must be one.
        let first = loop {
            match names.next() {
                Some(request) if self.is_for_lines(&request.path) => break Some(request),
                Some(request) => aside.push_back(request),
                None => break None,
            }
            if aside.len() >= ASIDE
                && let Some(ended) = stopped(self.singly(link, &mut aside, round, sink), &mut aside)
            {
                return ended;
            }
        };
        if let Some(first) = first {
            let mut names = std::iter::once(first).chain(names);
            let ended = self.in_lines(link, &mut names, regular, &mut aside, round, sink);
            if !matches!(ended, Ended::Done) {
                return match ended {
                    Ended::Broken(error, mut left) => {
                        left.extend(aside);
                        Ended::Broken(error, left)
                    }
                    other => other,
                };
            }
        }
        stopped(self.singly(link, &mut aside, round, sink), &mut aside).unwrap_or(Ended::Done)
    }

    /// Whether a name can be part of a line.
    fn is_for_lines(&self, path: &[u8]) -> bool {
        self.tool.zero || !path.iter().any(|byte| matches!(byte, b'\n' | b'\r' | b'\\'))
    }

    fn in_lines(
        &self,
        link: &Link,
        names: &mut (dyn Iterator<Item = FileRequest> + Send),
        regular: bool,
        aside: &mut VecDeque<FileRequest>,
        round: &mut Round,
        sink: Sink,
    ) -> Ended {
        let end = if self.tool.zero { 0 } else { b'\n' };
        let text = SUM
            .replace("@GUARD@", if regular { "" } else { GUARD.trim_end_matches('\n') })
            .replace("@BATCH@", &self.tool.batch)
            .replace("@END@", if self.tool.zero { "\\0" } else { "\\n" });
        let mut running = match link.start(false, &Script::new(&text)) {
            Ok(running) => running,
            Err(error) => return Ended::Broken(error, names.take(1).collect()),
        };
        let mut unread = VecDeque::new();
        let mut was_unread = false;
        let asked = Asked::new(running.timeout());
        let (stdin, stdout, killer) = running.split();
        let ended = thread::scope(|scope| {
            let (asked, aside) = (&asked, &mut *aside);
            scope.spawn(move || stdin.map(|stdin| self.feed(stdin, names, aside, asked)));
            let ended = loop {
                let said = match record(stdout, end) {
                    Ok(Some(line)) => self.said(&line, asked, &mut unread),
                    Ok(None) => break Err(None),
                    Err(error) => break Err(Some(SessionError::Odd(error.to_string()))),
                };
                let (request, digest) = match said {
                    Ok(ToolLine::Nothing) => continue,
                    Ok(ToolLine::End(code)) => break Ok(code),
                    Ok(ToolLine::Digest(request, digest)) => (request, digest),
                    Err(error) => break Err(Some(error)),
                };
                was_unread |= !unread.is_empty();
                let told = asked.timeout.paused(|| {
                    // The program waits meanwhile.
                    match sink(PlaceEvent::Answer(FileAnswer::read(request, Some(digest), false))) {
                        true if unread.len() >= ASIDE => self.explain(link, &mut unread, round, sink),
                        goes_on => Ok(goes_on),
                    }
                });
                match told {
                    Ok(true) => {}
                    Ok(false) => break Ok(None),
                    Err(error) => break Err(Some(error)),
                }
            };
            asked.lock().is_over = true;
            if !matches!(ended, Ok(Some(_))) {
                killer.kill();
            }
            ended
        });
        unread.extend(asked.lock().requests.drain(..));
        match ended {
            Ok(None) => return Ended::Stopped,
            Ok(Some(code)) => round.code = code,
            Err(error) => {
                let why = running.broken();
                return Ended::Broken(error.unwrap_or(why), unread);
            }
        }
        if round.code != 0 && !was_unread && unread.is_empty() {
            let what = format!("{} gave all digests, and {}", self.tool.batch, ended_as(round.code));
            if !sink(PlaceEvent::Unlisted(what)) {
                return Ended::Stopped;
            }
        }
        stopped(self.explain(link, &mut unread, round, sink), &mut unread).unwrap_or(Ended::Done)
    }

    /// Writes names to the program until there are no more, or as many wait as may.
    fn feed(
        &self,
        mut stdin: impl Write,
        names: &mut (dyn Iterator<Item = FileRequest> + Send),
        aside: &mut VecDeque<FileRequest>,
        asked: &Asked,
    ) {
        let mut buffer = Vec::new();
        while let Some(request) = asked.timeout.paused(|| names.next()) {
            if !self.is_for_lines(&request.path) {
                // They are done after the others.
                aside.push_back(request);
                match aside.len() < ASIDE {
                    true => continue,
                    false => break,
                }
            }
            buffer.extend_from_slice(&request.path);
            buffer.push(0);
            let mut state = asked.lock();
            state.push(request);
            asked.timeout.set(state.load.limit(asked.answer));
            if state.is_over {
                return;
            }
            let is_full = state.requests.len() >= MOST_WAITING || state.bytes >= MOST_BYTES;
            drop(state);
            if is_full {
                break;
            }
            if buffer.len() > 16 << 10 {
                if stdin.write_all(&buffer).is_err() {
                    return;
                }
                buffer.clear();
            }
        }
        let _ = stdin.write_all(&buffer);
    }

    /// What a line of the program says. Names that it passed over go to `unread`.
    fn said(
        &self,
        line: &[u8],
        asked: &Asked,
        unread: &mut VecDeque<FileRequest>,
    ) -> Result<ToolLine, SessionError> {
        if line.is_empty() {
            return Ok(ToolLine::Nothing);
        }
        if let Some(code) = line.strip_prefix(b"end ") {
            return Ok(ToolLine::End(number(code)));
        }
        let odd = |what: &str, text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            SessionError::Odd(format!("{}: {what}: {text}", self.tool.batch))
        };
        let Some((path, digest)) = self.line(line) else {
            return Err(odd("unexpected line", &line[..line.len().min(60)]));
        };
        if path == EMPTY && digest == self.empty {
            asked.timeout.paused(|| {});
            return Ok(ToolLine::Nothing);
        }
        let mut state = asked.lock();
        let found = state.take(path, unread);
        asked.timeout.set(state.load.limit(asked.answer));
        let request = found.ok_or_else(|| odd("a digest of what was not asked, or a wrong one", path))?;
        Ok(ToolLine::Digest(request, digest))
    }

    /// The name and the digest in a line of any of the programs.
    fn line<'a>(&self, line: &'a [u8]) -> Option<(&'a [u8], Output)> {
        let digits = self.length * 2;
        if let (Some(hex), Some(b' ')) = (line.get(..digits), line.get(digits))
            && let Some(digest) = hexadecimal(hex, self.length)
        {
            let name = &line[digits + 1..];
            let name = match name.first() {
                Some(b' ' | b'*') => &name[1..],
                _ => name,
            };
            return Some((name, digest));
        }
        let (before, hex) = line.split_at_checked(line.len().checked_sub(digits)?)?;
        let digest = hexadecimal(hex, self.length)?;
        let before = before.trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end().strip_suffix(b")")?;
        let open = before.iter().position(|byte| *byte == b'(')?;
        Some((&before[open + 1..], digest))
    }

    /// Hashes files whose names are not fit for lines, and takes them off the queue.
    fn singly(
        &self,
        link: &Link,
        requests: &mut VecDeque<FileRequest>,
        round: &mut Round,
        sink: Sink,
    ) -> Result<bool, SessionError> {
        let mut unread = VecDeque::new();
        let text = SINGLE.replace("@STREAM@", &self.tool.stream);
        let go_on = one_by_one(link, &text, b"answer ", requests, &mut |request, answer| {
            let words = answer.split(|byte| byte.is_ascii_whitespace());
            match words.filter_map(|word| hexadecimal(word, self.length)).next() {
                Some(digest) => sink(PlaceEvent::Answer(FileAnswer::read(request, Some(digest), false))),
                None => {
                    unread.push_back(request);
                    true
                }
            }
        });
        match go_on {
            Ok(true) => self.explain(link, &mut unread, round, sink).inspect_err(|_| requests.extend(unread)),
            other => {
                requests.extend(unread);
                other
            }
        }
    }

    /// Finds out why files were not read, and takes them off the queue. Those that can be read are kept.
    fn explain(
        &self,
        link: &Link,
        requests: &mut VecDeque<FileRequest>,
        round: &mut Round,
        sink: Sink,
    ) -> Result<bool, SessionError> {
        one_by_one(link, WHY, b"why ", requests, &mut |request, answer| {
            let (word, text) = match answer.iter().position(|byte| *byte == b' ') {
                Some(place) => (&answer[..place], &answer[place + 1..]),
                None => (answer, &b""[..]),
            };
            // The shell says it as `sh: 1: cannot open NAME: …`, and cat as `cat: -: …`.
            let text = text.rsplit(|byte| *byte == b':').next().unwrap_or(text);
            if word == b"failed" && text.trim_ascii().is_empty() {
                round.silent.push_back(request);
                return true;
            }
            sink(PlaceEvent::Answer(FileAnswer::failed(request, reason(word, text))))
        })
    }
}

/// What came of giving names to a program.
#[derive(Default)]
struct Round {
    /// Files that can be read, and of which it said nothing.
    silent: VecDeque<FileRequest>,
    /// The code of `xargs`.
    code: u64,
}

/// What a program ended like, by the code of `xargs`.
fn ended_as(code: u64) -> String {
    match code {
        0 => "gave no digest".to_string(),
        124 => "ended with the code 255".to_string(),
        125 => "was killed".to_string(),
        126 | 127 => "cannot be started any more".to_string(),
        _ => format!("ended with an error (xargs: {code})"),
    }
}

/// Names that the program was given, and how long it may take for them.
struct Asked {
    pending: Mutex<PendingNames>,
    timeout: Arc<Timeout>,
    answer: Duration,
}

impl Asked {
    fn new(timeout: Arc<Timeout>) -> Asked {
        Asked { pending: Mutex::default(), answer: timeout.answer(), timeout }
    }

    fn lock(&self) -> MutexGuard<'_, PendingNames> {
        lock(&self.pending)
    }
}

/// What a line of the program says.
#[allow(clippy::large_enum_variant, reason = "nearly all of them are digests, and none is kept")]
enum ToolLine {
    Nothing,
    /// The digest of a file that was asked about.
    Digest(FileRequest, Output),
    /// It ended, with this exit code.
    End(Option<u64>),
}

/// Names that were given to a program, and have no line yet.
#[derive(Default)]
struct PendingNames {
    requests: VecDeque<FileRequest>,
    load: Load,
    /// The length of the names.
    bytes: usize,
    /// Nobody reads lines any more.
    is_over: bool,
}

impl PendingNames {
    fn push(&mut self, request: FileRequest) {
        self.load.add(&request.seen);
        self.bytes += request.path.len();
        self.requests.push_back(request);
    }

    /// Takes one off, and those before it, which were passed over.
    fn take(&mut self, path: &[u8], passed: &mut VecDeque<FileRequest>) -> Option<FileRequest> {
        let place = self.requests.iter().position(|request| request.path == path)?;
        for request in self.requests.range(..=place) {
            self.load.remove(&request.seen);
            self.bytes -= request.path.len();
        }
        passed.extend(self.requests.drain(..place));
        self.requests.pop_front()
    }
}

/// Runs a script that writes one line for each name, in their order. Names that have their line are taken
/// off the queue.
fn one_by_one(
    link: &Link,
    script: &str,
    prefix: &[u8],
    requests: &mut VecDeque<FileRequest>,
    each: &mut dyn FnMut(FileRequest, &[u8]) -> bool,
) -> Result<bool, SessionError> {
    while !requests.is_empty() {
        let mut running = link.start(false, &Script::new(script))?;
        match one_script(&mut running, prefix, requests, each) {
            ScriptEnd::Whole => {}
            ScriptEnd::Stopped => return Ok(false),
            ScriptEnd::Broken => return Err(running.broken()),
        }
    }
    Ok(true)
}

/// How a script ended.
#[derive(Debug, PartialEq, Eq)]
enum ScriptEnd {
    /// It wrote a line for each name.
    Whole,
    /// Nobody wants more.
    Stopped,
    Broken,
}

/// Gives a script as many names as it may have, and takes its lines.
fn one_script(
    running: &mut Running,
    prefix: &[u8],
    requests: &mut VecDeque<FileRequest>,
    each: &mut dyn FnMut(FileRequest, &[u8]) -> bool,
) -> ScriptEnd {
    let count = requests.len().min(ASIDE);
    let mut names = Vec::new();
    let mut load = Load::default();
    for request in requests.iter().take(count) {
        names.extend_from_slice(&request.path);
        names.push(0);
        load.add(&request.seen);
    }
    let timeout = running.timeout();
    timeout.allow(load.limit(timeout.answer()));
    let (stdin, stdout, killer) = running.split();
    thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(&names)));
        let ended = take_lines(stdout, prefix, (requests, count), &mut |request, answer| {
            timeout.paused(|| each(request, answer))
        });
        if ended != ScriptEnd::Whole {
            killer.kill();
        }
        ended
    })
}

/// Takes the lines of a script that was given so many of the names. What it writes beyond that is passed over.
fn take_lines(
    stdout: &mut impl BufRead,
    prefix: &[u8],
    (requests, mut left): (&mut VecDeque<FileRequest>, usize),
    each: &mut dyn FnMut(FileRequest, &[u8]) -> bool,
) -> ScriptEnd {
    while let Ok(Some(line)) = record(stdout, b'\n') {
        if line.starts_with(b"end ") && left == 0 {
            return ScriptEnd::Whole;
        }
        if line.starts_with(b"end ") {
            break;
        }
        if left > 0
            && let Some(answer) = line.strip_prefix(prefix)
            && let Some(request) = requests.pop_front()
        {
            left -= 1;
            if !each(request, answer) {
                return ScriptEnd::Stopped;
            }
        }
    }
    ScriptEnd::Broken
}

/// How it ended, unless it goes on.
fn stopped(result: Result<bool, SessionError>, left: &mut VecDeque<FileRequest>) -> Option<Ended> {
    match result {
        Ok(true) => None,
        Ok(false) => Some(Ended::Stopped),
        Err(error) => Some(Ended::Broken(error, std::mem::take(left))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Tools {
        let tool = Tool { batch: String::new(), stream: String::new(), zero: false, mark: "" };
        Tools { tool, lister: Lister::Gnu, length: 2, empty: Output::zeroed(2) }
    }

    #[test]
    fn lines_of_all_programs_are_understood() {
        let tools = tools();
        for (line, name) in [
            ("00ff  ./a b", "./a b"),
            ("00ff *./a b", "./a b"),
            ("00ff ./a b", "./a b"),
            ("SHA256 (./a (b) = c) = 00ff", "./a (b) = c"),
            ("SHA2-256(./a)= 00ff", "./a"),
            ("SHA256(./a)= 00FF", "./a"),
            ("(./a) = 00ff", "./a"),
        ] {
            let (found, digest) = tools.line(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found, digest.as_bytes()), (name.as_bytes(), &[0, 255][..]), "{line}");
        }
        for line in ["", "00ff", "sha256sum: no", "00fg  ./a", "SHA256 ./a = 00ff"] {
            assert_eq!(tools.line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn lines_that_nobody_asked_for_take_no_name() {
        let request = |path: &[u8]| FileRequest { path: path.to_vec(), ..FileRequest::default() };
        let mut requests = VecDeque::from([request(b"a"), request(b"b")]);
        let mut taken = Vec::new();
        let mut lines: &[u8] = b"why one\nwhy two\nend \n";
        let ended = take_lines(&mut lines, b"why ", (&mut requests, 1), &mut |request, answer| {
            taken.push((request.path, answer.to_vec()));
            true
        });
        assert_eq!(ended, ScriptEnd::Whole);
        assert_eq!(taken, [(b"a".to_vec(), b"one".to_vec())]);
        assert_eq!(requests.front().map(|request| &request.path[..]), Some(&b"b"[..]));
    }
}
