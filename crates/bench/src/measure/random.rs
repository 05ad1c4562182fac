//! Reproducible random numbers for the order of turns.

/// SplitMix64 (Steele, Lea, Flood 2014), for orders that can be had again.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The members of all groups: groups in random order, and the members of each.
    pub(super) fn turns(&mut self, groups: &[Vec<usize>]) -> Vec<usize> {
        let mut turns = Vec::new();
        for group in self.order(groups.len()) {
            let group = &groups[group];
            turns.extend(self.order(group.len()).into_iter().map(|place| group[place]));
        }
        turns
    }

    /// The numbers below `count` in random order.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order
    }
}
