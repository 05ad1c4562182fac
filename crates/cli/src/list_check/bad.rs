//! What helps to mend a file that is not as a list says.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use verisum::files::store::manifest::Listed;

use crate::ui::alarm::{Alarm, Mend};
use crate::ui::remedy;

/// Of a file that a list names from `base` on.
pub(super) fn alarm(list: Option<&Path>, base: &Path, listed: &Listed, outcome: &'static str) -> Alarm {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let name = Path::new(OsStr::from_bytes(&listed.name));
    let claim = listed.claims.first().filter(|_| listed.block_hash.is_none());
    let below: PathBuf = name.components().filter(|step| *step != Component::CurDir).collect();
    let is_below = below.components().all(|step| matches!(step, Component::Normal(_)));
    let directory = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let mend = match (list.filter(|list| list.is_file()), claim) {
        (Some(list), Some(_)) if is_below => {
            let command = remedy::repair_by(Some(&absolute(list)), &absolute(directory));
            Mend::Directory { command, below }
        }
        // Bags have several lists, and block hashes are of images.
        _ => Mend::Nothing,
    };
    Alarm {
        path: absolute(&base.join(name)),
        outcome,
        since: None,
        last_good: None,
        size: None,
        algorithm: claim.map_or(String::new(), |claim| claim.algorithm.to_string()),
        digest: claim.map(|claim| claim.digest),
        copy: None,
        parity: None,
        mend,
    }
}
