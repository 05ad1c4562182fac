//! Checks a list of digests on hosts: each line belongs to the host before its name, or to all hosts.
//!
//! It is read once for each of its digests and places, or of the sets of digests that lines have, in memory that does not grow with it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

use verisum_digest::Output;
use verisum_files::Kind;
use verisum_files::place::{
    ContentEvidence, FileAnswer, FileRequest, FileState, Files, PlaceError, PlaceEvent, Reason, Sink,
};
use verisum_files::store::manifest::{Bad, Claim, Line, ListOptions, Listed, ReadError, Reader, Skipped};

use crate::address::{Address, Host};

/// A list, and whose lines are in it.
#[derive(Debug)]
pub struct HostList {
    file: Mutex<File>,
    reading: ListOptions,
    /// The hosts that are asked.
    asked: Vec<Host>,
    /// Whether one of them stands before a name.
    stands: bool,
    /// The ids of its digests.
    pub algorithms: Vec<String>,
    /// The digests that lines have together.
    pub sets: Vec<Vec<String>>,
    /// Files that are listed without a digest that is known here.
    pub without: u64,
    /// Lines that are not understood.
    pub bad: u64,
    /// Lines of hosts that are not asked.
    pub of_others: u64,
    /// What was left out of it.
    pub skipped: Skipped,
}

/// A line of a list, of which all digests were looked at in one read.
#[derive(Debug)]
pub struct CheckedLine {
    /// The name, as the list has it.
    pub name: Vec<u8>,
    /// What was seen of the file besides its content.
    pub seen: FileState,
    /// The digests that the list has.
    pub listed: Vec<Output>,
    /// Those that it has, or why there are none.
    pub found: Result<Vec<Output>, Reason>,
    /// What these are known by.
    pub evidence: ContentEvidence,
}

/// Why a list is not checked to its end.
#[derive(Debug)]
pub enum HostListError {
    /// The list cannot be read, though it could be before.
    List(ReadError),
    /// The host failed.
    Place(PlaceError),
}

impl fmt::Display for HostListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostListError::List(error) => error.fmt(f),
            HostListError::Place(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HostListError {}

impl From<ReadError> for HostListError {
    fn from(error: ReadError) -> HostListError {
        HostListError::List(error)
    }
}

impl HostList {
    /// A list in a regular file, for these hosts. It is read to its end, to know which digests it has, and whose
    /// lines.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(file: File, reading: ListOptions, asked: Vec<Host>) -> Result<HostList, ReadError> {
        let mut list = HostList {
            file: Mutex::new(file),
            reading,
            asked,
            stands: false,
            algorithms: Vec::new(),
            sets: Vec::new(),
            without: 0,
            bad: 0,
            of_others: 0,
            skipped: Skipped::default(),
        };
        let mut reader = list.reader()?;
        while let Some(line) = reader.line()? {
            match line {
                Line::File(listed) if listed.claims.is_empty() => {
                    list.without += u64::from(listed.kind.is_none_or(|kind| kind == Kind::File));
                }
                Line::File(listed) => {
                    match list.is_asked(&listed.name) {
                        true => list.stands = true,
                        false => list.of_others += u64::from(is_of_a_host(&listed.name)),
                    }
                    let claims = Claims::of(&listed);
                    let is_set =
                        |set: &Vec<String>| claims.iter().map(|claim| &claim.algorithm[..]).eq(set.iter());
                    if !list.sets.iter().any(is_set) {
                        list.sets.push(claims.iter().map(|claim| claim.algorithm.to_string()).collect());
                    }
                    for claim in &listed.claims {
                        if !list.algorithms.iter().any(|known| *known == claim.algorithm) {
                            list.algorithms.push(claim.algorithm.to_string());
                        }
                    }
                }
                Line::Bad(Bad::UnknownDigest(_)) => list.without += 1,
                Line::Bad(_) => list.bad += 1,
            }
        }
        list.skipped = reader.skipped().clone();
        if !list.stands {
            list.of_others = 0;
        }
        Ok(list)
    }

    /// The claims that are checked in each pass over a host's files: its programs compute one digest in a read.
    pub fn passes(&self, host: &Host) -> Vec<Claims> {
        match host {
            Host::Bucket(_) => self.sets.iter().cloned().map(Claims::All).collect(),
            _ => self.algorithms.iter().cloned().map(Claims::One).collect(),
        }
    }

    /// Checks the lines at an address that make such claims. `hash` computes the digests of these.
    ///
    /// # Errors
    /// The list or the host fails; what was found before stands.
    pub fn check_lines(
        &self,
        hash: &mut dyn FnMut(Files, Sink) -> Result<(), PlaceError>,
        address: &Address,
        claims: &Claims,
        notes: Sink,
        each: &(dyn Fn(CheckedLine) -> bool + Sync),
    ) -> Result<(), HostListError> {
        let asked = Mutex::new(HashMap::new());
        let mut claimed = Claimed {
            reader: self.reader()?,
            claims,
            address,
            list: self,
            next: 0,
            asked: &asked,
            failed: None,
        };
        let sink = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result }) => {
                let others = asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.tag);
                let listed = request.expected.into_iter().chain(others.unwrap_or_default()).collect();
                let evidence = result.as_ref().map_or(ContentEvidence::Read, |read| read.evidence);
                let found = match result {
                    Ok(read) if read.digests.is_empty() => Err(Reason::Failed(String::new())),
                    Ok(read) => Ok(read.digests),
                    Err(error) => Err(error.reason()),
                };
                let name = Written::name(request.tag % Written::KINDS, address, &request.path);
                each(CheckedLine { name, seen: request.seen, listed, found, evidence })
            }
            // Every file has an answer, whatever its program said beside.
            PlaceEvent::Unlisted(line) => notes(PlaceEvent::Note(line)),
            event => notes(event),
        };
        let ended = hash(Files::Named(&mut claimed), &sink);
        match claimed.failed {
            Some(error) => Err(HostListError::List(error)),
            None => ended.map_err(HostListError::Place),
        }
    }

    /// Its lines from the start on.
    fn reader(&self) -> Result<Reader<File>, ReadError> {
        let held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Each reader needs a position of its own.
        let mut file = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&*held)))
            .or_else(|_| held.try_clone())?;
        file.seek(SeekFrom::Start(0))?;
        Reader::new(file, &self.reading)
    }

    fn is_asked(&self, name: &[u8]) -> bool {
        self.asked.iter().any(|host| host.strip(name).is_some())
    }

    /// The name that the list has for a file of this host. `None` for a file of another one, which then stands
    /// before the name. Where no line has a host that is asked, none is taken to have one: names may have
    /// colons.
    fn own<'n>(&self, name: &'n [u8], host: &Host) -> Option<&'n [u8]> {
        match host.strip(name) {
            Some(rest) => Some(rest),
            None if self.stands && (self.is_asked(name) || is_of_a_host(name)) => None,
            None => Some(name),
        }
    }
}

fn is_of_a_host(name: &[u8]) -> bool {
    Address::parse(OsStr::from_bytes(name), false).is_ok()
}

/// Keeps what a source gives, to be read several times.
///
/// # Errors
/// It cannot be read, or not be kept.
pub fn kept(source: &mut dyn Read) -> io::Result<File> {
    let mut kept = tempfile::tempfile()?;
    io::copy(source, &mut kept)?;
    Ok(kept)
}

/// Which lines of a list are checked in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claims {
    /// Those with this digest, whatever else they have.
    One(String),
    /// Those with exactly these digests, in this order.
    All(Vec<String>),
}

impl Claims {
    /// The names of the digests, in order.
    pub fn names(&self) -> &[String] {
        match self {
            Claims::One(name) => std::slice::from_ref(name),
            Claims::All(names) => names,
        }
    }

    /// Those of a line, each once.
    fn of(listed: &Listed) -> Vec<&Claim> {
        let mut claims: Vec<&Claim> = Vec::with_capacity(listed.claims.len());
        for claim in &listed.claims {
            if !claims.iter().any(|known| known.algorithm == claim.algorithm) {
                claims.push(claim);
            }
        }
        claims
    }

    /// The digests of a line that belongs to the pass.
    fn digests(&self, listed: &Listed) -> Option<Vec<Output>> {
        let claims = Claims::of(listed);
        match self {
            Claims::One(name) => {
                let claim = claims.into_iter().find(|claim| claim.algorithm == name[..])?;
                Some(vec![claim.digest])
            }
            Claims::All(names) => {
                let is_of_it = claims.iter().map(|claim| &claim.algorithm[..]).eq(names.iter());
                is_of_it.then(|| claims.iter().map(|claim| claim.digest).collect())
            }
        }
    }
}

/// What a list has for an address.
struct Claimed<'a> {
    reader: Reader<File>,
    claims: &'a Claims,
    address: &'a Address,
    list: &'a HostList,
    /// The number of the next line.
    next: u64,
    /// The digests but the first of lines with several that are under way, by their tags.
    asked: &'a Mutex<HashMap<u64, Vec<Output>>>,
    /// Why the rest of it cannot be read: it could be read before.
    failed: Option<ReadError>,
}

impl Iterator for Claimed<'_> {
    type Item = FileRequest;

    fn next(&mut self) -> Option<FileRequest> {
        while self.failed.is_none() {
            let listed = match self.reader.line() {
                Ok(Some(Line::File(listed))) => listed,
                Ok(Some(_)) => continue,
                Ok(None) => return None,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            };
            let Some(digests) = self.claims.digests(&listed) else { continue };
            let Some((first, others)) = digests.split_first() else { continue };
            let Some(name) = self.list.own(&listed.name, &self.address.host) else { continue };
            let path = self.address.join(name);
            let tag = self.next * Written::KINDS + Written::of(name) as u64;
            self.next += 1;
            if !others.is_empty() {
                self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(tag, others.to_vec());
            }
            return Some(FileRequest { path, expected: Some(*first), tag, ..FileRequest::default() });
        }
        None
    }
}

/// How a name was written in a list, to show it so again.
#[derive(Clone, Copy)]
enum Written {
    Below = 0,
    FromRoot = 1,
    WithDot = 2,
}

impl Written {
    /// How many ways there are.
    const KINDS: u64 = 3;

    fn of(name: &[u8]) -> Written {
        match name {
            [b'/', ..] => Written::FromRoot,
            [b'.', b'/', ..] => Written::WithDot,
            _ => Written::Below,
        }
    }

    /// The name by the path that was made of it.
    fn name(tag: u64, address: &Address, path: &[u8]) -> Vec<u8> {
        const FROM_ROOT: u64 = Written::FromRoot as u64;
        const WITH_DOT: u64 = Written::WithDot as u64;
        match tag {
            FROM_ROOT => path.to_vec(),
            WITH_DOT => [b"./", address.below(path)].concat(),
            _ => address.below(path).to_vec(),
        }
    }
}
