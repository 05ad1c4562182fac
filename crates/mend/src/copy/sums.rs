//! The list of the digests of copies. It grows with every copy, so that a kill loses no line. If a file is
//! copied again, the last line with its name counts.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use verisum_digest::{ALGORITHMS, Digest, Output, cid_from_text};
use verisum_files::store::manifest::{Item, ListFormat, Writer, tag};
use verisum_files::{Directory, Kind, ReplaceError, Replacement, Stat};

use super::{CopyError, CopyEvent, CopyOutcome};

/// A list to which lines are added.
pub struct SumsList {
    path: PathBuf,
    file: File,
    /// One for each digest that occurred.
    writers: HashMap<String, Writer>,
    line: Vec<u8>,
    names: Names,
    /// Whether it had lines before.
    had_lines: bool,
    /// Files that were at TO already and have no line.
    unlisted: u64,
}

/// The names that a list has, by two hashes each.
#[derive(Default)]
struct Names {
    hashers: (RandomState, RandomState),
    /// Of each name its last line.
    last: HashMap<(u64, u64), u64>,
}

impl Names {
    fn key(&self, name: &[u8]) -> (u64, u64) {
        (self.hashers.0.hash_one(name), self.hashers.1.hash_one(name))
    }
}

impl SumsList {
    /// Opens a list, or makes it. A line that a kill cut off is removed.
    ///
    /// # Errors
    /// It cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<SumsList, CopyError> {
        let failed = |operation| move |error: std::io::Error| CopyError::target(path, operation, error);
        let no_name = || failed("create")(rustix::io::Errno::ISDIR.into());
        let name = path.file_name().ok_or_else(no_name)?;
        let folder = Directory::trusted(path.parent().unwrap_or(Path::new("")))?;
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let file = openat(&*folder, name, flags, Mode::from_raw_mode(0o666));
        let file = File::from(file.map_err(|errno| failed("create")(errno.into()))?);
        let stat = Stat::of(&file).map_err(|errno| failed("create")(errno.into()))?;
        if stat.kind != Kind::File {
            return Err(failed("create")(std::io::Error::other("not a regular file")));
        }
        let mut list = SumsList {
            path: path.to_path_buf(),
            file,
            writers: HashMap::new(),
            line: Vec::new(),
            names: Names::default(),
            had_lines: stat.size > 0,
            unlisted: 0,
        };
        if list.had_lines {
            list.require_list()?;
            list.read_names()?;
        }
        Ok(list)
    }

    /// Fails for a file that is something else.
    fn require_list(&mut self) -> Result<(), CopyError> {
        let mut head = Vec::new();
        self.rewind()?;
        let read = (&self.file).take(1 << 16).read_to_end(&mut head);
        read.map_err(|error| self.failed("read", error))?;
        let first = head.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        match is_cut(first) || is_tagged(first) {
            true => Ok(()),
            false => {
                let error = std::io::Error::other("it is no list of tagged lines, as this one would be");
                Err(self.failed("write", error))
            }
        }
    }

    /// Takes note of the names that have lines.
    fn read_names(&mut self) -> Result<(), CopyError> {
        self.rewind()?;
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut number, mut whole) = (Vec::new(), 0, 0);
        loop {
            line.clear();
            let count = reader.read_until(b'\n', &mut line).map_err(|error| self.failed("read", error))?;
            match line.ends_with(b"\n") {
                true => {}
                false if line.is_empty() || is_cut(&line) => break,
                false => {
                    let why = "its last line has no end, and is none that a kill cut off";
                    return Err(self.failed("write", std::io::Error::other(why)));
                }
            }
            whole += count as u64;
            if let Some(name) = name_of(&line) {
                let key = self.names.key(name);
                self.names.last.insert(key, number);
            }
            number += 1;
        }
        self.file.set_len(whole).map_err(|error| self.failed("write", error))
    }

    fn rewind(&self) -> Result<(), CopyError> {
        (&self.file).seek(SeekFrom::Start(0)).map(drop).map_err(|error| self.failed("read", error))
    }

    fn failed(&self, operation: &'static str, error: std::io::Error) -> CopyError {
        CopyError::target(&self.path, operation, error)
    }

    fn replaced(&self, error: ReplaceError) -> CopyError {
        CopyError::target(&self.path, "replace", std::io::Error::other(error.to_string()))
    }

    /// Adds the line of a copy, unless it is known to be bad: a list would call it good.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn add(&mut self, event: &CopyEvent) -> Result<(), CopyError> {
        if matches!(event.outcome, CopyOutcome::CopiedBad(_)) {
            return Ok(());
        }
        let Some((digest, output)) = event.digests.first() else {
            if matches!(event.outcome, CopyOutcome::Current | CopyOutcome::Touched | CopyOutcome::Linked)
                && event.modified.is_some()
            {
                self.count_unlisted(event.name)?;
            }
            return Ok(());
        };
        let writer = match self.writers.get_mut(digest.name()) {
            Some(writer) => writer,
            None => {
                let writer = Writer::new(ListFormat::Bsd, std::slice::from_ref(digest));
                let writer = writer.map_err(|error| failed_line(&self.path, &error))?;
                self.writers.entry(digest.name().to_string()).or_insert(writer)
            }
        };
        self.line.clear();
        let item = Item {
            name: writer.file_name(event.name.as_os_str().as_bytes()),
            size: event.size,
            modified: event.modified,
            mode: event.mode,
            digests: &[*output],
        };
        writer.item(&mut self.line, &item).map_err(|error| failed_line(&self.path, &error))?;
        // One write a line: a kill cuts off the last one at most.
        (&self.file).write_all(&self.line).map_err(|error| self.failed("write", error))
    }

    fn count_unlisted(&mut self, name: &Path) -> Result<(), CopyError> {
        let digest = Digest::find("sha256")
            .map_err(|source| CopyError::Digest { path: name.to_path_buf(), source })?;
        let failed = |error| failed_line(&self.path, &error);
        let mut writer = Writer::new(ListFormat::Bsd, &[digest]).map_err(failed)?;
        let digests = &[Output::zeroed(32)];
        let name = writer.file_name(name.as_os_str().as_bytes());
        let item = Item { name, size: 0, modified: None, mode: None, digests };
        let mut line = Vec::new();
        writer.item(&mut line, &item).map_err(|error| failed_line(&self.path, &error))?;
        let is_listed =
            name_of(&line).is_some_and(|name| self.names.last.contains_key(&self.names.key(name)));
        self.unlisted += u64::from(!is_listed);
        Ok(())
    }

    /// Leaves of each name the last line, and brings the list to the disk. Returns how many files at TO have
    /// none.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn end(mut self) -> Result<u64, CopyError> {
        if self.had_lines {
            self.names.last.clear();
            self.read_names()?;
            self.keep_last()?;
        }
        self.file.sync_all().map_err(|error| self.failed("sync", error))?;
        Ok(self.unlisted)
    }

    fn keep_last(&self) -> Result<(), CopyError> {
        self.rewind()?;
        let replacement = Replacement::new(&self.path).map_err(|error| self.replaced(error))?;
        let mut to = BufWriter::new(replacement.file());
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let count = reader.read_until(b'\n', &mut line).map_err(|error| self.failed("read", error))?;
            if count == 0 {
                break;
            }
            let last = name_of(&line).and_then(|name| self.names.last.get(&self.names.key(name)));
            if last.is_none_or(|last| *last == number) {
                to.write_all(&line).map_err(|error| self.failed("write", error))?;
            }
            number += 1;
        }
        to.flush().map_err(|error| self.failed("write", error))?;
        drop(to);
        replacement.place().map_err(|error| self.replaced(error))
    }
}

fn failed_line(path: &Path, error: &impl std::fmt::Display) -> CopyError {
    CopyError::target(path, "write", std::io::Error::other(error.to_string()))
}

/// The name in a line, as it is written there.
fn name_of(line: &[u8]) -> Option<&[u8]> {
    let from = line.windows(2).position(|pair| pair == b" (")? + 2;
    let end = line.windows(4).rposition(|four| four == b") = ")?;
    line.get(from..end)
}

/// Whether a line is `DIGEST (NAME) = HEX`, or has another text of a digest.
fn is_tagged(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\\").unwrap_or(line);
    let Some(name) = name_of(line) else { return false };
    let digest = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let hex = &line[digest.len() + name.len() + 6..];
    let hex = hex.strip_suffix(b"\n").unwrap_or(hex);
    // A digest of parts has their number behind it.
    let of_parts = hex.iter().position(|byte| *byte == b'-').map(|end| hex.split_at(end));
    let (hex, parts) = of_parts.unwrap_or((hex, b""));
    let is_hex = !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit);
    !digest.is_empty()
        && (is_hex || cid_from_text(hex).is_some())
        && parts.iter().skip(1).all(u8::is_ascii_digit)
}

/// Whether a line without its end begins as those of a list do: only such a one may a kill have cut off.
fn is_cut(line: &[u8]) -> bool {
    let start = line.strip_prefix(b"\\").unwrap_or(line);
    if line.ends_with(b"\n") || start.is_empty() || line.contains(&0) {
        return false;
    }
    match start.windows(2).position(|pair| pair == b" (") {
        Some(end) => str::from_utf8(&start[..end]).is_ok_and(is_tag),
        None => {
            let start = start.strip_suffix(b" ").unwrap_or(start);
            ALGORITHMS.iter().any(|algorithm| tag(algorithm.id).as_bytes().starts_with(start))
        }
    }
}

/// Whether lines of some digest begin with this word.
fn is_tag(word: &str) -> bool {
    let is_of_table = ALGORITHMS.iter().any(|algorithm| tag(algorithm.id) == word);
    let found = || Digest::find(word).or_else(|_| Digest::find(&word.to_ascii_lowercase()));
    is_of_table || found().is_ok_and(|digest| tag(digest.name()) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_lines() {
        assert_eq!(name_of(b"SHA256 (a (b) = c) = 00\n"), Some(&b"a (b) = c"[..]));
        assert_eq!(name_of(b"\\MD5 (a\\nb) = 00\n"), Some(&b"a\\nb"[..]));
        assert_eq!(name_of(b"no line\n"), None);
        assert!(is_tagged(b"SHA256 (a (b) = c) = 00ff\n") && is_tagged(b"\\MD5 (a\\nb) = 00\n"));
        let cid = b"IPFS (a) = bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku\n";
        assert!(is_tagged(b"s3-etag:8M (a) = 00ff-3\n") && is_tagged(cid));
        assert!(!is_tagged(b"s3-etag:8M (a) = 00ff-x\n") && !is_tagged(b"text (of) = bafk\n"));
        assert!(!is_tagged(b"text (of) = somebody\n") && !is_tagged(b"00ff  name\n"));
    }

    #[test]
    fn only_what_begins_as_a_line_may_be_cut_off() {
        for digest in ["sha256", "blake3", "sha512-256", "xxh3-128", "blake2b-256"] {
            let line = format!("\\{} (a\\nb) = 00ff", tag(digest));
            for end in tag(digest).len() + 3..line.len() {
                assert!(
                    is_cut(&line.as_bytes()[..end]) && is_cut(&line.as_bytes()[1..end]),
                    "{}",
                    &line[..end]
                );
            }
        }
        assert!(is_cut(b"SHA") && is_cut(b"SHA256") && is_cut(b"SHA256 "));
        for other in
            ["", "\\", "my only password", "password", "sha256 (x", "Note (x) = 1", "SHA256 (a) = 00\n"]
        {
            assert!(!is_cut(other.as_bytes()), "{other}");
        }
        assert!(!is_cut(b"SHA256 (a\0"));
    }
}
