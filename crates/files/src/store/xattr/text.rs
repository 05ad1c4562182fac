//! Tags that are text: digests in hexadecimal, times in seconds.

use verisum_digest::{Algorithm, Output};

use super::compact::Defect;
use crate::{Record, RecordedTime, Timestamp};

/// How far off a time in text of fewer than nine digits may be at least, in nanoseconds: some writers
/// computed it in floating point, which knows a time of this century to a quarter of a microsecond.
const FLOATING: u64 = 1000;

/// The record of a plain tag.
pub fn plain(algorithm: &'static Algorithm, value: &[u8]) -> Result<Record, Defect> {
    let end = value.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0)).map_or(0, |last| last + 1);
    let digest = parse_hex(&value[..end], algorithm.digest_len()).ok_or(Defect::Damaged)?;
    Ok(untimed(algorithm, digest))
}

/// The record of a shatag sum and its time.
pub fn shatag(sum: &[u8], time: Option<&[u8]>) -> Result<Record, Defect> {
    let algorithm = Algorithm::find("sha256").expect("a row of the table");
    shatag_of(algorithm, sum, time)
}

/// The same with any digest. Bytes after the sum are ignored: an early writer added a NUL.
pub fn shatag_of(algorithm: &'static Algorithm, sum: &[u8], time: Option<&[u8]>) -> Result<Record, Defect> {
    let hex = sum.get(..2 * algorithm.digest_len()).ok_or(Defect::Damaged)?;
    let digest = parse_hex(hex, algorithm.digest_len()).ok_or(Defect::Damaged)?;
    let modified = time.map(|time| parse_time(time).ok_or(Defect::Damaged)).transpose()?;
    Ok(Record { modified, ..untimed(algorithm, digest) })
}

/// A record of nothing but the content.
pub fn untimed(algorithm: &'static Algorithm, digest: Output) -> Record {
    Record { algorithm, digest, size: None, modified: None, verified: None }
}

/// A time as cshatag writes it: the seconds of one before 1970 are those of a number without a sign.
pub fn time(time: Timestamp) -> String {
    format!("{:010}.{:09}", time.seconds.cast_unsigned(), time.nanoseconds)
}

/// Reads seconds with up to nine digits of a fraction; zero bytes and white space at the end are ignored.
/// Seconds before 1970 may have a sign, or be what `time` makes of them.
pub fn parse_time(text: &[u8]) -> Option<RecordedTime> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches(['\0', '\n', '\r', ' ']);
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = seconds.strip_prefix('-').unwrap_or(seconds);
    if digits.is_empty() || !is_digits(digits) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let unit = 10_u32.pow(9 - fraction.len() as u32);
    let nanoseconds = match fraction {
        "" => 0,
        digits => digits.parse::<u32>().ok()? * unit,
    };
    let seconds = seconds.parse().or_else(|_| seconds.parse().map(u64::cast_signed)).ok()?;
    let time = Timestamp { seconds, nanoseconds };
    // No floating point gives nine digits to a time of this century.
    let tolerance = if unit == 1 { 0 } else { u64::from(unit).max(FLOATING) };
    Some(RecordedTime { time, tolerance })
}

/// Reads hexadecimal of exactly `len` bytes.
pub fn parse_hex(text: &[u8], len: usize) -> Option<Output> {
    Output::from_hex(text).filter(|output| output.as_bytes().len() == len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_up_to_nine_digits() {
        let parsed = |text: &str| {
            parse_time(text.as_bytes()).map(|t| (t.time.seconds, t.time.nanoseconds, t.tolerance))
        };
        assert_eq!(parsed("1600000000.123456789"), Some((1_600_000_000, 123_456_789, 0)));
        assert_eq!(parsed("0000000007.000000001"), Some((7, 1, 0)));
        assert_eq!(parsed("1600000000.1234567"), Some((1_600_000_000, 123_456_700, 1000)));
        assert_eq!(parsed("1600000000.5"), Some((1_600_000_000, 500_000_000, 100_000_000)));
        assert_eq!(parsed("1600000000\0"), Some((1_600_000_000, 0, 1_000_000_000)));
        assert_eq!(parsed("1600000000."), Some((1_600_000_000, 0, 1_000_000_000)));
        assert_eq!(parsed("-1.25\n"), Some((-1, 250_000_000, 10_000_000)));
        for bad in ["", ".", "-", "x", "1.0000000000", "1.-5", "+1", "1 2", "99999999999999999999"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
        assert_eq!(time(Timestamp { seconds: 7, nanoseconds: 1 }), "0000000007.000000001");
        // By cshatag of a file with the time 1969-12-31 23:59:58.5: fmt.Sprintf("%010d.%09d", uint64(-2), 5e8).
        let before = "18446744073709551614.500000000";
        assert_eq!(time(Timestamp { seconds: -2, nanoseconds: 500_000_000 }), before);
        assert_eq!(parsed(before), Some((-2, 500_000_000, 0)));
        assert_eq!(parsed("-000000002.500000000"), Some((-2, 500_000_000, 0)));
        assert_eq!(parsed("18446744073709551616.0"), None);
    }

    #[test]
    fn sums_may_have_a_tail() {
        let hex = "ab".repeat(32);
        for tail in ["", "\0", "\n", "  file"] {
            assert!(shatag(format!("{hex}{tail}").as_bytes(), None).is_ok(), "{tail:?}");
        }
        assert_eq!(shatag(&hex.as_bytes()[1..], None), Err(Defect::Damaged));
        assert_eq!(shatag(hex.as_bytes(), Some(b"x")), Err(Defect::Damaged));
        let md5 = Algorithm::find("md5").unwrap();
        assert!(plain(md5, b"D41D8CD98F00B204E9800998ECF8427E\n").is_ok());
        assert_eq!(plain(md5, b"d41d8cd98f00b204e9800998ecf8427e  file"), Err(Defect::Damaged));
        assert_eq!(plain(md5, b""), Err(Defect::Damaged));
    }
}
