//! The pages in which a store lists its keys.

use quick_xml::de::from_reader;
use quick_xml::events::Event;
use quick_xml::reader::Reader;
use serde::Deserialize;
use verisum_digest::{Digest, Output};
use verisum_files::percent;
use verisum_files::place::{FileIdentity, FileState, Modified, RecordedMd5};

use crate::error::RequestError;

/// The most keys of a page, as S3 gives them.
pub(crate) const PAGE: usize = 1000;

/// A page of keys.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Listed>,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

/// A key, and what the listing says of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) key: Vec<u8>,
    pub(crate) seen: FileState,
    pub(crate) recorded: Option<RecordedMd5>,
}

/// What else answers may be that are no list: the page of a portal, or of another server.
const NO_LIST: RequestError =
    RequestError::Answer("no list of objects: does a store answer at this endpoint?");

/// What is wrong with an answer that is no page of keys: one that begins as such a page is damaged.
pub(crate) fn no_list(begins_as_one: bool) -> RequestError {
    if begins_as_one { RequestError::Answer("its list of objects is cut or damaged") } else { NO_LIST }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListingAnswer {
    #[serde(default)]
    contents: Vec<Contents>,
    next_continuation_token: Option<String>,
    #[serde(default)]
    is_truncated: bool,
    encoding_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Contents {
    key: String,
    size: u64,
    last_modified: Option<String>,
    #[serde(rename = "ETag")]
    etag: Option<String>,
}

impl Page {
    /// Reads the XML of an answer.
    pub(crate) fn read(xml: &[u8]) -> Result<Page, RequestError> {
        let is_list = is_answer(xml, "ListBucketResult");
        let answer: ListingAnswer =
            from_reader(xml).ok().filter(|_| is_list).ok_or_else(|| no_list(is_list))?;
        let is_encoded = answer.encoding_type.as_deref() == Some("url");
        let mut objects = Vec::with_capacity(answer.contents.len());
        for found in answer.contents {
            let key = match is_encoded {
                true => {
                    decoded(found.key.as_bytes()).ok_or(RequestError::Answer("a key is badly encoded"))?
                }
                false => found.key.into_bytes(),
            };
            let modified = found.last_modified.as_deref().and_then(time_of_listing);
            let recorded = found.etag.as_deref().and_then(recorded);
            let identity = found.etag.as_deref().and_then(|etag| identity(&key, etag));
            objects.push(Listed {
                key,
                seen: FileState { size: Some(found.size), modified, identity },
                recorded,
            });
        }
        let next = match (answer.is_truncated, answer.next_continuation_token) {
            (true, None) => return Err(RequestError::Answer("it is cut and has no next page")),
            (true, Some(_)) if objects.is_empty() => return Err(RequestError::Answer("a page is empty")),
            (true, next) => next,
            (false, _) => None,
        };
        Ok(Page { objects, next })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionsAnswer {
    delete_marker: Option<DeleteMarker>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteMarker {
    key: String,
    is_latest: bool,
}

/// Whether a list of one version, whose keys are encoded, says that the current one of this key is a delete marker.
pub(crate) fn is_deleted(xml: &[u8], key: &[u8]) -> bool {
    let answer = from_reader::<_, VersionsAnswer>(xml).ok();
    let marker = answer.and_then(|answer| answer.delete_marker);
    marker.is_some_and(|marker| marker.is_latest && decoded(marker.key.as_bytes()).as_deref() == Some(key))
}

/// Whether the outermost element of an answer has this name: without it a page of something else looks empty.
pub(crate) fn is_answer(xml: &[u8], name: &str) -> bool {
    let mut reader = Reader::from_reader(xml);
    loop {
        match reader.read_event() {
            Ok(Event::Start(start) | Event::Empty(start)) => {
                return start.local_name().as_ref() == name.as_bytes();
            }
            Ok(Event::Eof) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// A number for a version of an object, from its ETag or its generation.
pub(crate) fn identity(key: &[u8], version: &str) -> Option<FileIdentity> {
    let version = version.strip_prefix("W/").unwrap_or(version).trim_matches('"');
    if version.is_empty() {
        return None;
    }
    let digest =
        Digest::find("sha256").and_then(|digest| digest.hash(&[key, b"\0", version.as_bytes()].concat()));
    let start = digest.ok()?.as_bytes()[..8].try_into().ok()?;
    // Catalogues keep numbers with a sign.
    Some(FileIdentity { number: (u64::from_le_bytes(start) >> 1).max(1), born: None })
}

/// Whether a key can be the name of a file below its bucket.
pub(crate) fn is_name(key: &[u8]) -> bool {
    key.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0))
}

/// Whether a URL leads to a key as it is, be it the name of a file or not.
pub(crate) fn is_in_url(key: &[u8]) -> bool {
    key.split(|byte| *byte == b'/').all(|part| !matches!(part, b"." | b"..") && !part.contains(&0))
}

/// What stands before the name of a version.
pub(crate) const VERSION: &[u8] = b"?versionId=";

/// The key of an object of S3, and which version of it is named: that of `KEY?versionId=VERSION`.
pub(crate) fn version_of(key: &[u8]) -> (&[u8], Option<&str>) {
    let at = key.windows(VERSION.len()).rposition(|part| part == VERSION);
    // The empty key is the whole bucket.
    let Some(at) = at.filter(|at| *at > 0) else { return (key, None) };
    let is_one = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let version = &key[at + VERSION.len()..];
    let version = std::str::from_utf8(version).ok().filter(|version| !version.is_empty());
    match version.filter(|version| version.as_bytes().iter().all(is_one)) {
        Some(version) => (&key[..at], Some(version)),
        None => (key, None),
    }
}

/// What an ETag says of the content. Of an object that the store encrypts by a key of its user it looks like this too, and
/// says nothing: so another one is no proof of another content.
pub(crate) fn recorded(etag: &str) -> Option<RecordedMd5> {
    let text = etag.trim_matches('"');
    let (hex, parts) = match text.split_once('-') {
        Some((hex, parts)) => (hex, Some(parts.parse().ok()?)),
        None => (text, None),
    };
    let md5 = Output::from_hex(hex.as_bytes())?.as_bytes().try_into().ok()?;
    Some(RecordedMd5 { md5, parts })
}

/// A time such as `2026-11-23T02:50:00.000Z`. Stores keep whole seconds.
pub(crate) fn time_of_listing(text: &str) -> Option<Modified> {
    chrono::DateTime::parse_from_rfc3339(text).ok().map(|time| of_seconds(time.timestamp()))
}

/// A time such as `Mon, 23 Nov 2026 02:50:00 GMT`.
pub(crate) fn time_of_header(text: &str) -> Option<Modified> {
    chrono::DateTime::parse_from_rfc2822(text).ok().map(|time| of_seconds(time.timestamp()))
}

fn of_seconds(seconds: i64) -> Modified {
    Modified { time: verisum_files::Timestamp { seconds, nanoseconds: 0 }, is_exact: false }
}

/// What stands for these bytes in a URL.
pub(crate) fn encoded(text: &[u8], keeps_slashes: bool) -> String {
    percent::encoded(text, if keeps_slashes { b"/" } else { b"" })
}

/// The bytes that stand for themselves or as %XX; + is a space.
pub(crate) fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent::decoded(&spaced)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn pages_are_read_with_odd_keys() {
        let xml = b"<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>
            <IsTruncated>true</IsTruncated><NextContinuationToken>x=</NextContinuationToken>
            <Contents><Key>a+b%2Bc%0A</Key><Size>7</Size><LastModified>2026-11-23T02:50:00.000Z</LastModified>
            <ETag>&quot;5&quot;</ETag></Contents><Contents><Key>b</Key><Size>0</Size></Contents></ListBucketResult>";
        let page = Page::read(xml).unwrap();
        assert_eq!(page.next.as_deref(), Some("x="));
        assert_eq!(page.objects[0].key, b"a b+c\n");
        assert_eq!(page.objects[0].seen.modified.unwrap().time.seconds, 1_795_402_200);
        assert_eq!(page.objects[0].seen.modified, time_of_header("Mon, 23 Nov 2026 02:50:00 GMT"));
        assert_eq!((page.objects[1].seen.size, page.objects[1].seen.modified), (Some(0), None));
    }

    #[test]
    fn answers_that_would_never_end_or_are_none_are_refused() {
        let portal = "<?xml version=\"1.0\"?><html><body>Log in here.</body></html>";
        for bad in
            ["", "<html>", portal, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"]
        {
            assert!(Page::read(bad.as_bytes()).is_err(), "{bad}");
        }
        for cut in [
            "<ListBucketResult><Contents><Key>a</Key><Size>1</Si",
            "<?xml version='1.0'?>\n<ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
        ] {
            assert!(Page::read(cut.as_bytes()).unwrap_err().to_string().contains("damaged"), "{cut}");
        }
        assert_eq!(Page::read(portal.as_bytes()).unwrap_err(), NO_LIST);
        let empty = "<ListBucketResult><IsTruncated>true</IsTruncated>
            <NextContinuationToken>x</NextContinuationToken></ListBucketResult>";
        assert_eq!(Page::read(empty.as_bytes()).unwrap_err(), RequestError::Answer("a page is empty"));
    }

    #[test]
    fn etags_say_what_is_recorded() {
        let md5 = "00112233445566778899aabbccddeeff";
        let found =
            |etag: &str| recorded(etag).map(|found| (found.md5, found.parts.map_or(0, NonZeroU32::get)));
        let bytes = std::array::from_fn(|at| 0x11 * at as u8);
        assert_eq!(found(&format!("\"{md5}\"")), Some((bytes, 0)));
        assert_eq!(found(&format!("{md5}-12")), Some((bytes, 12)));
        for nothing in ["", "\"\"", "5", &format!("{md5}-"), &format!("{md5}-0"), &format!("{md5}00")] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_version_is_named_at_the_end_of_a_key() {
        assert_eq!(version_of(b"a/b?versionId=x.Y_-9"), (&b"a/b"[..], Some("x.Y_-9")));
        for key in
            ["a", "a?versionId=", "a?versionId=x/y", "a?versionId=x&y=z", "a?versionid=x", "?versionId=x"]
        {
            assert_eq!(version_of(key.as_bytes()), (key.as_bytes(), None), "{key}");
        }
    }

    #[test]
    fn keys_that_leave_a_tree_are_no_names() {
        for (key, fits, is_asked) in [
            ("a", true, true),
            ("a/b", true, true),
            ("a//b", false, true),
            ("../x", false, false),
            ("a/.", false, false),
            ("a/", false, true),
            ("", false, true),
        ] {
            assert_eq!((is_name(key.as_bytes()), is_in_url(key.as_bytes())), (fits, is_asked), "{key}");
        }
        assert!(is_name(b"line\nbreak") && !is_name(b"a\0b"));
        assert_eq!(encoded("a b/\u{e9}".as_bytes(), true), "a%20b/%C3%A9");
        assert_eq!(encoded(b"a/b", false), "a%2Fb");
    }
}
