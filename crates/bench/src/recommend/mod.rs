//! Recommends a digest for files: measures what matters, and decides by one rule.
//!
//! [`survey`] looks at the files, [`read_cold`] at the device, [`subjects`] at the digests; [`decide`] is the
//! rule, which docs/recommend.md tells in words, and [`sentences`] gives its reasons.

mod candidates;
mod decide;
mod device;
mod hashes;
mod sentences;
mod survey;

pub use candidates::{Candidate, Purpose};
pub use decide::{Bound, CandidateRow, Cost, Decision, DecisionInput, decide};
pub use device::{Device, Read, read_cold, read_often};
pub use hashes::{FileSample, cost, is_resolved, opening, subjects};
pub use sentences::sentences;
pub use survey::{SMALL, Survey, TreeLoad, survey};
