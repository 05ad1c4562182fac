//! Reads lists of checksums as records of files, and reports lines that are of no use.

use std::path::{Path, PathBuf};

use verisum::files::NamedDigest;
use verisum::mend::repair::{ListRecords, UselessLine, recorded_in};

use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, names, verbosity};

/// What a list records of the files below one of these trees, by their paths below it; how many of its lines are of no
/// use; and what that means.
pub(crate) fn records_in(
    list: &Path,
    algorithm: Option<&str>,
    trees: &[PathBuf],
) -> Result<(ListRecords, u64, Exit), Failure> {
    let mut useless = 0;
    let name = names::quoted(list.as_os_str());
    let say = |what: &str| ui::say(PROGRAM, &format!("{name}: {}", names::plain(what)));
    let records = recorded_in(list, algorithm, trees, &mut |UselessLine { number, why }| {
        useless += 1;
        if verbosity::tells_reason(useless) {
            say(&format!("line {number}: {why}"));
        }
    })?;
    if let Some(untold) = verbosity::untold_reasons(useless) {
        say(&untold);
    }
    let named = records.named.as_ref().filter(|named| !matches!(named, NamedDigest::ByNumber { .. }));
    let named = named.map(ToString::to_string);
    let skipped = &records.skipped;
    let warnings = skipped.doubt().into_iter().chain(skipped.without_digest());
    named.into_iter().chain(warnings.map(|what| format!("WARNING: {what}"))).for_each(|what| say(&what));
    useless += skipped.unknown_digests;
    let exit = match (useless, records.contents.is_empty()) {
        (0, true) => {
            say("no file is listed with a digest");
            Exit::Mismatch
        }
        (0, false) => Exit::Clean,
        _ => Exit::Unchecked,
    };
    Ok((records, useless, exit))
}

/// Says what the numbers of a list were taken for by their length alone, if none of the files that were tried has it:
/// to be said last, as the files themselves may say more.
pub(crate) fn say_unproven(list: &Path, named: Option<&NamedDigest>) {
    if let Some(unproven @ NamedDigest::ByNumber { .. }) = named {
        ui::say(PROGRAM, &format!("{}: {unproven}", names::quoted(list.as_os_str())));
    }
}
