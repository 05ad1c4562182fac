//! Lines as `b3sum -c` takes them: `HEX  NAME` with one spelling or `BLAKE3 (NAME) = HEX`, and without comments.
//!
//! Rules, their order and the words for what breaks them are those of b3sum 1.8.7,
//! <https://github.com/BLAKE3-team/BLAKE3/blob/1.8.7/b3sum/src/main.rs>.

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
    Ok(take_apart(text.trim_end_matches('\r')).map_err(Bad::Refused))
}

fn take_apart(line: &str) -> Result<Listed, &'static str> {
    if line.is_empty() {
        return Err("Empty line");
    }
    let (rest, is_escaped) = line.strip_prefix('\\').map_or((line, false), |rest| (rest, true));
    // A tag counts only where there are no two blanks, not even in the name.
    let tagged = || rest.strip_prefix("BLAKE3 (")?.rsplit_once(") = ").map(|(name, hex)| (hex, name));
    let (hex, written) = rest.split_once("  ").or_else(tagged).ok_or("Invalid check line format")?;
    if hex.len() != DIGITS {
        return Err("Invalid hash length");
    }
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digest =
        Output::from_hex(hex.as_bytes()).filter(|_| hex.bytes().all(is_digit)).ok_or("Invalid hex")?;
    let name = match is_escaped {
        true => without_backslashes(written).ok_or("Invalid backslash escape")?,
        false => written.to_string(),
    };
    if name.is_empty() {
        return Err("empty file path");
    }
    if name.contains('\0') {
        return Err("Null character in path");
    }
    if name.contains('\u{fffd}') {
        return Err("Unicode replacement character in path");
    }
    let backslash = if is_escaped { "\\" } else { "" };
    Ok(Listed {
        name: name.into_bytes(),
        written: format!("{backslash}{written}").into_bytes(),
        claims: vec![Claim { algorithm: "blake3".into(), digest, assumed: false, parts: None }],
        ..Listed::default()
    })
}

/// A name without its escapes, of which there are three.
fn without_backslashes(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_three() {
        assert_eq!(without_backslashes(r"a\\n\nb\r\\").as_deref(), Some("a\\n\nb\r\\"));
        for bad in [r"\", r"a\t", r"a\\\", "\\\u{e9}"] {
            assert_eq!(without_backslashes(bad), None, "{bad}");
        }
    }
}
