//! A model of the work: hashes sectors of 4 KiB in memory one by one, with every digest that we have.
//!
//! It is no measurement of a file system: no kernel, no device, and other implementations than the
//! kernel's.

use verisum_digest::{ALGORITHMS, Digest, DigestClass, Policy};

use super::{CHECKSUMS, Data};
use crate::digests;
use crate::measure::{About, InProcess, MeasureError, Subject};

/// The length of a sector of btrfs.
pub const SECTOR: usize = 4096;

/// How many sectors are hashed in a repetition: 1 MiB of them.
const SECTORS: usize = 256;

/// The groups of the rows.
pub const ONE_BY_ONE: &str = "model: sectors of 4 KiB, one after the other";
/// The other.
pub const SIDE_BY_SIDE: &str = "model: sectors of 4 KiB, side by side";

/// A row for every digest, one sector after the other; one for those that are faster side by side; and
/// reading and copying the same bytes, and the null digest, as controls.
pub fn model<'a>(data: &'a Data, policy: &Policy) -> Vec<Box<dyn Subject + 'a>> {
    let bytes = &data.bytes[..SECTORS * SECTOR];
    let sectors = || bytes.chunks_exact(SECTOR);
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for algorithm in ALGORITHMS {
        let Ok(digest) = Digest::of(algorithm, policy) else { continue };
        let about = |group: &str| {
            let null = algorithm.class == DigestClass::Null;
            // What looks at no byte has a time and no rate.
            let mut about = About::new(group, algorithm.id).bytes(if null { 0 } else { bytes.len() as u64 });
            about.control = null;
            match CHECKSUMS.iter().find(|one| one.digest == algorithm.id && !one.none) {
                Some(checksum) => about.label("btrfs", checksum.name),
                None => about,
            }
        };
        let Ok(mut stream) = digest.stream() else { continue };
        let mut output = vec![0; digest.len()];
        let one_by_one = move || {
            for sector in sectors() {
                stream.update(sector)?;
                stream.finish(&mut output)?;
            }
            Ok::<(), MeasureError>(())
        };
        subjects.push(InProcess::new(about(ONE_BY_ONE), one_by_one).boxed());
        let Ok(mut batch) = digest.batch() else { continue };
        if digest.batch_level().is_some() {
            let messages: Vec<&[u8]> = sectors().collect();
            let mut outputs = vec![0; messages.len() * digest.len()];
            let side_by_side = move || Ok(batch.hash(&messages, &mut outputs)?);
            subjects.push(InProcess::new(about(SIDE_BY_SIDE), side_by_side).boxed());
        }
    }
    for group in [ONE_BY_ONE, SIDE_BY_SIDE] {
        let about = About::new(group, "copy in memory").bytes(bytes.len() as u64).control();
        let mut copy = vec![0; bytes.len()];
        let work = move || {
            copy.copy_from_slice(bytes);
            std::hint::black_box(&copy);
            Ok(())
        };
        subjects.push(InProcess::new(about, work).boxed());
        let about = About::new(group, "read memory").bytes(bytes.len() as u64).control();
        let work = move || {
            digests::read_bytes(bytes);
            Ok(())
        };
        subjects.push(InProcess::new(about, work).boxed());
    }
    subjects
}
