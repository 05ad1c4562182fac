//! Names of files to hash, from the command line or from a list.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::io::Errno;
use verisum::files::{Walk, WalkOptions};

use crate::ui::closed_streams;
use crate::ui::failure::Failure;
use crate::ui::progress::Total;

/// The most names whose lengths are added up before the work, for the time that is left.
const MOST_ADDED_UP: usize = 10_000;

/// Names, one after the other.
pub(super) enum NameSource {
    Given(VecDeque<OsString>),
    /// Ended by NUL each.
    Listed {
        list: BufReader<Box<dyn Read + Send>>,
        name: PathBuf,
        /// Why the rest of the list cannot be read.
        failed: Option<std::io::Error>,
    },
}

impl NameSource {
    /// Files by name; none is standard input.
    pub(super) fn new(mut names: Vec<OsString>) -> NameSource {
        if names.is_empty() {
            names.push("-".into());
        }
        NameSource::Given(names.into())
    }

    /// Files by the names in a list.
    pub(super) fn listed(list: &OsStr) -> Result<NameSource, Failure> {
        let name = if list == "-" { "standard input".into() } else { PathBuf::from(list) };
        let list: Box<dyn Read + Send> = if list == "-" {
            Box::new(stdin())
        } else {
            let file = File::open(list);
            Box::new(file.map_err(|error| Failure::File { name: name.clone(), operation: "open", error })?)
        };
        Ok(NameSource::Listed { list: BufReader::new(list), name, failed: None })
    }

    /// How much there is in all, where that can be found out; with `walk`, in the trees of these names.
    pub(super) fn total(&self, walk: Option<&WalkOptions>) -> Total {
        let NameSource::Given(names) = self else { return Total::Unknown };
        match walk {
            Some(options) => {
                let paths: Vec<PathBuf> = names.iter().filter(|name| *name != "-").map(Into::into).collect();
                Total::walked(Walk::new(paths, options.clone()))
            }
            None if names.len() > MOST_ADDED_UP => Total::Unknown,
            None => match lengths(names) {
                Some(bytes) => Total::Known { files: names.len() as u64, bytes },
                None => Total::Unknown,
            },
        }
    }

    /// Fails if not all of the list could be read.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self {
            NameSource::Listed { name, failed: Some(error), .. } => {
                Err(Failure::File { name, operation: "read", error })
            }
            _ => Ok(()),
        }
    }
}

impl Iterator for NameSource {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let (list, failed) = match self {
            NameSource::Given(names) => return names.pop_front().map(OsStringExt::into_vec),
            NameSource::Listed { failed: Some(_), .. } => return None,
            NameSource::Listed { list, failed, .. } => (list, failed),
        };
        let mut name = Vec::new();
        match list.read_until(0, &mut name) {
            Ok(0) => None,
            Ok(_) => {
                name.pop_if(|last| *last == 0);
                // Whoever lists files means one of this name.
                Some(if name == b"-" { b"./-".to_vec() } else { name })
            }
            Err(error) => {
                *failed = Some(error);
                None
            }
        }
    }
}

fn lengths(names: &VecDeque<OsString>) -> Option<u64> {
    let length = |name: &OsString| match std::fs::metadata(name) {
        Ok(found) if found.is_file() => Some(found.len()),
        // What cannot be read takes no time.
        Err(_) if name.as_bytes() != b"-" => Some(0),
        _ => None,
    };
    names.iter().map(length).sum()
}

/// Standard input, unless it was closed at the start.
pub(super) fn open_stdin() -> std::io::Result<Box<dyn Read>> {
    match closed_streams::standard_input() {
        true => Err(Errno::BADF.into()),
        false => Ok(Box::new(stdin().lock())),
    }
}
