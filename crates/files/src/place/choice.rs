//! `--exclude` and `--limit` for trees in places: hashes only some of the files, or no faster than a limit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use super::{FileAnswer, FileRequest, Files, Place, PlaceError, PlaceEvent, Sink, below};
use crate::{Excludes, Limits, Stop};

/// So many files are listed before they are read.
const MOST_WAITING: usize = 256;

/// Which files of a tree are read, and how fast, where the place does not see to that itself.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// What is left out.
    pub excludes: Option<Arc<Excludes>>,
    /// The limit of read bandwidth; each file is an operation.
    pub limits: Option<Arc<Limits>>,
    /// Ends the wait for the limit.
    pub stop: Arc<Stop>,
}

impl Choice {
    /// Whether all are read, as fast as that goes.
    pub fn is_everything(&self) -> bool {
        self.excludes.is_none() && self.limits.is_none()
    }

    /// Hashes the chosen files of a tree: `hash` does it while another connection to the same place lists them.
    ///
    /// # Errors
    /// Those of listing and of hashing.
    pub fn hash(
        &self,
        lister: &mut dyn Place,
        root: &[u8],
        sink: Sink,
        hash: impl FnOnce(Files) -> Result<(), PlaceError>,
    ) -> Result<(), PlaceError> {
        let (give, take) = mpsc::sync_channel(MOST_WAITING);
        thread::scope(|scope| {
            let listing = scope.spawn(move || {
                lister.list(root, &|event| match event {
                    PlaceEvent::Answer(FileAnswer { request, result: Ok(_) }) => give.send(request).is_ok(),
                    // How files are hashed the other connection tells.
                    PlaceEvent::Way(_) => true,
                    other => sink(other),
                })
            });
            let mut chosen = take.into_iter().filter(|request| self.takes(root, request));
            let hashed = hash(Files::Named(&mut chosen));
            // A listing that nobody takes ends.
            drop(chosen);
            let listed = listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            hashed.and(listed)
        })
    }

    /// Whether a file below a root is read; this waits until it may be.
    fn takes(&self, root: &[u8], request: &FileRequest) -> bool {
        let name = Path::new(OsStr::from_bytes(below(root, &request.path).unwrap_or(&request.path)));
        if self.excludes.as_ref().is_some_and(|excludes| excludes.leaves_out_file(name)) {
            return false;
        }
        if let Some(limits) = &self.limits {
            limits.wait(request.seen.size.unwrap_or_default(), 1, &self.stop);
        }
        true
    }
}
