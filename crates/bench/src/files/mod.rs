//! Experiment 4: ways in which a configuration tool may get a file's digest: from a script, a one-liner, a
//! program of its own, or without starting a process.

mod cmpthese;
mod ways;

pub use cmpthese::{Timing, cmpthese};
pub use ways::{
    FileWay, FileWayError, LARGE, PLACE, SCRIPT, SMALL, TimeParts, Within, digest_in, parts, ways,
};
