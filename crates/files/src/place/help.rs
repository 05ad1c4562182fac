//! Requests for the parts of other files from which parity computes a lost part.

use std::collections::HashMap;

/// A part of a file that a place needs to compute a part of another.
pub struct LostPart<'a> {
    /// The path of the file in the place.
    pub path: &'a [u8],
    /// Where the part begins.
    pub offset: u64,
    /// Room for its bytes.
    pub bytes: &'a mut [u8],
    /// Tells whether these bytes are those of the part.
    pub is_good: &'a mut dyn FnMut(&[u8]) -> bool,
}

/// Finds lost parts in other places.
pub struct Help<'a> {
    /// Fills the room with the bytes of a part; false if nothing has them.
    pub find: &'a mut dyn FnMut(LostPart) -> bool,
    /// How much sets had lost that could not be solved with all that was found: there is no need to try again until they
    /// lack less.
    pub in_vain: &'a mut HashMap<u64, usize>,
}
