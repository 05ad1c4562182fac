//! Parses and prints times and shares as people write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ui::failure::Failure;

/// The units of durations, in seconds.
const UNITS: [(&str, u64); 6] =
    [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 7 * 86_400), ("y", 365 * 86_400)];

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// Reads a duration: a whole number and its unit, as `90d` or `2h`; several may follow each other.
pub(crate) fn duration(option: &'static str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).ok_or_else(|| {
        Failure::value(
            option,
            text,
            match parse_seconds(text) {
                Some(0) if !text.is_empty() => "must be above 0".to_string(),
                _ => "must be a number and s, m, h, d, w or y, as in 90d".to_string(),
            },
        )
    })
}

fn parse_duration(text: &str) -> Option<Duration> {
    // Ten thousand years are enough to overflow nothing.
    parse_seconds(text)
        .filter(|seconds| (1..=10_000 * 365 * 86_400).contains(seconds))
        .map(Duration::from_secs)
}

fn parse_seconds(text: &str) -> Option<u64> {
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let length = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..length])?;
        seconds = seconds.checked_add(number.checked_mul(*unit)?)?;
        rest = &rest[length..];
    }
    Some(seconds)
}

/// So many of something, in the number that it takes.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Reads a share: `20%`, or a number up to 1; none at all is no share.
pub(crate) fn share(option: &'static str, text: &str) -> Result<f64, Failure> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    number.ok().filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(|| {
        Failure::value(option, text, "must be a share above 0 and up to all, as in 5% or 0.05")
    })
}

/// Reads a moment, in milliseconds since 1970: a date and perhaps a time of day in UTC, `@` and seconds
/// since 1970, or how long ago it is.
pub(crate) fn moment(option: &'static str, text: &str, now: i64) -> Result<i64, Failure> {
    let found = match text.strip_prefix('@') {
        Some(seconds) => seconds.parse::<i64>().ok().and_then(|seconds| seconds.checked_mul(1000)),
        None => parse_duration(text).map(|ago| now - ago.as_millis() as i64).or_else(|| date(text)),
    };
    found.ok_or_else(|| {
        Failure::value(
            option,
            text,
            "must be a date (2026-11-01 or 2026-11-01T04:00, UTC), @SECONDS, or a time ago, as in 30d",
        )
    })
}

fn date(text: &str) -> Option<i64> {
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = day.split('-').map(|part| part.parse::<i64>().ok().filter(|_| part.len() <= 4));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut clock = time.trim_end_matches('Z').split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    if parts.next().is_some() || clock.next().is_some() || !in_range {
        return None;
    }
    let days = days(year, month, day);
    (civil(days) == (year, month, day)).then(|| (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

/// A moment in milliseconds since 1970, in UTC.
pub(crate) fn written(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A moment in nanoseconds since 1970, in UTC.
pub(crate) fn written_to_nanoseconds(stamp: i64) -> String {
    let seconds = written(stamp.div_euclid(1_000_000));
    format!("{}.{:09}Z", seconds.trim_end_matches('Z'), stamp.rem_euclid(1_000_000_000))
}

/// Days since 1970 of a date. Years begin in March: then the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// The date of a day since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A duration in the unit that leaves at least two.
pub(crate) fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 2.0 * 86_400.0 => format!("{:.0} days", s / 86_400.0),
        s if s >= 2.0 * 3600.0 => format!("{:.0} hours", s / 3600.0),
        s if s >= 120.0 => format!("{:.0} minutes", s / 60.0),
        s => format!("{s:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("90d"), Some(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
        for bad in ["", "0s", "5", "d", "1.5h", "-1d", "1 d", "1dd", "99999999999999999999d", "10001y"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T12:30", 951_827_400),
            ("2026-11-01 04:00:05", 1_793_505_605),
            ("2100-03-01", 4_107_542_400),
        ] {
            assert_eq!(date(text), Some(seconds * 1000), "{text}");
            assert!(written(seconds * 1000).starts_with(&text[..10]), "{text}");
        }
        for bad in ["", "2026", "2026-13-01", "2026-02-30", "2100-02-29", "2026-11-01T24:00", "yesterday"] {
            assert_eq!(date(bad), None, "{bad}");
        }
        for day in -1_000_000..1_000_000 {
            let (year, month, date) = civil(day);
            assert_eq!(days(year, month, date), day);
        }
    }

    #[test]
    fn shares_are_at_most_all() {
        assert_eq!(share("--sample", "5%").unwrap(), 0.05);
        assert_eq!(share("--sample", "0.5").unwrap(), 0.5);
        for bad in ["", "%", "101%", "-1%", "NaN", "2", "five", "0", "0%", "-0", "1e-999", "inf"] {
            assert!(share("--sample", bad).is_err(), "{bad}");
        }
    }
}
