//! Block hashes in lists of checksums: their tags, and how to verify them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verisum::blockhash::{Params, is_block_hash};
use verisum::digest::{Digest, Output};
use verisum::files::check::Find;
use verisum::files::reread::{self, Bypass};
use verisum::files::store::manifest::{self, BlockHash, Listed};
use verisum::files::{FileError, Operation};
use verisum::image::{ImageFormat, ImageOperation, is_nbd_uri};

use crate::ui::failure::Failure;
use crate::ui::input::{self, HashSettings, Input, SECTOR, Sum};
use crate::ui::names;

/// The word for the bytes that are there, without zeros up to a whole sector.
const EXACT: &str = "EXACT";

/// The word for a snapshot inside the image, which one nobody knows but who asked for it.
const SNAPSHOT: &str = "SNAPSHOT";

/// What the tag says of a value but for its digest. A format is named only where it was asked for: else the
/// bytes tell it again.
pub(crate) fn described(settings: &HashSettings, sum: Option<&Sum>) -> BlockHash {
    let is_part = sum.is_some_and(|sum| !sum.length.is_multiple_of(SECTOR));
    let mut view = Vec::new();
    if is_part || !settings.pad_files {
        view.push(EXACT.to_string());
    }
    view.extend(settings.format.map(|format| format.name().to_ascii_uppercase()));
    if settings.snapshot.is_some() {
        view.push(SNAPSHOT.to_string());
    }
    BlockHash { block_size: settings.params.block_bytes(), view }
}

/// The tag of a value.
pub(crate) fn tag(settings: &HashSettings, sum: &Sum) -> String {
    manifest::block_hash_tag(settings.params.digest().name(), &described(settings, Some(sum)))
}

/// Computes the block hash that a line of a list names, in the way that the line says, and as `usual` says
/// where it does not.
pub(crate) fn compute(
    usual: &HashSettings,
    find: Find,
    directory: &Path,
    listed: &Listed,
) -> Result<Output, FileError> {
    let name = OsStr::from_bytes(&listed.name);
    let input = match name.as_bytes() {
        b"-" => Input::Stdin,
        _ if is_nbd_uri(name) || usual.is_in_bucket(name) => Input::Named(name.to_os_string()),
        _ => Input::Named(directory.join(name).into_os_string()),
    };
    let path = input.path();
    let other = |what: String| FileError::io(&path, Operation::Open, io::Error::other(what));
    let (Some(line), [claim]) = (&listed.block_hash, &listed.claims[..]) else {
        return Err(other("the line has no block hash".to_string()));
    };
    let digest = find(&claim.algorithm).map_err(|source| FileError::Digest { path: path.clone(), source })?;
    let settings = settings(usual, digest, line).map_err(other)?;
    let sum = input::sum(&input, &settings).map_err(|failure| of_tree(&path, &failure))?;
    if sum.modified {
        input::warn_modified(&input);
    }
    Ok(sum.digest)
}

/// Whether `digest`, which is not the digest of the file, is the block hash of it with one of the usual block
/// sizes.
pub(crate) fn fits(find: Find, path: &Path, algorithm: &str, digest: Output) -> bool {
    find(algorithm).is_ok_and(|found| is_block_hash(path, &found, digest, &|| false))
}

/// Whether `digest`, which is not the block hash of the file, is its plain digest.
pub(crate) fn is_digest(find: Find, path: &Path, algorithm: &str, digest: Output) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let (true, Ok(found)) = (is_file, find(algorithm)) else { return false };
    let read = std::fs::File::open(path).map(|file| reread::whole(&file, &found, Bypass::No));
    read.is_ok_and(|read| read.is_ok_and(|read| read.digest == digest))
}

/// The same with any digest that there is.
pub(crate) fn is_of(path: &Path, algorithm: &str, digest: Output) -> bool {
    fits(&|name: &str| Digest::find(name), path, algorithm, digest)
}

/// How to hash what a line names.
fn settings(usual: &HashSettings, digest: Digest, line: &BlockHash) -> Result<HashSettings, String> {
    let params = Params::new(digest).block_size(line.block_size).map_err(|error| error.to_string())?;
    let mut settings =
        HashSettings { params, pad_files: true, pad_streams: true, snapshot: None, ..usual.clone() };
    for word in &line.view {
        match word.as_str() {
            EXACT => (settings.pad_files, settings.pad_streams) = (false, false),
            SNAPSHOT if usual.snapshot.is_some() => settings.snapshot = usual.snapshot.clone(),
            SNAPSHOT => {
                return Err(
                    "it is of a snapshot, which has to be named (verisum image sum -c --snapshot NAME)"
                        .to_string(),
                );
            }
            format => match ImageFormat::find(&format.to_ascii_lowercase()) {
                Some(format) => settings.format = Some(format),
                None => return Err(format!("unknown view of an image: {}", names::plain(format))),
            },
        }
    }
    Ok(settings)
}

/// A failure as one of the file that a list names.
fn of_tree(path: &Path, failure: &Failure) -> FileError {
    if let Failure::Image(error) = failure
        && let verisum::image::ImageError::Io { operation: ImageOperation::Open, source, .. } = &**error
        && let Some(code) = source.raw_os_error()
    {
        return FileError::io(path, Operation::Open, io::Error::from_raw_os_error(code));
    }
    let message = failure.message();
    let name = format!("{}: ", names::quoted(path.as_os_str()));
    let why = message.strip_prefix(&name).unwrap_or(&message);
    FileError::io(path, Operation::Read, io::Error::other(why))
}
