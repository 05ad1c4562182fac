//! Big-endian numbers in the headers and tables of images.

/// The 16-bit big-endian number at `place`.
pub(crate) fn be16(bytes: &[u8], place: usize) -> u16 {
    u16::from_be_bytes(std::array::from_fn(|i| bytes[place + i]))
}

/// The 32-bit big-endian number at `place`.
pub(crate) fn be32(bytes: &[u8], place: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|i| bytes[place + i]))
}

/// The 64-bit big-endian number at `place`.
pub(crate) fn be64(bytes: &[u8], place: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| bytes[place + i]))
}
