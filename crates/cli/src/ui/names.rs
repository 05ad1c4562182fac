//! Escapes names of files, which may have any bytes but NUL, so that a name is always one line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use data_encoding::HEXLOWER;
use serde::Serialize;
use verisum::files::store::manifest::backslashes;
pub(crate) use verisum::files::text::printable as plain;
use verisum::files::text::{escaped, is_unprintable, push_bytes};
use verisum::remote::hidden;

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
    name.to_str().is_none().then(|| HEXLOWER.encode(name.as_bytes()))
}

/// Appends a line of a list as the coreutils print it, where two texts stand before the name and one after it.
/// A name with a backslash, newline or carriage return is escaped, and the line then begins with a backslash;
/// all other bytes are as they are. With `zero` the line ends with NUL, and nothing is escaped.
pub(crate) fn list_line(line: &mut Vec<u8>, around: [&str; 3], name: &OsStr, zero: bool) {
    let name = name.as_bytes();
    if !zero && name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        line.push(b'\\');
    }
    line.extend_from_slice(around[0].as_bytes());
    line.extend_from_slice(around[1].as_bytes());
    match zero {
        true => line.extend_from_slice(name),
        false => backslashes(line, name),
    }
    line.extend_from_slice(around[2].as_bytes());
    line.push(if zero { 0 } else { b'\n' });
}

/// Appends a name as the coreutils print it before `: OK`. Only a newline in it makes them escape it there.
pub(crate) fn result_name(line: &mut Vec<u8>, name: &OsStr) {
    let name = &*hidden(name.as_bytes());
    match name.contains(&b'\n') {
        true => {
            line.push(b'\\');
            backslashes(line, name);
        }
        false => line.extend_from_slice(name),
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

/// The same without `|`, which ends what Nagios shows.
pub(crate) fn quoted_without_pipes(name: &OsStr) -> String {
    match name.as_bytes().contains(&b'|') {
        true => format!("$'{}'", escaped(name.as_bytes(), true).replace('|', "\\174")),
        false => quoted(name),
    }
}

/// Lines as a terminal may have them: what it would take for commands is escaped, in objects of JSON as those have it.
/// The ends of lines, tabs and NUL, which ends lines too, stay.
pub(crate) fn for_terminal(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.starts_with(b"{\"").then(|| std::str::from_utf8(line).ok()).flatten() {
            Some(object) => push_object(&mut out, object),
            None => push_line(&mut out, line),
        }
    }
    out
}

fn push_object(out: &mut Vec<u8>, object: &str) {
    for c in object.chars() {
        match is_unprintable(c) && c != '\n' {
            true => out.extend(format!("\\u{:04x}", u32::from(c)).into_bytes()),
            false => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn push_line(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut text = String::new();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        list_line(&mut line, ["00ff", "  ", ""], OsStr::from_bytes(name), false);
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
        let lines = for_terminal("{\"a\u{7f}\":\"\u{9b}\u{202e}ü\"}\n{\u{7f}\n".as_bytes());
        assert_eq!(lines, "{\"a\\u007f\":\"\\u009b\\u202eü\"}\n{\\177\n".as_bytes());
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
