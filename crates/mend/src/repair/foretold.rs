//! What a dry run counts as repaired already, because other repairs of the same run need it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use verisum_files::place::BlockDigests;

use super::blocks::of_map;
use super::damaged::Damaged;
use super::source::{Candidate, Source};

/// The longest block map that is read: one with more blocks than this is of no use.
const LONGEST_MAP: u64 = 128 << 20;

/// Files that would be repaired.
#[derive(Default)]
pub(super) struct Foretold {
    /// The addresses of the parity that has them, by their paths below what is repaired.
    by_parity: HashMap<PathBuf, PathBuf>,
    /// The content of block maps, by their paths.
    maps: HashMap<PathBuf, File>,
}

impl Foretold {
    /// Takes note of a file that a copy would repair, or parity.
    pub(super) fn add(&mut self, damaged: &Damaged, source: &mut Source, candidate: &Candidate) {
        if source.is_parity {
            self.by_parity.insert(damaged.below.clone(), source.address.clone());
        }
        if damaged.path.extension() == Some(OsStr::new("map"))
            && let Ok(map) = content(source, candidate)
        {
            self.maps.insert(damaged.path.clone(), map);
        }
    }

    /// Whether parity has a file that would be repaired.
    pub(super) fn is_of(&self, below: &Path, parity: &Source) -> bool {
        self.by_parity.get(below) == Some(&parity.address)
    }

    /// The digests of a file's blocks that its map has, or will have.
    pub(super) fn of_map(&self, file: &Path) -> Option<BlockDigests> {
        let mut name = file.as_os_str().to_os_string();
        name.push(".map");
        match self.maps.get(Path::new(&name)) {
            Some(map) => of_map(Path::new(&format!("/proc/self/fd/{}", map.as_raw_fd()))),
            None => of_map(Path::new(&name)),
        }
    }
}

/// A file without a name that has the content of a copy.
fn content(source: &mut Source, candidate: &Candidate) -> io::Result<File> {
    let content = source.place.read(&candidate.path, 0..LONGEST_MAP).map_err(io::Error::other)?;
    let mut map = tempfile::tempfile()?;
    io::copy(&mut content.take(LONGEST_MAP), &mut map)?;
    Ok(map)
}
