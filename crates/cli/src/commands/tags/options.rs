//! Options that all verbs of tags share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use rustix::io::Errno;
use verisum::catalog::TagStore;
use verisum::digest::Algorithm;
use verisum::files::store::xattr::Family;
use verisum::files::tags::{RecordStore, TaggingOptions};
use verisum::files::{Directory, Entry, Order, Plan, Record, Roots, Stat, Walk, WalkOptions};

use crate::ui::catalog::{CatalogArgs, absolute};
use crate::ui::failure::Failure;
use crate::ui::progress::Total;
use crate::ui::reading::ExcludeArgs;
use crate::ui::{digests, hosts, kernel, sizes, verbosity};

/// Which files, and how.
#[derive(Args, Debug)]
pub(crate) struct TagTreeArgs {
    /// Stay on the file system of each DIR
    #[arg(short = 'x', long)]
    one_file_system: bool,

    #[command(flatten)]
    excluded: ExcludeArgs,

    #[command(flatten)]
    threads: sizes::ThreadArgs,

    /// Print a line of JSON for each finding, and one with the totals
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only problems; nothing if all is well
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// On the path to each DIR, also follow links of other users
    #[arg(long)]
    follow_links: bool,

    /// Directories, with all files below them, and files; links are not followed
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
}

/// Whether anything is written.
#[derive(Args, Debug)]
pub(crate) struct DryArgs {
    /// Print what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// Where records are kept that files cannot hold.
#[derive(Args, Debug)]
pub(crate) struct ApartArgs {
    /// The catalogue for files that take no attributes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) catalog: Option<PathBuf>,
}

/// What an operation does to the catalogue and to tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// It only reads.
    No,
    /// It says what it would write.
    Dry,
    /// It writes.
    Yes,
}

impl DryArgs {
    /// What an operation does that writes without `--dry-run`.
    pub(crate) fn writes(&self) -> Writes {
        if self.dry_run { Writes::Dry } else { Writes::Yes }
    }
}

impl TagTreeArgs {
    /// The walk of what was named. Called again, it begins anew.
    pub(crate) fn walk(&self) -> Result<Walk, Failure> {
        hosts::refuse_urls(&self.paths)?;
        let excludes = self.excluded.excludes()?;
        let mut options = WalkOptions::default();
        options.one_file_system = self.one_file_system;
        options.roots = if self.follow_links { Roots::Plain } else { Roots::Trusted };
        // Attributes are in the inodes, or found from there: those of one block come one after the other.
        options.order = Order::Inode;
        options.excludes = excludes;
        Ok(Walk::new(self.paths.clone(), options))
    }

    /// What was named, as it can be typed in any directory.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        self.paths.iter().map(whole).collect()
    }

    /// The length of all files together, found out by a walk of its own.
    pub(crate) fn total(&self) -> Result<Total, Failure> {
        Ok(Total::walked(self.walk()?))
    }

    /// Whether long runs of like errors may be cut.
    pub(crate) fn is_bounded(&self) -> bool {
        !self.json && !verbosity::names_all()
    }

    /// The only folder, where names of a list are to be found.
    pub(crate) fn only(&self) -> Result<&Path, Failure> {
        match self.paths.as_slice() {
            [only] => Ok(only),
            _ => Err(Failure::Usage("--from takes one DIR, that of the names in the list".to_string())),
        }
    }

    /// The folder, where names of a list are to be found.
    pub(crate) fn base(&self) -> Result<Arc<Directory>, Failure> {
        let open = if self.follow_links { Directory::named } else { Directory::trusted };
        open(self.only()?).map_err(Failure::Tree)
    }

    /// How to work on it.
    pub(crate) fn options(&self, family: Family) -> Result<TaggingOptions, Failure> {
        let plan = Plan::new(Vec::new(), self.threads.or_cores()?);
        let mut options = TaggingOptions::default();
        options.family = family;
        options.plan = plan;
        options.policy = kernel::policy()?;
        Ok(options)
    }

    /// The same with a catalogue for what files cannot hold: to read, or also to write.
    pub(crate) fn options_with(
        &self,
        family: Family,
        apart: &ApartArgs,
        writes: Writes,
    ) -> Result<TaggingOptions, Failure> {
        let mut options = self.options(family)?;
        options.dry = writes == Writes::Dry;
        let place = CatalogArgs { catalog: apart.catalog.clone() };
        if place.catalog.is_some() {
            if options.dry && !place.path()?.try_exists().is_ok_and(|exists| exists) {
                options.apart = Some(Arc::new(NotMade));
                return Ok(options);
            }
            let opened = match writes == Writes::Yes {
                true => place.open().map(|(lock, catalog)| Some((Some(lock), catalog)))?,
                false => place.open_if_there()?.map(|catalog| (None, catalog)),
            };
            if let Some((lock, catalog)) = opened {
                let tops = self.paths.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
                options.apart = Some(Arc::new(TagStore::new(catalog, lock, tops)?));
            }
        }
        Ok(options)
    }
}

/// A catalogue that would be made first.
#[derive(Debug)]
struct NotMade;

impl RecordStore for NotMade {
    fn is_own(&self, _: &Stat) -> bool {
        false
    }
    fn find(&self, _: &Entry) -> Option<Record> {
        None
    }
    fn keep(&self, _: &Entry, _: &Stat, _: &Record, _: Errno) -> bool {
        true
    }
    fn take_failure(&self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        None
    }
    fn follow(&self, _: &Entry, _: &Stat, _: &Record, _: &Record) {}
}

/// The row of a digest that tags of a family can hold.
pub(crate) fn algorithm(name: &str, family: Family) -> Result<&'static Algorithm, Failure> {
    let digest = digests::find(name, &kernel::policy()?)?;
    digest.algorithm().filter(|algorithm| family.holds(algorithm)).ok_or_else(|| {
        Failure::value(
            "--algorithm",
            name,
            match family {
                Family::Shatag => "shatag has tags of sha256 only".to_string(),
                _ => "tags have no place for it".to_string(),
            },
        )
    })
}
