//! Detects truncated files, which are shorter than their own tables say. For the formats handled here, QEMU
//! silently reads zeros beyond the end of the file; for the others it notices by itself.

use std::path::Path;

use super::bytes::{PeekedFile, little};
use super::references::parts;
use crate::{ImageError, ImageFormat};

/// How much of a table is read at a time, in bytes.
const PIECE: usize = 64 << 10;

/// The most entries of a table: QEMU opens no image with more.
const MOST_ENTRIES: u64 = 32 << 20;

const SECTOR: u64 = 512;

/// The file that is too short, by its name in the image if it is not the image itself, its length and the
/// length in bytes that it must have at least.
pub(super) struct Truncated {
    pub(super) part: Option<Vec<u8>>,
    pub(super) length: u64,
    pub(super) needed: u64,
}

/// Looks for the end of the last piece of data that an image has.
pub(super) fn find(bytes: &PeekedFile<'_>, format: ImageFormat) -> Result<Option<Truncated>, ImageError> {
    let needed = match format {
        ImageFormat::Vdi => vdi(bytes)?,
        ImageFormat::Parallels => parallels(bytes)?,
        ImageFormat::Vmdk => match bytes.at(0, 4)?.as_slice() {
            b"KDMV" => vmdk(bytes)?,
            b"COWD" => 0,
            _ => return flat_part(bytes),
        },
        // QEMU finds out itself, or every byte of the file is data.
        ImageFormat::Raw
        | ImageFormat::Qcow2
        | ImageFormat::Qcow
        | ImageFormat::Qed
        | ImageFormat::Vhdx
        | ImageFormat::Vpc
        | ImageFormat::Dmg => 0,
    };
    let length = bytes.length()?;
    Ok((needed > length).then_some(Truncated { part: None, length, needed }))
}

/// VDI: a table of blocks.
fn vdi(bytes: &PeekedFile<'_>) -> Result<u64, ImageError> {
    const UNALLOCATED: u64 = 0xffff_fffe;
    let header = bytes.at(0, 512)?;
    let (table, data) = (little(&header, 0x154, 4), little(&header, 0x158, 4));
    let (block, count) = (little(&header, 0x178, 4), little(&header, 0x180, 4));
    let mut needed = 0;
    entries(bytes, table, count, |_, entry| {
        if entry < UNALLOCATED {
            needed = needed.max(data + (entry + 1) * block);
        }
        Ok(())
    })?;
    Ok(needed)
}

/// Parallels: a table of clusters, in units of sectors or of clusters. Of the last, what the disk has.
fn parallels(bytes: &PeekedFile<'_>) -> Result<u64, ImageError> {
    let header = bytes.at(0, 64)?;
    let (cluster, count) = (little(&header, 28, 4), little(&header, 32, 4));
    let sectors = little(&header, 36, 8);
    let unit = if header.starts_with(b"WithouFreSpacExt") { cluster } else { 1 };
    let mut needed = 0;
    entries(bytes, 64, count, |index, entry| {
        if entry > 0 {
            let length = cluster.min(sectors.saturating_sub(index * cluster));
            needed = needed.max(end(entry.saturating_mul(unit), length));
        }
        Ok(())
    })?;
    Ok(needed)
}

/// Sparse data of VMDK: a directory of tables of grains. Of the last grain, what the disk has. Compressed
/// grains tell QEMU where they end.
fn vmdk(bytes: &PeekedFile<'_>) -> Result<u64, ImageError> {
    const COMPRESSED: u64 = 1 << 16;
    const NO_GRAIN: u64 = 1;
    /// QEMU opens no image with more entries a table.
    const LONGEST_TABLE: u64 = 512;
    let header = bytes.at(0, 512)?;
    let (capacity, grain) = (little(&header, 12, 8), little(&header, 20, 8));
    let (grains_a_table, directory) = (little(&header, 44, 4), little(&header, 56, 8));
    let covered = grain.saturating_mul(grains_a_table);
    if covered == 0 || grains_a_table > LONGEST_TABLE || little(&header, 8, 4) & COMPRESSED != 0 {
        return Ok(0);
    }
    let mut needed = 0;
    // A hostile directory names one table again and again: no more are looked at than there is room for.
    let mut room = bytes.length()? / 4 + grains_a_table;
    entries(bytes, directory.saturating_mul(SECTOR), capacity.div_ceil(covered), |index, table| {
        if table == 0 || room < grains_a_table {
            return Ok(());
        }
        room -= grains_a_table;
        needed = needed.max(end(table, 1));
        entries(bytes, table * SECTOR, grains_a_table, |place, entry| {
            if entry > NO_GRAIN {
                let start = (index * grains_a_table + place).saturating_mul(grain);
                let length = grain.min(capacity.saturating_sub(start));
                needed = needed.max(end(entry, length));
            }
            Ok(())
        })
    })?;
    Ok(needed)
}

/// A description of VMDK: each flat part says how many sectors it has.
fn flat_part(bytes: &PeekedFile<'_>) -> Result<Option<Truncated>, ImageError> {
    let mut found = Vec::new();
    parts(&bytes.at(0, 1 << 20)?, &mut found);
    for part in found {
        let Some(sectors) = part.sectors else { continue };
        let folder = bytes.path.parent().unwrap_or(Path::new(""));
        let path = folder.join(part.path());
        // Devices have no length here; what is absent QEMU will say.
        let Some(file) = path.metadata().ok().filter(|file| file.is_file()) else { continue };
        let needed = sectors.saturating_mul(SECTOR);
        if file.len() < needed {
            return Ok(Some(Truncated { part: Some(part.name), length: file.len(), needed }));
        }
    }
    Ok(None)
}

/// The place in bytes after `length` sectors from `sector` on.
fn end(sector: u64, length: u64) -> u64 {
    sector.saturating_add(length).saturating_mul(SECTOR)
}

/// Calls `each` with the number and the value of each 32-bit entry of a table, as far as the file goes.
fn entries(
    bytes: &PeekedFile<'_>,
    place: u64,
    count: u64,
    mut each: impl FnMut(u64, u64) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let length = count.min(MOST_ENTRIES) * 4;
    let mut done = 0;
    while done < length {
        let piece = bytes.at(place.saturating_add(done), PIECE.min((length - done) as usize))?;
        for (index, entry) in piece.chunks_exact(4).enumerate() {
            each(done / 4 + index as u64, little(entry, 0, 4))?;
        }
        if piece.len() < 4 {
            break;
        }
        done += piece.len() as u64;
    }
    Ok(())
}
