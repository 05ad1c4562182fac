//! Copies to a place that is not this machine: each file is hashed while it is sent, and read back from there.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{Advice, fadvise, fstat};
use verisum_catalog::store::Catalog;
use verisum_digest::{Digest, Output};
use verisum_files::place::{
    FileAnswer, FileRequest, FileState, Files, KnownState, Place, PlaceError, PlaceEvent, Reason, join,
};
use verisum_files::{Entry, Error, Kind, Operation, Order, Roots, Stat, Walk, WalkOptions};

use super::batch::event;
use super::digests::{Set, Sets, Sums};
use super::fetch::PlaceTree;
use super::pump::Hasher;
use super::record::{self, Expected, Known, Records};
use super::shared::{Shared, lock};
use super::worker::set_of;
use super::{CopyError, CopyEvent, CopyOptions, CopyOutcome, CopySummary, Mismatch, Verification};
use crate::metadata::{MODE_BITS, Metadata};

/// How many files are sent at once: each waits for the network most of the time.
const AT_ONCE: usize = 8;

/// The most files that wait for a thread.
const MOST_WAITING: usize = 256;

/// A file that is to be sent.
struct Outgoing {
    entry: Entry,
    /// Its path below FROM; empty for FROM itself.
    below: PathBuf,
    /// Its path at TO.
    path: Vec<u8>,
    known: Option<Known>,
}

/// Copies the regular files of a directory, or a file, to another place, such as a bucket.
///
/// The place keeps their content and their times of modification; links, special files and empty directories are left
/// out, and the summary counts those of them that it met. What is not as recorded is not sent. The sink is told what
/// came of each file, from several threads, in no order.
///
/// # Errors
/// FROM cannot be opened, or the catalogue cannot be read. What fails later is told to the sink.
pub fn copy_to(
    from: &Path,
    to: PlaceTree,
    options: &CopyOptions,
    catalog: Option<&Catalog>,
    sink: &(dyn Fn(&CopyEvent) + Sync),
) -> Result<CopySummary, CopyError> {
    let shared = Shared::new(options, sink);
    let sets = Sets::new(options.policy.clone());
    let mut records = catalog.map(|catalog| Records::of(catalog, from)).transpose()?.flatten();
    let walk_options = WalkOptions {
        order: Order::Name,
        one_file_system: options.one_file_system,
        roots: Roots::Trusted,
        excludes: options.excludes.clone(),
        ..WalkOptions::default()
    };
    let (give, take) = mpsc::sync_channel(MOST_WAITING);
    let take = Mutex::new(take);
    thread::scope(|scope| -> Result<(), CopyError> {
        // The threads end when it is dropped.
        let give = give;
        for _ in 0..AT_ONCE {
            scope.spawn(|| send_all(&shared, &sets, to, &take));
        }
        for found in Walk::new(vec![from.to_path_buf()], walk_options) {
            if shared.is_stopped() {
                break;
            }
            let entry = match found {
                Ok(entry) => entry,
                Err(error) if error.path() == from => return Err(error.into()),
                Err(error) => {
                    let path = error.path().to_path_buf();
                    shared.tell_plain(&path, Path::new(""), CopyOutcome::Failed(error.into()));
                    continue;
                }
            };
            match entry.kind() {
                Kind::File => {}
                Kind::Directory => continue,
                Kind::Link | Kind::Special => {
                    shared.summary().left_out += 1;
                    continue;
                }
            }
            let path = entry.path();
            let below = path.strip_prefix(from).unwrap_or(&path).to_path_buf();
            let known = match &mut records {
                Some(records) => records.recorded(&below)?,
                None => None,
            };
            let path = join(to.root, below.as_os_str().as_bytes());
            if give.send(Outgoing { entry, below, path, known }).is_err() {
                break;
            }
        }
        Ok(())
    })?;
    Ok(shared.ended())
}

/// Sends files until none are left.
fn send_all(shared: &Shared, sets: &Sets, to: PlaceTree, files: &Mutex<Receiver<Outgoing>>) {
    let mut opened: Option<Box<dyn Place>> = None;
    loop {
        let next = lock(files).recv();
        let Ok(file) = next else { break };
        if shared.is_stopped() {
            continue;
        }
        let address = match file.below.as_os_str().is_empty() {
            true => to.address.to_path_buf(),
            false => to.address.join(&file.below),
        };
        let sent = opened.take().map_or_else(to.open, Ok).map_err(|error| CopyError::place(&address, error));
        let sent = sent.and_then(|place| {
            let place = &mut **opened.insert(place);
            Sender { shared, sets, place, address: &address }.send(&file)
        });
        if let Err(error) = sent {
            shared.tell_plain(&file.entry.path(), &file.below, CopyOutcome::Failed(error));
        }
    }
}

/// Sends one file.
struct Sender<'s> {
    shared: &'s Shared<'s>,
    sets: &'s Sets,
    place: &'s mut dyn Place,
    /// What the file is called at TO.
    address: &'s Path,
}

impl Sender<'_> {
    fn send(&mut self, file: &Outgoing) -> Result<(), CopyError> {
        let entry = &file.entry;
        let source = entry.open_regular()?;
        let raw = fstat(&source).map_err(|errno| entry.failed(Operation::Stat, errno))?;
        let mut stat = Stat::from(raw);
        let mode = raw.st_mode & MODE_BITS;
        let mut expected: Vec<Expected> =
            file.known.as_ref().and_then(|known| known.expected(&stat)).into_iter().collect();
        if Metadata::new(&raw).read_attributes(&source, self.shared.options.tag) {
            record::of_tags(&source, &stat, &mut expected);
        }
        if self.is_current(&file.path, &stat)? {
            self.shared.options.progress.skip(stat.size);
            self.tell(file, (&stat, mode), CopyOutcome::Current, &[]);
            return Ok(());
        }
        let digest = |source| CopyError::Digest { path: entry.path(), source };
        let set = set_of(self.sets, self.shared.options, &expected).map_err(digest)?;
        let mut is_second = false;
        let (sums, mismatch) = loop {
            let allows = is_second && self.shared.options.allow_bad;
            let mut content = Content {
                shared: self.shared,
                file: &source,
                stat: &stat,
                set: &set,
                hasher: Hasher::new(&set.digests).map_err(digest)?,
                expected: &expected,
                allows,
                length: 0,
                end: None,
            };
            let about = FileState { size: Some(stat.size), modified: Some(stat.modified.into()) };
            let written = self.place.write(&file.path, &mut content, &about);
            match (content.end, written) {
                (Some(End::Whole(sums, mismatch)), Ok(())) => break (sums, mismatch),
                (Some(End::Stopped), _) => return Ok(()),
                (Some(End::Bad(mismatch)), _) if is_second => {
                    self.tell(file, (&stat, mode), CopyOutcome::Bad(mismatch), &[]);
                    return Ok(());
                }
                (Some(End::Changed), _) if is_second => {
                    return Err(CopyError::Changed { path: entry.path() });
                }
                (Some(End::Bad(_) | End::Changed), _) => {
                    // It is read once more, from the disk.
                    is_second = true;
                    let _ = fadvise(&source, 0, None, Advice::DontNeed);
                    let now = Stat::of(&source).map_err(|errno| entry.failed(Operation::Stat, errno))?;
                    if !now.is_same_state(&stat) {
                        expected.clear();
                        stat = now;
                    }
                }
                (Some(End::Failed(error)), _) => {
                    let (operation, offset) = (Operation::Read, None);
                    return Err(Error::Io { path: entry.path(), operation, offset, source: error }.into());
                }
                (_, Err(error)) => return Err(CopyError::place(self.address, error)),
                (None, Ok(())) => return Err(CopyError::Changed { path: entry.path() }),
            }
        };
        self.shared.summary().compared += u64::from(!expected.is_empty());
        if self.shared.options.verification == Verification::Reread
            && let Some(outcome) = self.reread(&file.path, &sums)?
        {
            self.tell(file, (&stat, mode), outcome, &[]);
            return Ok(());
        }
        let outcome = mismatch.map_or(CopyOutcome::Copied, CopyOutcome::CopiedBad);
        self.tell(file, (&stat, mode), outcome, &sums.pairs());
        Ok(())
    }

    /// Whether what is at TO was sent from a file of this size and time; of what others sent, whether it was not sent
    /// before the file was modified.
    fn is_current(&mut self, path: &[u8], stat: &Stat) -> Result<bool, CopyError> {
        match self.place.state(path) {
            Ok(KnownState { now, original }) => {
                let is_same_size = now.size == Some(stat.size);
                let is_in_time = match (original, now.modified) {
                    (Some(original), _) => original.is_same(&stat.modified.into()),
                    (None, Some(sent)) => sent.time > stat.modified,
                    (None, None) => false,
                };
                Ok(is_same_size && is_in_time)
            }
            Err(PlaceError::File(error)) if error.reason() == Reason::Missing => Ok(false),
            Err(error) => Err(CopyError::place(self.address, error)),
        }
    }

    /// Has all of it read again at TO; what is wrong with it.
    fn reread(&mut self, path: &[u8], sums: &Sums) -> Result<Option<CopyOutcome>, CopyError> {
        let failed = |error| CopyError::place(self.address, error);
        let answer: Mutex<Option<Result<Vec<Output>, Error>>> = Mutex::new(None);
        let keep = |event: PlaceEvent| {
            if let PlaceEvent::Answer(FileAnswer { result, .. }) = event {
                *lock(&answer) = Some(result.map(|read| read.digests));
            }
            true
        };
        let mut request = std::iter::once(FileRequest { path: path.to_vec(), ..FileRequest::default() });
        self.place.hash(&sums.set.digests, Files::Named(&mut request), &keep).map_err(failed)?;
        let answer = answer.into_inner().unwrap_or_else(PoisonError::into_inner);
        let nothing = || failed(PlaceError::Machine("read back: no answer".to_string()));
        let found = answer.ok_or_else(nothing)?.map_err(|error| failed(error.into()))?;
        let pairs = sums.outputs.iter().zip(&found).zip(&sums.set.digests);
        let mut other = pairs.filter(|((written, found), _)| written != found);
        Ok(other.next().map(|((written, found), digest)| CopyOutcome::Differs {
            algorithm: digest.name().to_string(),
            written: *written,
            found: *found,
        }))
    }

    fn tell(&self, file: &Outgoing, about: (&Stat, u32), outcome: CopyOutcome, digests: &[(Digest, Output)]) {
        self.shared.tell(&event((&file.entry.path(), &file.below), about, outcome, digests));
    }
}

/// How the reading of a file ended.
enum End {
    /// Its digests, and the record that it contradicts and may.
    Whole(Sums, Option<Mismatch>),
    Bad(Mismatch),
    Changed,
    Failed(io::Error),
    /// Somebody asked to end.
    Stopped,
}

/// The bytes of a file, which are hashed while they are read. At their end it fails if they are not what they should be:
/// so nothing comes of what was sent.
struct Content<'c> {
    shared: &'c Shared<'c>,
    file: &'c File,
    stat: &'c Stat,
    set: &'c Arc<Set>,
    hasher: Hasher<'c>,
    expected: &'c [Expected],
    /// Whether it may be another content than the recorded one.
    allows: bool,
    length: u64,
    end: Option<End>,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let fails = |content: &mut Self, end| {
            content.end = Some(end);
            Err(io::Error::other("it is not what is to be sent"))
        };
        if self.end.is_some() || buffer.is_empty() {
            return Ok(0);
        }
        if self.shared.is_stopped() {
            return fails(self, End::Stopped);
        }
        if let Some(limits) = &self.shared.options.limits {
            limits.wait(buffer.len() as u64, 1, &self.shared.options.stop);
        }
        let offset = self.length;
        let count = match rustix::io::retry_on_intr(|| rustix::io::pread(self.file, &mut *buffer, offset)) {
            Ok(0) => match self.ended() {
                End::Whole(sums, mismatch) => {
                    self.end = Some(End::Whole(sums, mismatch));
                    return Ok(0);
                }
                end => return fails(self, end),
            },
            Ok(count) => count,
            Err(errno) => return fails(self, End::Failed(errno.into())),
        };
        self.length += count as u64;
        if let Err(error) = self.hasher.add(&buffer[..count]) {
            return fails(self, End::Failed(io::Error::other(error.to_string())));
        }
        self.shared.options.progress.add(0, count as u64);
        Ok(count)
    }
}

impl Content<'_> {
    /// Looks whether all that was read is what it should be.
    fn ended(&mut self) -> End {
        match Stat::of(self.file) {
            Ok(after) if after.is_same_state(self.stat) && after.size == self.length => {}
            Ok(_) => return End::Changed,
            Err(errno) => return End::Failed(errno.into()),
        }
        let outputs = match self.hasher.finish() {
            Ok(outputs) => outputs,
            Err(error) => return End::Failed(io::Error::other(error.to_string())),
        };
        let sums = Sums { set: self.set.clone(), outputs };
        match record::mismatch(self.expected, &sums) {
            Some(mismatch) if !self.allows => End::Bad(mismatch),
            mismatch => End::Whole(sums, mismatch),
        }
    }
}
