//! `verisum sum` and `check`: hashing files, lists of checksums, bags.

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
mod readers;
mod sum;
mod vectors;
