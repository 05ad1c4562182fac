//! Parses and prints times and shares as people write them.

use std::time::Duration;

use verisum::catalog::store::Moment;
use verisum::files::Timestamp;

use crate::ui::failure::Failure;

/// The units of durations, in seconds.
const UNITS: [(&str, u64); 6] =
    [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 7 * 86_400), ("y", 365 * 86_400)];

/// Reads a duration that need not be given.
pub(crate) fn optional_duration(
    option: &'static str,
    text: &Option<String>,
) -> Result<Option<Duration>, Failure> {
    text.as_deref().map(|text| duration(option, text)).transpose()
}

/// Reads a duration: a number and its unit, as `90d` or `1.5h`; several may follow each other.
pub(crate) fn duration(option: &'static str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).ok_or_else(|| {
        Failure::value(
            option,
            text,
            match parse_seconds(text) {
                Some(0) if !text.is_empty() => "must be above 0".to_string(),
                Some(LONGEST..) => format!("must be at most {LONGEST_YEARS}y"),
                _ => "must be a number and s, m, h, d, w or y, as in 90d".to_string(),
            },
        )
    })
}

/// Longer durations might overflow something.
const LONGEST_YEARS: u64 = 10_000;
const LONGEST: u64 = LONGEST_YEARS * 365 * 86_400 + 1;

fn parse_duration(text: &str) -> Option<Duration> {
    parse_seconds(text).filter(|seconds| (1..LONGEST).contains(seconds)).map(Duration::from_secs)
}

/// The seconds, as many as fit. A part of a second is a whole one.
fn parse_seconds(text: &str) -> Option<u64> {
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (whole, part) = rest[..number].split_once('.').unwrap_or((&rest[..number], "0"));
        // More digits change nothing.
        let part = &part[..part.len().min(18)];
        let parts: u128 = part.parse().ok()?;
        let whole: u64 = if whole.is_empty() { return None } else { whole.parse().unwrap_or(u64::MAX) };
        rest = &rest[number..];
        let length = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..length])?;
        let rounded_up = (parts * u128::from(*unit)).div_ceil(10_u128.pow(part.len() as u32)) as u64;
        seconds = seconds.saturating_add(whole.saturating_mul(*unit)).saturating_add(rounded_up);
        rest = &rest[length..];
    }
    Some(seconds)
}

/// So many of something, in the number that it takes.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// What is told of records that are not as they were written.
pub(crate) fn damaged_records(count: u64) -> String {
    format!("{} (verisum catalog check names them)", counted(count, "damaged record"))
}

/// What is told of a tree that scrubs have begun and never came to the end of.
pub(crate) const UNFINISHED: &str = "no scrub has come to its end yet: some files may have no record";

/// What is told of verifications that a clock dated which ran ahead.
pub(crate) fn verified_in_future(count: u64) -> String {
    format!("verified in the future: {count} (a clock ran ahead: they count as never verified)")
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

/// Reads a moment: a date and perhaps a time of day in UTC, `@` and seconds
/// since 1970, or how long ago it is.
pub(crate) fn moment(option: &'static str, text: &str, now: Moment) -> Result<Moment, Failure> {
    let found = match text.strip_prefix('@') {
        Some(seconds) => {
            let seconds = seconds.parse::<i64>().ok();
            seconds.and_then(|seconds| seconds.checked_mul(1000)).map(Moment::of_milliseconds)
        }
        None => parse_duration(text).map(|ago| now - ago).or_else(|| date(text)),
    };
    found.ok_or_else(|| {
        Failure::value(
            option,
            text,
            "must be a date (2026-11-01 or 2026-11-01T04:00, UTC), @SECONDS, or how long ago, as in 30d",
        )
    })
}

fn date(text: &str) -> Option<Moment> {
    let text = text.replacen(' ', "T", 1);
    let in_utc = text.trim_end_matches('Z');
    let whole = [text.clone(), format!("{in_utc}Z"), format!("{in_utc}:00Z"), format!("{in_utc}T00:00:00Z")];
    let found = whole.iter().find_map(|text| Timestamp::from_rfc3339(text));
    found.map(Moment::from).filter(|moment| *moment >= Moment::NEVER)
}

/// A moment, to the second.
pub(crate) fn written(moment: Moment) -> String {
    moment.timestamp().to_rfc3339_seconds()
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
        for (text, seconds) in [
            ("1.5h", 5400),
            ("1.1h", 3960),
            ("0.5d1.5m", 43_290),
            ("0.2s", 1),
            ("1.00000000000000000000h", 3600),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "0s",
            "0.0h",
            "5",
            "1.5",
            "d",
            ".5h",
            "1.h",
            "1..5h",
            "1.5.5h",
            "-1d",
            "1 d",
            "1dd",
            "99999999999999999999d",
            "10001y",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        for (text, why) in [
            ("999999y", "at most 10000y"),
            (&format!("{}9y", u64::MAX), "at most"),
            ("0d", "above 0"),
            ("y", "90d"),
        ] {
            let message = duration("--stale", text).unwrap_err().message();
            assert!(message.contains(text) && message.contains(why), "{message}");
        }
        assert!(duration("--stale", "10000y").is_ok());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T12:30", 951_827_400),
            ("2026-11-01 04:00:05", 1_793_505_605),
            ("2100-03-01", 4_107_542_400),
        ] {
            let moment = Moment::of_milliseconds(seconds * 1000);
            assert_eq!(date(text), Some(moment), "{text}");
            assert!(written(moment).starts_with(&text[..10]), "{text}");
        }
        for bad in ["", "2026", "2026-13-01", "2026-02-30", "2100-02-29", "2026-11-01T24:00", "yesterday"] {
            assert_eq!(date(bad), None, "{bad}");
        }
        let summer =
            ["2026-07-01T02:00+02:00", "2026-07-01T00:00:00Z", "2026-07-01T02:00:00.000+02:00"].map(date);
        assert_eq!(summer, [None, date("2026-07-01"), date("2026-07-01")]);
    }

    #[test]
    fn moments_have_years_of_four_digits() {
        for moment in [Timestamp::of_seconds(i64::MAX).to_rfc3339(), String::from(Moment::MAX)] {
            assert_eq!(moment, "9999-12-31T23:59:59.999999999Z");
        }
        assert_eq!(Timestamp::of_seconds(i64::MIN).to_rfc3339(), "0000-01-01T00:00:00.000000000Z");
        assert_eq!(written(Moment::from(Timestamp::of_seconds(253_402_300_799))), "9999-12-31T23:59:59Z");
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
