//! `verisum remote sum`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum_digest::Digest;
use verisum_tree::store::manifest::{Format, Item, Writer};

use super::hosts::{self, HostArgs, ManyArgs, OnHost};
use super::report::Report;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::remote::{Answer, Asked, Event, Folder, Found, Options, Place, Seen, Session};
use crate::render::Output;
use crate::render::names::{self, Name};

/// What `verisum remote sum` takes.
#[derive(Args, Debug)]
pub(crate) struct SumArgs {
    /// The digest; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// Write lines of `SHA256 (NAME) = HEX`
    #[arg(long, conflicts_with = "json")]
    tag: bool,

    /// End each line with NUL, and escape nothing in names
    #[arg(short, long, conflicts_with = "json")]
    zero: bool,

    /// Print a line of JSON for each file
    #[arg(long)]
    json: bool,

    /// Say nothing but what is wrong
    #[arg(short, long)]
    quiet: bool,

    /// Taken and not needed: directories are always gone through
    #[arg(short, long, hide = true)]
    recursive: bool,

    /// Let names begin below PLACE
    #[arg(long)]
    relative: bool,

    /// Take the names of the files from this file, each ended by NUL and below PLACE; - is standard input
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath)]
    files0_from: Option<OsString>,

    #[command(flatten)]
    hosts: HostArgs,

    #[command(flatten)]
    many: ManyArgs,

    /// HOST:PATH, ssh://HOST/PATH or local:PATH; with --hosts a path
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::Other)]
    places: Vec<OsString>,
}

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

/// Does what `verisum remote sum` was asked for.
pub(super) fn run(arguments: SumArgs, output: &mut Output) -> Result<Exit, Failure> {
    let digest = hosts::digest(&arguments.algorithm)?;
    let places = arguments.many.places(&arguments.places)?;
    let count: usize = places.iter().map(|on| on.places.len()).sum();
    if arguments.files0_from.is_some() && count != 1 {
        return Err(Failure::Usage("--files0-from: takes one PLACE".to_string()));
    }
    let format = if arguments.tag { Format::Bsd } else { Format::Gnu };
    let writer = Writer::new(format, std::slice::from_ref(&digest));
    let writer = writer.map_err(|error| Failure::Usage(error.to_string()))?.zero(arguments.zero);
    let folder = hosts::folder(places.iter().map(|on| &on.host))?;
    let options = arguments.hosts.options(places.len())?;
    let prefixed = arguments.many.names_hosts(&places);
    let report = Report::new(output).quiet(arguments.quiet);
    let task =
        Task { arguments: &arguments, digest, writer, options, folder: folder.as_ref(), prefixed, report };
    hosts::each(&places, arguments.many.at_once(), &|on| task.host(on));
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
        if let Err(trouble) = result {
            hosts::fail(&place.host, &trouble, &self.report);
        }
    }

    fn tell(&self, place: &Place, way: &str, event: Event) -> bool {
        match event {
            Event::Note(note) => self.report.note(&place.host, &note),
            Event::Unlisted(line) => {
                self.report.worse(Exit::Unchecked);
                self.report.note(&place.host, &names::plain(&line))
            }
            Event::Answer(Answer { asked, result }) => match result {
                Ok(found) => self.found(place, way, &asked, found),
                Err(reason) => {
                    self.report.worse(Exit::Unchecked);
                    let name = names::quoted(OsStr::from_bytes(place.shown(&asked.path)));
                    self.report.note(&place.host, &format!("{name}: {}", reason.message()))
                }
            },
        }
    }

    fn found(&self, place: &Place, way: &str, asked: &Asked, found: Found) -> bool {
        let Some(digest) = found.digest else { return true };
        let name = match self.arguments.relative {
            true => place.below(&asked.path),
            false => place.shown(&asked.path),
        };
        let goes_on = if self.arguments.json {
            let record = Record::new(place, way, name, &asked.seen);
            let digests = Some(BTreeMap::from([(self.digest.name(), digest.to_string())]));
            self.report.json(&Record { digests, ..record })
        } else {
            let mut full = if self.prefixed { place.host.prefix(name) } else { Vec::new() };
            full.extend_from_slice(name);
            let item = Item {
                name: &full,
                size: asked.seen.size.unwrap_or(0),
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
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
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
                return Some(Asked { path: self.place.join(&name), ..Asked::default() });
            }
        }
        None
    }
}

/// A line of JSON, with the keys of `verisum sum --json` and those of hosts.
#[derive(Serialize)]
pub(super) struct Record<'a> {
    pub(super) host: String,
    pub(super) way: &'a str,
    #[serde(flatten)]
    pub(super) name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digests: Option<BTreeMap<&'a str, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl<'a> Record<'a> {
    /// Without results.
    pub(super) fn new(place: &Place, way: &'a str, name: &[u8], seen: &Seen) -> Record<'a> {
        Record {
            host: place.host.name(),
            way,
            name: Name::of_bytes(name),
            size: seen.size,
            modified: seen.modified.map(|modified| match modified.is_exact {
                true => modified.time.to_string(),
                false => modified.time.seconds.to_string(),
            }),
            digests: None,
            outcome: None,
            error: None,
        }
    }
}
