//! Maps guest offsets to file offsets: one qcow2 file, without what backs it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::header::{Header, L1, SUBCLUSTERS};
use super::tables::{SLICE_LEN, Slice, Tables};
use crate::{Image, ImageError, ImageOperation, RawImage};

/// The bits of an L1 entry, and of an L2 entry that is not compressed, that are an offset in the file.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// An L2 entry of which the reference count is one; in a file that has its data elsewhere, offset 0 is
/// then the start of that.
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
/// The cluster reads as zeros. Not in extended entries, which say so for each subcluster.
const ZERO: u64 = 1 << 0;

/// The unit in which the length of compressed data is given.
const SECTOR: u64 = 512;

/// One search looks at this many units at most, so that asking again and again stays cheap.
const UNITS_A_SEARCH: usize = 8192;

/// What a part of the guest's view is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Nothing here: what backs the file shows, and zeros if nothing does.
    Unallocated,
    /// Zeros.
    Zero,
    /// The bytes at this offset of the file that holds the data.
    Data(u64),
    /// A cluster of the guest that must be decompressed.
    Compressed(Packed),
}

/// A compressed cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Where it begins in the guest's view.
    pub(crate) start: u64,
    /// Where its compressed bytes begin in the file.
    pub(crate) offset: u64,
    /// How many they are at most: they may end before.
    pub(crate) len: u64,
}

/// A part of the guest's view of one mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) range: Range<u64>,
    /// Of its first byte; the others follow it.
    pub(crate) mapping: Mapping,
}

impl Run {
    /// The mapping of a byte within the run.
    pub(crate) fn at(&self, position: u64) -> Mapping {
        match self.mapping {
            Mapping::Data(offset) => Mapping::Data(offset + (position - self.range.start)),
            other => other,
        }
    }

    /// Adds what follows, if it goes on as the run does.
    fn extend(&mut self, mapping: Mapping, end: u64) -> bool {
        let follows = match (self.at(self.range.end), mapping) {
            (Mapping::Compressed(_), _) => false,
            (expected, found) => expected == found,
        };
        if follows {
            self.range.end = end;
        }
        follows
    }
}

/// A qcow2 file in one of its states: the current one or that of a snapshot.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) path: PathBuf,
    pub(crate) file: RawImage,
    /// The file that holds the guest's data, where that is another one.
    pub(crate) data_file: Option<RawImage>,
    pub(crate) header: Header,
    /// Length in bytes of what the guest sees of this state.
    pub(crate) length: u64,
    pub(crate) l1: L1,
    /// Which slices of the L1 table name any L2 table; see [`Node::survey_l1`].
    pub(crate) l1_filled: Vec<bool>,
    /// Place in the chain.
    pub(crate) index: u32,
    pub(crate) tables: Arc<Tables>,
}

impl Node {
    /// The file that holds the guest's data.
    pub(crate) fn data(&self) -> &RawImage {
        self.data_file.as_ref().unwrap_or(&self.file)
    }

    /// The run that begins at `range.start` and ends at `range.end` at the latest. `range` is not empty
    /// and lies within the image.
    pub(crate) fn run_at(&self, range: Range<u64>) -> Result<Run, ImageError> {
        let mut search = Search { node: self, l1: None, l2: None };
        let (mapping, end) = search.unit_at(range.start)?;
        let mut run = Run { range: range.start..end, mapping };
        for _ in 0..UNITS_A_SEARCH {
            if run.range.end >= range.end {
                break;
            }
            let (mapping, end) = search.unit_at(run.range.end)?;
            if !run.extend(mapping, end) {
                break;
            }
        }
        run.range.end = run.range.end.min(range.end);
        Ok(run)
    }

    /// Fills `part` from the file that holds the data. Each of its clusters begins within that; what lies
    /// behind its end is zeros.
    pub(crate) fn read_data(&self, part: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let stored = self.data().exact_length().saturating_sub(offset).min(part.len() as u64) as usize;
        let (stored, beyond) = part.split_at_mut(stored);
        beyond.fill(0);
        self.data().read_at(stored, offset)
    }

    /// Looks through the L1 table once: notes which of its slices name anything, and checks that no L2 table
    /// is named twice. Else a small file could describe data without end. Holes of the file are not read.
    pub(crate) fn survey_l1(&mut self) -> Result<(), ImageError> {
        let L1 { offset, entries } = self.l1;
        let room = self.file.exact_length() >> self.header.cluster_bits;
        let end = offset + entries * 8;
        let mut filled = vec![false; (entries * 8).div_ceil(SLICE_LEN) as usize];
        let mut tables = Vec::new();
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end {
            extents.clear();
            self.file.extents(at..end, &mut extents)?;
            for extent in &extents {
                let slices = (extent.range.start - offset) / SLICE_LEN
                    ..(extent.range.end - offset).div_ceil(SLICE_LEN);
                for slice in slices {
                    if extent.kind.is_zero() || std::mem::replace(&mut filled[slice as usize], true) {
                        continue;
                    }
                    let from = offset + slice * SLICE_LEN;
                    let slice_end = end.min(from + SLICE_LEN);
                    let named =
                        self.tables.slice(self.index, &self.file, from, slice_end - from, |_| Ok(()))?;
                    let before = tables.len();
                    tables.extend(named.iter().map(|entry| entry & OFFSET).filter(|&table| table != 0));
                    filled[slice as usize] = tables.len() > before;
                    if tables.len() as u64 > room {
                        return Err(self.invalid(offset, "more L2 tables than the file has room for"));
                    }
                }
            }
            at = extents.last().map_or(end, |extent| extent.range.end);
        }
        self.l1_filled = filled;
        tables.sort_unstable();
        match tables.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let table = pair[0];
                let what = format!("L2 table at {table}, overlapping with itself: two entries name it");
                Err(self.invalid(offset, what))
            }
            None => Ok(()),
        }
    }

    /// Checks that no two entries of a slice of an L2 table, which is at `from` in the file, have the same
    /// data: nothing writes such an image, and a small file could describe data without end.
    fn check_slice(&self, from: u64, slice: &[u64]) -> Result<(), ImageError> {
        /// How often compressed data may be there: who writes it may find that clusters are the same.
        const MOST_PACKED: usize = 16;
        let header = &self.header;
        let stride = (header.l2_entry_len() / 8) as usize;
        let stored = |&(_, unit): &(usize, &[u64])| match (unit[0], unit.get(1)) {
            (entry, _) if entry & COMPRESSED != 0 => true,
            (_, Some(bitmap)) => bitmap & 0xffff_ffff != 0,
            (entry, None) => {
                entry & ZERO == 0
                    && (entry & OFFSET != 0 || (self.data_file.is_some() && entry & COPIED != 0))
            }
        };
        let offset = |entry: u64| match entry & COMPRESSED {
            0 => entry & OFFSET,
            _ => COMPRESSED | (entry & ((1 << self.packed_offset_bits()) - 1)),
        };
        let units = slice.chunks_exact(stride).enumerate().filter(stored);
        let mut found: Vec<(u64, usize)> = units.map(|(place, unit)| (offset(unit[0]), place)).collect();
        found.sort_unstable();
        for same in found.chunk_by(|one, other| one.0 == other.0) {
            let (offset, most) = match same[0].0 {
                packed if packed & COMPRESSED != 0 => (packed & !COMPRESSED, MOST_PACKED),
                offset => (offset, 1),
            };
            if let Some((_, place)) = same.get(most) {
                let at = from + (place * stride * 8) as u64;
                let what = format!("data cluster at {offset}, overlapping with that of another entry");
                return Err(self.invalid(at, what));
            }
        }
        Ok(())
    }

    fn invalid(&self, offset: u64, what: impl Into<String>) -> ImageError {
        ImageError::invalid(&self.path, ImageOperation::Map, Some(offset), what)
    }

    /// What an L2 entry says of the unit at `position`, and where that unit ends. `at` is where the entry
    /// is in the file.
    fn decode(&self, entry: u64, bitmap: u64, position: u64, at: u64) -> Result<(Mapping, u64), ImageError> {
        let header = &self.header;
        let cluster_size = header.cluster_size();
        let start = position & !(cluster_size - 1);
        let end = start + cluster_size;
        if entry & COMPRESSED != 0 {
            return Ok((Mapping::Compressed(self.packed(entry, start, at)?), end));
        }
        let offset = entry & OFFSET;
        let allocated = offset != 0 || (self.data_file.is_some() && entry & COPIED != 0);
        let data = |from: u64| -> Result<Mapping, ImageError> {
            if offset & (cluster_size - 1) != 0 {
                return Err(self.invalid(at, format!("data cluster at {offset}, which is not aligned")));
            }
            if offset >= self.data().exact_length() {
                return Err(self.invalid(at, format!("data cluster at {offset}, outside the file")));
            }
            Ok(Mapping::Data(offset + (from - start)))
        };
        if header.extended_l2 {
            return self.decode_subcluster(bitmap, allocated, position, at, data);
        }
        let mapping = match entry & ZERO != 0 {
            true if header.version < 3 => {
                return Err(self.invalid(at, "zero cluster in an image of version 2"));
            }
            true => Mapping::Zero,
            false if allocated => data(position)?,
            false => Mapping::Unallocated,
        };
        Ok((mapping, end))
    }

    /// [`Node::decode`] for a subcluster: the lower half of the bitmap tells which are allocated, the
    /// upper half which are zeros.
    fn decode_subcluster(
        &self,
        bitmap: u64,
        allocated: bool,
        position: u64,
        at: u64,
        data: impl Fn(u64) -> Result<Mapping, ImageError>,
    ) -> Result<(Mapping, u64), ImageError> {
        let (stored, zero) = (bitmap & 0xffff_ffff, bitmap >> 32);
        if stored & zero != 0 || (!allocated && stored != 0) {
            return Err(self.invalid(at, "subclusters that contradict each other"));
        }
        let size = self.header.cluster_size() / SUBCLUSTERS;
        let subcluster = position / size % SUBCLUSTERS;
        let mapping = if zero >> subcluster & 1 == 1 {
            Mapping::Zero
        } else if stored >> subcluster & 1 == 1 {
            data(position)?
        } else {
            Mapping::Unallocated
        };
        Ok((mapping, (position / size + 1) * size))
    }

    /// How many bits of the entry of a compressed cluster are its offset.
    fn packed_offset_bits(&self) -> u32 {
        62 - (self.header.cluster_bits - 8)
    }

    /// Where the compressed bytes of the cluster at `start` are.
    fn packed(&self, entry: u64, start: u64, at: u64) -> Result<Packed, ImageError> {
        if self.data_file.is_some() {
            return Err(self.invalid(at, "compressed cluster in an image with an external data file"));
        }
        let offset_bits = self.packed_offset_bits();
        let offset = entry & ((1 << offset_bits) - 1);
        let sectors = (entry & (COMPRESSED - 1)) >> offset_bits;
        let file_length = self.file.exact_length();
        if offset >= file_length {
            return Err(self.invalid(at, format!("compressed cluster at {offset}, outside the file")));
        }
        // The file may end within the last sector.
        let len = ((sectors + 1) * SECTOR - offset % SECTOR).min(file_length - offset);
        Ok(Packed { start, offset, len })
    }
}

/// A walk through the tables of a node that holds on to the slices it is in.
struct Search<'a> {
    node: &'a Node,
    /// The latest slices, and which bytes of the file they are.
    l1: Option<(Range<u64>, Slice)>,
    l2: Option<(Range<u64>, Slice)>,
}

impl Search<'_> {
    /// What is at `position`, and where the unit that it is in ends.
    fn unit_at(&mut self, position: u64) -> Result<(Mapping, u64), ImageError> {
        let header = &self.node.header;
        let reach = header.l2_reach();
        let l1_index = position / reach;
        let unallocated = Ok((Mapping::Unallocated, (l1_index + 1).saturating_mul(reach)));
        if l1_index >= self.node.l1.entries {
            return unallocated;
        }
        let slice = l1_index * 8 / SLICE_LEN;
        let empty =
            self.node.l1_filled[slice as usize..].iter().take_while(|filled| !**filled).count() as u64;
        if empty > 0 {
            return Ok((Mapping::Unallocated, ((slice + empty) * (SLICE_LEN / 8)).saturating_mul(reach)));
        }
        let table = self.l1_entry(l1_index)? & OFFSET;
        if table == 0 {
            return unallocated;
        }
        self.check_l2(table, l1_index)?;
        let entry_len = header.l2_entry_len();
        let at = table + ((position % reach) >> header.cluster_bits) * entry_len;
        let slice_len = SLICE_LEN.min(header.cluster_size());
        let (range, slice) =
            slice_of(self.node, &mut self.l2, at, table, table + header.cluster_size(), slice_len, true)?;
        let place = ((at - range.start) / 8) as usize;
        let bitmap = if header.extended_l2 { slice[place + 1] } else { 0 };
        self.node.decode(slice[place], bitmap, position, at)
    }

    fn l1_entry(&mut self, index: u64) -> Result<u64, ImageError> {
        let L1 { offset, entries } = self.node.l1;
        let at = offset + index * 8;
        let (range, slice) =
            slice_of(self.node, &mut self.l1, at, offset, offset + entries * 8, SLICE_LEN, false)?;
        Ok(slice[((at - range.start) / 8) as usize])
    }

    /// Checks where an L2 table is.
    fn check_l2(&self, table: u64, l1_index: u64) -> Result<(), ImageError> {
        let node = self.node;
        let cluster_size = node.header.cluster_size();
        let at = || node.l1.offset + l1_index * 8;
        let l1_end = node.l1.offset + node.l1.entries * 8;
        if !table.is_multiple_of(cluster_size) {
            Err(node.invalid(at(), format!("L2 table at {table}, which is not aligned")))
        } else if table < cluster_size || (table < l1_end && table + cluster_size > node.l1.offset) {
            Err(node.invalid(at(), format!("L2 table at {table}, over the header or the L1 table")))
        } else if table + cluster_size > node.file.exact_length() {
            Err(node.invalid(at(), format!("L2 table at {table}, outside the file")))
        } else {
            Ok(())
        }
    }
}

/// The slice that holds the entry at `at` of a table that lies at `start..end` of the file. Slices of L2
/// tables are checked.
fn slice_of<'a>(
    node: &Node,
    latest: &'a mut Option<(Range<u64>, Slice)>,
    at: u64,
    start: u64,
    end: u64,
    slice_len: u64,
    is_l2: bool,
) -> Result<&'a (Range<u64>, Slice), ImageError> {
    if !latest.as_ref().is_some_and(|(range, _)| range.contains(&at)) {
        let from = at - (at - start) % slice_len;
        let len = slice_len.min(end - from);
        let check = |slice: &[u64]| if is_l2 { node.check_slice(from, slice) } else { Ok(()) };
        let slice = node.tables.slice(node.index, &node.file, from, len, check)?;
        *latest = Some((from..from + len, slice));
    }
    match latest {
        Some(latest) => Ok(latest),
        None => unreachable!("it was just set"),
    }
}
