//! The lengths of a page of Parquet, by its header: the compact protocol of Thrift, as far as it must be read to find
//! where the header ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How deep structures are nested in a header at most.
const MOST_DEPTH: u8 = 8;

/// The types of fields.
const FALSE: u8 = 2;
const TRUE: u8 = 1;
const BYTE: u8 = 3;
const I32: u8 = 5;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

/// The longest page that is unpacked, in bytes. Writers make pages of about one MiB.
const MOST_PAGE: u64 = 16 << 20;

/// The longest header of a page, which may have its first and last value, in bytes.
const MOST_HEADER: usize = 8 << 10;

/// Fails unless the pages from one byte of a file to another can be unpacked in little memory: a short one may be packed
/// of a very long one, or say so.
///
/// # Errors
/// One is too long, or is none.
pub fn require_short_pages(file: &File, (start, end): (u64, u64)) -> io::Result<()> {
    let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut at = start;
    let mut head = vec![0; MOST_HEADER];
    while at < end {
        let most = MOST_HEADER.min((end - at) as usize);
        let count = file.read_at(&mut head[..most], at)?;
        let page = PageLengths::of(&head[..count]).ok_or_else(|| wrong("a page has no header"))?;
        if page.packed.max(page.unpacked) > MOST_PAGE {
            return Err(wrong("a page is too long"));
        }
        at += page.header + page.packed;
    }
    Ok(())
}

/// Lengths in bytes.
#[derive(Debug, PartialEq, Eq)]
struct PageLengths {
    header: u64,
    /// Of what follows the header.
    packed: u64,
    unpacked: u64,
}

impl PageLengths {
    /// Those of the page that begins so; none where that is no whole header.
    fn of(bytes: &[u8]) -> Option<PageLengths> {
        let mut left = Bytes(bytes);
        let (mut id, mut unpacked, mut packed) = (0, None, None);
        while let Some(kind) = left.field(&mut id)? {
            match (id, kind) {
                (2, I32) => unpacked = Some(left.length()?),
                (3, I32) => packed = Some(left.length()?),
                _ => left.skip(kind, MOST_DEPTH)?,
            }
        }
        let header = (bytes.len() - left.0.len()) as u64;
        Some(PageLengths { header, packed: packed?, unpacked: unpacked? })
    }
}

/// What is left of a header.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pass(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed number that is not negative.
    fn length(&mut self) -> Option<u64> {
        let number = self.number()?;
        (number & 1 == 0).then_some(number >> 1)
    }

    /// The type of the next field, whose number follows the last one; none at the end of a structure.
    fn field(&mut self, id: &mut u64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = match byte >> 4 {
            0 => self.length()?,
            further => *id + u64::from(further),
        };
        Some(Some(byte & 0x0f))
    }

    /// Passes over a value. No header has lists or maps.
    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            4..=6 => self.number().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.number()?;
                self.pass(usize::try_from(length).ok()?)
            }
            STRUCT if depth > 0 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth - 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_ends_where_its_fields_do() {
        // A page of data, 300 bytes and 7 packed, with a checksum, a structure with a text in it, and one behind it.
        let header = [
            0x15, 0, 0x15, 0xd8, 0x04, 0x15, 0x0e, 0x15, 0x03, 0x1c, 0x18, 0x02, b'a', b'b', 0x11, 0, 0, 0xff,
        ];
        let lengths = PageLengths { header: 17, packed: 7, unpacked: 300 };
        assert_eq!(PageLengths::of(&header), Some(lengths));
        for end in 0..17 {
            assert_eq!(PageLengths::of(&header[..end]), None, "{end}");
        }
        // A negative length, a list, and a text that does not end.
        for bad in [&[0x15, 0, 0x15, 0x01, 0x15, 0, 0][..], &[0x19, 0x15, 0, 0], &[0x18, 0xff, 0xff, 0x03, 0]]
        {
            assert_eq!(PageLengths::of(bad), None);
        }
    }
}
