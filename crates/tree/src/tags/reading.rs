//! Reading files in a state that can be recorded.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Outcome;
use super::session::{Session, lock};
use crate::{Content, Entry, Error, Hashed, Job, Plan, Timestamp, Verdict, hash};

/// The longest time between two ticks of the clock by which file systems set times. A file that is
/// written to twice within one has the same time afterwards.
const TICK: Duration = Duration::from_millis(10);

/// A file to read.
pub(super) struct Wanted<T> {
    pub(super) entry: Entry,
    /// Which of the plan's sets of digests to compute.
    pub(super) set: usize,
    /// The time of modification that it has.
    pub(super) modified: Timestamp,
    pub(super) token: T,
}

/// A file to read for the second time, because it was written to after its time was looked at.
struct Again<T> {
    set: usize,
    modified: Timestamp,
    token: T,
}

/// Hashes files, and gives each that could be read in one state to `done`. The others are reported: what
/// fails, and what changes again and again.
///
/// A file whose time is that of this very moment is waited for: what was written to it after it was read
/// could otherwise have the time that its record has.
pub(super) fn read<T: Send>(
    session: &Session,
    plan: &Plan,
    wanted: &mut (dyn Iterator<Item = Wanted<T>> + Send),
    done: &(dyn Fn(Entry, T, Content) + Sync),
) {
    let again = Mutex::new(Vec::new());
    let take = |hashed: Hashed<Again<T>>, is_last: bool| {
        let Hashed { entry, token: Again { set, modified, token }, result } = hashed;
        match result {
            Err(Error::Stopped { .. }) => {}
            Err(error) => session.unreadable(&entry, &error),
            Ok(content) if !content.before.is_same_state(&content.after) => busy(session, &entry),
            Ok(content) if content.before.modified == modified => {
                session.add_bytes(content.length);
                done(entry, token, content);
            }
            Ok(_) if is_last => busy(session, &entry),
            Ok(content) => {
                lock(&again).push(Wanted { entry, set, modified: content.after.modified, token });
            }
        }
        ControlFlow::Continue(())
    };
    let plan = &Plan { settles: true, ..plan.clone() };
    hash(plan, &mut wanted.map(job), &|hashed| take(hashed, false));
    let second = std::mem::take(&mut *lock(&again));
    hash(plan, &mut second.into_iter().map(job), &|hashed| take(hashed, true));
}

fn job<T>(wanted: Wanted<T>) -> Job<Again<T>> {
    let Wanted { entry, set, modified, token } = wanted;
    settle(modified);
    Job { entry, set, token: Again { set, modified, token } }
}

fn busy(session: &Session, entry: &Entry) {
    session.plain(entry, Outcome::Judged(Verdict::Busy));
}

/// Waits until whoever writes to a file from now on gives it another time than it has: one tick at most.
fn settle(modified: Timestamp) {
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
    let Ok(seconds) = u64::try_from(modified.seconds) else { return };
    let modified = Duration::new(seconds, modified.nanoseconds);
    // A time in the future was set by somebody, and says nothing of the clock.
    if modified <= now && now < modified + TICK {
        std::thread::sleep(modified + TICK - now);
    }
}
