//! Experiment 1: how fast each implementation computes each digest. Programs on a file, and implementations in this
//! process.

mod expected;
mod inside;
pub mod levels;
mod messages;
mod overview;
mod programs;
#[cfg(feature = "rivals")]
mod rivals;
mod sums;

pub use expected::{CKSUM, SUM, expected};
pub(crate) use inside::read_bytes;
pub use inside::{Message, inside};
pub use overview::{FILE, INSIDE, SMALL, overview, start_up};
pub use programs::{PROGRAMS, Program, Way, ways};
pub use sums::{bsd_sum, posix_cksum};
