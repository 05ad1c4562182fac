//! Reads an object, and fails if somebody replaces it meanwhile.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Runtime;
use verisum_files::place::FileState;

use crate::client::{Part, SharedClient};
use crate::error::RequestError;
use crate::queue::PIECE;

/// One content of an object, by what is known of its beginning.
pub(crate) struct ObjectContent {
    client: SharedClient,
    key: Vec<u8>,
    etag: Option<String>,
    version: Option<String>,
    seen: FileState,
    has_name: bool,
    pub(crate) size: u64,
    /// What was read of it.
    pub(crate) head: Vec<u8>,
}

impl ObjectContent {
    pub(crate) fn new(client: &SharedClient, key: &[u8], first: Part) -> ObjectContent {
        let has_name = first.has_name();
        let Part { bytes: head, seen, size, etag, version, .. } = first;
        ObjectContent { client: client.clone(), key: key.to_vec(), etag, version, seen, has_name, size, head }
    }

    /// How many requests may be under way.
    pub(crate) fn at_once(&self) -> usize {
        self.client.at_once
    }

    /// A range of it.
    pub(crate) async fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, RequestError> {
        if !self.has_name {
            let why = "it has neither an ETag nor a time, so that ranges could be of several contents";
            return Err(RequestError::Answer(why));
        }
        let part = self.client.part(&self.key, range, self.etag.as_deref()).await?;
        // A store may say the same ETag of different content.
        match part.size == self.size && part.seen == self.seen && part.version == self.version {
            true => Ok(part.bytes),
            false => Err(RequestError::Replaced),
        }
    }

    /// The same when it is the turn of these bytes.
    pub(crate) async fn fetch_in_turn(&self, range: Range<u64>) -> Result<Vec<u8>, RequestError> {
        self.client.admit(range.end.min(self.size) - range.start, 1).await;
        self.fetch(range).await
    }
}

/// Reads a range of an object piece by piece.
pub(crate) struct ObjectReader {
    content: ObjectContent,
    runtime: Arc<Runtime>,
    /// What was not asked for yet.
    left: Range<u64>,
    piece: Vec<u8>,
    /// So much of the piece was given.
    taken: usize,
}

impl ObjectReader {
    /// Reads from `start` on, where the first bytes were read; `end` may be behind the object's.
    pub(crate) fn new(mut content: ObjectContent, runtime: &Arc<Runtime>, range: Range<u64>) -> ObjectReader {
        let left = range.start + content.head.len() as u64..range.end.min(content.size);
        let mut piece = std::mem::take(&mut content.head);
        piece.truncate((range.end - range.start) as usize);
        ObjectReader { content, runtime: runtime.clone(), left, piece, taken: 0 }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.left.is_empty() {
            let end = self.left.end.min(self.left.start + PIECE);
            let asked = self.content.fetch(self.left.start..end);
            let bytes = self.runtime.block_on(asked).map_err(|error| io::Error::other(error.to_string()))?;
            self.left.start = end;
            (self.piece, self.taken) = (bytes, 0);
        }
        let given = buffer.len().min(self.piece.len() - self.taken);
        buffer[..given].copy_from_slice(&self.piece[self.taken..self.taken + given]);
        self.taken += given;
        Ok(given)
    }
}
