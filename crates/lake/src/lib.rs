//! A lake: what trees of files are and were, as Parquet files that any data tool reads.
//!
//! `docs/lake.md` has the layout and the columns. [`export`] writes to a lake what changed in a catalogue since
//! the last time, and [`import`] brings a lake back into one. [`PartWriter`] and [`Part`] write and read single
//! parts, and [`Newest`] gives the present row of each file of a place. [`ParquetFile`] writes Arrow batches of any
//! columns to a Parquet file that appears whole or not at all.
//!
//! Non-goals: queries, which DuckDB and others do better; object stores; merging old parts.

#![forbid(unsafe_code)]

mod columns;
mod error;
mod export;
mod file;
mod import;
mod layout;
mod newest;
mod part;
mod row;
mod writer;

pub use error::Error;
pub use export::{Exported, export};
pub use file::ParquetFile;
pub use import::import;
pub use layout::{Lake, Place};
pub use newest::Newest;
pub use part::Part;
pub use row::Row;
pub use writer::PartWriter;

type Result<T, E = Error> = std::result::Result<T, E>;
