//! Commands as lists of words.

/// Splits a command into words as a shell does: at white space, but not inside quotes or after a
/// backslash. Nothing else has a meaning: no variable, no pattern, no other command.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => quoted(&mut letters, letter, word.get_or_insert_default())?,
            '\\' => {
                let next = letters.next().ok_or("ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(letters: &mut std::str::Chars<'_>, end: char, word: &mut String) -> Result<(), String> {
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == end => return Ok(()),
            '\\' if end == '"' => match letters.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            letter => word.push(letter),
        }
    }
    Err(format!("has no second {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for text in
            ["a b", "  a\tb  ", "'a b' c", r#""a \"b\" \x" c"#, r"a\ b c", "''", "a''b", "", r#"'a'"b"c"#]
        {
            let shell = std::process::Command::new("/bin/sh")
                .args(["-c", &format!("for word in {text}; do printf '%s\\n' \"$word\"; done")])
                .output()
                .unwrap();
            let expected = String::from_utf8(shell.stdout).unwrap();
            assert_eq!(split(text).unwrap(), expected.lines().collect::<Vec<_>>(), "{text}");
        }
        for wrong in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
        assert_eq!(split("a $(b) `c` *").unwrap(), ["a", "$(b)", "`c`", "*"]);
    }
}
