//! The history of repairs: each place has a folder of files that never change.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_catalog::store::{Catalog, Moment, RecordImport, Repair, RepairToImport, Root, State};
use verisum_digest::Output;

use crate::reader::{TableReader, VERSION, VERSION_KEY, path_of};
use crate::table::{Column, ColumnKind, Value};
use crate::{LakeError, LakeTree, ParquetFile, Result};

fn columns() -> [Column; 12] {
    use ColumnKind::{Binary, Milliseconds, Ranges, Text, Unsigned, Word};
    [
        Column::new("place", Word).required(),
        Column::new("path", Text),
        Column::new("path_bytes", Binary),
        Column::new("repaired", Milliseconds).required(),
        Column::new("was", Word).required(),
        Column::new("source", Text),
        Column::new("source_bytes", Binary),
        Column::new("bytes", Unsigned).required(),
        Column::new("algorithm", Word).required(),
        Column::new("before", Binary),
        Column::new("digest", Binary).required(),
        Column::new("ranges", Ranges),
    ]
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
    let mut file = ParquetFile::part(&path, &columns(), place.mode(), &[(VERSION_KEY, VERSION)])?;
    let name = root.path.to_string_lossy();
    rows.iter().try_for_each(|row| file.write(&row.values(&name)))?;
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
    let mut table = TableReader::open(path, &columns())?;
    while table.next_row()? {
        take(RepairRow::read(&table).map_err(|why| LakeError::part(path, why))?)?;
    }
    Ok(())
}

impl RepairRow {
    /// The values of the columns, below a place.
    fn values<'a>(&'a self, place: &'a str) -> [Value<'a>; 12] {
        let [path, path_bytes] = Value::of_name(&self.path);
        let [source, source_bytes] = Value::of_name(&self.source);
        [
            Value::Text(place),
            path,
            path_bytes,
            Value::Time(self.repaired.milliseconds()),
            Value::Text(&self.was),
            source,
            source_bytes,
            Value::Unsigned(self.bytes),
            Value::Text(&self.algorithm),
            self.before.as_deref().into(),
            Value::Bytes(&self.digest),
            self.ranges.as_deref().map_or(Value::Null, Value::Ranges),
        ]
    }

    /// The present row of a table.
    fn read(table: &TableReader) -> Result<RepairRow, String> {
        // The numbers of the columns, in their order.
        let [
            _,
            path,
            path_bytes,
            repaired,
            was,
            of_source,
            source_bytes,
            length,
            algorithm,
            before,
            digest,
            ranges,
        ]: [usize; 12] = std::array::from_fn(|number| number);
        let lacks = |name: &str| format!("a repair has no {name}");
        let (text, bytes, number) =
            (|column| table.text(column), |column| table.bytes(column), |column| table.number(column));
        let source = text(of_source)?.map(str::as_bytes).or_else(|| bytes(source_bytes));
        let source = source.filter(|source| !source.is_empty() && !source.contains(&0));
        Ok(RepairRow {
            path: path_of(text(path)?, bytes(path_bytes))?,
            repaired: number(repaired).map(Moment::of_milliseconds).ok_or_else(|| lacks("time"))?,
            was: text(was)?.ok_or_else(|| lacks("state"))?.to_string(),
            source: source.ok_or_else(|| lacks("source"))?.to_vec(),
            bytes: number(length).map(i64::cast_unsigned).ok_or_else(|| lacks("length"))?,
            algorithm: text(algorithm)?.ok_or_else(|| lacks("algorithm"))?.to_string(),
            before: bytes(before).map(<[u8]>::to_vec),
            digest: bytes(digest).ok_or_else(|| lacks("digest"))?.to_vec(),
            ranges: table.ranges(ranges)?,
        })
    }
}
