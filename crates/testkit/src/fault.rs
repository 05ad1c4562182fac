//! Files that cannot be read everywhere: real errors from the kernel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::mount::run;
use crate::{FsKind, Mount, Run, paint, require_tool, skip};

/// A file of which one block gives `EIO`: its bytes on disk differ from their checksum.
#[derive(Debug)]
pub struct BadFile {
    /// Unmounts the file system when dropped.
    pub mount: Mount,
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
    /// Where the bad block begins.
    pub bad_offset: u64,
}

/// Makes a file of 4 MiB of data on Btrfs, whose block of 4 KiB at 2 MiB + 12 KiB cannot be read. The
/// rest is as [`crate::data_byte`] says.
///
/// `None`, after saying why, if the machine cannot.
///
/// # Panics
/// As [`skip`].
pub fn btrfs_bad_file() -> Option<BadFile> {
    const LENGTH: u64 = 4 << 20;
    const BAD_OFFSET: u64 = (2 << 20) + (12 << 10);
    const MARKER: &[u8; 32] = b"verisum testkit: this goes wrong";

    let mut mount = Mount::new(FsKind::Btrfs, 0)?;
    let path = mount.path().join("bad");
    paint(&path, &[Run::data(LENGTH)]).expect("a painted file");
    let file = File::options().write(true).open(&path).expect("the painted file");
    file.write_all_at(MARKER, BAD_OFFSET).expect("a written marker");
    drop(file);
    mount.edit_image(|image| {
        let place = find(image, MARKER).expect("the marker in the backing file");
        let image = File::options().write(true).open(image).expect("the backing file");
        image.write_all_at(b"V", place).expect("a flipped byte");
        image.sync_all().expect("a written backing file");
    });
    Some(BadFile { mount, path, length: LENGTH, bad_offset: BAD_OFFSET })
}

/// A file whose reads can be made to fail and to work again while it is open.
///
/// It is nbdkit's error filter over a plain file, mounted by nbdfuse.
#[derive(Debug)]
pub struct SwitchedFile {
    server: Child,
    folder: TempDir,
}

impl SwitchedFile {
    /// Shows `content`, whose length must be a multiple of 512, in a file that can fail.
    ///
    /// `None`, after saying why, if the machine cannot.
    ///
    /// # Panics
    /// As [`skip`].
    pub fn new(content: &[u8]) -> Option<SwitchedFile> {
        SwitchedFile::serving(content, &["--readonly"], "error-pread-rate=100%")
    }

    /// A disk of zeros, of this length, which can be written to; all that reaches it can fail.
    ///
    /// # Panics
    /// As [`skip`].
    pub fn disk(length: usize) -> Option<SwitchedFile> {
        SwitchedFile::serving(&vec![0; length], &[], "error-rate=100%")
    }

    fn serving(content: &[u8], options: &[&str], which: &str) -> Option<SwitchedFile> {
        let (nbdfuse, nbdkit) = (require_tool("nbdfuse")?, require_tool("nbdkit")?);
        if File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skip("/dev/fuse cannot be opened");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let content_path = folder.path().join("content");
        std::fs::write(&content_path, content).expect("a written file");
        let path = folder.path().join("image");
        File::create(&path).expect("a mount point");
        let server = Command::new(nbdfuse)
            .args(options)
            .arg(&path)
            .arg("--command")
            .arg(nbdkit)
            .args(["-s", "--exit-with-parent", "--filter=error", "file"])
            .arg(&content_path)
            .args(["error=EIO", which])
            .arg(format!("error-file={}", folder.path().join("fail").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nbdfuse");
        let mut file = SwitchedFile { server, folder };
        let deadline = Instant::now() + Duration::from_secs(300);
        while std::fs::metadata(&path).map_or(0, |file| file.len()) != content.len() as u64 {
            let ended = file.server.try_wait().expect("the state of nbdfuse").is_some();
            if ended || Instant::now() > deadline {
                skip("nbdfuse does not start");
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(file)
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Makes every read that reaches the server fail with `EIO`, or none.
    pub fn fail(&self, fail: bool) {
        let switch = self.folder.path().join("fail");
        match fail {
            true => drop(File::create(switch).expect("the switch")),
            false => std::fs::remove_file(switch).expect("the switch"),
        }
    }
}

impl Drop for SwitchedFile {
    fn drop(&mut self) {
        // Unmounting ends the server; a server that hangs is killed.
        let unmount = |tool: &str| run(Command::new(tool).arg("-u").arg(self.path()));
        let _ = unmount("fusermount3").or_else(|_| run(Command::new("umount").arg(self.path())));
        let deadline = Instant::now() + Duration::from_secs(60);
        while matches!(self.server.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.server.kill();
                let _ = self.server.wait();
                let _ = run(Command::new("umount").arg("--lazy").arg(self.path()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The place of the first occurrence of `pattern` in a file.
fn find(path: &Path, pattern: &[u8]) -> Option<u64> {
    let file = File::open(path).expect("the searched file");
    let mut piece = vec![0; 4 << 20];
    let mut offset = 0;
    loop {
        let count = file.read_at(&mut piece, offset).expect("a read piece");
        if let Some(place) = piece[..count].windows(pattern.len()).position(|window| window == pattern) {
            return Some(offset + place as u64);
        }
        if count <= pattern.len() {
            return None;
        }
        // The pattern may lie across two pieces.
        offset += (count - pattern.len() + 1) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_bad_file_fails_in_its_bad_block_only() {
        let Some(bad) = btrfs_bad_file() else { return };
        let file = File::open(&bad.path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), bad.length);
        let mut block = [0; 4096];
        for offset in (0..bad.length).step_by(4096) {
            let result = file.read_exact_at(&mut block, offset);
            match offset == bad.bad_offset {
                true => assert_eq!(result.map_err(|e| e.raw_os_error()), Err(Some(EIO))),
                false => assert!(result.is_ok()),
            }
        }
    }

    #[test]
    fn a_switched_file_fails_when_told() {
        let Some(file) = SwitchedFile::new(&vec![3; 1 << 20]) else { return };
        assert_eq!(std::fs::read(file.path()).unwrap(), vec![3; 1 << 20]);
        file.fail(true);
        crate::cache::forget(&file.path()).unwrap();
        let error = std::fs::read(file.path()).unwrap_err();
        assert_eq!(error.raw_os_error(), io::Error::from_raw_os_error(EIO).raw_os_error());
        file.fail(false);
        assert_eq!(std::fs::read(file.path()).unwrap(), vec![3; 1 << 20]);
    }

    const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
}
