//! Trees of objects in buckets of S3, Google Cloud Storage and Azure, and objects on the web: lists, hashes
//! and writes them.
//!
//! A [`BucketPlace`] takes `/KEY` as the path of an object. Credentials, signatures and connections are those of
//! `object_store`; keys are listed here, because it takes no page with a key that is no file name.
//!
//! ```no_run
//! use verisum_digest::Digest;
//! use verisum_files::place::{Files, Place, PlaceEvent};
//! use verisum_object::{BucketPlace, StoreOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = StoreOptions::default();
//! options.settings = std::env::vars().collect();
//! let mut place = BucketPlace::open("s3://bucket", &options)?;
//! let print = |event: PlaceEvent| {
//!     if let PlaceEvent::Answer(answer) = event
//!         && let Ok(read) = answer.result
//!     {
//!         println!("{}  {}", read.digests[0], String::from_utf8_lossy(&answer.request.path));
//!     }
//!     true // go on
//! };
//! let mut roots = [b"/backups".to_vec()].into_iter();
//! place.hash(&[Digest::find("sha256")?], Files::Trees(&mut roots), &print)?;
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: what a digest that a store recorded proves.

#![forbid(unsafe_code)]

mod attributes;
mod azure;
mod checksum_report;
mod claim;
mod client;
mod connect;
mod content;
mod error;
mod google;
mod inventory;
mod inventory_parquet;
mod keys;
mod listing;
mod meter;
mod options;
mod place;
mod prices;
mod process;
mod profile;
mod queue;
mod ranged;
mod recorded;
mod replaced;
mod split;
mod store;
mod upload;

pub use client::require_endpoint;
pub use error::{BucketUrlError, EndpointError, ManifestError, OpenError};
pub use inventory::Location;
pub use meter::{Meter, RequestClass, Usage};
pub use options::{StoreLists, StoreOptions};
pub use place::BucketPlace;
pub use prices::{Money, Prices, PricesError};
