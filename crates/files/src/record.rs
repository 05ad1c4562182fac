//! The record of a file: its digest, and the facts that show whether somebody wrote to the file since.

use std::time::Duration;

use verisum_digest::{Algorithm, Output};

use crate::verdict::{Comparison, SecondRead};
use crate::{Stat, Timestamp};

/// The unit of times of modification that are compared, in nanoseconds. Network file systems and
/// archives cut off what is finer.
const FINEST: u64 = 100;

/// By how many seconds the inode's time may be later than that of the verification that was written
/// into it.
const WRITING: i64 = 2;

/// How far ahead of now a verification may be. One further in the future is of a clock that ran ahead: nobody knows how
/// old it is, and it counts for nothing.
pub const FUTURE: Duration = Duration::from_secs(24 * 3600);

/// What is recorded of one file.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The digest's row in the table.
    pub algorithm: &'static Algorithm,
    /// Its value.
    pub digest: Output,
    /// The file's length in bytes, where that is recorded.
    pub size: Option<u64>,
    /// The file's time of modification, where that is recorded.
    pub modified: Option<RecordedTime>,
    /// When the content was last found to have this digest, of which tags keep whole seconds; `None` if it is not
    /// recorded, or if the record was taken from elsewhere and the content was never compared with it.
    pub verified: Option<Timestamp>,
}

/// A time of modification as it is recorded: some forms keep fewer digits than the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTime {
    /// The time.
    pub time: Timestamp,
    /// How far the file's own may be from it, in nanoseconds, to be still the same.
    pub tolerance: u64,
}

/// What a record says of a file whose content was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Length and time are the recorded ones.
    Current,
    /// The time of modification is another: the file was written to, or its time was set.
    Outdated,
    /// The time is the recorded one and the length is not, which no ordinary writing does.
    Resized,
    /// No time is recorded: only the content can tell.
    Unknown,
}

impl Record {
    /// The record of what was read while the file was in the state `stat`.
    pub fn new(
        algorithm: &'static Algorithm,
        digest: Output,
        stat: &Stat,
        verified: Option<Timestamp>,
    ) -> Record {
        Record {
            algorithm,
            digest,
            size: Some(stat.size),
            modified: Some(RecordedTime::exact(stat.modified)),
            verified,
        }
    }

    /// What it says of a file, as far as that can be said without reading it.
    pub fn standing(&self, stat: &Stat) -> Standing {
        match self.modified {
            None => Standing::Unknown,
            Some(recorded) if !recorded.is(stat.modified) => Standing::Outdated,
            Some(_) if self.is_same_size(stat) => Standing::Current,
            Some(_) => Standing::Resized,
        }
    }

    /// The evidence of one whole read, for a verdict.
    ///
    /// The writing of a tag is the last change of an inode that nobody touches, so the time of
    /// verification stands for the inode's. Where no time of modification is recorded, different content
    /// is nobody's proof: it counts as a time that was set back.
    pub fn compare(&self, stat: &Stat, digest: &Output, second: SecondRead) -> Comparison {
        Comparison {
            same_digest: self.digest == *digest,
            same_mtime: self.modified.is_none_or(|recorded| recorded.is(stat.modified)),
            same_ctime: match (self.modified, self.verified) {
                (None, _) => Some(false),
                (Some(_), Some(verified)) => {
                    Some(stat.changed.seconds <= verified.seconds.saturating_add(WRITING))
                }
                // No ordinary writing moves the length and not the time.
                (Some(_), None) => {
                    if self.is_same_size(stat) {
                        None
                    } else {
                        Some(false)
                    }
                }
            },
            same_file: None,
            time_tells: true,
            second,
        }
    }

    /// When it was verified, by a clock that shows `now`; none if that is too far [in the future](FUTURE) to count.
    pub fn verified_by(&self, now: Timestamp) -> Option<Timestamp> {
        let until = now.seconds.saturating_add(FUTURE.as_secs().cast_signed());
        self.verified.filter(|verified| verified.seconds <= until)
    }

    fn is_same_size(&self, stat: &Stat) -> bool {
        self.size.is_none_or(|size| size == stat.size)
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        (self.algorithm.id, self.digest, self.size, self.modified, self.verified)
            == (other.algorithm.id, other.digest, other.size, other.modified, other.verified)
    }
}

impl Eq for Record {}

impl RecordedTime {
    /// A time with all the digits that the file system gave.
    pub const fn exact(time: Timestamp) -> RecordedTime {
        RecordedTime { time, tolerance: 0 }
    }

    /// Whether a file's time is this one.
    pub fn is(&self, time: Timestamp) -> bool {
        let nanoseconds = |t: Timestamp| i128::from(t.seconds) * 1_000_000_000 + i128::from(t.nanoseconds);
        let (recorded, found) = (nanoseconds(self.time), nanoseconds(time));
        match self.tolerance > FINEST {
            true => recorded.abs_diff(found) < u128::from(self.tolerance),
            // As cshatag: the rest is cut off both.
            false => recorded.div_euclid(FINEST.into()) == found.div_euclid(FINEST.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Kind, Verdict};

    const TIME: Timestamp = Timestamp { seconds: 1_600_000_000, nanoseconds: 123_456_700 };
    const STAT: Stat = Stat {
        kind: Kind::File,
        device: 1,
        inode: 2,
        links: 1,
        size: 3,
        stored: 512,
        modified: TIME,
        changed: Timestamp { seconds: 1_700_000_001, nanoseconds: 0 },
    };

    fn record() -> Record {
        Record::new(
            Algorithm::find("xxh64").unwrap(),
            Output::zeroed(8),
            &STAT,
            Some(Timestamp::of_seconds(1_700_000_000)),
        )
    }

    fn later(nanoseconds: u32) -> Stat {
        Stat { modified: Timestamp { nanoseconds: TIME.nanoseconds + nanoseconds, ..TIME }, ..STAT }
    }

    #[test]
    fn times_have_a_tolerance() {
        assert_eq!(record().standing(&STAT), Standing::Current);
        assert_eq!(record().standing(&later(99)), Standing::Current);
        assert_eq!(record().standing(&later(100)), Standing::Outdated);
        let coarse = RecordedTime { time: TIME, tolerance: 1000 };
        let coarse = Record { modified: Some(coarse), ..record() };
        assert_eq!(coarse.standing(&later(999)), Standing::Current);
        assert_eq!(coarse.standing(&later(1000)), Standing::Outdated);
        assert_eq!(record().standing(&Stat { size: 4, ..STAT }), Standing::Resized);
        assert_eq!(Record { modified: None, ..record() }.standing(&STAT), Standing::Unknown);
    }

    #[test]
    fn other_content_is_judged_by_what_is_recorded() {
        let mut other = Output::zeroed(8);
        other.as_mut_bytes()[0] = 1;
        let verdict = |record: Record, stat: &Stat| {
            Evidence::Compared(record.compare(stat, &other, SecondRead::Same)).verdict()
        };
        let written = Timestamp { seconds: 1_700_000_003, nanoseconds: 0 };
        assert_eq!(verdict(record(), &STAT), Verdict::Rot);
        assert_eq!(verdict(record(), &Stat { changed: written, ..STAT }), Verdict::Suspicious);
        assert_eq!(verdict(record(), &later(100)), Verdict::Modified);
        assert_eq!(verdict(Record { verified: None, ..record() }, &STAT), Verdict::Rot);
        assert_eq!(
            verdict(Record { modified: None, verified: None, ..record() }, &STAT),
            Verdict::Suspicious
        );
    }
}
