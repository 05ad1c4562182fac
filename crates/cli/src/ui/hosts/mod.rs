//! Trees on other machines, for all verbs: their addresses, the options to reach them, and the reports.

mod buckets;
mod costs;
mod evidence;
mod reach;
mod record;
mod report;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueHint};
use verisum::digest::Digest;
use verisum::files::lock;
use verisum::files::place::{DEFAULT_TIMEOUT, Place};
use verisum::object::StoreLists;

use self::buckets::location;
pub(crate) use self::buckets::{BucketArgs, ObjectReading, StoreArgs, takes_buckets};
pub(crate) use self::costs::Costs;
pub(crate) use self::evidence::{EvidenceCounts, Evidences, ObjectEvidence, RecordedArgs};
pub(crate) use self::reach::Reach;
pub(crate) use self::record::PlaceRecord;
pub(crate) use self::report::{PlaceReport, tally, without_name};
use crate::ui::config;
use crate::ui::failure::Failure;
use crate::ui::names;
use crate::ui::{configured_places, digests, kernel, progress, shell, standard_input, values, verbosity};
use verisum::remote::{
    Address, Folder, Host, HostOptions, Hosts, OpenError, Program, SshOptions, WAYS, is_url, without_secrets,
};

/// How long a host may be silent, unless somebody says otherwise: as it would be typed.
pub(crate) fn default_timeout() -> String {
    format!("{}s", DEFAULT_TIMEOUT.as_secs())
}

/// How many hosts are worked on at once, unless somebody says otherwise.
const AT_ONCE: usize = 8;
/// Each takes a thread and two processes of ssh here.
const MOST_AT_ONCE: usize = 256;

/// What is wrong with an address where files of this machine are taken.
const ONLY_HERE: &str =
    "must be on this machine: this command takes no such address (./ before the name of a file)";

/// The heading of these options in help texts.
pub(crate) const HOSTS: &str = "Files on other machines";

/// Fails for the first option that was given and that files on other machines do not have.
pub(crate) fn refuse(options: &[(&str, bool)]) -> Result<(), Failure> {
    refuse_because("not for files on other machines", options)
}

/// The same with another reason.
pub(crate) fn refuse_because(why: &str, options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(option, is_given)| *is_given && !config::is_untyped(option)) {
        Some((option, _)) => Err(Failure::Usage(format!("{option}: {why}"))),
        None => Ok(()),
    }
}

/// How to reach hosts, and what to use there.
#[derive(Args, Debug)]
pub(crate) struct HostArgs {
    /// Configuration file of ssh, instead of your own
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = readable)]
    ssh_config: Option<PathBuf>,

    /// Give up on a host that does not answer for this long
    #[arg(long, value_name = "DURATION", default_value_t = default_timeout())]
    timeout: String,

    /// Hash only with these programs; the best one that the host has is used
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = WAYS)]
    require: Vec<String>,

    /// Use this program to hash; the same as --require with one
    #[arg(long, value_name = "WAY", value_parser = WAYS, conflicts_with = "require", hide_possible_values = true)]
    way: Option<String>,

    /// During the run, put verisum-serve, or the build of it in FILE, on hosts that have no verisum
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    push: Option<Vec<PathBuf>>,

    /// List the bucket from its S3 Inventory; this is the manifest, in a file or at s3://BUCKET/KEY
    #[arg(long, value_name = "MANIFEST", value_hint = ValueHint::FilePath, help_heading = buckets::BUCKETS)]
    inventory: Option<OsString>,

    /// Take checksums from the completion report of a Compute checksum job; this is its manifest, in a file or
    /// at s3://BUCKET/KEY
    #[arg(long, value_name = "MANIFEST", value_hint = ValueHint::FilePath, help_heading = buckets::BUCKETS)]
    checksum_report: Option<OsString>,

    #[command(flatten)]
    buckets: BucketArgs,
}

/// Many hosts.
#[derive(Args, Debug)]
pub(crate) struct ManyArgs {
    /// Read the hosts from this file, one a line; the paths that you name are then on each host. - is
    /// standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    hosts: Option<PathBuf>,

    /// How many hosts to work on at once
    #[arg(long, value_name = "N", default_value_t = AT_ONCE, value_parser = at_once)]
    hosts_at_once: usize,
}

/// A file that ssh would only miss when it connects.
fn readable(text: &str) -> Result<PathBuf, String> {
    match std::fs::File::open(text) {
        Ok(_) => Ok(PathBuf::from(text)),
        Err(error) => Err(crate::ui::failure::cause(&error)),
    }
}

fn at_once(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_AT_ONCE).contains(number));
    number.ok_or_else(|| format!("must be 1 to {MOST_AT_ONCE}"))
}

/// The places on one host.
#[derive(Clone, Debug)]
pub(crate) struct OnHost {
    pub(crate) host: Host,
    pub(crate) places: Vec<Address>,
}

impl OnHost {
    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self.host, Host::Bucket(_))
    }
}

impl ManyArgs {
    /// Tells the addresses among what was typed from the paths of this machine, which are returned first.
    pub(crate) fn split(&self, typed: &[OsString]) -> Result<(Vec<OsString>, Vec<OnHost>), Failure> {
        if self.hosts.is_some() {
            return Ok((Vec::new(), self.places(typed)?));
        }
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for text in typed {
            let place = Address::typed(text).map_err(|must| bad_place(text, must))?;
            if place.is_some() { there.push(text.clone()) } else { here.push(text.clone()) }
        }
        Ok((here, self.places(&there)?))
    }

    /// The same for `check`, whose first operand is a list where the hosts are in a file.
    pub(crate) fn lists_and_places(
        &self,
        typed: &[OsString],
    ) -> Result<(Vec<OsString>, Vec<OnHost>), Failure> {
        match (&self.hosts, typed) {
            (None, _) => self.split(typed),
            (Some(_), [list, paths @ ..]) => Ok((vec![list.clone()], self.places(paths)?)),
            (Some(_), []) => Err(Failure::Usage("--hosts: needs a LIST and a path on the hosts".to_string())),
        }
    }

    /// The places by their hosts, in the order in which hosts were first named.
    pub(crate) fn places(&self, typed: &[OsString]) -> Result<Vec<OnHost>, Failure> {
        let mut found: Vec<OnHost> = Vec::new();
        let mut add = |place: Address| match found.iter_mut().find(|on| on.host == place.host) {
            Some(on) => on.places.push(place),
            None => found.push(OnHost { host: place.host.clone(), places: vec![place] }),
        };
        match &self.hosts {
            None => typed.iter().try_for_each(|text| parse(text, false).map(&mut add))?,
            Some(_) if typed.is_empty() => {
                return Err(Failure::Usage("--hosts: needs a path on the hosts".to_string()));
            }
            Some(file) => {
                for path in typed {
                    refuse_place(path)?;
                }
                for host in hosts(file)? {
                    for path in typed {
                        add(Address::new(host.clone(), path.as_bytes()));
                    }
                }
            }
        }
        Ok(found)
    }

    /// How many hosts at once.
    pub(crate) fn at_once(&self) -> usize {
        self.hosts_at_once
    }

    /// Whether the host stands before names: where files are in several places, of which this machine may be one, and
    /// where there may be several hosts the next time.
    pub(crate) fn names_hosts(&self, is_here_too: bool, places: &[OnHost]) -> bool {
        self.hosts.is_some() || usize::from(is_here_too) + places.len() > 1
    }
}

/// With a file of hosts, `HOST:PATH` would be taken for a path.
fn refuse_place(typed: &OsString) -> Result<(), Failure> {
    match Address::parse(typed, false) {
        Err(_) => Ok(()),
        Ok(_) => Err(Failure::Value {
            option: "PLACE",
            value: typed.to_string_lossy().into_owned(),
            must: "must be a path where there is --hosts (./NAME for a name with a colon)".to_string(),
        }),
    }
}

/// A tree of any machine as it was typed: its address, and the place where it is.
pub(crate) fn tree(text: &OsString, hosts: &Hosts) -> Result<(Address, Box<dyn Place>), Failure> {
    hosts.tree(text).map_err(|error| match error {
        OpenError::Address(must) => bad_place(text, must),
        error => not_opened(text.to_string_lossy().into_owned(), error),
    })
}

/// Whether a tree is typed as one of another machine.
pub(crate) fn is_remote(text: &OsString) -> bool {
    matches!(Address::typed(text), Ok(Some(address)) if address.host != Host::Local)
}

/// A place as it was typed.
pub(crate) fn parse(text: &OsString, plain: bool) -> Result<Address, Failure> {
    Address::parse(text, plain).map_err(|must| bad_place(text, must))
}

/// Fails for URLs, which are always addresses, where only files of this machine are taken.
pub(crate) fn refuse_urls(typed: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<(), Failure> {
    let url = |text: &OsStr| is_url(text.as_bytes()).then(|| Address::parse(text, false));
    typed.into_iter().try_for_each(|text| match url(text.as_ref()) {
        None => Ok(()),
        Some(Err(must)) => Err(bad_place(text.as_ref(), must)),
        Some(Ok(_)) => Err(bad_place(text.as_ref(), ONLY_HERE)),
    })
}

/// What was typed for a place, and is none.
pub(crate) fn bad_place(text: &OsStr, must: impl ToString) -> Failure {
    Failure::value("PLACE", without_secrets(text).to_string_lossy(), must.to_string())
}

/// The hosts of a file: a name or an address in each line; what follows # is a comment.
fn hosts(file: &PathBuf) -> Result<Vec<Host>, Failure> {
    let is_stdin = file.as_os_str() == "-";
    if is_stdin {
        standard_input::take("--hosts")?;
    }
    let name = if is_stdin { PathBuf::from("standard input") } else { file.clone() };
    let mut text = Vec::new();
    let read = match is_stdin {
        true => stdin().lock().read_to_end(&mut text).map(drop),
        false => std::fs::read(file).map(|found| text = found),
    };
    read.map_err(|error| Failure::File { name: name.clone(), operation: "read", error })?;
    let mut hosts = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            continue;
        }
        let host = Host::of_line(line).map_err(|wrong| {
            // Before it there may be a password.
            let shown = line.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
            let line = names::plain(&String::from_utf8_lossy(shown));
            Failure::Usage(format!("--hosts: {}:{}: {line}: {wrong}", name.display(), number + 1))
        })?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    match hosts.is_empty() {
        true => Err(Failure::Usage(format!("--hosts: {} names no host", name.display()))),
        false => Ok(hosts),
    }
}

impl HostArgs {
    /// What sessions take. With several hosts ssh asks for nothing: nobody would know for which.
    ///
    /// # Errors
    /// A program that is to be pushed cannot be read.
    pub(crate) fn options(&self, hosts: usize) -> Result<HostOptions, Failure> {
        let may_ask = hosts == 1 && rustix::termios::isatty(rustix::stdio::stdin());
        if may_ask {
            progress::leave_terminal();
        }
        let mut required = self.require.clone();
        required.extend(self.way.clone());
        let mut ssh = SshOptions::default();
        ssh.config = self.ssh_config.clone();
        ssh.timeout = timeout(&self.timeout)?;
        ssh.may_ask = may_ask;
        let push = self.push.as_deref().map(programs).transpose()?.map(Arc::new);
        let mut options = HostOptions::default();
        options.ssh = ssh;
        options.required = required;
        options.push = push;
        Ok(options)
    }
}

impl HostArgs {
    /// Those of the options that were typed which say where hosts and buckets are.
    pub(crate) fn reach(&self) -> Reach {
        let absolute =
            |file: &PathBuf| std::path::absolute(file).unwrap_or_else(|_| file.clone()).into_os_string();
        let config = self.ssh_config.as_ref().map(|file| ("--ssh-config", Some(absolute(file))));
        let options = config.into_iter().chain(self.buckets.reach());
        Reach::new(options.filter(|(option, _)| !config::is_untyped(option)))
    }

    /// The options that were typed, with a space before each: another command is to reach the same hosts and buckets.
    pub(crate) fn typed(&self) -> String {
        let is_typed = |option: &str| !config::is_untyped(option);
        let timeout =
            Some(self.timeout.clone().into_bytes()).filter(|text| text != default_timeout().as_bytes());
        let require = self.require.join(",").into_bytes();
        let way = self.way.clone().map(String::into_bytes);
        let options = [
            ("--timeout", timeout),
            ("--require", Some(require).filter(|words| !words.is_empty())),
            ("--way", way),
        ];
        let typed = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let typed = typed.filter(|(option, _)| is_typed(option));
        let mut words = self.reach().text();
        words.extend(typed.map(|(option, value)| format!(" {option} {}", shell::word(&value))));
        for file in self.push.iter().flatten() {
            words += &format!(" --push={}", shell::word(file.as_os_str().as_bytes()));
        }
        if self.push.as_ref().is_some_and(Vec::is_empty) {
            words += " --push";
        }
        words
    }

    /// How so many hosts are reached.
    ///
    /// # Errors
    /// A program that is to be pushed cannot be read; a report is given, of which the verb has no use.
    pub(crate) fn hosts(&self, hosts: usize) -> Result<Hosts, Failure> {
        self.hosts_reading(hosts, ObjectReading::default())
    }

    /// The same, where objects are read in this way.
    pub(crate) fn hosts_reading(&self, hosts: usize, reading: ObjectReading) -> Result<Hosts, Failure> {
        match self.checksum_report {
            Some(_) => Err(Failure::Usage("--checksum-report: only for compare, copy and scrub".to_string())),
            None => self.hosts_with_report(hosts, reading),
        }
    }

    /// The same for verbs that ask stores for their records.
    pub(crate) fn hosts_with_report(&self, hosts: usize, reading: ObjectReading) -> Result<Hosts, Failure> {
        let config = |host: &Host| configured_places::of(host, "ssh-config").map(PathBuf::from);
        let hosts = Hosts::new(self.options(hosts)?, &std::env::temp_dir())
            .with_ssh_configs(Box::new(config))
            .with_unreachable_note(Box::new(mistyped));
        let lists = StoreLists {
            inventory: self.inventory.as_ref().map(|typed| location("--inventory", typed)).transpose()?,
            checksum_report: self
                .checksum_report
                .as_ref()
                .map(|typed| location("--checksum-report", typed))
                .transpose()?,
        };
        self.buckets.opened_by(hosts, timeout(&self.timeout)?, (lists, reading))
    }

    /// Fails for buckets with an endpoint that is none, before any work.
    pub(crate) fn require_endpoints<'a>(
        &self,
        hosts: impl IntoIterator<Item = &'a Host>,
    ) -> Result<(), Failure> {
        for host in hosts {
            let Host::Bucket(bucket) = host else { continue };
            self.buckets.check()?;
            if let Err(failure @ Failure::Usage(_)) = self.buckets.open(bucket) {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// What stores were asked for so far; none where none was.
    pub(crate) fn costs(&self) -> Option<Costs> {
        self.buckets.costs()
    }

    /// Says what stores were asked for, and what objects are known by, where that was asked for.
    pub(crate) fn say_evidence(
        &self,
        report: &PlaceReport,
        (json, quiet): (bool, bool),
        evidence: Option<EvidenceCounts>,
    ) {
        if let Some(counts) = evidence.as_ref().filter(|_| !json && !quiet) {
            report.say(&counts.text());
        }
        match self.costs() {
            Some(costs) if json => drop(report.json("costs", &costs.with_evidence(evidence))),
            Some(costs) if !quiet => drop(report.say(&costs.text())),
            _ => (),
        }
    }

    /// Says what stores were asked for.
    pub(crate) fn say_costs(&self, report: &PlaceReport, json: bool, quiet: bool) {
        self.say_evidence(report, (json, quiet), None);
    }
}

/// How many seconds a host may be silent.
pub(crate) fn timeout(text: &str) -> Result<Duration, Failure> {
    let duration = values::duration("--timeout", text)?;
    Some(duration)
        .filter(|duration| duration.as_secs() <= 86_400)
        .ok_or_else(|| Failure::value("--timeout", text, "must be a day at most"))
}

/// What a name on the command line may be if its host cannot be reached: that of a file here with a colon, mistyped.
fn mistyped(host: &Host) -> Option<String> {
    let is_of_host = |text: &OsString| {
        let is_name = |address: &Address| address.host == *host && !address.path.starts_with(b"/");
        !is_url(text.as_bytes()) && Address::parse(text, false).is_ok_and(|address| is_name(&address))
    };
    let typed = std::env::args_os().skip(1).find(is_of_host)?;
    Some(format!("no file is called {} here", names::quoted(&typed)))
}

/// What may be pushed.
fn programs(files: &[PathBuf]) -> Result<Vec<Program>, Failure> {
    let failed = |name, error| Failure::File { name, operation: "read", error };
    match files {
        [] => Ok(vec![Program::own().map_err(|error| failed(PathBuf::from("verisum"), error))?]),
        files => files
            .iter()
            .map(|file| Program::open(file).map_err(|error| failed(file.clone(), error)))
            .collect(),
    }
}

/// The digest of this name, as it is computed here.
pub(crate) fn digest(name: &str) -> Result<Digest, Failure> {
    digests::find(name, &kernel::policy()?)
}

/// The folder for sockets, if a host needs one.
pub(crate) fn folder<'a>(mut hosts: impl Iterator<Item = &'a Host>) -> Result<Option<Folder>, Failure> {
    match hosts.any(|host| matches!(host, Host::Ssh { .. })) {
        false => Ok(None),
        true => Folder::new(&std::env::temp_dir()).map(Some).map_err(no_folder),
    }
}

/// The files of a host.
pub(crate) fn place(hosts: &Hosts, host: &Host) -> Result<Box<dyn Place>, Failure> {
    verbosity::how(|| format!("place {}", names::plain(&host.name())));
    hosts.place(host).map_err(|error| not_opened(host.name(), error))
}

/// A host that is ready to compute digests, and what computes them there; what goes wrong is reported.
pub(crate) fn open(
    hosts: &Hosts,
    host: &Host,
    digests: &[Digest],
    report: &PlaceReport,
) -> Option<(Box<dyn Place>, &'static str)> {
    let mut place = match place(hosts, host) {
        Ok(place) => place,
        Err(failure) => {
            report.fail(host, &failure);
            return None;
        }
    };
    way(&mut *place, host, digests, report).map(|way| (place, way))
}

/// What computes digests on a host; what goes wrong is reported.
pub(crate) fn way(
    place: &mut dyn Place,
    host: &Host,
    digests: &[Digest],
    report: &PlaceReport,
) -> Option<&'static str> {
    match place.capabilities(digests, &|event| report.event(host, event)) {
        Ok(capabilities) => {
            let way = capabilities.way;
            for digest in digests.iter().map(Digest::name) {
                verbosity::how(|| format!("{}: {digest} is computed by {way}", names::plain(&host.name())));
            }
            Some(capabilities.way)
        }
        Err(error) => {
            report.failed(host, error.to_string());
            None
        }
    }
}

/// Why a place was not opened. An endpoint that is none is bad usage, wherever it is set.
fn not_opened(name: String, error: OpenError) -> Failure {
    let is_usage =
        |error: &verisum::object::OpenError| matches!(error, verisum::object::OpenError::Endpoint(_));
    match error {
        OpenError::Bucket(error) if error.downcast_ref().is_some_and(is_usage) => {
            Failure::Usage(format!("{name}: {error}"))
        }
        OpenError::Folder(error) => no_folder(error),
        error => Failure::Program { name, why: error.to_string() },
    }
}

fn no_folder(error: std::io::Error) -> Failure {
    Failure::File { name: std::env::temp_dir(), operation: "make a private directory", error }
}

/// Does the work of each host, some at once.
pub(crate) fn each<T: Sync>(hosts: &[T], at_once: usize, work: &(dyn Fn(&T) + Sync)) {
    if let [one] = hosts {
        return work(one);
    }
    let queue: Mutex<VecDeque<&T>> = Mutex::new(hosts.iter().collect());
    let next = || lock(&queue).pop_front();
    thread::scope(|scope| {
        for _ in 0..at_once.min(hosts.len()) {
            scope.spawn(|| {
                while let Some(one) = next() {
                    work(one);
                }
            });
        }
    });
}
