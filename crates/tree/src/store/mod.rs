//! Where digests of files are kept.

pub mod manifest;
pub mod xattr;
