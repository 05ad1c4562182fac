//! Our own format of manifests: lines of JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Deserialize;
use verisum_digest::Output;

use super::listed::{Bad, Claim, Listed};
use super::{digest_names, guess};
use crate::Timestamp;

#[derive(Deserialize)]
struct JsonRecord<'a> {
    /// The machine that the file is on.
    #[serde(borrow)]
    host: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    path_bytes_hex: Option<Cow<'a, str>>,
    size: Option<u64>,
    #[serde(borrow)]
    mtime: Option<Cow<'a, str>>,
    #[serde(borrow)]
    digests: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

/// A line.
pub(super) fn parse(line: &[u8]) -> Result<Listed, Bad> {
    let record: JsonRecord = serde_json::from_slice(line).map_err(|_| Bad::Malformed)?;
    let name = name(&record.path, record.path_bytes_hex.as_deref()).ok_or(Bad::Malformed)?;
    // Never taken for a file of this machine that has the same name.
    let name = match record.host.as_deref() {
        None | Some("local") => name,
        Some(host) => [host.as_bytes(), before_path(host, &name), &name].concat(),
    };
    let mut claims = Vec::with_capacity(record.digests.len());
    for (algorithm, value) in &record.digests {
        let Some(id) = digest_names::from_tag(algorithm) else { continue };
        let (digest, parts) =
            digest_names::value(&id, value.as_bytes()).ok_or_else(|| digest_names::no_value(&id))?;
        claims.push(Claim { algorithm: id, digest, assumed: false, parts });
    }
    if claims.is_empty() {
        let unknown = record.digests.into_keys().next().ok_or(Bad::Malformed)?;
        return Err(Bad::UnknownDigest(unknown.into_owned()));
    }
    let modified = record.mtime.and_then(|text| Timestamp::from_rfc3339(&text));
    Ok(Listed { name, claims, size: record.size, modified, ..Listed::default() })
}

/// The type of the line that says what a run cost, behind those of files.
const COSTS: &str = "costs";

/// Whether a line says what the run cost that wrote the list.
pub(super) fn is_costs(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    serde_json::from_slice::<Typed>(line).is_ok_and(|line| line.kind == COSTS)
}

/// What `verisum image sum` says of an image.
#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    path_bytes_hex: Option<Cow<'a, str>>,
    #[serde(borrow)]
    digest: Cow<'a, str>,
    #[serde(borrow)]
    tag: Cow<'a, str>,
}

/// A line with the block hash of an image.
pub(super) fn image(line: &[u8]) -> Result<Listed, Bad> {
    let image: Image = serde_json::from_slice(line).map_err(|_| Bad::Malformed)?;
    let name = name(&image.path, image.path_bytes_hex.as_deref()).ok_or(Bad::Malformed)?;
    let Some((algorithm, block_hash)) = digest_names::from_block_hash_tag(&image.tag) else {
        return Err(Bad::UnknownDigest(image.tag.into_owned()));
    };
    let digest = Output::from_hex(image.digest.as_bytes()).ok_or(Bad::Malformed)?;
    if guess::digits(&algorithm) != Some(image.digest.len()) {
        return Err(Bad::Malformed);
    }
    let claims = vec![Claim { algorithm, digest, assumed: false, parts: None }];
    Ok(Listed { name, claims, block_hash: Some(block_hash), ..Listed::default() })
}

/// The bytes of a name; none if there cannot be a file of it.
fn name(path: &str, path_bytes_hex: Option<&str>) -> Option<Vec<u8>> {
    let name = match path_bytes_hex {
        Some(hex) => HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?,
        None => path.as_bytes().to_vec(),
    };
    (!name.is_empty() && !name.contains(&0)).then_some(name)
}

/// What stands between a host and a path on it: addresses need a path from the root.
fn before_path(host: &str, path: &[u8]) -> &'static [u8] {
    if host.contains("://") && !host.starts_with("ssh://") {
        return if path.starts_with(b"/") { b"" } else { b"/" };
    }
    match (host.starts_with("ssh://"), path.starts_with(b"/")) {
        (true, true) => b"",
        (true, false) => b"/~/",
        (false, _) => b":",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::manifest::BlockHash;

    #[test]
    fn an_image_says_how_its_block_hash_is_made() {
        let hex = "ab".repeat(32);
        let line = |tag: &str| {
            format!(r#"{{"path":"a","algorithm":"sha256","digest":"{hex}","modified":false,"tag":"{tag}"}}"#)
        };
        let listed = image(line("BLKHASH-SHA256-1M/EXACT").as_bytes()).unwrap();
        assert_eq!((&listed.name[..], &*listed.claims[0].algorithm), (&b"a"[..], "sha256"));
        let made = BlockHash { block_size: 1 << 20, view: vec!["EXACT".to_string()] };
        assert_eq!(listed.block_hash, Some(made));
        assert_eq!(image(line("BLKHASH-SHA512-1M").as_bytes()), Err(Bad::Malformed));
        assert_eq!(image(line("X").as_bytes()), Err(Bad::UnknownDigest("X".into())));
        assert_eq!(parse(line("BLKHASH-SHA256-1M").as_bytes()), Err(Bad::Malformed));
    }

    #[test]
    fn files_of_other_machines_have_the_host_before_their_names() {
        let name = |host: &str, path: &str| {
            let line = format!(r#"{{"host":"{host}","path":"{path}","digests":{{"crc32":"352441c2"}}}}"#);
            String::from_utf8(parse(line.as_bytes()).unwrap().name).unwrap()
        };
        assert_eq!(name("web", "/srv/a"), "web:/srv/a");
        assert_eq!(name("web", "a"), "web:a");
        assert_eq!(name("ssh://web:2222", "/srv/a"), "ssh://web:2222/srv/a");
        assert_eq!(name("ssh://web:2222", "a"), "ssh://web:2222/~/a");
        assert_eq!(name("s3://bucket", "a/b"), "s3://bucket/a/b");
        assert_eq!(name("gs://bucket", "/a/b"), "gs://bucket/a/b");
        assert_eq!(name("local", "a"), "a");
    }

    #[test]
    fn names_that_are_no_text_are_whole() {
        let line = br#"{"path":"a\ufffd","path_bytes_hex":"61ff","size":3,"mtime":"1970-01-01T00:00:05.000000001Z","digests":{"crc32":"352441c2","new":"00"},"more":[1]}"#;
        let listed = parse(line).unwrap();
        assert_eq!((listed.name.as_slice(), listed.size, listed.claims.len()), (&b"a\xff"[..], Some(3), 1));
        assert_eq!(listed.modified, Some(Timestamp { seconds: 5, nanoseconds: 1 }));
        for bad in [
            &br#"{"path":"","digests":{"crc32":"352441c2"}}"#[..],
            br#"{"path":"a","digests":{}}"#,
            br#"{"path":"a\u0000","digests":{"crc32":"352441c2"}}"#,
            br#"{"path":"a","path_bytes_hex":"6","digests":{"crc32":"352441c2"}}"#,
            b"{}",
            b"[",
        ] {
            assert_eq!(parse(bad), Err(Bad::Malformed));
        }
        assert_eq!(parse(br#"{"path":"a","digests":{"new":"35"}}"#), Err(Bad::UnknownDigest("new".into())));
        let no_value = Bad::NoValue { name: "CRC32".into(), digits: 8 };
        assert_eq!(parse(br#"{"path":"a","digests":{"crc32":"35"}}"#), Err(no_value));
    }
}
