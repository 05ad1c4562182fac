//! `verisum sum` of files on other machines.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use verisum::digest::Digest;
use verisum::files::store::manifest::{Item, Writer};

use super::SumArgs;
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, OnHost, Record, Report};
use crate::ui::list_format::Format;
use crate::ui::names;
use verisum::remote::{Answer, Event, FileRead, Folder, Options, Place, Request, Session};

/// Everything that the work on a host needs.
struct Task<'a> {
    arguments: &'a SumArgs,
    digest: Digest,
    writer: Writer,
    options: Options,
    folder: Option<&'a Folder>,
    /// Whether the host stands before names.
    prefixed: bool,
    report: Report<'a>,
}

/// Prints the digests of the files on hosts.
pub(super) fn run(arguments: &SumArgs, places: &[OnHost], output: &mut Output) -> Result<Exit, Failure> {
    let [algorithm] = &arguments.algorithm[..] else {
        return Err(Failure::Usage("--algorithm: takes one digest for files on hosts".to_string()));
    };
    let digest = hosts::digest(algorithm)?;
    let count: usize = places.iter().map(|on| on.places.len()).sum();
    if arguments.files0_from.is_some() && count != 1 {
        return Err(Failure::Usage("--files0-from: takes one directory of a host".to_string()));
    }
    let writer = Writer::new(arguments.format().into(), std::slice::from_ref(&digest));
    let writer = writer.map_err(|error| Failure::Usage(error.to_string()))?.zero(arguments.zero);
    let folder = hosts::folder(places.iter().map(|on| &on.host))?;
    let options = arguments.hosts.options(places.len())?;
    let prefixed = arguments.many.names_hosts(places);
    let report = Report::new(output).quiet(arguments.quiet);
    let task = Task { arguments, digest, writer, options, folder: folder.as_ref(), prefixed, report };
    hosts::each(places, arguments.many.at_once(), &|on| task.host(on));
    task.report.end()
}

impl Task<'_> {
    fn host(&self, on: &OnHost) {
        let opened = hosts::open(&on.host, &self.digest, &self.options, self.folder, &self.report);
        let Some(mut session) = opened else { return };
        for place in &on.places {
            self.place(&mut session, place);
        }
    }

    fn place(&self, session: &mut Session, place: &Place) {
        let way = session.way();
        let sink = |event: Event| self.tell(place, way, event);
        let result = match &self.arguments.files0_from {
            None => session.tree(&place.path, true, &sink),
            Some(list) => match Names::open(list, place) {
                Ok(mut names) => {
                    let result = session.names(&mut names, &sink);
                    if let Err(failure) = names.end() {
                        self.report.fail(&place.host, &failure);
                    }
                    result
                }
                Err(failure) => return self.report.fail(&place.host, &failure),
            },
        };
        if let Err(error) = result {
            hosts::fail(&place.host, &error, &self.report);
        }
    }

    fn tell(&self, place: &Place, way: &str, event: Event) -> bool {
        match event {
            Event::Note(note) => self.report.note(&place.host, &note),
            Event::Unlisted(line) => {
                self.report.worse(Exit::Unchecked);
                self.report.note(&place.host, &names::plain(&line))
            }
            Event::Answer(Answer { request, result }) => match result {
                Ok(found) => self.found(place, way, &request, found),
                Err(reason) => {
                    self.report.worse(Exit::Unchecked);
                    let name = names::quoted(OsStr::from_bytes(place.shown(&request.path)));
                    self.report.note(&place.host, &format!("{name}: {}", reason.message()))
                }
            },
        }
    }

    fn found(&self, place: &Place, way: &str, request: &Request, found: FileRead) -> bool {
        let Some(digest) = found.digest else { return true };
        let name = match self.arguments.relative {
            true => place.below(&request.path),
            false => place.shown(&request.path),
        };
        let goes_on = if self.arguments.format() == Format::Json {
            let record = Record::new(place, way, name, &request.seen);
            let digests = Some(BTreeMap::from([(self.digest.name(), digest.to_string())]));
            self.report.json(&Record { digests, ..record })
        } else {
            let mut full = if self.prefixed { place.host.prefix(name) } else { Vec::new() };
            full.extend_from_slice(name);
            let item = Item {
                name: &full,
                size: request.seen.size.unwrap_or(0),
                modified: None,
                mode: None,
                digests: &[digest],
            };
            let mut line = Vec::new();
            if let Err(error) = self.writer.item(&mut line, &item) {
                self.report.worse(Exit::Unchecked);
                let name = names::quoted(OsStr::from_bytes(&full));
                return self.report.note(&place.host, &format!("{name}: write: {error}"));
            }
            self.report.result(&line)
        };
        if found.changed {
            self.report.worse(Exit::Unchecked);
            let name = names::quoted(OsStr::from_bytes(name));
            let what = "read: the file changed while it was read: the value may fit no state of it";
            return self.report.note(&place.host, &format!("{name}: {what}"));
        }
        goes_on
    }
}

/// The names of a list, below a place.
struct Names {
    list: BufReader<Box<dyn Read + Send>>,
    /// What the list is called.
    name: PathBuf,
    place: Place,
    failed: Option<io::Error>,
}

impl Names {
    fn open(list: &OsStr, place: &Place) -> Result<Names, Failure> {
        let (source, name): (Box<dyn Read + Send>, PathBuf) = match list == "-" {
            true => (Box::new(stdin()), PathBuf::from("standard input")),
            false => {
                let name = PathBuf::from(list);
                match File::open(list) {
                    Ok(file) => (Box::new(file), name),
                    Err(error) => return Err(Failure::File { name, operation: "open", error }),
                }
            }
        };
        Ok(Names { list: BufReader::new(source), name, place: place.clone(), failed: None })
    }

    /// Fails if not all of the list could be read.
    fn end(self) -> Result<(), Failure> {
        match self.failed {
            Some(error) => Err(Failure::File { name: self.name, operation: "read", error }),
            None => Ok(()),
        }
    }
}

impl Iterator for Names {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.failed.is_none() {
            let mut name = Vec::new();
            match self.list.read_until(0, &mut name) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
            name.pop_if(|last| *last == 0);
            if !name.is_empty() {
                return Some(Request { path: self.place.join(&name), ..Request::default() });
            }
        }
        None
    }
}
