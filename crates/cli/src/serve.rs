//! The server side of remote hashing: what `verisum remote-serve` does on a host. See
//! `crates/remote/src/protocol.rs`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::io::Errno;
use verisum::digest::Digest;
use verisum::files::{Content, Entry, Error, Hashed, Job, Kind, Order, Plan, Timestamp, Walk, WalkOptions};
use verisum::remote::{GREETING, MOST_RECORD};

use crate::ui::exit::Exit;
use crate::ui::failure::{Failure, cause};
use crate::ui::{self, Output};
use crate::ui::{digests, input, kernel};

/// How long an answer may wait for others to go with.
const PATIENCE: Duration = Duration::from_millis(50);

/// What `verisum remote-serve` takes.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    /// Remove this directory and the program in it first
    #[arg(long, value_name = "DIR")]
    remove: Option<PathBuf>,
}

/// The program `verisum-serve`, which can do nothing else and is small. It takes the words that
/// `verisum remote-serve` takes, also with the command before them.
pub fn main() -> ExitCode {
    let mut output = Output::new();
    let typed: Vec<OsString> = std::env::args_os().skip(1).filter(|word| word != "remote-serve").collect();
    let remove = match &typed[..] {
        [] => None,
        [option, folder] if option == "--remove" => Some(PathBuf::from(folder)),
        _ => {
            ui::say("verisum-serve", "answers another verisum, and takes no arguments");
            return Exit::Usage.into();
        }
    };
    match run(&ServeArgs { remove }, &mut output) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // What was answered before it is still sent.
            let _ = output.flush();
            ui::say("verisum-serve", &failure.message());
            failure.exit().into()
        }
    }
}

/// Answers requests until there are no more.
pub(crate) fn run(arguments: &ServeArgs, output: &mut Output) -> Result<Exit, Failure> {
    if let Some(folder) = &arguments.remove {
        // Whoever started it removes them too; nothing else is in there.
        let _ = std::fs::remove_file(folder.join("verisum"));
        let _ = std::fs::remove_dir(folder);
    }
    put(output, &[GREETING])?;
    output.flush()?;
    let mut input = BufReader::with_capacity(64 << 10, io::stdin());
    while let Some(request) = field(&mut input)? {
        match &request[..] {
            b"test" => test(&mut input, output)?,
            b"tree" => tree(&mut input, output)?,
            b"names" => names(&mut input, output)?,
            _ => {
                put(output, &[b"bad", b"request"])?;
                return Err(Failure::Usage("remote-serve: a request that nobody understands".to_string()));
            }
        }
        put(output, &[b"end"])?;
        output.flush()?;
    }
    Ok(Exit::Clean)
}

fn test(input: &mut impl BufRead, output: &mut Output) -> Result<(), Failure> {
    let digest = algorithm(&needed(input)?)?;
    let all: Vec<u8> = (0..=255).collect();
    let mut values = Vec::new();
    for message in [&b"abc"[..], &all, b""] {
        values.push(digest.hash(message).map_err(Failure::Digest)?.to_string());
    }
    put(output, &[b"t", values[0].as_bytes(), values[1].as_bytes(), values[2].as_bytes()])
}

fn tree(input: &mut impl BufRead, output: &mut Output) -> Result<(), Failure> {
    let name = needed(input)?;
    let path = PathBuf::from(OsStr::from_bytes(&needed(input)?));
    let after = needed(input)?;
    let report = Report::new(output);
    let mut place = 0;
    let mut files = files(&path).filter(|found| match found {
        Ok(entry) => *entry.path().as_os_str().as_bytes() > after[..],
        Err(_) => true,
    });
    if name == b"-" {
        for found in files {
            let record = match found.and_then(|entry| Ok((entry.stat()?, entry))) {
                Ok((stat, entry)) => file(&entry, stat.size, stat.modified, "-", false),
                Err(error) => failed(&error),
            };
            if report.put(place, &record).is_break() {
                break;
            }
            place += 1;
        }
        return report.end();
    }
    let plan = Plan::new(vec![vec![algorithm(&name)?]], input::usable_cores());
    let mut jobs = std::iter::from_fn(|| {
        loop {
            let found = files.next()?;
            let number = place;
            place += 1;
            match found {
                Ok(entry) => return Some(Job { entry, set: 0, token: number }),
                Err(error) if report.put(number, &failed(&error)).is_break() => return None,
                Err(_) => {}
            }
        }
    });
    verisum::files::hash(&plan, &mut jobs, &|hashed: Hashed<u64>| {
        let record = match &hashed.result {
            Ok(content) => {
                let digest = content.digests[0].to_string();
                file(&hashed.entry, content.length, content.before.modified, &digest, changed(content))
            }
            Err(error) => failed(error),
        };
        report.put(hashed.token, &record)
    });
    report.end()
}

fn names(input: &mut (impl BufRead + Send), output: &mut Output) -> Result<(), Failure> {
    let digest = algorithm(&needed(input)?)?;
    let plan = Plan::new(vec![vec![digest]], input::usable_cores());
    let report = Report::new(output);
    let mut number = 0;
    let mut broken = None;
    let mut jobs = std::iter::from_fn(|| {
        loop {
            let name = match needed(input) {
                Ok(name) if name == b"." => return None,
                Ok(name) => name,
                Err(failure) => {
                    broken = Some(failure);
                    return None;
                }
            };
            let place = number;
            number += 1;
            let path = Path::new(OsStr::from_bytes(name.strip_prefix(b"+").unwrap_or(&name)));
            let unread = match Entry::followed(path) {
                Ok(entry) => match entry.kind() {
                    Kind::File => return Some(Job { entry, set: 0, token: place }),
                    Kind::Directory => ("directory", String::new()),
                    _ => ("special", String::new()),
                },
                Err(error) => why(&error),
            };
            if report.put(place, &unread_record(place, &unread)).is_break() {
                return None;
            }
        }
    });
    verisum::files::hash(&plan, &mut jobs, &|hashed: Hashed<u64>| {
        let place = hashed.token;
        let record = match &hashed.result {
            Ok(content) => record(&[
                b"h",
                place.to_string().as_bytes(),
                content.length.to_string().as_bytes(),
                content.before.modified.to_string().as_bytes(),
                content.digests[0].to_string().as_bytes(),
                if changed(content) { b"changed" } else { b"-" },
            ]),
            Err(error) => unread_record(place, &why(error)),
        };
        report.put(place, &record)
    });
    report.end()?;
    broken.map_or(Ok(()), Err)
}

/// The regular files of a tree in the order of their paths.
fn files(path: &Path) -> Box<dyn Iterator<Item = Result<Entry, Error>> + Send> {
    match Entry::followed(path) {
        Ok(root) if root.kind() == Kind::Directory => {
            let options = WalkOptions { order: Order::Name, ..WalkOptions::default() };
            let walk = Walk::new(vec![path.to_path_buf()], options);
            Box::new(walk.filter(|found| found.as_ref().map_or(true, |entry| entry.kind() == Kind::File)))
        }
        found => Box::new(std::iter::once(found)),
    }
}

fn file(entry: &Entry, size: u64, modified: Timestamp, digest: &str, changed: bool) -> Vec<u8> {
    let path = entry.path();
    record(&[
        b"f",
        size.to_string().as_bytes(),
        modified.to_string().as_bytes(),
        digest.as_bytes(),
        if changed { b"changed" } else { b"-" },
        path.as_os_str().as_bytes(),
    ])
}

fn failed(error: &Error) -> Vec<u8> {
    let (word, text) = why(error);
    record(&[b"e", word.as_bytes(), text.as_bytes(), error.path().as_os_str().as_bytes()])
}

fn unread_record(place: u64, (word, text): &(&str, String)) -> Vec<u8> {
    record(&[b"x", place.to_string().as_bytes(), word.as_bytes(), text.as_bytes()])
}

fn changed(content: &Content) -> bool {
    !content.before.is_same_state(&content.after)
}

fn why(error: &Error) -> (&'static str, String) {
    let word = match error {
        Error::NotAFile { path } if path.is_dir() => "directory",
        Error::NotAFile { .. } => "special",
        _ => match error.errno() {
            Some(Errno::NOENT | Errno::NOTDIR) => "missing",
            Some(Errno::ACCESS | Errno::PERM) => "denied",
            _ => "failed",
        },
    };
    let text = match error {
        Error::Io { source, .. } => cause(source),
        other => other.to_string(),
    };
    (word, text.replace(['\t', '\0'], " "))
}

fn record(fields: &[&[u8]]) -> Vec<u8> {
    let mut record = fields.join(&b'\t');
    record.push(0);
    record
}

fn put(output: &mut Output, fields: &[&[u8]]) -> Result<(), Failure> {
    output.bytes(&record(fields))
}

fn algorithm(name: &[u8]) -> Result<Digest, Failure> {
    digests::find(&String::from_utf8_lossy(name), &kernel::policy()?)
}

/// The next field; none at the end.
fn field(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut field = Vec::new();
    let read = input.take(MOST_RECORD as u64).read_until(0, &mut field);
    read.map_err(|error| Failure::File { name: "standard input".into(), operation: "read", error })?;
    match field.pop() {
        Some(0) => Ok(Some(field)),
        _ => Ok(None),
    }
}

/// The next field of a request that is not over.
fn needed(input: &mut impl BufRead) -> Result<Vec<u8>, Failure> {
    field(input)?.ok_or_else(|| Failure::Usage("remote-serve: a request ends in its middle".to_string()))
}

/// Puts answers in order.
struct Report<'a>(Mutex<State<'a>>);

struct State<'a> {
    output: &'a mut Output,
    flushed: Instant,
    next: u64,
    waiting: VecDeque<Option<Vec<u8>>>,
    broken: Option<Failure>,
}

impl<'a> Report<'a> {
    fn new(output: &'a mut Output) -> Report<'a> {
        let waiting = VecDeque::new();
        Report(Mutex::new(State { output, flushed: Instant::now(), next: 0, waiting, broken: None }))
    }

    fn put(&self, place: u64, record: &[u8]) -> ControlFlow<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = (place - state.next) as usize;
        if state.waiting.len() <= index {
            state.waiting.resize_with(index + 1, || None);
        }
        state.waiting[index] = Some(record.to_vec());
        while let Some(Some(record)) = state.waiting.front_mut().map(Option::take) {
            state.waiting.pop_front();
            state.next += 1;
            let is_late = state.flushed.elapsed() > PATIENCE;
            let mut written = state.output.bytes(&record);
            if is_late {
                written = written.and_then(|()| state.output.flush());
                state.flushed = Instant::now();
            }
            if let Err(failure) = written {
                state.broken = Some(failure);
            }
        }
        match state.broken {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }

    fn end(self) -> Result<(), Failure> {
        let state = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.broken.map_or(Ok(()), Err)
    }
}
