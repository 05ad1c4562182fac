//! libblkhash: the block hash behind a C interface.
//!
//! `include/blkhash.h` is the contract and blkhash(3) its manual. This crate only translates: pointers
//! to references, errors to errno values, completions to a file descriptor, panics to `EIO`. Whatever
//! computes is in `verisum-blockhash`.
//!
//! Three things hold for every function. No panic leaves it. What it promises about threads it keeps by
//! a lock in the handle, so that a misuse of one handle by two threads is a wait and not a data race.
//! And a null pointer where an object belongs is an error, not a crash.

mod asynchronous;
mod boundary;
mod digests;
mod event;
mod handle;
mod options;
mod signals;
