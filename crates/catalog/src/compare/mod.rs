//! What catalogues, tags and lists know of the files of trees that are compared: settles files without reading them, and
//! says which of the files that differ is the recorded one.
//!
//! Works on the pairs of [`verisum_files::compare`]. Non-goals: finding the trees, and reading lists.

mod judge;
mod records;

pub use judge::{Content, Judge, Judgement, Lists, Standing};
pub use records::{RecordedTree, Settled, known_bad, settle_by_records};
