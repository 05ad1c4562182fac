//! Mounts a btrfs in a file.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rustix::mount::UnmountFlags;

use super::{BtrfsChecksum, WorkFolder};
use crate::measure::{MeasureError, find_program};

/// What a file system needs beside the data, in bytes: btrfs refuses less than 109 MiB.
const OVERHEAD: u64 = 160 << 20;

/// The programs of others that make and mount file systems.
#[derive(Clone, Debug)]
pub struct Programs {
    mkfs: PathBuf,
    mount: PathBuf,
}

impl Programs {
    /// Finds them on the search path that is given, and where the system keeps those of root.
    pub fn find(path: Option<&OsStr>) -> Result<Programs, MeasureError> {
        let find = |name: &str, package: &str| {
            find_program(name, path).ok_or_else(|| {
                MeasureError::Unavailable(format!("{name}: not found; the Debian package is {package}"))
            })
        };
        Ok(Programs { mkfs: find("mkfs.btrfs", "btrfs-progs")?, mount: find("mount", "mount")? })
    }

    /// mkfs.btrfs.
    pub fn mkfs(&self) -> &Path {
        &self.mkfs
    }
}

/// A mounted file system. Dropping it unmounts it; the loop device goes with the mount.
#[derive(Debug)]
pub struct Volume {
    checksum: &'static BtrfsChecksum,
    image: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

impl Volume {
    /// The length of the image for so many bytes of data. The image is sparse, but in the end most of it
    /// may have been written to.
    pub fn length(data: u64) -> u64 {
        data + OVERHEAD
    }

    /// Makes an image of so many bytes in a place, and mounts it.
    pub fn new(
        place: &WorkFolder,
        checksum: &'static BtrfsChecksum,
        length: u64,
        programs: &Programs,
    ) -> Result<Volume, MeasureError> {
        let image = place.path().join(format!("{}.img", checksum.name));
        let mount = place.path().join(checksum.name);
        let mut volume = Volume { checksum, image, mount, mounted: false };
        let file = fs::File::create_new(&volume.image);
        file.and_then(|file| file.set_len(length))
            .map_err(|error| MeasureError::io(&volume.image, "create", error))?;
        fs::create_dir(&volume.mount).map_err(|error| MeasureError::io(&volume.mount, "create", error))?;
        let options = ["-q", "-f", "-d", "single", "-m", "single", "--csum", checksum.of_mkfs()];
        run(Command::new(&programs.mkfs).args(options).arg(&volume.image))?;
        volume.mount(programs)?;
        Ok(volume)
    }

    /// Its checksum.
    pub fn checksum(&self) -> &'static BtrfsChecksum {
        self.checksum
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// The file that it is in.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The number by which the kernel knows it, from the superblock, as it is written.
    pub fn number(&self) -> Result<String, MeasureError> {
        use std::os::unix::fs::FileExt;
        let failed = |error| MeasureError::io(&self.image, "read", error);
        let mut bytes = [0; 16];
        let file = fs::File::open(&self.image).map_err(failed)?;
        file.read_exact_at(&mut bytes, (64 << 10) + 32).map_err(failed)?;
        let hex = HEXLOWER.encode(&bytes);
        Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
    }

    /// Writes all that is not yet on its device.
    pub fn synchronize(&self) -> Result<(), MeasureError> {
        let failed = |error| MeasureError::io(&self.mount, "synchronize", error);
        let folder = fs::File::open(&self.mount).map_err(failed)?;
        rustix::fs::syncfs(&folder).map_err(|error| failed(error.into()))
    }

    /// Mounts it, if it is not mounted.
    pub fn mount(&mut self, programs: &Programs) -> Result<(), MeasureError> {
        if self.mounted {
            return Ok(());
        }
        let mut options = "loop,nosuid,nodev,noexec,noatime".to_string();
        if self.checksum.none {
            options.push_str(",nodatasum");
        }
        // Not `auto`: the kernel is to say why it cannot.
        let arguments = ["-t", "btrfs", "-o", &options];
        run(Command::new(&programs.mount).args(arguments).arg(&self.image).arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts it.
    pub fn unmount(&mut self) -> Result<(), MeasureError> {
        let mut result = Ok(());
        // Somebody may be looking at every new mount.
        for _ in 0..100 {
            result = match self.mounted {
                true => rustix::mount::unmount(&self.mount, UnmountFlags::empty()),
                false => Ok(()),
            };
            if result.is_ok() {
                self.mounted = false;
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        result.map_err(|error| MeasureError::io(&self.mount, "unmount", error.into()))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            // The last who uses it ends it.
            let _ = rustix::mount::unmount(&self.mount, UnmountFlags::DETACH);
        }
        // The place removes what this leaves.
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.mount);
    }
}

/// Runs a program to its end. A Ctrl-C is for us, not for it.
pub(super) fn run(command: &mut Command) -> Result<(), MeasureError> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let failed = |why: String| MeasureError::Program { program: name.clone(), why };
    let ended = command
        .env("LC_ALL", "C")
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(failed(format!("{}: {}", ended.status, said.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::{CHECKSUMS, Data, WRITE};
    use verisum_testkit::{require_root, require_tool};

    /// A byte that changes on the device is an error of reading with each checksum, and none without: so
    /// what is measured does verify.
    #[test]
    fn every_checksum_finds_a_changed_byte_and_none_does_not() {
        let (Some(()), Some(_)) = (require_root(), require_tool("mkfs.btrfs")) else { return };
        let programs = Programs::find(None).unwrap();
        let length = Volume::length(WRITE as u64);
        let parent = tempfile::tempdir().unwrap();
        let place = WorkFolder::in_memory(parent.path(), length * 5).unwrap();
        let data = Data::new(WRITE as u64);
        let start = data.pieces().next().unwrap()[..64].to_vec();
        for checksum in &CHECKSUMS {
            let mut volume = Volume::new(&place, checksum, length, &programs).unwrap();
            let path = volume.path().join("file");
            data.write(&path).unwrap().sync_all().unwrap();
            volume.unmount().unwrap();
            let mut bytes = fs::read(volume.image()).unwrap();
            let at = bytes.windows(64).position(|window| window == start).unwrap();
            bytes[at + 100] ^= 1;
            fs::write(volume.image(), bytes).unwrap();
            volume.mount(&programs).unwrap();
            match data.is_in(&path) {
                Ok(same) => assert!(checksum.none && !same, "{}", checksum.name),
                Err(error) => assert!(!checksum.none && error.to_string().contains("os error 5"), "{error}"),
            }
        }
        drop(place);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
