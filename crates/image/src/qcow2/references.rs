//! References from an image to other files, and whether they are followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde_json::Value;

use crate::{Follow, ImageError, ImageFormat, ImageOperation, OpenOptions, RawImage};

/// Which files may be opened for an image.
#[derive(Debug)]
pub(crate) struct Fence {
    follow: Follow,
    /// The folder of the image, links resolved; nothing for standard input and devices.
    root: Option<PathBuf>,
}

/// A file that an image names.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) path: PathBuf,
    pub(crate) file: RawImage,
    /// Its format, where the name itself says so.
    pub(crate) format: Option<ImageFormat>,
}

impl Fence {
    /// Of the image called `path`.
    pub(crate) fn new(path: Option<&Path>, follow: Follow) -> Result<Fence, ImageError> {
        let root = match (path, follow) {
            (Some(path), Follow::SameDir) => {
                let folder = folder(path);
                let root =
                    folder.canonicalize().map_err(|e| ImageError::io(folder, ImageOperation::Open, e))?;
                Some(root).filter(|root| !is_systems(root))
            }
            _ => None,
        };
        Ok(Fence { follow, root })
    }

    /// Opens what `from` calls `name`; it is its `role`.
    pub(crate) fn open(
        &self,
        from: &Path,
        role: &'static str,
        name: &OsStr,
        options: &OpenOptions,
    ) -> Result<NamedFile, ImageError> {
        let not_followed = |why: &str| ImageError::Reference {
            path: from.to_path_buf(),
            role,
            reference: name.to_os_string(),
            why: why.to_string(),
        };
        let refused = |why: &str| {
            let what = format!("{role} {}: {why}", name.to_string_lossy());
            ImageError::Refused { path: from.to_path_buf(), what }
        };
        if self.follow == Follow::None {
            return Err(not_followed("it is not to be followed"));
        }
        if name.is_empty() || name.as_bytes().contains(&0) {
            return Err(refused("it is not the name of a file"));
        }
        let mut plain = Plain { name: name.to_os_string(), format: None };
        if is_protocol(name) {
            plain = Plain::parse(name).map_err(refused)?;
            if self.follow != Follow::Any {
                return Err(not_followed("it is not a plain file name"));
            }
        }
        let path = folder(from).join(&plain.name);
        let file = match self.follow {
            Follow::Any => {
                return Ok(NamedFile { file: RawImage::open(&path, options)?, path, format: plain.format });
            }
            _ => match &self.root {
                None => return Err(not_followed("the image has no folder of its own")),
                Some(root) => {
                    let target =
                        path.canonicalize().map_err(|e| ImageError::io(&path, ImageOperation::Open, e))?;
                    let Ok(inside) = target.strip_prefix(root) else {
                        return Err(not_followed("it lies outside the image's folder"));
                    };
                    open_inside(root, inside)
                        .map_err(|e| ImageError::io(&path, ImageOperation::Open, e.into()))?
                }
            },
        };
        let kind = file.metadata().map_err(|e| ImageError::io(&path, ImageOperation::Stat, e))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(refused("it is neither a file nor a block device"));
        }
        let file = RawImage::new(file, &path, 0, options)?;
        Ok(NamedFile { path, file, format: plain.format })
    }
}

/// The folder that relative names in a file are relative to.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether a folder is one in which the system keeps devices and descriptors: what lies side by side there
/// does not belong together.
fn is_systems(root: &Path) -> bool {
    root.starts_with("/proc") || (root.starts_with("/dev") && !root.starts_with("/dev/shm"))
}

/// Opens a name below a folder through no link at all: the links were resolved before, and one that is
/// there now was put there meanwhile.
fn open_inside(root: &Path, inside: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let folder = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&folder, inside, flags, Mode::empty(), resolve) {
        // Before Linux 5.6, and in some sandboxes.
        Err(Errno::NOSYS | Errno::PERM) => {
            Ok(rustix::fs::openat(&folder, inside, flags | OFlags::NOFOLLOW, Mode::empty())?.into())
        }
        result => Ok(result?.into()),
    }
}

/// Whether QEMU takes a name for an address: a colon comes before any slash.
fn is_protocol(name: &OsStr) -> bool {
    let special = name.as_bytes().iter().find(|byte| matches!(byte, b':' | b'/'));
    special == Some(&b':')
}

/// What an address says, if it is that of a file.
struct Plain {
    name: OsString,
    format: Option<ImageFormat>,
}

impl Plain {
    /// Understands `file:NAME`, and `json:` with a file in it. The error is why not.
    fn parse(name: &OsStr) -> Result<Plain, &'static str> {
        if let Some(path) = name.as_bytes().strip_prefix(b"file:") {
            return Ok(Plain { name: OsStr::from_bytes(path).to_os_string(), format: None });
        }
        match name.as_bytes().strip_prefix(b"json:") {
            Some(json) => {
                let value = serde_json::from_slice(json).map_err(|_| "it is not valid JSON")?;
                Plain::parse_json(&value, true)
            }
            None => Err("it is an address, and only files are followed"),
        }
    }

    /// A format driver with a file in it, or a file. Options that could change what is read are refused.
    fn parse_json(value: &Value, outer: bool) -> Result<Plain, &'static str> {
        const NOT_PLAIN: &str = "only json: of a driver with a file is supported";
        let object = value.as_object().ok_or(NOT_PLAIN)?;
        let (mut driver, mut file, mut filename, mut file_driver) = (None, None, None, None);
        for (key, value) in object {
            match (key.as_str(), value) {
                ("driver", Value::String(name)) => driver = Some(name.as_str()),
                ("file", Value::Object(_)) if outer => file = Some(Plain::parse_json(value, false)?.name),
                ("filename", Value::String(name)) => filename = Some(name),
                ("file.filename", Value::String(name)) if outer => file = Some(name.into()),
                ("file.driver", Value::String(name)) if outer => file_driver = Some(name.as_str()),
                _ => return Err(NOT_PLAIN),
            }
        }
        let is_file = |driver: Option<&str>| matches!(driver, None | Some("file" | "host_device"));
        match (file, filename) {
            (None, Some(name)) if is_file(driver) => Ok(Plain { name: name.into(), format: None }),
            (Some(name), None) if is_file(file_driver) => {
                let format = driver.map(|driver| ImageFormat::find(driver).ok_or(NOT_PLAIN)).transpose()?;
                Ok(Plain { name, format })
            }
            _ => Err(NOT_PLAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_a_slash_makes_an_address() {
        let is_protocol = |name: &str| is_protocol(name.as_ref());
        assert!(is_protocol("json:{}") && is_protocol("nbd://h/e") && is_protocol("a:b") && is_protocol(":"));
        assert!(!is_protocol("./a:b") && !is_protocol("/a:b") && !is_protocol("a") && !is_protocol("a/b:c"));
    }

    #[test]
    fn only_addresses_of_files_are_understood() {
        let parse = |name: &str| Plain::parse(name.as_ref()).map(|plain| (plain.name, plain.format));
        let raw = Ok(("b".into(), Some(ImageFormat::Raw)));
        assert_eq!(parse("file:/a"), Ok(("/a".into(), None)));
        assert_eq!(parse(r#"json:{"driver":"raw","file":{"driver":"file","filename":"b"}}"#), raw);
        assert_eq!(parse(r#"json:{"driver":"raw","file.driver":"file","file.filename":"b"}"#), raw);
        assert_eq!(parse(r#"json:{"driver":"file","filename":"b"}"#), Ok(("b".into(), None)));
        for refused in [
            "nbd://h/e",
            "json:",
            "json:{",
            "json:[]",
            "json:{}",
            r#"json:{"driver":"raw","offset":512,"file":{"driver":"file","filename":"b"}}"#,
            r#"json:{"driver":"raw","file":{"driver":"nbd","host":"h"}}"#,
            r#"json:{"driver":"raw","file":{"driver":"raw","file":{"driver":"file","filename":"b"}}}"#,
            r#"json:{"driver":"quorum","file":{"driver":"file","filename":"b"}}"#,
            r#"json:{"driver":"raw","filename":"b"}"#,
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }
}
