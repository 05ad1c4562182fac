//! The header of a qcow2 image: version, sizes, features, and the names of other files.
//!
//! The format is described in QEMU's `docs/interop/qcow2.rst`. All numbers are big endian.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::numbers::{be32, be64};
use crate::{Image, ImageError, ImageOperation, RawImage};

/// The first bytes of every version.
const MAGIC: &[u8] = b"QFI\xfb";

/// Length of the header of version 2, and of the least of version 3.
const V2_LEN: usize = 72;
const V3_LEN: usize = 104;

/// The shortest and longest clusters, as powers of two.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;

/// Extended L2 entries divide a cluster into this many subclusters.
pub(crate) const SUBCLUSTERS: u64 = 32;

/// The longest name of another file, as QEMU has it.
const MAX_NAME: u64 = 1023;

/// The longest L1 table in bytes, as QEMU has it.
pub(crate) const MAX_L1_BYTES: u64 = 32 << 20;

/// Types of header extensions.
const EXTENSION_END: u32 = 0;
const EXTENSION_BACKING_FORMAT: u32 = 0xe279_2aca;
const EXTENSION_FEATURE_NAMES: u32 = 0x6803_f857;
const EXTENSION_DATA_FILE: u32 = 0x4441_5441;
const EXTENSION_BITMAPS: u32 = 0x2385_2875;

/// Incompatible features: who does not know one cannot read the image.
const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION_TYPE: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;
const KNOWN: u64 = DIRTY | CORRUPT | EXTERNAL_DATA | COMPRESSION_TYPE | EXTENDED_L2;

/// Whoever writes the image and does not know bitmaps clears this autoclear feature.
const BITMAPS_VALID: u64 = 1 << 0;

/// How clusters are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// A deflate stream without a wrapper.
    Zlib,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    /// Its name in the format's description.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        }
    }
}

/// A table of 64-bit entries in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct L1 {
    /// Byte offset in the file.
    pub(crate) offset: u64,
    /// Number of entries.
    pub(crate) entries: u64,
}

/// What the header says.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) cluster_bits: u32,
    /// Length in bytes of what a guest sees.
    pub(crate) length: u64,
    pub(crate) l1: L1,
    pub(crate) snapshots: u32,
    pub(crate) snapshots_offset: u64,
    pub(crate) compression: Compression,
    pub(crate) extended_l2: bool,
    pub(crate) dirty: bool,
    pub(crate) corrupt: bool,
    /// The name of the file that backs this one, and its format, as far as they are recorded.
    pub(crate) backing: Option<OsString>,
    pub(crate) backing_format: Option<String>,
    /// Whether the guest's data is in another file, and its name, if that is recorded.
    pub(crate) external_data: bool,
    pub(crate) data_file: Option<OsString>,
    /// How it is encrypted.
    pub(crate) encryption: Option<&'static str>,
    /// Where the dirty bitmaps are described.
    pub(crate) bitmaps: Option<Bitmaps>,
    /// Why it cannot be read, though it is a qcow2 image.
    pub(crate) refused: Option<String>,
}

/// The directory of dirty bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bitmaps {
    pub(crate) count: u32,
    /// Length in bytes of the directory.
    pub(crate) len: u64,
    /// Byte offset in the file.
    pub(crate) offset: u64,
}

impl Header {
    /// Length of a cluster in bytes.
    pub(crate) fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Length of an entry of an L2 table in bytes.
    pub(crate) fn l2_entry_len(&self) -> u64 {
        if self.extended_l2 { 16 } else { 8 }
    }

    /// How many bytes of the guest an L2 table maps.
    pub(crate) fn l2_reach(&self) -> u64 {
        self.cluster_size() / self.l2_entry_len() * self.cluster_size()
    }

    /// Reads and checks the header of `file`. What it asks for may still be more than can be done:
    /// [`Header::refused`].
    pub(crate) fn read(file: &RawImage, path: &Path) -> Result<Header, ImageError> {
        let invalid =
            |offset: u64, what: String| ImageError::invalid(path, ImageOperation::Open, Some(offset), what);
        let refused = |what: String| ImageError::Refused { path: path.to_path_buf(), what };
        let file_length = file.exact_length();
        let fixed = fixed_part(file, path)?;
        let version = be32(&fixed, 4);
        if !matches!(version, 2 | 3) {
            return Err(refused(format!("qcow2 version {version} is not known")));
        }
        let cluster_bits = be32(&fixed, 20);
        if !CLUSTER_BITS.contains(&cluster_bits) {
            return Err(invalid(20, format!("cluster size of 2^{cluster_bits} bytes")));
        }
        let cluster_size = 1_u64 << cluster_bits;
        let (header_len, incompatible) = match version {
            2 => (V2_LEN as u64, 0),
            _ => (u64::from(be32(&fixed, 100)), be64(&fixed, 72)),
        };
        if version == 3 && !(V3_LEN as u64..=cluster_size.min(file_length)).contains(&header_len) {
            return Err(invalid(100, format!("header length {header_len}")));
        }

        // What lies between the header and the name of the backing file, or in the first cluster.
        let name_offset = be64(&fixed, 8);
        let name_len = u64::from(be32(&fixed, 16));
        let extensions_end = match name_offset {
            0 => cluster_size.min(file_length),
            offset if offset > cluster_size || offset < header_len => {
                return Err(invalid(8, format!("backing file name at {offset}")));
            }
            offset => offset.min(file_length),
        };
        let mut start = vec![0; extensions_end as usize];
        file.read_at(&mut start, 0)?;
        let extensions = Extensions::parse(&start, header_len as usize)
            .map_err(|offset| invalid(offset, "header extension reaches beyond its place".into()))?;

        let (encryption, mut not_read) = encryption(be32(&fixed, 32));
        let unknown = incompatible & !KNOWN;
        if unknown != 0 {
            let names = extensions.feature_names(unknown).join(", ");
            not_read = not_read.or(Some(format!("it needs a feature that is not known: {names}")));
        }
        let compression = match fixed[V3_LEN] {
            _ if version < 3 || header_len <= V3_LEN as u64 => 0,
            method => method,
        };
        if (incompatible & COMPRESSION_TYPE != 0) != (compression != 0) {
            return Err(invalid(V3_LEN as u64, "compression type and feature bit disagree".into()));
        }
        let compression = match compression {
            0 => Compression::Zlib,
            1 => Compression::Zstd,
            other => {
                not_read = not_read.or(Some(format!("compression type {other} is not known")));
                Compression::Zlib
            }
        };
        let extended_l2 = incompatible & EXTENDED_L2 != 0;
        if extended_l2 && cluster_size / SUBCLUSTERS < 1 << CLUSTER_BITS.start() {
            return Err(invalid(20, format!("clusters of {cluster_size} bytes with subclusters")));
        }

        let backing = match (name_offset, name_len) {
            (0, _) | (_, 0) => None,
            (offset, len) if len > MAX_NAME.min(cluster_size - offset) || offset + len > file_length => {
                return Err(invalid(16, format!("backing file name of {len} bytes at {offset}")));
            }
            (offset, len) => Some(name(file, offset, len)?),
        };
        let external_data = incompatible & EXTERNAL_DATA != 0;
        let header = Header {
            version,
            cluster_bits,
            // QEMU counts whole sectors.
            length: be64(&fixed, 24) / 512 * 512,
            l1: L1 { offset: be64(&fixed, 40), entries: u64::from(be32(&fixed, 36)) },
            snapshots: be32(&fixed, 60),
            snapshots_offset: be64(&fixed, 64),
            compression,
            extended_l2,
            dirty: incompatible & DIRTY != 0,
            corrupt: incompatible & CORRUPT != 0,
            backing,
            backing_format: extensions.backing_format,
            external_data,
            data_file: extensions.data_file.filter(|_| external_data),
            encryption,
            bitmaps: extensions.bitmaps.filter(|_| version >= 3 && be64(&fixed, 88) & BITMAPS_VALID != 0),
            refused: not_read,
        };
        if header.length > i64::MAX as u64 {
            return Err(invalid(24, format!("length of {} bytes", header.length)));
        }
        Ok(header)
    }

    /// Checks that a table of L1 entries lies within the file and maps `length` bytes.
    pub(crate) fn check_l1(
        &self,
        l1: L1,
        length: u64,
        file_length: u64,
        at: u64,
        path: &Path,
    ) -> Result<(), ImageError> {
        let invalid = |what: String| ImageError::invalid(path, ImageOperation::Open, Some(at), what);
        let L1 { offset, entries } = l1;
        let bytes = entries * 8;
        if bytes > MAX_L1_BYTES {
            return Err(invalid(format!("L1 table of {entries} entries")));
        }
        if entries < length.div_ceil(self.l2_reach()) {
            return Err(invalid(format!("L1 table of {entries} entries for {length} bytes")));
        }
        if entries == 0 {
            return Ok(());
        }
        if !offset.is_multiple_of(self.cluster_size()) {
            return Err(invalid(format!("L1 table at {offset}, which is not aligned")));
        }
        if offset < self.cluster_size() {
            return Err(invalid(format!("L1 table at {offset}, over the header")));
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= file_length => Ok(()),
            _ => Err(invalid(format!("L1 table at {offset}, outside the file"))),
        }
    }
}

/// The part of the header that every image has, with zeros for what an older version lacks.
fn fixed_part(file: &RawImage, path: &Path) -> Result<[u8; V3_LEN + 8], ImageError> {
    let invalid = |what: &str| ImageError::invalid(path, ImageOperation::Open, Some(0), what.to_string());
    let mut fixed = [0; V3_LEN + 8];
    if file.exact_length() < V2_LEN as u64 {
        return Err(invalid("too short for a qcow2 header"));
    }
    let present = file.exact_length().min(fixed.len() as u64) as usize;
    file.read_at(&mut fixed[..present], 0)?;
    match fixed.starts_with(MAGIC) {
        true => Ok(fixed),
        false => Err(invalid("not a qcow2 image")),
    }
}

/// How an image is encrypted, by the number in its header, and why it cannot be read.
fn encryption(method: u32) -> (Option<&'static str>, Option<String>) {
    let name = match method {
        0 => return (None, None),
        1 => "AES",
        2 => "LUKS",
        other => return (Some("unknown"), Some(format!("encryption method {other} is not known"))),
    };
    (Some(name), Some(format!("encrypted images ({name}) are not supported")))
}

/// The name of the backing file.
fn name(file: &RawImage, offset: u64, len: u64) -> Result<OsString, ImageError> {
    let mut name = vec![0; len as usize];
    file.read_at(&mut name, offset)?;
    Ok(OsString::from_vec(name))
}

/// What was found behind the fixed part of a header.
#[derive(Debug, Default)]
struct Extensions {
    backing_format: Option<String>,
    data_file: Option<OsString>,
    bitmaps: Option<Bitmaps>,
    /// Type, bit and name of features.
    names: Vec<u8>,
}

/// Length of a name in the table of features, and of its type and bit.
const FEATURE_LEN: usize = 48;

impl Extensions {
    /// Takes extensions from `place` of the first bytes of a file. The error is where one is too long.
    fn parse(bytes: &[u8], mut place: usize) -> Result<Extensions, u64> {
        let mut found = Extensions::default();
        while place + 8 <= bytes.len() {
            let (kind, len) = (be32(bytes, place), be32(bytes, place + 4) as usize);
            if kind == EXTENSION_END {
                break;
            }
            let data = place.checked_add(8 + len).and_then(|end| bytes.get(place + 8..end));
            let Some(data) = data else { return Err(place as u64) };
            match kind {
                EXTENSION_BACKING_FORMAT => {
                    found.backing_format = Some(String::from_utf8_lossy(data).into_owned());
                }
                EXTENSION_DATA_FILE => found.data_file = Some(OsString::from_vec(data.to_vec())),
                EXTENSION_BITMAPS if len >= 24 => {
                    let (count, len, offset) = (be32(data, 0), be64(data, 8), be64(data, 16));
                    found.bitmaps = Some(Bitmaps { count, len, offset });
                }
                EXTENSION_FEATURE_NAMES => found.names = data.to_vec(),
                _ => {}
            }
            place += 8 + len.next_multiple_of(8);
        }
        Ok(found)
    }

    /// The names of incompatible features by their bits, or their numbers.
    fn feature_names(&self, bits: u64) -> Vec<String> {
        const INCOMPATIBLE: u8 = 0;
        let set = (0_u8..64).filter(|bit| bits >> bit & 1 == 1);
        set.map(|bit| {
            let mut rows = self.names.chunks_exact(FEATURE_LEN);
            let row = rows.find(|row| row[..2] == [INCOMPATIBLE, bit]);
            let name = row.map(|row| row[2..].split(|&byte| byte == 0).next().unwrap_or_default());
            match name {
                Some(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
                _ => format!("bit {bit}"),
            }
        })
        .collect()
    }
}
