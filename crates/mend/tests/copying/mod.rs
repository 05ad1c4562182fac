//! Trees to copy, what came of it, and what is in a tree.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, llistxattr, lsetxattr, mknodat};
use verisum_mend::copy::{CopyOptions, CopyOutcome, CopySummary, copy};
use verisum_testkit::{Run, is_root, paint};

/// What a copy told.
#[derive(Debug)]
pub struct Told {
    pub summary: CopySummary,
    pub problems: Vec<String>,
    /// Of each name at TO its digest.
    pub digests: BTreeMap<String, (String, String)>,
}

pub fn options() -> CopyOptions {
    let mut options = CopyOptions::default();
    options.threads = 3;
    options
}

pub fn copy_to(from: &Path, to: &Path, options: &CopyOptions) -> Told {
    let told = Mutex::new((Vec::new(), BTreeMap::new()));
    let summary = copy(from, to, options, None, &|event| {
        let mut told = told.lock().unwrap();
        match &event.outcome {
            CopyOutcome::Failed(error) => told.0.push(error.to_string()),
            outcome if outcome.is_problem() => told.0.push(format!("{}: {outcome:?}", event.path.display())),
            _ => {}
        }
        if let Some((digest, sum)) = event.digests.first() {
            let name = event.name.to_string_lossy().into_owned();
            told.1.insert(name, (digest.name().to_string(), sum.to_string()));
        }
    })
    .unwrap();
    let (problems, digests) = told.into_inner().unwrap();
    Told { summary, problems, digests }
}

/// Changes bytes without a trace in the file's time of modification.
pub fn change_and_keep_time(path: &Path, content: &[u8]) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, content).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Fills a directory with whatever trees may have.
pub fn fill(folder: &Path) {
    let path = |name: &[u8]| folder.join(OsStr::from_bytes(name));
    fs::create_dir_all(path(b"deep/a/b/c/d/e")).unwrap();
    fs::create_dir(path(b"nothing")).unwrap();
    for (number, name) in
        [&b"plain"[..], b"new\nline", b"\xff\xfe", b"-dash", b"deep/a/one", b"deep/a/b/c/d/e/low"]
            .iter()
            .enumerate()
    {
        fs::write(path(name), vec![number as u8; number * 5000]).unwrap();
    }
    for number in 0..150_usize {
        fs::write(path(format!("deep/{number}").as_bytes()), vec![number as u8; number * 77]).unwrap();
    }
    paint(&path(b"large"), &[Run::data((5 << 20) + 1)]).unwrap();
    paint(&path(b"sparse"), &[Run::hole(3 << 20), Run::data(1 << 20), Run::hole(9 << 20)]).unwrap();
    fs::write(path(b"linked"), "one file").unwrap();
    fs::hard_link(path(b"linked"), path(b"deep/linked")).unwrap();
    fs::hard_link(path(b"linked"), path(b"nothing/linked")).unwrap();
    symlink("/no/where", path(b"dangling")).unwrap();
    symlink("deep", path(b"deep/a/link")).unwrap();
    mknodat(CWD, path(b"pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    fs::set_permissions(path(b"pipe"), fs::Permissions::from_mode(0o622)).unwrap();
    for (name, mode) in
        [(&b"plain"[..], 0o4755), (b"-dash", 0o400), (b"nothing", 0o1777), (b"deep/a", 0o2750)]
    {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // Where the file system has attributes.
    let _ = lsetxattr(path(b"plain"), c"user.long", &vec![b'x'; 2000], XattrFlags::empty());
    let _ = lsetxattr(path(b"nothing"), c"user.short", b"", XattrFlags::empty());
    // A list of owner, user 1, group, mask and others, each with its rights.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [(1_u16, 6_u16, !0_u32), (2, 4, 1), (4, 0, !0), (0x10, 4, !0), (0x20, 0, !0)] {
        list.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let _ = lsetxattr(path(b"deep/a/one"), c"system.posix_acl_access", &list, XattrFlags::empty());
    // What is made in it from now on has it too; what was there has not.
    let _ = lsetxattr(path(b"deep"), c"system.posix_acl_default", &list, XattrFlags::empty());
    if is_root() {
        std::os::unix::fs::lchown(path(b"deep/7"), Some(1), Some(2)).unwrap();
        std::os::unix::fs::lchown(path(b"plain"), Some(1), Some(2)).unwrap();
        fs::set_permissions(path(b"plain"), fs::Permissions::from_mode(0o4755)).unwrap();
        std::os::unix::fs::lchown(path(b"dangling"), Some(3), Some(4)).unwrap();
        let _ = lsetxattr(path(b"-dash"), c"trusted.thing", b"value", XattrFlags::empty());
        mknodat(CWD, path(b"null"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), 0x103).unwrap();
    }
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for name in ["deep/3", "deep/a", "nothing", "deep/a/b/c", "deep"] {
        File::open(folder.join(name)).unwrap().set_modified(old).unwrap();
    }
}

/// Everything of an entry that a copy should keep.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    kind: String,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    links: u64,
    device: u64,
    is_sparse: bool,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Vec<u8>,
}

/// All entries of a tree.
pub fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Kept> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        let kind = stat.file_type();
        let content = match (kind.is_file(), kind.is_symlink()) {
            (true, _) => content(&path, stat.len()),
            (_, true) => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            _ => Vec::new(),
        };
        if kind.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let is_device = kind.is_char_device() || kind.is_block_device();
        let kept = Kept {
            kind: format!("{kind:?}"),
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            modified: (stat.mtime(), stat.mtime_nsec()),
            links: if kind.is_dir() { 0 } else { stat.nlink() },
            device: if is_device { stat.rdev() } else { 0 },
            is_sparse: stat.len() > 1 << 20 && stat.blocks() * 512 < stat.len() / 2,
            attributes: attributes(&path),
            content,
        };
        found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), kept);
    }
    found
}

fn content(path: &Path, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 64 << 10];
        let length = lgetxattr(path, OsStr::from_bytes(name), &mut value[..]).unwrap();
        value.truncate(length);
        value
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}
