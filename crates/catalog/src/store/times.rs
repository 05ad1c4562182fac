//! The times of records: a [`Stamp`] is a file's, a [`Moment`] is one at which verisum did something.

use std::ops::{Add, Sub};
use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};
use verisum_files::Timestamp;

/// A file's time of modification, or of its inode's last change, in nanoseconds. Times beyond 1677 to 2262 wrap
/// around: two times are the same if their stamps are, unless they are a multiple of 2⁶⁴ nanoseconds, some 585 years,
/// apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Stamp(i64);

impl Stamp {
    /// Stands for a time that nothing told.
    pub const UNKNOWN: Stamp = Stamp(0);

    /// From nanoseconds since 1970.
    pub const fn of_nanoseconds(nanoseconds: i64) -> Stamp {
        Stamp(nanoseconds)
    }

    /// Nanoseconds since 1970.
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// The time in seconds and nanoseconds.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::of_nanoseconds(self.0)
    }
}

impl From<Timestamp> for Stamp {
    fn from(time: Timestamp) -> Stamp {
        Stamp(time.seconds.wrapping_mul(1_000_000_000).wrapping_add(i64::from(time.nanoseconds)))
    }
}

/// When verisum read, recorded or found something, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Moment(i64);

impl Moment {
    /// Stands for what was never done, before all that was done since 1970.
    pub const NEVER: Moment = Moment(0);

    /// Before all others.
    pub const MIN: Moment = Moment(i64::MIN);

    /// After all others.
    pub const MAX: Moment = Moment(i64::MAX);

    /// The present, by the system's clock.
    pub fn now() -> Moment {
        Timestamp::now().into()
    }

    /// From milliseconds since 1970.
    pub const fn of_milliseconds(milliseconds: i64) -> Moment {
        Moment(milliseconds)
    }

    /// Milliseconds since 1970.
    pub const fn milliseconds(self) -> i64 {
        self.0
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The time in seconds and nanoseconds.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::of_milliseconds(self.0)
    }
}

impl From<Timestamp> for Moment {
    /// The first or the last moment stands for those beyond them.
    fn from(time: Timestamp) -> Moment {
        time.milliseconds().map_or(if time.seconds < 0 { Moment::MIN } else { Moment::MAX }, Moment)
    }
}

/// Milliseconds of a duration.
fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, later: Duration) -> Moment {
        Moment(self.0.saturating_add(milliseconds(later)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, earlier: Duration) -> Moment {
        Moment(self.0.saturating_sub(milliseconds(earlier)))
    }
}

impl Sub for Moment {
    type Output = Duration;

    /// The time that passed since another moment; zero if that is later.
    fn sub(self, since: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(since.0).max(0).cast_unsigned())
    }
}

/// In SQL they are integers, of which 0 stands for no time; in text RFC 3339.
macro_rules! is_stored {
    ($time:ident) => {
        impl $time {
            /// The time; none for what stands for none.
            pub fn known(self) -> Option<$time> {
                (self.0 != 0).then_some(self)
            }
        }

        impl ToSql for $time {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.0.into())
            }
        }

        impl FromSql for $time {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<$time> {
                value.as_i64().map($time)
            }
        }

        impl From<$time> for String {
            fn from(time: $time) -> String {
                time.timestamp().to_rfc3339()
            }
        }

        impl TryFrom<String> for $time {
            type Error = String;

            fn try_from(text: String) -> Result<$time, String> {
                let time = Timestamp::from_rfc3339(&text);
                time.map($time::from).ok_or_else(|| format!("{text:?} is no time of RFC 3339"))
            }
        }
    };
}

is_stored!(Stamp);
is_stored!(Moment);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stamp_is_that_of_its_time_and_moments_end_where_their_milliseconds_do() {
        for nanoseconds in [i64::MIN, -1, 0, 1_234_567_890_123_456_789, i64::MAX] {
            let stamp = Stamp::of_nanoseconds(nanoseconds);
            assert_eq!(Stamp::from(stamp.timestamp()), stamp);
        }
        let far = |seconds| Moment::from(Timestamp::of_seconds(seconds));
        assert_eq!([i64::MIN, i64::MAX].map(far), [Moment::MIN, Moment::MAX]);
        assert_eq!(Moment::MAX + Duration::MAX, Moment::MAX);
        assert_eq!(Moment::MIN - Duration::from_millis(1), Moment::MIN);
        let (first, second) = (Moment::of_milliseconds(-5), Moment::of_milliseconds(7));
        assert_eq!((second - first, first - second), (Duration::from_millis(12), Duration::ZERO));
        assert_eq!(first + Duration::from_millis(12), second);
        assert_eq!((Moment::NEVER.known(), first.known()), (None, Some(first)));
    }
}
