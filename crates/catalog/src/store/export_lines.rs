//! The lines of JSON that a catalogue is exported to and imported from.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};

use super::export_import::ImportFault;
use super::{Moment, Stamp};
use verisum_files::place::scheme;

/// The longest name in a path: no system call takes more.
const LONGEST_NAME: usize = 4095;

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Line {
    Root {
        version: u32,
        #[serde(flatten)]
        path: Name,
        device: u64,
        inode: u64,
    },
    File(FileLine),
    #[serde(rename = "known-bad")]
    KnownBad(KnownBadLine),
    Repair(RepairLine),
}

/// How a file was given its recorded content again.
#[derive(Serialize, Deserialize)]
pub(super) struct RepairLine {
    pub(super) version: u32,
    /// Below the root of the last line that was one.
    #[serde(flatten)]
    pub(super) path: Name,
    pub(super) outcome: String,
    pub(super) repaired: Moment,
    /// What the file had been found to be.
    pub(super) was: String,
    /// The path or address of the file whose content it took.
    pub(super) from: Name,
    pub(super) bytes: u64,
    pub(super) algorithm: String,
    /// The digest that it had, if that is known.
    #[serde(default)]
    pub(super) before: Option<String>,
    pub(super) digest: String,
    /// Which bytes it has anew, if that is known.
    #[serde(default)]
    pub(super) ranges: Option<Vec<RangeLine>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RangeLine {
    pub(super) offset: u64,
    pub(super) length: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FileLine {
    pub(super) version: u32,
    /// Below the root of the last line that was one.
    #[serde(flatten)]
    pub(super) path: Name,
    pub(super) size: u64,
    pub(super) mtime: Stamp,
    pub(super) ctime: Option<Stamp>,
    pub(super) inode: u64,
    pub(super) algorithm: String,
    pub(super) digest: String,
    pub(super) first_seen: Moment,
    pub(super) last_changed: Moment,
    pub(super) last_verified: Option<Moment>,
    pub(super) outcome: String,
}

/// A file that was bad and is no longer there: its name, what was recorded of it, and what it was.
#[derive(Serialize, Deserialize)]
pub(super) struct KnownBadLine {
    #[serde(flatten)]
    pub(super) record: FileLine,
    pub(super) found_size: u64,
    pub(super) found_mtime: Stamp,
    pub(super) found_inode: u64,
    /// By the algorithm of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) found_digest: Option<String>,
    pub(super) since: Moment,
    pub(super) last_found: Moment,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Name {
    pub(super) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path_bytes_hex: Option<String>,
}

impl Name {
    pub(super) fn new(path: &Path) -> Name {
        let path_bytes_hex = path.to_str().is_none().then(|| HEXLOWER.encode(path.as_os_str().as_bytes()));
        Name { path: path.to_string_lossy().into_owned(), path_bytes_hex }
    }

    /// What was written, whatever it is.
    pub(super) fn any(self) -> Result<Vec<u8>, ImportFault> {
        let bytes = match self.path_bytes_hex {
            Some(hex) => HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).map_err(|_| ImportFault::PathBytes)?,
            None => self.path.into_bytes(),
        };
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(ImportFault::Path);
        }
        Ok(bytes)
    }

    /// The path that was written.
    pub(super) fn bytes(self) -> Result<PathBuf, ImportFault> {
        let bytes = self.any()?;
        let names = match scheme(&bytes).map(|scheme| &bytes[scheme.len()..]) {
            Some(address) => address.strip_suffix(b"/").unwrap_or(address),
            None => bytes.strip_prefix(b"/").unwrap_or(&bytes),
        };
        for name in names.split(|byte| *byte == b'/') {
            match name {
                b"" if bytes != b"/" => return Err(ImportFault::EmptyName),
                b"." | b".." => return Err(ImportFault::Dots),
                _ if name.len() > LONGEST_NAME => {
                    return Err(ImportFault::LongName(name.len()));
                }
                _ => {}
            }
        }
        Ok(OsString::from_vec(bytes).into())
    }
}
