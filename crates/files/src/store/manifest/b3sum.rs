//! Lines as `b3sum -c` takes them: `HEX  NAME` with one spelling, and without comments.
//!
//! Rules, their order and the words for what breaks them are those of b3sum 1.2.0,
//! <https://github.com/BLAKE3-team/BLAKE3/blob/1.2.0/b3sum/src/main.rs>.

use std::io;

use verisum_digest::Output;

use super::listed::{Bad, Claim, Listed};
use super::reader::ReadError;

/// Hexadecimal digits of a number.
const DIGITS: usize = 64;

/// Takes a line without its end apart. One that is no UTF-8 ends the list.
pub(super) fn parse(line: &[u8]) -> Result<Result<Listed, Bad>, ReadError> {
    let text = std::str::from_utf8(line)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))?;
    Ok(take_apart(text).map_err(Bad::Refused))
}

fn take_apart(line: &str) -> Result<Listed, &'static str> {
    if line.is_empty() {
        return Err("Empty line");
    }
    let (rest, escaped) = line.strip_prefix('\\').map_or((line, false), |rest| (rest, true));
    if rest.len() <= DIGITS + 2 {
        return Err("Short line");
    }
    let (hex, rest) = rest.split_at_checked(DIGITS).ok_or("Non-ASCII prefix")?;
    if !hex.is_ascii() || !rest.chars().take(2).all(|c| c.is_ascii()) {
        return Err("Non-ASCII prefix");
    }
    let name = rest.strip_prefix("  ").ok_or("Invalid space")?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digest =
        Output::from_hex(hex.as_bytes()).filter(|_| hex.bytes().all(is_digit)).ok_or("Invalid hex")?;
    let name = match escaped {
        true => without_backslashes(name).ok_or("Invalid backslash escape")?,
        false => name.to_string(),
    };
    if name.contains('\0') {
        return Err("Null character in path");
    }
    if name.contains('\u{fffd}') {
        return Err("Unicode replacement character in path");
    }
    let claim = Claim { algorithm: "blake3".into(), digest, assumed: false };
    Ok(Listed { name: name.into_bytes(), claims: vec![claim], ..Listed::default() })
}

/// A name without its escapes, of which there are two.
fn without_backslashes(name: &str) -> Option<String> {
    let mut pieces = name.split('\\');
    let mut out = pieces.next()?.to_string();
    while let Some(piece) = pieces.next() {
        match piece.strip_prefix('n') {
            Some(rest) => {
                out.push('\n');
                out.push_str(rest);
            }
            // Two backslashes have nothing between them.
            None if piece.is_empty() => {
                out.push('\\');
                out.push_str(pieces.next()?);
            }
            None => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_two() {
        assert_eq!(without_backslashes(r"a\\n\nb\\").as_deref(), Some("a\\n\nb\\"));
        for bad in [r"\", r"a\t", r"a\\\"] {
            assert_eq!(without_backslashes(bad), None, "{bad}");
        }
    }
}
