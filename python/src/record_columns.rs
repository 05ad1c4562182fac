//! The columns of a catalogue's records, for Arrow and Parquet: those that a lake has too, and the place.

use std::os::unix::ffi::OsStrExt;
use verisum::catalog::store::{Moment, Stamp};
use verisum::lake::ColumnKind::{Binary, Milliseconds, Nanoseconds, Text, Unsigned};
use verisum::lake::{Column, Value};

use crate::records::Recorded;

/// The columns of every record.
pub(crate) fn columns() -> Vec<Column> {
    let columns = [
        ("place", Text),
        ("place_bytes", Binary),
        ("path", Text),
        ("path_bytes", Binary),
        ("size", Unsigned),
        ("mtime", Nanoseconds),
        ("ctime", Nanoseconds),
        ("inode", Unsigned),
        ("algorithm", Text),
        ("digest", Binary),
        ("state", Text),
        ("first_seen", Milliseconds),
        ("changed", Milliseconds),
        ("verified", Milliseconds),
    ];
    columns.map(|(name, kind)| Column::new(name, kind)).to_vec()
}

/// The values of a record.
pub(crate) fn values(row: &Recorded) -> Vec<Value<'_>> {
    let record = &row.record;
    let [place, place_bytes] = Value::of_name(row.place.as_os_str().as_bytes());
    let path = row.path.strip_prefix(&row.place).unwrap_or(&row.path);
    let [path, path_bytes] = Value::of_name(path.as_os_str().as_bytes());
    let stamp = |time: Stamp| Value::Time(time.nanoseconds());
    let moment = |time: Moment| Value::Time(time.milliseconds());
    vec![
        place,
        place_bytes,
        path,
        path_bytes,
        record.size.into(),
        record.told_mtime().map_or(Value::Null, stamp),
        record.ctime.known().map_or(Value::Null, stamp),
        Some(record.inode).filter(|inode| *inode != 0).into(),
        Value::Text(&row.algorithm),
        Value::Bytes(record.digest.as_bytes()),
        Value::Text(record.state.name()),
        moment(record.first_seen),
        moment(record.changed),
        record.verified.known().map_or(Value::Null, moment),
    ]
}
