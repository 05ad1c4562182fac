//! The exit codes of `verisum`; docs/exit-codes.md is their specification.
//!
//! SIGINT and SIGTERM have no code here: they keep their default effect, and a shell shows 130 or 143.

use std::process::ExitCode;

/// How a run ended, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything asked for was done, and nothing is wrong.
    Clean,
    /// Something could not be checked, read or written.
    Unchecked,
    /// A mismatch or corruption was found.
    Mismatch,
    /// Bad usage: an unknown option, digest or value. Found before anything is read.
    Usage,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Mismatch => 1,
            Exit::Usage => 2,
            Exit::Unchecked => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The code of every failure of `blksum`.
pub(crate) const BLKSUM_FAILURE: u8 = 1;
