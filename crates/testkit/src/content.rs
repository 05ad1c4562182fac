//! The content of test messages, by the rule of `reference/README.md`.

/// What a run of a message holds, and how it is written into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes by [`data_byte`], none of them zero.
    Data,
    /// Zeros that are written.
    Zero,
    /// Zeros that are left out: a hole.
    Hole,
}

/// A run of bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What it holds.
    pub kind: Kind,
    /// Its length in bytes.
    pub length: u64,
}

impl Run {
    /// A run of data.
    pub const fn data(length: u64) -> Self {
        Run { kind: Kind::Data, length }
    }

    /// A run of written zeros.
    pub const fn zero(length: u64) -> Self {
        Run { kind: Kind::Zero, length }
    }

    /// A run of zeros that are not written.
    pub const fn hole(length: u64) -> Self {
        Run { kind: Kind::Hole, length }
    }
}

/// The byte of a data run at `offset` of the message (not of the run): 1 to 251.
pub const fn data_byte(offset: u64) -> u8 {
    (offset % 251) as u8 + 1
}

/// Writes the data bytes at `offset` of the message into `buf`.
pub fn fill(buf: &mut [u8], offset: u64) {
    let period: Vec<u8> = (offset..offset + 251).map(data_byte).collect();
    for chunk in buf.chunks_mut(period.len()) {
        chunk.copy_from_slice(&period[..chunk.len()]);
    }
}

/// Length in bytes of a message.
pub fn total_length(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.length).sum()
}

/// All bytes of a message.
pub fn content(runs: &[Run]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(total_length(runs) as usize);
    for run in runs {
        let start = bytes.len();
        bytes.resize(start + run.length as usize, 0);
        if run.kind == Kind::Data {
            fill(&mut bytes[start..], start as u64);
        }
    }
    bytes
}

/// A message of `length` bytes made of `pattern`, repeated and cut.
pub fn runs_of(pattern: &[Run], length: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut left = length;
    for run in pattern.iter().cycle() {
        if left == 0 {
            break;
        }
        let length = run.length.min(left);
        runs.push(Run { kind: run.kind, length });
        left -= length;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_follows_the_reference() {
        let runs = [Run::data(2), Run::zero(1), Run::hole(1), Run::data(300)];
        let bytes = content(&runs);
        assert_eq!(bytes.len() as u64, total_length(&runs));
        assert_eq!(bytes[..6], [1, 2, 0, 0, 5, 6]);
        assert_eq!((bytes[250], bytes[251], bytes[303]), (251, 1, 53));
        assert!(bytes[4..].iter().enumerate().all(|(i, &byte)| byte == data_byte(i as u64 + 4)));
    }

    #[test]
    fn patterns_are_cut() {
        let runs = runs_of(&[Run::data(3), Run::hole(2)], 9);
        assert_eq!(runs, [Run::data(3), Run::hole(2), Run::data(3), Run::hole(1)]);
        assert!(runs_of(&[Run::data(3)], 0).is_empty());
    }
}
