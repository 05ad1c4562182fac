//! Buffers of messages to hash in this process, at another place in memory in each run.
//!
//! Where bytes lie, in which pages and how far from the beginning of one, makes some hundredths of a time.
//! In one place for a whole measurement that would look like a difference of implementations, and the next
//! process would find another one. So it is made a part of what scatters from run to run.

use fastrand::Rng;

use super::MessageShape;

/// By how much the bytes are moved at most: some times the pages of a cache of the second level.
const ROOM: usize = 4 << 20;

/// Bytes begin where a line of the cache does, as those of large buffers do.
const LINE: usize = 64;

/// Messages one after the other.
pub(super) struct Messages {
    room: Vec<u8>,
    at: usize,
    length: usize,
    random: Rng,
}

impl Messages {
    /// Bytes without a pattern, always the same.
    pub(super) fn new(message: MessageShape) -> Messages {
        let length = message.bytes() as usize;
        let (mut room, mut random) = (vec![0; length + ROOM], Rng::with_seed(1));
        random.fill(&mut room[..length]);
        Messages { room, at: 0, length, random }
    }

    /// All of them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.room[self.at..self.at + self.length]
    }

    /// Moves them to a place that chance gives, the same chance in every measurement.
    pub(super) fn move_elsewhere(&mut self) {
        let to = self.random.usize(..ROOM / LINE) * LINE;
        self.room.copy_within(self.at..self.at + self.length, to);
        self.at = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_move_and_stay_the_same() {
        let mut messages = Messages::new(MessageShape { length: 1000, count: 3 });
        let bytes = messages.bytes().to_vec();
        let mut places = Vec::new();
        for _ in 0..20 {
            messages.move_elsewhere();
            assert_eq!(messages.bytes(), bytes);
            places.push(messages.at);
        }
        assert!(places.iter().all(|place| place.is_multiple_of(LINE)));
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 20);
    }
}
