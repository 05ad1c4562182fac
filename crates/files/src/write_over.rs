//! Overwrites blocks of a file that cannot be read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// What a file system reads before it writes a part of it.
const PAGE: u64 = 4 << 10;

/// Writes bytes to a file, also into a page that cannot be read: file systems with checksums read a page of which only a
/// part is written, and fail. All else that was in such a page is zeros then; nobody can read it in any case.
///
/// # Errors
/// The file cannot be written.
pub fn write_over(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let written = file.write_all_at(bytes, offset);
    if !matches!(&written, Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error())) {
        return written;
    }
    let mut room = [0; PAGE as usize];
    for page in edges(offset, bytes.len() as u64) {
        let length = file.metadata()?.len().min(page.end).saturating_sub(page.start) as usize;
        if file.read_exact_at(&mut room[..length], page.start).is_err() {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, flags, page.start, PAGE)?;
        }
    }
    file.write_all_at(bytes, offset)
}

/// The pages in which a range begins and ends, if that is not at their borders.
fn edges(offset: u64, length: u64) -> impl Iterator<Item = Range<u64>> {
    let borders = [offset, offset + length].into_iter().filter(|at| !at.is_multiple_of(PAGE));
    borders.map(|at| at / PAGE * PAGE).map(|start| start..start + PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_are_written_in_part_are_read() {
        let found = |offset, length| edges(offset, length).collect::<Vec<_>>();
        assert_eq!(found(0, 8192), Vec::new());
        assert_eq!(found(100, 8092), vec![Range { start: 0, end: 4096 }]);
        assert_eq!(found(4096, 5000), vec![Range { start: 8192, end: 12288 }]);
        assert_eq!(found(10, 10), [0..4096, 0..4096]);
    }
}
