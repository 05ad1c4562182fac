//! Uses catalogues, tags and lists to compare trees: decides files without reading them, and says which of
//! two files that differ is the recorded one.
//!
//! Works on the pairs of [`verisum_files::compare`]. Non-goals: finding the trees, and reading lists.

mod judge;
mod records;

pub use judge::{Judge, Judgement, ListedContents, RecordedContent, RecordedStanding};
pub use records::{AskedPairs, RecordedTree, Settled, known_bad, settle_by_records};
