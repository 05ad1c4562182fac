//! The history of repairs: each place has a folder of files that never change.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, StringBuilder, StructBuilder, TimestampMillisecondBuilder, UInt64Builder,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray, StructArray,
    TimestampMillisecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use verisum_catalog::store::{Catalog, Moment, RecordImport, Repair, RepairToImport, Root, State};
use verisum_digest::Output;

use crate::reader::{Batches, VERSION, VERSION_KEY, array, path_of};
use crate::{LakeError, LakeTree, ParquetFile, Result};

fn range_fields() -> Fields {
    let field = |name: &str| Field::new(name, DataType::UInt64, true);
    vec![field("offset"), field("length")].into()
}

fn schema() -> SchemaRef {
    let field = |name: &str, data: DataType, nullable| Field::new(name, data, nullable);
    let range = Field::new("item", DataType::Struct(range_fields()), true);
    Arc::new(Schema::new(vec![
        field("place", DataType::Utf8, false),
        field("path", DataType::Utf8, true),
        field("path_bytes", DataType::Binary, true),
        field("repaired", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        field("was", DataType::Utf8, false),
        field("source", DataType::Utf8, true),
        field("source_bytes", DataType::Binary, true),
        field("bytes", DataType::UInt64, false),
        field("algorithm", DataType::Utf8, false),
        field("before", DataType::Binary, true),
        field("digest", DataType::Binary, false),
        field("ranges", DataType::List(Arc::new(range)), true),
    ]))
}

/// A repair as a lake has it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RepairRow {
    path: Vec<u8>,
    repaired: Moment,
    was: String,
    source: Vec<u8>,
    bytes: u64,
    algorithm: String,
    before: Option<Vec<u8>>,
    digest: Vec<u8>,
    ranges: Option<Vec<Range<u64>>>,
}

/// Writes those repairs of a tree that the lake does not have, the earliest first; no file where there are none.
pub(crate) fn export(
    catalog: &Catalog,
    root: &Root,
    algorithms: &HashMap<i64, Arc<str>>,
    place: &LakeTree,
    now: Moment,
) -> Result<()> {
    let mut repairs: Vec<(PathBuf, Repair)> = Vec::new();
    catalog.each_repair(root, &mut |path, repair| {
        repairs.push((path, repair));
        Ok::<_, LakeError>(())
    })?;
    if repairs.is_empty() {
        return Ok(());
    }
    let mut known = HashSet::new();
    for part in place.repairs()? {
        each(&part, &mut |row| {
            known.insert(row);
            Ok(())
        })?;
    }
    let unnamed = || LakeError::Row {
        path: catalog.path().to_path_buf(),
        why: "a repair has an unknown algorithm".to_string(),
    };
    let mut rows = Vec::new();
    for (path, repair) in repairs.into_iter().rev() {
        let algorithm = algorithms.get(&repair.algorithm).ok_or_else(unnamed)?;
        let row = row(path.strip_prefix(&root.path).unwrap_or(&path), &repair, algorithm);
        if !known.contains(&row) {
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let path = place.new_repairs(now)?;
    let batch = batch(root, &rows).map_err(|why| LakeError::Row { path: path.clone(), why })?;
    let mut file = ParquetFile::part(&path, batch.schema(), place.mode(), &[(VERSION_KEY, VERSION)])?;
    file.write(&batch)?;
    file.finish()
}

/// Takes in the repairs of a place, into the tree that was named last.
pub(crate) fn import(import: &mut RecordImport, place: &LakeTree) -> Result<()> {
    for part in place.repairs()? {
        each(&part, &mut |row| {
            let repair = RepairToImport {
                path: Path::new(OsStr::from_bytes(&row.path)),
                repaired: row.repaired,
                state: State::find(&row.was)
                    .ok_or_else(|| LakeError::part(&part, format!("an unknown state: {}", row.was)))?,
                source: OsString::from_vec(row.source).into(),
                bytes: row.bytes,
                algorithm: &row.algorithm,
                before: row.before.as_deref().map(|bytes| output(&part, bytes)).transpose()?,
                digest: output(&part, &row.digest)?,
                ranges: row.ranges,
            };
            let path = repair.path.display().to_string();
            import.repair(repair)?.map_err(|why| LakeError::part(&part, format!("{path}: {why}")))
        })?;
    }
    Ok(())
}

fn output(part: &Path, bytes: &[u8]) -> Result<Output> {
    Output::from_bytes(bytes).ok_or_else(|| LakeError::part(part, "a digest of an impossible length"))
}

fn row(path: &Path, repair: &Repair, algorithm: &str) -> RepairRow {
    RepairRow {
        path: path.as_os_str().as_bytes().to_vec(),
        repaired: repair.repaired,
        was: repair.state.name().to_string(),
        source: repair.source.as_os_str().as_bytes().to_vec(),
        bytes: repair.bytes,
        algorithm: algorithm.to_string(),
        before: repair.before.as_ref().map(|digest| digest.as_bytes().to_vec()),
        digest: repair.digest.as_bytes().to_vec(),
        ranges: repair.ranges.clone(),
    }
}

/// Calls `take` for the repairs of a file, in its order.
fn each(path: &Path, take: &mut dyn FnMut(RepairRow) -> Result<()>) -> Result<()> {
    let (mut batches, _) = Batches::open(path, &schema())?;
    while let Some(batch) = batches.read(path)? {
        let columns = RepairColumns::new(&batch).map_err(|why| LakeError::part(path, why))?;
        for at in 0..batch.num_rows() {
            take(columns.row(at).map_err(|why| LakeError::part(path, why))?)?;
        }
    }
    Ok(())
}

/// Some repairs, column by column.
struct RepairColumns {
    path: StringArray,
    path_bytes: BinaryArray,
    repaired: TimestampMillisecondArray,
    was: StringArray,
    source: StringArray,
    source_bytes: BinaryArray,
    bytes: UInt64Array,
    algorithm: StringArray,
    before: BinaryArray,
    digest: BinaryArray,
    ranges: ListArray,
}

impl RepairColumns {
    fn new(batch: &RecordBatch) -> Result<RepairColumns, String> {
        Ok(RepairColumns {
            path: array(batch, "path")?,
            path_bytes: array(batch, "path_bytes")?,
            repaired: array(batch, "repaired")?,
            was: array(batch, "was")?,
            source: array(batch, "source")?,
            source_bytes: array(batch, "source_bytes")?,
            bytes: array(batch, "bytes")?,
            algorithm: array(batch, "algorithm")?,
            before: array(batch, "before")?,
            digest: array(batch, "digest")?,
            ranges: array(batch, "ranges")?,
        })
    }

    fn row(&self, at: usize) -> Result<RepairRow, String> {
        let text = |column: &StringArray| column.is_valid(at).then(|| column.value(at).to_string());
        let binary = |column: &BinaryArray| column.is_valid(at).then(|| column.value(at).to_vec());
        let source = text(&self.source).map(String::into_bytes).or_else(|| binary(&self.source_bytes));
        let source = source.filter(|source| !source.is_empty() && !source.contains(&0));
        let lacks = |name: &str| format!("a repair has no {name}");
        Ok(RepairRow {
            path: path_of(text(&self.path).as_deref(), binary(&self.path_bytes).as_deref())?,
            repaired: self
                .repaired
                .is_valid(at)
                .then(|| Moment::of_milliseconds(self.repaired.value(at)))
                .ok_or_else(|| lacks("time"))?,
            was: text(&self.was).ok_or_else(|| lacks("state"))?,
            source: source.ok_or_else(|| lacks("source"))?,
            bytes: self.bytes.is_valid(at).then(|| self.bytes.value(at)).ok_or_else(|| lacks("length"))?,
            algorithm: text(&self.algorithm).ok_or_else(|| lacks("algorithm"))?,
            before: binary(&self.before),
            digest: binary(&self.digest).ok_or_else(|| lacks("digest"))?,
            ranges: self.ranges.is_valid(at).then(|| ranges(&self.ranges.value(at))).transpose()?,
        })
    }
}

/// The ranges of a repair.
fn ranges(list: &ArrayRef) -> Result<Vec<Range<u64>>, String> {
    let no_range = || "a repair has a range that is none".to_string();
    let list = list.as_any().downcast_ref::<StructArray>().ok_or_else(no_range)?;
    let numbers = |name: &str| {
        let column =
            list.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<UInt64Array>());
        column.filter(|column| column.null_count() == 0).ok_or_else(no_range)
    };
    let (offsets, lengths) = (numbers("offset")?, numbers("length")?);
    let range = |(offset, length): (&u64, &u64)| Some(*offset..offset.checked_add(*length)?);
    let ranges = offsets.values().iter().zip(lengths.values()).map(range).collect::<Option<_>>();
    ranges.ok_or_else(no_range)
}

fn batch(root: &Root, rows: &[RepairRow]) -> Result<RecordBatch, String> {
    let [mut places, mut paths, mut was, mut sources, mut names] = [(); 5].map(|()| StringBuilder::new());
    let [mut path_bytes, mut source_bytes, mut before, mut digests] = [(); 4].map(|()| BinaryBuilder::new());
    let mut times = TimestampMillisecondBuilder::new().with_timezone("UTC");
    let mut bytes = UInt64Builder::new();
    let mut ranges = ListBuilder::new(StructBuilder::from_fields(range_fields(), 0));
    for row in rows {
        places.append_value(root.path.to_string_lossy());
        append(&mut paths, &mut path_bytes, &row.path);
        times.append_value(row.repaired.milliseconds());
        was.append_value(&row.was);
        append(&mut sources, &mut source_bytes, &row.source);
        bytes.append_value(row.bytes);
        names.append_value(&row.algorithm);
        before.append_option(row.before.as_deref());
        digests.append_value(&row.digest);
        for range in row.ranges.iter().flatten() {
            for (field, value) in [range.start, range.end - range.start].into_iter().enumerate() {
                let numbers = ranges.values().field_builder::<UInt64Builder>(field);
                numbers.ok_or("a range has no such number")?.append_value(value);
            }
            ranges.values().append(true);
        }
        ranges.append(row.ranges.is_some());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(places.finish()),
        Arc::new(paths.finish()),
        Arc::new(path_bytes.finish()),
        Arc::new(times.finish()),
        Arc::new(was.finish()),
        Arc::new(sources.finish()),
        Arc::new(source_bytes.finish()),
        Arc::new(bytes.finish()),
        Arc::new(names.finish()),
        Arc::new(before.finish()),
        Arc::new(digests.finish()),
        Arc::new(ranges.finish()),
    ];
    RecordBatch::try_new(schema(), columns).map_err(|error| error.to_string())
}

/// Text where it is text, and the bytes only where it is none.
fn append(texts: &mut StringBuilder, bytes: &mut BinaryBuilder, name: &[u8]) {
    let text = std::str::from_utf8(name).ok();
    texts.append_option(text);
    bytes.append_option(text.is_none().then_some(name));
}
