//! The vector trait: the operations that a compression function may use on the words of all lanes at once.
//!
//! Everything here and in `algorithms` is `#[inline(always)]`: the code gets its
//! instructions from the one function in `arch` that it is inlined into, which
//! carries the `target_feature` attribute. Closures and iterator adapters are
//! avoided for the same reason: left out of line they would be compiled without
//! the feature.

use core::ops::{Add, BitAnd, BitOr, BitXor};

/// One word of each lane. Addition wraps around.
pub(crate) trait Vector:
    Copy + Add<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// `u32` or `u64`.
    type Word: Copy;

    /// Evidence that the processor has the instructions. A vector can be made
    /// only with it, so every vector is evidence too.
    type Token: Copy;

    const LANES: usize;

    /// How many consecutive words of a message [`Vector::load_tile`] reads.
    const TILE: usize;

    fn splat(token: Self::Token, word: Self::Word) -> Self;

    fn zero(token: Self::Token) -> Self;

    /// Loads a row of the state.
    ///
    /// # Safety
    ///
    /// `row` must be valid for reads of `LANES` words and be aligned to them.
    unsafe fn load(token: Self::Token, row: *const Self::Word) -> Self;

    /// Stores a row of the state.
    ///
    /// # Safety
    ///
    /// `row` must be valid for writes of `LANES` words and be aligned to them.
    unsafe fn store(self, row: *mut Self::Word);

    /// Reads `TILE` little-endian words at `offset` bytes into each message and
    /// transposes them: `tile[i]` gets word `i` of each lane.
    ///
    /// # Safety
    ///
    /// `pointers` must be valid for reads of `LANES` pointers, each of which must
    /// be valid for reads of `offset` bytes and `TILE` words more, at any
    /// alignment.
    unsafe fn load_tile(token: Self::Token, pointers: *const *const u8, offset: usize, tile: &mut [Self]);

    fn swap_bytes(self) -> Self;

    /// Rotates each word left by `count` bits, which must be a constant after
    /// inlining and at least 1.
    fn rotate_left(self, count: u32) -> Self;

    /// Shifts each word right by `count` bits, a constant as above.
    fn shift_right(self, count: u32) -> Self;

    /// `self & !other`
    fn and_not(self, other: Self) -> Self;

    /// `(self | !other) ^ third`
    fn or_not_xor(self, other: Self, third: Self) -> Self;

    /// The same, as a sum of its own: the compiler, to which all orders of adding are alike, leaves what is
    /// added to it later for later. What is ready early is to be added early, not at the end of a chain of
    /// steps, where each instruction counts.
    #[inline(always)]
    fn summed(self) -> Self {
        self
    }

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

    /// `self ^ (third & !other)`
    #[inline(always)]
    fn xor_and_not(self, other: Self, third: Self) -> Self {
        self ^ third.and_not(other)
    }

    /// `(self ^ other)` with each word rotated left by `count` bits, a constant as above.
    #[inline(always)]
    fn xor_rotate_left(self, other: Self, count: u32) -> Self {
        (self ^ other).rotate_left(count)
    }

    /// `self ^ other` with each word of the other rotated left by one bit first.
    #[inline(always)]
    fn xor_rotated_once(self, other: Self) -> Self {
        self ^ other.rotate_left(1)
    }

    /// Rotates each word right by `count` bits.
    #[inline(always)]
    fn rotate_right(self, count: u32) -> Self {
        self.rotate_left(size_of::<Self::Word>() as u32 * 8 - count)
    }
}

/// One lane, in an ordinary register: the portable level.
#[derive(Clone, Copy)]
pub(crate) struct Scalar<W>(W);

/// Implements the operators of a vector: each as an expression of both sides.
macro_rules! operators {
    ([$($generics:tt)*] $vector:ty, $one:ident, $other:ident: $add:expr, $and:expr, $or:expr, $xor:expr) => {
        crate::vector::operators! { @ [$($generics)*] Add add: $vector, $one, $other, $add }
        crate::vector::operators! { @ [$($generics)*] BitAnd bitand: $vector, $one, $other, $and }
        crate::vector::operators! { @ [$($generics)*] BitOr bitor: $vector, $one, $other, $or }
        crate::vector::operators! { @ [$($generics)*] BitXor bitxor: $vector, $one, $other, $xor }
    };
    (@ [$($generics:tt)*] $operator:ident $method:ident: $vector:ty, $one:ident, $other:ident, $result:expr) => {
        impl<$($generics)*> core::ops::$operator for $vector {
            type Output = Self;
            #[inline(always)]
            fn $method(self, $other: Self) -> Self {
                let $one = self;
                $result
            }
        }
    };
}
pub(crate) use operators;

macro_rules! scalar {
    ($word:ty) => {
        operators! {
            [] Scalar<$word>, one, other:
            Scalar(one.0.wrapping_add(other.0)),
            Scalar(one.0 & other.0),
            Scalar(one.0 | other.0),
            Scalar(one.0 ^ other.0)
        }
        impl Vector for Scalar<$word> {
            type Word = $word;
            type Token = ();
            const LANES: usize = 1;
            const TILE: usize = 1;

            #[inline(always)]
            fn splat(_: (), word: $word) -> Self {
                Scalar(word)
            }

            #[inline(always)]
            fn zero(_: ()) -> Self {
                Scalar(0)
            }

            #[inline(always)]
            unsafe fn load(_: (), row: *const $word) -> Self {
                // SAFETY: the caller's promise is this read's requirement.
                Scalar(unsafe { row.read() })
            }

            #[inline(always)]
            unsafe fn store(self, row: *mut $word) {
                // SAFETY: the caller's promise is this write's requirement.
                unsafe { row.write(self.0) }
            }

            #[inline(always)]
            unsafe fn load_tile(_: (), pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
                // SAFETY: the caller promises one pointer, to this much.
                let word = unsafe { (*pointers).add(offset).cast::<$word>().read_unaligned() };
                tile[0] = Scalar(<$word>::from_le(word));
            }

            #[inline(always)]
            fn swap_bytes(self) -> Self {
                Scalar(self.0.swap_bytes())
            }

            #[inline(always)]
            fn rotate_left(self, count: u32) -> Self {
                Scalar(self.0.rotate_left(count))
            }

            #[inline(always)]
            fn shift_right(self, count: u32) -> Self {
                Scalar(self.0 >> count)
            }

            #[inline(always)]
            fn and_not(self, other: Self) -> Self {
                Scalar(self.0 & !other.0)
            }

            #[inline(always)]
            fn or_not_xor(self, other: Self, third: Self) -> Self {
                Scalar((self.0 | !other.0) ^ third.0)
            }
        }
    };
}

scalar!(u32);
scalar!(u64);

/// Two vectors side by side: twice the lanes. Their instructions do not depend
/// on each other, so the one's fill the time that the other's wait.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[derive(Clone, Copy)]
pub(crate) struct Pair<V>(V, V);

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod pair {
    use super::*;

    operators! {
        [V: Vector] Pair<V>, one, other:
        Pair(one.0 + other.0, one.1 + other.1),
        Pair(one.0 & other.0, one.1 & other.1),
        Pair(one.0 | other.0, one.1 | other.1),
        Pair(one.0 ^ other.0, one.1 ^ other.1)
    }

    /// What is done to both halves alike: other vectors come first, then what is no vector.
    macro_rules! both {
        ($($method:ident($($vector:ident),*; $($plain:ident: $kind:ty),*);)*) => {$(
            #[inline(always)]
            fn $method(self, $($vector: Self,)* $($plain: $kind),*) -> Self {
                Pair(self.0.$method($($vector.0,)* $($plain),*), self.1.$method($($vector.1,)* $($plain),*))
            }
        )*};
    }

    impl<V: Vector> Vector for Pair<V> {
        type Word = V::Word;
        type Token = V::Token;
        const LANES: usize = 2 * V::LANES;
        const TILE: usize = V::TILE;

        #[inline(always)]
        fn splat(token: V::Token, word: V::Word) -> Self {
            let both = V::splat(token, word);
            Pair(both, both)
        }

        #[inline(always)]
        fn zero(token: V::Token) -> Self {
            Pair(V::zero(token), V::zero(token))
        }

        #[inline(always)]
        unsafe fn load(token: V::Token, row: *const V::Word) -> Self {
            // SAFETY: the caller's row is as long as both halves.
            unsafe { Pair(V::load(token, row), V::load(token, row.add(V::LANES))) }
        }

        #[inline(always)]
        unsafe fn store(self, row: *mut V::Word) {
            // SAFETY: the caller's row is as long as both halves.
            unsafe {
                self.0.store(row);
                self.1.store(row.add(V::LANES));
            }
        }

        #[inline(always)]
        unsafe fn load_tile(token: V::Token, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
            let mut first = [tile[0].0; 16];
            let mut second = first;
            // SAFETY: the caller promises the pointers of both halves.
            unsafe {
                V::load_tile(token, pointers, offset, &mut first[..V::TILE]);
                V::load_tile(token, pointers.add(V::LANES), offset, &mut second[..V::TILE]);
            }
            let mut i = 0;
            while i < V::TILE {
                tile[i] = Pair(first[i], second[i]);
                i += 1;
            }
        }

        both! {
            swap_bytes(;);
            rotate_left(; count: u32);
            shift_right(; count: u32);
            and_not(other;);
            or_not_xor(other, third;);
            summed(;);
            choose(one, zero;);
            majority(other, third;);
            xor3(other, third;);
            xor_and_not(other, third;);
            xor_rotate_left(other; count: u32);
            xor_rotated_once(other;);
        }
    }
}
