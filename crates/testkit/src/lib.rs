//! Helpers for verisum's own tests: painted images, real file systems, real faults.
//!
//! What a test needs and the machine lacks (a tool, root) is a loud skip: a line on standard error, and
//! `None` to the test. Where the environment has `CI` it is a panic instead, so that no run passes
//! because it tested nothing. Never a normal dependency of a crate.

#![forbid(unsafe_code)]

pub mod cache;
mod content;
pub mod fault;
mod lengths;
mod mount;
mod paint;
mod port;
mod program;
mod recorded_disk;
mod server;
mod tools;

pub use content::{Kind, Run, content, data_byte, fill, runs_of, total_length};
pub use lengths::edge_lengths;
pub use mount::{FsKind, LoopDevice, Mount};
pub use paint::{paint, paint_at};
pub use port::Port;
pub use program::{copy_program, write_script};
pub use recorded_disk::RecordedDisk;
pub use server::Server;
pub use tools::{is_root, require_python, require_root, require_tool, skip};
