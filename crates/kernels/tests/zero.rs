//! Zero detection at every level, length and alignment.

use verisum_kernels::{Level, is_zero, is_zero_at};

fn assert_all(bytes: &[u8], expected: bool) {
    assert_eq!(is_zero(bytes), expected);
    for &level in Level::ALL {
        match is_zero_at(level, bytes) {
            Some(zero) => assert_eq!(zero, expected, "{level:?}"),
            None => assert!(!level.available()),
        }
    }
}

#[test]
fn every_length_alignment_and_position() {
    let mut bytes = vec![0; 64 + 600];
    for start in 0..64 {
        for len in (0..=64).chain([127, 128, 129, 255, 256, 257, 511, 512, 513, 600]) {
            // What lies around must not matter.
            bytes.fill(0xff);
            bytes[start..start + len].fill(0);
            assert_all(&bytes[start..start + len], true);
            // Every place near the ends, and a prime step in between.
            let places = (0..len).filter(|&i| i < 8 || i + 8 > len || i % 7 == 0);
            for place in places {
                bytes[start + place] = 1 << (place % 8);
                assert_all(&bytes[start..start + len], false);
                bytes[start + place] = 0;
            }
        }
    }
}

#[test]
fn every_single_byte_of_a_page() {
    let mut bytes = vec![0; 4096];
    assert_all(&bytes, true);
    for place in 0..bytes.len() {
        bytes[place] = 0x80;
        assert_all(&bytes, false);
        bytes[place] = 0;
    }
}
