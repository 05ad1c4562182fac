//! One directory of a walk, and its entries that are not yet given out.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use super::Order;
use super::entry::{Directory, DirectoryPlace, Entry};
use crate::{Kind, Stat, system};

/// How many names are sorted together by inode or extent.
const SORTED_TOGETHER: usize = 1 << 15;

/// A name that was listed.
#[derive(Debug)]
pub(super) struct ListedName {
    pub(super) name: OsString,
    /// `None` where the file system does not say so in its lists.
    pub(super) kind: Option<Kind>,
    pub(super) inode: u64,
    /// What it is sorted by, if not its name.
    rank: u64,
}

/// One directory of a walk.
pub(super) struct Level {
    /// `None` while it is closed because the tree is deep.
    pub(super) directory: Option<Arc<Directory>>,
    pub(super) place: Arc<DirectoryPlace>,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    listed: bool,
    next: VecDeque<ListedName>,
    /// Directories, which are for when the rest has been given out; unless by name.
    directories: VecDeque<ListedName>,
}

impl Level {
    pub(super) fn new(directory: Arc<Directory>, place: Arc<DirectoryPlace>, stat: &Stat) -> Level {
        Level {
            directory: Some(directory),
            place,
            identity: (stat.device, stat.inode),
            listed: false,
            next: VecDeque::new(),
            directories: VecDeque::new(),
        }
    }

    /// The next name, or `None` at the end.
    pub(super) fn next(
        &mut self,
        order: Order,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Option<Result<ListedName, Errno>> {
        loop {
            if let Some(found) = self.next.pop_front() {
                return Some(Ok(found));
            }
            if self.listed {
                return self.directories.pop_front().map(Ok);
            }
            // After an error there is no more to list; what came before it is given out.
            if let Err(cause) = self.fill(order, buffer) {
                return Some(Err(cause));
            }
        }
    }

    /// Lists more: a buffer full, or as much as is sorted together.
    fn fill(&mut self, order: Order, buffer: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        let Some(directory) = self.directory.clone() else {
            self.listed = true;
            return Err(Errno::BADF);
        };
        let together = match order {
            Order::Directory => 1,
            Order::Name => usize::MAX,
            Order::Inode | Order::Extent => SORTED_TOGETHER,
        };
        let mut found = Vec::new();
        let mut result = Ok(());
        while !self.listed && found.len() < together {
            let end = list(&directory, buffer, &mut found);
            self.listed = end.unwrap_or(true);
            result = end.map(|_| ());
        }
        if order == Order::Name {
            // As if each path were compared as a whole: what is in a directory has a slash after its name.
            found.sort_unstable_by(by_path);
            self.next = found.into();
            return result;
        }
        for found in &mut found {
            found.rank = match order {
                Order::Inode => found.inode,
                Order::Extent if found.kind == Some(Kind::File) => extent(&directory, found),
                _ => 0,
            };
        }
        if order != Order::Directory {
            found.sort_by_key(|found| found.rank);
        }
        for found in found {
            match found.kind {
                Some(Kind::Directory) => self.directories.push_back(found),
                _ => self.next.push_back(found),
            }
        }
        result
    }
}

fn by_path(a: &ListedName, b: &ListedName) -> Ordering {
    let (a_name, b_name) = (a.name.as_bytes(), b.name.as_bytes());
    let common = a_name.len().min(b_name.len());
    let next = |found: &ListedName, name: &[u8]| match name.get(common) {
        None => (found.kind == Some(Kind::Directory)).then_some(b'/'),
        byte => byte.copied(),
    };
    // No name has a slash, so that where the common part is the same, the next byte decides.
    a_name[..common].cmp(&b_name[..common]).then_with(|| next(a, a_name).cmp(&next(b, b_name)))
}

/// Where the first byte of a file lies; files that will not say come first.
fn extent(directory: &Arc<Directory>, found: &ListedName) -> u64 {
    let entry = Entry::found(directory, found.name.clone(), (Kind::File, found.inode), false);
    entry.open().ok().and_then(|file| system::first_extent(&file)).unwrap_or(0)
}

/// Adds what one call lists; true at the end.
fn list(
    directory: &Directory,
    buffer: &mut [MaybeUninit<u8>],
    found: &mut Vec<ListedName>,
) -> Result<bool, Errno> {
    let mut list = RawDir::new(directory, buffer);
    while let Some(entry) = list.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let kind = match entry.file_type() {
                FileType::Unknown => None,
                known => Some(known.into()),
            };
            let name = OsStr::from_bytes(name).into();
            found.push(ListedName { name, kind, inode: entry.ino(), rank: 0 });
        }
        if list.is_buffer_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}
