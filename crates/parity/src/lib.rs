//! Parity for trees of files: finds damage, and repairs it without another copy.
//!
//! [`create`] computes parity of all files of a tree and keeps it in a folder of its own, here or in another place; [`verify`] reads
//! files and parity and says what is not as it was; [`repair`] computes what is lost, as long as no set lost more
//! blocks than it has parity; [`update`] renews what was written to since. docs/parity.md is the format.
//!
//! ```
//! use std::fs;
//! use std::path::Path;
//! use verisum_parity::{CreateOptions, ParityRepairOptions, ParityVerifyOptions, create, repair, verify};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! let photos = Path::new("photos");
//! fs::create_dir(photos)?;
//! fs::write("photos/a.jpg", [7; 50_000])?;
//! let mut options = CreateOptions::default();
//! options.redundancy = 1_000_000; // as much parity as data, so that a whole file may be lost
//! create(photos, None, &options, &mut |finding| eprintln!("{finding:?}"))?;
//!
//! fs::remove_file("photos/a.jpg")?;
//! let found = verify(photos, None, &ParityVerifyOptions::default(), &mut |_| {})?;
//! assert_eq!((found.missing, found.damaged), (1, 0));
//! repair(photos, None, &ParityRepairOptions::default(), &mut |_| {})?;
//! assert_eq!(fs::read("photos/a.jpg")?, [7; 50_000]);
//! # Ok(())
//! # }
//! ```
//!
//! [`verify_par2`] and [`repair_par2`] do the same with the PAR2 files of other programs.
//!
//! The unit of a code is a set: some hundred mebibytes of many files, or of one that is longer than that. It knows
//! files and digests only; it neither prints nor keeps a catalogue.

#![forbid(unsafe_code)]

mod build;
mod code;
mod coverage;
mod create;
mod digest;
mod draft;
mod error;
mod folder;
mod head;
mod in_place;
mod index;
mod list;
mod names;
mod newest;
mod options;
mod par2;
mod parallel;
mod parity_place;
mod place_folder;
mod read;
mod repair;
mod scan;
mod solve;
mod tree;
mod update;
mod verdict;
mod verify;

pub use create::{Made, create};
pub use error::ParityError;
pub use folder::ParityLocation;
pub use names::USUAL_PLACE;
pub use options::CreateOptions;
pub use par2::{repair_par2, verify_par2};
pub use parity_place::{ParityFiles, ParityPlace};
pub use repair::{ParityRepairOptions, ParityRepairSummary, repair};
pub use update::{UpdateOptions, update};
pub use verdict::{FileFinding, FileVerdict, Finding, ParityFileVerdict, ParityFinding};
pub use verify::{ParityVerifyOptions, Verified, verify, verify_parity};
