//! The Arrow columns of a catalogue's records: those of a lake that a record has.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use verisum::catalog::store::{Moment, Stamp};

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, StringBuilder, TimestampMillisecondBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

use crate::arrow::Columns;
use crate::records::Recorded;

/// The columns of every record.
pub(crate) struct RecordColumns {
    place: BinaryOrText,
    path: BinaryOrText,
    size: UInt64Builder,
    modified: TimestampNanosecondBuilder,
    inode_changed: TimestampNanosecondBuilder,
    inode: UInt64Builder,
    algorithm: StringBuilder,
    digest: BinaryBuilder,
    state: StringBuilder,
    first_seen: TimestampMillisecondBuilder,
    changed: TimestampMillisecondBuilder,
    verified: TimestampMillisecondBuilder,
}

/// A path: text where it is text, and else bytes.
#[derive(Default)]
struct BinaryOrText {
    text: StringBuilder,
    bytes: BinaryBuilder,
}

impl BinaryOrText {
    fn add(&mut self, path: &Path) {
        let text = path.to_str();
        self.text.append_option(text);
        self.bytes.append_option(text.is_none().then(|| path.as_os_str().as_bytes()));
    }
}

impl Default for RecordColumns {
    fn default() -> RecordColumns {
        let nanoseconds = || TimestampNanosecondBuilder::new().with_timezone("UTC");
        let milliseconds = || TimestampMillisecondBuilder::new().with_timezone("UTC");
        RecordColumns {
            place: BinaryOrText::default(),
            path: BinaryOrText::default(),
            size: UInt64Builder::new(),
            modified: nanoseconds(),
            inode_changed: nanoseconds(),
            inode: UInt64Builder::new(),
            algorithm: StringBuilder::new(),
            digest: BinaryBuilder::new(),
            state: StringBuilder::new(),
            first_seen: milliseconds(),
            changed: milliseconds(),
            verified: milliseconds(),
        }
    }
}

impl Columns<Recorded> for RecordColumns {
    fn schema(&self) -> Schema {
        let time = |unit| DataType::Timestamp(unit, Some("UTC".into()));
        Schema::new(vec![
            Field::new("place", DataType::Utf8, true),
            Field::new("place_bytes", DataType::Binary, true),
            Field::new("path", DataType::Utf8, true),
            Field::new("path_bytes", DataType::Binary, true),
            Field::new("size", DataType::UInt64, true),
            Field::new("mtime", time(TimeUnit::Nanosecond), true),
            Field::new("ctime", time(TimeUnit::Nanosecond), true),
            Field::new("inode", DataType::UInt64, true),
            Field::new("algorithm", DataType::Utf8, true),
            Field::new("digest", DataType::Binary, true),
            Field::new("state", DataType::Utf8, true),
            Field::new("first_seen", time(TimeUnit::Millisecond), true),
            Field::new("changed", time(TimeUnit::Millisecond), true),
            Field::new("verified", time(TimeUnit::Millisecond), true),
        ])
    }

    fn add(&mut self, row: &Recorded) -> Result<(), ArrowError> {
        let record = &row.record;
        self.place.add(&row.place);
        self.path.add(row.path.strip_prefix(&row.place).unwrap_or(&row.path));
        self.size.append_value(record.size);
        self.modified.append_value(record.mtime.nanoseconds());
        self.inode_changed.append_option(record.ctime.known().map(Stamp::nanoseconds));
        self.inode.append_option(Some(record.inode).filter(|inode| *inode != 0));
        self.algorithm.append_value(&row.algorithm);
        self.digest.append_value(record.digest.as_bytes());
        self.state.append_value(record.state.name());
        self.first_seen.append_value(record.first_seen.milliseconds());
        self.changed.append_value(record.changed.milliseconds());
        self.verified.append_option(record.verified.known().map(Moment::milliseconds));
        Ok(())
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.place.text.finish()),
            Arc::new(self.place.bytes.finish()),
            Arc::new(self.path.text.finish()),
            Arc::new(self.path.bytes.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.modified.finish()),
            Arc::new(self.inode_changed.finish()),
            Arc::new(self.inode.finish()),
            Arc::new(self.algorithm.finish()),
            Arc::new(self.digest.finish()),
            Arc::new(self.state.finish()),
            Arc::new(self.first_seen.finish()),
            Arc::new(self.changed.finish()),
            Arc::new(self.verified.finish()),
        ]
    }
}
