//! Records in extended attributes, in the formats that tools agree on. docs/tags.md and docs/tag-format.md
//! describe them.
//!
//! Everything here works on open files, so that what is written belongs to what was read. Setting an
//! attribute needs no descriptor that is open for writing; it moves the inode's time, never that of
//! modification.

mod attribute;
mod compact;
mod foreign;
mod ids;
mod text;

use std::ffi::{CStr, CString};
use std::fs::File;

use rustix::io::Errno;
use verisum_digest::Algorithm;

use crate::Record;
pub use compact::{Defect, Encoded, MAX_LEN, decode, encode};
pub use foreign::{Foreign, Origin, foreign, parse as parse_foreign};
pub use ids::{algorithm_of, id_of};
pub use text::{parse_hex, parse_time};

/// The attribute of our own family.
pub const NAME: &CStr = c"user.verisum";

const SHATAG_SUM: &CStr = c"user.shatag.sha256";
const SHATAG_TIME: &CStr = c"user.shatag.ts";
const PLAIN: &str = "user.checksum.";

/// An attribute that no file has.
const NONE: &CStr = c"user.verisum.none";

/// Why no file of a file system takes attributes, if that is so: it is read-only, or has none. Nothing is
/// changed to find out, the times of the inode included.
pub fn refused(file: &File) -> Option<Errno> {
    match attribute::remove(file, NONE) {
        Err(errno @ (Errno::ROFS | Errno::OPNOTSUPP)) => Some(errno),
        _ => None,
    }
}

/// A form of tags that can be read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Family {
    /// user.verisum: compact, with length, times and a check.
    #[default]
    Verisum,
    /// user.shatag.sha256 and user.shatag.ts, as shatag and cshatag have them.
    Shatag,
    /// user.checksum.DIGEST: hexadecimal, without a time.
    Plain,
}

/// What one attribute holds.
pub type Stored = Result<Record, Defect>;

impl Family {
    /// All of them.
    pub const ALL: [Family; 3] = [Family::Verisum, Family::Shatag, Family::Plain];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Verisum => "verisum",
            Family::Shatag => "shatag",
            Family::Plain => "plain",
        }
    }

    /// Whether it has a place for this digest.
    pub fn holds(self, algorithm: &Algorithm) -> bool {
        match self {
            Family::Verisum | Family::Plain => id_of(algorithm).is_some(),
            Family::Shatag => algorithm.id == "sha256",
        }
    }

    /// Appends what a file's tags of this family say: one record at most, but for plain tags, of which
    /// a file may have one for each digest.
    pub fn read(self, file: &File, found: &mut Vec<Stored>) -> Result<(), Errno> {
        match self {
            Family::Verisum => found.extend(attribute::get(file, NAME)?.map(|value| decode(&value))),
            Family::Shatag => {
                if let Some(sum) = attribute::get(file, SHATAG_SUM)? {
                    found.push(text::shatag(&sum, attribute::get(file, SHATAG_TIME)?.as_deref()));
                }
            }
            Family::Plain => {
                for (name, algorithm) in plain_names(file)? {
                    if let Some(value) = attribute::get(file, &name)? {
                        found.push(text::plain(algorithm, &value));
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends what [`write`](Family::write) would replace with a record of this digest.
    pub fn read_place(
        self,
        file: &File,
        algorithm: &Algorithm,
        found: &mut Vec<Stored>,
    ) -> Result<(), Errno> {
        if self != Family::Plain {
            return self.read(file, found);
        }
        for (name, spelled) in plain_names(file)? {
            if spelled.id == algorithm.id
                && let Some(value) = attribute::get(file, &name)?
            {
                found.push(text::plain(spelled, &value));
            }
        }
        Ok(())
    }

    /// Stores a record in the place of an older one of the same digest, or of any digest where there is
    /// place for one only. Each attribute is replaced as a whole: at no time is there none.
    ///
    /// # Errors
    /// Those of the file system; `EINVAL` for a digest that this family does not [hold](Family::holds).
    pub fn write(self, file: &File, record: &Record) -> Result<(), Errno> {
        if !self.holds(record.algorithm) {
            return Err(Errno::INVAL);
        }
        match self {
            Family::Verisum => {
                let tag = encode(record).ok_or(Errno::INVAL)?;
                attribute::set(file, NAME, tag.as_bytes())
            }
            Family::Shatag => {
                // The sum first: whoever stops between them leaves a sum without its time, which says
                // nothing about the file, and never a time with a wrong sum.
                attribute::set(file, SHATAG_SUM, record.digest.to_string().as_bytes())?;
                match record.modified {
                    Some(recorded) => attribute::set(file, SHATAG_TIME, text::time(recorded.time).as_bytes()),
                    None => attribute::remove(file, SHATAG_TIME).map(|_| ()),
                }
            }
            Family::Plain => {
                // Other spellings of the digest would stay behind with an older value.
                for (name, algorithm) in plain_names(file)? {
                    if algorithm.id == record.algorithm.id && name != plain_name(algorithm) {
                        attribute::remove(file, &name)?;
                    }
                }
                let name = plain_name(record.algorithm);
                attribute::set(file, &name, record.digest.to_string().as_bytes())
            }
        }
    }

    /// Stores a record where this family has nothing yet. Returns false, and changes nothing, if there is
    /// something, or if this family's attributes cannot be looked at and written in one call.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn create(self, file: &File, record: &Record) -> Result<bool, Errno> {
        if self != Family::Verisum {
            return Ok(false);
        }
        let tag = encode(record).ok_or(Errno::INVAL)?;
        match attribute::create(file, NAME, tag.as_bytes()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Whether there are tags of this family, of one digest or of any, for [`Family::remove`].
    pub fn has(self, file: &File, algorithm: Option<&Algorithm>) -> Result<bool, Errno> {
        let is_wanted = |found: &Algorithm| algorithm.is_none_or(|wanted| wanted.id == found.id);
        Ok(match self {
            Family::Verisum => attribute::get(file, NAME)?.is_some_and(|value| match decode(&value) {
                Ok(record) => is_wanted(record.algorithm),
                Err(_) => algorithm.is_none(),
            }),
            Family::Shatag => {
                algorithm.is_none_or(|wanted| wanted.id == "sha256")
                    && (attribute::get(file, SHATAG_SUM)?.is_some()
                        || attribute::get(file, SHATAG_TIME)?.is_some())
            }
            Family::Plain => plain_names(file)?.into_iter().any(|(_, found)| is_wanted(found)),
        })
    }

    /// Removes the tags of this family, of one digest or of all. Returns whether there were any.
    pub fn remove(self, file: &File, algorithm: Option<&Algorithm>) -> Result<bool, Errno> {
        let is_wanted = |found: &Algorithm| algorithm.is_none_or(|wanted| wanted.id == found.id);
        match self {
            Family::Verisum => match algorithm {
                Some(_) => match attribute::get(file, NAME)?.map(|value| decode(&value)) {
                    Some(Ok(record)) if is_wanted(record.algorithm) => attribute::remove(file, NAME),
                    _ => Ok(false),
                },
                // Also what cannot be understood.
                None => attribute::remove(file, NAME),
            },
            Family::Shatag => {
                if algorithm.is_some_and(|wanted| wanted.id != "sha256") {
                    return Ok(false);
                }
                // The time first, so that it never stands with a sum that comes later.
                let time = attribute::remove(file, SHATAG_TIME)?;
                Ok(attribute::remove(file, SHATAG_SUM)? || time)
            }
            Family::Plain => {
                let mut any = false;
                for (name, found) in plain_names(file)? {
                    any |= is_wanted(found) && attribute::remove(file, &name)?;
                }
                Ok(any)
            }
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A file's attributes that are plain tags of digests in the table.
fn plain_names(file: &File) -> Result<Vec<(CString, &'static Algorithm)>, Errno> {
    let names = attribute::list(file)?;
    let plain = names.into_iter().filter_map(|name| {
        let algorithm = Algorithm::find(name.to_str().ok()?.strip_prefix(PLAIN)?)?;
        (algorithm.bits > 0).then_some((name, algorithm))
    });
    Ok(plain.collect())
}

fn plain_name(algorithm: &Algorithm) -> CString {
    CString::new(format!("{PLAIN}{}", algorithm.id)).expect("no name of the table has a NUL")
}
