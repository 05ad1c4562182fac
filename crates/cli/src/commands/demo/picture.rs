//! The disk image of the demonstration.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;

use crate::ui::failure::Failure;
use crate::ui::find_program;
use crate::ui::scratch::{Folder, Scratch};
use crate::ui::sizes::human;

/// One part of so many of the image is data.
const DATA_SHARE: u64 = 8;

/// Length in bytes of each file on the image.
const FILE: usize = 4 << 20;

/// How the image is made.
pub(crate) struct Picture {
    length: u64,
    mke2fs: Option<PathBuf>,
}

impl Picture {
    /// A file system if there is a tool to make one without being root, else data here and there.
    pub(crate) fn choose(length: u64) -> Picture {
        Picture { length, mke2fs: find_program("mke2fs") }
    }

    /// What it is.
    pub(crate) fn title(&self) -> String {
        let data = human(self.data_files() as u64 * FILE as u64);
        let length = human(self.length);
        match self.mke2fs {
            Some(_) => format!("A disk of {length}, formatted with ext4, with {data} of files on it"),
            None => format!("A disk of {length} with {data} of data on it"),
        }
    }

    /// The commands by which a user could make it.
    pub(crate) fn commands(&self) -> Vec<String> {
        let megabytes = self.length >> 20;
        match self.mke2fs {
            Some(_) => vec![format!("mke2fs -q -t ext4 -d files disk.img {megabytes}M")],
            None => vec![format!("truncate -s {megabytes}M disk.img    # and data here and there")],
        }
    }

    /// Makes it.
    pub(crate) fn make(&self, scratch: &Scratch, folder: &Folder, image: &Path) -> Result<(), Failure> {
        // Bytes that look like compressed data, always the same.
        let mut noise = Rng::with_seed(1);
        let Some(mke2fs) = &self.mke2fs else {
            return self.make_raw(image, &mut noise).map_err(|error| Failure::file(image, "write", error));
        };
        let files = folder.file("files");
        self.make_files(&files, &mut noise).map_err(|error| Failure::file(&files, "write", error))?;
        let size = format!("{}M", self.length >> 20);
        scratch
            .run(Command::new(mke2fs).args(["-q", "-t", "ext4", "-d"]).arg(&files).arg(image).arg(size))?;
        // The tree has done its service; only the image counts.
        fs::remove_dir_all(&files).map_err(|error| Failure::file(&files, "write", error))
    }

    fn data_files(&self) -> usize {
        (self.length / DATA_SHARE) as usize / FILE
    }

    fn make_files(&self, folder: &Path, noise: &mut Rng) -> io::Result<()> {
        fs::create_dir(folder)?;
        fs::write(folder.join("README"), "Files for a demonstration of verisum.\n")?;
        let mut content = vec![0; FILE];
        for n in 1..=self.data_files() {
            noise.fill(&mut content);
            fs::write(folder.join(format!("picture-{n:02}.raw")), &content)?;
        }
        Ok(())
    }

    fn make_raw(&self, image: &Path, noise: &mut Rng) -> io::Result<()> {
        let file = File::create(image)?;
        file.set_len(self.length)?;
        let mut content = vec![0; FILE];
        for n in 0..self.data_files() as u64 {
            noise.fill(&mut content);
            file.write_all_at(&content, n * DATA_SHARE * FILE as u64)?;
        }
        Ok(())
    }
}

/// Copies a file and writes its holes as zeros. (The standard library's copy would keep them.)
pub(crate) fn copy_in_full(from: &Path, to: &Path) -> Result<(), Failure> {
    let copy = || {
        let (mut source, mut target) = (File::open(from)?, File::create(to)?);
        let mut piece = vec![0; 1 << 20];
        loop {
            match source.read(&mut piece)? {
                0 => return Ok(()),
                count => target.write_all(&piece[..count])?,
            }
        }
    };
    copy().map_err(|error| Failure::file(to, "write", error))
}
