//! What may be a secret in an address.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::address::{Address, is_signed, is_url, is_url_of_known_scheme, without_codes};

/// What stands for what is not shown.
const HIDDEN: &str = "…";

/// The length of the longest scheme.
const LONGEST: usize = 8;

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

/// A text as it may be shown: without what may be a secret in the addresses in it, wherever they come from.
pub fn hidden(text: &[u8]) -> Cow<'_, [u8]> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || *byte == b'"';
    let mut shown = Cow::Borrowed(text);
    let mut start = 0;
    for word in text.split(is_end) {
        if let Some(without) = hidden_in_word(word) {
            let left = text.len() - start;
            let done = shown.len() - left;
            drop(shown.to_mut().splice(done..done + word.len(), without));
        }
        start += word.len() + 1;
    }
    shown
}

/// The same of a word; none where it has nothing to hide.
fn hidden_in_word(word: &[u8]) -> Option<Vec<u8>> {
    // What follows it is of the sentence.
    let end = word.iter().rposition(|byte| !b":,.;)'`>\\".contains(byte))? + 1;
    let is_inside =
        |at: usize| at > 0 && (word[at - 1].is_ascii_alphanumeric() || b":/".contains(&word[at - 1]));
    let slashes = (0..end).filter(|at| word[*at..].starts_with(b"//") && !is_inside(*at));
    // A quoted tab may stand before a scheme, as `\t`.
    let colons = (0..end).filter(|at| word[*at] == b':');
    let schemes = colons.flat_map(|colon| colon.saturating_sub(LONGEST)..colon);
    schemes.filter(|at| word[*at].is_ascii_alphabetic()).chain(slashes).find_map(|at| {
        let address = OsStr::from_bytes(&word[at..end]);
        let shown = is_url_of_known_scheme(address.as_bytes()).then(|| without_secrets(address))?;
        (*shown != *address).then(|| [&word[..at], shown.as_bytes(), &word[end..]].concat())
    })
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

/// A text with the characters that divide an address in place of their percent codes. A name may have a code for `?` or `#`
/// in it, unless a signature follows.
fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    without_codes(text, if is_signed(text) { b":@?#" } else { b":@" })
}

/// Where a text that is a URL and no address has what may be a secret: before an `@`, and at its end.
fn secret_parts(text: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let text = &*plain(text);
    // An option with its value in one word.
    let start = match text.starts_with(b"--") {
        true => text.iter().position(|byte| *byte == b'=').map_or(0, |equals| equals + 1),
        false => 0,
    };
    let start = text.len() - text[start..].trim_ascii_start().len();
    let url = &text[start..];
    // An image behind NBD is named so, and its name and user are no secrets. Its error has dots for a password.
    let user = || url.split(|byte| *byte == b'/').nth(2)?.rsplitn(2, |byte| *byte == b'@').nth(1);
    let has_password = || user().is_some_and(|user| user.contains(&b':') && !user.ends_with(b":..."));
    let is_image = url.starts_with(b"nbd") && !has_password();
    if !is_url(url) || is_image || Address::parse(OsStr::from_bytes(url), false).is_ok() {
        return None;
    }
    let scheme = url.iter().position(|byte| *byte == b':').filter(|_| !url.starts_with(b"/"));
    let colon = scheme.map_or(0, |at| at + 1);
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
            ("nbd://user:SECRET@host/x", "nbd://…@host/x"),
            ("s4://user:SECRET@host/x", "s4://…@host/x"),
            ("--endpoint=https://user:SECRET@host", "--endpoint=https://…@host"),
            ("gs://a b/x", "gs://a b/x"),
            ("https:/user:SECRET@host/x", "https:/…@host/x"),
            ("s3:AKIA:SECRET@backup", "s3:…@backup"),
            ("https:///user:SECRET@host/x", "https://…@host/x"),
            (" https://user:SECRET@host/x", " https://…@host/x"),
            ("\thttps://host/x?token=SECRET", "\thttps://host/x"),
            ("//user:SECRET@host/x", "//…@host/x"),
            ("az://c/x?sv=1&sig=SECRET", "az://c/x"),
            ("s3://b/x?X-Amz-Signature=SECRET", "s3://b/x"),
            ("s3://b/x%3FX-Amz-Signature=SECRET", "s3://b/x"),
            ("s3://b/x%253fX-Amz-Signature%3DSECRET", "s3://b/x"),
            ("s3://b/x#X-Amz-Signature=SECRET", "s3://b/x"),
            ("https://h/x%3fsig=SECRET", "https://h/x"),
            ("s3://user%3ASECRET%40b", "s3://…%40b"),
            ("https:/user%3aSECRET%2540b/x", "https:/…%2540b/x"),
            ("//user%3ASECRET@b/x", "//…@b/x"),
        ] {
            let text = OsStr::new(typed);
            assert!(typed.starts_with("--") || Address::parse(text, false).is_err(), "{typed}");
            assert_eq!(without_secrets(text), OsStr::new(shown), "{typed}");
        }
        for plain in [
            "s3://b/x?versionId=7",
            "s3://b/user@host?#",
            "ssh://user@host/x",
            "https://host:8443/a@b",
            "a@b:c",
            "s3:/a@b",
            "s3://b/a%3Ab%40c%3Fd%23e",
            "https://host/a%40b%3Fc%25",
            "ssh://host/a%3Ab%40c%3Fd",
            "nbd://host:10809/x",
            "nbd://alice@host/x",
            "nbd://alice:...@host/x",
            "//host/a@b",
            "x",
            "--a=b@c",
        ] {
            assert_eq!(without_secrets(OsStr::new(plain)), OsStr::new(plain));
            assert!(matches!(hidden(plain.as_bytes()), Cow::Borrowed(_)), "{plain}");
        }
    }

    #[test]
    fn no_text_shows_the_secrets_of_addresses_in_it() {
        for (text, shown) in [
            ("f:1: https://user:SECRET@host: wrong", "f:1: https://…@host: wrong"),
            ("'ssh://user:SEC/SECRET@host/x': no", "'ssh://…@host/x': no"),
            (r"$'\thttps://user:SECRET@host/x'", r"$'\thttps://…@host/x'"),
            (
                r#"{"a":"//user:SECRET@h/x","b":"s3://b/x?Signature=SECRET"}"#,
                r#"{"a":"//…@h/x","b":"s3://b/x"}"#,
            ),
            ("endpoint = https:/user:SECRET@h, s3://A:SECRET/x.", "endpoint = https:/…@h, s3://…."),
            ("ü\nhttps://u:SECRET@h\n https://u:SECRET@h", "ü\nhttps://…@h\n https://…@h"),
        ] {
            assert_eq!(String::from_utf8_lossy(&hidden(text.as_bytes())), shown);
        }
        for plain in [
            "ssh://user@host: refused",
            r#"{"a":"--endpoint \"http://host:9000\" or `http://host:9000`"}"#,
            "https://host:9000 (x)",
            "a//b:c@d",
            "user:hidden@x",
            "s3://b/a:b@c: no",
            "",
        ] {
            assert!(matches!(hidden(plain.as_bytes()), Cow::Borrowed(_)), "{plain}");
        }
    }
}
