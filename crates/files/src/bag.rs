//! Makes BagIt bags (RFC 8493) of directories: moves the files into `data`, and writes lists of their digests
//! beside it.
//!
//! All is made in a directory of its own inside, and moved out of it at the end, `bagit.txt` last: nothing is a bag
//! before it is whole. What fails is undone; the next run resumes one that was killed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verisum_digest::Digest;

use crate::hash_files::{HashOptions, ResultOrder, StartError, hash_files};
use crate::store::manifest::{Item, ListFormat, Unwritable, Writer};
use crate::{FileDigests, FileError, Kind, Progress, Reached, Stop, Walk, WalkOptions};

/// The directory in which a bag is made.
const STAGE: &str = ".verisum-bag";

/// The file that makes a directory a bag.
const BAGIT: &str = "bagit.txt";

const DECLARATION: &str = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";

/// How to make a bag. The default is SHA-512, as the standard advises, on all cores.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BagOptions {
    /// The digests, one manifest each; none stands for SHA-512.
    pub digests: Vec<Digest>,
    /// Lines of `bag-info.txt`: labels and values.
    pub info: Vec<(String, String)>,
    /// Threads; 0 for as many as there are cores.
    pub threads: usize,
    /// When to end early: all is undone then.
    pub stop: Arc<Stop>,
    /// Where to tell how far it is.
    pub progress: Arc<Progress>,
}

/// What a bag holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bagged {
    /// Files of payload.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
}

/// Why a directory was made no bag. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BagError {
    /// A file or a directory could not be read.
    #[error(transparent)]
    Tree(#[from] FileError),
    /// Nothing was hashed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It is a bag already.
    #[error("{}: is a bag already", path.display())]
    IsBag {
        /// The directory.
        path: PathBuf,
    },
    /// A bag has no place for it.
    #[error("{}: a bag cannot hold {why}", path.display())]
    Unfit {
        /// What it is about.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file was written to while it was read.
    #[error("{}: changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Something could not be written or moved.
    #[error("{}: {operation}: {}", path.display(), crate::text::of_system(source))]
    Io {
        /// What it was about.
        path: PathBuf,
        /// What was done.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Makes a directory a bag.
///
/// # Errors
/// A link of another user leads there, a bag cannot hold what is there, or it could not be read or written; the
/// directory is as it was then.
pub fn create_bag(directory: &Path, options: &BagOptions) -> Result<Bagged, BagError> {
    Reached::new(directory)?;
    if directory.join(BAGIT).symlink_metadata().is_ok() {
        return Err(BagError::IsBag { path: directory.to_path_buf() });
    }
    let stage = Stage { directory, path: directory.join(STAGE) };
    if stage.path.join(BAGIT).symlink_metadata().is_err() {
        look_for_unfit(directory, options)?;
        let made = stage.take_in().and_then(|()| stage.make(options));
        if let Err(error) = made {
            stage.undo();
            return Err(error);
        }
    }
    let bagged = stage.oxum()?;
    stage.move_out()?;
    Ok(bagged)
}

/// Finds what a bag cannot hold, before anything is moved, and tells how much there is to read.
fn look_for_unfit(directory: &Path, options: &BagOptions) -> Result<(), BagError> {
    for entry in Walk::new(vec![directory.to_path_buf()], WalkOptions::default()) {
        let entry = entry?;
        let why = match entry.kind() {
            Kind::File => {
                options.progress.expect(entry.stat()?.size);
                None
            }
            Kind::Directory => None,
            Kind::Link => Some("a symbolic link"),
            Kind::Special => Some("a device, pipe or socket"),
        };
        let is_utf8 = std::str::from_utf8(entry.name().as_bytes()).is_ok();
        if let Some(why) = why.or((!is_utf8).then_some("a name that is no UTF-8")) {
            return Err(BagError::Unfit { path: entry.path(), why: why.to_string() });
        }
    }
    Ok(())
}

/// The directory in which a bag is made.
struct Stage<'a> {
    directory: &'a Path,
    path: PathBuf,
}

impl Stage<'_> {
    fn payload(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Moves all that there is into the payload.
    fn take_in(&self) -> Result<(), BagError> {
        for folder in [self.path.clone(), self.payload()] {
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(failed(&folder, "create"))?,
            }
        }
        for name in names(self.directory)? {
            if name != STAGE {
                rename(&self.directory.join(&name), &self.payload().join(&name))?;
            }
        }
        Ok(())
    }

    /// Writes all files of the bag but the payload.
    fn make(&self, options: &BagOptions) -> Result<(), BagError> {
        let digests = match options.digests.is_empty() {
            true => vec![Digest::find("sha512").map_err(StartError::from)?],
            false => options.digests.clone(),
        };
        let bagged = self.write_manifests(&digests, options)?;
        let mut info = String::new();
        for (label, value) in &options.info {
            info.push_str(&format!("{label}: {value}\n"));
        }
        info.push_str(&format!("Payload-Oxum: {}.{}\n", bagged.bytes, bagged.files));
        self.write("bag-info.txt", info.as_bytes())?;
        let of_payload = digests.iter().map(|digest| manifest("", digest));
        let tags: Vec<String> = of_payload.chain(["bag-info.txt".into()]).collect();
        for digest in &digests {
            let mut list = String::new();
            for name in tags.iter().map(String::as_str).chain([BAGIT]) {
                let path = self.path.join(name);
                let bytes = match name {
                    BAGIT => DECLARATION.as_bytes().to_vec(),
                    _ => fs::read(&path).map_err(failed(&path, "read"))?,
                };
                let hash = digest.hash(&bytes).map_err(StartError::from)?;
                list.push_str(&format!("{hash}  {name}\n"));
            }
            self.write(&manifest("tag", digest), list.as_bytes())?;
        }
        self.write(BAGIT, DECLARATION.as_bytes())?;
        sync(&self.path)
    }

    /// Writes the manifests of the payload.
    fn write_manifests(&self, digests: &[Digest], options: &BagOptions) -> Result<Bagged, BagError> {
        let open = |digest: &Digest| {
            let path = self.path.join(manifest("", digest));
            let file = File::create(&path).map_err(failed(&path, "create"))?;
            let writer = Writer::new(ListFormat::Bagit, std::slice::from_ref(digest));
            let writer = writer.map_err(|error| unfit(&path, &error))?;
            Ok::<_, BagError>((path, BufWriter::new(file), writer))
        };
        let mut lists = digests.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut how = HashOptions::default();
        (how.digests, how.threads, how.order) = (digests.to_vec(), options.threads, ResultOrder::ByName);
        how.progress = options.progress.clone();
        how.stop = options.stop.clone();
        let mut bagged = Bagged { files: 0, bytes: 0 };
        let payload = self.payload();
        let mut line = Vec::new();
        for file in hash_files(vec![payload.clone()], &how)? {
            let FileDigests { path, digests, length, changed, stat } = file?;
            if changed {
                return Err(BagError::Changed { path });
            }
            bagged = Bagged { files: bagged.files + 1, bytes: bagged.bytes + length };
            let name = path.strip_prefix(&self.path).unwrap_or(&path);
            let (name, modified) = (name.as_os_str().as_bytes(), Some(stat.modified));
            for ((list, file, writer), digest) in lists.iter_mut().zip(&digests) {
                line.clear();
                let digests = std::slice::from_ref(digest);
                let item = Item { name, size: length, modified, mode: None, digests };
                writer.item(&mut line, &item).map_err(|error| unfit(&path, &error))?;
                file.write_all(&line).map_err(failed(list, "write"))?;
            }
        }
        // The files that are left did not come.
        if options.stop.is_due() {
            return Err(FileError::Stopped { path: payload }.into());
        }
        for (path, file, _) in lists {
            let file = file.into_inner().map_err(|error| failed(&path, "write")(error.into_error()))?;
            file.sync_all().map_err(failed(&path, "sync"))?;
        }
        Ok(bagged)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), BagError> {
        let (new, path) = (self.path.join("new"), self.path.join(name));
        let mut file = File::create(&new).map_err(failed(&path, "create"))?;
        file.write_all(content).map_err(failed(&path, "write"))?;
        file.sync_all().map_err(failed(&path, "sync"))?;
        // Whoever goes on after a kill takes a file that is there for a whole one.
        fs::rename(&new, &path).map_err(failed(&path, "move"))
    }

    /// What the bag holds, by its own word: of one that an earlier run made, too.
    fn oxum(&self) -> Result<Bagged, BagError> {
        let place = [&self.path, self.directory].map(|folder| folder.join("bag-info.txt"));
        let path = place.iter().find(|path| path.exists()).unwrap_or(&place[0]);
        let text = fs::read_to_string(path).map_err(failed(path, "read"))?;
        let oxum = text.lines().rev().find_map(|line| line.strip_prefix("Payload-Oxum: ")?.split_once('.'));
        let (bytes, files) = oxum.unwrap_or_default();
        Ok(Bagged { bytes: bytes.parse().unwrap_or(0), files: files.parse().unwrap_or(0) })
    }

    /// Moves all to where it belongs, and `bagit.txt` last.
    fn move_out(&self) -> Result<(), BagError> {
        let mut names = names(&self.path)?;
        names.sort_by_key(|name| name == BAGIT);
        for name in names {
            if name == BAGIT {
                sync(self.directory)?;
            }
            rename(&self.path.join(&name), &self.directory.join(&name))?;
        }
        fs::remove_dir(&self.path).map_err(failed(&self.path, "remove"))?;
        sync(self.directory)
    }

    /// Moves the files back. What cannot be moved stays where the next run looks for it.
    fn undo(&self) {
        for name in names(&self.payload()).unwrap_or_default() {
            let _ = rename(&self.payload().join(&name), &self.directory.join(&name));
        }
        if fs::remove_dir(self.payload()).is_ok() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn manifest(prefix: &str, digest: &Digest) -> String {
    format!("{prefix}manifest-{}.txt", digest.name().replace('-', ""))
}

fn names(directory: &Path) -> Result<Vec<std::ffi::OsString>, BagError> {
    let listed = fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = listed.map_err(failed(directory, "list"))?;
    Ok(entries.into_iter().map(|entry| entry.file_name()).collect())
}

/// Moves, and never onto something.
fn rename(from: &Path, to: &Path) -> Result<(), BagError> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, rustix::fs::RenameFlags::NOREPLACE) {
        // Not all file systems can do that.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if to.symlink_metadata().is_err() => {
            fs::rename(from, to)
        }
        done => done.map_err(io::Error::from),
    }
    .map_err(failed(from, "move"))
}

fn sync(directory: &Path) -> Result<(), BagError> {
    File::open(directory).and_then(|folder| folder.sync_all()).map_err(failed(directory, "sync"))
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(io::Error) -> BagError {
    let path = path.to_path_buf();
    move |source| BagError::Io { path: path.clone(), operation, source }
}

fn unfit(path: &Path, error: &Unwritable) -> BagError {
    let why = match error {
        Unwritable::Name { why, .. } => (*why).to_string(),
        other => other.to_string(),
    };
    BagError::Unfit { path: path.to_path_buf(), why }
}
