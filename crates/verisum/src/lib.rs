//! Checksums for people who keep data for years: the library for programs.
//!
//! One crate that re-exports the crates for digests, files, images, catalogues, lakes, copies and repairs, parity,
//! hosts and buckets.
//!
//! It is not published yet. In `Cargo.toml`:
//!
//! ```toml
//! [dependencies]
//! verisum = { git = "https://github.com/verisum/verisum", default-features = false }
//! ```
//!
//! Hash the files of a tree on all cores, then check them against a list:
//!
//! ```
//! use std::fs;
//! use verisum::files::store::manifest::{Item, ListFormat, Writer};
//! use verisum::files::{VerdictClass, check::Event};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! fs::create_dir("photos")?;
//! fs::write("photos/one.raw", "one")?;
//!
//! let mut options = verisum::HashOptions::default(); // SHA-256
//! options.digests = vec!["blake3".parse()?];
//! let mut writer = Writer::new(ListFormat::Bsd, &options.digests)?; // BLAKE3 (photos/one.raw) = …
//! let mut lines = Vec::new();
//! for result in verisum::hash_files(vec!["photos".into()], &options)? {
//!     let file = result?; // a file that cannot be read is an error, and the next ones follow
//!     let name = file.path.as_os_str().as_encoded_bytes();
//!     let (size, digests) = (file.length, &file.digests[..]);
//!     writer.item(&mut lines, &Item { name, size, modified: None, mode: None, digests })?;
//! }
//! fs::write("SUMS", lines)?;
//!
//! let mut results = verisum::check(vec!["SUMS".into()], &verisum::CheckOptions::default())?;
//! for found in &mut results {
//!     if let Event::File { listed, outcome, .. } = found.event {
//!         println!("{}: {outcome:?}", String::from_utf8_lossy(&listed.name));
//!     }
//! }
//! assert_eq!(results.finish().class(), VerdictClass::Clean);
//! # Ok(())
//! # }
//! ```
//!
//! [`hash_files`], [`check`], [`compare`], `scrub`, `scrub_place` and `repair` give iterators. The work goes on
//! meanwhile on threads of its own; it waits where nobody takes results, and ends when the iterator is dropped. All but
//! that of [`hash_files`] are [`Results`], and end with [`Results::finish`], which gives the summary. [`Digest::find`]
//! finds a digest by its name, and so does `parse`; `verisum digests` lists the names.
//!
//! A tree may be anywhere: `remote::Hosts::tree` opens what a user types, and what it gives answers as [`files::place`]
//! says, whatever the machine. [`compare`] compares two such trees, and `scrub_place` scrubs one. So a tree of this
//! machine is compared with one on a host:
//!
//! ```no_run
//! use std::ffi::OsStr;
//!
//! use verisum::files::compare::Tree;
//! use verisum::remote::{HostOptions, Hosts};
//! use verisum::{CompareOptions, Compared};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A private directory for the sockets of ssh is made below this one, and removed.
//! let hosts = Hosts::new(HostOptions::default(), &std::env::temp_dir());
//! let open = |typed: &str| {
//!     let (address, place) = hosts.tree(OsStr::new(typed))?;
//!     Ok::<_, verisum::remote::OpenError>(Tree::new(place, &address.path))
//! };
//! let trees = [open("/srv/photos")?, open("web1:/srv/photos")?];
//! let mut results = verisum::compare(trees, &CompareOptions::default())?;
//! for compared in &mut results {
//!     match compared {
//!         Compared::File(pair) => {
//!             println!("{}: {}", pair.status.name(), String::from_utf8_lossy(&pair.name));
//!         }
//!         Compared::Event { tree, event } => eprintln!("tree {tree}: {event:?}"),
//!     }
//! }
//! println!("{:?}", results.finish()?);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it has | feature |
//! |---|---|---|
//! | [`digest`] | the table of digests, and their implementations | |
//! | [`files`] | trees: walk, hash, tags, lists and their check | |
#![cfg_attr(feature = "image", doc = "| [`image`] | disk images as bytes and extents | `image` |")]
#![cfg_attr(
    feature = "image",
    doc = "| [`blockhash`] | the block hash of an image, and block maps | `image` |"
)]
#![cfg_attr(feature = "catalog", doc = "| [`catalog`] | records of trees, and scrubs | `catalog` |")]
#![cfg_attr(feature = "lake", doc = "| [`lake`] | catalogues as Parquet files | `lake` |")]
#![cfg_attr(feature = "mend", doc = "| [`mend`] | verified copies, and repair from other copies | `mend` |")]
#![cfg_attr(
    feature = "object",
    doc = "| [`object`] | trees in object stores and behind web servers | `object` |"
)]
#![cfg_attr(feature = "remote", doc = "| [`remote`] | trees on other machines, over ssh | `remote` |")]
#![cfg_attr(feature = "parity", doc = "| [`parity`] | parity of trees, and repair with it | `parity` |")]
//!
//! By default `image`, `catalog`, `mend`, `remote` and `parity` are on; `lake` and `object` are not. `catalog` brings
//! SQLite. `scrub` needs `catalog`, `scrub_place` also `remote`, and `repair` needs `mend`. What hashes, checks and
//! compares needs no feature.
//!
//! The library never prints, ends the process, handles signals or changes the process's priority, unless a
//! function says so by its name ([`files::go_to_background`]). Two features set something for the whole process:
//! `object` chooses the provider of rustls, unless the program did, and `catalog` replaces how its SQLite maps files.

#![forbid(unsafe_code)]

mod check;
mod compare;
#[cfg(feature = "mend")]
mod repair;
#[cfg(feature = "catalog")]
mod scrub;
#[cfg(all(feature = "catalog", feature = "remote"))]
mod scrub_place;

pub use verisum_digest as digest;
pub use verisum_files as files;

#[cfg(all(feature = "mend", feature = "parity"))]
pub mod parity_sources;
#[cfg(feature = "image")]
mod place_image;
#[cfg(all(feature = "image", feature = "mend"))]
mod raw_image;
#[cfg(all(feature = "mend", feature = "parity"))]
mod trusted_place;

#[cfg(feature = "image")]
pub use place_image::{PlaceImageError, open_image};
#[cfg(all(feature = "image", feature = "mend"))]
pub use raw_image::{DamagedImage, ImageCopy, ImageRepair, require_raw};
#[cfg(feature = "image")]
pub use verisum_blockhash as blockhash;
#[cfg(feature = "catalog")]
pub use verisum_catalog as catalog;
#[cfg(feature = "image")]
pub use verisum_image as image;
#[cfg(feature = "lake")]
pub use verisum_lake as lake;
#[cfg(feature = "mend")]
pub use verisum_mend as mend;
#[cfg(feature = "object")]
pub use verisum_object as object;
#[cfg(feature = "parity")]
pub use verisum_parity as parity;
#[cfg(feature = "remote")]
pub use verisum_remote as remote;

pub use verisum_digest::{Digest, Output};
pub use verisum_files::{
    FileDigests, HashFiles, HashOptions, Outlet, ResultOrder, Results, StartError, hash_files,
};

pub use check::{CheckOptions, CheckSummary, Checked, check};
pub use compare::{CompareOptions, CompareSummary, Compared, compare};
#[cfg(feature = "mend")]
pub use repair::repair;
#[cfg(feature = "catalog")]
pub use scrub::scrub;
#[cfg(all(feature = "catalog", feature = "remote"))]
pub use scrub_place::{Scrubbed, scrub_place};
#[cfg(all(feature = "mend", feature = "parity"))]
pub use trusted_place::{TRUSTED_DIGEST, with_records_of};
