//! `--trust PLACE`: takes the content of PLACE as the record of another tree.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use verisum::digest::Digest;
use verisum::files::place::{Files, PlaceEvent};
use verisum::mend::repair::Recorded;
use verisum::parity::USUAL_PLACE;

use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use crate::ui::{self, PROGRAM, kernel};

/// Every host computes it.
const DIGEST: &str = "sha256";

/// How many records may wait.
const WAITING: usize = 1024;

/// Hashes all files of a place, and gives `work` what they are. Returns also how many could not be read, which are told.
pub(super) fn with_records<T>(
    text: &OsString,
    hosts: &HostArgs,
    work: impl FnOnce(&mut dyn Iterator<Item = Recorded>) -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let reached = hosts.hosts(usize::from(hosts::is_remote(text)))?;
    let (address, mut place) = hosts::tree(text, &reached)?;
    let digest = Digest::find_with(DIGEST, &kernel::policy()?).map_err(Failure::Digest)?;
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let (failed, digest, root) = (&failed, &digest, address.path);
        let hashing = scope.spawn(move || {
            let take = |event: PlaceEvent| {
                let PlaceEvent::Answer(answer) = event else { return true };
                let path = Path::new(OsStr::from_bytes(&answer.request.path));
                let below = path.strip_prefix(OsStr::from_bytes(&root)).unwrap_or(path);
                // The parity of one place is not that of another.
                if below.iter().any(|name| name == USUAL_PLACE) {
                    return true;
                }
                let value = match answer.result {
                    Ok(read) if !read.changed => read.digest(),
                    Ok(_) => None,
                    Err(error) => {
                        ui::say(PROGRAM, &Failure::Tree(error).message());
                        failed.fetch_add(1, Ordering::Relaxed);
                        return true;
                    }
                };
                let Some(value) = value else {
                    failed.fetch_add(1, Ordering::Relaxed);
                    return true;
                };
                let (below, digest) = (below.to_path_buf(), digest.clone());
                sender.send(Recorded { below, digest, value, is_unwritten: false, list: None }).is_ok()
            };
            place.hash(std::slice::from_ref(digest), Files::Trees(&mut std::iter::once(root.clone())), &take)
        });
        let done = work(&mut receiver.into_iter())?;
        match hashing.join() {
            Ok(hashed) => hashed?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok((done, failed.load(Ordering::Relaxed)))
    })
}
