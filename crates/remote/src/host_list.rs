//! Checks a list of digests on a host. If hosts stand before its names, each line belongs to the host before its name;
//! else all lines belong to each host.
//!
//! The list is read once to know its digests, and once for each of them, or of the sets of digests that lines have, in
//! memory that does not grow with it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use verisum_files::check::{CheckOutcome, Event, Lists};
use verisum_files::place::{
    ContentEvidence, FileAnswer, FileRead, FileRequest, Files, PlaceError, PlaceEvent, Reason, Sink,
};
use verisum_files::store::manifest::{Claim, Line, Listed, ReadError, Reader, Skipped};
use verisum_files::{FileError, Kind, lock};

use crate::address::{Address, Host};

/// A list, and which of its lines are of files at an address.
pub struct HostList {
    lists: Lists,
    /// Which of these it is.
    manifest: usize,
    address: Address,
    /// The hosts that are asked.
    asked: Vec<Host>,
    /// Whether hosts stand before names.
    stands: bool,
    /// The ids of its digests.
    algorithms: Vec<String>,
    /// The digests that lines have together.
    sets: Vec<Vec<String>>,
    /// Lines of files at the address that have a digest.
    pub own: u64,
    /// Lines of hosts that are not asked.
    pub of_others: u64,
    /// What was left out of it.
    pub skipped: Skipped,
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
    /// The list of this number, for an address and the hosts that are asked with it. It is read to its end, to know which
    /// digests it has, and whose lines; `tell` gets the lines for which no file is read. It is a regular file: see
    /// [`kept`].
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(
        (lists, manifest): (&Lists, usize),
        asked: &[Host],
        address: &Address,
        tell: &mut dyn FnMut(Event),
    ) -> Result<HostList, ReadError> {
        let mut list = HostList {
            lists: lists.clone(),
            manifest,
            address: address.clone(),
            asked: asked.to_vec(),
            stands: false,
            algorithms: Vec::new(),
            sets: Vec::new(),
            own: 0,
            of_others: 0,
            skipped: Skipped::default(),
        };
        let mut reader = list.reader()?;
        let mut seen = Names::default();
        while let Some(line) = reader.line()? {
            match line {
                Line::File(listed) => list.note(&listed, &mut seen),
                Line::Bad(bad) => tell(Event::Bad { manifest, number: reader.number(), bad }),
            }
        }
        list.skipped = reader.skipped().clone();
        list.stands =
            seen.are_all_of_hosts && (seen.is_one_asked || seen.begin_all_at_roots && list.of_others > 0);
        if !list.stands {
            (list.own, list.of_others) = (seen.with_digest, 0);
        } else if !seen.is_one_asked {
            list.algorithms.clear();
            list.sets.clear();
        }
        if seen.is_one_without_digest {
            list.tell_without_digest(tell)?;
        }
        Ok(list)
    }

    /// Takes in which digests a line has, and whose it is.
    fn note(&mut self, listed: &Listed, seen: &mut Names) {
        let (is_asked, is_of_a_host) = (self.is_asked(&listed.name), is_of_a_host(&listed.name));
        seen.are_all_of_hosts &= is_asked || is_of_a_host;
        seen.is_one_asked |= is_asked;
        seen.begin_all_at_roots &= begins_at_a_root(&listed.name);
        if listed.claims.is_empty() {
            seen.is_one_without_digest = true;
            return;
        }
        seen.with_digest += 1;
        match is_asked {
            true => self.own += u64::from(self.address.host.strip(&listed.name).is_some()),
            false => self.of_others += u64::from(is_of_a_host),
        }
        let names = Claims::computed(listed);
        if !self.sets.iter().any(|set| names.iter().eq(set.iter())) {
            self.sets.push(names.iter().map(ToString::to_string).collect());
        }
        for name in names {
            if !self.algorithms.iter().any(|known| *known == name) {
                self.algorithms.push(name.into_owned());
            }
        }
    }

    /// Tells the files at the address that are listed without a digest.
    fn tell_without_digest(&self, tell: &mut dyn FnMut(Event)) -> Result<(), ReadError> {
        let mut reader = self.reader()?;
        while let Some(line) = reader.line()? {
            let Line::File(listed) = line else { continue };
            if listed.claims.is_empty()
                && listed.kind.is_none_or(|kind| kind == Kind::File)
                && let Some(name) = self.own(&listed.name)
            {
                let listed = Listed { name: name.to_vec(), ..listed };
                tell(without_digest(self.manifest, reader.number(), listed));
            }
        }
        Ok(())
    }

    /// The claims that are checked in each pass over the files: a host's programs compute one digest in a read. None for a
    /// list that has no digest, or only lines of hosts that are not asked.
    pub fn passes(&self) -> Vec<Claims> {
        match self.address.host {
            Host::Bucket(_) => self.sets.iter().cloned().map(Claims::All).collect(),
            _ => self.algorithms.iter().cloned().map(Claims::One).collect(),
        }
    }

    /// Checks the lines that make such claims, and tells what came of each, with what its content is known by. `hash`
    /// computes the digests.
    ///
    /// # Errors
    /// The list or the host fails; what was found before stands.
    pub fn check_lines(
        &self,
        hash: &mut dyn FnMut(Files, Sink) -> Result<(), PlaceError>,
        claims: &Claims,
        notes: Sink,
        each: &(dyn Fn(Event, ContentEvidence) -> bool + Sync),
    ) -> Result<(), HostListError> {
        let under_way = Mutex::new(HashMap::new());
        let mut claimed = Claimed {
            reader: self.reader()?,
            claims,
            list: self,
            next: 0,
            under_way: &under_way,
            failed: None,
        };
        let sink = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result }) => {
                let line = lock(&under_way).remove(&request.tag);
                let Some((number, listed)) = line else { return true };
                let evidence = result.as_ref().map_or(ContentEvidence::Read, |read| read.evidence);
                let outcome = outcome((&listed, claims), request, result);
                each(Event::File { manifest: self.manifest, number, listed, outcome }, evidence)
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
    fn reader(&self) -> Result<Reader<Box<dyn Read + Send>>, ReadError> {
        let opened = self.lists.clone().nth(self.manifest);
        Ok(opened.ok_or_else(|| ReadError::from(io::Error::from(io::ErrorKind::NotFound)))??.reader)
    }

    fn is_asked(&self, name: &[u8]) -> bool {
        self.asked.iter().any(|host| host.strip(name).is_some())
    }

    /// The name that the list has for a file of this host. `None` for a file of another one, which then stands
    /// before the name.
    fn own<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        if self.stands { self.address.host.strip(name) } else { Some(name) }
    }
}

/// What tells whether hosts stand before the names of a list. Names of files may look like that, so they do only if
/// every name begins with a host, and one of those is asked or all go on with a path from a root.
struct Names {
    are_all_of_hosts: bool,
    is_one_asked: bool,
    begin_all_at_roots: bool,
    /// How many lines have a digest.
    with_digest: u64,
    is_one_without_digest: bool,
}

impl Default for Names {
    /// Those of an empty list.
    fn default() -> Names {
        Names {
            are_all_of_hosts: true,
            is_one_asked: false,
            begin_all_at_roots: true,
            with_digest: 0,
            is_one_without_digest: false,
        }
    }
}

/// What it means that a file is listed without a digest: nobody asks a host for anything else.
fn without_digest(manifest: usize, number: u64, listed: Listed) -> Event {
    let reason = Reason::Failed("no digest of it is listed that is known".to_string());
    let path = OsStr::from_bytes(&listed.name).into();
    let outcome = CheckOutcome::Failed(Arc::new(FileError::NotRead { path, reason }));
    Event::File { manifest, number, listed, outcome }
}

/// What an answer means for the line that it is for.
fn outcome(
    (listed, claims): (&Listed, &Claims),
    request: FileRequest,
    result: Result<FileRead, FileError>,
) -> CheckOutcome {
    match result {
        Ok(read) if read.digests.is_empty() => {
            let path = OsStr::from_bytes(&request.path).into();
            let error = FileError::NotRead { path, reason: Reason::Failed(String::new()) };
            CheckOutcome::Failed(Arc::new(error))
        }
        Ok(read) => {
            let digest = |claim: &Claim| {
                let place = claims.names().iter().position(|name| *name == claim.computed())?;
                read.digests.get(place).copied()
            };
            let found = listed.claims.iter().map(digest).collect();
            CheckOutcome::of_read(listed, request.seen.size, found)
        }
        Err(error) => CheckOutcome::of_failure(listed, Arc::new(error)),
    }
}

fn is_of_a_host(name: &[u8]) -> bool {
    Address::parse(OsStr::from_bytes(name), false).is_ok()
}

/// Whether a host and a path from its root are what a name is. One letter and a colon are a drive.
fn begins_at_a_root(name: &[u8]) -> bool {
    let is_drive = name.get(1) == Some(&b':');
    let address = Address::parse(OsStr::from_bytes(name), false);
    !is_drive && address.is_ok_and(|address| address.path.starts_with(b"/"))
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

    /// The digests that the claims of a line need, each once.
    fn computed(listed: &Listed) -> Vec<Cow<'static, str>> {
        let mut names = Vec::with_capacity(listed.claims.len());
        for name in listed.claims.iter().map(Claim::computed) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// What a line claims that belongs to the pass.
    fn made_by(&self, listed: &Listed) -> Option<Vec<Claim>> {
        let is_of_it = match self {
            Claims::One(_) => true,
            Claims::All(names) => Claims::computed(listed).iter().eq(names.iter()),
        };
        let is_own = |claim: &&Claim| self.names().iter().any(|name| *name == claim.computed());
        let claims: Vec<Claim> = listed.claims.iter().filter(|_| is_of_it).filter(is_own).cloned().collect();
        (!claims.is_empty()).then_some(claims)
    }
}

/// The lines of a list for an address.
struct Claimed<'a> {
    reader: Reader<Box<dyn Read + Send>>,
    claims: &'a Claims,
    list: &'a HostList,
    /// The number of the next request.
    next: u64,
    /// The lines that are asked for, by their requests.
    under_way: &'a Mutex<HashMap<u64, (u64, Listed)>>,
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
            let Some(claims) = self.claims.made_by(&listed) else { continue };
            let Some(name) = self.list.own(&listed.name) else { continue };
            // Of the digest of a digest nothing is known before it is made.
            let expected = claims.first().filter(|claim| claim.parts != Some(1)).map(|claim| claim.digest);
            let (path, name) = (self.list.address.join(name), name.to_vec());
            let tag = self.next;
            self.next += 1;
            let line = (self.reader.number(), Listed { name, claims, ..listed });
            lock(self.under_way).insert(tag, line);
            return Some(FileRequest { path, expected, tag, ..FileRequest::default() });
        }
        None
    }
}
