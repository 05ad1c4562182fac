//! Computes the lost blocks of a set, and its parity again.

use std::collections::BTreeMap;

use crate::ParityError;
use crate::code::{Difference, Encoder, Parity, solve};
use crate::digest::Hasher;
use crate::folder::{ParityFolder, SetFile};
use crate::scan::{FindPart, scan, scan_helped};
use crate::tree::Tree;

/// Lost blocks by their number, as they were when the parity was made.
pub(crate) type Solved = BTreeMap<usize, Vec<u8>>;

/// Reads a set again and computes what is lost in it; none if that is more than the parity can give.
pub(crate) fn lost_blocks(tree: &Tree, set: &SetFile) -> Result<Option<Solved>, ParityError> {
    Ok(lost_blocks_helped(tree, set, &mut |_, _, _, _| false)?.ok())
}

/// The same with what is found elsewhere. Else how many blocks are lost.
pub(crate) fn lost_blocks_helped(
    tree: &Tree,
    set: &SetFile,
    find: &mut FindPart<'_>,
) -> Result<Result<Solved, usize>, ParityError> {
    let mut hasher = Hasher::new()?;
    let head = &set.head;
    let Some(shape) = head.shape() else { return Ok(Ok(Solved::new())) };
    let mut encoder = Encoder::new(shape);
    let mut add = |_: usize, block: &[u8], _: bool| {
        encoder.add(block);
        Ok(())
    };
    let lost = scan_helped(tree, head, &mut hasher, &mut add, find)?.lost;
    if lost.is_empty() {
        return Ok(Ok(Solved::new()));
    }
    if lost.len() > shape.parity {
        return Ok(Err(lost.len()));
    }
    let left = encoder.finish();
    let mut differences = Vec::with_capacity(lost.len());
    for index in 0..shape.parity {
        if differences.len() == lost.len() {
            break;
        }
        if let Some(mut bytes) = set.parity(index, &mut hasher)? {
            bytes.iter_mut().zip(left.block(index)).for_each(|(byte, other)| *byte ^= other);
            differences.push(Difference { index, bytes });
        }
    }
    drop(left);
    if differences.len() < lost.len() {
        return Ok(Err(lost.len()));
    }
    let blocks = solve(shape, &lost, differences);
    let solved: Solved = lost.into_iter().zip(blocks).collect();
    // No byte is believed for having been computed.
    for (_, parts) in head.parts_of_pieces() {
        for part in parts {
            let Some(block) = solved.get(&part.block) else { continue };
            if hasher.part(&block[part.range])? != head.parts[part.index] {
                return Err(ParityError::damaged(
                    set.path(),
                    "what its parity gives is not what was recorded",
                ));
            }
        }
    }
    Ok(Ok(solved))
}

/// Writes a set file again as it was when it was made, given the blocks that are lost. Returns whether that could
/// be done: the data must give the very parity that was recorded.
pub(crate) fn parity_again(
    (tree, parity_folder): (&Tree, &ParityFolder),
    set: &SetFile,
    solved: &Solved,
) -> Result<bool, ParityError> {
    let mut hasher = Hasher::new()?;
    let head = &set.head;
    let mut is_whole = true;
    let mut encoder = head.shape().map(Encoder::new);
    scan(tree, head, &mut hasher, &mut |number, block, is_good| {
        let block = if is_good { Some(block) } else { solved.get(&number).map(Vec::as_slice) };
        match (&mut encoder, block) {
            (Some(encoder), Some(block)) => encoder.add(block),
            (Some(encoder), None) => {
                is_whole = false;
                encoder.add(&vec![0; head.block]);
            }
            (None, _) => {}
        }
        Ok(())
    })?;
    let parity: Option<Parity> = encoder.map(Encoder::finish);
    let block = |index| parity.as_ref().map(|parity| parity.block(index)).unwrap_or_default();
    for (index, digest) in head.parity.iter().enumerate() {
        is_whole &= hasher.part(&block(index))? == *digest;
    }
    if is_whole {
        parity_folder.write_set(head, block, false)?;
        parity_folder.sync()?;
    }
    Ok(is_whole)
}
