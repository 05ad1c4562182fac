//! Kernels of directory names read no byte outside a name: names lie against memory that is not mapped.
//! That the values are right is tested where the portable hashes are, in `namehash`.

use verisum_dirhash::Level;
use verisum_dirhash::simd::{NameFunction, NameKernel, NameValue};

/// Three pages of which only the middle one may be touched.
struct Page {
    start: *mut u8,
    len: usize,
}

impl Page {
    fn new() -> Page {
        // SAFETY: a new mapping is asked for, of which the middle third is then opened.
        unsafe {
            let len = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 3 * len, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>().add(len);
            assert_eq!(libc::mprotect(start.cast(), len, libc::PROT_READ | libc::PROT_WRITE), 0);
            Page { start, len }
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the page is mapped, belongs to this value alone and began as zeros.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the three pages were mapped together, and nothing borrows them any more.
        unsafe { libc::munmap(self.start.sub(self.len).cast(), 3 * self.len) };
    }
}

fn kernels() -> impl Iterator<Item = NameKernel> {
    let of = |&function| {
        Level::ALL.iter().flat_map(move |&level| {
            [false, true].into_iter().filter_map(move |signed| NameKernel::at(function, signed, level))
        })
    };
    NameFunction::ALL.iter().flat_map(of)
}

fn values(kernel: NameKernel, names: &[&[u8]]) -> Vec<NameValue> {
    let mut values = vec![NameValue { hash: 7, minor: 7 }; names.len()];
    assert_eq!(kernel.hash_batch([1, 2, 3, 4], names, &mut values), names.len());
    values
}

/// Every length, of one length and of many in a batch, at the beginning and at the end of a page; and the
/// same names elsewhere have the same values.
#[test]
fn nothing_outside_a_name_is_read() {
    let mut page = Page::new();
    let bytes = page.bytes();
    for (byte, n) in bytes.iter_mut().zip(0u32..) {
        *byte = (n.wrapping_mul(0x9e37_79b9) >> 24) as u8;
    }
    let bytes = &*bytes;
    let copy = bytes.to_vec();
    let ends = |memory| -> Vec<&[u8]> {
        let memory: &[u8] = memory;
        (0..=255).map(|length| &memory[memory.len() - length..]).collect()
    };
    let starts = |memory| -> Vec<&[u8]> {
        let memory: &[u8] = memory;
        (0..=255).map(|length| &memory[..length]).collect()
    };
    for kernel in kernels() {
        for (guarded, plain) in [(ends(bytes), ends(&copy)), (starts(bytes), starts(&copy))] {
            let expected = values(kernel, &plain);
            assert_eq!(values(kernel, &guarded), expected, "{kernel:?}");
            for (name, value) in guarded.iter().zip(expected) {
                // Full groups, and one that is not.
                assert_eq!(values(kernel, &[*name; 19]), [value; 19], "{kernel:?} {}", name.len());
            }
        }
    }
}

/// A name's value does not depend on where it lies.
#[test]
fn any_alignment_gives_the_same() {
    let text: Vec<u8> = (0..=255u32).map(|n| (n * 151 / 2) as u8).collect();
    for kernel in kernels() {
        for length in [1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255] {
            let expected = values(kernel, &[&text[..length]])[0];
            let copies: Vec<Vec<u8>> =
                (0..64).map(|shift| [&vec![0xaa; shift], &text[..length], &[0x55; 40]].concat()).collect();
            let names: Vec<&[u8]> =
                copies.iter().enumerate().map(|(shift, copy)| &copy[shift..shift + length]).collect();
            assert_eq!(values(kernel, &names), [expected; 64], "{kernel:?} {length}");
        }
    }
}

#[test]
fn a_name_that_is_too_long_ends_the_batch_before_its_chunk() {
    let long = vec![0; NameKernel::MAX_LEN + 1];
    for kernel in kernels() {
        let mut names = [&b"short"[..]; 200];
        names[150] = &long;
        let mut found = [NameValue::default(); 200];
        assert_eq!(kernel.hash_batch([0; 4], &names, &mut found), 128);
        names[150] = &long[1..];
        assert_eq!(kernel.hash_batch([0; 4], &names, &mut found), 200);
    }
}
