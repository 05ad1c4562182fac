//! Maps the field of PAR2 to the field of the crate that computes.
//!
//! PAR2 computes in GF(2)[x] modulo x¹⁶ + x¹² + x³ + x + 1, `reed-solomon-simd` in another field of as many
//! elements, by other numbers. There is only one such field but for the names of its elements: a root of PAR2's
//! polynomial in the other field says how all of them translate, and sums and products stay what they are.

use std::sync::LazyLock;

use reed_solomon_simd::engine::{DefaultEngine, Engine, GF_MODULUS, tables, utils};

/// The unit of the engine: 32 elements, first their low bytes and then their high ones.
pub(super) const GROUP: usize = 64;

/// The exponents of x in PAR2's polynomial.
const POLYNOMIAL: [u32; 5] = [16, 12, 3, 1, 0];

/// A row of elements in the engine's order and numbers.
pub(super) type Row = Vec<[u8; GROUP]>;

/// How the elements of PAR2 translate.
pub(super) struct Par2Field {
    /// What each low and each high byte of an element becomes; an element is the sum of its two.
    to: [[u16; 256]; 2],
    from: [[u16; 256]; 2],
    /// The logarithm of PAR2's 2 to the engine's base.
    two: u32,
}

static FIELD: LazyLock<Par2Field> = LazyLock::new(Par2Field::new);

impl Par2Field {
    pub(super) fn get() -> &'static Par2Field {
        &FIELD
    }

    fn new() -> Par2Field {
        let tables = tables::get_exp_log();
        let power = |log: u32, exponent: u32| tables.exp[(log * exponent % u32::from(GF_MODULUS)) as usize];
        let is_root =
            |log: &u32| POLYNOMIAL.iter().fold(0, |sum, &exponent| sum ^ power(*log, exponent)) == 0;
        let two = (0..u32::from(GF_MODULUS)).find(is_root).unwrap_or_default();
        let translate = |element: u32| {
            (0..16).filter(|bit| element >> bit & 1 == 1).fold(0, |sum, bit| sum ^ power(two, bit))
        };
        let mut field = Par2Field { to: [[0; 256]; 2], from: [[0; 256]; 2], two };
        for element in 0..=0xffff_u32 {
            let other = translate(element);
            let halves =
                [(element, other, &mut field.to), (u32::from(other), element as u16, &mut field.from)];
            for (element, other, table) in halves {
                match element {
                    0..256 => table[0][element as usize] = other,
                    _ if element & 0xff == 0 => table[1][element as usize >> 8] = other,
                    _ => {}
                }
            }
        }
        field
    }

    /// The logarithm of PAR2's 2 to some power.
    pub(super) fn power_of_two(&self, exponent: u64) -> u16 {
        (u64::from(self.two) * (exponent % u64::from(GF_MODULUS)) % u64::from(GF_MODULUS)) as u16
    }

    /// Translates bytes of PAR2; what the last group has too much is zeros.
    pub(super) fn read(&self, bytes: &[u8], row: &mut Row) {
        row.clear();
        row.resize(bytes.len().div_ceil(GROUP), [0; GROUP]);
        for (group, bytes) in row.iter_mut().zip(bytes.chunks(GROUP)) {
            let (low, high) = group.split_at_mut(GROUP / 2);
            for ((pair, low), high) in bytes.chunks(2).zip(low).zip(high) {
                let second = pair.get(1).copied().unwrap_or_default();
                let element = self.to[0][usize::from(pair[0])] ^ self.to[1][usize::from(second)];
                [*low, *high] = element.to_le_bytes();
            }
        }
    }

    /// Translates back.
    pub(super) fn write(&self, row: &Row, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(row.len() * GROUP);
        for group in row {
            let (low, high) = group.split_at(GROUP / 2);
            for (low, high) in low.iter().zip(high) {
                let element = self.from[0][usize::from(*low)] ^ self.from[1][usize::from(*high)];
                bytes.extend_from_slice(&element.to_le_bytes());
            }
        }
        bytes.truncate(length);
        bytes
    }
}

/// Adds products to rows.
pub(super) struct Products {
    engine: DefaultEngine,
    product: Row,
}

impl Products {
    pub(super) fn new() -> Products {
        Products { engine: DefaultEngine::new(), product: Row::new() }
    }

    /// Adds a row times the element of this logarithm.
    pub(super) fn add(&mut self, sum: &mut [[u8; GROUP]], row: &[[u8; GROUP]], log: u16) {
        self.product.clear();
        self.product.extend_from_slice(row);
        self.engine.mul(&mut self.product, log);
        utils::xor(sum, &self.product);
    }

    /// Divides a row by the element of this logarithm.
    pub(super) fn divide(&self, row: &mut [[u8; GROUP]], log: u16) {
        self.engine.mul(row, (GF_MODULUS - log % GF_MODULUS) % GF_MODULUS);
    }
}

/// The logarithm of an element of a row; none for zero.
pub(super) fn log_at(row: &[[u8; GROUP]], at: usize) -> Option<u16> {
    let (group, at) = (&row[at / 32], at % 32);
    let element = u16::from_le_bytes([group[at], group[32 + at]]);
    (element != 0).then(|| tables::get_exp_log().log[usize::from(element)])
}

/// Writes the element of this logarithm; zero for none.
pub(super) fn set(row: &mut [[u8; GROUP]], at: usize, log: Option<u16>) {
    let element = log.map_or(0, |log| tables::get_exp_log().exp[usize::from(log % GF_MODULUS)]);
    let (group, at) = (&mut row[at / 32], at % 32);
    [group[at], group[32 + at]] = element.to_le_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies as PAR2 does, bit by bit.
    fn slow(a: u16, b: u16) -> u16 {
        let (mut a, mut product) = (u32::from(a), 0);
        for bit in 0..16 {
            if b >> bit & 1 == 1 {
                product ^= a;
            }
            a <<= 1;
            if a >= 1 << 16 {
                a ^= 0x1100b;
            }
        }
        product as u16
    }

    #[test]
    fn products_are_those_of_par2() {
        let field = Par2Field::get();
        let mut products = Products::new();
        let mut elements = vec![0, 1, 2, 3, 0x8000, 0xffff, 0x1234];
        elements.extend((0..57).map(|_| fastrand::u16(..)));
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        let mut row = Row::new();
        field.read(&bytes, &mut row);
        assert_eq!(field.write(&row, bytes.len()), bytes);
        let mut factor = 1;
        for exponent in 0..40 {
            let mut sum = vec![[0; GROUP]; row.len()];
            products.add(&mut sum, &row, field.power_of_two(exponent));
            let expected: Vec<u8> =
                elements.iter().flat_map(|element| slow(*element, factor).to_le_bytes()).collect();
            assert_eq!(field.write(&sum, bytes.len()), expected, "2 to the power of {exponent}");
            products.divide(&mut sum, field.power_of_two(exponent));
            assert_eq!(sum, row);
            factor = slow(factor, 2);
        }
    }
}
