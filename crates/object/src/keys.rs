//! The keys below a root, page by page.

use std::collections::VecDeque;

use tokio::runtime::Runtime;
use verisum_files::place::{FileAnswer, FileRequest, PlaceError, PlaceEvent, Reason, Sink};
use verisum_files::{Stop, text};

use crate::client::Client;
use crate::error::RequestError;
use crate::listing::{Listed, PAGE, is_name, version_of};
use crate::queue::{MOST_WRONG, unless_stopped};
use crate::store::Store;

/// Goes through the objects of a tree in the order of their keys' bytes.
pub(crate) struct Keys<'a> {
    client: &'a Client,
    runtime: &'a Runtime,
    stop: &'a Stop,
    sink: Sink<'a>,
    /// The key of the root; nothing for the bucket itself.
    root: Vec<u8>,
    page: VecDeque<Listed>,
    next: Next,
    /// The last key of the pages so far.
    last: Option<Vec<u8>>,
    /// How many pages there were.
    pages: u64,
    /// How many of the last keys in a row that were asked for the store did not give.
    absent: u32,
}

/// After so many pages, the last key of each so many of them is asked for: a store may list without end.
const FIRST_ASKED: u64 = 128;
const ASKED_EACH: u64 = 16;

enum Next {
    First,
    Page(String),
    End,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(
        client: &'a Client,
        (runtime, stop): (&'a Runtime, &'a Stop),
        root: &[u8],
        sink: Sink<'a>,
    ) -> Keys<'a> {
        let root = key(root).to_vec();
        let (page, next, last) = (VecDeque::new(), Next::First, None);
        Keys { client, runtime, stop, sink, root, page, next, last, pages: 0, absent: 0 }
    }

    /// The next object. Keys that cannot be files are told to the sink; none also when it wants no more, or all is to end.
    pub(crate) fn next(&mut self) -> Result<Option<Listed>, PlaceError> {
        loop {
            while let Some(listed) = self.page.pop_front() {
                if self.stop.is_due() {
                    return Ok(None);
                }
                // That is the root itself, as it was typed. Of a bucket an empty key is none.
                if listed.key == self.root && !self.root.is_empty() {
                    return Ok(Some(listed));
                }
                match is_file(&listed, self.sink, matches!(self.client.store, Store::S3 { .. })) {
                    Some(true) => return Ok(Some(listed)),
                    Some(false) => {}
                    None => return Ok(None),
                }
            }
            let next = match std::mem::replace(&mut self.next, Next::End) {
                Next::First => self.first()?,
                Next::Page(token) => self.page(Some(&token))?,
                Next::End => return Ok(None),
            };
            if let Some(token) = next {
                self.next = Next::Page(token);
            }
        }
    }

    /// The first page; what the root itself is, where nothing is below it.
    fn first(&mut self) -> Result<Option<String>, PlaceError> {
        let next = self.page(None)?;
        if self.root.is_empty() || self.stop.is_due() {
            return Ok(next);
        }
        let key = self.root.clone();
        let looked = unless_stopped(self.runtime, self.stop, self.client.look(&key));
        let Some(found) = looked else { return Ok(None) };
        match (found, self.page.is_empty()) {
            (Ok(seen), true) => self.page.push_back(Listed { key, seen, recorded: None }),
            (Ok(_), false) => {
                let key = text::printable(&String::from_utf8_lossy(&key));
                let why = "an object and a folder have this name; only the folder is taken";
                (self.sink)(PlaceEvent::Unlisted(format!("{key}: {why}")));
            }
            (Err(error), true) if error.is_of_object() => {
                let request = FileRequest { path: path(&key), ..FileRequest::default() };
                (self.sink)(PlaceEvent::Answer(FileAnswer::failed(request, error.reason())));
            }
            (Err(error), true) => return Err(machine(&error)),
            (Err(_), false) => {}
        }
        Ok(next)
    }

    fn page(&mut self, token: Option<&str>) -> Result<Option<String>, PlaceError> {
        let mut prefix = self.root.clone();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        // What was listed is of no use to anybody then.
        let asked = unless_stopped(self.runtime, self.stop, self.client.page(&prefix, token, PAGE));
        let Some(page) = asked else { return Ok(None) };
        let page = page.map_err(|error| machine(&error))?;
        for listed in &page.objects {
            if self.last.as_ref().is_some_and(|last| *last >= listed.key) {
                let wrong = "it does not list keys in the order of their bytes";
                return Err(machine(&RequestError::Answer(wrong)));
            }
            self.last = Some(listed.key.clone());
        }
        if token.is_some() && page.next.as_deref() == token {
            return Err(machine(&RequestError::Answer("a page of its list is followed by itself")));
        }
        self.page.extend(page.objects);
        self.require_end(page.next.is_some())?;
        Ok(page.next)
    }

    /// Fails where a listing goes on with what the store does not give.
    fn require_end(&mut self, goes_on: bool) -> Result<(), PlaceError> {
        self.pages += 1;
        let is_asked = self.pages >= FIRST_ASKED && self.pages.is_multiple_of(ASKED_EACH);
        let Some(last) = self.last.as_ref().filter(|_| is_asked && goes_on) else { return Ok(()) };
        let found = unless_stopped(self.runtime, self.stop, is_there(self.client, last));
        self.absent = if found == Some(false) { self.absent + 1 } else { 0 };
        if self.absent > MOST_WRONG {
            let wrong = "its list goes on with keys that it does not give";
            return Err(machine(&RequestError::Answer(wrong)));
        }
        Ok(())
    }
}

/// Whether a store gives an object that it lists.
async fn is_there(client: &Client, key: &[u8]) -> bool {
    if is_name(key) && version_of(key).1.is_none() {
        match client.look(key).await {
            Ok(_) => return true,
            Err(error) if error.reason() != Reason::Denied => return false,
            // Not all that may list objects may read them.
            Err(_) => {}
        }
    }
    // No URL leads to a key such as `a/../b`: the store must list it by itself.
    client.page(key, None, 1).await.is_ok_and(|page| page.objects.iter().any(|listed| listed.key == key))
}

/// Whether an object can be a file. What cannot is told to the sink, unless it stands for a folder; none where that wants
/// no more.
pub(crate) fn is_file(listed: &Listed, sink: Sink, has_versions: bool) -> Option<bool> {
    if has_versions && version_of(&listed.key).1.is_some() {
        let key = text::printable(&String::from_utf8_lossy(&listed.key));
        let why = "the key is like the address of a version";
        return sink(PlaceEvent::Unlisted(format!("{key}: {why}"))).then_some(false);
    }
    if is_name(&listed.key) {
        return Some(true);
    }
    // Programs that show folders put an empty object where a folder begins.
    let is_folder = listed.key.ends_with(b"/") && listed.seen.size == Some(0);
    if is_folder && is_name(&listed.key[..listed.key.len() - 1]) {
        return Some(false);
    }
    let key = text::printable(&String::from_utf8_lossy(&listed.key));
    let what = if key.is_empty() { "(an empty key)" } else { &key };
    sink(PlaceEvent::Unlisted(format!("{what}: the key is no file name"))).then_some(false)
}

/// Why an object has no content. One that the store does not have must not be in the list still. Keys below it do not make
/// it a directory: an object may be written beside them.
pub(crate) fn reason(
    client: &Client,
    (runtime, stop): (&Runtime, &Stop),
    key: &[u8],
    error: &RequestError,
) -> Reason {
    if *error != RequestError::Missing {
        return error.reason();
    }
    match unless_stopped(runtime, stop, client.page(key, None, 1)) {
        Some(Ok(page)) if page.objects.iter().any(|listed| listed.key == key) => {
            Reason::Failed("the store lists it, and says that there is no such object".to_string())
        }
        Some(Err(error @ RequestError::Answer(_))) => error.reason(),
        // Not all that may read objects may list them.
        _ => Reason::Missing,
    }
}

/// The key of the object with this path.
pub(crate) fn key(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/").unwrap_or(path)
}

/// The path of the object with this key.
pub(crate) fn path(key: &[u8]) -> Vec<u8> {
    [b"/", key].concat()
}

/// An error after which nothing else of the store can be read.
pub(crate) fn machine(error: &RequestError) -> PlaceError {
    match error.is_of_all() {
        true => PlaceError::Absent(error.to_string().into()),
        false => PlaceError::Machine(error.to_string().into()),
    }
}
