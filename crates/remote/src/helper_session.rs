//! Hashes files by a program on the host that speaks our protocol.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use verisum_digest::{Digest, Output};
use verisum_files::lock;

use crate::address::ListingBounds;
use crate::error::SessionError;
use crate::link::{Running, record};
use crate::protocol::{GREETING, Record};
use crate::timeout::{Load, Timeout};
use crate::{FileAnswer, FileRequest, FileState, PlaceEvent, Sink};

/// A server that waits for requests.
pub(crate) struct Served {
    running: Running,
    /// What it calls the digest.
    algorithm: String,
    length: usize,
    codec: Codec,
    /// Whether it is in the middle of an answer.
    is_busy: bool,
}

/// In which form fields and records travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// As they are, each ended by NUL.
    Nul,
    /// Each as a line of base64, for shells that take everything for text.
    Lines,
}

impl Codec {
    /// Fields that are ended by NUL, in this form.
    fn encoded(self, fields: Vec<u8>) -> Vec<u8> {
        if self == Codec::Nul {
            return fields;
        }
        let fields = fields.strip_suffix(b"\0").unwrap_or(&fields);
        let lines = fields.split(|byte| *byte == 0).map(|field| BASE64.encode(field) + "\n");
        lines.collect::<String>().into_bytes()
    }

    /// Whether a path comes after another one in the order of those that speak so.
    fn is_after(self, path: &[u8], other: &[u8]) -> bool {
        let units = |path| String::from_utf8_lossy(path).encode_utf16().collect::<Vec<u16>>();
        match self {
            Codec::Nul => path > other,
            Codec::Lines => units(path) > units(other),
        }
    }

    /// Reads a record; none at the end.
    fn record(self, from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        if self == Codec::Nul {
            return record(from, 0);
        }
        loop {
            let Some(line) = record(from, b'\n')? else { return Ok(None) };
            let line = line.trim_ascii();
            if !line.is_empty() {
                let odd = || io::Error::new(io::ErrorKind::InvalidData, "a line is no base64");
                return BASE64.decode(line).map(Some).map_err(|_| odd());
            }
        }
    }
}

/// What came of a request.
pub(crate) enum Ended {
    /// All of it was done.
    Done,
    /// Whoever asked wants no more.
    Stopped,
    /// The connection or the host failed; these were asked and are not answered.
    Broken(SessionError, VecDeque<FileRequest>),
}

impl Served {
    /// Takes a server that was just started.
    pub(crate) fn new(running: Running, algorithm: String, digest: &Digest) -> Result<Served, SessionError> {
        Served::speaking(Codec::Nul, running, algorithm, digest)
    }

    /// The same in this form.
    pub(crate) fn speaking(
        codec: Codec,
        mut running: Running,
        algorithm: String,
        digest: &Digest,
    ) -> Result<Served, SessionError> {
        let timeout = running.timeout();
        timeout.allow(Some(timeout.answer()));
        match codec.record(&mut running.stdout) {
            Ok(Some(greeting)) if greeting == GREETING => {
                timeout.allow(None);
                Ok(Served { running, algorithm, length: digest.len(), codec, is_busy: false })
            }
            Ok(Some(_)) => Err(SessionError::Odd("the server speaks another protocol".to_string())),
            Ok(None) | Err(_) => Err(running.broken()),
        }
    }

    /// Whether it is in the middle of an answer.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether it gives trees in the order of the paths' bytes.
    pub(crate) fn is_in_order(&self) -> bool {
        self.codec == Codec::Nul
    }

    /// Asks for the digests of what is known, and returns the records of the answer.
    pub(crate) fn test(&mut self) -> Result<Vec<Vec<u8>>, SessionError> {
        let request = format!("test\0{}\0", self.algorithm).into_bytes();
        let mut records = Vec::new();
        let timeout = self.running.timeout();
        timeout.allow(Some(timeout.answer()));
        if !self.send(request) {
            return Err(self.lost());
        }
        loop {
            match self.codec.record(&mut self.running.stdout) {
                Ok(Some(record)) if record == b"end" => {
                    timeout.allow(None);
                    return Ok(records);
                }
                // A server that says more is none.
                Ok(Some(record)) if records.len() < 10 => records.push(record),
                Ok(Some(record)) => return Err(odd(&record)),
                Ok(None) => return Err(self.lost()),
                Err(error) => return Err(SessionError::Odd(error.to_string())),
            }
        }
    }

    /// Lists the files of a tree after this path, and hashes them if wanted.
    pub(crate) fn tree(&mut self, path: &[u8], after: &mut Vec<u8>, hashed: bool, sink: Sink) -> Ended {
        let algorithm = if hashed { self.algorithm.as_str() } else { "-" };
        let length = hashed.then_some(self.length);
        self.is_busy = true;
        let request = [b"tree\0", algorithm.as_bytes(), b"\0", path, b"\0", after, b"\0"].concat();
        if !self.send(request) {
            return Ended::Broken(self.lost(), VecDeque::new());
        }
        let mut tree = ListingBounds::new(path);
        loop {
            let record = match self.codec.record(&mut self.running.stdout) {
                Ok(Some(record)) => record,
                Ok(None) => return Ended::Broken(self.lost(), VecDeque::new()),
                Err(error) => return Ended::Broken(SessionError::Odd(error.to_string()), VecDeque::new()),
            };
            let answer = match Record::parse(&record, length) {
                Some(Record::End) => {
                    self.is_busy = false;
                    return Ended::Done;
                }
                // They come in order, so that none comes twice.
                Some(Record::File { path, seen, digest, changed })
                    if tree.takes(&path) && self.codec.is_after(&path, after) =>
                {
                    after.clone_from(&path);
                    FileAnswer::read(FileRequest { path, seen, ..FileRequest::default() }, digest, changed)
                }
                Some(Record::Failed { path, reason }) if tree.holds(&path) => {
                    FileAnswer::failed(FileRequest { path, ..FileRequest::default() }, reason)
                }
                _ => return Ended::Broken(odd(&record), VecDeque::new()),
            };
            if !sink(PlaceEvent::Answer(answer)) {
                return Ended::Stopped;
            }
        }
    }

    /// Hashes the files of these names.
    pub(crate) fn names(
        &mut self,
        names: &mut (dyn Iterator<Item = FileRequest> + Send),
        sink: Sink,
    ) -> Ended {
        self.is_busy = true;
        let (algorithm, length, codec) = (&self.algorithm, self.length, self.codec);
        let timeout = self.running.timeout();
        timeout.allow(Some(timeout.answer()));
        let (stdin, stdout, killer) = self.running.split();
        let Some(stdin) = stdin else {
            return Ended::Broken(self.lost(), VecDeque::new());
        };
        let pending = PendingQuestion::default();
        let (stdin, ended) = thread::scope(|scope| {
            let (pending, timeout) = (&pending, &timeout);
            let writer = scope.spawn(move || ask(stdin, (codec, algorithm), names, (pending, timeout)));
            let ended = take_answers(stdout, (codec, length), (pending, timeout), sink);
            pending.end();
            if !matches!(ended, Ok(true)) {
                // Whoever writes waits for it to read, and it for us.
                killer.kill();
            }
            (writer.join().ok().flatten(), ended)
        });
        self.running.stdin = stdin;
        timeout.allow(None);
        let left = pending.rest();
        match ended {
            Ok(false) => Ended::Stopped,
            Ok(true) if left.is_empty() => {
                self.is_busy = false;
                Ended::Done
            }
            Ok(true) => Ended::Broken(SessionError::Odd("it left files unanswered".to_string()), left),
            Err(None) => Ended::Broken(self.lost(), left),
            Err(Some(error)) => Ended::Broken(error, left),
        }
    }

    /// Hashes the blocks of a file, of which there are so many of this size. None where the server does not, or there are
    /// others: if it is busy then, it is of no more use.
    pub(crate) fn blocks(
        &mut self,
        path: &[u8],
        (count, size): (u64, u64),
    ) -> Result<Option<Vec<Output>>, SessionError> {
        self.is_busy = true;
        let (algorithm, timeout) = (self.algorithm.as_bytes(), self.running.timeout());
        let request =
            [b"blocks\0", algorithm, b"\0", size.to_string().as_bytes(), b"\0", path, b"\0"].concat();
        let mut load = Load::default();
        load.add(&FileState { size: Some(size), ..FileState::default() });
        timeout.allow(load.limit(timeout.answer()));
        if !self.send(request) {
            return Err(self.lost());
        }
        let mut found = Vec::new();
        loop {
            let record = self.codec.record(&mut self.running.stdout);
            let record = record.map_err(|error| SessionError::Odd(error.to_string()))?;
            timeout.allow(load.limit(timeout.answer()));
            match Record::parse(&record.ok_or_else(|| self.lost())?, Some(self.length)) {
                Some(Record::Block(value)) if (found.len() as u64) < count => found.push(value),
                Some(Record::End) => {
                    timeout.allow(None);
                    self.is_busy = false;
                    return Ok((found.len() as u64 == count).then_some(found));
                }
                _ => return Ok(None),
            }
        }
    }

    fn send(&mut self, request: Vec<u8>) -> bool {
        let Some(stdin) = &mut self.running.stdin else { return false };
        stdin.write_all(&self.codec.encoded(request)).and_then(|()| stdin.flush()).is_ok()
    }

    fn lost(&mut self) -> SessionError {
        self.running.broken()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A server that waits ends with its input, and clears up; it is the connection, which ends then too.
        if !self.is_busy {
            self.running.wait();
        }
    }
}

/// Asks for files until there are no more names. Returns what it wrote to, unless that failed.
fn ask<W: Write>(
    mut stdin: W,
    (codec, algorithm): (Codec, &str),
    names: &mut (dyn Iterator<Item = FileRequest> + Send),
    (pending, timeout): (&PendingQuestion, &Timeout),
) -> Option<W> {
    let mut message = format!("names\0{algorithm}\0").into_bytes();
    while let Some(request) = timeout.paused(|| names.next()) {
        message.push(b'+');
        message.extend_from_slice(&request.path);
        message.push(0);
        if !pending.push(request) {
            break;
        }
        timeout.set(pending.limit(timeout));
        if message.len() > 16 << 10 {
            stdin.write_all(&codec.encoded(std::mem::take(&mut message))).ok()?;
        }
    }
    message.extend_from_slice(b".\0");
    stdin.write_all(&codec.encoded(message)).and_then(|()| stdin.flush()).ok()?;
    Some(stdin)
}

/// Takes answers until the server says that these are all. False where nobody wants more.
///
/// # Errors
/// What is wrong with an answer; none where the connection ended.
fn take_answers(
    stdout: &mut impl BufRead,
    (codec, length): (Codec, usize),
    (pending, timeout): (&PendingQuestion, &Timeout),
    sink: Sink,
) -> Result<bool, Option<SessionError>> {
    loop {
        let record = codec.record(stdout).map_err(|error| Some(SessionError::Odd(error.to_string())))?;
        let record = record.ok_or(None)?;
        let answer = match Record::parse(&record, Some(length)) {
            Some(Record::End) => return Ok(true),
            Some(Record::Hashed { number, seen, digest, changed }) => {
                let read = |request| FileAnswer::read(FileRequest { seen, ..request }, digest, changed);
                pending.take(number).map(read)
            }
            Some(Record::Unread { number, reason }) => {
                pending.take(number).map(|request| FileAnswer::failed(request, reason))
            }
            _ => return Err(Some(odd(&record))),
        };
        let nothing = || SessionError::Odd("an answer to nothing that was asked".to_string());
        let answer = answer.ok_or_else(|| Some(nothing()))?;
        timeout.set(pending.limit(timeout));
        if !timeout.paused(|| sink(PlaceEvent::Answer(answer))) {
            return Ok(false);
        }
    }
}

fn odd(record: &[u8]) -> SessionError {
    let start = &record[..record.len().min(60)];
    SessionError::Odd(format!("unexpected record: {}", String::from_utf8_lossy(start)))
}

/// What was asked and is not answered.
#[derive(Default)]
struct PendingQuestion(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of the first of them.
    first: u64,
    requests: VecDeque<Option<FileRequest>>,
    load: Load,
    is_over: bool,
}

impl PendingQuestion {
    /// False where no more is to be asked.
    fn push(&self, request: FileRequest) -> bool {
        let mut state = self.lock();
        state.load.add(&request.seen);
        state.requests.push_back(Some(request));
        !state.is_over
    }

    fn take(&self, number: u64) -> Option<FileRequest> {
        let mut state = self.lock();
        let index = number.checked_sub(state.first)?;
        let taken = state.requests.get_mut(usize::try_from(index).ok()?)?.take()?;
        state.load.remove(&taken.seen);
        while let Some(None) = state.requests.front() {
            state.requests.pop_front();
            state.first += 1;
        }
        Some(taken)
    }

    /// How long nothing may come while these are read.
    fn limit(&self, timeout: &Timeout) -> Option<Duration> {
        self.lock().load.limit(timeout.answer())
    }

    fn end(&self) {
        self.lock().is_over = true;
    }

    fn rest(&self) -> VecDeque<FileRequest> {
        self.lock().requests.drain(..).flatten().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0)
    }
}
