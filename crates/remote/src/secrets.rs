//! What may be a secret in a typed address.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::address::{Address, is_url};

/// What stands for what is not shown.
const HIDDEN: &str = "…";

/// What a user typed for a place, as it may be shown: an address that is none keeps to itself what may be a secret, before
/// an `@` and behind `?` and `#`.
pub fn without_secrets(typed: &OsStr) -> Cow<'_, OsStr> {
    let text = typed.as_bytes();
    let Some((user, rest)) = secret_parts(text) else { return Cow::Borrowed(typed) };
    let stands = if user.is_empty() { "" } else { HIDDEN };
    Cow::Owned(OsString::from_vec(
        [&text[..user.start], stands.as_bytes(), &text[user.end..rest.start]].concat(),
    ))
}

/// What of it may be a secret, with the `@`.
pub fn secrets(typed: &OsStr) -> Vec<&[u8]> {
    let text = typed.as_bytes();
    let Some((user, rest)) = secret_parts(text) else { return Vec::new() };
    let is_before_at = !user.is_empty() && text.get(user.end) == Some(&b'@');
    let mut found = vec![&text[user.start..user.end + usize::from(is_before_at)], &text[rest]];
    if !is_before_at {
        // The name that it has for a bucket.
        found.extend(text[user].split(|byte| *byte == b'/').next());
    }
    found.retain(|secret| !secret.is_empty());
    found
}

/// Where a text that is a URL and no address has what may be a secret: before an `@`, and at its end.
fn secret_parts(text: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    // An option with its value in one word.
    let start = match text.starts_with(b"--") {
        true => text.iter().position(|byte| *byte == b'=').map_or(0, |equals| equals + 1),
        false => 0,
    };
    let url = &text[start..];
    if !is_url(url) {
        return None;
    }
    if Address::parse(OsStr::from_bytes(url), false).is_ok() {
        // A key may have a question mark, but a signature behind it comes from an address of the web.
        let query = start + url.iter().position(|byte| *byte == b'?')?;
        return is_signed(&text[query..]).then_some((start..start, query..text.len()));
    }
    let colon = url.iter().position(|byte| *byte == b':').map_or(0, |at| at + 1);
    let scheme = start + colon + url[colon..].iter().take(2).take_while(|byte| **byte == b'/').count();
    let rest = &text[scheme..];
    let authority = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_web = url.starts_with(b"http");
    let user = match rest.iter().rposition(|byte| *byte == b'@') {
        Some(at) => scheme..scheme + at,
        None if authority.contains(&b':') && !(is_web && has_port(authority)) => scheme..text.len(),
        None => scheme..scheme,
    };
    let query = text[user.end..].iter().position(|byte| b"?#".contains(byte));
    let end = query.map_or(text.len(), |at| user.end + at);
    Some((user, end..text.len()))
}

/// Whether the query of an address lets whoever knows it read the object.
fn is_signed(query: &[u8]) -> bool {
    let query = query.to_ascii_lowercase();
    [&b"sig="[..], b"signature=", b"token="]
        .iter()
        .any(|name| query.windows(name.len()).any(|part| part == *name))
}

/// Whether a host ends with a port, or is an address in brackets.
fn has_port(authority: &[u8]) -> bool {
    let host = authority.split(|byte| b"?#".contains(byte)).next().unwrap_or_default();
    let port = host.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    host.ends_with(b"]") || (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_secrets_are_refused_and_shown_without_them() {
        for (typed, shown) in [
            ("s3://AKIA:SECRET@backup/x", "s3://…@backup/x"),
            ("s3://AKIA:SEC/SECRET+@backup/x", "s3://…@backup/x"),
            ("s3://AKIA:SECRET/x", "s3://…"),
            ("s3://SECRET@backup", "s3://…@backup"),
            ("https://user:SECRET@host:443/x", "https://…@host:443/x"),
            ("https://user:SEC/SECRET@host/x", "https://…@host/x"),
            ("https://user:SECRET@host/x?token=SECRET", "https://…@host/x"),
            ("https://host/x?token=SECRET", "https://host/x"),
            ("https://host/x#SECRET", "https://host/x"),
            ("http://127.0.0.1:9000/x?token=SECRET", "http://127.0.0.1:9000/x"),
            ("https://user:SECRET/x?y", "https://…"),
            ("ssh://user:SECRET@host/x", "ssh://…@host/x"),
            ("ssh://user:SECRET@host:22/x", "ssh://…@host:22/x"),
            ("ftp://user:SECRET@host/x", "ftp://…@host/x"),
            ("--endpoint=https://user:SECRET@host", "--endpoint=https://…@host"),
            ("gs://a b/x", "gs://a b/x"),
            ("https:/user:SECRET@host/x", "https:/…@host/x"),
            ("s3:AKIA:SECRET@backup", "s3:…@backup"),
            ("https:///user:SECRET@host/x", "https://…@host/x"),
        ] {
            let text = OsStr::new(typed);
            assert!(typed.starts_with("--") || Address::parse(text, false).is_err(), "{typed}");
            assert_eq!(without_secrets(text), OsStr::new(shown), "{typed}");
        }
        // A store could have such a key, so it is no error.
        let signed = OsStr::new("az://c/x?sv=1&sig=SECRET");
        assert!(Address::parse(signed, false).is_ok());
        assert_eq!(without_secrets(signed), OsStr::new("az://c/x"));
        for plain in [
            "s3://b/x?versionId=7",
            "s3://b/user@host?#",
            "ssh://user@host/x",
            "https://host:8443/a@b",
            "a@b:c",
            "s3:/a@b",
            "x",
            "--a=b@c",
        ] {
            assert_eq!(without_secrets(OsStr::new(plain)), OsStr::new(plain));
        }
    }
}
