//! Finds the files to hash, by names on the command line or in a list.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verisum::digest::Output as Sum;
use verisum::files::{Entry, Error, Job, Kind, Operation, Plan, Walk, WalkOptions};

use super::report::{Read as Found, Report};
use crate::ui::closed;
use crate::ui::failure::Failure;
use crate::ui::progress::Total;
use crate::ui::reading::Order;

/// How much of a pipe or device is read at once.
const PIECE: usize = 256 << 10;

/// The most names whose lengths are added up before the work, for the time that is left.
const MOST_ADDED_UP: usize = 10_000;

/// What to hash.
pub(super) struct Inputs {
    names: Names,
    /// How to walk directories; without it they are refused.
    walk: Option<WalkOptions>,
    order: Order,
}

enum Names {
    Given(VecDeque<OsString>),
    /// Ended by NUL each.
    Listed {
        list: BufReader<Box<dyn Read + Send>>,
        name: PathBuf,
    },
}

impl Inputs {
    /// Files by name; none is standard input.
    pub(super) fn new(mut names: Vec<OsString>, walk: Option<WalkOptions>) -> Inputs {
        if names.is_empty() {
            names.push("-".into());
        }
        Inputs { names: Names::Given(names.into()), walk, order: Order::Name }
    }

    /// Files by the names in a list.
    pub(super) fn listed(list: &OsStr, walk: Option<WalkOptions>) -> Result<Inputs, Failure> {
        let name = if list == "-" { "standard input".into() } else { PathBuf::from(list) };
        let list: Box<dyn Read + Send> = if list == "-" {
            Box::new(stdin())
        } else {
            let file = File::open(list);
            Box::new(file.map_err(|error| Failure::File { name: name.clone(), operation: "open", error })?)
        };
        let names = Names::Listed { list: BufReader::new(list), name };
        Ok(Inputs { names, walk, order: Order::Name })
    }

    /// The same in another order.
    pub(super) fn ordered(self, order: Order) -> Inputs {
        Inputs { order, ..self }
    }

    /// How much there is in all, where that can be found out.
    pub(super) fn total(&self) -> Total {
        let Names::Given(names) = &self.names else { return Total::Unknown };
        match &self.walk {
            Some(options) => {
                let paths: Vec<PathBuf> = names.iter().filter(|name| *name != "-").map(Into::into).collect();
                Total::walked(Walk::new(paths, options.clone()))
            }
            None if names.len() > MOST_ADDED_UP => Total::Unknown,
            None => match Inputs::lengths(names) {
                Some(bytes) => Total::Known { files: names.len() as u64, bytes },
                None => Total::Unknown,
            },
        }
    }

    fn lengths(names: &VecDeque<OsString>) -> Option<u64> {
        let length = |name: &OsString| match std::fs::metadata(name) {
            Ok(found) if found.is_file() => Some(found.len()),
            // What cannot be read takes no time.
            Err(_) if name != "-" => Some(0),
            _ => None,
        };
        names.iter().map(length).sum()
    }

    /// The files, in order. What is no file is reported, or hashed, in its turn.
    pub(super) fn jobs<'a>(
        self,
        plan: &'a Plan,
        stdin: &'static str,
        report: &'a Report<'_>,
    ) -> impl Iterator<Item = Job<u64>> + Send {
        Jobs { inputs: self, plan, stdin, report, walking: None, next: 0 }
    }
}

struct Jobs<'a, 'o> {
    inputs: Inputs,
    plan: &'a Plan,
    stdin: &'static str,
    report: &'a Report<'o>,
    walking: Option<Walk>,
    /// The place in the list of what comes next.
    next: u64,
}

impl Iterator for Jobs<'_, '_> {
    type Item = Job<u64>;

    fn next(&mut self) -> Option<Job<u64>> {
        loop {
            let found = match &mut self.walking {
                Some(walk) => match walk.next() {
                    None => {
                        self.walking = None;
                        continue;
                    }
                    Some(Ok(entry)) if entry.kind() != Kind::File => continue,
                    Some(found) => found,
                },
                None => match self.inputs.next_name()? {
                    Ok(name) => match self.named(&name) {
                        Some(found) => found,
                        None => continue,
                    },
                    Err(failure) => {
                        self.report.failed(self.next, failure);
                        self.next += 1;
                        continue;
                    }
                },
            };
            let place = self.next;
            self.next += 1;
            match found {
                Ok(entry) => return Some(Job { entry, set: 0, token: place }),
                Err(error) => self.report.failed(place, Failure::Tree(error)),
            }
        }
    }
}

impl Jobs<'_, '_> {
    /// What a name stands for; none if there is nothing more to do for it itself.
    fn named(&mut self, name: &OsStr) -> Option<Result<Entry, Error>> {
        if name == "-" {
            self.stream(OsStr::new(self.stdin), open_stdin());
            return None;
        }
        let path = Path::new(name);
        let entry = match Entry::followed(path) {
            Ok(entry) => entry,
            // Whoever reads the message asked for the file to be opened, not to be looked at.
            Err(Error::Io { path, source, .. }) => {
                let operation = Operation::Open;
                return Some(Err(Error::Io { path, operation, offset: None, source }));
            }
            Err(error) => return Some(Err(error)),
        };
        match (entry.kind(), &self.inputs.walk) {
            (Kind::Directory, Some(options)) => {
                let order = self.inputs.order.of_walk(&entry, verisum::files::Order::Name);
                let options = WalkOptions { order, ..options.clone() };
                self.walking = Some(Walk::new(vec![path.into()], options));
                None
            }
            (Kind::Directory, None) => Some(Err(Error::io(path, Operation::Open, Errno::ISDIR))),
            (Kind::File, _) => Some(Ok(entry)),
            // Somebody who names a pipe or a device wants to wait for what it gives.
            _ => {
                self.stream(name, File::open(path).map(|file| Box::new(file) as Box<dyn Read>));
                None
            }
        }
    }

    /// Hashes what can only be read from one end to the other.
    fn stream(&mut self, name: &OsStr, source: std::io::Result<Box<dyn Read>>) {
        let place = self.next;
        self.next += 1;
        let failed = |operation| {
            move |source: std::io::Error| Failure::Tree(Error::io(Path::new(name), operation, source))
        };
        let result = source.map_err(failed(Operation::Open)).and_then(|mut source| {
            let digests = &self.plan.sets[0];
            let mut streams: Vec<_> = digests
                .iter()
                .map(|digest| digest.stream())
                .collect::<Result<_, _>>()
                .map_err(Failure::Digest)?;
            let mut buffer = vec![0; PIECE];
            let mut length = 0;
            loop {
                let count = match source.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(failed(Operation::Read)(error)),
                };
                length += count as u64;
                for stream in &mut streams {
                    stream.update(&buffer[..count]).map_err(Failure::Digest)?;
                }
            }
            let mut sums = Vec::with_capacity(digests.len());
            for (stream, digest) in streams.iter_mut().zip(digests) {
                let mut sum = Sum::zeroed(digest.len());
                stream.finish(sum.as_mut_bytes()).map_err(Failure::Digest)?;
                sums.push(sum);
            }
            Ok((sums, length))
        });
        match result {
            Ok((digests, length)) => {
                let found = Found { name: name.into(), length, modified: None, digests, changed: false };
                self.report.found(place, found);
            }
            Err(failure) => self.report.failed(place, failure),
        }
    }
}

impl Inputs {
    fn next_name(&mut self) -> Option<Result<OsString, Failure>> {
        let (list, list_name) = match &mut self.names {
            Names::Given(names) => return names.pop_front().map(Ok),
            Names::Listed { list, name } => (list, name),
        };
        let mut name = Vec::new();
        match list.read_until(0, &mut name) {
            Ok(0) => None,
            Ok(_) => {
                name.pop_if(|last| *last == 0);
                Some(Ok(OsString::from_vec(name)))
            }
            Err(error) => {
                let failure = Failure::File { name: list_name.clone(), operation: "read", error };
                self.names = Names::Given(VecDeque::new());
                Some(Err(failure))
            }
        }
    }
}

/// Standard input, unless it was closed at the start.
pub(super) fn open_stdin() -> std::io::Result<Box<dyn Read>> {
    match closed::standard_input() {
        true => Err(Errno::BADF.into()),
        false => Ok(Box::new(stdin().lock())),
    }
}
