//! The index: the list of valid sets.

use crate::digest;
use crate::names::hex;

/// The first line.
const FIRST: &str = "verisum parity index 1";

/// No index gets so far: numbers of this size are somebody's.
const MOST: u64 = 1 << 48;

/// Which sets count, and how new ones are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// Grows with every change.
    pub(crate) generation: u64,
    /// The number of the next set.
    pub(crate) next: u64,
    /// The share of parity, in millionths of the data.
    pub(crate) redundancy: u32,
    /// The most bytes of data in a set; 0 for what suits the tree.
    pub(crate) set_bytes: u64,
    /// The numbers of the sets, ascending.
    pub(crate) sets: Vec<u64>,
    /// Whether one of its copies is damaged.
    pub(crate) is_scratched: bool,
    /// Whether one of its copies is that of before: a run was killed between writing the two.
    pub(crate) is_half_new: bool,
    /// Whether both copies are.
    pub(crate) is_lost: bool,
}

impl Index {
    /// The text of the index.
    pub(crate) fn encode(&self) -> String {
        let Index { generation, next, redundancy, set_bytes, .. } = self;
        let mut text = format!(
            "{FIRST}\ngeneration {generation}\nnext {next}\nredundancy {redundancy}\nset-bytes {set_bytes}\n"
        );
        self.sets.iter().for_each(|set| text += &format!("set {set}\n"));
        let seal = digest::whole(text.as_bytes());
        text + "blake3 " + &hex(&seal) + "\n"
    }

    /// Reads it; none if it is not whole.
    pub(crate) fn decode(text: &[u8]) -> Option<Index> {
        let text = std::str::from_utf8(text).ok()?;
        let mut lines = text.lines();
        let mut index = Index {
            generation: 0,
            next: 0,
            redundancy: 0,
            set_bytes: 0,
            sets: Vec::new(),
            is_scratched: false,
            is_half_new: false,
            is_lost: false,
        };
        (lines.next()? == FIRST).then_some(())?;
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "generation" => index.generation = value.parse().ok()?,
                "next" => index.next = value.parse().ok()?,
                "redundancy" => index.redundancy = value.parse().ok()?,
                "set-bytes" => index.set_bytes = value.parse().ok()?,
                "set" => index.sets.push(value.parse().ok()?),
                "blake3" => {}
                _ => return None,
            }
        }
        let is_plain = index.sets.is_sorted_by(|one, next| one < next)
            && index.sets.last().is_none_or(|last| *last < index.next)
            && index.redundancy > 0
            && index.generation.max(index.next) < MOST;
        (is_plain && index.encode() == text).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_comes_back_or_is_none() {
        let index = Index {
            generation: 2,
            next: 9,
            redundancy: 50_000,
            set_bytes: 0,
            sets: vec![1, 8],
            is_scratched: false,
            is_half_new: false,
            is_lost: false,
        };
        let text = index.encode();
        assert_eq!(Index::decode(text.as_bytes()), Some(index));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 4;
            assert_eq!(Index::decode(&other), None);
            assert_eq!(Index::decode(&text.as_bytes()[..at]), None);
        }
        let endless = Index { generation: u64::MAX, ..Index::decode(text.as_bytes()).unwrap() };
        assert_eq!(Index::decode(endless.encode().as_bytes()), None);
    }
}
