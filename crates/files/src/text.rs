//! Escapes names and foreign texts for a line of a message or a terminal.

use std::fmt::Write;

/// Returns a text for a message of one line: whatever cannot be printed is escaped.
pub fn printable(text: &str) -> String {
    escaped(text.as_bytes(), false)
}

/// Returns bytes with whatever cannot be printed escaped; with `quotes` also what ends a string `$'…'`.
pub fn escaped(bytes: &[u8], quotes: bool) -> String {
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

/// Appends bytes in octal, which unlike hexadecimal ends after three digits whatever follows.
pub fn push_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\{byte:03o}");
    }
}

/// Whether a character would move the cursor, end the line, or reverse the order of those after it.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A system's error without Rust's ` (os error 2)`, as other programs print it.
pub fn of_system(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error ").unwrap_or(text.len());
    text[..end].to_string()
}
