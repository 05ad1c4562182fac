//! Percent-encoding: bytes as `%XX`, as URLs have them.

use std::fmt::Write;

/// Writes bytes with all as `%XX` but letters, digits, `-._~` and these others.
pub fn encoded(bytes: &[u8], others: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || others.contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The bytes that stand there for themselves or as `%XX`; none where a `%` is without two digits.
pub fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
        out.push(match byte {
            b'%' => (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8,
            other => *other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(encoded(&all, b"").as_bytes()), Some(all));
        assert_eq!(encoded(b"a/b c~%\xff", b"/"), "a/b%20c~%25%FF");
        assert_eq!(decoded(b"%e4%E4+"), Some(b"\xe4\xe4+".to_vec()));
        for bad in [&b"%"[..], b"%4", b"%4x", b"%+4", b"a%\xff4"] {
            assert_eq!(decoded(bad), None);
        }
    }
}
