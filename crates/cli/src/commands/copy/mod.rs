//! `verisum copy`: copies trees and verifies the copies.

mod report;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use verisum::catalog::store::{Catalog, Lock};
use verisum::files::place::PlaceError;
use verisum::files::store::xattr::id_of;
use verisum::files::{Stop, Walk, WalkOptions};
use verisum::mend::copy::{
    CopyEvent, CopyOptions, CopyRecorder, Reflink, RemoteTree, SumsList, Verification, copy, copy_between,
    copy_from, copy_to,
};
use verisum::remote::{Address, Host, Hosts};

use crate::ui::catalog::{CatalogArgs, absolute};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{HOSTS, HostArgs, ObjectReading};
use crate::ui::progress::{self, Total};
use crate::ui::reading::{ExcludeArgs, RateArgs};
use crate::ui::signals::Ending;
use crate::ui::{self, Output, PROGRAM, digests, hosts, kernel, sizes, verbosity};

use report::{CopyReporter, Shown, of_list};

/// What `verisum copy` takes.
#[derive(Args, Debug)]
pub(crate) struct CopyArgs {
    /// The digest; without it, the digest of a file's record, or sha256. `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST")]
    algorithm: Option<String>,

    /// How to make sure that a copy is good before it gets its name
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    verify: VerifyArg,

    /// Whether copies share their storage with the originals
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    reflink: ReflinkArg,

    /// Also copy files that are not as recorded; they are still reported
    #[arg(long)]
    allow_bad: bool,

    /// Compare the records of both sides if both have one, instead of sizes and times
    #[arg(short, long)]
    update: bool,

    /// Write tags to the copies
    #[arg(long)]
    tag: bool,

    /// Add the digests of the copies to this list; `verisum check -C TO FILE` reads it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    sums: Option<PathBuf>,

    #[command(flatten)]
    catalog: CatalogArgs,

    /// Add TO to the catalogue as a tree of its own, and record the copies. If the catalogue knows TO, the
    /// copies are recorded without this option
    #[arg(long)]
    record: bool,

    /// Stay on the file system of FROM
    #[arg(short = 'x', long)]
    one_file_system: bool,

    #[command(flatten)]
    excluded: ExcludeArgs,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    threads: sizes::ThreadArgs,

    /// Print a line of JSON for each problem, and one with the totals
    #[arg(long)]
    json: bool,

    /// Print only problems; nothing if all is well
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// A directory, whose content is copied, or a file; on another machine HOST:PATH, or s3://BUCKET/PREFIX
    #[arg(value_name = "FROM", value_hint = ValueHint::AnyPath)]
    from: OsString,

    /// The copy of FROM: a directory, which is made if it does not exist, or a file if FROM is one; also HOST:PATH, or s3://BUCKET/PREFIX
    #[arg(value_name = "TO", value_hint = ValueHint::AnyPath)]
    to: OsString,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum VerifyArg {
    /// Write it to the disk, read it back past the cache, compare the digest
    #[default]
    Reread,
    /// Write it to the disk
    Written,
    /// Leave it to the system, as cp does
    None,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ReflinkArg {
    /// Never: damage to one leaves the other good
    #[default]
    Never,
    /// If the file system can
    Auto,
    /// A file that cannot be shared is not copied
    Always,
}

/// Does what `verisum copy` was asked for.
pub(crate) fn run(arguments: CopyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let [source, target] = arguments.places()?;
    let ending = Ending::new()?;
    raise_open_files();
    let mut options = arguments.options()?;
    options.stop = Stop::when(ending.asked().clone()).into();
    let (from, to) = (Path::new(&arguments.from), Path::new(&arguments.to));
    let list = arguments.sums.as_deref().map(SumsList::open).transpose().map_err(of_list)?;
    let recorder = match &target {
        Some(_) => None,
        None => arguments.recorder(to, options.verification)?,
    };
    options.record = recorder.is_some();
    let catalog = arguments.records()?;
    let total = match source {
        Some(_) => Total::Unknown,
        None => arguments.total(&options),
    };
    let reporter = CopyReporter::new(
        Shown { json: arguments.json, quiet: arguments.quiet, verbose: verbosity::names_all() },
        target.as_ref().is_some_and(|target| matches!(target.tree.host, Host::Bucket(_))),
        &options,
        (list, recorder),
        output,
    );
    let wanted = arguments.rate.progress();
    let copied = progress::of_files(wanted, total, &options.progress, || {
        let sink = &|event: &CopyEvent| reporter.event(event);
        match (&source, &target) {
            (Some(source), Some(target)) => source
                .opened(|from| target.opened(|to| copy_between(from, to, &options, catalog.as_ref(), sink))),
            (Some(source), None) => {
                source.opened(|from| copy_from(from, to, &options, catalog.as_ref(), sink))
            }
            (None, Some(target)) => target.opened(|to| copy_to(from, to, &options, catalog.as_ref(), sink)),
            (None, None) => copy(from, to, &options, catalog.as_ref(), sink),
        }
    });
    let ended = reporter.end(copied, arguments.hosts.costs().as_ref());
    ending.obey();
    ended
}

/// A tree on another machine.
struct Remote {
    hosts: Hosts,
    tree: Address,
    /// Its address, as the catalogue has it.
    address: PathBuf,
}

impl Remote {
    fn opened<T>(&self, act: impl FnOnce(RemoteTree) -> T) -> T {
        let open = || {
            let opened = self.hosts.place(&self.tree.host);
            opened.map_err(|error| PlaceError::Machine(error.into()))
        };
        act(RemoteTree { address: &self.address, root: &self.tree.path, open: &open })
    }
}

impl CopyArgs {
    /// FROM and TO, as far as they are on other machines.
    fn places(&self) -> Result<[Option<Remote>; 2], Failure> {
        // Also this machine by the programs of a host.
        let is_remote = |text| match Address::typed(text) {
            Ok(address) => Ok(address.is_some()),
            Err(must) => Err(hosts::bad_place(text, must)),
        };
        let is_remote = [is_remote(&self.from)?, is_remote(&self.to)?];
        if is_remote == [false, false] {
            return Ok([None, None]);
        }
        hosts::refuse(&[
            ("--update", self.update),
            ("--one-file-system", self.one_file_system && is_remote[0]),
            ("--reflink", !matches!(self.reflink, ReflinkArg::Never)),
            ("--tag", self.tag && is_remote[1]),
            ("--record", self.record && is_remote[1]),
        ])?;
        let source = if is_remote[0] { Some(self.remote(&self.from)?) } else { None };
        if !is_remote[1] {
            return Ok([source, None]);
        }
        if source.is_some() {
            // Nobody knows yet whether FROM is a file.
            return Ok([source, Some(self.remote(&self.to)?)]);
        }
        let mut target = self.remote(&self.to)?;
        // As into a directory.
        let ends_with_slash = self.to.as_bytes().ends_with(b"/") || target.tree.path == b"/";
        let from = Path::new(&self.from);
        if let Some(name) = from.file_name().filter(|_| ends_with_slash && !from.is_dir()) {
            target.tree = Address::new(target.tree.host.clone(), &target.tree.join(name.as_bytes()));
            target.address = target.address.join(name);
        }
        Ok([None, Some(target)])
    }

    /// A tree on another machine.
    fn remote(&self, typed: &OsString) -> Result<Remote, Failure> {
        let tree = hosts::parse(typed, false)?;
        let address = match tree.host {
            Host::Local => PathBuf::from(typed),
            _ => tree.recorded().map_err(|must| {
                let value = typed.to_string_lossy().into_owned();
                Failure::Value { option: "PLACE", value, must: must.to_string() }
            })?,
        };
        let hosts = self.hosts.hosts_with_report(1, ObjectReading::default())?;
        self.hosts.require_endpoints([&tree.host])?;
        Ok(Remote { hosts, tree, address })
    }

    fn options(&self) -> Result<CopyOptions, Failure> {
        let policy = kernel::policy()?;
        let algorithm = self.algorithm.as_deref();
        let algorithm = algorithm.map(|name| digests::to_record("--algorithm", name, &policy)).transpose()?;
        let has_place = algorithm.as_ref().is_none_or(|digest| digest.algorithm().and_then(id_of).is_some());
        if self.tag && !has_place {
            let name = self.algorithm.clone().unwrap_or_default();
            return Err(Failure::value("--algorithm", name, "tags have no place for it"));
        }
        let mut options = CopyOptions::default();
        options.algorithm = algorithm;
        options.policy = policy;
        options.verification = match self.verify {
            VerifyArg::Reread => Verification::Reread,
            VerifyArg::Written => Verification::Written,
            VerifyArg::None => Verification::None,
        };
        options.reflink = match self.reflink {
            ReflinkArg::Never => Reflink::Never,
            ReflinkArg::Auto => Reflink::Auto,
            ReflinkArg::Always => Reflink::Always,
        };
        options.allow_bad = self.allow_bad;
        options.update = self.update;
        options.tag = self.tag;
        options.scratch = std::env::temp_dir();
        options.one_file_system = self.one_file_system;
        options.excludes = self.excluded.excludes()?;
        options.limits = self.rate.limits()?;
        options.threads = self.threads.or_cores()?;
        Ok(options)
    }

    /// The catalogue, if there is one. The usual one that cannot be used is said to be so.
    fn records(&self) -> Result<Option<Catalog>, Failure> {
        match self.catalog.open_if_there() {
            Err(failure) if self.catalog.catalog.is_none() => {
                ui::say(PROGRAM, &failure.message());
                Ok(None)
            }
            opened => opened,
        }
    }

    /// What records the copies: the catalogue, if it knows TO or is to know it.
    fn recorder(
        &self,
        to: &Path,
        verification: Verification,
    ) -> Result<Option<(Lock, CopyRecorder)>, Failure> {
        let opened = match self.record {
            true => Some(self.catalog.open()?),
            false => self.catalog.open_if_known(&absolute(to)?, "the copies are not recorded")?,
        };
        let recorder =
            |(lock, catalog)| Ok((lock, CopyRecorder::new(catalog, to, self.record, verification)?));
        opened.map(recorder).transpose()
    }

    /// How much there is to copy, found out by a walk of its own.
    fn total(&self, options: &CopyOptions) -> Total {
        let mut walk = WalkOptions::default();
        walk.one_file_system = options.one_file_system;
        walk.excludes = options.excludes.clone();
        Total::walked(Walk::new(vec![PathBuf::from(&self.from)], walk))
    }
}

/// Lets this process open as many files as it may: copies stay open until many of them are on the disk.
fn raise_open_files() {
    const WANTED: u64 = 16 << 10;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(WANTED).min(WANTED);
    if limit.current.is_some_and(|current| current < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}
