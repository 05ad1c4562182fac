//! Google Cloud Storage: pages of keys, and uploads. Objects are read as in S3.

use data_encoding::BASE64;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderName, Method};
use serde::Deserialize;
use tokio::runtime::Runtime;
use verisum_digest::{Digest, Output};
use verisum_files::place::{FileIdentity, FileState, RecordedMd5};

use std::io::Read;

use crate::client::{Client, Request, text};
use crate::error::RequestError;
use crate::listing::{Listed, Page, encoded, identity, no_list, time_of_listing};
use crate::replaced::{Replaced, Upload};
use crate::upload::{PART, UploadError, piece};

/// As Google's own libraries ask for it: what a part of an upload is answered is else a redirection that leads nowhere.
const NO_308: HeaderName = HeaderName::from_static("x-guploader-no-308");
/// What a list of objects says that it is.
const KIND: &str = "storage#objects";
const HASH: HeaderName = HeaderName::from_static("x-goog-hash");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoogleAnswer {
    kind: String,
    #[serde(default)]
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: String,
    size: String,
    updated: Option<String>,
    md5_hash: Option<String>,
    generation: Option<String>,
}

/// An object that was written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenObject {
    md5_hash: Option<String>,
    generation: Option<String>,
}

/// The MD5 of a content that was written in one piece, from its Base64.
pub(crate) fn recorded(md5: &str) -> Option<RecordedMd5> {
    let md5 = BASE64.decode(md5.as_bytes()).ok()?.try_into().ok()?;
    Some(RecordedMd5 { md5, parts: None })
}

/// Reads the JSON of a page.
fn page(json: &[u8]) -> Result<Page, RequestError> {
    let answer: GoogleAnswer = serde_json::from_slice(json)
        .ok()
        .filter(|answer: &GoogleAnswer| answer.kind == KIND)
        .ok_or_else(|| no_list(json.windows(KIND.len()).any(|part| part == KIND.as_bytes())))?;
    let objects = answer.items.into_iter().map(|item| {
        let size = item.size.parse().map_err(|_| RequestError::Answer("an object has no length"))?;
        let modified = item.updated.as_deref().and_then(time_of_listing);
        let recorded = item.md5_hash.as_deref().and_then(recorded);
        let key = item.name.into_bytes();
        let identity = item.generation.as_deref().and_then(|version| identity(&key, version));
        Ok(Listed { key, seen: FileState { size: Some(size), modified, identity }, recorded })
    });
    let objects: Vec<Listed> = objects.collect::<Result<_, _>>()?;
    if objects.is_empty() && answer.next_page_token.is_some() {
        return Err(RequestError::Answer("a page is empty"));
    }
    Ok(Page { objects, next: answer.next_page_token })
}

impl Client {
    pub(crate) async fn google_page(
        &self,
        list: &str,
        prefix: &[u8],
        (next, most): (Option<&str>, usize),
    ) -> Result<Page, RequestError> {
        let prefix = encoded(prefix, false);
        let fields = "kind,items(name,size,updated,md5Hash,generation),nextPageToken";
        let mut query =
            format!("prefix={prefix}&maxResults={most}&fields={}", encoded(fields.as_bytes(), false));
        if let Some(next) = next {
            query.push_str(&format!("&pageToken={}", encoded(next.as_bytes(), false)));
        }
        let request = Request::new(Method::GET, b"", query);
        match self.ask_at(list, &request).await {
            Ok(answer) => page(&answer.body),
            Err(RequestError::Missing) => Err(RequestError::NoBucket),
            Err(error) => Err(error),
        }
    }

    /// Writes an object at once. The store checks its MD5.
    pub(crate) async fn google_put(
        &self,
        url: &str,
        upload: &Upload<'_>,
        body: Vec<u8>,
    ) -> Result<Option<FileIdentity>, RequestError> {
        let md5 = BASE64.encode(md5_of(&body)?.as_bytes());
        let boundary = format!("verisum-{}", encoded(md5.as_bytes(), false).replace('%', ""));
        let about = about(upload, Some(&md5))?;
        let mut whole = format!(
            "--{boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n{about}\r\n--{boundary}\r\n\
             content-type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        whole.extend_from_slice(&body);
        whole.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let request = Request {
            headers: vec![(CONTENT_TYPE, format!("multipart/related; boundary={boundary}"))],
            body: whole.into(),
            ..Request::new(Method::POST, b"", format!("uploadType=multipart{}", condition(upload)))
        };
        let written = self.ask_at(url, &request).await;
        let written = written.and_then(|answer| require_written(upload.key, &answer.body, &md5));
        self.ended(upload, written, &md5).await
    }

    /// Begins an upload in parts, and returns its URL.
    async fn google_begin(&self, url: &str, upload: &Upload<'_>) -> Result<String, RequestError> {
        let name = encoded(upload.key, false);
        let query = format!("uploadType=resumable&name={name}{}", condition(upload));
        let request = Request {
            headers: vec![(CONTENT_TYPE, "application/json; charset=UTF-8".to_string())],
            body: about(upload, None)?.into_bytes().into(),
            ..Request::new(Method::POST, b"", query)
        };
        let answer = self.ask_at(url, &request).await?;
        let session = text(&answer.headers, &LOCATION);
        // Credentials go with each part of it.
        let origin = |url: &str| url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let session = session.filter(|session| origin(session) == origin(url));
        session.map(str::to_string).ok_or(RequestError::Answer("no URL of an upload"))
    }

    async fn google_part(
        &self,
        session: &str,
        headers: Vec<(HeaderName, String)>,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, RequestError> {
        let request = Request { headers, body: body.into(), ..Request::new(Method::PUT, b"", "") };
        self.ask_at(session, &request).await.map(|answer| answer.body)
    }
}

/// Writes a large object in parts, one after the other, as the store wants it. It is there when the last one is.
pub(crate) fn resumable(
    (client, url): (&Client, &str),
    runtime: &Runtime,
    upload: &Upload<'_>,
    first: Vec<u8>,
    content: &mut dyn Read,
) -> Result<Option<FileIdentity>, UploadError> {
    let session = runtime.block_on(client.google_begin(url, upload))?;
    let mut sum = Digest::find("md5").and_then(|digest| digest.stream()).map_err(|_| no_md5())?;
    let (mut start, mut part) = (0, first);
    loop {
        let next = piece(content, PART)?;
        let end = start + part.len() as u64;
        sum.update(&part).map_err(|_| no_md5())?;
        let mut headers = vec![(NO_308, "yes".to_string())];
        if !next.is_empty() {
            headers.push((CONTENT_RANGE, format!("bytes {start}-{}/*", end - 1)));
            runtime.block_on(client.google_part(&session, headers, part))?;
            (start, part) = (end, next);
            continue;
        }
        let mut md5 = Output::zeroed(16);
        sum.finish(md5.as_mut_bytes()).map_err(|_| no_md5())?;
        let md5 = BASE64.encode(md5.as_bytes());
        headers.push((CONTENT_RANGE, format!("bytes {start}-{}/{end}", end - 1)));
        headers.push((HASH, format!("md5={md5}")));
        let written = runtime.block_on(client.google_part(&session, headers, part));
        let written = written.and_then(|answer| require_written(upload.key, &answer, &md5));
        return Ok(runtime.block_on(client.ended(upload, written, &md5))?);
    }
}

/// The version of the object, if the store tells it. Fails if it says that it has different content.
fn require_written(key: &[u8], answer: &[u8], md5: &str) -> Result<Option<FileIdentity>, RequestError> {
    let written: WrittenObject =
        serde_json::from_slice(answer).map_err(|_| RequestError::Answer("it names no object"))?;
    match written.md5_hash {
        Some(found) if found != md5 => Err(RequestError::Answer("it has different content than was sent")),
        _ => Ok(written.generation.and_then(|generation| identity(key, &generation))),
    }
}

/// The parameter by which an upload fails if somebody else wrote the object meanwhile.
fn condition(upload: &Upload) -> String {
    match &upload.replaced {
        Replaced::Nothing => "&ifGenerationMatch=0".to_string(),
        Replaced::Version(generation) => {
            format!("&ifGenerationMatch={}", encoded(generation.as_bytes(), false))
        }
        Replaced::Unknown => String::new(),
    }
}

/// What an object is called, and what else is kept of it.
fn about(upload: &Upload, md5: Option<&str>) -> Result<String, RequestError> {
    let name = std::str::from_utf8(upload.key).map_err(|_| RequestError::Answer("names must be UTF-8"))?;
    let mut about = serde_json::json!({ "name": name });
    if let Some(md5) = md5 {
        about["md5Hash"] = md5.into();
    }
    // `Content-Type` is `contentType` there.
    for (name, value) in &upload.kept.headers {
        let mut words = name.as_str().split('-');
        let first = words.next().unwrap_or_default().to_string();
        let name = words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..]);
        about[name] = value[..].into();
    }
    for (name, value) in &upload.kept.metadata {
        about["metadata"][name] = value[..].into();
    }
    if let Some(original) = upload.original {
        about["metadata"]["mtime"] = original.to_string().into();
    }
    Ok(about.to_string())
}

/// The MD5 of a content.
pub(crate) fn md5_of(content: &[u8]) -> Result<Output, RequestError> {
    Digest::find("md5").and_then(|digest| digest.hash(content)).map_err(|_| no_md5())
}

pub(crate) fn no_md5() -> RequestError {
    RequestError::Answer("MD5 cannot be computed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_with_what_the_store_recorded() {
        let json =
            br#"{"kind": "storage#objects", "nextPageToken": "x=", "items": [{"name": "a b\n", "size": "7",
            "updated": "2026-11-23T02:50:00.123Z", "md5Hash": "ABEiM0RVZneImaq7zN3u/w=="},
            {"name": "composed", "size": "0"}]}"#;
        let found = page(json).unwrap();
        assert_eq!(found.next.as_deref(), Some("x="));
        assert_eq!((&found.objects[0].key[..], found.objects[0].seen.size), (&b"a b\n"[..], Some(7)));
        assert_eq!(found.objects[0].seen.modified.unwrap().time.seconds, 1_795_402_200);
        assert_eq!(found.objects[0].recorded.unwrap().md5, std::array::from_fn(|at| 0x11 * at as u8));
        assert_eq!(found.objects[1].recorded, None);
        let list = r#"{"kind": "storage#objects""#;
        let bad = [
            "".to_string(),
            "[]".to_string(),
            "{}".to_string(),
            r#"{"kind": "login"}"#.to_string(),
            format!(r#"{list}, "nextPageToken": "x"}}"#),
            format!(r#"{list}, "items": [{{"name": "a", "size": "-1"}}]}}"#),
        ];
        for bad in bad {
            assert!(page(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(page(format!("{list}}}").as_bytes()).unwrap().objects.is_empty());
    }
}
