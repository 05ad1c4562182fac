//! The files of the walk: which of them are new or changed, and which are gone.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Jobs;
use crate::scrub::judge::Token;
use crate::scrub::merge::Level;
use crate::scrub::parity_files::{is_of_parity, is_parity};
use crate::scrub::top_directory::is_mounted_over;
use crate::scrub::writer::Message;
use crate::scrub::{FileFault, RootFault, ScrubError};
use crate::store::State;
use verisum_files::replace::is_passing;
use verisum_files::{Entry, Job, Kind};

impl Jobs<'_> {
    /// The next new or changed file of the walk.
    pub(super) fn walked(&mut self) -> Result<Option<Job<Token>>, ScrubError> {
        while let Some(found) = self.walk.next() {
            let job = match found {
                Ok(entry) => self.entry(entry)?,
                Err(error) => {
                    self.walk_failed(error);
                    None
                }
            };
            if job.is_some() || self.options.stop.is_due() {
                return Ok(job);
            }
        }
        while let Some(level) = self.levels.pop() {
            self.leave(level)?;
        }
        Ok(None)
    }

    fn entry(&mut self, entry: Entry) -> Result<Option<Job<Token>>, ScrubError> {
        if self.levels.is_empty() {
            let stat = entry.stat()?;
            let directory = self.scope.directory;
            let devices = (stat.device, self.reader.device(directory)?.unwrap_or(stat.device));
            self.enter(Level::new(&self.reader, directory, entry.path(), devices, self.reads_most)?);
            return Ok(None);
        }
        self.leave_up_to(&entry)?;
        match entry.kind() {
            Kind::Directory => self.directory(&entry).map(|()| None),
            Kind::File => self.file(entry),
            Kind::Link | Kind::Special => Ok(None),
        }
    }

    /// Goes on with a directory.
    fn enter(&mut self, level: Level) {
        self.levels.push(level);
        self.within = None;
    }

    /// Leaves the directories below the one that an entry is in.
    fn leave_up_to(&mut self, entry: &Entry) -> Result<(), ScrubError> {
        // Most entries are in the directory of the one before. To make its path each time would take long.
        if self.within.as_deref().is_some_and(|within| std::ptr::eq(within, entry.directory())) {
            return Ok(());
        }
        let directory = entry.directory().path();
        while self.levels.last().is_some_and(|level| level.path != *directory) {
            if let Some(level) = self.levels.pop() {
                self.leave(level)?;
            }
        }
        if !self.levels.is_empty() {
            self.within = entry.folder().ok();
            return Ok(());
        }
        let path = entry.path();
        Err(ScrubError::Root { path, why: RootFault::OutOfOrder })
    }

    fn directory(&mut self, entry: &Entry) -> Result<(), ScrubError> {
        let stat = match entry.stat() {
            Ok(stat) => stat,
            // It is open already: if it was renamed, what is in it would follow.
            Err(error) => {
                self.walk.pass_over(entry);
                self.walk_failed(error);
                return Ok(());
            }
        };
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let known = level.child(entry.name());
        let (parent, parent_device, recorded_device) = (level.id, level.device, level.recorded_device);
        if !self.others.is_empty() && self.others.contains(&entry.path()) {
            self.outcome.passed_over.insert(entry.path());
            self.walk.pass_over(entry);
            return Ok(());
        }
        let listed = (parent_device, Some(entry.inode()));
        let is_elsewhere = || stat.device != parent_device || is_mounted_over(entry, &stat, listed);
        if self.options.one_file_system && is_elsewhere() {
            self.outcome.mount_points += 1;
            self.outcome.passed_over.insert(entry.path());
            self.walk.pass_over(entry);
            return Ok(());
        }
        let (id, device) = match known {
            Some((id, device)) => {
                // It was another file system, and now is this one: nobody has mounted it.
                if device != stat.device && device != recorded_device && stat.device == parent_device {
                    self.not_mounted(entry.path());
                    // Its own entries are those of the mount point.
                    let devices = (stat.device, recorded_device);
                    let mut level = Level::new(&self.reader, id, entry.path(), devices, false)?;
                    level.is_complete = false;
                    self.enter(level);
                    return Ok(());
                }
                if device == recorded_device && stat.device != parent_device {
                    self.outcome.mounted.push((id, stat.device));
                }
                (id, device)
            }
            None => {
                let id = self.next_directory;
                self.next_directory += 1;
                let name = entry.name().to_os_string();
                // What was recorded beside it has the number that the device had then.
                let device = if stat.device == parent_device { recorded_device } else { stat.device };
                self.send(Message::Directory { id, parent, name, device });
                (id, device)
            }
        };
        let devices = (stat.device, device);
        let mut level = Level::new(&self.reader, id, entry.path(), devices, self.reads_most)?;
        level.is_parity = is_parity(entry);
        if level.is_parity {
            self.outcome.parity.push(entry.directory().path().to_path_buf());
        }
        self.enter(level);
        Ok(())
    }

    /// Removes the record of a file of the parity: an earlier version took it for one of the tree.
    fn forget_parity(&mut self, directory: i64, name: OsString) -> Result<(), ScrubError> {
        if let Some(record) = self.reader.record(directory, &name)? {
            self.send(Message::Forget { directory, name, record });
        }
        Ok(())
    }

    /// Takes note of a place at which another file system was recorded: nothing of that is missing.
    fn not_mounted(&mut self, path: PathBuf) {
        self.outcome.unlisted += 1;
        self.outcome.passed_over.insert(path.clone());
        let error = FileFault::NotMounted;
        self.send(Message::Unlisted { path, error, storage_failed: false, place: None });
    }

    fn file(&mut self, entry: Entry) -> Result<Option<Job<Token>>, ScrubError> {
        // What a repair that was killed left is no file of the tree: the bad file may have such a name.
        if is_passing(entry.name().as_bytes()) {
            return Ok(None);
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        // Parity has digests of its own, which `parity verify` compares.
        if level.is_parity && is_of_parity(entry.name().as_bytes()) {
            let directory = level.id;
            let known = level.file(&self.reader, entry.name())?;
            self.pass_over(&entry);
            return match known {
                Some(_) => self.forget_parity(directory, entry.name().into()).map(|()| None),
                None => Ok(None),
            };
        }
        let (known, record) = level.file(&self.reader, entry.name())?.unzip();
        let (directory, device) = (level.id, level.device);
        self.outcome.known += u64::from(known.is_some());
        if let Some(why) = self.withheld(&entry) {
            self.outcome.unlisted += 1;
            let error = FileFault::Told(why);
            self.send(Message::Unlisted { path: entry.path(), error, storage_failed: false, place: None });
            return Ok(None);
        }
        // Of what is read anyway, opening it tells the same.
        let is_due = known.is_some_and(|known| {
            let was_read = || self.recent.contains(&self.mark(directory, entry.name().as_bytes()));
            self.plan.is_read_by_walk(&known) && (known.state == State::Sound || !was_read())
        });
        let stat = match (!is_due).then(|| entry.stat()).transpose() {
            Ok(stat) => stat,
            // Reading it fails alike, and is judged and recorded.
            Err(error) if error.is_storage_failure() => None,
            Err(error) => {
                self.walk_failed(error);
                return Ok(None);
            }
        };
        if let Some(stat) = &stat
            && (self.own.contains(&(stat.device, stat.inode))
                || known.is_some_and(|known| !self.plan.is_fresh(&known, stat)))
        {
            if let Some(known) = known {
                self.outcome.not_due.add(known.verified);
            }
            self.pass_over(&entry);
            return Ok(None);
        }
        let state = match known {
            Some(known) => Some(known.state),
            None if self.unread.is_empty() => None,
            None => self.unread.get(&(directory, entry.name().as_bytes().to_vec())).copied(),
        };
        let is_known_bad = state.is_some_and(super::tells_of_storage);
        if let Some(why) = self.judge.why_not_read(device, is_known_bad) {
            self.not_tried(why, (directory, entry.name().into()), &entry, (known, state));
            return Ok(None);
        }
        let record = match record.flatten() {
            None if known.is_some() => self.reader.record(directory, entry.name())?,
            record => record,
        };
        let set = self.judge.digests.of(record.as_ref());
        if record.is_some() {
            self.remember(directory, entry.name().as_bytes());
        }
        if record.is_none() && self.is_estimated {
            self.options.progress.expect(stat.map_or(0, |stat| stat.size));
        }
        let token = Token { directory, device, set, record, is_known_bad };
        Ok(Some(Job { entry, set, token }))
    }

    /// Tells of a file that need not be read, if all files were counted.
    fn pass_over(&self, entry: &Entry) {
        if self.is_counted
            && let Ok(stat) = entry.stat()
        {
            self.options.progress.skip(stat.size);
        }
    }

    /// Takes note of what could not be looked at: it is not missing.
    fn walk_failed(&mut self, error: verisum_files::FileError) {
        if let verisum_files::FileError::Io { path, source, .. } = &error {
            let mut place = None;
            if let (Some(name), Some(parent)) = (path.file_name(), path.parent()) {
                for level in &mut self.levels {
                    if level.path == *path {
                        level.is_complete = false;
                    } else if level.path == parent {
                        level.child(name);
                        let _ = level.file(&self.reader, name);
                        place = Some((level.id, name.as_bytes().to_vec()));
                    }
                }
            }
            self.outcome.passed_over.insert(path.clone());
            if source.kind() == std::io::ErrorKind::NotFound {
                return;
            }
            self.outcome.unlisted += 1;
            let storage_failed = error.is_storage_failure();
            let place = place.map(|place| (place, self.plan.now()));
            let path = path.clone();
            self.send(Message::Unlisted { path, error: error.into(), storage_failed, place });
        }
    }

    /// Finds what is missing in a directory that the walk is through with.
    fn leave(&mut self, mut level: Level) -> Result<(), ScrubError> {
        if !level.is_complete {
            return Ok(());
        }
        let (reader, sender, at) = (&self.reader, self.sender.as_ref(), self.plan.now());
        let below = level.path.strip_prefix(&self.scope.path).unwrap_or(Path::new("")).to_path_buf();
        let excludes = self.options.excludes.as_deref();
        let is_out = |path: &Path, is_directory| {
            excludes.is_some_and(|excludes| excludes.leaves_out(path, is_directory))
        };
        let mut missing = 0;
        let mut gone = |folder: &Path, (directory, name): (i64, Vec<u8>), state| {
            let name = OsString::from_vec(name);
            if excludes.is_some() && is_out(&folder.join(&name), false) {
                return;
            }
            missing += 1;
            if let Some(sender) = sender {
                let _ = sender.send(Message::Gone { directory, name, state: Some(state), at });
            }
        };
        let mut unmounted = Vec::new();
        let mut inside = |level: &Level, below: &Path| -> Vec<(i64, PathBuf, u64)> {
            let unseen = level.unseen_children().map(|(name, id, device)| (id, below.join(name), device));
            let (here, elsewhere): (Vec<_>, Vec<_>) = unseen
                .filter(|(_, path, _)| !is_out(path, true))
                .partition(|(_, _, device)| [level.device, level.recorded_device].contains(device));
            // A mount point that is gone is no more than one at which nothing is mounted.
            unmounted.extend(elsewhere.into_iter().map(|(_, path, _)| path));
            here
        };
        let mut of_parity = Vec::new();
        let is_parity = level.is_parity;
        level.unseen_files(reader, &mut |place, state| match is_parity && is_of_parity(&place.1) {
            true => of_parity.push(place),
            false => gone(&below, place, state),
        })?;
        let mut folders = inside(&level, &below);
        while let Some((id, below, device)) = folders.pop() {
            let mut level = Level::new(reader, id, PathBuf::new(), (device, device), false)?;
            level.unseen_files(reader, &mut |place, state| gone(&below, place, state))?;
            folders.extend(inside(&level, &below));
        }
        self.outcome.known += missing;
        for path in unmounted {
            self.not_mounted(self.scope.path.join(path));
        }
        for (directory, name) in of_parity {
            self.forget_parity(directory, OsString::from_vec(name))?;
        }
        Ok(())
    }
}
