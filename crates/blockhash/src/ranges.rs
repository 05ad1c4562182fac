//! Lists of byte ranges: sorted, apart from each other, never empty.

use std::ops::Range;

/// Sorts ranges and joins those that touch or overlap; drops empty ones.
pub fn merge_ranges(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    ranges
}

/// Enlarges ranges to whole units of `unit` bytes, of which the one that ends at `length` may be short,
/// and merges them. What lies beyond `length` is cut off.
pub(crate) fn whole_units(ranges: Vec<Range<u64>>, unit: u64, length: u64) -> Vec<Range<u64>> {
    let whole = ranges.into_iter().filter(|range| !range.is_empty()).map(|range| {
        let end = range.end.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        range.start - range.start % unit..end.min(length)
    });
    merge_ranges(whole.collect())
}

/// Appends a range that begins at or after the end of the last one, joining it if it touches.
pub(crate) fn push_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged() {
        assert_eq!(merge_ranges(vec![5..9, 0..2, 2..3, 4..4, 6..7, 8..10]), [0..3, 5..10]);
        assert_eq!(merge_ranges(vec![]), []);
    }

    #[test]
    fn ranges_are_enlarged_to_units() {
        assert_eq!(whole_units(vec![5..6, 12..13, 19..21], 4, 22), [4..8, 12..22]);
        assert_eq!(whole_units(vec![u64::MAX - 1..u64::MAX], 4, u64::MAX), [u64::MAX - 3..u64::MAX]);
        assert_eq!(whole_units(vec![30..40], 4, 22), []);
    }
}
