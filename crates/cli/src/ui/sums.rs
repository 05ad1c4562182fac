//! Lists of checksums as records of files; reports lines that are of no use.

use std::path::{Path, PathBuf};

use verisum::mend::repair::{ExpectedContent, UselessLine, recorded_in};

use crate::ui::PROGRAM;
use crate::ui::failure::Failure;
use crate::ui::{self, names};

/// What a list records of the files below one of these trees, by their paths below it, and how many of its lines are
/// of no use.
pub(crate) fn records(
    list: &Path,
    algorithm: Option<&str>,
    trees: &[PathBuf],
) -> Result<(Vec<ExpectedContent>, u64), Failure> {
    let mut useless = 0;
    let records = recorded_in(list, algorithm, trees, &mut |UselessLine { number, why }| {
        useless += 1;
        let list = names::quoted(list.as_os_str());
        ui::say(PROGRAM, &format!("{list}: line {number}: {}", names::plain(&why)));
    })?;
    Ok((records, useless))
}
