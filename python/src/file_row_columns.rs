//! The columns of hashed files, for Arrow and Parquet.

use std::os::unix::ffi::OsStrExt;
use verisum::digest::Digest;
use verisum::lake::ColumnKind::{Binary, Flag, Nanoseconds, Text, Unsigned};
use verisum::lake::{Column, ColumnKind, Value};

use crate::errors::Failure;
use crate::file_row::{Row, nanoseconds};

/// The columns of every row, and one for each digest.
pub(crate) fn columns(digests: &[Digest]) -> Vec<Column> {
    let columns = [
        ("path", Text),
        ("path_bytes", Binary),
        ("error", Text),
        ("size", Unsigned),
        ("mtime", Nanoseconds),
        ("ctime", Nanoseconds),
        ("device", Unsigned),
        ("inode", Unsigned),
        ("changed", Flag),
        ("host", Text),
        ("evidence", Text),
    ];
    let digests = digests.iter().map(|digest| (digest.name(), ColumnKind::Digest(digest.len())));
    columns.into_iter().chain(digests).map(|(name, kind)| Column::new(name, kind)).collect()
}

/// The values of a row.
pub(crate) fn values<'a>(row: &'a Row, digests: &[Digest]) -> Vec<Value<'a>> {
    let [path, path_bytes] = Value::of_name(row.path.as_os_str().as_bytes());
    let file = row.result.as_ref().ok();
    let stat = file.and_then(|file| file.stat.as_ref());
    let time = |time| i64::try_from(nanoseconds(time)).map_or(Value::Null, Value::Time);
    let mut values = vec![
        path,
        path_bytes,
        row.result.as_ref().err().map(Failure::message).into(),
        file.and_then(|file| file.size).into(),
        file.and_then(|file| file.modified).map_or(Value::Null, time),
        stat.map_or(Value::Null, |stat| time(stat.changed)),
        stat.map(|stat| stat.device).into(),
        stat.map(|stat| stat.inode).into(),
        file.map(|file| file.changed).into(),
        row.host.as_deref().into(),
        file.map(|file| file.evidence.name()).into(),
    ];
    match file {
        Some(file) => values.extend(file.digests.iter().map(|digest| Value::Bytes(digest.as_bytes()))),
        None => values.extend(digests.iter().map(|_| Value::Null)),
    }
    values
}
