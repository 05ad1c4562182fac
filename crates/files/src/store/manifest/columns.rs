//! SFV (`NAME CRC`), RHash's `NAME  HEX  HEX`, md5deep's `SIZE  HEX  NAME`, and hashdeep's rows.

use std::borrow::Cow;

use verisum_digest::Output;

use super::coreutils::is_blank;
use super::digest_names;
use super::guess::DigestGuess;
use super::listed::{Bad, Claim, Listed};
use super::rhash::Comments;

/// `NAME CRC`, or a name and several numbers two blanks apart, as RHash prints them. Those of a list
/// by RHash may be one blank apart; what is as long as a number after it is then part of the name, and so is
/// what its comments have as one. One blank is between the name and its number, or as many as between the numbers:
/// more are the end of the name.
pub(super) fn sfv(line: &[u8], guess: &DigestGuess, comments: &Comments) -> Result<Listed, Bad> {
    let mut rest = trim_end(line);
    let mut claims: Vec<Claim> = Vec::new();
    // How many blanks are before the first number, and between it and the second.
    let (mut gap, mut between) = (0, 1);
    while let Some(blank) = rest.iter().rposition(|byte| is_blank(*byte)) {
        // One blank is part of a name as soon as there is a number.
        let one_blank = blank == 0 || !is_blank(rest[blank - 1]);
        let length = (rest.len() - blank - 1) / 2;
        let is_like_another = claims.iter().any(|claim| claim.digest.as_bytes().len() == length);
        if !claims.is_empty()
            && one_blank
            && (!comments.are_by_rhash || is_like_another || comments.name(rest))
        {
            break;
        }
        let claim = (|| {
            let digest = Output::from_hex(&rest[blank + 1..])?;
            let (algorithm, assumed) = guess.of(rest.len() - blank - 1)?;
            Some(Claim { algorithm, digest, assumed, parts: None })
        })();
        let Some(claim) = claim else { break };
        if !claims.is_empty() {
            between = gap;
        }
        claims.insert(0, claim);
        let before = trim_end(&rest[..blank]);
        gap = blank + 1 - before.len();
        rest = before;
    }
    if claims.is_empty() || rest.is_empty() || rest.contains(&0) {
        return Err(Bad::Malformed);
    }
    let name = &line[..rest.len() + gap.saturating_sub(between)];
    Ok(Listed { name: name.to_vec(), claims, ..Listed::default() })
}

fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|byte| is_blank(**byte)).count();
    &text[..text.len() - blanks]
}

/// The columns that the size has at least in a line of `md5deep -z`.
const SIZE_COLUMNS: usize = 10;

/// The fewest digits of a digest of md5deep and its likes.
const SHORTEST: usize = 32;

/// `SIZE  HEX  NAME`, as md5deep and its likes write with `-z`; none if the line is another.
pub(super) fn sized(line: &[u8], guess: &DigestGuess) -> Option<Listed> {
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let digits = line[blanks..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || blanks + digits != digits.max(SIZE_COLUMNS) {
        return None;
    }
    let size = decimal(&line[blanks..blanks + digits])?;
    let rest = line[blanks + digits..].strip_prefix(b"  ")?;
    let length = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (hex, rest) = rest.split_at(length);
    let name = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
    if length < SHORTEST || name.is_empty() || name.contains(&0) {
        return None;
    }
    let (algorithm, assumed) = guess.of(length)?;
    let claim = Claim { algorithm, digest: Output::from_hex(hex)?, assumed, parts: None };
    Some(Listed { name: name.to_vec(), claims: vec![claim], size: Some(size), ..Listed::default() })
}

/// The columns of a hashdeep file.
#[derive(Clone, Debug)]
pub(super) struct Hashdeep {
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
enum Column {
    Size,
    Digest(Cow<'static, str>),
    /// A digest that nobody here knows, by its name.
    Other(String),
}

/// The line that every hashdeep file begins with.
pub(super) const HASHDEEP: &[u8] = b"%%%% HASHDEEP-1.0";

impl Hashdeep {
    /// From the line `%%%% size,md5,sha256,filename`; none if it is not one.
    pub(super) fn from_header(line: &[u8]) -> Option<Hashdeep> {
        let text = std::str::from_utf8(line.strip_prefix(b"%%%%")?).ok()?;
        let mut names: Vec<&str> = text.trim().split(',').map(str::trim).collect();
        if names.pop()? != "filename" {
            return None;
        }
        let column = |name: &str| match (name, digest_names::from_tag(name)) {
            ("size", _) => Column::Size,
            (_, Some(id)) => Column::Digest(id),
            _ => Column::Other(name.into()),
        };
        Some(Hashdeep { columns: names.into_iter().map(column).collect() })
    }

    /// A row.
    pub(super) fn parse(&self, line: &[u8]) -> Result<Listed, Bad> {
        let mut listed = Listed::default();
        let mut rest = line;
        for column in &self.columns {
            let comma = rest.iter().position(|byte| *byte == b',').ok_or(Bad::Malformed)?;
            let value = &rest[..comma];
            rest = &rest[comma + 1..];
            match column {
                Column::Size => listed.size = Some(decimal(value).ok_or(Bad::Malformed)?),
                Column::Digest(id) => {
                    let digest = Output::from_hex(value).ok_or(Bad::Malformed)?;
                    if super::guess::digits(id) != Some(value.len()) {
                        return Err(Bad::Malformed);
                    }
                    listed.claims.push(Claim { algorithm: id.clone(), digest, assumed: false, parts: None });
                }
                Column::Other(_) => {}
            }
        }
        if rest.is_empty() || rest.contains(&0) {
            return Err(Bad::Malformed);
        }
        if listed.claims.is_empty() {
            let unknown = self.columns.iter().find_map(|column| match column {
                Column::Other(name) => Some(name.clone()),
                _ => None,
            });
            if let Some(name) = unknown {
                return Err(Bad::UnknownDigest(name));
            }
        }
        listed.name = rest.to_vec();
        Ok(listed)
    }
}

/// A number in decimal digits and nothing else.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    #[test]
    fn rhash_puts_one_blank_between_the_numbers_of_sfv() {
        let (crc, md5, sha1) = ("DEADBEEF", "0".repeat(32), "0".repeat(40));
        let mut comments = Comments::default();
        comments.look(b"; Generated by RHash v1.4.3 on 2026-11-22 at 08:50.29");
        comments.look(format!(";   2  08:50.29 2026-11-22 my {md5}").as_bytes());
        let parse = |line: &str| {
            let listed = sfv(line.as_bytes(), &DigestGuess::default(), &comments).unwrap();
            (String::from_utf8(listed.name).unwrap(), listed.claims.len())
        };
        assert_eq!(parse(&format!("plain {md5} {sha1}")), ("plain".to_string(), 2));
        assert_eq!(parse(&format!("a b {crc} {md5} {sha1}")), ("a b".to_string(), 3));
        assert_eq!(parse(&format!("a {crc} {crc}")), (format!("a {crc}"), 1));
        assert_eq!(parse(&format!("{crc} {crc}")), (crc.to_string(), 1));
        assert_eq!(parse(&format!("my {md5} {crc}")), (format!("my {md5}"), 1));
        assert_eq!(parse(&format!("my {md5} {crc} {sha1}")), (format!("my {md5}"), 2));
        let none = Comments::default();
        let other = sfv(format!("plain {md5} {sha1}").as_bytes(), &DigestGuess::default(), &none).unwrap();
        assert_eq!(other.name, format!("plain {md5}").into_bytes());
    }

    #[test]
    fn names_come_first_in_sfv() {
        let parse = |line: &str| sfv(line.as_bytes(), &DigestGuess::default(), &Comments::default());
        let crc = parse("a 12345678 352441C2").unwrap();
        assert_eq!(crc.name, b"a 12345678");
        assert_eq!(crc.claims[0].algorithm, "crc32");
        assert_eq!(crc.claims[0].digest.to_string(), "352441c2");
        let both = parse(&format!("a b  {MD5}  352441c2")).unwrap();
        assert_eq!(both.name, b"a b");
        assert_eq!(both.claims.len(), 2);
        assert_eq!(both.claims[0].algorithm, "md5");
        assert_eq!(parse("a  352441C2").unwrap().name, b"a ");
        assert_eq!(parse("a \t 352441C2 ").unwrap().name, b"a \t");
        assert_eq!(parse(&format!("a    {MD5}  352441c2")).unwrap().name, b"a  ");
        for line in ["", "a", "352441c2", " 352441c2", "a 352441c", "a g52441c2"] {
            assert_eq!(parse(line), Err(Bad::Malformed), "{line}");
        }
    }

    #[test]
    fn names_of_hashdeep_hold_commas() {
        let rows = Hashdeep::from_header(b"%%%% size,md5,tiger,filename").unwrap();
        let row = rows.parse(format!("3,{MD5},00,a,b").as_bytes()).unwrap();
        assert_eq!((row.name.as_slice(), row.size), (&b"a,b"[..], Some(3)));
        assert_eq!(row.claims.len(), 1);
        for line in ["", "3", "3,", "x,00,00,a", &format!("3,{MD5},00,"), &format!("3,{MD5}00,00,a")] {
            assert_eq!(rows.parse(line.as_bytes()), Err(Bad::Malformed), "{line}");
        }
        assert!(Hashdeep::from_header(b"%%%% HASHDEEP-1.0").is_none());
    }
}
