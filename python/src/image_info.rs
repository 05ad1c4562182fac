//! `image_info`: what is known of a disk image without reading its content, as `verisum image info` tells it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use pyo3::prelude::*;
use verisum::image::{self as engine, Image, KnownContent, Layer, Opened, Property, open_named};
use verisum::mend::image::is_map;

use crate::arguments::FsPath;
use crate::errors::{Failure, Kind, image_failure};
use crate::image::padding;
use crate::interrupt::{Leftover, abandonable};

/// What a format says of an image under a name.
#[derive(Clone, IntoPyObject)]
pub(crate) enum PropertyValue {
    Text(String),
    Number(u64),
    Flag(bool),
}

fields! {
    #[derive(Clone)]
    ImageLayer {
        role: &'static str,
        name: OsString,
        format: &'static str,
        size: Option<u64>,
        file_size: Option<u64>,
        stored: Option<u64>,
        cluster_size: Option<u64>,
        properties: BTreeMap<&'static str, PropertyValue>,
        warnings: Vec<String>,
    }
}

fields! {
    #[derive(Clone)]
    ImageSnapshot {
        id: String,
        name: String,
        taken_ms: u64,
        size: u64,
        state_size: u64,
    }
}

fields! {
    #[derive(Clone)]
    ImageBitmap {
        name: String,
        granularity: u64,
        enabled: bool,
        in_use: bool,
    }
}

fields! {
    #[derive(Default)]
    ImageInfo {
        size: Option<u64>,
        padded: Option<u64>,
        data: Option<u64>,
        compressed: Option<u64>,
        zero: Option<u64>,
        layers: Vec<ImageLayer>,
        snapshots: Vec<ImageSnapshot>,
        bitmaps: Vec<ImageBitmap>,
        errors: Vec<String>,
    }
}

#[pymethods]
impl ImageInfo {
    fn __repr__(&self) -> String {
        let format = self.layers.first().map_or("unknown", |layer| layer.format);
        match self.size {
            Some(size) => format!("<verisum.ImageInfo {format} of {size} bytes>"),
            None => format!("<verisum.ImageInfo {format}>"),
        }
    }
}

#[pymethods]
impl ImageLayer {
    fn __repr__(&self) -> String {
        format!("<verisum.ImageLayer {} {:?}: {}>", self.role, self.name, self.format)
    }
}

#[pymethods]
impl ImageSnapshot {
    fn __repr__(&self) -> String {
        format!("<verisum.ImageSnapshot {:?} of {} bytes>", self.name, self.size)
    }
}

#[pymethods]
impl ImageBitmap {
    fn __repr__(&self) -> String {
        format!("<verisum.ImageBitmap {:?}, a bit for {} bytes>", self.name, self.granularity)
    }
}

#[doc = stub!("image_info")]
#[pyfunction]
pub(crate) fn image_info(py: Python<'_>, path: FsPath) -> PyResult<ImageInfo> {
    let found = abandonable(py, Leftover::Reads, &mut |_| Ok(()), move |_| found(&path.path))?;
    found.map_err(|failure| failure.raise(py))
}

fn found(path: &Path) -> Result<ImageInfo, Failure> {
    let options = padding(false);
    let is_file = path.metadata().is_ok_and(|kind| kind.is_file() || kind.file_type().is_block_device());
    if is_map(path) {
        let message = format!("{}: open: this is a block map, which BlockMap describes", path.display());
        return Err(Failure::new(Kind::Image, &message).path(path).operation("open"));
    }
    let failed = |error: engine::ImageError| image_failure(path, &error.into());
    let mut info = match open_named(path.as_os_str(), &options) {
        Ok(Opened::Image(image)) => of_image(&*image).map_err(failed)?,
        Ok(Opened::Stream(_)) => {
            let message = format!("{}: info: nothing is known of a pipe before it is read", path.display());
            return Err(Failure::new(Kind::Image, &message).path(path).operation("info"));
        }
        Err(error) => {
            let layers = if is_file { engine::describe(path, &options).0 } else { Vec::new() };
            let Some(first) = layers.first() else { return Err(failed(error)) };
            ImageInfo {
                size: first.length,
                layers: of_layers(layers),
                errors: vec![error.to_string()],
                ..ImageInfo::default()
            }
        }
    };
    if is_file {
        match engine::kept(path, &options) {
            Ok(kept) => {
                info.snapshots = kept.snapshots.into_iter().map(ImageSnapshot::from).collect();
                info.bitmaps = kept.bitmaps.into_iter().map(ImageBitmap::from).collect();
            }
            Err(error) => info.errors.push(error.to_string()),
        }
    }
    Ok(info)
}

fn of_image(image: &dyn Image) -> Result<ImageInfo, engine::ImageError> {
    let KnownContent { data, compressed, zero } = KnownContent::of(image)?;
    Ok(ImageInfo {
        size: Some(image.length()),
        padded: Some(image.padded_by()),
        data: Some(data),
        compressed: Some(compressed),
        zero: Some(zero),
        layers: of_layers(image.layers()),
        ..ImageInfo::default()
    })
}

fn of_layers(layers: Vec<Layer>) -> Vec<ImageLayer> {
    layers.into_iter().map(ImageLayer::from).collect()
}

impl From<Layer> for ImageLayer {
    fn from(layer: Layer) -> ImageLayer {
        let value = |property| match property {
            Property::Text(text) => PropertyValue::Text(text),
            Property::Number(number) => PropertyValue::Number(number),
            Property::Flag(flag) => PropertyValue::Flag(flag),
        };
        ImageLayer {
            role: layer.role.name(),
            name: layer.name,
            format: layer.format,
            size: layer.length,
            file_size: layer.file_length,
            stored: layer.stored,
            cluster_size: layer.cluster_size,
            properties: layer
                .properties
                .into_iter()
                .map(|(name, property)| (name, value(property)))
                .collect(),
            warnings: layer.warnings,
        }
    }
}

impl From<engine::KeptSnapshot> for ImageSnapshot {
    fn from(snapshot: engine::KeptSnapshot) -> ImageSnapshot {
        let engine::KeptSnapshot { id, name, seconds, length, state_length } = snapshot;
        ImageSnapshot {
            id,
            name,
            taken_ms: seconds.saturating_mul(1000),
            size: length,
            state_size: state_length,
        }
    }
}

impl From<engine::Bitmap> for ImageBitmap {
    fn from(bitmap: engine::Bitmap) -> ImageBitmap {
        let engine::Bitmap { name, granularity, in_use, enabled } = bitmap;
        ImageBitmap { name, granularity, enabled, in_use }
    }
}
