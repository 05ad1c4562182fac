//! The columns of a part: their types, and rows as columns and back.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, FixedSizeBinaryBuilder, StringBuilder, StringDictionaryBuilder,
    TimestampMillisecondBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use verisum_catalog::store::{Moment, Stamp, State};

use crate::Row;

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

/// The columns of a part whose digests have this length. Few words come again and again in two of them: a
/// writer holds each once.
pub(crate) fn schema(digest_len: usize) -> SchemaRef {
    let word = || DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    let time = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let (nanoseconds, milliseconds) = (time(TimeUnit::Nanosecond), time(TimeUnit::Millisecond));
    let field = |name: &str, data: &DataType, nullable| Field::new(name, data.clone(), nullable);
    Arc::new(Schema::new(vec![
        field("path", &DataType::Utf8, true),
        field("path_bytes", &DataType::Binary, true),
        field("size", &DataType::UInt64, true),
        field("mtime", &nanoseconds, true),
        field("ctime", &nanoseconds, true),
        field("inode", &DataType::UInt64, true),
        field("algorithm", &word(), false),
        field("digest", &DataType::FixedSizeBinary(digest_len as i32), true),
        field("state", &word(), false),
        field("first_seen", &milliseconds, true),
        field("changed", &milliseconds, true),
        field("verified", &milliseconds, true),
        field("exported", &milliseconds, false),
        field("replaces", &milliseconds, true),
    ]))
}

/// Rows as columns, while they come.
pub(crate) struct Columns {
    schema: SchemaRef,
    rows: usize,
    path: StringBuilder,
    path_bytes: BinaryBuilder,
    size: UInt64Builder,
    mtime: TimestampNanosecondBuilder,
    ctime: TimestampNanosecondBuilder,
    inode: UInt64Builder,
    algorithm: StringDictionaryBuilder<Int8Type>,
    digest: FixedSizeBinaryBuilder,
    state: StringDictionaryBuilder<Int8Type>,
    first_seen: TimestampMillisecondBuilder,
    changed: TimestampMillisecondBuilder,
    verified: TimestampMillisecondBuilder,
    exported: TimestampMillisecondBuilder,
    replaces: TimestampMillisecondBuilder,
}

impl Columns {
    pub(crate) fn new(digest_len: usize) -> Columns {
        let nanoseconds = || TimestampNanosecondBuilder::new().with_timezone("UTC");
        let milliseconds = || TimestampMillisecondBuilder::new().with_timezone("UTC");
        Columns {
            schema: schema(digest_len),
            rows: 0,
            path: StringBuilder::new(),
            path_bytes: BinaryBuilder::new(),
            size: UInt64Builder::new(),
            mtime: nanoseconds(),
            ctime: nanoseconds(),
            inode: UInt64Builder::new(),
            algorithm: StringDictionaryBuilder::new(),
            digest: FixedSizeBinaryBuilder::new(digest_len as i32),
            state: StringDictionaryBuilder::new(),
            first_seen: milliseconds(),
            changed: milliseconds(),
            verified: milliseconds(),
            exported: milliseconds(),
            replaces: milliseconds(),
        }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// # Errors
    /// A digest of another length than the column's.
    pub(crate) fn add(&mut self, row: &Row) -> Result<(), ArrowError> {
        match &row.digest {
            Some(digest) => self.digest.append_value(digest.as_bytes())?,
            None => self.digest.append_null(),
        }
        // Text where it is text, and the bytes only where it is none, as in tables of files.
        let text = std::str::from_utf8(&row.path).ok();
        self.path.append_option(text);
        self.path_bytes.append_option(text.is_none().then_some(&row.path));
        self.size.append_option(row.size);
        self.mtime.append_option(row.mtime.map(Stamp::nanoseconds));
        self.ctime.append_option(row.ctime.map(Stamp::nanoseconds));
        self.inode.append_option(row.inode);
        self.algorithm.append(&row.algorithm)?;
        self.state.append(word(row.state))?;
        self.first_seen.append_option(row.first_seen.map(Moment::milliseconds));
        self.changed.append_option(row.changed.map(Moment::milliseconds));
        self.verified.append_option(row.verified.map(Moment::milliseconds));
        self.exported.append_value(row.exported.milliseconds());
        self.replaces.append_option(row.replaces.map(Moment::milliseconds));
        self.rows += 1;
        Ok(())
    }

    /// What was added since the last time.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.path.finish()),
            Arc::new(self.path_bytes.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.mtime.finish()),
            Arc::new(self.ctime.finish()),
            Arc::new(self.inode.finish()),
            Arc::new(self.algorithm.finish()),
            Arc::new(self.digest.finish()),
            Arc::new(self.state.finish()),
            Arc::new(self.first_seen.finish()),
            Arc::new(self.changed.finish()),
            Arc::new(self.verified.finish()),
            Arc::new(self.exported.finish()),
            Arc::new(self.replaces.finish()),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}
