//! The server side of remote hashing: `verisum remote-serve` on a host. See `crates/remote/src/protocol.rs`.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use verisum::digest::Digest;
use verisum::files::place::{
    FileAnswer, FileRead, FileRequest, FileState, Files, LocalPlace, Place, PlaceError, PlaceEvent, Reason,
    Sink,
};
use verisum::files::{FileError, Plan, lock};
use verisum::remote::{BLOCK_DIGEST, GREETING, MOST_RECORD};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output};
use crate::ui::{digests, kernel, sizes};

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
            b"blocks" => blocks(&mut input, output)?,
            _ => {
                put(output, &[b"bad", b"request"])?;
                return Err(Failure::Usage("remote-serve: unknown request".to_string()));
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
        values.push(digest.hash(message)?.to_string());
    }
    put(output, &[b"t", values[0].as_bytes(), values[1].as_bytes(), values[2].as_bytes()])
}

fn tree(input: &mut impl BufRead, output: &mut Output) -> Result<(), Failure> {
    let name = needed(input)?;
    let path = needed(input)?;
    let mut place = LocalPlace::new(Plan::new(Vec::new(), sizes::usable_cores()));
    place.after = needed(input)?;
    if name == b"-" {
        return answers(output, &of_tree, &mut |sink| place.list(&path, sink));
    }
    let digest = algorithm(&name)?;
    let mut roots = std::iter::once(path);
    answers(output, &of_tree, &mut |sink| {
        place.hash(std::slice::from_ref(&digest), Files::Trees(&mut roots), sink)
    })
}

fn names(input: &mut (impl BufRead + Send), output: &mut Output) -> Result<(), Failure> {
    let digest = algorithm(&needed(input)?)?;
    let mut place = LocalPlace::new(Plan::new(Vec::new(), sizes::usable_cores()));
    let mut broken = None;
    let mut numbers = 0..;
    let mut requests = std::iter::from_fn(|| match needed(input) {
        Ok(name) if name == b"." => None,
        Ok(name) => {
            let path = name.strip_prefix(b"+").unwrap_or(&name).to_vec();
            Some(FileRequest { path, tag: numbers.next()?, ..FileRequest::default() })
        }
        Err(failure) => {
            broken = Some(failure);
            None
        }
    });
    answers(output, &of_name, &mut |sink| {
        place.hash(std::slice::from_ref(&digest), Files::Named(&mut requests), sink)
    })?;
    broken.map_or(Ok(()), Err)
}

/// Sends the digests of a file's blocks, as far as it can be read.
fn blocks(input: &mut impl BufRead, output: &mut Output) -> Result<(), Failure> {
    let digest = algorithm(&needed(input)?)?;
    let size = String::from_utf8_lossy(&needed(input)?).parse().unwrap_or(0);
    let Ok(mut content) = LocalPlace::default().read(&needed(input)?, 0..u64::MAX) else { return Ok(()) };
    let (mut block, mut flushed) = (Vec::new(), Instant::now());
    while (&mut content).take(size).read_to_end(&mut block).is_ok_and(|count| count > 0) {
        let value = digest.hash(&block)?.to_string().into_bytes();
        put(output, &[b"b", &value[..value.len().min(2 * BLOCK_DIGEST)]])?;
        block.clear();
        if flushed.elapsed() > PATIENCE {
            output.flush()?;
            flushed = Instant::now();
        }
    }
    Ok(())
}

/// Sends the answers of a place, in this form.
fn answers(
    output: &mut Output,
    form: &(dyn Fn(&FileAnswer) -> Vec<u8> + Sync),
    ask: &mut dyn FnMut(Sink) -> Result<(), PlaceError>,
) -> Result<(), Failure> {
    let state = Mutex::new((output, Instant::now(), Ok(())));
    let asked = ask(&|event| {
        let PlaceEvent::Answer(answer) = event else { return true };
        let record = form(&answer);
        let (output, flushed, written) = &mut *lock(&state);
        *written = output.bytes(&record);
        if written.is_ok() && flushed.elapsed() > PATIENCE {
            *written = output.flush();
            *flushed = Instant::now();
        }
        written.is_ok()
    });
    asked.map_err(|error| Failure::Program { name: "remote-serve".to_string(), why: error.to_string() })?;
    state.into_inner().unwrap_or_else(PoisonError::into_inner).2
}

fn of_tree(answer: &FileAnswer) -> Vec<u8> {
    let path = &answer.request.path[..];
    match &answer.result {
        Ok(read) => {
            let [size, modified, digest, changed] = state(&answer.request.seen, read);
            record(&[b"f", size.as_bytes(), modified.as_bytes(), digest.as_bytes(), changed.as_bytes(), path])
        }
        Err(error) => {
            let (word, text) = why(error);
            record(&[b"e", word.as_bytes(), text.as_bytes(), path])
        }
    }
}

fn of_name(answer: &FileAnswer) -> Vec<u8> {
    let number = answer.request.tag.to_string();
    let number = number.as_bytes();
    match &answer.result {
        Ok(read) => {
            let [size, modified, digest, changed] = state(&answer.request.seen, read);
            record(&[
                b"h",
                number,
                size.as_bytes(),
                modified.as_bytes(),
                digest.as_bytes(),
                changed.as_bytes(),
            ])
        }
        Err(error) => {
            let (word, text) = why(error);
            record(&[b"x", number, word.as_bytes(), text.as_bytes()])
        }
    }
}

/// The size, the time, the digest, and whether it changed.
fn state(seen: &FileState, read: &FileRead) -> [String; 4] {
    let modified = seen.modified.map(|modified| modified.time).unwrap_or_default();
    let digest = read.digest().map_or("-".to_string(), |digest| digest.to_string());
    let changed = if read.changed { "changed" } else { "-" };
    let number = seen.identity.map_or(0, |identity| identity.number);
    [seen.size.unwrap_or(0).to_string(), format!("{modified}/{number}"), digest, changed.to_string()]
}

fn why(error: &FileError) -> (&'static str, String) {
    match error.reason() {
        Reason::Missing => ("missing", String::new()),
        Reason::Denied => ("denied", String::new()),
        Reason::Directory => ("directory", String::new()),
        Reason::Special => ("special", String::new()),
        Reason::Failed(text) | Reason::Elusive(text) => ("failed", text.replace(['\t', '\0'], " ")),
    }
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
