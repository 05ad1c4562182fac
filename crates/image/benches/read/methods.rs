//! The ways to get the bytes of a file.

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::io::ReadWriteFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use verisum_image::{AlignedBuffer, Image, OpenOptions, RawImage};

/// One way, with the bytes of a piece.
pub enum Method {
    /// `pread` through the page cache.
    Buffered { piece: usize, drop_behind: bool },
    /// `mmap`, populated, of each piece.
    Mapped { piece: usize },
    /// `pread` with `O_DIRECT`: one request in flight for each thread.
    Direct { piece: usize },
    /// io_uring with `O_DIRECT`: `depth` requests in flight for each thread.
    Ring { piece: usize, depth: usize },
    /// As shipped.
    Image { piece: usize, cache: bool },
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = |piece: &usize| format!("{} KiB", piece >> 10);
        match self {
            Method::Buffered { piece, drop_behind: false } => write!(f, "pread, {}", size(piece)),
            Method::Buffered { piece, .. } => write!(f, "pread, {}, RWF_DONTCACHE", size(piece)),
            Method::Mapped { piece } => write!(f, "mmap, {}", size(piece)),
            Method::Direct { piece } => write!(f, "O_DIRECT pread, {}", size(piece)),
            Method::Ring { piece, depth } => write!(f, "O_DIRECT io_uring, {} x {depth}", size(piece)),
            Method::Image { piece, cache: false } => write!(f, "image, {}", size(piece)),
            Method::Image { piece, .. } => write!(f, "image --cache, {}", size(piece)),
        }
    }
}

/// Reads all of a file on some threads, and adds up its words `work` times; the seconds it took, `None` where the system refuses.
pub fn run(method: &Method, path: &Path, threads: usize, work: usize) -> Option<f64> {
    let start = Instant::now();
    let (file, image);
    let length = std::fs::metadata(path).ok()?.len();
    let file = {
        let flags = match method {
            Method::Direct { .. } | Method::Ring { .. } => rustix::fs::OFlags::DIRECT.bits() as i32,
            _ => 0,
        };
        file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        &file
    };
    let mut options = OpenOptions::default();
    options.cache = !matches!(method, Method::Image { cache: false, .. });
    image = RawImage::open(path, &options).ok()?;
    let image = &image;
    let next = AtomicU64::new(0);
    let take = |piece: usize| {
        let offset = next.fetch_add(piece as u64, Ordering::Relaxed);
        (offset < length).then(|| offset..length.min(offset + piece as u64))
    };
    let results: Vec<Option<u64>> = std::thread::scope(|scope| {
        let work = || match *method {
            Method::Buffered { piece, drop_behind: false } => {
                in_pieces(piece, work, || take(piece), |buf, offset| file.read_exact_at(buf, offset).ok())
            }
            Method::Buffered { piece, .. } => in_pieces(
                piece,
                work,
                || take(piece),
                |buf, offset| {
                    let flags = ReadWriteFlags::from_bits_retain(0x80);
                    let length = buf.len();
                    let count = rustix::io::preadv2(file, &mut [IoSliceMut::new(buf)], offset, flags);
                    (count.ok()? == length).then_some(())
                },
            ),
            Method::Direct { piece } => {
                in_pieces(piece, work, || take(piece), |buf, offset| file.read_exact_at(buf, offset).ok())
            }
            Method::Image { piece, .. } => {
                in_pieces(piece, work, || take(piece), |buf, offset| image.read_at(buf, offset).ok())
            }
            Method::Mapped { piece } => mapped(file, work, || take(piece)),
            Method::Ring { piece, depth } => ring(file, piece, work, depth, || take(piece)),
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let sum = results.into_iter().sum::<Option<u64>>()?;
    std::hint::black_box(sum);
    Some(seconds)
}

/// Adds up the words of a piece, `work` times.
fn consume(bytes: &[u8], work: usize) -> u64 {
    (0..work).fold(0, |sum, _| {
        let (words, _) = std::hint::black_box(bytes).as_chunks::<8>();
        words.iter().fold(sum, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
    })
}

fn in_pieces(
    piece: usize,
    work: usize,
    take: impl Fn() -> Option<Range<u64>>,
    read: impl Fn(&mut [u8], u64) -> Option<()>,
) -> Option<u64> {
    let mut buffer = AlignedBuffer::new(piece);
    let mut sum = 0_u64;
    while let Some(range) = take() {
        let buf = &mut buffer[..(range.end - range.start) as usize];
        read(buf, range.start)?;
        sum = sum.wrapping_add(consume(buf, work));
    }
    Some(sum)
}

fn mapped(file: &File, work: usize, take: impl Fn() -> Option<Range<u64>>) -> Option<u64> {
    let mut sum = 0_u64;
    while let Some(range) = take() {
        let length = (range.end - range.start) as usize;
        // SAFETY: a new mapping, seen only here, of a file that the bench made and nobody cuts; it is
        // read through the slice only between here and `munmap`.
        unsafe {
            let address = rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                range.start,
            );
            let address = address.ok()?;
            rustix::mm::madvise(address, length, Advice::LinuxPopulateRead).ok()?;
            sum = sum.wrapping_add(consume(std::slice::from_raw_parts(address.cast(), length), work));
            rustix::mm::munmap(address, length).ok()?;
        }
    }
    Some(sum)
}

fn ring(
    file: &File,
    piece: usize,
    work: usize,
    depth: usize,
    take: impl Fn() -> Option<Range<u64>>,
) -> Option<u64> {
    let mut ring = io_uring::IoUring::new(depth.next_power_of_two() as u32).ok()?;
    let mut buffers: Vec<_> = (0..depth).map(|_| AlignedBuffer::new(piece)).collect();
    let mut lengths = vec![0; depth];
    let mut idle: Vec<usize> = (0..depth).collect();
    let mut sum = 0_u64;
    let descriptor = io_uring::types::Fd(file.as_raw_fd());
    loop {
        while let Some(&slot) = idle.last() {
            let Some(range) = take() else { break };
            lengths[slot] = (range.end - range.start) as usize;
            let buf = buffers[slot].as_mut_ptr();
            let read = io_uring::opcode::Read::new(descriptor, buf, lengths[slot] as u32)
                .offset(range.start)
                .build()
                .user_data(slot as u64);
            // SAFETY: the buffer lives as long as the ring and is not touched before its completion; a
            // ring that is dropped early, on an error, ends the whole measurement.
            unsafe { ring.submission().push(&read).ok()? };
            idle.pop();
        }
        if idle.len() == depth {
            return Some(sum);
        }
        ring.submit_and_wait(1).ok()?;
        for done in ring.completion() {
            let slot = done.user_data() as usize;
            if done.result() != lengths[slot] as i32 {
                return None;
            }
            sum = sum.wrapping_add(consume(&buffers[slot][..lengths[slot]], work));
            idle.push(slot);
        }
    }
}
