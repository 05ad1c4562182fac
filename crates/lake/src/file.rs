//! Atomic writing of Parquet files.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::{io, mem};

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use verisum_files::Replacement;

use crate::gathered::Gathered;
use crate::table::{self, Column, ColumnKind, Value};
use crate::{LakeError, Result};

/// Rows of a group. What looks for few rows reads whole groups.
const GROUP: usize = 120 << 10;

/// Text and bytes of a group. Two groups are in memory: one is gathered while the one before is packed.
const GROUP_BYTES: usize = 32 << 20;

/// Rows of a page: whoever merges many parts holds a page of each column of each part.
const PAGE: usize = 8 << 10;

/// How many groups that lack a digest are taken for ones that have it, as a share.
const FALSE_FINDS: f64 = 0.01;

/// A Parquet file that is being written. It takes its name when all of it is safely on the disk; until then
/// nobody sees it, and when it is dropped nothing is left of it. Nor is when the process is killed, on file systems
/// that have files without names; on others a file `NAME.RANDOM.new` is.
pub struct ParquetFile {
    path: PathBuf,
    replacement: Replacement,
    columns: Vec<Gathered>,
    rows: usize,
    bytes: usize,
    packer: PackerState,
}

/// Packs groups of rows into a file.
struct Packer {
    writer: SerializedFileWriter<File>,
    /// Those of the group to pack, and once it is packed, empty ones for a group to come.
    columns: Vec<Gathered>,
}

enum PackerState {
    Waits(Packer),
    Runs(JoinHandle<Result<Packer, ParquetError>>),
    Failed,
}

impl ParquetFile {
    /// Begins a file of this name with these columns. What is there is left alone until
    /// [`finish`](ParquetFile::finish).
    ///
    /// # Errors
    /// Those of [`Replacement::new`], and a digest that is longer than Parquet can say.
    pub fn create(path: &Path, columns: &[Column]) -> Result<ParquetFile> {
        ParquetFile::over(path, Replacement::new(path)?, columns, &[])
    }

    /// Begins a part with this mode.
    pub(crate) fn part(
        path: &Path,
        columns: &[Column],
        mode: u32,
        metadata: &[(&str, &str)],
    ) -> Result<ParquetFile> {
        let replacement = Replacement::private(path)?;
        let permitted = replacement.file().set_permissions(Permissions::from_mode(mode));
        permitted.map_err(|error| LakeError::io(path, "create", error))?;
        ParquetFile::over(path, replacement, columns, metadata)
    }

    fn over(
        path: &Path,
        replacement: Replacement,
        columns: &[Column],
        metadata: &[(&str, &str)],
    ) -> Result<ParquetFile> {
        let file = replacement.file().try_clone().map_err(|error| LakeError::io(path, "create", error))?;
        let properties = Arc::new(properties(columns, metadata));
        let writer =
            table::parquet(columns).and_then(|schema| SerializedFileWriter::new(file, schema, properties));
        let writer = writer.map_err(|error| LakeError::writing(path, error))?;
        let gathered = || columns.iter().cloned().map(Gathered::new).collect();
        Ok(ParquetFile {
            path: path.to_path_buf(),
            replacement,
            columns: gathered(),
            rows: 0,
            bytes: 0,
            packer: PackerState::Waits(Packer { writer, columns: gathered() }),
        })
    }

    /// Writes a row, which has a value for each column.
    ///
    /// # Errors
    /// The disk is full or fails, which a later row may tell, or a value is of another type than its column. The file
    /// cannot be written any further then.
    pub fn write(&mut self, row: &[Value<'_>]) -> Result<()> {
        let wrong = |why| LakeError::Row { path: self.path.clone(), why };
        if row.len() != self.columns.len() {
            return Err(wrong(format!("a row has {} values for {} columns", row.len(), self.columns.len())));
        }
        for (column, value) in self.columns.iter_mut().zip(row) {
            self.bytes += column.add(value).map_err(wrong)?;
        }
        self.rows += 1;
        if self.rows == GROUP || self.bytes >= GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The disk is full or fails; then nothing is left behind.
    pub fn finish(mut self) -> Result<()> {
        let mut packer = self.packer()?;
        let packed = if self.rows == 0 { Ok(()) } else { packer.pack() };
        let closed = packed.and_then(|()| packer.writer.close());
        closed.map_err(|error| LakeError::writing(&self.path, error))?;
        Ok(self.replacement.place()?)
    }

    /// Has the gathered rows packed on a thread of their own, or here if none can be started.
    fn flush(&mut self) -> Result<()> {
        let packer = self.packer()?;
        let (give, take) = mpsc::sync_channel(1);
        let pack = |mut packer: Packer| packer.pack().map(|()| packer);
        let work = move || pack(take.recv().map_err(|error| ParquetError::General(error.to_string()))?);
        self.packer = match Builder::new().name("pack".to_string()).spawn(work) {
            Ok(thread) => {
                // Nothing ends the thread before it has taken it.
                let _ = give.send(packer);
                PackerState::Runs(thread)
            }
            Err(_) => {
                let packed = pack(packer);
                PackerState::Waits(packed.map_err(|error| LakeError::writing(&self.path, error))?)
            }
        };
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Takes the packer, when it has packed the group before, and exchanges its empty columns for the full ones.
    fn packer(&mut self) -> Result<Packer> {
        let packed = match mem::replace(&mut self.packer, PackerState::Failed) {
            PackerState::Waits(packer) => Ok(packer),
            PackerState::Runs(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            PackerState::Failed => Err(io::Error::other("it failed before").into()),
        };
        let mut packer = packed.map_err(|error| LakeError::writing(&self.path, error))?;
        mem::swap(&mut packer.columns, &mut self.columns);
        Ok(packer)
    }
}

impl Packer {
    fn pack(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        group.close().map(drop)
    }
}

/// How each column is written: what compresses is compressed, and what comes again and again is written once.
fn properties(columns: &[Column], metadata: &[(&str, &str)]) -> WriterProperties {
    let metadata =
        metadata.iter().map(|(key, value)| KeyValue::new((*key).to_string(), (*value).to_string()));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("verisum {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata.collect()))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_row_count_limit(PAGE)
        .set_write_batch_size(1024)
        // Whoever skips pages by their limits gains little over skipping groups, and all others read the limits.
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in columns {
        properties = encoded(properties, ColumnPath::from(column.name.as_str()), column.kind);
    }
    properties.build()
}

fn encoded(
    properties: WriterPropertiesBuilder,
    name: ColumnPath,
    kind: ColumnKind,
) -> WriterPropertiesBuilder {
    match kind {
        ColumnKind::Digest(_) => properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_compression(name.clone(), Compression::UNCOMPRESSED)
            .set_column_bloom_filter_enabled(name.clone(), true)
            .set_column_bloom_filter_fpp(name.clone(), FALSE_FINDS)
            .set_column_bloom_filter_max_ndv(name, GROUP as u64),
        ColumnKind::Unsigned | ColumnKind::Milliseconds | ColumnKind::Nanoseconds => properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_encoding(name, Encoding::DELTA_BINARY_PACKED),
        ColumnKind::Text | ColumnKind::Binary => properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_encoding(name, Encoding::DELTA_BYTE_ARRAY),
        ColumnKind::Flag | ColumnKind::Word | ColumnKind::Ranges => properties,
    }
}
