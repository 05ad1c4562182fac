//! The files that an image of one of QEMU's formats consists of.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::bytes::PeekedFile;
use super::references::{Kind, Reference, references};
use crate::{ImageFormat, Layer, Role};

/// The most files that are listed.
const MOST_FILES: usize = 4096;

/// The files that an image names, and what they name, where QEMU has opened them: what is not there then is
/// no reference but looks like one.
pub(super) fn of_opened(path: &Path, format: ImageFormat) -> Vec<Layer> {
    let mut seen = BTreeSet::new();
    let mut next = vec![(path.to_path_buf(), format)];
    let mut found = Vec::new();
    while let Some((path, format)) = next.pop() {
        for reference in of(&path, format) {
            let target = folder(&path).join(reference.path());
            let Ok(metadata) = target.metadata() else { continue };
            if !seen.insert((metadata.dev(), metadata.ino())) || seen.len() > MOST_FILES {
                continue;
            }
            let mut layer = layer(&target, &reference);
            if metadata.is_file() {
                layer.file_length = Some(metadata.len());
                layer.stored = Some(metadata.blocks() * 512);
                if let Some(format) = reference.kind.format() {
                    next.push((target, format));
                }
            }
            found.push(layer);
        }
    }
    found
}

/// The files that an image names; none of them is looked at.
pub(super) fn named(path: &Path, format: ImageFormat) -> Vec<Layer> {
    let found = of(path, format).into_iter().take(MOST_FILES);
    found.map(|reference| layer(&folder(path).join(reference.path()), &reference)).collect()
}

fn of(path: &Path, format: ImageFormat) -> Vec<Reference> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    references(&PeekedFile { path, file: &file }, format).unwrap_or_default()
}

/// The folder that a name in a file is relative to.
fn folder(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn layer(target: &Path, reference: &Reference) -> Layer {
    Layer {
        role: match reference.role {
            "extent" => Role::Extent,
            _ => Role::BackingFile,
        },
        name: target.into(),
        format: reference.kind.format().unwrap_or(ImageFormat::Raw).name(),
        ..Layer::default()
    }
}

impl Kind {
    /// The format of the file, if it is not mere bytes.
    fn format(self) -> Option<ImageFormat> {
        match self {
            Kind::Bytes => None,
            Kind::Part => Some(ImageFormat::Vmdk),
            Kind::Image(format) => Some(format),
        }
    }
}
