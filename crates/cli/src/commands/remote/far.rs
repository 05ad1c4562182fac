//! A tree of another machine for those who scrub it: listed and read over a session.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use verisum_digest::Digest;
use verisum_tree::Timestamp;
use verisum_tree::scrub::{Asked as Wanted, Condition, Reader, Tell, Told, Unread};
use verisum_tree::store::catalog::stamp;

use crate::remote::{
    Answer, Asked, Event, Folder, Host, Modified, Options, Place, Reason, Seen, Session, Sink, Trouble,
};
use crate::render::names;

/// Up to so many files are looked at one by one; for more the tree is listed.
const FEW: usize = 32;

/// What a host says of an error of its storage, or of the file system's own checksum.
const OF_STORAGE: [&str; 4] =
    ["Input/output error", "Structure needs cleaning", "Bad message", "No such device"];

/// Says something about a host.
pub(super) type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// What is done with a session; what comes of it is told meanwhile.
type Act<'f> = &'f mut dyn FnMut(&mut Session, Sink) -> Result<(), Trouble>;

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

    fn of(&mut self, digest: &Digest) -> Result<&mut Session<'a>, Unread> {
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
                let session = opened.map_err(|trouble| match &trouble {
                    Trouble::NoWay(_) => Unread::Digest(trouble.message()),
                    _ => Unread::Machine(trouble.message()),
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
pub(super) struct Far<'s, 'a> {
    pub(super) sessions: &'s mut Sessions<'a>,
    pub(super) place: &'s Place,
    /// The digest of those who only list.
    pub(super) digest: &'s Digest,
}

impl Far<'_, '_> {
    /// Has a session do something, and tells what comes of it.
    fn heard(&mut self, digest: &Digest, tell: Tell, act: Act) -> Result<(), Unread> {
        let (place, say) = (self.place, self.sessions.say);
        let tell = Mutex::new(tell);
        let session = self.sessions.of(digest)?;
        if !session.tells_times() {
            let why = "its programs tell no sizes and times of files: nothing tells rot from a change";
            return Err(Unread::Machine(why.to_string()));
        }
        let sink = |event: Event| {
            let told = match event {
                Event::Note(note) => {
                    say(&note);
                    return true;
                }
                Event::Unlisted(line) => Some(Told::Unlisted(names::plain(&line))),
                Event::Answer(answer) => told(place, answer),
            };
            told.is_none_or(|told| (tell.lock().unwrap_or_else(PoisonError::into_inner))(told))
        };
        act(session, &sink).map_err(|trouble| {
            self.sessions.close();
            Unread::Machine(trouble.message())
        })
    }

    /// Reads files, and gives what was told of each.
    fn read(&mut self, digest: &Digest, files: &[Wanted]) -> Result<Vec<Told>, Unread> {
        let mut all = Vec::with_capacity(files.len());
        self.files(digest, files.to_vec(), &mut |told| {
            all.push(told);
            true
        })?;
        Ok(all)
    }

    /// What is known now of files besides their content.
    fn conditions(
        &mut self,
        digest: &Digest,
        files: &[Wanted],
    ) -> Result<HashMap<Vec<u8>, Condition>, Unread> {
        let mut found: HashMap<Vec<u8>, Condition> = HashMap::new();
        let mut note = |told: Told| {
            if let Told::File(Wanted { name, condition }, _) = told {
                found.insert(name, condition);
            }
            true
        };
        if files.len() > FEW {
            let path = self.place.path.clone();
            self.heard(digest, &mut note, &mut |session, sink| session.tree(&path, false, sink))?;
            return Ok(found);
        }
        for file in files {
            let path = self.place.join(&file.name);
            self.heard(digest, &mut note, &mut |session, sink| session.tree(&path, false, sink))?;
        }
        Ok(found)
    }

    /// Reads files and says of each what it was before and after, where the way to hash does not tell.
    pub(super) fn read_settled(&mut self, digest: &Digest, files: &[Wanted]) -> Result<Vec<Told>, Unread> {
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
        let told = self.read(digest, &there)?;
        let after = self.conditions(digest, &there)?;
        let settled = |told: Told| match told {
            Told::File(file, _) if after.get(&file.name) != before.get(&file.name) => {
                Told::Changed(file.name)
            }
            told => told,
        };
        Ok(told.into_iter().map(settled).collect())
    }
}

impl Reader for Far<'_, '_> {
    fn tree(&mut self, digest: Option<&Digest>, tell: Tell) -> Result<(), Unread> {
        let (path, listed) = (self.place.path.clone(), self.digest);
        let (wanted, hashed) = (digest.unwrap_or(listed), digest.is_some());
        self.heard(wanted, tell, &mut |session, sink| session.tree(&path, hashed, sink))
    }

    fn files(&mut self, digest: &Digest, files: Vec<Wanted>, tell: Tell) -> Result<(), Unread> {
        let place = self.place;
        let mut names = files.into_iter().map(|file| Asked {
            path: place.join(&file.name),
            seen: Seen { size: Some(file.condition.size), modified: Some(modified(&file.condition)) },
            ..Asked::default()
        });
        self.heard(digest, tell, &mut |session, sink| session.names(&mut names, sink))
    }

    fn again(&mut self, digest: &Digest, files: Vec<Wanted>, tell: Tell) -> Result<(), Unread> {
        for told in self.read_settled(digest, &files)? {
            if !tell(told) {
                break;
            }
        }
        Ok(())
    }
}

/// What an answer tells of a tree; nothing of a file that is gone.
fn told(place: &Place, answer: Answer) -> Option<Told> {
    let Answer { asked, result } = answer;
    let name = match asked.path == place.path {
        true => Vec::new(),
        false => place.below(&asked.path).to_vec(),
    };
    let reason = match result {
        Ok(found) if found.changed => return Some(Told::Changed(name)),
        Ok(found) => match (asked.seen.size, asked.seen.modified) {
            (Some(size), Some(modified)) => {
                let condition = Condition { size, mtime: stamp(modified.time), is_exact: modified.is_exact };
                return Some(Told::File(Wanted { name, condition }, found.digest));
            }
            _ => Reason::Failed("the host told no size and time of it".to_string()),
        },
        Err(Reason::Missing) if !name.is_empty() => return None,
        Err(reason) => reason,
    };
    let error = format!("read: {}", reason.message());
    let storage_failed = OF_STORAGE.iter().any(|words| error.contains(words));
    Some(Told::Unread { name, error, storage_failed })
}

fn modified(condition: &Condition) -> Modified {
    let time = Timestamp {
        seconds: condition.mtime.div_euclid(1_000_000_000),
        nanoseconds: condition.mtime.rem_euclid(1_000_000_000) as u32,
    };
    Modified { time, is_exact: condition.is_exact }
}
