//! Reads compressed clusters: those that follow each other in the file with one request.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::cluster_cache::Shared;
use super::clusters::{Node, Packed};
use super::inflate::Inflater;
use crate::{AlignedBuffer, Image, ImageError, ImageOperation};

/// One request reads this many bytes at most, or one cluster's.
const REQUEST_LEN: u64 = 1 << 20;

/// Bytes between two compressed clusters that are read in vain rather than in two requests.
const GAP: u64 = 32 << 10;

/// What all readers of a chain share to decompress.
#[derive(Debug, Default)]
pub(crate) struct Unpacker {
    /// Tools that nobody uses now.
    idle: Mutex<Vec<Tools>>,
    shared: Shared,
}

/// What one reader needs.
#[derive(Debug)]
struct Tools {
    inflater: Inflater,
    compressed: AlignedBuffer,
}

impl Default for Tools {
    fn default() -> Tools {
        Tools { inflater: Inflater::default(), compressed: AlignedBuffer::new(0) }
    }
}

/// Whole clusters to be decompressed, which follow each other in one file.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Which file of the chain.
    node: usize,
    /// Each with its place in the reader's buffer.
    clusters: Vec<(Packed, Range<usize>)>,
}

impl Batch {
    /// Adds a cluster if it can be read with the others; else the batch is to be read first.
    pub(crate) fn push(&mut self, node: usize, packed: Packed, place: Range<usize>) -> bool {
        if let (Some((first, _)), Some((last, _))) = (self.clusters.first(), self.clusters.last()) {
            let end = last.offset + last.len;
            let joins = node == self.node
                && packed.offset > last.offset
                && packed.offset <= end + GAP
                && packed.offset + packed.len <= first.offset + REQUEST_LEN;
            if !joins {
                return false;
            }
        }
        self.node = node;
        self.clusters.push((packed, place));
        true
    }

    /// Which file of the chain; `None` for an empty batch.
    pub(crate) fn node(&self) -> Option<usize> {
        (!self.clusters.is_empty()).then_some(self.node)
    }
}

impl Unpacker {
    /// Reads and decompresses a batch into the reader's buffer, and empties it.
    pub(crate) fn read(&self, node: &Node, batch: &mut Batch, buf: &mut [u8]) -> Result<(), ImageError> {
        let clusters = std::mem::take(&mut batch.clusters);
        let Some((first, _)) = clusters.first() else { return Ok(()) };
        let end = clusters.iter().map(|(packed, _)| packed.offset + packed.len).max();
        let range = first.offset..end.unwrap_or(first.offset);
        self.with_tools(|tools| {
            let start = range.start;
            let (inflater, bytes) = tools.read(node, range)?;
            for (packed, place) in &clusters {
                let from = (packed.offset - start) as usize;
                let compressed = &bytes[from..from + packed.len as usize];
                inflate(inflater, node, packed, compressed, &mut buf[place.clone()])?;
            }
            Ok(())
        })
    }

    /// Fills `part` from the bytes of a cluster from `skip` on. The cluster is kept for who reads the rest.
    pub(crate) fn read_part(
        &self,
        index: usize,
        node: &Node,
        packed: &Packed,
        skip: u64,
        part: &mut [u8],
    ) -> Result<(), ImageError> {
        let size = node.header.cluster_size();
        let visible = size.min(node.length - packed.start);
        let wanted = part.len() as u64;
        let cluster = self.shared.get((index, packed.start), wanted, visible, || {
            let mut cluster = vec![0; size as usize];
            self.with_tools(|tools| {
                let (inflater, bytes) = tools.read(node, packed.offset..packed.offset + packed.len)?;
                inflate(inflater, node, packed, bytes, &mut cluster)
            })?;
            Ok(cluster)
        })?;
        part.copy_from_slice(&cluster[skip as usize..skip as usize + part.len()]);
        Ok(())
    }

    fn with_tools<T>(&self, work: impl FnOnce(&mut Tools) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tools = idle().pop().unwrap_or_default();
        let result = work(&mut tools);
        idle().push(tools);
        result
    }
}

impl Tools {
    /// Reads a range of the file, wider where that suits direct I/O.
    fn read(&mut self, node: &Node, range: Range<u64>) -> Result<(&mut Inflater, &[u8]), ImageError> {
        let alignment = node.file.alignment() as u64;
        let start = range.start / alignment * alignment;
        let end = range.end.next_multiple_of(alignment).min(node.file.exact_length());
        let len = (end - start) as usize;
        if self.compressed.len() < len {
            self.compressed = AlignedBuffer::new(len.next_power_of_two());
        }
        node.file.read_at(&mut self.compressed[..len], start)?;
        let wanted = (range.start - start) as usize..(range.end - start) as usize;
        Ok((&mut self.inflater, &self.compressed[wanted]))
    }
}

fn inflate(
    inflater: &mut Inflater,
    node: &Node,
    packed: &Packed,
    compressed: &[u8],
    cluster: &mut [u8],
) -> Result<(), ImageError> {
    inflater
        .inflate(node.header.compression, compressed, cluster)
        .map_err(|what| ImageError::invalid(&node.path, ImageOperation::Read, Some(packed.offset), what))
}
