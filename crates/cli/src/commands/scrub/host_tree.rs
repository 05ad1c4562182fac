//! A tree on another machine, listed and read over ssh for a scrub.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use verisum::catalog::scrub::{
    Condition, Reader, ReaderError, Request as Wanted, Response, Sink as ResponseSink,
};
use verisum::catalog::store::stamp;
use verisum::digest::Digest;
use verisum::files::Timestamp;

use crate::ui::names;
use verisum::remote::{
    Answer, Event, Folder, Host, Modified, Options, Place, Reason, Request, Seen, Session, SessionError, Sink,
};

/// Up to so many files are looked at one by one; for more the tree is listed.
const FEW: usize = 32;

/// What a host says of an error of its storage, or of the file system's own checksum.
const OF_STORAGE: [&str; 4] =
    ["Input/output error", "Structure needs cleaning", "Bad message", "No such device"];

/// Says something about a host.
pub(super) type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// What is done with a session; what comes of it is told meanwhile.
type Act<'f> = &'f mut dyn FnMut(&mut Session, Sink) -> Result<(), SessionError>;

/// A host, with a session for each digest that was needed so far.
pub(super) struct Sessions<'a> {
    host: Host,
    options: &'a Options,
    folder: Option<&'a Folder>,
    open: Vec<(String, Session<'a>)>,
    say: Say<'a>,
}

impl<'a> Sessions<'a> {
    /// None yet.
    pub(super) fn new(
        host: &Host,
        options: &'a Options,
        folder: Option<&'a Folder>,
        say: Say<'a>,
    ) -> Sessions<'a> {
        Sessions { host: host.clone(), options, folder, open: Vec::new(), say }
    }

    fn of(&mut self, digest: &Digest) -> Result<&mut Session<'a>, ReaderError> {
        let place = match self.open.iter().position(|(name, _)| name == digest.name()) {
            Some(place) => place,
            None => {
                let say = self.say;
                let sink = |event: Event| {
                    if let Event::Note(note) = event {
                        say(&note);
                    }
                    true
                };
                let opened = Session::open(&self.host, digest, self.options, self.folder, &sink);
                let session = opened.map_err(|error| match &error {
                    SessionError::NoWay(_) => ReaderError::Digest(error.message()),
                    _ => ReaderError::Machine(error.message()),
                })?;
                say(&format!("{} by {}", digest.name(), session.described()));
                self.open.push((digest.name().to_string(), session));
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[place].1)
    }

    /// Ends sessions that something went wrong with.
    fn close(&mut self) {
        self.open.clear();
    }
}

/// A tree on a host.
pub(super) struct RemoteReader<'s, 'a> {
    pub(super) sessions: &'s mut Sessions<'a>,
    pub(super) place: &'s Place,
    /// The digest of those who only list.
    pub(super) digest: &'s Digest,
}

impl RemoteReader<'_, '_> {
    /// Has a session do something, and passes its responses on.
    fn receive(&mut self, digest: &Digest, responses: ResponseSink, act: Act) -> Result<(), ReaderError> {
        let (place, say) = (self.place, self.sessions.say);
        let responses = Mutex::new(responses);
        let session = self.sessions.of(digest)?;
        if !session.tells_times() {
            let why = "its programs tell no sizes and times of files: nothing tells rot from a change";
            return Err(ReaderError::Machine(why.to_string()));
        }
        let sink = |event: Event| {
            let response = match event {
                Event::Note(note) => {
                    say(&note);
                    return true;
                }
                Event::Unlisted(line) => Some(Response::Unlisted(names::plain(&line))),
                Event::Answer(answer) => response_of(place, answer),
            };
            response
                .is_none_or(|response| (responses.lock().unwrap_or_else(PoisonError::into_inner))(response))
        };
        act(session, &sink).map_err(|error| {
            self.sessions.close();
            ReaderError::Machine(error.message())
        })
    }

    /// Reads files, and returns the responses.
    fn read(&mut self, digest: &Digest, files: &[Wanted]) -> Result<Vec<Response>, ReaderError> {
        let mut all = Vec::with_capacity(files.len());
        self.files(digest, files.to_vec(), &mut |response| {
            all.push(response);
            true
        })?;
        Ok(all)
    }

    /// What is known now of files besides their content.
    fn conditions(
        &mut self,
        digest: &Digest,
        files: &[Wanted],
    ) -> Result<HashMap<Vec<u8>, Condition>, ReaderError> {
        let mut found: HashMap<Vec<u8>, Condition> = HashMap::new();
        let mut note = |response: Response| {
            if let Response::File(Wanted { name, condition }, _) = response {
                found.insert(name, condition);
            }
            true
        };
        if files.len() > FEW {
            let path = self.place.path.clone();
            self.receive(digest, &mut note, &mut |session, sink| session.tree(&path, false, sink))?;
            return Ok(found);
        }
        for file in files {
            let path = self.place.join(&file.name);
            self.receive(digest, &mut note, &mut |session, sink| session.tree(&path, false, sink))?;
        }
        Ok(found)
    }

    /// Reads files and says of each what it was before and after, where the way to hash does not tell.
    pub(super) fn read_settled(
        &mut self,
        digest: &Digest,
        files: &[Wanted],
    ) -> Result<Vec<Response>, ReaderError> {
        if self.sessions.of(digest)?.reads_conditions() {
            return self.read(digest, files);
        }
        let before = self.conditions(digest, files)?;
        let there: Vec<Wanted> = files
            .iter()
            .map(|file| Wanted {
                condition: before.get(&file.name).copied().unwrap_or(file.condition),
                ..file.clone()
            })
            .collect();
        let responses = self.read(digest, &there)?;
        let after = self.conditions(digest, &there)?;
        let settled = |response: Response| match response {
            Response::File(file, _) if after.get(&file.name) != before.get(&file.name) => {
                Response::Changed(file.name)
            }
            response => response,
        };
        Ok(responses.into_iter().map(settled).collect())
    }
}

impl Reader for RemoteReader<'_, '_> {
    fn tree(&mut self, digest: Option<&Digest>, sink: ResponseSink) -> Result<(), ReaderError> {
        let (path, listed) = (self.place.path.clone(), self.digest);
        let (wanted, hashed) = (digest.unwrap_or(listed), digest.is_some());
        self.receive(wanted, sink, &mut |session, sink| session.tree(&path, hashed, sink))
    }

    fn files(&mut self, digest: &Digest, files: Vec<Wanted>, sink: ResponseSink) -> Result<(), ReaderError> {
        let place = self.place;
        let mut names = files.into_iter().map(|file| Request {
            path: place.join(&file.name),
            seen: Seen { size: Some(file.condition.size), modified: Some(modified(&file.condition)) },
            ..Request::default()
        });
        self.receive(digest, sink, &mut |session, sink| session.names(&mut names, sink))
    }

    fn again(&mut self, digest: &Digest, files: Vec<Wanted>, sink: ResponseSink) -> Result<(), ReaderError> {
        for response in self.read_settled(digest, &files)? {
            if !sink(response) {
                break;
            }
        }
        Ok(())
    }
}

/// The response that an answer means for a tree; none for a file that is gone.
fn response_of(place: &Place, answer: Answer) -> Option<Response> {
    let Answer { request, result } = answer;
    let name = match request.path == place.path {
        true => Vec::new(),
        false => place.below(&request.path).to_vec(),
    };
    let reason = match result {
        Ok(found) if found.changed => return Some(Response::Changed(name)),
        Ok(found) => match (request.seen.size, request.seen.modified) {
            (Some(size), Some(modified)) => {
                let condition = Condition { size, mtime: stamp(modified.time), is_exact: modified.is_exact };
                return Some(Response::File(Wanted { name, condition }, found.digest));
            }
            _ => Reason::Failed("the host told no size and time of it".to_string()),
        },
        Err(Reason::Missing) if !name.is_empty() => return None,
        Err(reason) => reason,
    };
    let error = format!("read: {}", reason.message());
    let storage_failed = OF_STORAGE.iter().any(|words| error.contains(words));
    Some(Response::Unread { name, error, storage_failed })
}

fn modified(condition: &Condition) -> Modified {
    let time = Timestamp {
        seconds: condition.mtime.div_euclid(1_000_000_000),
        nanoseconds: condition.mtime.rem_euclid(1_000_000_000) as u32,
    };
    Modified { time, is_exact: condition.is_exact }
}
