//! Real file systems of every kind, and loop devices, for one test.
//!
//! Each has a backing file of its own in the temporary folder, and leaves nothing behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::{RecordedDisk, require_root, require_tool, skip};

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsKind {
    /// ext4 with blocks of 4 KiB; the longest file has 16 TiB less 4 KiB.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs, one copy of the data, with checksums.
    Btrfs,
    /// tmpfs, in memory: no loop device.
    Tmpfs,
    /// FAT, as on sticks: no owners, no links, times of two seconds. Not every kernel has it.
    Vfat,
    /// exFAT by FUSE, as on sticks too: no owners, no links, no names with `:`, times of whole seconds, capital letters
    /// that are the same as small ones, and neither files without a name nor exchanges of two names.
    Exfat,
}

impl FsKind {
    /// Every kind that every kernel of ours has, for suites that run over all of them.
    pub const ALL: [FsKind; 4] = [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs, FsKind::Tmpfs];

    /// The kernel's name of it.
    pub const fn name(self) -> &'static str {
        match self {
            FsKind::Ext4 => "ext4",
            FsKind::Xfs => "xfs",
            FsKind::Btrfs => "btrfs",
            FsKind::Tmpfs => "tmpfs",
            FsKind::Vfat => "vfat",
            FsKind::Exfat => "exfat",
        }
    }

    /// The smallest size in bytes that its tools accept.
    const fn smallest(self) -> u64 {
        match self {
            FsKind::Ext4 => 16 << 20,
            FsKind::Xfs => 300 << 20,
            FsKind::Btrfs => 128 << 20,
            FsKind::Tmpfs => 1 << 20,
            FsKind::Vfat | FsKind::Exfat => 64 << 20,
        }
    }

    const fn format_options(self) -> &'static [&'static str] {
        match self {
            FsKind::Ext4 => &["-q", "-F", "-b", "4096", "-m", "0"],
            FsKind::Xfs => &["-q", "-f"],
            FsKind::Btrfs => &["-q", "-f", "-d", "single"],
            FsKind::Tmpfs | FsKind::Vfat | FsKind::Exfat => &[],
        }
    }

    /// Whether this kernel has it, as far as it tells.
    fn is_known(self) -> bool {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        known.split_whitespace().any(|name| name == self.name())
    }
}

/// A mounted file system; unmounted and removed when dropped.
#[derive(Debug)]
pub struct Mount {
    folder: TempDir,
    kind: FsKind,
    size: u64,
    mounted: bool,
    /// How often the backing file was replaced with a copy.
    copies: u32,
    /// What the backing file shows, if it is no plain file. It goes last.
    disk: Option<RecordedDisk>,
}

impl Mount {
    /// Makes and mounts a file system of at least `size` bytes. Its backing file is sparse.
    ///
    /// `None`, after saying why, if the machine cannot.
    ///
    /// # Panics
    /// As [`skip`]; also if making it fails though root and the tools are there.
    pub fn new(kind: FsKind, size: u64) -> Option<Mount> {
        Mount::formatted(kind, size, &[])
    }

    /// The same with more options for the program that makes the file system. tmpfs takes none.
    ///
    /// # Panics
    /// As [`Mount::new`].
    pub fn formatted(kind: FsKind, size: u64, options: &[&str]) -> Option<Mount> {
        require_root()?;
        require_tool("mount")?;
        if kind == FsKind::Vfat && !kind.is_known() {
            // No tool can change that, so it is no failure where CI declares nothing to be missing.
            let _ = writeln!(std::io::stderr(), "SKIPPED: this kernel has no vfat");
            return None;
        }
        if kind == FsKind::Exfat {
            require_tool("mount.exfat-fuse")?;
        }
        let size = size.max(kind.smallest());
        let mount = Mount::unmade(kind, size);
        if kind != FsKind::Tmpfs {
            let image = std::fs::File::create(mount.image_path()).expect("a backing file");
            image.set_len(size).expect("a sparse backing file");
            mount.format(options)?;
        }
        mount.mounted()
    }

    /// A file system on a disk that remembers what was written.
    ///
    /// # Panics
    /// As [`Mount::new`].
    pub fn recorded(kind: FsKind, size: u64) -> Option<Mount> {
        require_root()?;
        require_tool("mount")?;
        let size = size.max(kind.smallest());
        let mut mount = Mount::unmade(kind, size);
        mount.disk = Some(RecordedDisk::new(&mount.image_path(), size)?);
        mount.format(&[])?;
        mount.mounted()
    }

    /// What is on a disk, mounted.
    ///
    /// # Panics
    /// As [`Mount::new`].
    pub fn of_image(kind: FsKind, image: &[u8]) -> Option<Mount> {
        require_root()?;
        require_tool("mount")?;
        let mount = Mount::unmade(kind, image.len() as u64);
        std::fs::write(mount.image_path(), image).expect("a backing file");
        mount.mounted()
    }

    /// A file system that is made on a file somewhere else, whose storage may fail.
    ///
    /// # Panics
    /// As [`Mount::new`].
    pub fn on(kind: FsKind, file: &Path, options: &[&str]) -> Option<Mount> {
        require_root()?;
        require_tool("mount")?;
        let mount = Mount::unmade(kind, std::fs::metadata(file).expect("a file").len());
        std::os::unix::fs::symlink(file, mount.image_path()).expect("a link to the file");
        mount.format(options)?;
        mount.mounted()
    }

    fn unmade(kind: FsKind, size: u64) -> Mount {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mount = Mount { folder, kind, size, mounted: false, copies: 0, disk: None };
        std::fs::create_dir(mount.path()).expect("a mount point");
        mount
    }

    fn format(&self, options: &[&str]) -> Option<()> {
        let format = require_tool(&format!("mkfs.{}", self.kind.name()))?;
        run(Command::new(format).args(self.kind.format_options()).args(options).arg(self.image_path()))
            .unwrap_or_else(|error| panic!("{error}"));
        Some(())
    }

    fn mounted(mut self) -> Option<Mount> {
        match self.mount() {
            Ok(()) => Some(self),
            Err(error) => {
                skip(&format!("cannot mount {}: {error}", self.kind.name()));
                None
            }
        }
    }

    /// The disk that remembers, of [`Mount::recorded`].
    pub fn disk(&self) -> Option<&RecordedDisk> {
        self.disk.as_ref()
    }

    /// The folder it is mounted on.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    /// Its kind.
    pub fn kind(&self) -> FsKind {
        self.kind
    }

    /// Unmounts it, lets `edit` change the backing file, and mounts it again with an empty cache. The edited file may be a
    /// copy of the one before.
    ///
    /// # Panics
    /// On tmpfs, which has no backing file, and if files are still open.
    pub fn edit_image(&mut self, edit: impl FnOnce(&Path)) {
        assert!(self.kind != FsKind::Tmpfs, "tmpfs has no backing file");
        // Unmounting alone writes nothing where another namespace of mounts has the file system too.
        let _ = run(Command::new("sync").arg("--file-system").arg(self.path()));
        self.unmount().unwrap_or_else(|error| panic!("{error}"));
        if self.is_attached() {
            self.copy_image();
        }
        edit(&self.image_path());
        self.mount().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Makes the loop device read and write its backing file past the page cache, so that nothing is
    /// cached twice and what is not cached here comes from the disk. Returns whether that is so now.
    pub fn bypass_cache_of_backing_file(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let path = self.path();
        let mut lines = mounts.lines().map(|line| line.split(' '));
        let device =
            lines.find_map(|mut words| words.next().filter(|_| words.next().map(Path::new) == Some(&path)));
        match device {
            Some(device) if self.kind != FsKind::Tmpfs => {
                run(Command::new("losetup").args(["--direct-io=on", device])).is_ok()
            }
            _ => self.kind == FsKind::Tmpfs,
        }
    }

    fn image_path(&self) -> PathBuf {
        match self.copies {
            0 => self.folder.path().join("image"),
            copies => self.folder.path().join(format!("image{copies}")),
        }
    }

    fn mount(&mut self) -> Result<(), String> {
        let mut command = Command::new("mount");
        // The kernel's own, where there is one, has other limits.
        command.args(["-t", if self.kind == FsKind::Exfat { "exfat-fuse" } else { self.kind.name() }]);
        match self.kind {
            FsKind::Tmpfs => command.args(["-o", &format!("size={}", self.size), "tmpfs"]),
            // The copied one may still be alive, with the same identity.
            FsKind::Xfs if self.copies > 0 => command.args(["-o", "loop,nouuid"]).arg(self.image_path()),
            _ => command.args(["-o", "loop"]).arg(self.image_path()),
        };
        run(command.arg(self.path()))?;
        self.mounted = true;
        Ok(())
    }

    /// Whether a loop device still has the image. Another namespace of mounts, which some test made meanwhile, may
    /// keep the file system alive: mounted again, it would be the one before the edit.
    fn is_attached(&self) -> bool {
        let devices = run(Command::new("losetup").arg("--associated").arg(self.image_path()));
        !devices.unwrap_or_else(|error| panic!("{error}")).is_empty()
    }

    /// Takes a copy in place of the image, and leaves the image to whoever has it.
    fn copy_image(&mut self) {
        let before = self.image_path();
        self.copies += 1;
        let mut copy = Command::new("cp");
        run(copy.args(["--sparse=always", "--dereference"]).arg(&before).arg(self.image_path()))
            .and_then(|_| match self.kind {
                // Two with one identity are the same to it.
                FsKind::Btrfs => run(Command::new("btrfstune").args(["-f", "-m"]).arg(self.image_path())),
                _ => Ok(String::new()),
            })
            .unwrap_or_else(|error| panic!("{error}"));
        std::fs::remove_file(before).expect("the image before the edit");
    }

    fn unmount(&mut self) -> Result<(), String> {
        // A child that another test is starting just now holds our files until it runs its program.
        // A failed test may hold them as long as it lives.
        let patience = if std::thread::panicking() { 100 } else { 6000 };
        for _ in 0..patience {
            if run(Command::new("umount").arg(self.path())).is_ok() {
                self.mounted = false;
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        run(Command::new("umount").arg(self.path())).map(|_| self.mounted = false)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            // A failed test may have left files open: the last of them closes it.
            let _ = run(Command::new("umount").arg("--lazy").arg(self.path()));
        }
    }
}

/// A block device whose content is a file's; detached when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches `file`, whose length must be a multiple of 512.
    ///
    /// `None`, after saying why, if the machine cannot.
    ///
    /// # Panics
    /// As [`skip`].
    pub fn new(file: &Path) -> Option<LoopDevice> {
        Self::with_sectors(file, 512)
    }

    /// Attaches `file` with logical sectors of `sector` bytes, of which its length must be a multiple.
    ///
    /// # Panics
    /// As [`skip`].
    pub fn with_sectors(file: &Path, sector: u32) -> Option<LoopDevice> {
        require_root()?;
        let losetup = require_tool("losetup")?;
        let sector = format!("--sector-size={sector}");
        match run(Command::new(losetup).args(["--find", "--show", &sector]).arg(file)) {
            Ok(name) => Some(LoopDevice { path: PathBuf::from(name.trim_end()) }),
            Err(error) => {
                skip(&error);
                None
            }
        }
    }

    /// The device, as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}

/// Runs a command and returns what it printed, or one line that says how it failed.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{name}: {}: {message}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_every_kind_come_and_go() {
        for kind in FsKind::ALL {
            let Some(mut mount) = Mount::new(kind, 0) else { continue };
            let path = mount.path();
            assert!(mounts().contains(path.to_str().unwrap()));
            std::fs::write(path.join("file"), "text").unwrap();
            if kind != FsKind::Tmpfs {
                mount.edit_image(|image| assert!(image.is_file()));
                assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "text");
            }
            drop(mount);
            assert!(!mounts().contains(path.to_str().unwrap()));
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_another_namespace_still_has_mounted_is_edited_all_the_same() {
        for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs] {
            let (Some(mut mount), Some(unshare)) = (Mount::new(kind, 0), require_tool("unshare")) else {
                return;
            };
            let (file, other) = (mount.path().join("file"), mount.path().join("other"));
            std::fs::write(&file, format!("text of the file {kind:?}").repeat(500)).unwrap();
            let mut command = Command::new(unshare);
            let mut holder = command.args(["--mount", "sh", "-c", "echo; exec cat"]);
            holder = holder.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut holder = holder.spawn().unwrap();
            let mut begun = [0];
            std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut begun).unwrap();
            for text in ["one", "two"] {
                std::fs::write(&other, text).unwrap();
                mount.edit_image(|image| assert!(image.is_file()));
                assert_eq!(std::fs::read_to_string(&other).unwrap(), text, "{kind:?}");
            }
            assert!(mount.copies > 0, "{kind:?}: nothing had it");
            let content = std::fs::read_to_string(&file).unwrap();
            assert_eq!(content, format!("text of the file {kind:?}").repeat(500));
            holder.kill().unwrap();
            holder.wait().unwrap();
        }
    }

    #[test]
    fn loop_devices_show_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 8192]).unwrap();
        let Some(device) = LoopDevice::new(file.path()) else { return };
        assert_eq!(std::fs::read(device.path()).unwrap(), vec![7; 8192]);
    }

    fn mounts() -> String {
        std::fs::read_to_string("/proc/self/mounts").unwrap()
    }
}
