//! Small files: reads some tens of them whole, hashes them side by side, and writes them.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use verisum_files::Stat;

use super::CopyError;
use super::digests::{Set, Sums};
use super::record;
use super::worker::{OpenedSource, Worker};

/// The longest file that is read whole.
pub(super) const SMALL: u64 = 64 << 10;

/// The bytes that are read before they are hashed: they stay in the processor's cache.
const ARENA: usize = 512 << 10;

/// Files that were read and not hashed yet.
pub(super) struct Group<'a> {
    arena: Vec<u8>,
    used: usize,
    files: Vec<(OpenedSource<'a>, Range<usize>)>,
}

impl<'a> Group<'a> {
    pub(super) fn new() -> Group<'a> {
        Group { arena: Vec::new(), used: 0, files: Vec::new() }
    }

    /// Whether a file is small, and has no holes that are worth keeping.
    pub(super) fn takes(opened: &OpenedSource) -> bool {
        let stat = &opened.stat;
        stat.size <= SMALL && (stat.stored >= stat.size || stat.size <= 4096)
    }
}

impl<'a> Worker<'a, '_> {
    pub(super) fn read_small(&mut self, opened: OpenedSource<'a>) {
        // A byte more than there should be shows that there is no more.
        let room = opened.stat.size as usize + 1;
        if self.group.used + room > ARENA {
            self.end_group();
        }
        if self.group.arena.is_empty() {
            self.group.arena = vec![0; ARENA];
        }
        self.shared.options.progress.now_at(|| opened.job.entry.path());
        if let Some(limits) = &self.shared.options.limits {
            limits.wait(opened.stat.size, 1, &self.shared.options.stop);
        }
        let start = self.group.used;
        let space = &mut self.group.arena[start..start + room];
        let mut length = 0;
        while length < space.len() {
            match rustix::io::retry_on_intr(|| {
                rustix::io::pread(&opened.file, &mut space[length..], length as u64)
            }) {
                Ok(0) => break,
                Ok(count) => length += count,
                // It says so again, or not.
                Err(_) => return self.stream(opened, false),
            }
            if length as u64 == opened.stat.size {
                break;
            }
        }
        let is_same = Stat::of(&opened.file).is_ok_and(|after| after.is_same_state(&opened.stat));
        if !is_same || length as u64 != opened.stat.size {
            return self.stream(opened, false);
        }
        self.shared.options.progress.add(0, length as u64);
        // Not at the same place of a page each: the lanes would compete for a few cache sets.
        self.group.used = (start + length + 64).next_multiple_of(64);
        self.group.files.push((opened, start..start + length));
    }

    /// Hashes and writes what was read.
    pub(super) fn end_group(&mut self) {
        let files = std::mem::take(&mut self.group.files);
        self.group.used = 0;
        if files.is_empty() {
            return;
        }
        let messages: Vec<(Arc<Set>, Range<usize>)> =
            files.iter().map(|(opened, range)| (opened.set.clone(), range.clone())).collect();
        let arena = std::mem::take(&mut self.group.arena);
        match self.batches.hash(&arena, &messages) {
            Ok(sums) => {
                for ((opened, range), sums) in files.into_iter().zip(sums) {
                    self.write_small(opened, &arena[range], sums);
                }
            }
            Err(source) => {
                for (opened, _) in files {
                    let error = CopyError::Digest { path: opened.job.entry.path(), source: source.clone() };
                    self.failed(&opened.job, opened.identity, error);
                }
            }
        }
        self.group.arena = arena;
    }

    fn write_small(&mut self, opened: OpenedSource<'a>, bytes: &[u8], sums: Sums) {
        if record::mismatch(&opened.expected, &sums).is_some() {
            // What is in memory may be what is wrong.
            return self.stream(opened, true);
        }
        let temporary = match self.temporary(&opened) {
            Ok(temporary) => temporary,
            Err(error) => return self.failed(&opened.job, opened.identity, error),
        };
        if let Err(source) = temporary.file.write_all_at(bytes, 0) {
            let error = CopyError::target(&opened.job.target.path(), "write", source);
            return self.failed(&opened.job, opened.identity, error);
        }
        self.judge(opened, temporary, sums, None);
    }
}
