//! A lake: the present and past records of trees, as Parquet files for any data tool.
//!
//! `docs/lake.md` has the layout and the columns. [`export`] writes to a lake what changed in a catalogue since
//! the last time, and [`import`] brings a lake back into one. [`PartWriter`] and [`Part`] write and read single
//! parts, and [`Newest`] gives the present row of each file of a place. [`ParquetFile`] writes rows of
//! other [`Column`]s to a Parquet file that appears whole or not at all.
//!
//! ```
//! use std::fs;
//! use std::path::Path;
//! use verisum_catalog::scrub::{ScrubOptions, scrub};
//! use verisum_catalog::store::{Catalog, Lock};
//! use verisum_digest::Digest;
//! use verisum_files::Timestamp;
//! use verisum_lake::{Lake, Newest, export};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! fs::create_dir("tree")?;
//! fs::write("tree/one", "content")?;
//!
//! let (path, lake) = (Path::new("catalog.db"), Path::new("lake"));
//! let _lock = Lock::take(path)?;
//! let mut catalog = Catalog::open(path)?;
//! let options = ScrubOptions::new(Digest::find("blake3")?);
//! scrub(&mut catalog, Path::new("tree"), &options, &mut |_| {})?;
//! export(&catalog, lake, Timestamp::now(), &options.stop)?;
//!
//! for place in Lake::open(lake)?.places()? {
//!     let mut newest = Newest::open(&place)?;
//!     while let Some((row, _)) = newest.read()? {
//!         println!("{row:?}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: queries, which DuckDB and others do better; object stores; merging old parts.

#![forbid(unsafe_code)]

mod columns;
mod error;
mod export;
mod file;
mod gathered;
mod import;
mod layout;
mod newest;
mod part;
mod reader;
mod repairs;
mod row;
mod table;
mod writer;

pub use error::LakeError;
pub use export::{LakeExport, export};
pub use file::ParquetFile;
pub use import::import;
pub use layout::{Lake, LakeTree};
pub use newest::Newest;
pub use part::Part;
pub use row::Row;
pub use table::{Column, ColumnKind, Value};
pub use writer::PartWriter;

type Result<T, E = LakeError> = std::result::Result<T, E>;
