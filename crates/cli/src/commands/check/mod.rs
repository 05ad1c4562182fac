//! `verisum check`: files against lists of checksums, with the options and messages of the coreutils.

mod hosts;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use verisum::files::check::manifests_of;
use verisum::files::store::manifest::{BlockHashes, Dialect};

use crate::list_check::{CheckResultArgs, ListCheckOptions, lists_of};
use crate::ui::catalog::open_shared;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{
    HOSTS, HostArgs, ManyArgs, OnHost, RecordedArgs, refuse, refuse_because, refuse_urls,
};
use crate::ui::reading::ReadingArgs;
use crate::ui::{Output, PROGRAM, config, digests, sizes, standard_input};

/// Why nothing is said of files that no list has.
const UNLISTED: &str = "hosts and buckets are asked for the files of the list and list none themselves; \
                        `verisum compare` names what is there besides";
/// Why nothing is left out.
const ALL_LINES: &str = "hosts and buckets are asked for every line of the list: leave lines out of it";

/// Why names begin nowhere else.
const AT_PLACE: &str = "the names in the lists begin at the address";

/// What `verisum check` takes.
#[derive(Args, Debug)]
#[command(mut_arg("checksum_report", |report| report.hide(true)))]
// -t is text mode in sum and in the coreutils.
#[command(mut_arg("threads", |threads| threads.help(sizes::ThreadArgs::WITH_BUCKETS).short_alias(None::<char>)))]
pub(crate) struct CheckArgs {
    /// The digest, if the list does not name it; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST")]
    pub(crate) algorithm: Option<String>,

    #[command(flatten)]
    results: CheckResultArgs,

    /// The catalogue that knows copies of bad files; without it, verisum/catalog.db in $XDG_STATE_HOME or
    /// ~/.local/state
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    catalog: Option<PathBuf>,

    /// Lines end with NUL, and names are not escaped
    #[arg(short, long)]
    pub(crate) zero: bool,

    /// The directory where the names in the lists begin; without it, the working directory
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) base: Option<PathBuf>,

    /// Also report files below this directory that no list has. The path begins at the working directory,
    /// even with -C
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) strict_tree: Option<PathBuf>,

    /// Print a line of JSON for each file, and one with the totals
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    reading: ReadingArgs,

    #[command(flatten)]
    pub(crate) threads: sizes::ThreadArgs,

    /// Lists of checksums, or directories of BagIt bags. The last argument may be the directory where the names in the
    /// lists begin, if that is not the working directory: DIR, HOST:DIR, ssh://HOST/DIR or s3://BUCKET/PREFIX
    #[arg(value_name = "LIST", value_hint = ValueHint::AnyPath)]
    pub(crate) lists: Vec<OsString>,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,

    #[command(flatten)]
    recorded: RecordedArgs,

    #[command(flatten)]
    many: ManyArgs,
}

/// Does what `verisum check` was asked for.
pub(crate) fn run(mut arguments: CheckArgs, output: &mut Output) -> Result<Exit, Failure> {
    refuse_urls(arguments.base.iter().chain(&arguments.strict_tree))?;
    let (mut lists, places) = arguments.many.lists_and_places(&arguments.lists)?;
    if lists.is_empty() && !places.is_empty() {
        lists.push("-".into());
    }
    if lists.iter().any(|list| list == "-") {
        standard_input::take("LIST")?;
    }
    arguments.recorded.refuse(&places)?;
    arguments.refuse_for_hosts(&places)?;
    arguments.hosts.require_endpoints(places.iter().map(|on| &on.host))?;
    // A tree of this machine is a place, too. A bag is a list.
    if places.is_empty()
        && let [_, .., last] = &lists[..]
        && is_tree(Path::new(last))
    {
        if arguments.base.is_some() {
            return Err(Failure::Usage(
                "--base: the names in the lists begin at the last LIST, a directory".to_string(),
            ));
        }
        arguments.base = lists.pop().map(PathBuf::from);
    }
    if let Some(catalog) = arguments.catalog.as_deref().filter(|_| !config::is_untyped("--catalog")) {
        open_shared(catalog)?;
    }
    let algorithm = digests::optional_name(arguments.algorithm.as_deref())?;
    let options = ListCheckOptions {
        program: PROGRAM.into(),
        dialect: Dialect::Any,
        algorithm,
        // Images in other places have no block hash that is computed there.
        block_hashes: if places.is_empty() { BlockHashes::Tagged } else { BlockHashes::Unknown },
        zero: arguments.zero,
        json: arguments.json,
        base: arguments.base.clone(),
        catalog: arguments.catalog.clone(),
        strict_tree: arguments.strict_tree.clone(),
        threads: arguments.threads.number()?,
        excludes: arguments.reading.excludes()?,
        limits: arguments.reading.limits()?,
        progress: arguments.reading.progress(),
        ..arguments.results.options()
    };
    match places.is_empty() {
        true => lists_of(&lists, &options, output),
        false => hosts::run(&arguments, &lists, &places, &options, output),
    }
}

/// Whether it is a directory, and no bag.
fn is_tree(path: &Path) -> bool {
    path.is_dir() && manifests_of(path).is_none()
}

impl CheckArgs {
    /// Fails for options that files on other machines do not have.
    fn refuse_for_hosts(&self, places: &[OnHost]) -> Result<(), Failure> {
        if places.is_empty() {
            return Ok(());
        }
        let all_buckets = places.iter().all(OnHost::is_bucket);
        refuse(&[
            ("--threads", self.threads.number()?.is_some() && !all_buckets),
            ("--limit", self.reading.is_limiting() && !all_buckets),
        ])?;
        refuse_because(AT_PLACE, &[("--base", self.base.is_some())])?;
        refuse_because(UNLISTED, &[("--strict-tree", self.strict_tree.is_some())])?;
        refuse_because(ALL_LINES, &[("--exclude", self.reading.is_excluding())])
    }
}
