//! Merges the parts of a place into the present row of each file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use verisum_catalog::store::Moment;
use verisum_files::Results;

use crate::{LakeError, LakeTree, Part, Result, Row};

/// Rows that are passed on at once: to be woken takes as long as to read some.
const PASSED_ON: usize = 1024;

/// The newest row of each path of a place, in the order of the paths' bytes, also of files that are gone. A thread
/// reads ahead.
///
/// All parts are open at once, and a page of each of their columns is in memory.
pub struct Newest {
    parts: Vec<PathBuf>,
    latest: Option<Moment>,
    rows: Results<Vec<Result<Head>>, ()>,
    /// Rows that came and were not taken yet.
    came: vec::IntoIter<Result<Head>>,
}

/// The parts of a place, as their rows are merged.
struct MergedParts {
    parts: Vec<Part>,
    /// The next row of each part that has one.
    heads: BinaryHeap<Reverse<Head>>,
    has_failed: bool,
}

/// A row and the part that it is of. Of one path the newest comes first.
struct Head {
    row: Row,
    part: usize,
}

impl Newest {
    /// Opens all parts of a place; a place that is not there has none.
    ///
    /// # Errors
    /// A part cannot be opened, or is none, or the system has no thread left.
    pub fn open(place: &LakeTree) -> Result<Newest> {
        let parts: Result<Vec<Part>> = place.parts()?.iter().map(|path| Part::open(path)).collect();
        let parts = parts?;
        let paths = parts.iter().map(|part| part.path().to_path_buf()).collect();
        let latest = parts.iter().filter_map(Part::latest).max();
        let mut merged = MergedParts { parts, heads: BinaryHeap::new(), has_failed: false };
        for part in 0..merged.parts.len() {
            merged.advance(part)?;
        }
        let rows = Results::start_ahead("lake", &Arc::default(), 1, move |outlet| {
            loop {
                let rows: Vec<_> = merged.by_ref().take(PASSED_ON).collect();
                if rows.is_empty() || !outlet.give(rows) {
                    break;
                }
            }
        });
        let rows = rows.map_err(|error| LakeError::io(place.path(), "start a thread", error))?;
        Ok(Newest { parts: paths, latest, rows, came: Vec::new().into_iter() })
    }

    /// The latest time when a row of the place was written; none if it has no rows.
    pub fn latest(&self) -> Option<Moment> {
        self.latest
    }

    /// The next row, and the part that has it.
    ///
    /// # Errors
    /// Those of [`Part`]; nothing comes after one.
    pub fn read(&mut self) -> Result<Option<(Row, &Path)>> {
        loop {
            if let Some(head) = self.came.next() {
                let Head { row, part } = head?;
                return Ok(Some((row, &self.parts[part])));
            }
            let Some(came) = self.rows.next() else { return Ok(None) };
            self.came = came.into_iter();
        }
    }
}

impl Iterator for MergedParts {
    type Item = Result<Head>;

    fn next(&mut self) -> Option<Result<Head>> {
        if self.has_failed {
            return None;
        }
        let row = self.newest();
        self.has_failed = row.is_err();
        row.transpose()
    }
}

impl MergedParts {
    fn newest(&mut self) -> Result<Option<Head>> {
        let Some(Reverse(head)) = self.heads.pop() else { return Ok(None) };
        self.advance(head.part)?;
        while let Some(Reverse(older)) = self.heads.peek()
            && older.row.path == head.row.path
        {
            let part = older.part;
            self.heads.pop();
            self.advance(part)?;
        }
        Ok(Some(head))
    }

    fn advance(&mut self, part: usize) -> Result<()> {
        if let Some(row) = self.parts[part].next() {
            self.heads.push(Reverse(Head { row: row?, part }));
        }
        Ok(())
    }
}

impl Head {
    fn order(&self) -> (&[u8], Reverse<Moment>, usize) {
        (&self.row.path, Reverse(self.row.exported), self.part)
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}
