//! Reads configuration files: their values, and their mistakes by line. In a file that is no TOML as a whole, a mistake
//! costs only its table, or only its line.

use toml::de::{DeTable, DeValue, Error};

use super::configured_places;

/// Something wrong in a file.
pub(super) struct FileFault {
    /// The table that has it, by the words of its command; empty at the top, and where that is not known.
    pub(super) words: Vec<String>,
    /// The line, from 1.
    pub(super) line: usize,
    pub(super) why: String,
}

/// Takes a value by the words of its table and its key; fails with what is wrong.
type Take<'t> = &'t mut dyn FnMut(&[String], Key, DeValue) -> Result<(), WrongValue>;

/// The key of a value in a file.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) name: &'a str,
    /// Its line, from 1.
    pub(super) line: usize,
    /// What was read, before which there are so many lines.
    text: (&'a str, usize),
}

impl Key<'_> {
    /// The line of a key in its value, by where that begins.
    pub(super) fn line_of(&self, start: usize) -> usize {
        self.text.1 + line_at(self.text.0, start)
    }
}

/// What is wrong with a value, and the line if that is not the line of its key.
pub(super) struct WrongValue {
    pub(super) why: String,
    pub(super) line: Option<usize>,
}

impl From<String> for WrongValue {
    fn from(why: String) -> WrongValue {
        WrongValue { why, line: None }
    }
}

/// Reads a file. Tables in a table are values.
pub(super) fn read(text: &str, take: Take) -> Vec<FileFault> {
    let mut file = ConfigFile { take, faults: Vec::new() };
    if let Err(whole) = file.toml(text, 0) {
        let lines: Vec<&str> = text.lines().collect();
        let headers = (1..lines.len()).filter(|at| is_header(lines[*at]));
        let ends: Vec<usize> = std::iter::once(0).chain(headers).chain([lines.len()]).collect();
        let broken = ends.windows(2).filter(|ends| !file.table(&lines[ends[0]..ends[1]], ends[0])).count();
        // Tables that are right one by one, as two with the same name.
        if broken == 0 {
            file.fault(&[], line_of(text, &whole), whole.message());
        }
    }
    file.faults
}

struct ConfigFile<'t> {
    take: Take<'t>,
    faults: Vec<FileFault>,
}

impl ConfigFile<'_> {
    /// Reads the lines of one table, before which there are so many others; whether they are TOML.
    fn table(&mut self, lines: &[&str], before: usize) -> bool {
        let whole = lines.join("\n");
        let Err(error) = self.toml(&whole, before) else { return true };
        let header = lines.first().filter(|line| is_header(line));
        let words = header.map_or(Some(Vec::new()), |header| words_of(header));
        self.fault(words.as_deref().unwrap_or_default(), before + line_of(&whole, &error), error.message());
        // Of a place, no line is anything without its address.
        let is_by_line = words.as_ref().is_some_and(|words| *words != [configured_places::TABLE]);
        for (at, line) in lines.iter().enumerate().filter(|_| is_by_line) {
            let _ = match header {
                Some(_) if at == 0 => Ok(()),
                Some(header) => self.toml(&format!("{header}\n{line}"), before + at - 1),
                None => self.toml(line, before + at),
            };
        }
        false
    }

    /// Reads TOML, before which there are so many lines.
    fn toml(&mut self, text: &str, before: usize) -> Result<(), Error> {
        self.values((text, before), &[], DeTable::parse(text)?.into_inner());
        Ok(())
    }

    fn values(&mut self, text: (&str, usize), words: &[String], table: DeTable) {
        for (key, value) in table {
            match value.into_inner() {
                DeValue::Table(below) if words.is_empty() => self.values(text, &split(key.get_ref()), below),
                value => {
                    let line = text.1 + line_at(text.0, key.span().start);
                    let key = Key { name: key.get_ref(), line, text };
                    if let Err(WrongValue { why, line: inner }) = (self.take)(words, key, value) {
                        self.fault(words, inner.unwrap_or(line), &why);
                    }
                }
            }
        }
    }

    fn fault(&mut self, words: &[String], line: usize, why: &str) {
        self.faults.push(FileFault { words: words.to_vec(), line, why: why.to_string() });
    }
}

fn is_header(line: &str) -> bool {
    line.trim_start().starts_with('[')
}

/// The words of the command whose table begins so; none if that is no TOML.
fn words_of(header: &str) -> Option<Vec<String>> {
    let table = DeTable::parse(header).ok()?.into_inner();
    table.into_iter().next().map(|(key, _)| split(key.get_ref()))
}

/// The words of a command by the name of its table.
pub(super) fn split(key: &str) -> Vec<String> {
    key.split(' ').map(str::to_string).collect()
}

fn line_at(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

fn line_of(text: &str, error: &Error) -> usize {
    line_at(text, error.span().map_or(0, |span| span.start))
}
