//! The SHA-3 instructions, two lanes of 64 bits. One instruction each: exclusive or of three vectors,
//! exclusive or with rotation, and the step that is not linear.

use core::arch::aarch64::*;

use super::neon::U64x2;
use super::{Neon, Sha3};
use crate::algorithms::*;
use crate::arch::lanes::{call, kernels};
use crate::vector::Vector;

kernels! {
    "neon,sha3", Sha3::assume();
    keccak9 = Keccak<9>, Turned;
    keccak13 = Keccak<13>, Turned;
    keccak17 = Keccak<17>, Turned;
    keccak18 = Keccak<18>, Turned;
    keccak21 = Keccak<21>, Turned;
}

/// Two lanes of 64 bits, as of NEON, but for what these instructions do at once.
#[derive(Clone, Copy)]
pub(crate) struct Turned(U64x2);

crate::vector::operators! {
    [] Turned, one, other:
    Turned(one.0 + other.0),
    Turned(one.0 & other.0),
    Turned(one.0 | other.0),
    Turned(one.0 ^ other.0)
}

/// The instructions, as functions that are compiled with them: the standard library's are inlined into such
/// only.
macro_rules! wrapped {
    ($($name:ident $(<$constant:ident>)? = $intrinsic:ident($($argument:ident),*);)*) => {$(
        #[inline]
        #[target_feature(enable = "neon,sha3")]
        fn $name$(<const $constant: i32>)?($($argument: uint64x2_t),*) -> uint64x2_t {
            $intrinsic$(::<$constant>)?($($argument),*)
        }
    )*};
}

wrapped! {
    xor3 = veor3q_u64(one, other, third);
    xor_and_not = vbcaxq_u64(one, other, third);
    xor_rotate_right<COUNT> = vxarq_u64(one, other);
    xor_rotated_once = vrax1q_u64(one, other);
}

/// Adds without carry and rotates right by a count that is a constant only after inlining, where all but one
/// arm go.
macro_rules! xor_rotate_right {
    ($one:expr, $other:expr, $count:expr, $($value:literal)*) => {
        match $count {
            $($value => call!(xor_rotate_right::<$value>($one, $other)),)*
            _ => unreachable!("a count below the length of a word"),
        }
    };
}

impl Vector for Turned {
    type Word = u64;
    type Token = Sha3;
    const LANES: usize = U64x2::LANES;
    const TILE: usize = U64x2::TILE;

    #[inline(always)]
    fn splat(token: Sha3, word: u64) -> Self {
        Turned(U64x2::splat(token.neon(), word))
    }

    #[inline(always)]
    fn zero(token: Sha3) -> Self {
        Turned(U64x2::zero(token.neon()))
    }

    #[inline(always)]
    unsafe fn load(token: Sha3, row: *const u64) -> Self {
        // SAFETY: the caller promises the row.
        Turned(unsafe { U64x2::load(token.neon(), row) })
    }

    #[inline(always)]
    unsafe fn store(self, row: *mut u64) {
        // SAFETY: the caller promises the row.
        unsafe { self.0.store(row) }
    }

    #[inline(always)]
    unsafe fn load_tile(token: Sha3, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        let mut plain = [U64x2::zero(token.neon()); U64x2::TILE];
        // SAFETY: the caller promises the bytes of each message.
        unsafe { U64x2::load_tile(token.neon(), pointers, offset, &mut plain) };
        tile[0] = Turned(plain[0]);
        tile[1] = Turned(plain[1]);
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        Turned(self.0.swap_bytes())
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        Turned(self.0.rotate_left(count))
    }

    #[inline(always)]
    fn shift_right(self, count: u32) -> Self {
        Turned(self.0.shift_right(count))
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        Turned(self.0.and_not(other.0))
    }

    #[inline(always)]
    fn or_not_xor(self, other: Self, third: Self) -> Self {
        Turned(self.0.or_not_xor(other.0, third.0))
    }

    #[inline(always)]
    fn xor3(self, other: Self, third: Self) -> Self {
        Turned(U64x2(call!(xor3(self.0.0, other.0.0, third.0.0))))
    }

    #[inline(always)]
    fn xor_and_not(self, other: Self, third: Self) -> Self {
        Turned(U64x2(call!(xor_and_not(self.0.0, third.0.0, other.0.0))))
    }

    #[inline(always)]
    fn xor_rotate_left(self, other: Self, count: u32) -> Self {
        Turned(U64x2(xor_rotate_right!(
            self.0.0, other.0.0, 64 - count,
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        )))
    }

    #[inline(always)]
    fn xor_rotated_once(self, other: Self) -> Self {
        Turned(U64x2(call!(xor_rotated_once(self.0.0, other.0.0))))
    }
}

impl Sha3 {
    /// Evidence of NEON, which is part of this level.
    #[inline(always)]
    fn neon(self) -> Neon {
        // SAFETY: the token is the evidence.
        unsafe { Neon::assume() }
    }
}
