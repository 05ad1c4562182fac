//! The C library's `rand`, so that old programs that used it can be replayed.

/// glibc's additive feedback generator of 31 words.
#[derive(Clone, Debug)]
pub struct Rand {
    state: [u32; 31],
    front: usize,
}

impl Rand {
    /// As after `srand`; a program that never calls it has seed 1.
    pub fn new(seed: u32) -> Rand {
        let mut state = [0; 31];
        let mut word = i64::from(seed.max(1) as i32);
        for place in &mut state {
            *place = word as u32;
            // Park and Miller's generator, by Schrage's method as glibc has it.
            word = 16807 * (word % 127_773) - 2836 * (word / 127_773);
            if word < 0 {
                word += 0x7fff_ffff;
            }
        }
        let mut rand = Rand { state, front: 3 };
        for _ in 0..310 {
            rand.next();
        }
        rand
    }

    /// The next value, 0 to 2^31 - 1.
    #[allow(clippy::should_implement_trait, reason = "an endless generator, as in C")]
    pub fn next(&mut self) -> u32 {
        let rear = (self.front + 28) % 31;
        let sum = self.state[self.front].wrapping_add(self.state[rear]);
        self.state[self.front] = sum;
        self.front = (self.front + 1) % 31;
        sum >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_c_library() {
        let mut rand = Rand::new(1);
        let first: Vec<u32> = (0..4).map(|_| rand.next()).collect();
        assert_eq!(first, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915]);
        assert_eq!(Rand::new(0).next(), 1_804_289_383);
        let mut rand = Rand::new(12345);
        let first: Vec<u32> = (0..3).map(|_| rand.next()).collect();
        assert_eq!(first, [383_100_999, 858_300_821, 357_768_173]);
    }
}
