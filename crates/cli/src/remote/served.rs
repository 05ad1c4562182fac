//! Hashing by a program on the host that speaks our protocol.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use verisum_digest::Digest;

use super::link::{Running, record};
use super::patience::{Load, Patience};
use super::place::Tree;
use super::protocol::{GREETING, Record};
use super::trouble::Trouble;
use super::{Answer, Asked, Event, Found, Sink, base64};

/// A server that waits for requests.
pub(super) struct Served {
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
pub(super) enum Codec {
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
        let lines = fields.split(|byte| *byte == 0).map(|field| base64::encode(field) + "\n");
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
                return base64::decode(line).map(Some).ok_or_else(odd);
            }
        }
    }
}

/// What came of a request.
pub(super) enum Ended {
    /// All of it was done.
    Done,
    /// Whoever asked wants no more.
    Stopped,
    /// The connection or the host failed; these were asked and are not answered.
    Broken(Trouble, VecDeque<Asked>),
}

impl Served {
    /// Takes a server that was just started.
    pub(super) fn new(running: Running, algorithm: String, digest: &Digest) -> Result<Served, Trouble> {
        Served::speaking(Codec::Nul, running, algorithm, digest)
    }

    /// The same in this form.
    pub(super) fn speaking(
        codec: Codec,
        mut running: Running,
        algorithm: String,
        digest: &Digest,
    ) -> Result<Served, Trouble> {
        let patience = running.patience();
        patience.allow(Some(patience.answer()));
        match codec.record(&mut running.stdout) {
            Ok(Some(greeting)) if greeting == GREETING => {
                patience.allow(None);
                Ok(Served { running, algorithm, length: digest.len(), codec, is_busy: false })
            }
            Ok(Some(_)) => Err(Trouble::Odd("the server speaks another protocol".to_string())),
            Ok(None) | Err(_) => Err(running.broken()),
        }
    }

    /// Asks for the digests of what is known, and returns the records of the answer.
    pub(super) fn test(&mut self) -> Result<Vec<Vec<u8>>, Trouble> {
        let request = format!("test\0{}\0", self.algorithm).into_bytes();
        let mut records = Vec::new();
        let patience = self.running.patience();
        patience.allow(Some(patience.answer()));
        if !self.send(request) {
            return Err(self.lost());
        }
        loop {
            match self.codec.record(&mut self.running.stdout) {
                Ok(Some(record)) if record == b"end" => {
                    patience.allow(None);
                    return Ok(records);
                }
                // A server that says more is none.
                Ok(Some(record)) if records.len() < 10 => records.push(record),
                Ok(Some(record)) => return Err(odd(&record)),
                Ok(None) => return Err(self.lost()),
                Err(error) => return Err(Trouble::Odd(error.to_string())),
            }
        }
    }

    /// Lists the files of a tree after this path, and hashes them if wanted.
    pub(super) fn tree(&mut self, path: &[u8], after: &mut Vec<u8>, hashed: bool, sink: Sink) -> Ended {
        let algorithm = if hashed { self.algorithm.as_str() } else { "-" };
        let length = hashed.then_some(self.length);
        self.is_busy = true;
        let request = [b"tree\0", algorithm.as_bytes(), b"\0", path, b"\0", after, b"\0"].concat();
        if !self.send(request) {
            return Ended::Broken(self.lost(), VecDeque::new());
        }
        let mut tree = Tree::new(path);
        loop {
            let record = match self.codec.record(&mut self.running.stdout) {
                Ok(Some(record)) => record,
                Ok(None) => return Ended::Broken(self.lost(), VecDeque::new()),
                Err(error) => return Ended::Broken(Trouble::Odd(error.to_string()), VecDeque::new()),
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
                    Answer {
                        asked: Asked { path, seen, ..Asked::default() },
                        result: Ok(Found { digest, changed }),
                    }
                }
                Some(Record::Failed { path, reason }) if tree.holds(&path) => {
                    Answer { asked: Asked { path, ..Asked::default() }, result: Err(reason) }
                }
                _ => return Ended::Broken(odd(&record), VecDeque::new()),
            };
            if !sink(Event::Answer(answer)) {
                return Ended::Stopped;
            }
        }
    }

    /// Hashes the files of these names.
    pub(super) fn names(&mut self, names: &mut (dyn Iterator<Item = Asked> + Send), sink: Sink) -> Ended {
        self.is_busy = true;
        let (algorithm, length, codec) = (&self.algorithm, self.length, self.codec);
        let patience = self.running.patience();
        patience.allow(Some(patience.answer()));
        let (stdin, stdout, killer) = self.running.split();
        let Some(mut stdin) = stdin else {
            return Ended::Broken(self.lost(), VecDeque::new());
        };
        let pending = Pending::default();
        let (stdin, ended) = thread::scope(|scope| {
            let (pending, patience) = (&pending, &patience);
            let writer = scope.spawn(move || {
                let mut request = format!("names\0{algorithm}\0").into_bytes();
                let mut sent = true;
                while let Some(asked) = patience.paused(|| names.next()) {
                    request.push(b'+');
                    request.extend_from_slice(&asked.path);
                    request.push(0);
                    if !pending.push(asked) {
                        break;
                    }
                    patience.set(pending.limit(patience));
                    if request.len() > 16 << 10 {
                        sent = stdin.write_all(&codec.encoded(std::mem::take(&mut request))).is_ok();
                        if !sent {
                            break;
                        }
                    }
                }
                request.extend_from_slice(b".\0");
                let sent = sent && stdin.write_all(&codec.encoded(request)).is_ok() && stdin.flush().is_ok();
                sent.then_some(stdin)
            });
            let ended = loop {
                let answer = match codec.record(stdout) {
                    Ok(Some(record)) => match Record::parse(&record, Some(length)) {
                        Some(Record::End) => break Ok(true),
                        Some(Record::Hashed { number, seen, digest, changed }) => pending
                            .take(number)
                            .map(|asked| (Asked { seen, ..asked }, Ok(Found { digest, changed }))),
                        Some(Record::Unread { number, reason }) => {
                            pending.take(number).map(|asked| (asked, Err(reason)))
                        }
                        _ => break Err(Some(odd(&record))),
                    },
                    Ok(None) => break Err(None),
                    Err(error) => break Err(Some(Trouble::Odd(error.to_string()))),
                };
                let Some((asked, result)) = answer else {
                    break Err(Some(Trouble::Odd("an answer to nothing that was asked".to_string())));
                };
                patience.set(pending.limit(patience));
                if !patience.paused(|| sink(Event::Answer(Answer { asked, result }))) {
                    break Ok(false);
                }
            };
            pending.end();
            if !matches!(ended, Ok(true)) {
                // Whoever writes waits for it to read, and it for us.
                killer.kill();
            }
            (writer.join().ok().flatten(), ended)
        });
        self.running.stdin = stdin;
        patience.allow(None);
        let left = pending.rest();
        match ended {
            Ok(false) => Ended::Stopped,
            Ok(true) if left.is_empty() => {
                self.is_busy = false;
                Ended::Done
            }
            Ok(true) => Ended::Broken(Trouble::Odd("it left files unanswered".to_string()), left),
            Err(None) => Ended::Broken(self.lost(), left),
            Err(Some(trouble)) => Ended::Broken(trouble, left),
        }
    }

    fn send(&mut self, request: Vec<u8>) -> bool {
        let Some(stdin) = &mut self.running.stdin else { return false };
        stdin.write_all(&self.codec.encoded(request)).and_then(|()| stdin.flush()).is_ok()
    }

    fn lost(&mut self) -> Trouble {
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

fn odd(record: &[u8]) -> Trouble {
    let start = &record[..record.len().min(60)];
    Trouble::Odd(format!("unexpected record: {}", String::from_utf8_lossy(start)))
}

/// What was asked and is not answered.
#[derive(Default)]
struct Pending(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of the first of them.
    first: u64,
    asked: VecDeque<Option<Asked>>,
    load: Load,
    is_over: bool,
}

impl Pending {
    /// False where no more is to be asked.
    fn push(&self, asked: Asked) -> bool {
        let mut state = self.lock();
        state.load.add(&asked.seen);
        state.asked.push_back(Some(asked));
        !state.is_over
    }

    fn take(&self, number: u64) -> Option<Asked> {
        let mut state = self.lock();
        let index = number.checked_sub(state.first)?;
        let taken = state.asked.get_mut(usize::try_from(index).ok()?)?.take()?;
        state.load.remove(&taken.seen);
        while let Some(None) = state.asked.front() {
            state.asked.pop_front();
            state.first += 1;
        }
        Some(taken)
    }

    /// How long nothing may come while these are read.
    fn limit(&self, patience: &Patience) -> Option<Duration> {
        self.lock().load.limit(patience.answer())
    }

    fn end(&self) {
        self.lock().is_over = true;
    }

    fn rest(&self) -> VecDeque<Asked> {
        self.lock().asked.drain(..).flatten().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
