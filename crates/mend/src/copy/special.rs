//! Entries without content of their own: symbolic links, pipes, devices, sockets, further names of a file.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, linkat, mknodat, openat, readlinkat, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use verisum_files::Operation;

use super::batch::event;
use super::links::Placed;
use super::temporary::Passing;
use super::worker::{Job, Worker};
use super::{CopyError, CopyOutcome, Verification};
use crate::metadata::{MODE_BITS, Metadata};

impl<'a> Worker<'a, '_> {
    /// Makes a symbolic link with the text of the original. Where it leads is nobody's business.
    pub(super) fn link(&mut self, job: &Job<'a>) {
        let outcome = self.made_link(job);
        self.told(job, outcome);
    }

    fn made_link(&self, job: &Job<'a>) -> Result<CopyOutcome, CopyError> {
        let (entry, target) = (&job.entry, &job.target);
        let stat = original(job)?;
        let text = readlinkat(entry.directory(), entry.name(), Vec::new());
        let text = text.map_err(|errno| entry.failed(Operation::Read, errno))?;
        let directory = &*target.directory;
        let existing = if directory.was_there { target.stat()? } else { None };
        let mut outcome = CopyOutcome::Made;
        match &existing {
            None => symlinkat(&*text, directory, &target.name).map_err(target.failed("create"))?,
            Some(existing) => {
                target.require_replaceable(existing)?;
                let is_link = FileType::from_raw_mode(existing.st_mode) == FileType::Symlink;
                let own = readlinkat(directory, &target.name, Vec::new());
                if is_link && own.is_ok_and(|own| own == text) {
                    outcome = CopyOutcome::Current;
                } else {
                    self.replace(job, "create", |name| symlinkat(&*text, directory, name))?;
                }
            }
        }
        self.dress(job, &stat, existing.as_ref())?;
        Ok(outcome)
    }

    /// Makes a pipe, socket or device.
    pub(super) fn node(&mut self, job: &Job<'a>) {
        let outcome = self.made_node(job);
        self.told(job, outcome);
    }

    fn made_node(&self, job: &Job<'a>) -> Result<CopyOutcome, CopyError> {
        let target = &job.target;
        let stat = original(job)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let directory = &*target.directory;
        let existing = if directory.was_there { target.stat()? } else { None };
        if let Some(existing) = &existing {
            if FileType::from_raw_mode(existing.st_mode) != kind || existing.st_rdev != stat.st_rdev {
                let what = directory.what_is(&target.name);
                return Err(CopyError::InTheWay { path: target.path(), what });
            }
            self.dress(job, &stat, Some(existing))?;
            return Ok(CopyOutcome::Current);
        }
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        let made = mknodat(directory, &target.name, kind, mode, stat.st_rdev);
        let is_empty_file = |there: rustix::fs::Stat| {
            FileType::from_raw_mode(there.st_mode) == FileType::RegularFile && there.st_size == 0
        };
        if made != Err(Errno::EXIST) && target.stat()?.is_some_and(is_empty_file) {
            // exFAT in user space makes that instead, and fails.
            let _ = unlinkat(directory, &target.name, AtFlags::empty());
            let why = std::io::Error::other("its file system has no pipes, sockets and devices");
            return Err(CopyError::target(&target.path(), "create", why));
        }
        made.map_err(target.failed("create"))?;
        self.dress(job, &stat, None)?;
        Ok(CopyOutcome::Made)
    }

    /// Gives a file that is at TO one more name; where the file system has no further names, or no more of
    /// them, a copy of its own.
    pub(super) fn link_to(&mut self, mut job: Job<'a>, first: &Placed) {
        match self.linked(&job, &first.directory, &first.name) {
            Err(CopyError::Target { source, .. })
                if matches!(
                    Errno::from_io_error(&source),
                    Some(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP | Errno::XDEV | Errno::NOENT)
                ) =>
            {
                job.is_alone = true;
                self.again.push_back(job);
            }
            outcome => match (outcome, first.stat) {
                (Ok(outcome), Some((stat, mode))) => {
                    let paths = (&*job.entry.path(), &*job.target.below());
                    self.shared.tell(&event(paths, (&stat, mode), outcome, &first.digests));
                }
                (outcome, _) => self.told(&job, outcome),
            },
        }
    }

    fn linked(&self, job: &Job<'a>, way: &Path, name: &OsStr) -> Result<CopyOutcome, CopyError> {
        let target = &job.target;
        let directory = &*target.directory;
        let first = self.common.top.beneath(way, None)?;
        let failed = || target.failed("link");
        if !directory.was_there {
            return match linkat(&*first, name, directory, &target.name, AtFlags::empty()) {
                Ok(()) => Ok(CopyOutcome::Linked),
                Err(errno) => Err(failed()(errno)),
            };
        }
        if let Some(existing) = target.stat()? {
            target.require_replaceable(&existing)?;
            let one = statat(&*first, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed())?;
            if (one.st_dev, one.st_ino) == (existing.st_dev, existing.st_ino) {
                return Ok(CopyOutcome::Current);
            }
        }
        self.replace(job, "link", |passing| linkat(&*first, name, directory, passing, AtFlags::empty()))?;
        Ok(CopyOutcome::Linked)
    }

    /// Makes something that takes the place of what has its name, when it is on the disk.
    fn replace(
        &self,
        job: &Job<'a>,
        operation: &'static str,
        make: impl FnMut(&OsString) -> Result<(), Errno>,
    ) -> Result<(), CopyError> {
        let target = &job.target;
        let passing =
            Passing::make(self.shared, &target.directory, make).map_err(target.failed(operation))?;
        if self.shared.options.verification != Verification::None {
            passing.sync().map_err(target.failed("sync"))?;
        }
        passing.place(target).map_err(target.failed("rename"))
    }

    /// Gives something without content its owner, mode and times.
    fn dress(
        &self,
        job: &Job<'a>,
        stat: &rustix::fs::Stat,
        existing: Option<&rustix::fs::Stat>,
    ) -> Result<(), CopyError> {
        let target = &job.target;
        let directory = &*target.directory;
        let metadata = Metadata::new(stat);
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let is_owned = existing.is_none() && own == (metadata.user, metadata.group);
        if !is_owned {
            let (user, group) = (Uid::from_raw(metadata.user), Gid::from_raw(metadata.group));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let given = chownat(directory, &target.name, Some(user), Some(group), flags);
            self.shared.summary().reduced += u64::from(given.is_err() && self.shared.is_root);
        }
        if !is_link {
            // What the name leads to by now is looked at again: a mode is set through links.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let node =
                openat(directory, &target.name, flags, Mode::empty()).map_err(target.failed("open"))?;
            let way = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&node));
            let mode = Mode::from_raw_mode(stat.st_mode & MODE_BITS);
            let set = chmodat(rustix::fs::CWD, way, mode, AtFlags::empty());
            self.shared.summary().reduced += u64::from(set.is_err());
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        utimensat(directory, &target.name, &metadata.times, flags).map_err(target.failed("set times"))
    }

    fn told(&self, job: &Job<'a>, outcome: Result<CopyOutcome, CopyError>) {
        let outcome = outcome.unwrap_or_else(CopyOutcome::Failed);
        self.shared.tell_plain(&job.entry.path(), &job.target.below(), outcome);
    }
}

fn original(job: &Job) -> Result<rustix::fs::Stat, CopyError> {
    let (entry, flags) = (&job.entry, AtFlags::SYMLINK_NOFOLLOW);
    let stat = statat(entry.directory(), entry.name(), flags);
    Ok(stat.map_err(|errno| entry.failed(Operation::Stat, errno))?)
}
