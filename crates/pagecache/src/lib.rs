//! Files in the page cache: how much of a file is there, and its bytes without a copy.
//!
//! ```
//! use std::fs::File;
//! use verisum_pagecache::Windows;
//!
//! # fn main() -> std::io::Result<()> {
//! # let path = std::env::temp_dir().join(format!("pagecache-{}", std::process::id()));
//! # std::fs::write(&path, [7; 10_000])?;
//! // Once, for the whole program.
//! verisum_pagecache::hash_in_page_cache();
//! let file = File::open(&path)?;
//! let length = file.metadata()?.len();
//! let mut windows = Windows::new(file.into(), length);
//! match windows.next(0..length).look(|bytes| bytes.iter().filter(|byte| **byte == 7).count()) {
//!     Some(count) => println!("{count}"),
//!     None => println!("not in the page cache: read it"),
//! }
//! # std::fs::remove_file(&path)
//! # }
//! ```

#![deny(unsafe_code)]

mod cachestat;
mod mapped;
mod way_times;
mod windows;

pub use cachestat::{CacheStat, cache_stat};
pub use mapped::{hash_in_page_cache, may_map};
pub use way_times::WayTimes;
pub use windows::{CachedBytes, WINDOW_BYTES, Windows};
