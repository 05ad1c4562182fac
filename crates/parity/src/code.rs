//! The Reed–Solomon code: parity blocks from data blocks, and lost data blocks from what is left.
//!
//! It is the code of the crate `reed-solomon-simd` at its high rate, over GF(2¹⁶). docs/parity.md defines it by
//! a formula, without a transform. Here the transforms of that crate make the parity, in runs of as many blocks
//! as there are parity blocks, so that memory grows with the parity and not with the data. Lost blocks come from
//! the difference between the parity that is there and that of the blocks that are left: a system of equations
//! with a Cauchy matrix, whose inverse is known. That takes one pass of the encoder and, for `e` lost blocks,
//! `e²` products of blocks, and is faster than a decoder by transforms unless most of a large parity is used.

use reed_solomon_simd::engine::{DefaultEngine, Engine, GF_MODULUS, ShardsRefMut, tables, utils};

/// The unit of the engine: 32 elements, first their low bytes and then their high ones.
const GROUP: usize = 64;

/// How many bytes of a run are transformed at a time: what the cache of a core holds.
const IN_CACHE: usize = 512 << 10;

/// The most blocks of a set, the parity blocks rounded up to a power of two.
pub(crate) const MOST_BLOCKS: usize = 1 << 16;

/// The number and the size of the blocks of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of a block, a multiple of 64.
    pub(crate) block: usize,
    /// How many blocks are data.
    pub(crate) data: usize,
    /// How many blocks are parity.
    pub(crate) parity: usize,
}

impl Shape {
    /// How many blocks are transformed together.
    pub(crate) fn run(&self) -> usize {
        self.parity.next_power_of_two()
    }

    /// Whether the code has this shape.
    pub(crate) fn is_possible(&self) -> bool {
        self.block > 0
            && self.block.is_multiple_of(GROUP)
            && (1..=MOST_BLOCKS / 2).contains(&self.parity)
            && self.data > 0
            && self.data <= MOST_BLOCKS - self.run()
    }
}

/// Makes parity blocks from data blocks that come one after the other.
pub(crate) struct Encoder {
    engine: DefaultEngine,
    shape: Shape,
    /// Groups of a block that are transformed together.
    width: usize,
    /// A run of blocks, in stripes: of each block the first `width` groups, then of each the next.
    run: Vec<[u8; GROUP]>,
    /// The sum of the transforms, in the same order.
    sum: Vec<[u8; GROUP]>,
    /// How many blocks came.
    came: usize,
}

impl Encoder {
    /// For a set of this shape, which must be possible.
    pub(crate) fn new(shape: Shape) -> Encoder {
        debug_assert!(shape.is_possible());
        let groups = shape.block / GROUP;
        let mut width = groups;
        while width.is_multiple_of(2) && width * GROUP * shape.run() > IN_CACHE {
            width /= 2;
        }
        let room = vec![[0; GROUP]; groups * shape.run()];
        Encoder { engine: DefaultEngine::new(), shape, width, run: room.clone(), sum: room, came: 0 }
    }

    /// Adds the next data block.
    pub(crate) fn add(&mut self, block: &[u8]) {
        let at = self.came % self.shape.run();
        scatter(&mut self.run, block, at, Stripes { run: self.shape.run(), width: self.width });
        self.came += 1;
        if at + 1 == self.shape.run() {
            self.transform(at + 1);
        }
    }

    /// Ends the data and makes the parity blocks.
    pub(crate) fn finish(mut self) -> Parity {
        debug_assert_eq!(self.came, self.shape.data);
        let rest = self.came % self.shape.run();
        if rest > 0 {
            let zeros = vec![0; self.shape.block];
            let stripes = Stripes { run: self.shape.run(), width: self.width };
            for at in rest..self.shape.run() {
                scatter(&mut self.run, &zeros, at, stripes);
            }
            self.transform(rest);
        }
        let run = self.shape.run();
        for stripe in self.sum.chunks_mut(run * self.width) {
            let mut shards = ShardsRefMut::new(run, self.width, stripe);
            self.engine.fft(&mut shards, 0, run, self.shape.parity, 0);
        }
        Parity { stripes: self.sum, run, width: self.width, groups: self.shape.block / GROUP }
    }

    /// Adds the transform of the run, of which `filled` blocks are not zeros.
    fn transform(&mut self, filled: usize) {
        let run = self.shape.run();
        // The first of the points that belong to the run: those of the parity come before all data.
        let first = self.came.next_multiple_of(run);
        let stripes = self.run.chunks_mut(run * self.width);
        for (stripe, sum) in stripes.zip(self.sum.chunks_mut(run * self.width)) {
            let mut shards = ShardsRefMut::new(run, self.width, stripe);
            self.engine.ifft(&mut shards, 0, run, filled, first);
            utils::xor(sum, stripe);
        }
    }
}

/// The shape of stripes.
#[derive(Clone, Copy)]
struct Stripes {
    /// How many blocks each is of.
    run: usize,
    /// How many groups wide each is.
    width: usize,
}

/// Puts a block in its place `at` in stripes.
fn scatter(stripes: &mut [[u8; GROUP]], block: &[u8], at: usize, Stripes { run, width }: Stripes) {
    for (stripe, bytes) in stripes.chunks_mut(run * width).zip(block.chunks(width * GROUP)) {
        stripe[at * width..][..width].as_flattened_mut().copy_from_slice(bytes);
    }
}

/// The parity blocks of a set.
pub(crate) struct Parity {
    stripes: Vec<[u8; GROUP]>,
    run: usize,
    width: usize,
    groups: usize,
}

impl Parity {
    /// Copies one of them.
    pub(crate) fn block(&self, index: usize) -> Vec<u8> {
        let mut block = Vec::with_capacity(self.groups * GROUP);
        for stripe in self.stripes.chunks(self.run * self.width) {
            block.extend_from_slice(stripe[index * self.width..][..self.width].as_flattened());
        }
        block
    }
}

/// The difference between a parity block and what the data blocks that are left would give for it.
pub(crate) struct Difference {
    /// Which of the parity blocks.
    pub(crate) index: usize,
    /// The two of them, byte by byte exclusive or.
    pub(crate) bytes: Vec<u8>,
}

/// Computes lost data blocks, given as many differences as blocks are lost: each is that of a parity block from
/// the parity of the same data with zeros for what is lost. Blocks come in the order of `lost`.
///
/// # Panics
/// If there are not as many differences as lost blocks.
pub(crate) fn solve(shape: Shape, lost: &[usize], mut differences: Vec<Difference>) -> Vec<Vec<u8>> {
    assert_eq!(lost.len(), differences.len(), "a difference for each lost block");
    let field = FieldTables::new();
    let engine = DefaultEngine::new();
    let points: Vec<usize> = lost.iter().map(|index| shape.run() + index).collect();
    let rows: Vec<usize> = differences.iter().map(|difference| difference.index).collect();
    for (difference, &row) in differences.iter_mut().zip(&rows) {
        let others = rows.iter().filter(|&&other| other != row);
        let above = field.product(points.iter().map(|point| point ^ row));
        let below = field.product(others.map(|other| other ^ row));
        engine.mul(groups_of(&mut difference.bytes), field.quotient(above, below));
    }
    let mut solved = Vec::with_capacity(lost.len());
    let mut product = vec![0; shape.block];
    for &point in &points {
        let mut block = vec![0; shape.block];
        for (difference, &row) in differences.iter().zip(&rows) {
            product.copy_from_slice(&difference.bytes);
            let one = field.product(std::iter::empty());
            let inverse = field.quotient(one, field.product(std::iter::once(point ^ row)));
            engine.mul(groups_of(&mut product), inverse);
            utils::xor(groups_of(&mut block), groups_of(&mut product));
        }
        let others = points.iter().filter(|&&other| other != point);
        let above = field.product(rows.iter().map(|row| row ^ point).chain(1..shape.run()));
        let own_run = (0..shape.run()).map(|other| other ^ point);
        let below = field.product(others.map(|other| other ^ point).chain(own_run));
        engine.mul(groups_of(&mut block), field.quotient(above, below));
        solved.push(block);
    }
    solved
}

fn groups_of(bytes: &mut [u8]) -> &mut [[u8; GROUP]] {
    bytes.as_chunks_mut::<GROUP>().0
}

/// Products in the field, by logarithms.
struct FieldTables {
    tables: &'static tables::ExpLog,
}

impl FieldTables {
    fn new() -> FieldTables {
        FieldTables { tables: tables::get_exp_log() }
    }

    /// The logarithm of the product of elements that are not zero.
    fn product(&self, elements: impl Iterator<Item = usize>) -> u16 {
        let order = u64::from(GF_MODULUS);
        let sum: u64 = elements.map(|element| u64::from(self.tables.log[element])).sum();
        (sum % order) as u16
    }

    /// The logarithm of a quotient.
    fn quotient(&self, above: u16, below: u16) -> u16 {
        let order = u32::from(GF_MODULUS);
        ((u32::from(above) + order - u32::from(below) % order) % order) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(shape: Shape) -> Vec<Vec<u8>> {
        (0..shape.data).map(|_| (0..shape.block).map(|_| fastrand::u8(..)).collect()).collect()
    }

    fn encode<'a>(shape: Shape, data: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new(shape);
        data.for_each(|block| encoder.add(block));
        let parity = encoder.finish();
        (0..shape.parity).map(|index| parity.block(index)).collect()
    }

    const SHAPES: [(usize, usize, usize); 10] = [
        (64, 1, 1),
        (64, 7, 1),
        (128, 5, 2),
        (1024, 100, 5),
        (1024, 3, 3),
        (192, 64, 16),
        (4096, 300, 150),
        (16384, 1030, 33),
        (64, 40_000, 3),
        (64, 20, 20),
    ];

    fn shapes() -> impl Iterator<Item = Shape> {
        SHAPES.into_iter().map(|(block, data, parity)| Shape { block, data, parity })
    }

    #[test]
    fn parity_is_that_of_the_crate_at_its_high_rate() {
        use reed_solomon_simd::rate::{HighRateEncoder, RateEncoder};
        for shape in shapes() {
            let data = blocks(shape);
            let engine = DefaultEngine::new();
            let mut theirs =
                HighRateEncoder::new(shape.data, shape.parity, shape.block, engine, None).unwrap();
            data.iter().for_each(|block| theirs.add_original_shard(block).unwrap());
            let result = theirs.encode().unwrap();
            let expected: Vec<Vec<u8>> = result.recovery_iter().map(<[u8]>::to_vec).collect();
            assert!(encode(shape, data.iter().map(Vec::as_slice)) == expected, "{shape:?}");
        }
    }

    #[test]
    fn lost_blocks_come_back_from_any_parity_blocks() {
        for shape in shapes() {
            let data = blocks(shape);
            let parity = encode(shape, data.iter().map(Vec::as_slice));
            let most = shape.parity.min(shape.data);
            for lost in [1, most / 2, most] {
                let mut indices: Vec<usize> = (0..shape.data).collect();
                fastrand::shuffle(&mut indices);
                indices.truncate(lost);
                let mut rows: Vec<usize> = (0..shape.parity).collect();
                fastrand::shuffle(&mut rows);
                let zeros = vec![0; shape.block];
                let left = data.iter().enumerate();
                let left = left.map(|(at, block)| if indices.contains(&at) { &zeros } else { block });
                let computed = encode(shape, left.map(Vec::as_slice));
                let difference = |&index: &usize| Difference {
                    index,
                    bytes: parity[index].iter().zip(&computed[index]).map(|(a, b)| a ^ b).collect(),
                };
                let solved = solve(shape, &indices, rows[..lost].iter().map(difference).collect());
                for (index, block) in indices.iter().zip(&solved) {
                    assert!(*block == data[*index], "{shape:?}: {lost} lost");
                }
            }
        }
    }
}
