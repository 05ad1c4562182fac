//! Storage of files' digests: manifests and extended attributes.

pub mod manifest;
pub mod xattr;
