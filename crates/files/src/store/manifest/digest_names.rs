//! The name that each format has for a digest.

use std::borrow::Cow;

use data_encoding::BASE64;
use verisum_digest::{
    ALGORITHMS, Algorithm, Digest, Output, block_digests, cid_from_text, git_digests, part_length,
};

use super::listed::{Bad, BlockHash};

/// Names in tagged lines where they are not the id in capitals. The first of a digest is the one that
/// is written; all are understood, as is every name of the digest table.
static TAGS: &[(&str, &str)] = &[
    ("sha512-224", "SHA512/224"),
    ("sha512-224", "SHA512t224"),
    ("sha512-256", "SHA512/256"),
    ("sha512-256", "SHA512t256"),
    ("blake2b512", "BLAKE2b"),
    ("blake2b512", "BLAKE2b-512"),
    ("blake2s256", "BLAKE2s"),
    ("ripemd160", "RMD160"),
    ("xxh3-128", "XXH128"),
    ("xxh3-64", "XXH3"),
    ("crc32", "CRC32"),
];

/// Names of digests in mtree specifications; the first of a digest is written.
static KEYWORDS: &[(&str, &str)] = &[
    ("md5", "md5digest"),
    ("md5", "md5"),
    ("sha1", "sha1digest"),
    ("sha1", "sha1"),
    ("sha256", "sha256digest"),
    ("sha256", "sha256"),
    ("sha384", "sha384digest"),
    ("sha384", "sha384"),
    ("sha512", "sha512digest"),
    ("sha512", "sha512"),
    ("ripemd160", "rmd160digest"),
    ("ripemd160", "rmd160"),
    ("ripemd160", "ripemd160digest"),
];

/// How the ids of BLAKE2b with digests of other than the usual length begin; their length in bits follows.
const BLAKE2B: &str = "blake2b-";

/// Columns of hashdeep, all that it knows.
static COLUMNS: &[&str] = &["md5", "sha1", "sha256", "whirlpool"];

/// How a digest is called in a tagged line.
pub fn tag(id: &str) -> Cow<'static, str> {
    match TAGS.iter().find(|(known, _)| *known == id) {
        Some((_, tag)) => Cow::Borrowed(tag),
        // `openssl:NAME` is nobody else's name, and is written as verisum takes it.
        None if id.contains(':') => Cow::Owned(id.to_string()),
        None if id.starts_with(BLAKE2B) => Cow::Owned(id.replacen(BLAKE2B, "BLAKE2b-", 1)),
        None => Cow::Owned(id.to_ascii_uppercase()),
    }
}

/// The digest that a tagged line calls so.
pub(super) fn from_tag(tag: &str) -> Option<Cow<'static, str>> {
    if let Some((id, _)) = TAGS.iter().find(|(_, known)| known.eq_ignore_ascii_case(tag)) {
        return Some(Cow::Borrowed(id));
    }
    if tag.starts_with("openssl:") {
        return Some(Cow::Owned(tag.to_string()));
    }
    if part_length(tag).is_some() {
        return Digest::find(tag).ok().map(|digest| Cow::Owned(digest.name().to_string()));
    }
    match Algorithm::find(tag) {
        Some(algorithm) => (algorithm.bits > 0).then_some(Cow::Borrowed(algorithm.id)),
        None => {
            let id = tag.to_ascii_lowercase();
            let is_made =
                id.starts_with(BLAKE2B) || block_digests().chain(git_digests()).any(|name| name == id);
            (is_made && Digest::find(&id).is_ok()).then_some(Cow::Owned(id))
        }
    }
}

/// The digest that stands so behind this name, and the number of parts that one of an object store may have behind it.
pub(super) fn value(id: &str, text: &[u8]) -> Option<(Output, Option<u64>)> {
    let (hex, parts) = match before_count(text) {
        Some((hex, count)) if part_length(id).is_some() => (hex, Some(count)),
        _ => (text, None),
    };
    if id == "ipfs" && text.first() == Some(&b'b') {
        return Some((cid_from_text(text)?, None));
    }
    let digits = super::guess::digits(id)?;
    // Base64 of four bytes is as long as they are in hexadecimal.
    let found = Output::from_hex(hex).filter(|_| hex.len() == digits);
    let found = found.or_else(|| from_base64(hex)).filter(|digest| 2 * digest.as_bytes().len() == digits);
    Some((found?, parts))
}

/// What the digest of a line is whose word has a number of parts behind it, in messages.
pub(super) const OF_PARTS: &str =
    "that of an upload in parts (-a names it with the length of its parts, such as s3-etag:8M)";

/// Whether a word is the digest of an upload in parts, with their number behind it. It does not tell which digest, nor how
/// long the parts are.
pub(super) fn is_of_parts(word: &[u8]) -> bool {
    let digest =
        before_count(word).and_then(|(text, _)| Output::from_hex(text).or_else(|| from_base64(text)));
    digest.is_some_and(|digest| ALGORITHMS.iter().any(|row| row.digest_len() == digest.as_bytes().len()))
}

/// What stands before the number of parts, and the number.
fn before_count(text: &[u8]) -> Option<(&[u8], u64)> {
    let place = text.iter().rposition(|byte| *byte == b'-')?;
    let count = &text[place + 1..];
    if count.is_empty() || !count.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // No file has so many parts that their number is too large.
    Some((&text[..place], std::str::from_utf8(count).ok()?.parse().unwrap_or(u64::MAX)))
}

/// What is wrong where a digest of this id stands and something else does.
pub(super) fn no_value(id: &str) -> Bad {
    Bad::NoValue { name: tag(id), digits: super::guess::digits(id).unwrap_or_default() }
}

/// A digest in Base64, as stores show it and as cksum prints it where it is told to.
fn from_base64(text: &[u8]) -> Option<Output> {
    Output::from_bytes(&BASE64.decode(text).ok()?)
}

/// The digest that this word in front of a name is, where it is not in hexadecimal: a CID, or Base64 with the `=` at its
/// end that tells it from other words. With its number of hexadecimal digits.
pub(super) fn other_word(word: &[u8]) -> Option<(Option<&'static str>, Output)> {
    if let Some(cid) = cid_from_text(word) {
        return Some((Some("ipfs"), cid));
    }
    from_base64(word).filter(|_| word.ends_with(b"=")).map(|digest| (None, digest))
}

/// How the tags of block hashes begin.
const BLOCK_HASH: &str = "BLKHASH-";

/// Units of block sizes in tags, the largest first. There is always one: `BLKHASH-SHA256-512B` is no SHA-512.
const UNITS: [(char, u32); 4] = [('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10), ('B', 1)];

/// How the block hash by a digest is called in a tagged line: `BLKHASH-SHA256-64K`, and after each `/` a word
/// that says which view of the image it is of.
pub fn block_hash_tag(id: &str, block_hash: &BlockHash) -> String {
    let size = block_hash.block_size;
    let (unit, bytes) = UNITS.into_iter().find(|(_, bytes)| size.is_multiple_of(*bytes)).unwrap_or(('B', 1));
    let words = block_hash.view.iter().fold(String::new(), |words, word| words + "/" + word);
    format!("{BLOCK_HASH}{}-{}{unit}{words}", tag(id), size / bytes)
}

/// The digest of the block hash that a tagged line calls so, and how that is made.
pub(super) fn from_block_hash_tag(tag: &str) -> Option<(Cow<'static, str>, BlockHash)> {
    let is_ours = tag.get(..BLOCK_HASH.len())?.eq_ignore_ascii_case(BLOCK_HASH);
    // Names of digests have hyphens and slashes; what comes after the last hyphen is no part of one.
    let (digest, rest) = tag[BLOCK_HASH.len()..].rsplit_once('-').filter(|_| is_ours)?;
    let mut words = rest.split('/');
    let size = words.next()?.to_ascii_uppercase();
    let (number, bytes) = UNITS.iter().find_map(|(unit, bytes)| Some((size.strip_suffix(*unit)?, *bytes)))?;
    let is_number = number.starts_with(|first: char| ('1'..='9').contains(&first));
    let block_size = number.parse::<u32>().ok().filter(|_| is_number)?.checked_mul(bytes)?;
    let view = words.map(str::to_ascii_uppercase).collect();
    Some((from_tag(digest)?, BlockHash { block_size, view }))
}

/// The mtree keyword of a digest, if mtree has one.
pub(super) fn keyword(id: &str) -> Option<&'static str> {
    KEYWORDS.iter().find(|(known, _)| *known == id).map(|(_, keyword)| *keyword)
}

/// The digest that mtree calls so.
pub(super) fn from_keyword(keyword: &[u8]) -> Option<&'static str> {
    KEYWORDS.iter().find(|(_, known)| known.as_bytes() == keyword).map(|(id, _)| *id)
}

/// Whether hashdeep has a column for a digest.
pub(super) fn is_column(id: &str) -> bool {
    COLUMNS.contains(&id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_digest::ALGORITHMS;

    #[test]
    fn every_digest_is_found_by_the_tag_it_is_written_with() {
        for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.bits > 0) {
            assert_eq!(from_tag(&tag(algorithm.id)).unwrap(), algorithm.id);
        }
        assert_eq!(from_tag(&tag("openssl:md5")).unwrap(), "openssl:md5");
    }

    #[test]
    fn tags_are_those_of_other_programs() {
        for (written, id) in [
            ("SHA256", "sha256"),
            ("SHA2-256", "sha256"),
            ("SHA512/256", "sha512-256"),
            ("SHA2-512/256", "sha512-256"),
            ("BLAKE2B-512", "blake2b512"),
            ("RIPEMD-160", "ripemd160"),
            ("RMD160", "ripemd160"),
            ("SHA3-256", "sha3-256"),
            ("XXH3", "xxh3-64"),
            ("XXH128", "xxh3-128"),
            ("BLAKE3", "blake3"),
            ("BLAKE2b-256", "blake2b-256"),
            ("BLAKE2B-8", "blake2b-8"),
        ] {
            assert_eq!(from_tag(written).unwrap(), id, "{written}");
        }
        assert_eq!(tag("blake2b-256"), "BLAKE2b-256");
        assert!(from_tag("BLAKE2b-7").is_none());
        assert!(from_tag("GOST").is_none());
        assert!(from_tag("null").is_none(), "a digest without length verifies nothing");
    }

    #[test]
    fn every_block_hash_is_found_by_the_tag_it_is_written_with() {
        let sizes =
            [(2, "2B"), (100, "100B"), (512, "512B"), (1 << 16, "64K"), (1 << 20, "1M"), (3 << 30, "3G")];
        for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.bits > 0) {
            for (block_size, size) in sizes {
                for view in [vec![], vec!["EXACT".to_string(), "RAW".to_string()]] {
                    let block_hash = BlockHash { block_size, view };
                    let written = block_hash_tag(algorithm.id, &block_hash);
                    assert!(written.contains(&format!("-{size}")), "{written}");
                    let found = from_block_hash_tag(&written).unwrap();
                    assert_eq!(found, (Cow::Borrowed(algorithm.id), block_hash), "{written}");
                }
            }
        }
        let tag = |id, block_size| block_hash_tag(id, &BlockHash { block_size, view: Vec::new() });
        assert_eq!(tag("sha3-256", 1 << 20), "BLKHASH-SHA3-256-1M");
        assert_eq!(tag("sha512-256", 1 << 16), "BLKHASH-SHA512/256-64K");
        assert_eq!(from_block_hash_tag("blkhash-sha256-64k/exact").unwrap().1.view, ["EXACT"]);
        for unknown in [
            "BLKHASH-SHA256",
            "BLKHASH-SHA256-512",
            "BLKHASH-SHA256-K",
            "BLKHASH-SHA256-0K",
            "BLKHASH-SHA256-+1K",
            "BLKHASH-SHA256-4G",
            "BLKHASH-GOST-64K",
            "BLKHASH-NULL-64K",
            "XLKHASH-SHA256-64K",
            "SHA256",
        ] {
            assert_eq!(from_block_hash_tag(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn mtree_and_back() {
        for (id, keyword) in KEYWORDS {
            assert_eq!(from_keyword(keyword.as_bytes()), Some(*id));
        }
        assert_eq!(keyword("sha256"), Some("sha256digest"));
        assert_eq!(keyword("blake3"), None);
    }
}
