//! The files to hash, and a control that only reads a file.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::BenchDigestsArgs;
use crate::commands::bench::Session;
use crate::ui::failure::Failure;
use crate::ui::scratch::Folder;
use crate::ui::sizes;

/// A small file's length: what a program takes for it is its start.
const SMALL_LENGTH: u64 = 1024;

/// What programs hash. Dropping it removes what was made.
pub(super) struct Files {
    pub(super) folder: Folder,
    pub(super) large: PathBuf,
    pub(super) small: PathBuf,
}

impl Files {
    pub(super) fn of(arguments: &BenchDigestsArgs, session: &Session<'_>) -> Result<Files, Failure> {
        let folder = session.scratch.folder(arguments.on.as_deref())?;
        let small = folder.path().join("small");
        fill(&small, SMALL_LENGTH, session)?;
        let large = match &arguments.file {
            Some(file) => {
                // Absolute: no program takes it for an option.
                let failed = |error| Failure::File { name: file.clone(), operation: "open", error };
                let file = std::fs::canonicalize(file).map_err(failed)?;
                match std::fs::metadata(&file).map_err(failed)?.is_file() {
                    true => file,
                    false => return Err(failed(std::io::Error::other("not a regular file"))),
                }
            }
            None => {
                let length = sizes::parse(&arguments.size)
                    .ok_or_else(|| Failure::value("--size", &arguments.size, "must be a size, as 64M"))?;
                let large = folder.path().join("large");
                folder.needs(length)?;
                session.preparing("making the file");
                fill(&large, length, session)?;
                large
            }
        };
        Ok(Files { folder, large, small })
    }

    pub(super) fn remove(self) -> Result<(), Failure> {
        self.folder.remove()
    }
}

/// Writes a file of bytes without a pattern; less of it when the user wants no more.
pub(in crate::commands::bench) fn fill(
    path: &Path,
    length: u64,
    session: &Session<'_>,
) -> Result<(), Failure> {
    let failed = |error| Failure::File { name: path.to_path_buf(), operation: "write", error };
    let mut file = std::fs::File::create(path).map_err(failed)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut buffer = vec![0; 256 * 1024];
    let mut left = length;
    while left > 0 && !session.stopped() {
        random.fill(&mut buffer);
        let count = left.min(buffer.len() as u64) as usize;
        file.write_all(&buffer[..count]).map_err(failed)?;
        left -= count as u64;
    }
    file.sync_all().map_err(failed)
}
