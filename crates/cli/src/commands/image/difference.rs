//! Prints differences, for `verify` and `diff`.

use std::ffi::OsStr;
use std::ops::Range;

use serde::Serialize;

use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::names::{self, Name};
use crate::ui::sizes::human;
use crate::ui::{self, Output};

/// One of two sides that were compared.
pub(super) struct ImageSide<'a> {
    pub(super) name: &'a OsStr,
    /// Length in bytes of what a guest sees.
    pub(super) length: u64,
}

/// The result of comparing two sides.
pub(super) struct Difference<'a> {
    pub(super) sides: [ImageSide<'a>; 2],
    /// Ranges are whole blocks of this many bytes.
    pub(super) block_size: u32,
    pub(super) ranges: Vec<Range<u64>>,
    /// Whether an image was written to while it was read.
    pub(super) modified: bool,
    /// The command that mends the second one, if it is known.
    pub(super) mend: Option<String>,
}

#[derive(Serialize)]
struct DifferenceRecord<'a> {
    equal: bool,
    a: JsonSide,
    b: JsonSide,
    block_size: u32,
    /// Bytes in all ranges together.
    differing: u64,
    ranges: &'a [JsonRange],
    /// Whether an image was written to meanwhile.
    modified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonSide {
    #[serde(flatten)]
    name: Name,
    size: u64,
}

#[derive(Serialize)]
struct JsonRange {
    offset: u64,
    length: u64,
}

impl Difference<'_> {
    /// Prints the ranges, a line of `OFFSET LENGTH` for each or all as JSON, and says on standard error
    /// how much they are.
    pub(super) fn print(&self, json: bool, output: &mut Output) -> Result<Exit, Failure> {
        if !self.ranges.is_empty() {
            output.found(Exit::Mismatch);
        }
        if json {
            let side = |side: &ImageSide<'_>| JsonSide { name: Name::new(side.name), size: side.length };
            let [a, b] = &self.sides;
            let ranges: Vec<JsonRange> = self
                .ranges
                .iter()
                .map(|range| JsonRange { offset: range.start, length: range.end - range.start })
                .collect();
            output.json(
                "difference",
                &DifferenceRecord {
                    equal: self.ranges.is_empty(),
                    a: side(a),
                    b: side(b),
                    block_size: self.block_size,
                    differing: self.bytes(),
                    ranges: &ranges,
                    modified: self.modified,
                    mend: self.mend.as_deref(),
                },
            )?;
        } else {
            for range in &self.ranges {
                output.line(&format!("{} {}", range.start, range.end - range.start))?;
            }
        }
        output.flush()?;
        if self.ranges.is_empty() {
            return Ok(Exit::Clean);
        }
        ui::say(PROGRAM, &self.summary());
        Ok(Exit::Mismatch)
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    fn summary(&self) -> String {
        let [a, b] = &self.sides;
        let (one, other) = (names::quoted(a.name), names::quoted(b.name));
        let lengths = match a.length == b.length {
            true => String::new(),
            false => format!("; they are {} and {} bytes long", a.length, b.length),
        };
        let (count, bytes) = (self.ranges.len(), human(self.bytes()));
        let ranges = if count == 1 { "range" } else { "ranges" };
        format!("{one} and {other} differ in {count} {ranges}, {bytes}{lengths}")
    }
}
