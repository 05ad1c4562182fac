//! Atomic writing of Parquet files.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use verisum_files::Replacement;

use crate::{LakeError, Result};

/// Rows of a group. What looks for few rows reads whole groups.
const GROUP: usize = 120 << 10;

/// Rows of a page: whoever merges many parts holds a page of each column of each part.
const PAGE: usize = 8 << 10;

/// How many groups that lack a digest are taken for ones that have it, as a share.
const FALSE_FINDS: f64 = 0.01;

/// A Parquet file that is being written. It takes its name when all of it is safely on the disk; until then
/// nobody sees it, and when it is dropped or the process is killed nothing is left of it.
pub struct ParquetFile {
    path: PathBuf,
    replacement: Replacement,
    writer: ArrowWriter<File>,
}

impl ParquetFile {
    /// Begins a file of this name with these columns. What is there is left alone until
    /// [`finish`](ParquetFile::finish).
    ///
    /// Columns of fixed-length binaries are taken for digests, and can be looked up without reading all of them.
    ///
    /// # Errors
    /// Those of [`Replacement::new`], and columns that Parquet does not have.
    pub fn create(path: &Path, schema: SchemaRef) -> Result<ParquetFile> {
        ParquetFile::over(path, Replacement::new(path)?, schema, &[])
    }

    /// Begins a part with this mode.
    pub(crate) fn part(
        path: &Path,
        schema: SchemaRef,
        mode: u32,
        metadata: &[(&str, &str)],
    ) -> Result<ParquetFile> {
        let replacement = Replacement::private(path)?;
        let permitted = replacement.file().set_permissions(Permissions::from_mode(mode));
        permitted.map_err(|error| LakeError::io(path, "create", error))?;
        ParquetFile::over(path, replacement, schema, metadata)
    }

    fn over(
        path: &Path,
        replacement: Replacement,
        schema: SchemaRef,
        metadata: &[(&str, &str)],
    ) -> Result<ParquetFile> {
        let file = replacement.file().try_clone().map_err(|error| LakeError::io(path, "create", error))?;
        let properties = properties(&schema, metadata);
        let writer = ArrowWriter::try_new(file, schema, Some(properties));
        let writer = writer.map_err(|error| LakeError::writing(path, error))?;
        Ok(ParquetFile { path: path.to_path_buf(), replacement, writer })
    }

    /// Writes some rows.
    ///
    /// # Errors
    /// The disk is full or fails, or the batch has other columns.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|error| LakeError::writing(&self.path, error))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The disk is full or fails; then nothing is left behind.
    pub fn finish(self) -> Result<()> {
        let closed = self.writer.close();
        closed.map_err(|error| LakeError::writing(&self.path, error))?;
        Ok(self.replacement.place()?)
    }
}

/// How each column is written: what compresses is compressed, and what comes again and again is written once.
fn properties(schema: &SchemaRef, metadata: &[(&str, &str)]) -> WriterProperties {
    let metadata =
        metadata.iter().map(|(key, value)| KeyValue::new((*key).to_string(), (*value).to_string()));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("verisum {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata.collect()))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP))
        .set_data_page_row_count_limit(PAGE)
        .set_write_batch_size(1024)
        // Whoever skips pages by their limits gains little over skipping groups, and all others read the limits.
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for field in schema.fields() {
        properties = column(properties, ColumnPath::from(field.name().as_str()), field.data_type());
    }
    properties.build()
}

fn column(properties: WriterPropertiesBuilder, name: ColumnPath, data: &DataType) -> WriterPropertiesBuilder {
    match data {
        DataType::FixedSizeBinary(_) => properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_compression(name.clone(), Compression::UNCOMPRESSED)
            .set_column_bloom_filter_enabled(name.clone(), true)
            .set_column_bloom_filter_fpp(name.clone(), FALSE_FINDS)
            .set_column_bloom_filter_max_ndv(name, GROUP as u64),
        DataType::UInt64 | DataType::Timestamp(..) => properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_encoding(name, Encoding::DELTA_BINARY_PACKED),
        DataType::Utf8 | DataType::Binary => properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_encoding(name, Encoding::DELTA_BYTE_ARRAY),
        _ => properties,
    }
}
