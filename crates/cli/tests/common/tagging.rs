//! Trees that are tagged.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use verisum_testkit::require_python;

use super::{Ended, repository, verisum};

/// A folder with a few files, whose times are in the past.
pub fn tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, content) in [("a", "one\n"), ("b", ""), ("sub/c", "three\n")] {
        write(&folder.path().join(name), content);
    }
    folder
}

/// Writes a file and makes it an hour old.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap();
    set_time(path, SystemTime::now() - Duration::from_secs(3600));
}

pub fn set_time(path: &Path, time: SystemTime) {
    File::options().append(true).open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Runs a verb on a folder, and returns what it printed with the folder's name left out.
pub fn run(verb: &[&str], folder: &Path) -> (Option<i32>, Vec<String>) {
    let ended = verisum(verb.iter().map(|word| word.as_ref()).chain([folder.as_os_str()]));
    (ended.code, lines(&ended, folder))
}

pub fn lines(ended: &Ended, folder: &Path) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    let mut lines: Vec<String> = ended.out().lines().map(|line| line.replace(&prefix, "")).collect();
    lines.sort();
    lines
}

/// The first two fields of each line: the name and the outcome.
pub fn outcomes(verb: &[&str], folder: &Path) -> (Option<i32>, Vec<String>) {
    let (code, lines) = run(verb, folder);
    (code, lines.iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect())
}

/// Runs the reference; `None` without Python.
pub fn oracle(arguments: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(require_python()?);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(repository().join("reference/tags.py"));
    let output = command.args(arguments).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim_end().to_string())
}

pub fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 512];
    let len = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

pub fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

/// A tag with a right check.
pub fn sealed(version: u8, digest: u8) -> Vec<u8> {
    let mut tag = vec![0; 64];
    (tag[0], tag[1]) = (version, digest);
    let covered = tag[..2].iter().chain(&tag[4..]);
    let crc =
        covered.fold(0xffff_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 }
            })
        });
    tag[2..4].copy_from_slice(&crc.to_le_bytes());
    tag
}
