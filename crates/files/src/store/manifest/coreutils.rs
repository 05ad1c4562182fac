//! Lines of `HEX  NAME` and `TAG (NAME) = HEX`, as the programs of the coreutils take them, and the
//! dialects of OpenSSL, xxhsum and b3sum.

use std::borrow::Cow;

use verisum_digest::Output;

use super::columns;
use super::digest_names;
use super::escape;
use super::guess::{self, DigestGuess};
use super::listed::{Bad, BlockHash, Claim, Listed};

/// What a line may be.
#[derive(Clone, Debug)]
pub(super) enum Accept {
    /// Any digest; bare numbers by guess.
    Any(DigestGuess),
    /// What `md5sum -c` and its likes take: one digest by the one tag, or bare.
    Only {
        /// The digest's id.
        id: Cow<'static, str>,
        /// The tag before `(NAME)`.
        tag: Cow<'static, str>,
        /// Hexadecimal digits of a bare number.
        digits: usize,
    },
    /// What `xxhsum -c` takes: its digests, told by their length where there is no tag.
    Xxhsum {
        /// Whether bare numbers begin with their lowest byte.
        little_endian: bool,
    },
    /// What `cksum -c` takes without `-a`: any digest, with its tag.
    Tagged,
}

/// Takes lines apart. It remembers whether bare numbers stand before one blank or before two characters:
/// the coreutils let a list have one of them only, so that nobody renames a file by a blank.
#[derive(Clone, Debug)]
pub(super) struct CoreutilsLines {
    accept: Accept,
    one_blank: Option<bool>,
    /// The last tag that was known; cksum begins with that of its CRC.
    last_tag: Cow<'static, str>,
    /// Names are as they are, even after a backslash.
    raw: bool,
    /// Whether tags of block hashes are known; among [`Accept::Any`] only.
    block_hashes: BlockHashes,
}

/// What is known of block hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlockHashes {
    /// Nothing: they have a digest that nobody here knows.
    #[default]
    Unknown,
    /// Their tags.
    Tagged,
    /// Their tags, and that bare numbers are block hashes that are made so.
    Bare(BlockHash),
}

impl CoreutilsLines {
    pub(super) fn new(accept: Accept, raw: bool) -> CoreutilsLines {
        CoreutilsLines {
            accept,
            one_blank: None,
            last_tag: "CRC".into(),
            raw,
            block_hashes: BlockHashes::Unknown,
        }
    }

    /// The same, which may also be of block hashes.
    pub(super) fn with_block_hashes(self, block_hashes: BlockHashes) -> CoreutilsLines {
        CoreutilsLines { block_hashes, ..self }
    }

    /// The line without its end.
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Listed, Bad> {
        if let Accept::Any(guess) = &self.accept {
            if let Some(listed) = columns::sized(line, guess) {
                return Ok(listed);
            }
            if is_sum(line) {
                return Err(Bad::UnknownDigest(SUM.into()));
            }
        }
        match (self.take_apart(line), &self.accept) {
            (Err(_), Accept::Tagged) => Err(Bad::Untagged(self.last_tag.clone())),
            (result, _) => result,
        }
    }

    fn take_apart(&mut self, line: &[u8]) -> Result<Listed, Bad> {
        let blanks = line.iter().take_while(|byte| is_blank(**byte)).count();
        let mut rest = &line[blanks..];
        let escaped = !self.raw && rest.first() == Some(&b'\\');
        if escaped {
            rest = &rest[1..];
        }
        match self.tagged(rest, escaped) {
            // It may be a bare number before a name with a bracket.
            Some(Err(unknown @ Bad::UnknownDigest(_))) => self.bare(rest, escaped).map_err(|_| unknown),
            Some(result) => result,
            None if matches!(self.accept, Accept::Tagged) => Err(Bad::Malformed),
            None => self.bare(rest, escaped),
        }
    }

    /// `TAG (NAME) = HEX`; none if it does not begin so.
    fn tagged(&mut self, line: &[u8], escaped: bool) -> Option<Result<Listed, Bad>> {
        let mut block_hash = None;
        let (id, reversed, rest) = match &self.accept {
            Accept::Only { id, tag, .. } => {
                let rest = line.strip_prefix(tag.as_bytes())?;
                // Whatever follows, the line is none of bare numbers.
                match after_only_tag(id.clone(), rest) {
                    Some((id, rest)) => (id, false, rest),
                    None => return Some(Err(Bad::Malformed)),
                }
            }
            Accept::Any(_) | Accept::Tagged | Accept::Xxhsum { .. } => {
                let open = line.iter().position(|byte| *byte == b'(')?;
                // RHash puts several blanks there.
                let tag = line[..open].trim_ascii_end();
                let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-/_:.".contains(byte);
                if tag.is_empty() || !tag.iter().all(allowed) {
                    return None;
                }
                let tag = std::str::from_utf8(tag).ok()?;
                let (plain, reversed) = match tag.strip_suffix("_LE") {
                    Some(plain) => (plain, true),
                    None => (tag, false),
                };
                let made = match self.block_hashes {
                    BlockHashes::Unknown => None,
                    BlockHashes::Tagged | BlockHashes::Bare(_) => digest_names::from_block_hash_tag(tag),
                };
                let (id, how) = made.map(|(id, how)| (Some(id), Some(how))).unwrap_or_default();
                block_hash = how;
                let Some(id) = id.or_else(|| digest_names::from_tag(plain)) else {
                    return Some(Err(Bad::UnknownDigest(tag.into())));
                };
                if matches!(self.accept, Accept::Xxhsum { .. }) && !id.starts_with("xxh") {
                    return Some(Err(Bad::Malformed));
                }
                if matches!(self.accept, Accept::Tagged) {
                    self.last_tag = digest_names::tag(&id);
                }
                (id, reversed, &line[open + 1..])
            }
        };
        let Some((name, value)) = self.after_tag(rest, escaped) else { return Some(Err(Bad::Malformed)) };
        let Some((mut digest, parts)) = digest_names::value(&id, value) else {
            return Some(Err(digest_names::no_value(&id)));
        };
        if reversed {
            digest.as_mut_bytes().reverse();
        }
        let claim = Claim { algorithm: id, digest, assumed: false, parts };
        Some(Ok(Listed { block_hash, ..listed(name, claim) }))
    }

    /// The name and the digest that follow a tag.
    fn after_tag<'l>(&self, rest: &'l [u8], escaped: bool) -> Option<(Vec<u8>, &'l [u8])> {
        let close = rest.iter().rposition(|byte| *byte == b')')?;
        let name = self.name(&rest[..close], escaped)?;
        let value = skip_blanks(&rest[close + 1..]).strip_prefix(b"=")?;
        Some((name, self.text(skip_blanks(value))))
    }

    /// `HEX  NAME`, `HEX *NAME`, or, from start to end of a list, `HEX NAME`.
    fn bare(&mut self, line: &[u8], escaped: bool) -> Result<Listed, Bad> {
        let (line, xxh3) = match (&self.accept, line.strip_prefix(b"XXH3_")) {
            (Accept::Any(_) | Accept::Xxhsum { .. }, Some(rest)) => (rest, true),
            _ => (line, false),
        };
        let end = line.iter().position(|byte| is_blank(*byte)).ok_or(Bad::Malformed)?;
        let (word, rest) = line.split_at(end);
        if let Accept::Any(guess) = &self.accept
            && !word.iter().all(u8::is_ascii_hexdigit)
        {
            let Some(claim) = guess.of_word(word) else {
                // Text may have such a word, but not before two blanks.
                let is_line = rest.starts_with(b"  ") || rest.starts_with(b" *");
                return Err(match is_line && digest_names::is_of_parts(word) {
                    true => Bad::UnknownDigest(digest_names::OF_PARTS.to_string()),
                    false => Bad::Malformed,
                });
            };
            return self.after_word(rest, escaped, claim);
        }
        let length = word.len();
        let mut digest = Output::from_hex(word).ok_or(Bad::Malformed)?;
        let (algorithm, assumed) = match &self.accept {
            Accept::Only { id, .. } if id == BLAKE2B => {
                (guess::blake2b(length).ok_or(Bad::Malformed)?, false)
            }
            Accept::Only { id, digits, .. } if *digits == length => (id.clone(), false),
            Accept::Any(_) | Accept::Xxhsum { .. } if xxh3 && length == 16 => ("xxh3-64".into(), false),
            Accept::Xxhsum { .. } if !xxh3 => match length {
                8 => ("xxh32".into(), false),
                16 => ("xxh64".into(), false),
                32 => ("xxh3-128".into(), false),
                _ => return Err(Bad::Malformed),
            },
            Accept::Any(guess) if !xxh3 => guess.before_name(length).ok_or(Bad::Malformed)?,
            _ => return Err(Bad::Malformed),
        };
        if matches!(self.accept, Accept::Xxhsum { little_endian: true }) {
            digest.as_mut_bytes().reverse();
        }
        self.after_word(rest, escaped, Claim { algorithm, digest, assumed, parts: None })
    }

    /// A blank and the name that follow a digest.
    fn after_word(&mut self, rest: &[u8], escaped: bool, claim: Claim) -> Result<Listed, Bad> {
        let [_, rest @ ..] = rest else { return Err(Bad::Malformed) };
        if rest.is_empty() {
            return Err(Bad::Malformed);
        }
        let one_blank = rest.len() == 1 || !matches!(rest[0], b' ' | b'*');
        let name = match (one_blank, self.one_blank) {
            (true, Some(false)) => return Err(Bad::Malformed),
            (true, _) => {
                self.one_blank = Some(true);
                rest
            }
            (false, Some(true)) => rest,
            (false, _) => {
                self.one_blank = Some(false);
                &rest[1..]
            }
        };
        let name = self.name(name, escaped).ok_or(Bad::Malformed)?;
        let block_hash = match &self.block_hashes {
            BlockHashes::Bare(how) => Some(how.clone()),
            BlockHashes::Unknown | BlockHashes::Tagged => None,
        };
        Ok(Listed { block_hash, ..listed(name, claim) })
    }

    fn name(&self, name: &[u8], escaped: bool) -> Option<Vec<u8>> {
        match escaped {
            true => escape::without_backslashes(name),
            false => Some(self.text(name)).filter(|name| !name.contains(&0)).map(<[u8]>::to_vec),
        }
    }

    /// To the programs of the coreutils a text ends at the first NUL.
    fn text<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self.accept {
            Accept::Any(_) => bytes,
            _ => bytes.split(|byte| *byte == 0).next().unwrap_or_default(),
        }
    }
}

/// What follows the one tag that a program takes, and its bracket. That of BLAKE2b may have a length.
fn after_only_tag<'a>(id: Cow<'static, str>, rest: &'a [u8]) -> Option<(Cow<'static, str>, &'a [u8])> {
    let (id, rest) = match rest.strip_prefix(b"-") {
        Some(bits) if id == BLAKE2B => {
            let digits = bits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let length: usize = std::str::from_utf8(&bits[..digits]).ok()?.parse().ok()?;
            let id = guess::blake2b(length / 4).filter(|_| length.is_multiple_of(8))?;
            (id, &bits[digits..])
        }
        _ => (id, rest),
    };
    Some((id, rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"(")?))
}

/// The digest whose lists may have digests of any length.
const BLAKE2B: &str = "blake2b512";

fn listed(name: Vec<u8>, claim: Claim) -> Listed {
    Listed { name, claims: vec![claim], ..Listed::default() }
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// What the lines of cksum and sum without a digest's name have, in messages.
pub(super) const SUM: &str = "the CRC of cksum, or the checksum of sum";

/// Whether a line is one of cksum or sum: `NUMBER SIZE NAME` in decimal digits.
fn is_sum(line: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = digits(line);
    let rest = skip_blanks(&line[value..]);
    let size = digits(rest);
    // The longest is a number of 32 bits; one of 8 digits before two blanks is rather a CRC-32.
    let is_crc32 = value == 8 && line[value..].starts_with(b"  ");
    let is_number = (1..=10).contains(&value) && line.get(value) == Some(&b' ') && !is_crc32;
    is_number && size > 0 && rest.get(size) == Some(&b' ') && rest.len() > size + 1
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_blank(**byte)).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    fn parse(line: &str) -> Result<(String, String), Bad> {
        let listed =
            CoreutilsLines::new(Accept::Any(DigestGuess::default()), false).parse(line.as_bytes())?;
        let name = listed.name.escape_ascii().to_string();
        Ok((listed.claims[0].algorithm.to_string(), name))
    }

    fn is(line: &str, algorithm: &str, name: &str) {
        assert_eq!(parse(line), Ok((algorithm.to_string(), name.to_string())), "{line}");
    }

    #[test]
    fn bare_numbers() {
        is(&format!("{MD5}  a b "), "md5", "a b ");
        is(&format!("{MD5} *a"), "md5", "a");
        is(&format!("{MD5} a"), "md5", "a");
        is(&format!("{MD5}   a"), "md5", " a");
        is(&format!(" \t{MD5}\t a"), "md5", "a");
        is(&format!("\\{MD5}  a\\nb\\\\"), "md5", "a\\nb\\\\");
        is(&format!("{}  a", MD5.to_uppercase()), "md5", "a");
        is(&format!("{MD5}  a\\nb"), "md5", "a\\\\nb");
        is("XXH3_7045c205f5ef6a66  f", "xxh3-64", "f");
        is("7045c205f5ef6a66  f", "xxh64", "f");
        for line in [
            "",
            MD5,
            &format!("{MD5} "),
            &format!("{MD5}0  a"),
            &format!("{MD5}00  a"),
            &format!("{MD5}a"),
            &format!("g{MD5}  a"),
            &format!("\\{MD5}  a\\t"),
            &format!("\\{MD5}  a\\"),
            &format!("XXH3_{MD5}  a"),
        ] {
            assert_eq!(parse(line), Err(Bad::Malformed), "{line}");
        }
    }

    #[test]
    fn a_list_has_one_kind_of_blanks() {
        let mut lines = CoreutilsLines::new(Accept::Any(DigestGuess::default()), false);
        assert_eq!(lines.parse(format!("{MD5}  a").as_bytes()).unwrap().name, b"a");
        assert_eq!(lines.parse(format!("{MD5} a").as_bytes()), Err(Bad::Malformed));
        let mut lines = CoreutilsLines::new(Accept::Any(DigestGuess::default()), false);
        assert_eq!(lines.parse(format!("{MD5} a").as_bytes()).unwrap().name, b"a");
        assert_eq!(lines.parse(format!("{MD5}  a").as_bytes()).unwrap().name, b" a");
    }

    #[test]
    fn tagged_lines() {
        is(&format!("MD5 (a (b) = c) = {MD5}"), "md5", "a (b) = c");
        is(&format!("MD5(a)= {MD5}"), "md5", "a");
        is(&format!("md5 (a) ={MD5}"), "md5", "a");
        is(&format!("MD5   (a) = {MD5}"), "md5", "a");
        is(&format!("{MD5}  (a) = {MD5}"), "md5", &format!("(a) = {MD5}"));
        is(&format!("\\MD5 (a\\nb) = {MD5}"), "md5", "a\\nb");
        is("XXH3 (f) = 7045c205f5ef6a66", "xxh3-64", "f");
        is(&format!("BLAKE2s (f) = {}", "0".repeat(64)), "blake2s256", "f");
        is(&format!("SHA2-512/256(f)= {}", "0".repeat(64)), "sha512-256", "f");
        assert_eq!(parse(&format!("GOST (f) = {MD5}")), Err(Bad::UnknownDigest("GOST".into())));
        for line in [&format!("MD5 (a = {MD5}"), &format!("MD5 (a) {MD5}")] {
            assert_eq!(parse(line), Err(Bad::Malformed), "{line}");
        }
        for (line, wrong) in [
            (format!("MD5 (a) = {MD5}00"), "MD5 is not 32"),
            ("MD5 (a) = ".to_string(), "MD5 is not 32"),
            (format!("MD5 (a) = {}xy", &MD5[2..]), "MD5 is not 32"),
            (format!("sha2-256 (a) = {MD5}"), "SHA256 is not 64"),
        ] {
            let said = format!("improperly formatted: its {wrong} hexadecimal digits");
            assert_eq!(parse(&line).unwrap_err().to_string(), said, "{line}");
        }
    }

    #[test]
    fn blake2b_has_digests_of_any_length() {
        let hex = "00".repeat(32);
        is(&format!("BLAKE2b-256 (f) = {hex}"), "blake2b-256", "f");
        assert!(matches!(parse(&format!("BLAKE2b-512 (f) = {hex}")), Err(Bad::NoValue { digits: 128, .. })));
        assert_eq!(parse(&format!("BLAKE2b-257 (f) = {hex}")), Err(Bad::UnknownDigest("BLAKE2b-257".into())));
        let accept = Accept::Only { id: BLAKE2B.into(), tag: "BLAKE2b".into(), digits: 128 };
        let mut lines = CoreutilsLines::new(accept, false);
        let mut id =
            |line: &str| lines.parse(line.as_bytes()).map(|listed| listed.claims[0].algorithm.clone());
        assert_eq!(id(&format!("BLAKE2b-256 (f) = {hex}")).unwrap(), "blake2b-256");
        assert_eq!(id(&format!("BLAKE2b (f) = {hex}{hex}")).unwrap(), BLAKE2B);
        assert_eq!(id(&format!("{hex}  f")).unwrap(), "blake2b-256");
        assert_eq!(id("00  f").unwrap(), "blake2b-8");
        for line in ["000  f", "BLAKE2b-0 (f) = ", "BLAKE2b-12 (f) = 000", "BLAKE2b-520 (f) = 00"] {
            assert_eq!(id(line), Err(Bad::Malformed), "{line}");
        }
    }

    #[test]
    fn sums_of_cksum_and_sum_are_told_from_other_lines() {
        for line in ["1219131554 3 f", "36 1 f", "00036     1 f", "12345678 100 f", "36 1   f g"] {
            assert_eq!(parse(line), Err(Bad::UnknownDigest(SUM.into())), "{line}");
        }
        is("12345678  100 f", "crc32", "100 f");
        is("12345678 f", "crc32", "f");
        is(&format!("{MD5} 100 f"), "md5", "100 f");
    }

    #[test]
    fn little_endian_numbers_are_turned_round() {
        let mut lines = CoreutilsLines::new(Accept::Any(DigestGuess::default()), false);
        let listed = lines.parse(b"XXH32_LE (f) = 01020304").unwrap();
        assert_eq!(listed.claims[0].digest.to_string(), "04030201");
    }

    #[test]
    fn xxhsum_tells_its_digests_by_their_length() {
        let id = |line: &str, little_endian| {
            let mut lines = CoreutilsLines::new(Accept::Xxhsum { little_endian }, false);
            let listed = lines.parse(line.as_bytes())?;
            Ok(format!("{} {}", listed.claims[0].algorithm, listed.claims[0].digest))
        };
        assert_eq!(id("01020304  f", false).unwrap(), "xxh32 01020304");
        assert_eq!(id("01020304  f", true).unwrap(), "xxh32 04030201");
        assert_eq!(id("0102030405060708  f", false).unwrap(), "xxh64 0102030405060708");
        assert_eq!(id("XXH3_0102030405060708  f", false).unwrap(), "xxh3-64 0102030405060708");
        assert_eq!(id(&format!("{MD5}  f"), false).unwrap(), format!("xxh3-128 {MD5}"));
        assert_eq!(id("XXH32_LE (f) = 01020304", false).unwrap(), "xxh32 04030201");
        assert_eq!(id("XXH32 (f) = 01020304", true).unwrap(), "xxh32 01020304");
        for line in [format!("MD5 (f) = {MD5}"), format!("{MD5}00  f"), "CRC32 (f) = 01020304".to_string()] {
            assert_eq!(id(&line, false), Err(Bad::Malformed), "{line}");
        }
    }

    #[test]
    fn a_program_takes_its_own_digest_only() {
        let accept = Accept::Only { id: "md5".into(), tag: "MD5".into(), digits: 32 };
        let mut lines = CoreutilsLines::new(accept, false);
        assert!(lines.parse(format!("{MD5}  a").as_bytes()).is_ok());
        assert!(lines.parse(format!("MD5 (a) = {MD5}").as_bytes()).is_ok());
        for line in [format!("md5 (a) = {MD5}"), format!("{MD5}00000000  a"), format!("SHA1 (a) = {MD5}")] {
            assert_eq!(lines.parse(line.as_bytes()), Err(Bad::Malformed));
        }
    }
}
