//! The names of digests that a C program can count on.

use std::ffi::{CStr, c_char};

use crate::boundary::no_unwind;

/// What every libblkhash.so.0 offers, in alphabetical order. [`verisum_digest::ALGORITHMS`] has more,
/// and they can be asked for by name; but programs show this list, and compare it between machines.
static NAMES: &[&CStr] = &[
    c"blake2b512",
    c"blake2s256",
    c"blake3",
    c"md5",
    c"md5-sha1",
    c"null",
    c"ripemd160",
    c"sha1",
    c"sha224",
    c"sha256",
    c"sha3-224",
    c"sha3-256",
    c"sha3-384",
    c"sha3-512",
    c"sha384",
    c"sha512",
    c"sha512-224",
    c"sha512-256",
    c"shake128",
    c"shake256",
    c"sm3",
];

/// Writes up to `count` names and returns how many; with a null `names`, how many there are.
///
/// # Safety
/// `names` is null, or has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_digests(names: *mut *const c_char, count: usize) -> usize {
    if names.is_null() {
        return NAMES.len();
    }
    no_unwind(|| {
        let given = &NAMES[..count.min(NAMES.len())];
        for (place, name) in given.iter().enumerate() {
            // SAFETY: `place` is less than `count`, for which there is room.
            unsafe { names.add(place).write(name.as_ptr()) };
        }
        given.len()
    })
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_digest::{Algorithm, DigestClass};

    #[test]
    fn the_list_is_a_part_of_the_table() {
        // Left out: what finds accidents only, and what OpenSSL keeps in its legacy provider.
        let mut wanted: Vec<&str> = verisum_digest::ALGORITHMS
            .iter()
            .filter(|row| matches!(row.class, DigestClass::Cryptographic | DigestClass::Null))
            .map(|row| row.id)
            .filter(|id| !["md4", "whirlpool"].contains(id))
            .collect();
        wanted.sort_unstable();
        let names: Vec<&str> = NAMES.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, wanted);
        assert!(names.iter().all(|name| Algorithm::find(name).unwrap().id == *name));
    }
}
