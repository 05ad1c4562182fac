//! The programs `verisum` and `blksum`.
//!
//! Arguments are parsed into plain values first, then into what the libraries take; commands are thin. A verb
//! imports none of the others: what they share is in `ui`. This is no library for others.

#![deny(unsafe_code)]

mod args;
mod blksum;
mod commands;
mod list_check;
mod serve;
mod ui;
mod verisum;

pub use blksum::main as blksum;
pub use serve::main as serve;
pub use verisum::main as verisum;
