//! A laboratory for hashes.
//!
//! It measures and models; printing what it found is for the programs. [`dirhash`] is about hashes of
//! directory indexes; [`stats`] says what measured times can tell; [`export`] makes tables of results.
//! [`filesystem`] measures what checksums of data cost a file system.
//! [`recommend`] says which digest to use for files.
//! [`compare`] sets two measurements side by side, and [`agreement`] says whether they rank alike.
//! [`measure`] runs subjects in turns, [`record`] keeps what they took, with the [`host`] they ran on, and
//! [`summary`] makes a report of it.

#![deny(unsafe_code)]

pub mod agreement;
pub mod compare;
pub mod digests;
pub mod dirhash;
pub mod export;
pub mod files;
pub mod filesystem;
pub mod host;
pub mod images;
pub mod measure;
pub mod probability;
pub mod recommend;
pub mod record;
pub mod stats;
pub mod summary;
mod system;
