//! Merges the parts of a place into the present row of each file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use verisum_catalog::store::Moment;

use crate::{LakeTree, Part, Result, Row};

/// The newest row of each path of a place, in the order of the paths' bytes. Those of files that are gone are among
/// them.
///
/// All parts are open at once, and a page of each of their columns is in memory.
pub struct Newest {
    parts: Vec<Part>,
    /// The next row of each part that has one.
    heads: BinaryHeap<Reverse<Head>>,
    latest: Option<Moment>,
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
    /// A part cannot be opened, or is none.
    pub fn open(place: &LakeTree) -> Result<Newest> {
        let parts: Result<Vec<Part>> = place.parts()?.iter().map(|path| Part::open(path)).collect();
        let mut newest = Newest { parts: parts?, heads: BinaryHeap::new(), latest: None, has_failed: false };
        newest.latest = newest.parts.iter().filter_map(Part::latest).max();
        for part in 0..newest.parts.len() {
            newest.advance(part)?;
        }
        Ok(newest)
    }

    /// The latest time when a row of the place was written.
    pub fn latest(&self) -> Option<Moment> {
        self.latest
    }

    /// The next row, and the part that has it.
    ///
    /// # Errors
    /// Those of [`Part`]; nothing comes after one.
    pub fn read(&mut self) -> Result<Option<(Row, &Path)>> {
        if self.has_failed {
            return Ok(None);
        }
        let found = self.take();
        self.has_failed = found.is_err();
        Ok(found?.map(|Head { row, part }| (row, self.parts[part].path())))
    }

    fn take(&mut self) -> Result<Option<Head>> {
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
