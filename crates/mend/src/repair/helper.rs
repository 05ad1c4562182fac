//! Lets parity use copies: finds in other sources the parts of files that the tree has lost.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_files::FileError;
use verisum_files::place::{Help, LostPart, PlaceError, Reason, below};

use super::damaged::Damaged;
use super::foretold::Foretold;
use super::source::{Candidate, Source};

/// So often in a row a copy may fail before it is given up.
pub(super) const FAILURES: u32 = 16;

/// The most bytes that are read ahead.
const AHEAD: usize = 1 << 20;

/// What helps to repair some files.
#[derive(Default)]
pub(super) struct Helper {
    /// The file that was asked for last, and its copies.
    below: Option<PathBuf>,
    copies: Vec<Copy>,
    /// What each parity could not solve, by the number of its source.
    in_vain: HashMap<usize, HashMap<u64, usize>>,
    /// The files that sources elsewhere do not have, by the number of the source: they are not asked again.
    absent: HashSet<(usize, Vec<u8>)>,
    /// What other parity would repair.
    pub(super) foretold: Foretold,
}

/// A copy, and what was read of it last.
struct Copy {
    source: usize,
    candidate: Candidate,
    failures: u32,
    start: u64,
    bytes: Vec<u8>,
}

impl Helper {
    /// One that knows what would be repaired by now.
    pub(super) fn knowing(foretold: Foretold) -> Helper {
        Helper { foretold, ..Helper::default() }
    }

    /// Has parity try once more what it could not solve: more would be repaired by now.
    pub(super) fn try_again(&mut self) {
        (self.below, self.in_vain) = (None, HashMap::new());
    }

    /// Fills a buffer with the bytes of a file of a source at an offset; the other sources help where that is parity.
    pub(super) fn read(
        &mut self,
        (sources, which): (&mut [Source], usize),
        damaged: &[Damaged],
        path: &[u8],
        room: (u64, &mut [u8]),
    ) -> Result<(), PlaceError> {
        let missing = || FileError::NotRead { path: OsStr::from_bytes(path).into(), reason: Reason::Missing };
        if self.absent.contains(&(which, path.to_vec())) {
            return Err(missing().into());
        }
        let (before, others) = sources.split_at_mut(which);
        let Some((own, after)) = others.split_first_mut() else { return Err(missing().into()) };
        let Source { place, root, part, .. } = own;
        let Helper { below, copies, in_vain, absent, foretold } = self;
        let mut find = |lost: LostPart| {
            let Some(path) = path_below(root, part, lost.path) else { return false };
            if below.as_ref() != Some(&path) {
                let all = before.iter().enumerate().chain((which + 1..).zip(after.iter()));
                (*copies, *below) = (copies_of(all, (damaged, foretold), &path), Some(path));
            }
            copies.iter_mut().any(|copy| {
                let source = match copy.source < which {
                    true => &mut before[copy.source],
                    false => &mut after[copy.source - which - 1],
                };
                copy.fill(source, lost.offset, lost.bytes).is_ok() && (lost.is_good)(lost.bytes)
            })
        };
        let mut help = Help { find: &mut find, in_vain: in_vain.entry(which).or_default() };
        let read = place.read_helped(path, room, &mut help);
        if !place.is_here() && read.as_ref().is_err_and(is_absent) {
            absent.insert((which, path.to_vec()));
        }
        read
    }
}

/// Whether a place has no such file.
pub(super) fn is_absent(error: &PlaceError) -> bool {
    matches!(error, PlaceError::File(error) if error.reason() == Reason::Missing)
}

/// A file that cannot be read to where it should be.
pub(super) fn unreadable(error: io::Error) -> PlaceError {
    PlaceError::Machine(error.into())
}

/// The path below what is repaired of a file of parity.
fn path_below(root: &[u8], part: &Path, path: &[u8]) -> Option<PathBuf> {
    let path = if root.is_empty() { path } else { below(root, path)? };
    Some(part.join(OsStr::from_bytes(path)))
}

/// The copies of a file, in the order of their sources. Where it does not wait for its repair, nothing but its path says
/// where they are.
fn copies_of<'s, 'p: 's>(
    sources: impl Iterator<Item = (usize, &'s Source<'p>)>,
    (damaged, foretold): (&[Damaged], &Foretold),
    below: &Path,
) -> Vec<Copy> {
    let known = damaged.iter().find(|damaged| damaged.below == below);
    let mut copies = Vec::new();
    let helps = |source: &Source| !source.is_parity || foretold.is_of(below, source);
    for (source, of) in sources.filter(|(_, source)| helps(source)) {
        let candidates =
            known.map_or_else(|| of.at_path(below).into_iter().collect(), |file| of.candidates(file));
        let others = candidates.into_iter().filter(|one| known.is_none_or(|file| one.shown != file.path));
        copies.extend(others.map(|candidate| Copy {
            source,
            candidate,
            failures: 0,
            start: 0,
            bytes: Vec::new(),
        }));
    }
    copies
}

impl Copy {
    /// Fills a buffer with its bytes at an offset. Who asks for all, one after the other, makes it read ahead.
    fn fill(&mut self, source: &mut Source, offset: u64, buffer: &mut [u8]) -> Result<(), PlaceError> {
        let lacking = || unreadable(io::ErrorKind::UnexpectedEof.into());
        let end = offset + buffer.len() as u64;
        let read_to = self.start + self.bytes.len() as u64;
        if offset < self.start || end > read_to {
            if self.failures >= FAILURES {
                return Err(lacking());
            }
            let ahead = if offset == read_to { (2 * self.bytes.len()).min(AHEAD) } else { 0 };
            self.start = offset;
            self.bytes.clear();
            let range = offset..offset + ahead.max(buffer.len()) as u64;
            let content = source.place.read(&self.candidate.path, range);
            // As far as it can be read.
            let read =
                content.and_then(|mut content| content.read_to_end(&mut self.bytes).map_err(unreadable));
            self.failures = match &read {
                Ok(_) => 0,
                // Parity reads all of a set before it fails.
                Err(error) if source.is_parity || is_absent(error) => FAILURES,
                Err(_) => self.failures + 1,
            };
        }
        let at = (offset - self.start) as usize;
        let bytes = self.bytes.get(at..at + buffer.len()).ok_or_else(lacking)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use verisum_digest::Digest;
    use verisum_files::Stop;
    use verisum_files::place::{BlockDigests, Capabilities, Files, Place, Sink};

    use super::super::blocks::{Combination, Giver, Givers};
    use super::*;

    /// A place without files, far away, that counts how often it is asked for one.
    struct Nothing(Arc<AtomicUsize>);

    impl Place for Nothing {
        fn capabilities(&mut self, _: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
            Ok(Capabilities::new("nothing"))
        }

        fn list(&mut self, _: &[u8], _: Sink) -> Result<(), PlaceError> {
            Ok(())
        }

        fn hash(&mut self, _: &[Digest], _: Files, _: Sink) -> Result<(), PlaceError> {
            Ok(())
        }

        fn read(&mut self, path: &[u8], _: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let path = OsStr::from_bytes(path).into();
            Err(FileError::NotRead { path, reason: Reason::Missing }.into())
        }
    }

    #[test]
    fn a_place_is_asked_once_for_a_file_that_it_does_not_have() {
        let (digest, content) = (Digest::find("sha256").unwrap(), [7; 4000]);
        let recorded = digest.hash(&content).unwrap();
        let mut blocks = BlockDigests::new(digest.clone(), 16);
        for block in content.chunks(1000) {
            blocks.push(1000, digest.hash(block).unwrap().as_bytes());
        }
        let asked = Arc::new(AtomicUsize::new(0));
        let mut sources = [Source::new(Path::new("/there"), Box::new(Nothing(asked.clone())))];
        let mut helper = Helper::default();
        for _ in 0..3 {
            let candidate = Candidate { path: b"/there/file".to_vec(), shown: "/there/file".into() };
            let copies = vec![Giver { source: 0, candidate, failures: 0 }];
            let helper = Some(&mut helper);
            let bad_copies = &mut BTreeSet::new();
            let mut givers = Givers { sources: &mut sources, copies, helper, damaged: &[], bad_copies };
            let stop = Stop::default();
            let combination = Combination::of(&blocks, &digest, &recorded, &stop);
            assert!(combination.fill(&mut givers, &mut |_| Ok(())).is_err());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
