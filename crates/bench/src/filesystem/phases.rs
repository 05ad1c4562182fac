//! Measures how long it takes to write, read and scrub one file, on a file system with each checksum.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;

use super::kernel::timed;
use super::{Data, Volume, WRITE, WorkFolder};
use crate::measure::{About, MeasureError, Measured, Subject, drop_files};
use crate::system;

/// What is done, and the group of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Writing the file until it is on the device.
    Write,
    /// Only the last part of that: all is written, and fsync brings it to the device.
    Synchronize,
    /// Reading it when nothing of it is in the cache: each sector is verified.
    Read,
    /// Scrubbing the file system.
    Scrub,
}

impl Group {
    /// All.
    pub const ALL: [Group; 4] = [Group::Write, Group::Synchronize, Group::Read, Group::Scrub];

    /// Its title.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Write => "btrfs: write and fsync",
            Group::Synchronize => "btrfs: fsync alone",
            Group::Read => "btrfs: cold read",
            Group::Scrub => "btrfs: scrub",
        }
    }
}

/// A row for each group and file system, and for the memory alone as a control.
pub fn phases<'a>(
    volumes: &'a [(Volume, Option<String>)],
    place: &WorkFolder,
    data: &'a Data,
) -> Vec<Box<dyn Subject + 'a>> {
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for group in Group::ALL {
        for (volume, driver) in volumes {
            let file = volume.path().join("file");
            // Nobody knows how much of it is not yet written when fsync is called.
            let bytes = if group == Group::Synchronize { 0 } else { data.length };
            let mut about = About::new(group.name(), volume.checksum().name).bytes(bytes);
            about.control = volume.checksum().none;
            if group == Group::Read {
                about = about.file(&file);
            }
            if let Some(driver) = driver {
                about = about.label("driver", driver);
            }
            subjects.push(Box::new(Phase { about, group, volume: Some(volume), data, file, sound: false }));
        }
        if matches!(group, Group::Write | Group::Read) {
            let about = About::new(group.name(), "tmpfs alone").bytes(data.length).control();
            let file = place.path().join("file");
            subjects.push(Box::new(Phase { about, group, volume: None, data, file, sound: false }));
        }
    }
    subjects
}

struct Phase<'a> {
    about: About,
    group: Group,
    /// None for the memory that all lies in.
    volume: Option<&'a Volume>,
    data: &'a Data,
    file: PathBuf,
    /// Whether the file was read and found right.
    sound: bool,
}

impl Phase<'_> {
    fn remove(&self) -> Result<(), MeasureError> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(MeasureError::io(&self.file, "remove", error))
            }
            _ => self.synchronize(),
        }
    }

    fn synchronize(&self) -> Result<(), MeasureError> {
        self.volume.map_or(Ok(()), Volume::synchronize)
    }

    /// Makes sure that the whole file is there, on its device.
    fn provide(&mut self) -> Result<(), MeasureError> {
        let whole = fs::metadata(&self.file).is_ok_and(|about| about.len() == self.data.length);
        if !whole {
            self.remove()?;
            self.data.write(&self.file)?;
        }
        self.synchronize()?;
        if !self.sound {
            self.sound = self.data.is_in(&self.file)?;
        }
        match self.sound {
            true => Ok(()),
            false => Err(MeasureError::io(
                &self.file,
                "read",
                std::io::Error::other("other bytes than were written"),
            )),
        }
    }
}

impl Subject for Phase<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn prepare(&mut self) -> Result<(), MeasureError> {
        match self.group {
            Group::Write => self.remove(),
            Group::Synchronize => {
                self.remove()?;
                self.data.write(&self.file).map(drop)
            }
            Group::Read => {
                self.provide()?;
                self.volume.map_or(Ok(()), |_| drop_files(&self.about.files))
            }
            Group::Scrub => self.provide(),
        }
    }

    fn run(&mut self, _: u32) -> Result<Measured, MeasureError> {
        let path = &self.file;
        let failed = |operation| move |error| MeasureError::io(path, operation, error);
        match self.group {
            Group::Write => timed(|| self.data.write(&self.file)?.sync_all().map_err(failed("synchronize"))),
            Group::Synchronize => {
                let file = File::open(&self.file).map_err(failed("open"))?;
                timed(|| file.sync_all().map_err(failed("synchronize")))
            }
            Group::Read => {
                let mut buffer = vec![0; WRITE];
                timed(|| {
                    let mut file = File::open(&self.file).map_err(failed("open"))?;
                    while file.read(&mut buffer).map_err(failed("read"))? > 0 {}
                    Ok(())
                })
            }
            Group::Scrub => {
                let Some(volume) = self.volume else {
                    return Err(MeasureError::Unavailable("no btrfs".into()));
                };
                let folder = File::open(volume.path()).map_err(failed("open"))?;
                let mut found = system::ScrubProgress::default();
                let measured = timed(|| {
                    found = system::scrub(folder.as_fd()).map_err(failed("scrub"))?;
                    Ok(())
                })?;
                if found.errors() > 0 || found.data_bytes < self.data.length {
                    let what = format!("{} errors in {} bytes", found.errors(), found.data_bytes);
                    return Err(failed("scrub")(std::io::Error::other(what)));
                }
                Ok(measured)
            }
        }
    }
}
