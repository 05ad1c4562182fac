//! The locale's character set, for the quotes and names of imitated programs.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::OnceLock;

use verisum::files::text::{printable, push_bytes};

/// Whether the locale that the environment names is one with UTF-8. Where it is not installed, programs are in that
/// of C.
pub(crate) fn is_utf8() -> bool {
    static IS_UTF8: OnceLock<bool> = OnceLock::new();
    *IS_UTF8.get_or_init(|| {
        // SAFETY: the name is a C string, and no locale is changed: a new one is made, or none.
        let locale = unsafe { libc::newlocale(libc::LC_ALL_MASK, c"".as_ptr(), ptr::null_mut()) };
        if locale.is_null() {
            return false;
        }
        // SAFETY: the locale is one, and what it gives is a C string that stays until the locale is freed.
        let charset = unsafe { CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, locale)) };
        let is_utf8 = charset.to_bytes().eq_ignore_ascii_case(b"UTF-8");
        // SAFETY: nothing uses it any more.
        unsafe { libc::freelocale(locale) };
        is_utf8
    })
}

/// A text in the quotes of the locale, as the coreutils put it into messages.
pub(crate) fn quoted(text: impl AsRef<OsStr>) -> String {
    let is_utf8 = is_utf8();
    let (begin, end) = if is_utf8 { ('\u{2018}', '\u{2019}') } else { ('\'', '\'') };
    let mut quoted = String::from(begin);
    for chunk in text.as_ref().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if c == end || c == '\\' => quoted.extend(['\\', c]),
                c if is_utf8 || c.is_ascii() => quoted += &printable(c.encode_utf8(&mut [0; 4])),
                c => push_bytes(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_bytes(&mut quoted, chunk.invalid());
    }
    quoted.push(end);
    quoted
}
