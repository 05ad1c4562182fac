//! Compares two images by their bytes: nothing is hashed.
//!
//! Where both are known to be zeros, or both have their bytes from the same place of the same file, nothing
//! is read. The rest is read and compared on every thread, a piece at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_image::{AlignedBuffer, Extent, ExtentKind, Image};

use crate::ranges::{push_range, whole_units};
use crate::{BlockHashError, ImageProgress};

/// The most that is read of an image at a time, in bytes.
const PIECE: u64 = 1 << 20;

static ZEROS: [u8; 4096] = [0; 4096];

/// The byte ranges in which two images differ, as whole units of `unit` bytes, found on `threads` threads.
///
/// Units beyond the end of the shorter image differ, and so does one that ends there if the other has more
/// of it: the blocks of equal size whose digests would differ. `progress` counts the bytes of the shorter
/// one.
///
/// # Panics
/// If `unit` is 0.
pub fn compare_images(
    a: &dyn Image,
    b: &dyn Image,
    unit: u32,
    threads: usize,
    progress: &ImageProgress,
) -> Result<Vec<Range<u64>>, BlockHashError> {
    assert!(unit > 0, "a unit has bytes");
    let unit = u64::from(unit);
    // Pieces end where units do, so that no unit is found twice.
    let piece = if unit < PIECE { PIECE - PIECE % unit } else { PIECE };
    let planner = Mutex::new(PairPlanner::new(a, b, piece));
    let work = || -> Result<Vec<Range<u64>>, BlockHashError> {
        let mut buffers: Option<[AlignedBuffer; 2]> = None;
        let mut found = Vec::new();
        loop {
            let (part, covered) = planner.lock().unwrap_or_else(PoisonError::into_inner).next()?;
            if let Some(part) = part {
                let buffers =
                    buffers.get_or_insert_with(|| [0; 2].map(|_| AlignedBuffer::new(piece as usize)));
                part.compare([a, b], buffers, unit, &mut found)?;
            } else {
                progress.add(covered);
                return Ok(found);
            }
            progress.add(covered);
        }
    };
    let mut found = thread::scope(|scope| {
        let helpers = (1..threads).map_while(|_| {
            // Fewer threads are slower, not wrong.
            thread::Builder::new().spawn_scoped(scope, || guarded(&planner, work)).ok()
        });
        let helpers: Vec<_> = helpers.collect();
        let mut found = guarded(&planner, work);
        for helper in helpers {
            let more = helper.join().unwrap_or(Err(BlockHashError::Panicked));
            found = found.and_then(|mut all| {
                all.append(&mut more?);
                Ok(all)
            });
        }
        found
    })?;
    a.check_unchanged()?;
    b.check_unchanged()?;
    let (shorter, longer) = (a.length().min(b.length()), a.length().max(b.length()));
    found.push(shorter..longer);
    Ok(whole_units(found, unit, longer))
}

/// Works; after a failure nobody begins anything more.
fn guarded<T>(
    planner: &Mutex<PairPlanner<'_>>,
    work: impl Fn() -> Result<T, BlockHashError>,
) -> Result<T, BlockHashError> {
    work().inspect_err(|_| planner.lock().unwrap_or_else(PoisonError::into_inner).stop())
}

/// A range of both images, at most one of which is known to be zeros.
struct Part {
    range: Range<u64>,
    /// Which of them must be read.
    read: [bool; 2],
}

impl Part {
    /// Reads and compares, and appends the units, or parts of units, that differ.
    fn compare(
        &self,
        images: [&dyn Image; 2],
        buffers: &mut [AlignedBuffer; 2],
        unit: u64,
        found: &mut Vec<Range<u64>>,
    ) -> Result<(), BlockHashError> {
        let len = (self.range.end - self.range.start) as usize;
        for ((image, buffer), read) in images.iter().zip(buffers.iter_mut()).zip(self.read) {
            if read {
                image.read_at(&mut buffer[..len], self.range.start)?;
            }
        }
        let bytes = [&buffers[0][..len], &buffers[1][..len]];
        if self.same(bytes) {
            return Ok(());
        }
        let mut start = self.range.start;
        while start < self.range.end {
            let end = (start - start % unit + unit).min(self.range.end);
            let within = (start - self.range.start) as usize..(end - self.range.start) as usize;
            if !self.same(bytes.map(|bytes| &bytes[within.clone()])) {
                push_range(found, start..end);
            }
            start = end;
        }
        Ok(())
    }

    fn same(&self, bytes: [&[u8]; 2]) -> bool {
        match self.read {
            [true, true] => bytes[0] == bytes[1],
            [true, false] => is_zero(bytes[0]),
            [false, true] => is_zero(bytes[1]),
            [false, false] => true,
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|bytes| *bytes == ZEROS[..bytes.len()])
}

/// Walks two images side by side.
struct PairPlanner<'a> {
    walkers: [Walker<'a>; 2],
    piece: u64,
    position: u64,
    end: u64,
}

impl<'a> PairPlanner<'a> {
    fn new(a: &'a dyn Image, b: &'a dyn Image, piece: u64) -> PairPlanner<'a> {
        let walkers = [a, b].map(|image| Walker { image, extents: VecDeque::new(), fetched: Vec::new() });
        PairPlanner { walkers, piece, position: 0, end: a.length().min(b.length()) }
    }

    fn stop(&mut self) {
        self.position = self.end;
    }

    /// The next part that must be read, `None` at the end, and how many bytes lie between the end of the
    /// last one and its end.
    fn next(&mut self) -> Result<(Option<Part>, u64), BlockHashError> {
        let before = self.position;
        while self.position < self.end {
            let start = self.position;
            let (read, mut end) = self.look(start)?;
            if read == [false, false] {
                self.position = end;
                continue;
            }
            let most = (start - start % self.piece).saturating_add(self.piece).min(self.end);
            while end < most {
                let (more, next) = self.look(end)?;
                if more != read {
                    break;
                }
                end = next;
            }
            self.position = end.min(most);
            return Ok((Some(Part { range: start..self.position, read }), self.position - before));
        }
        Ok((None, self.position - before))
    }

    /// Which images must be read at `position`, and up to where that holds.
    fn look(&mut self, position: u64) -> Result<([bool; 2], u64), BlockHashError> {
        let [a, b] = &mut self.walkers;
        let (a, b) = (a.extent(position)?, b.extent(position)?);
        let end = a.range.end.min(b.range.end).min(self.end);
        let read = match same_place(a, b, position) {
            true => [false; 2],
            false => [!a.kind.is_zero(), !b.kind.is_zero()],
        };
        Ok((read, end))
    }
}

/// Whether two extents have their bytes at `position` from the same place.
fn same_place(a: &Extent, b: &Extent, position: u64) -> bool {
    let (Some(one), Some(other)) = (a.place, b.place) else { return false };
    let one_file = (one.device, one.inode) == (other.device, other.inode) && a.kind == b.kind;
    match a.kind {
        ExtentKind::Zero => false,
        ExtentKind::Compressed => one_file && one.offset == other.offset && a.range == b.range,
        ExtentKind::Data => {
            let of = |extent: &Extent, offset: u64| offset.checked_add(position - extent.range.start);
            one_file && of(a, one.offset).is_some() && of(a, one.offset) == of(b, other.offset)
        }
    }
}

/// The extents of one image, asked for once, in order.
struct Walker<'a> {
    image: &'a dyn Image,
    extents: VecDeque<Extent>,
    fetched: Vec<Extent>,
}

impl Walker<'_> {
    /// The extent at `position`, which never goes back.
    fn extent(&mut self, position: u64) -> Result<&Extent, BlockHashError> {
        while self.extents.front().is_some_and(|extent| extent.range.end <= position) {
            self.extents.pop_front();
        }
        if self.extents.is_empty() {
            self.fetched.clear();
            self.image.extents(position..self.image.length(), &mut self.fetched)?;
            self.extents.extend(self.fetched.drain(..));
        }
        Ok(self.extents.front().expect("an image gives an extent for every place"))
    }
}
