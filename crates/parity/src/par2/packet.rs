//! The packets of PAR2 files.
//!
//! A PAR2 file is a run of packets, each with its length and the MD5 of what is behind that. What describes the files
//! is in every PAR2 file of a set; each recovery block is in one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use verisum_digest::Digest;
use verisum_files::Stop;

use super::Md5;
use crate::ParityError;

const MAGIC: &[u8; 8] = b"PAR2\0PKT";

/// Bytes of a packet before its body: magic, length, MD5, set, type.
const HEAD: u64 = 64;

/// Where the bytes begin that the MD5 is of.
const SEALED: u64 = 32;

/// The longest packet that is no recovery block: one that lists 32,768 files or blocks has 660 kB.
const LONGEST: u64 = 1 << 20;

/// How often the bytes of a file may be read to find out where a damaged packet ends.
const MOST_TRIES: u64 = 4;

/// Bytes that are searched at a time.
const WINDOW: usize = 64 << 10;

/// What a packet of a set says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The size of blocks, and the files that have recovery blocks, in their order.
    Main {
        block: u64,
        files: Vec<Md5>,
    },
    File {
        id: Md5,
        md5: Md5,
        size: u64,
        name: Box<[u8]>,
    },
    /// The MD5 of each block of a file.
    Blocks {
        id: Md5,
        blocks: Vec<Md5>,
    },
    /// A recovery block. Its packet is not compared with its MD5 yet.
    Recovery(Recovery),
    /// Who made the set, and what others added to the format.
    Other,
}

/// Where a recovery block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recovery {
    pub(super) exponent: u32,
    /// Where its packet begins in its file.
    packet: u64,
    /// Bytes of the block.
    pub(super) length: u64,
    md5: Md5,
}

impl Recovery {
    /// Where the block begins.
    pub(super) fn offset(&self) -> u64 {
        self.packet + HEAD + 4
    }

    /// Where what the MD5 is of begins, its length, and the MD5.
    pub(super) fn sealed(&self) -> (u64, u64, Md5) {
        (self.packet + SEALED, self.length + HEAD + 4 - SEALED, self.md5)
    }
}

/// A packet, and the set that it belongs to.
pub(super) struct Packet {
    pub(super) set: Md5,
    pub(super) body: Body,
}

/// The head of a packet.
struct PacketHead {
    length: u64,
    md5: Md5,
    set: Md5,
    kind: [u8; 16],
}

impl PacketHead {
    /// None if no packet begins here, or not all of it is there.
    fn at(file: &File, at: u64, end: u64) -> io::Result<Option<PacketHead>> {
        let mut bytes = [0; HEAD as usize];
        if end - at < HEAD {
            return Ok(None);
        }
        file.read_exact_at(&mut bytes, at)?;
        let (chunks, _) = bytes.as_chunks::<16>();
        let [start, md5, set, kind] = *chunks else { return Ok(None) };
        let (magic, length) = start.split_at(MAGIC.len());
        let length = length.try_into().map_or(0, u64::from_le_bytes);
        let is_packet = magic == MAGIC
            && length.is_multiple_of(4)
            && (HEAD..=end - at).contains(&length)
            && (length <= LONGEST || is_recovery(&kind));
        Ok(is_packet.then_some(PacketHead { length, md5, set, kind }))
    }
}

fn is_recovery(kind: &[u8; 16]) -> bool {
    kind == b"PAR 2.0\0RecvSlic"
}

/// Finds all packets of a file, and reads all but the recovery blocks. Returns how many bytes are in no packet.
pub(super) fn read(
    file: &File,
    (md5, stop): (&Digest, &Stop),
    take: &mut dyn FnMut(Packet),
) -> Result<u64, ReadError> {
    let end = file.metadata()?.len();
    let mut damaged = 0;
    let (mut at, mut tries) = (0, end.saturating_mul(MOST_TRIES));
    while at < end {
        go_on(stop)?;
        if let Some(head) = PacketHead::at(file, at, end)? {
            let next = at + head.length;
            // Where the next packet begins behind a recovery block, its length is right, and the rest is compared
            // when all of them are.
            let is_followed = next == end || PacketHead::at(file, next, end)?.is_some();
            let is_whole = match is_recovery(&head.kind) && is_followed {
                true => true,
                false if head.length > tries => false,
                false => {
                    tries -= head.length;
                    is_sealed(file, at, &head, md5)?
                }
            };
            if let Some(body) = is_whole.then(|| body(file, at, &head)).transpose()?.flatten() {
                take(Packet { set: head.set, body });
                at = next;
                continue;
            }
        }
        let next = find(file, at + 1, end, stop)?;
        damaged += next - at;
        at = next;
    }
    Ok(damaged)
}

/// Fails if the run is to end.
fn go_on(stop: &Stop) -> Result<(), ReadError> {
    if stop.is_due() { Err(ReadError::Stopped) } else { Ok(()) }
}

/// Where the next packet may begin.
fn find(file: &File, mut at: u64, end: u64, stop: &Stop) -> Result<u64, ReadError> {
    let mut window = vec![0; WINDOW];
    while end - at >= HEAD {
        go_on(stop)?;
        let length = WINDOW.min((end - at) as usize);
        file.read_exact_at(&mut window[..length], at)?;
        if let Some(found) = window[..length].windows(MAGIC.len()).position(|bytes| bytes == MAGIC) {
            return Ok(at + found as u64);
        }
        at += (length - MAGIC.len() + 1) as u64;
    }
    Ok(end)
}

/// Whether the MD5 of a packet is what its head says.
fn is_sealed(file: &File, at: u64, head: &PacketHead, md5: &Digest) -> Result<bool, ReadError> {
    let mut stream = md5.stream()?;
    let (mut from, end) = (at + SEALED, at + head.length);
    let mut bytes = vec![0; WINDOW];
    while from < end {
        let length = WINDOW.min((end - from) as usize);
        file.read_exact_at(&mut bytes[..length], from)?;
        stream.update(&bytes[..length])?;
        from += length as u64;
    }
    let mut found = Md5::default();
    stream.finish(&mut found)?;
    Ok(found == head.md5)
}

/// What a packet says; none if its length does not fit what it is.
fn body(file: &File, at: u64, head: &PacketHead) -> io::Result<Option<Body>> {
    let length = head.length - HEAD;
    if is_recovery(&head.kind) {
        let mut exponent = [0; 4];
        if length <= 4 {
            return Ok(None);
        }
        file.read_exact_at(&mut exponent, at + HEAD)?;
        let exponent = u32::from_le_bytes(exponent);
        return Ok(Some(Body::Recovery(Recovery {
            exponent,
            packet: at,
            length: length - 4,
            md5: head.md5,
        })));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, at + HEAD)?;
    Ok(parse(&head.kind, &bytes))
}

fn parse(kind: &[u8; 16], body: &[u8]) -> Option<Body> {
    match kind {
        b"PAR 2.0\0Main\0\0\0\0" => {
            let (block, rest) = body.split_first_chunk()?;
            let (count, rest) = rest.split_first_chunk()?;
            let ids = rest.as_chunks::<16>().0;
            let files = ids.get(..u32::from_le_bytes(*count) as usize)?.to_vec();
            Some(Body::Main { block: u64::from_le_bytes(*block), files })
        }
        b"PAR 2.0\0FileDesc" => {
            let (ids, rest) = body.split_first_chunk::<48>()?;
            // The MD5 of the first 16 KiB is for files whose names were lost.
            let [id, md5, _] = *ids.as_chunks::<16>().0 else { return None };
            let (size, name) = rest.split_first_chunk()?;
            let end = name.iter().rposition(|byte| *byte != 0)? + 1;
            Some(Body::File { id, md5, size: u64::from_le_bytes(*size), name: name[..end].into() })
        }
        b"PAR 2.0\0IFSC\0\0\0\0" => {
            let (id, rest) = body.split_first_chunk()?;
            // Behind each MD5 is a CRC-32, by which others find blocks that moved.
            let blocks = rest.as_chunks::<20>().0.iter();
            let blocks = blocks.filter_map(|block| block.first_chunk()).copied().collect();
            Some(Body::Blocks { id: *id, blocks })
        }
        _ => Some(Body::Other),
    }
}

/// Why a PAR2 file could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the run is to end")]
    Stopped,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
}

impl ReadError {
    pub(super) fn of(self, path: &std::path::Path) -> ParityError {
        match self {
            ReadError::Stopped => ParityError::Stopped,
            ReadError::Io(error) => ParityError::io(path, "read", error),
            ReadError::Digest(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no packet may be as long as somebody likes.
    #[test]
    fn the_search_for_packets_ends_when_the_run_does() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        let (md5, stop) = (Digest::find("md5").unwrap(), Stop::default());
        stop.request();
        assert!(matches!(read(&file, (&md5, &stop), &mut |_| {}), Err(ReadError::Stopped)));
    }
}
