//! Hashes many independent messages side by side with SIMD instructions.
//!
//! A cryptographic hash of one message is a chain: each block waits for the one
//! before it. Several messages have no such bond, so a vector register can hold
//! the same word of the state of 2 to 16 messages, and one instruction advances
//! all of them. This crate does so for the common digests, at every level the
//! processor has, and gives one verb: [`Kernel::hash_batch`].
//!
//! ```
//! use verisum_kernels::{KernelAlgorithm, Kernel, Level};
//!
//! let kernel = Kernel::best(KernelAlgorithm::Sha256, Level::best());
//! let mut digests = [0; 2 * 32];
//! kernel.hash_batch(&[b"first", b"second"], &mut digests);
//! ```
//!
//! Messages that come in pieces are hashed one at a time with [`Single`], or
//! many side by side with [`Kernel::update_batch`].
//!
//! # Non-goals
//!
//! The crate does no input or output, starts no threads and reads no
//! environment. It has no keyed modes, no extendable output beyond the two
//! customary lengths of SHAKE, and makes no promise of constant time: the data
//! it hashes is not secret.

#![warn(unreachable_pub)]

mod algorithm;
mod algorithms;
mod arch;
mod batch;
mod drive;
mod kernel;
mod level;
mod side_by_side;
mod single;
mod spec;
mod state;
mod tuning;
mod vector;
mod zero;

pub use algorithm::KernelAlgorithm;
pub use kernel::Kernel;
pub use level::Level;
pub use single::Single;
pub use zero::{is_zero, is_zero_at};
