//! Exports records as manifests, and imports manifests as records, in any format.
//!
//! A list says less than a record. What it does not say of a file is taken from the file as it is, so that
//! the first scrub compares the content with the list's digest, and does not take different content for an
//! ordinary change.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use verisum_digest::{Digest, Output};

use super::{
    Catalog, CatalogError, CatalogRecord, Identity, ImportCounts, Moment, RecordChange, Result, Root, Stamp,
    State, is_address,
};
use verisum_files::LEADS_OUT;
use verisum_files::check::STDIN;
use verisum_files::outlast;
use verisum_files::place::scheme;
use verisum_files::store::manifest::{Bad, ChkbitFile, Item, Line, ListFormat, ReadError, Reader, Writer};
use verisum_files::{Directory, Entry, Kind, Misjudged, Stat, Timestamp};

/// How much is gathered before it is written.
const CHUNK: usize = 64 << 10;

/// What was listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files in the list.
    pub files: u64,
    /// Files that are not, because their records are damaged.
    pub damaged: u64,
    /// Files that are not, because the format has no place for their names.
    pub unlistable: u64,
}

/// A file and its digest, as a list or another program's index has it.
struct ListedFile {
    name: Vec<u8>,
    otherwise: Option<Vec<u8>>,
    algorithm: String,
    digest: Output,
    size: Option<u64>,
    /// When it was last modified, and how many nanoseconds after that it may have been.
    modified: Option<(Timestamp, u64)>,
}

impl Catalog {
    /// Writes the records of the files below `below`, or of all, as a list. Names begin below `below`; without
    /// it they are whole paths. `left_out` is called for each file whose name the format has no place for,
    /// with [`CatalogError::Unlistable`].
    ///
    /// # Errors
    /// [`CatalogError::Unlistable`] if the format has no place for a digest.
    pub fn list(
        &self,
        format: ListFormat,
        below: Option<&Path>,
        to: &mut dyn Write,
        left_out: &mut dyn FnMut(CatalogError),
    ) -> Result<Exported> {
        self.at_one_moment(|| self.list_all(format, below, to, left_out))
    }

    fn list_all(
        &self,
        format: ListFormat,
        below: Option<&Path>,
        to: &mut dyn Write,
        left_out: &mut dyn FnMut(CatalogError),
    ) -> Result<Exported> {
        let roots: Vec<Root> = self.roots()?.into_iter().filter(|root| touches(&root.path, below)).collect();
        let mut writers = self.writers(format, &roots)?;
        let mut exported = Exported::default();
        let mut text = Vec::new();
        if let Some(writer) = writers.values().next() {
            writer.header(&mut text);
        }
        for root in &roots {
            let mut list = List { to, text: &mut text, left_out, exported: &mut exported };
            self.list_root(root, &mut writers, below, &mut list)?;
        }
        write(to, &mut text)?;
        Ok(exported)
    }

    /// What writes the lines of each algorithm that records have.
    fn writers(&self, format: ListFormat, roots: &[Root]) -> Result<BTreeMap<i64, Writer>> {
        let algorithms = self.algorithms()?;
        let mut used = BTreeSet::new();
        for root in roots {
            used.extend(self.algorithms_of(root.id)?);
        }
        let names: Vec<(i64, &String)> =
            used.iter().filter_map(|number| Some((*number, algorithms.get(number)?))).collect();
        // Where a line does not say which digest it has, all have to have the same.
        if names.len() > 1 && !format.traits().names_digests {
            let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
            let why =
                format!("the records have {}: the {format} format has one for all", names.join(" and "));
            return Err(CatalogError::Unlistable { path: self.path.clone(), why });
        }
        let unlistable = |why: String| CatalogError::Unlistable { path: self.path.clone(), why };
        names
            .into_iter()
            .map(|(number, name)| {
                let digest = Digest::find(name).map_err(|e| unlistable(e.to_string()))?;
                let writer = Writer::new(format, &[digest]).map_err(|e| unlistable(e.to_string()))?;
                Ok((number, writer))
            })
            .collect()
    }

    fn list_root(
        &self,
        root: &Root,
        writers: &mut BTreeMap<i64, Writer>,
        below: Option<&Path>,
        list: &mut List,
    ) -> Result<()> {
        self.each_of_root(root, &mut |path, record| {
            let path = root.path.join(path);
            let named = match below {
                None => Some(path.as_path()),
                Some(below) => path.strip_prefix(below).ok(),
            };
            let Some(named) = named else { return Ok(()) };
            let writer = writers.get_mut(&record.algorithm).filter(|_| record.state != State::DAMAGED);
            let Some(writer) = writer else {
                list.exported.damaged += 1;
                return Ok(());
            };
            let item = Item {
                name: writer.file_name(named.as_os_str().as_bytes()),
                size: record.size,
                modified: Some(record.mtime.timestamp()),
                mode: None,
                digests: &[record.digest],
            };
            if let Err(error) = writer.item(list.text, &item) {
                list.exported.unlistable += 1;
                (list.left_out)(CatalogError::Unlistable { path: path.clone(), why: error.to_string() });
                return Ok(());
            }
            list.exported.files += 1;
            if list.text.len() >= CHUNK {
                write(list.to, list.text)?;
            }
            Ok(())
        })
    }

    /// Records what a list says of files that have no record. Names begin at `base`; what is in no tree of
    /// the catalogue makes `base` one. Nothing of it was ever verified. All or nothing.
    ///
    /// `list` is what errors call it; [`verisum_files::check::open_to_record`] opens it. `not_there` is called for each
    /// listed file that is not there; it is recorded all the same. A list of whose files none is there is refused. If
    /// several lines name a file, the longest of their digests is recorded.
    pub fn import_list<R: Read>(
        &self,
        mut reader: Reader<R>,
        list: &Path,
        (base, now): (&Path, Timestamp),
        not_there: &mut dyn FnMut(&Path),
    ) -> Result<ImportCounts> {
        self.all_or_nothing(list, base, not_there, |importing| {
            loop {
                let line = reader.line().map_err(|error| match error {
                    ReadError::Io(source) => CatalogError::io(list, "read", source),
                    error => CatalogError::io(list, "read", std::io::Error::other(error)),
                })?;
                let number = reader.number();
                let wrong =
                    |what: String| CatalogError::Line { path: list.to_path_buf(), line: number, what };
                match line {
                    None => {
                        importing.imported.skipped = reader.skipped().clone();
                        return Ok(());
                    }
                    // It is counted.
                    Some(Line::Bad(Bad::UnknownDigest(_))) => {}
                    Some(Line::Bad(bad)) => return Err(wrong(bad.to_string())),
                    Some(Line::File(listed)) if listed.block_hash.is_some() => {
                        return Err(wrong(Misjudged::Images.to_string()));
                    }
                    Some(Line::File(listed)) if reader.names_stdin(&listed) => {
                        return Err(wrong(STDIN.to_string()));
                    }
                    Some(Line::File(listed)) => {
                        if let Some(why) = listed.contradiction() {
                            return Err(wrong(why));
                        }
                        let longest = listed.longest(|_| true).map_err(|error| wrong(error.to_string()))?;
                        // A directory, or a file that is listed without a digest.
                        let Some((algorithm, digest)) = longest else { continue };
                        let found = ListedFile {
                            algorithm: algorithm.name().to_string(),
                            digest,
                            name: listed.name,
                            otherwise: listed.otherwise,
                            size: listed.size,
                            // Whole seconds are what many programs write.
                            modified: listed
                                .modified
                                .map(|time| (time, if time.nanoseconds == 0 { 1_000_000_000 } else { 1 })),
                        };
                        self.import_found(&found, base, now.into(), importing)?.map_err(wrong)?;
                    }
                }
            }
        })
    }

    /// The same of what another program has recorded.
    pub fn import_recorded(
        &self,
        files: Vec<ChkbitFile>,
        index: &Path,
        (base, now): (&Path, Timestamp),
        not_there: &mut dyn FnMut(&Path),
    ) -> Result<ImportCounts> {
        self.all_or_nothing(index, base, not_there, |importing| {
            for (number, file) in (1..).zip(files) {
                let found = ListedFile {
                    name: file.name,
                    otherwise: None,
                    algorithm: file.record.algorithm.id.to_string(),
                    digest: file.record.digest,
                    size: file.record.size,
                    modified: file.record.modified.map(|time| (time.time, time.tolerance)),
                };
                let wrong = |what| CatalogError::Entry { path: index.to_path_buf(), entry: number, what };
                self.import_found(&found, base, now.into(), importing)?.map_err(wrong)?;
            }
            Ok(())
        })
    }

    fn all_or_nothing(
        &self,
        list: &Path,
        base: &Path,
        not_there: &mut dyn FnMut(&Path),
        import: impl FnOnce(&mut ListImport) -> Result<()>,
    ) -> Result<ImportCounts> {
        let mut importing = ListImport {
            imported: ImportCounts::default(),
            folder: None,
            from: None,
            not_there,
            there: 0,
            absent: 0,
        };
        self.in_transaction(|| import(&mut importing).and_then(|()| importing.doubt(list, base)))?;
        Ok(importing.imported)
    }

    /// Records one file. The inner error says what is wrong with what was found.
    fn import_found(
        &self,
        found: &ListedFile,
        base: &Path,
        now: Moment,
        importing: &mut ListImport,
    ) -> Result<std::result::Result<(), String>> {
        let (path, stat) = importing.find(self, base, found)?;
        if stat == Looked::Outside || path.components().any(|part| part == Component::ParentDir) {
            return Ok(Err(format!("{}: {LEADS_OUT}", path.display())));
        }
        let path = plain(&path);
        importing.count(&path, &stat);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Err("a path without a name".to_string()));
        };
        let stat = match stat {
            Looked::Found(stat) if stat.kind == Kind::File => Some(stat),
            _ => None,
        };
        let Some((root, directory)) = self.folder_of_listed(folder, base, importing)? else {
            let path = path.display();
            return Ok(Err(format!("{path}: it is in no tree of the catalogue, and not below --tree")));
        };
        let algorithm = self.algorithm(&found.algorithm)?;
        importing.imported.listed += 1;
        let mut is_new = true;
        if let Some(known) = self.record(directory, name)? {
            // What this import has recorded is of this moment, and was never verified.
            let is_of_this_list =
                (known.first_seen, known.changed, known.verified) == (now, now, Moment::NEVER);
            let is_same = (known.algorithm, known.digest) == (algorithm, found.digest);
            let [old, new] = [known.digest, found.digest].map(|digest| digest.as_bytes().len());
            match is_of_this_list {
                true if is_same || new < old => return Ok(Ok(())),
                true if known.algorithm == algorithm => {
                    return Ok(Err(format!(
                        "{}: an earlier line has a different digest of it",
                        path.display()
                    )));
                }
                true if new == old => return Ok(Ok(())),
                // Of several digests the longest is the hardest to forge.
                true => self.apply(root, directory, name, &RecordChange::Forget(known))?,
                false => {
                    importing.imported.known += 1;
                    importing.imported.differing += u64::from(!is_same && new >= old);
                    return Ok(Ok(()));
                }
            }
            is_new = false;
        }
        self.apply(root, directory, name, &RecordChange::Add(listed_record(found, stat, algorithm, now)))?;
        importing.imported.added += u64::from(is_new);
        Ok(Ok(()))
    }

    /// The numbers of the root and of the directory of a listed file, recorded if they were not. None of a file that is
    /// in no tree.
    fn folder_of_listed(
        &self,
        folder: &Path,
        base: &Path,
        importing: &mut ListImport,
    ) -> Result<Option<(i64, i64)>> {
        if let Some((last, root, directory)) = &importing.folder
            && last == folder
        {
            return Ok(Some((*root, *directory)));
        }
        let root = match self.root_of(folder)? {
            Some(root) => root,
            None if !folder.starts_with(base) => return Ok(None),
            None if is_address(base) => self.add_root(base, Identity { device: 0, inode: 0 })?,
            None => {
                let stat = Entry::named(base).and_then(|entry| entry.stat());
                let stat = stat.map_err(|e| CatalogError::io(base, "open", std::io::Error::other(e)))?;
                self.add_root(base, Identity::of(&stat))?
            }
        };
        let directory = self.make_directories(&root, root.below(folder))?;
        importing.folder = Some((folder.to_path_buf(), root.id, directory));
        Ok(Some((root.id, directory)))
    }
}

/// The record of a file that a list has, and what it is if it is there.
fn listed_record(found: &ListedFile, stat: Option<Stat>, algorithm: i64, now: Moment) -> CatalogRecord {
    let there = stat.map(|stat| Stamp::from(stat.modified));
    let listed = found.modified.map(|(time, tolerance)| (Stamp::from(time), tolerance as i64));
    let since = |there: Stamp, listed: Stamp| there.nanoseconds() - listed.nanoseconds();
    let mtime = match (there, listed) {
        // A time that is cut off is the file's own.
        (Some(there), Some((listed, tolerance))) if (0..tolerance).contains(&since(there, listed)) => there,
        (_, Some((listed, _))) => listed,
        (there, None) => there.unwrap_or_default(),
    };
    CatalogRecord {
        size: found.size.or(stat.map(|stat| stat.size)).unwrap_or_default(),
        mtime,
        ctime: stat.map(|stat| Stamp::from(stat.changed)).unwrap_or_default(),
        inode: stat.map(|stat| stat.inode).unwrap_or_default(),
        algorithm,
        digest: found.digest,
        first_seen: now,
        changed: now,
        verified: Moment::NEVER,
        state: State::Sound,
    }
}

/// A list that is being written.
struct List<'a> {
    to: &'a mut dyn Write,
    text: &'a mut Vec<u8>,
    left_out: &'a mut dyn FnMut(CatalogError),
    exported: &'a mut Exported,
}

/// How far an import is.
struct ListImport<'a> {
    imported: ImportCounts,
    /// The last directory, its root and its number.
    folder: Option<(PathBuf, i64, i64)>,
    /// The directory that the last name was looked up from.
    from: Option<Arc<Directory>>,
    /// Hears of each listed file that is not there.
    not_there: &'a mut dyn FnMut(&Path),
    /// How many listed files are there, and how many are not.
    there: u64,
    absent: u64,
}

/// What is at a path that a list has.
#[derive(Debug, PartialEq)]
enum Looked {
    Found(Stat),
    Nothing,
    /// It leads up or through a link: whoever made the list does not say what is a part of the tree.
    Outside,
}

impl ListImport<'_> {
    /// Looks for a listed file by its names. Returns its path, and what is there.
    fn find(&mut self, catalog: &Catalog, base: &Path, found: &ListedFile) -> Result<(PathBuf, Looked)> {
        let mut path = joined(base, &found.name);
        let mut looked = self.look(catalog, base, &path)?;
        if let (Looked::Nothing, Some(otherwise)) = (&looked, &found.otherwise) {
            let other = joined(base, otherwise);
            if let there @ Looked::Found(_) = self.look(catalog, base, &other)? {
                (path, looked) = (other, there);
            }
        }
        // A later write in the same second would leave the file with the time that is recorded.
        if let Looked::Found(stat) = &looked
            && outlast(stat.changed)
        {
            looked = self.look(catalog, base, &path)?;
        }
        Ok((path, looked))
    }

    /// Counts whether a listed file is there.
    fn count(&mut self, path: &Path, looked: &Looked) {
        match looked {
            Looked::Nothing if is_address(path) => {}
            Looked::Nothing => {
                self.absent += 1;
                (self.not_there)(path);
            }
            _ => self.there += 1,
        }
    }

    /// Fails for a list that is rather of another place.
    fn doubt(&mut self, list: &Path, base: &Path) -> Result<()> {
        if self.absent == 0 || self.there > 0 {
            return Ok(());
        }
        let base = base.display();
        let why = format!("no listed file is there: names begin at {base} (--tree names another DIR)");
        Err(CatalogError::io(list, "import", std::io::Error::other(why)))
    }

    /// Looks for a file without leaving the tree that it is in, and without following links.
    fn look(&mut self, catalog: &Catalog, base: &Path, path: &Path) -> Result<Looked> {
        if is_address(path) {
            return Ok(Looked::Nothing);
        }
        let tree = match path.starts_with(base) {
            true => base.to_path_buf(),
            false => match catalog.root_of(path)? {
                Some(root) => root.path,
                None => return Ok(Looked::Nothing),
            },
        };
        let Ok(below) = path.strip_prefix(&tree) else { return Ok(Looked::Nothing) };
        if self.from.as_ref().is_none_or(|from| from.path() != tree) {
            self.from = Directory::named(&tree).ok();
        }
        let Some(from) = &self.from else { return Ok(Looked::Nothing) };
        Ok(match Entry::beneath(from, below).and_then(|entry| entry.stat()) {
            Ok(stat) => Looked::Found(stat),
            Err(verisum_files::FileError::Io { source, .. }) if source.to_string() == LEADS_OUT => {
                Looked::Outside
            }
            Err(_) => Looked::Nothing,
        })
    }
}

/// A name of a list where names begin at `base`. One from the root of the file system is of the machine that
/// `base` is on.
fn joined(base: &Path, name: &[u8]) -> PathBuf {
    let machine = base.as_os_str().as_bytes();
    match scheme(machine).filter(|_| name.starts_with(b"/")) {
        Some(scheme) => {
            let slash = machine[scheme.len()..].iter().position(|byte| *byte == b'/');
            let machine = &machine[..slash.map_or(machine.len(), |slash| scheme.len() + slash)];
            PathBuf::from(OsString::from_vec([machine, name].concat()))
        }
        None => base.join(OsStr::from_bytes(name)),
    }
}

/// A path without `.` and empty parts.
fn plain(path: &Path) -> PathBuf {
    match scheme(path.as_os_str().as_bytes()) {
        None => path.components().collect(),
        // The slashes before a machine are none of a path.
        Some(scheme) => {
            let below = Path::new(OsStr::from_bytes(&path.as_os_str().as_bytes()[scheme.len()..]));
            let mut plain = OsString::from(scheme);
            plain.push(below.components().collect::<PathBuf>());
            plain.into()
        }
    }
}

/// Whether a root has files below a directory, or is in it.
fn touches(root: &Path, below: Option<&Path>) -> bool {
    below.is_none_or(|below| root.starts_with(below) || below.starts_with(root))
}

fn write(to: &mut dyn Write, text: &mut Vec<u8>) -> Result<()> {
    let written = to.write_all(text);
    text.clear();
    written.map_err(|e| CatalogError::io(Path::new("output"), "write", e))
}
