//! Sources: the trees in which a repair looks for lost content.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use verisum_catalog::store::CatalogError;
use verisum_digest::{Digest, Output};
use verisum_files::place::{FileAnswer, FileRequest, Files, Place, PlaceEvent, join};
use verisum_files::{Stop, lock};

use super::CopyFault;
use super::damaged::{ANY_LENGTH, Damaged};
use super::source_catalog::SourceCatalog;

/// A tree that may have good copies.
pub struct Source<'a> {
    /// Its path, or its address, as the catalogue has those of trees.
    pub address: PathBuf,
    /// Where it is.
    pub place: Box<dyn Place + 'a>,
    /// Its path in that place.
    pub root: Vec<u8>,
    /// The part of the tree that is repaired of which it is a copy, by its path below that tree; empty for all of it.
    pub part: PathBuf,
    /// Whether it is a copy of the tree that is repaired: a file may be at the same path in it. In any source the
    /// catalogue may know of copies.
    pub is_counterpart: bool,
    /// Whether it computes what is lost: all its files are shown by its own address.
    pub is_parity: bool,
    /// A catalogue that knows it, besides the one by which is repaired.
    pub catalog: Option<SourceCatalog>,
}

impl<'a> Source<'a> {
    /// A copy of a tree on this machine.
    pub fn new(path: &Path, place: Box<dyn Place + 'a>) -> Source<'a> {
        let root = path.as_os_str().as_bytes().to_vec();
        Source {
            address: path.to_path_buf(),
            place,
            root,
            part: PathBuf::new(),
            is_counterpart: true,
            is_parity: false,
            catalog: None,
        }
    }

    /// Finds out where else it has the contents of files.
    pub(super) fn look_for(&mut self, damaged: &[Damaged]) -> Result<(), CatalogError> {
        match &mut self.catalog {
            Some(catalog) if !damaged.is_empty() => catalog.look_for(damaged),
            _ => Ok(()),
        }
    }

    /// A path in the place, by its path below the tree's top.
    pub(super) fn path_of(&self, below: &Path) -> Vec<u8> {
        join(&self.root, below.as_os_str().as_bytes())
    }

    /// The files that may have a content: the one at the same path, then those that catalogues know.
    pub(super) fn candidates(&self, damaged: &Damaged) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = self.at_path(&damaged.below).into_iter().collect();
        let copies = damaged.copies.iter().filter_map(|copy| copy.strip_prefix(&self.address).ok());
        let own = self.catalog.iter().flat_map(|catalog| catalog.copies(damaged)).map(PathBuf::as_path);
        for below in copies.chain(own) {
            let path = self.path_of(below);
            if found.iter().all(|known| known.path != path) {
                found.push(Candidate { path, shown: self.address.join(below) });
            }
        }
        found
    }

    /// The file at a path below what is repaired.
    pub(super) fn at_path(&self, below: &Path) -> Option<Candidate> {
        let below = below.strip_prefix(&self.part).ok().filter(|_| self.is_counterpart)?;
        let is_itself = self.is_parity || below.as_os_str().is_empty();
        let shown = if is_itself { self.address.clone() } else { self.address.join(below) };
        Some(Candidate { path: self.path_of(below), shown })
    }

    /// Whether a file of this machine is known not to have a content, by its length: there is no need to read it.
    pub(super) fn has_other_length(&self, candidate: &Candidate, size: u64) -> bool {
        let is_known = self.place.is_here() && size < ANY_LENGTH;
        is_known && candidate.here().metadata().is_ok_and(|found| found.is_file() && found.len() != size)
    }

    /// Computes the digests of files where they are; of each what it is, or why it cannot be read. Once it is time to
    /// stop, those that are left have no answer.
    pub(super) fn digests(
        &mut self,
        digest: &Digest,
        paths: Vec<Vec<u8>>,
        stop: &Stop,
    ) -> Vec<Result<CopyDigest, CopyFault>> {
        let answers: Mutex<Vec<_>> = Mutex::new(paths.iter().map(|_| Err(CopyFault::NoAnswer)).collect());
        let requests = paths.into_iter().zip(0..);
        let mut requests = requests.map(|(path, tag)| FileRequest { path, tag, ..FileRequest::default() });
        let keep = |event: PlaceEvent| {
            if let PlaceEvent::Answer(FileAnswer { request, result }) = event {
                let mut answers = lock(&answers);
                if let Some(answer) = answers.get_mut(request.tag as usize) {
                    *answer = match result {
                        Ok(read) if read.changed => Err(CopyFault::Changed),
                        Ok(read) => match read.digest() {
                            Some(digest) => Ok(CopyDigest { digest, size: request.seen.size }),
                            None => Err(CopyFault::NoAnswer),
                        },
                        Err(error) => Err(CopyFault::NotRead(error.reason())),
                    };
                }
            }
            !stop.is_due()
        };
        let ended = self.place.hash(std::slice::from_ref(digest), Files::Named(&mut requests), &keep);
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = ended {
            let failed = CopyFault::Place(error.into());
            for answer in answers.iter_mut().filter(|answer| **answer == Err(CopyFault::NoAnswer)) {
                *answer = Err(failed.clone());
            }
        }
        answers
    }
}

/// What a file of a source is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CopyDigest {
    pub(super) digest: Output,
    /// Its length in bytes, if its place told it.
    pub(super) size: Option<u64>,
}

/// A file that may have the content that another lost.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its path in its place.
    pub(super) path: Vec<u8>,
    /// Its path or address, for people.
    pub(super) shown: PathBuf,
}

impl Candidate {
    /// Its path on this machine.
    pub(super) fn here(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_files::place::{LocalPlace, Reason};

    #[test]
    fn what_cannot_be_read_has_a_reason_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "content").unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let mut source = Source::new(folder.path(), Box::new(LocalPlace::default()));
        let digest = Digest::find("sha256").unwrap();
        let paths = ["file", "folder", "gone"].map(|name| source.path_of(Path::new(name)));
        let found = source.digests(&digest, paths.to_vec(), &Stop::default());
        let reasons: Vec<_> = found.into_iter().map(|found| found.err()).collect();
        let not_read = |reason| Some(CopyFault::NotRead(reason));
        assert_eq!(reasons, [None, not_read(Reason::Directory), not_read(Reason::Missing)]);
    }
}
