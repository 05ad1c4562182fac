//! Experiment 4: a file's digest as a configuration tool may get it, from a script, a one-liner, a program
//! of its own, or without starting anything.

mod cmpthese;
mod ways;
mod words;

pub use cmpthese::{Timing, cmpthese};
pub use ways::{LARGE, PLACE, Parts, SCRIPT, SMALL, Way, Within, digest_in, parts, ways};
pub use words::split;
