//! The two checksums of Unix that the table of digests has not, as an independent check of what the
//! programs print.

/// CRC-32 of POSIX: polynomial 0x04C11DB7, most significant bit first, the length after the data.
pub(super) struct Posix {
    crc: u32,
    length: u64,
    table: [u32; 256],
}

impl Default for Posix {
    fn default() -> Posix {
        let entry = |byte: u32| {
            (0..8).fold(byte << 24, |crc, _| (crc << 1) ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 })
        };
        Posix { crc: 0, length: 0, table: std::array::from_fn(|byte| entry(byte as u32)) }
    }
}

impl Posix {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(byte);
        }
        self.length += bytes.len() as u64;
    }

    fn byte(&mut self, byte: u8) {
        self.crc = (self.crc << 8) ^ self.table[(self.crc >> 24) as usize ^ usize::from(byte)];
    }

    pub(super) fn finish(mut self) -> u32 {
        let mut length = self.length;
        while length > 0 {
            self.byte(length as u8);
            length >>= 8;
        }
        !self.crc
    }
}

/// The 16 bits of BSD's sum: rotated by one to the right before each byte is added.
#[derive(Default)]
pub(super) struct Bsd(u16);

impl Bsd {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| sum.rotate_right(1).wrapping_add(byte.into()));
    }

    pub(super) fn finish(self) -> u16 {
        self.0
    }
}

/// The checksum that `cksum` prints.
pub fn posix_cksum(bytes: &[u8]) -> u32 {
    let mut sum = Posix::default();
    sum.update(bytes);
    sum.finish()
}

/// The checksum that `sum` prints.
pub fn bsd_sum(bytes: &[u8]) -> u16 {
    let mut sum = Bsd::default();
    sum.update(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_programs() {
        // From POSIX's example implementations and the coreutils.
        assert_eq!((posix_cksum(b""), bsd_sum(b"")), (4_294_967_295, 0));
        assert_eq!(posix_cksum(b"123456789"), 930_766_865);
        assert_eq!(bsd_sum(b"123456789"), 53_615);
    }
}
