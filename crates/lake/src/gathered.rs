//! The values of a column of a Parquet file, gathered until their group of rows is written.

use std::fs::File;
use std::mem;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedColumnWriter, SerializedRowGroupWriter};

use crate::table::{Column, ColumnKind, Value};

/// A column of a group that is being filled.
pub(crate) struct Gathered {
    column: Column,
    /// How much there is of each value, as Parquet counts: from nothing (0) to all of it. Required columns need none,
    /// but for lists.
    levels: Vec<i16>,
    values: GatheredValues,
}

/// The values that are there.
enum GatheredValues {
    Flags(Vec<bool>),
    Numbers(Vec<i64>),
    /// One after the other, and where each ends.
    Bytes {
        bytes: Vec<u8>,
        ends: Vec<usize>,
    },
    /// `repeats` is 1 for each range that is in the list of the one before.
    Ranges {
        repeats: Vec<i16>,
        offsets: Vec<i64>,
        lengths: Vec<i64>,
    },
}

impl Gathered {
    pub(crate) fn new(column: Column) -> Gathered {
        let values = match column.kind {
            ColumnKind::Flag => GatheredValues::Flags(Vec::new()),
            ColumnKind::Unsigned | ColumnKind::Milliseconds | ColumnKind::Nanoseconds => {
                GatheredValues::Numbers(Vec::new())
            }
            ColumnKind::Text | ColumnKind::Word | ColumnKind::Binary | ColumnKind::Digest(_) => {
                GatheredValues::Bytes { bytes: Vec::new(), ends: Vec::new() }
            }
            ColumnKind::Ranges => {
                GatheredValues::Ranges { repeats: Vec::new(), offsets: Vec::new(), lengths: Vec::new() }
            }
        };
        Gathered { column, levels: Vec::new(), values }
    }

    /// Adds the value of a row, and says how many bytes it takes beside those that each value takes.
    pub(crate) fn add(&mut self, value: &Value<'_>) -> Result<usize, String> {
        let Column { name, kind, is_required } = &self.column;
        let level = i16::from(!is_required);
        let mut bytes_taken = 0;
        match (&mut self.values, value) {
            (_, Value::Null) if *is_required => return Err(format!("a row has no {name}")),
            (values, Value::Null) => {
                if let GatheredValues::Ranges { repeats, .. } = values {
                    repeats.push(0);
                }
                self.levels.push(0);
                return Ok(0);
            }
            (GatheredValues::Flags(flags), Value::Flag(flag)) => flags.push(*flag),
            (GatheredValues::Numbers(numbers), Value::Unsigned(number)) if *kind == ColumnKind::Unsigned => {
                numbers.push(number.cast_signed());
            }
            (GatheredValues::Numbers(numbers), Value::Time(time)) if *kind != ColumnKind::Unsigned => {
                numbers.push(*time);
            }
            (GatheredValues::Bytes { bytes, ends }, Value::Text(_) | Value::Bytes(_)) => {
                let added = match (kind, value) {
                    (ColumnKind::Text | ColumnKind::Word, Value::Text(text)) => text.as_bytes(),
                    (ColumnKind::Binary, Value::Bytes(added)) => added,
                    (ColumnKind::Digest(length), Value::Bytes(added)) if added.len() == *length => added,
                    _ => return Err(format!("a value of {name} is of another type or length")),
                };
                bytes.extend_from_slice(added);
                ends.push(bytes.len());
                bytes_taken = added.len();
            }
            (GatheredValues::Ranges { repeats, offsets, lengths }, Value::Ranges(ranges)) => {
                for (number, range) in ranges.iter().enumerate() {
                    let length = range.end.checked_sub(range.start);
                    let length = length.ok_or_else(|| format!("a range of {name} ends before it begins"))?;
                    offsets.push(range.start.cast_signed());
                    lengths.push(length.cast_signed());
                    repeats.push(i16::from(number > 0));
                    self.levels.push(level + 1);
                }
                if ranges.is_empty() {
                    repeats.push(0);
                    self.levels.push(level);
                }
                return Ok(size_of_val(*ranges));
            }
            _ => return Err(format!("a value of {name} is of another type")),
        }
        if !is_required {
            self.levels.push(level);
        }
        Ok(bytes_taken)
    }

    /// Writes what was gathered as the next column of a group, and begins anew.
    pub(crate) fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        let levels = (!self.levels.is_empty()).then_some(&self.levels[..]);
        match &mut self.values {
            GatheredValues::Flags(flags) => {
                next::<BoolType>(group, flags, levels, None)?;
                flags.clear();
            }
            GatheredValues::Numbers(numbers) => {
                next::<Int64Type>(group, numbers, levels, None)?;
                numbers.clear();
            }
            GatheredValues::Bytes { bytes, ends } => {
                let values = Split { bytes: mem::take(bytes).into(), ends: mem::take(ends) };
                match self.column.kind {
                    ColumnKind::Digest(_) => values.write::<FixedLenByteArrayType>(group, levels)?,
                    _ => values.write::<ByteArrayType>(group, levels)?,
                }
            }
            GatheredValues::Ranges { repeats, offsets, lengths } => {
                next::<Int64Type>(group, offsets, levels, Some(repeats))?;
                next::<Int64Type>(group, lengths, levels, Some(repeats))?;
                repeats.clear();
                offsets.clear();
                lengths.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}

/// Values one after the other, and where each ends.
struct Split {
    bytes: ByteArray,
    ends: Vec<usize>,
}

impl Split {
    /// Writes them as the next column of a group. A value of the library takes four times the room of an end, so few
    /// are made at once.
    fn write<T: DataType<T: From<ByteArray>>>(
        self,
        group: &mut SerializedRowGroupWriter<'_, File>,
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        const AT_ONCE: usize = 1024;
        let Split { bytes, ends } = self;
        let mut column = column(group)?;
        let mut start = 0;
        let mut split = |ends: &[usize]| {
            let values = ends.iter().map(|end| {
                let value = bytes.slice(start, end - start);
                start = *end;
                T::T::from(value)
            });
            values.collect::<Vec<_>>()
        };
        let writer = column.typed::<T>();
        match levels {
            None => {
                for ends in ends.chunks(AT_ONCE) {
                    writer.write_batch(&split(ends), None, None)?;
                }
            }
            Some(levels) => {
                let mut ends = &ends[..];
                for levels in levels.chunks(AT_ONCE) {
                    let (here, left) = ends.split_at(levels.iter().filter(|level| **level > 0).count());
                    writer.write_batch(&split(here), Some(levels), None)?;
                    ends = left;
                }
            }
        }
        column.close()
    }
}

/// Writes the next column of a group.
fn next<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
    repeats: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = column(group)?;
    column.typed::<T>().write_batch(values, levels, repeats)?;
    column.close()
}

fn column<'a>(
    group: &'a mut SerializedRowGroupWriter<'_, File>,
) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    let column = group.next_column()?;
    column.ok_or_else(|| ParquetError::General("it has too few columns".to_string()))
}
