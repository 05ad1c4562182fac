//! Parity beside files: whether it may repair a file, and parity as a source of repairs.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use verisum::mend::repair::Source;
use verisum::parity::{ParityError, ParityFileVerdict, ParityFiles, USUAL_PLACE};
use verisum::parity_sources::top_of;

use crate::ui::failure::Failure;
use crate::ui::{self, PROGRAM};

/// The parity that may mend what is below a path. What lies there and cannot be used is said.
pub(crate) fn sources(
    path: &Path,
    named: Option<&Path>,
    below: BTreeSet<PathBuf>,
) -> Result<Vec<Source<'static>>, Failure> {
    if named.is_some() && path.is_file() {
        return Err(of_directory("repair --parity PARITY DIR"));
    }
    let found = verisum::parity_sources::sources(path, named, below, &mut |error: ParityError| {
        ui::say(PROGRAM, &format!("{}: repairing without it", Failure::from(error).message()));
    });
    Ok(found?)
}

/// What to type where a file was named and parity is of a directory.
pub(crate) fn of_directory(command: &str) -> Failure {
    Failure::Usage(format!(
        "parity is of a directory: name that (`verisum {command}`); `verisum parity repair --only PATH DIR` repairs \
         one file of it, with --to PLACE if its parity is elsewhere"
    ))
}

/// The parity of a tree that somebody named, in another directory.
#[derive(Clone, Debug)]
pub(crate) struct NamedParity {
    pub(crate) tree: PathBuf,
    pub(crate) place: PathBuf,
}

/// What lies beside files, read as it is asked for, and what was named. Nothing stays open: whoever reads the output
/// slowly is in nobody's way.
#[derive(Default)]
pub(crate) struct Beside {
    named: Option<NamedParity>,
    read: HashMap<PathBuf, Option<ParityFiles>>,
}

impl Beside {
    pub(crate) fn with(named: Option<NamedParity>) -> Beside {
        Beside { named, ..Beside::default() }
    }

    /// The parity that a file has, if it has some. How much of it is lost only a repair finds out.
    pub(crate) fn of(&mut self, file: &Path) -> Option<PathBuf> {
        let named = self.named.clone().filter(|named| file.starts_with(&named.tree));
        let (top, place) = match &named {
            Some(NamedParity { tree, place }) => (&**tree, Some(&**place)),
            None => (top_of(file)?, None),
        };
        let read = self.read.entry(top.to_path_buf());
        let files = read.or_insert_with(|| ParityFiles::read(top, place).ok()).as_ref()?;
        let place = place.map_or_else(|| top.join(USUAL_PLACE), Path::to_path_buf);
        files.has(file.strip_prefix(top).ok()?).then_some(place)
    }
}

/// What is wrong with a damaged file of parity.
pub(crate) fn damage(verdict: ParityFileVerdict) -> String {
    match verdict {
        ParityFileVerdict::Damaged { blocks: 0, .. } => "one of two copies of what it says".to_string(),
        ParityFileVerdict::Damaged { blocks, of } => format!("{blocks} of {of} parity blocks"),
        ParityFileVerdict::Lost => "its files have no parity until update".to_string(),
        ParityFileVerdict::IndexLost => "both copies are damaged; all sets that are there count".to_string(),
        other => other.name().to_string(),
    }
}

/// Fails if the parity that was named is none.
pub(crate) fn require(NamedParity { tree, place }: &NamedParity) -> Result<(), Failure> {
    Ok(ParityFiles::read(tree, Some(&**place)).map(drop)?)
}
