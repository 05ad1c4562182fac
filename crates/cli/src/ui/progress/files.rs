//! The progress of many files: how many there are may be counted while the work runs.

use std::collections::HashSet;
use std::io::{Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use verisum::files::{Kind, Stat, Walk};

use super::line::line;
use super::{ShowProgress, draw, make_room, watched, width};
use crate::ui::values::counted;
use crate::ui::{names, signals};

/// What is read in a moment: so many files, with so many bytes in all.
const BRIEF_FILES: u64 = 16;
const BRIEF_BYTES: u64 = 1 << 20;

/// How much there is to do in all.
pub(crate) enum Total {
    Unknown,
    /// So much.
    Known {
        files: u64,
        bytes: u64,
    },
    /// The files that this finds, and what the work tells of. It goes beside the work, and only if progress is drawn.
    Counted(Box<dyn Iterator<Item = Stat> + Send>),
}

impl Total {
    pub(crate) fn walked(walk: Walk) -> Total {
        let files = walk.flatten().filter(|entry| entry.kind() == Kind::File);
        Total::Counted(Box::new(files.filter_map(|entry| entry.stat().ok())))
    }

    /// Whether it is read before a thread has begun that would watch it.
    pub(crate) fn is_brief(&self) -> bool {
        matches!(self, Total::Known { files: ..=BRIEF_FILES, bytes: ..=BRIEF_BYTES })
    }
}

/// What was found so far.
#[derive(Default)]
struct TotalCounter {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Whether somebody counts.
    is_counted: bool,
    /// Whether that is all.
    is_complete: AtomicBool,
    /// Whether nobody asks any more.
    is_given_up: AtomicBool,
}

impl TotalCounter {
    fn known(files: u64, bytes: u64) -> TotalCounter {
        TotalCounter {
            files: files.into(),
            bytes: bytes.into(),
            is_complete: true.into(),
            ..TotalCounter::default()
        }
    }

    /// Adds up files, each once.
    fn count(&self, files: impl Iterator<Item = Stat>) {
        let mut linked = HashSet::new();
        for stat in files {
            if self.is_given_up.load(Ordering::Relaxed) {
                return;
            }
            if stat.links < 2 || linked.insert((stat.device, stat.inode)) {
                self.files.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(stat.size, Ordering::Relaxed);
            }
        }
        self.is_complete.store(true, Ordering::Release);
    }

    /// What is known of it.
    fn so_far(&self) -> TotalSoFar {
        match (self.is_complete.load(Ordering::Acquire), self.is_counted) {
            (true, _) => TotalSoFar::Known {
                files: self.files.load(Ordering::Relaxed),
                bytes: self.bytes.load(Ordering::Relaxed),
            },
            (false, true) => TotalSoFar::Counting,
            (false, false) => TotalSoFar::Unknown,
        }
    }
}

/// How much of the whole is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TotalSoFar {
    /// What the work tells of.
    Unknown,
    /// It is being counted.
    Counting,
    /// So much, and what the work tells of.
    Known { files: u64, bytes: u64 },
}

/// Does `work`, draws the progress of many files if that is `wanted` and standard error is a terminal, and
/// says how far it is whenever SIGUSR1 comes.
pub(crate) fn of_files<T>(
    wanted: ShowProgress,
    total: Total,
    progress: &verisum::files::Progress,
    work: impl FnOnce() -> T,
) -> T {
    let delay = wanted.after();
    let asked = Arc::new(AtomicBool::new(false));
    signals::note_question(&asked);
    let (counter, found) = match total {
        Total::Known { files, bytes } => (TotalCounter::known(files, bytes), None),
        Total::Counted(files) if delay.is_some() => {
            (TotalCounter { is_counted: true, ..TotalCounter::default() }, Some(files))
        }
        Total::Counted(_) | Total::Unknown => (TotalCounter::default(), None),
    };
    let counter = &counter;
    if delay.is_some() {
        progress.name_files();
    }
    let furthest = Furthest::default();
    let tick = |time: Duration| {
        let line = |width: usize| line_of_files(progress, &furthest, counter.so_far(), time, width);
        if asked.swap(false, Ordering::Relaxed) {
            let _room = make_room();
            let _ = stderr().write_all(format!("verisum: {}\n", line(usize::MAX)).as_bytes());
        }
        if delay.is_some_and(|delay| time >= delay) {
            draw(&line(width()));
        }
    };
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        if let (Some(files), Some(delay)) = (found, delay) {
            // What is over before anything is drawn is not looked at twice.
            let count = move || {
                if wait.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                    counter.count(files);
                }
            };
            let _ = thread::Builder::new().spawn_scoped(scope, count);
        }
        let result = watched(&tick, work);
        counter.is_given_up.store(true, Ordering::Relaxed);
        drop(done);
        drop(make_room());
        result
    })
}

/// The greatest part of the work that was ever shown, in millionths. How much there is to do may grow, and what was
/// said to be done is not taken back.
#[derive(Default)]
struct Furthest(AtomicU64);

impl Furthest {
    /// How much there is to do, so that no less of it is done than was shown before.
    fn whole(&self, done: u64, whole: u64) -> u64 {
        const ALL: u64 = 1_000_000;
        let part = (u128::from(done) * u128::from(ALL) / u128::from(whole.max(1))).min(ALL.into()) as u64;
        let most = self.0.fetch_max(part, Ordering::Relaxed).max(part);
        match most > part {
            true => (u128::from(done) * u128::from(ALL) / u128::from(most)) as u64,
            false => whole,
        }
    }
}

/// Files, bytes, rate and, as far as the whole is known, the time that is left. What need not be read is
/// done as soon as that is seen.
fn line_of_files(
    progress: &verisum::files::Progress,
    furthest: &Furthest,
    whole: TotalSoFar,
    time: Duration,
    width: usize,
) -> String {
    let (skipped_files, skipped_bytes) = progress.skipped();
    let done = progress.files() + skipped_files;
    // A hole is neither read nor to be read.
    let (holes, told) = (progress.holes(), progress.expected());
    let read = progress.bytes().saturating_sub(holes);
    let (files, all) = match whole {
        // Files may come while it is at work.
        TotalSoFar::Known { files, bytes } if told.is_none() => {
            (format!("{done} of {}  ", counted(files.max(done), "file")), Some(bytes))
        }
        TotalSoFar::Known { bytes, .. } => {
            (format!("{}  ", counted(done, "file")), told.map(|told| told + bytes))
        }
        TotalSoFar::Counting => (format!("{}  ", counted(done, "file")), None),
        TotalSoFar::Unknown => (format!("{}  ", counted(done, "file")), told),
    };
    let all = match whole {
        TotalSoFar::Known { .. } => all.map(|all| all.saturating_sub(skipped_bytes)),
        _ => all,
    };
    let all = all.map(|all| furthest.whole(read, all.saturating_sub(holes).max(read)));
    let rest = width.saturating_sub(files.len());
    let name = progress.current();
    let name = name.file_name().map(names::quoted).unwrap_or_default();
    files + &line(read, all, time, rest, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_line_of_files_has_the_whole_once_it_is_known() {
        let progress = verisum::files::Progress::default();
        assert_eq!(
            line_of_files(&progress, &Furthest::default(), TotalSoFar::Unknown, SECOND, 80),
            "0 files  0 bytes  0 bytes/s  0:01"
        );
        let whole = TotalSoFar::Known { files: 3, bytes: 1 << 30 };
        let known = line_of_files(&progress, &Furthest::default(), whole, SECOND, 80);
        assert!(known.starts_with("0 of 3 files    0% ["), "{known}");
        assert!(known.ends_with("0 bytes of 1 GiB  0 bytes/s  -:-- left"), "{known}");
        // What was read need not be all: the rest may be counted yet.
        progress.add(1, 1 << 20);
        let running = line_of_files(&progress, &Furthest::default(), TotalSoFar::Counting, SECOND, 80);
        assert_eq!(running, "1 file  1 MiB  1 MiB/s  0:01");
    }

    #[test]
    fn what_was_done_is_not_taken_back() {
        let furthest = Furthest::default();
        let percent = |done: u64, whole: u64| {
            let line = line(done, Some(furthest.whole(done, whole)), SECOND, 80, "");
            line.trim_start().split('%').next().unwrap().parse::<u64>().unwrap()
        };
        let mut last = 0;
        for (done, whole) in
            [(0, 0), (50, 100), (60, 1000), (61, 1000), (700, 1000), (990, 5000), (5000, 5000)]
        {
            let now = percent(done, whole);
            assert!(now >= last && now <= 100, "{done} of {whole}: {now} after {last}");
            last = now;
        }
        assert_eq!(last, 100);
    }

    #[test]
    fn a_walk_is_added_up_with_each_file_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "abc").unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("c"), "abcd").unwrap();
        let counter = TotalCounter::default();
        let walk = Walk::new(vec![folder.path().into()], verisum::files::WalkOptions::default());
        let Total::Counted(files) = Total::walked(walk) else { panic!("a walk is counted") };
        counter.count(files);
        assert_eq!(counter.so_far(), TotalSoFar::Known { files: 2, bytes: 7 });
    }

    #[test]
    fn what_is_left_is_told_where_there_is_room_for_nothing_else() {
        let progress = verisum::files::Progress::default();
        progress.add(123_456, 512 << 20);
        for width in 46..200 {
            let whole = TotalSoFar::Known { files: 1_000_000, bytes: 1 << 30 };
            let shown = line_of_files(&progress, &Furthest::default(), whole, SECOND, width);
            assert!(shown.ends_with(" left") && shown.len() < width, "{width}: {shown}");
        }
        let shown = |width| line(512 << 20, Some(1 << 30), SECOND, width, "disk.img");
        assert_eq!(shown(40), " 50%  512 MiB of 1 GiB  0:01 left");
        assert_eq!(shown(30), " 50%  0:01 left  disk.img");
        assert_eq!(shown(20), " 50%  0:01 left");
    }
}
