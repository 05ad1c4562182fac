//! Exports a catalogue to a lake: the records that changed since the last export, which the lake itself
//! records.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use verisum_catalog::store::{Catalog, CatalogRecord, Moment, Root, State};
use verisum_digest::Digest;
use verisum_files::{Stop, Timestamp};

use crate::error::go_on;
use crate::repairs;
use crate::{Lake, LakeError, Newest, PartWriter, Result, Row};

/// What an export wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LakeExport {
    /// Rows of files that are new or not as the lake had them.
    pub changed: u64,
    /// Rows of files whose records were removed.
    pub gone: u64,
    /// Files that are as the lake has them.
    pub unchanged: u64,
    /// Files that were passed over, because their records are damaged.
    pub damaged: u64,
}

/// Writes to a lake what is not in it as the catalogue has it, at this time. What a lake has of
/// trees that are not in the catalogue stays as it is.
///
/// An export that ends early leaves whole parts; the next one goes on after them. Memory grows with the number of
/// parts of a place and with its repairs, and not with its files.
///
/// # Errors
/// The catalogue or a part cannot be read, the disk is full or fails, or it is time to stop.
pub fn export(catalog: &Catalog, lake: &Path, now: Timestamp, stop: &Stop) -> Result<LakeExport> {
    let lake = Lake::create(lake)?;
    let _lock = lake.lock()?;
    catalog.at_one_moment(|| {
        let mut exported = LakeExport::default();
        let algorithms = catalog.algorithms()?;
        let algorithms = algorithms.into_iter().map(|(number, name)| (number, name.into())).collect();
        for root in catalog.roots()? {
            let tree = Tree { catalog, root: &root, algorithms: &algorithms, stop };
            tree.export(&lake, now.into(), &mut exported)?;
        }
        Ok(exported)
    })
}

/// A tree of the catalogue.
struct Tree<'a> {
    catalog: &'a Catalog,
    root: &'a Root,
    algorithms: &'a HashMap<i64, Arc<str>>,
    stop: &'a Stop,
}

impl Tree<'_> {
    fn export(&self, lake: &Lake, now: Moment, exported: &mut LakeExport) -> Result<()> {
        let place = lake.place(&self.root.path);
        let mut present = Newest::open(&place)?;
        // Later than all that is there, also by a clock that went back.
        let now = present.latest().map_or(now, |latest| now.max(latest + Duration::from_millis(1)));
        let length = |name: &str| Digest::find(name).ok().map(|digest| digest.len());
        let mut merge = Merge {
            head: present.read()?.map(|(row, _)| row),
            present,
            parts: PartWriter::new(&place, now, &length),
            now,
            exported,
        };
        self.catalog.records_by_path(self.root, &mut |path, record| {
            go_on(self.stop)?;
            let path = path.as_os_str().as_bytes();
            let last = merge.pass(path)?;
            if record.state == State::DAMAGED {
                merge.exported.damaged += 1;
                return Ok(());
            }
            let row = self.row(path, record, now)?;
            merge.write(row, last)
        })?;
        merge.finish()?;
        repairs::export(self.catalog, self.root, self.algorithms, &place, now)
    }

    fn row(&self, path: &[u8], record: &CatalogRecord, now: Moment) -> Result<Row> {
        let Some(algorithm) = self.algorithms.get(&record.algorithm) else {
            let path = self.catalog.path().to_path_buf();
            return Err(LakeError::Row { path, why: "a record has an unknown algorithm".to_string() });
        };
        Ok(Row {
            path: path.to_vec(),
            size: Some(record.size),
            mtime: record.told_mtime(),
            ctime: record.ctime.known(),
            inode: Some(record.inode).filter(|inode| *inode != 0),
            algorithm: algorithm.clone(),
            digest: Some(record.digest),
            state: Some(record.state),
            first_seen: Some(record.first_seen),
            changed: Some(record.changed),
            verified: record.verified.known(),
            exported: now,
            replaces: None,
        })
    }
}

/// The rows that are there, beside the records that come.
struct Merge<'a> {
    present: Newest,
    /// The next row that is there.
    head: Option<Row>,
    parts: PartWriter<'a>,
    now: Moment,
    exported: &'a mut LakeExport,
}

impl Merge<'_> {
    /// Goes on to a path: what is there before it has no record any more. Gives the row of the path itself.
    fn pass(&mut self, path: &[u8]) -> Result<Option<Row>> {
        while let Some(row) = self.head.take_if(|row| *row.path < *path) {
            self.remove(&row)?;
            self.advance()?;
        }
        let last = self.head.take_if(|row| *row.path == *path);
        if last.is_some() {
            self.advance()?;
        }
        Ok(last)
    }

    fn write(&mut self, row: Row, last: Option<Row>) -> Result<()> {
        if last.as_ref().is_some_and(|last| last.says_the_same(&row)) {
            self.exported.unchanged += 1;
            return Ok(());
        }
        self.exported.changed += 1;
        self.parts.add(&Row { replaces: last.map(|last| last.exported), ..row })
    }

    fn remove(&mut self, row: &Row) -> Result<()> {
        if row.state.is_none() {
            return Ok(());
        }
        self.exported.gone += 1;
        self.parts.add(&Row::gone(row, self.now))
    }

    fn advance(&mut self) -> Result<()> {
        self.head = self.present.read()?.map(|(row, _)| row);
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        while let Some(row) = self.head.take() {
            self.remove(&row)?;
            self.advance()?;
        }
        self.parts.finish()
    }
}
