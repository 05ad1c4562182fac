//! The parts of a file that are mapped, one after the other.

use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::mapped::MappedWindow;

/// How many bytes of a file are mapped at a time: less takes longer, as mappings come and go, and more is no faster.
pub const WINDOW_BYTES: u64 = 16 << 20;

/// A file of which parts are looked at, mostly in order.
#[derive(Debug)]
pub struct Windows {
    file: Arc<File>,
    length: u64,
    /// The last one, until all of it was asked for.
    last: Option<Arc<LazyWindow>>,
}

/// A part of a file that is mapped, if it can be, once the first thread looks at it.
#[derive(Debug)]
struct LazyWindow {
    file: Arc<File>,
    part: Range<u64>,
    mapped: OnceLock<Option<MappedWindow>>,
}

/// Bytes of a file that may be in the page cache.
#[derive(Debug)]
pub struct CachedBytes {
    window: Arc<LazyWindow>,
    range: Range<u64>,
}

impl Windows {
    /// Those of a file of this length in bytes.
    pub fn new(file: Arc<File>, length: u64) -> Windows {
        Windows { file, length, last: None }
    }

    /// A range of bytes within the file, of at most [`WINDOW_BYTES`]. Nothing is mapped yet.
    pub fn next(&mut self, range: Range<u64>) -> CachedBytes {
        let new = |part| Arc::new(LazyWindow { file: self.file.clone(), part, mapped: OnceLock::new() });
        if self.last.as_ref().is_some_and(|last| range.start < last.part.start) {
            // Another thread was faster, and the others go on from there.
            return CachedBytes { window: new(range.clone()), range };
        }
        let window = self.last.take().filter(|last| range.end <= last.part.end);
        let window =
            window.unwrap_or_else(|| new(range.start..(range.start + WINDOW_BYTES).min(self.length)));
        // Who looks at it last unmaps it, and not who holds the lock of these windows: it takes time.
        if range.end < window.part.end {
            self.last = Some(window.clone());
        }
        CachedBytes { window, range }
    }
}

impl CachedBytes {
    /// What `make` makes of the bytes. None if not all of the window around them is in the page cache, if any of it goes
    /// away meanwhile, or if nothing may be mapped: then they are to be read.
    ///
    /// Others may write to them at any time, as to any file that is being read. So they may be another value each time
    /// that they are looked at.
    ///
    /// # Panics
    /// The range that was asked for is longer than a window, or not within the file.
    pub fn look<R>(&self, make: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let LazyWindow { file, part, mapped } = &*self.window;
        let window = mapped.get_or_init(|| MappedWindow::of(file, part.clone()));
        window.as_ref()?.look(self.range.clone(), make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::hash_in_page_cache;

    #[test]
    fn ranges_share_a_window_until_its_end() {
        let file = Arc::new(tempfile::tempfile_in("/dev/shm").expect("a file"));
        let length = 2 * WINDOW_BYTES + 5;
        file.set_len(length).expect("made longer");
        let mut windows = Windows::new(file, length);
        let part = |bytes: &CachedBytes| bytes.window.part.clone();
        let half = WINDOW_BYTES / 2;
        let (first, second) = (windows.next(0..half), windows.next(half..WINDOW_BYTES));
        assert!(Arc::ptr_eq(&first.window, &second.window));
        assert!(windows.last.is_none(), "all of it was asked for");
        // After a hole of the file.
        assert_eq!(part(&windows.next(WINDOW_BYTES + 7..WINDOW_BYTES + 9)), WINDOW_BYTES + 7..length);
        assert_eq!(part(&windows.next(1..2)), 1..2, "late");
        assert_eq!(part(&windows.next(length - 1..length)), WINDOW_BYTES + 7..length);
        assert!(windows.last.is_none());
        assert_eq!(part(&windows.next(3..4)), 3..WINDOW_BYTES + 3);
    }

    #[test]
    fn bytes_in_the_page_cache_are_seen() {
        hash_in_page_cache();
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile_in("/dev/shm").expect("a file");
        std::io::Write::write_all(&mut file, &bytes).expect("written");
        if crate::cache_stat(&file, &(0..1)).is_err() {
            return verisum_testkit::skip("this kernel has no cachestat");
        }
        let mut windows = Windows::new(Arc::new(file), 100_000);
        for range in [5..40_000_u64, 40_000..99_999, 99_999..100_000] {
            let expected = &bytes[range.start as usize..range.end as usize];
            assert_eq!(windows.next(range).look(|found| found == expected), Some(true));
        }
    }
}
