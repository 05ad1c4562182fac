//! The check of files against lists, as an iterator.

use std::ffi::OsString;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use verisum_digest::Digest;
use verisum_files::check::{CheckOutcome, Compute, Event, ListClass, Lists};
use verisum_files::store::manifest::{Bad, ListOptions};
use verisum_files::{FileError, Limits, Outlet, Plan, Progress, Results, StartError, Stop, VerdictClass};

/// How files are checked. The default is all cores, and names that begin at the working directory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// The digest of lists that do not tell it.
    pub digest: Option<Digest>,
    /// Where the names in lists begin. Those of a bag begin in the bag.
    pub base: Option<PathBuf>,
    /// Threads; 0 for as many as there are cores.
    pub threads: usize,
    /// The limit of read bandwidth.
    pub limits: Option<Arc<Limits>>,
    /// When to end early.
    pub stop: Arc<Stop>,
    /// Where to tell how far it is.
    pub progress: Arc<Progress>,
}

/// What was found, and by which list.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The list: the path that was given, or a manifest of the bag that was.
    pub list: Arc<Path>,
    /// What was found.
    pub event: Event,
}

/// What came of a check: how many files and lines of each kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckSummary {
    /// Files of which all digests are the listed ones.
    pub verified: u64,
    /// Files that are listed without a digest and are there, or need not be.
    pub present: u64,
    /// Files whose content, kind or length is not the listed one.
    pub different: u64,
    /// Files that are not there.
    pub missing: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Lines of digests that are not known here.
    pub unknown_digests: u64,
    /// Lines that nobody understands.
    pub bad_lines: u64,
    /// Lists that could not be read to their ends.
    pub unread_lists: u64,
    /// Whether it ended early.
    pub stopped: bool,
    /// What the lists mean that have ended.
    worst: Option<VerdictClass>,
    /// What was found in the list at hand.
    list: ListClass,
}

impl CheckSummary {
    /// What it means, by the rule of the command: a file that is not there was not compared, and a list by which
    /// nothing was verified is corrupt. Without a list nothing was checked.
    pub fn class(&self) -> VerdictClass {
        let found = self.worst.unwrap_or(VerdictClass::Unchecked);
        if self.stopped { found.max(VerdictClass::Unchecked) } else { found }
    }

    fn count(&mut self, event: &Event) {
        let counter = match event {
            Event::File { outcome, .. } => {
                self.list.file(outcome);
                match outcome {
                    CheckOutcome::Match => &mut self.verified,
                    CheckOutcome::Present { .. } | CheckOutcome::Absent => &mut self.present,
                    CheckOutcome::LeftOut => return,
                    CheckOutcome::Mismatch(_) | CheckOutcome::Unlike(_) => &mut self.different,
                    CheckOutcome::Missing(_) => &mut self.missing,
                    CheckOutcome::Failed(_) => &mut self.unreadable,
                }
            }
            Event::Bad { bad, .. } => {
                self.list.bad(bad);
                match bad {
                    Bad::UnknownDigest(_) => &mut self.unknown_digests,
                    _ => &mut self.bad_lines,
                }
            }
            Event::End { error, .. } => {
                self.worst = self.worst.max(Some(mem::take(&mut self.list).end(error.is_none())));
                match error {
                    Some(_) => &mut self.unread_lists,
                    None => return,
                }
            }
        };
        *counter += 1;
    }
}

/// Checks the files of this machine that lists name: many at once, results in the order of the lists. A bag stands
/// for its manifests.
///
/// Listed pipes and devices are no files, `-` is a file of that name, and lines of block hashes are unknown digests
/// here; [`files::check::check`](verisum_files::check::check) takes who computes them.
///
/// ```
/// use std::fs;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// fs::create_dir("data")?;
/// fs::write("data/file", "abc")?;
/// fs::write("SHA256SUMS", format!("{sum}  file\n"))?;
///
/// let mut options = verisum::CheckOptions::default();
/// options.base = Some("data".into()); // where the names of the list begin
/// let mut results = verisum::check(vec!["SHA256SUMS".into()], &options)?;
/// for found in &mut results {
///     println!("{}: {:?}", found.list.display(), found.event);
/// }
/// assert_eq!(results.finish().class(), verisum::files::VerdictClass::Clean);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The system has no thread left. Lists that cannot be read are among the results.
pub fn check(
    lists: Vec<PathBuf>,
    options: &CheckOptions,
) -> Result<Results<Checked, CheckSummary>, StartError> {
    let options = options.clone();
    let stop = options.stop.clone();
    Ok(Results::start("check", &stop, move |outlet| run(&lists, options, outlet))?)
}

fn run(lists: &[PathBuf], options: CheckOptions, outlet: &Outlet<Checked>) -> CheckSummary {
    let mut summary = CheckSummary::default();
    if lists.is_empty() {
        // None would be standard input.
        return summary;
    }
    let name = |list: &PathBuf| if list.as_os_str() == "-" { OsString::from("./-") } else { list.into() };
    let names: Vec<_> = lists.iter().map(name).collect();
    let mut reading = ListOptions::default();
    reading.algorithm = options.digest.map(|digest| digest.name().to_string().into());
    let mut lists = Lists::new(&names, reading, options.base, || Ok(Box::new(io::empty())));
    let paths: Vec<Arc<Path>> = lists.names().iter().map(|name| Path::new(name).into()).collect();
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let plan = Plan {
        limits: options.limits,
        stop: outlet.stop().clone(),
        progress: options.progress,
        ..Plan::new(Vec::new(), threads)
    };
    let compute = Compute {
        find: &|name| Digest::find(name),
        // None is read: the reader knows no block hashes.
        block_hash: &|folder, _| Err(FileError::NotAFile { path: folder.to_path_buf() }),
        // Nothing can stop what waits for one.
        reads_streams: false,
    };
    verisum_files::check::check(&plan, compute, &mut lists, &mut |event| {
        summary.count(&event);
        let (Event::File { manifest, .. } | Event::Bad { manifest, .. } | Event::End { manifest, .. }) =
            event;
        match outlet.give(Checked { list: paths[manifest].clone(), event }) {
            true => std::ops::ControlFlow::Continue(()),
            false => std::ops::ControlFlow::Break(()),
        }
    });
    summary.stopped = outlet.stop().is_due();
    if summary.stopped {
        // The list at hand has no end.
        summary.worst = summary.worst.max(Some(mem::take(&mut summary.list).end(false)));
    }
    summary
}
