//! Whether the tree is the one that was recorded. A mount point whose file system is not mounted is an
//! empty directory: everything would be missing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::top::Top;
use super::{Error, Options, Scope};
use crate::store::catalog::{Catalog, Identity, Position, Root, stamp};
use crate::{Entry, Kind};

/// How many recorded files are looked for where a root's numbers are not the recorded ones.
const PROBES: usize = 64;

/// Finds out what part of which root a directory is, and whether it is what was recorded.
pub(super) fn scope(catalog: &Catalog, path: &Path, options: &Options) -> Result<Scope, Error> {
    let stat = Entry::named(path)?.stat()?;
    if stat.kind != Kind::Directory {
        return Err(Error::Root { path: path.to_path_buf(), why: "open: Not a directory" });
    }
    let Some(mut root) = catalog.root_of(path)? else {
        let root = catalog.add_root(path, Identity::of(&stat))?;
        catalog.set_identity(root.id, root.identity, born(path))?;
        let top = Top::open(path, options.one_file_system)?;
        return Ok(Scope { directory: root.directory, path: path.to_path_buf(), root, top: Some(top) });
    };
    let top = Identity::of(&Entry::named(&root.path)?.stat()?);
    let made = born(&root.path);
    if (top, made) != (root.identity, root.born) {
        if !options.replaced_root && !is_there(catalog, &root)? {
            let why = "its file system or inode is not the recorded one, and neither are its files: is it \
                       mounted? (--replaced-root takes it for the same tree)";
            return Err(Error::Root { path: root.path, why });
        }
        catalog.set_identity(root.id, top, made)?;
        (root.identity, root.born) = (top, made);
    }
    let inside = inside(catalog, root, path, stat.device)?;
    Ok(Scope { top: Some(Top::open(path, options.one_file_system)?), ..inside })
}

/// The part of a root that a directory in it is.
pub(super) fn inside(catalog: &Catalog, root: Root, path: &Path, device: u64) -> Result<Scope, Error> {
    let below = path.strip_prefix(&root.path).unwrap_or(Path::new(""));
    let mut directory = root.directory;
    for (depth, name) in below.components().enumerate() {
        let folder: std::path::PathBuf = below.components().take(depth + 1).collect();
        directory = match catalog.directory(&root, &folder)? {
            Some(known) => known,
            None => {
                let id = catalog.last_directory()? + 1;
                catalog.add_directory(id, directory, name.as_os_str(), device)?;
                id
            }
        };
    }
    Ok(Scope { root, directory, path: path.to_path_buf(), top: None })
}

/// Whether what is at a root's path may be what was recorded: it is the same directory, or its files are
/// there. Another file system may have the numbers that one before it had, but it was made at another time.
pub(super) fn is_there(catalog: &Catalog, root: &Root) -> Result<bool, Error> {
    let top = Identity::of(&Entry::named(&root.path)?.stat()?);
    let is_made_anew = root.born.zip(born(&root.path)).is_some_and(|(recorded, now)| recorded != now);
    Ok(top == root.identity && !is_made_anew || root.files == 0 || is_the_same_tree(catalog, root)?)
}

/// When a directory was made, in milliseconds since 1970, if that is kept.
fn born(path: &Path) -> Option<i64> {
    Entry::named(path).ok()?.born()
}

/// Whether some recorded files are where they were, with their inodes, lengths and times. Devices are
/// numbered anew when the system starts; the files know better.
fn is_the_same_tree(catalog: &Catalog, root: &Root) -> Result<bool, Error> {
    let files = catalog.stalest(root.id, &Position::START, i64::MAX, PROBES)?;
    let top = Top::open(&root.path, false)?;
    let mut same = 0;
    for (Position { directory, name, .. }, record) in &files {
        let path = root.path.join(catalog.path_in_root(*directory)?).join(OsStr::from_bytes(name));
        let found = top.find(&path);
        let is_same = |stat: &crate::Stat| {
            (stat.inode, stat.size, stamp(stat.modified)) == (record.inode, record.size, record.mtime)
        };
        same += usize::from(found.is_ok_and(|(_, stat)| is_same(&stat)));
    }
    Ok(same > 0 && same * 2 >= files.len())
}
