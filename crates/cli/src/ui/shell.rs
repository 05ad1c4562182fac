//! Quotes names as the messages of the coreutils do: only if a shell needs it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use verisum::files::text::is_unprintable;

/// A name before a colon in a message: by the rules of a locale with UTF-8, or of one with ASCII only.
pub(crate) fn quoted(name: &OsStr, utf8: bool) -> String {
    let pieces = pieces(name.as_bytes(), |c| is_printable(c) && (utf8 || c.is_ascii()));
    let plain = !pieces.is_empty()
        && pieces.iter().enumerate().all(|(place, piece)| match piece {
            Piece::Escaped(_) => false,
            Piece::Text(c) => !is_special(*c, place, pieces.len()),
        });
    if plain {
        return text(&pieces);
    }
    let has_quote = pieces.contains(&Piece::Text('\''));
    let mut numbered = pieces.iter().enumerate();
    let fits_double_quotes =
        numbered.all(|(place, piece)| matches!(piece, Piece::Text(c) if !is_for_single(*c, place)));
    if has_quote && fits_double_quotes {
        return format!("\"{}\"", text(&pieces));
    }
    single(&pieces)
}

/// The command line of this process, as a shell would take it.
pub(crate) fn line() -> String {
    let words: Vec<String> = std::env::args_os().map(|argument| word(argument.as_encoded_bytes())).collect();
    words.join(" ")
}

/// A name as one word of a shell that takes it for nothing else: as it is if it has no character that means
/// something there, else in single quotes, and as `"$(printf '…')"` if a byte of it cannot be printed: unlike `$'…'`
/// every shell has that. What a substitution would take the newlines off from is `$'…'` all the same.
pub(crate) fn word(name: &[u8]) -> String {
    let pieces = pieces(name, |c| !is_unprintable(c));
    if pieces.iter().any(|piece| matches!(piece, Piece::Escaped(_))) {
        if pieces.last() == Some(&Piece::Escaped(b'\n')) {
            let escaped = pieces.iter().map(|piece| match piece {
                Piece::Escaped(byte) => format!("\\{byte:03o}"),
                Piece::Text(c @ ('\'' | '\\')) => format!("\\{c}"),
                // Monitoring takes it for the beginning of figures.
                Piece::Text('|') => "\\174".to_string(),
                Piece::Text(c) => c.to_string(),
            });
            return format!("$'{}'", escaped.collect::<String>());
        }
        let escaped = pieces.iter().map(|piece| match piece {
            Piece::Escaped(byte) => format!("\\{byte:03o}"),
            Piece::Text('\'') => "\\047".to_string(),
            Piece::Text('\\') => "\\134".to_string(),
            Piece::Text('%') => "%%".to_string(),
            // An option of printf, which comes first if at all.
            Piece::Text('-') => "\\055".to_string(),
            Piece::Text(c) => c.to_string(),
        });
        return format!("\"$(printf '{}')\"", escaped.collect::<String>());
    }
    let text = text(&pieces);
    match !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_@%+:,.-".contains(c)) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Words that [`word`] made, without `|`, which ends what Nagios shows: it stands in single quotes there.
pub(crate) fn without_pipes(words: &str) -> String {
    words.replace('|', "'\"$(printf '\\174')\"'")
}

/// A character, or a byte that must not be printed.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(char),
    Escaped(u8),
}

fn pieces(name: &[u8], is_text: impl Fn(char) -> bool) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match is_text(c) {
                true => pieces.push(Piece::Text(c)),
                false => {
                    pieces.extend(c.encode_utf8(&mut [0; 4]).bytes().map(Piece::Escaped));
                }
            }
        }
        pieces.extend(chunk.invalid().iter().copied().map(Piece::Escaped));
    }
    pieces
}

fn text(pieces: &[Piece]) -> String {
    let character = |piece: &Piece| match piece {
        Piece::Text(c) => *c,
        Piece::Escaped(byte) => char::from(*byte),
    };
    pieces.iter().map(character).collect()
}

/// Whether a shell, or a reader of the message, would not take a character for one of a name.
fn is_special(c: char, place: usize, length: usize) -> bool {
    match c {
        '#' | '~' => place == 0,
        '{' | '}' => length == 1,
        _ => " !\"$&'()*:;<=>?[^`|\\".contains(c),
    }
}

/// What is not put in double quotes.
fn is_for_single(c: char, place: usize) -> bool {
    match c {
        '#' | '~' => place != 0,
        _ => "!\"$&()*;<=>?[^`|\\{}".contains(c),
    }
}

/// Whether the coreutils print a character as it is: also one that turns text around.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}')
}

/// In single quotes, with `$'…'` for what cannot be printed.
fn single(pieces: &[Piece]) -> String {
    let mut out = String::from("'");
    let mut escaping = false;
    for piece in pieces {
        match piece {
            Piece::Escaped(byte) => {
                if !escaping {
                    out.push_str("'$'");
                    escaping = true;
                }
                match byte {
                    0x07 => out.push_str("\\a"),
                    0x08 => out.push_str("\\b"),
                    b'\t' => out.push_str("\\t"),
                    b'\n' => out.push_str("\\n"),
                    0x0b => out.push_str("\\v"),
                    0x0c => out.push_str("\\f"),
                    b'\r' => out.push_str("\\r"),
                    other => out.push_str(&format!("\\{other:03o}")),
                }
            }
            Piece::Text(c) => {
                if escaping && *c != '\'' {
                    out.push_str("''");
                }
                match c {
                    '\'' => out.push_str("'\\''"),
                    c => out.push(*c),
                }
                escaping = false;
            }
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_a_shell_makes_the_name_of() {
        let every: Vec<u8> = (1..=255).collect();
        let names = [
            &b"abc-1.2,x"[..],
            b"",
            b"a\\b;c|d#e",
            b"$'x'",
            b"'",
            b"{a,b}*?~",
            b" ",
            b"a\n1\xff\\'|%s",
            b"-\x01|",
            b"|a|",
            "größe".as_bytes(),
            "a\u{202e}gpj.sh\u{2066}".as_bytes(),
            &every,
        ];
        for name in names {
            let whole = word(name);
            let is_of_posix = !whole.starts_with("$'");
            for script in [whole.clone(), without_pipes(&whole)] {
                assert!(script == whole || !script.contains('|'));
                let script = format!("printf %s {script}");
                for shell in
                    ["sh", "dash", "bash"].into_iter().filter(|shell| is_of_posix || *shell == "bash")
                {
                    let Some(shell) = verisum_testkit::require_tool(shell) else { continue };
                    let output = std::process::Command::new(shell).args(["-c", &script]).output().unwrap();
                    assert_eq!(output.stdout, name, "{script}");
                }
            }
        }
        assert_eq!(word(names[0]), "abc-1.2,x");
        assert_eq!(word(names[2]), r"'a\b;c|d#e'");
        assert_eq!(word(names[7]), r#""$(printf 'a\0121\377\134\047|%%s')""#);
        assert_eq!(word(b"a\n"), r"$'a\012'");
        assert_eq!(word("a\u{202e}b".as_bytes()), r#""$(printf 'a\342\200\256b')""#);
    }

    #[test]
    fn names_are_quoted_as_in_coreutils_9() {
        for (name, expected) in [
            (&b""[..], "''"),
            (b"a", "a"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"it's $5", "'it'\\''s $5'"),
            (b"it's a:b", "\"it's a:b\""),
            (b"a:b", "'a:b'"),
            (b"a\\b", "'a\\b'"),
            (b"#a", "'#a'"),
            (b"a#", "a#"),
            (b"'#'", "''\\''#'\\'''"),
            (b"#'", "\"#'\""),
            (b"{", "'{'"),
            (b"{}", "{}"),
            (b"'{}", "''\\''{}'"),
            (b"a\nb", "'a'$'\\n''b'"),
            (b"a\n'b", "'a'$'\\n'\\''b'"),
            (b"a'\nb", "'a'\\'''$'\\n''b'"),
            (b"\xff", "''$'\\377'"),
            (b"a\xffb\xfec", "'a'$'\\377''b'$'\\376''c'"),
            (b"a=b", "'a=b'"),
            (b"\t", "''$'\\t'"),
            (b"\xc3\xbc'", "\"\u{fc}'\""),
            (b"\x1b[0m", "''$'\\033''[0m'"),
            (b"a]b", "a]b"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(name), true), expected, "{}", name.escape_ascii());
        }
        assert_eq!(quoted(OsStr::new("nowh\u{e8}re"), false), "'nowh'$'\\303\\250''re'");
    }
}
