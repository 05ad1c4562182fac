//! The system calls for extended attributes.

use std::ffi::{CStr, CString};
use std::fs::File;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

/// The longest value that is read, in bytes. No form of a tag is longer.
const MOST: usize = 512;

/// A value, or `None` if there is no such attribute. Of one that is too long to be a tag, nothing but
/// an empty value is returned: no form of a tag is that, so it is taken for damaged.
pub fn get(file: &File, name: &CStr) -> Result<Option<Value>, Errno> {
    let mut value = Value { bytes: [0; MOST], len: 0 };
    match fgetxattr(file, name, &mut value.bytes[..]) {
        Ok(len) => {
            value.len = len;
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(Errno::RANGE) => Ok(Some(value)),
        Err(error) => Err(error),
    }
}

/// The bytes of an attribute.
pub struct Value {
    bytes: [u8; MOST],
    len: usize,
}

impl std::ops::Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Sets a value, whether there was one or not.
pub fn set(file: &File, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    fsetxattr(file, name, value, XattrFlags::empty())
}

/// Sets a value where there is none yet; otherwise fails with `EEXIST`.
pub fn create(file: &File, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    fsetxattr(file, name, value, XattrFlags::CREATE)
}

/// Removes an attribute. Returns whether there was one.
pub fn remove(file: &File, name: &CStr) -> Result<bool, Errno> {
    match fremovexattr(file, name) {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The names of a file's attributes.
pub fn list(file: &File) -> Result<Vec<CString>, Errno> {
    let mut small = [0; 1024];
    match flistxattr(file, &mut small[..]) {
        Ok(len) => return Ok(names(&small[..len])),
        Err(Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    // The most that Linux gives.
    let mut large = vec![0; 64 << 10];
    flistxattr(file, &mut large[..]).map(|len| names(&large[..len]))
}

fn names(list: &[u8]) -> Vec<CString> {
    list.split_inclusive(|&byte| byte == 0)
        .filter_map(|name| Some(CStr::from_bytes_with_nul(name).ok()?.to_owned()))
        .collect()
}
