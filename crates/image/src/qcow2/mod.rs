//! qcow2 images, read-only: one file, or a chain of backing files.
//!
//! Nothing here follows QEMU's code; the format is described in its `docs/interop/qcow2.rst`, and where
//! that leaves something open, what QEMU shows a guest decides. An image is taken for what a stranger
//! made to do harm: every number is checked before it is used.

mod chain;
mod cluster_cache;
mod clusters;
mod compressed;
mod header;
mod inflate;
mod kept;
mod references;
mod snapshots;
mod tables;
mod walk;

use std::ops::Range;
use std::path::Path;

pub(crate) use chain::{describe, open};
use clusters::{Mapping, Node};
use compressed::{Batch, Unpacker};
pub(crate) use kept::kept;
use walk::{Piece, Source, Walk};

use crate::{Extent, ExtentKind, Image, ImageError, Layer, RawImage, Role};

/// How many extents one call finds at most.
const EXTENTS_A_CALL: usize = 1024;

/// A qcow2 image and all that backs it.
pub(crate) struct Qcow2Image {
    /// The image itself first. Never empty, and the first is a qcow2 file.
    links: Vec<Link>,
    /// The image itself first.
    layers: Vec<Layer>,
    length: u64,
    alignment: usize,
    unpacker: Unpacker,
}

/// A file of a chain.
pub(crate) enum Link {
    Qcow2(Box<Node>),
    /// An image of another format, the last of the chain.
    Other(Box<dyn Image>),
}

impl Link {
    fn length(&self) -> u64 {
        match self {
            Link::Qcow2(node) => node.length,
            Link::Other(image) => image.length(),
        }
    }

    /// The files that the link reads from.
    fn files(&self) -> impl Iterator<Item = &dyn Image> {
        let (node, other) = match self {
            Link::Qcow2(node) => (Some(node), None),
            Link::Other(image) => (None, Some(&**image)),
        };
        let of_node = node.into_iter().flat_map(|node| [Some(&node.file), node.data_file.as_ref()]);
        of_node.flatten().map(|file| file as &dyn Image).chain(other)
    }
}

impl Qcow2Image {
    fn new(links: Vec<Link>, layers: Vec<Layer>) -> Qcow2Image {
        let length = links.first().map_or(0, Link::length);
        let alignment = links.iter().flat_map(Link::files).map(Image::alignment).max().unwrap_or(1);
        Qcow2Image { links, layers, length, alignment, unpacker: Unpacker::default() }
    }

    /// The node of a piece that is stored in one.
    fn node(&self, index: usize) -> &Node {
        match &self.links[index] {
            Link::Qcow2(node) => node,
            Link::Other(_) => unreachable!("pieces of other formats are read as such"),
        }
    }

    /// Appends the extents of a piece of data, which are several where the file has holes.
    fn data_extents(
        &self,
        piece: &Piece,
        offset: u64,
        file: &RawImage,
        out: &mut Vec<Extent>,
    ) -> Result<(), ImageError> {
        let len = piece.range.end - piece.range.start;
        let stored = file.exact_length().saturating_sub(offset).min(len);
        if !file.is_sparse() || stored < len {
            let place = Some(file.place(offset));
            out.push(Extent { range: piece.range.clone(), kind: ExtentKind::Data, place });
            return Ok(());
        }
        let first = out.len();
        file.extents(offset..offset + len, out)?;
        for extent in &mut out[first..] {
            let start = extent.range.start - offset + piece.range.start;
            extent.range = start..start + (extent.range.end - extent.range.start);
        }
        Ok(())
    }

    /// Appends what is known of a piece; it may be of a part only.
    fn piece_extents(&self, piece: &Piece, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        let range = piece.range.clone();
        match &piece.source {
            Source::Zero => out.push(Extent::new(range, ExtentKind::Zero)),
            Source::Other(extent) => out.push(extent.clone()),
            Source::Node(index, Mapping::Data(offset)) => {
                self.data_extents(piece, *offset, self.node(*index).data(), out)?;
            }
            Source::Node(index, Mapping::Compressed(packed)) => {
                let node = self.node(*index);
                let end = (packed.start + node.header.cluster_size()).min(self.length);
                let whole = range == (packed.start..end);
                let place = whole.then(|| node.file.place(packed.offset));
                out.push(Extent { range, kind: ExtentKind::Compressed, place });
            }
            Source::Node(_, Mapping::Zero | Mapping::Unallocated) => {
                out.push(Extent::new(range, ExtentKind::Zero));
            }
        }
        Ok(())
    }
}

impl Image for Qcow2Image {
    fn length(&self) -> u64 {
        self.length
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        self.find_extents(range, out).map_err(|error| self.named(error))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        self.read(buf, offset).map_err(|error| self.named(error))
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn unit(&self) -> u64 {
        let size = |link: &Link| match link {
            Link::Qcow2(node) => node.header.cluster_size(),
            Link::Other(image) => image.unit(),
        };
        self.links.iter().map(size).max().unwrap_or(1)
    }

    fn layers(&self) -> Vec<Layer> {
        self.layers.clone()
    }

    fn check_unchanged(&self) -> Result<(), ImageError> {
        let mut files = self.links.iter().flat_map(Link::files);
        files.try_for_each(Image::check_unchanged).map_err(|error| self.named(error))
    }

    fn modified_during(&self) -> bool {
        self.links.iter().flat_map(Link::files).any(Image::modified_during)
    }
}

impl Qcow2Image {
    fn find_extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        let first = out.len();
        let mut walk = Walk::new(&self.links);
        let mut position = range.start;
        while position < range.end && out.len() - first < EXTENTS_A_CALL {
            let piece = walk.next_piece(position..range.end)?;
            self.piece_extents(&piece, out)?;
            position = out.last().map_or(piece.range.end, |extent| extent.range.end);
        }
        Ok(())
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let end = offset + buf.len() as u64;
        let mut walk = Walk::new(&self.links);
        let mut batch = Batch::default();
        let mut position = offset;
        while position < end {
            let Piece { range, source } = walk.next_piece(position..end)?;
            let place = (range.start - offset) as usize..(range.end - offset) as usize;
            let part = &mut buf[place.clone()];
            match source {
                Source::Zero | Source::Node(_, Mapping::Zero | Mapping::Unallocated) => part.fill(0),
                Source::Other(_) => match self.links.last() {
                    Some(Link::Other(image)) => image.read_at(part, range.start)?,
                    _ => unreachable!("only the last link is of another format"),
                },
                Source::Node(index, Mapping::Data(from)) => self.node(index).read_data(part, from)?,
                Source::Node(index, Mapping::Compressed(packed)) => {
                    let node = self.node(index);
                    if part.len() as u64 != node.header.cluster_size() {
                        let skip = range.start - packed.start;
                        self.unpacker.read_part(index, node, &packed, skip, part)?;
                    } else if !batch.push(index, packed, place.clone()) {
                        self.read_batch(&mut batch, buf)?;
                        batch.push(index, packed, place);
                    }
                }
            }
            position = range.end;
        }
        self.read_batch(&mut batch, buf)
    }

    /// An error of another file than the image itself, with the name of the image.
    fn named(&self, error: ImageError) -> ImageError {
        let [image, others @ ..] = &*self.layers else { return error };
        let of = |layer: &&Layer| layer.name == *error.path().as_os_str();
        let role = others.iter().find(of).map_or(Role::BackingFile, |layer| layer.role);
        error.behind(Path::new(&image.name), role)
    }

    fn read_batch(&self, batch: &mut Batch, buf: &mut [u8]) -> Result<(), ImageError> {
        match batch.node() {
            Some(index) => self.unpacker.read(self.node(index), batch, buf),
            None => Ok(()),
        }
    }
}
