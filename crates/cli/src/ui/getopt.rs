//! Parses options as getopt_long of the C library does: short ones together (`-pc`, `-t4`), long ones with a
//! separate value or after `=`, unique beginnings of long names, names and options in any order, and `--`
//! before names that look like options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An option that a program takes.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Its long name, without dashes.
    pub(crate) long: &'static str,
    /// Its letter, if it has one.
    pub(crate) short: Option<u8>,
    /// Whether a value follows.
    pub(crate) takes_value: bool,
}

/// What was found on a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedOption {
    /// An option by its long name, with its value.
    Option(&'static str, OsString),
    /// Anything else.
    Operand(OsString),
}

/// Takes a command line, without the program's name, apart. The error is what to tell the user.
pub(crate) fn parse(
    definitions: &[&'static Definition],
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Vec<ParsedOption>, String> {
    let mut arguments = arguments.into_iter();
    let mut found = Vec::new();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            found.extend(arguments.by_ref().map(ParsedOption::Operand));
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            found.push(parse_long(definitions, long, &mut arguments)?);
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            parse_short(definitions, &bytes[1..], &mut arguments, &mut found)?;
        } else {
            found.push(ParsedOption::Operand(argument));
        }
    }
    Ok(found)
}

fn parse_long(
    definitions: &[&'static Definition],
    text: &[u8],
    rest: &mut impl Iterator<Item = OsString>,
) -> Result<ParsedOption, String> {
    let equals = text.iter().position(|byte| *byte == b'=');
    let name = &text[..equals.unwrap_or(text.len())];
    let value = equals.map(|place| OsStr::from_bytes(&text[place + 1..]).to_os_string());
    let shown = String::from_utf8_lossy(name);
    let definition = match find_long(definitions, name)[..] {
        [one] => one,
        [] => return Err(format!("unrecognized option '--{shown}'")),
        ref several => {
            let names: Vec<String> = several.iter().map(|one| format!("'--{}'", one.long)).collect();
            return Err(format!("option '--{shown}' is ambiguous; possibilities: {}", names.join(" ")));
        }
    };
    let long = definition.long;
    match (definition.takes_value, value) {
        (true, Some(value)) => Ok(ParsedOption::Option(long, value)),
        (true, None) => match rest.next() {
            Some(value) => Ok(ParsedOption::Option(long, value)),
            None => Err(format!("option '--{long}' requires an argument")),
        },
        (false, None) => Ok(ParsedOption::Option(long, OsString::new())),
        (false, Some(_)) => Err(format!("option '--{long}' doesn't allow an argument")),
    }
}

/// The option of this very name, or all that begin so.
fn find_long(definitions: &[&'static Definition], name: &[u8]) -> Vec<&'static Definition> {
    match definitions.iter().copied().find(|one| one.long.as_bytes() == name) {
        Some(exact) => vec![exact],
        None => definitions.iter().copied().filter(|one| one.long.as_bytes().starts_with(name)).collect(),
    }
}

fn parse_short(
    definitions: &[&'static Definition],
    mut letters: &[u8],
    rest: &mut impl Iterator<Item = OsString>,
    found: &mut Vec<ParsedOption>,
) -> Result<(), String> {
    while let [letter, others @ ..] = letters {
        let Some(definition) = definitions.iter().find(|one| one.short == Some(*letter)) else {
            return Err(format!("invalid option -- '{}'", letter.escape_ascii()));
        };
        letters = others;
        let mut value = OsString::new();
        if definition.takes_value {
            value = match others {
                [] => rest
                    .next()
                    .ok_or_else(|| format!("option requires an argument -- '{}'", letter.escape_ascii()))?,
                attached => OsString::from_vec(attached.to_vec()),
            };
            letters = &[];
        }
        found.push(ParsedOption::Option(definition.long, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    static OPTIONS: &[Definition] = &[
        Definition { long: "digest", short: Some(b'd'), takes_value: true },
        Definition { long: "read-size", short: None, takes_value: true },
        Definition { long: "read", short: None, takes_value: true },
        Definition { long: "list", short: Some(b'l'), takes_value: false },
        Definition { long: "long", short: Some(b'p'), takes_value: false },
    ];

    /// `name=value` for options, the word for operands.
    fn parsed(arguments: &[&str]) -> Result<Vec<String>, String> {
        let options: Vec<&Definition> = OPTIONS.iter().collect();
        let found = parse(&options, arguments.iter().map(OsString::from))?;
        let text = |found| match found {
            ParsedOption::Option(name, value) => format!("{name}={}", value.to_str().unwrap()),
            ParsedOption::Operand(operand) => operand.into_string().unwrap(),
        };
        Ok(found.into_iter().map(text).collect())
    }

    #[test]
    fn options_have_many_forms() {
        let same =
            [&["-d", "x"][..], &["-dx"], &["--digest", "x"], &["--digest=x"], &["--dig=x"], &["--d", "x"]];
        for arguments in same {
            assert_eq!(parsed(arguments).unwrap(), ["digest=x"], "{arguments:?}");
        }
        assert_eq!(parsed(&["-lpd", "x", "f"]).unwrap(), ["list=", "long=", "digest=x", "f"]);
        assert_eq!(parsed(&["-lpdp"]).unwrap(), ["list=", "long=", "digest=p"]);
        assert_eq!(parsed(&["f", "-l", "-", "g"]).unwrap(), ["f", "list=", "-", "g"]);
        assert_eq!(parsed(&["-l", "--", "-l", "--"]).unwrap(), ["list=", "-l", "--"]);
        assert_eq!(parsed(&["--digest="]).unwrap(), ["digest="]);
        assert_eq!(parsed(&["-d", "--"]).unwrap(), ["digest=--"]);
        assert_eq!(parsed(&["--read", "1", "--read-s", "2", ""]).unwrap(), ["read=1", "read-size=2", ""]);
    }

    #[test]
    fn mistakes_are_named_as_the_c_library_does() {
        let errors = [
            (&["-x"][..], "invalid option -- 'x'"),
            (&["-l\n"], "invalid option -- '\\n'"),
            (&["-d"], "option requires an argument -- 'd'"),
            (&["--digest"], "option '--digest' requires an argument"),
            (&["--list=x"], "option '--list' doesn't allow an argument"),
            (&["--nothing=x"], "unrecognized option '--nothing'"),
            (&["--l"], "option '--l' is ambiguous; possibilities: '--list' '--long'"),
        ];
        for (arguments, message) in errors {
            assert_eq!(parsed(arguments).unwrap_err(), message);
        }
    }
}
