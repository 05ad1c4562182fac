//! The columns of a table as those of an Arrow record batch.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, StringBuilder, TimestampMillisecondBuilder,
    TimestampNanosecondBuilder, UInt64Builder,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use verisum::lake::{Column, ColumnKind, Value};

/// The columns as Arrow describes them.
pub(crate) fn schema(columns: &[Column]) -> Result<Schema, ArrowError> {
    let field = |column: &Column| Ok(Field::new(&column.name, data_type(column)?, !column.is_required));
    columns.iter().map(field).collect::<Result<Vec<_>, ArrowError>>().map(Schema::new)
}

fn data_type(column: &Column) -> Result<DataType, ArrowError> {
    let time = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    Ok(match column.kind {
        ColumnKind::Flag => DataType::Boolean,
        ColumnKind::Unsigned => DataType::UInt64,
        ColumnKind::Milliseconds => time(TimeUnit::Millisecond),
        ColumnKind::Nanoseconds => time(TimeUnit::Nanosecond),
        ColumnKind::Text | ColumnKind::Word => DataType::Utf8,
        ColumnKind::Binary => DataType::Binary,
        ColumnKind::Digest(length) => DataType::FixedSizeBinary(length as i32),
        _ => return Err(odd(&column.name)),
    })
}

/// A column of a batch that is being filled.
pub(crate) enum ArrowColumn {
    Flag(BooleanBuilder),
    Unsigned(UInt64Builder),
    Milliseconds(TimestampMillisecondBuilder),
    Nanoseconds(TimestampNanosecondBuilder),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Digest(FixedSizeBinaryBuilder),
}

impl ArrowColumn {
    pub(crate) fn new(column: &Column) -> Result<ArrowColumn, ArrowError> {
        let milliseconds = || TimestampMillisecondBuilder::new().with_timezone("UTC");
        let nanoseconds = || TimestampNanosecondBuilder::new().with_timezone("UTC");
        Ok(match column.kind {
            ColumnKind::Flag => ArrowColumn::Flag(BooleanBuilder::new()),
            ColumnKind::Unsigned => ArrowColumn::Unsigned(UInt64Builder::new()),
            ColumnKind::Milliseconds => ArrowColumn::Milliseconds(milliseconds()),
            ColumnKind::Nanoseconds => ArrowColumn::Nanoseconds(nanoseconds()),
            ColumnKind::Text | ColumnKind::Word => ArrowColumn::Text(StringBuilder::new()),
            ColumnKind::Binary => ArrowColumn::Binary(BinaryBuilder::new()),
            ColumnKind::Digest(length) => ArrowColumn::Digest(FixedSizeBinaryBuilder::new(length as i32)),
            _ => return Err(odd(&column.name)),
        })
    }

    pub(crate) fn add(&mut self, value: &Value<'_>) -> Result<(), ArrowError> {
        match (self, value) {
            (ArrowColumn::Flag(column), Value::Null) => column.append_null(),
            (ArrowColumn::Flag(column), Value::Flag(flag)) => column.append_value(*flag),
            (ArrowColumn::Unsigned(column), Value::Null) => column.append_null(),
            (ArrowColumn::Unsigned(column), Value::Unsigned(number)) => column.append_value(*number),
            (ArrowColumn::Milliseconds(column), Value::Null) => column.append_null(),
            (ArrowColumn::Milliseconds(column), Value::Time(time)) => column.append_value(*time),
            (ArrowColumn::Nanoseconds(column), Value::Null) => column.append_null(),
            (ArrowColumn::Nanoseconds(column), Value::Time(time)) => column.append_value(*time),
            (ArrowColumn::Text(column), Value::Null) => column.append_null(),
            (ArrowColumn::Text(column), Value::Text(text)) => column.append_value(text),
            (ArrowColumn::Binary(column), Value::Null) => column.append_null(),
            (ArrowColumn::Binary(column), Value::Bytes(bytes)) => column.append_value(bytes),
            (ArrowColumn::Digest(column), Value::Null) => column.append_null(),
            (ArrowColumn::Digest(column), Value::Bytes(bytes)) => column.append_value(bytes)?,
            _ => return Err(odd("a column of Arrow")),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> ArrayRef {
        match self {
            ArrowColumn::Flag(mut column) => Arc::new(column.finish()),
            ArrowColumn::Unsigned(mut column) => Arc::new(column.finish()),
            ArrowColumn::Milliseconds(mut column) => Arc::new(column.finish()),
            ArrowColumn::Nanoseconds(mut column) => Arc::new(column.finish()),
            ArrowColumn::Text(mut column) => Arc::new(column.finish()),
            ArrowColumn::Binary(mut column) => Arc::new(column.finish()),
            ArrowColumn::Digest(mut column) => Arc::new(column.finish()),
        }
    }
}

fn odd(name: &str) -> ArrowError {
    ArrowError::SchemaError(format!("{name} has a value of another type"))
}
