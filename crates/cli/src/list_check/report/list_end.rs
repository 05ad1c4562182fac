//! The end of a list in `check`: what it could not read or skipped, and whether any line was good.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

use verisum::files::store::manifest::{Dialect, ReadError, Skipped};
use verisum::remote::{Address, Host};

use super::super::words::is_read;
use super::{CheckCounts, CheckReport};
use crate::ui::exit::Exit;
use crate::ui::failure::{Failure, cause};
use crate::ui::{names, shell, verbosity};

/// What a directory is that stands in the place of a list.
const NO_BAG: &str = "is a directory without bagit.txt; verisum check takes a bag or a list";

/// The fewest hexadecimal digits of digests that block hashes are made of: those of MD5.
const BLOCK_HASH_DIGITS: usize = 32;

impl CheckReport<'_, '_> {
    /// Ends the list at hand, and counts what was found in it.
    pub(super) fn add_up(&mut self) -> CheckCounts {
        let list = std::mem::take(&mut self.list);
        self.bad.end_list();
        self.total.verified += list.verified;
        self.total.failed += list.failed;
        self.total.missing += list.missing;
        self.total.unreadable += list.unreadable;
        self.total.bad_lines += list.bad_lines;
        self.total.size_only += list.size_only;
        self.total.present += list.present;
        self.total.unknown_digests += list.unknown_digests;
        self.total.left_out += list.left_out;
        list
    }

    /// Says what the coreutils say at the end of a list.
    pub(super) fn list_ended(
        &mut self,
        manifest: usize,
        error: Option<&ReadError>,
        skipped: &Skipped,
    ) -> Result<(), Failure> {
        let list = self.add_up();
        let unread = list.missing + list.unreadable;
        if let Some(untold) = verbosity::untold_reasons(list.reasons).filter(|_| self.is_own()) {
            self.say(&format!("{}: {untold}", self.shown(manifest)))?;
        }
        if let Some(error) = error {
            self.lists_unread = true;
            self.worse(list.class.end(false).into());
            return self.unreadable_list(manifest, error);
        }
        if list.refused {
            return Ok(());
        }
        if list.is_shared && list.formatted == 0 {
            return Ok(());
        }
        self.worse(list.class.end(true).into());
        if let Some(unknown) = skipped.without_digest().filter(|_| self.is_own() && !self.options.status) {
            self.say_of_list(&format!("WARNING: {}", names::plain(&unknown)))?;
        }
        if list.formatted == 0 && list.unknown_digests > 0 {
            return Ok(());
        }
        if list.formatted == 0 {
            let message = format!("{}: no properly formatted checksum lines found", self.shown(manifest));
            return self.say_of_list(&message);
        }
        if self.options.strict && list.bad_lines > 0 {
            self.worse(Exit::Mismatch);
        }
        if self.options.status {
            return Ok(());
        }
        if list.bad_lines > 0 {
            let what = match list.bad_lines {
                1 => "line is improperly formatted",
                _ => "lines are improperly formatted",
            };
            self.say_of_list(&format!("WARNING: {} {what}", list.bad_lines))?;
        }
        if unread > 0 {
            self.count(unread, "listed file could not be read", "listed files could not be read")?;
        }
        if list.failed > 0 {
            self.count_failed(list.failed)?;
        }
        let is_for_nothing = self.is_own() && list.failed + unread == 0;
        if (self.options.ignore_missing || is_for_nothing) && list.verified == 0 {
            self.say(&format!("{}: no file was verified", self.shown(manifest)))?;
        }
        if let Some(host) = list.elsewhere.filter(|host| list.verified == 0 && *host != Host::Local) {
            let root: &[u8] = if matches!(host, Host::Bucket(_)) { b"/" } else { b"." };
            let named = self.names.get(manifest).map_or(&b""[..], |name| name.as_bytes());
            let (place, name) = (Address::new(host.clone(), root).typed_form(), names::plain(&host.name()));
            let digest = self.options.algorithm.as_deref();
            let digest = digest.map_or(String::new(), |id| format!(" -a {}", shell::word(id.as_bytes())));
            let command = format!("verisum check{digest} {} {}", shell::word(named), shell::word(&place));
            self.say(&format!(
                "{}: if its files are on {name}, check them there: {command}",
                self.shown(manifest)
            ))?;
        }
        if self.is_own() && list.verified == 0 && list.assumed > 0 && list.assumed == list.failed {
            let (digits, id) = list.taken.clone().unwrap_or_default();
            // Nobody takes block hashes of checksums.
            let or = match digits < BLOCK_HASH_DIGITS {
                true => "",
                false => "; `verisum image sum -c` checks block hashes of images",
            };
            self.say(&format!(
                "{}: nothing matched: all files differ, or the {digits} digits that were taken for {id} are of \
                 another digest (-a names a different digest{or})",
                self.shown(manifest)
            ))?;
        }
        Ok(())
    }

    fn unreadable_list(&mut self, manifest: usize, error: &ReadError) -> Result<(), Failure> {
        let name = self.shown(manifest);
        let message = match error {
            // A directory opens, and cannot be read.
            ReadError::Io(error) if self.options.dialect == Dialect::Coreutils && is_read(error) => {
                format!("{name}: read error")
            }
            ReadError::Io(error)
                if self.options.dialect == Dialect::Any && error.kind() == ErrorKind::IsADirectory =>
            {
                format!("{name}: {NO_BAG}")
            }
            ReadError::Io(error) => format!("{name}: {}", cause(error)),
            other => format!("{name}: {other}"),
        };
        self.say_of_list(&message)
    }
}
