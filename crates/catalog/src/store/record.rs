//! The records of files, and the findings about files that are not as recorded.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::Row;
use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use verisum_digest::Output;

use super::guard::{self, IS_INTACT};
use super::{Moment, Stamp};
use verisum_files::VerdictClass;
use verisum_files::{Stat, Verdict};

/// What a run last thought of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is as recorded.
    Sound,
    /// It is not, or could not be compared; a [`RecordFinding`] says more.
    Trouble(Trouble),
}

/// Why a file is not as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Of a verdict that may not replace the record.
    Verdict(Verdict),
    /// Modified in a run in which so much changed that nothing was taken over.
    Held,
}

/// All of them, in the order of their numbers.
const STATES: [State; State::COUNT] = [
    State::Sound,
    State::Trouble(Trouble::Verdict(Verdict::Busy)),
    State::Trouble(Trouble::Verdict(Verdict::Unverifiable)),
    State::Trouble(Trouble::Verdict(Verdict::IoError)),
    State::Trouble(Trouble::Verdict(Verdict::Suspicious)),
    State::Trouble(Trouble::Verdict(Verdict::Flaky)),
    State::Trouble(Trouble::Verdict(Verdict::Rot)),
    State::MISSING,
    State::Trouble(Trouble::Held),
    State::DAMAGED,
];

/// The detail of the finding of a file that is bad or held, and that the last run did not find any more.
pub(super) const GONE: &str = "it is gone";

/// The stored number of [`State::MISSING`].
pub(super) const MISSING: i64 = State::MISSING.code();

/// The stored numbers of the verdicts that say that the data is bad.
pub(super) const CORRUPT: &str = "(4, 5, 6)";

/// The stored numbers of the verdicts that say that the data could not be read.
pub(super) const UNREAD: &str = "1, 2, 3";

/// The stored number of [`Trouble::Held`].
pub(super) const HELD: i64 = State::Trouble(Trouble::Held).code();

/// The stored number of [`State::DAMAGED`]. The check value of such a record stays the wrong one.
pub(super) const DAMAGED: i64 = State::DAMAGED.code();

impl State {
    /// How many there are.
    pub(super) const COUNT: usize = 10;

    /// The name is gone.
    pub const MISSING: State = State::Trouble(Trouble::Verdict(Verdict::Missing));

    /// The record is not what was written, and says nothing of the file.
    pub const DAMAGED: State = State::Trouble(Trouble::Verdict(Verdict::RecordDamaged));

    /// Whether only a good file or somebody's word may end it: bad data, a change that is held, or a
    /// record that nothing can be compared with.
    pub fn is_unforgiven(self) -> bool {
        match self {
            State::DAMAGED | State::Trouble(Trouble::Held) => true,
            state => state.is_corrupt(),
        }
    }

    /// Whether the recorded content is wanted again: the data is bad, cannot be read or is missing.
    pub fn is_repairable(self) -> bool {
        self.is_corrupt()
            || self == State::MISSING
            || self == State::Trouble(Trouble::Verdict(Verdict::IoError))
    }

    /// Whether a repair brings the recorded content back: also where so much changed at once that nobody has said yet
    /// whether the change is wanted.
    pub fn wants_content(self) -> bool {
        self.is_repairable() || self == State::Trouble(Trouble::Held)
    }

    /// Whether somebody may want the file as it is now: a repair keeps that too.
    pub fn may_be_meant(self) -> bool {
        matches!(self, State::Trouble(Trouble::Held | Trouble::Verdict(Verdict::Suspicious)))
    }

    /// Whether the data was found to be bad.
    pub fn is_corrupt(self) -> bool {
        matches!(self, State::Trouble(Trouble::Verdict(verdict)) if verdict.class() == VerdictClass::Corrupt)
    }

    /// How it is judged, as scrubs do: of what is missing nothing is known to be bad, and a change that is held is as
    /// bad as rot until somebody accepts it.
    pub fn class(self) -> VerdictClass {
        match self {
            State::Sound | State::MISSING => VerdictClass::Clean,
            State::Trouble(Trouble::Held) => VerdictClass::Corrupt,
            State::Trouble(Trouble::Verdict(verdict)) => verdict.class(),
        }
    }

    /// The word used in reports and exports.
    pub fn name(self) -> &'static str {
        match self {
            State::Sound => "ok",
            State::Trouble(Trouble::Verdict(verdict)) => verdict.name(),
            State::Trouble(Trouble::Held) => "held",
        }
    }

    /// All but [`State::Sound`].
    pub fn troubles() -> impl Iterator<Item = State> {
        STATES.into_iter().filter(|state| *state != State::Sound)
    }

    /// The state of this name.
    pub fn find(name: &str) -> Option<State> {
        STATES.into_iter().find(|state| state.name() == name)
    }

    /// The stored number. Numbers are never used again.
    pub(crate) const fn code(self) -> i64 {
        let verdict = match self {
            State::Sound => return 0,
            State::Trouble(Trouble::Held) => return 8,
            State::Trouble(Trouble::Verdict(verdict)) => verdict,
        };
        match verdict {
            Verdict::Busy => 1,
            Verdict::Unverifiable => 2,
            Verdict::IoError => 3,
            Verdict::Suspicious => 4,
            Verdict::Flaky => 5,
            Verdict::Rot => 6,
            Verdict::Missing => 7,
            Verdict::RecordDamaged => 9,
            // These replace the record, and are no trouble; a record that has one is not to be taken for a good one.
            Verdict::Ok | Verdict::New | Verdict::Touched | Verdict::Modified | Verdict::Moved => 2,
        }
    }

    pub(super) fn of_code(code: i64) -> Option<State> {
        STATES.into_iter().find(|state| state.code() == code)
    }
}

/// What a file was when it was last found good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatalogRecord {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification.
    pub mtime: Stamp,
    /// Time of the inode's last change.
    pub ctime: Stamp,
    /// The inode's number.
    pub inode: u64,
    /// The digest's algorithm, by its number in this catalogue.
    pub algorithm: i64,
    /// The digest.
    pub digest: Output,
    /// When it was first recorded.
    pub first_seen: Moment,
    /// When its content was last found to be new.
    pub changed: Moment,
    /// When its content was last compared or recorded; [`Moment::NEVER`] if it never was.
    pub verified: Moment,
    /// What the last run thought of it.
    pub state: State,
}

impl CatalogRecord {
    /// The length in bytes; none of a file that nobody read yet: a list of checksums does not tell it.
    pub fn known_size(&self) -> Option<u64> {
        (self.size > 0 || self.verified > Moment::NEVER).then_some(self.size)
    }

    /// The time of modification; none where a list did not tell it.
    pub fn known_mtime(&self) -> Option<Stamp> {
        (self.mtime != Stamp::UNKNOWN || self.verified > Moment::NEVER).then_some(self.mtime)
    }

    /// The time of modification; none where its place did not tell it. Who tells the inode tells the time too.
    pub fn told_mtime(&self) -> Option<Stamp> {
        self.mtime.known().or((self.inode != 0).then_some(self.mtime))
    }
}

/// What a scan needs to know of a file: a part of its record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordSummary {
    /// As in [`CatalogRecord`].
    pub size: u64,
    /// As in [`CatalogRecord`].
    pub mtime: Stamp,
    /// As in [`CatalogRecord`].
    pub ctime: Stamp,
    /// As in [`CatalogRecord`].
    pub verified: Moment,
    /// As in [`CatalogRecord`].
    pub state: State,
}

impl From<&CatalogRecord> for RecordSummary {
    fn from(record: &CatalogRecord) -> RecordSummary {
        let CatalogRecord { size, mtime, ctime, verified, state, .. } = *record;
        RecordSummary { size, mtime, ctime, verified, state }
    }
}

/// What was last seen of a file that is not as recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordFinding {
    /// When it was first found so.
    pub since: Moment,
    /// When it was last found so.
    pub seen: Moment,
    /// What was read, if anything.
    pub read: Option<Seen>,
    /// An error's text.
    pub detail: Option<String>,
}

/// A file as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification.
    pub mtime: Stamp,
    /// Time of the inode's last change.
    pub ctime: Stamp,
    /// The inode's number.
    pub inode: u64,
    /// The digest, by the record's algorithm.
    pub digest: Output,
}

impl Seen {
    /// What a record says of the file's state.
    pub fn of(record: &CatalogRecord) -> Seen {
        let CatalogRecord { size, mtime, ctime, inode, digest, .. } = *record;
        Seen { size, mtime, ctime, inode, digest }
    }

    /// A file in this state with this digest.
    pub fn new(stat: &Stat, digest: Output) -> Seen {
        Seen {
            size: stat.size,
            mtime: stat.modified.into(),
            ctime: stat.changed.into(),
            inode: stat.inode,
            digest,
        }
    }
}

/// A change to one file's record.
#[derive(Clone, Debug)]
pub enum RecordChange {
    /// It is recorded for the first time.
    Add(CatalogRecord),
    /// Its record is as before but for times, inode and state.
    Confirm(CatalogRecord),
    /// Different content takes the place of the recorded one, which can be put back until the run ends.
    Replace {
        /// What it was.
        old: CatalogRecord,
        /// What it is.
        new: CatalogRecord,
    },
    /// It is not as recorded, and the record stays.
    Suspect(State, RecordFinding),
    /// It has no record, and could not be read: that is known from now on. What was said of it may be what a
    /// record says.
    Unread(State, RecordFinding, Option<Stat>),
    /// Its record is removed.
    Forget(CatalogRecord),
}

impl RecordChange {
    /// When the file was read, if it was.
    pub fn read(&self) -> Option<Moment> {
        match self {
            RecordChange::Add(new) | RecordChange::Confirm(new) | RecordChange::Replace { new, .. } => {
                Some(new.verified)
            }
            RecordChange::Suspect(_, finding) => finding.read.map(|_| finding.seen),
            RecordChange::Unread(..) | RecordChange::Forget(_) => None,
        }
    }
}

/// The columns that [`record`] reads.
pub(super) fn columns() -> String {
    format!(
        "file.size, file.mtime, file.ctime, file.inode, file.algorithm, file.digest, file.first_seen,
         file.changed, file.verified, file.state, {IS_INTACT}"
    )
}

/// The columns of a record that [`recorded`] has values for, after directory, name and root.
pub(super) const RECORDED: &str =
    "size, mtime, ctime, inode, algorithm, digest, first_seen, changed, verified";

/// A record as values of the columns directory, name, root and [`RECORDED`].
pub(super) fn recorded<'a>(
    directory: i64,
    name: &'a OsStr,
    root: i64,
    record: &'a CatalogRecord,
) -> [ToSqlOutput<'a>; 12] {
    [
        directory.into(),
        ToSqlOutput::Borrowed(ValueRef::Blob(name.as_bytes())),
        root.into(),
        (record.size as i64).into(),
        record.mtime.nanoseconds().into(),
        record.ctime.nanoseconds().into(),
        (record.inode as i64).into(),
        record.algorithm.into(),
        ToSqlOutput::Borrowed(ValueRef::Blob(record.digest.as_bytes())),
        record.first_seen.milliseconds().into(),
        record.changed.milliseconds().into(),
        record.verified.milliseconds().into(),
    ]
}

/// The check value of a record.
pub(super) fn check_value(directory: i64, name: &OsStr, root: i64, record: &CatalogRecord) -> i64 {
    let state = record.state.code().into();
    let values = recorded(directory, name, root, record);
    guard::of(values.iter().chain([&state]).map(|value| match value {
        ToSqlOutput::Borrowed(value) => *value,
        ToSqlOutput::Owned(value) => value.into(),
        _ => ValueRef::Null,
    }))
}

pub(super) fn known(row: &Row<'_>) -> rusqlite::Result<RecordSummary> {
    let (mtime, ctime, verified) = (row.get(2)?, row.get(3)?, row.get(4)?);
    Ok(RecordSummary { size: unsigned(row, 1)?, mtime, ctime, verified, state: state(row, 5)? })
}

/// The directory, the name and the record of a row that selects these, in this order.
pub(super) fn listed(row: &Row<'_>) -> rusqlite::Result<(i64, Vec<u8>, CatalogRecord)> {
    Ok((row.get(0)?, row.get(1)?, record(row, 2)?))
}

/// A record from the columns of [`columns`], which begin at `at`. One that is not as it was written is
/// given as far as it can be read, and as [`State::DAMAGED`].
pub(super) fn record(row: &Row<'_>, at: usize) -> rusqlite::Result<CatalogRecord> {
    let is_intact = row.get(at + 10)?;
    Ok(decoded(|column| value(row, at + column), is_intact))
}

/// The same from the columns name, [`RECORDED`], state, root and guard of a file in `directory`. A scrub reads all
/// records: computed here, their check values cost no call of a function of SQL with thirteen values.
pub(super) fn record_in(row: &Row<'_>, directory: i64) -> rusqlite::Result<CatalogRecord> {
    let values: [ValueRef; 12] = std::array::from_fn(|column| value(row, column));
    let named = [ValueRef::Integer(directory), values[0], values[11]];
    let guard = guard::of(named.into_iter().chain(values[1..=10].iter().copied()));
    let is_intact = row.get_ref(12)? == ValueRef::Integer(guard);
    Ok(decoded(|column| values[1 + column], is_intact))
}

fn value<'a>(row: &'a Row<'_>, column: usize) -> ValueRef<'a> {
    row.get_ref(column).unwrap_or(ValueRef::Null)
}

/// A record of the values that come first in [`columns`].
fn decoded<'a>(value: impl Fn(usize) -> ValueRef<'a>, is_intact: bool) -> CatalogRecord {
    fn number<T: FromSql + Default>(value: ValueRef<'_>) -> T {
        T::column_result(value).unwrap_or_default()
    }
    let digest = value(5).as_blob().ok().and_then(Output::from_bytes);
    let (digest, state) = match (digest, State::of_code(number(value(9)))) {
        (Some(digest), Some(state)) if is_intact => (digest, state),
        (digest, _) => (digest.unwrap_or(Output::zeroed(1)), State::DAMAGED),
    };
    CatalogRecord {
        size: number::<i64>(value(0)) as u64,
        mtime: number(value(1)),
        ctime: number(value(2)),
        inode: number::<i64>(value(3)) as u64,
        algorithm: number(value(4)),
        digest,
        first_seen: number(value(6)),
        changed: number(value(7)),
        verified: number(value(8)),
        state,
    }
}

pub(super) fn finding(row: &Row<'_>) -> rusqlite::Result<RecordFinding> {
    let has_content = row.get_ref(6)? != ValueRef::Null;
    let read = has_content.then(|| seen(row, 2));
    Ok(RecordFinding { since: row.get(0)?, seen: row.get(1)?, read: read.transpose()?, detail: row.get(7)? })
}

/// What was read of a file, in five columns that begin at `first`.
pub(super) fn seen(row: &Row<'_>, first: usize) -> rusqlite::Result<Seen> {
    Ok(Seen {
        size: unsigned(row, first)?,
        mtime: row.get(first + 1)?,
        ctime: row.get(first + 2)?,
        inode: unsigned(row, first + 3)?,
        digest: output(row, first + 4)?,
    })
}

pub(super) fn state(row: &Row<'_>, at: usize) -> rusqlite::Result<State> {
    Ok(State::of_code(row.get(at)?).unwrap_or(State::DAMAGED))
}

/// SQLite has signed integers only; the bits are what matters.
pub(super) fn unsigned(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|value| value as u64)
}

pub(super) fn output(row: &Row<'_>, at: usize) -> rusqlite::Result<Output> {
    let bytes = row.get_ref(at)?.as_blob()?;
    Output::from_bytes(bytes).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, bytes.len() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_number_of_its_own() {
        assert!(STATES.map(State::code).into_iter().eq(0..10));
        let kept = Verdict::ALL.into_iter().filter(|verdict| !verdict.may_replace_record());
        for state in kept.map(|verdict| State::Trouble(Trouble::Verdict(verdict))) {
            assert_eq!(State::of_code(state.code()), Some(state));
        }
    }

    #[test]
    fn what_is_called_corrupt_is() {
        let codes = STATES.into_iter().filter(|state| state.is_corrupt());
        let codes: Vec<String> = codes.map(|state| state.code().to_string()).collect();
        assert_eq!(format!("({})", codes.join(", ")), CORRUPT);
        let unread = Verdict::ALL.into_iter().filter(|verdict| verdict.is_unread());
        let codes: Vec<i64> =
            unread.map(|verdict| State::Trouble(Trouble::Verdict(verdict)).code()).collect();
        assert!(codes.iter().all(|code| UNREAD.contains(&code.to_string())) && codes.len() == 3, "{codes:?}");
    }
}
