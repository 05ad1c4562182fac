//! The Arrow columns of hashed files.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, StringBuilder, TimestampNanosecondBuilder,
    UInt64Builder,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use verisum::digest::Digest;

use crate::arrow::Columns;
use crate::errors::Failure;
use crate::file_row::{Row, nanoseconds};

/// The columns of every row, and one for each digest.
pub(crate) struct RowColumns {
    path: StringBuilder,
    path_bytes: BinaryBuilder,
    error: StringBuilder,
    size: UInt64Builder,
    modified: TimestampNanosecondBuilder,
    changed: TimestampNanosecondBuilder,
    device: UInt64Builder,
    inode: UInt64Builder,
    has_changed: BooleanBuilder,
    host: StringBuilder,
    evidence: StringBuilder,
    digests: Vec<(Digest, FixedSizeBinaryBuilder)>,
}

impl RowColumns {
    pub(crate) fn new(digests: &[Digest]) -> RowColumns {
        let time = || TimestampNanosecondBuilder::new().with_timezone("UTC");
        let of_digest = |digest: &Digest| {
            let column = FixedSizeBinaryBuilder::new(digest.len() as i32);
            (digest.clone(), column)
        };
        RowColumns {
            path: StringBuilder::new(),
            path_bytes: BinaryBuilder::new(),
            error: StringBuilder::new(),
            size: UInt64Builder::new(),
            modified: time(),
            changed: time(),
            device: UInt64Builder::new(),
            inode: UInt64Builder::new(),
            has_changed: BooleanBuilder::new(),
            host: StringBuilder::new(),
            evidence: StringBuilder::new(),
            digests: digests.iter().map(of_digest).collect(),
        }
    }
}

impl Columns<Row> for RowColumns {
    fn schema(&self) -> Schema {
        let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let mut fields = vec![
            Field::new("path", DataType::Utf8, true),
            Field::new("path_bytes", DataType::Binary, true),
            Field::new("error", DataType::Utf8, true),
            Field::new("size", DataType::UInt64, true),
            Field::new("mtime", time(), true),
            Field::new("ctime", time(), true),
            Field::new("device", DataType::UInt64, true),
            Field::new("inode", DataType::UInt64, true),
            Field::new("changed", DataType::Boolean, true),
            Field::new("host", DataType::Utf8, true),
            Field::new("evidence", DataType::Utf8, true),
        ];
        let digests = self.digests.iter().map(|(digest, _)| digest);
        fields.extend(
            digests.map(|digest| {
                Field::new(digest.name(), DataType::FixedSizeBinary(digest.len() as i32), true)
            }),
        );
        Schema::new(fields)
    }

    fn add(&mut self, row: &Row) -> Result<(), ArrowError> {
        // Text where it is text, and the bytes only where it is none: nothing is lost, and most have one of them.
        let text = row.path.to_str();
        self.path.append_option(text);
        self.path_bytes.append_option(text.is_none().then(|| row.path.as_os_str().as_bytes()));
        self.error.append_option(row.result.as_ref().err().map(Failure::message));
        let file = row.result.as_ref().ok();
        let stat = file.and_then(|file| file.stat.as_ref());
        let time = |time| i64::try_from(nanoseconds(time)).ok();
        self.size.append_option(file.and_then(|file| file.size));
        self.modified.append_option(file.and_then(|file| file.modified).and_then(time));
        self.changed.append_option(stat.and_then(|stat| time(stat.changed)));
        self.device.append_option(stat.map(|stat| stat.device));
        self.inode.append_option(stat.map(|stat| stat.inode));
        self.has_changed.append_option(file.map(|file| file.changed));
        self.host.append_option(row.host.as_deref());
        self.evidence.append_option(file.map(|file| file.evidence.name()));
        for (number, (_, column)) in self.digests.iter_mut().enumerate() {
            match file {
                Some(file) => column.append_value(file.digests[number].as_bytes())?,
                None => column.append_null(),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.path.finish()),
            Arc::new(self.path_bytes.finish()),
            Arc::new(self.error.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.modified.finish()),
            Arc::new(self.changed.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.inode.finish()),
            Arc::new(self.has_changed.finish()),
            Arc::new(self.host.finish()),
            Arc::new(self.evidence.finish()),
        ];
        columns.extend(self.digests.iter_mut().map(|(_, column)| Arc::new(column.finish()) as ArrayRef));
        columns
    }
}
