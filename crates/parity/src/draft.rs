//! Replaces a bad file by a repaired one, which is written beside it, read back, and renamed.

use std::ffi::{CString, OsStr};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fd::AsFd;
use rustix::fs::{Advice, AtFlags, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use verisum_digest::Digest;
use verisum_files::replace::{PASSING, swap_back};
use verisum_files::{AsRead, Directory, KeptFile, Kind, Stat, Stop, times_of};

use crate::digest::Hasher;
use crate::head::{Piece, SetHead};
use crate::names::hex;
use crate::tree::{Tree, time};
use crate::verdict::Mended;
use crate::{ParityError, digest};

/// Bytes that are copied at a time.
const CHUNK: usize = 256 << 10;

/// Bytes that are given up together where a disk does not give them.
const SECTOR: usize = 4 << 10;

/// Tells whether the bytes of a file are those that were recorded.
pub(crate) trait Proof {
    /// Of how many bytes they are; none if some are others.
    fn proved(&self, path: &[u8], file: &File) -> Result<Option<u64>, ParityError>;
}

/// Heads that have all pieces of the file.
impl Proof for Vec<Arc<SetHead>> {
    fn proved(&self, path: &[u8], file: &File) -> Result<Option<u64>, ParityError> {
        let failed = |error| ParityError::io(Path::new(OsStr::from_bytes(path)), "read", error);
        let mut hasher = Hasher::new()?;
        let mut proved = 0;
        let mut buffer = Vec::new();
        for head in self {
            for (number, parts) in head.parts_of_pieces() {
                if &*head.pieces[number].path != path {
                    continue;
                }
                for part in parts {
                    buffer.resize(part.range.len(), 0);
                    file.read_exact_at(&mut buffer, part.offset).map_err(failed)?;
                    if hasher.part(&buffer)? != head.parts[part.index] {
                        return Ok(None);
                    }
                    proved += buffer.len() as u64;
                }
            }
        }
        Ok(Some(proved))
    }
}

/// Where bad files are kept, and when to end early.
pub(crate) type Keep<'k> = Option<(&'k Path, &'k Stop)>;

/// A file that is being repaired.
pub(crate) struct Draft {
    /// What the record says of the file.
    record: Piece,
    folder: Arc<Directory>,
    /// The name beside the file.
    name: String,
    file: File,
    /// The bad file, and what was said of it when its bytes were copied.
    old: Option<(File, Stat)>,
    /// The bytes that were computed.
    mended: Vec<Range<u64>>,
    /// It is another name of a file that took its place before.
    is_link: bool,
    /// Whether the name beside the file is that of this one, and not of what somebody else made.
    is_ours: bool,
}

/// The name beside a file that its repair has until it takes its place.
pub(crate) fn unplaced_name(path: &[u8]) -> String {
    format!("{PASSING}{}", hex(&digest::whole(path)[..8]))
}

impl Draft {
    /// Begins with a copy of what is there. What an earlier run left behind is replaced. A file with another time than
    /// recorded was written to since it was looked at, unless it `may_differ`.
    pub(crate) fn begin(tree: &Tree, record: &Piece, may_differ: bool) -> Result<Draft, ParityError> {
        let path = tree.path_of(&record.path);
        let old = match tree.file(&record.path) {
            Ok((_, file)) => {
                let stat = Stat::of(&file).map_err(|errno| ParityError::io(&path, "stat", errno))?;
                if !may_differ && time(stat.modified) != record.modified {
                    return Err(ParityError::damaged(&path, "it changed while it was repaired"));
                }
                Some((file, stat))
            }
            Err(verisum_files::FileError::Io { source, .. }) if crate::scan::is_absent(&source) => None,
            Err(error) => return Err(error.into()),
        };
        let folder = folder_of(tree, record)?;
        let name = unplaced_name(&record.path);
        let _ = rustix::fs::unlinkat(&folder, name.as_str(), AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name.as_str(), flags, Mode::from_raw_mode(0o600));
        let file =
            File::from(file.map_err(|errno| ParityError::io(&path, "create the repaired file", errno))?);
        let record = Piece { offset: 0, length: 0, ..record.clone() };
        let draft =
            Draft { record, folder, name, file, old, mended: Vec::new(), is_link: false, is_ours: true };
        draft.copy().map_err(|error| ParityError::io(&path, "write the repaired file", error))?;
        Ok(draft)
    }

    /// Copies what is there, up to the recorded length. What cannot be read stays a hole.
    fn copy(&self) -> io::Result<()> {
        self.file.set_len(self.record.size)?;
        let Some((old, _)) = &self.old else { return Ok(()) };
        // Where the file system shares blocks between files, nothing is read or written.
        if rustix::fs::ioctl_ficlone(&self.file, old).is_ok() {
            return self.file.set_len(self.record.size);
        }
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < self.record.size {
            let wanted = CHUNK.min((self.record.size - at) as usize);
            match old.read_at(&mut buffer[..wanted], at) {
                Ok(0) => break,
                Ok(read) => {
                    self.put(&buffer[..read], at)?;
                    at += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // Byte ranges that the disk gives are kept, however small.
                    for start in (0..wanted).step_by(SECTOR) {
                        let sector = &mut buffer[start..wanted.min(start + SECTOR)];
                        if old.read_exact_at(sector, at + start as u64).is_ok() {
                            self.put(sector, at + start as u64)?;
                        }
                    }
                    at += wanted as u64;
                }
            }
        }
        Ok(())
    }

    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        // Holes stay holes.
        match bytes.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => self.file.write_all_at(bytes, at),
        }
    }

    /// Writes bytes that were computed.
    pub(crate) fn write(&mut self, tree: &Tree, bytes: &[u8], at: u64) -> Result<(), ParityError> {
        // What was shared with the bad file may be unreadable here too.
        verisum_files::write_over(&self.file, bytes, at).map_err(|error| {
            ParityError::io(&tree.path_of(&self.record.path), "write the repaired file", error)
        })?;
        let range = at..at + bytes.len() as u64;
        match self.mended.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.mended.push(range),
        }
        Ok(())
    }

    /// Brings what was written to the disk, and reads it back past the cache.
    pub(crate) fn prove(&self, tree: &Tree, proof: &dyn Proof) -> Result<(), ParityError> {
        self.prove_of(&self.file, tree, proof)
    }

    /// The same of another file, which must be what this one is to be.
    fn prove_of(&self, file: &File, tree: &Tree, proof: &dyn Proof) -> Result<(), ParityError> {
        let path = tree.path_of(&self.record.path);
        let failed = |error| ParityError::io(&path, "write the repaired file", error);
        file.sync_all().map_err(failed)?;
        // What is on the disk is dropped from memory; where that is not possible, memory is compared.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        let length = file.metadata().map_err(failed)?.len();
        let proved = match proof.proved(&self.record.path, file) {
            Ok(Some(proved)) => proved,
            Ok(None) => {
                return Err(ParityError::damaged(&path, "what was written does not read back as recorded"));
            }
            Err(ParityError::Io { source, .. }) => return Err(failed(source)),
            Err(error) => return Err(error),
        };
        match proved == self.record.size && length == proved {
            true => Ok(()),
            false => Err(ParityError::damaged(&path, "a part of it has no parity that can be read")),
        }
    }

    /// Which file the bad one is, whatever its names.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        self.old.as_ref().map(|(_, stat)| (stat.device, stat.inode))
    }

    /// Whether the bad file has several names.
    pub(crate) fn has_links(&self) -> bool {
        self.old.as_ref().is_some_and(|(_, stat)| stat.links > 1)
    }

    /// Becomes another name of a file that was repaired before, if that is what this one is to be: two names of one
    /// bad file are two names of one good one. Else it stays as it is.
    pub(crate) fn link_to(
        &mut self,
        tree: &Tree,
        other: &[u8],
        proof: &dyn Proof,
    ) -> Result<(), ParityError> {
        let Ok((entry, file)) = tree.file(other) else { return Ok(()) };
        if self.prove_of(&file, tree, proof).is_err() {
            return Ok(());
        }
        let path = tree.path_of(&self.record.path);
        let failed = |errno| ParityError::io(&path, "link to the repaired file", errno);
        rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty()).map_err(failed)?;
        let flags = AtFlags::empty();
        rustix::fs::linkat(entry.directory(), entry.name(), &self.folder, self.name.as_str(), flags)
            .map_err(failed)?;
        (self.file, self.is_link) = (file, true);
        Ok(())
    }

    /// Takes the place of the bad file, which is kept if that is wanted.
    pub(crate) fn place(mut self, tree: &Tree, keep: Keep) -> Result<Mended, ParityError> {
        let path = tree.path_of(&self.record.path);
        let failed = |operation: &'static str| {
            let path = path.clone();
            move |error: io::Error| ParityError::io(&path, operation, error)
        };
        if !self.is_link {
            self.dress().map_err(failed("set attributes of the repaired file"))?;
            self.file.sync_all().map_err(failed("write the repaired file"))?;
        }
        let name = name_of(&self.record.path).to_os_string();
        let mut kept = None;
        if let Some((old, before)) = &self.old {
            require_no_writer(old, &path)?;
            if let Some((keep, stop)) = keep {
                kept = Some(keep_copy(old, (keep, &self.record.path), stop)?);
                require_no_writer(old, &path)?;
            }
            // The name must still lead to what was copied, and nobody may have written to it. Where another
            // name of it was repaired before, the system says that it changed: it has a name less.
            let expected = |now: Stat| match self.is_link {
                true => now.is_same_state(&Stat { changed: now.changed, ..*before }),
                false => now.is_same_state(before),
            };
            let now = rustix::fs::statat(&self.folder, &*name, AtFlags::SYMLINK_NOFOLLOW).map(Stat::from);
            if !now.is_ok_and(expected) {
                return Err(ParityError::damaged(&path, "it changed while it was repaired"));
            }
        }
        match self.old.take() {
            Some((old, before)) => self.exchange(&name, (&old, &before), &path)?,
            None => self.place_new(&name).map_err(|errno| failed("rename")(errno.into()))?,
        }
        self.is_ours = false;
        let unread = kept.map_or(0, KeptFile::stay);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Not every file system lets a directory be synchronized; the file is complete in any case.
        let _ = rustix::fs::openat(&self.folder, ".", flags, Mode::empty()).map(rustix::fs::fsync);
        let mut ranges = std::mem::take(&mut self.mended);
        ranges.sort_unstable_by_key(|range| range.start);
        // What belongs together may have come in any order.
        ranges.dedup_by(|next, before| {
            let touch = before.end == next.start;
            if touch {
                before.end = next.end;
            }
            touch
        });
        Ok(Mended { ranges, unread })
    }

    /// Takes the place of the bad file, unless somebody opened it to write to it in the last moment.
    fn exchange(
        &mut self,
        name: &OsStr,
        (old, before): (&File, &Stat),
        path: &Path,
    ) -> Result<(), ParityError> {
        let failed = |errno: Errno| ParityError::io(path, "rename", errno);
        let (folder, own, flags) = (&self.folder, self.name.as_str(), RenameFlags::EXCHANGE);
        match rustix::fs::renameat_with(folder, own, folder, name, flags) {
            Ok(()) => {}
            // The file system cannot: what comes in this moment is not seen.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let placed = rustix::fs::renameat(&self.folder, self.name.as_str(), &self.folder, name);
                return placed.map_err(failed);
            }
            Err(errno) => return Err(failed(errno)),
        }
        // By this name nobody opens it: whoever is going to write to it has it open, and the times tell of others.
        let required = require_no_writer(old, path).and_then(|()| {
            // A rename moves the time of the inode's change.
            let told = |stat: &Stat| (stat.device, stat.inode, stat.size, stat.modified);
            let now = rustix::fs::statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            match now.map(Stat::from).is_ok_and(|now| told(&now) == told(before)) {
                true => Ok(()),
                false => Err(ParityError::damaged(path, "it changed while it was repaired")),
            }
        });
        match required {
            Ok(()) => {
                rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty()).map_err(failed)
            }
            Err(error) => {
                self.swap_back(name)?;
                Err(error)
            }
        }
    }

    /// Gives what somebody put in the file's place its name again. Where that cannot be, it gets one that no repair
    /// replaces or removes: nobody else has it.
    fn swap_back(&mut self, name: &OsStr) -> Result<(), ParityError> {
        let own = OsStr::new(&self.name);
        swap_back(&self.folder, own, name).map_err(|errno| {
            self.is_ours = false;
            let (folder, theirs) = (self.folder.as_fd(), format!("{}-changed", self.name));
            let is_renamed =
                verisum_files::rename_to_nothing((folder, own), (folder, theirs.as_ref())).is_ok();
            let path = self.folder.path().join(if is_renamed { &theirs } else { &self.name });
            ParityError::io(&path, "give what changed meanwhile its name again", errno)
        })
    }

    /// Gives a file that was missing its name, unless somebody else took it meanwhile.
    fn place_new(&self, name: &OsStr) -> Result<(), Errno> {
        let folder = self.folder.as_fd();
        verisum_files::rename_to_nothing((folder, OsStr::new(&self.name)), (folder, name))
    }

    /// Gives the new file what belongs to the old one besides its bytes.
    fn dress(&self) -> io::Result<()> {
        let record = &self.record;
        let (mode, owner, accessed) = match &self.old {
            Some((old, _)) => {
                let metadata = old.metadata()?;
                let accessed = times_of(&rustix::fs::fstat(old)?).last_access;
                (metadata.mode() & 0o7777, (metadata.uid(), metadata.gid()), Some(accessed))
            }
            // Nobody vouches for more than the usual permissions.
            None => (record.mode & 0o777, record.owner, None),
        };
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != owner {
            let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            let given = rustix::fs::fchown(&self.file, Some(user), Some(group));
            // A file that was missing is better than none, whosever it is.
            if self.old.is_some() {
                given?;
            }
        }
        // After the owner: a change of it takes away capabilities.
        if let Some((old, _)) = &self.old {
            copy_attributes(old, &self.file)?;
        }
        self.file.set_permissions(Permissions::from_mode(mode))?;
        let modified = match &self.old {
            Some((_, stat)) if time(stat.modified) == record.modified => stat.modified,
            _ => record.modified,
        };
        let modified = modified.to_timespec();
        let times = Timestamps { last_access: accessed.unwrap_or(modified), last_modification: modified };
        Ok(rustix::fs::futimens(&self.file, &times)?)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Fails as [`folder_of`] does where a file cannot have its folder, and makes none.
pub(crate) fn require_folder(tree: &Tree, path: &[u8]) -> Result<(), ParityError> {
    let mut folder = tree.root().clone();
    for step in Path::new(OsStr::from_bytes(path)).parent().unwrap_or(Path::new("")) {
        folder = match folder.beneath(Path::new(step), None) {
            Err(verisum_files::FileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(());
            }
            Err(verisum_files::FileError::Io { path, source, .. }) if is_other(&source) => {
                return Err(ParityError::damaged(&path, "something else is in the place of the directory"));
            }
            found => found?,
        };
    }
    Ok(())
}

/// Removes what a repair that was killed left beside a file that is as recorded now.
pub(crate) fn remove_left(folder: &Directory, path: &[u8]) {
    let name = unplaced_name(path);
    let found = rustix::fs::statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).map(Stat::from);
    if found.is_ok_and(|found| found.kind == Kind::File) {
        let _ = rustix::fs::unlinkat(folder, name.as_str(), AtFlags::empty());
    }
}

/// Whether a directory cannot be opened because a link or a file has its name.
fn is_other(source: &io::Error) -> bool {
    source.kind() == ErrorKind::NotADirectory || Errno::from_io_error(source) == Some(Errno::LOOP)
}

/// The folder of a file, made anew where it is missing.
pub(crate) fn folder_of(tree: &Tree, record: &Piece) -> Result<Arc<Directory>, ParityError> {
    let way = Path::new(OsStr::from_bytes(&record.path)).parent().unwrap_or(Path::new(""));
    if let Ok(folder) = tree.root().beneath(way, None) {
        return Ok(folder);
    }
    let mut folder = tree.root().clone();
    for step in way {
        folder = match folder.beneath(Path::new(step), None) {
            Err(verisum_files::FileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let made = rustix::fs::mkdirat(&folder, step, Mode::from_raw_mode(0o777));
                made.map_err(|errno| ParityError::io(&folder.path().join(step), "create", errno))?;
                folder.beneath(Path::new(step), None)?
            }
            found => found?,
        };
    }
    Ok(folder)
}

/// Copies extended attributes, lists of access among them.
fn copy_attributes(old: &File, new: &File) -> io::Result<()> {
    let mut names: Vec<u8> = vec![0; 64 << 10];
    let length = match rustix::fs::flistxattr(old, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = CString::new(name) else { continue };
        let mut value: Vec<u8> = vec![0; 64 << 10];
        let length = match rustix::fs::fgetxattr(old, &name, &mut value[..]) {
            Ok(length) => length,
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(errno.into()),
        };
        match rustix::fs::fsetxattr(new, &name, &value[..length], XattrFlags::empty()) {
            // What the system itself gives out, and only root may set.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::ACCESS) if !name.as_bytes().starts_with(b"user.") => {
            }
            set => set?,
        }
    }
    Ok(())
}

/// Fails if somebody has a file open to write to it.
pub(crate) fn require_no_writer(file: &File, path: &Path) -> Result<(), ParityError> {
    match verisum_files::has_writer(file) {
        true => Err(ParityError::damaged(path, "somebody has it open to write to it")),
        false => Ok(()),
    }
}

/// Copies a bad file to where it is kept. The copy goes unless it is told to stay.
pub(crate) fn keep_copy(
    old: &File,
    (keep, path): (&Path, &[u8]),
    stop: &Stop,
) -> Result<KeptFile, ParityError> {
    let path = Path::new(OsStr::from_bytes(path));
    let dress = |copy: &File| {
        // It is kept for its content.
        let _ = copy_attributes(old, copy);
        Ok(rustix::fs::futimens(copy, &times_of(&rustix::fs::fstat(old)?))?)
    };
    let as_read = AsRead { digest: &Digest::find("blake3")?, value: None, stop };
    let kept = KeptFile::copy((keep, path), old, as_read, &dress);
    kept.map_err(|why| ParityError::io(&keep.join(path), "keep the bad file", io::Error::other(why)))
}

pub(crate) fn name_of(path: &[u8]) -> &OsStr {
    OsStr::from_bytes(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Piece {
        Piece {
            path: b"file".as_slice().into(),
            size: 5,
            modified: verisum_files::Timestamp { seconds: 0, nanoseconds: 0 },
            mode: 0o600,
            owner: (0, 0),
            offset: 0,
            length: 0,
        }
    }

    #[test]
    fn what_somebody_wrote_since_the_file_was_looked_at_is_not_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path(), &Arc::default(), &Arc::default()).unwrap();
        std::fs::write(folder.path().join("file"), "theirs").unwrap();
        let begun = Draft::begin(&tree, &record(), false);
        assert!(begun.is_err_and(|error| error.to_string().contains("it changed while it was repaired")));
        assert!(Draft::begin(&tree, &record(), true).is_ok());
        assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "theirs");
    }

    #[test]
    fn what_is_appended_while_the_names_are_exchanged_stays() {
        use std::io::Write;
        // In memory, where there is one: each round waits for the disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let tree = Tree::open(folder.path(), &Arc::default(), &Arc::default()).unwrap();
        let path = folder.path().join("file");
        for round in 0..2000 {
            std::fs::write(&path, "wrong").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
            let mut draft = Draft::begin(&tree, &record(), false).unwrap();
            draft.write(&tree, b"right", 0).unwrap();
            let start = std::sync::Barrier::new(2);
            let placed = std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    (0..fastrand::u32(..2000)).for_each(|_| std::hint::spin_loop());
                    let mut file = File::options().append(true).open(&path).unwrap();
                    (0..fastrand::u32(..1000)).for_each(|_| std::hint::spin_loop());
                    file.write_all(b"!").unwrap();
                });
                start.wait();
                draft.place(&tree, None).is_ok()
            });
            let now = std::fs::read_to_string(&path).unwrap();
            assert!(["right!", "wrong!"].contains(&&*now), "round {round}: {now}, {placed}");
        }
    }

    #[test]
    fn what_somebody_put_in_its_place_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path(), &Arc::default(), &Arc::default()).unwrap();
        let record = record();
        let longest = "n".repeat(300);
        // The name is that of the repaired file, or of nothing, or none that can be given.
        for (name, repaired, is_back) in
            [("taken", true, true), ("free", false, true), (&*longest, false, false)]
        {
            let mut draft = Draft::begin(&tree, &record, false).unwrap();
            let own = folder.path().join(&draft.name);
            // As after the swap.
            std::fs::write(&own, "other").unwrap();
            if repaired {
                std::fs::write(folder.path().join(name), "repaired").unwrap();
            }
            assert_eq!(draft.swap_back(OsStr::new(name)).is_ok(), is_back, "{name}");
            drop(draft);
            // By a name that the next repair leaves alone.
            let theirs = own.with_file_name(format!("{}-changed", unplaced_name(&record.path)));
            let other = if is_back { folder.path().join(name) } else { theirs };
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "other", "{name}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
            std::fs::remove_file(other).unwrap();
        }
    }
}
