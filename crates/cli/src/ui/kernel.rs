//! `VERISUM_KERNEL`, which limits the SIMD level. Only the programs read it, never the libraries.

use std::env;

use verisum::digest::{Level, Policy};

use crate::ui::failure::Failure;

/// Its name. Its values are those of [`Level::name`].
pub(crate) const VARIABLE: &str = "VERISUM_KERNEL";

/// What implementations may be used, by the environment.
pub(crate) fn policy() -> Result<Policy, Failure> {
    // Empty is as unset: so it is in scripts that pass it on.
    let value = env::var_os(VARIABLE).unwrap_or_default();
    if value.is_empty() {
        return Ok(Policy::default());
    }
    let value = value.to_string_lossy();
    match Level::from_name(&value) {
        Some(level) if level.available() => Ok(Policy { max_level: level }),
        Some(level) => Err(Failure::LevelMissing(level)),
        None => Err(Failure::LevelUnknown(value.into_owned())),
    }
}
