//! The tools of btrfs, which need no root: they make and check a file system in a file, with code of
//! their own, not the kernel's.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::volume::run;
use super::{CHECKSUMS, Checksum, Data, Place};
use crate::measure::{About, Error, Process, Subject, find_program};

/// The programs.
#[derive(Clone, Debug)]
pub struct Tools {
    /// mkfs.btrfs.
    pub mkfs: PathBuf,
    /// btrfs.
    pub btrfs: PathBuf,
}

/// The groups of the rows.
pub const MKFS: &str = "mkfs.btrfs --rootdir";
/// The other.
pub const CHECK: &str = "btrfs check --check-data-csum";

impl Tools {
    /// Finds them.
    pub fn find(path: Option<&OsStr>) -> Result<Tools, Error> {
        let find = |name: &str| {
            find_program(name, path).ok_or_else(|| {
                Error::Unavailable(format!("{name}: not found; the Debian package is btrfs-progs"))
            })
        };
        Ok(Tools { mkfs: find("mkfs.btrfs")?, btrfs: find("btrfs")? })
    }
}

/// What the rows need in the place, in bytes.
pub fn rootless_needs(data: u64) -> u64 {
    // The folder, an image for each checksum to be checked, and one that is made again and again.
    data + 5 * (data + (64 << 20))
}

/// A row for each checksum and tool. Without checksums of data there is no check of them, so as a control
/// the metadata alone are checked, and a file system without files is made.
pub fn rootless<'a>(place: &Place, tools: &Tools, data: &Data) -> Result<Vec<Box<dyn Subject + 'a>>, Error> {
    let needs = rootless_needs(data.length);
    if place.free()? < needs {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        return Err(Error::io(place.path(), "write", full));
    }
    let folder = place.path().join("rootdir");
    std::fs::create_dir(&folder).map_err(|error| Error::io(&folder, "create", error))?;
    data.write(&folder.join("file"))?;
    let make = |checksum: &Checksum, image: &str, full: bool| {
        let image = place.path().join(image);
        // It makes the file longer than it is, and never shorter.
        let file = std::fs::File::create(&image);
        file.and_then(|file| file.set_len(super::Volume::length(data.length)))
            .map_err(|error| Error::io(&image, "create", error))?;
        let fixed = ["-q", "-f", "-d", "single", "-m", "single", "--csum", checksum.of_mkfs()];
        let mut arguments: Vec<OsString> = fixed.map(OsString::from).to_vec();
        if full {
            arguments.extend([OsString::from("--rootdir"), folder.clone().into()]);
        }
        arguments.push(image.clone().into());
        Ok::<_, Error>((arguments, image))
    };
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for checksum in &CHECKSUMS {
        let image = format!("{}-made.img", checksum.name);
        let (name, full) = if checksum.none { ("without files", false) } else { (checksum.name, true) };
        let mut about = About::new(MKFS, name).bytes(if full { data.length } else { 0 });
        about.control = checksum.none;
        let (arguments, _) = make(checksum, &image, full)?;
        subjects.push(Process::new(about, &tools.mkfs, arguments).boxed());
    }
    for checksum in &CHECKSUMS {
        let (name, option) = match checksum.none {
            true => ("metadata alone", None),
            false => (checksum.name, Some("--check-data-csum")),
        };
        let mut about = About::new(CHECK, name).bytes(data.length);
        about.control = checksum.none;
        let (arguments, image) = make(checksum, &format!("{}-checked.img", checksum.name), true)?;
        run(std::process::Command::new(&tools.mkfs).args(arguments))?;
        let mut arguments = vec![OsString::from("check")];
        arguments.extend(option.map(OsString::from));
        arguments.push(image.into());
        subjects.push(Process::new(about, &tools.btrfs, arguments).boxed());
    }
    Ok(subjects)
}
