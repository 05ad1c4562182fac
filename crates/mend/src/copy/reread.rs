//! Reads copies back past the page cache, because the bytes in memory may differ from those on the disk.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::batch::{Pending, event};
use super::digests::{Set, Sums};
use super::pump::{ALIGNMENT, Buffer, Pump, Stopped};
use super::small::SMALL;
use super::worker::Worker;
use super::{CopyError, CopyOutcome};

/// The bytes that are read before they are hashed.
const ARENA: usize = 1 << 20;

impl<'a> Worker<'a, '_> {
    /// Reads copies from the disk, and returns those whose bytes are the written ones.
    pub(super) fn read_back(&mut self, pending: Vec<Pending<'a>>) -> Vec<Pending<'a>> {
        let mut good = Vec::with_capacity(pending.len());
        let mut buffer = Buffer::new(ARENA);
        let mut group: Vec<(Pending<'a>, Range<usize>)> = Vec::new();
        let mut used = 0;
        for one in &pending {
            // All are asked for before the first is waited for.
            let _ = fadvise(&one.temporary.file, 0, None, Advice::DontNeed);
        }
        for one in pending {
            if self.shared.is_asked() {
                self.give_up(one.identity);
                continue;
            }
            if one.stat.size > SMALL {
                good.extend(self.read_back_large(one));
                continue;
            }
            let room = (one.stat.size as usize + 1).next_multiple_of(ALIGNMENT);
            if used + room > ARENA {
                self.compare(&buffer, std::mem::take(&mut group), &mut good);
                used = 0;
            }
            match read_past_cache(&one.temporary.file, &mut buffer.bytes_mut()[used..used + room]) {
                Ok(length) => {
                    group.push((one, used..used + length));
                    used += room;
                }
                Err(errno) => self.not_kept(&one, "read back", errno),
            }
        }
        self.compare(&buffer, group, &mut good);
        good
    }

    fn compare(
        &mut self,
        buffer: &Buffer,
        group: Vec<(Pending<'a>, Range<usize>)>,
        good: &mut Vec<Pending<'a>>,
    ) {
        if group.is_empty() {
            return;
        }
        let messages: Vec<(Arc<Set>, Range<usize>)> =
            group.iter().map(|(one, range)| (one.sums.set.clone(), range.clone())).collect();
        match self.batches.hash(buffer.bytes(), &messages) {
            Ok(sums) => {
                for ((one, _), sums) in group.into_iter().zip(sums) {
                    good.extend(self.same(one, &sums));
                }
            }
            Err(source) => {
                for (one, _) in group {
                    let error = CopyError::Digest { path: one.target.path(), source: source.clone() };
                    self.lost(&one.path, &one.target, one.identity, error);
                }
            }
        }
    }

    fn read_back_large(&mut self, one: Pending<'a>) -> Option<Pending<'a>> {
        let is_direct = set_direct(&one.temporary.file, true).is_ok();
        if !is_direct {
            let _ = set_direct(&one.temporary.file, false);
        }
        let pump = || Pump {
            from: &one.temporary.file,
            size: one.stat.size,
            is_sparse: one.stat.stored < one.stat.size,
            to: None,
            counted: None,
        };
        let mut read = pump().run(self.shared, &one.sums.set.digests);
        if is_direct && matches!(read, Err(Stopped::Read(Errno::INVAL | Errno::OPNOTSUPP, _))) {
            let _ = set_direct(&one.temporary.file, false);
            read = pump().run(self.shared, &one.sums.set.digests);
        }
        match read {
            Ok((outputs, _)) => {
                let sums = Sums { set: one.sums.set.clone(), outputs };
                self.same(one, &sums)
            }
            Err(stopped) => {
                match stopped {
                    Stopped::Asked => self.give_up(one.identity),
                    Stopped::Read(errno, _) | Stopped::Write(errno) => {
                        self.not_kept(&one, "read back", errno);
                    }
                    Stopped::Digest(source) => {
                        let error = CopyError::Digest { path: one.target.path(), source };
                        self.lost(&one.path, &one.target, one.identity, error);
                    }
                }
                None
            }
        }
    }

    /// Lets a copy pass whose digests are those of what was written.
    fn same(&mut self, one: Pending<'a>, found: &Sums) -> Option<Pending<'a>> {
        let pairs = one.sums.outputs.iter().zip(&found.outputs).zip(&one.sums.set.digests);
        let mut other = pairs.filter(|((written, found), _)| written != found);
        let Some(((written, found), digest)) = other.next() else { return Some(one) };
        let (algorithm, written, found) = (digest.name().to_string(), *written, *found);
        let outcome = CopyOutcome::Differs { algorithm, written, found };
        let name = one.target.below();
        self.shared.tell(&event((&one.path, &name), (&one.stat, one.mode), outcome, &[]));
        self.give_up(one.identity);
        None
    }
}

/// Reads from the disk from now on, or not; and without moving the time of the last access, which a copy has from its
/// original, where the system lets us.
fn set_direct(file: &File, direct: bool) -> Result<(), Errno> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    fcntl_setfl(file, flags | OFlags::NOATIME).or_else(|_| fcntl_setfl(file, flags))
}

/// Reads all of a file that fits the room, from the disk where the file system can.
fn read_past_cache(file: &File, room: &mut [u8]) -> Result<usize, Errno> {
    let read = |room: &mut [u8]| -> Result<usize, Errno> {
        let mut length = 0;
        while length < room.len() {
            let space = &mut room[length..];
            let asked = space.len();
            let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *space, length as u64))?;
            length += count;
            // A short read is the end; the next direct one would not be aligned.
            if count < asked {
                break;
            }
        }
        Ok(length)
    };
    if set_direct(file, true).is_ok() {
        match read(room) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            done => return done,
        }
    }
    set_direct(file, false)?;
    read(room)
}
