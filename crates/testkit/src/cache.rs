//! The page cache, as seen by one file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::fs::Advice;

use crate::mount::run;
use crate::require_tool;

/// Writes a file out and drops its pages from the cache. Has no effect on tmpfs.
pub fn forget(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// How many bytes of a file are in the cache; `None` where the tool to ask is missing.
///
/// # Panics
/// As [`crate::skip`].
pub fn resident(path: &Path) -> Option<u64> {
    let fincore = require_tool("fincore")?;
    let output = run(Command::new(fincore).args(["-b", "-n", "-o", "RES"]).arg(path));
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    Some(output.trim().parse().unwrap_or_else(|_| panic!("fincore printed {output:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FsKind, Mount};

    #[test]
    fn a_forgotten_file_is_not_resident() {
        // A temporary folder may be on tmpfs, which keeps them.
        let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
        let path = mount.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        assert_eq!(resident(&path), Some(1 << 20));
        forget(&path).unwrap();
        assert_eq!(resident(&path), Some(0));
    }
}
