//! The checksums of cksum and sum, from POSIX and old systems. They have no row in the table, because they
//! are printed as decimal numbers with a length, and no list has them.

use crc_fast::CrcAlgorithm;

/// Which checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The CRC of POSIX's cksum, of 32 bits: over the bytes, then over their number.
    Crc,
    /// That of sum as BSD has it, of 16 bits.
    Bsd,
    /// That of sum as System V has it, of 16 bits.
    SysV,
}

impl Checksum {
    /// The checksum that `cksum -a` calls so.
    pub fn find(name: &str) -> Option<Checksum> {
        match name {
            "crc" => Some(Checksum::Crc),
            "bsd" => Some(Checksum::Bsd),
            "sysv" => Some(Checksum::SysV),
            _ => None,
        }
    }

    /// Begins one.
    pub fn start(self) -> Summing {
        let state = match self {
            Checksum::Crc => State::Crc(Box::new(crc_fast::Digest::new(CrcAlgorithm::Crc32Cksum))),
            Checksum::Bsd => State::Bsd(0),
            Checksum::SysV => State::SysV(0),
        };
        Summing { state, length: 0 }
    }
}

/// A checksum that is being computed.
#[derive(Debug)]
pub struct Summing {
    state: State,
    length: u64,
}

#[derive(Debug)]
enum State {
    Crc(Box<crc_fast::Digest>),
    Bsd(u16),
    /// The sum of all bytes, in 32 bits.
    SysV(u32),
}

impl Summing {
    /// Adds bytes.
    pub fn update(&mut self, data: &[u8]) {
        self.length += data.len() as u64;
        match &mut self.state {
            State::Crc(crc) => crc.update(data),
            State::Bsd(sum) => {
                *sum = data.iter().fold(*sum, |sum, byte| sum.rotate_right(1).wrapping_add((*byte).into()));
            }
            State::SysV(sum) => {
                *sum = data.iter().fold(*sum, |sum, byte| sum.wrapping_add((*byte).into()));
            }
        }
    }

    /// The checksum, and how many bytes it is of.
    pub fn finish(self) -> (u32, u64) {
        let value = match self.state {
            State::Crc(mut crc) => {
                // The number of bytes, its lowest byte first, in no more bytes than it needs.
                let bytes = self.length.to_le_bytes();
                let needed = bytes.len() - self.length.leading_zeros() as usize / 8;
                crc.update(&bytes[..needed]);
                crc.finalize() as u32
            }
            State::Bsd(sum) => sum.into(),
            State::SysV(sum) => {
                let folded = (sum & 0xffff) + (sum >> 16);
                (folded & 0xffff) + (folded >> 16)
            }
        };
        (value, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, data: &[u8]) -> u32 {
        let mut summing = Checksum::find(name).unwrap().start();
        data.chunks(7).for_each(|piece| summing.update(piece));
        let (value, length) = summing.finish();
        assert_eq!(length, data.len() as u64);
        value
    }

    /// What the coreutils print of these.
    #[test]
    fn checksums_are_those_of_the_coreutils() {
        for (name, empty, hello, digits) in [
            ("crc", 4_294_967_295, 3_015_617_425, 930_766_865),
            ("bsd", 0, 36_979, 53_615),
            ("sysv", 0, 542, 477),
        ] {
            let found = [of(name, b""), of(name, b"hello\n"), of(name, b"123456789")];
            assert_eq!(found, [empty, hello, digits], "{name}");
        }
        assert_eq!(Checksum::find("md5"), None);
    }
}
