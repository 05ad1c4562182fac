//! The tools of btrfs, which need no root. They make and check a file system in a file, with their own code,
//! not the kernel's.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::volume::run;
use super::{BtrfsChecksum, CHECKSUMS, Data, WorkFolder};
use crate::measure::{About, MeasureError, Process, Subject, find_program};

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
    pub fn find(path: Option<&OsStr>) -> Result<Tools, MeasureError> {
        let find = |name: &str| {
            find_program(name, path).ok_or_else(|| {
                MeasureError::Unavailable(format!("{name}: not found; the Debian package is btrfs-progs"))
            })
        };
        Ok(Tools { mkfs: find("mkfs.btrfs")?, btrfs: find("btrfs")? })
    }
}

/// What the rows need in the place, in bytes: the folder, an image for each checksum to be checked, and one
/// that is made again and again.
pub fn rootless_needs(data: u64) -> u64 {
    data + (CHECKSUMS.len() as u64 + 1) * image_needs(data)
}

/// What one image takes, in bytes. Checksums of 32 bytes for each sector of 4 KiB are a 128th of the data,
/// and lie in leaves that are not full; the superblocks and the system's chunk take some MiB.
fn image_needs(data: u64) -> u64 {
    data + data / 64 + (32 << 20)
}

/// The image that is made again and again, whatever the checksum: with one for each there would have to be
/// room for all of them.
const MADE: &str = "made.img";

/// A row for each checksum and tool. Without checksums of data there is no check of them, so as a control
/// the metadata alone are checked, and a file system without files is made.
pub fn rootless<'a>(
    place: &WorkFolder,
    tools: &Tools,
    data: &Data,
) -> Result<Vec<Box<dyn Subject + 'a>>, MeasureError> {
    let needs = rootless_needs(data.length);
    if place.free()? < needs {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        return Err(MeasureError::io(place.path(), "write", full));
    }
    let folder = place.path().join("rootdir");
    std::fs::create_dir(&folder).map_err(|error| MeasureError::io(&folder, "create", error))?;
    data.write(&folder.join("file"))?;
    let make = |checksum: &BtrfsChecksum, image: &str, full: bool| {
        let image = place.path().join(image);
        // It makes the file longer than it is, and never shorter.
        let file = std::fs::File::create(&image);
        file.and_then(|file| file.set_len(super::Volume::length(data.length)))
            .map_err(|error| MeasureError::io(&image, "create", error))?;
        let fixed = ["-q", "-f", "-d", "single", "-m", "single", "--csum", checksum.of_mkfs()];
        let mut arguments: Vec<OsString> = fixed.map(OsString::from).to_vec();
        if full {
            arguments.extend([OsString::from("--rootdir"), folder.clone().into()]);
        }
        arguments.push(image.clone().into());
        Ok::<_, MeasureError>((arguments, image))
    };
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for checksum in &CHECKSUMS {
        let (name, full) = if checksum.none { ("without files", false) } else { (checksum.name, true) };
        let mut about = About::new(MKFS, name).bytes(if full { data.length } else { 0 });
        about.control = checksum.none;
        let (arguments, _) = make(checksum, MADE, full)?;
        subjects.push(Process::new(about, &tools.mkfs, arguments).boxed());
    }
    for checksum in &CHECKSUMS {
        let (name, option) = match checksum.none {
            true => ("metadata alone", None),
            false => (checksum.name, Some("--check-data-csum")),
        };
        // The control looks at no data.
        let mut about = About::new(CHECK, name).bytes(if checksum.none { 0 } else { data.length });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{MeasureAmount, MeasurePlan, measure};
    use verisum_testkit::require_tool;

    /// Checks the room for an amount of data by its use, with what has the longest checksums.
    #[test]
    fn images_need_no_more_than_they_are_given() {
        let (Some(_), Some(_)) = (require_tool("mkfs.btrfs"), require_tool("btrfs")) else { return };
        let tools = Tools::find(std::env::var_os("PATH").as_deref()).unwrap();
        for mib in [4u64, 40] {
            let parent = tempfile::tempdir().unwrap();
            let place = WorkFolder::in_folder(parent.path()).unwrap();
            let data = Data::new(mib << 20);
            let mut subjects = rootless(&place, &tools, &data).unwrap();
            let plan = MeasurePlan { amount: MeasureAmount::Rounds(2), ..MeasurePlan::default() };
            let series = measure(&mut subjects, &plan, &mut ());
            assert!(series.iter().all(|one| one.skipped.is_none()), "{series:?}");
            use std::os::unix::fs::MetadataExt;
            let files = std::fs::read_dir(place.path()).unwrap().flatten();
            let images = files.filter(|file| file.file_name().to_string_lossy().ends_with(".img"));
            let taken: Vec<u64> = images.map(|file| file.metadata().unwrap().blocks() * 512).collect();
            assert_eq!(taken.len(), CHECKSUMS.len() + 1);
            assert!(taken.iter().all(|bytes| *bytes <= image_needs(data.length)), "{mib}: {taken:?}");
        }
    }
}
