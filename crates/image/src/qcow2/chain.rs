//! Opening a qcow2 image with all the files that it needs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::clusters::Node;
use super::header::Header;
use super::references::{Fence, Found};
use super::snapshots::Snapshot;
use super::tables::Tables;
use super::{Link, Qcow2Image};
use crate::{Error, Format, Image, Layer, OpenOptions, Operation, Place, RawImage, qemu};

/// The longest chain: each file of it takes two descriptors, of which a process usually has 1,024.
const MAX_LINKS: usize = 256;

/// Opens the qcow2 image in `file`, which errors call `path`. `named` is whether that is its name, or it
/// has none.
pub(crate) fn open(
    file: RawImage,
    path: &Path,
    named: bool,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, Error> {
    let fence = Fence::new(named.then_some(path), options.follow)?;
    // What is behind the image is read to its last byte, in its current state, and has its own format.
    let behind = OpenOptions { sector_padding: false, format: None, snapshot: None, ..options.clone() };
    let tables = Arc::<Tables>::default();
    let mut seen = HashSet::new();
    let mut links = Vec::new();
    let mut next = Some((file, path.to_path_buf()));
    let mut snapshot = options.snapshot.as_deref();
    while let Some((file, path)) = next.take() {
        if links.len() == MAX_LINKS {
            let what = format!("more than {MAX_LINKS} backing files");
            return Err(Error::Refused { path: first_name(&links), what });
        }
        if !seen.insert(identity(&file)) {
            let what = "its backing files lead back to it";
            return Err(Error::invalid(&path, Operation::Open, None, what));
        }
        let (node, mut layer) =
            open_node(file, path, snapshot.take(), links.len(), &tables, &fence, &behind)?;
        if let Some(name) = &node.header.backing {
            let found = fence.open(&node.path, "backing file", name, &behind)?;
            let format = backing_format(&node, &found, &mut layer)?;
            let last = match format {
                Format::Qcow2 => {
                    next = Some((found.file, found.path));
                    None
                }
                Format::Raw => Some(Box::new(found.file) as Box<dyn Image>),
                other => Some(qemu::open(&found.path, other, &behind)?),
            };
            links.push(Link::Qcow2(Box::new(node), layer));
            links.extend(last.map(Link::Other));
        } else {
            links.push(Link::Qcow2(Box::new(node), layer));
        }
    }
    Ok(Box::new(Qcow2Image::new(links)))
}

/// The name of the image itself.
fn first_name(links: &[Link]) -> PathBuf {
    match links.first() {
        Some(Link::Qcow2(node, _)) => node.path.clone(),
        _ => PathBuf::new(),
    }
}

/// What tells two files apart.
fn identity(file: &RawImage) -> (u64, u64) {
    let Place { device, inode, .. } = file.place(0);
    (device, inode)
}

/// Reads and checks the header of a file of the chain, and opens the file that has its data.
fn open_node(
    file: RawImage,
    path: PathBuf,
    snapshot: Option<&str>,
    index: usize,
    tables: &Arc<Tables>,
    fence: &Fence,
    options: &OpenOptions,
) -> Result<(Node, Layer), Error> {
    /// Where the header has the offset of the L1 table.
    const L1_FIELD: u64 = 40;
    let header = Header::read(&file, &path)?;
    let (l1, length, at) = match snapshot {
        None => (header.l1, header.length, L1_FIELD),
        Some(name) => {
            let snapshot = Snapshot::find(&file, &header, &path, name)?;
            (snapshot.l1, snapshot.length.unwrap_or(header.length), snapshot.offset)
        }
    };
    header.check_l1(l1, length, file.exact_length(), at, &path)?;
    let data_file = match (&header.data_file, header.external_data) {
        (Some(name), _) => Some(fence.open(&path, "data file", name, options)?),
        (None, true) => {
            let what = "its data is in another file, whose name is not recorded".to_string();
            return Err(Error::Refused { path, what });
        }
        (None, false) => None,
    };
    let layer = layer(&file, &path, &header, length, data_file.as_ref());
    let data_file = data_file.map(|found| found.file);
    let node =
        Node { path, file, data_file, header, length, l1, index: index as u32, tables: tables.clone() };
    node.check_l1_entries()?;
    Ok((node, layer))
}

/// The format of a backing file. One that is recorded as raw is raw, whatever its guest wrote into it.
fn backing_format(node: &Node, found: &Found, layer: &mut Layer) -> Result<Format, Error> {
    let recorded = match (&found.format, &node.header.backing_format) {
        (Some(format), _) => Some(*format),
        (None, Some(name)) => match Format::find(name) {
            Some(format) => Some(format),
            // The names of what raw files and devices are read by.
            None if matches!(name.as_str(), "file" | "host_device") => Some(Format::Raw),
            None => {
                let what = format!("format {name} of its backing file is not known");
                return Err(Error::Refused { path: node.path.clone(), what });
            }
        },
        (None, None) => None,
    };
    if let Some(format) = recorded {
        return Ok(format);
    }
    let format = Format::probe(&found.file)?;
    layer.warnings.push(format!(
        "the format of its backing file {} is not recorded; it looks like {format}",
        found.path.display()
    ));
    Ok(format)
}

/// What is to be told of a file.
fn layer(file: &RawImage, path: &Path, header: &Header, length: u64, data: Option<&Found>) -> Layer {
    let yes = || "yes".to_string();
    let mut properties = vec![("version", header.version.to_string())];
    if header.version >= 3 {
        properties.push(("compression", header.compression.name().to_string()));
    }
    if header.extended_l2 {
        properties.push(("extended L2", yes()));
    }
    if let Some(data) = data {
        properties.push(("data file", data.path.to_string_lossy().into_owned()));
    }
    if let Some(format) = &header.backing_format {
        properties.push(("backing format", format.clone()));
    }
    if header.snapshots > 0 {
        properties.push(("snapshots", header.snapshots.to_string()));
    }
    let mut warnings = Vec::new();
    if header.dirty {
        properties.push(("dirty", yes()));
        warnings.push("it was not closed cleanly".to_string());
    }
    if header.corrupt {
        properties.push(("corrupt", yes()));
        warnings.push("it is marked as corrupt".to_string());
    }
    let raw = file.layers().into_iter().next().unwrap_or_default();
    Layer {
        name: path.into(),
        format: Format::Qcow2.name(),
        length,
        cluster_size: Some(header.cluster_size()),
        properties,
        warnings,
        ..raw
    }
}
