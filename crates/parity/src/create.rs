//! Makes parity of a tree.

use std::path::{Path, PathBuf};

use crate::ParityError;
use crate::build::Builder;
use crate::head::Piece;
use crate::index::Index;
use crate::options::{self, CreateOptions};
use crate::store::Store;
use crate::tree::Tree;
use crate::verdict::Finding;

/// Where the parity of a tree is unless another place is named.
pub const USUAL_PLACE: &str = ".verisum-parity";

/// What `create` and `update` made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// Files that have parity now.
    pub files: u64,
    /// Bytes of their data.
    pub data: u64,
    /// Sets that were written.
    pub sets_written: u64,
    /// Sets that were left as they are.
    pub sets_kept: u64,
    /// Bytes of the sets that were written.
    pub written: u64,
    /// Files that are new since the last time.
    pub new: u64,
    /// Files that were written to.
    pub changed: u64,
    /// Files that are gone.
    pub gone: u64,
    /// Sets that could not be read: what had parity in them was compared with nothing.
    pub sets_lost: u64,
}

/// The directory of the parity files of a tree.
pub(crate) fn place_of(tree: &Path, place: Option<&Path>) -> PathBuf {
    place.map_or_else(|| tree.join(USUAL_PLACE), Path::to_path_buf)
}

/// Makes parity of all regular files below `tree`, in the directory `place` or in the tree's own
/// [`USUAL_PLACE`]. Files that cannot be read, or change meanwhile, are told to `report` and have none.
///
/// # Errors
/// Where there is parity already, and where it cannot be written: nothing of it is left then.
pub fn create(
    tree: &Path,
    place: Option<&Path>,
    options: &CreateOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Made, ParityError> {
    options.check()?;
    let place = place_of(tree, place);
    let tree = Tree::open(tree, &options.progress, &options.stop)?;
    let store = Store::make(&place)?;
    if store.has_parity()? {
        return Err(ParityError::Exists { path: place });
    }
    let made = make((&tree, &store), options, report);
    if made.is_err() {
        store.discard();
    }
    made
}

fn make(
    (tree, store): (&Tree, &Store),
    options: &CreateOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Made, ParityError> {
    let mut index = Index {
        generation: 1,
        next: 1,
        redundancy: options.redundancy,
        set_bytes: options.set_bytes.unwrap_or(0),
        sets: Vec::new(),
        is_scratched: false,
        is_half_new: false,
        is_lost: false,
    };
    // Sets that this run leaves behind when it is killed do not count.
    store.commit(&index, &[])?;
    let mut pieces: Vec<Piece> = Vec::new();
    for found in tree.files(store.identity()?) {
        tree.go_on()?;
        match found {
            Ok(piece) => pieces.push(piece),
            Err(error) => report(Finding::Unseen(error)),
        }
    }
    let total = pieces.iter().map(|piece| piece.size).sum();
    let files = pieces.len() as u64;
    let builder =
        Builder { tree, store, set_bytes: options::set_bytes(total, &index), threads: options.threads };
    let mut left_out = 0;
    let built = builder.build(&mut index, pieces, &mut |finding| {
        left_out += 1;
        report(finding);
    })?;
    let index = Index { generation: 2, sets: built.sets.clone(), ..index };
    store.commit(&index, &built.sets)?;
    Ok(Made {
        files: files - left_out.min(files),
        new: files - left_out.min(files),
        data: built.data,
        sets_written: built.sets.len() as u64,
        written: built.stored,
        ..Made::default()
    })
}

/// Removes what a run that failed has written and does not count. What cannot be removed does no harm: the next
/// run tries again.
pub(crate) fn tidy(store: &Store) {
    if let Ok(index) = store.index() {
        let _ = store.sweep(&index);
    }
}
