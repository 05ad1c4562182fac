//! Benchmarks digests, files, images and file systems, and says what the times prove.
//!
//! ```
//! use std::hint::black_box;
//! use verisum_bench::measure::{About, MeasureAmount, InProcess, MeasurePlan, measure};
//! use verisum_bench::record::ranking;
//!
//! let (few, many) = (vec![1u8; 1000], vec![1u8; 100_000]);
//! let sum = |bytes: &[u8]| black_box(black_box(bytes).iter().map(|&byte| u64::from(byte)).sum::<u64>());
//! let mut subjects = [
//!     InProcess::new(About::new("sums", "few"), || Ok(drop(sum(&few)))).boxed(),
//!     InProcess::new(About::new("sums", "many"), || Ok(drop(sum(&many)))).boxed(),
//! ];
//! // In turns, so that whatever else the machine does meets both alike.
//! let plan = MeasurePlan { amount: MeasureAmount::Rounds(3), ..MeasurePlan::default() };
//! let series = measure(&mut subjects, &plan, &mut ());
//! let ranking = ranking(&series.iter().collect::<Vec<_>>());
//! println!("{:?}", ranking.pairs());
//! ```
//!
//! Printing what it found is for the programs. [`stats`] says what measured times can tell; [`export`] makes
//! tables of results.
//! [`filesystem`] measures what checksums of data cost a file system.
//! [`recommend`] says which digest to use for files.
//! [`compare`] sets two measurements side by side, and [`agreement`] says whether they rank alike.
//! [`scale`] makes up a tree of any number of files, of which nothing is read.
//! [`measure`] runs subjects in turns, [`record`] keeps what they took, with the [`host`] they ran on, and
//! [`summary`] makes a report of it.

#![deny(unsafe_code)]

pub mod agreement;
pub mod compare;
pub mod digests;
pub mod export;
pub mod files;
pub mod filesystem;
pub mod host;
pub mod images;
pub mod measure;
pub mod recommend;
pub mod record;
pub mod scale;
pub mod stats;
pub mod summary;
mod system;
