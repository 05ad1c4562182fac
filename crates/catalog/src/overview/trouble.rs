//! Files that are bad, missing or unchecked: what they are, what they were, and where their recorded content
//! is.

use std::path::PathBuf;

use super::{Overview, OverviewOptions, Result};
use crate::store::{Catalog, ListedRecord, RecordFinding, State};

/// A file that is not as recorded.
#[derive(Clone, Debug)]
pub struct Troubled {
    /// Which of the catalogues has it.
    pub catalog: usize,
    /// What is recorded of it: its state, and what it was when it was last found good.
    pub file: ListedRecord,
    /// What was last seen of it.
    pub finding: Option<RecordFinding>,
    /// A sound file that has its recorded content, as a catalogue says.
    pub copy: Option<KnownCopy>,
}

/// A sound file that a catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCopy {
    /// Which of the catalogues knows it.
    pub catalog: usize,
    /// The tree that it is in.
    pub tree: PathBuf,
    /// Its whole path, or address.
    pub path: PathBuf,
}

impl Overview {
    /// Lists files in trouble, the worst of all trees first.
    pub(super) fn find_troubled(&mut self, catalogs: &[Catalog], options: &OverviewOptions) -> Result<()> {
        for tree in self.trees.iter().filter(|tree| !tree.troubles.is_empty()) {
            let catalog = &catalogs[tree.catalog];
            for file in catalog.worst(&tree.root, options.troubled)? {
                let finding = match file.path.file_name() {
                    Some(name) => catalog.finding(file.directory, name)?,
                    None => None,
                };
                self.troubled.push(Troubled { catalog: tree.catalog, file, finding, copy: None });
            }
        }
        // A stable sort: in each kind the order is that of trees and paths.
        self.troubled.sort_by_key(|troubled| severity(troubled.file.record.state));
        self.troubled.truncate(options.troubled);
        Ok(())
    }
}

/// Bad data first, what is only missing last.
fn severity(state: State) -> u8 {
    match state {
        state if state.is_corrupt() => 0,
        State::DAMAGED => 1,
        State::MISSING => 4,
        state if state.is_repairable() => 2,
        _ => 3,
    }
}
