//! The table of digests, and every implementation behind it.
//!
//! [`ALGORITHMS`] says what each digest *is*: its name, its length, what it is good for, and a code
//! that any right implementation reproduces. [`PROVIDERS`] says which implementation computes it here. [`Digest`] is one
//! of them chosen for this processor: it makes single streams, and hashes batches of independent
//! messages side by side where the processor can.
//!
//! ```
//! use verisum_digest::Digest;
//!
//! # fn main() -> Result<(), verisum_digest::DigestError> {
//! let sha256 = Digest::find("sha256")?;
//! let digest = sha256.hash(b"abc")?;
//! assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
//!
//! // Many messages at once, side by side where the processor can.
//! let (messages, mut digests) = ([&b"abc"[..], b""], [0; 2 * 32]);
//! sha256.batch()?.hash(&messages, &mut digests)?;
//! assert_eq!(&digests[..32], digest.as_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! [`cksum`] has the checksums of POSIX.
//!
//! This crate knows bytes only: no files, no paths, no environment.

#![deny(unsafe_code)]

mod algorithm;
mod blocks;
pub mod cksum;
mod digest;
mod error;
mod few;
mod git;
mod ipfs;
mod output;
mod parts;
mod provider;

pub use algorithm::{ALGORITHMS, Algorithm, DigestClass};
pub use blocks::{block_digests, digest_text, part_count, part_digest, part_length};
pub use digest::{Batch, Digest, Message};
pub use error::DigestError;
pub use git::git_digests;
pub use ipfs::{cid_from_text, cid_text};
pub use output::Output;
pub use parts::{BlockParts, JoinedParts, PartHasher, PartHashes, Parts};
pub use provider::{DigestStream, PROVIDERS, Policy, Provider, combine_crcs, openssl_names, openssl_version};
pub use verisum_kernels::Level;

/// The longest digest in the table, in bytes.
pub const MAX_DIGEST_LEN: usize = 64;
