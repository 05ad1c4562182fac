//! Reading the places where an image has changed, in the forms in which other programs know them.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use rustix::io::Errno;
use serde::Deserialize;
use verisum_blockhash::merge_ranges;

use crate::closed;
use crate::failure::Failure;
use crate::input::Input;

/// The most that is read, in bytes: hundreds of millions of ranges are a full run.
const LONGEST: u64 = 1 << 30;

/// Reads byte ranges; they come sorted and apart from each other.
pub(super) fn read(input: &Input) -> Result<Vec<Range<u64>>, Failure> {
    let failed = |error| Failure::File { name: input.path(), operation: "read", error };
    let mut text = String::new();
    let count = match input {
        // It would look as if nothing had changed.
        Input::Stdin if closed::standard_input() => Err(Errno::BADF.into()),
        Input::Stdin => io::stdin().lock().take(LONGEST + 1).read_to_string(&mut text),
        Input::Named(name) => {
            let open = |error| Failure::File { name: input.path(), operation: "open", error };
            File::open(name).map_err(open)?.take(LONGEST + 1).read_to_string(&mut text)
        }
    };
    if count.map_err(failed)? as u64 > LONGEST {
        return Err(failed(io::Error::other("too long for a list of ranges")));
    }
    let ranges = parse(&text).map_err(|what| failed(io::Error::other(what)))?;
    Ok(merge_ranges(ranges))
}

fn parse(text: &str) -> Result<Vec<Range<u64>>, String> {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => json(text, |list: DiffJson| list.ranges),
        Some(b'[') => json(text, |list: Vec<Entry>| list),
        _ => lines(text),
    }
}

/// Lines of `OFFSET LENGTH` in bytes; empty lines and those that begin with `#` are skipped.
fn lines(text: &str) -> Result<Vec<Range<u64>>, String> {
    let mut ranges = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let range = match (words.next(), words.next(), words.next()) {
            (None, ..) => continue,
            (Some(first), ..) if first.starts_with('#') => continue,
            (Some(offset), Some(length), None) => offset.parse().ok().zip(length.parse().ok()),
            _ => None,
        };
        let range = range.and_then(|(offset, length)| range_of(offset, length));
        ranges.push(range.ok_or_else(|| format!("line {} is not `OFFSET LENGTH` in bytes", number + 1))?);
    }
    Ok(ranges)
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

fn json<'a, T: Deserialize<'a>>(
    text: &'a str,
    entries: impl FnOnce(T) -> Vec<Entry>,
) -> Result<Vec<Range<u64>>, String> {
    let list = serde_json::from_str(text).map_err(|error| format!("no JSON of ranges: {error}"))?;
    let mut ranges = Vec::new();
    for entry in entries(list) {
        // With two layers below the image nobody says of which of them the map is.
        if entry.depth.is_some_and(|depth| depth > 1) {
            return Err(
                "it is unclear which layers of the chain are new: give lines of `OFFSET LENGTH`".into()
            );
        }
        let unchanged = entry.description.as_deref() == Some("clean")
            || entry.depth == Some(1)
            || entry.present == Some(false);
        if !unchanged {
            let range = entry.start.or(entry.offset).and_then(|offset| range_of(offset, entry.length));
            ranges.push(range.ok_or("an entry without a range")?);
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(parse(r#"[{"start":0,"length":10,"depth":2}]"#).unwrap_err().contains("chain"));
    }
}
