//! Quotes arguments for a systemd unit and for a cron line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// An argument of `ExecStart=`: in double quotes, with specifiers and variables made plain.
pub(super) fn systemd(argument: &OsStr) -> String {
    let bytes = argument.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=:,@+".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return argument.to_string_lossy().into_owned();
    }
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                '%' | '$' => text.extend([c, c]),
                c if c.is_control() => {
                    c.encode_utf8(&mut [0; 4])
                        .bytes()
                        .for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text.push('"');
    text
}

/// An argument in the command of a cron line, which a shell reads after cron has: `None` for what
/// cannot be on a line.
pub(super) fn cron(argument: &OsStr) -> Option<Vec<u8>> {
    let mut text = vec![b'\''];
    for byte in argument.as_bytes() {
        match byte {
            b'\n' | b'\r' | 0 => return None,
            b'\'' => text.extend_from_slice(b"'\\''"),
            // Cron takes the backslash away.
            b'%' => text.extend_from_slice(b"\\%"),
            other => text.push(*other),
        }
    }
    text.push(b'\'');
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=:,@+".contains(byte);
    if text.len() > 2 && argument.as_bytes().iter().all(is_plain) {
        return Some(argument.as_bytes().to_vec());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_take_arguments_as_they_are() {
        let quoted = |bytes: &[u8]| systemd(OsStr::from_bytes(bytes));
        assert_eq!(quoted(b"/srv/data"), "/srv/data");
        assert_eq!(quoted(b"/srv/50% $HOME"), "\"/srv/50%% $$HOME\"");
        assert_eq!(quoted(b"a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(quoted(b"a\nb\xff"), "\"a\\x0ab\\xff\"");
        assert_eq!(quoted(b""), "\"\"");
        assert_eq!(quoted("/srv/größer".as_bytes()), "\"/srv/größer\"");
    }

    #[test]
    fn cron_lines_take_arguments_as_they_are() {
        let quoted =
            |bytes: &[u8]| cron(OsStr::from_bytes(bytes)).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(quoted(b"/srv/data").unwrap(), "/srv/data");
        assert_eq!(quoted(b"/srv/50% it's").unwrap(), r"'/srv/50\% it'\''s'");
        assert_eq!(quoted(b"a\nb"), None);
    }
}
