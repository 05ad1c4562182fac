//! Hard links: a file with several names is hashed under the first, and its digest is used for the others.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use verisum_digest::Output;

use super::source::NumberedJob;
use crate::{Stat, lock};

/// Device, inode, and which set of digests.
type Key = (u64, u64, usize);

/// The most files whose digests wait for other names. Where more do, those are forgotten, and files of
/// theirs read again.
const MOST: usize = 1 << 18;

/// What is known of files that have more than one name. It holds some hundred bytes for each of them,
/// until as many names have come as the file has.
pub(super) struct Links<T> {
    known: Mutex<HashMap<Key, Link<T>>>,
    /// How many there are, for those who ask about each file.
    count: AtomicUsize,
}

enum Link<T> {
    /// Somebody reads it; these wait for what comes of it.
    Reading(Vec<NumberedJob<T>>),
    Known {
        stat: Stat,
        outputs: Vec<Output>,
        length: u64,
        names_left: u64,
    },
}

/// What to do with a name.
pub(super) enum NameTurn<T> {
    /// Read it.
    Read(NumberedJob<T>),
    /// Its digests are known.
    Known(NumberedJob<T>, Vec<Output>, u64),
    /// It comes back when it is known.
    Waits,
}

/// What was read of a file under its first name.
pub(super) struct FirstRead<'a> {
    pub(super) after: &'a Stat,
    pub(super) outputs: &'a [Output],
    pub(super) length: u64,
}

impl<T> Links<T> {
    pub(super) fn new() -> Self {
        Links { known: Mutex::default(), count: AtomicUsize::new(0) }
    }

    /// Whether no file of several names is known or being read.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// What to do with a name of a file in this state.
    pub(super) fn turn(&self, job: NumberedJob<T>, stat: &Stat) -> NameTurn<T> {
        let key = (stat.device, stat.inode, job.job.set);
        let mut links = lock(&self.known);
        match links.get_mut(&key) {
            Some(Link::Reading(waiting)) => {
                waiting.push(job);
                NameTurn::Waits
            }
            Some(Link::Known { stat: known, outputs, length, names_left }) if known.is_same_state(stat) => {
                *names_left = names_left.saturating_sub(1);
                let turn = NameTurn::Known(job, outputs.clone(), *length);
                if *names_left == 0 {
                    links.remove(&key);
                    self.count.store(links.len(), Ordering::Relaxed);
                }
                turn
            }
            _ => {
                links.insert(key, Link::Reading(Vec::new()));
                self.count.store(links.len(), Ordering::Relaxed);
                NameTurn::Read(job)
            }
        }
    }

    /// Keeps what was read under the first name, and returns those that waited for it.
    pub(super) fn read(&self, set: usize, before: &Stat, found: Option<FirstRead>) -> Vec<NumberedJob<T>> {
        let key = (before.device, before.inode, set);
        let mut links = lock(&self.known);
        let waiting = match links.remove(&key) {
            Some(Link::Reading(waiting)) => waiting,
            _ => Vec::new(),
        };
        if let Some(FirstRead { after, outputs, length }) = found
            && after.links > 1
        {
            let names_left = after.links - 1;
            if links.len() >= MOST {
                links.retain(|_, link| matches!(link, Link::Reading(_)));
            }
            links.insert(key, Link::Known { stat: *after, outputs: outputs.to_vec(), length, names_left });
        }
        self.count.store(links.len(), Ordering::Relaxed);
        waiting
    }
}
