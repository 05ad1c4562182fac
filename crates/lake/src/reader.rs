//! Reads Parquet files of a lake, also those that another program wrote.

use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;

use crate::{LakeError, Result};

/// The key of the version in a part's metadata.
pub(crate) const VERSION_KEY: &str = "verisum.lake";

/// The version of the layout.
pub(crate) const VERSION: &str = "1";

/// Rows that are taken from the file at once.
const BATCH: usize = 1024;

/// The rows of a file, some at a time.
pub(crate) struct Batches {
    reader: ParquetRecordBatchReader,
}

impl Batches {
    /// Opens a file, and checks that it has these columns. A length of fixed-length binaries does not matter.
    pub(crate) fn open(path: &Path, schema: &Schema) -> Result<(Batches, Arc<ParquetMetaData>)> {
        // Whoever opens a pipe waits for its other end.
        if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return Err(LakeError::part(path, "it is no regular file"));
        }
        let file = File::open(path).map_err(|error| LakeError::io(path, "open", error))?;
        // What a writer says of types of its own does not matter.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = decode(path, || ArrowReaderMetadata::load(&file, options))?;
        let metadata = metadata.map_err(|error| LakeError::reading(path, error))?;
        require_version(path, metadata.metadata())?;
        require_columns(path, &metadata, schema)?;
        let parquet = metadata.metadata().clone();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let mask = ProjectionMask::columns(parquet.file_metadata().schema_descr(), names);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let builder = builder.with_batch_size(BATCH).with_projection(mask);
        let reader = decode(path, || builder.build())?;
        let reader = reader.map_err(|error| LakeError::reading(path, error))?;
        Ok((Batches { reader }, parquet))
    }

    /// The next rows of the file, which has this path.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Option<RecordBatch>> {
        let batch = decode(path, || self.reader.next())?;
        batch.transpose().map_err(|error| LakeError::part(path, error.to_string()))
    }
}

/// Calls the library, which panics at some damaged bytes. What it worked on is not used again then.
fn decode<T>(path: &Path, call: impl FnOnce() -> T) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(call))
        .map_err(|_| LakeError::part(path, "its bytes make no sense"))
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

/// Fails unless each column of a part is there, and of its type. More columns do no harm.
fn require_columns(path: &Path, metadata: &ArrowReaderMetadata, schema: &Schema) -> Result<()> {
    for wanted in schema.fields() {
        let name = wanted.name();
        let found = metadata.schema().field_with_name(name);
        let found = found.map_err(|_| LakeError::part(path, format!("it has no column {name}")))?;
        let is_right = match (wanted.data_type(), found.data_type()) {
            (DataType::FixedSizeBinary(_), DataType::FixedSizeBinary(_)) => true,
            (DataType::Dictionary(_, wanted), found) => **wanted == *found,
            (wanted, found) => wanted == found,
        };
        if !is_right {
            let found = found.data_type();
            return Err(LakeError::part(path, format!("its column {name} is of the type {found}")));
        }
    }
    Ok(())
}

/// A column as what its type says that it is.
pub(crate) fn array<A: Array + Clone + 'static>(batch: &RecordBatch, name: &str) -> Result<A, String> {
    let column = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<A>());
    column.cloned().ok_or_else(|| format!("it has no column {name} of the right type"))
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
        false => Err(format!("a path leads out of its place: {}", String::from_utf8_lossy(path))),
    }
}
