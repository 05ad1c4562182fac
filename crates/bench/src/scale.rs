//! A place with made-up files: a formula gives any number of names, sizes and digests.
//!
//! Everything that handles records can be run for real over it, and only reading is left out: a tree of 100 million
//! files and a petabyte takes no disk. Each file is told again as it was told before, but for those that rot.

use verisum_digest::{Digest, Output};
use verisum_files::Timestamp;
use verisum_files::place::{
    Capabilities, FileAnswer, FileRequest, FileState, Files, Modified, Place, PlaceError, PlaceEvent, Reason,
    Sink,
};

/// Files of a directory.
const IN_DIRECTORY: u64 = 1000;

/// Directories of a directory.
const IN_PROJECT: u64 = 100;

/// One file in so many has the content of another one.
const COPIES: u64 = 16;

/// When the first file was written, in seconds since 1970, and the span of the times of all.
const BEGIN: i64 = 1_577_836_800;
const SPAN: u64 = 5 * 365 * 86_400;

const KINDS: [&str; 5] = ["raw", "jpg", "tiff", "h5", "txt"];

/// A tree of made-up files, whose root has any name.
#[derive(Clone, Debug)]
pub struct SyntheticPlace {
    /// How many files.
    pub files: u64,
    /// One file in so many rots from one round to the next; 0 for none.
    pub rot: u64,
    /// How many rounds there were.
    pub round: u64,
}

/// A made-up file.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticFile {
    /// Its path below the root.
    pub path: String,
    /// Length in bytes.
    pub size: u64,
    /// When it was last modified, in seconds since 1970.
    pub modified: i64,
    /// A digest of 32 bytes.
    pub digest: Output,
    /// A number that is as good as random, and always the same for this file.
    pub drawn: u64,
}

impl SyntheticPlace {
    /// A place of so many files, of which none rots.
    pub fn new(files: u64) -> SyntheticPlace {
        SyntheticPlace { files, rot: 0, round: 0 }
    }

    /// A file by its number. Numbers are in the order of paths, for up to 10 billion files.
    pub fn file(&self, number: u64) -> SyntheticFile {
        let (folder, project) = (number / IN_DIRECTORY % IN_PROJECT, number / IN_DIRECTORY / IN_PROJECT);
        let content = self.content(number);
        let drawn = mix(content);
        let kind = KINDS[(drawn % KINDS.len() as u64) as usize];
        // Sizes from 32 KiB to 73 MiB, each power of two as often: 10 MB on average.
        let size = (32_768 + mix(drawn) % 41_938) << (drawn % 11);
        let rot = self.rotten(number);
        let mut digest = [0; 32];
        for (place, eight) in (1..).zip(digest.chunks_exact_mut(8)) {
            eight.copy_from_slice(&mix(content ^ rot << 40 ^ place << 56).to_le_bytes());
        }
        SyntheticFile {
            path: format!("project-{project:05}/set-{folder:02}/image-{number:010}.{kind}"),
            size,
            modified: BEGIN + (mix(number ^ 1 << 63) % SPAN) as i64,
            digest: Output::from_bytes(&digest).unwrap_or(Output::zeroed(32)),
            drawn: mix(number ^ 1 << 61),
        }
    }

    /// How many files have rotted so far.
    pub fn count_rotten(&self) -> u64 {
        (0..self.files).filter(|number| self.rotten(*number) > 0).count() as u64
    }

    /// The number that a file's content is made of: its own, or that of an earlier file.
    fn content(&self, number: u64) -> u64 {
        let drawn = mix(number ^ 1 << 62);
        if number > 0 && drawn.is_multiple_of(COPIES) { mix(drawn) % number } else { number }
    }

    /// In which round a file has rotted; 0 for none.
    fn rotten(&self, number: u64) -> u64 {
        let has = |round: &u64| mix(number ^ round << 44).is_multiple_of(self.rot);
        if self.rot == 0 { 0 } else { (1..=self.round).find(has).unwrap_or(0) }
    }

    fn answer(&self, root: &[u8], number: u64, is_read: bool) -> FileAnswer {
        let file = self.file(number);
        let time = Timestamp::of_seconds(file.modified);
        let seen = FileState {
            size: Some(file.size),
            modified: Some(Modified { time, is_exact: true }),
            ..FileState::default()
        };
        let path = [root, b"/", file.path.as_bytes()].concat();
        let request = FileRequest { path, seen, ..FileRequest::default() };
        FileAnswer::read(request, is_read.then_some(file.digest), false)
    }

    /// The number of a file of this path.
    fn find(&self, path: &[u8]) -> Option<u64> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let digits = name.strip_prefix(b"image-")?.split(|byte| *byte == b'.').next()?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let is_there = number < self.files && path.ends_with(self.file(number).path.as_bytes());
        is_there.then_some(number)
    }

    /// The answer to a request for one file.
    fn named(&self, request: FileRequest) -> FileAnswer {
        let Some(number) = self.find(&request.path) else {
            return FileAnswer::failed(request, Reason::Missing);
        };
        let root = request.path.len() - self.file(number).path.len() - 1;
        let told = self.answer(&request.path[..root], number, true);
        FileAnswer { request: FileRequest { seen: told.request.seen, ..request }, ..told }
    }

    fn tell_tree(&self, root: &[u8], is_read: bool, sink: Sink) -> bool {
        (0..self.files).all(|number| sink(PlaceEvent::Answer(self.answer(root, number, is_read))))
    }
}

impl Place for SyntheticPlace {
    fn capabilities(&mut self, digests: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
        if let Some(digest) = digests.iter().find(|digest| digest.len() != 32) {
            return Err(PlaceError::Digest(
                format!("{}: made-up digests have 32 bytes", digest.name()).into(),
            ));
        }
        let mut capabilities = Capabilities::new("formula");
        (capabilities.tells_states, capabilities.in_order) = (true, true);
        Ok(capabilities)
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        self.tell_tree(root, false, sink);
        Ok(())
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        self.capabilities(digests, sink)?;
        match files {
            Files::Trees(roots) => {
                for root in roots {
                    if !self.tell_tree(&root, true, sink) {
                        break;
                    }
                }
            }
            Files::Named(files) => {
                for request in files {
                    if !sink(PlaceEvent::Answer(self.named(request))) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The finalizer of SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn files_come_in_order_and_are_told_alike() {
        let place = SyntheticPlace::new(200_000);
        let mut last = String::new();
        let (mut bytes, mut digests) = (0, HashSet::new());
        for number in 0..place.files {
            let file = place.file(number);
            assert!(file.path > last);
            bytes += file.size;
            digests.insert(file.digest.as_bytes().to_vec());
            assert_eq!(place.find(format!("/x/{}", file.path).as_bytes()), Some(number));
            last = file.path;
        }
        // A petabyte for 100 million files, and about one copy in 16.
        assert!((9_900_000..10_100_000).contains(&(bytes / place.files)), "{}", bytes / place.files);
        let share = digests.len() as f64 / place.files as f64;
        assert!((0.93..0.95).contains(&share), "{share}");
        assert_eq!(place.find(b"/x/image-0000000001.raw"), None);
    }

    #[test]
    fn rot_stays_and_comes_at_its_rate() {
        let mut place = SyntheticPlace { rot: 1000, ..SyntheticPlace::new(1_000_000) };
        let fresh = SyntheticPlace::new(place.files);
        assert_eq!(place.count_rotten(), 0);
        place.round = 1;
        let first: Vec<u64> =
            (0..place.files).filter(|number| place.file(*number) != fresh.file(*number)).collect();
        assert_eq!(first.len() as u64, place.count_rotten());
        assert!((900..1100).contains(&first.len()), "{}", first.len());
        place.round = 2;
        assert!(first.iter().all(|number| place.rotten(*number) == 1));
        assert!((1800..2200).contains(&place.count_rotten()));
    }
}
