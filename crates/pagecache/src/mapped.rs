//! Memory mapping (`mmap`) of files that are in the page cache: they are hashed where they are, and not copied.
//!
//! A page may go away meanwhile, because its file is cut off or its disk fails. That would end the process with SIGBUS.
//! A handler puts zeros in its place, and what was computed of them is thrown away.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

use rustix::mm::{MapFlags, ProtFlags};

/// The codes of SIGBUS for a page that is not there: no longer, not at all, or not whole.
const GONE: Range<c_int> = 2..5;

/// Set by [`hash_in_page_cache`].
static HANDLER: OnceLock<Handler> = OnceLock::new();

/// The handler could not be registered, or could not help: no more files are mapped.
static IS_OVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The window that this thread looks at. Only its own faults come to the handler on it.
    static LOOKS_AT: Cell<*const MappedWindow> = const { Cell::new(ptr::null()) };
}

struct Handler {
    /// What SIGBUS did before.
    before: libc::sigaction,
    page: usize,
}

/// A part of a file as memory.
#[derive(Debug)]
pub(crate) struct MappedWindow {
    start: usize,
    /// Of whole pages.
    length: usize,
    /// Which bytes of the file it has; it begins with a page.
    of: Range<u64>,
    /// Some of it was replaced by zeros.
    has_gaps: AtomicBool,
}

/// Lets the files of all runs be hashed where they are in the page cache, if that is measured to be faster than to read
/// them. It is for whole programs, and to be called first: this registers a handler of SIGBUS, for the process and for
/// good, and lets the thread that calls, and those that it starts, get it. Signals that are not of such a file do what they
/// did before.
#[allow(unsafe_code)]
pub fn hash_in_page_cache() {
    HANDLER.get_or_init(|| {
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = fill;
        // SAFETY: The structures are numbers, for which zeros are valid. The handler has the form that SA_SIGINFO asks
        // for, and does only what a handler may: see there.
        let before = unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // Whoever started the program may have blocked it: then the system would end the program, and not ask.
            let mut mask: libc::sigset_t = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) != 0
                || libc::sigemptyset(&raw mut mask) != 0
                || libc::sigaddset(&raw mut mask, libc::SIGBUS) != 0
                || libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const mask, ptr::null_mut()) != 0
            {
                IS_OVER.store(true, Ordering::SeqCst);
            }
            before
        };
        Handler { before, page: rustix::param::page_size() }
    });
}

/// Whether files may be mapped: [`hash_in_page_cache`] was called, and no other SIGBUS came since.
pub fn may_map() -> bool {
    HANDLER.get().is_some() && !IS_OVER.load(Ordering::SeqCst)
}

/// Puts zeros in the place of pages that are gone. It makes system calls, looks at memory of this thread and at atomic
/// values only, and changes no `errno`.
#[allow(unsafe_code)]
extern "C" fn fill(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: The system gives the facts of the signal. The address is used only with the codes in `GONE`.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    // SAFETY: Who looks at a window holds it.
    let window = unsafe { LOOKS_AT.get().as_ref() }.filter(|_| GONE.contains(&code));
    let handler = HANDLER.get();
    if let Some(window) = window.filter(|window| window.holds(address))
        && let Some(handler) = handler
        && window.fill_from(address / handler.page * handler.page)
    {
        return;
    }
    IS_OVER.store(true, Ordering::SeqCst);
    // SAFETY: What was registered before is registered again. It gets this signal too: either the access that failed
    // fails once more, or the signal is sent again.
    unsafe {
        match handler {
            Some(handler) => drop(libc::sigaction(signal, &raw const handler.before, ptr::null_mut())),
            None => drop(libc::signal(signal, libc::SIG_DFL)),
        }
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

impl MappedWindow {
    /// A part of a file. None if not all of it is in the page cache, or if it cannot be mapped.
    #[allow(unsafe_code)]
    pub(crate) fn of(file: &File, part: Range<u64>) -> Option<MappedWindow> {
        let page = HANDLER.get()?.page;
        let of = part.start / page as u64 * page as u64..part.end;
        let length = usize::try_from(of.end.checked_sub(of.start)?).ok()?.next_multiple_of(page);
        if length == 0 || !crate::cache_stat(file, &of).ok()?.has_all(&of) {
            return None;
        }
        // SAFETY: The system chooses a place where nothing is.
        let mapped = unsafe {
            rustix::mm::mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, of.start)
        };
        Some(MappedWindow {
            start: mapped.ok()?.expose_provenance(),
            length,
            of,
            has_gaps: AtomicBool::new(false),
        })
    }

    /// What `make` makes of these bytes of the file. None once any byte of the window was gone, or nothing may be mapped.
    ///
    /// Others may write to them at any time, as to any file that is being read. So they may be another value each time
    /// that they are looked at.
    #[allow(unsafe_code)]
    pub(crate) fn look<R>(&self, part: Range<u64>, make: impl FnOnce(&[u8]) -> R) -> Option<R> {
        assert!(self.of.start <= part.start && part.start <= part.end && part.end <= self.of.end);
        if !may_map() || self.has_gaps.load(Ordering::SeqCst) {
            return None;
        }
        let start = self.start + (part.start - self.of.start) as usize;
        // SAFETY: The window is memory that can be read until it is dropped. Where a page is gone, the
        // handler puts zeros.
        let bytes = unsafe {
            std::slice::from_raw_parts(ptr::with_exposed_provenance(start), (part.end - part.start) as usize)
        };
        let looks = Looks::at(self);
        let made = make(bytes);
        drop(looks);
        // After all that was read of it.
        fence(Ordering::SeqCst);
        (!self.has_gaps.load(Ordering::SeqCst)).then_some(made)
    }

    fn holds(&self, address: usize) -> bool {
        (self.start..self.start + self.length).contains(&address)
    }

    /// Puts zeros in the place of all from an address on.
    #[allow(unsafe_code)]
    fn fill_from(&self, address: usize) -> bool {
        // First: who sees zeros sees this too.
        self.has_gaps.store(true, Ordering::SeqCst);
        let (place, length) = (ptr::with_exposed_provenance_mut(address), self.start + self.length - address);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: These pages are of this window, and stay memory that can be read.
        unsafe { rustix::mm::mmap_anonymous(place, length, ProtFlags::READ, flags).is_ok() }
    }
}

/// Tells the handler what this thread looks at.
struct Looks;

impl Looks {
    fn at(window: &MappedWindow) -> Looks {
        LOOKS_AT.set(window);
        compiler_fence(Ordering::SeqCst);
        Looks
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        LOOKS_AT.set(ptr::null());
    }
}

impl Drop for MappedWindow {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: It was mapped when this was made, and nobody has a part of it any more.
        let _ = unsafe { rustix::mm::munmap(ptr::with_exposed_provenance_mut(self.start), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file in memory: not every file system tells what is in the page cache.
    fn file_of(bytes: &[u8]) -> File {
        hash_in_page_cache();
        let mut file = tempfile::tempfile_in("/dev/shm").expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    /// None before Linux 6.5, which does not tell what is in the page cache.
    fn window(file: &File, part: Range<u64>) -> Option<MappedWindow> {
        let told = crate::cache_stat(file, &part);
        if told.is_err() {
            verisum_testkit::skip("this kernel has no cachestat");
        }
        told.ok().map(|_| MappedWindow::of(file, part).expect("it was written just now"))
    }

    #[test]
    fn a_window_has_the_bytes_of_its_part() {
        let bytes: Vec<u8> = (0..300_001_u32).map(|at| (at % 251) as u8).collect();
        let file = file_of(&bytes);
        let Some(window) = window(&file, 5000..300_001) else { return };
        for part in [5000..300_001, 70_000..70_010, 300_001..300_001] {
            let expected = &bytes[part.start as usize..part.end as usize];
            assert_eq!(window.look(part, |found| found == expected), Some(true));
        }
    }

    #[test]
    fn what_is_cut_off_is_a_gap() {
        let file = file_of(&[7; 1 << 20]);
        let (Some(whole), Some(other)) = (window(&file, 0..1 << 20), window(&file, 0..4096)) else { return };
        file.set_len(10_000).expect("cut off");
        assert_eq!(whole.look(0..10_000, |bytes| bytes == [7; 10_000]), Some(true));
        let mut zeros = false;
        let looked = whole.look(1 << 18..1 << 20, |bytes| zeros = bytes.iter().all(|byte| *byte == 0));
        assert_eq!((looked, zeros), (None, true));
        assert_eq!(whole.look(0..1, <[u8]>::len), None, "nothing of it is trusted any more");
        assert_eq!(other.look(0..4096, <[u8]>::len), Some(4096));
    }

    #[test]
    fn what_one_thread_has_filled_is_a_gap_for_the_other() {
        let file = file_of(&[7; 1 << 20]);
        let Some(window) = window(&file, 0..1 << 20) else { return };
        let other = |bytes: &[u8]| {
            file.set_len(0).expect("cut off");
            std::thread::scope(|scope| {
                let last = scope.spawn(|| window.look(1 << 19..1 << 20, |bytes| bytes[0]));
                assert_eq!(last.join().expect("no panic"), None);
            });
            bytes.len()
        };
        assert_eq!(window.look(0..1 << 20, other), None);
    }

    #[test]
    fn what_is_not_in_memory_is_not_mapped() {
        let file = file_of(&[7; 8192]);
        assert!(MappedWindow::of(&file, 0..1 << 20).is_none(), "the file ends before");
        assert!(MappedWindow::of(&file, 0..0).is_none());
    }
}
