//! The columns of a part, and rows as their values.

use verisum_catalog::store::{Moment, Stamp, State};

use crate::Row;
use crate::table::{Column, ColumnKind, Value};

/// The word for a file whose record was removed.
const GONE: &str = "gone";

/// The word of a state in a lake.
fn word(state: Option<State>) -> &'static str {
    state.map_or(GONE, State::name)
}

/// The state of a word; none within if the record was removed.
pub(crate) fn state_of(word: &str) -> Option<Option<State>> {
    match word {
        GONE => Some(None),
        word => State::find(word).map(Some),
    }
}

/// The number of the column that says when a row was written.
pub(crate) const EXPORTED: usize = 12;

/// The columns of a part whose digests have this length.
pub(crate) fn columns(digest_len: usize) -> [Column; 14] {
    use ColumnKind::{Binary, Digest, Milliseconds, Nanoseconds, Text, Unsigned, Word};
    [
        Column::new("path", Text),
        Column::new("path_bytes", Binary),
        Column::new("size", Unsigned),
        Column::new("mtime", Nanoseconds),
        Column::new("ctime", Nanoseconds),
        Column::new("inode", Unsigned),
        Column::new("algorithm", Word).required(),
        Column::new("digest", Digest(digest_len)),
        Column::new("state", Word).required(),
        Column::new("first_seen", Milliseconds),
        Column::new("changed", Milliseconds),
        Column::new("verified", Milliseconds),
        Column::new("exported", Milliseconds).required(),
        Column::new("replaces", Milliseconds),
    ]
}

/// The values of a row.
pub(crate) fn values(row: &Row) -> [Value<'_>; 14] {
    let [path, path_bytes] = Value::of_name(&row.path);
    let stamp = |time: Option<Stamp>| time.map_or(Value::Null, |time| Value::Time(time.nanoseconds()));
    let moment = |time: Option<Moment>| time.map_or(Value::Null, |time| Value::Time(time.milliseconds()));
    [
        path,
        path_bytes,
        row.size.into(),
        stamp(row.mtime),
        stamp(row.ctime),
        row.inode.into(),
        Value::Text(&row.algorithm),
        row.digest.as_ref().map(|digest| digest.as_bytes()).into(),
        Value::Text(word(row.state)),
        moment(row.first_seen),
        moment(row.changed),
        moment(row.verified),
        moment(Some(row.exported)),
        moment(row.replaces),
    ]
}
