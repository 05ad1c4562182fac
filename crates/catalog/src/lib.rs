//! The catalogue: records of trees of files in SQLite, and the scrubs that verify them for years.
//!
//! A [`Catalog`](store::Catalog) is one file that remembers trees. [`scrub`](scrub::scrub) compares a tree
//! with it, records what is new or changed, and reads the rest again: all of it, or the stalest files for as long as
//! there is time.
//!
//! ```
//! use verisum_catalog::scrub::{ScrubOptions, scrub};
//! use verisum_catalog::store::{Catalog, Lock};
//! use verisum_digest::Digest;
//! use std::fs;
//! use std::path::Path;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! fs::create_dir("photos")?;
//! fs::write("photos/one.raw", "one")?;
//!
//! let (path, tree) = (Path::new("photos.db"), Path::new("photos"));
//! let _lock = Lock::take(path)?;
//! let mut catalog = Catalog::open(path)?;
//! let options = ScrubOptions::new(Digest::find("sha256")?);
//! let summary = scrub(&mut catalog, tree, &options, &mut |report| println!("{report:?}"))?;
//! assert_eq!(summary.read_files, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: images, ssh, and printing.

#![deny(unsafe_code)]

mod bitrot;
pub mod compare;
pub mod overview;
pub mod scrub;
pub mod store;
mod tag_store;

pub use bitrot::{Bitrot, Page as BitrotPage};
pub use tag_store::TagStore;
