//! Writes files on a host under temporary names beside their own, and renames them later.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use verisum_files::place::{Durability, NewFile, PlaceError, PlacedFile, Replaces, StagedFile};
use verisum_files::{FileError, Operation, text};

use crate::link::{Link, Running, Script};

const WRITE: &str = include_str!("script/write.sh");
const SWEEP: &str = include_str!("script/sweep.sh");

/// How passing names begin; the number of a process of the host follows.
const PASSING: &str = ".verisum-copy-unfinished-";

/// The permissions that a shell can give to new files.
const PLAIN: u32 = 0o666;

/// What fails for all files.
const ROOT: &str = "create TO";

/// The bytes of one write.
const PIECE: usize = 256 << 10;

/// Files that a host has under passing names. Dropping it removes them.
pub(crate) struct Staged(Running);

impl Drop for Staged {
    /// Lets the host remove them: it does so at the end of what it is sent.
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Sends files. The directories of `known` are there, and those of files that arrived are added.
pub(crate) fn stage(
    link: &Link,
    root: &[u8],
    known: &mut BTreeSet<Vec<u8>>,
    files: &mut [NewFile],
    durability: Durability,
) -> Result<(Staged, Vec<StagedFile>), PlaceError> {
    let how = match durability {
        Durability::System => "none",
        Durability::Disk => "written",
        Durability::Uncached => "reread",
    };
    let script = Script::new(WRITE).text(how.as_bytes()).text(root).text(files.len().to_string().as_bytes());
    let started = link.start(false, &script).map_err(|error| PlaceError::Machine(error.into()))?;
    let mut staged = Staged(started);
    let running = &mut staged.0;
    let mut broken = Vec::new();
    if let Some(stdin) = &mut running.stdin {
        let mut to = BufWriter::with_capacity(PIECE, stdin);
        for file in &mut *files {
            match send(&mut to, root, known, file) {
                Ok(error) => broken.push(error),
                // The host ended, and says why.
                Err(_) => break,
            }
        }
        let _ = to.flush();
    }
    let pid = match record(running)? {
        HostLine::Pid(pid) => pid,
        other => return Err(other.odd()),
    };
    let mut found: Vec<StagedFile> = Vec::new();
    let mut errors = broken.into_iter();
    for (number, file) in files.iter().enumerate() {
        let error = errors.next().flatten();
        found.push(match (record(running)?, error) {
            (HostLine::Left, Some(error)) => {
                let path = OsStr::from_bytes(file.path).into();
                Err(FileError::Io { path, operation: Operation::Read, offset: None, source: error }.into())
            }
            (HostLine::Staged, None) => {
                known.extend(folders(root, file.path).map(<[u8]>::to_vec));
                Ok(Some([&passing(file.path)[..], format!("{pid}-{}", number + 1).as_bytes()].concat()))
            }
            (HostLine::Failed(error @ PlaceError::NotWritten { operation: "write", .. }), None) => {
                // It ended, and removed all.
                let mut ended: Vec<StagedFile> = files.iter().map(|_| Ok(None)).collect();
                for (place, earlier) in ended.iter_mut().zip(found).filter(|(_, earlier)| earlier.is_err()) {
                    *place = earlier;
                }
                ended[number] = Err(error);
                return Ok((staged, ended));
            }
            (HostLine::Failed(error @ PlaceError::NotWritten { operation: ROOT, .. }), _) => {
                return Err(error);
            }
            (HostLine::Failed(error), _) => Err(error),
            (other, _) => return Err(other.odd()),
        });
    }
    match record(running)? {
        HostLine::Ready => Ok((staged, found)),
        HostLine::Failed(error) => Err(error),
        other => Err(other.odd()),
    }
}

impl Staged {
    /// Gives files their names, with their times and modes; the others are removed.
    pub(crate) fn place(mut self, files: &[PlacedFile]) -> Result<Vec<Result<(), PlaceError>>, PlaceError> {
        let mut script = Script::texts().text(files.len().to_string().as_bytes());
        for file in files {
            let new = if file.replaces == Replaces::Nothing { "new" } else { "" };
            let mode = match file.replaces {
                Replaces::Likeness => "same".to_string(),
                _ if is_plain(file.mode) => new.to_string(),
                _ => format!("{new}{:o}", file.mode),
            };
            let time = file.modified.to_string();
            script = script.text(file.passing).text(file.path).text(time.as_bytes()).text(mode.as_bytes());
        }
        self.0.give(&script);
        let mut found = Vec::new();
        for _ in files {
            found.push(match record(&mut self.0)? {
                HostLine::Placed => Ok(()),
                HostLine::Failed(error) => Err(error),
                other => return Err(other.odd()),
            });
        }
        // It brings the names to the disk, and removes what was not placed.
        let _ = self.0.record(0);
        Ok(found)
    }
}

/// Removes files with passing names that nobody makes any more. Any other has no number in its name, and stays.
pub(crate) fn sweep(link: &Link, paths: &[Vec<u8>]) -> Result<(), PlaceError> {
    let script = Script::new(SWEEP).text(paths.len().to_string().as_bytes());
    let script = paths.iter().fold(script, |script, path| script.text(path));
    let mut running = link.start(false, &script).map_err(|error| PlaceError::Machine(error.into()))?;
    running.record(0).map(drop).map_err(|error| PlaceError::Machine(error.into()))
}

/// Sends one file, and as many bytes as were promised. Returns why they are not the file's.
fn send(
    to: &mut impl Write,
    root: &[u8],
    known: &BTreeSet<Vec<u8>>,
    file: &mut NewFile,
) -> io::Result<Option<io::Error>> {
    let unknown: Vec<&[u8]> = folders(root, file.path).filter(|folder| !known.contains(*folder)).collect();
    let mut script = Script::texts().text(file.path).text(&passing(file.path));
    let bits = if is_plain(file.mode) { !file.mode & PLAIN } else { 0o077 };
    script = script.text(file.size.to_string().as_bytes()).text(format!("{bits:o}").as_bytes());
    script = script.text(unknown.len().to_string().as_bytes());
    for folder in unknown {
        script = script.text(folder);
    }
    to.write_all(script.bytes())?;
    let mut buffer = vec![0; PIECE.min(file.size as usize + 1)];
    let (mut left, mut error) = (file.size, None);
    loop {
        let read = match error {
            None => file.content.read(&mut buffer),
            // What was promised has to come.
            Some(_) => Ok(0),
        };
        match read {
            Ok(0) if left == 0 => break,
            Ok(0) => {
                error = error.or_else(|| Some(io::Error::other("it became shorter")));
                let count = left.min(PIECE as u64);
                buffer.clear();
                buffer.resize(count as usize, 0);
                to.write_all(&buffer)?;
                left -= count;
            }
            Ok(count) if count as u64 > left => error = Some(io::Error::other("it became longer")),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                left -= count as u64;
            }
            Err(failed) if failed.kind() == io::ErrorKind::Interrupted => {}
            Err(failed) => error = Some(failed),
        }
    }
    to.write_all(if error.is_none() { b"1\n" } else { b"0\n" })?;
    Ok(error)
}

/// Whether a file can have these permissions from its beginning: a shell makes it, and has to write to it.
fn is_plain(mode: u32) -> bool {
    mode & !PLAIN == 0 && mode & 0o600 == 0o600
}

/// The directories that a file is in, from the root down; none of a file that is the root.
fn folders<'p>(root: &[u8], path: &'p [u8]) -> impl Iterator<Item = &'p [u8]> {
    let start = if root == b"/" { 0 } else { root.len() };
    let is_below = path.len() > root.len();
    let ends = path.iter().enumerate().filter(move |(at, byte)| **byte == b'/' && *at >= start && is_below);
    ends.map(|(at, _)| if at == 0 { &path[..1] } else { &path[..at] })
}

/// How the passing name of a file begins.
fn passing(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [&path[..end], PASSING.as_bytes()].concat()
}

/// What the host says.
#[derive(Debug)]
enum HostLine {
    Pid(String),
    Staged,
    /// It was not wanted.
    Left,
    Ready,
    Placed,
    Failed(PlaceError),
    #[allow(dead_code)] // It is shown.
    Other(String),
}

impl HostLine {
    fn odd(self) -> PlaceError {
        match self {
            HostLine::Failed(error) => error,
            other => {
                let said = text::printable(&format!("{other:?}"));
                PlaceError::Machine(
                    format!("read its answers: not what a shell says that writes: {said}").into(),
                )
            }
        }
    }
}

fn record(running: &mut Running) -> Result<HostLine, PlaceError> {
    let machine = |error: io::Error| PlaceError::Machine(format!("read its answers: {error}").into());
    let Some(record) = running.record(0).map_err(machine)? else {
        return Err(PlaceError::Machine(running.broken().into()));
    };
    let text = String::from_utf8_lossy(&record).into_owned();
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    Ok(match word {
        "pid" if rest.bytes().all(|byte| byte.is_ascii_digit()) => HostLine::Pid(rest.to_string()),
        "staged" => HostLine::Staged,
        "left" => HostLine::Left,
        "ready" => HostLine::Ready,
        "placed" => HostLine::Placed,
        "failed" => HostLine::Failed(failure(rest)),
        _ => HostLine::Other(text.clone()),
    })
}

/// Why a host does not write a file.
fn failure(said: &str) -> PlaceError {
    /// The causes that callers tell apart, in the words of the C locale.
    const CAUSES: [(&str, Errno); 7] = [
        ("No such file or directory", Errno::NOENT),
        // In the words of dash.
        ("Directory nonexistent", Errno::NOENT),
        ("No space left on device", Errno::NOSPC),
        ("Disk quota exceeded", Errno::DQUOT),
        ("Read-only file system", Errno::ROFS),
        ("Permission denied", Errno::ACCESS),
        ("Input/output error", Errno::IO),
    ];
    let (word, cause) = said.split_once(' ').unwrap_or((said, ""));
    let operation = match word {
        "link" => return PlaceError::InTheWay("a symbolic link"),
        "file" => return PlaceError::InTheWay("a file"),
        "directory" => return PlaceError::InTheWay("a directory"),
        "special" => return PlaceError::InTheWay("a special file"),
        "root" => ROOT,
        "create" => "create",
        "write" => "write",
        "sync" => "sync",
        "time" => "set its time",
        "mode" => "set its mode",
        "owner" => "keep its owner",
        _ => "rename",
    };
    let known = CAUSES.iter().find(|(text, _)| *text == cause);
    let source = known.map_or_else(|| io::Error::other(text::printable(cause)), |(_, errno)| (*errno).into());
    PlaceError::NotWritten { operation, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_of_a_file_begin_at_the_root() {
        let all = |root: &[u8], path: &'static [u8]| folders(root, path).collect::<Vec<_>>();
        assert_eq!(all(b"./a", b"./a/b/c/file"), [&b"./a"[..], b"./a/b", b"./a/b/c"]);
        assert_eq!(all(b"/srv", b"/srv/file"), [b"/srv"]);
        assert_eq!(all(b"/", b"/a/file"), [&b"/"[..], b"/a"]);
        assert_eq!(all(b".", b"./a/file"), [&b"."[..], b"./a"]);
        assert!(all(b"./a/file", b"./a/file").is_empty());
        assert_eq!(passing(b"./a/file"), b"./a/.verisum-copy-unfinished-");
    }

    #[test]
    fn causes_are_errors_of_the_system() {
        let PlaceError::NotWritten { operation, source } = failure("write No space left on device") else {
            panic!()
        };
        assert_eq!((operation, Errno::from_io_error(&source)), ("write", Some(Errno::NOSPC)));
        assert!(matches!(failure("link"), PlaceError::InTheWay("a symbolic link")));
    }
}
