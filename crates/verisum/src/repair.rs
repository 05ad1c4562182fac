//! `repair`: restores bad and missing files from copies.

use std::path::{Path, PathBuf};

use verisum_catalog::store::{Catalog, Lock, absolute};
use verisum_files::place::LocalPlace;
use verisum_files::{Results, StartError};
use verisum_mend::repair::{RepairError, RepairOptions, RepairSummary, Repaired, Source};

/// Gives files of this machine their recorded content again, where the catalogue at a path says that they are bad or
/// missing: from the files at the same paths in the copies of the tree. Each of them is a result. The catalogue is
/// locked until the end. `path` is the tree, or something in it. [`mend::repair::repair`](verisum_mend::repair::repair)
/// takes copies in other places, and those that a catalogue knows.
///
/// ```
/// use std::fs;
/// use std::path::Path;
/// use verisum::catalog::scrub::ScrubOptions;
/// use verisum::mend::repair::RepairOptions;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// for tree in ["photos", "copy"] {
///     fs::create_dir(tree)?;
///     fs::write(Path::new(tree).join("one.raw"), "one")?;
/// }
/// let (catalog, tree) = (Path::new("photos.db"), Path::new("photos"));
/// verisum::scrub(catalog, tree, &ScrubOptions::default())?.finish()?; // records the file
/// fs::remove_file("photos/one.raw")?;
/// verisum::scrub(catalog, tree, &ScrubOptions::default())?.finish()?; // finds that it is missing
///
/// let mut results = verisum::repair(catalog, tree, vec!["copy".into()], &RepairOptions::default())?;
/// for file in &mut results {
///     println!("{}: {:?}", file.path.display(), file.outcome);
/// }
/// assert_eq!(results.finish()?.repaired, 1);
/// assert_eq!(fs::read("photos/one.raw")?, b"one");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The system has no thread left. What is wrong with the catalogue or the path is the end of the results.
pub fn repair(
    catalog: &Path,
    path: &Path,
    copies: Vec<PathBuf>,
    options: &RepairOptions,
) -> Result<Results<Repaired, Result<RepairSummary, RepairError>>, StartError> {
    let (catalog, path) = (catalog.to_path_buf(), path.to_path_buf());
    let mut options = options.clone();
    let stop = options.stop.clone();
    let results = Results::start("repair", &stop, move |outlet| {
        // Where there is no catalogue, nothing is made.
        Catalog::open_to_read(&catalog)?;
        let _lock = Lock::take(&catalog)?;
        let catalog = Catalog::open_existing(&catalog)?;
        let path = absolute(&path)?;
        options.stop = outlet.stop().clone();
        let source = |copy: &PathBuf| Source::new(copy, Box::new(LocalPlace::default()));
        let mut sources: Vec<_> = copies.iter().map(source).collect();
        // Who takes no more has also asked it to stop.
        let mut report = |file: &Repaired| {
            outlet.give(file.clone());
        };
        verisum_mend::repair::repair(&catalog, &path, &mut sources, &options, &mut report)
    })?;
    Ok(results)
}
