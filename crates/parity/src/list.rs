//! The list of pieces in a head: compressed, with numbers of variable length. Each path is stored by its
//! difference from the one before.

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use verisum_files::Timestamp;

use crate::head::Piece;

/// The longest path that is taken.
const LONGEST_PATH: usize = 1 << 16;

/// The pieces as bytes.
pub(crate) fn encode(pieces: &[Piece]) -> Vec<u8> {
    let mut list = Vec::new();
    let mut before: &[u8] = &[];
    let mut seconds = 0;
    for piece in pieces {
        let shared = before.iter().zip(&piece.path).take_while(|(one, other)| one == other).count();
        let own = &piece.path[shared..];
        push(&mut list, shared as u64);
        push(&mut list, own.len() as u64);
        list.extend_from_slice(own);
        let moved = piece.modified.seconds.wrapping_sub(seconds);
        let numbers = [
            piece.size,
            piece.offset,
            piece.length,
            (moved.wrapping_shl(1) ^ (moved >> 63)) as u64,
            piece.modified.nanoseconds.into(),
            piece.mode.into(),
            piece.owner.0.into(),
            piece.owner.1.into(),
        ];
        numbers.iter().for_each(|number| push(&mut list, *number));
        (before, seconds) = (&piece.path, piece.modified.seconds);
    }
    list
}

/// Reads `count` pieces; none if the bytes are not exactly that, a path leads out of the tree, or pieces are not
/// in order.
pub(crate) fn decode(mut list: &[u8], count: usize) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut seconds = 0_i64;
    for _ in 0..count {
        let before: &[u8] = pieces.last().map_or(&[], |piece| &piece.path);
        let (shared, own) = (usize::try_from(pull(&mut list)?).ok()?, pull(&mut list)?);
        let own = list.split_off(..usize::try_from(own).ok()?)?;
        if shared > before.len() || shared + own.len() > LONGEST_PATH {
            return None;
        }
        let path: Box<[u8]> = [&before[..shared], own].concat().into();
        let mut numbers = [0; 8];
        for number in &mut numbers {
            *number = pull(&mut list)?;
        }
        let [size, offset, length, moved, nanoseconds, mode, owner, group] = numbers;
        let moved = (moved >> 1) as i64 ^ -((moved & 1) as i64);
        seconds = seconds.wrapping_add(moved);
        let nanoseconds = u32::try_from(nanoseconds).ok().filter(|part| *part < 1_000_000_000)?;
        let piece = Piece {
            path,
            size,
            modified: Timestamp { seconds, nanoseconds },
            mode: u32::try_from(mode).ok().filter(|mode| *mode <= 0o7777)?,
            owner: (user_id(owner)?, user_id(group)?),
            offset,
            length,
        };
        let is_within = offset.checked_add(length).is_some_and(|end| end <= size) && size < 1 << 62;
        let is_next = pieces.last().is_none_or(|last| {
            last.path < piece.path || last.path == piece.path && last.offset + last.length <= offset
        });
        if !is_within || !is_next || !is_plain(&piece.path) {
            return None;
        }
        pieces.push(piece);
    }
    // The sum of the lengths cannot overflow: each is below 2⁶², and the data is checked piece by piece.
    let total = pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.length))?;
    (list.is_empty() && total < 1 << 62).then_some(pieces)
}

/// Whether a path leads down from the root and nowhere else.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Compresses the list, as RFC 1950 says.
pub(crate) fn compress(list: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut stored = vec![0; compressor.zlib_compress_bound(list.len())];
    // The room is what the compressor says it needs at most.
    let length = compressor.zlib_compress(list, &mut stored).unwrap_or_default();
    stored.truncate(length);
    stored
}

/// The list again; none if it is not of this length.
pub(crate) fn decompress(stored: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut list = vec![0; length];
    let found = Decompressor::new().zlib_decompress(stored, &mut list).ok()?;
    (found == length).then_some(list)
}

/// Adds a number: seven bits a byte, the lowest first; the top bit says that more follow.
fn push(list: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        list.push(number as u8 | 0x80);
        number >>= 7;
    }
    list.push(number as u8);
}

fn pull(list: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *list.split_off_first()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The number of a user or a group. The highest one is nobody's: to the system it means "leave it as it is".
fn user_id(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|id| *id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::tests::example;

    #[test]
    fn lists_come_back() {
        let mut pieces = example().pieces;
        pieces[0].modified = Timestamp { seconds: -5, nanoseconds: 999_999_999 };
        pieces[1].modified.seconds = i64::MIN;
        pieces[2].owner = (u32::MAX - 1, 0);
        let list = encode(&pieces);
        assert_eq!(decode(&list, 3), Some(pieces));
        assert_eq!(decode(&list, 2), None);
        assert_eq!(decompress(&compress(&list), list.len()), Some(list.clone()));
        assert_eq!(decompress(&compress(&list), list.len() + 1), None);
        for end in 0..list.len() {
            assert_eq!(decode(&list[..end], 3), None);
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["", "/a", "a/", "a//b", ".", "a/./b", "..", "a/..", "a\0b"] {
            let mut pieces = example().pieces;
            pieces.truncate(1);
            pieces[0].path = path.as_bytes().into();
            assert_eq!(decode(&encode(&pieces), 1), None, "{path:?}");
        }
        let mut pieces = example().pieces;
        pieces[2].owner = (0, u32::MAX);
        assert_eq!(decode(&encode(&pieces), 3), None, "nobody's group");
        let mut pieces = example().pieces;
        pieces.swap(0, 2);
        assert_eq!(decode(&encode(&pieces), 3), None, "out of order");
        let mut pieces = example().pieces;
        pieces[2].length = 9501;
        assert_eq!(decode(&encode(&pieces), 3), None, "beyond the file");
    }
}
