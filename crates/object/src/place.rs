//! A bucket as a place.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use verisum_digest::Digest;
use verisum_files::place::{
    Capabilities, FileAnswer, FileRead, FileRequest, FileState, Files, KnownState, MOST_WHOLE, Place,
    PlaceError, PlaceEvent, Sink, WholeFile,
};
use verisum_files::{Error, Operation};

use crate::client::{Client, Part, SharedClient};
use crate::error::{OpenError, RequestError};
use crate::keys::{self, Keys, key, machine};
use crate::options::StoreOptions;
use crate::queue::{AT_ONCE, PIECE, Queue};
use crate::upload::{self, UploadError};

/// Threads that wait for the network.
const THREADS: usize = 2;

/// The objects of a bucket. Their paths are `/KEY`.
pub struct BucketPlace {
    client: SharedClient,
    runtime: Arc<Runtime>,
}

impl BucketPlace {
    /// The bucket of this name. Nobody is asked yet.
    ///
    /// # Errors
    /// The name is none of a bucket, or an option is wrong.
    pub fn open(bucket: &str, options: &StoreOptions) -> Result<BucketPlace, OpenError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || bucket.starts_with('.') || !bucket.bytes().all(is_plain) {
            return Err(OpenError::Address("the bucket's name has characters that no bucket's name has"));
        }
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|error| OpenError::System(error.to_string()))?;
        let client = {
            // Clients of HTTP start timers when they are made.
            let _inside = runtime.enter();
            Client::new(bucket, options)?
        };
        Ok(BucketPlace { client: Arc::new(client), runtime: Arc::new(runtime) })
    }
}

impl Place for BucketPlace {
    fn capabilities(&mut self, _: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
        let mut capabilities = Capabilities::new("verisum");
        capabilities.tells_states = true;
        capabilities.in_order = true;
        capabilities.reads_ranges = true;
        capabilities.writes = true;
        Ok(capabilities)
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        let mut keys = Keys::new(&self.client, &self.runtime, root, sink);
        while let Some(listed) = keys.next()? {
            let path = keys::path(&listed.key);
            let request = FileRequest { path, seen: listed.seen, ..FileRequest::default() };
            let result = Ok(FileRead { recorded: listed.recorded, ..FileRead::default() });
            let answer = FileAnswer { request, result };
            if !sink(PlaceEvent::Answer(answer)) {
                break;
            }
        }
        Ok(())
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        let mut queue = Queue::new(&self.client, &self.runtime, digests, sink)?;
        match files {
            Files::Named(names) => {
                for request in names {
                    if !queue.add(request)? {
                        return Ok(());
                    }
                }
            }
            Files::Trees(roots) => {
                for root in roots {
                    let mut keys = Keys::new(&self.client, &self.runtime, &root, sink);
                    while let Some(listed) = keys.next()? {
                        let path = keys::path(&listed.key);
                        let request = FileRequest { path, seen: listed.seen, ..FileRequest::default() };
                        if !queue.add(request)? {
                            return Ok(());
                        }
                    }
                }
            }
        }
        queue.end()
    }

    fn state(&mut self, path: &[u8]) -> Result<KnownState, PlaceError> {
        self.runtime.block_on(self.client.look_closely(key(path))).map_err(|error| of_object(path, &error))
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        let seen = self.state(path)?.now;
        let size = seen.size.ok_or_else(|| machine(&RequestError::Answer("an object has no length")))?;
        Ok(Box::new(ObjectReader {
            client: self.client.clone(),
            runtime: self.runtime.clone(),
            key: key(path).to_vec(),
            left: range.start..range.end.min(size),
            etag: None,
            piece: Vec::new(),
            taken: 0,
        }))
    }

    fn read_whole(&mut self, files: &[FileRequest]) -> Result<Vec<Option<WholeFile>>, PlaceError> {
        let ask = |file: &FileRequest| {
            let (client, key) = (self.client.clone(), key(&file.path).to_vec());
            self.runtime.spawn(async move { client.part(&key, 0..MOST_WHOLE + 1, None).await })
        };
        let mut found = Vec::with_capacity(files.len());
        for group in files.chunks(AT_ONCE) {
            let asked: Vec<_> = group.iter().map(ask).collect();
            found.extend(asked.into_iter().map(|asked| match self.runtime.block_on(asked) {
                Ok(Ok(Part { bytes, seen, size, original, .. })) if bytes.len() as u64 == size => {
                    Some(WholeFile { content: bytes, known: KnownState { now: seen, original } })
                }
                // Who reads it alone hears why.
                _ => None,
            }));
        }
        Ok(found)
    }

    fn write(&mut self, path: &[u8], content: &mut dyn Read, about: &FileState) -> Result<(), PlaceError> {
        upload::write(&self.client, &self.runtime, key(path), content, about).map_err(|error| match error {
            UploadError::Content(source) => Error::io(&path_of(path), Operation::Read, source).into(),
            UploadError::Request(error) => machine(&error),
        })
    }
}

/// The path as a path of the system.
fn path_of(path: &[u8]) -> PathBuf {
    OsStr::from_bytes(path).into()
}

/// An error of one object, or of the store.
fn of_object(path: &[u8], error: &RequestError) -> PlaceError {
    match error.is_of_object() {
        true => Error::NotRead { path: path_of(path), reason: error.reason() }.into(),
        false => machine(error),
    }
}

/// Reads a range of an object piece by piece.
struct ObjectReader {
    client: SharedClient,
    runtime: Arc<Runtime>,
    key: Vec<u8>,
    /// What was not asked for yet.
    left: Range<u64>,
    etag: Option<String>,
    piece: Vec<u8>,
    /// So much of the piece was given.
    taken: usize,
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.left.is_empty() {
            let end = self.left.end.min(self.left.start + PIECE);
            let asked = self.client.part(&self.key, self.left.start..end, self.etag.as_deref());
            let part = self.runtime.block_on(asked).map_err(|error| io::Error::other(error.to_string()))?;
            self.left.start += part.bytes.len() as u64;
            if part.bytes.is_empty() {
                self.left.end = self.left.start;
            }
            self.etag = part.etag;
            self.piece = part.bytes;
            self.taken = 0;
        }
        let given = buffer.len().min(self.piece.len() - self.taken);
        buffer[..given].copy_from_slice(&self.piece[self.taken..self.taken + given]);
        self.taken += given;
        Ok(given)
    }
}
