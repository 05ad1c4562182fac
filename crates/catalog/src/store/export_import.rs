//! Exports and imports a catalogue as lines of JSON, for other programs and other machines.
//!
//! One line a root, then one line a file, then one for each that was bad and is no longer there, then one for each repair,
//! the earliest first. A name that is not UTF-8 is given with U+FFFD in `path`, and whole in `path_bytes_hex`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_digest::{Digest, Output};

use super::export_lines::{FileLine, KnownBadLine, Line, Name};
use super::previous::Previous;
use super::record::{columns, listed};
use super::{
    Catalog, CatalogError, CatalogRecord, Identity, Moment, RecordChange, RecordFinding, RecordName, Result,
    Root, State,
};
use verisum_files::Timestamp;
use verisum_files::store::manifest::{JSON_VERSION, Skipped};

/// The longest line that is read: a path of 16 MiB in hexadecimal.
const LONGEST_LINE: u64 = 40 << 20;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Lines of a list that name a file, or files of an index.
    pub listed: u64,
    /// Files that were recorded.
    pub added: u64,
    /// Files that had a record before, which stays.
    pub known: u64,
    /// Those of them that a list has another digest of.
    pub differing: u64,
    /// What of a list was skipped.
    pub skipped: Skipped,
}

impl Catalog {
    /// Writes everything but the history of runs as lines of JSON, and says how many of the records are damaged.
    pub fn export(&self, to: &mut dyn Write) -> Result<u64> {
        self.at_one_moment(|| self.export_all(to))
    }

    fn export_all(&self, to: &mut dyn Write) -> Result<u64> {
        let algorithms = self.algorithms()?;
        let mut damaged = 0;
        for root in self.roots()? {
            let Identity { device, inode } = root.identity;
            self.write_line(
                to,
                &Line::Root { version: JSON_VERSION, path: Name::new(&root.path), device, inode },
            )?;
            damaged += self.export_files(&root, &algorithms, to)?;
            self.export_known_bad(&root, &algorithms, to)?;
            self.export_repairs(&root, &algorithms, to)?;
        }
        Ok(damaged)
    }

    fn export_known_bad(
        &self,
        root: &Root,
        algorithms: &HashMap<i64, String>,
        to: &mut dyn Write,
    ) -> Result<()> {
        for (_, previous) in self.all_previous(root.id)? {
            let folder = self.path_in_root(previous.place.0)?;
            let path = folder.join(OsStr::from_bytes(&previous.place.1));
            let line = Line::KnownBad(KnownBadLine {
                record: self.file_line(&path, &previous.record, algorithms)?,
                found_size: previous.size,
                found_mtime: previous.mtime,
                found_inode: previous.inode,
                found_digest: previous.digest.map(|digest| digest.to_string()),
                since: previous.found.0,
                last_found: previous.found.1,
            });
            self.write_line(to, &line)?;
        }
        Ok(())
    }

    fn export_files(
        &self,
        root: &Root,
        algorithms: &HashMap<i64, String>,
        to: &mut dyn Write,
    ) -> Result<u64> {
        let mut damaged = 0;
        self.each_of_root(root, &mut |path, record| {
            damaged += u64::from(record.state == State::DAMAGED);
            let line = Line::File(self.file_line(path, record, algorithms)?);
            self.write_line(to, &line)
        })?;
        Ok(damaged)
    }

    /// Gives all records of a root with their paths below its top, directory by directory. None is left out without a
    /// word.
    pub(super) fn each_of_root(
        &self,
        root: &Root,
        each: &mut dyn FnMut(&Path, &CatalogRecord) -> Result<()>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT directory, name, {} FROM file WHERE root = ?1 ORDER BY directory, name",
            columns()
        );
        let mut statement = self.connection.prepare(&sql).map_err(self.failed("read"))?;
        let mut rows = statement.query([root.id]).map_err(self.failed("read"))?;
        let mut folder = (0, PathBuf::new());
        let mut order = TableOrder::default();
        while let Some(row) = rows.next().map_err(self.failed("read"))? {
            let (directory, name, record) = listed(row).map_err(self.failed("read"))?;
            order.next(self, directory, &name)?;
            if folder.0 != directory {
                folder = (directory, self.path_in_root(directory)?);
            }
            each(&folder.1.join(OsStr::from_bytes(&name)), &record)?;
        }
        self.require_all(root, order.count)
    }

    fn file_line(
        &self,
        path: &Path,
        record: &CatalogRecord,
        algorithms: &HashMap<i64, String>,
    ) -> Result<FileLine> {
        let algorithm = algorithms.get(&record.algorithm);
        Ok(FileLine {
            version: JSON_VERSION,
            path: Name::new(path),
            size: record.size,
            mtime: record.mtime,
            ctime: record.ctime.known(),
            inode: record.inode,
            algorithm: algorithm.ok_or_else(|| self.damaged("an unknown algorithm"))?.clone(),
            digest: record.digest.to_string(),
            first_seen: record.first_seen,
            last_changed: record.changed,
            last_verified: record.verified.known(),
            outcome: record.state.name().to_string(),
        })
    }

    pub(super) fn write_line(&self, to: &mut dyn Write, line: &Line) -> Result<()> {
        let written = serde_json::to_writer(&mut *to, line).map_err(std::io::Error::from);
        let written = written.and_then(|()| to.write_all(b"\n"));
        written.map_err(|e| CatalogError::io(Path::new("output"), "write", e))
    }

    /// Records what is in lines of JSON, of a file of this name. Files that have a record keep it. All or
    /// nothing.
    pub fn import(&self, from: &mut dyn BufRead, name: &Path, now: Timestamp) -> Result<ImportCounts> {
        self.begin_import()?;
        let imported = self.import_lines(from, name, now.into());
        match imported {
            Ok(_) => self.commit_import()?,
            Err(_) => self.roll_back(),
        }
        imported
    }

    fn import_lines(&self, from: &mut dyn BufRead, name: &Path, now: Moment) -> Result<ImportCounts> {
        let mut imported = ImportCounts::default();
        let mut importing = CatalogImport::default();
        let mut target = None;
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let mut limited = std::io::Read::take(&mut *from, LONGEST_LINE);
            let count = limited.read_until(b'\n', &mut text);
            let count = count.map_err(|e| CatalogError::io(name, "read", e))?;
            if count == 0 {
                break;
            }
            let wrong = |what: String| CatalogError::Line { path: name.to_path_buf(), line: number, what };
            let line = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
            match line {
                Line::Root { version, .. } if version != JSON_VERSION => {
                    return Err(wrong(format!("version {version}; this program reads {JSON_VERSION} only")));
                }
                Line::Root { path, device, inode, .. } => {
                    let path = path.bytes().map_err(|what| wrong(what.to_string()))?;
                    let found = self.target(&path, Identity { device, inode });
                    target = Some(found.map_err(|e| e.at(name, number))?);
                }
                Line::File(line) => {
                    let target = target.as_mut().ok_or_else(|| wrong(ImportFault::NoRoot.to_string()))?;
                    match self
                        .import_file(target, line, now, &mut importing)
                        .map_err(|e| e.at(name, number))?
                    {
                        true => imported.added += 1,
                        false => imported.known += 1,
                    }
                }
                Line::Repair(line) => {
                    let target = target.as_mut().ok_or_else(|| wrong(ImportFault::NoRoot.to_string()))?;
                    self.import_repair(target, line, &mut importing).map_err(|e| e.at(name, number))?;
                }
                Line::KnownBad(line) => {
                    let target = target.as_mut().ok_or_else(|| wrong(ImportFault::NoRoot.to_string()))?;
                    self.import_known_bad(target, line, &mut importing).map_err(|e| e.at(name, number))?;
                }
            }
        }
        Ok(imported)
    }

    fn import_file(
        &self,
        target: &mut ImportTarget,
        line: FileLine,
        now: Moment,
        importing: &mut CatalogImport,
    ) -> Result<bool, ImportError> {
        let (place, record) = self.read_line(target, line, importing)?;
        let (directory, name) = (place.0, OsStr::from_bytes(&place.1));
        if let Some(known) = self.record(directory, name)? {
            let is_same =
                (known.algorithm, known.digest, known.size) == (record.algorithm, record.digest, record.size);
            // One that was there before the import is no line that could be wrong.
            if !is_same && importing.has(directory, name) {
                return Err(ImportFault::Contradiction.into());
            }
            return Ok(false);
        }
        importing.add(directory, name);
        self.add_imported(target, &place, record, now)?;
        Ok(true)
    }

    fn import_known_bad(
        &self,
        target: &mut ImportTarget,
        line: KnownBadLine,
        importing: &mut CatalogImport,
    ) -> Result<(), ImportError> {
        let KnownBadLine { record, found_size, found_mtime, found_inode, found_digest, .. } = line;
        let algorithm = record.algorithm.clone();
        let (place, record) = self.read_line(target, record, importing)?;
        if !record.state.is_corrupt() {
            return Err(ImportFault::NotBad.into());
        }
        let digest = found_digest.map(|text| importing.digest(&algorithm, &text)).transpose()?;
        let previous = Previous {
            place,
            record,
            found: (line.since, line.last_found),
            size: length(found_size)?,
            mtime: found_mtime,
            inode: found_inode,
            digest,
        };
        Ok(self.add_previous(target.root.id, &previous)?)
    }

    /// The name and the record that a line is of. The directories are recorded.
    fn read_line(
        &self,
        target: &mut ImportTarget,
        line: FileLine,
        importing: &mut CatalogImport,
    ) -> Result<(RecordName, CatalogRecord), ImportError> {
        let state = State::find(&line.outcome).ok_or(ImportFault::Outcome)?;
        let digest = importing.digest(&line.algorithm, &line.digest)?;
        let size = length(line.size)?;
        let path = line.path.bytes()?;
        let place = self.record_name(target, &path)?;
        let record = CatalogRecord {
            size,
            mtime: line.mtime,
            ctime: line.ctime.unwrap_or_default(),
            inode: line.inode,
            algorithm: self.algorithm(&line.algorithm)?,
            digest,
            first_seen: line.first_seen,
            changed: line.last_changed,
            verified: line.last_verified.unwrap_or_default(),
            state,
        };
        Ok((place, record))
    }

    /// The name of a path below a root's top. The directories are recorded.
    pub(super) fn record_name(
        &self,
        target: &mut ImportTarget,
        path: &Path,
    ) -> Result<RecordName, ImportError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ImportFault::NoName.into());
        };
        if folder.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(ImportFault::LeadsOut.into());
        }
        let directory = match &target.folder {
            Some((path, id)) if path == folder => *id,
            _ => self.make_directories(&target.root, folder)?,
        };
        target.folder = Some((folder.to_path_buf(), directory));
        Ok((directory, name.as_bytes().to_vec()))
    }

    /// The root of a path, recorded if need be.
    pub(super) fn target(&self, path: &Path, identity: Identity) -> Result<ImportTarget, ImportError> {
        let is_shortest = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
        let leads_up = path.components().any(|part| part == std::path::Component::ParentDir);
        if leads_up || !(super::is_address(path) || path.is_absolute() && is_shortest) {
            return Err(ImportFault::RelativeRoot.into());
        }
        let root = match self.root(path)? {
            Some(root) => root,
            None => self.add_root(path, identity)?,
        };
        Ok(ImportTarget { root, folder: None })
    }

    /// Records a file that has no record.
    pub(super) fn add_imported(
        &self,
        target: &ImportTarget,
        place: &RecordName,
        record: CatalogRecord,
        now: Moment,
    ) -> Result<()> {
        let (directory, name) = (place.0, OsStr::from_bytes(&place.1));
        let (state, record) = (record.state, CatalogRecord { state: State::Sound, ..record });
        self.apply(target.root.id, directory, name, &RecordChange::Add(record))?;
        if state != State::Sound {
            let finding =
                RecordFinding { since: now, seen: now, read: None, detail: Some("imported".to_string()) };
            self.apply(target.root.id, directory, name, &RecordChange::Suspect(state, finding))?;
        }
        Ok(())
    }

    /// The number of a directory below a root's top; it and those above it are recorded if need be.
    pub(crate) fn make_directories(&self, root: &Root, folder: &Path) -> Result<i64> {
        let mut parent = root.directory;
        for name in folder.components() {
            parent = match self.directory_in(parent, name.as_os_str())? {
                Some(id) => id,
                None => {
                    let id = self.last_directory()? + 1;
                    self.add_directory(id, parent, name.as_os_str(), root.identity.device)?;
                    id
                }
            };
        }
        Ok(parent)
    }
}

/// Records that come in the order of their table. What is damaged may hold some twice, and lack others.
#[derive(Default)]
pub(super) struct TableOrder {
    pub(super) count: u64,
    last: Option<(i64, Vec<u8>)>,
}

impl TableOrder {
    /// Counts a record, which has to be after the last one.
    pub(super) fn next(&mut self, catalog: &Catalog, directory: i64, name: &[u8]) -> Result<()> {
        if self.last.as_ref().is_some_and(|(last, known)| (*last, known.as_slice()) >= (directory, name)) {
            return Err(catalog.damaged("records are out of order"));
        }
        let (last, known) = self.last.get_or_insert_default();
        *last = directory;
        known.clear();
        known.extend_from_slice(name);
        self.count += 1;
        Ok(())
    }
}

/// What an import has seen.
#[derive(Default)]
pub(super) struct CatalogImport {
    /// How long the digests of each algorithm are, where that is known here.
    lengths: HashMap<String, Option<usize>>,
    /// Of each file that was recorded only eight bytes are held.
    files: HashSet<u64>,
    state: RandomState,
}

impl CatalogImport {
    /// How long the digests of an algorithm are; none if it is one that only other machines compute.
    fn digest_len(&mut self, name: &str) -> Result<Option<usize>, ImportError> {
        if let Some(length) = self.lengths.get(name) {
            return Ok(*length);
        }
        let length = match Digest::find(name) {
            Ok(digest) if digest.name() != name => {
                return Err(ImportFault::OtherName {
                    name: name.to_string(),
                    known: digest.name().to_string(),
                }
                .into());
            }
            Ok(digest) => Some(digest.len()),
            Err(verisum_digest::DigestError::Unavailable { .. }) => None,
            Err(error) => return Err(ImportFault::Algorithm(error).into()),
        };
        self.lengths.insert(name.to_string(), length);
        Ok(length)
    }

    /// A digest of an algorithm from its hexadecimal digits.
    pub(super) fn digest(&mut self, name: &str, text: &str) -> Result<Output, ImportError> {
        let digest = Output::from_hex(text.as_bytes()).ok_or(ImportFault::Digest)?;
        self.require_length(name, &digest)?;
        Ok(digest)
    }

    /// Fails for a digest that is not as long as those of its algorithm are.
    pub(super) fn require_length(&mut self, name: &str, digest: &Output) -> Result<(), ImportError> {
        match self.digest_len(name)? {
            Some(length) if length != digest.as_bytes().len() => {
                let found = digest.as_bytes().len();
                Err(ImportFault::DigestLength { found, algorithm: name.to_string(), length }.into())
            }
            _ => Ok(()),
        }
    }

    fn has(&self, directory: i64, name: &OsStr) -> bool {
        self.files.contains(&self.state.hash_one((directory, name)))
    }

    fn add(&mut self, directory: i64, name: &OsStr) {
        self.files.insert(self.state.hash_one((directory, name)));
    }
}

/// Where imported files go: the last root, and the last directory in it.
pub(super) struct ImportTarget {
    pub(super) root: Root,
    folder: Option<(PathBuf, i64)>,
}

/// Why a line was not taken: it is bad, or the catalogue failed.
pub(super) enum ImportError {
    Fault(ImportFault),
    Catalog(CatalogError),
}

/// What is wrong with a record that comes from elsewhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportFault {
    /// No tree was named before it.
    #[error("a file comes before any root")]
    NoRoot,
    /// The root of its tree is neither an absolute path in its shortest form nor an address without `..`.
    #[error("a root is no absolute path in its shortest form")]
    RelativeRoot,
    /// Its path has no last name.
    #[error("a path without a name")]
    NoName,
    /// Its path is not below the root.
    #[error("a path leads out of its root")]
    LeadsOut,
    /// Its path is none.
    #[error("a path is empty or has a NUL")]
    Path,
    /// The bytes of its path cannot be read.
    #[error("path_bytes_hex is not hexadecimal")]
    PathBytes,
    /// Its path has two slashes in a row, or one at its end.
    #[error("a path has an empty name")]
    EmptyName,
    /// Its path is not in its shortest form.
    #[error("a path has . or .. for a name")]
    Dots,
    /// Its path has a name of so many bytes.
    #[error("a path has a name of {0} bytes")]
    LongName(usize),
    /// It is longer than a file can be.
    #[error("a size that no file has")]
    Size,
    /// Nobody knows what was thought of it.
    #[error("an unknown outcome")]
    Outcome,
    /// It was kept for being bad, and is not.
    #[error("an outcome that is not bad")]
    NotBad,
    /// Another one is of the same file.
    #[error("an earlier line says otherwise of the same file")]
    Contradiction,
    /// Its digest cannot be read.
    #[error("a bad digest")]
    Digest,
    /// Its digest has another length than those of its algorithm.
    #[error("a digest of {found} bytes: {algorithm} has {length}")]
    DigestLength {
        /// How many bytes it has.
        found: usize,
        /// The name of its algorithm.
        algorithm: String,
        /// How many those of the algorithm have.
        length: usize,
    },
    /// Its algorithm has another name.
    #[error("unknown digest: {name}: it is called {known}")]
    OtherName {
        /// The name that it was given.
        name: String,
        /// The name that it has.
        known: String,
    },
    /// There is no such algorithm.
    #[error(transparent)]
    Algorithm(verisum_digest::DigestError),
}

impl ImportError {
    fn at(self, name: &Path, line: u64) -> CatalogError {
        match self {
            ImportError::Fault(what) => {
                CatalogError::Line { path: name.to_path_buf(), line, what: what.to_string() }
            }
            ImportError::Catalog(error) => error,
        }
    }
}

impl From<ImportFault> for ImportError {
    fn from(what: ImportFault) -> ImportError {
        ImportError::Fault(what)
    }
}

impl From<CatalogError> for ImportError {
    fn from(error: CatalogError) -> ImportError {
        ImportError::Catalog(error)
    }
}

/// A length, unless no file has it.
pub(super) fn length(size: u64) -> Result<u64, ImportError> {
    match i64::try_from(size) {
        Ok(_) => Ok(size),
        Err(_) => Err(ImportFault::Size.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::catalog;

    const TIME: &str = "\"1970-01-01T00:00:00.001000000Z\"";

    #[test]
    fn imports_refuse_what_leads_out_and_take_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let file = |path: &str| {
            format!(
                "{{\"type\":\"file\",\"version\":1,\"path\":{path:?},\"size\":1,\"mtime\":{TIME},\"ctime\":{TIME},\
                 \"inode\":1,\"algorithm\":\"md5\",\"digest\":\"{}\",\"first_seen\":{TIME},\
                 \"last_changed\":{TIME},\"last_verified\":null,\"outcome\":\"ok\"}}\n",
                "0f".repeat(16)
            )
        };
        let root = "{\"type\":\"root\",\"version\":1,\"path\":\"/x\",\"device\":1,\"inode\":1}\n";
        for bad in [
            file("a"),
            format!("{root}{}{}", file("good"), file("../a")),
            format!("{root}{}", file("/etc/a")),
            format!("{root}{{}}\n"),
            format!("{root}not json\n"),
            format!("{root}{}", file("a").replace("1970-", "70-")),
            root.replace("\"version\":1", "\"version\":2"),
        ] {
            let refused = catalog
                .import(&mut bad.as_bytes(), Path::new("x.jsonl"), Timestamp::of_milliseconds(1))
                .unwrap_err();
            assert!(refused.to_string().starts_with("x.jsonl: line "), "{refused}");
            assert_eq!(catalog.root(Path::new("/x")).unwrap(), None);
        }
        let good = format!("{root}{}{}", file("a/d"), file("a/b/c"));
        let imported = catalog
            .import(&mut good.as_bytes(), Path::new("x.jsonl"), Timestamp::of_milliseconds(1))
            .unwrap();
        assert_eq!(imported, ImportCounts { added: 2, ..ImportCounts::default() });
        assert_eq!(catalog.check().unwrap(), []);
        let mut exported = Vec::new();
        catalog.export(&mut exported).unwrap();
        assert!(String::from_utf8(exported).unwrap().ends_with(&good));
    }

    /// Lets something happen before each line is written.
    struct Meanwhile<'a>(&'a dyn Fn(), Vec<u8>);

    impl Write for Meanwhile<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if bytes == b"\n" {
                (self.0)();
            }
            self.1.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_export_sees_one_moment_whatever_is_written_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let (writing, root) = catalog(folder.path());
        let added = std::cell::Cell::new(0);
        let add = || {
            let name = format!("f{}", added.replace(added.get() + 1));
            let new = RecordChange::Add(crate::store::tests::record(1));
            writing.begin().unwrap();
            writing.apply(root.id, root.directory, name.as_ref(), &new).unwrap();
            writing.commit().unwrap();
        };
        (0..10).for_each(|_| add());
        let reading = Catalog::open_to_read(writing.path()).unwrap();
        let mut to = Meanwhile(&add, Vec::new());
        reading.export(&mut to).unwrap();
        assert_eq!((to.1.split(|byte| *byte == b'\n').count(), added.get()), (1 + 10 + 1, 10 + 11));
        reading.require_complete().unwrap();
        let mut after = Vec::new();
        reading.export(&mut after).unwrap();
        assert_eq!(after.split(|byte| *byte == b'\n').count(), 1 + 21 + 1);
    }
}
