//! ext4's directory hashes, as many names side by side as there are lanes.
//!
//! They are those of libext2fs's and the kernel's `dirhash`, but for the last step that all share.

use crate::vector::Vector;

/// What names need beside a [`Vector`]: bytes up to an end, and lanes that have ended.
pub(crate) trait NameVector: Vector<Word = u32> {
    /// Which lanes.
    type Mask: Copy;

    /// Reads `WORDS` little-endian words, 4 or 8, at `offset` bytes into each name and transposes them:
    /// word `i` of each lane comes first in place `i`. What lies past the end of a name is anything.
    /// `is_whole` says that no name ends before.
    ///
    /// # Safety
    ///
    /// `pointers` and `lengths` must be valid for reads of `LANES` names, each pointer for reads of its
    /// length; `is_whole` must be right.
    unsafe fn load_names<const WORDS: usize>(
        token: Self::Token,
        pointers: *const *const u8,
        lengths: *const u32,
        offset: usize,
        is_whole: bool,
    ) -> [Self; WORDS];

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

    fn any(mask: Self::Mask) -> bool;
    fn all(mask: Self::Mask) -> bool;

    /// `one` in these lanes, `zero` in the others.
    fn select(mask: Self::Mask, one: Self, zero: Self) -> Self;
}

/// A hash of names.
pub(crate) trait HashNames<V: NameVector> {
    /// Hashes a name in each lane; returns the hash and the minor hash.
    ///
    /// # Safety
    ///
    /// As for [`NameVector::load_names`].
    unsafe fn hash(
        token: V::Token,
        initial: &[u32; 4],
        pointers: *const *const u8,
        lengths: *const u32,
    ) -> [V; 2];
}

/// The body of every kernel.
///
/// # Safety
///
/// As for [`crate::names::HashNamesFn`].
#[inline(always)]
pub(crate) unsafe fn run_names<V: NameVector, H: HashNames<V>>(
    token: V::Token,
    initial: &[u32; 4],
    pointers: *const *const u8,
    lengths: *const u32,
    words: [*mut u32; 2],
    groups: usize,
) {
    let mut group = 0;
    while group < groups {
        let first = group * V::LANES;
        // SAFETY: the caller promises a name and two words for each lane of each group.
        unsafe {
            let [hash, minor] = H::hash(token, initial, pointers.add(first), lengths.add(first));
            hash.store(words[0].add(first));
            minor.store(words[1].add(first));
        }
        group += 1;
    }
}

pub(crate) struct HalfMd4<const SIGNED: bool>;

impl<V: NameVector, const SIGNED: bool> HashNames<V> for HalfMd4<SIGNED> {
    #[inline(always)]
    unsafe fn hash(
        token: V::Token,
        initial: &[u32; 4],
        pointers: *const *const u8,
        lengths: *const u32,
    ) -> [V; 2] {
        let mut state = [
            V::splat(token, initial[0]),
            V::splat(token, initial[1]),
            V::splat(token, initial[2]),
            V::splat(token, initial[3]),
        ];
        let zero = V::zero(token);
        // SAFETY: the caller promises the lengths, aligned.
        let mut rest = unsafe { V::load(token, lengths) };
        let mut offset = 0;
        let mut unfinished = rest.greater(zero);
        while V::any(unfinished) {
            let is_whole = V::all(rest.greater(V::splat(token, 31)));
            // SAFETY: the caller promises the names.
            let raw = unsafe { V::load_names::<8>(token, pointers, lengths, offset, is_whole) };
            let sums = half_md4(token, &state, &pack::<V, 8, SIGNED>(token, raw, rest, is_whole));
            let mut i = 0;
            while i < 4 {
                state[i] = V::select(unfinished, sums[i], state[i]);
                i += 1;
            }
            offset += 32;
            rest = rest.sub(V::splat(token, 32));
            unfinished = rest.greater(zero);
        }
        [state[1], state[2]]
    }
}

/// The state after a block.
#[inline(always)]
fn half_md4<V: NameVector>(token: V::Token, state: &[V; 4], words: &[V; 8]) -> [V; 4] {
    let [mut a, mut b, mut c, mut d] = *state;
    let k2 = V::splat(token, 0x5a82_7999);
    let k3 = V::splat(token, 0x6ed9_eba1);

    macro_rules! step1 {
        ($word:expr, $rotation:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
            $a = ($a + words[$word] + $b.choose($c, $d)).rotate_left($rotation);
        };
    }
    // The sum of `b & c` and `(b ^ c) & d`, which have no bit in common: the majority.
    macro_rules! step2 {
        ($word:expr, $rotation:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
            $a = ($a + (words[$word] + k2) + $b.majority($c, $d)).rotate_left($rotation);
        };
    }
    macro_rules! step3 {
        ($word:expr, $rotation:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
            $a = ($a + (words[$word] + k3) + $c.xor3($d, $b)).rotate_left($rotation);
        };
    }
    macro_rules! four {
        ($step:ident, $words:expr, $rotations:expr) => {
            $step!($words[0], $rotations[0], a, b, c, d);
            $step!($words[1], $rotations[1], d, a, b, c);
            $step!($words[2], $rotations[2], c, d, a, b);
            $step!($words[3], $rotations[3], b, c, d, a);
        };
    }
    four!(step1, [0, 1, 2, 3], [3, 7, 11, 19]);
    four!(step1, [4, 5, 6, 7], [3, 7, 11, 19]);
    four!(step2, [1, 3, 5, 7], [3, 5, 9, 13]);
    four!(step2, [0, 2, 4, 6], [3, 5, 9, 13]);
    four!(step3, [3, 7, 2, 6], [3, 9, 11, 15]);
    four!(step3, [1, 5, 0, 4], [3, 9, 11, 15]);
    [state[0] + a, state[1] + b, state[2] + c, state[3] + d]
}

pub(crate) struct Tea<const SIGNED: bool>;

impl<V: NameVector, const SIGNED: bool> HashNames<V> for Tea<SIGNED> {
    #[inline(always)]
    unsafe fn hash(
        token: V::Token,
        initial: &[u32; 4],
        pointers: *const *const u8,
        lengths: *const u32,
    ) -> [V; 2] {
        let mut state = [V::splat(token, initial[0]), V::splat(token, initial[1])];
        let zero = V::zero(token);
        // SAFETY: the caller promises the lengths, aligned.
        let mut rest = unsafe { V::load(token, lengths) };
        let mut offset = 0;
        let mut unfinished = rest.greater(zero);
        while V::any(unfinished) {
            let is_whole = V::all(rest.greater(V::splat(token, 15)));
            // SAFETY: the caller promises the names.
            let raw = unsafe { V::load_names::<4>(token, pointers, lengths, offset, is_whole) };
            let [x, y] = tea(token, state, &pack::<V, 4, SIGNED>(token, raw, rest, is_whole));
            state = [
                V::select(unfinished, state[0] + x, state[0]),
                V::select(unfinished, state[1] + y, state[1]),
            ];
            offset += 16;
            rest = rest.sub(V::splat(token, 16));
            unfinished = rest.greater(zero);
        }
        state
    }
}

/// Encrypts the state with a block.
#[inline(always)]
fn tea<V: NameVector>(token: V::Token, [mut x, mut y]: [V; 2], &[a, b, c, d]: &[V; 4]) -> [V; 2] {
    let four = V::splat(token, 4);
    let mut sum = 0u32;
    let mut round = 0;
    while round < 16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        let delta = V::splat(token, sum);
        x = x + (y.shift_left_by(four) + a).xor3(y + delta, y.shift_right(5) + b);
        y = y + (x.shift_left_by(four) + c).xor3(x + delta, x.shift_right(5) + d);
        round += 1;
    }
    [x, y]
}

/// Makes words of little-endian bytes: the first character most significant, and what is missing made
/// of the length of the rest of the name, above the characters that are there.
#[inline(always)]
fn pack<V: NameVector, const WORDS: usize, const SIGNED: bool>(
    token: V::Token,
    mut words: [V; WORDS],
    rest: V,
    is_whole: bool,
) -> [V; WORDS] {
    let word_bits = V::splat(token, 32);
    let pad = rest | rest.shift_left_by(V::splat(token, 8));
    let pad = pad | pad.shift_left_by(V::splat(token, 16));
    let rest_bits = rest.shift_left_by(V::splat(token, 3));
    let mut i = 0;
    while i < WORDS {
        let mut word = words[i].swap_bytes();
        let bits = rest_bits.sub(V::splat(token, 32 * i as u32)).clamp(word_bits);
        if !is_whole {
            word = word.shift_right_by(word_bits.sub(bits));
        }
        if SIGNED {
            // A negative character takes 1 from the one before.
            let negative = word & V::splat(token, 0x8080_8080);
            word = word.sub(negative + negative);
        }
        if !is_whole {
            word = word + pad.shift_left_by(bits);
        }
        words[i] = word;
        i += 1;
    }
    words
}

pub(crate) struct Legacy<const SIGNED: bool>;

impl<V: NameVector, const SIGNED: bool> HashNames<V> for Legacy<SIGNED> {
    #[inline(always)]
    unsafe fn hash(token: V::Token, _: &[u32; 4], pointers: *const *const u8, lengths: *const u32) -> [V; 2] {
        let multiplier = V::splat(token, 7_152_373);
        let low = V::splat(token, 0x7fff_ffff);
        let one = V::splat(token, 1);
        let zero = V::zero(token);
        let top = V::splat(token, 24);
        let mut previous = V::splat(token, 0x37ab_e8f9);
        let mut current = V::splat(token, 0x12a3_fe2d);
        // SAFETY: the caller promises the lengths, aligned.
        let mut rest = unsafe { V::load(token, lengths) };
        let mut offset = 0;
        while V::any(rest.greater(zero)) {
            let is_whole = V::all(rest.greater(V::splat(token, 15)));
            // SAFETY: the caller promises the names.
            let words = unsafe { V::load_names::<4>(token, pointers, lengths, offset, is_whole) };
            let mut word = 0;
            while word < 4 && V::any(rest.greater(zero)) {
                let is_whole = V::all(rest.greater(V::splat(token, 3)));
                let mut byte = 0;
                while byte < 4 {
                    // The character at the top of the word, whose sign then fills it.
                    let raised = words[word].shift_left_by(V::splat(token, 24 - 8 * byte));
                    let character =
                        if SIGNED { raised.shift_sign_by(top) } else { raised.shift_right_by(top) };
                    let sum = previous + (current ^ character.multiply(multiplier));
                    let next = (sum & low) + sum.shift_right(31);
                    if is_whole {
                        previous = current;
                        current = next;
                    } else {
                        let unfinished = rest.greater(V::splat(token, byte));
                        previous = V::select(unfinished, current, previous);
                        current = V::select(unfinished, next, current);
                    }
                    byte += 1;
                }
                rest = rest.sub(V::splat(token, 4));
                word += 1;
            }
            offset += 16;
        }
        [current.shift_left_by(one), zero]
    }
}
