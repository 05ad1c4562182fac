//! The content of a place as the record of another tree, for repairs without any record.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use verisum_digest::Digest;
use verisum_files::FileError;
use verisum_files::place::{Files, Place, PlaceError, PlaceEvent};
use verisum_mend::repair::ExpectedContent;
use verisum_parity::USUAL_PLACE;

/// The digest to ask a place for: every host computes it.
pub const TRUSTED_DIGEST: &str = "sha256";

/// How many records may wait.
const WAITING: usize = 1024;

/// Hashes all files of a place below `root`, and gives `work` what they are while it goes on. `unread` is told which
/// files have no record: those that could not be read, with the error, and those that changed meanwhile. Returns also
/// how the place ended.
pub fn with_records_of<T>(
    place: &mut dyn Place,
    root: &[u8],
    digest: &Digest,
    unread: &(dyn Fn(&Path, Option<FileError>) + Sync),
    work: impl FnOnce(&mut dyn Iterator<Item = ExpectedContent>) -> T,
) -> (T, Result<(), PlaceError>) {
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let hashing = scope.spawn(move || {
            let take = |event: PlaceEvent| {
                let PlaceEvent::Answer(answer) = event else { return true };
                let path = Path::new(OsStr::from_bytes(&answer.request.path));
                let below = path.strip_prefix(OsStr::from_bytes(root)).unwrap_or(path);
                // The parity of one place is not that of another.
                if below.iter().any(|name| name == USUAL_PLACE) {
                    return true;
                }
                let read = answer.result.map(|read| if read.changed { None } else { read.digest() });
                let error = match read {
                    Ok(Some(value)) => {
                        let (below, digest) = (below.to_path_buf(), digest.clone());
                        let record = ExpectedContent {
                            below,
                            digest,
                            value,
                            is_unwritten: false,
                            list: None,
                            copies: None,
                        };
                        return sender.send(record).is_ok();
                    }
                    Ok(None) => None,
                    Err(error) => Some(error),
                };
                unread(path, error);
                true
            };
            let trees = &mut std::iter::once(root.to_vec());
            place.hash(std::slice::from_ref(digest), Files::Trees(trees), &take)
        });
        let done = work(&mut receiver.into_iter());
        let hashed = hashing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (done, hashed)
    })
}
