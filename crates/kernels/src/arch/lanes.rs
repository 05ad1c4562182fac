//! Macros for the vector types of each processor family.

/// A function for each algorithm, compiled with the features of a level.
macro_rules! kernels {
    ($features:literal, $token:expr; $($function:ident = $algorithm:ty, $vector:ty;)*) => {$(
        /// # Safety
        ///
        /// As for [`crate::arch::CompressFn`]; the processor has the level of this module.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $function(state: *mut u64, pointers: *const *const u8, blocks: usize) {
            // SAFETY: the caller's promises are the same.
            unsafe { run::<$vector, $algorithm, _, _>($token, state, pointers, blocks) }
        }
    )*};
}

/// Calls a statement for each way, with the compiler's loops unrolled.
macro_rules! each {
    ($way:ident, $body:block) => {{
        let mut $way = 0;
        while $way < WAYS {
            $body
            $way += 1;
        }
    }};
}

/// Calls a macro with each of these numbers, written one after the other.
macro_rules! unrolled {
    ($step:ident; $($number:literal)*) => {
        $($step!($number);)*
    };
}

/// Calls intrinsics.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: a token or a vector is at hand, and neither can be made where the processor lacks its level.
        unsafe { $call }
    };
}

/// Operators that are one instruction each.
macro_rules! instructions {
    ($($vector:ident: $add:ident, $and:ident, $or:ident, $xor:ident;)*) => {$(
        crate::vector::operators! {
            [] $vector, one, other:
            Self(call!($add(one.0, other.0))),
            Self(call!($and(one.0, other.0))),
            Self(call!($or(one.0, other.0))),
            Self(call!($xor(one.0, other.0)))
        }
    )*};
}

/// What vectors of all words do alike on x86-64, for an `impl` of [`crate::vector::Vector`].
#[cfg(target_arch = "x86_64")]
macro_rules! registers {
    ($word:ty, $token:ty, $zero:ident, $load:ident, $store:ident, $and_not:ident) => {
        type Word = $word;
        type Token = $token;

        #[inline(always)]
        fn zero(_: $token) -> Self {
            Self(call!($zero()))
        }

        #[inline(always)]
        unsafe fn load(_: $token, row: *const $word) -> Self {
            // SAFETY: the caller promises the row; the token, the level.
            Self(unsafe { $load(row.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, row: *mut $word) {
            // SAFETY: the caller promises the row; the vector, the level.
            unsafe { $store(row.cast(), self.0) }
        }

        #[inline(always)]
        fn and_not(self, other: Self) -> Self {
            Self(call!($and_not(other.0, self.0)))
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use registers;
pub(crate) use {call, each, instructions, kernels, unrolled};
