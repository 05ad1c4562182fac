//! Asks a place again about files that its older listing calls missing or different.

use super::{ComparedFile, FileStatus, Pair, Tree};
use crate::place::{FileRequest, PlaceError, Reason};

/// So many files are asked for at once: what is recorded of them is in memory.
const AT_ONCE: usize = 1000;

/// Finds what was written to a place, or removed, since its listing was made: nothing is called different by that
/// listing alone. A file about which its place does not answer is [`FileStatus::Unknown`].
///
/// # Errors
/// The place cannot be asked.
pub(super) fn find<const N: usize>(
    side: usize,
    tree: &mut Tree,
    pairs: &mut [Pair<N>],
) -> Result<(), PlaceError> {
    let mut absent: Vec<&mut Pair<N>> = pairs.iter_mut().filter(|pair| !pair.is_to_read(side)).collect();
    for group in absent.chunks_mut(AT_ONCE) {
        let request =
            |pair: &&mut Pair<N>| FileRequest { path: tree.path_of(&pair.name), ..FileRequest::default() };
        let requests: Vec<FileRequest> = group.iter().map(request).collect();
        let found = tree.place.records(&requests)?;
        // A record that was not told is no proof that the file is not there. If the store ended in the middle, it
        // does not tell the last one either.
        let last = requests.iter().zip(&found).rfind(|(_, record)| record.is_none());
        let is_told = last.is_none_or(|(request, _)| {
            let looked = tree.place.state(&request.path);
            matches!(looked, Err(PlaceError::File(error)) if error.reason() == Reason::Missing)
        });
        for (pair, record) in group.iter_mut().zip(found) {
            match record {
                Some(record) => {
                    let (seen, read, contradicted, recorded) = (record.of, None, None, None);
                    let is_reported = false;
                    pair.files[side] = Some(ComparedFile { seen, read, contradicted, recorded, is_reported });
                }
                None if pair.files[side].is_some() => match tree.place.state(&tree.path_of(&pair.name)) {
                    Err(PlaceError::File(error)) if error.reason() == Reason::Missing => {
                        pair.files[side] = None
                    }
                    _ => pair.status = FileStatus::Unknown,
                },
                None if !is_told => pair.status = FileStatus::Unknown,
                None => {}
            }
        }
    }
    Ok(())
}
