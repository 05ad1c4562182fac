//! The history of repairs: a file for each place, which each export writes anew as a whole.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder, TimestampMillisecondBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use verisum_catalog::store::{Catalog, Repair, Root};

use crate::{Error, ParquetFile, Place, Result};

fn schema() -> SchemaRef {
    let field = |name: &str, data: DataType, nullable| Field::new(name, data, nullable);
    Arc::new(Schema::new(vec![
        field("place", DataType::Utf8, false),
        field("path", DataType::Utf8, true),
        field("path_bytes", DataType::Binary, true),
        field("repaired", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        field("was", DataType::Utf8, false),
        field("source", DataType::Utf8, false),
        field("bytes", DataType::UInt64, false),
        field("algorithm", DataType::Utf8, false),
        field("before", DataType::Binary, true),
        field("digest", DataType::Binary, false),
    ]))
}

/// Writes the repairs of a tree, the latest first; no file where there are none.
pub(crate) fn export(
    catalog: &Catalog,
    root: &Root,
    algorithms: &HashMap<i64, Arc<str>>,
    place: &Place,
) -> Result<()> {
    let mut repairs: Vec<(PathBuf, Repair)> = Vec::new();
    catalog.each_repair(root, &mut |path, repair| {
        repairs.push((path, repair));
        Ok::<_, Error>(())
    })?;
    if repairs.is_empty() {
        return Ok(());
    }
    let path = place.repairs()?;
    let batch = batch(root, algorithms, &repairs).map_err(|why| Error::Row { path: path.clone(), why })?;
    let mut file = ParquetFile::part(&path, batch.schema(), place.mode(), &[])?;
    file.write(&batch)?;
    file.finish()
}

fn batch(
    root: &Root,
    algorithms: &HashMap<i64, Arc<str>>,
    repairs: &[(PathBuf, Repair)],
) -> Result<RecordBatch, String> {
    let [mut places, mut paths, mut was, mut sources, mut names] = [(); 5].map(|()| StringBuilder::new());
    let [mut path_bytes, mut before, mut digests] = [(); 3].map(|()| BinaryBuilder::new());
    let mut times = TimestampMillisecondBuilder::new().with_timezone("UTC");
    let mut bytes = UInt64Builder::new();
    for (path, repair) in repairs {
        let below: &Path = path.strip_prefix(&root.path).unwrap_or(path);
        places.append_value(root.path.to_string_lossy());
        paths.append_option(below.to_str());
        path_bytes.append_option(below.to_str().is_none().then(|| below.as_os_str().as_bytes()));
        times.append_value(repair.repaired);
        was.append_value(repair.state.name());
        sources.append_value(repair.source.to_string_lossy());
        bytes.append_value(repair.bytes);
        names.append_value(algorithms.get(&repair.algorithm).ok_or("a repair has an unknown algorithm")?);
        before.append_option(repair.before.as_ref().map(|digest| digest.as_bytes()));
        digests.append_value(repair.digest.as_bytes());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(places.finish()),
        Arc::new(paths.finish()),
        Arc::new(path_bytes.finish()),
        Arc::new(times.finish()),
        Arc::new(was.finish()),
        Arc::new(sources.finish()),
        Arc::new(bytes.finish()),
        Arc::new(names.finish()),
        Arc::new(before.finish()),
        Arc::new(digests.finish()),
    ];
    RecordBatch::try_new(schema(), columns).map_err(|error| error.to_string())
}
