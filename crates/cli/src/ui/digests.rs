//! Finds a digest by the name that a user typed.

use verisum::digest::{ALGORITHMS, Digest, DigestError, Output, Policy, digest_text, part_count};

use crate::ui::failure::Failure;
use crate::ui::{kernel, verbosity};

/// How many similar names an error lists.
const MOST_SIMILAR: usize = 4;

/// The digest of this name.
pub(crate) fn find(name: &str, policy: &Policy) -> Result<Digest, Failure> {
    let digest = Digest::find_with(name, policy).map_err(|error| match error {
        DigestError::Unknown { name } => Failure::UnknownDigest { similar: similar(&name), name },
        other => Failure::Digest(other),
    })?;
    verbosity::how(|| {
        let stream = digest.stream_level().map_or(digest.stream_provider(), |level| level.name());
        let batch = digest.batch_level();
        let batch = batch.map(|(level, lanes)| format!(", of many blocks by {} × {lanes}", level.name()));
        format!("{} is computed by {stream}{}", digest.name(), batch.unwrap_or_default())
    });
    Ok(digest)
}

/// The digest of this name, to be recorded: the null digest verifies nothing.
pub(crate) fn to_record(option: &'static str, name: &str, policy: &Policy) -> Result<Digest, Failure> {
    let digest = find(name, policy)?;
    match digest.len() == 0 {
        true => Err(Failure::value(option, name, "verifies nothing, so it cannot be recorded")),
        false => Ok(digest),
    }
}

/// The name that a digest has of its own, if one is named.
pub(crate) fn optional_name(name: Option<&str>) -> Result<Option<String>, Failure> {
    name.map(|name| Ok(find(name, &kernel::policy()?)?.name().to_string())).transpose()
}

/// A digest of a file of this length as lists have it.
pub(crate) fn shown(name: &str, digest: &Output, length: Option<u64>) -> String {
    digest_text(name, digest, length.and_then(|length| part_count(name, length)))
}

/// The names of digests that were most likely meant.
fn similar(name: &str) -> Vec<String> {
    let wanted = name.to_lowercase().replace(['_', '/'], "-");
    match of_parts(&wanted) {
        Some(of_parts) => vec![of_parts],
        None => similar_ids(&wanted).into_iter().map(str::to_string).collect(),
    }
}

/// The digest of the parts of an upload that was most likely meant, with a usual length where none was named.
fn of_parts(wanted: &str) -> Option<String> {
    let rest = wanted.strip_prefix("s3")?.trim_start_matches(['-', ':']);
    let names = ALGORITHMS.iter().map(|algorithm| algorithm.id).filter(|id| rest.starts_with(id));
    let inner = if rest.starts_with("etag") { Some("etag") } else { names.max_by_key(|id| id.len()) }?;
    let length = rest[inner.len()..].trim_start_matches(['-', ':']);
    let name = format!("s3-{inner}:{}", if length.is_empty() { "8m" } else { length }.to_uppercase());
    Digest::find(&name).ok().map(|digest| digest.name().to_string())
}

/// The ids of digests that were most likely meant: the shortest first, else in the table's order.
fn similar_ids(wanted: &str) -> Vec<&'static str> {
    let mut best = usize::MAX;
    let mut found = Vec::new();
    for algorithm in ALGORITHMS {
        let names = std::iter::once(&algorithm.id).chain(algorithm.aliases);
        let Some(distance) = names.filter_map(|known| distance(wanted, known)).min() else { continue };
        if distance < best {
            best = distance;
            found.clear();
        }
        if distance == best {
            found.push(algorithm.id);
        }
    }
    found.sort_by_key(|id| id.len());
    found.truncate(MOST_SIMILAR);
    found
}

/// How far a name is from a known one; `None` if too far to be meant. The beginning of a name is near.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    if wanted.len() >= 3 && known.starts_with(wanted) {
        return Some(0);
    }
    // Nobody means a name so long.
    if wanted.len() > 64 {
        return None;
    }
    let edits = strsim::osa_distance(wanted, known);
    (edits <= 1.max(wanted.len().min(known.len()) / 3)).then_some(edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_fingers_are_understood() {
        for (typed, meant) in [
            ("sha265", "sha256"),
            ("sh256", "sha256"),
            ("hsa512", "sha512"),
            ("SHA2556", "sha256"),
            ("sha2", "sha256"),
            ("sha", "sha1"),
            ("sha", "sha256"),
            ("md6", "md5"),
            ("black3", "blake3"),
            ("blake", "blake3"),
            ("crc", "crc32c"),
            ("xxh-64", "xxh64"),
            ("sha3", "sha3-256"),
        ] {
            let names = similar(typed);
            assert!(names.iter().any(|name| name == meant), "{typed}: {names:?}");
            assert!(names.len() <= MOST_SIMILAR);
        }
        for nonsense in ["", "x", "foo", "tiger", &"a".repeat(10_000)] {
            assert!(similar(nonsense).is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn digests_of_parts_are_named_as_they_are_written() {
        for typed in ["s3_etag:8M", "S3-ETAG_8m", "s3etag8M", "s3-etag"] {
            assert_eq!(similar(typed), ["s3-etag:8M"], "{typed}");
        }
        assert_eq!(similar("s3_sha256:16MiB"), ["s3-sha256:16M"]);
        assert!(similar("s3-etag:x").is_empty());
    }

    #[test]
    fn only_the_most_likely_are_named() {
        assert_eq!(similar("sha265"), ["sha256"]);
        assert_eq!(similar("blake"), ["blake3", "blake2b512", "blake2s256"]);
    }
}
