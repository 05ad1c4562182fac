//! The lines that `check` prints of a file, and its messages.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use verisum::files::FileError;
use verisum::files::check::Difference;

use super::super::words::{unlike, why};
use super::CheckReport;
use crate::ui::color::Paint;
use crate::ui::failure::Failure;
use crate::ui::{self, Output, locale, names, shell, verbosity};

impl CheckReport<'_, '_> {
    /// The name of a list in messages.
    pub(super) fn shown(&self, manifest: usize) -> String {
        let name = self.names.get(manifest).map_or(OsStr::new(""), OsString::as_os_str);
        self.quoted(if name == "-" { OsStr::new("standard input") } else { name })
    }

    pub(super) fn count_failed(&mut self, count: u64) -> Result<(), Failure> {
        self.count(count, "computed checksum did NOT match", "computed checksums did NOT match")
    }

    pub(super) fn count(&mut self, count: u64, one: &str, several: &str) -> Result<(), Failure> {
        let what = if count == 1 { one } else { several };
        self.say(&format!("WARNING: {count} {what}"))
    }

    pub(super) fn say_unlike(&mut self, name: &[u8], difference: &Difference) -> Result<(), Failure> {
        if self.options.status {
            return Ok(());
        }
        self.reason(name, &unlike(difference))
    }

    pub(super) fn say_of_file(&mut self, name: &[u8], error: &FileError) -> Result<(), Failure> {
        self.reason(name, &why(error))
    }

    pub(super) fn reason(&mut self, name: &[u8], why: &str) -> Result<(), Failure> {
        self.list.reasons += 1;
        if self.is_own() && !verbosity::tells_reason(self.list.reasons) {
            return Ok(());
        }
        let name = self.quoted(OsStr::from_bytes(name));
        self.say(&format!("{name}: {why}"))
    }

    /// `NAME: RESULT`, with a name that cannot end the line.
    pub(super) fn result(&mut self, name: &[u8], result: &str) -> Result<(), Failure> {
        if self.options.status {
            return Ok(());
        }
        let mut line = Vec::with_capacity(name.len() + result.len() + 3);
        match self.place.as_ref().filter(|place| place.is_named) {
            Some(place) => {
                let full = [&place.address.host.prefix(name), name].concat();
                names::result_name(&mut line, OsStr::from_bytes(&full));
            }
            None => names::result_name(&mut line, OsStr::from_bytes(name)),
        }
        line.extend_from_slice(b": ");
        let word = line.len()..line.len() + result.len();
        line.extend_from_slice(result.as_bytes());
        if let Some(known) = self.place.as_mut().and_then(|place| place.evidence.take()) {
            line.extend_from_slice(format!(" ({})", known.text()).as_bytes());
        }
        line.push(b'\n');
        let paint = if result.starts_with("OK") { Paint::Good } else { Paint::Bad };
        let is_own = self.is_own();
        self.output.with(|output| match is_own {
            true => output.outcome_bytes(&line, word, paint),
            // Those whose name it has know no colour.
            false => output.bytes(&line),
        })
    }

    /// A name in a message. Other programs show letters that are none in the locale by their bytes.
    fn quoted(&self, name: &OsStr) -> String {
        shell::quoted(name, self.is_own() || locale::is_utf8())
    }

    /// A message, after all results that were before it. It names the place, if there is one.
    pub(in crate::list_check) fn say(&mut self, message: &str) -> Result<(), Failure> {
        let Some(place) = &self.place else { return self.say_of_list(message) };
        self.output.with(Output::flush)?;
        self.output.note_of_tree(place.address, message);
        Ok(())
    }

    /// The same of a list, which is the same for all places.
    pub(super) fn say_of_list(&mut self, message: &str) -> Result<(), Failure> {
        if self.place.as_ref().is_some_and(|place| !place.tells_lists) {
            return Ok(());
        }
        self.output.with(Output::flush)?;
        ui::say(&self.options.program, message);
        Ok(())
    }
}
