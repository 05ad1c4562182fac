//! A scratch file system in a file. It is mounted for an experiment, and removed afterwards.
//!
//! Signals do not end the program while one exists: they are noted, the experiment stops at the next
//! name, and everything is unmounted and removed on the way out. Only SIGKILL leaves a mount behind, in a
//! folder whose name begins with `verisum-dirhash-`; no later run uses that folder.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use verisum_dirhash::htree::Geometry;
use verisum_dirhash::namehash::Seed;

use crate::ui::failure::Failure;
use crate::ui::find_program;

/// A kind of file system, and what it is made with.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileSystemKind {
    /// ext4 with this hash: legacy, half_md4 or tea.
    Ext4 { hash: &'static str, seed: Seed, geometry: Geometry },
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystemKind {
    /// The kernel's name of it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            FileSystemKind::Ext4 { .. } => "ext4",
            FileSystemKind::Xfs => "xfs",
            FileSystemKind::Btrfs => "btrfs",
        }
    }

    /// Programs that make it and change it, with the Debian package they come in.
    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            FileSystemKind::Ext4 { .. } => &[("mke2fs", "e2fsprogs"), ("tune2fs", "e2fsprogs")],
            FileSystemKind::Xfs => &[("mkfs.xfs", "xfsprogs")],
            FileSystemKind::Btrfs => &[("mkfs.btrfs", "btrfs-progs")],
        }
    }

    /// A length in bytes in which so many empty files fit well. The file is sparse.
    fn length(&self, names: u64) -> u64 {
        match self {
            FileSystemKind::Ext4 { .. } => (256 << 20) + (names << 10),
            FileSystemKind::Xfs => (512 << 20) + (names << 11),
            FileSystemKind::Btrfs => (512 << 20) + (names << 12),
        }
    }

    /// No thread of the kernel shall write tables while we measure.
    fn mount_options(&self) -> &'static str {
        match self {
            FileSystemKind::Ext4 { .. } => "loop,nosuid,nodev,noexec,noatime,noinit_itable",
            _ => "loop,nosuid,nodev,noexec,noatime",
        }
    }
}

/// Says what is missing before anything is made.
pub(super) fn require(kinds: &[FileSystemKind]) -> Result<(), Failure> {
    let missing = |name: &str, why: &str| Err(Failure::Program { name: name.to_string(), why: why.into() });
    let needed = |programs: &[(&str, &str)], otherwise: &str| match programs
        .iter()
        .find(|(program, _)| find_program(program).is_none())
    {
        Some((program, package)) => {
            missing(program, &format!("not found; install the package {package}{otherwise}"))
        }
        None => Ok(()),
    };
    for kind in kinds {
        needed(kind.programs(), ", or choose other hashes with --hash")?;
    }
    // Without these no file system can be mounted, whatever its hash.
    needed(&[("mount", "mount"), ("umount", "mount"), ("losetup", "mount")], "")?;
    if !rustix::process::geteuid().is_root() {
        return missing("--real", "only root can mount file systems; without --real a model answers");
    }
    if !Path::new("/dev/loop-control").exists() {
        return missing("/dev/loop-control", "no loop devices: the kernel's module loop is not there");
    }
    Ok(())
}

/// A mounted file system.
pub(super) struct Volume {
    folder: TempDir,
    kind: FileSystemKind,
    mounted: bool,
}

impl Volume {
    /// Makes it, with room for so many names, and mounts it.
    pub(super) fn new(kind: FileSystemKind, names: u64) -> Result<Volume, Failure> {
        let parent = std::env::temp_dir();
        let failed = |error| Failure::File { name: parent.clone(), operation: "create a folder", error };
        // Absolute, so that no program takes the name for an option.
        let parent = fs::canonicalize(&parent).map_err(failed)?;
        let folder =
            tempfile::Builder::new().prefix("verisum-dirhash-").tempdir_in(&parent).map_err(failed)?;
        let mut volume = Volume { folder, kind, mounted: false };
        let make = |path: &Path| {
            let length = kind.length(names);
            let space = rustix::fs::statvfs(path.parent().unwrap_or(path))?;
            // Sparse, but much of it is written.
            if space.f_bavail.saturating_mul(space.f_frsize) < length / 2 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            fs::create_dir(volume.path())?;
            fs::File::create_new(path)?.set_len(length)
        };
        let image = volume.image();
        make(&image).map_err(|error| Failure::File { name: image, operation: "create", error })?;
        volume.format(names)?;
        volume.mount()?;
        Ok(volume)
    }

    /// Where it is mounted.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    /// Its content as a file; to be read while it is not mounted.
    pub(super) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn format(&self, names: u64) -> Result<(), Failure> {
        let image = self.image();
        match self.kind {
            FileSystemKind::Ext4 { hash, seed, geometry } => {
                let unless = |wanted: bool| if wanted { "" } else { "^" };
                let features = format!(
                    "dir_index,{}metadata_csum,{}large_dir",
                    unless(geometry.checksums()),
                    unless(geometry.large_dir())
                );
                let block_size = geometry.block_size().to_string();
                let inodes = (names + 2000).to_string();
                let extended = format!("lazy_itable_init=1,hash_seed={seed}");
                let options =
                    ["-q", "-F", "-t", "ext4", "-m", "0", "-b", &block_size, "-N", &inodes, "-O", &features];
                run("mke2fs", options.map(OsString::from).into_iter().chain(os(["-E", &extended])), &image)?;
                run("tune2fs", os(["-E", &format!("hash_alg={hash}")]), &image)
            }
            FileSystemKind::Xfs => run("mkfs.xfs", os(["-q", "-f"]), &image),
            FileSystemKind::Btrfs => {
                run("mkfs.btrfs", os(["-q", "-f", "-m", "single", "-d", "single"]), &image)
            }
        }
    }

    /// Mounts it again.
    pub(super) fn mount(&mut self) -> Result<(), Failure> {
        let mut arguments = os(["-t", self.kind.name(), "-o", self.kind.mount_options()]);
        arguments.push(self.image().into());
        run("mount", arguments, &self.path()).map_err(|failure| match self.kind {
            // Only newer kernels mount blocks longer than their pages.
            FileSystemKind::Ext4 { geometry, .. } if geometry.block_size() as usize > rustix::param::page_size() => {
                Failure::value("--block-size", geometry.block_size(), format!(
                        "this kernel cannot mount such blocks, its pages have {} bytes; without --real a model answers",
                        rustix::param::page_size()
                    ))
            }
            _ => failure,
        })?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts it; the loop device goes with the mount.
    pub(super) fn unmount(&mut self) -> Result<(), Failure> {
        let mut result = Ok(());
        // Somebody may be looking at every new mount.
        for _ in 0..100 {
            result = run("umount", Vec::new(), &self.path());
            if result.is_ok() {
                self.mounted = false;
                return result;
            }
            thread::sleep(Duration::from_millis(20));
        }
        result
    }

    /// Unmounts and removes it, and says if that failed.
    pub(super) fn remove(mut self) -> Result<(), Failure> {
        if self.mounted {
            self.unmount()?;
        }
        let image = self.image();
        fs::remove_file(&image).map_err(|error| Failure::File { name: image, operation: "remove", error })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            // The last who uses it ends it.
            let _ = run("umount", os(["--lazy"]), &self.path());
        }
    }
}

fn os<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

/// Runs a program on a path to its end. A Ctrl-C is for us, not for it.
fn run(program: &str, arguments: impl IntoIterator<Item = OsString>, path: &Path) -> Result<(), Failure> {
    let failed = |why: String| Failure::Program { name: program.to_string(), why };
    let found = find_program(program).ok_or_else(|| failed("not found".to_string()))?;
    let ended = Command::new(found)
        .args(arguments)
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .map_err(|error| failed(crate::ui::failure::cause(&error)))?;
    Failure::of_program(program, &ended)
}
