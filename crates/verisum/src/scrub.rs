//! `scrub` and `scrub_place`: compare a tree with its catalogue.

#[cfg(feature = "remote")]
use std::ffi::OsStr;
#[cfg(feature = "remote")]
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
#[cfg(feature = "mend")]
use std::path::PathBuf;
#[cfg(feature = "remote")]
use std::sync::Mutex;

#[cfg(feature = "remote")]
use verisum_catalog::scrub::PlaceTree;
use verisum_catalog::scrub::{self, ScrubError, ScrubOptions, ScrubReport, ScrubSummary};
use verisum_catalog::store::{Catalog, Lock};
#[cfg(feature = "remote")]
use verisum_files::place::{Place, PlaceEvent};
use verisum_files::{Outlet, Results, StartError};
#[cfg(feature = "remote")]
use verisum_remote::{Address, Host};

/// What the scrub of a tree in any place tells.
#[cfg(feature = "remote")]
#[derive(Debug)]
pub enum Scrubbed {
    /// A file that is not as it was.
    File(ScrubReport),
    /// What the place says beside, such as a note about how it is read.
    Event(PlaceEvent),
}

/// Scrubs a directory of this machine: compares it with the catalogue at a path, records what is new or changed, and
/// reads the rest again, stalest first. Each file that is not as it was is a result. The catalogue is made if there
/// is none, and locked until the end.
///
/// With the feature `mend`, it first finishes a repair in place that was interrupted. While that cannot be finished, the
/// file is not read, and is told as one that cannot be. Unlike the command, it does not verify the tree's parity.
///
/// ```
/// use verisum::catalog::scrub::ScrubOptions;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (catalog, tree) = (folder.path().join("photos.db"), folder.path().join("photos"));
/// # std::fs::create_dir(&tree)?;
/// # std::fs::write(tree.join("one.raw"), "one")?;
/// let mut results = verisum::scrub(&catalog, &tree, &ScrubOptions::default())?;
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

/// Scrubs a tree in any place as [`scrub()`] does one of this machine: address and place as `remote::Hosts::tree` opens
/// them. The catalogue knows the tree by its address, and one of this machine by its absolute path.
///
/// ```no_run
/// use std::ffi::OsStr;
/// use std::path::Path;
///
/// use verisum::Scrubbed;
/// use verisum::catalog::scrub::ScrubOptions;
/// use verisum::remote::{HostOptions, Hosts};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hosts = Hosts::new(HostOptions::default(), &std::env::temp_dir());
/// let (address, place) = hosts.tree(OsStr::new("web1:/srv/photos"))?;
/// let catalog = Path::new("photos.db");
/// let mut results = verisum::scrub_place(catalog, &address, place, &ScrubOptions::default())?;
/// for scrubbed in &mut results {
///     match scrubbed {
///         Scrubbed::File(file) => println!("{}: {:?}", file.path.display(), file.verdict),
///         Scrubbed::Event(event) => eprintln!("{event:?}"),
///     }
/// }
/// println!("{} files were read", results.finish()?.read_files);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The system has no thread left. What is wrong with the catalogue, the address, the place or the tree is the end of
/// the results.
#[cfg(feature = "remote")]
pub fn scrub_place(
    catalog: &Path,
    address: &Address,
    mut place: Box<dyn Place>,
    options: &ScrubOptions,
) -> Result<Results<Scrubbed, Result<ScrubSummary, ScrubError>>, StartError> {
    let address = address.clone();
    start(catalog, options, move |catalog, options, outlet| {
        let mut report = |file| {
            outlet.give(Scrubbed::File(file));
        };
        if address.host == Host::Local {
            let directory = Path::new(OsStr::from_bytes(&address.path));
            return scrub::scrub(catalog, directory, options, &mut report);
        }
        let known_as = address.recorded().map_err(|error| ScrubError::Remote {
            path: OsStr::from_bytes(&address.address()).into(),
            why: error.to_string(),
        })?;
        let notes = |event| outlet.give(Scrubbed::Event(event));
        let mut tree = PlaceTree { place: &mut *place, root: &address.path, notes: &notes };
        scrub::scrub_tree(catalog, &known_as, (options, &Mutex::new(())), &mut tree, &mut report)
    })
}

/// Runs a scrub on a thread, with the catalogue open and locked.
fn start<T: Send + 'static>(
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

    match finish_in_place(catalog, options.now, &options.stop) {
        Ok(Some(Finished::Waits { path, why, .. })) => Ok(Some((path, why))),
        Ok(_) => Ok(None),
        Err(RepairError::Catalog(error)) => Err(error.into()),
        Err(RepairError::Tree(error)) => Err(error),
        // The journal cannot be used. It says which file nothing is to look at.
        Err(error) => {
            Err(FileError::io(catalog.path(), Operation::Read, std::io::Error::other(error)).into())
        }
    }
}
