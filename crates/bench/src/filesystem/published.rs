//! The experiment of 2024 as it was published: one figure for each checksum, with data from /dev/urandom,
//! which costs more than any of the checksums.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::rc::Rc;

use super::kernel::timed;
use super::{BtrfsChecksum, CHECKSUMS, Programs, Volume, WRITE, WorkFolder};
use crate::measure::{About, InProcess, MeasureError, Measured, Subject};

/// The group of its rows.
pub const ORIGINAL: &str = "btrfs: the script of 2024";

/// The file that the data comes from.
const SOURCE: &str = "/dev/urandom";

/// All of the script for one checksum.
pub struct Whole<'a> {
    about: About,
    checksum: &'static BtrfsChecksum,
    length: u64,
    place: &'a WorkFolder,
    programs: &'a Programs,
    written: Rc<Cell<u64>>,
}

/// The script for each checksum, on images of `length` bytes; and how much of the large file found room
/// in the last run of each.
pub fn original<'a>(
    place: &'a WorkFolder,
    programs: &'a Programs,
    length: u64,
) -> Vec<(Whole<'a>, Rc<Cell<u64>>)> {
    CHECKSUMS
        .iter()
        .map(|checksum| {
            let written = Rc::new(Cell::new(0));
            let mut about = About::new(ORIGINAL, checksum.name);
            about.control = checksum.none;
            (Whole { about, checksum, length, place, programs, written: written.clone() }, written)
        })
        .collect()
}

/// A control: reads as much as the script does, and writes nothing.
pub fn urandom<'a>(length: u64) -> Box<dyn Subject + 'a> {
    let bytes = length + files_of(length) * WRITE as u64;
    let about = About::new(ORIGINAL, "/dev/urandom alone").control();
    let mut buffer = vec![0; WRITE];
    InProcess::new(about, move || {
        let failed = |error| MeasureError::io(Path::new(SOURCE), "read", error);
        let mut source = File::open(SOURCE).map_err(failed)?;
        for _ in 0..bytes / WRITE as u64 {
            source.read_exact(&mut buffer).map_err(failed)?;
        }
        Ok(())
    })
    .once()
    .boxed()
}

/// 1,000 files for 4 GiB, fewer for less.
fn files_of(length: u64) -> u64 {
    (length / WRITE as u64 * 1000 / 1024).max(1)
}

impl Whole<'_> {
    fn script(&self) -> Result<(), MeasureError> {
        let mut volume = Volume::new(self.place, self.checksum, self.length, self.programs)?;
        let failed = |path: &Path, operation| {
            let path = path.to_path_buf();
            move |error| MeasureError::io(&path, operation, error)
        };
        let mut source = File::open(SOURCE).map_err(failed(Path::new(SOURCE), "open"))?;
        let mut buffer = vec![0; WRITE];
        let large = volume.path().join("file");
        let written = copy(&mut source, &large, self.length, &mut buffer)?;
        self.written.set(written);
        fs::remove_file(&large).map_err(failed(&large, "remove"))?;
        let small: Vec<_> =
            (0..files_of(self.length)).map(|number| volume.path().join(format!("file{number}"))).collect();
        for path in &small {
            if copy(&mut source, path, WRITE as u64, &mut buffer)? < WRITE as u64 {
                // The room of the large file is free only when its end is written.
                volume.synchronize()?;
                let _ = fs::remove_file(path);
                copy(&mut source, path, WRITE as u64, &mut buffer)?;
            }
        }
        for path in &small {
            match fs::remove_file(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(failed(path, "remove"))?,
            }
        }
        volume.unmount()
    }
}

/// Copies so many bytes, or fewer where there is no room for them, as the script did.
fn copy(source: &mut File, path: &Path, length: u64, buffer: &mut [u8]) -> Result<u64, MeasureError> {
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(0),
        created => created.map_err(|error| MeasureError::io(path, "create", error))?,
    };
    let mut written = 0;
    while written < length {
        source.read_exact(buffer).map_err(|error| MeasureError::io(Path::new(SOURCE), "read", error))?;
        match file.write_all(buffer) {
            Err(error) if error.kind() == ErrorKind::StorageFull => break,
            result => result.map_err(|error| MeasureError::io(path, "write", error))?,
        }
        written += buffer.len() as u64;
    }
    Ok(written)
}

impl Subject for Whole<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&mut self, _: u32) -> Result<Measured, MeasureError> {
        timed(|| self.script())
    }
}
