//! What a file has besides its content: owner, mode, extended attributes and times.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use verisum_files::Timestamp;

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
    let names = match listed(from) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        names => names?,
    };
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Some(value) = value(from, name)? else { continue };
        match rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => {}
            // Labels of the system's own, which it gives itself.
            Err(Errno::PERM) if name.starts_with(b"security.") || name.starts_with(b"trusted.") => {}
            set => set?,
        }
    }
    Ok(())
}

fn listed(file: &File) -> rustix::io::Result<Vec<u8>> {
    loop {
        let length = rustix::fs::flistxattr(file, &mut [0_u8; 0][..])?;
        let mut names = vec![0; length];
        match rustix::fs::flistxattr(file, &mut names[..]) {
            Ok(length) => {
                names.truncate(length);
                return Ok(names);
            }
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The value of an attribute; none if it is gone meanwhile.
fn value(file: &File, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    loop {
        let length = match rustix::fs::fgetxattr(file, name, &mut [0_u8; 0][..]) {
            Err(Errno::NODATA) => return Ok(None),
            length => length?,
        };
        let mut value = vec![0; length];
        match rustix::fs::fgetxattr(file, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Errno::RANGE) => {}
            Err(Errno::NODATA) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Sets the time of modification, and that of the last access where it is given.
pub(crate) fn set_times(file: &File, modified: Timestamp, accessed: Option<Timestamp>) -> io::Result<()> {
    let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    let omitted = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let last_access = accessed.map_or(omitted, time);
    let times = Timestamps { last_access, last_modification: time(modified) };
    Ok(rustix::fs::futimens(file, &times)?)
}
