//! Checks that the tree is the one that was recorded. A mount point whose file system is not mounted is an
//! empty directory: everything would be missing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::top_directory::Top;
use super::{RootFault, Scope, ScrubError, ScrubOptions};
use crate::store::{Catalog, Identity, Moment, Position, Root, Stamp};
use verisum_files::{Entry, Kind};

/// How many recorded files are looked for where a root's numbers are not the recorded ones.
const PROBES: usize = 64;

/// Finds out what part of which root a directory is, and whether it is what was recorded.
pub(super) fn scope(catalog: &Catalog, path: &Path, options: &ScrubOptions) -> Result<Scope, ScrubError> {
    let stat = Entry::named(path).and_then(|entry| entry.stat());
    if stat.as_ref().is_err_and(|error| error.errno() == Some(Errno::NOENT)) && catalog.root(path)?.is_some()
    {
        return Err(ScrubError::Root { path: path.to_path_buf(), why: RootFault::Gone });
    }
    let stat = stat?;
    if stat.kind != Kind::Directory {
        return Err(ScrubError::Root { path: path.to_path_buf(), why: RootFault::NotADirectory });
    }
    let root = catalog.root_of(path)?;
    let root = match root {
        Some(root) if options.one_file_system && is_tree_of_its_own(catalog, &root, path)? => None,
        root => root,
    };
    let Some(mut root) = root else {
        let root = catalog.add_root(path, Identity::of(&stat))?;
        catalog.set_identity(&root, root.identity, born(path))?;
        let top = Top::open(path, options.one_file_system)?;
        return Ok(Scope { directory: root.directory, path: path.to_path_buf(), root, top: Some(top) });
    };
    let top = Identity::of(&Entry::named(&root.path)?.stat()?);
    let made = born(&root.path);
    if (top, made) != (root.identity, root.born) {
        if !options.replaced_root && !is_there(catalog, &root)? {
            return Err(ScrubError::Root { path: root.path, why: RootFault::Replaced });
        }
        catalog.set_identity(&root, top, made)?;
        (root.identity, root.born) = (top, made);
    }
    if let Some(unmounted) = unmounted(catalog, &root, path)? {
        if !options.replaced_root {
            return Err(ScrubError::Root { path: unmounted.path, why: RootFault::Unmounted });
        }
        catalog.set_device(unmounted.directory, unmounted.device)?;
    }
    let inside = inside(catalog, root, path, stat.device)?;
    Ok(Scope { top: Some(Top::open(path, options.one_file_system)?), ..inside })
}

/// Whether a directory in a root is on what is mounted there, and nothing is recorded of that.
///
/// # Errors
/// Something is mounted over what is recorded.
fn is_tree_of_its_own(catalog: &Catalog, root: &Root, path: &Path) -> Result<bool, ScrubError> {
    let below = root.below(path);
    let (mut reached, mut known) = (root.path.clone(), Some(root.directory));
    let mut top = Top::open(&reached, true)?;
    for name in below.components() {
        reached.push(name);
        let parent = known;
        known = match parent {
            Some(parent) => catalog.directory_in(parent, name.as_os_str())?,
            None => None,
        };
        if top.folder(&reached).err().and_then(|error| error.errno()) != Some(Errno::XDEV) {
            continue;
        }
        let (Some(parent), Some(known)) = (parent, known) else { return Ok(true) };
        // What was mounted there when it was recorded is part of the root.
        if catalog.device(known)? == catalog.device(parent)? {
            return Err(ScrubError::Root { path: path.to_path_buf(), why: RootFault::MountedOver });
        }
        top = Top::open(&reached, true)?;
    }
    Ok(false)
}

/// A directory that another file system was mounted at when it was recorded, and none is now.
pub(super) struct Unmounted {
    pub(super) path: PathBuf,
    directory: i64,
    /// The device that it is on now, by the number that is recorded of what is beside it.
    device: u64,
}

/// The first of these on the way from a root to a path in it, and that itself.
pub(super) fn unmounted(
    catalog: &Catalog,
    root: &Root,
    path: &Path,
) -> Result<Option<Unmounted>, ScrubError> {
    let below = root.below(path);
    let (mut reached, mut parent) = (root.path.clone(), root.directory);
    let Some(mut parent_device) = device(&reached) else { return Ok(None) };
    for name in below.components() {
        let Some(known) = catalog.directory_in(parent, name.as_os_str())? else { break };
        reached.push(name);
        let Some(device) = device(&reached) else { break };
        let beside = catalog.device(parent)?;
        if device == parent_device && catalog.device(known)? != beside {
            let device = beside.unwrap_or(device);
            return Ok(Some(Unmounted { path: reached, directory: known, device }));
        }
        (parent, parent_device) = (known, device);
    }
    Ok(None)
}

/// The device of a directory that is no link.
fn device(path: &Path) -> Option<u64> {
    let stat = Entry::named(path).and_then(|entry| entry.stat()).ok()?;
    (stat.kind == Kind::Directory).then_some(stat.device)
}

/// Fails unless what is at a path in a root is what was recorded there, as far as can be told without reading it.
///
/// # Errors
/// [`ScrubError::Root`] for another tree, or where a file system that was recorded is not mounted.
pub fn require_tree(catalog: &Catalog, root: &Root, path: &Path) -> Result<(), ScrubError> {
    if !is_there(catalog, root)? {
        return Err(ScrubError::Root { path: root.path.clone(), why: RootFault::OtherTree });
    }
    match unmounted(catalog, root, path)? {
        Some(unmounted) => Err(ScrubError::Root { path: unmounted.path, why: RootFault::Unmounted }),
        None => Ok(()),
    }
}

/// The part of a root that a directory in it is. `last` is that directory's device.
pub(super) fn inside(catalog: &Catalog, root: Root, path: &Path, last: u64) -> Result<Scope, ScrubError> {
    let below = root.below(path);
    let (mut directory, mut reached) = (root.directory, root.path.clone());
    for name in below.components() {
        let above = reached.clone();
        reached.push(name);
        directory = match catalog.directory_in(directory, name.as_os_str())? {
            Some(known) => known,
            None => {
                let id = catalog.last_directory()? + 1;
                let here = if root.is_remote() { None } else { device(&reached) };
                let device = match here {
                    // What was recorded beside it has the number that the device had then.
                    Some(here) if device(&above) == Some(here) => catalog.device(directory)?,
                    here => here,
                };
                catalog.add_directory(id, directory, name.as_os_str(), device.unwrap_or(last))?;
                id
            }
        };
    }
    Ok(Scope { root, directory, path: path.to_path_buf(), top: None })
}

/// Whether what is at a root's path may be what was recorded: it is the same directory, or its files are
/// there. Another file system may have the numbers that one before it had, but it was made at another time;
/// where that is kept, the number of the device says nothing: it may be another whenever it is mounted.
pub(super) fn is_there(catalog: &Catalog, root: &Root) -> Result<bool, ScrubError> {
    let top = Identity::of(&Entry::named(&root.path)?.stat()?);
    let is_itself = match root.born.zip(born(&root.path)) {
        Some((recorded, now)) => recorded == now && top.inode == root.identity.inode,
        None => top == root.identity,
    };
    Ok(is_itself || root.files == 0 || is_the_same_tree(catalog, root)?)
}

/// When a directory was made, if that is kept.
fn born(path: &Path) -> Option<Moment> {
    Entry::named(path).ok()?.born().map(Moment::from)
}

/// Whether some recorded files are where they were, with their inodes, lengths and times. Devices are
/// numbered anew when the system starts; the files know better.
fn is_the_same_tree(catalog: &Catalog, root: &Root) -> Result<bool, ScrubError> {
    let mut files = catalog.some_sound(root.id, PROBES)?;
    if files.is_empty() {
        // All may be missing because an empty mount point was taken for the tree.
        files = catalog.in_trouble(root.id, &Position::START, true, PROBES)?;
    }
    let top = Top::open(&root.path, false)?;
    let mut same = 0;
    for (Position { directory, name, .. }, record) in &files {
        let path = root.path.join(catalog.path_in_root(*directory)?).join(OsStr::from_bytes(name));
        let found = top.find(&path);
        let is_same = |stat: &verisum_files::Stat| {
            (stat.inode, stat.size, Stamp::from(stat.modified)) == (record.inode, record.size, record.mtime)
        };
        same += usize::from(found.is_ok_and(|(_, stat)| is_same(&stat)));
    }
    Ok(same > 0 && same * 2 >= files.len())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::{CatalogRecord, RecordChange, State};

    #[test]
    fn a_file_system_is_known_again_under_another_number_of_its_device() {
        let folder = tempfile::tempdir().unwrap();
        let (top, file) = (folder.path().join("top"), folder.path().join("c.db"));
        std::fs::create_dir(&top).unwrap();
        let Some(made) = born(&top) else {
            return verisum_testkit::skip("temporary files have no time of birth");
        };
        let catalog = Catalog::open(&file).unwrap();
        let now = Identity::of(&Entry::named(&top).unwrap().stat().unwrap());
        let then = Identity { device: now.device + 7, ..now };
        let root = catalog.add_root(&top, then).unwrap();
        for (id, device) in [(10, then.device), (11, now.device), (12, now.device + 1)] {
            catalog.add_directory(id, root.directory, id.to_string().as_ref(), device).unwrap();
        }
        let record = CatalogRecord {
            size: 1,
            mtime: Stamp::of_nanoseconds(2),
            ctime: Stamp::of_nanoseconds(3),
            inode: 4,
            algorithm: catalog.algorithm("sha256").unwrap(),
            digest: verisum_digest::Output::zeroed(32),
            first_seen: made,
            changed: made,
            verified: made,
            state: State::Sound,
        };
        // It is not there any more.
        catalog.apply(root.id, root.directory, "file".as_ref(), &RecordChange::Add(record)).unwrap();
        for (identity, born, is_known) in [
            (then, Some(made), true),
            (now, Some(made), true),
            (now, None, true),
            (then, None, false),
            (now, Some(made - Duration::from_millis(1)), false),
            (Identity { inode: now.inode + 1, ..now }, Some(made), false),
        ] {
            let root = Root { identity, born, ..catalog.root(&top).unwrap().unwrap() };
            assert_eq!(is_there(&catalog, &root).unwrap(), is_known, "{identity:?} {born:?}");
        }
        // What was on another device than the top still is.
        let root = catalog.root(&top).unwrap().unwrap();
        catalog.set_identity(&root, now, Some(made)).unwrap();
        let devices = [root.directory, 10, 11, 12].map(|id| catalog.device(id).unwrap());
        assert_eq!(devices, [now.device, now.device, then.device, now.device + 1].map(Some));
    }
}
