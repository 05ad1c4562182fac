//! Verified copies of trees, and repair of files from other copies.
//!
//! [`repair`](repair::repair) gives bad and missing files of a catalogue their recorded content again.
//!
//! ```
//! use std::fs;
//! use std::path::Path;
//! use verisum_catalog::scrub::{ScrubOptions, scrub};
//! use verisum_catalog::store::{Catalog, Lock};
//! use verisum_digest::Digest;
//! use verisum_files::place::LocalPlace;
//! use verisum_mend::repair::{RepairOptions, Source, repair};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! for tree in ["photos", "copy"] {
//!     fs::create_dir(tree)?;
//!     fs::write(Path::new(tree).join("one.raw"), "one")?;
//! }
//! let (path, tree) = (Path::new("photos.db"), fs::canonicalize("photos")?);
//! let _lock = Lock::take(path)?;
//! let mut catalog = Catalog::open(path)?;
//! let options = ScrubOptions::new(Digest::find("sha256")?);
//! scrub(&mut catalog, &tree, &options, &mut |_| {})?; // records the file
//!
//! fs::remove_file("photos/one.raw")?;
//! scrub(&mut catalog, &tree, &options, &mut |file| println!("{}: {:?}", file.path.display(), file.verdict))?;
//!
//! let mut sources = [Source::new(Path::new("copy"), Box::new(LocalPlace::default()))];
//! repair(&catalog, &tree, &mut sources, &RepairOptions::default(), &mut |file| {
//!     println!("{}: {:?}", file.path.display(), file.outcome);
//! })?;
//! assert_eq!(fs::read("photos/one.raw")?, b"one");
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: how other machines are reached (places come in as the trait), and printing.

#![forbid(unsafe_code)]

pub mod copy;
pub mod image;
mod metadata;
pub mod repair;
