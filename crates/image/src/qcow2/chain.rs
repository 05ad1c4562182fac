//! Opens a qcow2 image with all the files that it needs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::clusters::Node;
use super::header::Header;
use super::references::{Fence, NamedFile};
use super::snapshots::Snapshot;
use super::tables::Tables;
use super::{Link, Qcow2Image};
use crate::{
    ExtentLocation, Image, ImageError, ImageFormat, ImageOperation, Layer, OpenOptions, Property, RawImage,
    Role, qemu,
};

/// The longest chain: each file of it takes two descriptors, of which a process usually has 1,024.
const MAX_LINKS: usize = 256;

/// Opens the qcow2 image in `file`, which errors call `path`. `named` is whether that is its name, or it
/// has none.
pub(crate) fn open(
    file: RawImage,
    path: &Path,
    named: bool,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, ImageError> {
    let mut layers = Vec::new();
    let links = links(file, path, named, options, &mut layers)?;
    Ok(Box::new(Qcow2Image::new(links, layers)))
}

/// What is known of an image that cannot be opened, and why it cannot.
pub(crate) fn describe(
    file: RawImage,
    path: &Path,
    options: &OpenOptions,
) -> (Vec<Layer>, Option<ImageError>) {
    let mut layers = Vec::new();
    let links = links(file, path, true, options, &mut layers);
    (layers, links.err())
}

/// The files of the chain. What they are is in `layers` as far as it is known when one fails.
fn links(
    file: RawImage,
    image: &Path,
    named: bool,
    options: &OpenOptions,
    layers: &mut Vec<Layer>,
) -> Result<Vec<Link>, ImageError> {
    let fence = Fence::new(named.then_some(image), options.follow)?;
    // What is behind the image is read to its last byte, in its current state, and has its own format.
    let behind = OpenOptions { sector_padding: false, format: None, snapshot: None, ..options.clone() };
    let tables = Arc::<Tables>::default();
    let mut seen = HashSet::new();
    let mut links = Vec::new();
    let mut next = Some((file, image.to_path_buf()));
    let mut snapshot = options.snapshot.as_deref();
    while let Some((file, path)) = next.take() {
        if links.len() == MAX_LINKS {
            let what = format!("more than {MAX_LINKS} backing files");
            return Err(ImageError::Refused { path: image.to_path_buf(), what });
        }
        let backs = |error: ImageError| error.behind(image, Role::BackingFile);
        if !seen.insert(identity(&file)) {
            let what = "its backing files lead back to it";
            return Err(backs(ImageError::invalid(&path, ImageOperation::Open, None, what)));
        }
        let place = layers.len();
        let context = Context { image, tables: &tables, fence: &fence, options: &behind };
        let node = open_node(file, path, snapshot.take(), links.len(), &context, layers).map_err(backs)?;
        if let Some(name) = &node.header.backing {
            let found = fence.open(&node.path, Role::BackingFile.name(), name, &behind).map_err(backs)?;
            let format = backing_format(&node, &found, &mut layers[place]).map_err(backs)?;
            let last = match format {
                ImageFormat::Qcow2 => {
                    next = Some((found.file, found.path));
                    None
                }
                ImageFormat::Raw => Some(Box::new(found.file) as Box<dyn Image>),
                other => Some(qemu::open(&found.path, other, &behind).map_err(backs)?),
            };
            let of_last = last.iter().flat_map(|image| image.layers());
            layers.extend(of_last.map(|layer| match layer.role {
                Role::Image => Layer { role: Role::BackingFile, ..layer },
                _ => layer,
            }));
            links.push(Link::Qcow2(Box::new(node)));
            links.extend(last.map(Link::Other));
        } else {
            links.push(Link::Qcow2(Box::new(node)));
        }
    }
    Ok(links)
}

/// What tells two files apart.
fn identity(file: &RawImage) -> (u64, u64) {
    let ExtentLocation { device, inode, .. } = file.place(0);
    (device, inode)
}

/// What the files of a chain have in common.
struct Context<'a> {
    /// The name of the image itself.
    image: &'a Path,
    tables: &'a Arc<Tables>,
    fence: &'a Fence,
    options: &'a OpenOptions,
}

/// Reads and checks the header of a file of the chain, and opens the file that has its data. What both are
/// comes to `layers`.
fn open_node(
    file: RawImage,
    path: PathBuf,
    snapshot: Option<&str>,
    index: usize,
    context: &Context<'_>,
    layers: &mut Vec<Layer>,
) -> Result<Node, ImageError> {
    /// Where the header has the offset of the L1 table.
    const L1_FIELD: u64 = 40;
    let header = Header::read(&file, &path)?;
    let place = layers.len();
    let role = if index == 0 { Role::Image } else { Role::BackingFile };
    layers.push(Layer { role, ..layer(&file, &path, &header) });
    if let Some(what) = &header.refused {
        return Err(ImageError::Refused { path, what: what.clone() });
    }
    let (l1, length, at) = match snapshot {
        None => (header.l1, header.length, L1_FIELD),
        Some(name) => {
            let snapshot = Snapshot::find(&file, &header, &path, name)?;
            let shown = format!("{} (identifier {})", snapshot.name, snapshot.id);
            layers[place].properties.push(("snapshot", Property::Text(shown)));
            (snapshot.l1, snapshot.length.unwrap_or(header.length), snapshot.offset)
        }
    };
    layers[place].length = Some(length);
    header.check_l1(l1, length, file.exact_length(), at, &path)?;
    let data_file = match (&header.data_file, header.external_data) {
        (Some(name), _) => {
            let found = context.fence.open(&path, Role::DataFile.name(), name, context.options);
            let found = found.map_err(|error| match error.path() == path {
                true => error,
                false => error.behind(context.image, Role::DataFile),
            })?;
            let of_data = found.file.layers().into_iter();
            layers.extend(of_data.map(|layer| Layer { role: Role::DataFile, ..layer }));
            Some(found.file)
        }
        (None, true) => {
            let what = "its data is in another file, whose name is not recorded".to_string();
            return Err(ImageError::Refused { path, what });
        }
        (None, false) => None,
    };
    let (index, tables, l1_filled) = (index as u32, context.tables.clone(), Vec::new());
    let mut node = Node { path, file, data_file, header, length, l1, l1_filled, index, tables };
    node.survey_l1()?;
    Ok(node)
}

/// The format of a backing file. One that is recorded as raw is raw, whatever its guest wrote into it.
fn backing_format(node: &Node, found: &NamedFile, layer: &mut Layer) -> Result<ImageFormat, ImageError> {
    let recorded = match (&found.format, &node.header.backing_format) {
        (Some(format), _) => Some(*format),
        (None, Some(name)) => match ImageFormat::find(name) {
            Some(format) => Some(format),
            // The names of what raw files and devices are read by.
            None if matches!(name.as_str(), "file" | "host_device") => Some(ImageFormat::Raw),
            None => {
                let what = format!("format {name} of its backing file is not known");
                return Err(ImageError::Refused { path: node.path.clone(), what });
            }
        },
        (None, None) => None,
    };
    if let Some(format) = recorded {
        return Ok(format);
    }
    let format = ImageFormat::probe(&found.file)?;
    layer.warnings.push(format!(
        "the format of its backing file {} is not recorded; it looks like {format}",
        found.path.display()
    ));
    Ok(format)
}

/// What is to be told of a file.
fn layer(file: &RawImage, path: &Path, header: &Header) -> Layer {
    let text = |text: &str| Property::from(text);
    let mut properties = vec![("version", u64::from(header.version).into())];
    if header.version >= 3 && header.refused.is_none() {
        properties.push(("compression", text(header.compression.name())));
    }
    if let Some(encryption) = header.encryption {
        properties.push(("encryption", text(encryption)));
    }
    if header.extended_l2 {
        properties.push(("extended_l2", true.into()));
    }
    if let Some(name) = &header.data_file {
        properties.push(("data_file", text(&name.to_string_lossy())));
    }
    if let Some(name) = &header.backing {
        properties.push(("backing_file", text(&name.to_string_lossy())));
    }
    if let Some(format) = &header.backing_format {
        properties.push(("backing_format", text(format)));
    }
    if header.snapshots > 0 {
        properties.push(("snapshots", u64::from(header.snapshots).into()));
    }
    let mut warnings = Vec::new();
    if header.dirty {
        properties.push(("dirty", true.into()));
        warnings.push("it was not closed cleanly".to_string());
    }
    if header.corrupt {
        properties.push(("corrupt", true.into()));
        warnings.push("it is marked as corrupt".to_string());
    }
    let raw = file.layers().into_iter().next().unwrap_or_default();
    Layer {
        name: path.into(),
        format: ImageFormat::Qcow2.name(),
        length: Some(header.length),
        cluster_size: Some(header.cluster_size()),
        properties,
        warnings,
        ..raw
    }
}
