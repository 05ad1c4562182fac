//! Reads owner, mode, times and extended attributes of an entry, and sets them on another.

use std::ffi::{CStr, CString};

use rustix::fd::AsFd;
use rustix::fs::{
    Gid, Mode, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr,
    fstat, futimens,
};
use rustix::io::Errno;
use verisum_files::store::xattr;
use verisum_files::times_of;

/// The access control lists of POSIX, which new files may get from their directory.
const LISTS: [&CStr; 2] = [c"system.posix_acl_access", c"system.posix_acl_default"];

/// The list that new entries of a directory get.
pub(crate) const INHERITED: &CStr = LISTS[1];

/// The most that Linux gives for a list of names, and for a value.
const MOST: usize = 64 << 10;

/// The bits of a mode that can be set.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// What belongs to an entry besides its content.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) times: Timestamps,
    attributes: Vec<(CString, Vec<u8>)>,
}

impl Metadata {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)] // The types differ between systems.
    pub(crate) fn new(stat: &rustix::fs::Stat) -> Metadata {
        Metadata {
            mode: stat.st_mode as u32 & MODE_BITS,
            user: stat.st_uid,
            group: stat.st_gid,
            times: times_of(stat),
            attributes: Vec::new(),
        }
    }

    /// Reads the attributes of an open file. What cannot be read is as if it were not there. Returns whether
    /// there may be a tag among them.
    pub(crate) fn read_attributes(&mut self, file: impl AsFd, without_tag: bool) -> bool {
        let mut small = [0; 1024];
        let mut large = Vec::new();
        let names = match flistxattr(&file, &mut small[..]) {
            Ok(0) => return false,
            Ok(length) => &small[..length],
            Err(Errno::RANGE) => {
                large.resize(MOST, 0);
                let Ok(length) = flistxattr(&file, &mut large[..]) else { return false };
                &large[..length]
            }
            Err(_) => return false,
        };
        let mut may_have_tag = false;
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            let text = name.to_bytes();
            let is_own = name == xattr::NAME;
            may_have_tag |=
                is_own || text.starts_with(b"user.shatag.") || text.starts_with(b"user.checksum.");
            if is_own && without_tag {
                continue;
            }
            if let Ok(value) = value_of(&file, name) {
                self.attributes.push((name.to_owned(), value));
            }
        }
        may_have_tag
    }

    /// Gives an open file all of this. Whoever is not root cannot give files away: then the bits that let a
    /// program act as its owner are not set either, as `cp` does. Returns whether TO took everything.
    ///
    /// # Errors
    /// The times cannot be set.
    pub(crate) fn apply(&self, file: impl AsFd, is_root: bool, inherits: bool) -> Result<bool, Errno> {
        let now = fstat(&file)?;
        let mut is_whole = true;
        let mut mode = self.mode;
        if (now.st_uid, now.st_gid) != (self.user, self.group) {
            let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
            if fchown(&file, Some(user), Some(group)).is_err() {
                let _ = fchown(&file, None, Some(group));
                mode &= 0o1777;
                is_whole &= !is_root;
            }
        }
        if inherits {
            let is_own = |list: &CStr| self.attributes.iter().any(|(name, _)| name.as_c_str() == list);
            for list in LISTS.into_iter().filter(|list| !is_own(list)) {
                let _ = fremovexattr(&file, list);
            }
        }
        for (name, value) in &self.attributes {
            let set = fsetxattr(&file, name.as_c_str(), value, XattrFlags::empty());
            // What the system keeps for itself it gives to each file as it should be.
            let counts = name.to_bytes().starts_with(b"user.") || LISTS.contains(&name.as_c_str());
            is_whole &= set.is_ok() || !counts;
        }
        let has_changed = !self.attributes.is_empty() || inherits || mode & 0o7000 != 0;
        if (has_changed || now.st_mode & MODE_BITS != mode || now.st_uid != self.user)
            && fchmod(&file, Mode::from_raw_mode(mode)).is_err()
        {
            is_whole = false;
        }
        futimens(&file, &self.times)?;
        Ok(is_whole)
    }
}

fn value_of(file: impl AsFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 512];
    match fgetxattr(&file, name, &mut small[..]) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut large = vec![0; MOST];
            let length = fgetxattr(&file, name, &mut large[..])?;
            large.truncate(length);
            Ok(large)
        }
        Err(error) => Err(error),
    }
}
