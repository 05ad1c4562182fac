//! `--trust PLACE`: takes the content of PLACE as the record of another tree.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use verisum::TRUSTED_DIGEST;
use verisum::digest::Digest;
use verisum::mend::repair::ExpectedContent;

use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use crate::ui::{self, PROGRAM, kernel};

/// Hashes all files of a place, and gives `work` what they are. Returns also how many could not be read, which are told.
pub(super) fn with_records<T>(
    text: &OsString,
    hosts: &HostArgs,
    work: impl FnOnce(&mut dyn Iterator<Item = ExpectedContent>) -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let reached = hosts.hosts(usize::from(hosts::is_remote(text)))?;
    let (address, mut place) = hosts::tree(text, &reached)?;
    let digest = Digest::find_with(TRUSTED_DIGEST, &kernel::policy()?).map_err(Failure::Digest)?;
    let failed = AtomicU64::new(0);
    let unread = |_: &Path, error| {
        if let Some(error) = error {
            ui::say(PROGRAM, &Failure::Tree(error).message());
        }
        failed.fetch_add(1, Ordering::Relaxed);
    };
    let (done, hashed) = verisum::with_records_of(&mut *place, &address.path, &digest, &unread, work);
    let done = done?;
    hashed?;
    Ok((done, failed.load(Ordering::Relaxed)))
}
