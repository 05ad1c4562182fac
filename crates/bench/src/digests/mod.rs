//! Experiment 1: how fast each implementation computes each digest. Measures programs on a file, and
//! implementations in this process.

mod expected;
mod in_process;
pub mod levels;
mod messages;
mod overview;
mod programs;
#[cfg(feature = "rivals")]
mod rivals;

pub use expected::{CKSUM, SUM, expected};
pub(crate) use in_process::read_bytes;
pub use in_process::{MessageShape, inside};
pub use overview::{FILE, INSIDE, SMALL, overview, start_up};
pub use programs::{DigestCall, PROGRAMS, RivalProgram, ways};
