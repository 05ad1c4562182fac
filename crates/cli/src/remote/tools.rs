//! Hashing by the programs of the host: `find` lists, `xargs` starts a program for thousands of names.
//!
//! The program's lines are told apart by the names in them, which come in the order in which they were
//! asked; a name without a line was not read, and is asked about afterwards. Each start of the program
//! begins with an empty file whose digest is known. Names that would be escaped in a line, or would end it,
//! go to the standard input of the program one by one.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_digest::{Digest, Output};

use super::link::{Link, Running, Script, record};
use super::probe::Lister;
use super::protocol::number;
use super::served::Ended;
use super::trouble::Trouble;
use super::ways::Tool;
use super::{Answer, Asked, Event, Found, MOST_RECORD, Modified, Reason, Seen, Sink, hexadecimal};

const LIST: &str = include_str!("script/list.sh");
const SUM: &str = include_str!("script/sum.sh");
const GUARD: &str = include_str!("script/guard.sh");
const SINGLE: &str = include_str!("script/single.sh");
const WHY: &str = include_str!("script/why.sh");

/// The file that each start of the program begins with.
const EMPTY: &[u8] = b"/dev/null";

/// How many names are asked about at once that were not read, or cannot be in a line.
const ASIDE: usize = 4096;

/// A program that hashes, and how its host lists trees.
pub(super) struct Tools {
    pub(super) tool: Tool,
    pub(super) lister: Lister,
    pub(super) length: usize,
    /// The digest of nothing.
    pub(super) empty: Output,
}

impl Tools {
    pub(super) fn new(tool: Tool, lister: Lister, digest: &Digest) -> Result<Tools, Trouble> {
        let empty = digest.hash(b"").map_err(|error| Trouble::Here(error.to_string()))?;
        Ok(Tools { tool, lister, length: digest.len(), empty })
    }

    /// Lists the files of a tree.
    pub(super) fn list(
        &self,
        link: &Link,
        path: &[u8],
        each: &mut dyn FnMut(Asked) -> bool,
        sink: Sink,
    ) -> Result<bool, Trouble> {
        let script = Script::new(LIST).text(self.lister.name().as_bytes()).text(path);
        let mut running = link.start(false, &script)?;
        loop {
            let found = match self.lister {
                Lister::Gnu | Lister::Plain => running.record(0),
                Lister::Stat | Lister::Bsd => slashed(&mut running),
            };
            let Some(found) = found.map_err(|error| Trouble::Odd(error.to_string()))? else {
                let (code, said) = running.end();
                return Err(Trouble::of_end(code, &said));
            };
            match self.listed(&found) {
                Some(Listed::File(asked)) => {
                    if !each(asked) {
                        return Ok(false);
                    }
                }
                Some(Listed::End(code)) => {
                    let (_, said) = running.end();
                    if said.is_empty() && code != 0 {
                        sink(Event::Unlisted(format!("find ended with the code {code}")));
                    }
                    for line in said {
                        sink(Event::Unlisted(line));
                    }
                    return Ok(true);
                }
                None => {
                    let start = String::from_utf8_lossy(&found[..found.len().min(60)]).into_owned();
                    return Err(Trouble::Odd(format!("unexpected from find: {start}")));
                }
            }
        }
    }

    fn listed(&self, record: &[u8]) -> Option<Listed> {
        if let Some(code) = record.strip_prefix(b"end ") {
            return Some(Listed::End(number(code)?));
        }
        if self.lister == Lister::Plain {
            return Some(Listed::File(Asked { path: record.to_vec(), ..Asked::default() }));
        }
        let mut fields = record.splitn(3, |byte| *byte == b' ');
        let size = number(fields.next()?)?;
        let modified = Modified::parse(std::str::from_utf8(fields.next()?).ok()?)?;
        let seen = Seen { size: Some(size), modified: Some(modified) };
        Some(Listed::File(Asked { path: fields.next()?.to_vec(), seen, ..Asked::default() }))
    }

    /// Hashes the files of these names. Without `regular` they are known to be regular files.
    pub(super) fn names(
        &self,
        link: &Link,
        names: &mut (dyn Iterator<Item = Asked> + Send),
        regular: bool,
        sink: Sink,
    ) -> Ended {
        let mut aside = VecDeque::new();
        // A program without names would read its standard input: there must be one.
        let first = loop {
            match names.next() {
                Some(asked) if self.is_for_lines(&asked.path) => break Some(asked),
                Some(asked) => aside.push_back(asked),
                None => break None,
            }
            if aside.len() >= ASIDE
                && let Some(ended) = stopped(self.singly(link, &mut aside, sink), &mut aside)
            {
                return ended;
            }
        };
        if let Some(first) = first {
            let mut names = std::iter::once(first).chain(names);
            let ended = self.in_lines(link, &mut names, regular, &mut aside, sink);
            if !matches!(ended, Ended::Done) {
                return match ended {
                    Ended::Broken(trouble, mut left) => {
                        left.extend(aside);
                        Ended::Broken(trouble, left)
                    }
                    other => other,
                };
            }
        }
        stopped(self.singly(link, &mut aside, sink), &mut aside).unwrap_or(Ended::Done)
    }

    /// Whether a name can be part of a line.
    fn is_for_lines(&self, path: &[u8]) -> bool {
        self.tool.zero || !path.iter().any(|byte| matches!(byte, b'\n' | b'\r' | b'\\'))
    }

    fn in_lines(
        &self,
        link: &Link,
        names: &mut (dyn Iterator<Item = Asked> + Send),
        regular: bool,
        aside: &mut VecDeque<Asked>,
        sink: Sink,
    ) -> Ended {
        let end = if self.tool.zero { 0 } else { b'\n' };
        let text = SUM
            .replace("@GUARD@", if regular { "" } else { GUARD.trim_end_matches('\n') })
            .replace("@BATCH@", &self.tool.batch)
            .replace("@END@", if self.tool.zero { "\\0" } else { "\\n" });
        let mut running = match link.start(false, &Script::new(&text)) {
            Ok(running) => running,
            Err(trouble) => return Ended::Broken(trouble, names.take(1).collect()),
        };
        let pending = Mutex::new((VecDeque::new(), false));
        let lock = || pending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unread = VecDeque::new();
        let (stdin, stdout, killer) = running.split();
        let ended = thread::scope(|scope| {
            let (lock, aside) = (&lock, &mut *aside);
            scope.spawn(move || {
                let Some(mut stdin) = stdin else { return };
                let mut buffer = Vec::new();
                for asked in names {
                    if !self.is_for_lines(&asked.path) {
                        aside.push_back(asked);
                        // They are done after the others, which wait meanwhile; so many are rare.
                        continue;
                    }
                    buffer.extend_from_slice(&asked.path);
                    buffer.push(0);
                    let mut state = lock();
                    state.0.push_back(asked);
                    if state.1 {
                        return;
                    }
                    drop(state);
                    if buffer.len() > 16 << 10 {
                        if stdin.write_all(&buffer).is_err() {
                            return;
                        }
                        buffer.clear();
                    }
                }
                let _ = stdin.write_all(&buffer);
            });
            let ended = loop {
                let line = match record(stdout, end) {
                    Ok(Some(line)) => line,
                    Ok(None) => break Err(None),
                    Err(error) => break Err(Some(Trouble::Odd(error.to_string()))),
                };
                if line.is_empty() {
                    continue;
                }
                if let Some(code) = line.strip_prefix(b"end ") {
                    break Ok(number(code));
                }
                let Some((path, digest)) = self.line(&line) else {
                    let start = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
                    break Err(Some(Trouble::Odd(format!("{}: unexpected line: {start}", self.tool.batch))));
                };
                if path == EMPTY && digest == self.empty {
                    continue;
                }
                // Those before it were passed over.
                let asked = {
                    let mut state = lock();
                    match state.0.iter().position(|asked: &Asked| asked.path == path) {
                        Some(place) => {
                            unread.extend(state.0.drain(..place));
                            state.0.pop_front()
                        }
                        None => None,
                    }
                };
                let Some(asked) = asked else {
                    let path = String::from_utf8_lossy(path).into_owned();
                    break Err(Some(Trouble::Odd(format!(
                        "{}: a digest of what was not asked, or a wrong one: {path}",
                        self.tool.batch
                    ))));
                };
                let found = Found { digest: Some(digest), changed: false };
                if !sink(Event::Answer(Answer { asked, result: Ok(found) })) {
                    break Ok(None);
                }
                // The program waits meanwhile.
                if unread.len() >= ASIDE {
                    match self.explain(link, &mut unread, sink) {
                        Ok(true) => {}
                        Ok(false) => break Ok(None),
                        Err(trouble) => break Err(Some(trouble)),
                    }
                }
            };
            lock().1 = true;
            if !matches!(ended, Ok(Some(_))) {
                killer.kill();
            }
            ended
        });
        let (left, _) = pending.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ok(None) => return Ended::Stopped,
            Ok(Some(_)) => unread.extend(left),
            Err(trouble) => {
                let (code, said) = running.end();
                unread.extend(left);
                return Ended::Broken(trouble.unwrap_or_else(|| Trouble::of_end(code, &said)), unread);
            }
        }
        stopped(self.explain(link, &mut unread, sink), &mut unread).unwrap_or(Ended::Done)
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
    fn singly(&self, link: &Link, asked: &mut VecDeque<Asked>, sink: Sink) -> Result<bool, Trouble> {
        let mut unread = VecDeque::new();
        let text = SINGLE.replace("@STREAM@", &self.tool.stream);
        let go_on = one_by_one(link, &text, b"answer ", asked, &mut |asked, answer| {
            let words = answer.split(|byte| byte.is_ascii_whitespace());
            match words.filter_map(|word| hexadecimal(word, self.length)).next() {
                Some(digest) => {
                    let found = Found { digest: Some(digest), changed: false };
                    sink(Event::Answer(Answer { asked, result: Ok(found) }))
                }
                None => {
                    unread.push_back(asked);
                    true
                }
            }
        });
        match go_on {
            Ok(true) => self.explain(link, &mut unread, sink).inspect_err(|_| asked.extend(unread)),
            other => {
                asked.extend(unread);
                other
            }
        }
    }

    /// Finds out why files were not read, and takes them off the queue.
    fn explain(&self, link: &Link, asked: &mut VecDeque<Asked>, sink: Sink) -> Result<bool, Trouble> {
        one_by_one(link, WHY, b"why ", asked, &mut |asked, answer| {
            let (word, text) = match answer.iter().position(|byte| *byte == b' ') {
                Some(place) => (&answer[..place], &answer[place + 1..]),
                None => (answer, &b""[..]),
            };
            // The shell says it as `sh: 1: cannot open NAME: …`, and cat as `cat: -: …`.
            let text = text.rsplit(|byte| *byte == b':').next().unwrap_or(text);
            sink(Event::Answer(Answer { asked, result: Err(Reason::of(word, text)) }))
        })
    }
}

enum Listed {
    File(Asked),
    End(u64),
}

/// Reads up to the next `//` before a newline, and takes the `//` at the start off. No path has two
/// slashes in a row: the one that the search begins at has not.
fn slashed(running: &mut Running) -> std::io::Result<Option<Vec<u8>>> {
    let mut whole = Vec::new();
    loop {
        let Some(line) = running.record(b'\n')? else { return Ok(None) };
        whole.extend_from_slice(&line);
        if whole.ends_with(b"//") && whole.len() > 2 {
            whole.truncate(whole.len() - 2);
            let start = if whole.starts_with(b"//") { 2 } else { 0 };
            return Ok(Some(whole.split_off(start)));
        }
        whole.push(b'\n');
        if whole.len() > MOST_RECORD {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "a record is too long"));
        }
    }
}

/// Runs a script that writes one line for each name, in their order. Names that have their line are taken
/// off the queue.
fn one_by_one(
    link: &Link,
    script: &str,
    prefix: &[u8],
    asked: &mut VecDeque<Asked>,
    each: &mut dyn FnMut(Asked, &[u8]) -> bool,
) -> Result<bool, Trouble> {
    while !asked.is_empty() {
        let count = asked.len().min(ASIDE);
        let mut running = link.start(false, &Script::new(script))?;
        let mut names = Vec::new();
        for asked in asked.iter().take(count) {
            names.extend_from_slice(&asked.path);
            names.push(0);
        }
        let (stdin, stdout, killer) = running.split();
        let mut left = count;
        let ended = thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(mut stdin) = stdin {
                    let _ = stdin.write_all(&names);
                }
            });
            let ended = loop {
                match record(stdout, b'\n') {
                    Ok(Some(line)) if line.starts_with(b"end ") => break Some(left == 0),
                    Ok(Some(line)) => {
                        if let Some(answer) = line.strip_prefix(prefix)
                            && let Some(asked) = asked.pop_front().filter(|_| left > 0)
                        {
                            left -= 1;
                            if !each(asked, answer) {
                                break None;
                            }
                        }
                    }
                    _ => break Some(false),
                }
            };
            if ended != Some(true) {
                killer.kill();
            }
            ended
        });
        match ended {
            None => return Ok(false),
            Some(true) => {}
            Some(false) => {
                let (code, said) = running.end();
                return Err(Trouble::of_end(code, &said));
            }
        }
    }
    Ok(true)
}

/// How it ended, unless it goes on.
fn stopped(result: Result<bool, Trouble>, left: &mut VecDeque<Asked>) -> Option<Ended> {
    match result {
        Ok(true) => None,
        Ok(false) => Some(Ended::Stopped),
        Err(trouble) => Some(Ended::Broken(trouble, std::mem::take(left))),
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
}
