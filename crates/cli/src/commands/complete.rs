//! `verisum complete`: completes the word that a user types, for the completion scripts of shells.
//!
//! The scripts know commands, options and digests by themselves; they ask here for what depends on the machine: trees of
//! the catalogue and places of the configuration.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Args, Command, ValueHint};
use verisum::catalog::store::is_address;

use crate::ui::catalog::CatalogArgs;
use crate::ui::config::Config;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{Output, PROGRAM, configured_places};

/// What `verisum complete` takes.
#[derive(Args, Debug)]
pub(crate) struct CompleteArgs {
    /// The command line up to the cursor, as a shell reads it
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    line: Option<OsString>,

    /// The words up to the cursor, of which the last, which may be empty, is being typed
    #[arg(value_name = "WORD", last = true)]
    words: Vec<OsString>,
}

/// The options that take a tree of files to read.
const TREE_OPTIONS: [&str; 2] = ["from", "tree"];

/// The commands whose directories are no trees that somebody keeps.
const OTHERS: [&str; 3] = ["bench", "dirhash", "links"];

/// Prints a candidate a line. What cannot be read has none.
pub(crate) fn run(
    arguments: &CompleteArgs,
    config: &Config,
    mut definition: Command,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let words = match &arguments.line {
        Some(line) => split(line.as_bytes()),
        None => arguments.words.clone(),
    };
    // With the options that all commands have.
    definition.build();
    let mut candidates = candidates(&words, config, &definition);
    candidates.sort();
    candidates.dedup();
    // A line holds no name with a line's end.
    for candidate in candidates.iter().filter(|candidate| !candidate.as_bytes().contains(&b'\n')) {
        output.bytes(candidate.as_bytes())?;
        output.bytes(b"\n")?;
    }
    Ok(Exit::Clean)
}

fn candidates(words: &[OsString], config: &Config, definition: &Command) -> Vec<OsString> {
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let line = TypedLine::of(before, definition);
    let (prefix, value) = match typed.as_bytes().iter().position(|byte| *byte == b'=') {
        Some(at) if typed.as_bytes().starts_with(b"--") => typed.as_bytes().split_at(at + 1),
        _ => (&b""[..], typed.as_bytes()),
    };
    let is_tree = !line.path.first().is_some_and(|verb| OTHERS.contains(&verb.as_str()))
        && line.argument(prefix, value).is_some_and(takes_tree);
    if !is_tree {
        return Vec::new();
    }
    let mut found: Vec<OsString> = trees(&line, config).into_iter().map(PathBuf::into_os_string).collect();
    if line.command.get_arguments().any(|arg| arg.get_id() == "ssh_config") {
        found.extend(configured_places::addresses().into_iter().map(OsString::from));
    } else if line.path.first().is_none_or(|verb| verb != "catalog") {
        // What reads no records of trees elsewhere cannot read these either.
        found.retain(|tree| !is_address(Path::new(tree)));
    }
    let whole = |tree: OsString| OsString::from_vec([prefix, tree.as_bytes()].concat());
    found.into_iter().filter(|tree| tree.as_bytes().starts_with(value)).map(whole).collect()
}

/// The trees of the catalogue that the line means.
fn trees(line: &TypedLine, config: &Config) -> Vec<PathBuf> {
    let named = line.catalog.clone().or_else(|| config.value(&line.path, "catalog").map(PathBuf::from));
    let Ok(Some(catalog)) = (CatalogArgs { catalog: named }).open_if_there() else { return Vec::new() };
    catalog.roots().unwrap_or_default().into_iter().map(|root| root.path).collect()
}

fn takes_tree(argument: &Arg) -> bool {
    let is_path = matches!(argument.get_value_hint(), ValueHint::DirPath | ValueHint::AnyPath);
    is_path && (argument.is_positional() || TREE_OPTIONS.iter().any(|option| argument.get_id() == *option))
}

/// What is known of a command line before the word that is being typed.
struct TypedLine<'c> {
    command: &'c Command,
    /// The words of the command.
    path: Vec<String>,
    /// The option that the next word is the value of.
    pending: Option<&'c Arg>,
    only_operands: bool,
    operands: usize,
    catalog: Option<PathBuf>,
}

impl<'c> TypedLine<'c> {
    fn of(words: &[OsString], definition: &'c Command) -> TypedLine<'c> {
        let mut line = TypedLine {
            command: definition,
            path: Vec::new(),
            pending: None,
            only_operands: false,
            operands: 0,
            catalog: None,
        };
        words.iter().skip(1).for_each(|word| line.add(word));
        line
    }

    fn add(&mut self, word: &OsStr) {
        if let Some(option) = self.pending.take() {
            self.take(option, word.as_bytes());
        } else if self.only_operands {
            self.operands += 1;
        } else if word == "--" {
            self.only_operands = true;
        } else if word.as_bytes().starts_with(b"--") {
            let mut parts = word.as_bytes().splitn(2, |byte| *byte == b'=');
            let option = parts.next().and_then(|name| self.option(name));
            match (option, parts.next()) {
                (Some(option), Some(value)) => self.take(option, value),
                (option, _) => self.pending = option.filter(|option| !option.is_require_equals_set()),
            }
        } else if word.as_bytes().starts_with(b"-") && word.len() > 1 {
            self.pending = self.of_letters(&word.to_string_lossy());
        } else if let Some(below) = word.to_str().and_then(|word| self.command.find_subcommand(word)) {
            self.command = below;
            self.path.push(below.get_name().to_string());
        } else {
            self.operands += 1;
        }
    }

    fn take(&mut self, option: &Arg, value: &[u8]) {
        if option.get_id() == "catalog" {
            self.catalog = Some(at_home(value));
        }
    }

    /// The option of this name, with its two hyphens, if it takes a value.
    fn option(&self, name: &[u8]) -> Option<&'c Arg> {
        let name = std::str::from_utf8(name).ok()?.strip_prefix("--")?;
        let mut options = self.command.get_arguments().filter(|arg| arg.get_action().takes_values());
        options.find(|arg| arg.get_long() == Some(name))
    }

    /// The option whose value is not in the same word as its letter.
    fn of_letters(&self, word: &str) -> Option<&'c Arg> {
        let of = |letter| self.command.get_arguments().find(|arg| arg.get_short() == Some(letter));
        let mut letters = word.chars().skip(1);
        let option = letters.by_ref().filter_map(of).find(|arg| arg.get_action().takes_values());
        option.filter(|_| letters.next().is_none())
    }

    /// The argument that the word is of which is being typed.
    fn argument(&self, prefix: &[u8], value: &[u8]) -> Option<&'c Arg> {
        match prefix.strip_suffix(b"=") {
            Some(name) if !self.only_operands => return self.option(name),
            _ => {}
        }
        if self.pending.is_some() {
            return self.pending;
        }
        if !self.only_operands && value.starts_with(b"-") {
            return None;
        }
        let operands: Vec<&Arg> = self.command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
        let last = operands.last().filter(|arg| matches!(arg.get_action(), ArgAction::Append));
        operands.get(self.operands).or(last).copied()
    }
}

/// A path as a shell takes it that is at home by its beginning.
fn at_home(path: &[u8]) -> PathBuf {
    let home = path.strip_prefix(b"~/").zip(std::env::var_os("HOME"));
    let path = Path::new(OsStr::from_bytes(path));
    home.map_or(path.to_path_buf(), |(below, home)| PathBuf::from(home).join(OsStr::from_bytes(below)))
}

/// The words of the last command of a line that is not complete, from the name of the program on. Nothing is expanded.
fn split(line: &[u8]) -> Vec<OsString> {
    let mut words = vec![Vec::new()];
    let (mut quote, mut bytes) = (None, line.iter().copied());
    while let Some(byte) = bytes.next() {
        let word = words.last_mut().expect("there is one always");
        match (quote, byte) {
            (Some(mark), _) if byte == mark => quote = None,
            (Some(b'\''), _) => word.push(byte),
            (_, b'\\') => word.extend(bytes.next()),
            (Some(_), _) => word.push(byte),
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b' ' | b'\t' | b'\n') if word.is_empty() => {}
            (None, b' ' | b'\t' | b'\n') => words.push(Vec::new()),
            (None, b';' | b'|' | b'&' | b'(') => words = vec![Vec::new()],
            (None, _) => word.push(byte),
        }
    }
    let is_program = |word: &Vec<u8>| Path::new(OsStr::from_bytes(word)).ends_with(PROGRAM);
    let begin = words.iter().position(is_program).unwrap_or(0);
    words.drain(begin..).map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_shells_do() {
        let split = |line: &str| -> Vec<String> {
            split(line.as_bytes()).into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        assert_eq!(split("verisum scrub "), ["verisum", "scrub", ""]);
        assert_eq!(
            split("cd a; A=1 /usr/bin/verisum copy 'a b' \"c d"),
            ["/usr/bin/verisum", "copy", "a b", "c d"]
        );
        assert_eq!(split("verisum scrub s3://b\\ c  --f=x"), ["verisum", "scrub", "s3://b c", "--f=x"]);
        assert_eq!(split(""), [""]);
    }
}
