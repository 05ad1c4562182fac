//! Repair in place: writes lost parts into the bad file itself.
//!
//! No journal is needed: only parts that are not as recorded are written, and until they are, the parity gives them
//! again. But a write moves the time of modification, by which a file counts as written to; so a note of what is
//! written goes to the directory of the parity first, and is removed when the file has its time again.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{Advice, Mode, OFlags};
use verisum_files::{Directory, KeptFile, Kind, Stat, Timestamp, write_over};

use crate::ParityError;
use crate::digest::Hasher;
use crate::draft::{Keep, folder_of, keep_copy, name_of, require_no_writer};
use crate::folder::ParityFolder;
use crate::head::{BlockPart, Piece, SetHead};
use crate::names::hex;
use crate::scan::{add, is_absent};
use crate::solve::Solved;
use crate::tree::{Tree, time};
use crate::verdict::{FileVerdict, Mended};

/// What a note begins with.
const MAGIC: &str = "verisum parity in place 1";

/// What a repair in place writes, or was killed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The path from the root of the tree.
    pub(crate) path: Box<[u8]>,
    /// The time of modification that it has to get again.
    modified: Timestamp,
    /// The bytes that were about to be written, ascending.
    ranges: Vec<Range<u64>>,
    /// Whether some of them were found not to be as recorded.
    pub(crate) has_lost: bool,
    /// What is to be done about it where the file is not wanted.
    pub(crate) end: NoteEnd,
}

/// How a note of an earlier run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoteEnd {
    /// All of it was written: the file is as recorded with its time, or somebody else wrote to it since.
    Remove,
    /// All of it was written but its time.
    SetTime,
    /// Somebody else wrote to the file, before all of it was written.
    Keep,
}

impl Note {
    /// Whether all that is bad was about to be written: then nobody else wrote to the file.
    pub(crate) fn explains(&self, bad: &[Range<u64>]) -> bool {
        bad.iter().all(|bad| self.ranges.iter().any(|range| range.start <= bad.start && bad.end <= range.end))
    }

    /// Whether any of what is bad was about to be written.
    pub(crate) fn concerns(&self, bad: &[Range<u64>]) -> bool {
        bad.iter().any(|bad| self.ranges.iter().any(|range| range.start < bad.end && bad.start < range.end))
    }

    /// What the repair that was killed had written of the file.
    pub(crate) fn finished(&self) -> FileVerdict {
        let ranges = self.ranges.clone();
        FileVerdict::Finished { bytes: ranges.iter().map(|range| range.end - range.start).sum(), ranges }
    }

    /// Gives the file its time again, and removes the note.
    pub(crate) fn finish(&self, tree: &Tree, parity_folder: &ParityFolder) -> Result<(), ParityError> {
        let (_, file) = tree.file(&self.path)?;
        let set = self.modified.set(&file).map_err(Into::into).and_then(|()| file.sync_all());
        set.map_err(|error| failed(tree, &self.path, "set its time")(error))?;
        parity_folder.remove_note(&self.path)
    }

    /// As it is stored: lines of words.
    pub(crate) fn encode(&self) -> String {
        let path = hex(&self.path);
        let Timestamp { seconds, nanoseconds } = self.modified;
        let mut text = format!("{MAGIC}\npath {path}\nmodified {seconds} {nanoseconds}\n");
        for range in &self.ranges {
            text += &format!("range {} {}\n", range.start, range.end);
        }
        text + "end\n"
    }

    /// Reads a note; none if it is not whole.
    pub(crate) fn decode(text: &[u8]) -> Option<Note> {
        let text = str::from_utf8(text).ok()?.strip_suffix("end\n")?;
        let mut lines = text.lines();
        (lines.next()? == MAGIC).then_some(())?;
        let path = lines.next()?.strip_prefix("path ")?;
        let digits: Option<Vec<u8>> =
            path.bytes().map(|digit| Some(char::from(digit).to_digit(16)? as u8)).collect();
        let path: Box<[u8]> =
            digits?.chunks(2).map(|pair| Some(pair.first()? << 4 | pair.get(1)?)).collect::<Option<_>>()?;
        let (seconds, nanoseconds) = lines.next()?.strip_prefix("modified ")?.split_once(' ')?;
        let modified = Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? };
        let mut ranges = Vec::new();
        for line in lines {
            let (start, end) = line.strip_prefix("range ")?.split_once(' ')?;
            ranges.push(start.parse().ok()?..end.parse().ok()?);
        }
        let is_sound = crate::list::is_plain(&path) && modified.nanoseconds < 1_000_000_000;
        is_sound.then_some(Note { path, modified, ranges, has_lost: false, end: NoteEnd::Remove })
    }
}

/// A file that is mended in place.
pub(crate) struct InPlace {
    folder: Arc<Directory>,
    /// Open to read.
    file: File,
    note: Note,
    /// What was written.
    written: Vec<Range<u64>>,
    /// What the system said of the file when it was written to last.
    state: Stat,
    /// The copy of it, until something is written.
    kept: Option<KeptFile>,
    /// How many bytes of that could not be read.
    unread: u64,
}

impl InPlace {
    /// Opens a file in which this is `bad` to write to it, and keeps a copy of it if that is wanted. None if
    /// it is missing or is not as long as it was. One with another time than recorded was written to since it was looked
    /// at, unless it `may_differ`.
    pub(crate) fn begin(
        tree: &Tree,
        piece: &Piece,
        (bad, may_differ): (Vec<Range<u64>>, bool),
        keep: Keep,
    ) -> Result<Option<InPlace>, ParityError> {
        let path = tree.path_of(&piece.path);
        let old = match tree.file(&piece.path) {
            Ok((_, file)) => file,
            Err(verisum_files::FileError::Io { ref source, .. }) if is_absent(source) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat_of = |file: &File| Stat::of(file).map_err(|errno| ParityError::io(&path, "stat", errno));
        let stat = stat_of(&old)?;
        if stat.size != piece.size {
            return Ok(None);
        }
        if !may_differ && time(stat.modified) != piece.modified {
            return Err(ParityError::damaged(&path, "it changed while it was repaired"));
        }
        require_no_writer(&old, &path)?;
        let kept = keep.map(|(keep, stop)| keep_copy(&old, (keep, &piece.path), stop)).transpose()?;
        let (folder, file) = (folder_of(tree, piece)?, old);
        let modified = match time(stat.modified) == piece.modified {
            true => stat.modified,
            false => piece.modified,
        };
        let path = piece.path.clone();
        let note = Note { path, modified, ranges: bad, has_lost: false, end: NoteEnd::Remove };
        let opened = InPlace { folder, file, note, written: Vec::new(), state: stat, kept, unread: 0 };
        // Fails at once if it cannot be written.
        opened.to_write(tree)?;
        Ok(Some(opened))
    }

    /// Opens the file to write to it. While nobody does, somebody else who does can be seen.
    fn to_write(&self, tree: &Tree) -> Result<File, ParityError> {
        let path = tree.path_of(&self.note.path);
        require_no_writer(&self.file, &path)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, name_of(&self.note.path), flags, Mode::empty());
        let file = File::from(file.map_err(|errno| ParityError::io(&path, "open to write", errno))?);
        match Stat::of(&file).is_ok_and(|now| now.kind == Kind::File && now.is_same_state(&self.state)) {
            true => Ok(file),
            false => Err(ParityError::damaged(&path, "it changed while it was repaired")),
        }
    }

    /// Writes the parts that a set gives and that are not as recorded, and reads them back past the cache.
    pub(crate) fn write(
        &mut self,
        (tree, parity_folder): (&Tree, &ParityFolder),
        head: &SetHead,
        solved: &Solved,
    ) -> Result<(), ParityError> {
        let mut hasher = Hasher::new()?;
        let mut room = Vec::new();
        let mut bad: Vec<BlockPart> = Vec::new();
        for (number, parts) in head.parts_of_pieces() {
            if head.pieces[number].path != self.note.path {
                continue;
            }
            for part in parts.into_iter().filter(|part| solved.contains_key(&part.block)) {
                if !self.is_good(head, &part, &mut hasher, &mut room)? {
                    bad.push(part);
                }
            }
        }
        for part in &bad {
            let range = part.offset..part.offset + part.range.len() as u64;
            if !self.note.explains(std::slice::from_ref(&range)) {
                self.note.ranges.push(range.clone());
            }
            add(&mut self.written, range);
        }
        self.require_unchanged(tree)?;
        parity_folder.write_note(&self.note)?;
        let written = failed(tree, &self.note.path, "write");
        let file = self.to_write(tree)?;
        self.unread += self.kept.take().map_or(0, KeptFile::stay);
        for part in &bad {
            if let Some(block) = solved.get(&part.block) {
                write_over(&file, &block[part.range.clone()], part.offset).map_err(&written)?;
            }
        }
        // At once: with another time a scrub would take what is still bad in the file for somebody's change. And before
        // it is brought to the disk, which takes long: what somebody writes meanwhile is to be seen.
        self.note.modified.set(&file).map_err(|errno| written(errno.into()))?;
        self.state = Stat::of(&file).map_err(|errno| written(errno.into()))?;
        file.sync_all().map_err(&written)?;
        drop(file);
        self.require_unchanged(tree)?;
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        for part in &bad {
            if !self.is_good(head, part, &mut hasher, &mut room)? {
                let what = "what was written does not read back as recorded";
                return Err(ParityError::damaged(&tree.path_of(&self.note.path), what));
            }
        }
        Ok(())
    }

    fn is_good(
        &self,
        head: &SetHead,
        part: &BlockPart,
        hasher: &mut Hasher,
        room: &mut Vec<u8>,
    ) -> Result<bool, ParityError> {
        room.resize(part.range.len(), 0);
        let is_read = loop {
            match self.file.read_exact_at(room, part.offset) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.is_ok(),
            }
        };
        Ok(is_read && hasher.part(room)? == head.parts[part.index])
    }

    /// What the system said of the file when it was written to last.
    pub(crate) fn state(&self) -> Stat {
        self.state
    }

    /// Takes note of what was written to the same file under another name, unless somebody else wrote to it before.
    pub(crate) fn follow(&mut self, (before, after): (&Stat, Stat)) {
        if (self.state.device, self.state.inode) == (after.device, after.inode)
            && before.is_same_state(&self.state)
        {
            self.state = after;
        }
    }

    /// Fails if somebody else wrote to the file meanwhile: then its time must not come back.
    fn require_unchanged(&self, tree: &Tree) -> Result<(), ParityError> {
        match Stat::of(&self.file).is_ok_and(|now| now.is_same_state(&self.state)) {
            true => Ok(()),
            false => {
                Err(ParityError::damaged(&tree.path_of(&self.note.path), "it changed while it was repaired"))
            }
        }
    }

    /// Ends what was written, whose time each write has set.
    pub(crate) fn finish(self, tree: &Tree, parity_folder: &ParityFolder) -> Result<Mended, ParityError> {
        self.require_unchanged(tree)?;
        let InPlace { note, written: mut ranges, unread, .. } = self;
        parity_folder.remove_note(&note.path)?;
        ranges.sort_unstable_by_key(|range| range.start);
        Ok(Mended { ranges, unread })
    }
}

fn failed(tree: &Tree, path: &[u8], operation: &'static str) -> impl Fn(std::io::Error) -> ParityError {
    let path = tree.path_of(path);
    move |error| ParityError::io(&path, operation, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_or_are_none() {
        let modified = Timestamp { seconds: -5, nanoseconds: 7 };
        let ranges = vec![0..4096, 8192..8193];
        let path = b"a/\xff\n".as_slice().into();
        let note = Note { path, modified, ranges, has_lost: false, end: NoteEnd::Remove };
        let text = note.encode();
        assert_eq!(Note::decode(text.as_bytes()), Some(note.clone()));
        for end in 0..text.len() {
            assert_eq!(Note::decode(&text.as_bytes()[..end]), None);
        }
        assert_eq!(
            Note::decode(Note { path: b"../a".as_slice().into(), ..note.clone() }.encode().as_bytes()),
            None
        );
        assert!(note.explains(&[0..10, 8192..8193]) && note.explains(&[]));
        let explains = |range: Range<u64>| note.explains(std::slice::from_ref(&range));
        assert!(!explains(4000..4097) && !explains(5000..5001));
        let concerns = |range: Range<u64>| note.concerns(std::slice::from_ref(&range));
        assert!(concerns(4000..4097) && concerns(0..9000) && !concerns(4096..8192) && !concerns(8193..9000));
    }
}
