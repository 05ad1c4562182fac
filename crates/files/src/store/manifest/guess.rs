//! Guesses the algorithm of a bare digest.

use std::borrow::Cow;

use verisum_digest::{ALGORITHMS, Algorithm, Digest};

use super::digest_names;
use super::listed::Claim;

/// The digest of bare numbers, by their number of hexadecimal digits: what is most often listed so.
static USUAL: &[(usize, &str)] = &[
    (8, "crc32"),
    (16, "xxh64"),
    (32, "md5"),
    (40, "sha1"),
    (56, "sha224"),
    (64, "sha256"),
    (96, "sha384"),
    (128, "sha512"),
];

/// The usual digest of this many hexadecimal digits.
pub(crate) fn by_length(digits: usize) -> Option<&'static str> {
    USUAL.iter().find(|(length, _)| *length == digits).map(|(_, id)| *id)
}

/// Whether the name of a manifest tells this digest.
pub(crate) fn is_named(name: &[u8], id: &str) -> bool {
    by_name(name).iter().any(|(named, _)| named == id)
}

/// The digests that the name of a manifest tells, and their hexadecimal digits: `SHA256SUMS`, `disk.img.md5`,
/// `manifest-sha512.txt`, `b2sums.txt`. Several if it names digests of several lengths, as `x.sha3` does.
fn by_name(name: &[u8]) -> Vec<(Cow<'static, str>, usize)> {
    let name = std::str::from_utf8(name).unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    // The piece nearest to the end is the surest.
    let pieces = name.rsplit('.').flat_map(|piece| {
        let tail = piece.split_once('-').map(|(_, tail)| tail);
        let last = piece.rsplit(['-', '_']).next();
        [Some(piece), tail, last].into_iter().flatten()
    });
    pieces.map(by_word).find(|named| !named.is_empty()).unwrap_or_default()
}

fn by_word(word: &str) -> Vec<(Cow<'static, str>, usize)> {
    let word = word.strip_suffix('s').filter(|word| word.ends_with("sum")).unwrap_or(word);
    let word = match word.strip_suffix("sum").unwrap_or(word).trim_end_matches(['-', '_']) {
        "b2" => "blake2b",
        "sha" => "sha1",
        "sfv" => "crc32",
        word => word,
    };
    let known = |tag: &str| {
        let id = digest_names::from_tag(tag)?;
        digits(&id).map(|digits| (id, digits))
    };
    let of_each_length = || USUAL.iter().filter_map(|(digits, _)| known(&format!("{word}-{}", 4 * digits)));
    known(word).map_or_else(|| of_each_length().collect(), |one| vec![one])
}

/// How many hexadecimal digits a digest has; none if nobody here knows it.
pub(super) fn digits(id: &str) -> Option<usize> {
    match Algorithm::find(id) {
        Some(algorithm) => Some(algorithm.digest_len() * 2),
        None => Digest::find(id).ok().map(|digest| digest.len() * 2),
    }
}

/// The digest that the name of a bag's manifest tells: `manifest-ALG.txt`, with ALG in small letters and digits. `Err`
/// with ALG if nobody here knows it.
pub(super) fn of_bag(name: &[u8]) -> Result<Cow<'static, str>, String> {
    let name = String::from_utf8_lossy(name);
    let name = name.rsplit('/').next().unwrap_or_default();
    let word = name.split_once("manifest-").map_or(name, |(_, word)| word);
    let word = word.strip_suffix(".txt").unwrap_or(word).to_ascii_lowercase();
    let is = |row: &&Algorithm| row.bits > 0 && row.id.replace('-', "") == word;
    let known = || ALGORITHMS.iter().find(is).map(|row| row.id.into());
    digest_names::from_tag(&word).or_else(known).ok_or(word)
}

/// BLAKE2b with digests of so many digits.
pub(super) fn blake2b(digits: usize) -> Option<Cow<'static, str>> {
    match digits {
        128 => Some("blake2b512".into()),
        2..128 if digits.is_multiple_of(2) => Some(format!("blake2b-{}", digits * 4).into()),
        _ => None,
    }
}

/// Which digest a bare number is, and whether that is assumed. A manifest's name is but a hint: what it says against the
/// number of digits is assumed too.
#[derive(Clone, Debug, Default)]
pub(super) struct DigestGuess {
    /// What the user says.
    pub(super) told: Option<(Cow<'static, str>, usize)>,
    /// What the manifest's name says.
    named: Vec<(Cow<'static, str>, usize)>,
}

impl DigestGuess {
    /// From what a user says and what a manifest is called.
    pub(super) fn new(told: Option<Cow<'static, str>>, name: &[u8]) -> DigestGuess {
        let told = told.and_then(|id| digits(&id).map(|digits| (id, digits)));
        DigestGuess { told, named: by_name(name) }
    }

    /// The digest of a number of so many digits that stands before a name. Whoever says BLAKE2b means it
    /// with digests of any length, as b2sum does.
    pub(super) fn before_name(&self, digits: usize) -> Option<(Cow<'static, str>, bool)> {
        let said = self.told.as_ref().or(self.named.first()).map(|(id, _)| &**id);
        let blake2b = blake2b(digits).filter(|_| said == Some("blake2b512"));
        blake2b.map_or_else(|| self.of(digits), |id| Some(self.with_doubt(id, digits)))
    }

    /// A digest that somebody said, and whether it is assumed nevertheless.
    fn with_doubt(&self, id: Cow<'static, str>, digits: usize) -> (Cow<'static, str>, bool) {
        let is_assumed = self.told.is_none() && by_length(digits).is_some_and(|usual| usual != id);
        (id, is_assumed)
    }

    /// The digest that a word in front of a name is, which is no number in hexadecimal.
    pub(super) fn of_word(&self, word: &[u8]) -> Option<Claim> {
        if let Some((id, _)) = &self.told {
            let (digest, parts) = digest_names::value(id, word)?;
            return Some(Claim { algorithm: id.clone(), digest, assumed: false, parts });
        }
        let (id, digest) = digest_names::other_word(word)?;
        let (algorithm, assumed) = match id {
            Some(id) => (id.into(), false),
            None => self.of(2 * digest.as_bytes().len())?,
        };
        Some(Claim { algorithm, digest, assumed, parts: None })
    }

    /// The digest of a number of so many digits.
    pub(super) fn of(&self, digits: usize) -> Option<(Cow<'static, str>, bool)> {
        if let Some((id, length)) = &self.told {
            return (*length == digits).then(|| (id.clone(), false));
        }
        match self.named.iter().find(|(_, length)| *length == digits) {
            Some((id, _)) => Some(self.with_doubt(id.clone(), digits)),
            None => by_length(digits).map(|id| (id.into(), true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_named_after_their_digest() {
        for (name, id) in [
            ("SHA256SUMS", "sha256"),
            ("dir/sha512sum.txt", "sha512"),
            ("MD5SUM", "md5"),
            ("B2SUMS", "blake2b512"),
            ("b3sums", "blake3"),
            ("disk.img.md5", "md5"),
            ("a.blake3", "blake3"),
            ("manifest-sha512.txt", "sha512"),
            ("tagmanifest-sha256.txt", "sha256"),
            ("manifest-sha3-256.txt", "sha3-256"),
            ("checksums.sha1.txt", "sha1"),
            ("release_sha256.txt", "sha256"),
            ("x.xxh128", "xxh3-128"),
            ("x.sfv", "crc32"),
            ("y.blake2b-256", "blake2b-256"),
            ("x.sha3", "sha3-224"),
            ("sha3sums", "sha3-224"),
            ("x.dropbox", "dropbox"),
            ("x.blake2s", "blake2s256"),
        ] {
            let named = by_name(name.as_bytes());
            assert_eq!(named.first().map(|(id, _)| &**id), Some(id), "{name}");
        }
        for name in ["list.txt", "sums", "", "CHECKSUM", "checksums.txt", "null"] {
            assert_eq!(by_name(name.as_bytes()), [], "{name}");
        }
    }

    #[test]
    fn manifests_of_bags_say_their_digest() {
        for (word, id) in [("md5", "md5"), ("sha3256", "sha3-256"), ("sha512256", "sha512-256")] {
            assert_eq!(of_bag(format!("bag/tagmanifest-{word}.txt").as_bytes()), Ok(id.into()));
        }
        for word in ["foo", "null", ""] {
            assert_eq!(of_bag(format!("manifest-{word}.txt").as_bytes()), Err(word.to_string()));
        }
    }

    #[test]
    fn what_is_told_stands_above_all() {
        let guess = DigestGuess::new(Some("blake3".into()), b"SHA256SUMS");
        assert_eq!(guess.of(64), Some(("blake3".into(), false)));
        assert_eq!(guess.of(32), None);
        let guess = DigestGuess::new(None, b"B3SUMS");
        assert_eq!(guess.of(64), Some(("blake3".into(), true)));
        assert_eq!(guess.of(32), Some(("md5".into(), true)));
        assert_eq!(DigestGuess::new(None, b"SHA256SUMS").of(64), Some(("sha256".into(), false)));
        assert_eq!(DigestGuess::new(None, b"x.sha3").of(64), Some(("sha3-256".into(), true)));
        assert_eq!(DigestGuess::default().of(9), None);
        let told = DigestGuess::new(Some("blake2b512".into()), b"");
        for (guess, is_assumed) in [(told, false), (DigestGuess::new(None, b"B2SUMS"), true)] {
            assert_eq!(guess.before_name(64), Some(("blake2b-256".into(), is_assumed)));
            assert_eq!(guess.before_name(128), Some(("blake2b512".into(), is_assumed)));
            assert_eq!(guess.before_name(2), Some(("blake2b-8".into(), false)));
        }
    }
}
