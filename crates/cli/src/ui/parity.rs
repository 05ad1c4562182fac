//! Parity that lies beside files: whether it may mend one, and parity as a source of repairs.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum::mend::repair::Source;
use verisum::parity::{Error, ParityFiles, ParityPlace, USUAL_PLACE};

use crate::ui::failure::Failure;
use crate::ui::{self, PROGRAM};

/// The nearest directory above a file, or itself, that has parity.
fn top_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| folder.join(USUAL_PLACE).is_dir())
}

/// The parity that may mend what is below a path, as a source: that of PATH in the directory `named`, or what lies
/// beside the files. What lies there and cannot be used is told.
pub(crate) fn source(path: &Path, named: Option<&Path>) -> Result<Option<Source<'static>>, Failure> {
    let top = match named {
        Some(_) => path,
        None => match top_of(path) {
            Some(top) => top,
            None => return Ok(None),
        },
    };
    let opened = match ParityPlace::open(top, named) {
        Ok(opened) => opened,
        Err(error) if named.is_some() => return Err(error.into()),
        Err(Error::None { .. }) => return Ok(None),
        Err(error) => {
            ui::say(PROGRAM, &format!("{}: repairing without it", Failure::from(error).message()));
            return Ok(None);
        }
    };
    let root = path.strip_prefix(top).unwrap_or(Path::new("")).as_os_str().as_bytes().to_vec();
    let address = named.map_or_else(|| top.join(USUAL_PLACE), Path::to_path_buf);
    Ok(Some(Source { address, place: Box::new(opened), root, is_counterpart: true, is_parity: true }))
}

/// What lies beside files, read as it is asked for. Nothing stays open: whoever reads the output slowly is in nobody's way.
#[derive(Default)]
pub(crate) struct Beside(HashMap<PathBuf, Option<ParityFiles>>);

impl Beside {
    /// The parity that a file has, if it has some. How much of it is lost only a repair finds out.
    pub(crate) fn of(&mut self, file: &Path) -> Option<PathBuf> {
        let top = top_of(file)?;
        if !self.0.contains_key(top) {
            self.0.insert(top.to_path_buf(), ParityFiles::read(top).ok());
        }
        let files = self.0.get(top)?.as_ref()?;
        files.has(file.strip_prefix(top).ok()?).then(|| top.join(USUAL_PLACE))
    }
}
