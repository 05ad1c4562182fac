//! The core of measurements: runs subjects in turns, in random order, with a warm-up, in a known state of the
//! cache.
//!
//! Whatever else the machine does meets all subjects alike, because each round runs each of them once;
//! so their times can be compared round by round. docs/measuring.md describes the method.

mod alternation;
mod cache;
mod core_sharing;
mod counter;
mod error;
mod launch;
mod noise;
mod plan;
mod process;
mod subject;

pub use alternation::{BenchProgress, Watch, measure};
pub use cache::{Cache, drop_files, state as cache_state};
pub(crate) use core_sharing::{crowded, more_crowded};
pub use counter::Cycles;
pub use error::MeasureError;
pub use launch::{Starter, serve};
pub use noise::{MachineLoad, judge as judge_noise};
pub use plan::{MOST_ROUNDS, MeasureAmount, MeasurePlan};
pub use process::{Parse, Process, Stdin, find_program, passed_over, version};
pub use subject::{About, InProcess, Measured, Subject, Work};
