//! Reads Parquet files of a lake, also those that another program wrote.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use verisum_files::decoded;
use verisum_files::parquet_page::require_short_pages;

use crate::table::Column;
use crate::{LakeError, Result};

/// The key of the version in a part's metadata.
pub(crate) const VERSION_KEY: &str = "verisum.lake";

/// The version of the layout.
pub(crate) const VERSION: &str = "1";

/// The longest footer, in bytes. It has some hundred bytes for each column of each group.
const MOST_FOOTER: u32 = 64 << 20;

/// Rows that are taken from the file at once.
const BATCH: usize = 1024;

/// The rows of a file, one at a time. Columns are named by their number in the table.
pub(crate) struct TableReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    /// The columns of the file that are read, and for each column of the table the first of these that it is.
    found: Vec<usize>,
    first: Vec<usize>,
    /// The next group of the file.
    group: usize,
    /// How far each column is read. None before the first group.
    cursors: Vec<Cursor>,
    /// Rows of the group that are still to come.
    left: usize,
    /// The rows that were taken from it: how many, and which of them comes next.
    taken: usize,
    next: usize,
}

/// A column of a group that is being read.
struct Cursor {
    values: ReadValues,
    /// The level of a value that is there.
    most: i16,
    /// How much there is of each value, and whether it is in the list of the one before.
    levels: Vec<i16>,
    repeats: Vec<i16>,
    rows: Vec<CursorRow>,
}

/// What a column has in a row.
struct CursorRow {
    /// The end of its values, which begin where those of the row before end.
    end: usize,
    /// How much there is of the one of which there is least.
    level: i16,
}

enum ReadValues {
    Numbers(ColumnReaderImpl<Int64Type>, Vec<i64>),
    Bytes(ColumnReaderImpl<ByteArrayType>, Vec<ByteArray>),
    Fixed(ColumnReaderImpl<FixedLenByteArrayType>, Vec<FixedLenByteArray>),
}

impl TableReader {
    /// Opens a file, and checks that it has these columns. More columns do no harm.
    pub(crate) fn open(path: &Path, table: &[Column]) -> Result<TableReader> {
        // Whoever opens a pipe waits for its other end.
        if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return Err(LakeError::part(path, "it is no regular file"));
        }
        let file = File::open(path).map_err(|error| LakeError::io(path, "open", error))?;
        require_short_footer(path, &file)?;
        let same = file.try_clone().map_err(|error| LakeError::io(path, "open", error))?;
        let file = decode(path, || SerializedFileReader::new(file))?;
        let file = file.map_err(|error| LakeError::reading(path, error))?;
        require_version(path, file.metadata())?;
        require_rows(path, file.metadata())?;
        let columns = file.metadata().file_metadata().schema_descr().columns();
        let (mut found, mut first) = (Vec::new(), Vec::new());
        for column in table {
            first.push(found.len());
            found.extend(column.find(columns).map_err(|why| LakeError::part(path, why))?);
        }
        for group in file.metadata().row_groups() {
            let read: Vec<_> = found.iter().filter_map(|at| group.columns().get(*at)).collect();
            decode(path, || require_bounded(path, &same, &read))??;
        }
        let path = path.to_path_buf();
        Ok(TableReader {
            path,
            file,
            found,
            first,
            group: 0,
            cursors: Vec::new(),
            left: 0,
            taken: 0,
            next: 0,
        })
    }

    /// The file's name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says of a column in each of its groups.
    pub(crate) fn groups(&self, column: usize) -> impl Iterator<Item = &ColumnChunkMetaData> {
        let at = self.first.get(column).and_then(|first| self.found.get(*first)).copied();
        let groups = self.file.metadata().row_groups().iter();
        groups.filter_map(move |group| group.columns().get(at?))
    }

    /// Goes on to the next row, and says whether there is one.
    pub(crate) fn next_row(&mut self) -> Result<bool> {
        while self.next == self.taken {
            let path = self.path.clone();
            let found = decode(&path, || self.take())?;
            if !found.map_err(|error| LakeError::reading(&path, error))? {
                return Ok(false);
            }
            if self.cursors.iter().any(|cursor| cursor.rows.len() != self.taken) {
                return Err(LakeError::part(&path, "its columns are not of the same length"));
            }
        }
        self.next += 1;
        Ok(true)
    }

    /// A number or a time of the present row.
    pub(crate) fn number(&self, column: usize) -> Option<i64> {
        let cursor = self.cursor(column)?;
        match &cursor.values {
            ReadValues::Numbers(_, numbers) => numbers.get(cursor.value(self.present()?)?).copied(),
            ReadValues::Bytes(..) | ReadValues::Fixed(..) => None,
        }
    }

    /// Bytes of the present row, also those of text.
    pub(crate) fn bytes(&self, column: usize) -> Option<&[u8]> {
        let cursor = self.cursor(column)?;
        match &cursor.values {
            ReadValues::Bytes(_, values) => values.get(cursor.value(self.present()?)?).map(ByteArray::data),
            ReadValues::Fixed(_, values) => {
                values.get(cursor.value(self.present()?)?).map(|value| value.data())
            }
            ReadValues::Numbers(..) => None,
        }
    }

    /// The present row, of those that were taken.
    fn present(&self) -> Option<usize> {
        self.next.checked_sub(1)
    }

    fn cursor(&self, column: usize) -> Option<&Cursor> {
        self.cursors.get(*self.first.get(column)?)
    }

    /// A text of the present row.
    pub(crate) fn text(&self, column: usize) -> Result<Option<&str>, String> {
        let text = self.bytes(column).map(std::str::from_utf8);
        text.transpose().map_err(|_| "a text is not UTF-8".to_string())
    }

    /// Ranges of the present row.
    pub(crate) fn ranges(&self, column: usize) -> Result<Option<Vec<Range<u64>>>, String> {
        let none = || "a range of bytes makes no sense".to_string();
        let cursors = self.first.get(column).and_then(|first| self.cursors.get(*first..*first + 2));
        let Some([offsets, lengths]) = cursors else { return Err(none()) };
        let row = self.present().ok_or_else(none)?;
        let (offsets, lengths) = (offsets.list(row).ok_or_else(none)?, lengths.list(row).ok_or_else(none)?);
        let (Some(offsets), Some(lengths)) = (offsets, lengths) else { return Ok(None) };
        let range = |(offset, length): (&i64, &i64)| {
            let offset = offset.cast_unsigned();
            Some(offset..offset.checked_add(length.cast_unsigned())?)
        };
        if offsets.len() != lengths.len() {
            return Err(none());
        }
        offsets.iter().zip(lengths).map(range).collect::<Option<_>>().map(Some).ok_or_else(none)
    }

    /// Takes some rows from the file, and says whether there were any left. Groups may be empty.
    fn take(&mut self) -> Result<bool, ParquetError> {
        if self.left == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.group)?;
            self.group += 1;
            self.left = usize::try_from(group.metadata().num_rows())?;
            let open = |at: &usize| {
                Cursor::new(group.get_column_reader(*at)?, group.metadata().column(*at).column_descr())
            };
            self.cursors = self.found.iter().map(open).collect::<Result<_, ParquetError>>()?;
        }
        (self.taken, self.next) = (self.left.min(BATCH), 0);
        self.left -= self.taken;
        self.cursors.iter_mut().try_for_each(|cursor| cursor.take(self.taken))?;
        Ok(true)
    }
}

impl Cursor {
    fn new(reader: ColumnReader, about: &ColumnDescriptor) -> Result<Cursor, ParquetError> {
        let values = match reader {
            ColumnReader::Int64ColumnReader(reader) => ReadValues::Numbers(reader, Vec::new()),
            ColumnReader::ByteArrayColumnReader(reader) => ReadValues::Bytes(reader, Vec::new()),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => ReadValues::Fixed(reader, Vec::new()),
            _ => return Err(ParquetError::General("a column is of another type".to_string())),
        };
        Ok(Cursor {
            values,
            most: about.max_def_level(),
            levels: Vec::new(),
            repeats: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Takes this many rows from the file, in place of those before.
    fn take(&mut self, rows: usize) -> Result<(), ParquetError> {
        let Cursor { values, most, levels, repeats, .. } = self;
        levels.clear();
        repeats.clear();
        let count = match values {
            ReadValues::Numbers(reader, values) => take(reader, rows, (levels, repeats), values)?,
            ReadValues::Bytes(reader, values) => take(reader, rows, (levels, repeats), values)?,
            ReadValues::Fixed(reader, values) => take(reader, rows, (levels, repeats), values)?,
        };
        if *most == 0 {
            levels.resize(count, 0);
        }
        self.rows.clear();
        let mut end = 0;
        for (at, level) in self.levels.iter().enumerate() {
            end += usize::from(level == most);
            match self.rows.last_mut().filter(|_| self.repeats.get(at).is_some_and(|repeat| *repeat > 0)) {
                Some(list) => {
                    list.end = end;
                    list.level = list.level.min(*level);
                }
                None => self.rows.push(CursorRow { end, level: *level }),
            }
        }
        Ok(())
    }

    /// Where the values of a row are.
    fn row(&self, row: usize) -> Option<Range<usize>> {
        let begin =
            row.checked_sub(1).and_then(|before| self.rows.get(before)).map_or(0, |before| before.end);
        Some(begin..self.rows.get(row)?.end)
    }

    /// Where the value of a row is, if there is one.
    fn value(&self, row: usize) -> Option<usize> {
        self.row(row).filter(|values| !values.is_empty()).map(|values| values.start)
    }

    /// The numbers of a row: none within if there is no list, none if one of them is missing.
    fn list(&self, row: usize) -> Option<Option<&[i64]>> {
        let ReadValues::Numbers(_, numbers) = &self.values else { return None };
        let level = self.rows.get(row)?.level;
        let numbers = numbers.get(self.row(row)?)?;
        match level {
            0 if self.most > 0 => Some(None),
            1 if numbers.is_empty() => Some(Some(numbers)),
            level => (level == self.most).then_some(Some(numbers)),
        }
    }
}

/// Takes this many rows of a column from the file, and says how many values there are with those that are missing.
fn take<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    (levels, repeats): (&mut Vec<i16>, &mut Vec<i16>),
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    values.clear();
    let (_, _, count) = reader.read_records(rows, Some(levels), Some(repeats), values)?;
    Ok(count)
}

/// Calls the library, which panics at some damaged bytes. What it worked on is not used again then.
fn decode<T>(path: &Path, call: impl FnOnce() -> T) -> Result<T> {
    decoded(call).ok_or_else(|| LakeError::part(path, "its bytes make no sense"))
}

/// Fails if what the file says of itself, or a page of these columns, would take much memory, or needs another way to
/// unpack it than what other programs write here.
fn require_bounded(path: &Path, file: &File, columns: &[&ColumnChunkMetaData]) -> Result<()> {
    for column in columns {
        match column.compression() {
            Compression::UNCOMPRESSED | Compression::ZSTD(_) => {}
            Compression::SNAPPY => {
                let (start, length) = column.byte_range();
                require_short_pages(file, (start, start.saturating_add(length)))
                    .map_err(|error| LakeError::reading(path, ParquetError::External(error.into())))?;
            }
            other => {
                // Its level is of no use here.
                let name = other.to_string().split('(').next().unwrap_or_default().to_string();
                let why = format!("it is compressed with {name}, and not with zstd or snappy");
                return Err(LakeError::part(path, why));
            }
        }
    }
    Ok(())
}

/// Fails if a file says that what it says of itself is very long.
fn require_short_footer(path: &Path, file: &File) -> Result<()> {
    let mut length = [0; 4];
    let end = file.metadata().map_err(|error| LakeError::io(path, "open", error))?.len();
    // Whoever reads it tells what a shorter file is.
    let read = end.checked_sub(8).map(|at| file.read_exact_at(&mut length, at));
    read.transpose().map_err(|error| LakeError::io(path, "read", error))?;
    match u32::from_le_bytes(length) > MOST_FOOTER {
        true => Err(LakeError::part(path, "its footer is too long")),
        false => Ok(()),
    }
}

fn require_version(path: &Path, metadata: &ParquetMetaData) -> Result<()> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let pair = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == VERSION_KEY));
    match pair.and_then(|pair| pair.value.as_deref()) {
        Some(VERSION) => Ok(()),
        Some(other) => {
            Err(LakeError::part(path, format!("its version is {other}, and this program knows {VERSION}")))
        }
        None => Err(LakeError::part(path, format!("its metadata has no {VERSION_KEY}"))),
    }
}

/// Fails unless the groups have as many rows as the file.
fn require_rows(path: &Path, metadata: &ParquetMetaData) -> Result<()> {
    let rows = metadata.row_groups().iter().try_fold(0, |sum: i64, group| sum.checked_add(group.num_rows()));
    match rows == Some(metadata.file_metadata().num_rows()) {
        true => Ok(()),
        false => Err(LakeError::part(path, "its groups have other rows than it says")),
    }
}

/// The path of a row below its place: text, or bytes that are none.
pub(crate) fn path_of(text: Option<&str>, bytes: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let path = match (text, bytes) {
        (Some(text), None) => text.as_bytes(),
        (None, Some(bytes)) => bytes,
        _ => return Err("a row has no path, or two".to_string()),
    };
    let is_plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    match path.split(|byte| *byte == b'/').all(is_plain) {
        true => Ok(path.to_vec()),
        false => Err(format!("an impossible path below a place: {}", String::from_utf8_lossy(path))),
    }
}
