//! Hashes a file, and makes sure that nobody wrote to it meanwhile.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::files::next_entry;
use super::session::Session;
use super::{Entries, TagOutcome};
use crate::{
    Content, Entry, FileError, Hashed, Job, Plan, Record, Timestamp, Verdict, hash, hash_prepared, lock,
};

/// The longest time between two ticks of the clock by which file systems set times. A file that is
/// written to twice within one has the same time afterwards.
const TICK: Duration = Duration::from_millis(10);

/// What is kept of a file while it is read.
pub(super) trait ReadToken: Send {
    /// What was recorded of it, for those who hear that it cannot be read.
    fn record(&self) -> Option<&Record> {
        None
    }
}

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

/// What the engine gets; without a token, what was not yet looked at.
type Unread<T> = Job<Option<Again<T>>>;

/// Hashes files, and gives each that could be read in one state to `done`. The others are reported: what
/// fails, and what changes again and again.
///
/// A file whose time is that of this very moment is waited for: what was written to it after it was read
/// could otherwise have the time that its record has.
pub(super) fn read<T: ReadToken>(
    session: &Session,
    plan: &Plan,
    wanted: &mut (dyn Iterator<Item = Wanted<T>> + Send),
    done: &(dyn Fn(Entry, T, Content) + Sync),
) {
    read_while(&|| true, session, plan, wanted, done);
}

/// As [`read`], but begins no file as soon as it does not go on.
pub(super) fn read_while<T: ReadToken>(
    goes_on: &(dyn Fn() -> bool + Sync),
    session: &Session,
    plan: &Plan,
    wanted: &mut (dyn Iterator<Item = Wanted<T>> + Send),
    done: &(dyn Fn(Entry, T, Content) + Sync),
) {
    read_jobs(session, plan, (&mut wanted.map(job), goes_on), &Some, done);
}

/// As [`read`], for what `choose` wants of all files, which it is asked in parallel.
pub(super) fn read_chosen<T: ReadToken>(
    session: &Session,
    plan: &Plan,
    entries: Entries,
    choose: &(dyn Fn(Entry) -> Option<Wanted<T>> + Sync),
    done: &(dyn Fn(Entry, T, Content) + Sync),
) {
    let entries = std::iter::from_fn(|| next_entry(session, entries));
    let prepare = |job: Unread<T>| match job.token {
        Some(_) => Some(job),
        None => choose(job.entry).map(self::job),
    };
    let mut jobs = entries.map(|entry| Job { entry, set: 0, token: None });
    read_jobs(session, plan, (&mut jobs, &|| true), &prepare, done);
}

fn read_jobs<T: ReadToken>(
    session: &Session,
    plan: &Plan,
    (jobs, goes_on): (&mut (dyn Iterator<Item = Unread<T>> + Send), &(dyn Fn() -> bool + Sync)),
    prepare: &(dyn Fn(Unread<T>) -> Option<Unread<T>> + Sync),
    done: &(dyn Fn(Entry, T, Content) + Sync),
) {
    let again = Mutex::new(Vec::new());
    let take = |hashed: Hashed<Option<Again<T>>>, is_last: bool| {
        let Hashed { entry, token, result } = hashed;
        match (result, token) {
            (Err(FileError::Stopped { .. }), _) => {}
            (Err(error), token) => {
                let record = token.as_ref().and_then(|again| again.token.record());
                session.unread(&entry, record, &error);
            }
            (Ok(content), _) if !content.before.is_same_state(&content.after) => busy(session, &entry),
            (Ok(content), Some(Again { modified, token, .. })) if content.before.modified == modified => {
                session.add_bytes(content.read);
                done(entry, token, content);
            }
            (Ok(content), Some(Again { set, token, .. })) if !is_last => {
                lock(&again).push(Wanted { entry, set, modified: content.after.modified, token });
            }
            (Ok(_), _) => busy(session, &entry),
        }
        ControlFlow::Continue(())
    };
    let plan = &Plan { settles: true, ..plan.clone() };
    hash_prepared(plan, jobs, &|_| goes_on(), prepare, &|hashed| take(hashed, false));
    let second = std::mem::take(&mut *lock(&again));
    hash(plan, &mut second.into_iter().map(job), &|hashed| take(hashed, true));
}

/// The job of a file to read.
fn job<T>(wanted: Wanted<T>) -> Unread<T> {
    let Wanted { entry, set, modified, token } = wanted;
    settle(modified);
    Job { entry, set, token: Some(Again { set, modified, token }) }
}

fn busy(session: &Session, entry: &Entry) {
    session.plain(entry, TagOutcome::Judged(Verdict::Busy));
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
