//! Options that verbs which read trees share: files to leave out, the order, and the rate.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use rustix::stdio::stdout;
use verisum::files::{Entry, Excludes, Limits};

use crate::ui::failure::Failure;
use crate::ui::progress;
use crate::ui::sizes;

/// What to leave out, and how to read the rest.
#[derive(Args, Debug)]
pub(crate) struct ReadingArgs {
    #[command(flatten)]
    excluded: ExcludeArgs,

    #[command(flatten)]
    rate: RateArgs,
}

/// What to leave out.
#[derive(Args, Debug)]
pub(crate) struct ExcludeArgs {
    /// Leave out files that match, by the rules of .gitignore
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,

    /// Leave out files that match a line of this file
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath)]
    exclude_from: Vec<PathBuf>,
}

/// How fast to read, and whether to show it.
#[derive(Args, Debug)]
pub(crate) struct RateArgs {
    /// Limit the read rate: 200MB/s, 64MiB/s
    #[arg(long, value_name = "RATE")]
    limit: Option<String>,

    /// Limit reads per second
    #[arg(long, value_name = "N")]
    limit_iops: Option<u64>,

    #[command(flatten)]
    progress: progress::ProgressArgs,
}

/// For how many open files there is room from the start: more than the usual limit lets anybody open.
const ROOM: u64 = 1024;

/// In which order files come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// By name, as sort does in the C locale
    Name,
    /// On a rotational disk by extent; elsewhere by name (sum), or in the order of the directory (scrub)
    Auto,
    /// By inode number
    Inode,
    /// By where the data begins on the disk
    Extent,
    /// As the directory lists them
    None,
}

/// Fails where so few files may be open that trees cannot be walked and read. Makes room for them while there is one
/// thread: otherwise the system makes it later, three times, and lets all threads wait some milliseconds each time.
pub(crate) fn prepare_open_files() -> Result<(), Failure> {
    let least = verisum::files::LEAST_OPEN_FILES;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit < least {
        return Err(Failure::Program {
            name: "the limit of open files".to_string(),
            why: format!("{limit}: must be at least {least} (ulimit -n {least})"),
        });
    }
    let last = limit.min(ROOM) - 1;
    let _ = fcntl_dupfd_cloexec(stdout(), last as RawFd);
    Ok(())
}

impl ReadingArgs {
    /// What is left out, if anything.
    pub(crate) fn excludes(&self) -> Result<Option<Arc<Excludes>>, Failure> {
        self.excluded.excludes()
    }

    /// Whether anything is left out.
    pub(crate) fn is_excluding(&self) -> bool {
        !self.excluded.exclude.is_empty() || !self.excluded.exclude_from.is_empty()
    }

    /// Whether there are limits.
    pub(crate) fn is_limiting(&self) -> bool {
        self.rate.limit.is_some() || self.rate.limit_iops.is_some()
    }

    /// The files that say what is left out.
    pub(crate) fn lists(&self) -> &[PathBuf] {
        &self.excluded.exclude_from
    }

    /// The limits, if there are any.
    pub(crate) fn limits(&self) -> Result<Option<Arc<Limits>>, Failure> {
        self.rate.limits()
    }

    /// Whether to draw progress.
    pub(crate) fn progress(&self) -> progress::ShowProgress {
        self.rate.progress()
    }
}

impl ExcludeArgs {
    /// What is left out, if anything.
    pub(crate) fn excludes(&self) -> Result<Option<Arc<Excludes>>, Failure> {
        let mut patterns = Vec::new();
        for path in &self.exclude_from {
            let text = std::fs::read_to_string(path);
            let failed = |error| Failure::File { name: path.clone(), operation: "read", error };
            patterns.extend(text.map_err(failed)?.lines().map(str::to_string));
        }
        // Those of the command line come last, and so have the last word.
        patterns.extend(self.exclude.iter().cloned());
        if patterns.is_empty() {
            return Ok(None);
        }
        let excludes = Excludes::new(patterns.iter().map(String::as_str));
        Ok(Some(Arc::new(excludes.map_err(|error| Failure::Usage(format!("--exclude: {error}")))?)))
    }
}

impl RateArgs {
    /// The limits, if there are any.
    pub(crate) fn limits(&self) -> Result<Option<Arc<Limits>>, Failure> {
        let bytes = self.limit.as_deref().map(sizes::rate).transpose()?;
        let any = bytes.is_some() || self.limit_iops.is_some();
        Ok(any.then(|| Arc::new(Limits::new(bytes.unwrap_or(0), self.limit_iops.unwrap_or(0)))))
    }

    /// Whether to draw progress.
    pub(crate) fn progress(&self) -> progress::ShowProgress {
        self.progress.show()
    }
}

impl Order {
    /// The order of a walk by name where nothing else is asked for, on disks that are not rotational.
    pub(crate) fn of_names(self) -> verisum::files::Order {
        match self {
            Order::Name | Order::Auto => verisum::files::Order::Name,
            Order::Inode => verisum::files::Order::Inode,
            Order::Extent => verisum::files::Order::Extent,
            Order::None => verisum::files::Order::Directory,
        }
    }

    /// The order of a walk from `root`; `still` is for disks that are not rotational.
    pub(crate) fn of_walk(self, root: &Entry, still: verisum::files::Order) -> verisum::files::Order {
        match self {
            Order::Auto => still.or_by_extent(root),
            order => order.of_names(),
        }
    }
}
