//! `--trust PLACE`: takes the content of PLACE as the record of another tree.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use verisum::TRUSTED_DIGEST;
use verisum::digest::Digest;
use verisum::mend::repair::ExpectedContent;

use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use crate::ui::{self, PROGRAM, kernel, names};

/// Hashes all files of a place, and gives `work` what they are. Returns also how many could not be read, which are told;
/// a place without a file is one of them.
pub(super) fn with_records<T>(
    text: &OsString,
    hosts: &HostArgs,
    work: impl FnOnce(&mut dyn Iterator<Item = ExpectedContent>) -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let reached = hosts.hosts(usize::from(hosts::is_remote(text)))?;
    let (address, mut place) = hosts::tree(text, &reached)?;
    let digest = Digest::find_with(TRUSTED_DIGEST, &kernel::policy()?)?;
    let failed = AtomicU64::new(0);
    let unread = |_: &Path, error| {
        if let Some(error) = error {
            ui::say(PROGRAM, &Failure::Tree(error).message());
        }
        failed.fetch_add(1, Ordering::Relaxed);
    };
    let mut has_files = false;
    let work =
        |records: &mut dyn Iterator<Item = ExpectedContent>| work(&mut records.inspect(|_| has_files = true));
    let (done, hashed) = verisum::with_records_of(&mut *place, &address.path, &digest, &unread, work);
    let done = done?;
    hashed?;
    let mut failed = failed.into_inner();
    if !has_files && failed == 0 {
        ui::say(PROGRAM, &format!("{}: no files: its file system may not be mounted", names::quoted(text)));
        failed = 1;
    }
    Ok((done, failed))
}
