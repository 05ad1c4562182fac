//! Which is faster: to read a file, or to hash it where it is in the page cache.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{WINDOW_BYTES, may_map};

/// How many parts are hashed where they are before that is compared: the first of a window also waits for it to be mapped.
const TRIES: u64 = 4;

/// How many bytes a thread takes at once where mapping is faster.
const RUN: u64 = WINDOW_BYTES / 2;

/// The least time to hash a mebibyte in memory, in nanoseconds, for both ways. Which is faster differs: some processors
/// copy faster than they map.
#[derive(Debug)]
pub struct WayTimes {
    read: AtomicU64,
    mapped: AtomicU64,
    /// How many parts were hashed where they are.
    tries: AtomicU64,
}

impl Default for WayTimes {
    fn default() -> WayTimes {
        WayTimes {
            read: AtomicU64::new(u64::MAX),
            mapped: AtomicU64::new(u64::MAX),
            tries: AtomicU64::new(0),
        }
    }
}

impl WayTimes {
    /// Whether to map a part of a file: if reading was timed, and mapping was not tried often enough, or is faster by a
    /// twentieth, which is about what it takes to unmap: that is not measured.
    pub fn prefer_mapping(&self) -> bool {
        let [read, mapped] = [&self.read, &self.mapped].map(|number| number.load(Ordering::Relaxed));
        read < u64::MAX && (!self.is_tried() || mapped < read / 20 * 19)
    }

    fn is_tried(&self) -> bool {
        self.tries.load(Ordering::Relaxed) >= TRIES
    }

    /// How many parts of this length a thread takes at once, if `share` of them are left for each thread. Threads that map
    /// pages close to one another wait for each other, so there are several where mapping is faster; towards the end fewer,
    /// as no thread is to wait long for the last one.
    pub fn parts_at_once(&self, length: u64, share: u64) -> u64 {
        match may_map() && self.is_tried() && self.prefer_mapping() {
            true => (share / 2).min(RUN / length).max(1),
            false => 1,
        }
    }

    /// Notes how long it took to read and hash so many bytes. For whole parts only: the end of a file says little.
    pub fn add_read(&self, bytes: u64, time: Duration) {
        WayTimes::add(&self.read, bytes, time);
    }

    /// The same of bytes that were hashed where they are.
    pub fn add_mapped(&self, bytes: u64, time: Duration) {
        WayTimes::add(&self.mapped, bytes, time);
        self.tries.fetch_add(1, Ordering::Relaxed);
    }

    fn add(way: &AtomicU64, bytes: u64, time: Duration) {
        let time = (time.as_nanos() << 20) / u128::from(bytes.max(1));
        way.fetch_min(u64::try_from(time).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_is_tried_after_reading_and_kept_if_it_is_faster() {
        let (mebibyte, fast, slow) = (1 << 20, Duration::from_micros(94), Duration::from_micros(96));
        let times = WayTimes::default();
        assert!(!times.prefer_mapping());
        times.add_read(mebibyte, Duration::from_micros(100));
        for _ in 0..TRIES {
            assert!(times.prefer_mapping(), "one try tells little");
            times.add_mapped(mebibyte, slow);
        }
        assert!(!times.prefer_mapping(), "4 % are no reason");
        times.add_mapped(2 * mebibyte, 2 * fast);
        assert!(times.prefer_mapping());
    }

    #[test]
    fn a_thread_takes_several_parts_where_mapping_is_faster_and_fewer_towards_the_end() {
        crate::hash_in_page_cache();
        let (mebibyte, times) = (1 << 20, WayTimes::default());
        times.add_read(mebibyte, Duration::from_micros(100));
        for _ in 0..TRIES {
            assert_eq!(times.parts_at_once(mebibyte, 1000), 1, "it is not known yet");
            times.add_mapped(mebibyte, Duration::from_micros(50));
        }
        let taken = [1000, 16, 15, 5, 1, 0].map(|share| times.parts_at_once(mebibyte, share));
        assert_eq!(taken, [8, 8, 7, 2, 1, 1]);
        assert_eq!(times.parts_at_once(WINDOW_BYTES, 1000), 1, "no part is longer than a window");
    }
}
