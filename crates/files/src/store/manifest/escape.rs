//! Escapes names, which may have any byte but NUL, so that a name is always one line.

/// Whether the coreutils escape a name.
pub(super) fn is_problematic(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'))
}

/// Appends a name with backslash, LF and CR as `\\`, `\n` and `\r`.
pub fn backslashes(line: &mut Vec<u8>, name: &[u8]) {
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.push(*other),
        }
    }
}

/// Undoes [`backslashes`]; none where something else follows a backslash, or where there is a NUL.
pub(super) fn without_backslashes(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            0 => return None,
            other => *other,
        });
    }
    Some(out)
}

/// Appends a name with every byte but plain printable ones as `\ooo`. What libarchive writes so, what a
/// shell pattern or a comment is made of, and `=` are among those.
pub(super) fn octal(line: &mut Vec<u8>, name: &[u8]) {
    for byte in name {
        match byte {
            b'\\' | b'#' | b'=' | b'*' | b'?' | b'[' | b']' => push_octal(line, *byte),
            0x21..=0x7e => line.push(*byte),
            other => push_octal(line, *other),
        }
    }
}

fn push_octal(line: &mut Vec<u8>, byte: u8) {
    line.extend([b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]);
}

/// Appends a name with CR and LF as `%0D` and `%0A`. A `%` stays as it is, as most bags have it, unless
/// what follows would be taken for one of those.
pub(super) fn percents(line: &mut Vec<u8>, name: &[u8]) {
    for (place, byte) in name.iter().enumerate() {
        match byte {
            b'\n' => line.extend_from_slice(b"%0A"),
            b'\r' => line.extend_from_slice(b"%0D"),
            b'%' if percent(&name[place..]).is_some() => line.extend_from_slice(b"%25"),
            other => line.push(*other),
        }
    }
}

/// Undoes [`percents`].
pub(super) fn without_percents(mut name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    while let [first, rest @ ..] = name {
        match percent(name) {
            Some(byte) => {
                out.push(byte);
                name = &name[3..];
            }
            None => {
                out.push(*first);
                name = rest;
            }
        }
    }
    out
}

/// The byte that is encoded here, if it is one that bags encode.
fn percent(name: &[u8]) -> Option<u8> {
    match name.get(..3)? {
        [b'%', b'0', b'a' | b'A'] => Some(b'\n'),
        [b'%', b'0', b'd' | b'D'] => Some(b'\r'),
        [b'%', b'2', b'5'] => Some(b'%'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(escape: fn(&mut Vec<u8>, &[u8]), name: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        escape(&mut line, name);
        line
    }

    #[test]
    fn backslashes_are_those_of_the_coreutils() {
        assert_eq!(with(backslashes, b"a\nb\rc\\d\xff "), b"a\\nb\\rc\\\\d\xff ");
        assert_eq!(without_backslashes(b"a\\nb\\rc\\\\d\xff").unwrap(), b"a\nb\rc\\d\xff");
        for bad in [&b"a\\"[..], b"\\t", b"a\0"] {
            assert!(without_backslashes(bad).is_none());
        }
    }

    #[test]
    fn octal_leaves_only_what_is_safe_everywhere() {
        assert_eq!(with(octal, b"a b#c=\\\xff\n*"), b"a\\040b\\043c\\075\\134\\377\\012\\052");
    }

    #[test]
    fn percents_are_those_of_bags() {
        assert_eq!(with(percents, b"100% a\nb\r"), b"100% a%0Ab%0D");
        assert_eq!(with(percents, b"a%0Ab%25%zz"), b"a%250Ab%2525%zz");
        for name in [&b"a%0Ab"[..], b"%25", b"%2525", b"a\nb\r%", b"%0", b"%%0d"] {
            assert_eq!(without_percents(&with(percents, name)), name);
        }
        assert_eq!(without_percents(b"a%0ab%0dc"), b"a\nb\rc");
    }
}
