//! Digests in attributes.

#[path = "../common/mod.rs"]
mod common;

mod retag;
mod tag_adopt;
mod tag_faults;
mod tags;
