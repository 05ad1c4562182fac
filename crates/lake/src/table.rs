//! Tables as Parquet has them: the columns with their types, and the values of a row.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};

/// A column of a table. Its values may be null, unless it is [`required`](Column::required).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnKind,
    /// Whether each row has a value.
    pub is_required: bool,
}

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnKind {
    /// True or false.
    Flag,
    /// Integers without a sign, of 64 bits.
    Unsigned,
    /// Milliseconds since 1970, in UTC.
    Milliseconds,
    /// Nanoseconds since 1970, in UTC.
    Nanoseconds,
    /// Text.
    Text,
    /// Text of few words that come again and again. Each group of rows holds a word once.
    Word,
    /// Bytes.
    Binary,
    /// Exactly so many bytes in each row. A Bloom filter tells which groups of rows may have a value.
    Digest(usize),
    /// Lists of ranges of bytes, each an `offset` and a `length`.
    Ranges,
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// None.
    Null,
    /// Of a column of [`Flag`](ColumnKind::Flag)s.
    Flag(bool),
    /// Of a column of [`Unsigned`](ColumnKind::Unsigned) integers.
    Unsigned(u64),
    /// Of a column of [`Milliseconds`](ColumnKind::Milliseconds) or [`Nanoseconds`](ColumnKind::Nanoseconds).
    Time(i64),
    /// Of a column of [`Text`](ColumnKind::Text)s or [`Word`](ColumnKind::Word)s.
    Text(&'a str),
    /// Of a column of [`Binary`](ColumnKind::Binary) values or [`Digest`](ColumnKind::Digest)s.
    Bytes(&'a [u8]),
    /// Of a column of [`Ranges`](ColumnKind::Ranges).
    Ranges(&'a [Range<u64>]),
}

impl Column {
    /// A column whose values may be null.
    pub fn new(name: impl Into<String>, kind: ColumnKind) -> Column {
        Column { name: name.into(), kind, is_required: false }
    }

    /// The same column with a value in each row.
    pub fn required(self) -> Column {
        Column { is_required: true, ..self }
    }

    /// The column in the schema of a file.
    fn parquet(&self) -> Result<Type, ParquetError> {
        let repetition = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        match self.kind {
            ColumnKind::Ranges => list(&self.name, repetition),
            kind => leaf(&self.name, kind, repetition),
        }
    }

    /// The columns of a file that have the values, by their numbers: one, or those of an offset and a length.
    ///
    /// # Errors
    /// The file does not have them, or of another type. A digest may have any length.
    pub(crate) fn find(&self, columns: &[Arc<ColumnDescriptor>]) -> Result<Vec<usize>, String> {
        let Column { name, kind, .. } = self;
        let find = |last: &str| {
            let is_it = |column: &ColumnDescriptor| {
                let parts = column.path().parts();
                parts.first() == Some(name) && parts.last().is_some_and(|part| part == last)
            };
            columns.iter().position(|column| is_it(column)).ok_or_else(|| format!("it has no column {name}"))
        };
        let is_list = *kind == ColumnKind::Ranges;
        let found = if is_list { vec![find("offset")?, find("length")?] } else { vec![find(name)?] };
        for column in found.iter().map(|at| &columns[*at]) {
            let (levels, lists) = (column.max_def_level(), column.max_rep_level());
            let is_shaped = if is_list { lists == 1 } else { lists == 0 && levels <= 1 };
            if !is_shaped || !kind.is_of(column) {
                return Err(format!("its column {name} is not {}", kind.words()));
            }
        }
        Ok(found)
    }
}

impl ColumnKind {
    /// How a file has the values, or the numbers of ranges.
    fn physical(self) -> Physical {
        match self {
            ColumnKind::Flag => Physical::BOOLEAN,
            ColumnKind::Unsigned
            | ColumnKind::Ranges
            | ColumnKind::Milliseconds
            | ColumnKind::Nanoseconds => Physical::INT64,
            ColumnKind::Text | ColumnKind::Word | ColumnKind::Binary => Physical::BYTE_ARRAY,
            ColumnKind::Digest(_) => Physical::FIXED_LEN_BYTE_ARRAY,
        }
    }

    /// What the values are, in words.
    fn words(self) -> &'static str {
        match self {
            ColumnKind::Flag => "of booleans",
            ColumnKind::Unsigned => "of unsigned integers of 64 bits",
            ColumnKind::Milliseconds => "of timestamps in ms and UTC",
            ColumnKind::Nanoseconds => "of timestamps in ns and UTC",
            ColumnKind::Text | ColumnKind::Word => "of text",
            ColumnKind::Binary => "binary",
            ColumnKind::Digest(_) => "binary of a fixed length",
            ColumnKind::Ranges => "of lists of offsets and lengths",
        }
    }

    /// What a file says that they are.
    fn logical(self) -> Option<LogicalType> {
        match self {
            ColumnKind::Unsigned | ColumnKind::Ranges => Some(LogicalType::integer(64, false)),
            ColumnKind::Milliseconds => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            ColumnKind::Nanoseconds => Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
            ColumnKind::Text | ColumnKind::Word => Some(LogicalType::String),
            ColumnKind::Flag | ColumnKind::Binary | ColumnKind::Digest(_) => None,
        }
    }

    /// Whether a column of a file has values of this type.
    fn is_of(self, column: &ColumnDescriptor) -> bool {
        let wanted = self.logical();
        let is_meant = match column.logical_type_ref() {
            Some(found) => Some(found) == wanted.as_ref(),
            // Old writers say it so.
            None => {
                let converted = ConvertedType::from(wanted.clone());
                column.converted_type() == converted && (converted != ConvertedType::NONE || wanted.is_none())
            }
        };
        column.physical_type() == self.physical() && is_meant
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Unsigned(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl<'a> Value<'a> {
    /// The values of two columns for a name: text where it is text, and its bytes only where it is none.
    pub fn of_name(name: &'a [u8]) -> [Value<'a>; 2] {
        match std::str::from_utf8(name) {
            Ok(text) => [Value::Text(text), Value::Null],
            Err(_) => [Value::Null, Value::Bytes(name)],
        }
    }
}

/// The columns of a table as the schema of a file.
pub(crate) fn parquet(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, _> =
        columns.iter().map(|column| column.parquet().map(Arc::new)).collect();
    Type::group_type_builder("schema").with_fields(fields?).build().map(Arc::new)
}

fn leaf(name: &str, kind: ColumnKind, repetition: Repetition) -> Result<Type, ParquetError> {
    let length = if let ColumnKind::Digest(length) = kind { length as i32 } else { -1 };
    Type::primitive_type_builder(name, kind.physical())
        .with_length(length)
        .with_logical_type(kind.logical())
        .with_repetition(repetition)
        .build()
}

/// A list of ranges, in the three levels that Parquet prescribes.
fn list(name: &str, repetition: Repetition) -> Result<Type, ParquetError> {
    let number = |name| leaf(name, ColumnKind::Ranges, Repetition::REQUIRED).map(Arc::new);
    let group = |name, fields, repetition| {
        Type::group_type_builder(name).with_fields(fields).with_repetition(repetition)
    };
    let range = group("element", vec![number("offset")?, number("length")?], Repetition::REQUIRED).build()?;
    let ranges = group("list", vec![Arc::new(range)], Repetition::REPEATED).build()?;
    group(name, vec![Arc::new(ranges)], repetition).with_logical_type(Some(LogicalType::List)).build()
}
