//! An image in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use verisum_image::{Extent, ExtentKind, Image, ImageOperation};

/// An image in memory that claims some zeros as such, and may fail.
pub struct Fake {
    pub content: Vec<u8>,
    pub extents: Vec<Extent>,
    pub fails_at: Option<u64>,
    pub panics_at: Option<u64>,
    pub changed: AtomicBool,
}

impl Fake {
    /// Runs of `(length, zero, claimed)`: an unclaimed run of zeros is said to be data.
    pub fn new(runs: &[(usize, bool, bool)]) -> Fake {
        let mut content = Vec::new();
        let mut extents = Vec::new();
        for &(length, zero, claimed) in runs.iter().filter(|run| run.0 > 0) {
            let start = content.len();
            if zero {
                content.resize(start + length, 0);
            } else {
                content.extend(super::data(start, length));
            }
            let kind = if zero && claimed { ExtentKind::Zero } else { ExtentKind::Data };
            extents.push(Extent::new(start as u64..content.len() as u64, kind));
        }
        Fake { content, extents, fails_at: None, panics_at: None, changed: AtomicBool::new(false) }
    }
}

impl Image for Fake {
    fn length(&self) -> u64 {
        self.content.len() as u64
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
        let in_range = self.extents.iter().filter(|e| e.range.end > range.start && e.range.start < range.end);
        // Two at a time: the pump must ask again.
        out.extend(
            in_range
                .take(2)
                .map(|e| Extent::new(e.range.start.max(range.start)..e.range.end.min(range.end), e.kind)),
        );
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::ImageError> {
        let range = offset..offset + buf.len() as u64;
        assert!(!self.panics_at.is_some_and(|at| range.contains(&at)), "a panic on purpose");
        if self.fails_at.is_some_and(|at| range.contains(&at)) {
            let error = std::io::Error::from_raw_os_error(5);
            return Err(verisum_image::ImageError::io("fake".as_ref(), ImageOperation::Read, error));
        }
        buf.copy_from_slice(&self.content[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), verisum_image::ImageError> {
        if self.changed.load(Ordering::Relaxed) {
            return Err(verisum_image::ImageError::Changed { path: "fake".into(), before: 1, after: 2 });
        }
        Ok(())
    }
}
