//! SHA-1, FIPS 180-4.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Sha1;

/// The constant of each twenty steps.
pub(crate) const SHA1_K: [u32; 4] = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

impl<V: Vector<Word = u32>> Compress<V, 5, 16> for Sha1 {
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 5], block: [V; 16]) {
        let [mut a, mut b, mut c, mut d, mut e] = *state;
        let constants = opaque(&SHA1_K);
        // The last sixteen words of the message schedule, round after round.
        let mut w = block;

        macro_rules! step {
            ($function:ident, $k:ident, $i:expr, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident) => {
                if $i >= 16 {
                    w[$i % 16] = (w[($i + 13) % 16] ^ w[($i + 8) % 16])
                        .xor3(w[($i + 2) % 16], w[$i % 16])
                        .rotate_left(1);
                }
                let early = $e + (w[$i % 16] + $k) + $function!($b, $c, $d);
                $e = early + $a.rotate_left(5);
                $b = $b.rotate_left(30);
            };
        }
        macro_rules! five {
            ($function:ident, $k:ident, $i:expr) => {
                step!($function, $k, $i, a, b, c, d, e);
                step!($function, $k, $i + 1, e, a, b, c, d);
                step!($function, $k, $i + 2, d, e, a, b, c);
                step!($function, $k, $i + 3, c, d, e, a, b);
                step!($function, $k, $i + 4, b, c, d, e, a);
            };
        }
        macro_rules! twenty {
            ($function:ident, $k:expr, $i:expr) => {
                let k = V::splat(token, constants[$k]);
                five!($function, k, $i);
                five!($function, k, $i + 5);
                five!($function, k, $i + 10);
                five!($function, k, $i + 15);
            };
        }
        macro_rules! choose {
            ($x:ident, $y:ident, $z:ident) => {
                $x.choose($y, $z)
            };
        }
        macro_rules! parity {
            ($x:ident, $y:ident, $z:ident) => {
                $x.xor3($y, $z)
            };
        }
        macro_rules! majority {
            ($x:ident, $y:ident, $z:ident) => {
                $x.majority($y, $z)
            };
        }

        twenty!(choose, 0, 0);
        twenty!(parity, 1, 20);
        twenty!(majority, 2, 40);
        twenty!(parity, 3, 60);

        *state = [state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e];
    }
}
