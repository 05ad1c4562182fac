//! The programs `verisum` and `blksum`.
//!
//! Arguments are parsed into plain values first, then into what the libraries take; commands are thin.
//! Everything that is printed goes through [`render`], everything that fails is a [`failure::Failure`],
//! and every way to end is in [`exit`]. This is no library for others: use `verisum-blockhash`.

#![deny(unsafe_code)]

mod args;
mod blksum;
#[allow(unsafe_code)]
mod closed;
mod commands;
mod digests;
mod exit;
mod failure;
mod getopt;
mod input;
mod kernel;
mod remote;
mod render;
mod replace;
mod sizes;
mod verisum;

pub use blksum::main as blksum;
pub use remote::serve::main as serve;
pub use verisum::main as verisum;
