//! What a file has besides its content: owner, mode, extended attributes and times.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use verisum_files::Timestamp;

/// The most bytes that Linux lets a list of attributes have, and a value.
const MOST: usize = 64 << 10;

/// Gives a file the owner, the mode and the extended attributes of another; access control lists are among these.
///
/// # Errors
/// The system refuses one of them. Attributes that the file system of the new file does not know are left out.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<()> {
    let old = from.metadata()?;
    let new = to.metadata()?;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        rustix::fs::fchown(to, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())))?;
    }
    // After the owner, whose change takes some bits of the mode away.
    match rustix::fs::fchmod(to, Mode::from_raw_mode(old.mode() & 0o7777)) {
        // FAT has no modes to change.
        Err(Errno::PERM | Errno::OPNOTSUPP) if new.mode() & 0o7777 == old.mode() & 0o7777 => {}
        changed => changed?,
    }
    copy_attributes(from, to)
}

fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let (mut names, mut value) = (vec![0; MOST], vec![0; MOST]);
    let length = match rustix::fs::flistxattr(from, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let length = match rustix::fs::fgetxattr(from, name, &mut value[..]) {
            // It was removed meanwhile.
            Err(Errno::NODATA) => continue,
            length => length?,
        };
        match rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => {}
            // Labels of the system's own, which it gives itself.
            Err(Errno::PERM) if name.starts_with(b"security.") || name.starts_with(b"trusted.") => {}
            set => set?,
        }
    }
    Ok(())
}

/// Sets the time of modification, and that of the last access where it is given.
pub(crate) fn set_times(file: &File, modified: Timestamp, accessed: Option<Timestamp>) -> io::Result<()> {
    let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    let omitted = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let last_access = accessed.map_or(omitted, time);
    let times = Timestamps { last_access, last_modification: time(modified) };
    Ok(rustix::fs::futimens(file, &times)?)
}
