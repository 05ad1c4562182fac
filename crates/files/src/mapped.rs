//! Parts of files that are in the page cache, as memory: they are hashed where they are, and not copied.
//!
//! A page that goes away meanwhile, because its file is cut off or its disk fails, would end the process with SIGBUS. A
//! handler puts zeros in its place, and whoever hashed them asks afterwards whether it did.

use std::fs::File;
use std::ops::Range;
use std::os::raw::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// The most windows at a time. Each thread has one or two.
const WINDOWS: usize = 512;

/// What the handler needs. It is there once files may be mapped.
static HANDLER: OnceLock<Handler> = OnceLock::new();

static PLACES: [Place; WINDOWS] = [const { Place::free() }; WINDOWS];

struct Handler {
    /// What SIGBUS did before.
    before: libc::sigaction,
    page: usize,
}

/// Where a window is in memory.
struct Place {
    is_taken: AtomicBool,
    start: AtomicUsize,
    /// 0 where none is: no address is before it.
    end: AtomicUsize,
    /// Whether zeros were put in the place of some of it.
    has_gaps: AtomicBool,
}

/// A part of a file as memory.
pub(crate) struct Window {
    place: &'static Place,
    /// Which bytes of the file it has; it begins with a page.
    of: Range<u64>,
}

/// Lets the files of all runs be hashed where they are in the page cache, if that is measured to be faster than to read
/// them. It is for whole programs: this registers a handler of SIGBUS, for the process and for good. Signals that are not of
/// such a file do what they did before.
#[allow(unsafe_code)]
pub fn hash_in_page_cache() {
    let mut before = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: Without a new action the call writes the present one, and nothing else.
    let before = unsafe {
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr()) != 0 {
            return;
        }
        before.assume_init()
    };
    let is_first = HANDLER.set(Handler { before, page: rustix::param::page_size() }).is_ok();
    if is_first {
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = fill;
        // SAFETY: The structure is one of numbers, for which zeros are valid. The handler has the form that SA_SIGINFO
        // asks for, and does only what a handler may: see there.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether [`hash_in_page_cache`] was called.
pub(crate) fn may_map() -> bool {
    HANDLER.get().is_some()
}

/// Puts zeros in the place of what is gone. It makes system calls and uses atomic numbers only, and changes no `errno`.
#[allow(unsafe_code)]
extern "C" fn fill(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let Some(handler) = HANDLER.get() else { return };
    // SAFETY: The system calls it with the facts of the signal. Those of one that has no address have other numbers there.
    let (address, is_sent) = unsafe { ((*info).si_addr().addr(), (*info).si_code <= 0) };
    let place = PLACES.iter().find(|place| !is_sent && place.holds(address));
    let is_filled = place.is_some_and(|place| {
        // First: who sees zeros sees this too.
        place.has_gaps.store(true, Ordering::SeqCst);
        let start = address / handler.page * handler.page;
        let length = place.end.load(Ordering::SeqCst) - start;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: These pages are of a window that the interrupted thread holds: nothing else is there, and it stays
        // memory that can be read.
        unsafe { rustix::mm::mmap_anonymous(start as *mut c_void, length, ProtFlags::READ, flags).is_ok() }
    });
    if !is_filled {
        // SAFETY: What was registered before is registered again. It gets this signal too: either the access that failed
        // fails once more, or the signal is sent again.
        unsafe {
            libc::sigaction(signal, &raw const handler.before, std::ptr::null_mut());
            if is_sent {
                libc::raise(signal);
            }
        }
    }
}

impl Place {
    const fn free() -> Place {
        Place {
            is_taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            has_gaps: AtomicBool::new(false),
        }
    }

    fn holds(&self, address: usize) -> bool {
        self.start.load(Ordering::SeqCst) <= address && address < self.end.load(Ordering::SeqCst)
    }
}

impl Window {
    /// A part of a file. None if not all of it is in the page cache, or if it cannot be mapped.
    #[allow(unsafe_code)]
    pub(crate) fn of(file: &File, part: Range<u64>) -> Option<Window> {
        let page = HANDLER.get()?.page as u64;
        let of = part.start / page * page..part.end;
        let pages = (of.end - of.start).div_ceil(page);
        if pages == 0 || crate::system::cached_pages(file, &of) != Some(pages) {
            return None;
        }
        let length = usize::try_from(of.end - of.start).ok()?;
        let place = PLACES.iter().find(|place| !place.is_taken.swap(true, Ordering::SeqCst))?;
        // SAFETY: The system chooses a place where nothing is.
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, of.start)
        };
        let Ok(start) = mapped else {
            place.is_taken.store(false, Ordering::SeqCst);
            return None;
        };
        place.has_gaps.store(false, Ordering::SeqCst);
        // The end last: until then no address is within.
        place.start.store(start.addr(), Ordering::SeqCst);
        place.end.store(start.addr() + length.next_multiple_of(page as usize), Ordering::SeqCst);
        Some(Window { place, of })
    }

    /// Some of its bytes, by their offsets in the file.
    ///
    /// Others may write to them at any time, as to any file that is being read. So they may be another value each time that
    /// they are looked at.
    #[allow(unsafe_code)]
    pub(crate) fn bytes(&self, part: Range<u64>) -> &[u8] {
        assert!(self.of.start <= part.start && part.start <= part.end && part.end <= self.of.end);
        let (start, length) = ((part.start - self.of.start) as usize, (part.end - part.start) as usize);
        let base = self.place.start.load(Ordering::SeqCst) as *const u8;
        // SAFETY: The window is memory that can be read until it is dropped, at its end too. Where the file has nothing any
        // more, the handler has.
        unsafe { std::slice::from_raw_parts(base.add(start), length) }
    }

    /// Whether some of it was gone: what was seen there may have been zeros.
    pub(crate) fn has_gaps(&self) -> bool {
        self.place.has_gaps.load(Ordering::SeqCst)
    }
}

impl Drop for Window {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        let start = self.place.start.load(Ordering::SeqCst);
        let length = self.place.end.swap(0, Ordering::SeqCst) - start;
        // SAFETY: It was mapped when this was made, and nobody has a part of it any more.
        let _ = unsafe { rustix::mm::munmap(start as *mut c_void, length) };
        self.place.is_taken.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    #[test]
    fn a_window_has_the_bytes_of_its_part() {
        hash_in_page_cache();
        let bytes: Vec<u8> = (0..300_001_u32).map(|at| (at % 251) as u8).collect();
        let file = file_of(&bytes);
        let window = Window::of(&file, 5000..300_001).expect("it was written just now");
        assert_eq!(window.bytes(5000..300_001), &bytes[5000..]);
        assert_eq!(window.bytes(70_000..70_010), &bytes[70_000..70_010]);
        assert!(!window.has_gaps());
    }

    #[test]
    fn what_is_cut_off_is_zeros_and_a_gap() {
        hash_in_page_cache();
        let file = file_of(&[7; 1 << 20]);
        let window = Window::of(&file, 0..1 << 20).expect("it was written just now");
        let other = Window::of(&file, 0..4096).expect("so was that");
        file.set_len(10_000).expect("cut off");
        assert_eq!(window.bytes(0..10_000), [7; 10_000]);
        assert!(!window.has_gaps());
        assert!(window.bytes(12_288..1 << 20).iter().all(|byte| *byte == 0));
        assert!(window.has_gaps());
        assert!(!other.has_gaps(), "another window has its own");
    }

    #[test]
    fn what_is_not_in_memory_is_not_mapped() {
        hash_in_page_cache();
        let file = file_of(&[7; 8192]);
        assert!(Window::of(&file, 0..8193 + 4096).is_none(), "the file ends before");
        assert!(Window::of(&file, 0..0).is_none());
    }

    #[test]
    fn places_are_given_back() {
        hash_in_page_cache();
        let file = file_of(&[7; 4096]);
        for _ in 0..2 * WINDOWS {
            assert!(Window::of(&file, 0..4096).is_some());
        }
    }
}
