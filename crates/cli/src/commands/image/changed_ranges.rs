//! Reads lists of changed ranges of an image, in the formats of other programs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;

use rustix::io::Errno;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use verisum::blockhash::merge_ranges;

use crate::ui::closed_streams;
use crate::ui::failure::Failure;
use crate::ui::input::Input;

/// The most that is read of JSON, which is held as a whole, in bytes.
const LONGEST_JSON: u64 = 64 << 20;

/// The longest line, in bytes.
const LONGEST_LINE: u64 = 4096;

/// How many ranges that could be merged are collected at least before they are.
const COLLECTED: usize = 1 << 16;

/// Reads byte ranges; they come sorted and apart from each other.
pub(super) fn read(input: &Input) -> Result<Vec<Range<u64>>, Failure> {
    let failed = |error| Failure::File { name: input.path(), operation: "read", error };
    let ranges = match input {
        // It would look as if nothing had changed.
        Input::Stdin if closed_streams::standard_input() => Err(Errno::BADF.into()),
        Input::Stdin => parse(io::stdin().lock()),
        Input::Named(name) => {
            let open = |error| Failure::File { name: input.path(), operation: "open", error };
            parse(BufReader::new(File::open(name).map_err(open)?))
        }
    };
    ranges.map_err(failed)
}

fn parse(mut text: impl BufRead) -> io::Result<Vec<Range<u64>>> {
    match first_byte(&mut text)? {
        Some(b'{') => json(text, |list: DiffJson| list.ranges),
        Some(b'[') => json(text, |list: Vec<Entry>| list),
        _ => lines(text),
    }
}

/// The first byte that is no space, which is taken for that of the text; it stays to be read.
fn first_byte(text: &mut impl BufRead) -> io::Result<Option<u8>> {
    let bytes = text.fill_buf()?;
    Ok(bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace()))
}

/// Ranges as they come, merged now and then so that their number stays that of the result.
#[derive(Default)]
struct Ranges {
    found: Vec<Range<u64>>,
    /// How many there were after the last time.
    merged: usize,
}

impl Ranges {
    fn push(&mut self, range: Range<u64>) {
        match self.found.last_mut() {
            Some(last) if (last.start..=last.end).contains(&range.start) => {
                last.end = last.end.max(range.end)
            }
            _ => self.found.push(range),
        }
        if self.found.len() >= 2 * self.merged + COLLECTED {
            self.found = merge_ranges(std::mem::take(&mut self.found));
            self.merged = self.found.len();
        }
    }

    fn finish(self) -> Vec<Range<u64>> {
        merge_ranges(self.found)
    }
}

/// Lines of `OFFSET LENGTH` in bytes; empty lines and those that begin with `#` are skipped.
fn lines(mut text: impl BufRead) -> io::Result<Vec<Range<u64>>> {
    let mut ranges = Ranges::default();
    let mut line = String::new();
    for number in 1_u64.. {
        let failed = || io::Error::other(format!("line {number} is not `OFFSET LENGTH` in bytes"));
        line.clear();
        let read =
            text.by_ref().take(LONGEST_LINE).read_line(&mut line).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => failed(),
                _ => error,
            })?;
        if read == 0 {
            break;
        }
        if read as u64 == LONGEST_LINE && !line.ends_with('\n') {
            return Err(failed());
        }
        let mut words = line.split_ascii_whitespace();
        let range = match (words.next(), words.next(), words.next()) {
            (None, ..) => continue,
            (Some(first), ..) if first.starts_with('#') => continue,
            (Some(offset), Some(length), None) => offset.parse().ok().zip(length.parse().ok()),
            _ => None,
        };
        ranges.push(range.and_then(|(offset, length)| range_of(offset, length)).ok_or_else(failed)?);
    }
    Ok(ranges.finish())
}

fn range_of(offset: u64, length: u64) -> Option<Range<u64>> {
    Some(offset..offset.checked_add(length)?)
}

/// What `verisum image diff --json` prints.
#[derive(Deserialize)]
struct DiffJson {
    ranges: Vec<Entry>,
}

/// An entry of a list of `nbdinfo`, of `qemu-img` or of our own.
#[derive(Deserialize)]
struct Entry {
    /// Where in the image, by `qemu-img`, whose `offset` is a place in a file.
    start: Option<u64>,
    offset: Option<u64>,
    length: u64,
    /// What `nbdinfo` says of an extent; of a dirty bitmap `clean` or `dirty`.
    description: Option<String>,
    /// Which layer of a chain an extent comes from, by `qemu-img`; 0 is the image itself.
    depth: Option<u64>,
    /// Whether any layer has it, by newer versions of `qemu-img`.
    present: Option<bool>,
}

fn json<T: DeserializeOwned>(
    text: impl BufRead,
    entries: impl FnOnce(T) -> Vec<Entry>,
) -> io::Result<Vec<Range<u64>>> {
    let mut whole = Vec::new();
    if text.take(LONGEST_JSON + 1).read_to_end(&mut whole)? as u64 > LONGEST_JSON {
        return Err(io::Error::other("too long for JSON of ranges: give lines of `OFFSET LENGTH`"));
    }
    let list = serde_json::from_slice(&whole);
    let list = list.map_err(|error| io::Error::other(format!("no JSON of ranges: {error}")))?;
    let mut ranges = Ranges::default();
    for entry in entries(list) {
        // With two layers below the image nobody says of which of them the map is.
        if entry.depth.is_some_and(|depth| depth > 1) {
            let what = "it is unclear which layers of the chain are new: give lines of `OFFSET LENGTH`";
            return Err(io::Error::other(what));
        }
        let unchanged = entry.description.as_deref() == Some("clean")
            || entry.depth == Some(1)
            || entry.present == Some(false);
        if !unchanged {
            let range = entry.start.or(entry.offset).and_then(|offset| range_of(offset, entry.length));
            ranges.push(range.ok_or_else(|| io::Error::other("an entry without a range"))?);
        }
    }
    Ok(ranges.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> io::Result<Vec<Range<u64>>> {
        super::parse(text.as_bytes())
    }

    #[test]
    fn every_form_is_read() {
        let lines = "# a comment\n0 512\n\n  1024\t1\n";
        assert_eq!(parse(lines).unwrap(), [0..512, 1024..1025]);
        assert_eq!(parse("").unwrap(), []);
        let diff = r#"{"equal":false,"ranges":[{"offset":5,"length":6}]}"#;
        assert_eq!(parse(diff).unwrap(), vec![5..11]);
        let bitmap = r#"[{"offset":0,"length":65536,"type":0,"description":"clean"},
                         {"offset":65536,"length":512,"type":1,"description":"dirty"}]"#;
        assert_eq!(parse(bitmap).unwrap(), vec![65536..66048]);
        let overlay = r#"[{"start":0,"length":10,"depth":1,"present":true,"zero":false,"data":true,"offset":9},
                          {"start":10,"length":5,"depth":0,"present":true,"zero":false,"data":true,"offset":0},
                          {"start":15,"length":5,"depth":0,"present":false,"zero":true,"data":false}]"#;
        assert_eq!(parse(overlay).unwrap(), vec![10..15]);
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in
            ["5", "1 2 3", "-1 2", "a b", "0x10 5", "18446744073709551615 1", "[1]", "{}", "[{\"length\":1}]"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(r#"[{"start":0,"length":10,"depth":2}]"#).unwrap_err().to_string().contains("chain"));
    }

    #[test]
    fn what_is_kept_is_as_long_as_the_result() {
        let mut ranges = Ranges::default();
        for place in 0..1_000_000_u64 {
            let offset = place * 7919 % 1_000_003;
            ranges.push(offset * 512..offset * 512 + 512);
            assert!(ranges.found.len() <= 1_000_003);
        }
        for _ in 0..1_000_000 {
            ranges.push(0..1_000_003 * 512);
            ranges.push(5..6);
        }
        assert_eq!(ranges.finish(), vec![0..1_000_003 * 512]);
        let endless = super::parse(BufReader::new(io::repeat(0)));
        assert!(endless.unwrap_err().to_string().starts_with("line 1 is not"));
    }
}
