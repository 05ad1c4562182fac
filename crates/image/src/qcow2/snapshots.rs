//! The snapshots that a qcow2 image keeps inside.

use super::header::{Header, L1};
use crate::numbers::{be16, be32, be64};
use crate::{Image, ImageError, ImageOperation, RawImage};
use std::path::Path;

/// How many there are at most, how long all of their descriptions are, and one's extra data, as QEMU has
/// it.
const MAX_SNAPSHOTS: u32 = 65_536;
const MAX_LEN: u64 = 64 << 20;
const MAX_EXTRA: u32 = 1024;

/// Length of the fixed part of a description.
const FIXED_LEN: usize = 40;

/// Extra data has the length of the guest's disk, if it reaches that far.
const EXTRA_LEN: u32 = 16;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) l1: L1,
    /// Where its description is in the file.
    pub(crate) offset: u64,
    /// Length in bytes of what the guest saw, where that is recorded.
    pub(crate) length: Option<u64>,
    /// When it was taken, in seconds since 1970.
    pub(crate) seconds: u64,
    /// Length in bytes of the state of the machine that it keeps.
    pub(crate) state_length: u64,
}

impl Snapshot {
    /// The snapshot with this identifier, or else the first with this name.
    pub(crate) fn find(
        file: &RawImage,
        header: &Header,
        path: &Path,
        name: &str,
    ) -> Result<Snapshot, ImageError> {
        let mut of_this_name = None;
        let mut names = Vec::new();
        let mut snapshots = Snapshots::new(file, header, path)?;
        while let Some(snapshot) = snapshots.next_one()? {
            if snapshot.id == name {
                return Ok(snapshot);
            }
            if names.len() < SHOWN {
                names.push(snapshot.name.clone());
            }
            if snapshot.name == name && of_this_name.is_none() {
                of_this_name = Some(snapshot);
            }
        }
        of_this_name.ok_or_else(|| {
            let more = if header.snapshots as usize > names.len() { ", …" } else { "" };
            let known = match names.is_empty() {
                true => "it has none".to_string(),
                false => format!("it has: {}{more}", names.join(", ")),
            };
            ImageError::Refused {
                path: path.to_path_buf(),
                what: format!("no snapshot is called {name} ({known})"),
            }
        })
    }
}

/// How many names of snapshots an error lists.
const SHOWN: usize = 10;

/// The descriptions, one after the other.
pub(crate) struct Snapshots<'a> {
    file: &'a RawImage,
    path: &'a Path,
    start: u64,
    position: u64,
    left: u32,
}

impl<'a> Snapshots<'a> {
    pub(crate) fn new(
        file: &'a RawImage,
        header: &Header,
        path: &'a Path,
    ) -> Result<Snapshots<'a>, ImageError> {
        let left = header.snapshots;
        if left > MAX_SNAPSHOTS {
            let what = format!("{left} snapshots");
            return Err(ImageError::invalid(path, ImageOperation::Open, Some(60), what));
        }
        let start = header.snapshots_offset;
        if left > 0 && !start.is_multiple_of(header.cluster_size()) {
            let what = format!("snapshots at {start}, which is not aligned");
            return Err(ImageError::invalid(path, ImageOperation::Open, Some(64), what));
        }
        Ok(Snapshots { file, path, start, position: start, left })
    }

    pub(crate) fn next_one(&mut self) -> Result<Option<Snapshot>, ImageError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let offset = self.position;
        let fixed = self.take(FIXED_LEN as u64)?;
        let extra_len = be32(&fixed, 36);
        if extra_len > MAX_EXTRA {
            return Err(self.invalid(format!("{extra_len} bytes of extra data of a snapshot")));
        }
        let extra = self.take(u64::from(extra_len))?;
        let id = self.take(u64::from(be16(&fixed, 12)))?;
        let name = self.take(u64::from(be16(&fixed, 14)))?;
        self.position = self.position.next_multiple_of(8);
        Ok(Some(Snapshot {
            id: String::from_utf8_lossy(&id).into_owned(),
            name: String::from_utf8_lossy(&name).into_owned(),
            l1: L1 { offset: be64(&fixed, 0), entries: u64::from(be32(&fixed, 8)) },
            offset,
            length: (extra_len >= EXTRA_LEN).then(|| be64(&extra, 8) / 512 * 512),
            seconds: u64::from(be32(&fixed, 16)),
            state_length: match extra_len {
                0..8 => u64::from(be32(&fixed, 32)),
                _ => be64(&extra, 0),
            },
        }))
    }

    /// The next bytes.
    fn take(&mut self, len: u64) -> Result<Vec<u8>, ImageError> {
        let end = self.position.checked_add(len).filter(|end| *end <= self.file.exact_length());
        let Some(end) = end.filter(|end| end - self.start <= MAX_LEN) else {
            return Err(self.invalid("snapshots reach outside the file or their limit"));
        };
        let mut bytes = vec![0; len as usize];
        self.file.read_at(&mut bytes, self.position)?;
        self.position = end;
        Ok(bytes)
    }

    fn invalid(&self, what: impl Into<String>) -> ImageError {
        ImageError::invalid(self.path, ImageOperation::Open, Some(self.position), what)
    }
}
