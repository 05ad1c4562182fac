//! `scrub`: compares a tree of this machine with its catalogue.

use std::path::Path;
#[cfg(feature = "mend")]
use std::path::PathBuf;

use verisum_catalog::scrub::{self, ScrubError, ScrubOptions, ScrubReport, ScrubSummary};
use verisum_catalog::store::{Catalog, Lock};
use verisum_files::{Outlet, Results, StartError};

/// Scrubs a directory of this machine: compares it with the catalogue at a path, records what is new or changed, and
/// reads the rest again. Each file that is not as it was is a result. The catalogue is made if there is none, and
/// locked until the end.
///
/// Files that were bad come first, then all others, directory by directory. With a budget, a sample or `shuffle`, new and
/// changed files come before the others, and these stalest first.
///
/// With the feature `mend`, it first finishes a repair in place that was interrupted. While that cannot be finished, the
/// file is not read, and is told as one that cannot be. Unlike the command, it does not verify the tree's parity.
///
/// ```
/// use std::fs;
/// use std::path::Path;
/// use verisum::catalog::scrub::ScrubOptions;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// fs::create_dir("photos")?;
/// fs::write("photos/one.raw", "one")?;
///
/// let (catalog, tree) = (Path::new("photos.db"), Path::new("photos"));
/// let mut results = verisum::scrub(catalog, tree, &ScrubOptions::default())?;
/// for file in &mut results {
///     println!("{}: {:?}", file.path.display(), file.verdict);
/// }
/// assert_eq!(results.finish()?.read_files, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The system has no thread left. What is wrong with the catalogue or the tree is the end of the results.
pub fn scrub(
    catalog: &Path,
    directory: &Path,
    options: &ScrubOptions,
) -> Result<Results<ScrubReport, Result<ScrubSummary, ScrubError>>, StartError> {
    let directory = directory.to_path_buf();
    start(catalog, options, move |catalog, options, outlet| {
        // Who takes no more has also asked it to stop.
        let mut report = |file| {
            outlet.give(file);
        };
        scrub::scrub(catalog, &directory, options, &mut report)
    })
}

/// Runs a scrub on a thread, with the catalogue open and locked.
pub(crate) fn start<T: Send + 'static>(
    catalog: &Path,
    options: &ScrubOptions,
    run: impl FnOnce(&mut Catalog, &ScrubOptions, &Outlet<T>) -> Result<ScrubSummary, ScrubError> + Send + 'static,
) -> Result<Results<T, Result<ScrubSummary, ScrubError>>, StartError> {
    let (catalog, mut options) = (catalog.to_path_buf(), options.clone());
    let stop = options.stop.clone();
    Ok(Results::start("scrub", &stop, move |outlet| {
        let _lock = Lock::take(&catalog)?;
        let mut catalog = Catalog::open(&catalog)?;
        options.stop = outlet.stop().clone();
        #[cfg(feature = "mend")]
        options.withheld.extend(unfinished(&catalog, &options)?);
        run(&mut catalog, &options, outlet)
    })?)
}

/// The file of a repair in place that cannot be finished now, and why.
#[cfg(feature = "mend")]
fn unfinished(catalog: &Catalog, options: &ScrubOptions) -> Result<Option<(PathBuf, String)>, ScrubError> {
    use verisum_files::{FileError, Operation};
    use verisum_mend::repair::{Finished, RepairError, finish_in_place};

    match finish_in_place(catalog, &options.stop) {
        Ok(Some(Finished::Waits { path, why, .. })) => Ok(Some((path, why.to_string()))),
        Ok(_) => Ok(None),
        Err(RepairError::Catalog(error)) => Err(error.into()),
        Err(RepairError::Tree(error)) => Err(error),
        // The journal cannot be used. It says which file nothing is to look at.
        Err(error) => {
            Err(FileError::io(catalog.path(), Operation::Read, std::io::Error::other(error)).into())
        }
    }
}
