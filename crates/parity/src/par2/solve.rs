//! Computes lost blocks of PAR2 from the remaining ones and from recovery blocks.
//!
//! A recovery block is the sum of all blocks, each times its own constant to the power of the block's exponent. What
//! the blocks that are left give is taken off; what stays are linear equations for the lost ones. Some sets of
//! exponents cannot be solved, a known flaw of the format: then a further recovery block takes the place of one.

use super::field::{GROUP, Par2Field, Products, Row, log_at, set};

/// Elements of a group.
const ELEMENTS: usize = GROUP / 2;

/// The exponent to which 2 is the constant of each block: those that have no factor in common with 65,535.
pub(super) fn constants() -> impl Iterator<Item = u64> {
    (1..0xffff).filter(|n| [3, 5, 17, 257].iter().all(|factor| n % factor != 0))
}

/// The logarithm of a block's constant to the power of an exponent.
pub(super) fn factor(constant: u64, exponent: u32) -> u16 {
    Par2Field::get().power_of_two(constant * u64::from(exponent))
}

/// Equations, solved as far as can be without the blocks: a product of two triangles.
pub(super) struct Equations {
    /// Which recovery blocks are used, by their place among the given ones.
    pub(super) used: Vec<usize>,
    /// A row for each: what the rows before it are to be added with, then what is left of it.
    rows: Vec<Row>,
    /// Which lost block each column is.
    order: Vec<usize>,
}

impl Equations {
    /// For lost blocks with these constants and recovery blocks with these exponents; none if they do not do.
    pub(super) fn new(lost: &[u64], exponents: &[u32]) -> Option<Equations> {
        let mut products = Products::new();
        let count = lost.len();
        let mut equations = Equations { used: Vec::new(), rows: Vec::new(), order: (0..count).collect() };
        for (number, exponent) in exponents.iter().enumerate() {
            if equations.rows.len() == count {
                break;
            }
            let mut row = vec![[0; GROUP]; count.div_ceil(ELEMENTS)];
            for (column, &block) in equations.order.iter().enumerate() {
                set(&mut row, column, Some(factor(lost[block], *exponent)));
            }
            for (column, above) in equations.rows.iter().enumerate() {
                let Some(log) = quotient(&row, above, column) else { continue };
                // The columns before are settled and stay: of their last group, too.
                let first = column / ELEMENTS;
                let settled: Vec<_> = (first * ELEMENTS..column).map(|c| (c, log_at(&row, c))).collect();
                products.add(&mut row[first..], &above[first..], log);
                settled.into_iter().chain([(column, Some(log))]).for_each(|(c, log)| set(&mut row, c, log));
            }
            let next = equations.rows.len();
            let Some(pivot) = (next..count).find(|&column| log_at(&row, column).is_some()) else { continue };
            equations.order.swap(next, pivot);
            equations.rows.push(row);
            for row in &mut equations.rows {
                let (one, other) = (log_at(row, next), log_at(row, pivot));
                set(row, next, other);
                set(row, pivot, one);
            }
            equations.used.push(number);
        }
        (equations.rows.len() == count).then_some(equations)
    }

    /// Turns what the used recovery blocks have left into the lost blocks, in the order of `lost`.
    pub(super) fn solve(&self, mut left: Vec<Row>, products: &mut Products) -> Vec<Row> {
        let count = self.rows.len();
        for row in 1..count {
            for column in 0..row {
                let Some(log) = log_at(&self.rows[row], column) else { continue };
                let (above, below) = left.split_at_mut(row);
                products.add(&mut below[0], &above[column], log);
            }
        }
        for column in (0..count).rev() {
            let (above, below) = left.split_at_mut(column);
            if let Some(log) = log_at(&self.rows[column], column) {
                products.divide(&mut below[0], log);
            }
            for (row, above) in self.rows.iter().zip(above) {
                if let Some(log) = log_at(row, column) {
                    products.add(above, &below[0], log);
                }
            }
        }
        let mut solved = vec![Row::new(); count];
        for (row, &block) in left.into_iter().zip(&self.order) {
            solved[block] = row;
        }
        solved
    }
}

/// The logarithm of the quotient of two rows in one column; none where the first is zero.
fn quotient(row: &Row, above: &Row, column: usize) -> Option<u16> {
    const ORDER: u32 = 0xffff;
    let (one, other) = (log_at(row, column)?, log_at(above, column)?);
    Some(((u32::from(one) + ORDER - u32::from(other) % ORDER) % ORDER) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(bytes: &[u8]) -> Row {
        let mut row = Row::new();
        Par2Field::get().read(bytes, &mut row);
        row
    }

    #[test]
    fn there_are_as_many_constants_as_blocks() {
        assert_eq!(constants().count(), 32_768);
        assert_eq!(constants().take(10).collect::<Vec<_>>(), [1, 2, 4, 7, 8, 11, 13, 14, 16, 19]);
    }

    #[test]
    fn lost_blocks_come_back() {
        let constants: Vec<u64> = constants().collect();
        let mut random = fastrand::Rng::with_seed(3);
        for count in [1, 2, 31, 32, 33, 70] {
            let mut numbers: Vec<usize> = (0..32_768).collect();
            random.shuffle(&mut numbers);
            let lost: Vec<u64> = numbers[..count].iter().map(|&number| constants[number]).collect();
            let exponents: Vec<u32> = (0..count as u32 + 5).map(|_| random.u32(..60_000)).collect();
            let blocks: Vec<Row> =
                (0..count).map(|_| row_of(&std::array::from_fn::<u8, 192, _>(|_| random.u8(..)))).collect();
            let mut products = Products::new();
            let Some(equations) = Equations::new(&lost, &exponents) else { panic!("{count}") };
            let left = equations.used.iter().map(|&used| {
                let mut sum = vec![[0; GROUP]; 3];
                for (block, &constant) in blocks.iter().zip(&lost) {
                    products.add(&mut sum, block, factor(constant, exponents[used]));
                }
                sum
            });
            let left = left.collect();
            assert!(equations.solve(left, &mut products) == blocks, "{count}");
        }
    }

    #[test]
    fn equations_that_say_the_same_are_passed_over() {
        let constants: Vec<u64> = constants().take(3).collect();
        assert!(Equations::new(&constants, &[4, 4, 4, 9]).is_none());
        assert_eq!(
            Equations::new(&constants, &[4, 4, 9, 4, 17]).map(|found| found.used),
            Some(vec![0, 2, 4])
        );
    }
}
