//! Messages of `b3sum -c` about files, lines and lists, as in its version 1.8.7. Most differ from those of the
//! coreutils.

use std::ffi::OsStr;

use verisum::files::FileError;
use verisum::files::check::{CheckOutcome, Event};

use super::report::CheckReport;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output, names};

impl CheckReport<'_, '_> {
    /// Says what was found.
    pub(super) fn event_of_b3sum(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::File { listed, outcome, .. } => {
                let result = match outcome {
                    CheckOutcome::Match
                    | CheckOutcome::Present { .. }
                    | CheckOutcome::Absent
                    | CheckOutcome::LeftOut => "OK".to_string(),
                    CheckOutcome::Mismatch(_) | CheckOutcome::Unlike(_) => "FAILED".to_string(),
                    CheckOutcome::Missing(error) | CheckOutcome::Failed(error) => {
                        format!("FAILED ({})", why(error))
                    }
                };
                if result == "OK" && self.options.quiet {
                    return Ok(());
                }
                if result != "OK" {
                    self.fails();
                }
                let line = [&listed.written, format!(": {result}\n").as_bytes()].concat();
                self.output.with(|output| output.bytes(&line))
            }
            Event::Bad { bad, .. } => {
                self.fails();
                self.say(&bad.to_string())
            }
            Event::End { error: Some(error), .. } => {
                self.worse(Exit::Unchecked);
                self.output.with(Output::flush)?;
                ui::advise(&format!("Error: {error}"));
                self.is_over = true;
                Ok(())
            }
            Event::End { .. } => Ok(()),
        }
    }
}

/// The cause of a file's error, in the words of Rust's library.
fn why(error: &FileError) -> String {
    match error {
        FileError::Io { source, .. } => source.to_string(),
        FileError::NotAFile { path } if path.is_dir() => {
            std::io::Error::from(rustix::io::Errno::ISDIR).to_string()
        }
        other => names::quoted(OsStr::new(&other.to_string())),
    }
}
