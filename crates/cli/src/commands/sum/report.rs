//! Prints the list of digests, in the order of the answers from places.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use verisum::digest::Digest;
use verisum::files::lock;
use verisum::files::place::{FileAnswer, FileRead, FileRequest, PlaceEvent, below};
use verisum::files::store::manifest::{Item, Writer};
use verisum::remote::{Address, Host};

use super::personality;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{Evidences, PlaceRecord, PlaceReport, RecordedArgs};
use crate::ui::{digests, names};

const CHANGED: &str = "read: the file changed while it was read: the value may fit no state of it";

/// Prints a line for each file.
pub(super) struct SumLines<'a> {
    /// The name at the start of messages.
    pub(super) program: &'static str,
    /// Be silent and exact where the coreutils are.
    pub(super) imitates: bool,
    pub(super) writer: Mutex<Writer>,
    /// The name of standard input in the list.
    pub(super) stdin: &'static str,
    /// What was named here, if names are to begin below that.
    pub(super) below: Option<Vec<OsString>>,
    pub(super) report: PlaceReport<'a>,
}

/// Whose answers are printed, where they are those of a host.
pub(super) struct Source<'a> {
    pub(super) address: &'a Address,
    /// What computes the digests there.
    pub(super) way: &'static str,
    /// The digests, where lines are JSON.
    pub(super) json: Option<&'a [Digest]>,
    /// Whether names begin below the directory.
    pub(super) relative: bool,
    /// Whether the host stands before names.
    pub(super) prefixed: bool,
    /// Whether digests count that a store recorded.
    pub(super) recorded: RecordedArgs,
    /// What the objects so far are known by.
    pub(super) counts: &'a Evidences,
}

/// What of a path is below the nearest of these; its last part if it is one of them.
fn below_any<'p>(roots: &[OsString], path: &'p [u8]) -> &'p [u8] {
    let roots = roots.iter().map(|root| root.as_bytes());
    let roots = roots.map(|root| {
        &root[..root.iter().rposition(|byte| *byte != b'/').map_or(root.len().min(1), |end| end + 1)]
    });
    let below = roots.chain([&b"."[..]]).filter_map(|root| below(root, path)).filter(|rest| !rest.is_empty());
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    below.min_by_key(|rest| rest.len()).unwrap_or(last)
}

impl SumLines<'_> {
    /// Takes what this machine tells.
    pub(super) fn here(&self, event: PlaceEvent) -> bool {
        let PlaceEvent::Answer(FileAnswer { request, result }) = event else { return true };
        let read = match result {
            Ok(read) => read,
            Err(error) => return self.failed(&Failure::Tree(error)),
        };
        let name = match &self.below {
            _ if request.path == b"-" => self.stdin.as_bytes(),
            Some(roots) => lock(&self.writer).file_name(below_any(roots, &request.path)),
            None => &request.path,
        };
        let said = |what: &str| {
            self.report.say(&format!("{}: {what}", names::quoted(OsStr::from_bytes(name))));
        };
        // Held until the line is printed: a line of mtree counts on those before it.
        let mut writer = lock(&self.writer);
        let goes_on = match line(&mut writer, name, &request, &read) {
            Ok(line) => self.report.result(&line),
            Err(error) => {
                self.report.worse(Exit::Unchecked);
                said(&error);
                true
            }
        };
        drop(writer);
        if read.changed {
            said(CHANGED);
            // The coreutils do not look; a script must not fail where it did not.
            if !self.imitates {
                self.report.worse(Exit::Unchecked);
            }
        }
        goes_on
    }

    /// Says what failed here.
    pub(super) fn failed(&self, failure: &Failure) -> bool {
        self.report.worse(failure.exit());
        self.report.say(&match self.imitates {
            true => personality::message(self.program, failure),
            false => failure.message(),
        })
    }

    /// Takes what a host tells.
    pub(super) fn answered(&self, source: &Source, event: PlaceEvent) -> bool {
        let Source { address, relative, .. } = source;
        let (request, read) = match event {
            PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) => (request, read),
            PlaceEvent::Answer(FileAnswer { request, result: Err(error) }) => {
                return self.wrong(address, &request, &error.reason().message());
            }
            event => return self.report.event(&address.host, event),
        };
        // What stands behind a bucket is a whole key.
        let is_bucket = matches!(address.host, Host::Bucket(_));
        let relative = *relative && !(source.prefixed && is_bucket);
        let name = if relative { address.below(&request.path) } else { address.shown(&request.path) };
        let evidence = source.recorded.known(read.evidence, source.counts);
        let goes_on = match source.json {
            Some(all) => {
                let record = PlaceRecord::new(address, source.way, name, &request.seen);
                let named = all.iter().zip(&read.digests);
                let shown = |name, sum| (name, digests::shown(name, sum, request.seen.size));
                let digests = Some(named.map(|(digest, sum)| shown(digest.name(), sum)).collect());
                // `check` names the bucket itself; a name on a host is never taken for one of this machine.
                let host = record.host.filter(|_| !(is_bucket && relative));
                self.report.json("file", &PlaceRecord { host, digests, evidence, ..record })
            }
            None => {
                let mut full = if source.prefixed { address.host.prefix(name) } else { Vec::new() };
                full.extend_from_slice(name);
                let mut writer = lock(&self.writer);
                let full = writer.file_name(&full);
                match line(&mut writer, full, &request, &read) {
                    Ok(line) => {
                        // Programs that check lists pass over comments.
                        let comment = evidence.filter(|_| writer.has_comments());
                        let comment = comment.map(|known| format!("# {}\n", known.text()));
                        self.report.result(&[comment.unwrap_or_default().into_bytes(), line].concat())
                    }
                    Err(error) => return self.wrong(address, &request, &error),
                }
            }
        };
        if read.changed {
            return self.wrong(address, &request, CHANGED);
        }
        self.report.contradicted(&address.host, address.shown(&request.path), &read) && goes_on
    }

    /// Says what is wrong with a file of a host, by its whole path, whatever the list calls it.
    fn wrong(&self, address: &Address, request: &FileRequest, what: &str) -> bool {
        self.report.worse(Exit::Unchecked);
        let name = names::quoted(OsStr::from_bytes(address.shown(&request.path)));
        self.report.note(&address.host, &format!("{name}: {what}"))
    }
}

fn line(writer: &mut Writer, name: &[u8], request: &FileRequest, read: &FileRead) -> Result<Vec<u8>, String> {
    let mut line = Vec::with_capacity(name.len() + 80);
    let modified = request.seen.modified.filter(|modified| modified.is_exact).map(|modified| modified.time);
    let size = request.seen.size.unwrap_or(0);
    let item = Item { name, size, modified, mode: None, digests: &read.digests };
    writer.item(&mut line, &item).map_err(|error| format!("write: {error}"))?;
    Ok(line)
}
