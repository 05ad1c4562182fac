//! The exit codes of `verisum`; docs/exit-codes.md is their specification.
//!
//! Where SIGINT and SIGTERM keep their default effect they have no code here, and a shell shows 130 or 143.

use std::process::ExitCode;

use verisum::files::VerdictClass;

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
    /// Somebody ended it by a signal, and what was done until then is kept.
    Interrupted,
    /// What Nagios is told instead of the above.
    Nagios(Service),
}

/// The states of a service in Nagios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Service {
    /// All is well.
    Ok,
    /// Something could not be checked.
    Warning,
    /// Nothing can be said.
    Unknown,
    /// Something is wrong.
    Critical,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Mismatch => 1,
            Exit::Usage => 2,
            Exit::Unchecked => 3,
            Exit::Interrupted => 130,
            Exit::Nagios(service) => service.code(),
        }
    }

    /// How a run ended that found this, and then could not say so or go on: the worse of both. Nagios, which
    /// was not told, is to know no more than that, unless it is that something is wrong.
    pub(crate) fn then(self, failure: Exit) -> Exit {
        match self {
            Exit::Nagios(service) => Exit::Nagios(service.max(Service::Unknown)),
            found => found.max(failure),
        }
    }
}

impl Service {
    /// The number that Nagios takes for it.
    const fn code(self) -> u8 {
        match self {
            Service::Ok => 0,
            Service::Warning => 1,
            Service::Critical => 2,
            Service::Unknown => 3,
        }
    }

    /// Nagios's word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Service::Ok => "OK",
            Service::Warning => "WARNING",
            Service::Critical => "CRITICAL",
            Service::Unknown => "UNKNOWN",
        }
    }
}

impl From<VerdictClass> for Exit {
    fn from(class: VerdictClass) -> Exit {
        match class {
            VerdictClass::Clean | VerdictClass::Change => Exit::Clean,
            VerdictClass::Unchecked => Exit::Unchecked,
            VerdictClass::Corrupt => Exit::Mismatch,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_ranks_above_that_it_could_not_be_said() {
        assert_eq!(Exit::Mismatch.then(Exit::Unchecked), Exit::Mismatch);
        assert_eq!(Exit::Clean.then(Exit::Unchecked), Exit::Unchecked);
        assert_eq!(Exit::Interrupted.then(Exit::Unchecked), Exit::Interrupted);
        for (service, told) in [
            (Service::Ok, Service::Unknown),
            (Service::Warning, Service::Unknown),
            (Service::Critical, Service::Critical),
        ] {
            assert_eq!(Exit::Nagios(service).then(Exit::Unchecked), Exit::Nagios(told));
        }
    }
}
