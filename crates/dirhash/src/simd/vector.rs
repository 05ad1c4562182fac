//! The operations that a hash may use on the words of all lanes at once.
//!
//! Everything here and in the hashes is `#[inline(always)]`: the code gets its instructions from the one
//! function of a level that it is inlined into, which carries the `target_feature` attribute. Closures and
//! iterator adapters are avoided for the same reason: left out of line they would be compiled without the
//! feature.

use std::ops::{Add, BitAnd, BitOr, BitXor};

use super::NameValue;

/// Where names end, in bytes from the first that is read.
pub(super) enum Ends<V> {
    /// Not in what is read.
    Beyond,
    /// All in the same place.
    Even(usize),
    /// Each in its own place, before the first byte if it is not above 0.
    Each(V),
}

/// One word of each lane. Addition wraps around.
pub(super) trait NameVector:
    Copy + Add<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// Evidence that the processor has the instructions. A vector can be made only with it, so every vector
    /// is evidence too.
    type Token: Copy;

    /// Which lanes.
    type Mask: Copy;

    const LANES: usize;

    fn splat(token: Self::Token, word: u32) -> Self;

    /// Reads the lengths of `LANES` names.
    ///
    /// # Safety
    ///
    /// `names` must be valid for reads of `LANES` slices, which are laid out as address and length.
    unsafe fn lengths(token: Self::Token, names: *const &[u8]) -> Self;

    /// Reads `WORDS` little-endian words, 4 or 8, at `offset` bytes into each name and transposes them:
    /// word `i` of each lane comes first in place `i`. What lies past the end of a name is anything.
    ///
    /// # Safety
    ///
    /// `names` must be valid for reads of `LANES` slices, and `ends` must be right.
    unsafe fn load_names<const WORDS: usize>(
        token: Self::Token,
        names: *const &[u8],
        offset: usize,
        ends: Ends<Self>,
    ) -> [Self; WORDS];

    /// Stores a value for each lane.
    ///
    /// # Safety
    ///
    /// `values` must be valid for writes of `LANES` values.
    unsafe fn store_values(token: Self::Token, hash: Self, minor: Self, values: *mut NameValue);

    fn swap_bytes(self) -> Self;

    /// Rotates each word left by `count` bits, which must be a constant after inlining and at least 1.
    fn rotate_left(self, count: u32) -> Self;

    /// `self` chooses, bit by bit, between `one` and `zero`.
    #[inline(always)]
    fn choose(self, one: Self, zero: Self) -> Self {
        ((one ^ zero) & self) ^ zero
    }

    /// Each bit is that of at least two of the three.
    #[inline(always)]
    fn majority(self, other: Self, third: Self) -> Self {
        ((self ^ other) & (other ^ third)) ^ other
    }

    #[inline(always)]
    fn xor3(self, other: Self, third: Self) -> Self {
        self ^ other ^ third
    }

    fn sub(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;

    /// Shifts each word left by its own count; 32 or more leave nothing.
    fn shift_left_by(self, counts: Self) -> Self;

    /// Shifts each word right, as above.
    fn shift_right_by(self, counts: Self) -> Self;

    /// Shifts each word right, and fills it with its sign.
    fn shift_sign_by(self, counts: Self) -> Self;

    /// The least word, with a sign, at least 0 and at most this one.
    fn clamp(self, most: Self) -> Self;

    /// The lanes whose word, with a sign, is greater.
    fn greater(self, other: Self) -> Self::Mask;

    /// The lanes whose words are the same.
    fn equal(self, other: Self) -> Self::Mask;

    fn any(mask: Self::Mask) -> bool;
    fn all(mask: Self::Mask) -> bool;

    /// `one` in these lanes, `zero` in the others.
    fn select(mask: Self::Mask, one: Self, zero: Self) -> Self;
}

/// Calls intrinsics.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: a token or a vector is at hand, and neither can be made where the processor lacks its level.
        unsafe { $call }
    };
}

/// Methods that are one instruction of two operands, for an `impl` of a vector.
macro_rules! methods {
    ($($method:ident = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            Self(call!($intrinsic(self.0, other.0)))
        }
    )*};
}

/// Operators that are one instruction.
macro_rules! operators {
    ($vector:ty: $($operator:ident $method:ident = $intrinsic:ident;)*) => {$(
        impl std::ops::$operator for $vector {
            type Output = Self;
            methods! { $method = $intrinsic; }
        }
    )*};
}

pub(super) use {call, methods, operators};
