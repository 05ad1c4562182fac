//! Hides what may be a secret in addresses from messages and logs. Results are data: JSON hides what is in an address only,
//! and lists nothing.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::sync::Mutex;

use verisum::files::lock;
use verisum::files::text::escaped;
use verisum::remote::{self, is_url, secrets};

use crate::ui::names;

/// The shortest that is looked for: less could be in any word.
const SHORTEST: usize = 3;

/// The secrets, as they were typed and as messages escape them, the longest first.
static KNOWN: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The option whose value is a URL, with a scheme or without.
const ENDPOINT: &str = "--endpoint";

/// Takes note of the secrets in a command line that somebody typed.
pub(crate) fn learn_line(words: impl IntoIterator<Item = OsString>) {
    let words: Vec<OsString> = words.into_iter().collect();
    let after = words.iter().zip(words.iter().skip(1)).filter(|(option, _)| *option == ENDPOINT);
    let of_option =
        |word: &'_ OsString| Some(word.to_str()?.strip_prefix(ENDPOINT)?.strip_prefix('=')?.to_string());
    let endpoints = after.filter_map(|(_, value)| value.to_str().map(str::to_string));
    endpoints.chain(words.iter().filter_map(of_option)).for_each(|endpoint| learn_endpoint(&endpoint));
    learn(words);
}

/// Takes note of the secrets in the URL of a store, which may lack its scheme: then it is refused, but shown first.
pub(crate) fn learn_endpoint(endpoint: &str) {
    match is_url(endpoint.as_bytes()) {
        true => learn([endpoint]),
        false => learn([format!("https://{endpoint}")]),
    }
}

/// Takes note of the secrets in words.
pub(crate) fn learn(words: impl IntoIterator<Item = impl AsRef<OsStr>>) {
    let mut known = lock(&KNOWN);
    for word in words {
        for secret in secrets(word.as_ref()) {
            let forms = [secret.to_vec(), escaped(secret, false).into_bytes(), names::for_terminal(secret)];
            known.extend(forms.into_iter().filter(|form| form.len() >= SHORTEST));
        }
    }
    known.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    known.dedup();
}

/// A text without them, and without those of any address in it.
pub(crate) fn hidden(text: &[u8]) -> Cow<'_, [u8]> {
    let mut shown = remote::hidden(text);
    for secret in &*lock(&KNOWN) {
        if let Some(without) = replaced(&shown, secret) {
            shown = Cow::Owned(without);
        }
    }
    shown
}

/// A text with what stands for a secret in each place of it; none where it is not there.
fn replaced(text: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let stands = if secret.ends_with(b"@") { "…@" } else { "…" };
    let place = |text: &[u8]| text.windows(secret.len()).position(|part| part == secret);
    let (mut left, mut at) = (text, place(text)?);
    let mut shown = Vec::with_capacity(text.len());
    loop {
        shown.extend_from_slice(&left[..at]);
        shown.extend_from_slice(stands.as_bytes());
        left = &left[at + secret.len()..];
        match place(left) {
            Some(next) => at = next,
            None => break,
        }
    }
    shown.extend_from_slice(left);
    Some(shown)
}
