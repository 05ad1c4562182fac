//! The content of `user.verisum`, as docs/tag-format.md specifies it.

use verisum_digest::Output;

use super::ids;
use crate::{Record, RecordedTime, Timestamp};

/// The version that is written.
const VERSION: u8 = 1;

/// What precedes the digest, in bytes. 32 more, the usual digest, are the most that ext4 keeps in an
/// inode of 256 bytes.
const HEADER: usize = 32;

/// The longest tag in bytes.
pub const MAX_LEN: usize = HEADER + verisum_digest::MAX_DIGEST_LEN;

/// Nanoseconds of a time that is not recorded.
const NO_TIME: u32 = u32::MAX;

/// How exact a time is, in the two highest bits of its nanoseconds, which nothing else needs, and by how
/// many nanoseconds the file's own may differ.
const PRECISIONS: [(u32, u64); 4] = [(0, 0), (3 << 30, 1000), (2 << 30, 1_000_000), (1 << 30, 1_000_000_000)];

/// The nanoseconds themselves.
const NANOSECONDS: u32 = (1 << 30) - 1;

/// A size that is not recorded.
const NO_SIZE: u64 = u64::MAX;

/// Why a tag cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// Its bytes are not those that were written.
    #[error("the tag is damaged")]
    Damaged,
    /// It was written by a later version.
    #[error("the tag is of version {0}, which this version does not know")]
    Version(u8),
    /// It is of a digest that a later version knows.
    #[error("the tag is of digest number {0}, which this version does not know")]
    Algorithm(u8),
}

/// A tag ready to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Encoded {
    /// The bytes of the attribute.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The tag of a record; `None` if its digest has no number.
pub fn encode(record: &Record) -> Option<Encoded> {
    let digest = record.digest.as_bytes();
    let mut bytes = [0; MAX_LEN];
    bytes[0] = VERSION;
    bytes[1] = ids::id_of(record.algorithm)?;
    let (seconds, nanoseconds) = match record.modified {
        Some(RecordedTime { time, tolerance }) => {
            let fits = |(_, known): &&(u32, u64)| tolerance <= *known;
            let (mark, _) = PRECISIONS.iter().find(fits).unwrap_or(&PRECISIONS[3]);
            (time.seconds, time.nanoseconds | mark)
        }
        None => (0, NO_TIME),
    };
    bytes[4..8].copy_from_slice(&nanoseconds.to_le_bytes());
    bytes[8..16].copy_from_slice(&record.size.unwrap_or(NO_SIZE).to_le_bytes());
    bytes[16..24].copy_from_slice(&seconds.to_le_bytes());
    bytes[24..32].copy_from_slice(&record.verified.map_or(0, |verified| verified.seconds).to_le_bytes());
    bytes[HEADER..HEADER + digest.len()].copy_from_slice(digest);
    let len = HEADER + digest.len();
    let check = check(&bytes[..len]);
    bytes[2..4].copy_from_slice(&check.to_le_bytes());
    Some(Encoded { bytes, len })
}

/// The record of a tag.
pub fn decode(bytes: &[u8]) -> Result<Record, Defect> {
    let (&version, &id) = (bytes.first().ok_or(Defect::Damaged)?, bytes.get(1).ok_or(Defect::Damaged)?);
    if bytes.len() < HEADER || u16::from_le_bytes([bytes[2], bytes[3]]) != check(bytes) {
        return Err(Defect::Damaged);
    }
    if version != VERSION {
        return Err(Defect::Version(version));
    }
    let algorithm = ids::algorithm_of(id).ok_or(Defect::Algorithm(id))?;
    if bytes.len() != HEADER + algorithm.digest_len() {
        return Err(Defect::Damaged);
    }
    let mut digest = Output::zeroed(algorithm.digest_len());
    digest.as_mut_bytes().copy_from_slice(&bytes[HEADER..]);
    let number = |at: usize| {
        u64::from_le_bytes([
            bytes[at],
            bytes[at + 1],
            bytes[at + 2],
            bytes[at + 3],
            bytes[at + 4],
            bytes[at + 5],
            bytes[at + 6],
            bytes[at + 7],
        ])
    };
    let modified = match u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) {
        NO_TIME => None,
        marked => {
            let nanoseconds = marked & NANOSECONDS;
            let (_, tolerance) = PRECISIONS[PRECISIONS
                .iter()
                .position(|(mark, _)| *mark == marked & !NANOSECONDS)
                .filter(|_| nanoseconds < 1_000_000_000)
                .ok_or(Defect::Damaged)?];
            let time = Timestamp { seconds: number(16).cast_signed(), nanoseconds };
            Some(RecordedTime { time, tolerance })
        }
    };
    Ok(Record {
        algorithm,
        digest,
        size: Some(number(8)).filter(|&size| size != NO_SIZE),
        modified,
        verified: Some(number(24).cast_signed()).filter(|seconds| *seconds != 0).map(Timestamp::of_seconds),
    })
}

/// CRC-16/IBM-3740 of all bytes but the two that hold it.
fn check(tag: &[u8]) -> u16 {
    tag[..2]
        .iter()
        .chain(&tag[4..])
        .fold(0xffff, |crc, byte| (crc << 8) ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verisum_digest::{ALGORITHMS, Algorithm};

    fn sample(algorithm: &'static Algorithm) -> Record {
        let mut digest = Output::zeroed(algorithm.digest_len());
        digest.as_mut_bytes().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8 + 1);
        let time = Timestamp { seconds: -1, nanoseconds: 999_999_999 };
        Record {
            algorithm,
            digest,
            size: Some(u64::MAX - 1),
            modified: Some(RecordedTime::exact(time)),
            verified: Some(Timestamp::of_seconds(1_700_000_000)),
        }
    }

    #[test]
    fn the_check_is_the_catalogued_one() {
        // Two bytes of the tag are not covered.
        assert_eq!(check(b"12??3456789"), 0x29b1);
    }

    #[test]
    fn every_digest_comes_back_and_the_usual_ones_fit_an_inode() {
        for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.bits > 0) {
            let record = sample(algorithm);
            let unknown = Record { size: None, modified: None, verified: None, ..record };
            for record in [record, unknown] {
                let tag = encode(&record).unwrap();
                assert_eq!(decode(tag.as_bytes()), Ok(record));
                assert_eq!(tag.as_bytes().len(), 32 + algorithm.digest_len());
            }
        }
        assert_eq!(encode(&sample(Algorithm::find("sha256").unwrap())).unwrap().as_bytes().len(), 64);
        assert!(encode(&sample(Algorithm::find("null").unwrap())).is_none());
    }

    #[test]
    fn times_stay_as_coarse_as_they_were_recorded() {
        let time = Timestamp { seconds: 5, nanoseconds: 999_999_999 };
        for (tolerance, kept) in [
            (0, 0),
            (1, 1000),
            (1000, 1000),
            (1001, 1_000_000),
            (1_000_001, 1_000_000_000),
            (u64::MAX, 1_000_000_000),
        ] {
            let record = sample(Algorithm::find("sha256").unwrap());
            let record = Record { modified: Some(RecordedTime { time, tolerance }), ..record };
            let tag = encode(&record).unwrap();
            let again = decode(tag.as_bytes()).unwrap();
            assert_eq!(again.modified, Some(RecordedTime { time, tolerance: kept }));
        }
    }

    #[test]
    fn any_one_wrong_byte_is_damage() {
        let tag = encode(&sample(Algorithm::find("sha256").unwrap())).unwrap();
        for at in 0..tag.as_bytes().len() {
            for flip in 1..=255 {
                let mut bytes = tag.as_bytes().to_vec();
                bytes[at] ^= flip;
                assert_eq!(decode(&bytes), Err(Defect::Damaged), "byte {at} ^ {flip}");
            }
        }
        for len in 0..tag.as_bytes().len() {
            assert_eq!(decode(&tag.as_bytes()[..len]), Err(Defect::Damaged));
        }
    }

    #[test]
    fn later_versions_are_told_from_damage() {
        let with = |at: usize, value: u8| {
            let mut bytes = encode(&sample(Algorithm::find("sha256").unwrap())).unwrap().as_bytes().to_vec();
            bytes[at] = value;
            let check = check(&bytes);
            bytes[2..4].copy_from_slice(&check.to_le_bytes());
            decode(&bytes)
        };
        assert_eq!(with(0, 2), Err(Defect::Version(2)));
        assert_eq!(with(1, 200), Err(Defect::Algorithm(200)));
        assert_eq!(with(1, 4), Err(Defect::Damaged));
        assert_eq!(with(7, 0x3f), Err(Defect::Damaged), "more than a second of nanoseconds");
    }

    proptest! {
        #[test]
        fn what_is_understood_is_written_alike(bytes in prop::collection::vec(any::<u8>(), 0..MAX_LEN + 2)) {
            let mut bytes = bytes;
            if bytes.len() >= HEADER {
                bytes[0] = VERSION;
                let check = check(&bytes);
                bytes[2..4].copy_from_slice(&check.to_le_bytes());
            }
            if let Ok(record) = decode(&bytes)
                && record.modified.is_some()
            {
                let tag = encode(&record).unwrap();
                prop_assert_eq!(tag.as_bytes(), &bytes[..]);
            }
        }
    }
}
