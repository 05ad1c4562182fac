//! `scrub_place`: compares a tree on a host, in a bucket or on this machine with its catalogue.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use verisum_catalog::scrub::{self, PlaceTree, ScrubError, ScrubOptions, ScrubReport, ScrubSummary};
use verisum_files::place::{Place, PlaceError, PlaceEvent};
use verisum_files::{Results, StartError};
use verisum_remote::{Address, Host};

use crate::scrub::start;

/// What the scrub of a tree in any place tells.
#[derive(Debug)]
pub enum Scrubbed {
    /// A file that is not as it was.
    File(ScrubReport),
    /// What the place says beside, such as a note about how it is read.
    Event(PlaceEvent),
}

/// Scrubs a tree in any place as [`scrub`](crate::scrub()) does one of this machine. Address and place are those that
/// `remote::Hosts::tree` opens. The catalogue knows the tree by its address, and one of this machine by its absolute
/// path.
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
            why: Box::new(PlaceError::Machine(error.into()).into()),
        })?;
        let notes = |event| outlet.give(Scrubbed::Event(event));
        let mut tree = PlaceTree { place: &mut *place, root: &address.path, notes: &notes };
        scrub::scrub_tree(catalog, &known_as, (options, &Mutex::new(())), &mut tree, &mut report)
    })
}
