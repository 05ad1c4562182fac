//! Hashing files, lists of digests, and checks of them.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod bag;
mod check;
mod dirhash;
mod foreign_lists;
mod inputs;
mod list_sizes;
mod names;
mod personalities;
mod sum;
mod vectors;
