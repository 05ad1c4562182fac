//! Names of files, which may be any bytes but NUL, in lines that must stay lines.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

/// A name in JSON.
#[derive(Serialize)]
pub(crate) struct Name {
    /// As it was given; where it is not UTF-8, with U+FFFD for what is not.
    path: String,
    /// All its bytes, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes_hex: Option<String>,
}

impl Name {
    pub(crate) fn new(name: impl AsRef<OsStr>) -> Name {
        let name = name.as_ref();
        Name { path: name.to_string_lossy().into_owned(), path_bytes_hex: bytes_hex(name) }
    }

    pub(crate) fn of_bytes(name: &[u8]) -> Name {
        Name::new(OsStr::from_bytes(name))
    }
}

/// All bytes of a name in hexadecimal, if it is not UTF-8: as text something of it is lost then.
pub(crate) fn bytes_hex(name: &OsStr) -> Option<String> {
    name.to_str().is_none().then(|| hexadecimal(name.as_bytes()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Appends a line of `HEX  NAME` as the coreutils print it: a name with a backslash, newline or carriage
/// return is escaped, and the line then begins with a backslash. All other bytes are as they are.
pub(crate) fn sum_line(line: &mut Vec<u8>, digest: &str, name: &OsStr) {
    let name = name.as_bytes();
    if name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        line.push(b'\\');
    }
    line.extend_from_slice(digest.as_bytes());
    line.extend_from_slice(b"  ");
    push_escaped(line, name);
    line.push(b'\n');
}

/// Appends a name as the coreutils print it before `: OK`. Only a newline in it makes them escape it there.
pub(crate) fn result_name(line: &mut Vec<u8>, name: &OsStr) {
    let name = name.as_bytes();
    match name.contains(&b'\n') {
        true => {
            line.push(b'\\');
            push_escaped(line, name);
        }
        false => line.extend_from_slice(name),
    }
}

fn push_escaped(line: &mut Vec<u8>, name: &[u8]) {
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.push(*other),
        }
    }
}

/// A name for a message of one line: as it is if it can be printed, else as a shell takes it, `$'a\nb'`; also
/// if it would be taken for that.
pub(crate) fn quoted(name: &OsStr) -> String {
    match name.to_str() {
        Some("") => "''".to_string(),
        Some(text) if !text.contains(is_unprintable) && !text.starts_with("$'") && text != "''" => {
            text.to_string()
        }
        _ => format!("$'{}'", escaped(name.as_bytes(), true)),
    }
}

/// A text for a message of one line: whatever cannot be printed is escaped.
pub(crate) fn plain(text: &str) -> String {
    escaped(text.as_bytes(), false)
}

/// Lines as a terminal may have them: what it would take for commands is escaped. The ends of lines, tabs
/// and NUL, which ends lines too, stay.
pub(crate) fn for_terminal(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::new();
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            text.clear();
            match is_unprintable(c) && !matches!(c, '\n' | '\t' | '\0') {
                true => push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(c),
            }
            out.extend_from_slice(text.as_bytes());
        }
        for byte in chunk.invalid() {
            // Some terminals take these for commands where they are no part of a character.
            match byte {
                0x80..=0x9f => {
                    text.clear();
                    push_bytes(&mut text, &[*byte]);
                    out.extend_from_slice(text.as_bytes());
                }
                other => out.push(*other),
            }
        }
    }
    out
}

fn escaped(bytes: &[u8], quotes: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\\' | '\'' if quotes => text.extend(['\\', c]),
                c if is_unprintable(c) => push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => text.push(c),
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

/// Bytes in octal, which unlike hexadecimal ends after three digits whatever follows.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\{byte:03o}");
    }
}

/// Whether a character would move the cursor, end the line, or reverse the order of those after it.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        sum_line(&mut line, "00ff", OsStr::from_bytes(name));
        line
    }

    #[test]
    fn lines_are_those_of_coreutils() {
        assert_eq!(line(b"disk.img"), b"00ff  disk.img\n");
        assert_eq!(line(b" a\tb\xff'"), b"00ff   a\tb\xff'\n");
        assert_eq!(line(b"a\nb\rc\\d"), b"\\00ff  a\\nb\\rc\\\\d\n");
    }

    #[test]
    fn a_terminal_gets_no_commands_from_names() {
        assert_eq!(for_terminal(b"a\tb\0\n\xff \xc3\xbc"), b"a\tb\0\n\xff \xc3\xbc");
        assert_eq!(for_terminal(b"\x1b[2J\r\x9b1m\x7f\xc2\x9b"), br"\033[2J\015\2331m\177\302\233");
    }

    #[test]
    fn names_in_messages_are_one_line() {
        let quoted = |bytes: &[u8]| quoted(OsStr::from_bytes(bytes));
        assert_eq!(quoted(b"a b'c\\d"), r"a b'c\d");
        assert_eq!(quoted("Bücher/größer".as_bytes()), "Bücher/größer");
        assert_eq!(quoted(b""), "''");
        assert_eq!(quoted(b"a\nb'c\\"), r"$'a\nb\'c\\'");
        assert_eq!(quoted(b"\x1b[2J\xff1"), r"$'\033[2J\3771'");
        assert_eq!(quoted("a\u{202e}b".as_bytes()), r"$'a\342\200\256b'");
        assert_eq!(plain("it's\ta\nlist"), r"it's\ta\nlist");
    }
}
