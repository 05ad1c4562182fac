//! Makes parity of a tree.

use std::path::Path;

use crate::ParityError;
use crate::build::Builder;
use crate::folder::{ParityFolder, ParityLocation};
use crate::head::Piece;
use crate::index::Index;
use crate::options::{self, CreateOptions};
use crate::tree::Tree;
use crate::verdict::Finding;

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

/// Makes parity of all regular files below `tree`, in the folder `parity`: none is the tree's own
/// [`USUAL_PLACE`](crate::USUAL_PLACE). Files that cannot be read, or change meanwhile, are told to `report` and have none.
///
/// # Errors
/// Where there is parity already, and where it cannot be written: nothing of it is left then.
pub fn create<'p>(
    tree: &Path,
    parity: impl Into<ParityLocation<'p>>,
    options: &CreateOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Made, ParityError> {
    options.check()?;
    let tree = Tree::open(tree, &options.progress, &options.stop)?;
    let parity_folder = ParityFolder::make(tree.path(), parity.into())?;
    tree.require_apart(parity_folder.identity()?)?;
    let before = parity_folder.index_before()?;
    if before.as_ref().is_some_and(|index| !index.sets.is_empty()) {
        return Err(ParityError::Exists { path: parity_folder.path().to_path_buf() });
    }
    let made = make((&tree, &parity_folder), before.map_or(1, |index| index.next), options, report);
    if made.is_err() {
        parity_folder.undo_first_run();
    }
    made
}

fn make(
    (tree, parity_folder): (&Tree, &ParityFolder),
    next: u64,
    options: &CreateOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<Made, ParityError> {
    let mut index = Index {
        generation: 1,
        next,
        redundancy: options.redundancy,
        set_bytes: options.set_bytes.unwrap_or(0),
        sets: Vec::new(),
        is_scratched: false,
        is_half_new: false,
        is_lost: false,
    };
    // Sets that this run leaves behind when it is killed do not count.
    parity_folder.commit(&index, &[])?;
    parity_folder.claim(&mut index)?;
    let mut pieces: Vec<Piece> = Vec::new();
    for found in tree.files(parity_folder.identity()?) {
        tree.go_on()?;
        match found {
            Ok(piece) => pieces.push(piece),
            Err(error) => report(Finding::Unseen(error)),
        }
    }
    let total = pieces.iter().map(|piece| piece.size).sum();
    let files = pieces.len() as u64;
    let builder = Builder {
        tree,
        parity_folder,
        set_bytes: options::set_bytes(total, &index),
        threads: options.threads,
    };
    let mut left_out = 0;
    let built = builder.build(&mut index, pieces, &mut |finding| {
        left_out += 1;
        report(finding);
    })?;
    let index = Index { generation: index.generation + 1, sets: built.sets.clone(), ..index };
    parity_folder.commit(&index, &built.sets)?;
    Ok(Made {
        files: files - left_out.min(files),
        new: files - left_out.min(files),
        data: built.data,
        sets_written: built.sets.len() as u64,
        written: built.stored,
        ..Made::default()
    })
}
