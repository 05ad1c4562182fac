//! Tags of other tools: verisum adopts them and never writes them.

use std::fs::File;

use rustix::io::Errno;
use verisum_digest::{Algorithm, Output};

use super::compact::Defect;
use super::{attribute, text};
use crate::{Record, RecordedTime, Stat, Timestamp};

/// Who wrote a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// `user.checksum.DIGEST`.
    Plain,
    /// `user.shatag.DIGEST`, of shatag, cshatag and their forks.
    Shatag,
    /// `user.hash`: a raw SHA-256 and a time.
    Hash,
    /// `user.hashrat:TYPE`.
    Hashrat,
    /// `user.crc64` of checkit.
    Checkit,
    /// `user.XrdCks.TYPE` of XRootD.
    Xrootd,
}

impl Origin {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Plain => "plain",
            Origin::Shatag => "shatag",
            Origin::Hash => "user.hash",
            Origin::Hashrat => "hashrat",
            Origin::Checkit => "checkit",
            Origin::Xrootd => "xrootd",
        }
    }
}

/// A tag of another tool.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Who wrote it.
    pub origin: Origin,
    /// What it says.
    pub record: Result<Record, Defect>,
}

/// All tags of other tools that a file has and whose digest is known here. What they say of the file's
/// time is put into the terms of a [`Record`] by what `stat` says now.
pub fn foreign(file: &File, stat: &Stat) -> Result<Vec<Foreign>, Errno> {
    let mut found = Vec::new();
    let names = attribute::list(file)?;
    if names.is_empty() {
        return Ok(found);
    }
    let shatag_time = attribute::get(file, super::SHATAG_TIME)?;
    for name in &names {
        let Ok(text) = name.to_str() else { continue };
        if kind(text).is_none() {
            continue;
        }
        if let Some(value) = attribute::get(file, name)? {
            found.extend(parse(text, &value, shatag_time.as_deref(), stat));
        }
    }
    Ok(found)
}

/// Reads one attribute; `shatag_time` is the value of `user.shatag.ts`. `None` if it is no tag of another
/// tool, or of a digest that is not known here.
pub fn parse(name: &str, value: &[u8], shatag_time: Option<&[u8]>, stat: &Stat) -> Option<Foreign> {
    let (origin, algorithm) = kind(name)?;
    let record = match origin {
        Origin::Plain => text::plain(algorithm, value),
        Origin::Shatag => text::shatag_of(algorithm, value, shatag_time),
        Origin::Hash => hash(algorithm, value),
        Origin::Hashrat => hashrat(algorithm, value, stat).ok_or(Defect::Damaged),
        Origin::Checkit => checkit(algorithm, value).ok_or(Defect::Damaged),
        Origin::Xrootd => xrootd(algorithm, &name[XROOTD.len()..], value, stat).ok_or(Defect::Damaged),
    };
    Some(Foreign { origin, record })
}

const XROOTD: &str = "user.XrdCks.";

/// What the name of an attribute tells.
fn kind(name: &str) -> Option<(Origin, &'static Algorithm)> {
    let of = |name: &str| Algorithm::find(name).filter(|algorithm| algorithm.bits > 0);
    if let Some(digest) = name.strip_prefix(super::PLAIN) {
        return Some((Origin::Plain, of(digest)?));
    }
    if let Some(digest) = name.strip_prefix("user.shatag.") {
        return Some((Origin::Shatag, of(digest)?));
    }
    if let Some(digest) = name.strip_prefix("user.hashrat:") {
        return Some((Origin::Hashrat, of(digest)?));
    }
    if let Some(digest) = name.strip_prefix(XROOTD) {
        // Its `crc32` is that of POSIX's cksum; `zcrc32` is the one that is meant elsewhere.
        return match digest {
            "crc32" => None,
            "zcrc32" => Some((Origin::Xrootd, of("crc32")?)),
            digest => Some((Origin::Xrootd, of(digest)?)),
        };
    }
    match name {
        "user.hash" => Some((Origin::Hash, of("sha256")?)),
        "user.crc64" => Some((Origin::Checkit, of("crc64-jones")?)),
        _ => None,
    }
}

/// 32 raw bytes and a time in text.
fn hash(algorithm: &'static Algorithm, value: &[u8]) -> Result<Record, Defect> {
    let (raw, time) = value.split_at_checked(algorithm.digest_len()).ok_or(Defect::Damaged)?;
    let modified = match time {
        [] => None,
        time => Some(text::parse_time(time).ok_or(Defect::Damaged)?),
    };
    Ok(Record { modified, ..text::untimed(algorithm, output(raw)) })
}

/// `unixtime:size:hash` and a NUL. The time is that of hashing.
fn hashrat(algorithm: &'static Algorithm, value: &[u8], stat: &Stat) -> Option<Record> {
    let text = std::str::from_utf8(value).ok()?.trim_end_matches(['\0', '\n']);
    let mut fields = text.splitn(3, ':');
    let hashed: i64 = fields.next()?.parse().ok()?;
    let size = fields.next()?.parse().ok()?;
    let digest = text::parse_hex(fields.next()?.as_bytes(), algorithm.digest_len())?;
    // A file that was not written to since then has the time of modification that it had. One that was,
    // also within that second, had an earlier one, which is not known.
    let modified = match stat.modified.seconds < hashed {
        true => RecordedTime::exact(stat.modified),
        false => RecordedTime::exact(Timestamp::of_seconds(hashed.saturating_sub(1))),
    };
    Some(Record { size: Some(size), modified: Some(modified), ..text::untimed(algorithm, digest) })
}

/// Eight bytes of a number in the order of the machine.
fn checkit(algorithm: &'static Algorithm, value: &[u8]) -> Option<Record> {
    let number = u64::from_ne_bytes(value.try_into().ok()?);
    Some(text::untimed(algorithm, output(&number.to_be_bytes())))
}

/// 96 bytes: the name, the time of modification in seconds, how much later it was computed, its length,
/// the value.
fn xrootd(algorithm: &'static Algorithm, name: &str, value: &[u8], stat: &Stat) -> Option<Record> {
    if value.len() != 96 {
        return None;
    }
    let stored = value[..16].split(|&byte| byte == 0).next()?;
    let len = usize::from(value[31]);
    if stored != name.as_bytes() || len != algorithm.digest_len() || 32 + len > value.len() {
        return None;
    }
    let seconds = i64::from_be_bytes(value[16..24].try_into().ok()?);
    let modified = match seconds == stat.modified.seconds {
        true => RecordedTime::exact(stat.modified),
        false => RecordedTime::exact(Timestamp::of_seconds(seconds)),
    };
    let digest = output(&value[32..32 + len]);
    Some(Record { modified: Some(modified), ..text::untimed(algorithm, digest) })
}

fn output(bytes: &[u8]) -> Output {
    let mut output = Output::zeroed(bytes.len());
    output.as_mut_bytes().copy_from_slice(bytes);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Standing};
    use proptest::prelude::*;

    const TIME: Timestamp = Timestamp { seconds: 1_600_000_000, nanoseconds: 123_456_789 };
    const STAT: Stat = Stat {
        kind: Kind::File,
        device: 1,
        inode: 1,
        links: 1,
        size: 3,
        stored: 0,
        modified: TIME,
        changed: TIME,
    };

    fn record(name: &str, value: &[u8]) -> Result<Record, Defect> {
        parse(name, value, Some(b"1600000000.123456789"), &STAT).unwrap().record
    }

    #[test]
    fn each_tool_is_understood() {
        let md5 = "ab".repeat(16);
        let raw = [&[7; 32][..], b"1600000000.123456789"].concat();
        let mut xrootd = [0; 96];
        xrootd[..7].copy_from_slice(b"adler32");
        xrootd[16..24].copy_from_slice(&1_600_000_000_i64.to_be_bytes());
        xrootd[31] = 4;
        xrootd[32..36].copy_from_slice(&[1, 2, 3, 4]);
        let table: [(&str, &[u8], Standing); 7] = [
            ("user.checksum.md5", md5.as_bytes(), Standing::Unknown),
            ("user.shatag.md5", md5.as_bytes(), Standing::Current),
            ("user.hash", &raw, Standing::Current),
            ("user.hashrat:md5", &format!("1600000001:3:{md5}\0").into_bytes(), Standing::Current),
            ("user.hashrat:md5", &format!("1600000000:3:{md5}\0").into_bytes(), Standing::Outdated),
            ("user.crc64", &0x0102_0304_0506_0708_u64.to_ne_bytes(), Standing::Unknown),
            ("user.XrdCks.adler32", &xrootd, Standing::Current),
        ];
        for (name, value, standing) in table {
            let record = record(name, value).unwrap_or_else(|defect| panic!("{name}: {defect}"));
            assert_eq!(record.standing(&STAT), standing, "{name}");
            assert_eq!(record.verified, None);
        }
        // Written to in the second in which it was hashed, maybe after it: nobody's proof of rot.
        let stat = Stat { modified: Timestamp { nanoseconds: 0, ..TIME }, ..STAT };
        let same_second = parse(table[4].0, table[4].1, None, &stat).unwrap().record.unwrap();
        assert_eq!(same_second.standing(&stat), Standing::Outdated);
        assert_eq!(record("user.crc64", table[5].1).unwrap().digest.to_string(), "0102030405060708");
        assert_eq!(record("user.XrdCks.adler32", &xrootd).unwrap().digest.to_string(), "01020304");
        xrootd[31] = 5;
        assert_eq!(record("user.XrdCks.adler32", &xrootd), Err(Defect::Damaged));
        assert_eq!(record("user.hashrat:md5", format!("x:3:{md5}").as_bytes()), Err(Defect::Damaged));
        // Of digests that are not known here, and of no digest at all.
        for name in
            ["user.XrdCks.crc32", "user.shatag.ts", "user.checksum.", "user.checksum.null", "user.verisum"]
        {
            assert!(parse(name, b"", None, &STAT).is_none(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(value in prop::collection::vec(any::<u8>(), 0..120), text in "[0-9.:a-f]{0,80}") {
            for name in [
                "user.checksum.crc32", "user.shatag.md5", "user.hash", "user.hashrat:crc32", "user.crc64",
                "user.XrdCks.adler32",
            ] {
                for value in [&value[..], text.as_bytes()] {
                    let _ = parse(name, value, Some(value), &STAT);
                }
            }
        }
    }
}
