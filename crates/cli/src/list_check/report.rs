//! Prints the results of a check: for each file, for each list, and at the end.

mod list_end;
mod messages;

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use verisum::catalog::store::is_address;
use verisum::files::check::{CheckOutcome, Event, ListClass};
use verisum::files::store::manifest::{self, Bad, Dialect, Listed, Skipped};
use verisum::files::{FileError, Misjudged, NamedDigest, Verdict};
use verisum::remote::{Address, Host};

use super::ListCheckOptions;
use super::record::{self, CheckRecord};
use super::remedies::{BadFiles, ListAt, MISSING, UNREADABLE};
use super::words::{is_of_storage, unlike, why};
use crate::ui::Output;
use crate::ui::PROGRAM;
use crate::ui::bad_file;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{ObjectEvidence, PlaceReport};
use crate::ui::names;

/// Of how many files it is looked at whether the list has other values of them.
const LOOKED_AT: u64 = 16;

/// Prints results as they come, and counts them.
pub(crate) struct CheckReport<'a, 'o> {
    pub(super) options: &'a ListCheckOptions,
    names: Vec<OsString>,
    /// How many bags they are of, if they are of nothing else.
    bags: usize,
    /// Those of other places may print on it, too.
    pub(super) output: &'a PlaceReport<'o>,
    /// Where the files are, if names of them are no paths of this machine.
    pub(super) place: Option<CheckedPlace<'a>>,
    /// The worst that was found.
    worst: Exit,
    /// What was found in the list at hand.
    list: CheckCounts,
    /// What was found in all.
    total: CheckCounts,
    /// Whether each result is shown at once.
    at_once: bool,
    /// What the number of a line of a list is, if it is another value of what it names.
    instead: &'a (dyn Fn(usize, &Listed) -> Option<Misjudged> + Sync),
    /// Whether nothing is left to be said, or nothing more is to be read.
    pub(super) is_over: bool,
    /// Where the names of each list begin.
    pub(super) bases: Vec<Option<PathBuf>>,
    bad: BadFiles,
    /// Whether a list could not be read, or not to its end.
    lists_unread: bool,
    /// Files for which a place did not answer.
    not_asked: u64,
}

/// A tree on another machine, or one that is asked as if it were.
pub(crate) struct CheckedPlace<'a> {
    pub(crate) address: &'a Address,
    /// What computes digests there.
    pub(crate) way: &'static str,
    /// Whether the host stands before the names of files.
    pub(crate) is_named: bool,
    /// Whether it is said here what is wrong with the lists themselves: of several places one says it.
    pub(crate) tells_lists: bool,
    /// What the file at hand is known by.
    pub(crate) evidence: Option<ObjectEvidence>,
}

/// How many there were of each kind.
#[derive(Clone, Debug, Default, Serialize)]
struct CheckCounts {
    verified: u64,
    /// Files that are listed without a digest, and have the length that is listed.
    size_only: u64,
    /// What is listed without a digest or length, and is there.
    present: u64,
    failed: u64,
    missing: u64,
    unreadable: u64,
    bad_lines: u64,
    /// Lines that were taken for comments.
    comments: u64,
    /// Lines whose digest is known to nobody here.
    unknown_digests: u64,
    extra: u64,
    /// Listed files that match --exclude.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
    /// Whether all bags are valid, if bags were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
    /// Among those that failed, files whose digest's kind was but assumed; not shown.
    #[serde(skip)]
    assumed: u64,
    /// Lines that list a digest; not shown.
    #[serde(skip)]
    formatted: u64,
    /// What it means.
    #[serde(skip)]
    class: ListClass,
    /// How many hexadecimal digits the last assumed digest had, and what it was taken for.
    #[serde(skip)]
    taken: Option<(usize, String)>,
    /// Whether its numbers are block hashes, and nothing more is said of its lines.
    #[serde(skip)]
    refused: bool,
    /// Whether it was said that some of its numbers are other values than those that were verified.
    #[serde(skip)]
    is_mixed: bool,
    /// How many files had a reason; not shown.
    #[serde(skip)]
    reasons: u64,
    /// Whether it is a list for other hosts, too: of this one it may have no file.
    #[serde(skip)]
    is_shared: bool,
    /// The host or bucket that a missing name has in front.
    #[serde(skip)]
    elsewhere: Option<Host>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The totals, in JSON.
#[derive(Serialize)]
struct CheckSummary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(flatten)]
    counts: &'a CheckCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<'a, 'o> CheckReport<'a, 'o> {
    /// Of lists with these names.
    pub(crate) fn new(
        options: &'a ListCheckOptions,
        (names, bags): (Vec<OsString>, usize),
        instead: &'a (dyn Fn(usize, &Listed) -> Option<Misjudged> + Sync),
        output: &'a PlaceReport<'o>,
    ) -> CheckReport<'a, 'o> {
        CheckReport {
            options,
            names,
            bags,
            output,
            place: None,
            worst: Exit::Clean,
            list: CheckCounts::default(),
            total: CheckCounts::default(),
            at_once: rustix::termios::isatty(rustix::stdio::stdout()),
            instead,
            is_over: false,
            bases: Vec::new(),
            bad: BadFiles::default(),
            lists_unread: false,
            not_asked: 0,
        }
    }

    /// The same of files in a place.
    pub(crate) fn of_place(self, place: CheckedPlace<'a>) -> CheckReport<'a, 'o> {
        CheckReport { place: Some(place), ..self }
    }

    /// Takes in what a list has that was read for a place: whether files, and lines of hosts that are not asked.
    pub(crate) fn list_read(
        &mut self,
        manifest: usize,
        (has_files, of_others): (bool, u64),
    ) -> Result<(), Failure> {
        self.list.is_shared = has_files || of_others > 0;
        if !has_files && of_others > 0 {
            self.worse(Exit::Unchecked);
            let lines = if of_others == 1 { "its only line is" } else { "all its lines are" };
            return self
                .say_of_list(&format!("{}: {lines} of hosts that are not asked", self.shown(manifest)));
        }
        if of_others == 0 || self.options.quiet || self.options.status {
            return Ok(());
        }
        let lines = if of_others == 1 { "line is" } else { "lines are" };
        self.say_of_list(&format!(
            "{}: {of_others} {lines} of hosts that are not asked",
            self.shown(manifest)
        ))
    }

    /// Says what computed the answer that comes next, and what its content is known by.
    pub(crate) fn answered_by(&mut self, way: &'static str, evidence: Option<ObjectEvidence>) {
        if let Some(place) = &mut self.place {
            (place.way, place.evidence) = (way, evidence);
        }
    }

    /// Takes in that the place did not answer for so many files of the list at hand.
    pub(crate) fn list_given_up(&mut self, not_asked: u64) {
        self.not_asked += not_asked;
        self.worse(Exit::Unchecked);
        self.add_up();
    }

    /// Says what was found.
    pub(crate) fn event(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            event if self.options.dialect == Dialect::B3sum => self.event_of_b3sum(&event)?,
            Event::File { .. } | Event::Bad { .. } if self.list.refused => {}
            Event::File { manifest, number, listed, outcome } => {
                let looks = matches!(outcome, CheckOutcome::Mismatch(_)) && self.may_be_of_other_values();
                match looks.then(|| (self.instead)(manifest, &listed)).flatten() {
                    Some(what) => self.refuse(manifest, number, &what)?,
                    None => {
                        self.bad.meet(&listed);
                        self.file(manifest, number, &listed, &outcome)?;
                        if self.may_repair_others(manifest, &listed, &outcome) {
                            self.bad.good(&listed);
                        }
                    }
                }
            }
            Event::Bad { manifest, number, bad } => self.bad(manifest, number, &bad)?,
            Event::End { manifest, error, skipped } => {
                self.skipped(manifest, &skipped)?;
                self.list_ended(manifest, error.as_ref(), &skipped)?;
            }
        }
        match self.at_once {
            true => self.output.with(Output::flush),
            false => Ok(()),
        }
    }

    /// Says that a file is in no list, or not in this one of its bag.
    pub(super) fn extra(&mut self, path: &Path, manifest: Option<usize>) -> Result<(), Failure> {
        self.total.extra += 1;
        self.worse(Exit::Mismatch);
        let name = path.as_os_str().as_bytes();
        if let Some(manifest) = manifest {
            self.reason(name, &format!("{} does not list it", self.shown(manifest)))?;
        }
        match self.options.json {
            true => self.output.with(|output| output.json("file", &CheckRecord::new(None, name, "extra"))),
            false => self.result(name, "EXTRA"),
        }
    }

    /// Says that something could not be looked at for extra files.
    pub(super) fn unseen(&mut self, error: &FileError) -> Result<(), Failure> {
        self.total.unreadable += 1;
        self.worse(Exit::Unchecked);
        let name = error.path().as_os_str().as_bytes().to_vec();
        self.say_of_file(&name, error)
    }

    /// Counts a file or line of `b3sum -c` that is not well.
    pub(super) fn fails(&mut self) {
        self.total.failed += 1;
        self.worse(Exit::Mismatch);
    }

    /// Says how it was as a whole. A place may not have answered for all.
    pub(crate) fn end(mut self, is_complete: bool) -> Result<(), Failure> {
        if self.options.dialect == Dialect::B3sum && self.total.failed > 0 && !self.is_over {
            self.count_failed(self.total.failed)?;
        }
        if self.is_own() && !self.options.status && !self.bad.is_empty() {
            let (bad, catalog) = (std::mem::take(&mut self.bad), self.options.catalog.as_deref());
            let unfit = self.unfit();
            let (bad_files, beyond) = bad.bad_files(catalog, unfit, |list, name| self.whole_path(list, name));
            let json = self.options.json;
            self.output.with(|output| bad_file::tell(&bad_files, beyond, None, json, output))?;
        }
        let is_valid = self.worst == Exit::Clean;
        // A bag of which files were left out may be valid or not.
        let is_judged = self.bags > 0 && (self.total.left_out == 0 || !is_valid);
        self.total.valid = is_judged.then_some(is_valid);
        // A bag that is not valid is no news that somebody wants to miss.
        let is_quiet = self.options.quiet && self.total.valid != Some(false);
        if self.options.json {
            let address = self.place.as_ref().map(|place| place.address);
            let summary = CheckSummary {
                host: address.map(|address| address.host.name()),
                counts: &self.total,
                complete: address.map(|_| is_complete),
                error: address.and_then(|address| self.output.failure_of(&address.host)),
            };
            self.output.with(|output| output.json("summary", &summary).and_then(|()| output.flush()))?;
        } else if self.is_own() && !is_quiet && !self.options.status && !self.is_over {
            if self.total.extra > 0 {
                self.count(self.total.extra, "file is not listed", "files are not listed")?;
            }
            let total = &self.total;
            let mut line = match total.valid {
                None => String::new(),
                Some(_) => format!("{}: ", self.verdict_of(self.bags)),
            };
            let _ = write!(line, "{} verified", total.verified);
            for (count, what) in [
                (total.size_only, "by size only"),
                (total.present, "by presence only"),
                (total.failed, "failed"),
                (total.missing, "missing"),
                (total.unreadable, "unreadable"),
                (total.unknown_digests, "of unknown digests"),
                (total.extra, "not listed"),
                (total.left_out, "left out"),
            ] {
                if count > 0 {
                    let _ = write!(line, ", {count} {what}");
                }
            }
            if !is_complete {
                match self.not_asked {
                    0 => line.push_str(", and not all were asked for"),
                    1 => line.push_str(", and 1 was not asked for"),
                    others => {
                        let _ = write!(line, ", and {others} were not asked for");
                    }
                }
            }
            self.say(&line)?;
        }
        Ok(())
    }

    /// What is said of bags.
    fn verdict_of(&self, bags: usize) -> &'static str {
        match (self.worst, bags) {
            (Exit::Clean, 1) => "the bag is valid",
            (Exit::Clean, _) => "the bags are valid",
            (_, 1) => "the bag is NOT valid",
            _ => "NOT all bags are valid",
        }
    }

    /// Whether it is worth while to look if a number that does not fit is a block hash instead of a digest, or the
    /// other way round. Lines of both kinds may stand in one list, and only the first that fail are read again.
    fn may_be_of_other_values(&self) -> bool {
        self.is_own() && self.list.failed < LOOKED_AT
    }

    /// Says what bare numbers of lists are taken for, where that is not certain.
    pub(crate) fn named_digests(&mut self, named: &[Option<NamedDigest>]) -> Result<(), Failure> {
        for (manifest, named) in named.iter().enumerate() {
            // What only the number of digits says is told if nothing matches.
            let named = named.as_ref().filter(|named| !matches!(named, NamedDigest::ByNumber { .. }));
            if let Some(named) = named.filter(|_| self.is_own() && !self.options.status) {
                self.say_of_list(&format!("{}: {named}", self.shown(manifest)))?;
            }
        }
        Ok(())
    }

    /// Says that a list is of other values than are computed for it. No file is bad for that, and nothing more is said
    /// of its lines. Of a list in which something was verified it is this line alone: the others may tell of rot.
    fn refuse(&mut self, manifest: usize, number: u64, what: &Misjudged) -> Result<(), Failure> {
        self.worse(Exit::Unchecked);
        let list = self.shown(manifest);
        if self.list.verified > 0 {
            return match std::mem::replace(&mut self.list.is_mixed, true) {
                true => Ok(()),
                false => self.say(&format!("{list}: {number}: {what}")),
            };
        }
        self.list.refused = true;
        self.bad.forget_list();
        // What is below --strict-tree is compared with the names of the whole list.
        self.is_over = manifest + 1 == self.names.len() && self.options.strict_tree.is_none();
        self.say(&format!("{list}: {what}"))
    }

    fn file(
        &mut self,
        manifest: usize,
        number: u64,
        listed: &Listed,
        outcome: &CheckOutcome,
    ) -> Result<(), Failure> {
        let Some(status) = self.count_file(listed, outcome)? else { return Ok(()) };
        if self.is_own() {
            self.remember(manifest, listed, outcome, status);
        }
        if self.options.json {
            return self.file_record(manifest, number, listed, outcome, status);
        }
        match status {
            "ok" | "size-only" if self.options.quiet => Ok(()),
            "ok" => self.result(&listed.name, "OK"),
            "size-only" => self.result(&listed.name, "OK (size only)"),
            "failed" => self.result(&listed.name, "FAILED"),
            _ => self.result(&listed.name, "FAILED open or read"),
        }
    }

    /// Counts a file, and returns its status; none if nothing is said of it.
    fn count_file(
        &mut self,
        listed: &Listed,
        outcome: &CheckOutcome,
    ) -> Result<Option<&'static str>, Failure> {
        self.list.formatted += 1;
        if self.options.ignore_missing && matches!(outcome, CheckOutcome::Missing(_)) {
            self.list.class.ignored();
            return Ok(None);
        }
        self.list.class.file(outcome);
        self.worse(outcome.class().into());
        Ok(Some(match outcome {
            CheckOutcome::Match => {
                self.list.verified += 1;
                "ok"
            }
            CheckOutcome::Present { sized: true } => {
                self.list.size_only += 1;
                "size-only"
            }
            // Directories, mostly, which nobody asked for.
            CheckOutcome::Present { sized: false } => {
                self.list.present += 1;
                return Ok(None);
            }
            CheckOutcome::Absent => return Ok(None),
            CheckOutcome::LeftOut => {
                self.list.left_out += 1;
                return Ok(None);
            }
            CheckOutcome::Unlike(difference) => {
                self.list.failed += 1;
                self.say_unlike(&listed.name, difference)?;
                "failed"
            }
            CheckOutcome::Mismatch(_) => {
                self.list.failed += 1;
                if let Some(claim) = listed.claims.iter().find(|claim| claim.assumed) {
                    self.list.assumed += 1;
                    let digits = claim.digest.as_bytes().len() * 2;
                    self.list.taken = Some((digits, claim.algorithm.to_string()));
                }
                "failed"
            }
            CheckOutcome::Missing(error) => {
                self.list.missing += 1;
                if self.list.missing == 1 && self.place.is_none() && self.is_own() {
                    let address = Address::parse(OsStr::from_bytes(&listed.name), false);
                    self.list.elsewhere = address.ok().map(|address| address.host);
                }
                self.say_of_file(&listed.name, error)?;
                MISSING
            }
            CheckOutcome::Failed(error) => {
                self.list.unreadable += 1;
                self.say_of_file(&listed.name, error)?;
                UNREADABLE
            }
        }))
    }

    /// Whether a good file may be the copy that repairs a bad one.
    fn may_repair_others(&self, manifest: usize, listed: &Listed, outcome: &CheckOutcome) -> bool {
        let is_told = self.is_own() && !self.options.status;
        is_told && matches!(outcome, CheckOutcome::Match) && !self.is_stdin(manifest, listed)
    }

    fn is_stdin(&self, manifest: usize, listed: &Listed) -> bool {
        listed.name == b"-" && self.base(manifest) == Path::new("") && self.place.is_none()
    }

    /// Keeps a bad file for the end, where its repair is named.
    fn remember(&mut self, manifest: usize, listed: &Listed, outcome: &CheckOutcome, status: &'static str) {
        let outcome = match status {
            UNREADABLE if is_of_storage(outcome) => Verdict::IoError.name(),
            "failed" | UNREADABLE | MISSING => status,
            _ => return,
        };
        // Nothing repairs standard input.
        if self.is_stdin(manifest, listed) {
            return;
        }
        let path = self.whole_path(manifest, &listed.name);
        let base = self.base(manifest).to_path_buf();
        // No list repairs what is not on this machine, and standard input cannot be read again.
        let list = self.names.get(manifest).filter(|name| self.place.is_none() && *name != "-");
        let (algorithm, ignores_missing) = (self.options.algorithm.as_deref(), self.options.ignore_missing);
        let list = list.map(|path| ListAt { path: Path::new(path), base: &base, algorithm, ignores_missing });
        self.bad.add(list, path, listed, outcome);
    }

    /// Why no list repairs what it names.
    fn unfit(&self) -> Option<&'static str> {
        let unread =
            self.lists_unread.then_some("a list could not be read: it may be a directory that is not there");
        let left_out = self.options.excludes.is_some();
        unread.or(left_out.then_some("it would repair what --exclude leaves out, too"))
    }

    /// Where the names of a list begin.
    fn base(&self, manifest: usize) -> &Path {
        self.bases.get(manifest).and_then(Option::as_deref).unwrap_or(Path::new(""))
    }

    /// The whole path of a file that a list names, or its address.
    fn whole_path(&self, manifest: usize, name: &[u8]) -> PathBuf {
        let address = self.place.as_ref().map(|place| place.address);
        let path: PathBuf = match address.map(|address| (&address.host, address.join(name))) {
            None => self.base(manifest).join(OsStr::from_bytes(name)),
            // A key with `//` is one of its own.
            Some((Host::Bucket(url), path)) => OsString::from_vec([url.as_bytes(), &path].concat()).into(),
            Some((host, path)) => OsString::from_vec(Address::new(host.clone(), &path).address()).into(),
        };
        match is_address(&path) {
            true => path,
            false => std::path::absolute(&path).unwrap_or(path),
        }
    }

    /// Prints a file as a line of JSON.
    fn file_record(
        &mut self,
        manifest: usize,
        number: u64,
        listed: &Listed,
        outcome: &CheckOutcome,
        status: &'static str,
    ) -> Result<(), Failure> {
        let mut record =
            CheckRecord::new(self.names.get(manifest).map(OsString::as_os_str), &listed.name, status);
        record.line = Some(number);
        if let Some(place) = &mut self.place {
            (record.host, record.way) = (Some(place.address.host.name()), Some(place.way));
            record.evidence = place.evidence.take();
        }
        record.tag = record::tag(listed);
        let (claimed, found) = record::states(listed, outcome);
        (record.listed, record.found) = (Some(claimed), found);
        record.error = match outcome {
            CheckOutcome::Missing(error) | CheckOutcome::Failed(error) => Some(why(error)),
            CheckOutcome::Unlike(difference) => Some(unlike(difference)),
            _ => None,
        };
        self.output.with(|output| output.json("file", &record))
    }

    fn bad(&mut self, manifest: usize, number: u64, bad: &Bad) -> Result<(), Failure> {
        if self.is_own() {
            self.list.class.bad(bad);
            self.worse(self.list.class.so_far().into());
        }
        match bad {
            Bad::UnknownDigest(_) if self.is_own() => self.list.unknown_digests += 1,
            _ => self.list.bad_lines += 1,
        }
        let too_long = *bad == Bad::TooLong && self.is_own();
        if !self.options.warn && !too_long {
            return Ok(());
        }
        let what = match bad {
            Bad::TooLong if too_long => format!("line is {bad}"),
            Bad::UnknownDigest(_) | Bad::NoValue { .. } | Bad::LongName if self.is_own() => {
                names::plain(&bad.to_string())
            }
            Bad::Untagged(tag) => format!("improperly formatted {tag} checksum line"),
            _ => {
                let tag = self.options.algorithm.as_deref().map(|id| format!("{} ", manifest::tag(id)));
                format!("improperly formatted {}checksum line", tag.unwrap_or_default())
            }
        };
        self.say_of_list(&format!("{}: {number}: {what}", self.shown(manifest)))
    }

    /// Says whether comments may have been files.
    fn skipped(&mut self, manifest: usize, skipped: &Skipped) -> Result<(), Failure> {
        self.total.comments += skipped.comments;
        match skipped.doubt().filter(|_| self.is_own() && !self.options.status) {
            Some(doubt) => self.say_of_list(&format!("{}: WARNING: {doubt}", self.shown(manifest))),
            None => Ok(()),
        }
    }

    /// Whether this is `verisum check` rather than another program of its own name.
    fn is_own(&self) -> bool {
        self.options.program == PROGRAM
    }

    pub(super) fn worse(&mut self, exit: Exit) {
        self.worst = self.worst.max(exit);
        self.output.worse(exit);
    }
}
