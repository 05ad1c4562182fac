//! Which is faster: to read a file, or to hash it where it is in the page cache.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many parts are hashed where they are before that is compared: the first of a window also waits for it to be mapped.
const TRIES: u64 = 4;

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
        let [read, mapped, tries] =
            [&self.read, &self.mapped, &self.tries].map(|number| number.load(Ordering::Relaxed));
        read < u64::MAX && (tries < TRIES || mapped < read / 20 * 19)
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
}
