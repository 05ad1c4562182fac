//! The protocol of verisum and our scripts in Perl and Python, over their standard streams.
//!
//! Requests are fields ended by NUL: `test ALG`; `tree ALG PATH AFTER`, where ALG may be `-` to list only,
//! and paths up to AFTER are passed over; `names ALG`, then names with a `+` before each, and a `.`; of verisum
//! alone `blocks ALG SIZE PATH`.
//! Answers are records ended by NUL, of fields with tabs between: `verisum-remote 1` at first;
//! `t HEX HEX HEX` of a test; `f SIZE TIME HEX CHANGED PATH` and `e WORD TEXT PATH` in a tree, in the order
//! of the paths; `h NUMBER SIZE TIME HEX CHANGED` and `x NUMBER WORD TEXT` of names; `b HEX` of each block of
//! SIZE bytes, as far as the file can be read, with at most [`BLOCK_DIGEST`] bytes of its digest; `end` after
//! each.
//! In place of HEX there may be what certutil printed, with `|` between its lines.

use verisum_digest::Output;

use crate::{FileState, Reason, hexadecimal, reason, times};

/// What is said first.
pub const GREETING: &[u8] = b"verisum-remote 1";

/// The most bytes that are sent of the digest of a block.
pub const BLOCK_DIGEST: usize = 16;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A file of a tree.
    File { path: Vec<u8>, seen: FileState, digest: Option<Output>, changed: bool },
    /// Something in a tree that cannot be read or listed.
    Failed { path: Vec<u8>, reason: Reason },
    /// A file that was named.
    Hashed { number: u64, seen: FileState, digest: Option<Output>, changed: bool },
    /// A file that was named and cannot be read.
    Unread { number: u64, reason: Reason },
    /// A block, by the beginning of its digest.
    Block(Output),
    /// Nothing more comes.
    End,
}

impl Record {
    /// Reads one. The digest is none where the length is, and needed otherwise.
    pub(crate) fn parse(record: &[u8], length: Option<usize>) -> Option<Record> {
        let mut fields = record.splitn(6, |byte| *byte == b'\t');
        let mut next = || fields.next();
        match next()? {
            b"f" => {
                let (seen, digest, changed) = state(&mut next, length)?;
                Some(Record::File { path: next()?.to_vec(), seen, digest, changed })
            }
            b"h" => {
                let number = number(next()?)?;
                let (seen, digest, changed) = state(&mut next, length)?;
                Some(Record::Hashed { number, seen, digest, changed })
            }
            b"e" => {
                let mut fields = record.splitn(4, |byte| *byte == b'\t').skip(1);
                let reason = reason(fields.next()?, fields.next()?);
                Some(Record::Failed { reason, path: fields.next()?.to_vec() })
            }
            b"x" => {
                let number = number(next()?)?;
                Some(Record::Unread { number, reason: reason(next()?, next()?) })
            }
            b"b" => hexadecimal(next()?, length?.min(BLOCK_DIGEST)).map(Record::Block),
            b"end" => Some(Record::End),
            _ => None,
        }
    }
}

fn state<'a>(
    next: &mut impl FnMut() -> Option<&'a [u8]>,
    length: Option<usize>,
) -> Option<(FileState, Option<Output>, bool)> {
    let size = number(next()?)?;
    let (modified, identity) = times(std::str::from_utf8(next()?).ok()?)?;
    let digest = next()?;
    let digest = match length {
        Some(length) => Some(hexadecimal(digest, length).or_else(|| certutil(digest, length))?),
        None => None,
    };
    let changed = next()? == b"changed";
    Some((FileState { size: Some(size), modified: Some(modified), identity }, digest, changed))
}

/// The digest in what certutil printed, with `|` between its lines: the one line that is nothing else. Before
/// Windows 8 there are spaces between its bytes; the other lines are in the language of the system.
pub(crate) fn certutil(text: &[u8], length: usize) -> Option<Output> {
    if !text.contains(&b'|') {
        return None;
    }
    let line = |line: &[u8]| {
        let digits: Vec<u8> = line.iter().copied().filter(|byte| *byte != b' ').collect();
        hexadecimal(&digits, length)
    };
    let mut found = text.split(|byte| *byte == b'|').filter_map(line);
    let digest = found.next()?;
    found.next().is_none().then_some(digest)
}

pub(crate) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_certutil_prints_is_understood_in_its_old_and_new_form() {
        let bytes = [0xd4, 0x1d, 0x8c, 0xd9];
        for text in [
            "MD5 hash of file C:\\a b:|d4 1d 8c d9|CertUtil: -hashfile command completed successfully.",
            "MD5 hash of C:\\a b:|d41d8cd9|CertUtil: -hashfile command completed successfully.",
            "MD5-Hash von C:\\a:|D41D8CD9|CertUtil: -hashfile-Befehl wurde erfolgreich ausgef?hrt.",
            "|d41d8cd9|",
        ] {
            assert_eq!(certutil(text.as_bytes(), 4).unwrap().as_bytes(), bytes, "{text}");
        }
        for wrong in [
            "d41d8cd9",
            "MD5 hash of C:\\d41d8cd9:|no|done",
            "a|d41d8cd9|d41d8cd9|b",
            "a|d41d8cd|b",
            "a|d41d8cd900|b",
            "CertUtil: -hashfile command FAILED: 0x800703ee|CertUtil: The volume for a file has been altered",
        ] {
            assert_eq!(certutil(wrong.as_bytes(), 4), None, "{wrong}");
        }
        let record = b"h\t7\t3\t5\tMD5 hash of x:|d4 1d 8c d9|done\t-";
        assert!(matches!(Record::parse(record, Some(4)), Some(Record::Hashed { number: 7, .. })));
    }

    #[test]
    fn records_are_read_with_whatever_is_in_a_path() {
        let parse = |text: &[u8]| Record::parse(text, Some(1));
        let Some(Record::File { path, seen, digest, changed }) = parse(b"f\t3\t5.5\tfF\t-\t./a\tb\nc") else {
            panic!()
        };
        assert_eq!(
            (&path[..], seen.size, digest.unwrap().as_bytes(), changed),
            (&b"./a\tb\nc"[..], Some(3), &[255][..], false)
        );
        assert_eq!(
            parse(b"e\tdenied\tPermission denied\t./a\tb"),
            Some(Record::Failed { path: b"./a\tb".to_vec(), reason: Reason::Denied })
        );
        let of = |time: &str| match parse(format!("h\t7\t3\t{time}\tff\t-").as_bytes()) {
            Some(Record::Hashed { seen, .. }) => seen.identity.map(|one| (one.number, one.born.is_some())),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("5.5/12/4.25"), Some((12, true)));
        for (time, known) in
            [("5/12/", Some((12, false))), ("5/12/-", Some((12, false))), ("5/0", None), ("5", None)]
        {
            assert_eq!(of(time), known, "{time}");
        }
        assert!(matches!(
            parse(b"h\t7\t3\t5\tff\tchanged"),
            Some(Record::Hashed { number: 7, changed: true, .. })
        ));
        assert_eq!(
            parse(b"x\t7\tfailed\tno"),
            Some(Record::Unread { number: 7, reason: Reason::Failed("no".to_string()) })
        );
        assert!(matches!(parse(b"b\tff"), Some(Record::Block(value)) if value.as_bytes() == [255]));
        let of_digest =
            |hex: &str, length| Record::parse(format!("b\t{hex}").as_bytes(), Some(length)).is_some();
        assert!(of_digest(&"f".repeat(32), 64) && !of_digest(&"f".repeat(64), 32));
        assert_eq!(parse(b"end"), Some(Record::End));
        for bad in [&b""[..], b"f", b"f\t3\t5\tf\t-\ta", b"f\tx\t5\tff\t-\ta", b"h\t\t3\t5\tff\t-", b"z"] {
            assert_eq!(parse(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
