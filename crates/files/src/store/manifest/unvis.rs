//! Names as vis(3) encodes them, in any of its styles.

/// The bytes of an encoded name; none where a backslash begins nothing that is known, or where the
/// name would hold a NUL.
pub(super) fn unvis(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if *first != b'\\' {
            out.push(*first);
            rest = tail;
            continue;
        }
        let [kind, tail @ ..] = tail else { return None };
        rest = tail;
        out.push(match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b'b' => 0x08,
            b'a' => 0x07,
            b'v' => 0x0b,
            b't' => b'\t',
            b'f' => 0x0c,
            b's' => b' ',
            b'E' => 0x1b,
            // Marks of where nothing is.
            b'\n' | b'$' => continue,
            b'^' => control(next(&mut rest)?),
            b'M' => match next(&mut rest)? {
                b'-' => next(&mut rest)? | 0x80,
                b'^' => control(next(&mut rest)?) | 0x80,
                _ => return None,
            },
            b'x' => {
                let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
                number(&mut rest, digits, 16)?
            }
            b'0'..=b'7' => {
                rest = &text[text.len() - tail.len() - 1..];
                let digits = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                number(&mut rest, digits, 8)?
            }
            // `\\`, `\#`, `\=` and whatever else a style protects.
            other if other.is_ascii_graphic() && !other.is_ascii_alphanumeric() => *other,
            _ => return None,
        });
    }
    (!out.contains(&0)).then_some(out)
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    Some(*first)
}

fn control(byte: u8) -> u8 {
    match byte {
        b'?' => 0x7f,
        other => other & 0x1f,
    }
}

fn number(rest: &mut &[u8], digits: usize, radix: u32) -> Option<u8> {
    let text = std::str::from_utf8(&rest[..digits]).ok()?;
    *rest = &rest[digits..];
    u8::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_understood() {
        for (text, bytes) in [
            (&b"a\\sb\\040c\\tn"[..], &b"a b c\tn"[..]),
            (b"\\M^?\\M-C\\M-$\\^A\\^?", b"\xff\xc3\xa4\x01\x7f"),
            (b"\\\\\\#\\=\\*\\\"", b"\\#=*\""),
            (b"\\1a\\12b\\0123", b"\x01a\nb\n3"),
            (b"\\x41\\xa", b"A\n"),
            (b"it's", b"it's"),
            (b"\\$a\\E", b"a\x1b"),
        ] {
            assert_eq!(unvis(text).unwrap(), bytes, "{}", text.escape_ascii());
        }
        for bad in [&b"\\"[..], b"\\q", b"\\M", b"\\Mx", b"\\M-", b"\\^", b"\\777", b"\\0", b"\\x"] {
            assert_eq!(unvis(bad), None, "{}", bad.escape_ascii());
        }
    }
}
