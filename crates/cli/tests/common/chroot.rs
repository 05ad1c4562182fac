//! Root directories that have only some programs, for hosts that offer little.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use verisum_testkit::{copy_program, write_script};

use super::sshd::Sshd;

/// Where the server sees it: nobody but root may be able to change what leads there.
const PLACE: &str = "/mnt";

/// A root directory for what a server starts.
pub struct Chroot {
    folder: TempDir,
}

impl Chroot {
    /// One that has a shell and nothing else.
    pub fn new() -> Chroot {
        let folder = tempfile::Builder::new().prefix("verisum-root-").tempdir().unwrap();
        let chroot = Chroot { folder };
        fs::set_permissions(chroot.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chroot.directory("tmp", 0o1777);
        chroot.directory("dev", 0o755);
        fs::write(chroot.path("dev/null"), "").unwrap();
        chroot
    }

    /// A path in it, from this side.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name.trim_start_matches('/'))
    }

    /// Makes a directory, and those that lead to it.
    pub fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Copies a file to a place; those who call it by a link get what that leads to.
    pub fn copy(&self, from: &Path, to: &str) {
        let to = self.path(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy_program(from, to);
    }

    /// Copies a program, and the libraries that it loads to where they are here.
    pub fn program(&self, from: &Path, to: &str) {
        self.copy(from, to);
        self.libraries(from);
    }

    /// Copies the libraries that a program or a library loads.
    pub fn libraries(&self, of: &Path) {
        // It fails for programs that load none.
        let listed = Command::new("ldd").arg(of).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for word in listed.split_ascii_whitespace().filter(|word| word.starts_with('/')) {
            if !self.path(word).exists() && Path::new(word).is_file() {
                self.copy(Path::new(word), word);
            }
        }
    }

    /// Writes a script that can be started.
    pub fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_script(path, text);
    }

    /// Makes a link to what is in it.
    pub fn link(&self, target: &str, name: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A server whose users see nothing else. `None` where that cannot be.
    pub fn serve(&self) -> Option<Sshd> {
        self.serve_after(":")
    }

    /// The same after these commands, which see this root in `/mnt`.
    pub fn serve_after(&self, commands: &str) -> Option<Sshd> {
        let here = self.folder.path().display();
        let before =
            format!("mount --bind {here} {PLACE} && mount --bind /dev/null {PLACE}/dev/null && {commands}");
        Sshd::start_after(&before, Path::new("/bin/sh"), &format!("ChrootDirectory {PLACE}"))
    }
}
