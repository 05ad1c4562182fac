//! Parses and prints sizes and other numbers as people write them.

use clap::Args;
use verisum::blockhash::MAX_THREADS;

use crate::ui::failure::Failure;

/// What is said of what is no size.
pub(crate) const SIZE: &str = "must be a size, as 65536, 64k, 64KiB or 64KB";

/// The suffixes, each 1024 times the one before.
const SUFFIXES: &str = "kmgt";

/// Reads a number of bytes: digits, then nothing, `B`, or one of `k`, `m`, `g`, `t` in either case: multiples of
/// 1024 alone or before `iB`, of 1000 before `B`.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(digits_end);
    // More digits than a u64 has, and none at all, are errors.
    let number: u64 = digits.parse().ok()?;
    let mut letters = suffix.chars();
    let Some(letter) = letters.next().filter(|_| suffix != "B") else { return Some(number) };
    let unit: u64 = match letters.as_str() {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return None,
    };
    let power = SUFFIXES.find(letter.to_ascii_lowercase())? + 1;
    number.checked_mul(unit.pow(power as u32))
}

/// Reads a number of bytes a second: as [`parse`], but never without a unit, and with `/s` after it or not.
pub(crate) fn rate(text: &str) -> Result<u64, Failure> {
    let amount = text.strip_suffix("/s").unwrap_or(text);
    let has_unit = amount.ends_with(|last: char| last.is_ascii_alphabetic());
    parse(amount).filter(|rate| has_unit && *rate > 0).ok_or_else(|| {
        Failure::value(
            "--limit",
            text,
            "must be a number of bytes a second and its unit, as 200MB/s or 64MiB/s",
        )
    })
}

/// Reads a block size: even, not zero, of 32 bits.
pub(crate) fn block_size(text: &str) -> Result<u32, Failure> {
    let wrong = |must| Failure::value("--block-size", text, must);
    let bytes = u32::try_from(parse(text).ok_or_else(|| wrong(SIZE))?).ok();
    bytes
        .filter(|bytes| *bytes > 0 && bytes % 2 == 0)
        .ok_or_else(|| wrong("must be an even number of bytes, more than 0 and less than 4G"))
}

/// On how many threads a verb works.
#[derive(Args, Clone, Debug)]
pub(crate) struct ThreadArgs {
    /// Number of threads, 1 to 128; without it, one for each core that this process may use
    #[arg(short = 'j', short_alias = 't', long, value_name = "N")]
    threads: Option<String>,
}

impl ThreadArgs {
    /// What `--threads` says of a verb that also reads buckets.
    pub(crate) const WITH_BUCKETS: &str = "Number of threads, 1 to 128; without it, one for each core that this process \
        may use. In buckets: requests at a time, 16 without it";

    /// The number, if it was given.
    pub(crate) fn number(&self) -> Result<Option<usize>, Failure> {
        self.threads.as_deref().map(threads).transpose()
    }

    /// The number, or that of the cores.
    pub(crate) fn or_cores(&self) -> Result<usize, Failure> {
        Ok(self.number()?.unwrap_or_else(usable_cores))
    }
}

/// The number of cores that this process may use, by its affinity and its control group.
pub(crate) fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_THREADS))
}

/// Reads a number of workers.
pub(crate) fn threads(text: &str) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|number| (1..=MAX_THREADS).contains(number));
    number.ok_or_else(|| Failure::value("--threads", text, format!("must be 1 to {MAX_THREADS}")))
}

/// Writes a number of bytes in the largest unit that leaves at least one, with three digits.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = if bytes == 1 { "byte" } else { "bytes" };
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    let decimals = match value {
        v if v == v as u64 as f64 => 0,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse("65536"), Some(65536));
        assert_eq!(parse("64k"), Some(65536));
        assert_eq!(parse("64K"), Some(65536));
        assert_eq!(parse("64KiB"), Some(65536));
        assert_eq!(parse("1m"), Some(1 << 20));
        assert_eq!(parse("3G"), Some(3 << 30));
        assert_eq!(parse("1T"), Some(1 << 40));
        assert_eq!(["64KB", "64kB", "3MB", "7B"].map(parse), [64_000, 64_000, 3_000_000, 7].map(Some));
        for bad in ["", "k", "B", "-1", "+1", " 1", "1 k", "1kb", "1BB", "1.5k", "0x10", "1kk", "1é", "1iB"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(parse("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse("18446744073709551616"), None);
        assert_eq!(parse("18014398509481984k"), None);
    }

    #[test]
    fn rates_are_decimal_or_binary() {
        let rates = ["200MB/s", "64MiB/s", "64M", "1000B/s", "1kB"].map(|text| rate(text).unwrap());
        assert_eq!(rates, [200_000_000, 64 << 20, 64 << 20, 1000, 1000]);
        for bad in
            ["", "0", "1000", "10/s", "0B", "B", "+1B", "/s", "MB/s", "1MB/m", "-1", "1é", "99999999999TB"]
        {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_written_for_people() {
        assert_eq!(human(0), "0 bytes");
        assert_eq!(human(1023), "1023 bytes");
        assert_eq!(human(65536), "64 KiB");
        assert_eq!(human(1_500_000), "1.43 MiB");
        assert_eq!(human(768 << 20), "768 MiB");
        assert_eq!(human(u64::MAX), "16384 PiB");
    }
}
