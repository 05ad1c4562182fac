//! A laboratory for hashes.
//!
//! It measures and models; printing what it found is for the programs.

#![forbid(unsafe_code)]

pub mod dirhash;
