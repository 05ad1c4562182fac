//! What records of files mean for the end of a run, and the commands that mend what is bad.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verisum::catalog::store::{Listed, State, Trouble, is_address};
use verisum::files::{Class, Verdict};

use crate::ui::exit::Exit;
use crate::ui::shell;

/// What a list with a file in this state ends with.
pub(crate) fn exit(state: State) -> Exit {
    match state {
        State::Sound | State::MISSING => Exit::Clean,
        State::Trouble(Trouble::Held) => Exit::Unchecked,
        State::Trouble(Trouble::Verdict(verdict)) => match verdict.class() {
            Class::Corrupt => Exit::Mismatch,
            Class::Unchecked => Exit::Unchecked,
            Class::Clean | Class::Change => Exit::Clean,
        },
    }
}

/// What repairs a file or a tree, by the catalogue that was named, if one was, and from a copy that it does not know.
/// None where `repair` does not work: it mends what is on this machine.
pub(crate) fn repair_command(catalog: Option<&Path>, from: Option<&Path>, path: &Path) -> Option<String> {
    if is_address(path) {
        return None;
    }
    let mut command = "verisum repair".to_string();
    if let Some(catalog) = catalog {
        command += &format!(" --catalog {}", shell::word(catalog.as_os_str().as_bytes()));
    }
    if let Some(from) = from {
        command += &format!(" --from {}", shell::word(from.as_os_str().as_bytes()));
    }
    Some(format!("{command} {}", shell::word(path.as_os_str().as_bytes())))
}

/// The same for a file whose recorded content is wanted again. What somebody may have written is kept.
pub(crate) fn mend_command(catalog: Option<&Path>, from: Option<&Path>, file: &Listed) -> Option<String> {
    let state = file.record.state;
    let command = repair_command(catalog, from, &file.path).filter(|_| state.is_repairable())?;
    Some(match state {
        State::Trouble(Trouble::Verdict(Verdict::Suspicious)) => format!("{command} --keep-bad DIR"),
        _ => command,
    })
}
