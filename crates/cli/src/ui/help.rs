//! The end of help texts: exit codes and environment variables.

use super::kernel;

/// What each exit code means, for help and manual; docs/exit-codes.md is their specification.
pub(crate) const EXIT_CODES: [(&str, &str); 4] = [
    ("0", "everything asked for was done, and nothing is wrong"),
    ("1", "a mismatch or corruption was found"),
    ("2", "bad usage: an unknown option, digest or value"),
    ("3", "something could not be checked, read or written, and nothing worse was found"),
];

/// The code after a signal, of what catches it.
pub(crate) const SIGNALLED: (&str, &str) =
    ("130", "ended by SIGINT, SIGTERM or SIGHUP; what was measured until then is kept");

/// The environment variables, for help and manual.
pub(crate) const ENVIRONMENT: [(&str, &str); 1] =
    [(kernel::VARIABLE, "the highest SIMD level: portable, shani, avx2 or avx512; changes no value")];

/// The end of a command's short help.
pub(crate) fn exit_codes() -> String {
    table("Exit codes", &EXIT_CODES)
}

/// The end of a short help of what keeps what it measured when a signal ends it.
pub(crate) fn measuring_codes() -> String {
    format!("{}\n  {}  {}", exit_codes(), SIGNALLED.0, SIGNALLED.1)
}

/// The end of its long help.
pub(crate) fn measuring_environment() -> String {
    format!("{}\n\n{}", measuring_codes(), table("Environment", &ENVIRONMENT))
}

/// The end of a command's long help.
pub(crate) fn with_environment() -> String {
    format!("{}\n\n{}", exit_codes(), table("Environment", &ENVIRONMENT))
}

fn table(heading: &str, rows: &[(&str, &str)]) -> String {
    rows.iter().fold(format!("{heading}:"), |text, (name, meaning)| format!("{text}\n  {name}  {meaning}"))
}
