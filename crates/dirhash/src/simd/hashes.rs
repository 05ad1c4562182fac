//! ext4's directory hashes, as many names side by side as there are lanes.
//!
//! They are those of libext2fs's and the kernel's `dirhash`, but for the last step that all share.

use super::NameValue;
use super::vector::{Ends, NameVector};

/// As many names as there are lanes.
pub(super) struct NameLanes<'a, V> {
    /// The first.
    first: *const &'a [u8],
    lengths: V,
    /// The length, if all have the same.
    even: Option<usize>,
}

/// A hash of names.
pub(super) trait HashNames<V: NameVector> {
    /// Hashes a name in each lane; returns the hash and the minor hash.
    fn hash(token: V::Token, initial: &[u32; 4], names: NameLanes<'_, V>) -> [V; 2];
}

/// The body of every kernel.
///
/// # Safety
///
/// As for a kernel's function, see `HashNamesFn`.
#[inline(always)]
pub(super) unsafe fn run_names<V: NameVector, H: HashNames<V>>(
    token: V::Token,
    initial: &[u32; 4],
    names: &[&[u8]],
    values: &mut [NameValue],
) {
    // The lowest bit is not part of a hash.
    let kept = V::splat(token, !1);
    let mut first = 0;
    while first < names.len() {
        // SAFETY: the caller promises as many values as names, and enough for each lane of each group.
        unsafe {
            let group = NameLanes::new(token, names.as_ptr().add(first));
            let [hash, minor] = H::hash(token, initial, group);
            V::store_values(token, hash & kept, minor, values.as_mut_ptr().add(first));
        }
        first += V::LANES;
    }
}

impl<'a, V: NameVector> NameLanes<'a, V> {
    /// # Safety
    ///
    /// `first` must be valid for reads of a slice for each lane, for as long as this lives, and slices must
    /// be laid out as address and length. No name may be longer than [`super::NameKernel::MAX_LEN`].
    #[inline(always)]
    unsafe fn new(token: V::Token, first: *const &'a [u8]) -> NameLanes<'a, V> {
        // SAFETY: the caller promises the names and how they are laid out.
        let (lengths, name) = unsafe { (V::lengths(token, first), *first) };
        let is_even = V::all(lengths.equal(V::splat(token, name.len() as u32)));
        NameLanes { first, lengths, even: if is_even { Some(name.len()) } else { None } }
    }

    /// The words at `offset` bytes into each name, of which `rest` bytes are left.
    #[inline(always)]
    fn load<const WORDS: usize>(&self, token: V::Token, offset: usize, rest: V) -> ([V; WORDS], bool) {
        let is_whole = V::all(rest.greater(V::splat(token, 4 * WORDS as u32 - 1)));
        // SAFETY: `new` was promised the names, and these are where they end.
        let words = unsafe {
            if is_whole {
                V::load_names::<WORDS>(token, self.first, offset, Ends::Beyond)
            } else if let Some(length) = self.even {
                V::load_names::<WORDS>(token, self.first, offset, Ends::Even(length - offset))
            } else {
                V::load_names::<WORDS>(token, self.first, offset, Ends::Each(rest))
            }
        };
        (words, is_whole)
    }
}

pub(super) struct HalfMd4<const SIGNED: bool>;

impl<V: NameVector, const SIGNED: bool> HashNames<V> for HalfMd4<SIGNED> {
    #[inline(always)]
    fn hash(token: V::Token, initial: &[u32; 4], names: NameLanes<'_, V>) -> [V; 2] {
        let mut state = [
            V::splat(token, initial[0]),
            V::splat(token, initial[1]),
            V::splat(token, initial[2]),
            V::splat(token, initial[3]),
        ];
        let zero = V::splat(token, 0);
        let mut rest = names.lengths;
        let mut offset = 0;
        let mut unfinished = rest.greater(zero);
        while V::any(unfinished) {
            let (raw, is_whole) = names.load::<8>(token, offset, rest);
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

pub(super) struct Tea<const SIGNED: bool>;

impl<V: NameVector, const SIGNED: bool> HashNames<V> for Tea<SIGNED> {
    #[inline(always)]
    fn hash(token: V::Token, initial: &[u32; 4], names: NameLanes<'_, V>) -> [V; 2] {
        let mut state = [V::splat(token, initial[0]), V::splat(token, initial[1])];
        let zero = V::splat(token, 0);
        let mut rest = names.lengths;
        let mut offset = 0;
        let mut unfinished = rest.greater(zero);
        while V::any(unfinished) {
            let (raw, is_whole) = names.load::<4>(token, offset, rest);
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
    let (four, five) = (V::splat(token, 4), V::splat(token, 5));
    let mut sum = 0u32;
    let mut round = 0;
    while round < 16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        let delta = V::splat(token, sum);
        x = x + (y.shift_left_by(four) + a).xor3(y + delta, y.shift_right_by(five) + b);
        y = y + (x.shift_left_by(four) + c).xor3(x + delta, x.shift_right_by(five) + d);
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

pub(super) struct Legacy<const SIGNED: bool>;

impl<V: NameVector, const SIGNED: bool> HashNames<V> for Legacy<SIGNED> {
    #[inline(always)]
    fn hash(token: V::Token, _: &[u32; 4], names: NameLanes<'_, V>) -> [V; 2] {
        let mut last =
            LastTwo { previous: V::splat(token, 0x37ab_e8f9), current: V::splat(token, 0x12a3_fe2d) };
        match names.even {
            Some(length) => last.add_even::<SIGNED>(token, &names, length),
            None => last.add_uneven::<SIGNED>(token, &names),
        }
        [last.current.shift_left_by(V::splat(token, 1)), V::splat(token, 0)]
    }
}

/// The legacy hash so far, and before the last character.
#[derive(Clone, Copy)]
struct LastTwo<V> {
    previous: V,
    current: V,
}

impl<V: NameVector> LastTwo<V> {
    /// Adds names of one length: no lane waits for another.
    #[inline(always)]
    fn add_even<const SIGNED: bool>(&mut self, token: V::Token, names: &NameLanes<'_, V>, length: usize) {
        let mut offset = 0;
        while length - offset >= 16 {
            // SAFETY: `names` are names, and that long.
            let words = unsafe { V::load_names::<4>(token, names.first, offset, Ends::Beyond) };
            self.add_bytes::<SIGNED>(token, &words, 16);
            offset += 16;
        }
        let rest = length - offset;
        if rest > 0 {
            // SAFETY: as above.
            let words = unsafe { V::load_names::<4>(token, names.first, offset, Ends::Even(rest)) };
            self.add_bytes::<SIGNED>(token, &words, rest);
        }
    }

    /// Adds the first bytes of the words of each lane.
    #[inline(always)]
    fn add_bytes<const SIGNED: bool>(&mut self, token: V::Token, words: &[V; 4], count: usize) {
        let mut word = 0;
        while word < 4 {
            let mut byte = 0;
            while byte < 4 {
                if 4 * word + byte == count {
                    return;
                }
                *self = self.next::<SIGNED>(token, words[word], byte as u32);
                byte += 1;
            }
            word += 1;
        }
    }

    /// Adds names of several lengths.
    #[inline(always)]
    fn add_uneven<const SIGNED: bool>(&mut self, token: V::Token, names: &NameLanes<'_, V>) {
        let zero = V::splat(token, 0);
        let mut rest = names.lengths;
        let mut offset = 0;
        while V::any(rest.greater(zero)) {
            let (words, _) = names.load::<4>(token, offset, rest);
            let mut word = 0;
            while word < 4 && V::any(rest.greater(zero)) {
                let is_whole = V::all(rest.greater(V::splat(token, 3)));
                let mut byte = 0;
                while byte < 4 {
                    let next = self.next::<SIGNED>(token, words[word], byte);
                    if is_whole {
                        *self = next;
                    } else {
                        let unfinished = rest.greater(V::splat(token, byte));
                        self.previous = V::select(unfinished, next.previous, self.previous);
                        self.current = V::select(unfinished, next.current, self.current);
                    }
                    byte += 1;
                }
                rest = rest.sub(V::splat(token, 4));
                word += 1;
            }
            offset += 16;
        }
    }

    /// After this byte of a word of each lane.
    #[inline(always)]
    fn next<const SIGNED: bool>(self, token: V::Token, word: V, byte: u32) -> LastTwo<V> {
        let top = V::splat(token, 24);
        // The character at the top of the word, whose sign then fills it.
        let raised = word.shift_left_by(V::splat(token, 24 - 8 * byte));
        let character = if SIGNED { raised.shift_sign_by(top) } else { raised.shift_right_by(top) };
        let sum = self.previous + (self.current ^ character.multiply(V::splat(token, 7_152_373)));
        let reduced = (sum & V::splat(token, 0x7fff_ffff)) + sum.shift_right_by(V::splat(token, 31));
        LastTwo { previous: self.current, current: reduced }
    }
}
