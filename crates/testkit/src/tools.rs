//! What the machine has: tools and rights. Missing ones are loud.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Folders searched after those of `PATH`, which often lacks them for users other than root.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// Says that a test is skipped and why.
///
/// # Panics
/// Where the environment has `CI`: there nothing may be skipped.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "a test cannot be skipped in CI: {reason}");
    // Not by a macro: the test harness hides what those print while a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// Where scripts/setup.sh puts the tools that it builds, below the root of the repository.
const BUILT: &str = "target/tools";

/// Finds a program. A missing one is a [`skip`].
///
/// # Panics
/// As [`skip`].
pub fn require_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(BUILT);
    let folders = std::iter::once(built).chain(folders);
    let found = folders.map(|folder| folder.join(name)).find(|path| is_program(path));
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// Python itself, which starts in less time than a script that the search path may lead to. A missing one is a
/// [`skip`].
///
/// # Panics
/// As [`skip`].
pub fn require_python() -> Option<PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let itself = |python: PathBuf| {
        let found = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
        let path = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
        Some(path).filter(|path| is_program(path))
    };
    let python = require_tool("python3")?;
    PYTHON.get_or_init(|| itself(python.clone())).clone().or(Some(python))
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `Some` for root, else a [`skip`].
///
/// # Panics
/// As [`skip`].
pub fn require_root() -> Option<()> {
    if !is_root() {
        skip("only root can mount file systems");
        return None;
    }
    Some(())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_name() {
        let sh = require_tool("sh").unwrap();
        assert!(sh.is_absolute() && is_program(&sh));
    }
}
