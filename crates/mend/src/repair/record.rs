//! Records repairs that did not use the catalogue, but parity, tags, lists or a block map.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use verisum_catalog::scrub::is_same_time;
use verisum_catalog::store::{
    Catalog, CatalogRecord, Moment, RecordChange, RecordFinding, Repair, Root, State, Trouble,
};
use verisum_digest::{Digest, Output};
use verisum_files::{Comparison, Entry, Evidence, SecondRead, Stat, Stop, Timestamp, VerdictClass, reread};

use super::RepairError;

/// A file that has its content again.
#[derive(Clone, Debug)]
pub struct MendedFile {
    /// Its path, from the root of the file system.
    pub path: PathBuf,
    /// The name of a digest, and what it was before the repair, if somebody computed it.
    pub before: Option<(String, Output)>,
    /// What was taken from where.
    pub taken: Vec<Taken>,
    /// When.
    pub now: Timestamp,
    /// Whether only a part of it was looked at: that is recorded if the whole is as recorded.
    pub is_part: bool,
}

/// What a file took from one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The path or address of the source.
    pub from: PathBuf,
    /// How many bytes were written.
    pub bytes: u64,
    /// Which ones, if that is known.
    pub ranges: Option<Vec<Range<u64>>>,
}

/// What a catalogue says of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It has no such file, or cannot tell what it should be, or the file was not read again.
    Unknown,
    /// The file has its recorded content; the repair is recorded.
    Confirmed,
    /// The file has different content from what the catalogue recorded. The repair is recorded, unless it was of a part, and
    /// the file's state stays.
    Different,
}

/// Records a repair in a catalogue that knows the file. It is read once more, past the page cache: a catalogue takes
/// nobody's word for what a file is. If it is time to stop before, nothing is recorded. Whoever calls holds the
/// catalogue's lock.
///
/// # Errors
/// The catalogue cannot be read or written.
pub fn note(catalog: &Catalog, mended: &MendedFile, stop: &Stop) -> Result<Noted, RepairError> {
    let Some((root, directory, old)) = known(catalog, &mended.path)? else { return Ok(Noted::Unknown) };
    let Some(name) = mended.path.file_name() else { return Ok(Noted::Unknown) };
    let algorithm = catalog.algorithms()?.remove(&old.algorithm).unwrap_or_default();
    let Some((now, stat)) = look(&mended.path, &algorithm, stop) else { return Ok(Noted::Unknown) };
    let finding = catalog.finding(directory, name)?;
    let known = mended.before.as_ref().filter(|(of, _)| *of == algorithm).map(|(_, digest)| *digest);
    let found = finding.and_then(|finding| finding.read).map(|read| read.digest);
    let repair = Repair {
        repaired: mended.now.into(),
        state: old.state,
        source: PathBuf::new(),
        bytes: 0,
        algorithm: old.algorithm,
        before: known.or(found),
        digest: now,
        ranges: None,
    };
    catalog.begin()?;
    let written = write(catalog, &Place { root: &root, directory, name }, &old, (&repair, &stat), mended);
    match written {
        Ok(noted) => catalog.commit().map(|()| noted).map_err(RepairError::from),
        Err(error) => {
            catalog.roll_back();
            Err(error)
        }
    }
}

/// Whether a catalogue knows a file of this machine, so that [`note`] compares it with its record.
///
/// # Errors
/// The catalogue cannot be read.
pub fn is_known(catalog: &Catalog, path: &Path) -> Result<bool, RepairError> {
    Ok(known(catalog, path)?.is_some())
}

/// The tree and the directory of a file, and its record.
fn known(catalog: &Catalog, path: &Path) -> Result<Option<(Root, i64, CatalogRecord)>, RepairError> {
    let Some(root) = catalog.root_of(path)?.filter(|root| !root.is_remote()) else { return Ok(None) };
    let below = root.below(path);
    let Some(name) = below.file_name() else { return Ok(None) };
    let folder = below.parent().unwrap_or(Path::new(""));
    let Some(directory) = catalog.directory(&root, folder)? else { return Ok(None) };
    let record = catalog.record(directory, name)?.filter(|record| record.state != State::DAMAGED);
    Ok(record.map(|record| (root, directory, record)))
}

/// Records copies as bad that were found to have other content than the catalogue says, unless somebody wrote to them
/// since: nobody is told any more that they are good.
pub(super) fn suspect_copies(
    catalog: &Catalog,
    copies: &[PathBuf],
    wanted: &CatalogRecord,
    now: Moment,
) -> Result<(), RepairError> {
    for path in copies {
        let Some((root, directory, record)) = known(catalog, path)? else { continue };
        let is_wanted = (record.algorithm, record.digest) == (wanted.algorithm, wanted.digest);
        let stat = Entry::trusted(path).and_then(|entry| entry.stat());
        let (Ok(stat), Some(name)) = (stat, path.file_name()) else { continue };
        let comparison = Comparison {
            same_digest: false,
            same_mtime: is_same_time(record.mtime, stat.modified.into()),
            same_ctime: Some(record.ctime == stat.changed.into()),
            same_file: (record.inode != 0).then_some(record.inode == stat.inode),
            time_tells: false,
            second: SecondRead::Same,
        };
        let verdict = Evidence::Compared(comparison).verdict();
        if !is_wanted || record.state != State::Sound || verdict.class() != VerdictClass::Corrupt {
            continue;
        }
        let detail = Some("a repair found it to have other content".to_string());
        let finding = RecordFinding { since: now, seen: now, read: None, detail };
        let change = RecordChange::Suspect(State::Trouble(Trouble::Verdict(verdict)), finding);
        catalog.begin()?;
        match catalog.apply(root.id, directory, name, &change) {
            Ok(()) => catalog.commit()?,
            Err(error) => {
                catalog.roll_back();
                return Err(error.into());
            }
        }
    }
    Ok(())
}

struct Place<'a> {
    root: &'a Root,
    directory: i64,
    name: &'a OsStr,
}

fn write(
    catalog: &Catalog,
    place: &Place,
    old: &CatalogRecord,
    (repair, stat): (&Repair, &Stat),
    mended: &MendedFile,
) -> Result<Noted, RepairError> {
    let &Place { root, directory, name } = place;
    let is_as_recorded = repair.digest == old.digest;
    if is_as_recorded {
        let new = CatalogRecord {
            size: stat.size,
            mtime: stat.modified.into(),
            ctime: stat.changed.into(),
            inode: stat.inode,
            verified: repair.repaired,
            state: State::Sound,
            ..*old
        };
        catalog.apply(root.id, directory, name, &RecordChange::Confirm(new))?;
        catalog.note_generation_at(root, &mended.path, &new)?;
        catalog.absolve(root.id, &new)?;
    }
    let key = (directory, std::os::unix::ffi::OsStrExt::as_bytes(name).to_vec());
    for taken in mended.taken.iter().filter(|_| is_as_recorded || !mended.is_part) {
        let Taken { from, bytes, ranges } = taken.clone();
        catalog.add_repair(root.id, &key, &Repair { source: from, bytes, ranges, ..repair.clone() })?;
    }
    Ok(if is_as_recorded { Noted::Confirmed } else { Noted::Different })
}

/// The digest of a file as its storage has it, and what is said of it; none of a file that changes meanwhile.
fn look(path: &Path, algorithm: &str, stop: &Stop) -> Option<(Output, Stat)> {
    let digest = Digest::find(algorithm).ok()?;
    let file = Entry::trusted(path).ok()?.open_regular().ok()?;
    let read = reread::past_the_cache_until(&file, &digest, stop).ok()?;
    read.before.is_same_state(&read.after).then_some((read.digest, read.after))
}
