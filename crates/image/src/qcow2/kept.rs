//! Snapshots and bitmaps that a qcow2 image keeps besides the guest's current state.

use std::path::Path;

use super::header::{Bitmaps, Header};
use super::snapshots::Snapshots;
use crate::numbers::{be16, be32};
use crate::{Bitmap, Image, ImageError, ImageOperation, Kept, KeptSnapshot, RawImage};

/// How long the directory of bitmaps is at most, as QEMU has it.
const MAX_DIRECTORY: u64 = 64 << 20;

/// Length of the fixed part of an entry of that directory.
const ENTRY_LEN: usize = 24;

/// Flags of a bitmap: it was not written back when the image was closed; it is kept up to date.
const IN_USE: u32 = 1 << 0;
const AUTO: u32 = 1 << 1;

/// Lists the snapshots and bitmaps of the image in `file`.
pub(crate) fn kept(file: &RawImage, path: &Path) -> Result<Kept, ImageError> {
    let header = Header::read(file, path)?;
    let mut found = Kept::default();
    let mut snapshots = Snapshots::new(file, &header, path)?;
    while let Some(snapshot) = snapshots.next_one()? {
        found.snapshots.push(KeptSnapshot {
            id: snapshot.id,
            name: snapshot.name,
            seconds: snapshot.seconds,
            length: snapshot.length.unwrap_or(header.length),
            state_length: snapshot.state_length,
        });
    }
    if let Some(bitmaps) = &header.bitmaps {
        found.bitmaps = bitmaps_of(file, path, bitmaps)?;
    }
    Ok(found)
}

fn bitmaps_of(file: &RawImage, path: &Path, directory: &Bitmaps) -> Result<Vec<Bitmap>, ImageError> {
    let invalid =
        |offset| ImageError::invalid(path, ImageOperation::Open, Some(offset), "invalid list of bitmaps");
    let Bitmaps { count, len, offset } = *directory;
    let end = offset.checked_add(len).filter(|end| len <= MAX_DIRECTORY && *end <= file.exact_length());
    end.ok_or_else(|| invalid(offset))?;
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, offset)?;
    let mut found = Vec::new();
    let mut place = 0;
    for _ in 0..count {
        let failed = || invalid(offset + place as u64);
        let entry = bytes.get(place..place + ENTRY_LEN).ok_or_else(failed)?;
        let (flags, bits, name_len) = (be32(entry, 12), entry[17], usize::from(be16(entry, 18)));
        let name_at = place + ENTRY_LEN + be32(entry, 20) as usize;
        let name = bytes.get(name_at..name_at + name_len).ok_or_else(failed)?;
        found.push(Bitmap {
            name: String::from_utf8_lossy(name).into_owned(),
            granularity: 1_u64.checked_shl(bits.into()).unwrap_or(0),
            in_use: flags & IN_USE != 0,
            enabled: flags & AUTO != 0,
        });
        place = (name_at + name_len).next_multiple_of(8);
    }
    Ok(found)
}
