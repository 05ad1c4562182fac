//! Computes the hashes of ext4's directory index for many names side by side.
//!
//! [`NameKernel`] is one of them at a level of the processor. A vector holds the same word of the hash of
//! 8 or 16 names; the hashes are written once for both.

#![allow(unsafe_code, reason = "this is the one place for it in this crate; see docs/architecture.md")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod hashes;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod vector;

pub use kernel::{NameFunction, NameKernel, NameValue};
