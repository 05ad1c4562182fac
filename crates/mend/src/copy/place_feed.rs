//! Takes the listing of a place, makes its directories at TO, and says where each file goes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Mode;
use verisum_catalog::store::Catalog;
use verisum_files::Directory;
use verisum_files::place::{PlaceError, PlaceEvent, below};

use super::feed::{open_target, split};
use super::fetch::{RemoteFile, RemoteTree};
use super::record::Records;
use super::shared::Shared;
use super::target::{TargetDirectory, TargetName};
use super::{CopyError, CopyOutcome};

/// The mode of new directories, of which the process's mask is taken away.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// What a place lists, and where it goes.
pub(super) struct PlaceFeed<'a, 'c, 'f> {
    shared: &'a Shared<'a>,
    from: RemoteTree<'f>,
    to: &'f Path,
    /// The catalogue's records of FROM and of TO.
    records: [Option<Records<'c>>; 2],
    /// TO, or the directory that it is in, once the first file is known.
    top: Option<Arc<Directory>>,
    /// The directories on the way to the last file, each with its path below TO.
    stack: Vec<(PathBuf, Arc<TargetDirectory<'a>>)>,
    /// The name at TO, if FROM is a file.
    name: Option<std::ffi::OsString>,
}

impl<'a, 'c, 'f> PlaceFeed<'a, 'c, 'f> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        from: RemoteTree<'f>,
        to: &'f Path,
        catalog: Option<&'c Catalog>,
    ) -> Result<PlaceFeed<'a, 'c, 'f>, CopyError> {
        let recorded = catalog.filter(|_| shared.options.record);
        let records = [
            catalog.map(|catalog| Records::of_address(catalog, from.address)).transpose()?.flatten(),
            recorded.map(|catalog| Records::of(catalog, to)).transpose()?.flatten(),
        ];
        Ok(PlaceFeed { shared, from, to, records, top: None, stack: Vec::new(), name: None })
    }

    /// TO, or the directory that it is in; none before the first file.
    pub(super) fn top(&self) -> Option<Arc<Directory>> {
        self.top.clone()
    }

    /// The file in what a place tells, and where it goes. What cannot be listed is told to the sink.
    ///
    /// # Errors
    /// TO cannot be made, or the catalogue cannot be read.
    pub(super) fn file(&mut self, event: PlaceEvent) -> Result<Option<RemoteFile<'a>>, CopyError> {
        let answer = match event {
            PlaceEvent::Answer(answer) => answer,
            PlaceEvent::Unlisted(why) => {
                self.tell_failed(self.from.address, PlaceError::Unlisted(why));
                return Ok(None);
            }
            PlaceEvent::Way(_) | PlaceEvent::Note(_) => return Ok(None),
        };
        let path = answer.request.path;
        let Some(below) = below(self.from.root, &path).map(|below| Path::new(OsStr::from_bytes(below)))
        else {
            let what = "it lists a file that was not asked for";
            self.tell_failed(self.from.address, PlaceError::Machine(what.into()));
            return Ok(None);
        };
        let address = match below.as_os_str().is_empty() {
            true => self.from.address.to_path_buf(),
            false => self.from.address.join(below),
        };
        if let Err(error) = answer.result {
            self.tell_failed(&address, error.into());
            return Ok(None);
        }
        if self.shared.options.excludes.as_ref().is_some_and(|excludes| excludes.leaves_out_file(below)) {
            return Ok(None);
        }
        if self.top.is_none() {
            self.open(below.as_os_str().is_empty())?;
        }
        let target = match self.target(below) {
            Ok(target) => target,
            Err(error) => {
                self.shared.tell_plain(&address, below, CopyOutcome::Failed(error));
                return Ok(None);
            }
        };
        let mut known = [None, None];
        let names = [below, &*target.below()];
        for ((known, records), name) in known.iter_mut().zip(&mut self.records).zip(names) {
            if let Some(records) = records {
                *known = records.recorded(name)?;
            }
        }
        let [known, recorded] = known;
        let seen = answer.request.seen;
        Ok(Some(RemoteFile { path, address, seen, target, known, recorded, stored: None }))
    }

    /// Opens TO, or makes it.
    fn open(&mut self, is_file: bool) -> Result<(), CopyError> {
        let nothing = &|_: &Directory, _: bool| Ok(());
        let (top, was_there) = open_target(self.to, is_file, DIRECTORY_MODE, nothing)?;
        let mut folder = self.to;
        if is_file {
            // The file has TO's name, or its own in TO.
            let name = match Directory::trusted(self.to) {
                Ok(_) => self.from.address.file_name().unwrap_or_default(),
                Err(_) => {
                    let (above, name) = split(self.to)?;
                    folder = above;
                    name
                }
            };
            self.name = Some(name.to_os_string());
        }
        let directory = TargetDirectory::top(self.shared, &*top, folder, was_there)?;
        self.stack.push((PathBuf::new(), Arc::new(directory)));
        self.top = Some(top);
        Ok(())
    }

    fn target(&mut self, below: &Path) -> Result<TargetName<'a>, CopyError> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => {
                // A listing is not to be trusted with where a file goes.
                let mut names = below.as_os_str().as_bytes().split(|byte| *byte == b'/');
                if names.any(|name| matches!(name, b"" | b"." | b"..")) {
                    let what = PlaceError::Machine("it lists a name that no file has".into());
                    return Err(CopyError::place(&self.from.address.join(below), what));
                }
                self.enter(below.parent().unwrap_or(Path::new("")))?;
                below.file_name().unwrap_or_default().to_os_string()
            }
        };
        let (_, directory) = &self.stack[self.stack.len() - 1];
        directory.name(&name)
    }

    /// Makes a directory below TO, or opens the one that is there, and those on the way to it.
    fn enter(&mut self, folder: &Path) -> Result<(), CopyError> {
        while self.stack.len() > 1 && !folder.starts_with(&self.stack[self.stack.len() - 1].0) {
            self.stack.pop();
        }
        let (reached, _) = &self.stack[self.stack.len() - 1];
        let mut reached = reached.clone();
        let left = folder.strip_prefix(&reached).unwrap_or(folder).to_path_buf();
        for name in &left {
            reached.push(name);
            let (_, above) = &self.stack[self.stack.len() - 1];
            let directory = above.enter(name, DIRECTORY_MODE)?;
            self.stack.push((reached.clone(), Arc::new(directory)));
        }
        Ok(())
    }

    fn tell_failed(&self, address: &Path, error: PlaceError) {
        let outcome = CopyOutcome::Failed(CopyError::place(address, error));
        self.shared.tell_plain(address, Path::new(""), outcome);
    }
}
