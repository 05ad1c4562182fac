//! Finds the other files that an image makes QEMU open, before QEMU sees the image.
//!
//! What is found is at least what QEMU finds, whose parsers take much that is malformed: where this one is
//! not sure, it takes a name for a reference. What QEMU would read wrongly without a word is refused: an
//! image that needs a parent of which QEMU knows nothing, and one that is cut short.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::bytes::{PeekedFile, big, little};
use super::truncated;
use crate::{Follow, ImageError, ImageFormat, ImageOperation, START_LEN};

/// The most files that one image may consist of.
const MOST_FILES: usize = 4096;

/// The longest name in bytes.
const LONGEST_NAME: usize = 4095;

/// A file that another names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// What it is to the other.
    pub(super) role: &'static str,
    /// As it is stored.
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    /// How many sectors it must have at least, if that is said.
    pub(super) sectors: Option<u64>,
}

impl Reference {
    fn new(role: &'static str, name: &[u8], kind: Kind) -> Reference {
        Reference { role, name: name.to_vec(), kind, sectors: None }
    }

    /// Its name as a path.
    pub(super) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.name))
    }
}

/// What QEMU takes another file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes that are only read.
    Bytes,
    /// A part of a VMDK image, which may have parts of its own.
    Part,
    /// An image of this format if it looks like one, else of whatever it looks like.
    Image(ImageFormat),
}

/// Checks that an image makes QEMU open no file but those that may be followed.
///
/// # Errors
/// [`ImageError::Reference`] for one that may not, [`ImageError::Refused`] and [`ImageError::Invalid`] for an
/// image that QEMU misreads, [`ImageError::Io`] where a file cannot be read.
pub(super) fn check(path: &Path, format: ImageFormat, follow: Follow) -> Result<(), ImageError> {
    let mut seen = BTreeSet::new();
    let mut found = vec![(path.to_path_buf(), format)];
    while let Some((path, format)) = found.pop() {
        let file = File::open(&path).map_err(|error| ImageError::io(&path, ImageOperation::Open, error))?;
        let bytes = PeekedFile { path: &path, file: &file };
        if let Some(what) = misread(&bytes, format)? {
            return Err(ImageError::Refused { path, what: what.to_string() });
        }
        // Nothing of another file may be looked at, nor told, before it is known that it may be.
        let references = if follow == Follow::Any { Vec::new() } else { references(&bytes, format)? };
        for reference in references {
            let refused = |why: &str| ImageError::Reference {
                path: path.clone(),
                role: reference.role,
                reference: OsString::from_vec(reference.name.clone()),
                why: why.to_string(),
            };
            if follow == Follow::None {
                return Err(refused("other files are not followed"));
            }
            let target = match located(&path, &reference.name) {
                None => return Err(refused("is a name of a protocol")),
                Some((target, Ok(true))) => target,
                // No hint: following all would not find it either.
                Some((target, Err(error))) if stays_below(&reference.name) => {
                    return Err(ImageError::io(&target, ImageOperation::Open, error));
                }
                // Whether there is such a file elsewhere is not told.
                Some(_) => return Err(refused("is no file in the image's folder")),
            };
            if !seen.insert(target.clone()) {
                continue;
            }
            if seen.len() > MOST_FILES {
                return Err(refused("too many files"));
            }
            match reference.kind {
                Kind::Bytes => {}
                Kind::Part => found.push((target, ImageFormat::Vmdk)),
                Kind::Image(format) if looks_like(&target, format)? => found.push((target, format)),
                Kind::Image(_) => {
                    return Err(refused("its format is not recorded, and is not guessed"));
                }
            }
        }
        if let Some(short) = truncated::find(&bytes, format)? {
            let part = short.part.map(|name| format!("extent {} ", String::from_utf8_lossy(&name)));
            let (part, length, needed) = (part.unwrap_or_default(), short.length, short.needed);
            let what = format!("{part}is truncated: {length} bytes, of {needed} at least");
            return Err(ImageError::invalid(&path, ImageOperation::Open, None, what));
        }
    }
    Ok(())
}

/// Where a name in the file `path` leads, joined as QEMU joins it, and whether that is a regular file in
/// the file's folder or below, if it can be found. `None`: the name is no path.
fn located(path: &Path, name: &[u8]) -> Option<(PathBuf, io::Result<bool>)> {
    if name.iter().find(|byte| b":/".contains(byte)) == Some(&b':') {
        return None;
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let target = folder.join(OsStr::from_bytes(name));
    let inside = || {
        let resolved = target.canonicalize()?;
        Ok(resolved.starts_with(folder.canonicalize()?) && resolved.is_file())
    };
    let inside = inside();
    Some((target, inside))
}

/// Whether a name cannot lead out of its folder but by a link.
fn stays_below(name: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(name)).components().all(|part| matches!(part, Component::Normal(_)))
}

fn looks_like(path: &Path, format: ImageFormat) -> Result<bool, ImageError> {
    let file = File::open(path).map_err(|error| ImageError::io(path, ImageOperation::Open, error))?;
    let start = PeekedFile { path, file: &file }.at(0, START_LEN)?;
    Ok(ImageFormat::probe_start(&start) == format)
}

/// What QEMU would get wrong without a word.
fn misread(bytes: &PeekedFile<'_>, format: ImageFormat) -> Result<Option<&'static str>, ImageError> {
    const DIFFERENCING: &str = "is a differencing image, which needs a parent that QEMU does not read";
    const ENCRYPTED: &str = "encrypted images (AES) are not supported";
    /// Where the header of a qcow 1 image has the method of encryption.
    const QCOW_METHOD: u64 = 36;
    if format == ImageFormat::Qcow && big(&bytes.at(QCOW_METHOD, 4)?, 0, 4) != 0 {
        return Ok(Some(ENCRYPTED));
    }
    let needs_parent = match format {
        ImageFormat::Vpc => vhd_needs_parent(bytes)?,
        ImageFormat::Vhdx => vhdx_needs_parent(bytes)?,
        ImageFormat::Raw | ImageFormat::Qcow2 | ImageFormat::Qcow | ImageFormat::Qed | ImageFormat::Vmdk => {
            false
        }
        ImageFormat::Vdi | ImageFormat::Parallels | ImageFormat::Dmg => false,
    };
    Ok(needs_parent.then_some(DIFFERENCING))
}

/// The files that a file of this format names.
pub(super) fn references(bytes: &PeekedFile<'_>, format: ImageFormat) -> Result<Vec<Reference>, ImageError> {
    match format {
        ImageFormat::Vmdk => vmdk(bytes),
        ImageFormat::Qed => qed(bytes),
        ImageFormat::Qcow => qcow(bytes),
        // QEMU's own code opens none for these; those of qcow2 are opened elsewhere.
        ImageFormat::Raw | ImageFormat::Qcow2 | ImageFormat::Vdi | ImageFormat::Vhdx => Ok(Vec::new()),
        ImageFormat::Vpc | ImageFormat::Parallels | ImageFormat::Dmg => Ok(Vec::new()),
    }
}

/// VMDK: the file is a description in words, or sparse data with a description inside.
fn vmdk(bytes: &PeekedFile<'_>) -> Result<Vec<Reference>, ImageError> {
    /// Where and how long QEMU looks for the parent's name in sparse data.
    const PARENT_AT: u64 = 0x200;
    const PARENT_LEN: usize = 20 * 512;
    /// How much of a description QEMU reads.
    const DESCRIPTION_LEN: usize = 1 << 20;
    let start = bytes.at(0, 64)?;
    let mut found = Vec::new();
    if start.starts_with(b"KDMV") || start.starts_with(b"COWD") {
        parents(&bytes.at(PARENT_AT, PARENT_LEN)?, &mut found);
        let capacity = little(&start, 12, 8);
        // Sparse data of no capacity is a description somewhere else.
        if start.starts_with(b"KDMV") && capacity == 0 {
            let description = bytes.at(little(&start, 28, 8).saturating_mul(512), DESCRIPTION_LEN)?;
            parents(&description, &mut found);
            parts(&description, &mut found);
        }
    } else {
        let description = bytes.at(0, DESCRIPTION_LEN)?;
        parents(&description, &mut found);
        parts(&description, &mut found);
    }
    Ok(found)
}

/// The parents that a description of VMDK names: `parentFileNameHint="NAME"`.
fn parents(description: &[u8], found: &mut Vec<Reference>) {
    const KEY: &[u8] = b"parentFileNameHint";
    for place in places(description, KEY) {
        // QEMU takes whatever the two bytes after the key are for `="`.
        let Some(rest) = description.get(place + KEY.len() + 2..) else { continue };
        if let Some(end) = rest.iter().position(|&byte| byte == b'"') {
            let name = &rest[..end.min(LONGEST_NAME)];
            found.push(Reference::new("backing file", name, Kind::Image(ImageFormat::Vmdk)));
        }
    }
}

/// The parts that a description of VMDK names: `RW 63 SPARSE "NAME"`, however it is broken into lines.
pub(super) fn parts(description: &[u8], found: &mut Vec<Reference>) {
    /// The longest name that QEMU reads; it cuts others.
    const LONGEST: usize = 511;
    for place in places(description, b"\"") {
        let before = &description[..place];
        let word = before.trim_ascii_end();
        let kind = match word {
            _ if word.len() == before.len() => continue,
            _ if word.ends_with(b"FLAT") || word.ends_with(b"VMFS") => Kind::Bytes,
            _ if word.ends_with(b"SPARSE") => Kind::Part,
            _ => continue,
        };
        let rest = &description[place + 1..];
        let end = rest.iter().position(|byte| b"\"\r\n\0".contains(byte)).unwrap_or(rest.len());
        let mut part = Reference::new("extent", &rest[..end.min(LONGEST)], kind);
        if word.ends_with(b"FLAT") {
            part.sectors = flat_sectors(word, rest.get(end + 1..).unwrap_or_default());
        }
        found.push(part);
    }
}

/// The sectors of a part's file that are used: the count before its kind, from the offset after its name.
fn flat_sectors(before: &[u8], after: &[u8]) -> Option<u64> {
    let number = |word: Option<&[u8]>| std::str::from_utf8(word?).ok()?.parse::<u64>().ok();
    let is_word = |word: &&[u8]| !word.is_empty();
    let count = number(before.rsplit(u8::is_ascii_whitespace).filter(is_word).nth(1))?;
    let offset = number(after.split(u8::is_ascii_whitespace).find(is_word))?;
    count.checked_add(offset)
}

/// QED: the header has the place of the backing file's name.
fn qed(bytes: &PeekedFile<'_>) -> Result<Vec<Reference>, ImageError> {
    const HAS_BACKING: u64 = 1;
    const BACKING_IS_RAW: u64 = 4;
    let header = bytes.at(0, 64)?;
    let features = little(&header, 16, 8);
    if header.len() < 64 || features & HAS_BACKING == 0 {
        return Ok(Vec::new());
    }
    let name = bytes.at(little(&header, 56, 4), (little(&header, 60, 4) as usize).min(LONGEST_NAME))?;
    let kind = if features & BACKING_IS_RAW != 0 { Kind::Bytes } else { Kind::Image(ImageFormat::Qed) };
    Ok(vec![Reference::new("backing file", &name, kind)])
}

/// The first version of qcow: the same.
fn qcow(bytes: &PeekedFile<'_>) -> Result<Vec<Reference>, ImageError> {
    let header = bytes.at(0, 20)?;
    let place = big(&header, 8, 8);
    if place == 0 {
        return Ok(Vec::new());
    }
    let name = bytes.at(place, (big(&header, 16, 4) as usize).min(LONGEST_NAME))?;
    Ok(vec![Reference::new("backing file", &name, Kind::Image(ImageFormat::Qcow))])
}

/// Whether a VHD is one of differences: the type in its footer, which sparse ones have at the start too.
fn vhd_needs_parent(bytes: &PeekedFile<'_>) -> Result<bool, ImageError> {
    const DIFFERENCING: u64 = 4;
    let length = bytes.length()?;
    for place in [0, length.saturating_sub(512), length.saturating_sub(511)] {
        let footer = bytes.at(place, 64)?;
        if footer.starts_with(b"conectix") && big(&footer, 60, 4) == DIFFERENCING {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a VHDX is one of differences: a flag among its metadata, which the table of regions leads to.
fn vhdx_needs_parent(bytes: &PeekedFile<'_>) -> Result<bool, ImageError> {
    const REGIONS_AT: u64 = 192 << 10;
    const METADATA: [u8; 16] = *b"\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e";
    const FILE_PARAMETERS: [u8; 16] = *b"\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b";
    const HAS_PARENT: u64 = 2;
    /// Both tables are this long.
    const TABLE_LEN: usize = 64 << 10;
    let entry = |table: &[u8], header: usize, id: &[u8]| -> Option<[u64; 2]> {
        let found = table.get(header..)?.chunks_exact(32).find(|entry| entry.starts_with(id))?;
        Some([little(found, 16, 8), little(found, 16, 4)])
    };
    let regions = bytes.at(REGIONS_AT, TABLE_LEN)?;
    let Some([metadata, _]) = entry(&regions, 16, &METADATA) else { return Ok(false) };
    let items = bytes.at(metadata, TABLE_LEN)?;
    let Some([_, item]) = entry(&items, 32, &FILE_PARAMETERS) else { return Ok(false) };
    let parameters = bytes.at(metadata.saturating_add(item), 8)?;
    Ok(little(&parameters, 4, 4) & HAS_PARENT != 0)
}

/// Every place where `what` begins.
fn places<'a>(text: &'a [u8], what: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    text.windows(what.len()).enumerate().filter(move |(_, window)| *window == what).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        parents(text.as_bytes(), &mut found);
        parts(text.as_bytes(), &mut found);
        found.into_iter().map(|reference| String::from_utf8(reference.name).unwrap()).collect()
    }

    #[test]
    fn descriptions_are_read_no_less_freely_than_by_qemu() {
        assert_eq!(
            names("CID=1\ncreateType=\"monolithicFlat\"\nRW 63 FLAT \"a-flat.vmdk\" 0\n"),
            ["a-flat.vmdk"]
        );
        assert_eq!(names("RW\n63\n SPARSE\t\"a\rb"), ["a"]);
        // A quotation mark before hides nothing.
        assert_eq!(names("x=\"\nRW 63 FLAT \"/etc/passwd\" 0"), ["/etc/passwd"]);
        assert_eq!(names("RW 63FLAT \"a\" 0\nRW 4 VMFSSPARSE \"b\"\nRW 4 SESPARSE \"c\"\n"), ["a", "b", "c"]);
        assert_eq!(names("parentFileNameHint=\"/p\"\nparentFileNameHint  q\""), ["/p", "q"]);
        assert_eq!(
            names("RW 63 ZERO\nddb.uuid = \"60 00\"\nadapterType=\"ide\"\nname=\"x FLAT\"\n"),
            [""; 0]
        );
        assert_eq!(names(&format!("RW 1 FLAT \"{}", "n".repeat(600))), ["n".repeat(511)]);
        assert_eq!(names("parentFileNameHint"), [""; 0]);
    }

    #[test]
    fn names_are_located_from_the_file_that_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        for file in [folder.path().join("outside"), inner.join("image"), inner.join("part")] {
            std::fs::write(file, b"").unwrap();
        }
        std::os::unix::fs::symlink("../outside", inner.join("link")).unwrap();
        let image = inner.join("image");
        let inside = |name: &str| located(&image, name.as_bytes()).map(|(_, inside)| inside.ok());
        for name in ["part", "../inner/part", inner.join("part").to_str().unwrap()] {
            assert_eq!(inside(name), Some(Some(true)), "{name}");
        }
        for outside in ["../outside", "link", "/dev/null", "."] {
            assert_eq!(inside(outside), Some(Some(false)), "{outside}");
        }
        for protocol in ["nbd:localhost:1", "json:{}", "nbd://h/"] {
            assert_eq!(inside(protocol), None, "{protocol}");
        }
        assert_eq!(inside("absent"), Some(None));
    }

    #[test]
    fn nothing_is_told_of_files_that_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let (image, outside) = (inner.join("image"), folder.path().join("outside"));
        std::fs::write(&outside, b"secret").unwrap();
        let description = format!("RW 63 FLAT \"{}\" 0\n", outside.display());
        for description in [description.as_str(), "RW 63 FLAT \"../outside\" 0\n"] {
            std::fs::write(&image, description).unwrap();
            let message = |follow| check(&image, ImageFormat::Vmdk, follow).unwrap_err().to_string();
            let whether = [message(Follow::None), message(Follow::SameDir)];
            assert!(whether[0].ends_with(": other files are not followed"), "{whether:?}");
            assert!(whether[1].ends_with(": is no file in the image's folder"), "{whether:?}");
            // The same where there is none.
            std::fs::rename(&outside, folder.path().join("elsewhere")).unwrap();
            assert_eq!(whether, [message(Follow::None), message(Follow::SameDir)]);
            std::fs::rename(folder.path().join("elsewhere"), &outside).unwrap();
            assert!(message(Follow::Any).contains("is truncated: 6 bytes"));
        }
        std::fs::write(&image, "RW 63 FLAT \"absent\" 0\n").unwrap();
        let error = check(&image, ImageFormat::Vmdk, Follow::SameDir).unwrap_err();
        assert_eq!(error.to_string(), format!("{}/absent: open: No such file or directory", inner.display()));
    }

    #[test]
    fn encrypted_images_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let mut header = [0; 48];
        header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x01");
        for (method, refused) in [(0, false), (1, true)] {
            header[39] = method;
            std::fs::write(&path, header).unwrap();
            assert_eq!(check(&path, ImageFormat::Qcow, Follow::None).is_err(), refused);
        }
    }

    #[test]
    fn hostile_numbers_are_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        for (format, start) in [
            (ImageFormat::Vmdk, &b"KDMV"[..]),
            (ImageFormat::Qed, b"QED\0"),
            (ImageFormat::Qcow, b"QFI\xfb\0\0\0\x01"),
            (ImageFormat::Vpc, b"conectix"),
            (ImageFormat::Vhdx, b"vhdxfile"),
        ] {
            for fill in [0, 0xff] {
                for length in [0, 1, 8, 63, 64, 512, 200 << 10] {
                    let mut bytes = vec![fill; length];
                    let count = start.len().min(length);
                    bytes[..count].copy_from_slice(&start[..count]);
                    std::fs::write(&path, &bytes).unwrap();
                    let _ = check(&path, format, Follow::SameDir);
                }
            }
        }
    }
}
