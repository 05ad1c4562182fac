//! A host as a place: one session for each digest that was needed so far.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use verisum_digest::Digest;
use verisum_files::place::{
    BlockDigests, Capabilities, Durability, FileAnswer, FileRead, FileRequest, FileState, Files, KnownState,
    LocalPlace, MOST_WHOLE, NewFile, Place, PlaceError, PlaceEvent, PlacedFile, Sink, Sorted, StagedFile,
    WholeFile,
};
use verisum_files::{Stop, lock};

use crate::address::{Address, Host};
use crate::error::{AddressError, SessionError};
use crate::folder::Folder;
use crate::protocol::BLOCK_DIGEST;
use crate::range::RangeReader;
use crate::session::{HostOptions, Session};
use crate::small_files;
use crate::timeout::HashStop;
use crate::write::{self, Staged};

/// Up to so many files are looked at one by one; for more the tree above them is listed.
const FEW: usize = 32;

/// Files have blocks of this length whose digests are compared, and longer ones where there would be too many.
const BLOCKS: RangeInclusive<u64> = 64 << 10..=16 << 20;

/// So many blocks are not too many.
const MANY: u64 = 1 << 16;

/// The most blocks whose digests are held.
const MOST_BLOCKS: u64 = 1 << 21;

/// The digest of a session that was opened to list.
const LISTING: &str = "sha256";

/// What is done with a session; what comes of it is told meanwhile.
type Act<'f> = &'f mut dyn FnMut(&mut Session) -> Result<(), SessionError>;

/// Opens a bucket by its name.
pub type OpenBucket = Box<dyn Fn(&str) -> Result<Box<dyn Place>, BucketError> + Send + Sync>;

/// Why a bucket cannot be opened, by a type of the crate that opens it.
pub type BucketError = Box<dyn std::error::Error + Send + Sync>;

/// The configuration of ssh for a host that has one of its own.
pub type SshConfigOf = Box<dyn Fn(&Host) -> Option<PathBuf> + Send + Sync>;

/// What else may be wrong if this host cannot be reached.
pub type UnreachableNote = Box<dyn Fn(&Host) -> Option<String> + Send + Sync>;

/// How hosts are reached.
pub struct Hosts {
    options: Arc<HostOptions>,
    scratch: PathBuf,
    folder: Mutex<Option<Arc<Folder>>>,
    buckets: Option<OpenBucket>,
    ssh_config: Option<SshConfigOf>,
    note: Option<UnreachableNote>,
}

impl Hosts {
    /// With these options. A private directory is made below `scratch` when the first host needs it.
    pub fn new(options: HostOptions, scratch: &Path) -> Hosts {
        let (options, scratch) = (Arc::new(options), scratch.to_path_buf());
        Hosts { options, scratch, folder: Mutex::default(), buckets: None, ssh_config: None, note: None }
    }

    /// The same, with buckets of object stores, which another crate opens.
    pub fn with_buckets(self, open: OpenBucket) -> Hosts {
        Hosts { buckets: Some(open), ..self }
    }

    /// The same, with hosts that have a configuration of ssh of their own; one for all holds before it.
    pub fn with_ssh_configs(self, of: SshConfigOf) -> Hosts {
        Hosts { ssh_config: Some(of), ..self }
    }

    /// The same, where the errors of hosts that cannot be reached also say this.
    pub fn with_unreachable_note(self, of: UnreachableNote) -> Hosts {
        Hosts { note: Some(of), ..self }
    }

    /// How a host is reached.
    fn options_of(&self, host: &Host) -> Arc<HostOptions> {
        let mut options = HostOptions::clone(&self.options);
        if let (None, Some(of)) = (&options.ssh.config, &self.ssh_config) {
            options.ssh.config = of(host);
        }
        options.ssh.hash_stop = HashStop::default();
        Arc::new(options)
    }

    /// A tree as a user types it, be it a path of this machine or an address of a host: its address, and the place
    /// where it is. Nobody is called yet.
    ///
    /// # Errors
    /// It is a URL that cannot be understood, or the private directory cannot be made.
    pub fn tree(&self, typed: &OsStr) -> Result<(Address, Box<dyn Place>), OpenError> {
        Ok(match Address::typed(typed).map_err(OpenError::Address)? {
            Some(address) => {
                let place = self.place(&address.host)?;
                (address, place)
            }
            None => (Address::new(Host::Local, typed.as_bytes()), Box::new(LocalPlace::default())),
        })
    }

    /// A host or a bucket, which nobody calls yet.
    ///
    /// # Errors
    /// The private directory cannot be made, or the bucket cannot be opened.
    pub fn place(&self, host: &Host) -> Result<Box<dyn Place>, OpenError> {
        if let Host::Bucket(name) = host {
            let open = self.buckets.as_ref().ok_or(OpenError::NoBuckets)?;
            return open(name).map_err(OpenError::Bucket);
        }
        self.host(host).map(|place| Box::new(place) as Box<dyn Place>).map_err(OpenError::Folder)
    }

    fn host(&self, host: &Host) -> io::Result<HostPlace> {
        let mut folder = lock(&self.folder);
        if folder.is_none() && *host != Host::Local {
            *folder = Some(Arc::new(Folder::new(&self.scratch)?));
        }
        Ok(HostPlace {
            host: host.clone(),
            options: self.options_of(host),
            note: self.note.as_ref().and_then(|of| of(host)),
            folder: folder.clone(),
            scratch: self.scratch.clone(),
            sessions: Vec::new(),
            staged: None,
            folders: BTreeSet::new(),
            lacks_blocks: false,
            stop: Arc::default(),
        })
    }
}

/// Why a tree cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// What is wrong with its address.
    Address(AddressError),
    /// It is in a bucket, and nothing was given that opens buckets.
    NoBuckets,
    /// The private directory for the sockets of ssh cannot be made.
    Folder(io::Error),
    /// Why a bucket cannot be opened.
    Bucket(BucketError),
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts").field("options", &self.options).field("scratch", &self.scratch).finish()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Address(must) => must.fmt(f),
            OpenError::NoBuckets => f.write_str("buckets cannot be opened here"),
            OpenError::Bucket(error) => error.fmt(f),
            OpenError::Folder(error) => write!(f, "make a private directory: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Address(_) | OpenError::NoBuckets => None,
            OpenError::Bucket(error) => error.source(),
            OpenError::Folder(error) => Some(error),
        }
    }
}

/// The files of a host, by the programs that it has.
pub struct HostPlace {
    host: Host,
    options: Arc<HostOptions>,
    /// What else is said if it cannot be reached.
    note: Option<String>,
    folder: Option<Arc<Folder>>,
    /// Where listings wait that do not fit into memory.
    scratch: PathBuf,
    /// What is staged; it ends before its session.
    staged: Option<Staged>,
    /// Directories that are there, as files were staged in them.
    folders: BTreeSet<Vec<u8>>,
    sessions: Vec<(String, Session)>,
    /// Whether digests of blocks are not worth asking for.
    lacks_blocks: bool,
    /// When hashing ends early.
    stop: Arc<Stop>,
}

impl HostPlace {
    /// The session for a digest; it is opened if need be.
    fn session(&mut self, digest: &Digest, sink: Sink) -> Result<&mut Session, PlaceError> {
        let at = match self.sessions.iter().position(|(name, _)| name == digest.name()) {
            Some(at) => at,
            None => {
                let opened =
                    Session::open(&self.host, digest, self.options.clone(), self.folder.clone(), sink);
                let session = opened.map_err(|error| match (error, &self.note) {
                    (error @ SessionError::NoWay(_), _) => PlaceError::Digest(error.into()),
                    (SessionError::Unreachable(why), Some(note)) => {
                        PlaceError::Machine(SessionError::Unreachable(format!("{why}; {note}")).into())
                    }
                    (error, _) => PlaceError::Machine(error.into()),
                })?;
                sink(PlaceEvent::Way(format!("{} by {}", digest.name(), session.described())));
                self.sessions.push((digest.name().to_string(), session));
                self.sessions.len() - 1
            }
        };
        Ok(&mut self.sessions[at].1)
    }

    /// The session for the first digest: the programs of a host compute one in a read.
    fn of(&mut self, digests: &[Digest], sink: Sink) -> Result<&mut Session, PlaceError> {
        match digests {
            [digest] => self.session(digest, sink),
            _ => Err(PlaceError::Digest("a host computes one digest in a read".into())),
        }
    }

    /// A session that can list.
    fn listing(&mut self, sink: Sink) -> Result<&mut Session, PlaceError> {
        if self.sessions.is_empty() {
            let digest = Digest::find(LISTING).map_err(|error| PlaceError::Digest(error.into()))?;
            self.session(&digest, sink)?;
        }
        Ok(&mut self.sessions[0].1)
    }

    /// Ends the sessions that cannot be used any more; the next call opens new ones.
    fn ended(&mut self, ended: Result<(), SessionError>) -> Result<(), PlaceError> {
        match ended {
            Ok(()) => {
                self.sessions.retain(|(_, session)| session.is_free());
                Ok(())
            }
            Err(error) => {
                self.sessions.clear();
                Err(PlaceError::Machine(error.into()))
            }
        }
    }

    fn act(&mut self, digests: &[Digest], sink: Sink, act: Act) -> Result<(), PlaceError> {
        let ended = act(self.of(digests, sink)?);
        self.ended(ended)
    }

    fn hash_all(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        match files {
            Files::Named(names) => self.act(digests, sink, &mut |session| session.names(names, sink)),
            Files::Trees(roots) => {
                for root in roots {
                    self.act(digests, sink, &mut |session| session.tree(&root, true, sink))?;
                }
                Ok(())
            }
        }
    }

    /// What is known now of files besides their content.
    fn states(
        &mut self,
        files: &[FileRequest],
        sink: Sink,
    ) -> Result<HashMap<Vec<u8>, FileState>, PlaceError> {
        let found = Mutex::new(HashMap::new());
        let note = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request: FileRequest { path, seen, .. }, result: Ok(_) }) => {
                lock(&found).insert(path, seen);
                true
            }
            PlaceEvent::Note(_) | PlaceEvent::Way(_) => sink(event),
            _ => true,
        };
        let above = above(files);
        let roots: Vec<&[u8]> = match files.len() > FEW {
            true => vec![&above],
            false => files.iter().map(|file| &file.path[..]).collect(),
        };
        for root in roots {
            let ended = self.listing(sink)?.tree(root, false, &note);
            self.ended(ended)?;
        }
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Place for HostPlace {
    fn end_by(&mut self, stop: &Arc<Stop>) {
        self.stop = stop.clone();
    }

    fn capabilities(&mut self, digests: &[Digest], sink: Sink) -> Result<Capabilities, PlaceError> {
        let session = self.of(digests, sink)?;
        let mut capabilities = Capabilities::new(session.way());
        capabilities.tells_states = session.tells_times();
        capabilities.in_order = session.lists_in_order();
        capabilities.reads_ranges = session.shell().is_some();
        Ok(capabilities)
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        if self.listing(sink)?.lists_in_order() {
            let ended = self.listing(sink)?.tree(root, false, sink);
            return self.ended(ended);
        }
        let sorted = Mutex::new((Sorted::new(&self.scratch), Ok(())));
        let sort = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result: Ok(_) }) => {
                let (sorted, added) = &mut *lock(&sorted);
                *added = sorted.add(request.path, request.seen);
                added.is_ok()
            }
            other => sink(other),
        };
        let ended = self.listing(sink)?.tree(root, false, &sort);
        self.ended(ended)?;
        let (sorted, added) = sorted.into_inner().unwrap_or_else(PoisonError::into_inner);
        let given = added.and_then(|()| {
            sorted.each(|path, seen| sink(PlaceEvent::Answer(FileAnswer::listed(path, seen))))
        });
        given.map_err(|error| PlaceError::Machine(format!("sort its names: {error}").into()))
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        if self.stop.is_due() {
            return Ok(());
        }
        self.options.ssh.hash_stop.set(Some(self.stop.clone()));
        let hashed = self.hash_all(digests, files, sink);
        self.options.ssh.hash_stop.set(None);
        match hashed {
            // The connection was ended in the middle of a file.
            Err(PlaceError::Machine(_)) if self.stop.is_due() => Ok(()),
            hashed => hashed,
        }
    }

    fn hash_blocks(&mut self, digest: &Digest, path: &[u8], length: u64) -> Option<BlockDigests> {
        let size = (length / MANY).next_power_of_two().clamp(*BLOCKS.start(), *BLOCKS.end());
        let count = length.div_ceil(size);
        if self.lacks_blocks || count > MOST_BLOCKS {
            return None;
        }
        let session = self.session(digest, &|_| true).ok()?;
        let (ended, values) = match session.blocks(path, (count, size)) {
            Ok(values) => (Ok(()), values),
            Err(error) => (Err(error), None),
        };
        self.lacks_blocks = !session.is_free();
        self.ended(ended).ok()?;
        let values = values?;
        let mut blocks = BlockDigests::new(digest.clone(), digest.len().min(BLOCK_DIGEST));
        for (value, start) in values.iter().zip((0..length).step_by(size as usize)) {
            blocks.push((length - start).min(size), value.as_bytes());
        }
        Some(blocks)
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        let link = self.listing(&|_| true)?.shell().ok_or(PlaceError::Unsupported("read a range"))?;
        Ok(Box::new(RangeReader::open(link, path, range)?))
    }

    /// The host hashes what it gave: so a change of the content meanwhile shows, and what happened on the way.
    fn read_whole(&mut self, files: &[FileRequest]) -> Result<Vec<Option<WholeFile>>, PlaceError> {
        let digest = Digest::find(LISTING).map_err(|error| PlaceError::Digest(error.into()))?;
        let session = self.session(&digest, &|_| true)?;
        let Some(link) = session.shell() else {
            return Ok(files.iter().map(|_| None).collect());
        };
        let contents = small_files::read(link, files, MOST_WHOLE);
        let contents = contents.map_err(|error| PlaceError::Machine(error.into()))?;
        let found: Mutex<Vec<Option<WholeFile>>> = Mutex::new(files.iter().map(|_| None).collect());
        let mut requests = files.iter().zip(0..).map(|(file, tag)| FileRequest { tag, ..file.clone() });
        self.hash(std::slice::from_ref(&digest), Files::Named(&mut requests), &|event| {
            if let PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) = event
                && !read.changed
                && let Some(Some(content)) = contents.get(request.tag as usize)
                && digest.hash(content).is_ok_and(|digest| Some(digest) == read.digest())
            {
                let known = KnownState { now: request.seen, ..KnownState::default() };
                let whole = WholeFile { content: content.clone(), known };
                lock(&found)[request.tag as usize] = Some(whole);
            }
            true
        })?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn stages(&self) -> bool {
        true
    }

    fn remove_staged(&mut self, paths: &[Vec<u8>]) -> Result<(), PlaceError> {
        let link = self.listing(&|_| true)?.shell().ok_or(PlaceError::Unsupported("write"))?;
        write::sweep(link, paths)
    }

    fn stage(
        &mut self,
        root: &[u8],
        files: &mut [NewFile],
        durability: Durability,
    ) -> Result<Vec<StagedFile>, PlaceError> {
        self.staged = None;
        let mut folders = std::mem::take(&mut self.folders);
        let link = self.listing(&|_| true)?.shell().ok_or(PlaceError::Unsupported("write"))?;
        let staged = write::stage(link, root, &mut folders, files, durability);
        self.folders = folders;
        if matches!(staged, Err(PlaceError::Machine(_))) {
            self.sessions.clear();
        }
        let (staged, passing) = staged?;
        self.staged = Some(staged);
        Ok(passing)
    }

    fn place_staged(&mut self, files: &[PlacedFile]) -> Result<Vec<Result<(), PlaceError>>, PlaceError> {
        let staged = self.staged.take().ok_or(PlaceError::Unsupported("place what is not staged"))?;
        staged.place(files)
    }

    /// Where the way to hash tells no states, files are looked at before and after by listing them.
    fn hash_settled(
        &mut self,
        digest: &Digest,
        mut files: Vec<FileRequest>,
        sink: Sink,
    ) -> Result<(), PlaceError> {
        if self.session(digest, sink)?.reads_conditions() {
            return self.hash(std::slice::from_ref(digest), Files::Named(&mut files.into_iter()), sink);
        }
        let before = self.states(&files, sink)?;
        for file in &mut files {
            file.seen = before.get(&file.path).copied().unwrap_or(file.seen);
        }
        let answers = Mutex::new(Vec::new());
        let keep = |event: PlaceEvent| match event {
            PlaceEvent::Answer(answer) => {
                lock(&answers).push(answer);
                true
            }
            other => sink(other),
        };
        let mut names = files.iter().cloned();
        self.hash(std::slice::from_ref(digest), Files::Named(&mut names), &keep)?;
        let after = self.states(&files, sink)?;
        for FileAnswer { request, result } in answers.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let has_changed = after.get(&request.path) != before.get(&request.path);
            let result = result.map(|read| FileRead { changed: read.changed || has_changed, ..read });
            if !sink(PlaceEvent::Answer(FileAnswer { request, result })) {
                break;
            }
        }
        Ok(())
    }
}

/// The directory that holds all of these files.
fn above(files: &[FileRequest]) -> Vec<u8> {
    let mut above = files.first().map_or(&b"."[..], |file| folder(&file.path));
    for file in files {
        while verisum_files::place::below(above, &file.path).is_none() && above != b"." {
            above = folder(above);
        }
    }
    above.to_vec()
}

fn folder(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) if path != b"/" => b"/",
        Some(slash) if slash > 0 => &path[..slash],
        _ => b".",
    }
}
