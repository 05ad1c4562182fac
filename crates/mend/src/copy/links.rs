//! Files with several names: copies them once, and links the other names as in FROM.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use verisum_digest::{Digest, Output};
use verisum_files::{Stat, lock};

use super::worker::Job;

/// Device and inode of a file in FROM.
pub(super) type Identity = (u64, u64);

/// The files of several names that were met so far.
#[derive(Default)]
pub(super) struct Links<'a>(Mutex<HashMap<Identity, Met<'a>>>);

struct Met<'a> {
    /// How many of its names were not met yet.
    left: u64,
    state: State<'a>,
}

enum State<'a> {
    /// The first name is being copied; these wait for it.
    Pending(Vec<Job<'a>>),
    /// It is at TO.
    Placed(Arc<Placed>),
}

/// The first name of a file at TO.
pub(super) struct Placed {
    /// The directory below TO.
    pub(super) directory: PathBuf,
    pub(super) name: OsString,
    /// What was said of the original, and its mode; none of one that is known to be bad.
    pub(super) stat: Option<(Stat, u32)>,
    /// The digests of what was copied; none if it was there already.
    pub(super) digests: Vec<(Digest, Output)>,
}

/// What to do with a name.
pub(super) enum Turn<'a> {
    /// Copy it; the others wait.
    Copy(Job<'a>),
    /// Others will say.
    Waits,
    /// Link it to this name.
    Link(Job<'a>, Arc<Placed>),
}

impl<'a> Links<'a> {
    /// Whose turn it is to be copied.
    pub(super) fn turn(&self, identity: Identity, links: u64, job: Job<'a>) -> Turn<'a> {
        let mut table = lock(&self.0);
        let Some(met) = table.get_mut(&identity) else {
            table.insert(identity, Met { left: links.saturating_sub(1), state: State::Pending(Vec::new()) });
            return Turn::Copy(job);
        };
        met.left = met.left.saturating_sub(1);
        match &mut met.state {
            State::Pending(waiting) => {
                waiting.push(job);
                Turn::Waits
            }
            State::Placed(first) => {
                let first = first.clone();
                if met.left == 0 {
                    table.remove(&identity);
                }
                Turn::Link(job, first)
            }
        }
    }

    /// The first name is at TO. Returns the others that waited for it.
    pub(super) fn placed(&self, identity: Identity, first: Arc<Placed>) -> Vec<Job<'a>> {
        let mut table = lock(&self.0);
        let Some(met) = table.get_mut(&identity) else { return Vec::new() };
        let placed = std::mem::replace(&mut met.state, State::Placed(first));
        if met.left == 0 {
            table.remove(&identity);
        }
        match placed {
            State::Pending(waiting) => waiting,
            State::Placed(..) => Vec::new(),
        }
    }

    /// The first name could not be copied. Returns the others, of which one is the first now.
    pub(super) fn failed(&self, identity: Identity) -> Vec<Job<'a>> {
        match lock(&self.0).remove(&identity).map(|met| met.state) {
            Some(State::Pending(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
