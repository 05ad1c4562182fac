//! A bucket as a place.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Method;
use tokio::runtime::{Builder, Runtime};
use verisum_digest::Digest;
use verisum_files::place::{
    Capabilities, FileAnswer, FileIdentity, FileRead, FileRecord, FileRequest, FileState, Files, KnownState,
    MOST_WHOLE, Place, PlaceError, PlaceEvent, RangedFile, Reason, Sink, WholeFile,
};
use verisum_files::{FileError, Operation, Stop, text};

use crate::checksum_report::{Report, ReportChecksums};
use crate::client::{Client, Part, Request, SharedClient};
use crate::content::{ObjectContent, ObjectReader};
use crate::error::{BucketUrlError, OpenError, RequestError};
use crate::inventory::{DataFile, Inventory, Location, MOST_MANIFEST};
use crate::keys::{self, Keys, is_file, key, machine};
use crate::listing::Listed;
use crate::options::{StoreLists, StoreOptions};
use crate::queue::{Fetch, PIECE, Queue, unless_stopped};
use crate::ranged::RangedObject;
use crate::store::Store;
use crate::upload::{self, UploadError};

/// Threads that wait for the network.
const THREADS: usize = 2;

/// The objects of a bucket. Their paths are `/KEY`.
pub struct BucketPlace {
    client: SharedClient,
    runtime: Arc<Runtime>,
    stop: Arc<Stop>,
    inventory: Option<Box<Inventoried>>,
    /// Checksums that nobody needs to be asked for.
    checksums: Option<Arc<ReportChecksums>>,
}

/// Lists that stores write, as errors call them.
const INVENTORY: &str = "the inventory";
const REPORT: &str = "the report";

/// The bytes of a manifest, and the bucket that it is in.
fn manifest(
    list: &'static str,
    location: &Location,
    options: &StoreOptions,
) -> Result<(Vec<u8>, Option<BucketPlace>), OpenError> {
    let mut manifest = Vec::new();
    let mut read = || -> Result<Option<BucketPlace>, String> {
        let in_words = |error: io::Error| text::of_system(&error);
        let (mut content, source): (Box<dyn Read>, _) = match location {
            Location::File(path) => (Box::new(File::open(path).map_err(in_words)?.take(MOST_MANIFEST)), None),
            Location::Object { bucket, key } => {
                let mut source = BucketPlace::open(bucket, options).map_err(|error| error.to_string())?;
                (source.read(key.as_bytes(), 0..MOST_MANIFEST).map_err(of_named)?, Some(source))
            }
        };
        content.read_to_end(&mut manifest).map_err(in_words)?;
        Ok(source)
    };
    let source = read().map_err(|why| location.unread(list, None, why))?;
    Ok((manifest, source))
}

/// What is wrong with a file that is named beside.
fn of_named(error: PlaceError) -> String {
    match error {
        PlaceError::File(error) => error.reason().message(),
        error => error.to_string(),
    }
}

/// Opens a file that a manifest names.
fn data(
    list: &'static str,
    location: &Location,
    bucket: &mut Option<BucketPlace>,
    file: &DataFile,
) -> Result<Box<dyn Read>, OpenError> {
    let opened = match (location, bucket) {
        (Location::Object { .. }, Some(bucket)) => bucket
            .read(file.key.as_bytes(), 0..u64::MAX)
            .map(|content| content as Box<dyn Read>)
            .map_err(of_named),
        (Location::File(manifest), _) => {
            let opened = Inventory::open(manifest, file);
            opened.map(|file| Box::new(file) as Box<dyn Read>).map_err(|error| text::of_system(&error))
        }
        (Location::Object { .. }, None) => Err("its bucket is not open".to_string()),
    };
    opened.map_err(|why| location.unread(list, Some(file), why))
}

/// What is read in place of listing the bucket.
struct Inventoried {
    inventory: Inventory,
    /// Where its files are, if they are in a bucket.
    bucket: Option<BucketPlace>,
}

impl BucketPlace {
    /// The bucket with this URL: `s3://BUCKET`, `gs://BUCKET`, `az://CONTAINER`, or `https://HOST` for single objects, which are
    /// only read. Nobody is asked yet.
    ///
    /// # Errors
    /// The name is none of a bucket, or an option is wrong.
    pub fn open(url: &str, options: &StoreOptions) -> Result<BucketPlace, OpenError> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|error| OpenError::System(error.into()))?;
        let client = {
            // Clients of HTTP start timers when they are made.
            let _inside = runtime.enter();
            Client::new(url, options)?
        };
        Ok(BucketPlace {
            client: Arc::new(client),
            runtime: Arc::new(runtime),
            stop: Arc::default(),
            inventory: None,
            checksums: None,
        })
    }

    /// The same, with lists that stand for asking it. Parts of a long inventory are in unlinked files in the folder
    /// `scratch`.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), [`with_inventory`](Self::with_inventory) and
    /// [`with_checksums`](Self::with_checksums).
    pub fn open_with_lists(
        url: &str,
        options: &StoreOptions,
        lists: &StoreLists,
        scratch: &Path,
    ) -> Result<BucketPlace, OpenError> {
        let mut place = BucketPlace::open(url, options)?;
        if let Some(location) = &lists.inventory {
            place = place.with_inventory(location.clone(), (url, options), scratch)?;
        }
        if let Some(location) = &lists.checksum_report {
            place = place.with_checksums(location.clone(), (url, options))?;
        }
        Ok(place)
    }

    /// The same, listed by an inventory of it and not by asking. What was written since is not there; sorted parts of a
    /// long one are in unlinked files in the folder `scratch`.
    ///
    /// # Errors
    /// The manifest cannot be read, or is of another bucket or format.
    pub fn with_inventory(
        self,
        location: Location,
        (bucket, options): (&str, &StoreOptions),
        scratch: &Path,
    ) -> Result<BucketPlace, OpenError> {
        let (manifest, source) = manifest(INVENTORY, &location, options)?;
        let name = bucket.strip_prefix("s3://").ok_or(BucketUrlError::NoInventory)?;
        let inventory = Inventory::new(&manifest, name, location, scratch)?;
        Ok(BucketPlace { inventory: Some(Box::new(Inventoried { inventory, bucket: source })), ..self })
    }

    /// The same, with the checksums of a completion report of a *Compute checksum* job, which are held in memory:
    /// objects that are still the versions of the report have them as their [records](Place::records).
    ///
    /// # Errors
    /// The report cannot be read, or is of something else.
    pub fn with_checksums(
        self,
        location: Location,
        (bucket, options): (&str, &StoreOptions),
    ) -> Result<BucketPlace, OpenError> {
        let (manifest, mut source) = manifest(REPORT, &location, options)?;
        let name = bucket.strip_prefix("s3://").ok_or(BucketUrlError::NoReport)?;
        let report = Report::new(&manifest, name, location)?;
        let mut checksums = ReportChecksums::default();
        checksums.created = report.created;
        for file in &report.files {
            let content = data(REPORT, &report.location, &mut source, file)?;
            let read = report.read(&mut checksums, file, content);
            read.map_err(|error| report.location.unread(REPORT, Some(file), text::of_system(&error)))?;
        }
        Ok(BucketPlace { checksums: Some(Arc::new(checksums)), ..self })
    }

    /// Goes through the objects below a root in the order of their keys, until `each` returns false.
    fn each_listed(
        &mut self,
        root: &[u8],
        sink: Sink,
        each: &mut dyn FnMut(Listed) -> Result<bool, PlaceError>,
    ) -> Result<(), PlaceError> {
        let Some(Inventoried { inventory, bucket }) = self.inventory.as_deref_mut() else {
            let mut keys = Keys::new(&self.client, (&self.runtime, &self.stop), root, sink);
            while let Some(listed) = keys.next()? {
                if !each(listed)? {
                    break;
                }
            }
            return Ok(());
        };
        let machine = |error: OpenError| PlaceError::Machine(error.into());
        let mut rows = inventory.rows();
        for file in inventory.files() {
            let content = data(INVENTORY, &inventory.location, bucket, file).map_err(machine)?;
            let read = rows.add(key(root), file, content);
            let unread = |error| inventory.location.unread(INVENTORY, Some(file), text::of_system(&error));
            read.map_err(|error| machine(unread(error)))?;
        }
        let (mut is_empty, mut ended) = (true, Ok(()));
        let note = |text: String| sink(PlaceEvent::Note(format!("{INVENTORY}: {text}")));
        match rows.untimed {
            0 => {}
            1 => drop(note("1 row has a time that cannot be read".to_string())),
            untimed => drop(note(format!("{untimed} rows have times that cannot be read"))),
        }
        let went = rows.each(|listed| {
            is_empty = false;
            match is_file(&listed, sink, true) {
                Some(false) => true,
                Some(true) => each(listed).unwrap_or_else(|error| {
                    ended = Err(error);
                    false
                }),
                None => false,
            }
        });
        match went.map_err(|error| PlaceError::Machine(format!("read {INVENTORY}: {error}").into()))? {
            0 => {}
            1 => drop(note("1 row is there twice".to_string())),
            repeated => drop(note(format!("{repeated} rows are there more than once"))),
        }
        if is_empty && key(root).is_empty() {
            note("it has no objects".to_string());
        } else if is_empty {
            let request = FileRequest { path: keys::path(key(root)), ..FileRequest::default() };
            let why = Reason::Failed(format!("{INVENTORY} lists nothing there"));
            sink(PlaceEvent::Answer(FileAnswer::failed(request, why)));
        }
        ended
    }

    /// Asks the store for what it recorded of each.
    fn asked_records(&self, files: &[FileRequest]) -> Vec<Option<FileRecord>> {
        let mut found = Vec::with_capacity(files.len());
        let mut asked = VecDeque::new();
        let mut is_told = true;
        let at_once = self.client.at_once;
        for at in 0..files.len() + at_once {
            if let Some(file) = files.get(at).filter(|_| is_told) {
                let (client, key) = (self.client.clone(), key(&file.path).to_vec());
                asked.push_back(Fetch(self.runtime.spawn(async move { client.record(&key).await })));
            }
            if at + 1 < at_once || asked.is_empty() {
                continue;
            }
            let Some(next) = asked.pop_front() else { continue };
            // Who reads the object in earnest hears why not.
            found.push(match next.wait_unless(&self.runtime, &self.stop) {
                Ok(Some(Ok(record))) => Some(record),
                Ok(Some(Err(error))) => {
                    is_told &= error.is_of_object();
                    None
                }
                Ok(None) => {
                    is_told = false;
                    None
                }
                Err(_) => None,
            });
        }
        found.resize(files.len(), None);
        found
    }

    /// What comes of a request; an error if all is to end before.
    fn unless_stopped<T>(&self, asked: impl Future<Output = T>) -> Result<T, PlaceError> {
        unless_stopped(&self.runtime, &self.stop, asked).ok_or(PlaceError::Machine("stopped".into()))
    }

    /// Gives all files to a queue, and ends it.
    fn queued(&mut self, mut queue: Queue, files: Files, sink: Sink) -> Result<(), PlaceError> {
        match files {
            Files::Named(names) => {
                for request in names {
                    if !queue.add(request)? {
                        return Ok(());
                    }
                }
            }
            Files::Trees(roots) => {
                // What an inventory lists may be gone for long.
                if self.inventory.is_none() {
                    queue.of_listing();
                }
                for root in roots {
                    let mut is_wanted = true;
                    self.each_listed(&root, sink, &mut |listed| {
                        let path = keys::path(&listed.key);
                        let request = FileRequest { path, seen: listed.seen, ..FileRequest::default() };
                        is_wanted = queue.add(request)?;
                        Ok(is_wanted)
                    })?;
                    if !is_wanted {
                        return Ok(());
                    }
                }
            }
        }
        queue.end()
    }
}

impl Place for BucketPlace {
    fn end_by(&mut self, stop: &Arc<Stop>) {
        self.stop = stop.clone();
    }

    fn capabilities(&mut self, _: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
        let mut capabilities = Capabilities::new("verisum");
        capabilities.tells_states = true;
        capabilities.in_order = true;
        capabilities.reads_ranges = true;
        capabilities.writes = self.client.store.takes_files();
        capabilities.listed_at = self.inventory.as_ref().and_then(|listed| listed.inventory.created);
        capabilities.reported_at = self.checksums.as_ref().and_then(|checksums| checksums.created);
        Ok(capabilities)
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        let checksums = self.checksums.clone();
        if let Some(note) = checksums.as_ref().and_then(|checksums| checksums.note()) {
            sink(PlaceEvent::Note(note));
        }
        self.each_listed(root, sink, &mut |listed| {
            let path = keys::path(&listed.key);
            let request = FileRequest { path, seen: listed.seen, ..FileRequest::default() };
            let reported = checksums.as_ref().and_then(|checksums| checksums.digest(&request)).map(Box::new);
            let result = Ok(FileRead { recorded: listed.recorded, reported, ..FileRead::default() });
            Ok(sink(PlaceEvent::Answer(FileAnswer { request, result })))
        })
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        let runtime = self.runtime.clone();
        let queue = Queue::new(&self.client, &runtime, &self.stop, digests, sink)?;
        self.queued(queue.beside(self.checksums.clone()), files, sink)
    }

    fn hash_recorded(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        let runtime = self.runtime.clone();
        let queue = Queue::new(&self.client, &runtime, &self.stop, digests, sink)?;
        let takes_records = self.tells_records();
        self.queued(queue.taking_records(takes_records), files, sink)
    }

    fn state(&mut self, path: &[u8]) -> Result<KnownState, PlaceError> {
        self.unless_stopped(self.client.look_closely(key(path)))?.map_err(|error| of_object(path, &error))
    }

    fn tells_records(&self) -> bool {
        !matches!(self.client.store, Store::Web)
    }

    fn records(&mut self, files: &[FileRequest]) -> Result<Vec<Option<FileRecord>>, PlaceError> {
        if !self.tells_records() {
            return Ok(vec![None; files.len()]);
        }
        if let Some(checksums) = &self.checksums {
            let mut found: Vec<Option<FileRecord>> = files.iter().map(|file| checksums.of(file)).collect();
            let unknown = files.iter().zip(&found).filter(|(_, record)| record.is_none());
            let unknown: Vec<FileRequest> = unknown.map(|(file, _)| file.clone()).collect();
            let mut asked = self.asked_records(&unknown).into_iter();
            found.iter_mut().filter(|record| record.is_none()).for_each(|record| {
                *record = asked.next().flatten();
            });
            return Ok(found);
        }
        Ok(self.asked_records(files))
    }

    fn has_parts_of(&mut self, file: &FileRequest, length: u64) -> bool {
        let Some(size) = file.seen.size.filter(|_| length > 0) else { return false };
        let lengths: Vec<u64> = (0..size).step_by(length as usize).map(|at| length.min(size - at)).collect();
        self.unless_stopped(self.client.are_parts(key(&file.path), &lengths, None)).unwrap_or_default()
    }

    fn open(&mut self, path: &[u8]) -> Result<Box<dyn RangedFile>, PlaceError> {
        let opened = RangedObject::open(&self.client, &self.runtime, key(path));
        Ok(Box::new(opened.map_err(|error| of_object(path, &error))?))
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        self.read_listed(&FileRequest { path: path.to_vec(), ..FileRequest::default() }, range)
    }

    fn read_listed(
        &mut self,
        file: &FileRequest,
        range: Range<u64>,
    ) -> Result<Box<dyn Read + Send>, PlaceError> {
        let key = key(&file.path);
        let first = range.start..range.end.clamp(range.start + 1, range.start + PIECE);
        let first = self.unless_stopped(self.client.beginning(key, first, &file.seen))?;
        let first = first.map_err(|error| of_object(&file.path, &error))?;
        let content = ObjectContent::new(&self.client, key, first);
        Ok(Box::new(ObjectReader::new(content, &self.runtime, range)))
    }

    fn read_whole(&mut self, files: &[FileRequest]) -> Result<Vec<Option<WholeFile>>, PlaceError> {
        let ask = |file: &FileRequest| {
            let (client, key, seen) = (self.client.clone(), key(&file.path).to_vec(), file.seen);
            self.runtime.spawn(async move { client.listed_part(&key, 0..MOST_WHOLE + 1, &seen).await })
        };
        let mut found = Vec::with_capacity(files.len());
        for group in files.chunks(self.client.at_once) {
            let asked: Vec<_> = group.iter().map(ask).collect();
            let before = found.len();
            found.extend(asked.into_iter().map(|asked| match self.runtime.block_on(asked) {
                Ok(Ok(Part { bytes, seen, size, original, .. })) if bytes.len() as u64 == size => {
                    Some(WholeFile {
                        content: bytes,
                        known: KnownState { now: seen, original, ..KnownState::default() },
                    })
                }
                // Who reads it alone hears why.
                _ => None,
            }));
            if found[before..].iter().all(Option::is_none) {
                // The store fails for all, and is asked no more.
                break;
            }
        }
        found.resize_with(files.len(), || None);
        Ok(found)
    }

    fn require_name(&self, path: &[u8]) -> Result<(), PlaceError> {
        upload::require_name(&self.client.store, key(path)).map_err(|error| not_created(&error))
    }

    fn write(
        &mut self,
        path: &[u8],
        content: &mut dyn Read,
        about: &FileState,
        previous: Option<&FileState>,
    ) -> Result<Option<FileIdentity>, PlaceError> {
        if !self.client.store.takes_files() {
            return Err(PlaceError::Unsupported("write"));
        }
        let written = upload::write(&self.client, &self.runtime, key(path), content, about, previous);
        written.map_err(|error| match error {
            UploadError::Content(source) => FileError::io(&path_of(path), Operation::Read, source).into(),
            UploadError::Request(RequestError::Replaced) => PlaceError::Replaced,
            UploadError::Request(error @ (RequestError::Name(_) | RequestError::Version(_))) => {
                not_created(&error)
            }
            UploadError::Request(error) => machine(&error),
        })
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), PlaceError> {
        if !self.client.store.takes_files() {
            return Err(PlaceError::Unsupported("remove"));
        }
        let request = Request::new(Method::DELETE, key(path), "");
        let removed = self.unless_stopped(self.client.ask(&request))?;
        removed.map(drop).map_err(|error| of_object(path, &error))
    }
}

/// The path as a path of the system.
fn path_of(path: &[u8]) -> PathBuf {
    OsStr::from_bytes(path).into()
}

/// That no object can have a name.
fn not_created(error: &RequestError) -> PlaceError {
    PlaceError::NotWritten { operation: "create", source: io::Error::other(error.to_string()) }
}

/// An error of one object, or of the store.
fn of_object(path: &[u8], error: &RequestError) -> PlaceError {
    match error.is_of_object() {
        true => FileError::NotRead { path: path_of(path), reason: error.reason() }.into(),
        false => machine(error),
    }
}
