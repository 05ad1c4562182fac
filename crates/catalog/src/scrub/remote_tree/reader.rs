//! Turns the answers of a place into what the scrub judges.

use std::sync::Mutex;

use verisum_digest::{Digest, Output};
use verisum_files::place::{
    Contradicted, FileAnswer, FileIdentity, FileRequest, FileState, Files, Modified, Place, PlaceError,
    PlaceEvent, Reason, RecordedDigest, below,
};
use verisum_files::text::printable;
use verisum_files::{lock, message_says_storage_failed};

use crate::scrub::FileFault;
use crate::store::{CatalogRecord, Stamp};

/// Takes what a place tells beside answers; false to end the work.
pub type Notes<'a> = &'a (dyn Fn(PlaceEvent) -> bool + Sync);

/// What is known of a file besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::scrub) struct Condition {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification.
    pub mtime: Stamp,
    /// Whether its nanoseconds are known.
    pub is_exact: bool,
    /// Which file it is, where the place tells that.
    pub identity: Option<FileIdentity>,
}

/// A file that is to be read, by its name below the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scrub) struct Request {
    /// Its name below the directory.
    pub name: Vec<u8>,
    /// What the listing said of it.
    pub condition: Condition,
}

/// What is told of the tree. Names are below the directory that is scrubbed; it has none itself.
#[derive(Clone, Debug)]
pub(in crate::scrub) enum Response {
    /// A regular file that was listed, and the digest of it that a report of its place has.
    Listed(Request, Option<Box<RecordedDigest>>),
    /// A regular file that was read.
    File(Request, Output),
    /// A file that is not what its place recorded when it was written there, and its digest.
    Contradicted(Request, Output, Box<Contradiction>),
    /// A file that changed while it was read.
    Changed(Vec<u8>),
    /// A file or a directory that cannot be read, and why; nothing if it is gone.
    Unread {
        /// Its name.
        name: Vec<u8>,
        /// Why it cannot be read.
        error: FileFault,
        /// Whether it is the storage that fails.
        storage_failed: bool,
    },
    /// Something that nobody can name could not be listed.
    Unlisted(FileFault),
}

/// What a place recorded of a file that is something else.
#[derive(Clone, Debug)]
pub(in crate::scrub) struct Contradiction {
    /// What it recorded, and the same digest of what was read.
    pub contradicted: Box<Contradicted>,
    /// Whether another record of the place is what was read.
    pub is_disputed: bool,
}

/// Takes responses; returns false to end.
pub(in crate::scrub) type Sink<'a> = &'a mut (dyn FnMut(Response) -> bool + Send);

/// What is asked of a tree.
pub(in crate::scrub) enum Ask<'a> {
    /// List all regular files, and read them if they are to be read. What is gone meanwhile is not told.
    Tree { hashed: bool },
    /// Read these.
    Files(&'a mut (dyn Iterator<Item = Request> + Send)),
    /// Read these, and look at each before and after.
    Settled(Vec<Request>),
}

/// A tree in a place.
pub struct PlaceTree<'a> {
    /// Where it is.
    pub place: &'a mut dyn Place,
    /// Its path there.
    pub root: &'a [u8],
    /// Takes what the place tells beside answers.
    pub notes: Notes<'a>,
}

impl PlaceTree<'_> {
    /// Asks, and passes the responses on.
    pub(in crate::scrub) fn ask(
        &mut self,
        digest: &Digest,
        ask: Ask,
        responses: Sink,
    ) -> Result<(), PlaceError> {
        let (root, notes) = (self.root, self.notes);
        let digests = std::slice::from_ref(digest);
        if !self.place.capabilities(digests, notes)?.tells_states {
            let why = "its programs tell no sizes and times of files: nothing tells rot from a change";
            return Err(PlaceError::Machine(why.into()));
        }
        let responses = Mutex::new(responses);
        let sink = |event: PlaceEvent| {
            let response = match event {
                PlaceEvent::Note(_) | PlaceEvent::Way(_) => return notes(event),
                PlaceEvent::Unlisted(line) => Some(Response::Unlisted(FileFault::Told(printable(&line)))),
                PlaceEvent::Answer(answer) => response_of(root, answer),
            };
            response.is_none_or(|response| lock(&responses)(response))
        };
        match ask {
            Ask::Tree { hashed: false } => self.place.list(root, &sink),
            Ask::Tree { hashed: true } => {
                let mut roots = std::iter::once(root.to_vec());
                self.place.hash(digests, Files::Trees(&mut roots), &sink)
            }
            Ask::Files(files) => {
                self.place.hash(digests, Files::Named(&mut files.map(|file| file.of(root))), &sink)
            }
            Ask::Settled(files) => {
                let requests = files.into_iter().map(|file| file.of(root)).collect();
                self.place.hash_settled(digest, requests, &sink)
            }
        }
    }
}

impl Request {
    fn of(self, root: &[u8]) -> FileRequest {
        let Condition { size, mtime, is_exact, identity } = self.condition;
        let time = mtime.timestamp();
        let seen = FileState { size: Some(size), modified: Some(Modified { time, is_exact }), identity };
        let slash: &[u8] = if root == b"/" { b"" } else { b"/" };
        FileRequest { path: [root, slash, &self.name].concat(), seen, ..FileRequest::default() }
    }
}

/// The response that an answer means for a tree; none for a file that is gone.
fn response_of(root: &[u8], answer: FileAnswer) -> Option<Response> {
    let FileAnswer { request, result } = answer;
    let name = below(root, &request.path).unwrap_or(&request.path).to_vec();
    let (reason, failed) = match result {
        Ok(read) if read.changed => return Some(Response::Changed(name)),
        Ok(read) => match (request.seen.size, request.seen.modified) {
            (Some(size), Some(modified)) => {
                let (mtime, is_exact) = (Stamp::from(modified.time), modified.is_exact);
                let condition = Condition { size, mtime, is_exact, identity: request.seen.identity };
                let request = Request { name, condition };
                return Some(match (read.digest(), read.contradicted) {
                    (Some(digest), Some(contradicted)) => {
                        let contradicted = Box::new(contradicted);
                        let contradiction = Contradiction { contradicted, is_disputed: read.is_disputed };
                        Response::Contradicted(request, digest, Box::new(contradiction))
                    }
                    (Some(digest), None) => Response::File(request, digest),
                    (None, _) => Response::Listed(request, read.reported),
                });
            }
            // A list without times, as an inventory may be: reading tells them.
            (Some(size), None) if read.digests.is_empty() => {
                let condition = Condition { size, identity: request.seen.identity, ..Condition::default() };
                return Some(Response::Listed(Request { name, condition }, read.reported));
            }
            _ => return Some(Response::Unread { name, error: FileFault::NoState, storage_failed: false }),
        },
        Err(error) => (error.reason(), error.is_storage_failure()),
    };
    if reason == Reason::Missing && !name.is_empty() {
        return None;
    }
    let error = FileFault::NotRead(reason);
    let storage_failed = failed || message_says_storage_failed(&error.to_string());
    Some(Response::Unread { name, error, storage_failed })
}

/// Whether an error of a file says that it is no file any more, be it in the words of its place.
pub(in crate::scrub) fn is_no_file(error: &FileFault) -> bool {
    let error = error.to_string();
    [Reason::Directory, Reason::Special].iter().any(|reason| error.ends_with(&reason.message()))
}

/// Whether the inode of a file with the recorded time of modification is as it was, as far as its length tells: no
/// ordinary writing moves the length and not the time. Nobody writes into an object of a store, so that of the
/// recorded version tells nothing.
pub fn has_same_change(
    record: &CatalogRecord,
    size: Option<u64>,
    identity: Option<FileIdentity>,
    is_in_store: bool,
) -> Option<bool> {
    let is_version = is_in_store && identity.is_some_and(|identity| identity.number == record.inode);
    (!is_version && size.is_some_and(|size| size != record.size)).then_some(false)
}

/// Whether two times of modification are the same, as far as both are known: some programs tell whole seconds.
pub fn is_same_time(one: Stamp, other: Stamp) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let [one, other] = [one, other].map(Stamp::nanoseconds);
    let is_whole = |time: i64| time.rem_euclid(SECOND) == 0;
    one == other || ((is_whole(one) || is_whole(other)) && one.div_euclid(SECOND) == other.div_euclid(SECOND))
}
