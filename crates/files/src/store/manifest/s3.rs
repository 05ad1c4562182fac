//! Rows as object stores show them: key, length, ETag, and checksums in Base64.

use std::borrow::Cow;

use super::digest_names;
use super::listed::{Bad, Claim, Listed};
use crate::percent;

/// How the line above all rows begins. The names of digests follow.
pub(super) const HEADER: &[u8] = b"Key,Size,";

/// The columns of digests.
#[derive(Clone, Debug)]
pub(super) struct S3 {
    /// The digest of each; none of one that nobody here knows.
    columns: Vec<(String, Option<Cow<'static, str>>)>,
}

impl S3 {
    /// From the first line; none if it is not one.
    pub(super) fn from_header(line: &[u8]) -> Option<S3> {
        let names = std::str::from_utf8(line.strip_prefix(HEADER)?).ok()?;
        let column = |name: &str| (name.to_string(), digest_names::from_tag(name));
        Some(S3 { columns: names.split(',').map(column).collect() })
    }

    /// A row.
    pub(super) fn parse(&self, line: &[u8]) -> Result<Listed, Bad> {
        let mut values = line.split(|byte| *byte == b',');
        let name =
            values.next().and_then(percent::decoded).filter(|name| !name.is_empty() && !name.contains(&0));
        let size = values.next().and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
        let (Some(name), Some(size)) = (name, size) else { return Err(Bad::Malformed) };
        let mut claims = Vec::new();
        for (_, id) in &self.columns {
            let value = values.next().ok_or(Bad::Malformed)?;
            // A store has not each digest of each object.
            if let Some(id) = id.as_ref().filter(|_| !value.is_empty()) {
                let (digest, parts) = digest_names::value(id, value).ok_or(Bad::Malformed)?;
                claims.push(Claim { algorithm: id.clone(), digest, assumed: false, parts });
            }
        }
        if values.next().is_some() {
            return Err(Bad::Malformed);
        }
        match self.columns.iter().find(|(_, id)| id.is_none()) {
            Some((unknown, _)) if claims.is_empty() => Err(Bad::UnknownDigest(unknown.clone())),
            _ => Ok(Listed { name, size: Some(size), claims, ..Listed::default() }),
        }
    }
}

/// Whether a digest stands there in hexadecimal: an ETag does.
pub(super) fn is_etag(id: &str) -> bool {
    id == "md5" || id.starts_with("s3-etag:")
}

/// Appends a key: all but letters, digits and `-._~/` as `%XX`.
pub(super) fn encode(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(percent::encoded(key, b"/").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let rows = S3::from_header(b"Key,Size,s3-etag:8M,SHA256,GOST").unwrap();
        let md5 = "900150983cd24fb0d6963f7d28e17f72";
        let listed = rows.parse(format!("a%20b%2C,3,{md5}-2,,x").as_bytes()).unwrap();
        assert_eq!((&listed.name[..], listed.size, listed.claims.len()), (&b"a b,"[..], Some(3), 1));
        for bad in
            ["a", "a,3", "a,x,,,", &format!("a,3,{md5},,,"), "%G0,3,,,", ",3,,,", "%00,3,,,", "a,3,00,,"]
        {
            assert_eq!(rows.parse(bad.as_bytes()), Err(Bad::Malformed), "{bad}");
        }
        assert!(matches!(rows.parse(b"a,3,,,x"), Err(Bad::UnknownDigest(name)) if name == "GOST"));
        assert!(S3::from_header(b"Key,Length,MD5").is_none());
    }
}
