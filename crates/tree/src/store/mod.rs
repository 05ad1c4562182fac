//! Where digests of files are kept.

pub mod catalog;
pub mod manifest;
pub mod xattr;
