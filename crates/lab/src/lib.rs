//! A laboratory for hashes.
//!
//! It measures and models; printing what it found is for the programs. [`dirhash`] is about hashes of
//! directory indexes; [`stats`] says what measured times can tell; [`export`] makes tables of results.

#![forbid(unsafe_code)]

pub mod dirhash;
pub mod export;
pub mod probability;
pub mod stats;
